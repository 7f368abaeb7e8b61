/* renyi/pieces_moments.h -- K(s) = log E_P[exp(s L)] of a loss that is data, K' and K'', each with bounds on both
 * sides.
 *
 * With u = 1 + s and h(x) = e^x - 1 - x, E_P[e^(sL)] - 1 is E_Q[g],
 *     g = e^L (h(sL) + s h(-L)) = h(uL) - u h(L),
 * since both masses are 1; a mass of Q where P has none adds s times it.  No term changes its sign, so that small
 * losses lose no digit.  Far from 0 the sum is taken over its largest term, and beyond FA_MOMENTS_FAR K is bounded by
 * its tangent and by its slope's limit.  docs/algorithms/panels.md, "Moments".
 */
#ifndef FA_PIECES_MOMENTS_H
#define FA_PIECES_MOMENTS_H

#include <string.h>

#include "../loss/fill.h"
#include "../loss/share.h"

#define FA_MOMENTS_NEAR  40.0   /* |u| times the largest loss, up to which 1 is taken off ... */
#define FA_MOMENTS_FAR   4096.0 /* ... and up to which panels have nodes, over the range */
#define FA_MOMENTS_NODES 8192   /* of panels, at most */
#ifndef FA_MOMENTS_GOOD         /* tests starve it */
#define FA_MOMENTS_GOOD 1e-17   /* error of the rule aimed at */
#endif
#define FA_MOMENTS_ULPS    32.0   /* rounding of a term, in u */
#define FA_MOMENTS_TINY    2e-323 /* rounding of numbers without all digits */
#define FA_MOMENTS_LEAST   -700.0 /* log of a weight, below which there are no digits ... */
#define FA_MOMENTS_NOTHING 1e-280 /* ... and bound of a term then */

/* one u: the rule's errors of E[exp(z (L - top))] about it and its first two derivatives, and of g (over 1 - u, or u);
 * mass of Q where P has none, by how much that may be off, and by how much masses as they are given miss 1 */
typedef struct {
    double u, v, top, ease, rule[3], of_g, lost[3]; /* v = u - 1 */
} fa_moments_ask;

/* nodes of the last u, which may do for the next one */
typedef struct {
    int n;
    double *room;
    fa_node_rows rows;
    fa_mesh mesh;
} fa_moments_kept;

/* e^x - 1 - x */
FA_INLINE double fa_moments_h(double x)
{
    double sum = 0.0;
    int k;
    if (fabs(x) > 0.5)
        return expm1(x) - x;
    for (k = 17; k >= 2; k--)
        sum = (sum + 1.0) * x / k;
    return sum * x;
}

/* what the kept nodes' rule leaves out of E[exp(z l)], l the loss less `mean`, or of its second order, for all z about
 * [low, high] */
FA_FUNC double fa_moments_error(const fa_pieces *law, const fa_moments_kept *kept, double low, double high, double ease,
                                double mean, int second)
{
    double size = second ? hypot(ease, fa_max(fabs(low - ease), fabs(high + ease))) : 0.0;
    const fa_asked one = {low - ease, ease, mean, size}, two = {high + ease, ease, mean, size};
    return fa_mesh_error(law, &kept->mesh, &one, &two);
}

FA_FUNC void fa_moments_free(fa_moments_kept *kept)
{
    free(kept->room);
    fa_mesh_free(&kept->mesh);
    memset(kept, 0, sizeof(*kept));
}

/* nodes that are fine enough about u.  0: none are, or there is no memory */
FA_FUNC int fa_moments_lay(const fa_pieces *law, const fa_moments_ask *at, double size, double most,
                           fa_moments_kept *kept)
{
    const fa_asked one = {at->u - at->ease, at->ease, at->top, size}, two = {at->u + at->ease, at->ease, at->top, size};
    int n;
    fa_moments_free(kept);
    if (!fa_pieces_mesh(law, &(const fa_demand){&one, &two, most}, 1, FA_MOMENTS_NODES, &kept->mesh))
        return 0;
    n = fa_pieces_count(law, &kept->mesh);
    kept->room = fa_alloc(sizeof(double) * 4 * (size_t)n);
    if (!kept->room)
        return 0;
    kept->rows = (fa_node_rows){kept->room, kept->room + n, kept->room + 2 * n, kept->room + 3 * n};
    kept->n = fa_pieces_fill(law, &kept->mesh, &kept->rows);
    return kept->n > 0;
}

/* nodes, the last ones where they are fine enough, and the rule's errors on them.  0: as above */
FA_FUNC int fa_moments_rule(const fa_pieces *law, fa_moments_ask *at, double big, int is_near, fa_moments_kept *kept)
{
    double anchor = at->u > 0.5 ? 1.0 : 0.0, ease = at->ease, e = INFINITY, most = FA_MOMENTS_GOOD,
           reach = fabs(at->u) + ease;
    if (is_near)
        most *= fa_min(1.0, reach * big * reach * big);
    else
        most *= exp(
            fa_max(-690.0, fa_pieces_size(law, law->is_flipped ? 1.0 - at->u : at->u, FA_NO_EDGES) - at->u * at->top));
    if (kept->n)
        e = fa_moments_error(law, kept, at->u, at->u, ease, at->top, is_near);
    if (!(e <= 2.0 * most)) {
        if (!fa_moments_lay(law, at, is_near ? reach : 0.0, most, kept))
            return 0;
        e = fa_moments_error(law, kept, at->u, at->u, ease, at->top, is_near);
    }
    at->rule[0] = is_near ? fa_moments_error(law, kept, at->u, at->u, ease, at->top, 0) : e;
    at->rule[1] = e / ease;
    at->rule[2] = 2.0 * e / ease / ease;
    at->of_g = 0.0;
    if (is_near) {
        e = fa_moments_error(law, kept, fa_min(at->u, anchor), fa_max(at->u, anchor), ease, 0.0, 1);
        at->of_g = e / ease + fa_moments_error(law, kept, 1.0, 1.0, 0.0, 0.0, 1);
    }
    return e < INFINITY;
}

/* a sum over nodes, and what rounding of losses, of weights and of values of this size may do to it */
typedef struct {
    double sum, off;
} fa_moments_sum;

FA_INLINE void fa_moments_put(fa_moments_sum *to, double weight, double value, double size, double slope, double fine,
                              double slip)
{
    to->sum += weight * value;
    to->off += weight * (fabs(size) * fine + fabs(slope) * slip);
}

/* of node j: how much its loss may be off, and its weight, relative */
FA_INLINE double fa_moments_slip(const fa_node_rows *at, int j)
{
    return 0.5 * FA_EPS * (at->slip[j] + fabs(at->loss[j]));
}

FA_INLINE double fa_moments_fine(const fa_node_rows *at, int j)
{
    return 0.5 * FA_EPS * (at->fine[j] + FA_MOMENTS_ULPS + 2.0 * fabs(at->log_weight[j]));
}

/* E[(L - centre)^k exp(u L)] over e^best, k = 0, 1, 2 */
FA_FUNC void fa_moments_about(const fa_node_rows *at, int n, double u, double best, double centre, fa_moments_sum *out)
{
    int j, k;
    memset(out, 0, 3 * sizeof(*out));
    for (j = 0; j < n; j++) {
        double l = at->loss[j], x = l - centre, w = exp(fa_max(-745.0, at->log_weight[j] + u * l - best)),
               slip = fa_moments_slip(at, j) + FA_EPS * fabs(centre),
               fine = fa_moments_fine(at, j) + 2.0 * FA_EPS * fabs(u * l), power[4] = {0.0, 1.0, x, x * x};
        for (k = 0; k < 3; k++)
            fa_moments_put(out + k, w, power[k + 1], power[k + 1], fabs(u * power[k + 1]) + fabs(k * power[k]), fine,
                           slip);
    }
}

/* E_Q[g], its derivative in s, and the masses of Q and of P */
FA_FUNC void fa_moments_near(const fa_node_rows *at, int n, double u, double v, fa_moments_sum *out)
{
    int j;
    memset(out, 0, 4 * sizeof(*out));
    for (j = 0; j < n; j++) {
        double l = at->loss[j], slip = fa_moments_slip(at, j), one = exp(l),
               fine = fa_moments_fine(at, j) + FA_EPS * (fabs(l) + fabs(u * l)),
               w = exp(fa_max(FA_MOMENTS_LEAST, at->log_weight[j])), rise = expm1(v * l);
        double near = u > 0.5 ? one * fa_moments_h(v * l) : fa_moments_h(u * l),
               far = u > 0.5 ? one * fa_moments_h(-l) : -fa_moments_h(l),
               turn = u > 0.5 ? one * l * rise : l * expm1(u * l), side = u > 0.5 ? v : u;
        fa_moments_put(out, w, near + side * far, near + fabs(side * far), u * one * rise, fine, slip);
        fa_moments_put(out + 1, w, turn + far, fabs(turn) + fabs(far), one * (fabs(rise) + fabs(u * l) * (1.0 + rise)),
                       fine, slip);
        fa_moments_put(out + 2, w, 1.0, 1.0, 0.0, fine, slip);
        fa_moments_put(out + 3, w, one, one, one, fine, slip);
        if (at->log_weight[j] < FA_MOMENTS_LEAST)
            out[0].off += FA_MOMENTS_NOTHING, out[1].off += FA_MOMENTS_NOTHING;
    }
}

/* K and K' where |u L| is not large */
FA_FUNC void fa_moments_low(const fa_moments_ask *at, const fa_node_rows *rows, int n, double *out)
{
    fa_moments_sum s[4];
    double v = at->v, side = fabs(at->u > 0.5 ? v : at->u), miss = at->lost[2], m[2];
    int i, j;
    fa_moments_near(rows, n, at->u, at->v, s);
    for (i = 2; i < 4; i++) /* masses that are not 1, beyond rounding */
        miss += fa_max(0.0, fabs(s[i].sum - 1.0 + (i == 2 ? at->lost[0] : 0.0)) - s[i].off - at->lost[1] - at->of_g);
    s[0].off += side * at->of_g + (1.0 + 2.0 * fabs(at->u)) * miss + fabs(v) * at->lost[1] +
                8.0 * FA_EPS * fabs(s[0].sum) + n * FA_MOMENTS_TINY;
    s[1].off += at->of_g + at->rule[1] + 2.0 * miss + at->lost[1] + 8.0 * FA_EPS * fabs(s[1].sum) + n * FA_MOMENTS_TINY;
    for (i = 0; i < 2; i++) {
        double value = s[0].sum + v * at->lost[0] + (i ? s[0].off : -s[0].off);
        out[i] = log1p(fa_max(-1.0, value));
        out[i] += (i ? 1.0 : -1.0) * (8.0 * FA_EPS * fabs(out[i]) + FA_MOMENTS_TINY);
        m[i] = 1.0 + value;
    }
    for (i = 0; i < 2; i++) {
        double value = s[1].sum + at->lost[0] + (i ? s[1].off : -s[1].off), ends[2];
        for (j = 0; j < 2; j++)
            ends[j] = value / m[j] + (i ? 8.0 : -8.0) * FA_EPS * fabs(value / m[j]);
        out[2 + i] = !(m[0] > 0.0) ? (i ? INFINITY : -INFINITY)
                     : i           ? fa_max(ends[0], ends[1])
                                   : fa_min(ends[0], ends[1]);
    }
}

/* K and K' elsewhere, relative to the largest term e^best */
FA_FUNC void fa_moments_high(const fa_moments_ask *at, const fa_node_rows *rows, int n, double best, double *out)
{
    fa_moments_sum s[3];
    double scale = exp(fa_min(700.0, at->u * at->top - best)), off, mean,
           miss = (1.0 + 2.0 * fabs(at->u)) * at->lost[2];
    fa_moments_about(rows, n, at->u, best, at->top, s);
    off = (s[0].off + scale * at->rule[0]) / s[0].sum;
    out[0] = best + log(s[0].sum) + log1p(-fa_min(off, 1.0)) - miss -
             4.0 * FA_EPS * (fabs(best) + fabs(at->u * at->top));
    out[1] = best + log(s[0].sum) + log1p(off) + miss + 4.0 * FA_EPS * (fabs(best) + fabs(at->u * at->top));
    mean = s[1].sum / s[0].sum;
    off = off < 0.1 ? 1.2 * (fabs(mean) * off + (s[1].off + scale * at->rule[1]) / s[0].sum) +
                          8.0 * FA_EPS * (fabs(mean) + fabs(at->top))
                    : INFINITY;
    off += at->lost[2] * (2.0 + 2.0 * fabs(at->top + mean));
    out[2] = at->top + mean - off;
    out[3] = at->top + mean + off;
}

/* K'' about the middle of K' */
FA_FUNC void fa_moments_bend(const fa_moments_ask *at, const fa_node_rows *rows, int n, double best, double *out)
{
    fa_moments_sum s[3];
    double mean = 0.5 * (out[2] + out[3]), scale = exp(fa_min(700.0, at->u * at->top - best)), m, off, off_m, apart;
    out[4] = 0.0;
    out[5] = INFINITY;
    if (!(out[3] - out[2] < INFINITY))
        return;
    fa_moments_about(rows, n, at->u, best, mean, s);
    apart = fabs(mean - at->top);
    m = s[0].sum;
    off_m = s[0].off + scale * at->rule[0] + 2.0 * at->lost[2] * m;
    off = at->lost[2] * m * (1.0 + 2.0 * mean * mean) + s[2].off +
          scale * (at->rule[2] + apart * (2.0 * at->rule[1] + apart * at->rule[0]));
    out[4] = (s[2].sum - off) / (m + off_m) - (out[3] - mean) * (out[3] - mean);
    out[5] = (s[2].sum + off) / (m - off_m);
    out[4] = fa_max(0.0, out[4] * (1.0 - 8.0 * FA_EPS));
    out[5] = m > 2.0 * off_m ? out[5] * (1.0 + 8.0 * FA_EPS) + n * FA_MOMENTS_TINY : INFINITY;
}

/* bounds of K(s), K'(s) and K''(s), two each, where there are nodes.  0: none are fine enough, or no memory */
FA_FUNC int fa_pieces_moments_at(const fa_pieces *law, double s, const double *lost, fa_moments_kept *kept, double *out)
{
    double low = fa_pieces_end(law, 0), high = fa_pieces_end(law, 1), big = fa_max(fabs(low), fabs(high)), u = 1.0 + s,
           best = 0.0;
    int is_near = (1.0 + fabs(u)) * big <= FA_MOMENTS_NEAR, j;
    fa_moments_ask at = {.u = u, .v = s, .lost = {lost[0], lost[1], lost[2]}};
    at.top = is_near ? 0.0 : u > 0.0 ? high : low;
    at.ease = fa_min(1.0 + fabs(u), 1.0 / (high - low));
    if (!fa_moments_rule(law, &at, big, is_near, kept))
        return 0;
    if (is_near)
        fa_moments_low(&at, &kept->rows, kept->n, out);
    else {
        for (best = -INFINITY, j = 0; j < kept->n; j++)
            best = fa_max(best, kept->rows.log_weight[j] + u * kept->rows.loss[j]);
        fa_moments_high(&at, &kept->rows, kept->n, best, out);
    }
    fa_moments_bend(&at, &kept->rows, kept->n, best, out);
    return 1;
}

/* the same at any s; NaN: not known */
FA_FUNC void fa_pieces_moments(const fa_pieces *law, double s, const double *lost, fa_moments_kept *kept, double *out)
{
    double low = fa_pieces_end(law, 0), high = fa_pieces_end(law, 1), range = high - low,
           far = law->n_panels + law->table.n_panels ? FA_MOMENTS_FAR / range : INFINITY,
           at = fa_max(-far, fa_min(far, s)), slip = 0.5 * FA_EPS * fa_pieces_slip(law), end;
    int i;
    for (i = 0; i < 6; i++)
        out[i] = NAN;
    if (!(range >= 0.0) || !fa_pieces_moments_at(law, at, lost, kept, out) || at == s)
        return;
    if (law->table.n_panels) { /* its largest loss is not known */
        for (i = 0; i < 6; i++)
            out[i] = NAN;
        return;
    }
    end = s > 0.0 ? high + slip : low - slip;
    out[1] += (s - at) * end + 4.0 * FA_EPS * fabs(s * end);
    out[0] += (s - at) * out[s > 0.0 ? 2 : 3] - 4.0 * FA_EPS * fabs(s * end);
    out[s > 0.0 ? 3 : 2] = end;
    out[4] = 0.0;
    out[5] = 0.25 * (range + 2.0 * slip) * (range + 2.0 * slip);
}

#endif
