/* rise.h -- the curve of a tail of mixtures in its strip: its derivatives, against what is said to bound them. */
#include "drawn.h"

/* the moduli of the first three derivatives of one side of the tail's curve, over its height, at a complex xi */
static void rise(int n, const double *mean, const double *log_weight, double still, double level, lc xi, ld *out)
{
    lc e[4] = {still / level, 0.0L, 0.0L, 0.0L}, one;
    int i, k;
    for (i = 0; i < n; i++) {
        ld m = fabs(mean[i]);
        lc term = m / level * cexpl(log_weight[i] + mean[i] * xi);
        for (k = 0; k < 4; k++, term *= m)
            e[k] += term;
    }
    one = 1.0L / (1.0L + e[0]);
    out[0] += cabsl(e[1] * one * one);
    out[1] += cabsl((e[2] - 2.0L * e[1] * e[1] * one) * one * one);
    out[2] += cabsl((e[3] - 6.0L * e[1] * one * (e[2] - e[1] * e[1] * one)) * one * one);
}

/* the curve of mixtures in its strip: what is said to bound its derivatives */
static void check_rise(drawn *d, const fa_mix_curve *curve)
{
    const fa_pair *m = d->b->pair;
    const fa_cap_nodes *s = &d->b->nodes;
    fa_mix_chunk at;
    int i, j, k;
    for (i = 0; i < s->sum.n; i += FA_MIX_CHUNK) {
        int n = s->sum.n - i < FA_MIX_CHUNK ? s->sum.n - i : FA_MIX_CHUNK;
        fa_mix_fill_chunk(d->b, curve, i, n, &at);
        for (j = 0; j < n; j += 11)
            for (k = 0; k < 3; k++) {
                lc xi = s->z[i + j] * (ld)m->inv_var + (lc)I * (k * 0.5L * curve->strip);
                ld found[3] = {0.0L, 0.0L, 0.0L};
                if (fabsl(creall(xi)) > 200.0L)
                    continue;
                rise(m->n_p, m->p_mean, m->p_log, m->p_from, curve->level_p, xi, found);
                rise(m->n_q, m->q_mean, m->q_log, 0.0, curve->level_q, xi, found);
                compare(d, "slope of the rise", curve->top * found[0], at.swing[j], 1e-12L);
                compare(d, "curvature of the rise", curve->top * found[1], at.swing[j], 1e-12L);
                compare(d, "third derivative of the rise", curve->top * found[2] / 3.3L, at.swing[j], 1e-12L);
            }
    }
}
