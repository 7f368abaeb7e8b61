/* line/flat_place.h -- jobs of bounded losses in which nothing decays: where their lines go.
 *
 * Any choice is valid; the ledgers of line/ray_line.h and line/lattice_line.h bound what it costs.
 */
#ifndef FA_LINE_FLAT_PLACE_H
#define FA_LINE_FLAT_PLACE_H

#include "families.h"

#define FA_FLAT_STEEP  300.0 /* largest exponent times range of a loss */
#define FA_FLAT_GOOD   29.5  /* -log of the relative error aimed at */
#define FA_FLAT_KINDS  8     /* more of them than these do not have rays */
#define FA_FLAT_FALLEN 20.0  /* -log of what is left of |M| from which on a line that ends is asked first */

/* whether a job has losses with ends alone; beside Gaussians they have to be known in closed form */
FA_INLINE int fa_flat_is_for(const fa_cap_job *job)
{
    return job->n > 0 && job->ended == job->n && !job->is_add && (!(job->mu2 > 0.0) || job->two_ended == job->n);
}

/* whether it is none for places: of many kinds, or beside Gaussians */
FA_INLINE int fa_flat_is_long(const fa_cap_job *job)
{
    return fa_flat_is_for(job) && (job->mu2 > 0.0 || job->n > FA_FLAT_KINDS);
}

/* about the largest loss, or beyond what doubles hold of delta */
FA_INLINE double fa_flat_top(const fa_cap_job *job)
{
    return job->top + 0.5 * job->mu2 + 40.0 * sqrt(job->mu2);
}

/* -log of what is left of |M| far out: the shares of the atoms, about where a line is; 0 where there are atoms alone */
FA_INLINE double fa_flat_fallen(const fa_cap_job *job)
{
    double fallen = 0.0;
    int b;
    for (b = 0; b < job->n; b++) {
        const fa_pieces *law = job->blocks[b].pieces;
        if (law->n_panels + law->table.n_panels > 0)
            fallen += job->blocks[b].steps *
                      fa_max(1e-9, -fa_share_beyond(fa_pieces_share(law, 1.5, FA_NO_EDGES), 1e6));
    }
    return fallen;
}

/* whether a line with places, or in closed form, is asked before the one that ends */
FA_INLINE int fa_flat_is_first(const fa_cap_job *job)
{
    return (fa_flat_is_long(job) && job->two_ended == job->n) || fa_flat_fallen(job) < FA_FLAT_FALLEN;
}

/* where a line goes: the saddle of K(v) - (v-1) eps - log v(v-1), its width, and about log delta there */
typedef struct {
    double v, width, eps, log_size, most, spread; /* most: the largest v of its nodes; spread: how far off it serves */
} fa_flat_place;

/* K(v) of the job with its first two derivatives, on the coarse nodes, relative to the largest e^(vL): no exponential
 * overflows; rest: what K may be off by */
FA_FUNC void fa_flat_add_k(const fa_cap_block *block, double v, fa_cap_real *out)
{
    const double *l = block->coarse.sum.lr, *log_w = block->coarse.sum.log_w;
    int j, n = block->coarse.sum.n;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, top, end;
    if (block->two.is_known) {
        s0 = v < 1.0 ? fa_two_ends_left(&block->two, v) : fa_two_ends_real(&block->two, v, &s1, &s2);
        out->k += block->steps * s0;
        out->d1 += block->steps * s1;
        out->d2 += block->steps * fa_max(0.0, s2);
        out->rest += block->steps * FA_EPS * (64.0 + block->two.fine + fabs(v) * block->two.slip + 8.0 * fabs(s0));
        return;
    }
    top = l[v < 0.0 ? 0 : n - 1];
    end = v < 0.0 ? 0.0 : fa_pieces_end(block->pieces, 1) - block->kappa;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
    for (j = 0; j < n; j++) {
        double x = l[j] - top, e = fa_exp_plain_v(fa_max(-690.0, fa_min(690.0, v * x + log_w[j])));
        s0 += e;
        s1 += e * x;
        s2 += e * x * x;
    }
    if (block->pieces->n_panels > 0)
        out->rest += block->steps * FA_PIECES_REAL / s0 * exp(v * (end - top));
    top += block->kappa;
    out->k += block->steps * (v * top + log(s0));
    out->d1 += block->steps * (top + s1 / s0);
    out->d2 += block->steps * fa_max(0.0, s2 / s0 - (s1 / s0) * (s1 / s0));
}

FA_FUNC fa_cap_real fa_flat_k(const fa_cap_job *job, double v)
{
    fa_cap_real out = {0.5 * job->mu2 * v * (v - 1.0), job->mu2 * (v - 0.5), job->mu2, 0.0, 0.0, 0.0};
    int b;
    for (b = 0; b < job->n; b++)
        fa_flat_add_k(job->blocks + b, v, &out);
    return out;
}

/* the saddle at v as a place: its eps, and about log delta there */
FA_FUNC fa_flat_place fa_flat_place_at(const fa_cap_job *job, double v)
{
    fa_cap_real r = fa_flat_k(job, v);
    double a = 1.0 / (v - 1.0), bend = r.d2 + 1.0 / (v * v) + a * a;
    fa_flat_place out = {v, 1.0 / sqrt(bend), r.d1 - 1.0 / v - a, 0.0, 0.0, 0.0};
    out.log_size = r.k - (v - 1.0) * out.eps - log(v * (v - 1.0)) - 0.5 * log(2.0 * FA_PI * bend);
    return out;
}

/* The place for eps, or (wanted < 0) for a log delta, by bisection of log(v - 1) and a secant.  Next to the largest
 * loss v stays where sums have few nodes: there |F| is above delta by a power alone.  0: no memory */
FA_FUNC int fa_flat_find(fa_cap_job *job, double eps, double wanted, fa_flat_place *out)
{
    double widest = 0.0, low = -12.0, high, f_low = 0.0, f_high = 0.0, x = 0.0, most;
    int b, i;
    for (b = 0; b < job->n; b++)
        widest = fa_max(widest, fa_pieces_end(job->blocks[b].pieces, 1) - job->blocks[b].kappa);
    most = fa_max(fa_max(3.0, FA_FLAT_STEEP / widest), job->mu2 > 0.0 ? 100.0 / sqrt(job->mu2) : 0.0);
    high = log(0.4 * most);
    for (b = 0; b < job->n; b++) {
        fa_cap_nodes *s = &job->blocks[b].coarse;
        if (job->blocks[b].two.is_known && job->blocks[b].pieces->n_panels > 0) /* K is known without */
            continue;
        if (s->laid != most && !fa_pieces_lay_real(job->blocks + b, s, 1.0 - most, most, 0.0))
            return 0;
        s->laid = most;
    }
    for (i = 0; i < 60 && high - low > 1e-3; i++) {
        double f;
        *out = fa_flat_place_at(job, 1.0 + exp(x));
        f = wanted < 0.0 ? (out->eps > 0.0 ? wanted - out->log_size : -1.0) : out->eps - eps;
        if (fabs(f) * (wanted < 0.0 ? 1.0 : out->v - 1.0) < 0.1)
            break;
        if (f < 0.0)
            low = x, f_low = f;
        else
            high = x, f_high = f;
        x = f_low < 0.0 && f_high > 0.0 && i % 3 ? low + (high - low) * f_low / (f_low - f_high) : 0.5 * (low + high);
    }
    if (wanted < 0.0)
        out->log_size = wanted;
    else
        out->eps = eps;
    out->eps = fa_max(0.0, fa_min(out->eps, fa_flat_top(job)));
    out->most = most;
    return 1;
}

/* c: as small as |F(c)| lets it be, since large c costs digits; smaller still next to the largest loss */
FA_FUNC double fa_flat_tilt(const fa_cap_job *job, double eps, double saddle)
{
    double v = saddle, first = fa_flat_k(job, v).k - (v - 1.0) * eps - log(v * (v - 1.0));
    int i;
    for (i = 0; i < 12; i++) {
        double next = 1.0 + (v - 1.0) / 1.6, k = fa_flat_k(job, next).k;
        if (next < 1.7 ||
            k - (next - 1.0) * eps - log(next * (next - 1.0)) > first + (next * (job->top - eps) > 3.0 ? 2.5 : 5.0))
            break;
        v = next;
    }
    return v;
}

typedef struct {
    double log_value, slope, up, down; /* log delta and its derivative; relative errors */
} fa_flat_reading;

/* what places that are off by `shift`, even beyond eps, may change delta by: P(L >= eps) times it, with Chernoff's
 * bound M(c)^n e^(-(c-1) eps) given by its logarithm */
FA_INLINE double fa_flat_shifted(double shift, double log_chernoff) { return 1.2 * shift * fa_cap_exp(log_chernoff); }

#endif
