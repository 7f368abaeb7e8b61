/* loss_nodes.h -- values of the loss and weights of Q on a line z = x + i y in the complex plane, x = j h.
 *
 *   M(u) exp(-u kappa) = 1 + r(u),    r(u) = sum_j W_j (exp(u l_j) - 1) + error        (r without kappa: K(u) = u kappa + log(1 + r))
 *
 * y = 0 for moderate Im u; a constant shift y > 0 makes exp(u l) decay with Im u, so that one step h serves every Im u >= 0.
 * Proofs: docs/algorithms/log_moments.md.
 */
#ifndef FA_LOSS_NODES_H
#define FA_LOSS_NODES_H

#include <stdlib.h>

#include "mech/gaussian_mixtures.h"

#define FA_LANE 8
#define FA_NODES_MAX 16384
#define FA_WIDTH 8.5                  /* the line ends where the integrand falls faster than exp(-8.5 z/sigma) */
#define FA_NEED 41.6                  /* -log of the relative aliasing error, 2^-60 */

typedef struct {
    int n, capacity;
    int64_t j0;
    double h, y;
    double alias;                     /* aliasing error of r over the size of the integrand, without the factor for Im u */
    double *lr, *li, *wr, *wi;        /* loss, weight */
    double *vr, *vi, *er, *ei, *gr, *gi;   /* W (exp(u l) - 1), exp(i h_t l), W (exp(i h_t l) - 1) */
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
        c = c ? 2 * c : 256;
    free(s->memory);
    s->memory = malloc(sizeof(double) * 10 * (size_t)c + 64);
    s->capacity = s->memory ? c : 0;
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
    }
    return 1;
}

/* ends of the line for exponents u (real part a, a > 1 or a < 0):  beyond `right` the slope of log |exp(u l) Q| is below -FA_WIDTH/sigma.
 * Iterating z <- c A(z) - (c-1) q_low + width from above stays valid at every step, because A increases. */
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
        *right_out = width;
    }
}

/* step of the real line for |Im u| <= t, and of the shifted line for any Im u >= 0; the larger wins.  need: -log of the error allowed */
FA_FUNC double fa_line_step(const fa_pair *m, double a, double t, double need, double *y_out, double *alias_out)
{
    double s2 = m->sigma * m->sigma, wide = m->p_top - m->q_low;             /* Im loss <= wide * Im z / sigma^2 */
    double top = a > 0.0 && m->n_q == 0 ? 0.9 * FA_PI : 0.5 * FA_PI;           /* largest Im z / sigma^2 that the bounds cover */
    double d = fa_min(sqrt(2.0 * need) / m->sigma, top);
    double real = 2.0 * FA_PI / (t * wide + need / d + 0.5 * s2 * d), e, shifted;
    e = fa_min(0.5 * top, 2.0 / m->sigma);
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
    h = fa_from_bits(fa_bits(h) & ~((1ULL << 29) - 1));                       /* j h is exact */
    if (!(right - left < h * FA_NODES_MAX) || !(fabs(left) < 0x1p40 * h))
        return 0;
    j0 = (int64_t)floor(left / h);
    count = ceil((right - (double)j0 * h) / h) + 1.0;
    n = ((int)count + 4 * FA_LANE - 1) / (4 * FA_LANE) * (4 * FA_LANE);
    if (s->n == n && s->j0 == j0 && s->h == h && s->y == y)
        return 1;                                                             /* the same pair is the caller's care */
    if (!fa_nodes_reserve(s, n))
        return 0;
    s->n = n;
    s->j0 = j0;
    s->h = h;
    s->y = y;
    base = m->log_q0 + log(h / m->sigma) - 0.918938533204672741780 + 0.5 * y * vy;
    if (m->n_p == 1 && m->n_q == 0 && m->slope == 0.0) {
        double mean = m->p_mean[0] * m->inv_var, lw = m->p_log[0], inv_var = m->inv_var;
        FA_PRAGMA(omp simd)
        for (i = 0; i < n; i++) {
            double x = (double)(j0 + i) * h, c, sn, w, li;
            s->lr[i] = fa_log1p_exp_v(FA_FMA(mean, x, lw), mean * y, &li);
            s->li[i] = li;
            w = fa_exp_plain_v(base - 0.5 * x * (x * inv_var));
            sn = fa_sincos_v(x * vy, &c);
            s->wr[i] = w * c;
            s->wi[i] = -w * sn;
        }
    }
    else {
        for (i = 0; i < n; i++) {
            double x = (double)(j0 + i) * h, pi, qi, p, q, w;
            p = fa_log1p_sum(m->n_p, m->p_mean, m->p_log, m->inv_var, x, y, &pi);
            q = fa_log1p_sum(m->n_q, m->q_mean, m->q_log, m->inv_var, x, y, &qi);
            s->lr[i] = m->slope * x + m->offset + p - q;
            s->li[i] = m->slope * y + pi - qi;
            w = exp(fa_max(base - 0.5 * x * (x * m->inv_var) + q, -700.0));
            s->wr[i] = w * cos(qi - x * vy);
            s->wi[i] = w * sin(qi - x * vy);
        }
    }
    return 1;
}

/* real line from its first node up to `right`: r, and its first two derivatives in u; +inf where |u l| reaches 690 */
FA_FUNC double fa_real_sums(const fa_nodes *s, double u, double right, double *d1_out, double *d2_out)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0;
    const double *l = s->lr, *w = s->wr;
    int i, n = (int)fa_min((double)s->n, (ceil(right / s->h) - (double)s->j0 + FA_LANE) / FA_LANE * FA_LANE);
    *d1_out = *d2_out = 0.0;
    if (fabs(u) * fa_max(fabs(l[0]), fabs(l[n - 1])) > 690.0)
        return INFINITY;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (i = 0; i < n; i++) {
        double m, e = fa_exp_both_v(u * l[i], &m), wl = w[i] * l[i];
        s0 = FA_FMA(w[i], m, s0);
        s1 = FA_FMA(wl, e, s1);
        s2 = FA_FMA(wl * l[i], e, s2);
    }
    *d1_out = s1;
    *d2_out = s2;
    return s0;
}

/* start the phasors at u = a + i t, to advance by i h_t */
FA_FUNC void fa_phasors(fa_nodes *s, double a, double t, double h_t, int steps_too)
{
    int i, n = s->n;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double l = s->lr[i], k = s->li[i], wr = s->wr[i], wi = s->wi[i], ei, er = fa_cexpm1_v(FA_FMA(a, l, -t * k), FA_FMA(a, k, t * l), &ei);
        s->vr[i] = wr * er - wi * ei;
        s->vi[i] = FA_FMA(wr, ei, wi * er);
    }
    if (!steps_too)
        return;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double l = s->lr[i], k = s->li[i], wr = s->wr[i], wi = s->wi[i], ei, er = fa_cexpm1_v(-h_t * k, h_t * l, &ei);
        s->er[i] = 1.0 + er;
        s->ei[i] = ei;
        s->gr[i] = wr * er - wi * ei;
        s->gi[i] = FA_FMA(wr, ei, wi * er);
    }
}

/* r at the present point, then one step on */
FA_INLINE void fa_phasor_step(fa_nodes *s, double *re_out, double *im_out)
{
    double re = 0.0, im = 0.0, *vr = s->vr, *vi = s->vi, *er = s->er, *ei = s->ei, *gr = s->gr, *gi = s->gi;
    int i, n = s->n;
    FA_PRAGMA(omp simd reduction(+ : re, im))
    for (i = 0; i < n; i++) {
        double a = vr[i], b = vi[i];
        re += a;
        im += b;
        vr[i] = FA_FMA(a, er[i], FA_FMA(-b, ei[i], gr[i]));
        vi[i] = FA_FMA(a, ei[i], FA_FMA(b, er[i], gi[i]));
    }
    *re_out = re;
    *im_out = im;
}

/* what the ledger needs: sums of |W| m min(2, U|l|) and |W| m min(U|l|, |a l| + |l|/(e Im l)), m = max(1, exp(a Re l)) */
FA_FUNC void fa_rounding_sums(const fa_nodes *s, double a, double u_max, double *value_out, double *phase_out)
{
    double s0 = 0.0, s1 = 0.0;
    int i, n = s->n;
    FA_PRAGMA(omp simd reduction(+ : s0, s1))
    for (i = 0; i < n; i++) {
        double l = s->lr[i], k = s->li[i], size = sqrt(FA_FMA(l, l, k * k)), w = sqrt(FA_FMA(s->wr[i], s->wr[i], s->wi[i] * s->wi[i]));
        double m = w * fa_max(1.0, fa_exp_plain_v(a * l));
        s0 = FA_FMA(m, fa_min(2.0, u_max * size), s0);
        s1 = FA_FMA(m, fa_min(u_max * size, fabs(a) * size + 0.37 * size / fa_max(k, 1e-300)), s1);
    }
    *value_out = s0;
    *phase_out = s1;
}

#endif
