/* line/add_ledger.h -- direction add: bounds of everything that the sum over the hyperbola leaves out, but for its
 * rounding.
 *
 *   p(v + i y) = c (1 + k - A cosh v + i D sinh v),   k = tan(bend)
 *   A = sin(bend + y)/cos(bend),  D = cos(bend + y)/cos(bend)
 *
 *   gap       the sum over nodes against G itself, by the trapezoid theorem on two parallel lines
 *   seam      the contour's halves v > 0 and v < 0 use conjugate nodes: their sums differ at c, by twice a gap
 *   aliases   the trapezoid rule in v, by the moduli on the two contours v +- i a
 * Entries are relative to exp(log_size) and hold for every eta' with |eta' - eta| <= reach.  Theorems:
 * docs/algorithms/add_line.md.
 */
#ifndef FA_ADD_LEDGER_H
#define FA_ADD_LEDGER_H

#include "add_nodes.h"

#define FA_ADD_POINTS 1024   /* most points of the hyperbola */
#define FA_ADD_CELL   6.0    /* points to a cell of the aliases' sum ... */
#define FA_ADD_STRIDE 4      /* ... and nodes to a cell of the gaps' */
#define FA_ADD_SURE   1.0001 /* rounding of the bounds' own sums */

typedef struct {
    double c, bend, k, a; /* p(0) = c; half width of the strip in v */
    double h;             /* step in v */
    double eta, reach;
    double log_size;
    double base; /* steps * log_scale of the nodes - log_size */
} fa_add_path;

/* at three real p: the ends of the seam, and c between them */
typedef struct {
    double p[3];
    double gap[3], gap_slope[3]; /* |sum - G|, and of their derivatives */
    double sum[3], sum_slope[3]; /* sum |W| exp(-p Re l), and with the factor |l| */
} fa_add_gaps;

/* largest modulus of the window beyond z = x on the side away from (side < 0) or towards (side > 0) large z; y is
 * -Im z */
FA_FUNC double fa_add_window_most(const fa_add_nodes *s, double x, double y, int side)
{
    double u = x - s->edge, near = side > 0 ? fa_max(u, 0.0) : fa_min(u, 0.0);
    return (u < 0.0 ? 1.0 : 0.0) + 0.5 * exp(0.5 * (y * y - near * near) / (s->width * s->width));
}

/* int |Q keep exp(-p l)| left and right of the nodes on the line turned by phi; at most that, too, is what nodes
 * left out there would add.
 * *slope_out: the same with |l| <= Re l/cos(phi).   domain p > 0, first < edge */
FA_FUNC double fa_add_beyond(const fa_add_nodes *s, const fa_add_run *run, double phi, double p, double *slope_out)
{
    double last = s->first + (s->n - 1) * s->h, y = phi * run->s2, grow = exp(0.5 * phi * y - s->log_scale);
    double w = exp(run->log_odds + (last - 0.5) * run->inv_var), l = 0.5 * log1p(w * (2.0 * cos(phi) + w));
    double left = fa_add_window_most(s, s->first, y, -1) * 0.5 * erfc(-s->first * FA_HALF_ROOT / run->sigma);
    /* nodes about 0, if any */
    double mass = 0.5 * erfc(last * FA_HALF_ROOT / run->sigma) + (last < 0.0 ? 0.4 * s->h / run->sigma : 0.0);
    double right = fa_add_window_most(s, last, y, 1) * mass;
    *slope_out = grow * (left * 0.37 / p + right * (p * l < 1.0 ? 0.37 / p : l * exp(-p * l))) / cos(phi);
    return grow * (left + right * exp(-p * l));
}

/* add scale * int |Q keep exp(-p l)|, and with |l|, on the line turned by phi, for all three p.  A trapezoid sum
 * over every fourth node, each term raised by what the chords of a logarithm with second derivative >= -b leave out,
 * b step^2/8:  1/sigma^2 of Q, 1/width^2 of the window's tail, p |w/(1 + w)^2|/sigma^4 of the loss (times
 * exp(step/sigma^2) between nodes), 1/sigma^4 of |l| */
FA_FUNC void fa_add_moduli(const fa_add_nodes *s, const fa_add_run *run, double phi, double scale, fa_add_gaps *out)
{
    double step = FA_ADD_STRIDE * s->h, iv = run->inv_var, unit = 0.125 * step * step, co = 2.0 * cos(phi),
           y = phi * run->s2, lo = run->log_odds;
    double base = log(step / run->sigma) - FA_LOG_SQRT_2PI + 0.5 * phi * y - s->log_scale + unit * (iv + iv * iv);
    double bend = unit * iv * iv * exp(step * iv), tight = 0.5 / (s->width * s->width),
           top = tight * (y * y) + 2.0 * unit * tight;
    double p0 = out->p[0], p1 = out->p[1], p2 = out->p[2], s0 = 0.0, s1 = 0.0, s2 = 0.0, d0 = 0.0, d1 = 0.0, d2 = 0.0,
           slope;
    double first = s->first, edge = s->edge;
    int j, n = s->n / FA_ADD_STRIDE + 1;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2, d0, d1, d2))
    for (j = 0; j < n; j++) {
        double x = first + j * step, u = x - edge, w = fa_exp_plain_v(FA_FMA(x - 0.5, iv, lo)), square = w * (co + w);
        double l = 0.5 * fa_log1p_plain_v(square) - bend * w / (1.0 + square), big = fa_log1p_plain_v(w);
        double e = (u < step ? 1.0 : 0.0) + 0.5 * fa_exp_plain_v(top - tight * (u * u)), t0, t1, t2;
        e *= fa_exp_plain_v(base - 0.5 * x * (x * iv));
        t0 = e * fa_exp_plain_v(-p0 * l);
        t1 = e * fa_exp_plain_v(-p1 * l);
        t2 = e * fa_exp_plain_v(-p2 * l);
        s0 += t0;
        s1 += t1;
        s2 += t2;
        d0 = FA_FMA(t0, big, d0);
        d1 = FA_FMA(t1, big, d1);
        d2 = FA_FMA(t2, big, d2);
    }
    slope = scale / cos(0.5 * phi); /* |l| <= log(1 + |w|)/cos(phi/2) */
    out->gap[0] += scale * s0;
    out->gap[1] += scale * s1;
    out->gap[2] += scale * s2;
    out->gap_slope[0] += slope * d0;
    out->gap_slope[1] += slope * d1;
    out->gap_slope[2] += slope * d2;
}

/* gaps and sums at c and at the ends of the seam */
FA_FUNC void fa_add_gaps_at(const fa_add_nodes *s, const fa_add_run *run, const fa_add_path *path, fa_add_gaps *out)
{
    double alias = 1.0 / expm1(2.0 * FA_PI * s->strip * s->theta * run->s2 / s->h), slope, phi;
    int i, j, side;
    out->p[0] = path->c * (1.0 + path->k - sin(path->bend + path->a) / cos(path->bend));
    out->p[1] = path->c;
    out->p[2] = path->c * (1.0 + path->k - sin(path->bend - path->a) / cos(path->bend));
    for (i = 0; i < 3; i++) {
        double p = out->p[i], sum = 0.0, sum_slope = 0.0;
        const double *lr = s->lr, *li = s->li, *size = s->size;
        out->gap[i] = fa_add_beyond(s, run, s->theta, p, &out->gap_slope[i]);
        FA_PRAGMA(omp simd reduction(+ : sum, sum_slope))
        for (j = 0; j < s->n; j++) {
            double t = size[j] * fa_exp_plain_v(-p * lr[j]);
            sum += t;
            sum_slope = FA_FMA(t, fabs(lr[j]) + fabs(li[j]), sum_slope);
        }
        out->sum[i] = sum;
        out->sum_slope[i] = sum_slope;
    }
    for (side = -1; side <= 1; side += 2) {
        phi = (1.0 + side * s->strip) * s->theta;
        for (i = 0; i < 3; i++) {
            out->gap[i] += alias * fa_add_beyond(s, run, phi, out->p[i], &slope);
            out->gap_slope[i] += alias * slope;
        }
        fa_add_moduli(s, run, phi, alias, out);
    }
}

/* what the gap of G changes: |G^n - sum^n| integrated over Re p = c, where all moduli are largest on the real axis */
FA_FUNC double fa_add_quadrature(const fa_add_gaps *g, const fa_add_run *run, const fa_add_path *path)
{
    double c = path->c, all = FA_ADD_SURE * (g->sum[1] + g->gap[1]);
    double e = (run->steps - 1.0) * log(all) + c * (path->eta + path->reach) + path->base;
    return FA_ADD_SURE * run->steps * g->gap[1] * exp(e) * 0.5 / sqrt(c * (c + 1.0));
}

/* the seam: h^2/(12 pi) of the largest |d/dy Im F(i y)|, which is log-convex in p, so largest at an end */
FA_FUNC double fa_add_seam(const fa_add_gaps *g, const fa_add_run *run, const fa_add_path *path)
{
    double stretch = path->c / cos(path->bend), eta = path->eta + path->reach, most = 0.0;
    int i;
    for (i = 0; i < 3; i += 2) {
        double p = g->p[i], b = FA_ADD_SURE * g->sum[i], gap = g->gap[i],
               e = p * eta + path->base + (run->steps - 2.0) * log(b), slope;
        slope = g->gap_slope[i] * b + gap * b * (eta + 2.0 / p);
        slope += (run->steps - 1.0) * gap * FA_ADD_SURE * g->sum_slope[i];
        most = fa_max(most, stretch * run->steps * (stretch * slope + gap * b) * exp(e) / (p * (p + 1.0)));
    }
    return FA_ADD_SURE * path->h * path->h / (12.0 * FA_PI) * most;
}

/* least (from - A x)^2 + D^2 (x^2 - 1) for x = cosh v in [x0, x1]: |p|^2/c^2 or |p + 1|^2/c^2 */
FA_INLINE double fa_add_nearest(double from, double A, double D, double x0, double x1)
{
    double x = fa_max(x0, fa_min(x1, from * A / (A * A + D * D))), along = from - A * x;
    return along * along + D * D * (x * x - 1.0);
}

/* sum |W| exp(-Re(p l)), where Re(p l) >= 0 */
FA_FUNC double fa_add_majorant(const fa_add_nodes *s, double pr, double pi)
{
    const double *lr = s->lr, *li = s->li, *size = s->size;
    double sum = 0.0;
    int j, n = s->n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n; j++)
        sum += size[j] * fa_exp_plain_v(FA_FMA(pi, li[j], -pr * lr[j]));
    return sum;
}

/* int over v > 0 of |F| on the contour v + i y: on every cell the majorant and exp(Re p eta) are largest at its left
 * end, |p'| at its right one; beyond the last cell |p'|/|p (p+1)| is at most |p'|/(Im p)^2.  inf where it does not
 * end */
FA_FUNC double fa_add_alias_integral(const fa_add_nodes *s, const fa_add_run *run, const fa_add_path *path, double y)
{
    double A = sin(path->bend + y) / cos(path->bend), D = cos(path->bend + y) / cos(path->bend), c = path->c, all = 0.0;
    double step = FA_ADD_CELL * path->h, up = exp(step), ev = 1.0, x0 = 1.0, s0 = 0.0;
    int m;
    for (m = 0; m < FA_ADD_POINTS; m++) {
        double next = ev * up, x1 = 0.5 * (next + 1.0 / next), pr = c * (1.0 + path->k - A * x0), pi = c * D * s0, rest,
               near;
        double e = run->steps * log(FA_ADD_SURE * fa_add_majorant(s, pr, pi)) + path->base + pr * path->eta +
                   fabs(pr) * path->reach;
        rest = exp(e) * cos(path->bend) / (c * cos(path->bend + y) * cos(path->bend + y) * s0);
        if (rest < 0.5 * all)
            return FA_ADD_SURE * (all + rest);
        near = fa_add_nearest(1.0 + path->k, A, D, x0, x1) * fa_add_nearest(1.0 + path->k + 1.0 / c, A, D, x0, x1);
        if (!(near > 0.0) || !(e < 600.0))
            return INFINITY;
        all += step * exp(e) * sqrt((D * D * x1 * x1 + A * A * (x1 * x1 - 1.0)) / near) / c;
        ev = next;
        x0 = x1;
        s0 = 0.5 * (next - 1.0 / next);
    }
    return INFINITY;
}

/* the aliases of the sum over v */
FA_FUNC double fa_add_aliases(const fa_add_nodes *s, const fa_add_run *run, const fa_add_path *path)
{
    double both = fa_add_alias_integral(s, run, path, path->a) + fa_add_alias_integral(s, run, path, -path->a);
    return both / (FA_PI * expm1(2.0 * FA_PI * path->a / path->h));
}

#endif
