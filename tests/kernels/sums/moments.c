/* moments.c -- K, K' and K'' of mixtures of Gaussians (renyi/mixture_moments.h) against direct sums in 80 bits: program
 * SEED PAIRS; as line.c.
 */
#include "renyi/mixture_moments.h"
#include "sums.h"
#include "tally.h"

static const char *names[] = {"loss", "log of P", "K", "K'", "K''", "step", "tails", "passed over"};

/* log of one side over the normal density at the origin */
static ld side(const fa_mixture *m, int k, ld z)
{
    ld sum = 0.0L, all = 0.0L, others = 0.0L;
    int i;
    for (i = 0; i < m->n; i++) {
        ld d = ((ld)m->mean[i] - m->mean[m->origin]) / (1.0L / m->inv_sigma), y = d * z - 0.5L * d * d;
        if (i == m->origin)
            continue;
        others += m->weight[k][i];
        sum += m->weight[k][i] * expm1l(y);
        all += m->weight[k][i] * expl(y);
    }
    if (m->weight[k][m->origin] >= 0.5)
        return fabsl(sum) < 0.5L ? log1pl(sum) : logl(all + (1.0L - others));
    return logl(all + m->weight[k][m->origin]);
}

/* e^t - 1 - t */
static ld rest(ld t)
{
    return fabsl(t) < 1e-3L ? t * t * (0.5L + t * (1.0L / 6 + t * (1.0L / 24 + t / 120))) : expm1l(t) - t;
}

/* the loss at z, and the log of P's density there */
static ld loss_at(const fa_mixture *m, ld z, ld *density)
{
    ld p = side(m, 0, z);
    *density = p - 0.5L * z * z - 0.5L * logl(2.0L * PI);
    return p - side(m, 1, z);
}

/* the three, from nodes that reach further; beyond e^LARGE only what is large is summed, by its own scale: 1 and t are
 * nothing beside it
 */
#define LARGE 4000.0L
static void truth(const fa_mixture *m, double u, double step, ld *out)
{
    double far = fabs(u) + 1.0, low = fa_min(m->low[0], m->low[1]), high = fa_max(m->high[0], m->high[1]),
           wide = high - low;
    ld s[4] = {0.0L}, h = step, z, d, first = floorl((low - far * wide - 16.0) / h) * h, last = high + far * wide + 16.0,
       mean, most = -INFINITY;
    for (z = first; z < last; z += h) {
        ld t = u * loss_at(m, z, &d);
        most = fmaxl(most, t + d);
    }
    for (z = first; z < last; z += h) {
        ld l = loss_at(m, z, &d), t = u * l, density = expl(d) * h, large = expl(t + d - (most > LARGE ? most : 0.0L)) * h;
        if (most <= LARGE) {
            s[0] += t < LARGE ? density * (rest(t) + u * rest(-l)) : large + density * (u * rest(-l) - 1.0L - t);
            s[1] += (t < LARGE ? l * density * expm1l(t) : l * (large - density)) + density * rest(-l);
        } else {
            s[0] += large;
            s[1] += l * large;
        }
        s[2] += large * l * l;
    }
    s[3] = most > LARGE ? s[0] : 1.0L + s[0];
    mean = s[1] / s[3];
    out[0] = most > LARGE ? most + logl(s[0]) : log1pl(s[0]);
    out[1] = mean;
    out[2] = s[2] / s[3] - mean * mean;
}

static void check_nodes(const fa_mixture *m, double step)
{
    fa_mixture_at at;
    int j, k;
    for (j = 0; j < FA_MOMENT_NODES; j++)
        at.z[j] = (j - FA_MOMENT_NODES / 2) * step;
    for (k = 0; k < 2; k++)
        fa_mixture_side(m, k, FA_MOMENT_NODES, &at);
    for (j = 0; j < FA_MOMENT_NODES; j += 7) {
        ld p = side(m, 0, at.z[j]), q = side(m, 1, at.z[j]);
        compare(0, fabsl((ld)at.log[0][j] - at.log[1][j] - (p - q)), (ld)at.off[0][j] + at.off[1][j]);
        compare(1, fabsl(at.log[0][j] - p), at.off[0][j]);
    }
}

/* a pair with a common component whose weight is `share`, means a few standard deviations apart */
static void draw(fa_mixture *m, double *mean, double *p, double *q)
{
    double noise = between(0.4, 20.0), share = between(1e-7, 0.6), left[2] = {1.0, 1.0};
    int i, k, twins = uniform(0.0, 1.0) < 0.4;
    m->n = 2 + (int)uniform(0.0, 4.0);
    m->origin = twins ? 1 : 0;
    m->inv_sigma = 1.0 / noise;
    m->mean = mean;
    m->weight[0] = p;
    m->weight[1] = q;
    if (m->n == 2)
        m->origin = 0;
    for (i = 0; i < m->n; i++) {
        mean[i] = i - m->origin;
        p[i] = i > m->origin ? share * pow(0.6, i) : 0.0;
        q[i] = i < m->origin ? 0.4 * share : 0.0;
        left[0] -= p[i];
        left[1] -= q[i];
    }
    p[m->origin] = left[0];
    q[m->origin] = left[1];
    if (uniform(0.0, 1.0) < 0.5) { /* the other direction */
        m->weight[0] = q;
        m->weight[1] = p;
    }
    for (k = 0; k < 2; k++) {
        m->low[k] = INFINITY, m->high[k] = -INFINITY;
        for (i = 0; i < m->n; i++)
            if (m->weight[k][i] > 0.0) {
                m->low[k] = fa_min(m->low[k], fa_mixture_place(m, i));
                m->high[k] = fa_max(m->high[k], fa_mixture_place(m, i));
            }
    }
}

int main(int argc, char **argv)
{
    int i, k, pairs = argc > 2 ? atoi(argv[2]) : 100;
    state = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    for (i = 0; i < pairs; i++) {
        double mean[8], p[8], q[8], step, unused[2],
               u = uniform(0.0, 1.0) < 0.3 ? uniform(-0.5, 1.0) : between(0.1, 30.0);
        fa_mixture m = {.small = 45.0, .reach = 10.0};
        fa_moments found;
        fa_interval *got = &found.k;
        ld want[3];
        int starved;
        draw(&m, mean, p, q);
        step = fa_mixture_step(&m, u, unused, unused + 1);
        check_nodes(&m, 0.3 + 0.01 * fabs(u));
        truth(&m, u, step, want);
        for (starved = 0; starved < 4; starved++) {
            fa_moment_sums sums = {.u = u};
            m.small = starved == 1 ? uniform(2.0, 12.0) : FA_MIXTURE_SMALL;
            m.reach = starved == 2 ? uniform(2.0, 4.0) : FA_MIXTURE_REACH;
            m.spare = starved == 3 ? uniform(2.0, 12.0) : FA_MIXTURE_SMALL;
            if (!fa_mixture_sum(&m, u, &sums))
                continue;
            fa_moments_of(&sums, 0, &found);
            for (k = 0; k < 3; k++) {
                ld middle = 0.5L * ((ld)got[k].lower + got[k].upper), half = 0.5L * ((ld)got[k].upper - got[k].lower);
                ld whole = expl(want[0]), away = want[1] - sums.about,
                   own[3] = {sums.e2 + (ld)u * sums.back, (ld)sums.first + sums.back, sums.second},
                   off[3] = {sums.e2_off + fabs(u) * sums.back_off, sums.first_off + sums.back_off, sums.second_off},
                   right[3] = {expm1l(want[0]), whole * want[1], whole * (want[2] + away * away)};
                if (!starved)
                    compare(2 + k, fabsl(want[k] - middle), half);
                else if (sums.reference == 0.0)
                    compare(4 + starved, fabsl(own[k] - right[k]) - off[k] - 1e-13L * fabsl(right[k]), sums.slack);
            }
        }
    }
    report(names, 8);
    return 0;
}
