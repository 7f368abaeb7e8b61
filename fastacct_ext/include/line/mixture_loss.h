/* line/mixture_loss.h -- a step of Gaussian mixtures on the capped line, at real points: its loss, where it reaches a
 * value, and how much of it lies beyond a window.
 *
 * P = p_0 N(f, s^2) + sum p_i N(f + m_i, s^2), Q = q_0 N(0, s^2) + sum q_j N(-m_j, s^2), f >= 0, 0 < m <= 1: groups,
 * replace-one and users' mixtures of sampled Gaussians.  l = f (z - f/2)/s^2 + log(1 + w_P) - log(1 + w_Q) is the loss
 * less kappa = log(p_0/q_0).
 */
#ifndef FA_LINE_MIXTURE_LOSS_H
#define FA_LINE_MIXTURE_LOSS_H

#include "../loss/mixtures.h"
#include "../num/window.h"

/* l at z; *moved_out: A - B, the posterior means' distance, s^2 times its slope */
FA_FUNC double fa_mix_l(const fa_pair *m, double z, double *moved_out)
{
    double a, b, l = fa_pair_loss(m, z, &a, &b);
    *moved_out = a - b;
    return l;
}

/* z where l is reached, in closed form or to a few digits; NaN left of all of them, inf right of all */
FA_FUNC double fa_mix_z(const fa_pair *m, double l)
{
    double s2 = m->sigma * m->sigma, moved, low = -INFINITY, high = INFINITY, z = s2 * fa_max(l, -20.0);
    int i;
    if (!(l > 0.0) && !fa_pair_falls(m))
        return NAN;
    if (m->n_p == 1 && !fa_pair_falls(m))
        return s2 / m->p_mean[0] * ((l > 30.0 ? l : log(expm1(l))) - m->p_log[0]);
    if (!(l < 0.0) && !fa_pair_grows(m))
        return INFINITY;
    if (m->n_p)
        z = (z - s2 * m->p_log[m->n_p - 1]) / m->p_top;
    for (i = 0; i < 100; i++) {
        double gap = fa_mix_l(m, z, &moved) - l, next, step;
        if (!fa_pair_falls(m) && gap + l > 0.0) /* log l is the straighter one */
            step = -log((gap + l) / l) * (gap + l) * s2 / fa_max(moved, 1e-300);
        else
            step = -gap * s2 / fa_max(moved, 1e-300);
        if (gap > 0.0)
            high = z;
        else
            low = z;
        step = fa_max(-20.0 * m->sigma - fabs(z), fa_min(20.0 * m->sigma + fabs(z), step));
        next = z + step;
        if (!(next > low && next < high))
            next = low > -INFINITY && high < INFINITY ? 0.5 * (low + high) : next > z ? z + 1.0 : z - 1.0;
        if (fabs(next - z) <= 1e-9 * (fabs(z) + m->sigma))
            return next;
        z = next;
    }
    return z;
}

/* E_Q[(e^L - 1)^2], about, without what both sides have in common */
FA_FUNC double fa_mix_chi_square(const fa_pair *m)
{
    double sum = expm1(fa_min(50.0, m->p_from * m->p_from * m->inv_var));
    int side, i, j;
    for (side = 0; side < 2; side++) {
        int n = side ? m->n_q : m->n_p;
        const double *mean = side ? m->q_mean : m->p_mean, *weight = (side ? m->q_weight : m->p_weight) + 1;
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                sum += exp(weight[i] + weight[j]) * expm1(fa_min(50.0, mean[i] * mean[j] * m->inv_var));
    }
    return sum;
}

/* log of what lies beyond the cap under Q, and what P has more there, less what it has less, as two sums of positive
 * terms */
FA_FUNC void fa_mix_tails(const fa_pair *m, double cap, double sd, double *log_q, double *log_more, double *log_less)
{
    double own = m->q_weight[0] + fa_log_tail(cap / sd), both = expm1(m->p_weight[0] - m->q_weight[0]);
    fa_log_total q = {-INFINITY, 0.0}, more = q, less = q;
    int i;
    fa_add_log(&q, own);
    if (m->p_from > 0.0) {
        fa_add_log(&more, m->p_weight[0] + fa_log_tail((cap - m->p_from) / sd));
        fa_add_log(&less, own);
    }
    else
        fa_add_log(both > 0.0 ? &more : &less, own + log(fa_max(fabs(both), 1e-300)));
    for (i = 0; i < m->n_p; i++)
        fa_add_log(&more, m->p_weight[i + 1] + fa_log_tail((cap - m->p_from - m->p_mean[i]) / sd));
    for (i = 0; i < m->n_q; i++) {
        double term = m->q_weight[i + 1] + fa_log_tail((cap - m->q_mean[i]) / sd);
        fa_add_log(&less, term);
        fa_add_log(&q, term);
    }
    *log_q = fa_log_of_total(&q);
    *log_more = fa_log_of_total(&more);
    *log_less = fa_log_of_total(&less);
}

/* walled: log of E_Q[(e^l - 1) low], the window at `floor`, sd that of z + window */
FA_FUNC double fa_mix_log_low(const fa_pair *m, double floor, double sd)
{
    fa_log_total sum = {-INFINITY, 0.0};
    int i;
    for (i = 0; i < m->n_p; i++)
        fa_add_log(&sum, m->p_weight[i + 1] - m->p_weight[0] + fa_log_tail((m->p_mean[i] - floor) / sd));
    return fa_log_of_total(&sum);
}

/* the loss of the lowest point that Q is worth looking at */
FA_INLINE double fa_mix_dip(const fa_pair *m)
{
    double moved;
    return fa_pair_falls(m) ? fa_max(0.0, -fa_mix_l(m, m->q_low - 7.0 * m->sigma, &moved)) : 0.0;
}

#define FA_MIX_CHUNK  64   /* nodes at a time */
#define FA_MIX_FORGET 50.0 /* -log of a share of w that is nothing: 64 of them are 1e-20 */

/* The components of one side that matter from z0 to z1, copied in their order; how many.  Of any other one's term, one
 * of these has e^50 times as much at both ends, and so in between: its logarithm is linear in z */
FA_FUNC int fa_mix_matter(int n_comp, const double *mean, const double *log_weight, double inv_var, double z0,
                          double z1, double *mean_out, double *log_out)
{
    double left[FA_COMPONENTS], right[FA_COMPONENTS];
    int i, a = 0, b = 0, many = 0;
    for (i = 0; i < n_comp; i++) {
        left[i] = FA_FMA(mean[i] * inv_var, z0, log_weight[i]);
        right[i] = FA_FMA(mean[i] * inv_var, z1, log_weight[i]);
        a = left[i] > left[a] ? i : a;
        b = right[i] > right[b] ? i : b;
    }
    for (i = 0; i < n_comp; i++) {
        if (fa_max(left[i] - left[a], right[i] - right[a]) < -FA_MIX_FORGET ||
            fa_max(left[i] - left[b], right[i] - right[b]) < -FA_MIX_FORGET)
            continue;
        mean_out[many] = mean[i];
        log_out[many++] = log_weight[i];
    }
    return many;
}

/* the largest exponent of one side's terms at z, 1 = e^0 included */
FA_FUNC void fa_mix_top(int n_comp, const double *mean, const double *log_weight, double inv_var, int n,
                        const double *z, double *top)
{
    int i, j;
    memset(top, 0, sizeof(double) * (size_t)n);
    for (i = 0; i < n_comp; i++) {
        double rate = mean[i] * inv_var, at = log_weight[i];
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++)
            top[j] = fa_max(top[j], FA_FMA(rate, z[j], at));
    }
}

/* log(1 + w) of one side at some real z, the posterior mean, and what log(1 + w) rounds, in units of the last place:
 * its exponents, each by its share, and the sum */
FA_FUNC void fa_mix_some(int n_comp, const double *mean, const double *log_weight, double inv_var, int n,
                         const double *z, double *value, double *posterior, double *rough)
{
    double each = 8.0 + n_comp, top[FA_MIX_CHUNK], sum[FA_MIX_CHUNK];
    int i, j;
    fa_mix_top(n_comp, mean, log_weight, inv_var, n, z, top);
    memset(sum, 0, sizeof(double) * (size_t)n);
    memset(posterior, 0, sizeof(double) * (size_t)n);
    memset(rough, 0, sizeof(double) * (size_t)n);
    for (i = 0; i < n_comp; i++) {
        double rate = mean[i] * inv_var, at = log_weight[i], m = mean[i];
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double e = fa_exp_plain_v(fa_max(-690.0, FA_FMA(rate, z[j], at) - top[j]));
            sum[j] += e;
            posterior[j] = FA_FMA(m, e, posterior[j]);
            rough[j] += e * 2.0 * (fabs(rate * z[j]) + fabs(at));
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double one = fa_exp_plain_v(fa_max(-690.0, -top[j])), all = one + sum[j];
        value[j] = top[j] > 0.0 ? top[j] + fa_log_v(all) : fa_log1p_plain_v(sum[j]);
        posterior[j] /= all;
        rough[j] = rough[j] / all + each * value[j];
    }
}

/* the same of nodes, which increase: of components that do not matter there nothing is seen */
FA_FUNC void fa_mix_side(int n_comp, const double *mean, const double *log_weight, double inv_var, int n,
                         const double *z, double *value, double *posterior, double *rough)
{
    double own[FA_COMPONENTS], own_log[FA_COMPONENTS];
    int i, size, many;
    for (i = 0; i < n; i += size) {
        size = n - i < FA_MIX_CHUNK ? n - i : FA_MIX_CHUNK;
        many = fa_mix_matter(n_comp, mean, log_weight, inv_var, z[i], z[i + size - 1], own, own_log);
        fa_mix_some(many, own, own_log, inv_var, size, z + i, value + i, posterior + i, rough + i);
    }
}

#endif
