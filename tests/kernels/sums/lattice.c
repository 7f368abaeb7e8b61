/* lattice.c -- rows of a lattice (line/many_rows.h) against direct sums in 80 bits: program SEED GROUPS;
 * as line.c.
 */
#include "sums.h"
#include "tally.h"

/* E_Q[exp(u L)] of one step; NaN where that takes too many terms: not compared then */
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

static const char *names[] = {"rows", "K at real points", "tail", "lines"};

/* the row of a step: M at points of the line with its error; K at real exponents; and the bound of what follows */
static void check_row(fa_many_row *row, double noise, double rate, const fa_many_wish *w)
{
    int i, k, points = w->points, at[4] = {0, 1, points / 2, points - 1};
    double *re = fa_row_points(row), *im = re + points, a = w->plan.tilt, h = w->plan.h;
    static const double further[] = {1.0, 1.1, 1.5, 3.0};
    for (i = 0; i < 4; i++) {
        lc true_m = moment(noise, rate, a + (lc)I * (at[i] * (ld)h)),
           mine = cexpl((ld)re[at[i]] + (lc)I * (ld)im[at[i]]);
        ld logs = 2.0L * FA_EPS * cabsl(mine) * (1.0L + fabs(re[at[i]]) + fabs(im[at[i]]));
        if (!isnan(creall(true_m)))
            compare(0, cabsl(mine - true_m), row->error + logs);
    }
    for (k = 0; k < FA_MANY_REALS; k++)
        if (w->real[k] != 0.0) {
            ld size = logl(creall(moment(noise, rate, w->real[k])));
            if (!isnan(size))
                compare(1, expl(size - row->real[k]), 1.0L);
        }
    for (i = 0; i < 4; i++) {
        ld size = cabsl(moment(noise, rate, a + (lc)I * ((points - 1) * (ld)h * (ld)further[i])));
        if (isnan(size) || size < 1e-15L * expl((ld)re[0]))
            break;
        compare(2, expl(logl(size) - row->tail) - 1e-12L - 4e-18L * expl((ld)re[0]) / size, 1.0L); /* 80 bits */
    }
}

/* a job of two kinds of steps: log F at points of its line, whose error is that of all rows */
static void check_line(void)
{
    int way = uniform(0.0, 1.0) < 0.4, i, b;
    double noise[2] = {between(0.7, 4.0), between(0.7, 4.0)}, rate[2] = {between(3e-3, 0.2), between(3e-3, 0.2)},
           steps[2] = {floor(between(1.0, 2000.0)), floor(between(1.0, 2000.0))};
    fa_many *m = fa_many_new(2, FA_WAYS_BOTH);
    const fa_many_read *run = m->line + way;
    const fa_cap_line *line = &run->line;
    fa_interval out;
    for (b = 0; b < 2; b++)
        fa_many_add(m, noise[b], rate[b], steps[b]);
    if (fa_many_ready(m, 0.0, -steps[0] * log1p(-rate[0]) - steps[1] * log1p(-rate[1])) &&
        fa_many_eps_way(m, way, uniform(-25.0, -5.0), &out)) {
        double *inverse = line->scratch[0];
        ld c = line->plan.c;
        for (i = 0; i < 2; i++) {
            int k = i ? line->n - 1 : 0;
            ld t = k * (ld)line->plan.h, real, angle;
            lc sum = 0.0L, u = line->plan.tilt + (lc)I * t;
            for (b = 0; b < 2; b++)
                sum += steps[b] * clogl(moment(noise[b], rate[b], u));
            if (isnan(creall(sum)))
                continue;
            real = creall(sum) - 0.5L * (logl(c * c + t * t) + logl((c - 1.0L) * (c - 1.0L) + t * t)) -
                   (c - 1.0L) * line->eps - line->ref;
            angle = (way ? -1.0L : 1.0L) * cimagl(sum) - atan2l(t, c) - atan2l(t, c - 1.0L) - t * line->eps;
            compare(3, cabsl(cexpl(line->log_f[k] - real + (lc)I * (line->arg_f[k] - angle)) - 1.0L),
                    run->relative * (ld)inverse[k] +
                        2.0L * FA_EPS * (8.0L + fabsl(creall(sum)) + fabsl(real) + fabsl(angle) +
                                         fabsl((ld)line->arg_f[k]) + 2.0L * t * line->eps));
        }
    }
    fa_many_free(m);
}

int main(int argc, char **argv)
{
    int i, j, n = argc > 2 ? atoi(argv[2]) : 20, none = 0;
    fa_many_alone alone;
    memset(&alone, 0, sizeof(alone));
    state = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    for (i = 0; i < n; i++) {
        int is_add = uniform(0.0, 1.0) < 0.4;
        double v = 1.0 + exp2(uniform(-4.0, is_add ? 6.0 : 5.0)), h = exp2(uniform(-6.0, 2.0)) * v / 4.0,
               right = 1.0 + 1.7 * (v - 1.0), left = 1.0 + 0.5 * (v - 1.0);
        fa_many_wish w = {.points = FA_RUN * (1 + (int)uniform(0.0, 17.0))};
        fa_many_row *row = malloc(sizeof(double) * fa_row_size(w.points / FA_RUN));
        w.plan.c = v;
        w.plan.tilt = is_add ? 1.0 - v : v;
        w.plan.h = fa_from_bits(fa_bits(h) & ~((1ULL << 20) - 1));
        w.real[FA_MANY_RIGHT] = is_add ? 1.0 - right : right;
        w.real[FA_MANY_LEFT] = is_add ? 1.0 - left : left;
        w.real[FA_MANY_OTHER] = is_add ? 0.0 : -exp2(uniform(-3.0, 4.0));
        for (j = 0; j < 3; j++) {
            double noise = between(0.35, 20.0), rate = between(1e-5, 0.6);
            if (fa_many_row_of(&alone, noise, rate, &w, row))
                check_row(row, noise, rate, &w);
            else
                none++;
        }
        free(row);
        check_line();
    }
    report(names, 4);
    printf("no line|%d|0|0\n", none);
    fa_many_alone_free(&alone);
    return 0;
}
