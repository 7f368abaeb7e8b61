/* line/long_kinds.h -- the moments of one release at a run of points, far along a line: in closed form, by series of
 * its ends, or by nodes.
 *
 *   M(u) = e^(u l_0) A_0 + e^(u l_1) A_1,   A_e = atom_e + sum_j coef_j (u + slope)^-(j+1)
 *
 * One term is exact where the density is an exponential.  docs/algorithms/rays.md, "Many kinds".
 */
#ifndef FA_LINE_LONG_KINDS_H
#define FA_LINE_LONG_KINDS_H

#include "lattice_line.h"
#include "ray_ends.h"

#define FA_LONG_RUN    64    /* points between fresh starts of the phasors */
#define FA_LONG_SERIES -37.0 /* log of what series may leave out, over M(c): less than u */

enum { FA_LONG_ONE, FA_LONG_OTHER, FA_LONG_REST, FA_LONG_GROUPS };

/* a kind, its moments over M(c): atoms and series of both ends in 1/(u + slope), times e^(u place); before `until` by
 * nodes.  Besides how its phasor turns in eight points, how often each group has it, a bound far out of |M|, atoms +
 * varies/t, about its mean square there, and what a moment rounds, in u: always, and a unit of t */
typedef struct {
    double steps, place, gap, slope, turn_r, turn_i, power[FA_LONG_GROUPS], atoms, varies, mean, fixed, by_t;
    double until;   /* 0: the series are one term, and exact; INFINITY: there are none */
    double rest[FA_RAY_TERMS]; /* log of what so many terms leave out at t = 1 */
    fa_ends ends;
    const fa_cap_nodes *nodes;
} fa_long_kind;

/* the coefficients of both ends over M(c) */
FA_FUNC void fa_long_scale(fa_long_kind *kind, double c, double log_m, int terms)
{
    int e, j;
    for (e = 0; e < 2; e++) {
        fa_end *end = kind->ends.end + e;
        double size = exp(c * end->place - log_m);
        end->atom *= size;
        kind->mean += end->atom * end->atom;
        for (j = 0; j < terms; j++)
            end->coef[j] *= size;
    }
    kind->place = kind->ends.end[0].place;
    kind->gap = kind->ends.end[1].place - kind->place;
}

/* a kind in closed form */
FA_FUNC void fa_long_close(fa_long_kind *kind, const fa_two_ends *two, double c, double log_m)
{
    double parts = 0.0;
    int e;
    for (e = 0; e < 2; e++) {
        kind->ends.end[e].place = two->place + e * two->gap;
        kind->ends.end[e].atom = two->atom[e];
        kind->ends.end[e].coef[0] = two->rise[e];
    }
    kind->slope = two->slope;
    fa_long_scale(kind, c, log_m, 1);
    for (e = 0; e < 2; e++) {
        kind->atoms += kind->ends.end[e].atom;
        kind->varies += fabs(kind->ends.end[e].coef[0]);
    }
    parts = kind->atoms + kind->varies / (c + two->slope);
    kind->fixed = parts * (100.0 + two->fine + 2.0 * c * two->slip);
    kind->by_t = parts * 2.0 * two->slip;
}

/* from which t on series stand for a sampled density, to u of M(c); INFINITY: none do */
FA_FUNC void fa_long_open(fa_long_kind *kind, const fa_pieces *law, double c, double log_m)
{
    double t, size;
    int m;
    kind->until = INFINITY;
    if (!fa_pieces_ends(law, &kind->ends) || kind->ends.terms == 0)
        return;
    size = (c - (kind->ends.is_flipped ? 1.0 : 0.0)) * kind->ends.end[1].place - log_m;
    kind->slope = kind->ends.is_flipped ? -1.0 : 0.0;
    for (m = 0; m < kind->ends.terms; m++)
        kind->rest[m] = log(kind->ends.rest[m]) + size;
    for (t = 1.0; t < 1e6 && kind->until == INFINITY; t *= 1.1)
        for (m = 4; m <= kind->ends.terms; m++)
            if (kind->rest[m - 1] - m * log(t) < FA_LONG_SERIES)
                kind->until = t;
}

/* a kind by nodes, where series do not serve, up to the last t.  0: too many, or no memory */
FA_FUNC int fa_long_lay(fa_long_kind *kind, fa_cap_block *block, double c, double h, double log_m, double last)
{
    const fa_pieces *law = block->pieces;
    const fa_share_of share = fa_pieces_share(law, c, FA_NO_EDGES);
    fa_asked ask = {c, 0.0, 0.0, 0.0};
    fa_cap_nodes *s = &block->nodes;
    double sum = 0.0, by_t = 0.0, v = law->is_flipped ? 1.0 - c : c, shift = c * block->kappa - log_m, most = 0.0;
    int i;
    fa_long_open(kind, law, c, log_m);
    ask.t = fa_min(last, kind->until + 2.0 * FA_LONG_RUN * h);
    block->k = log_m * block->steps;
    if (!fa_pieces_lay_line(block, c, c, 1.0, 0.0, ask.t, FA_FLAT_GOOD))
        return 0;
    for (i = 0; i < s->sum.n; i++) {
        double l = fabs(s->sum.lr[i]), weight = exp(s->sum.log_w[i] + c * s->sum.lr[i] + shift);
        s->scratch[i] = weight;
        sum += weight * (100.0 + s->sum.n + s->fine[i] + 4.0 * fabs(s->sum.log_w[i]) + c * (s->slip[i] + 8.0 * l) +
                         128.0 * h * l);
        by_t += weight * (s->slip[i] + 4.0 * l);
    }
    kind->place = block->kappa;
    kind->gap = fa_pieces_end(law, 1) - fa_pieces_end(law, 0);
    if (kind->until < INFINITY) {
        fa_long_scale(kind, c, log_m, kind->ends.terms);
        by_t += 1.1 * fabs(kind->place - block->kappa) / FA_EPS;
        most = 400.0 * (fa_end_most(kind->ends.end, kind->ends.terms, kind->until) +
                        fa_end_most(kind->ends.end + 1, kind->ends.terms, kind->until));
    }
    for (i = 0, kind->mean = 0.0; i < law->n_atoms; i++)
        kind->mean += exp(2.0 * (law->atoms[i].log_weight + v * law->atoms[i].loss - log_m));
    kind->nodes = s;
    kind->atoms = share.atoms * exp(share.size - log_m);
    kind->varies = share.variation * exp(share.size - log_m);
    kind->fixed = sum + most + fa_mesh_error(law, &s->mesh, &ask, &ask) * exp(-log_m) / FA_EPS;
    kind->by_t = by_t + 8.0 * (fabs(kind->place) + kind->gap) + fa_pieces_slip(law);
    return 1;
}

/* log of a bound of |M|/M(c) of a kind for all Im u >= t, and of about its root mean square up to there */
FA_INLINE double fa_long_share(const fa_long_kind *kind, double t)
{
    return log(kind->atoms + kind->varies / t) + 1e-10;
}

/* where phases have not yet turned it is 1 */
FA_INLINE double fa_long_mean(const fa_long_kind *kind, double t)
{
    return 0.5 * log(kind->mean + (1.0 - kind->mean) * fa_min(1.0, 1.5 / (kind->gap * t)) + 1e-30);
}

/* the moments of a kind at a run of points by its ends, over M(c); wr, wi: 1/(u + slope) there */
FA_INLINE void fa_long_by_ends(const fa_long_kind *kind, const int terms, double t, double h, const double *wr,
                               const double *wi, double *re, double *im)
{
    double x[FA_LANES], y[FA_LANES], turn_r = kind->turn_r, turn_i = kind->turn_i, gap = kind->gap;
    const fa_end *low = kind->ends.end, *high = kind->ends.end + 1;
    int i, j, lane;
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANES; lane++)
        y[lane] = fa_sincos_v((t + lane * h) * gap, &x[lane]);
    for (i = 0; i < FA_LONG_RUN; i += FA_LANES) {
        double p[FA_LANES], q[FA_LANES], a[FA_LANES], b[FA_LANES];
        for (j = terms; j >= 0; j--) {
            double up = j ? high->coef[j - 1] : high->atom, down = j ? low->coef[j - 1] : low->atom;
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANES; lane++) {
                double r = wr[i + lane], s = wi[i + lane], pr = j == terms ? 0.0 : p[lane],
                       qr = j == terms ? 0.0 : q[lane], ar = j == terms ? 0.0 : a[lane],
                       br = j == terms ? 0.0 : b[lane];
                p[lane] = FA_FMA(pr, r, FA_FMA(-qr, s, up));
                q[lane] = FA_FMA(pr, s, qr * r);
                a[lane] = FA_FMA(ar, r, FA_FMA(-br, s, down));
                b[lane] = FA_FMA(ar, s, br * r);
            }
        }
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++) {
            double co = x[lane], si = y[lane];
            re[i + lane] = FA_FMA(p[lane], co, FA_FMA(-q[lane], si, a[lane]));
            im[i + lane] = FA_FMA(p[lane], si, FA_FMA(q[lane], co, b[lane]));
            x[lane] = FA_FMA(co, turn_r, -si * turn_i);
            y[lane] = FA_FMA(co, turn_i, si * turn_r);
        }
    }
}

/* the same by nodes, times e^(u place) less */
FA_FUNC void fa_long_by_nodes(const fa_long_kind *kind, double t, double h, double *re, double *im)
{
    const fa_cap_nodes *s = kind->nodes;
    double x[FA_LANES], y[FA_LANES], turn_r, turn_i, l;
    int i, j, lane;
    memset(re, 0, sizeof(double) * FA_LONG_RUN);
    memset(im, 0, sizeof(double) * FA_LONG_RUN);
    for (j = 0; j < s->sum.n; j++) {
        if (!(s->scratch[j] > 0.0))
            continue;
        l = s->sum.lr[j];
        turn_i = fa_sincos_v(FA_LANES * h * l, &turn_r);
        FA_PRAGMA(omp simd)
        for (lane = 0; lane < FA_LANES; lane++) {
            double co, si = fa_sincos_v((t + lane * h) * l, &co);
            x[lane] = s->scratch[j] * co;
            y[lane] = s->scratch[j] * si;
        }
        for (i = 0; i < FA_LONG_RUN; i += FA_LANES) {
            FA_PRAGMA(omp simd)
            for (lane = 0; lane < FA_LANES; lane++) {
                double co = x[lane], si = y[lane];
                re[i + lane] += co;
                im[i + lane] += si;
                x[lane] = FA_FMA(co, turn_r, -si * turn_i);
                y[lane] = FA_FMA(co, turn_i, si * turn_r);
            }
        }
    }
}

/* the moments of a kind at a run of points, and about how many pairs that is */
FA_FUNC double fa_long_moments(const fa_long_kind *kind, double t, double h, const double *wr, const double *wi,
                               double *re, double *im)
{
    int m;
    if (kind->until == 0.0) {
        fa_long_by_ends(kind, 1, t, h, wr, wi, re, im);
        return FA_LONG_RUN;
    }
    if (t < kind->until) {
        fa_long_by_nodes(kind, t, h, re, im);
        return (double)FA_LONG_RUN * kind->nodes->sum.n;
    }
    for (m = 4; m < kind->ends.terms && !(kind->rest[m - 1] - m * log(t) < FA_LONG_SERIES); m++)
        ;
    fa_long_by_ends(kind, m, t, h, wr, wi, re, im);
    return FA_LONG_RUN * (1.0 + 0.5 * m);
}

/* (ar, ai) times (re, im)^n at a run of points, by squaring; (re, im) is scratch */
FA_FUNC void fa_long_times(double *ar, double *ai, double *re, double *im, double n)
{
    double half;
    int i;
    while (n > 0.0) {
        half = floor(0.5 * n);
        if (n != 2.0 * half) {
            FA_PRAGMA(omp simd)
            for (i = 0; i < FA_LONG_RUN; i++) {
                double x = FA_FMA(ar[i], re[i], -ai[i] * im[i]);
                ai[i] = FA_FMA(ar[i], im[i], ai[i] * re[i]);
                ar[i] = x;
            }
        }
        if (half > 0.0) {
            FA_PRAGMA(omp simd)
            for (i = 0; i < FA_LONG_RUN; i++) {
                double x = FA_FMA(re[i], re[i], -im[i] * im[i]);
                im[i] = 2.0 * re[i] * im[i];
                re[i] = x;
            }
        }
        n = half;
    }
}

#endif
