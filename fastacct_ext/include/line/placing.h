/* line/placing.h -- a composed run, K at real points, and where to put the vertical line: saddle, cut, step.
 *
 * Nothing here needs to be exact except Chernoff's points, which bound the aliases (line/contour.h); the choices are
 * about cost.
 */
#ifndef FA_PLACING_H
#define FA_PLACING_H

#include "../loss/phasors.h"

#define FA_TOLERANCE  28.4 /* -log of the relative error aimed at for each entry of the ledger, 5e-13 */
#define FA_COARSE     9.0  /* the same where only a comparison is wanted */
#define FA_POINTS_MAX (1 << 18)
#define FA_WORK_MAX   3e7 /* nodes times points, about 10 ms: beyond it the line is given up */
#define FA_BUDGET     1e8 /* the same for all of a cell, about 30 ms */

typedef struct {
    fa_pair pair;
    double count;
    fa_nodes real, line;
    double real_left, real_right; /* ends the real line was filled for */
    double mean, mean_error;      /* of the loss under Q, and the bound of its error */
    double error;                 /* |error of r| on the line, bound */
    double size, extra;           /* bound of E_Q |exp(u l) - 1 - u l| there, log of how far it exceeds |M| */
    double cut, cut_loss;         /* records beyond this z are left out of the sums; the loss there */
} fa_block;

typedef struct {
    int n_blocks;
    fa_block *blocks;
    double mu2;   /* sum of count mean^2/sigma^2 of the plain Gaussian blocks: K = u (u-1) mu2/2 */
    double total; /* sum of counts of the others */
    int sign;     /* +1 remove, -1 add */
    double cut,
        log_cut; /* the blocks' cut in standard deviations beyond P's last mean, and log of what delta loses by it */
    double
        budget; /* work left for this cell, in phasor steps of one node: what costs more is refused, on the safe side */
    double tolerance; /* -log of the relative error aimed at */
    /* the line */
    double c, h, t_end;
    double saddle_k, curvature;              /* K(c), second derivative of the exponent there */
    double right, right_log, left, left_log; /* Chernoff points and K + log B there */
    double log_tail;                         /* log of the tail's bound at eps = 0 */
    double slop;                             /* rounding of K at the Chernoff points */
    double relative;                         /* sum of count * error of r, to be multiplied by 1/|1 + r| */
    double block_sum;                        /* several blocks: largest sum over them of |their share of K| */
    int n, capacity;
    double *zr, *zi, *inverse; /* log F at eps = 0, and largest 1/|1 + r| */
    double *memory;
} fa_contour;

typedef struct {
    double log_value; /* log of the sum */
    double slope;     /* d log/d eps, negative */
    double relative;  /* error of the sum over it, without aliasing */
    double alias;     /* aliasing over the sum: the sum is too large by at most this */
} fa_reading;

FA_FUNC void fa_contour_free(fa_contour *run)
{
    int b;
    for (b = 0; b < run->n_blocks && run->blocks; b++) {
        fa_nodes_free(&run->blocks[b].real);
        fa_nodes_free(&run->blocks[b].line);
    }
    free(run->memory);
    run->memory = 0;
    run->capacity = 0;
}

FA_FUNC int fa_contour_reserve(fa_contour *run, int n)
{
    int c = run->capacity ? run->capacity : 128;
    double *p;
    if (n <= run->capacity)
        return 1;
    while (c < n)
        c *= 2;
    p = fa_alloc(sizeof(double) * 3 * (size_t)c);
    if (!p)
        return 0;
    if (run->n > 0) {
        memcpy(p, run->zr, sizeof(double) * (size_t)run->n);
        memcpy(p + c, run->zi, sizeof(double) * (size_t)run->n);
        memcpy(p + 2 * (size_t)c, run->inverse, sizeof(double) * (size_t)run->n);
    }
    free(run->memory);
    run->memory = p;
    run->capacity = c;
    run->zr = p;
    run->zi = p + c;
    run->inverse = p + 2 * (size_t)c;
    return 1;
}

/* forget everything about the run before; the blocks' parameters have changed */
FA_FUNC void fa_contour_reset(fa_contour *run)
{
    int b;
    run->n = 0;
    run->budget = FA_BUDGET;
    run->tolerance = FA_TOLERANCE;
    run->cut = INFINITY;
    run->log_cut = -INFINITY;
    for (b = 0; b < run->n_blocks; b++) {
        run->budget += b < 64 ? 0.1 * FA_BUDGET : 0.0;
        run->blocks[b].real.n = run->blocks[b].line.n = 0;
        run->blocks[b].real_left = INFINITY;
        run->blocks[b].real_right = -INFINITY;
        run->blocks[b].cut = INFINITY;
    }
}

/* leave out records beyond z = cut, for a delta of about exp(log_delta).  delta of the rest is smaller by at most P(any
 * record beyond), but M does not explode where only such records contribute.  The line's integrand must have died at
 * the cut: `margin` is -log of what the cut may take, beyond the tolerance; inf: no cut.  Direction remove only: the
 * other way there is no such explosion */
FA_FUNC void fa_contour_cut(fa_contour *run, double log_delta, double margin)
{
    double x = 0.25 * ceil(4.0 * sqrt(2.0 * (FA_TOLERANCE + margin + log(run->total + 1.0) - fa_max(-1e4, log_delta)))),
           unused;
    int b;
    if (run->sign < 0 || x == run->cut)
        return;
    run->cut = x;
    run->log_cut = log(run->total + 1e-300) - 0.5 * x * x;
    for (b = 0; b < run->n_blocks; b++) {
        fa_pair *m = &run->blocks[b].pair;
        run->blocks[b].cut = m->p_top + x * m->sigma;
        run->blocks[b].cut_loss = x < INFINITY ? m->kappa + fa_pair_loss(m, run->blocks[b].cut, &unused, &unused)
                                               : INFINITY;
        run->blocks[b].real_right = -INFINITY;
    }
}

/* log of the integrand of a cut line at its end, at real u */
FA_INLINE double fa_log_edge(const fa_block *block, double u)
{
    return u * (block->cut_loss - block->mean) - 0.5 * block->cut * block->cut * block->pair.inv_var;
}

FA_INLINE double fa_line_need(const fa_contour *run)
{
    return run->total > 1e5 ? FA_NEED + 7.0 * ceil(log(run->total / 1e5) / 7.0) : FA_NEED;
}

/* the other direction of the same run: its real line serves here where its step is fine enough for this direction's
 * narrower strip; beyond the cut only losses matter that this direction makes harmless */
FA_FUNC void fa_share_real(fa_contour *run, const fa_contour *other)
{
    int b;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *to = run->blocks + b;
        const fa_block *from = other->blocks + b;
        size_t size = sizeof(double) * (size_t)from->real.n;
        double y, alias, h = fa_line_step(&to->pair, run->sign > 0 ? 2.0 : -1.0, 0.0, fa_line_need(run), &y, &alias);
        if (!(from->real.h <= h))
            continue;
        if (to->real.n > 0 || from->real.n == 0 || !(from->real_left < from->real_right) ||
            !fa_nodes_reserve(&to->real, from->real.n))
            continue;
        to->real.n = from->real.n;
        to->real.j0 = from->real.j0;
        to->real.h = from->real.h;
        to->real.y = 0.0;
        memcpy(to->real.lr, from->real.lr, size);
        memcpy(to->real.wr, from->real.wr, size);
        memcpy(to->real.log_w, from->real.log_w, size);
        to->real_left = from->real_left;
        to->real_right = from->real_right;
        to->mean = from->mean;
        to->mean_error = from->mean_error;
    }
}

FA_INLINE double fa_line_u(const fa_contour *run, double v) { return run->sign > 0 ? v : 1.0 - v; }

/* K at v real, with derivatives in v; +inf where a term would overflow, NaN out of memory or nodes */
FA_FUNC double fa_real_k(fa_contour *run, double v, double *d1_out, double *d2_out)
{
    double u = fa_line_u(run, v), k = 0.5 * v * (v - 1.0) * run->mu2, d1 = (v - 0.5) * run->mu2, d2 = run->mu2, alias,
           y;
    int b;
    *d1_out = *d2_out = 0.0;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        double left, right, s1, s2, r, one;
        int is_cut;
        fa_pair_ends(&block->pair, u, &left, &right);
        if ((is_cut = right > block->cut))
            right = block->cut;
        if (left < block->real_left || right > block->real_right) {
            double h = fa_line_step(&block->pair, u, 0.0, fa_line_need(run), &y, &alias), far_left, far_right;
            fa_pair_ends(&block->pair, u > 0.0 ? 1.0 + 1.6 * (u - 1.0) : 1.6 * u, &far_left, &far_right);
            if (block->cut < INFINITY)
                far_right = block->cut;
            block->real_left = fa_min(fa_min(left, far_left) - 0.5 * block->pair.sigma,
                                      block->real_left); /* a little further: for the other direction */
            far_right = fa_min(fa_max(far_right, fa_mean_end(&block->pair)), block->cut);
            block->real_right = fa_max(right, fa_max(far_right, block->real_right));
            if (!fa_nodes_fill(&block->real, &block->pair, h, 0.0, block->real_left, block->real_right)) {
                block->real_left = INFINITY;
                block->real_right = -INFINITY;
                block->real.n = 0;
                return NAN;
            }
            run->budget -= 20.0 * block->real.n;
            block->mean = fa_mean_loss(&block->real, block->pair.kappa);
            block->mean_error = fa_mean_error(&block->pair, block->mean, fa_line_need(run));
            fa_nodes_shift(&block->real, block->pair.kappa - block->mean);
            fa_nodes_cut(&block->real, block->cut);
        }
        run->budget -= 3.0 * block->real.n;
        if (!(run->budget > 0.0))
            return NAN;
        r = fa_real_sums(&block->real, u, right, &s1, &s2);
        if (!(r < INFINITY) || (is_cut && !(fa_log_edge(block, u) + log(run->total) < -30.0 + log1p(r))))
            return INFINITY; /* the cut would show */
        one = 1.0 / (1.0 + r);
        k += block->count * (u * block->mean + log1p(r));
        d1 += run->sign * block->count * (block->mean + s1 * one);
        d2 += block->count * (s2 * one - s1 * one * (s1 * one));
    }
    *d1_out = d1;
    *d2_out = d2;
    return k;
}

/* about the second derivative of K at small u, 0 where there is no formula */
FA_INLINE double fa_flat_variance(const fa_contour *run)
{
    const fa_pair *m = &run->blocks[0].pair;
    if (run->n_blocks != 1 || !(m->sample_rate > 0.0) || m->inv_var > 20.0)
        return 0.0;
    return run->mu2 + run->blocks[0].count * m->sample_rate * m->sample_rate * expm1(m->inv_var) /
                          (1.0 + m->sample_rate * expm1(m->inv_var));
}

/* the saddle for given eps; or (log_delta given, eps NaN) the one where the saddle-point approximation of delta is
 * exp(log_delta). A guess only: any c serves, at a cost.  Returns 0 on failure. */
FA_FUNC int fa_saddle(fa_contour *run, double eps, double log_delta, double *eps_out)
{
    double d1, d2, k, x, low = -40.0, high = 40.0, v, psi2, eps_s, flat;
    int i, for_eps = eps != eps;
    flat = fa_flat_variance(run);
    d2 = flat;
    d1 = 0.5 * flat;
    if (!(flat > 0.0)) {
        k = fa_real_k(run, 1.0, &d1, &d2);
        if (!(d2 > 0.0))
            return 0;
        flat = d2;
    }
    x = for_eps ? sqrt(fa_max(-2.0 * log_delta, 1.0) / d2) : fa_max((eps - d1) / d2, 1.0 / sqrt(d2));
    x = log(fa_min(fa_max(x, 1e-12), 1e9));
    for (i = 0; i < 80; i++) {
        double step, rest;
        v = 1.0 + exp(x);
        k = fa_real_k(run, v, &d1, &d2);
        if (!(k < 1e300) || !(d2 > 0.0)) { /* too far */
            high = x;
            x = fa_max(0.5 * (x + low), x - 1.5);
            continue;
        }
        psi2 = d2 + 1.0 / (v * v) + exp(-2.0 * x);
        eps_s = d1 - 1.0 / v - exp(-x);
        if (for_eps) { /* the saddle-point approximation of log delta falls like -(v-1) psi2 */
            rest = k - (v - 1.0) * eps_s - log(v) - x - 0.5 * log(2.0 * FA_PI * psi2) - log_delta;
            step = rest / ((v - 1.0) * (v - 1.0) * psi2);
        }
        else {
            rest = eps - eps_s;
            step = rest / ((v - 1.0) * psi2);
        }
        if (rest > 0.0)
            low = x;
        else
            high = x;
        if (fabs(step) * (v - 1.0) * sqrt(psi2) < 0.4 || high - low < 1e-12)
            break;
        step = fa_max(-2.0, fa_min(2.0, step));
        x += step;
        if (!(x > low && x < high) || (i % 3 == 2 && high - low < 16.0))
            x = 0.5 * (fa_max(low, high - 8.0) + fa_min(high, low + 8.0));
    }
    if (i == 80 || (for_eps && !(eps_s > 0.0 && d2 < 100.0 * flat) && !(x < 0.0)))
        return 0;
    run->c = v;
    run->saddle_k = k;
    run->curvature = psi2;
    *eps_out = for_eps ? eps_s : eps;
    return 1;
}

/* Chernoff's bound of log delta at eps, with K + log B and a slope for Newton's method */
FA_INLINE double fa_chernoff(fa_contour *run, double v, double eps, double *base_out, double *slope_out,
                             double *curve_out)
{
    double d1, d2, k = fa_real_k(run, v, &d1, &d2);
    *base_out = k + fa_log_b(v);
    *slope_out = d1 - eps + log((v - 1.0) / v);
    *curve_out = d2 + 1.0 / (v * (v - 1.0));
    return k < 1e300 ? *base_out - (v - 1.0) * eps : k;
}

/* the point that needs the coarsest step on one side of c: min over v of (Chernoff(v) - log_tol)/|v - c|, the tangent
 * from (c, log_tol). Returns the rate 2 pi/h it asks for, inf when there is none, NaN on failure.  x: distance to start
 * from. */
FA_FUNC double fa_tangent(fa_contour *run, double c, double side, double x, double eps, double log_tol, double *at_out,
                          double *base_out)
{
    double best = INFINITY;
    int i;
    for (i = 0; i < 10; i++) {
        double base, slope, curve, v = c + side * x, g, num = fa_chernoff(run, v, eps, &base, &slope, &curve) - log_tol;
        if (num != num)
            return NAN;
        if (!(num < 1e300)) {
            x *= 0.3;
            continue;
        }
        if (num > 0.0 && num < best * x) {
            best = num / x;
            *at_out = v;
            *base_out = base;
        }
        g = x * side * slope - num;
        if (g * g < 0.15 * x * x * curve * num) /* what another step would gain: less than 7 % */
            break;
        x = fa_max(0.3 * x, fa_min(3.0 * x, x - g / (x * curve)));
        if (side < 0.0 && !(x < 0.98 * (c - 1.0)))
            x = 0.98 * (c - 1.0);
    }
    return best;
}

#define FA_AMPLIFY 2.5 /* log of how far |F| on the line may exceed its minimum over all lines */

/* place c so that the sum's aliases are below exp(log_tol) with the largest step, and h that step.
 * The best c is not the saddle: where M explodes to the right (one large jump), a line further left needs far fewer
 * points. */
FA_FUNC int fa_choose_step(fa_contour *run, double eps, double log_tol)
{
    double saddle = run->c, width = 1.0 / sqrt(run->curvature),
           least = run->saddle_k - (saddle - 1.0) * eps - log(saddle) - log(saddle - 1.0);
    double right = INFINITY, left = INFINITY, x_right = 6.5 * width, x_left = fa_min(6.5 * width, 0.5 * (saddle - 1.0)),
           c = saddle, d1, d2, k;
    int round, tries;
    for (round = 0; round < 6; round++) {
        double pole, next, level, stop;
        right = fa_tangent(run, c, 1.0, x_right, eps, log_tol, &run->right, &run->right_log);
        left = fa_tangent(run, c, -1.0, x_left, eps, log_tol, &run->left, &run->left_log);
        pole = -log_tol / (c - 1.0); /* delta <= 1 */
        if (right != right || left != left)
            return 0;
        if (!(left < pole)) {
            left = pole;
            run->left = 1.0;
            run->left_log = 0.0;
        }
        if (fa_max(right, left) < 1.6 * fa_min(right, left) || !(right < INFINITY))
            break;
        if (round == 5)
            break;
        /* where both tangents would ask for the same step, or as near as the amplification allows */
        next = (run->left * right * (run->right - c) + run->right * left * (c - run->left)) /
               (right * (run->right - c) + left * (c - run->left));
        stop = c;
        level = INFINITY;
        for (tries = 0; tries < 8; tries++) {
            k = fa_real_k(run, next, &d1, &d2);
            if (k != k)
                return 0;
            level = k - (next - 1.0) * eps - log(next) - log(next - 1.0);
            if (level < least + FA_AMPLIFY)
                break;
            next = 0.5 * (next + stop);
        }
        if (tries == 8)
            break;
        x_right = fa_max(run->right - next, 1e-3 * width);
        x_left = fa_min(fa_max(next - run->left, 1e-3 * width), 0.98 * (next - 1.0));
        if (fabs(next - c) < 0.02 * fabs(run->right - run->left)) {
            break;
        }
        c = next;
    }
    if (!(right < INFINITY))
        return 0;
    run->c = c;
    run->h = 2.0 * FA_PI / fa_max(right, left);
    run->h = fa_from_bits(fa_bits(run->h) & ~((1ULL << 20) - 1)); /* k h is exact */
    return 1;
}

#endif
