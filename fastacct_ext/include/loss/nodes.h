/* loss/nodes.h -- values of the loss and weights of Q on a line z = x + i y in the complex plane, x = j h.
 *
 *   real line, for searching:   K(u) = u mean + log(1 + sum W (exp(u l) - 1)),   l the loss less its mean under Q
 *   complex lines:              K(u) = u mean + log(1 + sum W (exp(u l) - 1 - u l))
 *
 * In the second form the terms of records hardly touched are of second order: its relative accuracy does not suffer
 * from many steps.
 *
 * y = 0 for moderate Im u; a constant shift y > 0 makes exp(u l) decay with Im u, so that one step h serves every Im u
 * >= 0. Proofs: docs/algorithms/log_moments.md.
 */
#ifndef FA_LOSS_NODES_H
#define FA_LOSS_NODES_H

#include <stdlib.h>

#include "../kernels.h"
#include "mixtures.h"

#define FA_LANE      8
#define FA_NODES_MAX 16384
#define FA_WIDTH     8.5  /* the line ends where the integrand falls faster than exp(-8.5 z/sigma) */
#define FA_NEED      41.6 /* -log of the relative aliasing error, 2^-60 */

typedef struct {
    int n, capacity;
    int64_t j0;
    double h, y;
    double alias;              /* aliasing error of r over the size of the integrand, without the factor for Im u */
    double *lr, *li, *wr, *wi; /* loss, weight (0 where it underflows) */
    double *log_w, *arg_w;     /* the weight in polar form */
    double *vr, *vi, *er, *ei; /* W (exp(u l) - 1 - u l), exp(i h_t l) */
    double *gr, *gi, *fr, *fi; /* what a step adds, and by how much that grows a step */
    double *memory;
} fa_nodes;

FA_FUNC void fa_nodes_free(fa_nodes *s)
{
    free(s->memory);
    memset(s, 0, sizeof(*s));
}

/* room for n nodes; 0 when out of memory */
FA_FUNC int fa_nodes_reserve(fa_nodes *s, int n)
{
    int c = s->capacity;
    if (n <= c)
        return 1;
    while (c < n)
        c = c ? 2 * c : 64;
    free(s->memory);
    s->memory = fa_alloc(sizeof(double) * 14 * (size_t)c + 64);
    s->capacity = s->memory ? c : 0;
    s->n = 0;
    if (!s->memory)
        return 0;
    {
        double *p = (double *)(((uintptr_t)s->memory + 63) & ~(uintptr_t)63);
        s->lr = p;
        s->li = p + c;
        s->wr = p + 2 * (size_t)c;
        s->wi = p + 3 * (size_t)c;
        s->vr = p + 4 * (size_t)c;
        s->vi = p + 5 * (size_t)c;
        s->er = p + 6 * (size_t)c;
        s->ei = p + 7 * (size_t)c;
        s->gr = p + 8 * (size_t)c;
        s->gi = p + 9 * (size_t)c;
        s->log_w = p + 10 * (size_t)c;
        s->arg_w = p + 11 * (size_t)c;
        s->fr = p + 12 * (size_t)c;
        s->fi = p + 13 * (size_t)c;
    }
    return 1;
}

/* ends of the line for exponents u (real part a, a > 1 or a < 0):  beyond `right` the slope of log |exp(u l) Q| is
 * below -FA_WIDTH/sigma. Iterating z <- c A(z) - (c-1) q_low + width from above stays valid at every step, because A
 * increases. */
FA_FUNC void fa_pair_ends(const fa_pair *m, double a, double *left_out, double *right_out)
{
    double width = FA_WIDTH * m->sigma, A, B, z, low = m->q_low;
    int i;
    if (a > 0.0) {
        double add = -fa_max(a - 1.0, 0.0) * low + width;
        z = a * m->p_top + add;
        for (i = 0; i < 40; i++) {
            double next;
            fa_pair_loss(m, z, &A, &B);
            next = a * A + add;
            if (!(z - next > 0.05 * width))
                break;
            z = next;
        }
        *right_out = fa_max(z, width);
        *left_out = low - width;
    }
    else {
        z = low - width;
        fa_pair_loss(m, z, &A, &B);
        *left_out = a * A + (1.0 - a) * low - width;
        *right_out = m->p_top + width; /* the mean of the loss needs P's bulk */
    }
}

/* step of the real line for |Im u| <= t, and of the shifted line for any Im u >= 0; the larger wins.  need: -log of the
 * error allowed */
FA_FUNC double fa_line_step(const fa_pair *m, double a, double t, double need, double *y_out, double *alias_out)
{
    double s2 = m->sigma * m->sigma, wide = m->p_top - m->q_low;     /* Im loss <= wide * Im z / sigma^2 */
    double top = a > 0.0 && m->n_q == 0 ? 0.9 * FA_PI : 0.5 * FA_PI; /* largest Im z / sigma^2 that the bounds cover */
    double d = fa_min(sqrt(2.0 * need) / m->sigma, top);
    double real = 2.0 * FA_PI / (t * wide + need / d + 0.5 * s2 * d), e, shifted;
    e = fa_min(0.5 * top, 1.6 / m->sigma);
    shifted = 2.0 * FA_PI * e / (need + 2.0 * s2 * e * e);
    *alias_out = 2.0 * exp(-need) / (1.0 - exp(-need));
    if (t * wide < 300.0 && real >= shifted) {
        *y_out = 0.0;
        return real * s2;
    }
    *y_out = e * s2;
    return shifted * s2;
}

/* fill the line; 0 when it would need too many nodes or memory */
FA_FUNC int fa_nodes_fill(fa_nodes *s, const fa_pair *m, double h, double y, double left, double right)
{
    double count, base, vy = y * m->inv_var;
    int i, n;
    int64_t j0;
    h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1)); /* j h is exact */
    if (!(right - left < h * FA_NODES_MAX) || !(fabs(left) < 0x1p40 * h))
        return 0;
    j0 = (int64_t)floor(left / h);
    count = ceil((right - (double)j0 * h) / h) + 1.0;
    n = ((int)count + 2 * FA_LANE - 1) / (2 * FA_LANE) * (2 * FA_LANE);
    if (!fa_nodes_reserve(s, n))
        return 0;
    s->n = n;
    s->j0 = j0;
    s->h = h;
    s->y = y;
    base = m->log_q0 + log(h / m->sigma) - 0.918938533204672741780 + 0.5 * y * vy;
    if (m->n_p == 1 && m->n_q == 0 && m->slope == 0.0) {
        double mean = m->p_mean[0] * m->inv_var, lw = m->p_log[0], inv_var = m->inv_var;
        if (y == 0.0) {
            FA_PRAGMA(omp simd)
            for (i = 0; i < n; i++) {
                double x = (double)(j0 + i) * h, log_w = base - 0.5 * x * (x * inv_var), e = FA_FMA(mean, x, lw);
                s->lr[i] = fa_log1p_plain_v(fa_exp_plain_v(-fabs(e))) + fa_max(e, 0.0);
                s->log_w[i] = log_w;
                s->wr[i] = log_w > -690.0 ? fa_exp_plain_v(log_w) : 0.0;
                s->li[i] = s->arg_w[i] = s->wi[i] = 0.0;
            }
            return 1;
        }
        FA_PRAGMA(omp simd)
        for (i = 0; i < n; i++) {
            double x = (double)(j0 + i) * h, c, sn, w, li, log_w = base - 0.5 * x * (x * inv_var);
            s->lr[i] = fa_log1p_exp_v(FA_FMA(mean, x, lw), mean * y, &li);
            s->li[i] = li;
            s->log_w[i] = log_w;
            s->arg_w[i] = -x * vy;
            w = log_w > -690.0 ? fa_exp_plain_v(log_w) : 0.0;
            sn = fa_sincos_v(-x * vy, &c);
            s->wr[i] = w * c;
            s->wi[i] = w * sn;
        }
    }
    else {
        for (i = 0; i < n; i++) {
            double x = (double)(j0 + i) * h, pi, qi, p, q, w;
            p = fa_log1p_sum(m->n_p, m->p_mean, m->p_log, m->inv_var, x, y, &pi);
            q = fa_log1p_sum(m->n_q, m->q_mean, m->q_log, m->inv_var, x, y, &qi);
            s->lr[i] = m->slope * x + m->offset + p - q;
            s->li[i] = m->slope * y + pi - qi;
            s->log_w[i] = base - 0.5 * x * (x * m->inv_var) + q;
            s->arg_w[i] = qi - x * vy;
            w = s->log_w[i] > -690.0 ? exp(s->log_w[i]) : 0.0;
            s->wr[i] = w * cos(s->arg_w[i]);
            s->wi[i] = w * sin(s->arg_w[i]);
        }
    }
    return 1;
}

#define FA_PLAIN_EXPONENT 600.0 /* below it exp(u l) and the weight are normal doubles, each for itself */

/* real line from its first node up to `right`: r, and its first two derivatives in u; +inf where a term overflows */
FA_FUNC double fa_real_sums(const fa_nodes *s, double u, double right, double *d1_out, double *d2_out)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, peak = -INFINITY;
    const double *l = s->lr, *w = s->wr, *log_w = s->log_w;
    int i, n = (int)fa_min((double)s->n, floor((ceil(right / s->h) - (double)s->j0 + FA_LANE) / FA_LANE) * FA_LANE);
    *d1_out = *d2_out = 0.0;
    if (fabs(u) * fa_max(fabs(l[0]), fabs(l[n - 1])) < FA_PLAIN_EXPONENT) {
        FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
        for (i = 0; i < n; i++) {
            double m, e = fa_exp_both_v(u * l[i], &m), wl = w[i] * l[i];
            s0 = FA_FMA(w[i], m, s0);
            s1 = FA_FMA(wl, e, s1);
            s2 = FA_FMA(wl * l[i], e, s2);
        }
    }
    else {
        FA_PRAGMA(omp simd reduction(+ : s0, s1, s2) reduction(max : peak))
        for (i = 0; i < n; i++) {
            double m, t = u * l[i], size = t + log_w[i], e = fa_exp_plain_v(size), wl;
            (void)fa_exp_both_v(fa_min(t, 1.0), &m);
            e = size > -690.0 ? e : 0.0;
            wl = e * l[i];
            s0 += t < 1.0 ? w[i] * m : e - w[i];
            s1 += wl;
            s2 = FA_FMA(wl, l[i], s2);
            peak = fa_max(peak, size);
        }
        if (peak > 680.0)
            return INFINITY;
    }
    *d1_out = s1;
    *d2_out = s2;
    return s0;
}

/* where the real line may end at the earliest: E_Q[(e^L - 1)^2], which bounds what fa_mean_loss sums, has its mass at 2
 * p_top - q_low */
FA_INLINE double fa_mean_end(const fa_pair *m) { return 2.0 * m->p_top - m->q_low + FA_WIDTH * m->sigma; }

/* mean of the loss under Q, -E_Q[exp(L) - 1 - L] since E_Q[exp(L)] = 1: all terms of one sign, relative accuracy for
 * tiny losses */
FA_FUNC double fa_mean_loss(const fa_nodes *s, double kappa)
{
    double sum = 0.0;
    int i, n = s->n;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (i = 0; i < n; i++) {
        double loss = s->lr[i] + kappa, e, small = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &e),
               size = loss + s->log_w[i];
        double big = (size > -690.0 ? fa_exp_plain_v(size) : 0.0) - s->wr[i] * (1.0 + loss);
        sum += loss < 1.0 ? s->wr[i] * small : big;
    }
    return -sum;
}

/* bound of its error: weights and terms to 80 u, their exponents x^2/(2 sigma^2) and those of the loss to a few u of
 * themselves, the loss kappa + l to u |kappa| (by Cauchy-Schwarz, E|L| <= sqrt(2 |mean|) about), aliasing of E_Q[x -
 * log(1+x)], |x - log(1+x)| <= min(4 |x|^2, 3 (1 + |x|)) on the shifted lines, x = q (exp(y) - 1) for sampled Gaussians
 */
FA_FUNC double fa_mean_error(const fa_pair *m, double mean, double need)
{
    double q = m->sample_rate, square = q > 0.0 ? 4.0 * q * q * (exp(fa_min(m->inv_var, 600.0)) + 3.0) : INFINITY,
           far = 0.0, x = fa_mean_end(m);
    int i;
    for (i = 0; i < m->n_p; i++)
        far = fa_max(far, fabs(m->p_log[i]));
    for (i = 0; i < m->n_q; i++)
        far = fa_max(far, fabs(m->q_log[i]));
    far = 80.0 + 3.0 * (far + fa_max(m->p_top, -m->q_low) * m->inv_var * x) + x * x * m->inv_var;
    return FA_EPS * (far * fabs(mean) + 6.0 * fabs(m->kappa) * sqrt(2.0 * fabs(mean))) +
           4.0 * exp(-need) * fa_min(6.0, square) + 1e-300;
}

/* make the losses relative to their mean */
FA_INLINE void fa_nodes_shift(fa_nodes *s, double by)
{
    int i, n = s->n;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++)
        s->lr[i] += by;
}

/* nodes beyond z = cut count no more */
FA_FUNC void fa_nodes_cut(fa_nodes *s, double cut)
{
    int i, last = s->n - 1;
    while (last > 0 && (double)(s->j0 + last) * s->h > cut)
        last--;
    for (i = last + 1; i < s->n; i++) {
        s->lr[i] = s->lr[last];
        s->li[i] = s->li[last];
        s->wr[i] = s->wi[i] = s->arg_w[i] = 0.0;
        s->log_w[i] = -1e4;
    }
}

#endif
