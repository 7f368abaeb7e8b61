/* line/bent_path.h -- delta(eps) of sampled Gaussians with few expected participations, by a path that bends away from
 * the vertical line.
 *
 * There exp(K) decays slowly along a vertical line (a long way for the untouched records' loss to dephase), but fast
 * along the ray u = c + s exp(i beta), if M is evaluated on curves z(X) that follow u: zeta(X) = X + i (top rise(X -
 * start) + far rise((X - far_start)/far_width) + slope softplus(X)),  rise the logistic function, z = sigma^2 (zeta -
 * log-odds),  l = log(1 + exp(zeta)) Gauss-Legendre panels; the error of each is bounded by the maximum of |F| on an
 * ellipse.  That maximum is found from four corners: on a fixed curve B(u) = sum |W| exp(Re(u l)) bounds |M| and is
 * log-convex in u.  docs/algorithms/bent_path.md.
 *
 * With A(u) = M(u) exp(-u mean), A^n = 1 + n (A - 1) + rest.  The 1 contributes nothing to delta (a loss of n mean <
 * eps), n A a closed form (one step, shifted): only `rest`, small of second order in the expected participations, is
 * integrated.
 */
#ifndef FA_BENT_PATH_H
#define FA_BENT_PATH_H

#include "contour.h"
#include "../exact/one_step.h"

#define FA_PANEL      16 /* Gauss-Legendre points a panel */
#define FA_PANELS_MAX 260
#define FA_ELLIPSE    4.0 /* Bernstein ellipse of the error bound: 4^-30 */
#define FA_SHAPES     6
#define FA_COS_RAY    0.25881904510252074
#define FA_SIN_RAY    0.9659258262890683

typedef struct {
    int n, capacity;
    double top, start, far, far_start, far_width, slope, step, left, right, shift;
    double decay;                  /* exp(-2 pi shift/step) */
    double w_sum;                  /* sum of |W| over both shifted curves */
    double left_mass;              /* sum of the weights of nodes further left, where l < e^-45 ... */
    double left_bend;              /* ... if the curve were real there: bound of their relative error */
    double *lr[3], *li[3], *lw[3]; /* the curve, and shifted by +- i shift */
    double *aw, *wr, *wi;
    double *memory;
} fa_curve;

FA_FUNC void fa_curve_free(fa_curve *c)
{
    free(c->memory);
    memset(c, 0, sizeof(*c));
}

FA_FUNC int fa_curve_reserve(fa_curve *c, int n)
{
    int size = c->capacity ? c->capacity : 256, k;
    double *p;
    if (n <= c->capacity)
        return 1;
    while (size < n)
        size *= 2;
    free(c->memory);
    c->capacity = 0;
    c->memory = p = fa_alloc(sizeof(double) * 12 * (size_t)size);
    if (!p)
        return 0;
    c->capacity = size;
    for (k = 0; k < 3; k++) {
        c->lr[k] = p + (size_t)(3 * k) * size;
        c->li[k] = p + (size_t)(3 * k + 1) * size;
        c->lw[k] = p + (size_t)(3 * k + 2) * size;
    }
    c->aw = p + (size_t)9 * size;
    c->wr = p + (size_t)10 * size;
    c->wi = p + (size_t)11 * size;
    return 1;
}

/* logistic(x + i y) and softplus(x + i y) */
FA_INLINE double fa_logistic_v(double x, double y, double *im_out)
{
    double c, s = fa_sincos_v(y, &c), e = fa_exp_plain_v(-fabs(x)), den, re, im;
    /* x > 0: 1/(1 + e (c - i s)); else w/(1 + w), w = e (c + i s) */
    den = 1.0 / FA_FMA(e, e + 2.0 * c, 1.0);
    re = x > 0.0 ? (1.0 + e * c) * den : e * (c + e) * den;
    im = e * s * den;
    *im_out = im;
    return re;
}

/* fill line k of the curve: 0 the curve itself, 1 and 2 shifted by +- i shift */
FA_FUNC void fa_curve_line(fa_curve *c, const fa_pair *m, int k)
{
    double s2 = m->sigma * m->sigma, x0 = -m->p_log[0] * s2,
           d = k == 0   ? 0.0
               : k == 1 ? c->shift
                        : -c->shift,
           total = 0.0;
    double *lr = c->lr[k], *li = c->li[k], *lw = c->lw[k], base = log(c->step * m->sigma) - 0.918938533204672741780,
           inv_width = 1.0 / c->far_width;
    int i, n = c->n;
    FA_PRAGMA(omp simd reduction(+ : total))
    for (i = 0; i < n; i++) {
        double x = c->left + i * c->step, ri, rr = fa_logistic_v(x - c->start, d, &ri), qi, qr, zr, zi, l, k1, dr, di,
               size;
        double ei, er = fa_log1p_exp_v(x, d, &ei), gi, gr = fa_logistic_v(x, d, &gi);
        qr = fa_logistic_v((x - c->far_start) * inv_width, d * inv_width, &qi);
        zr = x - c->top * ri - c->far * qi - c->slope * ei; /* zeta, at X = x + i d */
        zi = d + c->top * rr + c->far * qr + c->slope * er;
        l = fa_log1p_exp_v(zr, zi, &k1);
        lr[i] = l;
        li[i] = k1;
        /* zeta' = 1 + i (top rise (1 - rise) + far/width rise (1 - rise) + slope rise(X)) */
        dr = 1.0 - c->top * ri * (1.0 - 2.0 * rr) - c->far * inv_width * qi * (1.0 - 2.0 * qr) - c->slope * gi;
        di = c->top * (rr * (1.0 - rr) + ri * ri) + c->far * inv_width * (qr * (1.0 - qr) + qi * qi) + c->slope * gr;
        size = FA_FMA(dr, dr, di * di);
        zr = zr * s2 + x0; /* z */
        zi = zi * s2;
        lw[i] = base - 0.5 * (zr - zi) * ((zr + zi) * m->inv_var) + 0.5 * fa_log1p_plain_v(size - 1.0);
        if (k == 0) {
            double cs, sn, w;
            c->aw[i] = -zr * zi * m->inv_var + fa_angle_v(di, dr);
            sn = fa_sincos_v(c->aw[i], &cs);
            w = lw[i] > -690.0 ? fa_exp_plain_v(lw[i]) : 0.0;
            c->wr[i] = w * cs;
            c->wi[i] = w * sn;
        }
        else
            total += fa_exp_plain_v(lw[i]);
    }
    if (k)
        c->w_sum += total;
}

/* the curve for u near a + i t; reach: largest Re u - 0.9 slope Im u it is used for.  Where the record is sampled, z =
 * sigma^2 X + x0 near a, the best height is t/sigma^2; where it is not, the one of fa_tail_majorant.  need: -log of the
 * aliasing factor.  0: too many nodes */
FA_FUNC int fa_curve_fill(fa_curve *c, const fa_pair *m, double a, double reach, double t, double t_rise, double top,
                          double far, double slope, double fall, double need)
{
    double s2 = m->sigma * m->sigma, x0 = -m->p_log[0] * s2, right, bump = fa_max((a - x0) / s2, 2.0), room;
    int n;
    c->top = top;
    c->start = log((1.0 + s2) * c->top / fa_max(t_rise, 1e-3));
    c->slope = slope;
    c->far = fa_max(0.0, fa_min(far * t / s2 - top, 0.45 * bump + 1.0));
    c->far_start = fa_max(0.5 * bump, 1.0);
    c->shift = fa_min(0.7, 1.5 / m->sigma);
    /* l has its singularities at zeta = i pi (2 k + 1), Re zeta = 0.  On the whole strip: where Re zeta <= 0, X <= 1;
     * the far part there is below `room` in modulus, and Im zeta < shift + top + slope log(1 + e) + room < pi.
     * docs/algorithms/bent_path.md */
    if (slope > 0.5)
        c->top = top = fa_min(top, 1.0);
    room = fa_min(3.0 - c->shift - top - 1.3133 * slope, 0.45 * 0.8 / c->shift);
    c->far_width = fa_max(0.8, bump / 6.0);
    if (c->far > 1.7 * room)
        c->far_width = fa_max(0.8, fa_min(c->far_width, (c->far_start - 1.0) / log(c->far / room - 0.64)));
    c->far = fa_min(c->far, room * (exp(fa_min((c->far_start - 1.0) / c->far_width, 600.0)) + 0.64));
    c->step = 2.0 * FA_PI * c->shift / need;
    c->decay = exp(-need);
    c->w_sum = 0.0;
    c->left = (-FA_WIDTH * m->sigma - x0) / s2;
    c->left_mass = c->left_bend = 0.0;
    if (c->left < -45.0) {
        double bend;
        c->left = -45.0;
        if (c->far * exp(fa_max(-600.0, (c->left - c->far_start) / c->far_width)) > 1e-16)
            c->far = 0.0; /* the curve must be real where the nodes end */
        bend = c->top * exp(fa_min(0.0, c->left - c->start)) +
               c->far * exp(fa_max(-600.0, (c->left - c->far_start) / c->far_width)) + slope * exp(c->left);
        c->left_bend = 1.2 * bend * (9.0 * m->sigma + 2.0);
        if (!(c->left * s2 + x0 + 9.0 * m->sigma < 2e4 * c->step * s2))
            return 0;
        for (n = 1; n < 20000; n++) {
            double z = ((c->left - n * c->step) * s2 + x0) / m->sigma;
            if (z < -9.0)
                break;
            c->left_mass += exp(-0.5 * z * z);
        }
        c->left_mass *= c->step * m->sigma * 0.39894228040143267794;
    }
    right = (fa_max(reach, 1.0) + FA_WIDTH * m->sigma + s2 * slope * (top + c->far) - x0) /
            (s2 * (1.0 - slope * slope));
    if (fall > 0.0 &&
        c->far == 0.0) { /* exp(u l) dies first; the weight alone is small beyond the root of a quadratic */
        double x = x0 / s2, one = 1.0 - slope * slope, half_b = x - slope * top,
               rest = x * x - top * top - 2.0 * (44.0 + log(hypot(a, t) + 1.0)) / s2;
        double root = half_b * half_b - one * rest;
        if (root >= 0.0 && half_b >= 0.0)
            right = fa_min(right, fa_max(3.0 + 90.0 / fall, (sqrt(root) - half_b) / one + 0.5));
    }
    c->right = fa_max(right, 3.0);
    if (!(c->right - c->left < 5000.0 * c->step))
        return 0;
    n = ((int)ceil((c->right - c->left) / c->step) + FA_LANE) / FA_LANE * FA_LANE;
    if (!fa_curve_reserve(c, n))
        return 0;
    c->n = n;
    fa_curve_line(c, m, 0);
    return 1;
}

FA_FUNC void fa_curve_shifts(fa_curve *c, const fa_pair *m)
{
    c->w_sum = 0.0;
    fa_curve_line(c, m, 1);
    fa_curve_line(c, m, 2);
    c->w_sum += 2.0 * c->left_mass * exp(0.5 * m->sigma * m->sigma * c->shift * c->shift);
}

/* log of sum |W| exp(Re(u l) + bend min(|l|, 1)) on curve k */
FA_FUNC double fa_curve_size(const fa_curve *c, int k, double a, double t, double bend)
{
    const double *lr = c->lr[k], *li = c->li[k], *lw = c->lw[k];
    double sum = 0.0, peak = -INFINITY;
    int i, n = c->n;
    FA_PRAGMA(omp simd reduction(+ : sum) reduction(max : peak))
    for (i = 0; i < n; i++) {
        double e = FA_FMA(a, lr[i], FA_FMA(-t, li[i], lw[i])) + bend * fa_min(fabs(lr[i]) + fabs(li[i]), 1.0);
        sum += fa_exp_plain_v(e);
        peak = fa_max(peak, e);
    }
    return peak < 690.0 ? log(sum) : INFINITY;
}

/* aliasing error of a sum over the curve at u.  The integrals over the shifted curves are bounded by their sums: with H
 * = log |integrand|, a cell's integral is at most the larger end's value times step exp(step^2 max(-H'')/8), and |H''|
 * <= 4 |u| min(|l|, 1) + 4 sigma^2 + 4. */
FA_FUNC double fa_curve_alias(const fa_curve *c, const fa_pair *m, double a, double t)
{
    double bend = 0.5 * c->step * c->step * sqrt(a * a + t * t),
           factor = 2.2 * exp(0.5 * c->step * c->step * (m->sigma * m->sigma + 1.0));
    double up = fa_curve_size(c, 1, a, t, bend), down = fa_curve_size(c, 2, a, t, bend);
    return up < 600.0 && down < 600.0
               ? factor *
                     (exp(up) + exp(down) + 2.0 * c->left_mass * exp(0.5 * m->sigma * m->sigma * c->shift * c->shift)) *
                     c->decay
               : INFINITY;
}

/* log |M(u) exp(-u kappa)| <= this, u = a + i t; *alias_out: aliasing error of the sum itself */
FA_FUNC double fa_curve_bound(const fa_curve *c, const fa_pair *m, double a, double t, double *alias_out)
{
    double size = fa_curve_size(c, 0, a, t, 0.0), alias = fa_curve_alias(c, m, a, t), end;
    int n = c->n - 1;
    *alias_out = alias;
    if (!(size < 600.0) || !(alias < INFINITY))
        return INFINITY;
    end = FA_FMA(a, c->lr[0][n], FA_FMA(-t, c->li[0][n], c->lw[0][n]));
    return log(exp(size) + alias + c->left_mass + 20.0 * exp(fa_min(end, 600.0)) + 1e-16) + 1e-15;
}

/* R(u) = M(u) exp(-u mean) - 1 = sum W (exp(s) - 1 - s), s = u (l + off), with the bound of its rounding error
 * (aliasing apart) */
FA_FUNC double fa_curve_value(const fa_curve *c, double a, double t, double off, double *im_out, double *error_out)
{
    double re = 0.0, im = 0.0, e1 = 0.0, left = 0.0;
    const double *lr = c->lr[0], *li = c->li[0], *lw = c->lw[0], *aw = c->aw, *wr = c->wr, *wi = c->wi;
    int i, n = c->n;
    FA_PRAGMA(omp simd reduction(+ : re, im, e1))
    for (i = 0; i < n; i++) {
        double l = lr[i] + off, p = FA_FMA(a, l, -t * li[i]), f = FA_FMA(a, li[i], t * l), ei,
               er = fa_cexp2_v(fa_min(p, 1.0), f, &ei), cs, sn, e, vr, vi;
        double size = p + lw[i], x, one = 1.0 + p, w = wr[i] * wr[i] + wi[i] * wi[i];
        sn = fa_sincos_v(f + aw[i], &cs);
        e = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        vr = p < 1.0 ? wr[i] * er - wi[i] * ei : e * cs - (wr[i] * one - wi[i] * f);
        vi = p < 1.0 ? FA_FMA(wr[i], ei, wi[i] * er) : e * sn - FA_FMA(wr[i], f, wi[i] * one);
        re += vr;
        im += vi;
        x = fabs(p) + fabs(f);
        e1 += sqrt(FA_FMA(vr, vr, vi * vi)) * (60.0 - 6.0 * fa_min(lw[i], 0.0) + 2.0 * fabs(aw[i])) +
              24.0 * (e + sqrt(w)) * x * fa_min(x, 2.0);
    }
    if (c->left_mass > 0.0) { /* left of the curve: l = 0, the summand is that of off */
        double ei, er = fa_cexp2_v(fa_min(a * off, 1.0), t * off, &ei);
        re += c->left_mass * er;
        im += c->left_mass * ei;
        left = c->left_mass * (c->left_bend * hypot(er, ei) +
                               3e-20 * hypot(a, t) * fa_min(2.0, hypot(a, t) * (fabs(off) + 3e-20))); /* l < 3e-20 */
        e1 += c->left_mass *
              (80.0 * hypot(er, ei) + 40.0 * fa_min(hypot(a, t) * fabs(off), 1.0) * hypot(a, t) * fabs(off));
    }
    *im_out = im;
    *error_out = FA_EPS * (e1 + 0.125 * n * (fabs(re) + fabs(im))) + left;
    return re;
}

/* what the cut at the right end leaves out of the sum: twice a geometric series from the last term */
FA_INLINE double fa_curve_end(const fa_curve *c, double a, double t, double off)
{
    int n = c->n - 1;
    double l = c->lr[0][n] + off, k = c->li[0][n], p = a * l - t * k, lw = c->lw[0][n], ratio = lw - c->lw[0][n - 1],
           q = ratio + a * (l - off - c->lr[0][n - 1]) - t * (k - c->li[0][n - 1]);
    if (!(ratio < 0.0) || !(q < 0.0))
        return INFINITY;
    return 2.0 * exp(fa_min(lw + p, 600.0)) / -expm1(q) +
           2.0 * exp(fa_min(lw, 600.0)) * (2.0 + hypot(a, t) * hypot(l, k)) / -expm1(ratio);
}

/* log of (U^2/2) sum |W| |l + off|^2 max(1, exp(Re(u (l + off)))), U >= |u|: bounds |R|, log-convex in u for fixed U */
FA_FUNC double fa_curve_second(const fa_curve *c, double a, double t, double off, double u_max)
{
    const double *lr = c->lr[0], *li = c->li[0], *lw = c->lw[0];
    double sum = 0.0, peak = -INFINITY;
    int i, n = c->n;
    FA_PRAGMA(omp simd reduction(+ : sum) reduction(max : peak))
    for (i = 0; i < n; i++) {
        double l = lr[i] + off, e = lw[i] + fa_max(0.0, FA_FMA(a, l, -t * li[i]));
        sum = FA_FMA(fa_exp_plain_v(e), FA_FMA(l, l, li[i] * li[i]), sum);
        peak = fa_max(peak, e);
    }
    sum += c->left_mass * off * off * fa_max(1.0, exp(fa_min(a * off, 600.0)));
    return peak < 690.0 ? log(0.5 * sum) + 2.0 * log(u_max) : INFINITY;
}

/* log(1 + x) - x for complex x, relative accuracy for small |x| */
FA_INLINE double fa_clog_second(double x, double y, double *im_out)
{
    double s2 = x * x + y * y, li, lr;
    if (s2 < 0.01) {
        double pr = 1.0 / 18.0, pi = 0.0, qr = x * x - y * y, qi = 2.0 * x * y; /* x^2 (-1/2 + x/3 - x^2/4 ...) */
        int k;
        for (k = 17; k >= 2; k--) {
            double r = 1.0 / k - (pr * x - pi * y);
            pi = -(pr * y + pi * x);
            pr = r;
        }
        *im_out = -(qr * pi + qi * pr);
        return -(qr * pr - qi * pi);
    }
    lr = fa_clog1p_v(x, y, &li);
    *im_out = li - y;
    return lr - x;
}

typedef struct fa_bent {
    int n, n_entries;
    double *zr, *zi, *rate, *t, *error; /* log F (weight included) at eps = 0; Re u - 1; Im u; relative error */
    double *entry_log, *entry_rate;     /* errors exp(log - rate eps) */
    double sigma, q, steps, mean;
    double *memory;
    fa_curve curve, tail;
} fa_bent;

FA_FUNC void fa_bent_free(fa_bent *b)
{
    free(b->memory);
    fa_curve_free(&b->curve);
    fa_curve_free(&b->tail);
    memset(b, 0, sizeof(*b));
}

FA_FUNC int fa_bent_init(fa_bent *b)
{
    size_t points = (size_t)FA_PANEL * FA_PANELS_MAX, entries = 6 * (size_t)FA_PANELS_MAX;
    if (b->memory)
        return 1;
    b->memory = fa_alloc(sizeof(double) * (5 * points + 2 * entries));
    if (!b->memory)
        return 0;
    b->zr = b->memory;
    b->zi = b->zr + points;
    b->rate = b->zi + points;
    b->t = b->rate + points;
    b->error = b->t + points;
    b->entry_log = b->error + points;
    b->entry_rate = b->entry_log + entries;
    return 1;
}

/* where to leave the real axis: left of the saddle, so far that exp(K) does not turn along the first part of the ray,
 * and where the part that is integrated is no larger than delta */
FA_FUNC double fa_bent_start(fa_contour *run, double eps, double log_delta)
{
    const fa_pair *m = &run->blocks[0].pair;
    double s2 = m->sigma * m->sigma, x0 = -m->p_log[0] * s2, d1, d2, best = INFINITY, start = run->c, shrink = 1.0;
    int i;
    for (i = 0; i < 12; i++, shrink *= 0.8) {
        double v = 1.0 + (run->c - 1.0) * shrink, far = fa_max(0.0, v - x0), k = fa_real_k(run, v, &d1, &d2),
               log_k = log(fa_max(k, 1e-300)), rest;
        if (!(k < 600.0))
            continue;
        rest = (k < 1.0 ? 2.0 * log_k - 0.7 : k) - (v - 1.0) * eps - log(v) - log(v - 1.0) - log_delta;
        if (rest + 0.0387 * far * far / s2 < best) {
            best = rest + 0.0387 * far * far / s2;
            start = v;
        }
        if (rest < 0.0 && log_k + 0.0387 * far * far / s2 < -4.0)
            return v;
    }
    return start;
}

/* log |A^n - 1 - n (A - 1)| <= this, from log |A| <= log_a and log |A - 1| <= log_r (without the curve's aliasing
 * error, which is added): n (n-1)/2 |A - 1|^2 max(1, |A|)^(n-2) (returned), or |A|^n + 1 + n (|A| + 1) (*large_out).
 * Each is convex in u, so its largest corner bounds it inside; their minimum is not: take the smaller of the two
 * largest corners */
FA_FUNC double fa_rest_bound(double n, double log_a, double a, double t, double log_r, const fa_curve *c, double off,
                             double alias, double *large_out)
{
    double big = fa_max(0.0, log_a), small;
    double extra = exp(fa_min(600.0, a * off)) * alias +
                   3.0 * c->w_sum * c->decay * (1.0 + 2.0 * hypot(a, t) * fabs(off));
    log_r = log(exp(fa_min(log_r, 650.0)) + extra);
    small = log(n) + log(fa_max(n - 1.0, 1e-300)) - 0.69314718055994531 + 2.0 * log_r + (n - 2.0) * big;
    *large_out = fa_max(n * big, log(n) + big) + 1.3862943611198906 +
                 1e-12; /* |A|^n + 1 + n |A| + n <= 4 max(|A|^n, n |A|) for |A| >= 1 */
    return small + 1e-12;
}

/* bound of the rest of the ray from s on: to infinity on a flat curve, where Re(u l) falls along the ray for every
 * node, or cells [s, 2 s] */
FA_FUNC int fa_bent_tail(fa_bent *bent, const fa_pair *m, double c, double s, double eps, double log_tol,
                         double top_max, double need)
{
    double n = bent->steps, mean = bent->mean, kappa = m->kappa, off = kappa - mean;
    int panel, k;
    for (panel = 0; panel < 40; panel++, s *= 2.0) {
        static const double tail_rises[3] = {4.0, 1.0, 16.0};
        double a = c + s * FA_COS_RAY, t = s * FA_SIN_RAY, a2 = a + s * FA_COS_RAY, t2 = 2.0 * t,
               rate = fa_min(-n * mean, -n * kappa) * FA_COS_RAY, al; /* at eps = 0: any eps may be read */
        double first = 0.0, second = 0.0, bound,
               scale = 0.5 * (log(a * a + t * t) + log((a - 1.0) * (a - 1.0) + t * t)),
               reach = fa_max(a - 0.405 * t, a2 - 0.405 * t2);
        if (!fa_curve_fill(&bent->tail, m, a, a - 0.405 * t, t, 1e30, 1.0, 0.0, 0.45, 0.0, need))
            return 0;
        fa_curve_shifts(&bent->tail, m);
        bound = fa_curve_bound(&bent->tail, m, a, t, &al) + a * off;
        first = log(fa_exp_plain_v(fa_min(650.0, n * bound)) + 1.0 +
                    n * (1.0 + exp(fa_min(650.0, fa_max(bound, 0.0))))) +
                n * a * mean - scale - log(rate);
        if (!(n * bound < 650.0))
            first = INFINITY;
        if (first - (a - 1.0) * eps < log_tol) {
            bent->entry_log[bent->n_entries] = first;
            bent->entry_rate[bent->n_entries++] = a - 1.0;
            return 1;
        }
        for (k = 0, first = second = INFINITY; k < 3; k++) {
            double one, two, one_large, two_large;
            if (!fa_curve_fill(&bent->tail, m, a, reach, t, tail_rises[k] * t, top_max, 0.0, 0.45, 0.0, need))
                return 0;
            fa_curve_shifts(&bent->tail, m);
            one = fa_rest_bound(n, fa_curve_bound(&bent->tail, m, a, t, &al) + a * off, a, t,
                                fa_curve_second(&bent->tail, a, t, off, hypot(a2, t2)), &bent->tail, off, al,
                                &one_large) +
                  n * a * mean - scale + log(s);
            two = fa_rest_bound(n, fa_curve_bound(&bent->tail, m, a2, t2, &al) + a2 * off, a2, t2,
                                fa_curve_second(&bent->tail, a2, t2, off, hypot(a2, t2)), &bent->tail, off, al,
                                &two_large) +
                  n * a2 * mean - scale + log(s);
            one_large += n * a * mean - scale + log(s);
            two_large += n * a2 * mean - scale + log(s);
            if (fa_max(one_large - (a - 1.0) * eps, two_large - (a2 - 1.0) * eps) <
                fa_max(one - (a - 1.0) * eps, two - (a2 - 1.0) * eps)) {
                one = one_large;
                two = two_large;
            }
            if (fa_max(one - (a - 1.0) * eps, two - (a2 - 1.0) * eps) <
                fa_max(first - (a - 1.0) * eps, second - (a2 - 1.0) * eps)) {
                first = one;
                second = two;
            }
            if (fa_max(first - (a - 1.0) * eps, second - (a2 - 1.0) * eps) < log_tol)
                break;
        }
        if (!(fa_max(first - (a - 1.0) * eps, second - (a2 - 1.0) * eps) < log_tol + 4.0))
            return 0;
        bent->entry_log[bent->n_entries] = first;
        bent->entry_rate[bent->n_entries++] = a - 1.0;
        bent->entry_log[bent->n_entries] = second;
        bent->entry_rate[bent->n_entries++] = a2 - 1.0;
    }
    return 0;
}

/* evaluate the path from run->c for a run of one sampled Gaussian block; log_tol: log of the error allowed for each
 * entry at eps */
FA_FUNC int fa_bent_evaluate(fa_bent *bent, fa_contour *run, double eps, double log_tol)
{
    static const double node[8] = {0.0950125098376374, 0.2816035507792589, 0.4580167776572274, 0.6178762444026438,
                                   0.7554044083550030, 0.8656312023878318, 0.9445750230732326, 0.9894009349916499};
    static const double gauss[8] = {0.1894506104550685, 0.1826034150449236, 0.1691565193950025, 0.1495959888165767,
                                    0.1246289712555339, 0.0951585116824928, 0.0622535239386479, 0.0271524594117541};
    static const double rises[FA_SHAPES] = {4.0, 1.0, 2.5, 0.6, 1.0, 4.0},
                        fars[FA_SHAPES] = {0.0, 0.0, 1.0, 0.5, 0.0, 0.0},
                        slopes[FA_SHAPES] = {0.45, 0.45, 0.0, 0.1, 0.9, 0.9};
    const fa_block *block = run->blocks;
    const fa_pair *m = &block->pair;
    double n = block->count, off = m->kappa - block->mean, mean = block->mean, c = run->c, s = 0.0,
           half = fa_min(2.0 / sqrt(run->curvature), 0.35 * (c - 1.0)), sigma = m->sigma;
    double top_max = fa_min(1.2, 2.5 / sigma), need = 42.0 + log(n), log_f = 0.0;
    const double long_axis = 0.5 * (FA_ELLIPSE + 1.0 / FA_ELLIPSE), short_axis = 0.5 * (FA_ELLIPSE - 1.0 / FA_ELLIPSE);
    const double log_ellipse = log(64.0 / 15.0 / (1.0 - 1.0 / (FA_ELLIPSE * FA_ELLIPSE))) -
                               (2.0 * FA_PANEL - 2.0) * log(FA_ELLIPSE);
    int panel, k, tries, best = 0, fits, explore = 1;
    double margin = 2.0;
    if (!fa_bent_init(bent))
        return 0;
    bent->n = bent->n_entries = 0;
    bent->sigma = sigma;
    bent->q = m->sample_rate;
    bent->steps = n;
    bent->mean = mean;
    for (panel = 0; panel < FA_PANELS_MAX - 60; panel++) {
        double a_mid = 0.0, r_most = 0.0, excess = 0.0, log_r, mid, corner_log[4], corner_large[4], corner_rate[4],
               worst_large, alias = 0.0, alias0, worst = INFINITY, dist, px, py, dx, dy, least;
        for (tries = 0;; tries++) {
            if (tries > 40)
                return 0;
            mid = s + half;
            dist = 0.0; /* the poles 0 and 1 in the frame of the ellipse's box */
            for (k = 0; k < 2; k++) {
                double ux = (k ? 1.0 : 0.0) - c;
                px = fabs(ux * FA_COS_RAY - mid);
                py = fabs(-ux * FA_SIN_RAY);
                dx = fa_max(px - long_axis * half, 0.0);
                dy = fa_max(py - short_axis * half, 0.0);
                dist += 0.5 * log(dx * dx + dy * dy);
            }
            fits = 0;
            least = INFINITY;
            for (int attempt = 0; attempt < (tries % 3 == 1 ? 1 : FA_SHAPES) && !fits && dist > -1e300; attempt++) {
                if (tries % 3 == 0 && !explore && attempt)
                    break; /* the last panel's curve, then a shorter panel, then the others */
                int which = (best + (explore && tries == 0 ? attempt + 1 : attempt)) % FA_SHAPES, pass;
                double u_far = hypot(c + mid * FA_COS_RAY, mid * FA_SIN_RAY) + (long_axis + short_axis) * half;
                double lean = 0.9 * slopes[which], reach = c + mid * (FA_COS_RAY - lean * FA_SIN_RAY);
                double near = mid - long_axis * half,
                       fall = slopes[which] * (near * FA_SIN_RAY - short_axis * half * FA_COS_RAY) -
                              (c + near * FA_COS_RAY + short_axis * half * FA_SIN_RAY);
                reach += long_axis * half * fabs(FA_COS_RAY - lean * FA_SIN_RAY) +
                         short_axis * half * (FA_SIN_RAY + lean * FA_COS_RAY);
                for (pass = -1; pass < 2; pass++) { /* few nodes; then all without, then with the aliasing error */
                    if (pass < 1 && !fa_curve_fill(&bent->curve, m, c + mid * FA_COS_RAY, reach, mid * FA_SIN_RAY,
                                                   rises[which] * mid * FA_SIN_RAY, which < 4 ? top_max : 1.0,
                                                   fars[which], slopes[which], fall, pass < 0 ? need / 3.0 : need))
                        break;
                    run->budget -= 60.0 * bent->curve.n;
                    if (!(run->budget > 0.0))
                        return 0;
                    worst = worst_large = -INFINITY;
                    a_mid = 0.0;
                    r_most = -INFINITY;
                    for (k = 0; k < 4; k++) {
                        double along = mid + (k & 1 ? long_axis : -long_axis) * half,
                               across = (k & 2 ? short_axis : -short_axis) * half;
                        double a = c + along * FA_COS_RAY - across * FA_SIN_RAY,
                               t = along * FA_SIN_RAY + across * FA_COS_RAY, al = 0.0, b;
                        b = pass > 0 ? fa_curve_bound(&bent->curve, m, a, t, &al)
                                     : log(exp(fa_min(690.0, fa_curve_size(&bent->curve, 0, a, t, 0.0))) +
                                           bent->curve.left_mass);
                        alias = k ? fa_max(alias, al) : al;
                        log_r = fa_curve_second(&bent->curve, a, t, off, u_far);
                        r_most = fa_max(r_most, log_r);
                        corner_log[k] = fa_rest_bound(n, b + a * off, a, t, log_r, &bent->curve, off, al,
                                                      corner_large + k) +
                                        n * a * mean - dist + log_ellipse + log(half);
                        corner_large[k] += n * a * mean - dist + log_ellipse + log(half);
                        corner_rate[k] = a - 1.0;
                        a_mid = fa_max(a_mid, b + a * off);
                        worst = fa_max(worst, corner_log[k] - corner_rate[k] * eps - log_tol);
                        worst_large = fa_max(worst_large, corner_large[k] - corner_rate[k] * eps - log_tol);
                        if (pass < 1 && fa_min(worst, worst_large) > (pass < 0 ? 0.3 : 0.0))
                            break;
                    }
                    if (worst_large < worst) {
                        worst = worst_large;
                        memcpy(corner_log, corner_large, sizeof(corner_log));
                    }
                    least = fa_min(least, worst);
                    if (!(worst <= (pass < 0 ? 0.3 : 0.0)))
                        break;
                    if (pass < 0)
                        continue;
                    excess = log(n * alias + 1e-300) + log(half) - dist - (c + mid * FA_COS_RAY - 1.0) * eps +
                             fa_max(0.0, n * (a_mid + alias)) + fa_min(0.7, log(n) + r_most) - log_tol;
                    if (pass > 0 && !(n * alias < 0.01 && excess <= 0.0))
                        break;
                    if (pass == 0)
                        fa_curve_shifts(&bent->curve, m);
                }
                if (pass == 2) {
                    fits = 1;
                    best = which;
                }
                else if (pass == 1 && worst <= 0.0 && excess < 40.0 &&
                         need < 140.0 + log(n)) { /* everything but the aliasing error: finer nodes */
                    need += fa_max(excess, 0.0) + 3.0;
                    attempt--;
                }
            }
            if (fits)
                break;
            half *= least > 15.0 ? 0.5 : 0.75;
        }
        for (k = 0; k < 4; k++) {
            bent->entry_log[bent->n_entries] = corner_log[k];
            bent->entry_rate[bent->n_entries++] = corner_rate[k];
        }
        run->budget -= 500.0 * bent->curve.n;
        alias0 = 3.0 * bent->curve.w_sum * bent->curve.decay;
        for (k = 0; k < FA_PANEL; k++) {
            double x = k < 8 ? -node[7 - k] : node[k - 8], w = gauss[k < 8 ? 7 - k : k - 8], at = mid + half * x,
                   a = c + at * FA_COS_RAY, t = at * FA_SIN_RAY;
            double re, im, err, li, lr, si, sr, dr, di, er, ei = 0.0, size, one;
            int i = bent->n++;
            re = fa_curve_value(&bent->curve, a, t, off, &im, &err);
            sr = fa_clog_second(re, im, &si); /* log A - R */
            lr = re + sr;
            li = im + si;
            dr = n * lr; /* rest = exp2(n log A) + n (log A - R) */
            di = n * li;
            er = dr < 690.0 ? fa_cexp2_v(dr, di, &ei) : INFINITY;
            er += n * sr;
            ei += n * si;
            size = hypot(er, ei);
            if (!(size < 1e300))
                return 0;
            bent->zr[i] = n * mean * a + log(fa_max(size, 1e-300)) -
                          0.5 * (log(a * a + t * t) + log((a - 1.0) * (a - 1.0) + t * t)) + log(w * half);
            bent->zi[i] = n * mean * t + fa_angle_v(ei, er) - atan2(t, a) - atan2(t, a - 1.0) + 75.0 * FA_PI / 180.0;
            bent->rate[i] = a - 1.0;
            bent->t[i] = t;
            /* d rest/dR = n (A^(n-1) - 1); error of R: rounding, aliasing (with and without exp(u l)), the mean */
            one = hypot(1.0 + re, im);
            err += fa_curve_end(&bent->curve, a, t, off);
            err += exp(fa_min(600.0, a * off)) * alias + alias0 * (1.0 + 2.0 * hypot(a, t) * fabs(off)) +
                   hypot(a, t) * block->mean_error + 4e-17 * (1.0 + hypot(a, t) * fabs(off));
            size = n * err * fa_min(exp(dr) / one + 1.0, 1.1 * n * (hypot(re, im) + err) * fa_max(1.0, exp(dr) / one)) /
                   fa_max(size, 1e-300);
            bent->error[i] = size + 8.0 * FA_EPS *
                                        (fabs(bent->zr[i]) + fabs(bent->zi[i]) + (fabs(a - 1.0) + t) * eps + 30.0 +
                                         4.0 * n * (fabs(re) + fabs(im)));
            log_f = bent->zr[i] - log(w * half) - (a - 1.0) * eps;
        }
        s += 2.0 * half;
        /* the tail's bound may exceed |F| by far: then a little further along; log(s) because a cell is that long */
        if (log_f + fa_max(log(s), -log(fa_max(eps, 1e-300) * FA_COS_RAY)) < log_tol - margin) {
            int entries = bent->n_entries;
            if (fa_bent_tail(bent, m, c, s, eps, log_tol, top_max, need))
                return 1;
            bent->n_entries = entries;
            margin += 6.0;
        }
        explore = tries >= 2 || (tries && half < 0.15 * mid);
        half *= explore || !tries ? 1.3 : 1.1;
    }
    return 0;
}

/* delta(eps) = n e^((n-1) mean) delta_1(eps - (n-1) mean) + what the path adds */
FA_FUNC void fa_bent_read(const fa_bent *b, double eps, fa_reading *out)
{
    double s = 0.0, ds = 0.0, weighted = 0.0, ref = -INFINITY, error = 0.0, n1 = b->steps - 1.0,
           eps1 = eps - n1 * b->mean, head, value, tail_loss, size, top, first, x, unused;
    const double *zr = b->zr, *zi = b->zi, *rate = b->rate, *t = b->t, *rel = b->error;
    fa_interval one = fa_one_step(b->sigma, b->q, 1, eps1);
    int k, n = b->n;
    for (k = 0; k < n; k++)
        ref = fa_max(ref, zr[k] - rate[k] * eps);
    FA_PRAGMA(omp simd reduction(+ : s, ds, weighted))
    for (k = 0; k < n; k++) {
        double c, e = fa_exp_plain_v(FA_FMA(-rate[k], eps, zr[k]) - ref),
                  sn = fa_sincos_v(FA_FMA(-eps, t[k], zi[k]), &c);
        s = FA_FMA(e, sn, s);
        ds += e * FA_FMA(rate[k], sn, t[k] * c);
        weighted = FA_FMA(e, rel[k], weighted);
    }
    head = log(b->steps) + n1 * b->mean + 0.5 * (one.lower + one.upper);
    if (!(one.lower > -INFINITY))
        head = one.upper > -INFINITY ? log(b->steps) + n1 * b->mean + one.upper : -INFINITY;
    top = fa_max(head, ref);
    size = exp(ref - top) / FA_PI;
    first = exp(head - top);
    value = first + s * size;
    /* -d delta_1/d eps = e^eps Q(loss > eps) */
    x = (b->sigma * b->sigma * (eps1 > 600.0 ? eps1 - log(b->q) : log1p(expm1(eps1) / b->q)) + 0.5) / b->sigma;
    tail_loss = exp(fa_min(600.0, eps1 + n1 * b->mean + log(b->steps) - top - 0.5 * x * x - FA_LOG_SQRT_2PI +
                                      log(fa_mills(fa_max(x, -30.0), &unused))));
    for (k = 0; k < b->n_entries; k++)
        error += exp(fa_min(b->entry_log[k] - b->entry_rate[k] * eps - top, 300.0));
    out->log_value = value > 0.0 ? top + log(value) : -INFINITY;
    out->slope = value > 0.0 ? -(tail_loss + ds * size) / value : -1.0;
    error = first * (one.lower > -INFINITY ? expm1(fa_min(0.5 * (one.upper - one.lower), 700.0)) : 1.0) +
            4.0 * FA_EPS *
                ((fabs(head) + log(b->steps) + fabs(n1 * b->mean) + fabs(one.upper) + 1.0) * first +
                 eps1 * (tail_loss + first)) +
            1.01 * (weighted * size + error / FA_PI);
    out->relative = value > 0.0 ? error / value + 1e-15 : INFINITY;
    out->alias = out->relative; /* two-sided */
}

#endif
