/* line/many_sketch.h -- very many different sampled Gaussians, and a few steps in the place of groups of similar ones.
 *
 * The sketch says where a line is best and how long it must be (line/many_steps.h).
 */
#ifndef FA_MANY_SKETCH_H
#define FA_MANY_SKETCH_H

#include "../exact/exact.h"
#include "many_nodes.h"

#define FA_MANY_LEAST  128 /* fewer steps: each with nodes of its own (line/contour.h) */
#define FA_MANY_TOTAL  1e5 /* more steps in all: terms of first order would round too much */
#define FA_MANY_SIGMAS 5   /* the sketch: groups by sigma ... */
#define FA_MANY_RATES  4   /* ... each divided by rate */
#define FA_MANY_SKETCH (FA_MANY_SIGMAS * FA_MANY_RATES)
#define FA_MANY_TAIL   0.8 /* share of the variance whose steps bound the tail, the others count by M(a) */

typedef struct { /* equal steps; variance: of the loss, about, all counted */
    double sigma, rate, count, variance;
} fa_many_item;

typedef struct {
    int n, directions;
    double total, variance, add_end;
    double tail_from;              /* steps of at least this variance bound the tail */
    fa_contour sketch[2], line[2]; /* [0] remove, [1] add; what is read is the line, which has no nodes */
    fa_block blocks[2][FA_MANY_SKETCH], tail;
    double chernoff_v, chernoff_k; /* direction add: a point and K there, from the pass of the other direction;
                                      chernoff_v <= 1: none */
    double slope;                  /* d log delta/d eps of the line read last */
    fa_many_scratch scratch;
    fa_many_item items[]; /* by sigma, once all are there */
} fa_many;

FA_FUNC void fa_many_free(fa_many *m)
{
    int d;
    for (d = 0; m && d < 2; d++) {
        fa_contour_free(m->sketch + d);
        m->line[d].n_blocks = 0;
        fa_contour_free(m->line + d);
    }
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
    double variance = fa_max(count * rate * rate * expm1(fa_min(1.0 / (sigma * sigma), 8.0)), 1e-300);
    m->items[m->n++] = (fa_many_item){sigma, rate, count, variance};
    m->total += count;
    m->variance += variance;
}

static int fa_many_by_sigma(const void *a, const void *b)
{
    double x = ((const fa_many_item *)a)->sigma, y = ((const fa_many_item *)b)->sigma;
    return x < y ? -1 : x > y;
}

static int fa_many_by_rate(const void *a, const void *b)
{
    double x = ((const fa_many_item *)a)->rate, y = ((const fa_many_item *)b)->rate;
    return x < y ? -1 : x > y;
}

/* where the k-th of `parts` parts of about equal variance ends, which begins at i < end; *seen: what is before it */
FA_FUNC int fa_many_part(const fa_many_item *items, int i, int end, int k, int parts, double all, double *seen)
{
    while (i < end && (k == parts || *seen < all * k / parts))
        *seen += items[i++].variance;
    return i;
}

/* block `at` of the sketch: one step that has the count and the variance of n items, which are ordered by rate */
FA_FUNC void fa_many_stand_in(fa_many *m, int at, const fa_many_item *items, int n)
{
    double count = 0.0, variance = 0.0, inverse = 0.0, rate;
    int i, d;
    for (i = 0; i < n; i++) {
        count += items[i].count;
        variance += items[i].variance;
        inverse += items[i].variance / (items[i].sigma * items[i].sigma);
    }
    inverse /= variance;
    rate = sqrt(variance / (count * expm1(fa_min(inverse, 8.0))));
    rate = fa_max(items[0].rate, fa_min(items[n - 1].rate, rate));
    for (d = 0; d < 2; d++) {
        fa_pair_sampled(&m->blocks[d][at].pair, 1.0 / sqrt(inverse), rate);
        m->blocks[d][at].count = count;
    }
}

/* the sketch: groups of equal variance by sigma, each divided by rate */
FA_FUNC int fa_many_sketch(fa_many *m)
{
    fa_many_item *by_rate = fa_alloc(sizeof(fa_many_item) * (size_t)m->n);
    double seen = 0.0;
    int i, j, k, l, end, part_end, used = 0, d;
    if (!by_rate)
        return 0;
    qsort(m->items, (size_t)m->n, sizeof(fa_many_item), fa_many_by_sigma);
    memcpy(by_rate, m->items, sizeof(fa_many_item) * (size_t)m->n);
    for (i = 0, k = 1; i < m->n; i = end, k++) {
        double group = 0.0, part = 0.0;
        end = fa_many_part(m->items, i, m->n, k, FA_MANY_SIGMAS, m->variance, &seen);
        for (j = i; j < end; j++)
            group += m->items[j].variance;
        qsort(by_rate + i, (size_t)(end - i), sizeof(fa_many_item), fa_many_by_rate);
        for (j = i, l = 1; j < end; j = part_end, l++) {
            part_end = fa_many_part(by_rate, j, end, l, FA_MANY_RATES, group, &part);
            if (part_end > j)
                fa_many_stand_in(m, used++, by_rate + j, part_end - j);
        }
    }
    free(by_rate);
    for (d = 0; d < 2; d++) {
        m->sketch[d].blocks = m->blocks[d];
        m->sketch[d].n_blocks = used;
    }
    return used >= 2; /* one block alone may take paths that a line cannot follow */
}

/* the largest variance of a single step such that those of at least this have FA_MANY_TAIL of all */
FA_FUNC double fa_many_tail_from(const fa_many *m)
{
    const fa_many_item *items = m->items;
    double low = 0.0, high = 0.0, all = 0.0, mid, above;
    int i, k;
    for (i = 0; i < m->n; i++) {
        all += items[i].variance;
        high = fa_max(high, items[i].variance / items[i].count);
    }
    for (k = 0; k < 12; k++) {
        mid = 0.5 * (low + high);
        above = 0.0;
        for (i = 0; i < m->n; i++)
            above += items[i].variance >= mid * items[i].count ? items[i].variance : 0.0;
        if (above >= FA_MANY_TAIL * all)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* all steps added; 0: these are not for here */
FA_FUNC int fa_many_ready(fa_many *m, double mu2, double add_end)
{
    int d;
    if (m->n < FA_MANY_LEAST || !(m->total <= FA_MANY_TOTAL) || !fa_many_sketch(m))
        return 0;
    m->add_end = add_end;
    m->tail_from = fa_many_tail_from(m);
    for (d = 0; d < 2; d++) {
        m->sketch[d].mu2 = m->line[d].mu2 = mu2;
        m->sketch[d].total = m->line[d].total = m->total;
        m->sketch[d].sign = m->line[d].sign = d ? -1 : 1;
        m->line[d].n_blocks = m->n;
    }
    return 1;
}

#endif
