/* line/many_place.h -- jobs of different sampled Gaussians: K at the places of the lattice, and which of its
 * lines serves a target.
 *
 * Choices only, about cost: nothing here is part of a bound.
 */
#ifndef FA_MANY_PLACE_H
#define FA_MANY_PLACE_H

#include "many_kept.h"

#define FA_MANY_LEAST   2  /* fewer have the capped line */
#define FA_MANY_LONGEST 17 /* runs of lines that are kept */
#define FA_MANY_RUNS    142 /* the longest line */
#define FA_AMPLIFY      2.5 /* log of how far |F| on a line may exceed its least over all lines */

/* a line of the lattice: points as those of a capped line, and what they may be off by */
typedef struct {
    fa_cap_job job; /* no blocks: what closed parts there are is 0 */
    fa_cap_line line;
    double log_tail;            /* log of the bound of what is beyond the points, at eps = 0 */
    double right_log, left_log; /* K + log B at Chernoff's points, and what they may be off by */
    double other_v, other_log; /* the same at a point of the other direction; v = 0: none */
    double relative;           /* sum of count * error of M, to be multiplied by 1/|M|, the line's first scratch */
} fa_many_read;

typedef struct { /* equal steps */
    double sigma, rate, count;
} fa_many_item;

typedef struct {
    int n, directions;
    double total, mu2, add_end, variance; /* the last one about, of the loss */
    fa_many_read line[2];                 /* [0] remove, [1] add: what is evaluated */
    double slope;              /* d log delta/d eps of the line evaluated last */
    uint8_t has[2 * FA_PAGES]; /* which pages of sums are there */
    fa_many_page sums[2 * FA_PAGES];
    fa_many_kept *kept;       /* of single steps, or NULL: `own` has one at a time */
    int place[FA_KEPT_STEPS]; /* of each item there */
    double *own;
    size_t own_size;
    fa_many_alone alone;
    fa_many_item items[]; /* by sigma and rate, once all are there */
} fa_many;

FA_FUNC void fa_many_free(fa_many *m)
{
    int d;
    if (!m)
        return;
    if (m->kept)
        fa_keep_end();
    for (d = 0; d < 2; d++)
        fa_cap_line_free(&m->line[d].line);
    free(m->own);
    fa_many_alone_free(&m->alone);
    free(m);
}

/* room for up to n items, to be filled by fa_many_add; NULL: no memory */
FA_FUNC fa_many *fa_many_new(int n, int directions)
{
    fa_many *m = fa_alloc_zeroed(sizeof(fa_many) + sizeof(fa_many_item) * (size_t)n);
    if (m)
        m->directions = directions;
    return m;
}

FA_FUNC void fa_many_add(fa_many *m, double sigma, double rate, double count)
{
    m->items[m->n++] = (fa_many_item){sigma, rate, count};
    m->total += count;
    m->variance += count * rate * rate * expm1(fa_min(1.0 / (sigma * sigma), 8.0));
}

static int fa_many_order(const void *a, const void *b)
{
    const fa_many_item *x = a, *y = b;
    return x->sigma != y->sigma ? (x->sigma < y->sigma ? -1 : 1) : x->rate < y->rate ? -1 : x->rate > y->rate;
}

/* all steps added; 0: these are not for here */
FA_FUNC int fa_many_ready(fa_many *m, double mu2, double add_end)
{
    double sigma[FA_KEPT_STEPS], rate[FA_KEPT_STEPS];
    int i, d, sorted = 1;
    if (m->n < FA_MANY_LEAST || !(m->total <= FA_MANY_TOTAL))
        return 0;
    for (i = 1; i < m->n && sorted; i++)
        sorted = fa_many_order(m->items + i - 1, m->items + i) <= 0;
    if (!sorted)
        qsort(m->items, (size_t)m->n, sizeof(fa_many_item), fa_many_order);
    m->mu2 = mu2;
    m->add_end = add_end;
    for (d = 0; d < 2; d++) {
        m->line[d].job.mu2 = mu2;
        m->line[d].job.is_add = d;
        m->line[d].job.lost.log_p = m->line[d].job.lost.log_f = -INFINITY;
    }
    if (m->n > FA_KEPT_STEPS || !(m->kept = fa_kept_begin()))
        return 1;
    for (i = 0; i < m->n; i++) {
        sigma[i] = m->items[i].sigma;
        rate[i] = m->items[i].rate;
    }
    fa_kept_places(m->kept, m->n, sigma, rate, m->place);
    return 1;
}

/* the sums over all items at the places of a page; 0: failure */
FA_FUNC int fa_many_sum_page(fa_many *m, int way, int page)
{
    int at = way * FA_PAGES + page, b, i, j;
    fa_many_page own, *sum = m->sums + at;
    double v[FA_MANY_PLACES], tilt[FA_MANY_PLACES];
    if (m->has[at])
        return 1;
    memset(sum, 0, sizeof(*sum));
    for (j = 0; j < FA_MANY_PLACES; j++) {
        v[j] = fa_place_v(page * FA_MANY_PLACES + j);
        tilt[j] = way ? 1.0 - v[j] : v[j];
    }
    for (b = 0; b < m->n; b++) {
        const fa_many_item *item = m->items + b;
        fa_many_page *to = m->kept ? m->kept->page[at] + m->place[b] : &own;
        uint64_t *has = m->kept ? m->kept->has + m->place[b] : NULL;
        if (!(has && *has >> at & 1) && !fa_many_look(&m->alone, way, item->sigma, item->rate, tilt, to->k))
            return 0;
        if (has)
            *has |= 1ULL << at;
        for (i = 0; i < 3; i++)
            for (j = 0; j < FA_MANY_PLACES; j++)
                sum->k[i][j] += item->count * to->k[i][j];
    }
    for (j = 0; j < FA_MANY_PLACES; j++) {
        sum->k[0][j] += 0.5 * v[j] * (v[j] - 1.0) * m->mu2;
        sum->k[1][j] += (v[j] - 0.5) * m->mu2;
        sum->k[2][j] += m->mu2;
    }
    m->has[at] = 1;
    return 1;
}

typedef struct { /* at a place: log of Chernoff's bound and of |F| at eps = 0, and the saddle point's eps and log delta
                  */
    double v, base, level, eps, log_delta, curvature;
} fa_many_point_at;

/* 0: no place, or nothing is known there */
FA_FUNC int fa_many_at(fa_many *m, int way, int j, fa_many_point_at *out)
{
    const fa_many_page *sum;
    double k, v;
    int i = j % FA_MANY_PLACES;
    if (j < 0 || j >= FA_PLACES || !fa_many_sum_page(m, way, j / FA_MANY_PLACES))
        return 0;
    sum = m->sums + way * FA_PAGES + j / FA_MANY_PLACES;
    k = sum->k[0][i];
    out->v = v = fa_place_v(j);
    out->base = k + fa_log_b(v);
    out->eps = sum->k[1][i] - 1.0 / v - 1.0 / (v - 1.0);
    out->curvature = sum->k[2][i] + 1.0 / (v * v) + 1.0 / ((v - 1.0) * (v - 1.0));
    out->level = k - log(v * (v - 1.0));
    out->log_delta = out->level - (v - 1.0) * out->eps - 0.5 * log(2.0 * FA_PI * out->curvature);
    return k < 1e300 && out->curvature > 0.0 && out->eps == out->eps;
}

/* about where a Gaussian of the same variance has its saddle point for v - 1 = x */
FA_INLINE int fa_many_first(double x)
{
    double j = floor(4.0 * log2(x) + 0.5) + FA_PLACE_ONE;
    return j > 0.0 ? (int)fa_min(j, FA_PLACES - 1.0) : 0;
}

/* one of Chernoff's two points of a line at a place: the one that allows the longest step, whose inverse it gives. Left
 * of it, -1: v = 1, where delta is at most 1.  enough: the inverse of a step that need not be longer */
FA_FUNC double fa_many_side(fa_many *m, int way, int from, int by, double eps, double log_tol, double enough,
                            int *place)
{
    double c = fa_place_v(from), rate = by < 0 ? -log_tol / (c - 1.0) : INFINITY, last = INFINITY;
    fa_many_point_at at;
    int j;
    *place = -1;
    for (j = from + by; rate > enough && j > from - 12 && fa_many_at(m, way, j, &at); j += by) {
        double r = (at.base - (at.v - 1.0) * eps - log_tol) / fabs(at.v - c);
        if (!(r < last))
            break;
        last = r;
        if (r < rate) {
            rate = r;
            *place = j;
        }
    }
    return rate;
}

/* where Chernoff's bound of the other direction's delta(eps) is least, -1: nowhere */
FA_FUNC int fa_many_other(fa_many *m, double eps)
{
    fa_many_point_at at;
    double least = INFINITY;
    int j = fa_many_first(eps / (m->variance + m->mu2)), by, best = -1;
    if (m->directions != (FA_WAYS_ADD | FA_WAYS_REMOVE) || eps >= m->add_end || !fa_many_at(m, 1, j, &at))
        return -1;
    for (by = at.eps < eps ? 1 : -1; fa_many_at(m, 1, j, &at) && at.base - (at.v - 1.0) * eps < least; j += by) {
        least = at.base - (at.v - 1.0) * eps;
        best = j;
    }
    return best;
}

/* lengths of lines, in runs; 0: there is none so long */
FA_FUNC int fa_many_length(double runs)
{
    int length = 1;
    while (length < runs && length < FA_MANY_RUNS)
        length += 1 + length / 10 * (length > 10);
    return length < runs ? 0 : length;
}

/* the first place whose eps, or -log delta, is at least `wanted`, and the one before it; 0: none */
FA_FUNC int fa_many_bracket(fa_many *m, int way, int by_eps, double wanted, fa_many_point_at *below,
                            fa_many_point_at *at)
{
    double spread = m->variance + m->mu2;
    int j = fa_many_first(by_eps ? wanted / spread : sqrt(2.0 * wanted / spread));
    while (!fa_many_at(m, way, j, at)) /* M may be beyond all numbers there */
        if (--j < 1)
            return 0;
    while ((by_eps ? at->eps : -at->log_delta) < wanted)
        if (!fa_many_at(m, way, ++j, at))
            return 0;
    while (fa_many_at(m, way, j - 1, below) && !((by_eps ? below->eps : -below->log_delta) < wanted)) {
        *at = *below;
        j--;
    }
    return j > 0 && fa_many_at(m, way, j - 1, below) ? j : 0;
}

/* eps and log delta, the one that is NaN from the other, and c and the curvature there, from the saddle points on
 * either side: -log delta rises in eps by v - 1, and v - 1 by the inverse of a curvature that is taken to be
 * exponential in v */
FA_FUNC int fa_many_between(const fa_many_point_at *low, const fa_many_point_at *high, double *eps, double *log_delta,
                            double *v_out, double *curvature_out)
{
    double wide = high->v - low->v, rise = log(high->curvature / low->curvature), v = low->v + 0.5 * wide, at;
    int i, by_eps = *eps == *eps;
    for (i = 0; i < 3; i++) {
        double slope = 0.5 * (low->v + v) - 1.0;
        if (!by_eps)
            *eps = low->eps + (low->log_delta - *log_delta) / slope;
        at = fa_max(0.0, fa_min(1.0, (*eps - low->eps) / (high->eps - low->eps)));
        v = low->v + wide * (fabs(rise) < 1e-6 ? at : log1p(at * expm1(rise)) / rise);
    }
    if (by_eps)
        *log_delta = low->log_delta - (*eps - low->eps) * (0.5 * (low->v + v) - 1.0);
    *v_out = v;
    *curvature_out = low->curvature * exp(rise * (v - low->v) / wide);
    return *eps > 0.0 && *log_delta < 0.0 && v >= low->v && v <= high->v;
}

/* the place of a line for eps, next to the saddle point or left of it, where the step may be longest; its inverse.
 * Where M explodes to the right (one large jump), a line further left needs far fewer points */
FA_FUNC double fa_many_best(fa_many *m, int way, int from, double eps, double log_tol, fa_many_where *out)
{
    double best = INFINITY, least = INFINITY;
    fa_many_point_at at;
    int j, right, left;
    for (j = from; fa_many_at(m, way, j, &at); j--) {
        double rate, level = at.level - (at.v - 1.0) * eps, x = at.v - 1.0;
        /* of a Gaussian, the best point is beyond v = 1 */
        int is_short = 2.0 * (at.base - x * eps - log_tol) > at.curvature * x * x;
        least = j == from ? level : least;
        if (!(level < least + FA_AMPLIFY))
            break;
        rate = fa_many_side(m, way, j, 1, eps, log_tol, 0.0, &right);
        rate = fa_max(rate, fa_many_side(m, way, j, -1, eps, log_tol, is_short ? INFINITY : rate, &left));
        if (!(rate < best))
            break;
        best = rate;
        out->place = j;
        out->real[FA_MANY_RIGHT] = right;
        out->real[FA_MANY_LEFT] = left;
    }
    return best;
}

/* the line for eps, or for log_delta where eps is NaN, with errors of about exp(-tolerance) of delta; both as they are
 * there, about.  0: none */
FA_FUNC int fa_many_choose(fa_many *m, int way, double tolerance, double *eps, double *log_delta, fa_many_where *out)
{
    fa_cap_plan *plan = &m->line[way].line.plan;
    double v, rate, curvature, given = *log_delta;
    fa_many_point_at at, below;
    int by_eps = *eps == *eps, j = fa_many_bracket(m, way, by_eps, by_eps ? *eps : -*log_delta, &below, &at);
    if (!j || !fa_many_between(&below, &at, eps, log_delta, &v, &curvature))
        return 0;
    if (by_eps && given == given)
        *log_delta = given;
    out->way = way;
    rate = fa_many_best(m, way, (v - below.v) < 0.5 * (at.v - below.v) ? j - 1 : j, *eps, *log_delta - tolerance - 1.0,
                        out);
    if (!(rate < INFINITY) || !(rate > 0.0) || !fa_many_at(m, way, out->place, &at))
        return 0;
    out->real[FA_MANY_OTHER] = way ? -1 : fa_many_other(m, *eps);
    out->step = (int)floor(8.0 * log2(2.0 * FA_PI / rate));
    out->runs = fa_many_length(
        (1.2 * sqrt(2.0 * (tolerance + 5.0) / fa_min(curvature, at.curvature)) / exp2(0.125 * out->step) + 1.0) /
        FA_RUN);
    plan->c = at.v;
    plan->tilt = way ? 1.0 - at.v : at.v;
    plan->low = 1.0;
    plan->h = fa_from_bits(fa_bits(exp2(0.125 * out->step)) & ~((1ULL << 20) - 1)); /* k h is exact */
    return out->runs > 0;
}

#endif
