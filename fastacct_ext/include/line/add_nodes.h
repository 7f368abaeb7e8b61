/* line/add_nodes.h -- direction add: the transform G of one step's loss as a sum over nodes of a turned line in the
 * complex plane.
 *
 *   G(p) = E[exp(-p l) keep],   keep = Phi((edge - z)/width),   z = x - i theta sigma^2
 *
 * On that line the loss has a negative argument, so that exp(-p l) decays while arg p turns beyond 90 degrees.  The
 * window keeps every z that matters and ends the line where its losses would turn the argument back.
 * docs/algorithms/add_line.md.
 */
#ifndef FA_ADD_NODES_H
#define FA_ADD_NODES_H

#include "add_axis.h"

#define FA_ADD_NODES 2048     /* most nodes */
#define FA_ADD_TERMS 40       /* most terms of the window's series, and its table */
#define FA_ADD_KEEP  7.3      /* widths from the last z that matters to the window's edge */
#define FA_ADD_LOST  1.45e-13 /* Phi(-FA_ADD_KEEP), rounded up */
#define FA_ADD_FLAT  9.5      /* left of so many widths from the edge the window is 1, to 5e-18 ... */
#define FA_ADD_STEEP 2.4      /* ... for Im z up to so many sqrt(2) widths */
#define FA_ADD_CONE  1.5      /* largest angle of w on the lines of the ledger, below pi/2 */
#define FA_ADD_BIG   300.0    /* largest log w: its square is a double */

typedef struct {
    int n, has_window;
    double first, h, theta;           /* z = first + j h - i theta sigma^2 */
    double strip;                     /* the rule's error is bounded on Im z = -(1 -+ strip) theta sigma^2 */
    double edge, width;               /* of the window */
    double log_scale;                 /* weights are relative to exp(log_scale), about G */
    double amplify;                   /* log of how far the moduli's product exceeds |G|^steps, about */
    double least_angle;               /* least |arg l| of all nodes */
    double *lr, *li, *wr, *wi, *size; /* loss, weight, its modulus */
    double *slip, *slip_loss;         /* errors in u, absolute: of the weight, and of its product with p l, over |p| */
} fa_add_nodes;

/* the series of fa_add_window: exp(-n^2/4), and that times exp(n y) and exp(-n y) */
typedef struct {
    int n;
    double y, flat[FA_ADD_TERMS], up[FA_ADD_TERMS], down[FA_ADD_TERMS];
} fa_add_series;

/* y <= FA_ADD_STEEP; terms beyond n are below e^-37 of exp(y^2) */
FA_FUNC void fa_add_series_set(fa_add_series *s, double y)
{
    int i;
    s->y = y;
    s->n = (int)fa_min(FA_ADD_TERMS - 1.0, ceil(2.0 * y + 12.2));
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_ADD_TERMS; i++) {
        double n = (double)i;
        s->flat[i] = fa_exp_plain_v(-0.25 * n * n);
        s->up[i] = fa_exp_plain_v(n * (s->y - 0.25 * n));
        s->down[i] = fa_exp_plain_v(-n * (s->y + 0.25 * n));
    }
}

/* erfc(x - i y)/2 = erfc(x)/2 + i exp(-x^2) J/sqrt(pi),  J = int_0^y exp(t^2 + 2 i x t) dt, exp(t^2) by Poisson's
 * formula as sum_n exp(n t - n^2/4)/(2 sqrt(pi)), 3e-17.   domain |x| <= 26, 0 <= y <= FA_ADD_STEEP
 * error (120 + 8 x^2) u of (x < 0) + exp(y^2 - x^2)/2, the bound of its modulus    (add_line.md) */
FA_INLINE double fa_add_window(const fa_add_series *s, double x, double *im_out)
{
    double far = fa_min(fabs(x), FA_ERFC_END), half = 0.5 * fa_erfc_v(far), near = fa_max(far, 1e-100), cosine,
           sine = fa_sincos_v(near * s->y, &cosine);
    double sign = x < 0.0 ? -1.0 : 1.0, at = sign * near, er = FA_FMA(-2.0 * sine, sine, 1.0),
           ei = 2.0 * sign * sine * cosine;
    double jr = cosine * sine / near, ji = sign * sine * sine / near, square = 4.0 * near * near,
           e = fa_exp_plain_v(-far * far) / FA_PI;
    int k;
    for (k = 1; k <= s->n; k++) {
        double n = (double)k, t = 1.0 / FA_FMA(n, n, square), less = n * (s->up[k] - s->down[k]),
               more = s->up[k] + s->down[k];
        jr = FA_FMA(t, FA_FMA(er, less, 2.0 * at * (ei * more)), jr);
        ji = FA_FMA(t, FA_FMA(ei, less, -2.0 * at * FA_FMA(er, more, -2.0 * s->flat[k])), ji);
    }
    *im_out = 0.5 * e * jr;
    return (x < 0.0 ? 1.0 - half : half) - 0.5 * e * ji;
}

/* the line's shape for transforms at about c: angle, window, strip, ends and step; 0 where there is none or it needs
 * too many nodes.  The ledger judges every choice but the edge, which keeps all losses below eta.
 * turn <= 1 makes the angle smaller, digits: -log of the relative error aimed at */
FA_FUNC int fa_add_shape(fa_add_nodes *s, const fa_add_axis *axis, const fa_add_run *run, const fa_add_saddle *at,
                         double eta, double turn, double digits)
{
    static const double strips[4] = {0.5, 0.65, 0.8, 1.0};
    double sigma = run->sigma, z_last = fa_add_z(run, eta), cap = fa_add_z(run, eta * (1.0 + 16.0 / (1.0 + eta))), need,
           left, right, h;
    int i, last = axis->n - 1;
    s->theta = turn * fa_min(1.0, fa_min(3.2 / sigma, (sigma > 2.5 ? 4.0 : 3.4) / (sigma * sqrt(run->steps))));
    s->width = fa_min((cap - z_last) / FA_ADD_KEEP, 0.6 * run->s2);
    s->edge = z_last + 1.01 * FA_ADD_KEEP * s->width;
    s->log_scale = at->log_g;
    while (last > 0 && axis->log_w[last] - 0.6 * at->c * axis->loss[last] < at->log_g - 37.0)
        last--;
    left = -sigma * sqrt(2.0 * fa_max(32.0, 34.0 - at->log_g));
    right = fa_min(axis->first + (last + 1) * axis->h, s->edge + 8.2 * s->width);
    s->amplify = run->steps * fa_max(0.0, fa_add_turned(axis, run, at->c, s->theta) - at->log_g);
    need = s->amplify + digits + log(run->steps) + 0.5 * log(2.0 + at->c * at->c * at->psi2);
    s->h = 0.0;
    for (i = 0; i < 4; i++) {
        double far = (1.0 + strips[i]) * s->theta;
        if (i > 0 && far > FA_ADD_CONE)
            break;
        h = 2.0 * FA_PI * strips[i] * s->theta * run->s2;
        h /= need + fa_max(0.0, fa_add_turned(axis, run, at->c, far) - at->log_g);
        if (h > s->h) {
            s->h = h;
            s->strip = strips[i];
        }
    }
    s->h = fa_from_bits(fa_bits(s->h) & ~((1ULL << 29) - 1)); /* j h is exact */
    if (!(s->h > 0.0) || !(left < s->edge) || !(right - left > 4.0 * s->h) ||
        !(right - left < (FA_ADD_NODES - 16) * s->h))
        return 0;
    if (!(fabs(left) < 0x1p22 * s->h))
        return 0;
    s->first = floor(left / s->h) * s->h;
    s->n = ((int)ceil((right - s->first) / s->h) + 8) / 8 * 8;
    return run->log_odds + (s->first + s->n * s->h) * run->inv_var < FA_ADD_BIG;
}

/* multiply the weights by the window where it is not 1 */
FA_FUNC void fa_add_nodes_window(fa_add_nodes *s, const fa_add_run *run)
{
    double root = FA_HALF_ROOT / s->width, from = floor((s->edge - FA_ADD_FLAT * s->width - s->first) / s->h);
    int j, n = s->n, start = (int)fa_max(0.0, fa_min((double)n, from)) / 8 * 8;
    fa_add_series series;
    s->has_window = start < n;
    if (!s->has_window)
        return;
    fa_add_series_set(&series, s->theta * run->s2 * root);
    FA_PRAGMA(omp simd)
    for (j = start; j < n; j++) {
        double x = (s->first + j * s->h - s->edge) * root, ki, kr = fa_add_window(&series, x, &ki), wr = s->wr[j],
               wi = s->wi[j];
        double bound = (x < 0.0 ? 1.0 : 0.0) + 0.5 * fa_exp_plain_v(series.y * series.y - x * x),
               full = s->size[j] * bound;
        s->wr[j] = wr * kr - wi * ki;
        s->wi[j] = FA_FMA(wr, ki, wi * kr);
        s->size[j] *= sqrt(FA_FMA(kr, kr, ki * ki));
        s->slip[j] = FA_FMA(s->slip[j], bound, full * FA_FMA(8.0 * x, x, 124.0));
        s->slip_loss[j] *= bound;
    }
}

/* losses, weights and their errors on the line whose shape is set; 0 where the window would be too steep.
 * slip: exponents 5 u |log| and 2.5 u |z|^2/sigma^2, phase 4 u of itself, functions and the term's product 40 u, the
 * sum n/8 + 12. slip_loss: l to 8 u |l|, plus 1.2 |l| (error of its exponent + 7 u); products p l 4.3 u, p itself 6 u
 * (add_line.md) */
FA_FUNC int fa_add_nodes_fill(fa_add_nodes *s, const fa_add_run *run)
{
    double th = s->theta, co = cos(th), si = -sin(th), iv = run->inv_var, y2 = th * th * run->s2, lo = run->log_odds,
           angle = INFINITY;
    double log_h = log(s->h / run->sigma) - FA_LOG_SQRT_2PI, base = log_h - s->log_scale + 0.5 * y2, first = s->first,
           h = s->h;
    double fixed = 52.0 + 0.125 * s->n + 5.0 * (fabs(log_h) + fabs(s->log_scale)) + 2.5 * y2;
    double odds = 2.0 * fabs(log(run->q)) + 2.0 * run->end / run->steps + fabs(lo);
    int j, n = s->n;
    if (!(th * run->s2 * FA_HALF_ROOT / s->width <= FA_ADD_STEEP))
        return 0;
    FA_PRAGMA(omp simd reduction(min : angle))
    for (j = 0; j < n; j++) {
        double x = first + j * h, e = FA_FMA(x - 0.5, iv, lo), w = fa_exp_plain_v(e), li,
               lr = fa_clog1p_v(w * co, w * si, &li);
        double size = fa_exp_plain_v(base - 0.5 * x * (x * iv)), c, sn = fa_sincos_v(x * th, &c),
               l = fabs(lr) + fabs(li), t;
        s->lr[j] = lr;
        s->li[j] = li;
        s->wr[j] = size * c;
        s->wi[j] = size * sn;
        s->size[j] = size;
        s->slip[j] = size * (fixed + 2.5 * x * (x * iv) + 4.0 * fabs(x) * th);
        s->slip_loss[j] = size * l * (30.0 + 1.2 * (4.0 * (fabs(x) + 0.5) * iv + odds + fabs(e) + 3.0));
        t = -li / fa_max(lr, 1e-300);
        angle = fa_min(angle, t);
    }
    s->least_angle = atan(angle);
    fa_add_nodes_window(s, run);
    return s->least_angle > 1e-4;
}

#endif
