/* line/many_steps.h -- jobs of different sampled Gaussians: certified epsilon and log delta, from one pass
 * over the steps.
 *
 * Their log-moments at real points say which line of a lattice is best (line/many_place.h).  Then every step is
 * summed once along it (line/many_rows.h).  docs/algorithms/contour.md, "Different steps".
 */
#ifndef FA_MANY_STEPS_H
#define FA_MANY_STEPS_H

#include "many_place.h"

#define FA_MANY_GOOD      4.5e-10 /* relative error that will do ... */
#define FA_MANY_COMMON    128     /* ... of up to so many different steps */
#define FA_MANY_TOLERANCE 24.0 /* -log of the relative error aimed at ... */
#define FA_MANY_LONGER    4.0  /* a line that must be so many times longer is given up */
#define FA_MANY_RETRY     5.0  /* ... and how much more where that was not enough */

/* room for a row of one's own, where nothing is kept; 0: no memory */
FA_FUNC int fa_many_own(fa_many *m, size_t size)
{
    if (m->own_size < size) {
        free(m->own);
        m->own = fa_alloc(sizeof(double) * size);
        m->own_size = m->own ? size : 0;
    }
    return m->own_size >= size;
}

/* what is wanted of each step on a line */
FA_FUNC fa_many_wish fa_many_wish_of(const fa_many *m, const fa_many_where *where)
{
    fa_many_wish w = {.plan = m->line[where->way].line.plan, .points = where->runs * FA_RUN};
    int i;
    for (i = 0; i < FA_MANY_REALS; i++) {
        double v = where->real[i] < 0 ? 1.0 : fa_place_v(where->real[i]);
        w.real[i] = where->real[i] < 0 ? 0.0 : where->way != (i == FA_MANY_OTHER) ? 1.0 - v : v;
    }
    return w;
}

/* an empty line of so many points; 0: no memory */
FA_FUNC int fa_many_begin(fa_many *m, fa_many_read *run, int points)
{
    fa_cap_line *line = &run->line;
    double c = line->plan.c, t = (points - 1) * line->plan.h;
    int i;
    line->n = line->made = 0;
    if (!fa_cap_reserve_points(&run->job, line, points))
        return 0;
    for (i = 0; i < points; i++) {
        line->log_f[i] = line->arg_f[i] = line->gross[i] = 0.0;
        line->scratch[0][i] = INFINITY;
    }
    run->relative = run->right_log = run->left_log = run->other_log = run->other_v = 0.0;
    run->log_tail = -log(FA_PI * t) + 0.5 * (c * (c - 1.0) - t * t) * m->mu2 + 1e-9;
    return 1;
}

/* a step's row, counted: log M and its angle, their sizes, the least log |M| */
FA_FUNC void fa_many_add_row(fa_many_read *run, int points, double count, fa_many_row *row)
{
    const double *re = fa_row_points(row), *im = re + points;
    double *log_f = run->line.log_f, *arg_f = run->line.arg_f, *gross = run->line.gross, *least = run->line.scratch[0];
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < points; i++) {
        log_f[i] = FA_FMA(count, re[i], log_f[i]);
        arg_f[i] = FA_FMA(count, im[i], arg_f[i]);
        gross[i] += count * (fabs(re[i]) + fabs(im[i]));
        least[i] = fa_min(least[i], re[i]);
    }
    run->relative += count * row->error;
    run->log_tail += count * row->tail;
    run->right_log += count * row->real[FA_MANY_RIGHT];
    run->left_log += count * row->real[FA_MANY_LEFT];
    run->other_log += count * row->real[FA_MANY_OTHER];
}

/* what the points are, all rows counted, at eps over exp(ref); 0: they will not do */
FA_FUNC int fa_many_finish(fa_many *m, const fa_many_where *where, int points, double eps, double ref)
{
    fa_many_read *run = m->line + where->way;
    fa_cap_line *line = &run->line;
    double *inverse = line->scratch[0], v[FA_MANY_REALS],
           *k[FA_MANY_REALS] = {&run->right_log, &run->left_log, &run->other_log},
           round = (64.0 + m->n) * FA_EPS;
    int i;
    for (i = 0; i < points; i++)
        inverse[i] = exp(fa_min(-inverse[i], 600.0));
    for (i = 0; i < FA_MANY_REALS; i++) {
        v[i] = where->real[i] < 0 ? 1.0 : fa_place_v(where->real[i]);
        *k[i] += 0.5 * v[i] * (v[i] - 1.0) * m->mu2 + fa_log_b(v[i]);
        *k[i] += round * (fabs(*k[i]) + v[i] * v[i] * m->mu2);
    }
    run->log_tail += round * fabs(run->log_tail);
    line->plan.right = v[FA_MANY_RIGHT];
    line->plan.left = v[FA_MANY_LEFT];
    run->other_v = where->real[FA_MANY_OTHER] < 0 ? 0.0 : v[FA_MANY_OTHER];
    if (!(run->relative * inverse[0] < 1e-3) || !(run->log_tail < 1e300) || !(run->right_log < 1e300) ||
        !(run->left_log < 1e300))
        return 0;
    line->eps = eps;
    line->ref = ref;
    fa_cap_divide(&run->job, line, 0, points);
    fa_cap_weigh(line, 0, points);
    line->n = line->made = points;
    return 1;
}

/* the line chosen by fa_many_choose, evaluated over all items; 0: it will not do */
FA_FUNC int fa_many_pass(fa_many *m, const fa_many_where *where, double eps, double ref)
{
    fa_many_read *run = m->line + where->way;
    fa_many_wish wish = fa_many_wish_of(m, where);
    int b;
    size_t row_size = fa_row_size(where->runs);
    fa_many_shelf *shelf = m->kept && where->runs <= FA_MANY_LONGEST ? fa_kept_shelf(m->kept, where) : 0;
    if (!fa_many_begin(m, run, wish.points) || (!shelf && !fa_many_own(m, row_size)))
        return 0;
    for (b = 0; b < m->n; b++) {
        const fa_many_item *item = m->items + b;
        uint8_t *has = shelf ? shelf->has + m->place[b] : NULL;
        fa_many_row *row = (fa_many_row *)(shelf ? shelf->rows + row_size * (size_t)m->place[b] : m->own);
        if (!(has && *has) && !fa_many_row_of(&m->alone, item->sigma, item->rate, &wish, row))
            return 0;
        if (has)
            *has = 1;
        fa_many_add_row(run, wish.points, item->count, row);
    }
    return fa_many_finish(m, where, wish.points, eps, ref);
}

/* a line of the lattice for eps, or for log_delta where eps is NaN, evaluated over all steps; eps and log delta there,
 * about. more: to add to the tolerance.  0: no such line */
FA_FUNC int fa_many_place(fa_many *m, int way, double more, double *eps, double *log_delta)
{
    double tolerance = FA_MANY_TOLERANCE + more;
    fa_many_where where;
    int tries;
    if (!fa_many_choose(m, way, tolerance, eps, log_delta, &where))
        return 0;
    for (tries = 0; tries < 3 && where.runs; tries++) {
        double left, longer;
        if (!fa_many_pass(m, &where, *eps, *log_delta))
            return 0;
        left = m->line[way].log_tail - (m->line[way].line.plan.c - 1.0) * *eps - *log_delta;
        if (left < 4.0 - tolerance)
            return 1;
        longer = 1.05 * pow((tolerance - 4.0) / fa_max(-left, 1e-3), 0.8);
        if (longer > FA_MANY_LONGER)
            return 0;
        where.runs = fa_many_length(fa_max(longer * where.runs, where.runs + 1.0));
    }
    return where.runs > 0;
}

/* the error that will do: where there are so many steps another line costs as much, and its errors add up too */
FA_INLINE double fa_many_good(const fa_many *m) { return (m->n > FA_MANY_COMMON ? 10.0 : 1.0) * FA_MANY_GOOD; }

/* every error of a line of the lattice at eps, over delta = exp(log_value).  |M|^n with M off by an error e: n factors
 * (1 + e/|M|) */
FA_FUNC fa_cap_ledger fa_many_ledger(const fa_many *m, int way, double eps, double log_value)
{
    const fa_many_read *run = m->line + way;
    const fa_cap_line *line = &run->line;
    const fa_cap_plan *p = &line->plan;
    const double *log_f = line->log_f, *arg_f = line->arg_f, *size = line->size, *gross = line->gross,
                 *inverse = line->scratch[0];
    double c1 = p->c - 1.0, h = p->h, shift = line->ref - log_value - c1 * (eps - line->eps), spread = 2.0 * FA_PI / h,
           n = fa_max(m->total, 1.0), sum = 0.0, rounds = 0.0, ref = fabs(line->ref), both,
           more = (4.0 + m->n) / 8.0;
    fa_cap_ledger out = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    int k;
    FA_PRAGMA(omp simd reduction(+ : sum, rounds))
    for (k = 0; k < line->n; k++) {
        double by, x = run->relative * inverse[k], far = n * (1.0 + 1e-9) * fa_log_v(1.0 + x / n);
        (void)fa_exp_both_v(fa_min(690.0, x < 1.0 ? x : far), &by);
        sum += size[k] * by;
        rounds += size[k] * (fabs(log_f[k]) + ref + fabs(arg_f[k]) + (2.0 * c1 + k * h) * eps + 30.0 + more * gross[k]);
    }
    sum = 1.01 * h / FA_PI * exp(fa_min(600.0, shift)) * (sum + 8.0 * FA_EPS * rounds);
    out.rounding = shift < 600.0 ? sum : INFINITY;
    out.tail = fa_cap_exp(run->log_tail - c1 * eps - log_value);
    out.alias = 1.0001 *
                (fa_cap_exp(run->right_log - (p->right - 1.0) * eps - log_value) / expm1((p->right - p->c) * spread) +
                 fa_cap_exp(run->left_log - (p->left - 1.0) * eps - log_value) / expm1((p->c - p->left) * spread));
    both = out.tail + out.rounding + 8.0 * FA_EPS * (4.0 + fabs(log_value));
    out.up = both < INFINITY ? both : INFINITY;
    out.down = both + out.alias < INFINITY ? both + out.alias : INFINITY;
    return out;
}

/* eps at log delta in one direction; 0: not certified here */
FA_FUNC int fa_many_eps_way(fa_many *m, int way, double log_delta, fa_interval *out)
{
    fa_many_read *run = m->line + way;
    double at = NAN, eps, size = log_delta, more;
    fa_cap_ledger g;
    fa_cap_reading r;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &at, &size))
            return 0;
        eps = at;
        r = fa_cap_read(&run->job, &run->line, at);
        if (!fa_cap_newton(&run->job, &run->line, log_delta, &eps, &r) || !(eps > 0.0))
            return 0;
        g = fa_many_ledger(m, way, eps, log_delta);
        if (g.up + g.down < fa_many_good(m) * fa_max(1.0, -r.slope * eps))
            return fa_cap_ends_of(&run->job, &run->line, log_delta, eps, &r, &g, out);
        at = eps;
    }
    return 0;
}

/* log delta at eps > 0 in one direction; 0: not certified here */
FA_FUNC int fa_many_log_delta_way(fa_many *m, int way, double eps, fa_interval *out)
{
    double size = NAN, more, pad;
    fa_many_read *run = m->line + way;
    fa_cap_ledger g;
    fa_cap_reading r;
    out->lower = out->upper = -INFINITY;
    m->slope = NAN;
    for (more = 0.0; more <= FA_MANY_RETRY; more += FA_MANY_RETRY) {
        if (!fa_many_place(m, way, more, &eps, &size))
            return 0;
        r = fa_cap_read(&run->job, &run->line, eps);
        if (!(r.log_value == r.log_value))
            return 0;
        g = fa_many_ledger(m, way, eps, r.log_value);
        pad = 8.0 * FA_EPS * (1.0 + fabs(r.log_value));
        if (g.up + g.down < fa_many_good(m)) {
            out->upper = fa_min(0.0, r.log_value + log1p(g.up) + pad);
            out->lower = r.log_value + log1p(-g.down) - pad;
            m->slope = r.slope;
            return out->lower <= 0.0;
        }
    }
    return 0;
}

/* whether delta_add(eps) <= exp(log_delta) is proved by Chernoff's bound, after a line of the other direction */
FA_FUNC int fa_many_add_is_below(const fa_many *m, double eps, double log_delta)
{
    const fa_many_read *run = m->line;
    return run->other_v > 1.0 && run->other_log - (run->other_v - 1.0) * eps <= log_delta;
}

#endif
