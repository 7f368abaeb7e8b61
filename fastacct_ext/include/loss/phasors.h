/* loss/phasors.h -- W (exp(u l) - 1 - u l) at the nodes for u along a vertical line: a product and two sums from point
 * to point.  docs/algorithms/contour.md.
 */
#ifndef FA_LOSS_PHASORS_H
#define FA_LOSS_PHASORS_H

#include <stdlib.h>

#include "../kernels.h"
#include "mixtures.h"

#define FA_RUN 8 /* points that are summed in a row */

/* nodes on the real line, their number a multiple of FA_LANES */
typedef struct {
    int n;
    double *lr, *wr, *log_w;   /* loss, weight (0 where it underflows), its logarithm */
    double *vr, *vi, *er, *ei; /* W (exp(u l) - 1 - u l), exp(i h_t l) */
    double *gr, *gi, *fr, *fi; /* what a step adds, and by how much that grows a step */
} fa_nodes;

/* n phasors (vr, vi) that turn by (er, ei) from point to point, and grow by (gr, gi), which grows by (fr, fi), unless
 * gr is NULL */
typedef struct {
    double *vr, *vi, *gr, *gi;
    const double *er, *ei, *fr, *fi;
} fa_turning;

/* sums at the present point and the next seven; every node is loaded and stored once.  n is a multiple of FA_LANES */
FA_INLINE void fa_turn_run(const fa_turning *all, int first, int n, const int grows, double *re_out, double *im_out)
{
    double sr[FA_RUN][FA_LANES] = {{0.0}}, si[FA_RUN][FA_LANES] = {{0.0}};
    int start, lane, k;
    for (start = first; start < n; start += FA_LANES) {
        double *vr = all->vr + start, *vi = all->vi + start, *gr = grows ? all->gr + start : vr,
               *gi = grows ? all->gi + start : vi;
        const double *er = all->er + start, *ei = all->ei + start, *fr = grows ? all->fr + start : er,
                     *fi = grows ? all->fi + start : ei;
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++) {
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
        for (lane = 0; lane < FA_LANES; lane++) {
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

#endif
