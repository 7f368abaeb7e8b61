/* line/mixture_tail.h -- majorants of a step of Gaussian mixtures for all Im u >= t: the tail of a capped line.
 *
 * |E_Q[exp(u l) keep]| <= integral of |Q keep| exp(c Re l - t Im l) |dz| on z = s^2 (xi + i theta(xi)), theta >= 0 a
 * rise on either side, of height `top`: Im l >= 0 there.  docs/algorithms/line.md, "Mixtures".
 */
#ifndef FA_LINE_MIXTURE_TAIL_H
#define FA_LINE_MIXTURE_TAIL_H

#include "capped_line.h"
#include "mixture_powers.h"

#define FA_MIX_TURN  0.9 /* of the angle up to which exp(u l) falls with it: heights of both sides add up */
#define FA_MIX_STRIP 1.2 /* half width, in xi, of the strip of the sum's own error, at most */
#define FA_MIX_FADE  0.5 /* width, in xi, in which cells take over from that strip, at most ... */
#define FA_MIX_WIDE  2.4 /* ... and the strip over it */

/* a good height of the curve of either family, times `lower`: t/sigma^2 is the saddle's, but the cap's window
 * grows as exp(y^2/(2 width^2)) */
FA_FUNC double fa_cap_curve_top(const fa_cap_block *block, const fa_cap_line *line, double t, double lower)
{
    const fa_cap_windows *w = &block->w;
    const fa_cap_nodes *s = &block->nodes;
    double s2 = block->sigma * block->sigma, top = fa_min(block->pair->n_q ? 0.95 : 1.9, t / s2), c = line->plan.tilt,
           mean = s->mean - block->kappa, a, stiff, turn, weight, ta, root;
    if (w->cap < s->z[s->sum.n - 1] + 3.0 * block->sigma) {
        a = fa_cap_posterior(block, w->cap);
        stiff = s2 * s2 / (w->width * w->width);
        turn = w->width * block->inv_var * (c * a - w->cap);
        weight = fa_min(1.0, -0.5 * w->cap * w->cap * block->inv_var + c * (fa_cap_l(block, w->cap) - mean) +
                                 log(w->width / block->sigma) + 0.5 * turn * turn) +
                 log(block->steps) + 6.0;
        ta = t * a;
        root = ta * ta - 2.0 * stiff * weight;
        stiff += s2;
        top = fa_min(top, root > ta * ta ? fa_max(ta, 0.75 * (ta + sqrt(root))) / stiff
                                         : (ta + sqrt(fa_max(0.0, root))) / stiff);
    }
    return fa_max(1e-4, lower * fa_max(top, 1e-4));
}

/* the same for the large losses, whose floor's window grows likewise */
FA_FUNC double fa_cap_curve_top_large(const fa_cap_block *block, const fa_cap_line *line, double t, double lower)
{
    const fa_cap_windows *w = &block->w;
    double s2 = block->sigma * block->sigma, stiff = s2 / w->floor_width,
           most = lower * t * fa_cap_posterior(block, w->floor) / (stiff * stiff + s2);
    return fa_max(fa_min(1e-4, t / s2), fa_min(fa_min(1.4, fa_cap_curve_top(block, line, t, lower)), most));
}

/* theta = top E/(1 + E) on either side, E = (f + sum w_i m_i e^(m_i xi))/level: about where s^2 theta^2/2 - t A theta
 * is least, A = E level the posterior mean where records are hardly moved */
typedef struct {
    double top, level_p, level_q; /* the latter over what both sides weigh at 0 */
    double fade, wide;     /* xi where cells take over, and in what width */
    double strip, c, t, u; /* half width of the strip; Re u, Im u, |u| */
    double drift;          /* mean of the loss less kappa */
    double rounding;       /* of log |Q exp(u l)|: both log(1 + w) to (16,000 + 16 (1 + |z|)/s^2) u */
} fa_mix_curve;

/* sums of m w, m^2 w and m^3 w of one side over `level` at some z, the first with `still` */
FA_FUNC void fa_mix_rise(int n_comp, const double *mean, const double *log_weight, double inv_var, double still,
                         double level, int n, const double *z, double *rise, double *slope, double *swing)
{
    int i, j;
    for (j = 0; j < n; j++) {
        rise[j] = still / level;
        slope[j] = swing[j] = 0.0;
    }
    for (i = 0; i < n_comp; i++) {
        double m = fabs(mean[i]), rate = mean[i] * inv_var, at = log_weight[i] + log(m / level);
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double e = fa_exp_plain_v(fa_min(300.0, FA_FMA(rate, z[j], at)));
            rise[j] += e;
            slope[j] = FA_FMA(m, e, slope[j]);
            swing[j] = FA_FMA(m * m, e, swing[j]);
        }
    }
}

/* E/(1 + E) of one side, E being the first sum, its slope in xi, and a bound of its first two derivatives and of its
 * third over 3.3 in the strip, half = cos(strip/2): docs/algorithms/line.md, "Mixtures", "Tail" */
FA_FUNC void fa_mix_risen(double half, int n, double *rise, double *slope, double *swing)
{
    int j;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double all = fa_max(rise[j], 1e-300), average = slope[j] / all, low = 1.0 / (1.0 + rise[j]),
               variance = fa_max(0.0, swing[j] / all - average * average) / (half * half),
               most = average + sqrt(variance), part = rise[j] * low * low;
        rise[j] *= low;
        slope[j] *= low * low;
        swing[j] = part / (half * half) * (most * fa_max(1.0, most * most) + 4.0 * variance);
    }
}

FA_FUNC fa_mix_curve fa_mix_curve_of(const fa_cap_block *block, const fa_cap_line *line, double t, double top)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_pair *m = block->pair;
    double s2 = block->sigma * block->sigma, level, cap;
    int i;
    fa_mix_curve out;
    out.c = line->plan.tilt;
    out.top = fa_min(top, m->n_q ? 0.95 : 1.9);
    if (m->n_q || out.c < 0.0)
        out.top = fa_min(out.top, FA_MIX_TURN * atan(t / fabs(out.c)));
    level = (0.02 + s2) * out.top / t;
    out.level_p = level * exp(fa_log1p_sum(m->n_p, m->p_mean, m->p_log, m->inv_var, 0.0));
    out.level_q = level * exp(fa_log1p_sum(m->n_q, m->q_mean, m->q_log, m->inv_var, 0.0));
    out.strip = fa_min(fa_min(FA_MIX_STRIP, 2.6 - (m->n_q ? 2.2 : 1.1) * out.top), FA_PI / (s->h * s2));
    cap = block->w.cap * block->inv_var;
    out.wide = (cap + 9.0 / block->sigma - s->z[s->sum.n - 1] * block->inv_var) / 16.0; /* away from the tilted mass */
    out.wide = fa_max(out.strip / FA_MIX_WIDE, fa_min(FA_MIX_FADE, out.wide));
    out.fade = cap - 4.0 * out.wide;
    for (i = 0; i < m->n_p; i++)
        out.fade = fa_min(out.fade, (3.0 + log(out.level_p / m->p_mean[i]) - m->p_log[i]) / m->p_mean[i]);
    out.t = t;
    out.u = sqrt(out.c * out.c + t * t);
    out.drift = s->mean - block->kappa;
    out.rounding = (2.0 + fabs(out.c) + t) * FA_EPS *
                   (1.6e4 + 16.0 * block->inv_var * (1.0 + fa_max(-s->z[0], s->z[s->sum.n - 1])));
    return out;
}

/* the curve at some nodes: theta, theta', a bound of |theta'| and |theta''| in the strip, and log(1 + w_P), log(1 +
 * w_Q) there */
typedef struct {
    double theta[FA_MIX_CHUNK], turn[FA_MIX_CHUNK], swing[FA_MIX_CHUNK];
    double pr[FA_MIX_CHUNK], pi[FA_MIX_CHUNK], qr[FA_MIX_CHUNK], qi[FA_MIX_CHUNK];
} fa_mix_chunk;

/* log(1 + w) of one side at z + i s^2 theta; the phases lie between 0 and theta < pi */
FA_FUNC void fa_mix_side_off(int n_comp, const double *mean, const double *log_weight, double inv_var, int n,
                             const double *z, const double *theta, double *re, double *im)
{
    double top[FA_MIX_CHUNK], sr[FA_MIX_CHUNK] = {0.0}, si[FA_MIX_CHUNK] = {0.0};
    int i, j;
    fa_mix_top(n_comp, mean, log_weight, inv_var, n, z, top);
    for (i = 0; i < n_comp; i++) {
        double rate = mean[i] * inv_var, at = log_weight[i], m = mean[i];
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double e = fa_exp_plain_v(fa_max(-690.0, FA_FMA(rate, z[j], at) - top[j])), co,
                   sn = fa_sincos_v(m * theta[j], &co);
            sr[j] = FA_FMA(e, co, sr[j]);
            si[j] = FA_FMA(e, sn, si[j]);
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double one = fa_exp_plain_v(fa_max(-690.0, -top[j])), x = one + sr[j], near_im,
               near = fa_clog1p_v(fa_max(-0.9, fa_min(sr[j], 1e300)), si[j], &near_im);
        int is_far = top[j] > 0.0;
        re[j] = is_far ? top[j] + 0.5 * fa_log_v(x * x + si[j] * si[j]) : near;
        im[j] = is_far ? fa_angle_v(si[j], x) : near_im;
    }
}

FA_FUNC void fa_mix_fill_chunk(const fa_cap_block *block, const fa_mix_curve *curve, int first, int n,
                               fa_mix_chunk *out)
{
    const fa_pair *m = block->pair;
    const double *z = block->nodes.z + first;
    double half = cos(0.5 * curve->strip), inv_var = block->inv_var, top = curve->top,
           up[FA_MIX_CHUNK], rise[FA_MIX_CHUNK], more[FA_MIX_CHUNK], down[FA_MIX_CHUNK], fall[FA_MIX_CHUNK],
           less[FA_MIX_CHUNK];
    fa_mix_powers p, q;
    int j, p_powers = fa_mix_powers_of(m, m->n_p, m->p_mean, m->p_log, n, z, &p),
           q_powers = fa_mix_powers_of(m, m->n_q, m->q_mean, m->q_log, n, z, &q);
    if (p_powers)
        fa_mix_powers_rise(&p, inv_var, m->p_from, curve->level_p, n, z, up, rise, more);
    else
        fa_mix_rise(m->n_p, m->p_mean, m->p_log, inv_var, m->p_from, curve->level_p, n, z, up, rise, more);
    if (q_powers)
        fa_mix_powers_rise(&q, inv_var, 0.0, curve->level_q, n, z, down, fall, less);
    else
        fa_mix_rise(m->n_q, m->q_mean, m->q_log, inv_var, 0.0, curve->level_q, n, z, down, fall, less);
    fa_mix_risen(half, n, up, rise, more);
    fa_mix_risen(half, n, down, fall, less);
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        out->theta[j] = top * (up[j] + down[j]);
        out->turn[j] = top * (rise[j] - fall[j]);
        out->swing[j] = top * (more[j] + less[j]);
    }
    if (p_powers)
        fa_mix_powers_off(&p, inv_var, n, z, out->theta, out->pr, out->pi);
    else
        fa_mix_side_off(m->n_p, m->p_mean, m->p_log, inv_var, n, z, out->theta, out->pr, out->pi);
    if (q_powers)
        fa_mix_powers_off(&q, inv_var, n, z, out->theta, out->qr, out->qi);
    else
        fa_mix_side_off(m->n_q, m->q_mean, m->q_log, inv_var, n, z, out->theta, out->qr, out->qi);
}

/* bound of |(log g)''| in the strip, g = Q exp(u l) dz/dxi on the curve; at least 1e9 where phases may wind */
FA_INLINE double fa_mix_bend(const fa_mix_curve *curve, double s2, double xi, double moved, double spread, double theta,
                             double swing)
{
    double d = curve->strip, phase = theta + d * (1.0 + swing), shift = fa_exp_plain_v(d * swing), co, inv, l1, l2,
           one = (1.0 + swing) * (1.0 + swing), more = swing / fa_max(1e-3, 1.0 - swing);
    (void)fa_sincos_v(0.5 * phase, &co);
    inv = 1.0 / fa_max(co, 1e-3);
    l1 = moved * shift * inv;
    l2 = spread * shift * inv * (1.0 + inv);
    return s2 * (one + (fabs(xi) + phase) * swing) + (curve->u + 1.0) * (l2 * one + l1 * swing) + 3.3 * more +
           more * more + (phase < 3.0 && swing < 0.9 ? 0.0 : 1e9);
}

/* Log of a bound of |exp(u l)| over exp(c l) where the curve turns by theta at most: nothing where |c| tan theta <= t,
 * for there c Re l - t Im l falls in the angle; else |1 + w| >= (1 + w) cos(theta/2), for c < 0 and for Q's side */
FA_FUNC double fa_mix_turned(const fa_pair *m, const fa_mix_curve *curve, double theta)
{
    if ((!m->n_q && !(curve->c < 0.0)) || (theta < 1.57 && fabs(curve->c) * tan(theta) <= curve->t))
        return 0.0;
    return -(1.0 + fabs(curve->c)) * log(cos(0.5 * theta));
}

/* What lies left of the nodes on the curve; with a floor its window is closed there.  Where losses do not fall without
 * end and c < 0, as fa_cap_left_mass, `first` being the first node's term */
FA_FUNC double fa_mix_left_mass(const fa_cap_block *block, const fa_mix_curve *curve, double first, int large)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const fa_pair *m = block->pair;
    double s2 = block->sigma * block->sigma, far = (m->q_low - s->z[0]) / block->sigma,
           up, theta, unused[2], u1 = fa_max(0.0, w->floor - s->z[0]), size, fall;
    fa_mix_rise(m->n_p, m->p_mean, m->p_log, block->inv_var, m->p_from, curve->level_p, 1, s->z, &up, unused,
                unused + 1);
    fa_mix_risen(1.0, 1, &up, unused, unused + 1);
    theta = curve->top * (up + (m->n_q ? 1.0 : 0.0));
    size = 0.5 * s2 * theta * theta - 0.5 * far * far + fa_mix_turned(m, curve, theta) +
           fa_max(0.0, curve->c * (fa_pair_falls(m) ? s->sum.lr[0] : -curve->drift));
    if (large)
        size += fa_min(0.0, 0.5 * (s2 * theta - u1) * (s2 * theta + u1) / (w->floor_width * w->floor_width));
    fall = -s->z[0] - s->moved[0] / cos(0.5 * theta) * (-curve->c * (1.0 + theta) + 2.0 * curve->t * theta);
    if (curve->c < 0.0 && !fa_pair_falls(m) && fall > 0.0 && theta < 0.5 * FA_PI)
        return fa_min(2.0 * exp(size), FA_CAP_LONGER * first / (s->h * fall));
    return 2.0 * exp(size);
}

/* log of a bound of |E_Q[exp(u l) keep]| (large = 0) or |E_Q[exp(u l) keep (1 - floor)]| (large = 1) for all Im u >= t,
 * as fa_cap_majorant.  Where the loss is small |g| itself is summed, its error exponentially small; elsewhere, and for
 * windows, the error of cells is added */
FA_INLINE double fa_mix_majorant(const fa_cap_block *block, const fa_mix_curve *curve, double pay, const int large,
                                 double *slack_out)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    double s2 = block->sigma * block->sigma, inv_var = block->inv_var, h = s->h,
           cell = pay * exp(2.0 * h) * h * h / 8.0, inv_cap = 0.5 / (w->width * w->width),
           inv_floor = large ? 0.5 / (w->floor_width * w->floor_width) : 0.0,
           unit = log(h * block->sigma) - FA_LOG_SQRT_2PI + block->pair->log_q0, step = 1.5 * h * s2, cap = w->cap,
           floor_at = w->floor, sum = 0.0, swollen = 0.0, fuzzy = 0.0, last, before, left, worst = 0.0, begin = 0.0,
           in_strip = pay * exp(2.0 * h) * (0.5 * curve->strip * curve->strip + h * h / 8.0),
           wide = curve->wide, faded = large ? 1.0 : 0.25 / (wide * wide), far = cos(0.5 * curve->strip / wide),
           stiff = exp(h / wide) / (wide * wide * far * far), kernel = 2.0 * FA_PI * curve->strip / h,
           slope = block->pair->slope, offset = block->pair->offset, term[FA_MIX_CHUNK];
    fa_mix_chunk at;
    int i, j, n = s->sum.n, size = 0;
    for (i = 0; i < n; i += FA_MIX_CHUNK) {
        const double *zs = s->z + i, *moved = s->moved + i, *spread = s->spread + i, *fine = s->fine + i;
        size = n - i < FA_MIX_CHUNK ? n - i : FA_MIX_CHUNK;
        fa_mix_fill_chunk(block, curve, i, size, &at);
        FA_PRAGMA(omp simd reduction(+ : sum, swollen, fuzzy) reduction(max : worst))
        for (j = 0; j < size; j++) {
            double z = zs[j], xi = z * inv_var, th = at.theta[j], swing = at.swing[j], y = s2 * th, u0 = z - cap,
                   u1 = floor_at - z, y2 = s2 * s2 * (th * th + 2.0 * cell * (1.0 + th * swing)),
                   b = pay > 0.0 ? fa_mix_bend(curve, s2, xi, moved[j], spread[j], th, swing) : 0.0,
                   x = (xi - curve->fade) / wide, fade = large ? 0.0 : 1.0 / (1.0 + fa_exp_plain_v(x)), k1 = 1.0,
                   log_g = unit - 0.5 * (z - y) * ((z + y) * inv_var) + at.qr[j] +
                           curve->c * (at.pr[j] - at.qr[j] + FA_FMA(slope, z, offset) - curve->drift) -
                           curve->t * (at.pi[j] - at.qi[j] + slope * y) +
                           0.5 * fa_log1p_plain_v(at.turn[j] * at.turn[j]),
                   grown = log_g + in_strip * (b + stiff * fade * (1.0 - fade)) - fa_max(0.0, x) - kernel,
                   paid = log_g + cell * (b + faded), edge = paid + inv_cap * (y2 - u0 * u0),
                   body = fade * fa_exp_plain_v(fa_min(600.0, log_g));
            paid += u0 < step ? (large ? 0.0 : fa_min(0.0, x)) : -1e4; /* 1 - fade is at most that */
            if (large)
                k1 = (u1 < step ? 1.0 : 0.0) + 0.5 * fa_exp_plain_v(fa_min(600.0, inv_floor * (y2 - u1 * u1)));
            term[j] = body + k1 * (fa_exp_plain_v(fa_min(600.0, paid)) + 0.5 * fa_exp_plain_v(fa_min(600.0, edge)));
            sum += term[j], fuzzy += term[j] * fine[j];
            swollen += large ? 0.0 : fa_exp_plain_v(fa_min(600.0, grown)); /* nor is fade more than exp(-x) */
            worst = fa_max(worst, fa_max(paid, edge) < 600.0 ? b : 1e9);
        }
        begin = i ? begin : term[0];
    }
    *slack_out = 0.0;
    if (!(worst < 1e9))
        return pay > 0.0 ? INFINITY : 300.0;
    last = term[size - 1], before = term[size - 2];
    if (last > 1e-20 * sum) { /* beyond the last node it falls at least like the last step */
        double ratio = last / fa_max(before, 1e-300);
        if (!(ratio < 0.9))
            return pay > 0.0 ? INFINITY : 300.0;
        sum += last * ratio / (1.0 - ratio);
    }
    left = fa_mix_left_mass(block, curve, begin, large);
    if (large)
        return log(sum + left) + pay * curve->rounding;
    *slack_out = pay * (fa_max(2.1, -2.0 / expm1(-kernel)) * swollen / sum + curve->rounding +
                        FA_EPS * (4.0 * (n + 64.0) + fuzzy / sum));
    return log(sum + fa_max(left, block->walled ? 0.0 : 1e-16));
}

/* of all losses, the sum's own error added: in narrower strips while that error, a step at a time, is not small */
FA_FUNC double fa_mix_majorant_all(fa_cap_block *block, const fa_cap_line *line, double t, double lower, double pay,
                                   double *slack_out)
{
    fa_mix_curve curve = fa_mix_curve_of(block, line, t, fa_cap_curve_top(block, line, t, lower));
    double best = INFINITY, slack, log_b;
    int i;
    *slack_out = 0.0;
    for (i = 0; i < 4; i++) {
        log_b = fa_mix_majorant(block, &curve, pay, 0, &slack) + slack;
        if (log_b < best) {
            best = log_b;
            *slack_out = slack;
        }
        if (!(pay > 0.0) || (best < 299.0 && block->steps * *slack_out < 1e-3))
            break;
        curve.strip *= 0.5;
    }
    return best;
}

/* of large losses: by cells alone, for which curvature on the real line counts */
FA_FUNC double fa_mix_majorant_large(fa_cap_block *block, const fa_cap_line *line, double t, double lower, double pay)
{
    fa_mix_curve curve = fa_mix_curve_of(block, line, t, fa_cap_curve_top_large(block, line, t, lower));
    double slack;
    curve.strip = 0.0;
    return fa_mix_majorant(block, &curve, pay, 1, &slack);
}

/* further points that a tail of mixtures asks for, whose bound is dear: `best` at t, and `before` at `last` (0: none).
 * It falls about like a power; what was found on few nodes is somewhat too far */
FA_FUNC double fa_mix_more_points(const fa_cap_line *line, double best, double t, double before, double last,
                                  double good)
{
    double h = line->plan.h, fall = last > 0.0 && best < before ? log(before / best) / log(t / last) : 0.0, next,
           most = (FA_CAP_POINTS_MAX - 2 * FA_RUN) * h;
    if (best == INFINITY)
        next = last > 0.0 ? t : fa_max(2.0 * t, 0.7 * line->reach);
    else if (fall > 2.0)
        next = 1.02 * t * exp(fa_min(1.5, log(best / good) / fall));
    else
        next = fa_max(0.7 * line->reach, 1.3 * t);
    if (next > most) /* a line has no more points */
        next = fa_min(1.5 * t, most);
    return fa_min(next, line->reach) / h - line->made;
}

#endif
