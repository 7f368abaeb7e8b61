/* renyi/leaf_map.h -- the half-line of orders cut into leaves, by (sigma, q) alone: intervals over which M - 1 is a
 * short series (order_series.h).
 *
 * Left of the cliff, where the sampled bump does not show yet, leaves are octaves of a, or all `wide`.  Behind it the
 * bump's exponent, a quadratic in a, grows by about the same in each.
 */
#ifndef FA_LEAF_MAP_H
#define FA_LEAF_MAP_H

#include "../num/vector.h"
#include "order_search.h"

#define FA_LEAF_MIN    0x1p-8 /* smallest a of a leaf */
#define FA_LEAF_LEVEL  8.0    /* growth of the sampled bump's exponent over a leaf, about */
#define FA_LEAF_SLOW   3.7    /* makes the first levels narrower: the exponent is quadratic */
#define FA_LEAF_HIDDEN 48.0   /* e^-48 beside the rest of M - 1, the bump is not summed */

/* where leaves begin and end */
typedef struct {
    int separate;                                  /* whether a valley lies between the bump and the rest of M - 1 */
    double wide;                                   /* no leaf below the cliff is wider: a power of two */
    double cliff;                                  /* leaves of levels begin here ... */
    double valley, bottom, root_s, inverse_root_s; /* ... with the bump's exponent s (a - valley)^2 + bottom */
    double variance, skew; /* M - 1 is about variance a (1+a)/2 (1 + skew (a-1)/3) for small a */
    double level;          /* (root_s (cliff - valley) + FA_LEAF_SLOW)^2 */
} fa_leaf_map;

/* ends have 26 bits: they, and the orders between them, are exact */
FA_INLINE double fa_leaf_end(double a) { return fa_from_bits(fa_bits(a) >> 27 << 27); }

/* The bump: log of its part of M is (1+a)(a s + log q), s = 1/(2 sigma^2); of the rest, about a (1+a) q^2 expm1(2s)/2.
 * Where a valley lies between the two, leaves left of the cliff know nothing of the bump. */
FA_FUNC void fa_leaf_map_init(fa_leaf_map *map, const fa_log_moment *lm)
{
    const fa_sgm *m = &lm->mech;
    double s = 0.5 * m->inv_var, valley = fa_max(-0.5 * (m->log_q / s + 1.0), FA_LEAF_MIN);
    double crossing = 2.0 * valley, growth, body, depth, narrow = -2.0 * (m->log_odds + m->log_q);
    (void)fa_exp_both_v(2.0 * s, &growth);
    map->variance = m->q * m->q * growth;
    map->skew = m->q * growth * (growth + 3.0);
    map->bottom = (1.0 + valley) * (valley * s + m->log_q);
    body = fa_log_v(0.5 * growth * crossing * (1.0 + crossing)) + 2.0 * m->log_q;
    depth = body - FA_LEAF_HIDDEN - map->bottom;
    map->valley = valley;
    map->root_s = sqrt(s);
    map->inverse_root_s = 1.0 / map->root_s;
    map->cliff = valley;
    map->separate = depth > 0.0;
    if (map->separate)
        map->cliff += sqrt(depth) * map->inverse_root_s;
    else
        narrow = fa_max(narrow, 0.8 / m->sigma);
    map->cliff = fa_leaf_end(fa_max(map->cliff, map->inverse_root_s)); /* no leaf is much wider than its left end */
    map->wide = fa_from_bits(fa_bits(1.0 / narrow) >> 52 << 52);
    map->level = map->root_s * (map->cliff - map->valley) + FA_LEAF_SLOW;
    map->level *= map->level;
}

FA_INLINE double fa_leaf_level(const fa_leaf_map *map, double k)
{
    if (!(k > 0.0))
        return map->cliff;
    return fa_leaf_end(map->valley + (sqrt(map->level + FA_LEAF_LEVEL * k) - FA_LEAF_SLOW) * map->inverse_root_s);
}

/* the leaf that holds a begins here; its end */
FA_FUNC double fa_leaf_place(const fa_leaf_map *map, double a, double *end_out)
{
    double step, k, low, high;
    if (a < map->cliff) {
        step = fa_min(fa_from_bits(fa_bits(a) >> 52 << 52), map->wide);
        low = floor(a / step) * step;
        high = fa_min(low + step, map->cliff);
    }
    else {
        double x = map->root_s * (a - map->valley) + FA_LEAF_SLOW;
        k = fa_max(floor((x * x - map->level) * (1.0 / FA_LEAF_LEVEL)), 0.0);
        low = fa_leaf_level(map, k);
        high = fa_leaf_level(map, k + 1.0);
        if (a < low) { /* rounding */
            high = low;
            low = fa_leaf_level(map, k - 1.0);
        }
        else if (a >= high) {
            low = high;
            high = fa_leaf_level(map, k + 2.0);
        }
    }
    *end_out = high;
    return low;
}

#endif
