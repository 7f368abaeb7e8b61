/* lattice.c -- rows of a lattice (line/many_nodes.h, many_line.h) against direct sums in 80 bits: program SEED GROUPS;
 * as line.c.
 */
#include "sums.h"

/* E_Q[exp(u L)] of one step */
static lc moment(double noise, double rate, lc u)
{
    ld s2 = (ld)noise * noise, odds = logl(rate) - log1pl(-(ld)rate), kappa = log1pl(-(ld)rate), x = creall(u),
       low = fminl(x, 0.0L) - 14.0L * noise, high = fmaxl(x, 1.0L) + 15.0L * noise,
       h = fminl(2.0L * PI * s2 * 2.4L / (55.0L + 2.6L * fabsl(cimagl(u)) + 3.4L * s2 + 2.0L * fabsl(x)), noise / 5.0L);
    lc sum = 0.0L;
    long j, n = (long)((high - low) / h) + 2;
    if (n > 60000)
        return NAN;
    for (j = 0; j < n; j++) {
        ld z = low + j * h, e = odds + (z - 0.5L) / s2, l = kappa + (e > 45.0L ? e : log1pl(expl(e)));
        sum += cexpl(u * l - 0.5L * z * z / s2);
    }
    return sum * h / (noise * sqrtl(2.0L * PI));
}

static const char *names[] = {"rows", "errors of phasors", "K at real points", "tail", "lines"};
static long count[5], broken[5];
static double most[5];

static void compare(int i, ld measured, ld bound)
{
    double share = measured <= 0.0L ? 0.0 : bound > 0.0L ? (double)(measured / bound) : INFINITY;
    if (!(measured == measured))
        return;
    count[i]++;
    most[i] = share > most[i] ? share : most[i];
    broken[i] += share > 1.0;
}

/* rows of one group: M at points of the line with its error, which grows by the phasors' from point to point; K at real
 * exponents; and the bound of what follows */
static void check_rows(fa_many_scratch *s, const double *noise, const double *rate, const fa_many_wish *w)
{
    int lane, i, k, points = w->giants * FA_MANY_GIANT, at[4] = {0, 1, points / 2, points - 1};
    static const double further[] = {1.0, 1.1, 1.5, 3.0};
    for (lane = 0; lane < FA_LANE; lane += 3) {
        fa_many_group *g = &s->group;
        double tail = fa_many_tail(g, lane, w->a, w->t_max);
        for (i = 0; i < 4; i++) {
            lc true_m = moment(noise[lane], rate[lane], w->a + (lc)I * (at[i] * (ld)w->h)),
               mine = cexpl((ld)s->zr[at[i]][lane] + (lc)I * (ld)s->zi[at[i]][lane]);
            ld logs = 16.0L * FA_EPS * cabsl(mine) * (1.0L + fabs(s->zr[at[i]][lane]) + fabs(s->zi[at[i]][lane]));
            compare(0, cabsl(mine - true_m), g->error[lane] + 10.0 * FA_EPS * g->at_a[lane] * at[i] + logs);
        }
        for (k = 0; k < FA_MANY_REALS; k++)
            if (w->real[k] != 0.0)
                compare(2, fabsl(logl(creall(moment(noise[lane], rate[lane], w->real[k]))) - g->real[k][lane]),
                        1e-12L * (1.0L + fabs(w->real[k])));
        for (i = 0; i < 4; i++) {
            ld size = cabsl(moment(noise[lane], rate[lane], w->a + (lc)I * (w->t_max * (ld)further[i])));
            if (size < 1e-15L * g->at_a[lane])
                break;
            compare(3, expl(logl(size) - tail) - 1e-12L, 1.0L);
        }
    }
}

/* how far M at point k is from the sum over the very nodes that it is made of */
static ld turned(const fa_many_group *g, const fa_many_scratch *s, const fa_many_wish *w, int lane, int k)
{
    lc sum = 0.0L;
    int j;
    for (j = 0; j < g->n; j++) {
        double loss, log_w, plain, size;
        (void)fa_many_node_of(g, lane, j, &loss, &log_w, &plain);
        size = FA_FMA(w->a, loss, log_w);
        if (size > -690.0)
            sum += fa_exp_plain_v(size) * cexpl((lc)I * (k * (ld)w->h * loss));
    }
    return cabsl(sum - cexpl((ld)s->zr[k][lane] + (lc)I * (ld)s->zi[k][lane]));
}

/* a job of two kinds of steps: log F at points of its line, whose error is that of all rows, and grows with the phasors
 * from point to point */
static void check_line(fa_many_scratch *s)
{
    int way = uniform(0.0, 1.0) < 0.4, i, k, b;
    double noise[2] = {between(0.7, 4.0), between(0.7, 4.0)}, rate[2] = {between(3e-3, 0.2), between(3e-3, 0.2)},
           steps[2] = {floor(between(1.0, 2000.0)), floor(between(1.0, 2000.0))}, size[FA_LANE], chance[FA_LANE];
    fa_many *m = fa_many_new(2, FA_WAYS_BOTH);
    const fa_many_read *run = m->line + way;
    const fa_cap_line *line = &run->line;
    const double *inverse;
    fa_interval out;
    for (b = 0; b < 2; b++)
        fa_many_add(m, noise[b], rate[b], steps[b]);
    if (!fa_many_ready(m, 0.0, -steps[0] * log1p(-rate[0]) - steps[1] * log1p(-rate[1])) ||
        !fa_many_eps_way(m, way, uniform(-25.0, -5.0), &out)) {
        fa_many_free(m);
        return;
    }
    for (b = 0; b < FA_LANE; b++) {
        size[b] = noise[b % 2];
        chance[b] = rate[b % 2];
    }
    fa_many_take(&s->group, size, chance);
    {
        double a = line->plan.tilt, h = line->plan.h, least[2];
        fa_many_wish w = {.a = a, .h = h, .t_max = (line->n - 1) * h, .need = FA_MANY_NEED,
                          .high = fa_max(a, 0.0), .low = fa_min(a, 0.0), .giants = line->n / FA_MANY_GIANT};
        ld first = 0.0L, last = 0.0L, c = line->plan.c;
        inverse = line->scratch[0];
        if (fa_many_sum(s, &w)) {
            for (i = 0; i < 2; i++) {
                lc sum = 0.0L, u = a + (lc)I * ((k = i ? line->n - 1 : 0) * (ld)h);
                ld t = k * (ld)h, real, angle;
                for (b = 0, least[i] = INFINITY; b < 2; b++) {
                    lc value = clogl(moment(noise[b], rate[b], u));
                    value += (lc)I * 2.0L * PI * roundl((s->zi[k][b] - cimagl(value)) / (2.0L * PI));
                    sum += steps[b] * value;
                    least[i] = fa_min(least[i], s->zr[k][b]);
                }
                real = creall(sum) - 0.5L * (logl(c * c + t * t) + logl((c - 1.0L) * (c - 1.0L) + t * t)) -
                       (c - 1.0L) * line->eps - line->ref;
                angle = (way ? -1.0L : 1.0L) * cimagl(sum) - atan2l(t, c) - atan2l(t, c - 1.0L) - t * line->eps;
                compare(4, cabsl(cexpl(line->log_f[k] - real + (lc)I * (line->arg_f[k] - angle)) - 1.0L),
                        run->relative * (ld)inverse[k] + 2.0L * FA_EPS * (8.0L + fabsl(creall(sum)) + fabsl(real) +
                                                                         fabsl(angle) + 2.0L * t * line->eps));
            }
            for (k = 0; k < FA_MANY_GIANT; k++)
                first = fmaxl(first, steps[0] * turned(&s->group, s, &w, 0, k) +
                                         steps[1] * turned(&s->group, s, &w, 1, k));
            for (b = 0; b < 2; b++)
                last += steps[b] * turned(&s->group, s, &w, b, line->n - 1);
            compare(1, last - first,
                    run->relative * (inverse[line->n - 1] * expl(least[1]) - inverse[0] * expl(least[0])));
        }
    }
    fa_many_free(m);
}

int main(int argc, char **argv)
{
    int i, lane, n = argc > 2 ? atoi(argv[2]) : 20, none = 0;
    fa_many_scratch *s = malloc(sizeof(*s));
    state = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    for (i = 0; i < n; i++) {
        int is_add = uniform(0.0, 1.0) < 0.4, giants = 1 + (int)uniform(0.0, 16.0);
        double noise[FA_LANE], rate[FA_LANE], v = 1.0 + exp2(uniform(-4.0, is_add ? 6.0 : 5.0)),
               h = exp2(uniform(-6.0, 2.0)) * v / 4.0, right = 1.0 + 1.7 * (v - 1.0), left = 1.0 + 0.5 * (v - 1.0);
        fa_many_wish w = {.a = is_add ? 1.0 - v : v, .h = fa_from_bits(fa_bits(h) & ~((1ULL << 20) - 1)),
                          .need = FA_MANY_NEED, .giants = giants};
        for (lane = 0; lane < FA_LANE; lane++) {
            noise[lane] = between(0.35, 20.0);
            rate[lane] = between(1e-5, 0.6);
        }
        w.t_max = (giants * FA_MANY_GIANT - 1) * w.h;
        w.real[FA_MANY_RIGHT] = is_add ? 1.0 - right : right;
        w.real[FA_MANY_LEFT] = is_add ? 1.0 - left : left;
        w.real[FA_MANY_OTHER] = is_add ? 0.0 : -exp2(uniform(-3.0, 4.0));
        w.high = is_add ? w.a : w.real[FA_MANY_RIGHT];
        w.low = is_add ? w.real[FA_MANY_RIGHT] : w.real[FA_MANY_OTHER];
        fa_many_take(&s->group, noise, rate);
        if (fa_many_sum(s, &w))
            check_rows(s, noise, rate, &w);
        else
            none++;
        check_line(s);
    }
    for (i = 0; i < 5; i++)
        printf("%s|%ld|%ld|%.3g\n", names[i], count[i], broken[i], most[i]);
    printf("no line|%d|0|0\n", none);
    free(s);
    return 0;
}
