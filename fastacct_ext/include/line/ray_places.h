/* line/ray_places.h -- a job of losses with two ends each: the places of its sum, the tables of their weights, and
 * which places lie on which side of an eps.
 */
#ifndef FA_LINE_RAY_PLACES_H
#define FA_LINE_RAY_PLACES_H

#include "flat_place.h"
#include "ray_ends.h"

#define FA_RAY_KINDS FA_FLAT_KINDS
#define FA_RAY_PICKS 20000 /* combinations of all blocks but the longest, at most */
#define FA_RAY_NEAR  4e-14 /* places nearer to eps than this, relative, count as there */
#define FA_RAY_PARTS 24    /* eights of points of a ray whose tables are kept for other eps ... */
#define FA_RAY_KEPT  2500  /* ... where they have at most so many entries each */

typedef struct {
    double re[FA_LANES], im[FA_LANES];
} fa_lanes;

/* one block: how many of its steps may choose the upper end, how many mostly do, and the table of W_k e^((c + i T)
 * l_k)/M(c)^n */
typedef struct {
    fa_ends ends;
    double steps, log_m, gap; /* log M(c)^n; the distance of the ends */
    int terms, low, high, mode;
    fa_lanes *table;
} fa_ray_block;

typedef struct {
    int n, last, picks; /* the block with the longest table, and combinations of the others */
    fa_ray_block blocks[FA_RAY_KINDS];
    double c, t, log_m, range, step; /* log of prod M(c)^n; the range of the sum; step of the rule in y */
    double *place;                   /* of each combination, the last block's lower ends included */
    int *left, *right, *at;          /* the last block's k next to eps on either side, and there (-1: none) */
    double nearest, snap; /* the least distance of a place from eps, and how far one that counts as there is */
    fa_lanes *prefix;
    double *memory;
    fa_lanes *kept; /* tables and prefixes of eights of points that have been read, or NULL; how many of each ray */
    int lanes, made[2];
} fa_rays;

FA_FUNC void fa_rays_free(fa_rays *rays)
{
    free(rays->memory);
    free(rays->kept);
    memset(rays, 0, sizeof(*rays));
}

/* the k that count: all but e^-45 of the terms' bounds at T */
FA_FUNC void fa_ray_range(fa_ray_block *b, double c, double t)
{
    const fa_end *e = b->ends.end;
    double up = fa_end_most(e + 1, b->terms, t) * exp(fa_min(600.0, c * b->gap)), low = fa_end_most(e, b->terms, t),
           p = up / (low + up), n = b->steps, m = n * p, wide = 10.5 * sqrt(n * p * (1.0 - p)) + 14.0;
    b->low = (int)fa_max(0.0, floor(m - wide));
    b->high = (int)fa_min(n, ceil(m + wide));
    b->mode = (int)fa_max(b->low, fa_min(b->high, floor(m + 0.5)));
}

/* tables, but for the last block's, and its prefix go to a place, one after the other; where they end */
FA_FUNC fa_lanes *fa_rays_seat(fa_rays *rays, fa_lanes *at)
{
    int b;
    for (b = 0; b < rays->n; b++) {
        fa_ray_block *block = rays->blocks + b;
        if (b != rays->last) {
            block->table = at;
            at += block->high - block->low + 1;
        }
    }
    rays->prefix = at;
    return at + (rays->blocks[rays->last].high - rays->blocks[rays->last].low + 1);
}

/* memory for the tables, blocks in the order of their lengths.  0: too many combinations, or no memory */
FA_FUNC int fa_rays_open(fa_rays *rays)
{
    size_t lanes = 0, own;
    double picks = 1.0;
    int b, longest = 0;
    for (b = 0; b < rays->n; b++) {
        fa_ray_block *block = rays->blocks + b;
        fa_ray_range(block, rays->c, rays->t);
        lanes += (size_t)(block->high - block->low + 1);
        if (block->high - block->low > rays->blocks[longest].high - rays->blocks[longest].low)
            longest = b;
    }
    rays->last = longest;
    for (b = 0; b < rays->n; b++)
        picks *= b == longest ? 1.0 : rays->blocks[b].high - rays->blocks[b].low + 1.0;
    if (!(picks <= FA_RAY_PICKS) || lanes > 1000000)
        return 0;
    rays->picks = (int)picks;
    own = (size_t)(rays->blocks[longest].high - rays->blocks[longest].low + 1);
    rays->lanes = (int)lanes;
    rays->memory = fa_alloc(sizeof(double) * ((own + lanes) * 2 * FA_LANES + (size_t)rays->picks * 3 + 8));
    if (!rays->memory)
        return 0;
    rays->blocks[longest].table = (fa_lanes *)rays->memory;
    rays->place = (double *)fa_rays_seat(rays, rays->blocks[longest].table + own);
    rays->left = (int *)(rays->place + rays->picks);
    rays->right = rays->left + rays->picks;
    rays->at = rays->right + rays->picks;
    if (lanes <= FA_RAY_KEPT)
        rays->kept = fa_alloc(sizeof(fa_lanes) * lanes * 2 * FA_RAY_PARTS);
    return 1;
}

/* which k of the last block lie on which side of eps, for each combination */
FA_FUNC void fa_rays_sort(fa_rays *rays, double eps)
{
    const fa_ray_block *last = rays->blocks + rays->last;
    int i, b;
    rays->nearest = INFINITY;
    rays->snap = 0.0;
    for (i = 0; i < rays->picks; i++) {
        int x = i, k;
        double place = last->steps * last->ends.end[0].place, size = fabs(place), f;
        for (b = 0; b < rays->n; b++) {
            const fa_ray_block *block = rays->blocks + b;
            int m = block->high - block->low + 1;
            if (b == rays->last)
                continue;
            place += block->steps * block->ends.end[0].place + (block->low + x % m) * block->gap;
            size += fabs(block->steps * block->ends.end[0].place);
            x /= m;
        }
        rays->place[i] = place;
        f = (eps - place) / last->gap;
        k = (int)floor(fa_max(last->low - 2.0, fa_min(last->high + 2.0, f + 0.5)));
        rays->at[i] = -1;
        if (fabs(f - k) * last->gap < FA_RAY_NEAR * (1.0 + fabs(eps) + size)) {
            rays->at[i] = k >= last->low && k <= last->high ? k : -1;
            rays->snap = fa_max(rays->snap, fabs(f - k) * last->gap);
            rays->left[i] = k - 1;
            rays->right[i] = k + 1;
        }
        else {
            rays->left[i] = (int)floor(fa_max(last->low - 2.0, fa_min(last->high + 2.0, f)));
            rays->right[i] = rays->left[i] + 1;
        }
        rays->left[i] = rays->left[i] < last->high ? rays->left[i] : last->high;
        rays->right[i] = rays->right[i] > last->low ? rays->right[i] : last->low;
        if (rays->left[i] >= last->low)
            rays->nearest = fa_min(rays->nearest, eps - place - rays->left[i] * last->gap);
        if (rays->right[i] <= last->high)
            rays->nearest = fa_min(rays->nearest, place + rays->right[i] * last->gap - eps);
    }
}

#endif
