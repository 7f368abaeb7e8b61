/* line/ray_ends.h -- far from the real axis a bounded loss is its two ends.
 *
 *   M(u) = sum over ends of e^(u l_e) A_e(u) + E,   A_e = atom + sum_(j < m) coef_j/u^(j+1),   |E| <= rest_m e^(c l)
 * |u|^-m
 *
 * by m integrations by parts.  With e^x = (e^l - a)/q, a = 1 - q, the density of L is C e^l (e^l - a)^(s-1), s < 0 the
 * slope of the panel: its derivatives alternate in sign, and each is the density times a polynomial with positive
 * coefficients in z = a/(e^l - a).  docs/algorithms/rays.md.
 */
#ifndef FA_LINE_RAY_ENDS_H
#define FA_LINE_RAY_ENDS_H

#include "../loss/pieces.h"

#define FA_RAY_TERMS 44

/* an end: its loss, its atom, the coefficients */
typedef struct {
    double place, atom, coef[FA_RAY_TERMS];
} fa_end;

/* the ends of one loss, the lower one first; flipped: they are those of E_Q[e^((1-u) L)], of which A_e is in powers of
 * 1/(u - 1).  rest[m - 1]: the integral of the m-th derivative's modulus */
typedef struct {
    fa_end end[2];
    int terms, is_flipped; /* 0 terms: no density */
    double rest[FA_RAY_TERMS];
} fa_ends;

/* (-1)^m times the m-th derivative of the density of L at both ends of a panel, m < FA_RAY_TERMS.  With rho^(m) =
 * (-1)^m rho Q_m(z): Q_(m+1) = (-s + (1-s) z) Q_m + z (z+1) Q_m' */
FA_FUNC void fa_panel_derivatives(const fa_panel *p, double (*out)[FA_RAY_TERMS])
{
    double poly[FA_RAY_TERMS] = {1.0}, z[2], rho[2];
    int e, m, i;
    for (e = 0; e < 2; e++) {
        double x = e ? p->high : p->low, slope;
        (void)fa_panel_loss(p, x, &slope);
        z[e] = p->rate >= 1.0 ? 0.0 : (1.0 - p->rate) / p->rate * exp(-x);
        rho[e] = exp(p->log_density + p->slope * (x - p->low)) / slope;
    }
    for (m = 0; m < FA_RAY_TERMS; m++) {
        for (e = 0; e < 2; e++) {
            double sum = 0.0;
            for (i = m; i >= 0; i--)
                sum = sum * z[e] + poly[i];
            out[e][m] = rho[e] * sum;
        }
        for (i = fa_min(m + 1, FA_RAY_TERMS - 1); i >= 0; i--)
            poly[i] = (i - p->slope) * poly[i] + (i > 0 ? (i - p->slope) * poly[i - 1] : 0.0);
    }
}

/* 0: the loss has other ends than two, or its density is not of that kind */
FA_FUNC int fa_pieces_ends(const fa_pieces *law, fa_ends *out)
{
    double size[2][FA_RAY_TERMS], slope, side = law->is_flipped ? -1.0 : 1.0;
    int i, j, e, n = 0;
    memset(out, 0, sizeof(*out));
    out->is_flipped = law->is_flipped;
    if (law->n_panels > 1 || law->n_atoms > 2 || law->table.n_panels > 0)
        return 0;
    for (i = 0; i < law->n_panels; i++, n = 2) {
        const fa_panel *p = law->panels + i;
        if (!(p->slope < 0.0) || p->curve > 0.0 || p->turned != 0.0)
            return 0;
        out->end[0].place = fa_panel_loss(p, p->low, &slope);
        out->end[1].place = fa_panel_loss(p, p->high, &slope);
        fa_panel_derivatives(p, size);
        out->terms = FA_RAY_TERMS - 1;
        for (j = 0; j < FA_RAY_TERMS; j++) {
            out->end[0].coef[j] = -size[0][j];
            out->end[1].coef[j] = size[1][j];
            out->rest[j] = size[0][j] * (1.0 + 1e-12) - size[1][j]; /* of the next derivative */
        }
    }
    for (i = 0; i < law->n_atoms; i++) {
        const fa_atom *a = law->atoms + i;
        for (e = 0; e < n && fabs(out->end[e].place - a->loss) > 1e-14 * (1.0 + fabs(a->loss)); e++)
            ;
        if (e == 2)
            return 0;
        n = e == n ? n + 1 : n;
        out->end[e].place = a->loss;
        out->end[e].atom += exp(a->log_weight + (law->is_flipped ? a->loss : 0.0));
    }
    if (n < 2 || !(out->end[0].place != out->end[1].place))
        return 0;
    for (e = 0; e < 2 && law->is_flipped; e++)
        for (j = 0; j < FA_RAY_TERMS; j++) /* e^((1-u) l) A(1-u): powers of 1/(1-u) */
            out->end[e].coef[j] *= (j & 1 ? 1.0 : -1.0) * exp(out->end[e].place);
    for (e = 0; e < 2; e++)
        out->end[e].place *= side;
    if (out->end[0].place > out->end[1].place) {
        fa_end kept = out->end[0];
        out->end[0] = out->end[1];
        out->end[1] = kept;
    }
    return 1;
}

/* A_e at u, from w = 1/u or 1/(u - 1) */
FA_INLINE double fa_end_at(const fa_end *end, int terms, double wr, double wi, double *im_out)
{
    double re = 0.0, im = 0.0;
    int j;
    for (j = terms - 1; j >= 0; j--) {
        double a = re + end->coef[j], next = a * wr - im * wi;
        im = a * wi + im * wr;
        re = next;
    }
    *im_out = im;
    return re + end->atom;
}

/* a bound of |A_e| for |w| <= 1/rho */
FA_INLINE double fa_end_most(const fa_end *end, int terms, double rho)
{
    double sum = 0.0;
    int j;
    for (j = terms - 1; j >= 0; j--)
        sum = (sum + fabs(end->coef[j])) / rho;
    return sum + end->atom;
}

#endif
