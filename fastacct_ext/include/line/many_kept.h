/* line/many_kept.h -- what is kept of single steps between calls: their log-moments at real points and along lines.
 *
 * Where lines may be is a lattice, the same for all jobs, so that a run that has grown finds its steps' numbers on the
 * line it needs.  They are functions of the step and of the line alone: keeping them never changes a result.
 */
#ifndef FA_MANY_KEPT_H
#define FA_MANY_KEPT_H

#include "many_rows.h"

#define FA_KEPT_STEPS 256                 /* of jobs with more, nothing is kept */
#define FA_KEPT_HASH  (4 * FA_KEPT_STEPS) /* slots */
#define FA_KEPT_LINES 6
#define FA_PLACES     96 /* v = 1 + 2^((j - FA_PLACE_ONE) / 4), j = 0 .. FA_PLACES - 1 */
#define FA_PLACE_ONE  16
#define FA_PAGES      (FA_PLACES / FA_MANY_PLACES) /* a page: FA_MANY_PLACES places, which are looked at together */

FA_INLINE double fa_place_v(int j) { return 1.0 + exp2(0.25 * (j - FA_PLACE_ONE)); }

typedef struct { /* a line of the lattice: c at a place, h = 2^(step / 8), FA_RUN points a run; the places of Chernoff's
                    points, -1: v = 1 or none */
    int way, place, step, runs, real[FA_MANY_REALS];
} fa_many_where;

typedef struct { /* K and its derivatives in v of one step at the places of a page, to a few digits */
    double k[3][FA_MANY_PLACES];
} fa_many_page;

typedef struct {
    fa_many_where where;
    int64_t used;               /* when, in calls */
    uint8_t has[FA_KEPT_STEPS]; /* whose rows are there */
    double *rows;
    size_t capacity;
} fa_many_shelf;

typedef struct {
    int n; /* steps */
    int64_t calls;
    double sigma[FA_KEPT_STEPS], rate[FA_KEPT_STEPS];
    int16_t slot[FA_KEPT_HASH];  /* 1 + the step there; 0: none */
    uint64_t has[FA_KEPT_STEPS]; /* which pages are there, a bit each: add's after remove's */
    fa_many_page page[2 * FA_PAGES][FA_KEPT_STEPS];
    fa_many_shelf shelf[FA_KEPT_LINES];
} fa_many_kept;

/* of this instruction-set level; for who has it, between fa_keep_begin and fa_keep_end */
static fa_many_kept *fa_all_kept;

/* the store, empty at first; NULL: another thread has it, or there is no memory for it */
FA_FUNC fa_many_kept *fa_kept_begin(void)
{
    if (!fa_keep_begin())
        return 0;
    if (!fa_all_kept && !(fa_all_kept = calloc(1, sizeof(fa_many_kept)))) {
        fa_keep_end();
        return 0;
    }
    fa_all_kept->calls++;
    return fa_all_kept;
}

FA_INLINE unsigned fa_kept_hash(double sigma, double rate)
{
    uint64_t bits = fa_bits(sigma) * 0x9e3779b97f4a7c15ULL ^ fa_bits(rate) * 0xc2b2ae3d27d4eb4fULL;
    return (unsigned)((bits ^ bits >> 29) * 0x9e3779b97f4a7c15ULL >> 40) % FA_KEPT_HASH;
}

/* where a step is, or where it may be put: -1 - slot */
FA_FUNC int fa_kept_find(const fa_many_kept *kept, double sigma, double rate)
{
    unsigned at = fa_kept_hash(sigma, rate);
    for (; kept->slot[at]; at = (at + 1) % FA_KEPT_HASH) {
        int i = kept->slot[at] - 1;
        if (kept->sigma[i] == sigma && kept->rate[i] == rate)
            return i;
    }
    return -1 - (int)at;
}

FA_FUNC void fa_kept_clear(fa_many_kept *kept)
{
    int i;
    kept->n = 0;
    memset(kept->slot, 0, sizeof(kept->slot));
    for (i = 0; i < FA_KEPT_LINES; i++)
        kept->shelf[i].used = 0;
}

/* a place for every one of n <= FA_KEPT_STEPS steps: others go where there is no room */
FA_FUNC void fa_kept_places(fa_many_kept *kept, int n, const double *sigma, const double *rate, int *place)
{
    int i, l, missing = 0;
    for (i = 0; i < n; i++)
        missing += fa_kept_find(kept, sigma[i], rate[i]) < 0;
    if (kept->n + missing > FA_KEPT_STEPS)
        fa_kept_clear(kept);
    for (i = 0; i < n; i++) {
        int at = fa_kept_find(kept, sigma[i], rate[i]);
        if (at < 0) {
            kept->slot[-1 - at] = (int16_t)(1 + kept->n);
            at = kept->n++;
            kept->sigma[at] = sigma[i];
            kept->rate[at] = rate[i];
            kept->has[at] = 0;
            for (l = 0; l < FA_KEPT_LINES; l++)
                kept->shelf[l].has[at] = 0;
        }
        place[i] = at;
    }
}

FA_INLINE size_t fa_row_size(int runs) { return sizeof(fa_many_row) / sizeof(double) + 2 * FA_RUN * (size_t)runs; }

/* the shelf of a line, in the place of the one not used for longest; NULL: no memory */
FA_FUNC fa_many_shelf *fa_kept_shelf(fa_many_kept *kept, const fa_many_where *where)
{
    size_t size = fa_row_size(where->runs) * FA_KEPT_STEPS;
    fa_many_shelf *oldest = kept->shelf;
    int i;
    for (i = 0; i < FA_KEPT_LINES; i++) {
        fa_many_shelf *shelf = kept->shelf + i;
        if (shelf->used && !memcmp(&shelf->where, where, sizeof(*where))) {
            shelf->used = kept->calls;
            return shelf;
        }
        oldest = shelf->used < oldest->used ? shelf : oldest;
    }
    if (oldest->capacity < size) {
        free(oldest->rows);
        oldest->rows = malloc(sizeof(double) * size);
        oldest->capacity = oldest->rows ? size : 0;
        oldest->used = 0;
        if (!oldest->rows)
            return 0;
    }
    memset(oldest->has, 0, sizeof(oldest->has));
    oldest->where = *where;
    oldest->used = kept->calls;
    return oldest;
}

#endif
