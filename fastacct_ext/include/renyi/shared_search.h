/* renyi/shared_search.h -- epsilon and delta of cells that have (sigma, q) in common, over continuous orders.
 *
 * The leaves of order_series.h are functions of (sigma, q) alone.  They are filled when first needed and kept: a cell
 * looks for the leaf that holds its best order by the balance at the leaves' left ends, and finds the order in that
 * leaf, eight cells at a time.  What is kept saves work and decides nothing, so that a cell has the same bits alone, in
 * any grid and after any other cell (docs/algorithms/order_search.md, "Shared orders").
 */
#ifndef FA_SHARED_SEARCH_H
#define FA_SHARED_SEARCH_H

#include "order_series.h"

#define FA_LEAVES       32                   /* kept at a time */
#define FA_LEAF_TIE     1e-9                 /* of the balance at a common end: the leaf to the right decides */
#define FA_LEAF_GRID    (0x1.8p52 * 0x1p-26) /* t is a multiple of 2^-26, adding this rounds: orders are exact */
#define FA_SEARCH_TERMS 32
#define FA_LEAF_SETTLED 3e-3 /* a step in t: the next one is about its cube */

/* leaf[place[i]] is the i-th by increasing order; the balance at its left end: value * steps + shift against target */
typedef struct {
    fa_log_moment *moment;
    fa_sides ask;
    fa_leaf_map map;
    double a_end; /* leaves end here, the cache has nodes for little more; 0: no leaves */
    int n_leaves;
    int place[FA_LEAVES], followed[FA_LEAVES]; /* whether the next leaf is there too */
    double value[FA_LEAVES], shift[FA_LEAVES];
    double variation; /* of fa_variation_floor */
    fa_leaf leaf[FA_LEAVES];
} fa_shared;

FA_INLINE double fa_leaf_end_of(const fa_leaf *leaf) { return leaf->begin + leaf->radius; }

/* both sides of the balance; t grows by over/under per unit of the logarithm of their ratio */
typedef struct {
    double left, right, over, under;
} fa_weighing;

FA_INLINE fa_weighing fa_weigh(fa_sides ask, double steps, double target, double value, double shift,
                               double value_slope, double shift_slope)
{
    fa_weighing w;
    if (ask.for_delta) {
        w.left = steps * value;
        w.right = target - shift;
        w.over = value * w.right;
        w.under = FA_FMA(value_slope, w.right, shift_slope * value);
    }
    else {
        w.left = FA_FMA(steps, value, shift);
        w.right = target;
        w.over = w.left;
        w.under = FA_FMA(steps, value_slope, shift_slope);
    }
    return w;
}

FA_INLINE fa_weighing fa_weigh_leaf(fa_sides ask, double steps, double target, const fa_balances *at, int i)
{
    return fa_weigh(ask, steps, target, at->value[i], at->shift[i], at->value_slope[i], at->shift_slope[i]);
}

/* where Newton's method in log a goes from an end of a leaf */
FA_FUNC double fa_end_step(fa_sides ask, const fa_leaf *leaf, int i, double steps, double target)
{
    double a = leaf->begin + (i ? leaf->radius : 0.0);
    fa_weighing w = fa_weigh_leaf(ask, steps, target, &leaf->at, i);
    double step = -log(w.left / w.right) * w.over / w.under * leaf->radius / a;
    return a * exp(fa_max(-2.0, fa_min(2.0, step)));
}

FA_FUNC void fa_shared_init(fa_shared *s, fa_log_moment *lm, fa_sides ask)
{
    s->moment = lm;
    s->ask = ask;
    s->a_end = 0.0;
    s->n_leaves = 0;
    s->variation = fa_variation_floor(&lm->mech);
    if (lm->a_limit > 1.0 && lm->mech.q <= FA_LEAF_RATE_MOST && lm->mech.sigma <= FA_LEAF_SIGMA_MOST) {
        double beyond;
        fa_leaf_map_init(&s->map, lm);
        s->a_end = fa_leaf_place(&s->map, lm->a_limit, &beyond);
    }
}

/* fill the leaf that holds a; `at` leaves are left of it */
FA_FUNC void fa_shared_add(fa_shared *s, double a, int at)
{
    fa_log_moment *lm = s->moment;
    fa_leaf *leaf = s->leaf + s->n_leaves;
    double end;
    int i;
    memset(&leaf->waiting, 0, sizeof(leaf->waiting));
    leaf->begin = fa_leaf_place(&s->map, a, &end);
    leaf->radius = end - leaf->begin;
    if (end > lm->a_cap)
        fa_log_moment_cache(lm, fa_min(fa_max(1.1 * end, 1.25 * a), lm->a_limit));
    fa_leaf_fill(lm, leaf, s->ask);
    for (i = s->n_leaves; i > at; i--) {
        s->place[i] = s->place[i - 1];
        s->followed[i] = s->followed[i - 1];
        s->value[i] = s->value[i - 1];
        s->shift[i] = s->shift[i - 1];
    }
    s->place[at] = s->n_leaves++;
    s->value[at] = leaf->at.value[0];
    s->shift[at] = leaf->at.shift[0];
    s->followed[at] = at + 1 < s->n_leaves && s->leaf[s->place[at + 1]].begin == end;
    if (at > 0)
        s->followed[at - 1] = fa_leaf_end_of(s->leaf + s->place[at - 1]) == leaf->begin;
}

/* The smaller of two orders: the best one where K is about that of two moments, and the one where the bump takes over
 */
FA_FUNC double fa_shared_guess(const fa_shared *s, double steps, double target)
{
    const fa_leaf_map *map = &s->map;
    double scale = 1.0 / (steps * map->variance), bump = 2.0 * map->valley, unit = 2.0 * map->root_s * map->root_s;
    double plain, body;
    int i;
    for (i = 0; i < 2; i++) {
        double weight = steps * unit * (1.0 + bump) * (s->ask.for_delta ? 1.0 : 0.5 * bump);
        double above = fa_log_v(fa_max(target / weight, 1e-290)) - map->bottom;
        bump = map->valley + sqrt(fa_max(above, 0.0)) * map->inverse_root_s;
    }
    if (s->ask.for_delta) {
        plain = target * scale;
        plain = fa_max(0.5 * plain, plain + s->ask.sharp * fa_log1p_plain_v(1.0 / plain) * scale - 0.5);
        body = plain / (1.0 + 0.5 * map->skew * plain);
        body = plain / (1.0 + 0.5 * map->skew * body);
    }
    else {
        plain = sqrt(2.0 * target * scale);
        plain = sqrt(2.0 * fa_max(0.2 * target, target - s->ask.sharp * fa_log1p_plain_v(plain)) * scale);
        body = plain / sqrt(1.0 + 2.0 / 3.0 * map->skew * plain);
        body = plain / sqrt(1.0 + 2.0 / 3.0 * map->skew * body);
    }
    if (map->separate)
        return fa_min(body, bump);
    plain = fa_min(body, bump) / fa_max(body, bump);
    return fa_min(body, bump) / (1.0 + 0.15 * plain * plain * plain * plain); /* both are there */
}

/* an order between two leaves to try next: Newton's, where it lies between them; NAN: behind all leaves */
FA_FUNC double fa_shared_next(const fa_shared *s, const fa_leaf *before, const fa_leaf *behind, double steps,
                              double target)
{
    double a, begin = FA_LEAF_MIN, end = s->a_end * (1.0 - 2.0 * FA_EPS);
    if (before) {
        begin = fa_leaf_end_of(before);
        a = fa_end_step(s->ask, before, FA_LANES - 1, steps, target);
        if (behind && !(a < behind->begin))
            a = sqrt(begin * behind->begin);
    }
    else if (behind) {
        end = behind->begin * (1.0 - 2.0 * FA_EPS);
        a = fa_end_step(s->ask, behind, 0, steps, target);
    }
    else {
        a = fa_shared_guess(s, steps, target);
    }
    return begin <= end ? fa_max(begin, fa_min(a, end)) : NAN;
}

/* The leaf in which the balance changes sign: left is at most right at its left end, and more at that of the next leaf.
 * NULL: behind all leaves, or no room.  Which leaf it is does not depend on those that are kept. */
FA_FUNC fa_leaf *fa_shared_leaf(fa_shared *s, double steps, double target)
{
    int i;
    while (s->n_leaves < FA_LEAVES) {
        fa_leaf *before = 0, *behind = 0;
        double a;
        int n = 0;
        for (i = 0; i < s->n_leaves; i++)
            n += FA_FMA(steps, s->value[i], s->shift[i]) <= target;
        if (n < s->n_leaves)
            behind = s->leaf + s->place[n];
        if (n > 0) {
            fa_weighing w;
            before = s->leaf + s->place[n - 1];
            a = fa_leaf_end_of(before);
            if (s->followed[n - 1])
                return before;
            w = fa_weigh_leaf(s->ask, steps, target, &before->at, FA_LANES - 1);
            if (w.left > w.right * (1.0 + FA_LEAF_TIE))
                return before;
            if (w.left < w.right * (1.0 - FA_LEAF_TIE))
                a = fa_shared_next(s, before, behind, steps, target);
            a = a < s->a_end ? a : NAN;
        }
        else
            a = fa_shared_next(s, before, behind, steps, target);
        if (!(a == a))
            return 0;
        fa_shared_add(s, a, n);
    }
    return 0;
}

/* how many leaves begin before the best order, for FA_LANES cells */
FA_FUNC void fa_shared_count(const fa_shared *s, const double *steps, const double *target, int64_t *n_out)
{
    int i, j;
    for (i = 0; i < FA_LANES; i++)
        n_out[i] = 0;
    for (j = 0; j < s->n_leaves; j++) {
        double value = s->value[j], shift = s->shift[j];
        FA_PRAGMA(omp simd)
        for (i = 0; i < FA_LANES; i++)
            n_out[i] += FA_FMA(steps[i], value, shift) <= target[i];
    }
}

/* one more cell waits in its leaf */
FA_FUNC void fa_leaf_wait(fa_leaf *leaf, int64_t cell, double steps, double target)
{
    const fa_balances *at = &leaf->at;
    fa_waiting *w = &leaf->waiting;
    int64_t i = w->n++;
    int j, k, n = 0;
    for (j = 1; j < FA_LANES - 1; j++)
        n += FA_FMA(steps, at->value[j], at->shift[j]) <= target;
    w->cell[i] = cell;
    w->steps[i] = steps;
    w->target[i] = target;
    w->from[i] = n;
    for (k = 0; k < 2; k++) {
        w->value[k][i] = at->value[n + k];
        w->shift[k][i] = at->shift[n + k];
        w->value_slope[k][i] = at->value_slope[n + k];
        w->shift_slope[k][i] = at->shift_slope[n + k];
    }
}

/* t where the sides balance, between two of the leaf's balances: a cubic in the logarithm of their ratio, which is
 * small.  Divisions are slow: each is shared */
FA_INLINE double fa_waiting_start(const fa_waiting *l, fa_sides ask, int i)
{
    double step = 1.0 / (FA_LANES - 1), steps = l->steps[i], target = l->target[i], inverse, y0, y1, width, x, rest;
    fa_weighing w = fa_weigh(ask, steps, target, l->value[0][i], l->shift[0][i], l->value_slope[0][i],
                             l->shift_slope[0][i]);
    fa_weighing v = fa_weigh(ask, steps, target, l->value[1][i], l->shift[1][i], l->value_slope[1][i],
                             l->shift_slope[1][i]);
    double w_sum = w.left + w.right, v_sum = v.left + v.right;
    inverse = 1.0 / (w_sum * v_sum);
    y0 = (w.left - w.right) * v_sum * inverse;
    y1 = (v.left - v.right) * w_sum * inverse;
    y0 *= FA_FMA(y0 * y0, FA_FMA(y0 * y0, 0.4, 2.0 / 3.0), 2.0);
    y1 *= FA_FMA(y1 * y1, FA_FMA(y1 * y1, 0.4, 2.0 / 3.0), 2.0);
    width = y1 - y0;
    x = fa_min(fa_max(-y0 / width, 0.0), 1.0);
    rest = 1.0 - x;
    inverse = x * rest * width / (w.under * v.under);
    x = step * (x * x * (3.0 - 2.0 * x)) + inverse * (rest * w.over * v.under - x * v.over * w.under);
    return step * l->from[i] + fa_max(0.0, fa_min(step, x));
}

/* A step in t of Chebyshev's method for log(left / right), whose derivatives are those of the sides over the sides.  A
 * few powers fewer say enough */
FA_INLINE double fa_step_v(fa_sides ask, double steps, double target, const fa_leaf *leaf, double inverse_r, double t)
{
    const double *c = leaf->coefficient;
    double m = c[FA_SEARCH_TERMS - 1], m1 = 0.0, m2 = 0.0, m3 = 0.0, r = leaf->radius, a = FA_FMA(r, t, leaf->begin);
    double big, inverse, inverse_a, k1, k2, k3, left, l1, l2, right, f, f1, f2, u, x = a * inverse_r;
    int k;
    FA_PRAGMA(GCC unroll 42)
    for (k = FA_SEARCH_TERMS - 2; k >= 0; k--) {
        m3 = FA_FMA(m3, t, m2);
        m2 = FA_FMA(m2, t, m1);
        m1 = FA_FMA(m1, t, m);
        m = FA_FMA(m, t, c[k]);
    }
    big = (1.0 - leaf->less) + m;
    inverse = 1.0 / (big * (a + a * a));
    inverse_a = inverse * big;
    inverse *= a + a * a;
    k1 = m1 * inverse;
    k2 = FA_FMA(-k1, k1, 2.0 * m2 * inverse);
    k3 = 6.0 * m3 * inverse - k1 * FA_FMA(6.0 * inverse, m2, -2.0 * k1 * k1);
    if (ask.for_delta) { /* times r */
        double r1, r2;
        left = steps * k1;
        right = r * FA_FMA(ask.sharp, fa_log1p_plain_v(inverse_a * (1.0 + a)), target);
        u = ask.sharp * r * inverse_a;
        r1 = -u * r;
        r2 = r * u * (1.0 + 2.0 * a) * r * inverse_a;
        inverse = 1.0 / (left * right);
        l1 = steps * k2 * right * inverse;
        l2 = steps * k3 * right * inverse;
        r1 *= left * inverse;
        r2 *= left * inverse;
        f1 = l1 - r1;
        f2 = (l2 - r2) - (l1 - r1) * (l1 + r1);
        inverse = 1.0 / (f1 * (left + right));
        f = 2.0 * (left - right) * inverse;
        f2 *= inverse * (left + right);
    }
    else {
        u = ask.sharp * r * a * inverse_a;
        left = FA_FMA(steps, FA_FMA(x, k1, -fa_leaf_log(leaf, m)), ask.sharp * fa_log1p_plain_v(a));
        right = target;
        l1 = FA_FMA(steps * x, k2, u);
        l2 = FA_FMA(steps, FA_FMA(x, k3, k2), -u * u);
        inverse = 1.0 / (left * l1 * (left + right));
        f = 2.0 * (left - right) * left * left * inverse;
        f2 = (l2 * left - l1 * l1) * (left + right) * inverse;
    }
    return -f * (1.0 + fa_max(-0.5, fa_min(0.5, 0.5 * f * f2)));
}

/* t of the best orders; NAN where the search does not settle.  A lane that has settled keeps its t whatever the others
 * do */
FA_INLINE void fa_leaf_search(const fa_leaf *leaf, fa_sides ask, double *t)
{
    const fa_waiting *l = &leaf->waiting;
    double moved[FA_LANES], most = 1.0, inverse_r = 1.0 / leaf->radius;
    int i, round;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        t[i] = fa_waiting_start(l, ask, i);
        moved[i] = 1.0;
    }
    for (round = 0; round < 8 && most > FA_LEAF_SETTLED; round++) {
        most = 0.0;
        FA_PRAGMA(omp simd reduction(max : most))
        for (i = 0; i < FA_LANES; i++) {
            double next = t[i] + fa_step_v(ask, l->steps[i], l->target[i], leaf, inverse_r, t[i]);
            next = fa_max(0.0, fa_min(1.0, next));
            next = moved[i] > FA_LEAF_SETTLED ? next : t[i];
            moved[i] = fabs(next - t[i]);
            t[i] = next;
            most = moved[i] > most ? moved[i] : most;
        }
    }
    for (i = 0; i < FA_LANES; i++)
        t[i] = moved[i] > FA_LEAF_SETTLED ? NAN : t[i];
}

/* the certified answers at t, rounded to the grid, and their orders */
FA_INLINE void fa_leaf_answer(const fa_leaf *leaf, fa_sides ask, const double *t, double *value_out, double *a_out)
{
    const double *c = leaf->coefficient;
    int i, k;
    FA_PRAGMA(omp simd)
    for (i = 0; i < FA_LANES; i++) {
        double at = (t[i] + FA_LEAF_GRID) - FA_LEAF_GRID, square = at * at, m = c[FA_TERMS - 2], odd = c[FA_TERMS - 1];
        double a = FA_FMA(leaf->radius, at, leaf->begin), target = leaf->waiting.target[i];
        double inverse_a = 1.0 / a, total, log_alpha, log_ratio;
        FA_PRAGMA(GCC unroll 21)
        for (k = FA_TERMS - 4; k >= 0; k -= 2) {
            m = FA_FMA(m, square, c[k]);
            odd = FA_FMA(odd, square, c[k + 1]);
        }
        m = FA_FMA(odd, at, m);
        total = fa_leaf_log(leaf, m);
        total += leaf->relative * fa_min(total, 1.0);
        total *= leaf->waiting.steps[i] * (1.0 + 10.0 * FA_EPS);
        log_alpha = ask.sharp * fa_log1p_plain_v(a);
        log_ratio = ask.sharp * fa_log1p_plain_v(inverse_a);
        a_out[i] = a;
        if (ask.for_delta)
            value_out[i] = total - a * target - a * log_ratio - log_alpha +
                           8.0 * FA_EPS * (total + a * target + a * log_ratio + log_alpha);
        else
            value_out[i] = (total + target - log_alpha) * inverse_a - log_ratio +
                           10.0 * FA_EPS * ((total + target + log_alpha) * inverse_a + log_ratio);
    }
}

FA_INLINE void fa_leaf_solve_as(const fa_leaf *leaf, fa_sides ask, double *value_out, double *a_out)
{
    double t[FA_LANES];
    fa_leaf_search(leaf, ask, t);
    fa_leaf_answer(leaf, ask, t, value_out, a_out);
}

/* epsilon or log delta of each waiting cell, and its order.  Lanes without a cell are computed too, and not used:
 * zeros, or cells of before */
FA_FUNC void fa_leaf_solve(const fa_leaf *leaf, fa_sides ask, double *value_out, double *a_out)
{
    fa_sides eps = {0, ask.sharp}, delta = {1, ask.sharp};
    if (ask.for_delta)
        fa_leaf_solve_as(leaf, delta, value_out, a_out);
    else
        fa_leaf_solve_as(leaf, eps, value_out, a_out);
}

#endif
