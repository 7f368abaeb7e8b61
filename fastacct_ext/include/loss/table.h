/* loss/table.h -- a loss given by values of functions: what two rules say of its log-moment, and how its density
 * varies.
 *
 * A panel has a rule of ten points and one of six.  Nothing is proved of a function that is only called: ten times the
 * difference of the rules counts as the error, and four times the changes of the density's means from slice to slice as
 * its variation.  docs/algorithms/compiled.md says what is assumed.
 */
#ifndef FA_LOSS_TABLE_H
#define FA_LOSS_TABLE_H

#include <stddef.h>

#include "../kernels.h"
#include "../num/vector.h"

#define FA_TABLE_TEN     10
#define FA_TABLE_ROW     16    /* points of a panel: those of the rule of ten first */
#define FA_TABLE_FACTOR  10.0  /* on the difference of the rules */
#define FA_TABLE_LOOKS   4     /* heights up to Im u at which they are compared */
#define FA_TABLE_VARIES  4.0   /* on the changes of the density's means */
#define FA_TABLE_SMOOTH  1.7   /* largest ratio of two of them that no breakpoint separates */
#define FA_TABLE_PEAK    1e-2  /* below this share of the largest one the ratio does not matter */
#define FA_TABLE_FLAT    1e-13 /* change of a loss, relative, that is none */
#define FA_TABLE_NOTHING -50.0 /* log of a share of the mass that does not matter */
#define FA_TABLE_STEEP   40.0  /* log of by how much exp(v l) may change over a panel: its ends are not points */

/* a point: loss, log of its weight under Q, and by how many u they may be off: the loss, and the weight relative */
typedef struct {
    double loss, log_weight, slip, fine;
} fa_atom;

/* log of Q's mass of a slice, its mean loss, by how much the loss changes over it, and whether a breakpoint ends it */
typedef struct {
    double log_mass, loss, gap, cut;
} fa_slice;

typedef struct {
    int n_panels, n_slices;
    const fa_atom *points; /* FA_TABLE_ROW of each panel */
    const fa_slice *slices;
    double missed; /* largest relative difference of a panel's mass from what finer panels see */
} fa_table;

/* FA_TABLE_FACTOR times the sum over panels of |ten - six| of E[exp(u l)], or (size > 0) of exp(u l) - 1 - u l, l = L -
 * mean, u = v + i t.  flipped: -L under P; *sum_out: the sum of the moduli */
FA_FUNC double fa_table_differ(const fa_table *table, double v, double t, double mean, int second, int flipped,
                               double *sum_out)
{
    double side = flipped ? -1.0 : 1.0, more = flipped ? 1.0 : 0.0, total = 0.0, all = 0.0, most = -INFINITY,
           wide = 0.0;
    int p, j;
    fa_count(8.0 * FA_TABLE_ROW * table->n_panels);
    for (p = 0; p < table->n_panels; p++) {
        const fa_atom *at = table->points + (size_t)p * FA_TABLE_ROW;
        double re[FA_TABLE_ROW], im[FA_TABLE_ROW], size[FA_TABLE_ROW], dr = 0.0, di = 0.0;
        FA_PRAGMA(omp simd)
        for (j = 0; j < FA_TABLE_ROW; j++) {
            double l = side * at[j].loss - mean, base = at[j].log_weight + more * at[j].loss, co,
                   si = fa_sincos_v(t * l, &co), e = fa_exp_plain_v(fa_max(-700.0, fa_min(700.0, base + v * l))),
                   one = second ? fa_exp_plain_v(fa_max(-700.0, fa_min(700.0, base))) : 0.0;
            re[j] = e * co - one * (1.0 + v * l);
            im[j] = e * si - one * t * l;
            size[j] = e;
        }
        for (j = 0; j < FA_TABLE_ROW; j++)
            most = fa_max(most, at[j].log_weight + more * at[j].loss +
                                    fa_max(second ? 0.0 : -INFINITY, v * (side * at[j].loss - mean)));
        for (j = 0; j < FA_TABLE_ROW; j++)
            wide = fa_max(wide, fabs(at[j].loss - at[FA_TABLE_TEN / 2].loss));
        for (j = 0; j < FA_TABLE_ROW; j++) {
            double sign = j < FA_TABLE_TEN ? 1.0 : -1.0;
            dr += sign * re[j];
            di += sign * im[j];
            all += j < FA_TABLE_TEN ? size[j] : 0.0;
        }
        total += sqrt(dr * dr + di * di);
    }
    *sum_out = all;
    return most < 690.0 && fabs(v) * wide < 0.5 * FA_TABLE_STEEP ? FA_TABLE_FACTOR * total : INFINITY; /* exp stops */
}

/* the same, at its largest for |Im u| up to t, with what the panels miss */
FA_FUNC double fa_table_error(const fa_table *table, double v, double t, double mean, int second, int flipped)
{
    double worst = 0.0, all = 0.0;
    int i;
    for (i = 0; i < (t > 0.0 ? FA_TABLE_LOOKS : 1) && table->n_panels > 0; i++)
        worst = fa_max(
            worst, fa_table_differ(table, v, t * (FA_TABLE_LOOKS - i) / FA_TABLE_LOOKS, mean, second, flipped, &all));
    return worst + 2.0 * table->missed * all;
}

/* whether the loss is one on it */
FA_INLINE int fa_slice_is_flat(const fa_slice *s) { return fabs(s->gap) <= FA_TABLE_FLAT * (1.0 + fabs(s->loss)); }

/* a bound of the variation of the density of L times e^(cL - over), jumps included; inf where the loss is not monotone
 * or the density not smooth.  *atoms_out: what slices have on which the loss is one */
FA_FUNC double fa_table_variation(const fa_table *table, double c, double over, double *atoms_out)
{
    const fa_slice *s = table->slices;
    double top = -INFINITY, peak = 0.0, last = 0.0, sum = 0.0, way = 0.0, whole = 0.0, flat = 0.0, least;
    int j, n = table->n_slices;
    *atoms_out = 0.0;
    for (j = 0; j < n; j++)
        top = fa_max(top, s[j].log_mass + c * s[j].loss);
    FA_PRAGMA(omp simd reduction(+ : whole))
    for (j = 0; j < n; j++)
        whole += fa_exp_plain_v(fa_max(-690.0, s[j].log_mass + c * s[j].loss - top));
    least = log(whole / fa_max(1.0, n)) + FA_TABLE_NOTHING;
    for (j = 0; j < n; j++) {
        double size = s[j].log_mass + c * s[j].loss - top;
        if (!(size > least))
            continue;
        if (fa_slice_is_flat(s + j)) {
            flat += fa_exp_plain_v(size);
            continue;
        }
        way = way == 0.0 ? s[j].gap : way;
        if (!(s[j].gap * way > 0.0))
            return INFINITY;
        peak = fa_max(peak, fa_exp_plain_v(size) / fabs(s[j].gap));
    }
    for (j = 0; j < n; j++) {
        double size = s[j].log_mass + c * s[j].loss - top,
               here = size > least && !fa_slice_is_flat(s + j) ? fa_exp_plain_v(size) / fabs(s[j].gap) : 0.0;
        if (j > 0 && here > FA_TABLE_PEAK * peak && last > FA_TABLE_PEAK * peak && s[j - 1].cut == 0.0 &&
            (here > FA_TABLE_SMOOTH * last || last > FA_TABLE_SMOOTH * here))
            return INFINITY;
        sum += fabs(here - last);
        last = here;
    }
    *atoms_out = n > 0 ? flat * exp(top - over) : 0.0;
    return n > 0 && peak < INFINITY ? FA_TABLE_VARIES * (sum + last) * exp(top - over) : n > 0 ? INFINITY : 0.0;
}

#endif
