/* loss/phasors.h -- W (exp(u l) - 1 - u l) at the nodes for u along a vertical line: a product and two sums from point
 * to point, and what that rounds.  docs/algorithms/contour.md.
 */
#ifndef FA_LOSS_PHASORS_H
#define FA_LOSS_PHASORS_H

#include "nodes.h"

/* start the phasors at u = a + i t, t = k h_t, to advance by i h_t.  With s = u l, d = i h_t l:
 * exp2(s + d) = exp(d) exp2(s) + [exp2(d) + s (exp(d) - 1)],  exp2(s) = exp(s) - 1 - s;  the bracket is linear in k */
FA_FUNC void fa_phasors(fa_nodes *s, double a, double t, double h_t)
{
    int i, n = s->n;
    double steps = t / h_t;
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double l = s->lr[i], k = s->li[i], wr = s->wr[i], wi = s->wi[i], p = FA_FMA(a, l, -t * k),
               f = FA_FMA(a, k, t * l), size = p + s->log_w[i];
        double ei, er = fa_cexp2_v(fa_min(p, 1.0), f, &ei), c, sn = fa_sincos_v(f + s->arg_w[i], &c),
                   e = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        double one = 1.0 + p;
        s->vr[i] = p < 1.0 ? wr * er - wi * ei : e * c - (wr * one - wi * f);
        s->vi[i] = p < 1.0 ? FA_FMA(wr, ei, wi * er) : e * sn - FA_FMA(wr, f, wi * one);
    }
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double l = s->lr[i], k = s->li[i], wr = s->wr[i], wi = s->wi[i], dp = -h_t * k, df = h_t * l, ei,
               er = fa_cexpm1_v(dp, df, &ei), x2i, x2 = fa_cexp2_v(dp, df, &x2i);
        double gr, gi, fr, fi;
        s->er[i] = 1.0 + er;
        s->ei[i] = ei;
        gr = x2 + a * (l * er - k * ei); /* exp2(d) + a l (exp(d) - 1) */
        gi = x2i + a * FA_FMA(l, ei, k * er);
        fr = dp * er - df * ei; /* d (exp(d) - 1) */
        fi = FA_FMA(dp, ei, df * er);
        gr = FA_FMA(steps, fr, gr);
        gi = FA_FMA(steps, fi, gi);
        s->gr[i] = wr * gr - wi * gi;
        s->gi[i] = FA_FMA(wr, gi, wi * gr);
        s->fr[i] = wr * fr - wi * fi;
        s->fi[i] = FA_FMA(wr, fi, wi * fr);
    }
}

#define FA_RUN 8 /* points that are summed in a row */

/* n phasors (vr, vi) that turn by (er, ei) from point to point, and grow by (gr, gi), which grows by (fr, fi), unless
 * gr is NULL */
typedef struct {
    double *vr, *vi, *gr, *gi;
    const double *er, *ei, *fr, *fi;
} fa_turning;

/* sums at the present point and the next seven; every node is loaded and stored once.  n is a multiple of FA_LANE */
FA_INLINE void fa_turn_run(const fa_turning *all, int first, int n, const int grows, double *re_out, double *im_out)
{
    double sr[FA_RUN][FA_LANE] = {{0.0}}, si[FA_RUN][FA_LANE] = {{0.0}};
    int start, lane, k;
    for (start = first; start < n; start += FA_LANE) {
        double *vr = all->vr + start, *vi = all->vi + start, *gr = grows ? all->gr + start : vr,
               *gi = grows ? all->gi + start : vi;
        const double *er = all->er + start, *ei = all->ei + start, *fr = grows ? all->fr + start : er,
                     *fi = grows ? all->fi + start : ei;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANE; lane++) {
            double a = vr[lane], b = vi[lane], c = er[lane], d = ei[lane], p = grows ? gr[lane] : 0.0,
                   q = grows ? gi[lane] : 0.0, next;
#define FA_POINT(k)                                                                                                    \
    sr[k][lane] += a;                                                                                                  \
    si[k][lane] += b;                                                                                                  \
    next = FA_FMA(a, c, grows ? FA_FMA(-b, d, p) : -b * d);                                                            \
    b = FA_FMA(a, d, grows ? FA_FMA(b, c, q) : b * c);                                                                 \
    a = next;                                                                                                          \
    p += grows ? fr[lane] : 0.0;                                                                                       \
    q += grows ? fi[lane] : 0.0;
            FA_POINT(0)
            FA_POINT(1)
            FA_POINT(2)
            FA_POINT(3)
            FA_POINT(4)
            FA_POINT(5)
            FA_POINT(6)
            FA_POINT(7)
#undef FA_POINT
            vr[lane] = a;
            vi[lane] = b;
            if (grows) {
                gr[lane] = p;
                gi[lane] = q;
            }
        }
    }
    for (k = 0; k < FA_RUN; k++) {
        double re = 0.0, im = 0.0;
        FA_PRAGMA(omp simd reduction(+ : re, im))
        for (lane = 0; lane < FA_LANE; lane++) {
            re += sr[k][lane];
            im += si[k][lane];
        }
        re_out[k] = re;
        im_out[k] = im;
    }
}

FA_INLINE void fa_phasor_run(fa_nodes *s, double *re_out, double *im_out)
{
    const fa_turning all = {s->vr, s->vi, s->gr, s->gi, s->er, s->ei, s->fr, s->fi};
    fa_turn_run(&all, 0, s->n, 1, re_out, im_out);
}

/* rounding error of the sum over the unit roundoff, `steps` phasor steps of h_t after a fresh start, for any |u| <=
 * u_max, Im u >= 0. With w = |W|, m = w max(1, exp(a Re l)), x = u_max |l|:  fresh value 40 + 4 |log W| (of the value);
 * l itself, made of log(1 + w_P) - log(1 + w_Q) and off = kappa - mean: exponents E min(1, |l - off|), functions and
 * sums 8 |l - off| + 2 |l| + 2 |off|, the product u l 2 |l|, all times |u| |exp(s) - 1|; a step 5 (of the value) + 16
 * min(2, h_t |l|) (of the value) + 14 (what the step adds) + its own accumulation.  Earlier steps' errors shrink by
 * exp(-h_t Im l). */
FA_FUNC double fa_rounding(const fa_nodes *s, const fa_pair *pair, double off, double a, double u_max, double h_t,
                           double steps)
{
    double sum = 0.0, far = 0.0, slope, shift = fabs(off);
    int i, n = s->n;
    for (i = 0; i < pair->n_p;
         i++) /* largest constant part of an exponent of the loss, and how fast they grow with z */
        far = fa_max(far, fabs(pair->p_log[i]));
    for (i = 0; i < pair->n_q; i++)
        far = fa_max(far, fabs(pair->q_log[i]));
    slope = fa_max(pair->p_top, -pair->q_low) * pair->inv_var;
    FA_PRAGMA(omp simd reduction(+ : sum))
    for (i = 0; i < n; i++) {
        double exponent = 3.0 * (far + slope * (fabs((double)(s->j0 + i) * s->h) + s->y));
        double l = s->lr[i], k = s->li[i], lw = s->log_w[i], size = sqrt(FA_FMA(l, l, k * k)), x = u_max * size,
               d = fa_min(2.0, h_t * size);
        double w = fa_exp_plain_v(lw), m = fa_max(w, fa_exp_plain_v(FA_FMA(a, l, lw)));
        double value = fa_min(0.5 * x * x, 2.0) * m + w * fa_max(0.0, x - 2.0),
               plain = size + shift; /* at least |l - off| */
        double loss = exponent * fa_min(1.0, plain) + 8.0 * plain + 4.0 * size + 2.0 * shift;
        /* |u| |exp(s) - 1| w: x m, 2 m, or exp(-t Im l) bounding t by 0.37/Im l */
        double slack = fa_min(fa_min(x, 2.0) * m * u_max,
                              m * fa_min(u_max, fabs(a) + 0.37 / fa_max(k, 1e-300)) + w * u_max);
        double step = value * FA_FMA(16.0, d, 5.0) + (14.0 + steps) * w * d * fa_min(x, 1e300);
        sum += FA_FMA(value, 40.0 - 4.0 * fa_min(lw, 0.0), slack * loss) +
               step * fa_min(steps, 1.0 + 1.0 / fa_max(h_t * k, 1e-300));
    }
    return sum;
}

#endif
