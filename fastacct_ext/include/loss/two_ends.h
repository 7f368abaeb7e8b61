/* loss/two_ends.h -- the moments of a loss with two ends, and between them a density that is an exponential, in closed
 * form: Laplace noise, randomized response.
 *
 *   M(u) = e^(u l_0) A_0 + e^(u l_1) A_1,   A_e = atom_e + rise_e/(u + slope)
 *
 * docs/algorithms/rays.md, "Many kinds".
 */
#ifndef FA_LOSS_TWO_ENDS_H
#define FA_LOSS_TWO_ENDS_H

#include "pieces.h"

/* l_0 and l_1 - l_0; by how many u a loss may be off, and a weight, relative; is_known: whether the loss is of this
 * kind */
typedef struct {
    int is_known;
    double place, gap, slope, atom[2], rise[2], slip, fine;
} fa_two_ends;

/* 0: the loss has other ends than two, or another density */
FA_FUNC int fa_two_ends_of(const fa_pieces *law, fa_two_ends *out)
{
    double place[2] = {0.0, 0.0}, side = law->is_flipped ? -1.0 : 1.0, size;
    int i, e, n = 0;
    memset(out, 0, sizeof(*out));
    if (law->n_panels > 1 || law->n_atoms > 2 || law->table.n_panels > 0 || law->smooth.step > 0.0)
        return 0;
    for (i = 0; i < law->n_panels; i++, n = 2) {
        const fa_panel *p = law->panels + i;
        if (p->rate < 1.0 || !(p->slope < 0.0) || !(p->slope > -1.0) || p->curve > 0.0 || p->turned != 0.0 ||
            p->replaced > 0.0)
            return 0;
        place[0] = p->low + p->shift;
        place[1] = p->high + p->shift;
        out->slope = law->is_flipped ? -1.0 - p->slope : p->slope;
        out->rise[0] = -exp(p->log_density);
        out->rise[1] = exp(p->log_density + p->slope * (p->high - p->low));
        out->slip = p->slip + 2.0 * fabs(p->shift);
        out->fine = p->fine + fabs(p->log_density) + 3.0 * (p->high - p->low) + 8.0;
    }
    for (i = 0; i < law->n_atoms; i++) {
        const fa_atom *a = law->atoms + i;
        for (e = 0; e < n && fabs(place[e] - a->loss) > 1e-14 * (1.0 + fabs(a->loss)); e++)
            ;
        if (e == 2)
            return 0;
        n = e == n ? n + 1 : n;
        place[e] = a->loss;
        out->atom[e] += exp(a->log_weight);
        out->slip = fa_max(out->slip, a->slip + 100.0 * (1.0 + fabs(a->loss))); /* an end is where its atom is */
        out->fine = fa_max(out->fine, a->fine + fabs(a->log_weight) + 8.0);
    }
    for (e = 0; e < 2 && law->is_flipped; e++) {
        size = exp(place[e]);
        out->atom[e] *= size;
        out->rise[e] *= -size;
        out->fine += 8.0 + fabs(place[e]) + out->slip;
    }
    if (law->is_flipped) { /* the ends change places */
        size = out->atom[0], out->atom[0] = out->atom[1], out->atom[1] = size;
        size = out->rise[0], out->rise[0] = out->rise[1], out->rise[1] = size;
    }
    out->place = side * place[law->is_flipped];
    out->gap = fabs(place[1] - place[0]);
    out->slip += 4.0 * (fabs(place[0]) + fabs(place[1]));
    return out->is_known = n == 2 && place[1] > place[0];
}

/* log M(v) at v < 1: the density's part is -rise_0 gap (e^x - 1)/x, x = (v + slope) gap, times e^(v l_0) */
FA_INLINE double fa_two_ends_left(const fa_two_ends *two, double v)
{
    double x = (v + two->slope) * two->gap, part = fabs(x) < 1e-8 ? 1.0 + 0.5 * x : expm1(fa_min(x, 650.0)) / x;
    return v * two->place +
           log(two->atom[0] + two->atom[1] * exp(fa_min(650.0, v * two->gap)) - two->rise[0] * two->gap * part);
}

/* log M(v) at v >= 1, relative to its larger end: nothing cancels; and about its first two derivatives */
FA_INLINE double fa_two_ends_real(const fa_two_ends *two, double v, double *d1, double *d2)
{
    double x = v + two->slope, w = 1.0 / x, g = two->gap, less = fa_exp_plain_v(-v * g), part, f, f1, f2, b0, b1;
    (void)fa_exp_both_v(-x * g, &part);
    b0 = two->rise[0] * w * w;
    b1 = two->rise[1] * w * w;
    f = two->atom[1] + two->atom[0] * less - two->rise[1] * w * part;
    f1 = FA_FMA(-b0, less, g * (two->atom[1] + two->rise[1] * w) - b1) / f;
    f2 = FA_FMA(2.0 * b0 * w, less, 2.0 * b1 * w - 2.0 * g * b1 + g * g * (two->atom[1] + two->rise[1] * w)) / f;
    *d1 = two->place + f1;
    *d2 = f2 - f1 * f1;
    return v * (two->place + g) + fa_log_v(f);
}

#endif
