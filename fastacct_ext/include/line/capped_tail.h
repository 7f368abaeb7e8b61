/* line/capped_tail.h -- what the points of a capped line leave out: a majorant of |R| for all t beyond the last.
 *
 * |E_Q[exp(u l) keep]| <= integral of |Q keep| exp(c Re l - t Im l) |dz| on the curve zeta = X + i top rise(X - X_p),
 * rise(x) = 1/(1 + e^-x): Im l >= 0 there, so one integral at t serves every Im u >= t.  docs/algorithms/line.md,
 * "Tail".
 */
#ifndef FA_LINE_CAPPED_TAIL_H
#define FA_LINE_CAPPED_TAIL_H

#include "mixture_tail.h"

/* the curve, and constants of the bounds along it */
typedef struct {
    double top, at;            /* height, X_p where it rises */
    double strip, swell;       /* half width of the strip of the sum's own error; f's factor there, ... */
    double steep, lean, shift; /* ... that of the rise's slope, of the rise, and of exp(|Re zeta - X|), on a cell */
    double u, t, c, mean;      /* |u|, Im u, Re u; mean of l = loss - log(1-q) */
} fa_cap_curve;

/* narrow: factor on the strip */
FA_INLINE fa_cap_curve fa_cap_curve_of(const fa_cap_block *block, const fa_cap_line *line, double t, double top,
                                       double narrow)
{
    fa_cap_curve out;
    double b = 1.0 - block->nodes.stretch, h = block->nodes.h, half, more;
    out.top = top;
    out.at = log((1.0 + block->sigma * block->sigma) * top / t);
    out.strip = narrow * fa_min(fa_min(0.8, 2.6 - 1.1 * top), FA_PI / (h * block->sigma * block->sigma));
    half = cos(0.5 * out.strip);
    more = pow(half, -b);
    out.swell = more / cos(0.5 * out.strip * b);
    out.steep = more / (half * half);
    out.lean = exp(h) * more / half;
    out.shift = exp(h + 0.5 * top * tan(0.5 * out.strip)) * more;
    out.c = line->plan.tilt;
    out.t = t;
    out.u = sqrt(out.c * out.c + t * t);
    out.mean = block->nodes.mean - block->kappa;
    return out;
}

/* at most cos(x), 0 <= x <= 2.44, and less than 1e-4 below it: its series up to x^10, a negative term */
FA_INLINE double fa_cap_cos_below(double x)
{
    double y = x * x, sum = FA_FMA(y, -1.0 / 3628800.0, 1.0 / 40320.0);
    sum = FA_FMA(y, sum, -1.0 / 720.0);
    sum = FA_FMA(y, sum, 1.0 / 24.0);
    sum = FA_FMA(y, sum, -0.5);
    return FA_FMA(y, sum, 1.0) - 1e-15;
}

/* What lies left of the nodes on the curve for c < 0 and a rate next to 1, where e^X is large at the first node.  Down
 * to X_1, where Q's mass times the largest exp(c l) is e^-40, the integrand falls as l' = w/(1 + w) and Im l' allow at
 * |w| >= e^(X_1): docs/algorithms/line.md, "Ends".  inf where e^(X_1) < 2 */
FA_FUNC double fa_cap_left_of_ones(const fa_cap_block *block, const fa_cap_curve *curve, double risen, double first)
{
    const fa_cap_nodes *s = &block->nodes;
    double far = sqrt(80.0 - 2.0 * curve->c * curve->mean), z = fa_min(s->z[0], -far * block->sigma),
           e = exp(fa_min(300.0, block->log_odds + (z - 0.5) * block->inv_var)), slope = e / (e - 1.0),
           turn = curve->top * risen / (e + risen),
           fall = -s->z[0] + curve->c * slope * (1.0 + turn) - curve->t * slope * (1.0 / (e - 1.0) + turn);
    return e > 2.0 && fall > 0.0 ? exp(-40.0) + FA_CAP_LONGER * first / (s->h * s->slope[0] * fall) : INFINITY;
}

/* What lies left of the nodes on the curve, `first` being the first node's term.  At most Q's mass times the largest
 * exp(c l), and for c < 0 what falls in X by as much as it does there: the real part of log(1 + e^(X + i theta)) rises
 * by at most e^X (1 + theta), its angle by 2 theta e^X.  inf where the curve turns there by more than pi/2, so that Re
 * l may be negative */
FA_FUNC double fa_cap_left_mass(const fa_cap_block *block, const fa_cap_curve *curve, double risen, double first)
{
    const fa_cap_nodes *s = &block->nodes;
    double far = -s->z[0] / block->sigma, e = exp(fa_min(300.0, block->log_odds + (s->z[0] - 0.5) * block->inv_var)),
           theta = curve->top * e / (e + risen),
           mass = fa_max(block->walled ? 0.0 : 1e-16, exp(-0.5 * far * far) / (2.0 * fa_max(far, 0.4))) *
                  exp(fa_max(0.0, fa_max(-curve->c * curve->mean, curve->c * s->sum.lr[0]))),
           fall = -s->z[0] - e * (-curve->c * (1.0 + theta) + 2.0 * curve->t * theta);
    if (!(curve->c < 0.0))
        return mass;
    if (!(theta < 0.5 * FA_PI))
        return INFINITY;
    return fa_min(fa_cap_left_of_ones(block, curve, risen, first),
                  fall > 0.0 ? fa_min(mass, FA_CAP_LONGER * first / (s->h * s->slope[0] * fall)) : mass);
}

/* the same of the large losses: left of the nodes the floor's window is closed, and only closes further */
FA_FUNC double fa_cap_left_large(const fa_cap_block *block, const fa_cap_curve *curve, double risen, double first)
{
    const fa_cap_windows *w = &block->w;
    double z = block->nodes.z[0], u1 = fa_max(0.0, w->floor - z),
           e = exp(fa_min(300.0, block->log_odds + (z - 0.5) * block->inv_var)),
           y = block->sigma * block->sigma * curve->top * e / (e + risen),
           shut = exp(fa_min(0.0, 0.5 * (y * y - u1 * u1) / (w->floor_width * w->floor_width)));
    return fa_min(fa_cap_left_mass(block, curve, risen, INFINITY) * shut,
                  block->walled ? fa_cap_left_mass(block, curve, risen, first) : INFINITY);
}

/* log of a bound of |E_Q[exp(u l) keep]| (large = 0) or |E_Q[exp(u l) keep (1 - floor)]| (large = 1) for all Im u >= t;
 * *slack_out: log factor for the sum's own error (large = 0; else it is in the sum, cell by cell).  pay = 0: about,
 * without what the cells cost.  b: docs/algorithms/line.md, "Tail", "The bound b", where swell is F, dt tau, f2
 * (F f (1 + tau))^2, z2 Z, shift e^(s_1), and lean r^(-1-b_1) */
FA_INLINE double fa_cap_majorant(const fa_cap_block *block, const fa_cap_curve *curve, double pay, const int large,
                                 double *slack_out)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const double *zs = s->z, *log_q = s->log_q, *slope = s->slope, *bend = s->bend;
    double s2 = block->sigma * block->sigma, inv_var = block->inv_var, odds = block->log_odds, h = s->h,
           grow = exp(2.0 * h), top = curve->top, strip = curve->strip;
    double risen = exp(fa_min(curve->at, 300.0)), cap = w->cap, inv_cap = 0.5 / (w->width * w->width),
           floor_at = large ? w->floor : -1e100, inv_floor = large ? 0.5 / (w->floor_width * w->floor_width) : 0.0;
    double cells = pay * grow * (large ? h * h / 8.0 : 0.5 * strip * strip + h * h / 8.0),
           edge = pay * grow * h * h / 8.0, c = curve->c, t = curve->t, u = curve->u, mean = curve->mean,
           swell = curve->swell, steep = curve->steep, lean = curve->lean, shift = curve->shift, near = 0.5 / shift,
           kernel = large ? 0.0 : 2.0 * FA_PI * strip / h, sum = 0.0, swollen = 0.0, most = 0.0,
           fuzzy = 0.0, last, before, nothing = pay > 0.0 ? INFINITY : 300.0;
    double *term = s->scratch, *swell_term = s->scratch2;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : sum, swollen, fuzzy) reduction(max : most))
    for (j = 0; j < n; j++) {
        double z = zs[j], x = odds + (z - 0.5) * inv_var, xc = fa_min(x, 300.0), e = fa_exp_plain_v(xc),
               rise = e / (e + risen), theta = top * rise, turn = theta * (1.0 - rise), si, co;
        double li, lr, y = s2 * theta, u0 = z - cap, step = 1.5 * h * s2 * slope[j], u1 = floor_at - z;
        double f = swell * slope[j], dt = steep * turn, f2 = f * f * (1.0 + dt) * (1.0 + dt),
               z2 = f * f * dt + f * bend[j] * (1.0 + dt), far, l2, l1, b, k0, k1, value, size;
        si = fa_sincos_v(theta, &co);
        lr = fa_clog1p_v(e * co, e * si, &li) + (x - xc);
        far = fa_cap_cos_below(strip + fa_min(lean * theta, top));
        l2 = 0.5 / (fa_max(1.0, near * fa_max(e, 1.0 / e)) + far); /* |l''|, |l'| in zeta */
        l1 = 1.55 * fa_min(shift * e, 1.0);
        b = s2 * f2 + (fabs(z) + s2 * (2.5 + h)) * z2 + u * (l2 * f2 + l1 * z2) + 4.0 * bend[j] +
            2.5 * dt * f * (2.0 * f + bend[j]) + 1.6 * dt * dt * f * f;
        k0 = inv_cap * (y * y - u0 * u0 + 2.0 * edge * (s2 * s2 * f2 + (fabs(u0) + step) * s2 * z2)) +
             (large ? 0.0 : edge * b);
        k1 = inv_floor * (y * y - u1 * u1 + 2.0 * edge * (s2 * s2 * f2 + (fabs(u1) + step) * s2 * z2));
        most = fa_max(most, fa_max(k0, k1));
        k0 = 0.5 * fa_exp_plain_v(k0), k1 = large ? 0.5 * fa_exp_plain_v(k1) : 0.0;
        value = (u0 < step ? 1.0 + k0 : k0) * (large ? (u1 < step ? 1.0 + k1 : k1) : 1.0) * sqrt(1.0 + turn * turn);
        size = log_q[j] + c * (lr - mean) - t * li + 0.5 * s2 * theta * theta;
        term[j] = value * fa_exp_plain_v(size);
        swell_term[j] = value * fa_exp_plain_v(size + cells * b - kernel);
        most = fa_max(most, fa_max(size, size + cells * b - kernel));
        sum += term[j], swollen += swell_term[j], fuzzy += term[j] * s->fine[j];
    }
    last = term[n - 1], before = term[n - 2], *slack_out = 0.0;
    if (!(most < 690.0) || (last > 1e-20 * sum && !(last < 0.9 * before)))
        return nothing;
    if (last > 1e-20 * sum) { /* beyond the last node it falls at least like the last step */
        double ratio = last / before;
        sum += last * ratio / (1.0 - ratio);
        swollen += 2.0 * swell_term[n - 1] * ratio / (1.0 - ratio);
    }
    if (large)
        return log(swollen + fa_cap_left_large(block, curve, risen, swell_term[0]));
    before = fa_cap_left_mass(block, curve, risen, term[0]);
    *slack_out = pay * (fa_max(2.1, -2.0 / expm1(-kernel)) * swollen / sum + FA_EPS * (4.0 * n + fuzzy / sum));
    return log(sum + before);
}

/* on a curve of a good height: of all losses, the sum's own error added, in narrower strips while it is not small; and
 * of large ones */
FA_FUNC double fa_cap_majorant_all(fa_cap_block *block, const fa_cap_line *line, double t, double lower, double pay,
                                   double *slack_out)
{
    double top = fa_cap_curve_top(block, line, t, lower), best = INFINITY, narrow, slack, log_b;
    *slack_out = 0.0;
    for (narrow = 1.0; narrow > 0.2 && !(best < INFINITY && block->steps * *slack_out < 3.0); narrow *= 0.5) {
        fa_cap_curve curve = fa_cap_curve_of(block, line, t, top, narrow);
        log_b = fa_cap_majorant(block, &curve, pay, 0, &slack) + slack;
        *slack_out = log_b < best ? slack : *slack_out;
        best = fa_min(best, log_b);
    }
    return best;
}

FA_FUNC double fa_cap_majorant_large(fa_cap_block *block, const fa_cap_line *line, double t, double lower, double pay)
{
    double slack;
    fa_cap_curve curve = fa_cap_curve_of(block, line, t, fa_cap_curve_top_large(block, line, t, lower), 1.0);
    return fa_cap_majorant(block, &curve, pay, 1, &slack);
}

/* log of a bound of |F u (u-1)| at eps for all Im u >= t.  |R| <= prod |B0|^T, with floors the sum over blocks of T |D|
 * max(|B0|, |Bb|)^(T-1) times the other blocks' max(|B0|, |Bb|)^T.  lower: factor on the curves' heights */
FA_FUNC double fa_cap_log_beyond(fa_cap_job *job, const fa_cap_line *line, double eps, double t, double lower,
                                 double pay)
{
    double c = line->plan.c, tilt = line->plan.tilt, log_r = 0.0, slop = 0.0, drift = 0.0, once = 0.0;
    fa_log_total total = {-INFINITY, 0.0};
    int b;
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        double mean = block->nodes.mean, slack = 0.0,
               log_b = block->family->majorant(block, line, t, lower, pay, &slack);
        if (block->split) {
            double log_d = block->family->majorant_large(block, line, t, lower, pay);
            if (block->w.low_cut > 0.0)
                log_d = log(exp(log_d) + block->w.low_cut * exp(block->k / block->steps - tilt * mean));
            log_d = fa_max(log_d, FA_CAP_NEVER);
            block->most = log_b + log1p(exp(log_d + slack - log_b));
            block->large = block->log_steps + log_d + slack;
            once += block->most;
            log_r += block->steps > 1.0 ? (block->steps - 1.0) * block->most : 0.0;
        }
        else { /* |Bb| = |B0|, D = 0 */
            block->most = log_b;
            log_r += (job->has_floor ? block->steps - 1.0 : block->steps) * log_b;
            once += log_b;
        }
        slop += 64.0 * FA_EPS * block->steps * (fabs(tilt) + 1.0) * (fabs(mean) + fabs(block->kappa));
        drift += block->steps * tilt * mean;
    }
    for (b = 0; b < job->n; b++)
        if (job->blocks[b].split)
            fa_add_log(&total, job->blocks[b].large + (once - job->blocks[b].most));
    if (job->has_floor)
        log_r = fa_log_of_total(&total) + log_r;
    log_r += slop;
    return log_r + drift + 0.5 * job->mu2 * (c * (c - 1.0) - t * t) - (c - 1.0) * eps;
}

/* what the sum leaves out beyond t, over exp(log_value): h/pi sum of |R|/|u (u-1)| beyond t <= max |R|/(pi t) */
FA_FUNC double fa_cap_tail_beyond(fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double t,
                                  double lower)
{
    return fa_cap_exp(fa_cap_log_beyond(job, line, eps, t, lower, 1.0) - log(FA_PI * t) - log_value);
}

/* bound of the tail; further points, once, as far as the nodes are fine enough, while it is too large: the line is
 * another one then */
FA_FUNC double fa_cap_close_tail(fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double eps,
                                 double log_value)
{
    double h = line->plan.h, good = 2400.0 * exp(-effort->dead), best = INFINITY, before, last = 0.0, t; /* 3e-11 */
    int round, more, i;
    if (job->mixtures && line->closed && eps == line->tail_at) /* with points that it has asked for */
        return fa_cap_exp(line->log_tail - log_value);
    for (round = 0;; round++) {
        t = (line->n - 1) * h;
        before = best;
        best = fa_min(best, fa_cap_tail_beyond(job, line, eps, log_value, t, 1.0));
        for (i = 0; i < 2 && !job->mixtures && !(best < good); i++)
            best = fa_min(best, fa_cap_tail_beyond(job, line, eps, log_value, t, i ? 0.25 : 0.6));
        more = job->mixtures ? (int)fa_mix_more_points(line, best, t, before, last, good) : line->made / 8;
        more = more > FA_RUN ? (more + FA_RUN - 1) / FA_RUN : 1;
        last = t;
        if (best < good || line->closed || round > 40 || (job->mixtures && round > 0 && best == INFINITY) ||
            line->made + (more + 1) * FA_RUN > FA_CAP_POINTS_MAX ||
            (line->made + FA_RUN - 1) * h > line->reach * 1.001 + FA_RUN * h ||
            !fa_goes_on() || !fa_cap_reserve_points(job, line, line->made + more * FA_RUN))
            break;
        for (i = 0; i < more; i++)
            fa_cap_points(job, line, line->made);
        line->n = line->made;
    }
    if (job->mixtures && !(best < good))
        best = fa_min(best, fa_cap_tail_beyond(job, line, eps, log_value, t, 0.6));
    line->closed = 1;
    line->tail_at = eps;
    line->log_tail = log(best) + log_value;
    return best;
}

#endif
