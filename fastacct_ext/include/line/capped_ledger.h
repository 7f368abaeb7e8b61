/* line/capped_ledger.h -- every error of a capped line, relative to delta at one eps.  docs/algorithms/line.md has the
 * inequalities. */
#ifndef FA_LINE_CAPPED_LEDGER_H
#define FA_LINE_CAPPED_LEDGER_H

#include "capped_draw.h"

#define FA_CAP_SMALL 1e-10 /* an entry that a second, dearer bound need not better */

typedef struct {
    double up, down;                                 /* delta <= value (1 + up), delta >= value (1 - down) */
    double tail, quadrature, rounding, ends, closed; /* either way */
    double put, floor;                               /* up only */
    double alias;                                    /* down only: the sum is never below its integral */
    double put_rate;                                 /* how fast `put` grows with eps */
} fa_cap_ledger;

/* sums of min(f1, f2) over cells of two steps, each function by its own chord (the cell lemma); beyond the last node as
 * a geometric series */
FA_INLINE double fa_cap_cells(const double *f1, const double *f2, int n)
{
    double sum = 1e4 * fa_min(f1[0], f2[0]), last; /* left it falls by 8 sigma f a unit of xi, f >= stretch */
    int j;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (j = 0; j < n - 1; j++)
        sum += 0.5 * fa_min(f1[j] + f1[j + 1], f2[j] + f2[j + 1]);
    last = fa_min(f1[n - 1], f2[n - 1]);
    return sum + 1e4 * last; /* right by 9 sigma f: at most 1/(9 sigma f) cells */
}

/* Integrals of moduli on Im xi = -eta (on +eta they are smaller: t Im l > 0) from every second node, with each
 * function's curvature paid: -H'' <= b on a cell of step g implies integral <= chord exp(b g^2/8). |exp(s) - 1 - s| <=
 * min(E + 1 + x, x^2/2 max(1, E)), E = |exp(s)|, x = |s|;     |window| <= (left of its edge) + exp((y^2 - d^2)/(2
 * width^2))/2 */
FA_INLINE void fa_cap_moduli_body(const fa_cap_job *job, fa_cap_line *line, double t, double v_right,
                                  const int with_floor, fa_cap_moduli *out)
{
    fa_cap_nodes *s = &line->nodes;
    const fa_cap_windows *w = &line->w;
    const double *slope = s->slope, *bend = s->bend;
    double eta = line->strip, g = 2.0 * s->h, a = s->stretch, b1 = 1.0 - a, c = line->plan.c, u = sqrt(c * c + t * t),
           v_low = line->plan.low;
    double co = cos(eta), si = -sin(eta), s2 = job->sigma * job->sigma, odds = job->log_odds,
           half_inv = 0.5 * job->inv_var, kappa = job->kappa, mean = s->mean - kappa, start = s->start, h = s->h;
    double swell = 1.0 / (cos(0.5 * b1 * eta) * pow(cos(0.5 * eta), b1)),
           unit = log(g * s2 / job->sigma) - 0.918938533204672741780, cells = exp(2.0 * g) * g * g / 8.0,
           bump = 0.5 + 0.5 / (eta * eta);
    double cap = w->cap, width = w->width, inv_cap = 0.5 / (width * width), floor_at = w->floor,
           floor_width = with_floor ? w->floor_width : 1.0,
           inv_floor = with_floor ? 0.5 / (floor_width * floor_width) : 0.0;
    double *line1 = s->sum.vr, *line2 = s->sum.vi, *mean1 = s->sum.gr, *mean2 = s->sum.gi, *right = s->scratch,
           *large = s->scratch2, *low = s->large_r,
           alias = fa_max(2.0 / expm1(2.0 * FA_PI * eta / h), 1e-240); /* a modulus cut off at e^600 stays seen */
    int j, n = s->sum.n / 2;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double xi = start + 2 * j * h, xc = fa_min(xi, 200.0), e = fa_exp_plain_v(xc), pi,
               pr = fa_clog1p_v(e * co, e * si, &pi) + (xi - xc), lr = a * pr, li = a * pi, mi,
               mr = -fa_cexpm1_v(-fa_min(lr, 690.0), -li, &mi);
        double size = mr * mr + mi * mi, zr = s2 * (lr + 0.5 * fa_log_v(size) - odds) + 0.5,
               zi = s2 * (li + fa_angle_v(-mi, mr)), f_here = a * fa_exp_plain_v(xi - pr) / sqrt(size);
        double f = swell * slope[2 * j], ph = 2.0 * bend[2 * j], step = g * s2 * f, u0 = zr - cap, u1 = floor_at - zr,
               chi = 1.0 / (e + 1.0 / e), far = fabs(zr) + fabs(zi) + s2 * g * f;
        double e0 = fa_min(600.0, inv_cap * (zi * zi - u0 * u0)),
               b = s2 * f * f + far * f * ph + 3.0 * ph + u * a * chi + bump, q, eb, x, loss_r, loss, ek;
        b += u0 > -8.0 * width ? 2.0 * inv_cap * (s2 * s2 * f * f + (fabs(u0) + fabs(zi) + step) * s2 * f * ph) : 0.0;
        q = unit + half_inv * (zi * zi - zr * zr) + fa_min(40.0, cells * b) + (u0 < step ? 0.0 : e0);
        size = (u0 < step ? 1.0 + 0.5 * fa_exp_plain_v(e0) : 0.5) * f_here;
        ek = size * fa_exp_plain_v(fa_min(600.0, q));
        eb = size * fa_exp_plain_v(fa_min(600.0, q + c * (lr - mean) + t * fabs(li)));
        x = u * (lr + fabs(li) + fabs(mean));
        line1[j] = eb + ek * (1.0 + x);
        line2[j] = 0.5 * x * x * fa_max(ek, eb);
        right[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_right * (lr - mean)));
        loss_r = lr + kappa;
        loss = loss_r * loss_r + li * li;
        x = size * fa_exp_plain_v(fa_min(600.0, q + loss_r));
        mean1[j] = x + ek * (1.0 + sqrt(loss));
        mean2[j] = 0.5 * loss * fa_max(ek, x);
        if (with_floor) {
            double e1 = fa_min(600.0, inv_floor * (zi * zi - u1 * u1)), k1 = 0.5 * fa_exp_plain_v(e1),
                   more = u1 > -8.0 * floor_width
                              ? 2.0 * inv_floor * (s2 * s2 * f * f + (fabs(u1) + fabs(zi) + step) * s2 * f * ph)
                              : 0.0;
            double grow = fa_exp_plain_v(fa_min(40.0, cells * more));
            large[j] = grow * (u1 < step ? 1.0 + k1 : k1) * eb;
            q += u1 > -step ? 0.0 : e1;
            low[j] = grow * size * (u1 > -step ? 1.0 + k1 : 0.5) *
                     (fa_exp_plain_v(fa_min(600.0, q)) + fa_exp_plain_v(fa_min(600.0, q + v_low * (lr - mean))));
        }
    }
    out->line = alias * fa_cap_cells(line1, line2, n);
    out->mean = alias * fa_cap_cells(mean1, mean2, n);
    out->right = alias * fa_cap_cells(right, right, n);
    out->large = with_floor ? alias * fa_cap_cells(large, large, n) : 0.0;
    out->low = with_floor ? alias * fa_cap_cells(low, low, n) : 0.0;
}

/* the same; out.right is for v <= `right` */
FA_FUNC fa_cap_moduli fa_cap_quadrature(const fa_cap_job *job, fa_cap_line *line, double t, double right)
{
    fa_cap_moduli out;
    if (line->w.has_floor)
        fa_cap_moduli_body(job, line, t, right, 1, &out);
    else
        fa_cap_moduli_body(job, line, t, right, 0, &out);
    return out;
}

/* errors of B0 exp(-u mu) at a point: quadrature fixed + mean |u|, rounding min(far, near |u|^2/c^2); and of D */
typedef struct {
    double fixed, mean, near, far, large;
} fa_cap_errors;

/* Rounding of sum W (exp(u l) - 1 - u l) at |u| = c (near) and for |u| <= u_max (far).  Per node: weights 40 u, what
 * z's own rounding makes of the Gaussian (|z| (14 + 6 |X| + 2 |log odds|) u) and of a window; l to 8 u of the loss; a
 * phasor step as in contour.md.  Every entry grows at most like |u|^2 */
FA_FUNC void fa_cap_rounding(const fa_cap_job *job, const fa_cap_line *line, double u_max, double steps,
                             fa_cap_errors *out)
{
    const fa_cap_nodes *s = &line->nodes;
    const fa_cap_windows *w = &line->w;
    const double *ls = s->sum.lr, *weight = s->sum.wr, *log_w = s->sum.log_w, *zs = s->z, *xs = s->x;
    double c = line->plan.c, h = line->plan.h, inv_var = job->inv_var, odds = fabs(job->log_odds), own = job->log_odds,
           shift = fabs(job->kappa - s->mean), inv_width = 1.0 / w->width, cap = fabs(w->cap), near = 0.0, far = 0.0;
    int j, n = s->sum.n, edge = s->edge;
    FA_PRAGMA(omp simd reduction(+ : near, far))
    for (j = 0; j < n; j++) {
        double l = ls[j], al = fabs(l), x = u_max * al, y = c * al, d = fa_min(2.0, h * al), z = fabs(zs[j]);
        double wj = weight[j], m = fa_max(wj, fa_exp_plain_v(fa_min(690.0, log_w[j] + c * l))), plain = al + shift;
        double fine = 40.0 + 2.0 * z * z * inv_var +
                      z * (14.0 + 6.0 * fabs(own + (zs[j] - 0.5) * inv_var) + 2.0 * odds);
        double loss = m * (8.0 * plain + 4.0 * al + 2.0 * shift), grow = 5.0 + 16.0 * d, add = (14.0 + steps) * wj * d;
        fine += j >= edge ? 10.0 + 2.0 * (1.0 + fa_min(9.0, fabs(xs[j]))) * (z + cap) * inv_width : 0.0;
        fine += grow * steps;
        far += fa_min(0.5 * x * x * m, 2.0 * m + wj * x) * fine + fa_min(x, 2.0) * u_max * loss + add * x * steps;
        near += fa_min(0.5 * y * y * m, 2.0 * m + wj * y) * fine + fa_min(y, 2.0) * c * loss + add * y * steps;
    }
    out->near = FA_EPS * (near + 10.0 * w->q_mass) + c * s->mean_error;
    out->far = FA_EPS * (far + 10.0 * w->q_mass) + u_max * s->mean_error;
}

/* rounding of the large losses' sum D */
FA_FUNC double fa_cap_rounding_large(const fa_cap_job *job, const fa_cap_line *line, double u_max, double steps)
{
    const fa_cap_nodes *s = &line->nodes;
    const fa_cap_windows *w = &line->w;
    const double *ls = s->sum.lr, *log_w = s->sum.log_w, *zs = s->z, *xs = s->x, *above = s->above;
    double c = line->plan.c, inv_var = job->inv_var, odds = fabs(job->log_odds), own = job->log_odds,
           shift = fabs(job->kappa - s->mean), inv_width = 1.0 / w->width, cap = fabs(w->cap),
           scale = w->width / w->floor_width, offset = (w->cap - w->floor) / w->floor_width * FA_HALF_ROOT,
           inv_floor = 1.0 / w->floor_width, floor_at = fabs(w->floor), large = 0.0;
    int j, n = s->sum.n, edge = s->edge;
    FA_PRAGMA(omp simd reduction(+ : large))
    for (j = s->lifted; j < n; j++) {
        double l = ls[j], al = fabs(l), z = fabs(zs[j]), y = fa_min(9.0, fabs(xs[j] * scale + offset)),
               plain = al + shift;
        double fine = 120.0 + 2.0 * z * z * inv_var +
                      z * (14.0 + 6.0 * fabs(own + (zs[j] - 0.5) * inv_var) + 2.0 * odds);
        fine += (j >= edge ? 2.0 * (1.0 + fa_min(9.0, fabs(xs[j]))) * (z + cap) * inv_width : 0.0) +
                2.0 * (1.0 + y) * (z + floor_at + cap) * inv_floor;
        large += above[j] * fa_exp_plain_v(fa_min(690.0, log_w[j] + c * l)) *
                 (fine + 9.0 * steps + u_max * (8.0 * plain + 4.0 * al + 2.0 * shift) + 6.0 * u_max * al);
    }
    return FA_EPS * large;
}

/* what lies beyond the first and the last node, for exponents with real part v and |u| up to u, of exp(ul) - 1 (order
 * 1) or exp(ul) - 1 - ul (order 2).  Right: log-concave in z, falling at `fall` per unit of z */
FA_FUNC double fa_cap_ends(const fa_cap_job *job, const fa_cap_line *line, double v, double u, int order)
{
    const fa_cap_nodes *s = &line->nodes;
    int last = s->sum.n - 1;
    double mean = fabs(s->mean - job->kappa), first = s->z[0] / job->sigma, z = s->z[last], l = s->sum.lr[last],
           x = u * fa_max(mean, fabs(s->sum.lr[0])), fall;
    double left = 0.5 * exp(-0.5 * first * first) * (order == 1 ? fa_min(x, 2.0) : fa_min(0.5 * x * x, 2.0 + x)),
           mass = s->keep[last] * 0.5 * exp(-0.5 * z * z * job->inv_var);
    fall = (z - v * fa_cap_posterior(job, z)) * job->inv_var +
           fa_max(0.0, z - line->w.cap) / (line->w.width * line->w.width);
    if (!(fall > 1.0 / job->sigma))
        return INFINITY;
    return left +
           2.0 * exp(fa_min(600.0, v * l + s->sum.log_w[last])) /
               (s->h * job->sigma * job->sigma * s->slope[last] * fall) +
           (1.0 + u * (fabs(l) + 4.0)) * mass;
}

/* K at a Chernoff point on the nodes of the line, with a bound of its error added; large losses enlarged, for log(B0^T
 * - Bb^T).  The small losses' window is closed long before the last node */
FA_FUNC double fa_cap_chernoff(const fa_cap_job *job, const fa_cap_line *line, double v, int small_only, double error)
{
    const fa_cap_nodes *s = &line->nodes;
    double slop = 64.0 * FA_EPS * job->steps * (v + 1.0) * (fabs(s->mean) + fabs(job->kappa)), k;
    fa_cap_real r = fa_cap_k(job, &line->w, s, v, small_only, 0.0);
    error += fa_cap_ends(job, line, small_only ? 1.0 : v, v, 1) +
             1e-13 * (fabs(expm1(fa_min(600.0, r.k / job->steps - v * s->mean))) +
                      v * sqrt(fa_max(0.0, r.d2 / job->steps)));
    k = job->steps * (v * s->mean + log1p(r.rest + error)) + slop;
    if (!small_only && line->w.has_floor)
        k += log(-expm1(job->steps * log1p(-fa_min(0.9999999, 1.25 * r.jumps / job->steps + error))));
    return k;
}

/* sums beyond the cap that are below eps all the same: <= C T J(a) M(a)^(T-1) e^((1-a) eps), any a < 0, J(a) =
 * E_Q[e^{aL} (1 - keep)] by the cell lemma, Newton's method in a.  right: quadrature error of M */
FA_FUNC double fa_cap_put(const fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double right,
                          double *rate_out)
{
    const fa_cap_nodes *s = &line->nodes;
    const fa_cap_windows *w = &line->w;
    const double *l = s->sum.lr;
    double log_t = log(job->steps), mean = s->mean - job->kappa, h = s->h, cell = exp(2.0 * h) * h * h / 8.0,
           s2 = job->sigma * job->sigma, a = -fa_max(1.0, 0.3 * (line->plan.c - 1.0)), best = INFINITY, loss_end, rest,
           *beyond = s->scratch;
    double stiff = 1.0 / s2 + 1.0 / (w->width * w->width);
    int i, j, n = s->sum.n;
    *rate_out = 1.0;
    if (log_t + w->log_q + eps - log_value < -30.0) /* at most e^eps times the chance of a step beyond the cap */
        return exp(log_t + w->log_q + eps - log_value);
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double f = s->slope[j], u0 = fabs(s->z[j] - w->cap) + h * s2 + 0.8 * w->width,
               b = f * f * s2 * s2 * stiff +
                   f * s->bend[j] * (fabs(s->z[j]) + h * s2 + u0 * s2 / (w->width * w->width)) + 3.0 * s->bend[j] + 0.5;
        beyond[j] = s->beyond[j] * fa_exp_plain_v(fa_min(100.0, cell * b));
    }
    loss_end = l[n - 1] + s->mean;
    rest = fa_min(exp(fa_log_tail(s->z[n - 1] / job->sigma)), w->q_mass);
    for (i = 0; i < 10; i++) {
        double j0 = rest * exp(a * loss_end), j1 = j0 * loss_end, j2 = j1 * loss_end, extra, value, slope, curve;
        fa_cap_real r;
        FA_PRAGMA(omp simd reduction(+ : j0, j1, j2))
        for (j = 0; j < n; j++) {
            double loss = l[j] + s->mean, f = beyond[j] * fa_exp_plain_v(fa_max(-700.0, a * loss));
            j0 += f;
            j1 += f * loss;
            j2 += f * loss * loss;
        }
        if (!(j0 > 1e-300))
            break;
        r = fa_cap_k(job, w, s, a, 0,
                     (right + fa_cap_ends(job, line, 1.0, -a, 1)) * exp(fa_min(600.0, -a * fa_max(mean, 0.0))));
        extra = 0.25 * cell * s->stretch * -a;
        value = log_t + log(j0) + extra + (job->steps - 1.0) * log(exp(r.k / job->steps) + j0 * exp(extra)) -
                (a - 1.0) * eps - a * log(-a) - (1.0 - a) * log(1.0 - a);
        value += 64.0 * FA_EPS * job->steps * (1.0 - a) * (fabs(s->mean) + fabs(job->kappa));
        if (value < best) {
            best = value;
            *rate_out = 1.0 - a;
        }
        if (best - log_value < -27.0)
            break;
        slope = j1 / j0 + r.d1 - eps;
        curve = j2 / j0 - (j1 / j0) * (j1 / j0) + r.d2 + 1e-3 / (a * a);
        a = fa_max(4.0 * a - 1.0, fa_min(-0.05, a - slope / curve));
    }
    return exp(fa_min(300.0, best - log_value));
}

/* what errors e of B0 and e_D of D make of the points with a floor, over exp(log_value), but for T |R| e/|B0| (with the
 * other points).  x = e/|B0|, y = (e + e_D)/|B0|; where x >= 0.1, |B0|^T and |Bb|^T as a whole, errors included */
FA_FUNC double fa_cap_weigh_floor(const fa_cap_job *job, const fa_cap_line *line, const fa_cap_errors *errors,
                                  double log_scale)
{
    const double *log_all = line->log_all, *log_small = line->log_small, *ratio = line->ratio, *inverse = line->inverse;
    double c = line->plan.c, h = line->plan.h, steps = job->steps, inv_c2 = 1.0 / (c * c), log_t = log(steps),
           fixed = errors->fixed, mean = errors->mean, near = errors->near, far = errors->far, large = errors->large,
           sum = 0.0;
    int k, n = line->n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (k = 0; k < n; k++) {
        double t = k * h, err = fixed + mean * sqrt(c * c + t * t) + fa_min(far, near * (1.0 + t * t * inv_c2)),
               x = err * inverse[k], y = (err + large) * inverse[k], small = log_small[k],
               log_f = log_all[k] + log_scale, bb = fa_exp_plain_v(small), first, whole;
        first = log_f + log_t + (steps - 1.0) * small + 1.06 * steps * x +
                steps * 1.000001 * fa_log_v(1.0 + fa_min(1e290, y / bb));
        first = fa_exp_plain_v(fa_min(600.0, first)) *
                (large * inverse[k] + 1.12 * x * (ratio[k] + large * inverse[k]) + 60.0 * FA_EPS * ratio[k]);
        whole = 2.0 * fa_exp_plain_v(fa_min(600.0, log_f + steps * 1.000001 * fa_log_v(fa_max(1.0, bb) + y)));
        sum += (k ? 1.0 : 0.5) * (x < 0.1 ? first : whole);
    }
    return sum;
}

/* what errors of B0 and D make of the sum, over exp(log_value): n factors (1 + e/|B0|), and the errors of log F and its
 * angle */
FA_FUNC void fa_cap_weigh_points(const fa_cap_job *job, const fa_cap_line *line, double eps, double log_value,
                                 const fa_cap_errors *errors, fa_cap_ledger *out)
{
    const double *log_f = line->log_f, *arg_f = line->arg_f, *size_f = line->size, *inverse = line->inverse;
    double c = line->plan.c, h = line->plan.h, log_scale = line->ref - log_value - (c - 1.0) * (eps - line->eps),
           steps = job->steps, drift = steps * fabs(line->nodes.mean), inv_c2 = 1.0 / (c * c), ref = fabs(line->ref),
           fixed = errors->fixed, mean = errors->mean, near = errors->near, far = errors->far;
    double sum = 0.0, size = 0.0, low = 0.0, share = 0.0, scale = exp(fa_min(600.0, log_scale)),
           power = line->w.has_floor ? 1.06 * steps : steps;
    int k, n = line->n;
    FA_PRAGMA(omp simd reduction(+ : sum, size, share))
    for (k = 0; k < n; k++) {
        double t = k * h, f = size_f[k] * scale, rule = fixed + mean * sqrt(c * c + t * t),
               err = rule + fa_min(far, near * (1.0 + t * t * inv_c2)), x = err * inverse[k], grow;
        (void)fa_exp_both_v(fa_min(600.0, x < 0.1 ? power * x : 1.000001 * steps * fa_log_v(1.0 + x)), &grow);
        sum += f * grow;
        share += f * grow * rule / err;
        size += f * (fabs(log_f[k]) + ref + fabs(arg_f[k]) + (c - 1.0 + t) * eps + 30.0 + (c + t) * drift);
    }
    if (line->w.has_floor)
        low = fa_cap_weigh_floor(job, line, errors, log_scale);
    out->quadrature = 1.02 * h / FA_PI * share;
    out->rounding = log_scale < 600.0 ? 1.02 * h / FA_PI * (sum - share + low + 8.0 * FA_EPS * size) : INFINITY;
}

/* Chernoff's bound at v of what the points stand for, or of the small losses, over exp(log_value) */
FA_FUNC double fa_cap_weight_at(const fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double v,
                                int small_only, double error)
{
    double k = v > 1.0 ? fa_cap_chernoff(job, line, v, small_only, error) : 0.0;
    return exp(fa_min(300.0, k + fa_cap_log_b(v) - (v - 1.0) * eps - log_value));
}

/* what aliases with v's weight, over exp(log_value), by Chernoff's bound there.  right: quadrature error of M(v) */
FA_FUNC double fa_cap_alias(const fa_cap_job *job, const fa_cap_line *line, double eps, double log_value, double v,
                            double right)
{
    return 1.001 * fa_cap_weight_at(job, line, eps, log_value, v, 0, right) /
           expm1(fa_min(600.0, fabs(v - line->plan.c) * 2.0 * FA_PI / line->plan.h));
}

/* entries of the points: their tail, errors of their nodes, what aliases */
FA_FUNC void fa_cap_close_points(const fa_cap_job *job, fa_cap_line *line, double t, double eps, double log_value,
                                 fa_cap_ledger *out)
{
    const fa_cap_nodes *s = &line->nodes;
    const fa_cap_plan *p = &line->plan;
    fa_cap_moduli moduli = line->moduli;
    fa_cap_errors errors;
    double u = sqrt(p->c * p->c + t * t), steps = fa_min(FA_CAP_SYNC, line->n), left;
    fa_cap_rounding(job, line, u, steps, &errors);
    out->ends = fa_cap_ends(job, line, p->c, u, 2);
    errors.fixed = moduli.line + out->ends;
    errors.mean = moduli.mean + fa_cap_ends(job, line, 1.0, 1.0, 2);
    errors.large = 0.0;
    if (line->w.has_floor) {
        double b0 = exp(fa_cap_k(job, &line->w, s, p->c, 0, 0.0).k / job->steps - p->c * s->mean);
        errors.large = fa_cap_rounding_large(job, line, u, steps) + moduli.large + 2e-18 * b0 + out->ends;
    }
    fa_cap_weigh_points(job, line, eps, log_value, &errors, out);
    out->alias = fa_cap_alias(job, line, eps, log_value, p->right, moduli.right);
    left = fa_cap_alias(job, line, eps, log_value, p->left, moduli.right);
    if (!(left + out->put < FA_CAP_SMALL)) { /* the moduli at the right point may say nothing left of it */
        moduli = fa_cap_quadrature(job, line, t, p->left);
        left = fa_cap_alias(job, line, eps, log_value, p->left, moduli.right);
        out->put = fa_cap_put(job, line, eps, log_value, moduli.right, &out->put_rate);
    }
    out->alias += left;
}

/* all entries at eps, delta there about exp(log_value).  Adds points while the tail asks for them */
FA_FUNC void fa_cap_close_ledger(const fa_cap_job *job, fa_cap_line *line, const fa_cap_effort *effort, double eps,
                                 double log_value, fa_cap_ledger *out)
{
    const fa_cap_plan *p = &line->plan;
    double t, both;
    memset(out, 0, sizeof(*out));
    if (!p->is_bare)
        out->tail = fa_cap_close_tail(job, line, effort, eps, log_value);
    t = line->n * p->h;
    line->moduli = fa_cap_quadrature(job, line, t, p->right);
    out->closed = fa_cap_closed_part(job, &line->w, eps, log_value).error;
    out->put = fa_cap_put(job, line, eps, log_value, line->moduli.right, &out->put_rate);
    if (line->w.has_floor)
        out->floor = fa_cap_weight_at(job, line, eps, log_value, p->low, 1, line->moduli.low);
    if (p->is_bare)
        out->floor += 1.001 * fa_cap_weight_at(job, line, eps, log_value, p->right, 0, line->moduli.right);
    else
        fa_cap_close_points(job, line, t, eps, log_value, out);
    both = out->tail + out->quadrature + out->rounding + out->closed + 8.0 * FA_EPS * (4.0 + fabs(log_value));
    out->up = both + out->put + out->floor;
    out->down = both + out->alias;
    if (!(out->up < INFINITY) || !(out->down < INFINITY))
        out->up = out->down = INFINITY;
}

#endif
