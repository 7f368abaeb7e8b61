/* loss/pieces.h -- a privacy loss as data: atoms, and panels on which Q's density is an exponential or a Gaussian.
 *
 *   panel   x in [low, high], density exp(log_density + slope (x - low) - curve (x - centre)^2/2) under Q;
 *           L = log(1 - rate + rate e^x) + shift; turned: that is P's density, and the loss is -L;
 *           replaced: Q is a sample, too, of the ratio e^y, y = -x - replaced: its density has the factor e^B, B =
 *           log(1 - rate + rate e^y), which L is less
 *   atom    L = loss, chance exp(log_weight) under Q
 *   table   values of functions in panels of their own (loss/table.h)
 *   smooth  the atoms are a lattice of a loss with a Gaussian part (loss/smooth.h)
 *   flipped the same of -L under P: E_P[exp(-u L)] = E_Q[exp((1 - u) L)]
 *
 * Together they are one pair of distributions: both masses are 1.  docs/algorithms/panels.md.
 */
#ifndef FA_LOSS_PIECES_H
#define FA_LOSS_PIECES_H

#include <string.h>

#include "smooth.h"

typedef struct {
    double low, high, log_density, slope, rate, shift, slip, fine; /* slip: of x; fine: of the density */
    double curve, centre, turned, replaced;                        /* replaced: 0, or y + x of the other side */
} fa_panel;

typedef struct {
    int n_atoms, n_panels, is_flipped;
    const fa_atom *atoms;
    const fa_panel *panels;
    fa_table table;   /* of a loss that is a function: no panels, or its own */
    fa_smooth smooth; /* whose lattice the atoms are, if any */
} fa_pieces;

/* log of the mean of 1 and e^x */
FA_INLINE double fa_log_mean(double rate, double x)
{
    return rate >= 1.0 ? x : x > 30.0 ? x + log(rate) + log1p((1.0 - rate) / rate * exp(-x)) : log1p(rate * expm1(x));
}

/* and its derivative, the chance that the record took part */
FA_INLINE double fa_log_sample(double rate, double x, double *slope_out)
{
    double value = fa_log_mean(rate, x);
    *slope_out = rate >= 1.0 ? 1.0 : fa_min(1.0, rate * exp(x - value));
    return value;
}

/* log of the mean of 1 and e^x at n points, and its derivative: 5 u more than fa_log_sample */
FA_FUNC void fa_log_samples(double rate, int n, const double *x, double *value, double *slope)
{
    double scale = log(rate), odds = (1.0 - rate) / rate;
    int i;
    if (rate >= 1.0) {
        memcpy(value, x, sizeof(double) * (size_t)n);
        for (i = 0; i < n; i++)
            slope[i] = 1.0;
        return;
    }
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        int is_far = x[i] > 30.0;
        double less, grown = fa_exp_both_v(is_far ? -x[i] : x[i], &less), rest = is_far ? odds * grown : rate * less;
        value[i] = fa_log1p_plain_v(rest) + (is_far ? x[i] + scale : 0.0);
        slope[i] = fa_min(1.0, (is_far ? 1.0 : rate * grown) / (1.0 + rest));
    }
}

/* log of the least of |1 - q + q e^(x + iy)| over its value at y = 0: that is 1 - 4 a (1 - a) sin(y/2)^2, squared, a =
 * A', which is `left` and `right` at the ends */
FA_INLINE double fa_sample_clear(double left, double right, double y)
{
    double unused, side = fa_sincos_v(0.5 * y, &unused),
                   most = (left < 0.5) & (right > 0.5) ? 0.25 : fa_max(left * (1.0 - left), right * (1.0 - right));
    return 0.5 * fa_log1p_plain_v(-4.0 * most * side * side) - 2e-15;
}

/* B, and minus its derivative in x; 0 where Q is no sample */
FA_INLINE double fa_panel_back(const fa_panel *p, double x, double *slope_out)
{
    *slope_out = 0.0;
    return p->replaced > 0.0 ? fa_log_sample(p->rate, -x - p->replaced, slope_out) : 0.0;
}

/* L of a point of a panel, and its derivative in x */
FA_INLINE double fa_panel_loss(const fa_panel *p, double x, double *slope_out)
{
    double back, loss = fa_log_sample(p->rate, x, slope_out) + p->shift - fa_panel_back(p, x, &back);
    *slope_out += back;
    return loss;
}

/* L and B of n points of a panel; room is scratch */
FA_FUNC void fa_panel_losses(const fa_panel *p, int n, const double *x, double *loss, double *back, double *room)
{
    int i;
    memset(back, 0, sizeof(double) * (size_t)n);
    if (p->replaced > 0.0) {
        for (i = 0; i < n; i++)
            loss[i] = -x[i] - p->replaced;
        fa_log_samples(p->rate, n, loss, back, room);
    }
    fa_log_samples(p->rate, n, x, loss, room);
    for (i = 0; i < n; i++)
        loss[i] += p->shift - back[i];
}

/* x of a loss, about */
FA_FUNC double fa_panel_place(const fa_panel *p, double loss)
{
    double low = p->low, high = p->high, slope, l = loss - p->shift,
           y = p->rate < 1.0 ? expm1(fa_min(l, 600.0)) / p->rate : 0.0;
    int k;
    if (!(p->replaced > 0.0))
        return fa_max(low, fa_min(high, p->rate >= 1.0 ? l : l > 600.0 ? l - log(p->rate) : log1p(fa_max(y, -1.0))));
    for (k = 0; k < 40; k++) {
        double x = 0.5 * (low + high);
        *(fa_panel_loss(p, x, &slope) < loss ? &low : &high) = x;
    }
    return low;
}

/* log of the density, but for B */
FA_INLINE double fa_panel_log_peak(const fa_panel *p, double x)
{
    double away = x - p->centre;
    return p->log_density + p->slope * (x - p->low) - 0.5 * p->curve * away * away;
}

FA_INLINE double fa_panel_log_density(const fa_panel *p, double x)
{
    double slope;
    return fa_panel_log_peak(p, x) + fa_panel_back(p, x, &slope);
}

/* Re u as the panel sees it, of a loss that is flipped or not: E[exp(-u L)] under P is that of (1 - u) L under Q */
FA_INLINE double fa_panel_sees(const fa_panel *p, double v, int is_flipped)
{
    return (p->turned != 0.0) != is_flipped ? 1.0 - v : v;
}

/* about how likely it is that a record takes part in a step: of Gaussian panels; 1 of other losses */
FA_FUNC double fa_pieces_taken(const fa_pieces *law)
{
    double sum = law->table.n_panels > 0 || law->smooth.step > 0.0 ? 1.0 : 0.0;
    int i;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double mass = p->log_density + FA_LOG_SQRT_2PI - 0.5 * log(p->curve);
        sum += p->curve > 0.0 ? p->rate * exp(fa_min(0.0, mass)) : 1.0;
    }
    return sum;
}

/* the least and the largest loss */
FA_FUNC double fa_pieces_end(const fa_pieces *law, int largest)
{
    double end = -INFINITY, slope, side = largest == law->is_flipped ? -1.0 : 1.0;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        end = fa_max(end, side * law->atoms[i].loss);
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double way = p->turned != 0.0 ? -side : side;
        end = fa_max(end, way * fa_panel_loss(p, way > 0.0 ? p->high : p->low, &slope));
    }
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++)
        end = i % FA_TABLE_ROW < FA_TABLE_TEN ? fa_max(end, side * law->table.points[i].loss) : end;
    return largest ? end : -end;
}

/* by how many u the place of an end may be off */
FA_FUNC double fa_pieces_slip(const fa_pieces *law)
{
    double worst = 0.0, slope;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        worst = fa_max(worst, law->atoms[i].slip + 4.0 * fabs(law->atoms[i].loss));
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double loss = fa_max(fabs(fa_panel_loss(p, p->low, &slope)), fabs(fa_panel_loss(p, p->high, &slope)));
        worst = fa_max(worst, p->slip + 8.0 * loss);
    }
    return worst;
}

/* a convex function on an interval: at both ends and in the middle, and its derivative there.  Its chord is above it,
 * this tangent below */
typedef struct {
    double low, high, middle, steep;
} fa_bend;

/* an interval of x, and the convex parts of L there: L = of - back */
typedef struct {
    double left, right;
    fa_bend of, back;
} fa_arch;

FA_INLINE fa_arch fa_arch_of(const fa_panel *p, double left, double right)
{
    fa_arch out = {left, right, {0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}};
    double slope;
    out.of.low = fa_log_mean(p->rate, left) + p->shift;
    out.of.high = fa_log_mean(p->rate, right) + p->shift;
    out.of.middle = fa_log_sample(p->rate, 0.5 * (left + right), &out.of.steep) + p->shift;
    if (p->replaced > 0.0) {
        out.back.low = fa_panel_back(p, left, &slope);
        out.back.high = fa_panel_back(p, right, &slope);
        out.back.middle = fa_panel_back(p, 0.5 * (left + right), &slope);
        out.back.steep = -slope;
    }
    return out;
}

/* those of n intervals that follow each other, and A' and -B' at their ends; room[4] is scratch for 2 n + 1 numbers */
FA_FUNC void fa_arches_of(const fa_panel *p, int n, const double *cut, fa_arch *out, double *of, double *back,
                          double *const *room)
{
    double *x = room[0], *value = room[1], *slope = room[2], *turned = room[3];
    int i;
    memcpy(x, cut, sizeof(double) * (size_t)(n + 1));
    for (i = 0; i < n; i++)
        x[n + 1 + i] = 0.5 * (cut[i] + cut[i + 1]);
    fa_log_samples(p->rate, 2 * n + 1, x, value, slope);
    memcpy(of, slope, sizeof(double) * (size_t)(n + 1));
    for (i = 0; i < n; i++) {
        double low = value[i] + p->shift, high = value[i + 1] + p->shift, middle = value[n + 1 + i] + p->shift;
        out[i] = (fa_arch){cut[i], cut[i + 1], {low, high, middle, slope[n + 1 + i]}, {0.0, 0.0, 0.0, 0.0}};
    }
    memset(back, 0, sizeof(double) * (size_t)(n + 1));
    if (!(p->replaced > 0.0))
        return;
    for (i = 0; i <= 2 * n; i++)
        turned[i] = -x[i] - p->replaced;
    fa_log_samples(p->rate, 2 * n + 1, turned, value, slope);
    memcpy(back, slope, sizeof(double) * (size_t)(n + 1));
    for (i = 0; i < n; i++)
        out[i].back = (fa_bend){value[i], value[i + 1], value[n + 1 + i], -slope[n + 1 + i]};
}

/* v times a bend is below a line: its slope, and its value in the middle is added */
FA_INLINE double fa_bend_line(const fa_bend *bend, double v, double wide, double *at)
{
    *at += v * (v < 0.0 ? bend->middle : 0.5 * (bend->low + bend->high));
    return v * (v < 0.0 || !(wide > 0.0) ? bend->steep : (bend->high - bend->low) / wide);
}

/* a line above v A + w B + tilt x on an arch: its value in the middle, and its slope */
typedef struct {
    double at, rise;
} fa_turn;

FA_INLINE fa_turn fa_arch_turn(const fa_panel *p, const fa_arch *arch, double v, double w, double tilt)
{
    double wide = arch->right - arch->left, at = tilt * 0.5 * (arch->left + arch->right),
           rise = fa_bend_line(&arch->of, v, wide, &at) + tilt;
    if (p->replaced > 0.0)
        rise += fa_bend_line(&arch->back, w, wide, &at);
    return (fa_turn){at, rise};
}

/* log of the largest value there of the density without e^B times e to that line */
FA_INLINE double fa_turn_peak(const fa_panel *p, const fa_arch *arch, const fa_turn *turn)
{
    double rise = turn->rise,
           x = p->curve > 0.0 ? fa_max(arch->left, fa_min(arch->right, p->centre + (rise + p->slope) / p->curve))
               : rise + p->slope > 0.0 ? arch->right
                                       : arch->left;
    return fa_panel_log_peak(p, x) + turn->at + rise * (x - 0.5 * (arch->left + arch->right));
}

/* log of a bound on an arch of exp(tilt x) times the density without e^B, times e^(v A + w B), L = A - B.  The density
 * times e^(vL) is that for w = 1 - v */
FA_FUNC double fa_arch_peak(const fa_panel *p, const fa_arch *arch, double v, double w, double tilt)
{
    const fa_turn turn = fa_arch_turn(p, arch, v, w, tilt);
    return fa_turn_peak(p, arch, &turn);
}

/* log of a bound of the windows of a line where x is above an arch: Im L up to `turn`, and Re L less than L by `clear`
 * at most.  Losses that are flipped have none */
FA_FUNC double fa_arch_edges(const fa_panel *p, const fa_arch *arch, double clear, double turn, const fa_edges *edges)
{
    double low = arch->of.low - arch->back.low + clear,
           high = arch->of.high - arch->back.high - (p->replaced > 0.0 ? clear : 0.0);
    return p->turned != 0.0 ? fa_edges_most(edges, -high, -low, turn) : fa_edges_most(edges, low, high, turn);
}

#endif
