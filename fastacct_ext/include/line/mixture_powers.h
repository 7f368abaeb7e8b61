/* line/mixture_powers.h -- one side of a pair of mixtures at nodes next to each other, off the real line, where its
 * means lie on a lattice: polynomials of y = e^((xi + i theta)/lattice), an exponential a node, not one a component.
 *
 * Groups have such means: as many members as are drawn.  docs/algorithms/line.md, "Mixtures", "Tail".
 */
#ifndef FA_LINE_MIXTURE_POWERS_H
#define FA_LINE_MIXTURE_POWERS_H

#include "mixture_loss.h"

#define FA_MIX_POWERS 192 /* that matter at some nodes, at most; a multiple of FA_MIX_ROW */
#define FA_MIX_ROW    4   /* powers that are added to all nodes at once */

/* Terms w_i of a side, 1 among them where it matters, as coefficients of y^(power - base), over
 * e^(top + base xi/lattice), xi that of a node less that of the middle one; and those of m w, m^2 w and m^3 w */
typedef struct {
    int n, base;
    double top, mid, rate; /* the middle node, and xi's factor in y's exponent, of the sign of the means */
    double unit[FA_MIX_POWERS], once[FA_MIX_POWERS], twice[FA_MIX_POWERS], thrice[FA_MIX_POWERS];
} fa_mix_powers;

/* 0: no lattice, or too many powers */
FA_FUNC int fa_mix_powers_of(const fa_pair *m, int n_comp, const double *mean, const double *log_weight, int n,
                             const double *z, fa_mix_powers *out)
{
    double own[FA_COMPONENTS], term[FA_COMPONENTS], inv_var = m->inv_var, least = 0.0, sign;
    int i, last;
    if (!(m->lattice > 0.0) || n_comp == 0)
        return 0;
    n_comp = fa_mix_matter(n_comp, mean, log_weight, inv_var, z[0], z[n - 1], own, term);
    sign = own[0] < 0.0 ? -1.0 : 1.0;
    out->rate = sign / m->lattice;
    out->mid = z[n / 2];
    out->top = 0.0;
    for (i = 0; i < n_comp; i++) {
        least = fa_max(least, term[i] + own[i] * inv_var * (sign > 0.0 ? z[0] : z[n - 1]));
        term[i] = FA_FMA(own[i] * inv_var, out->mid, term[i]);
        out->top = fa_max(out->top, term[i]);
    }
    out->base = least > FA_MIX_FORGET ? (int)(fabs(own[0]) * m->lattice + 0.5) : 0;
    last = (int)(fa_min(fabs(own[n_comp - 1]) * m->lattice, 1e6) + 0.5);
    if (last - out->base >= FA_MIX_POWERS)
        return 0;
    out->n = (last - out->base) / FA_MIX_ROW * FA_MIX_ROW + FA_MIX_ROW;
    for (i = 0; i < out->n; i++)
        out->unit[i] = out->once[i] = out->twice[i] = out->thrice[i] = 0.0;
    if (out->base == 0)
        out->unit[0] = exp(-out->top);
    for (i = 0; i < n_comp; i++) {
        int at = (int)(fabs(own[i]) * m->lattice + 0.5) - out->base;
        out->unit[at] = fa_exp_plain_v(fa_max(-690.0, term[i] - out->top));
        out->once[at] = fabs(own[i]) * out->unit[at];
        out->twice[at] = fabs(own[i]) * out->once[at];
        out->thrice[at] = fabs(own[i]) * out->twice[at];
    }
    return 1;
}

/* the sums of m w, m^2 w and m^3 w over `level`, at most e^300 of them, at real nodes */
FA_FUNC void fa_mix_powers_rise(const fa_mix_powers *s, double inv_var, double still, double level, int n,
                                const double *z, double *rise, double *slope, double *swing)
{
    double y[FA_MIX_CHUNK], all = s->top - log(level), rate = s->rate * inv_var, mid = s->mid, base = s->base;
    int i, j;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        y[j] = fa_exp_plain_v(rate * (z[j] - mid));
        rise[j] = slope[j] = swing[j] = 0.0;
    }
    for (i = s->n - FA_MIX_ROW; i >= 0; i -= FA_MIX_ROW) {
        const double *a = s->once + i, *b = s->twice + i, *c = s->thrice + i;
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double x = y[j], p = FA_FMA(rise[j], x, a[3]), q = FA_FMA(slope[j], x, b[3]), r = FA_FMA(swing[j], x, c[3]);
            p = FA_FMA(p, x, a[2]), q = FA_FMA(q, x, b[2]), r = FA_FMA(r, x, c[2]);
            p = FA_FMA(p, x, a[1]), q = FA_FMA(q, x, b[1]), r = FA_FMA(r, x, c[1]);
            rise[j] = FA_FMA(p, x, a[0]), slope[j] = FA_FMA(q, x, b[0]), swing[j] = FA_FMA(r, x, c[0]);
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double size = fa_exp_plain_v(fa_min(300.0, all + base * rate * (z[j] - mid)));
        rise[j] = still / level + size * rise[j];
        slope[j] *= size;
        swing[j] *= size;
    }
}

/* log(1 + w) at z + i s^2 theta; phases of all terms lie between 0 and theta < pi */
FA_FUNC void fa_mix_powers_off(const fa_mix_powers *s, double inv_var, int n, const double *z, const double *theta,
                               double *re, double *im)
{
    double yr[FA_MIX_CHUNK], yi[FA_MIX_CHUNK], top = s->top, rate = s->rate * inv_var, turn = s->rate, mid = s->mid,
           base = s->base;
    int i, j;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double size = fa_exp_plain_v(rate * (z[j] - mid)), co, si = fa_sincos_v(turn * theta[j], &co);
        yr[j] = size * co;
        yi[j] = size * si;
        re[j] = im[j] = 0.0;
    }
    for (i = s->n - FA_MIX_ROW; i >= 0; i -= FA_MIX_ROW) {
        const double *a = s->unit + i;
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double x = yr[j], y = yi[j], p = re[j], q = im[j], r;
            r = FA_FMA(p, x, FA_FMA(-q, y, a[3])), q = FA_FMA(p, y, q * x), p = r;
            r = FA_FMA(p, x, FA_FMA(-q, y, a[2])), q = FA_FMA(p, y, q * x), p = r;
            r = FA_FMA(p, x, FA_FMA(-q, y, a[1])), q = FA_FMA(p, y, q * x), p = r;
            re[j] = FA_FMA(p, x, FA_FMA(-q, y, a[0])), im[j] = FA_FMA(p, y, q * x);
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double x = re[j], y = im[j];
        re[j] = top + base * rate * (z[j] - mid) + 0.5 * fa_log_v(fa_max(x * x + y * y, 1e-290));
        im[j] = base * turn * theta[j] + fa_angle_v(y, x);
    }
}

#endif
