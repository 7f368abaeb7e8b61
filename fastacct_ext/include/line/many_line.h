/* line/many_line.h -- a line of the lattice over different steps, from the rows of each of them.
 */
#ifndef FA_MANY_LINE_H
#define FA_MANY_LINE_H

#include "many_tail.h"

FA_INLINE double *fa_row_points(fa_many_row *row) { return (double *)(row + 1); }

/* the rows of the items from number b on, where each goes; 0: failure */
FA_FUNC int fa_many_read_rows(fa_many *m, const fa_many_where *where, int b, fa_many_row **to)
{
    fa_many_scratch *s = fa_many_group_of(m, b);
    const fa_cap_plan *plan = &m->line[where->way].line.plan;
    double a = plan->tilt;
    int points = where->giants * FA_MANY_GIANT, i, lane;
    fa_many_wish w = {
        .a = a, .h = plan->h, .t_max = (points - 1) * plan->h, .need = FA_MANY_NEED, .giants = where->giants};
    for (i = 0; i < FA_MANY_REALS; i++) {
        int is_add = where->way != (i == FA_MANY_OTHER);
        double v = where->real[i] < 0 ? 1.0 : fa_place_v(where->real[i]);
        w.real[i] = where->real[i] < 0 ? 0.0 : is_add ? 1.0 - v : v;
    }
    w.high = where->way ? a : w.real[FA_MANY_RIGHT];
    w.low = where->way ? w.real[FA_MANY_RIGHT] : w.real[FA_MANY_OTHER];
    if (!s || !fa_many_sum(s, &w))
        return 0;
    for (lane = 0; lane < FA_LANE && b + lane < m->n; lane++) {
        double *zr = fa_row_points(to[lane]), *zi = zr + points;
        to[lane]->error = s->group.error[lane];
        to[lane]->at_a = s->group.at_a[lane];
        for (i = 0; i < FA_MANY_REALS; i++)
            to[lane]->real[i] = w.real[i] != 0.0 ? s->group.real[i][lane] : 0.0;
        to[lane]->tail = fa_many_tail(&s->group, lane, a, w.t_max);
        for (i = 0; i < points; i++) {
            zr[i] = s->zr[i][lane];
            zi[i] = s->zi[i][lane];
        }
    }
    return 1;
}

/* a step's row, counted: log M and its angle, their sizes, the least log |M| */
FA_INLINE void fa_many_add_row(fa_cap_line *line, int points, double count, fa_many_row *row)
{
    const double *re = fa_row_points(row), *im = re + points;
    double *log_f = line->log_f, *arg_f = line->arg_f, *gross = line->gross, *least = line->scratch[0];
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < points; i++) {
        log_f[i] = FA_FMA(count, re[i], log_f[i]);
        arg_f[i] = FA_FMA(count, im[i], arg_f[i]);
        gross[i] += count * (fabs(re[i]) + fabs(im[i]));
        least[i] = fa_min(least[i], re[i]);
    }
}

/* FA_LANE rows of one's own, where nothing is kept; 0: no memory */
FA_FUNC int fa_many_own(fa_many *m, size_t size)
{
    if (m->own_size < size) {
        free(m->own);
        m->own = fa_alloc(sizeof(double) * size);
        m->own_size = m->own ? size : 0;
    }
    return m->own_size >= size;
}

/* Chernoff's points, from the sums k of the rows' K there */
FA_FUNC void fa_many_real_points(fa_many *m, const fa_many_where *where, const double *k)
{
    fa_many_read *run = m->line + where->way;
    fa_cap_plan *plan = &run->line.plan;
    double v[FA_MANY_REALS], value[FA_MANY_REALS], wide;
    int i;
    for (i = 0; i < FA_MANY_REALS; i++) {
        v[i] = where->real[i] < 0 ? 1.0 : fa_place_v(where->real[i]);
        value[i] = k[i] + 0.5 * v[i] * (v[i] - 1.0) * m->mu2;
    }
    wide = 1e-8 + 1e-12 * m->total * (1.0 + v[FA_MANY_RIGHT] + v[FA_MANY_LEFT]);
    plan->right = v[FA_MANY_RIGHT];
    plan->left = v[FA_MANY_LEFT];
    run->right_log = value[FA_MANY_RIGHT] + fa_log_b(plan->right);
    run->left_log = value[FA_MANY_LEFT] + fa_log_b(plan->left);
    run->slop = wide + 64.0 * FA_EPS * (fabs(run->right_log) + fabs(run->left_log));
    run->log_tail += wide + 64.0 * FA_EPS * fabs(run->log_tail);
    if (!where->way) {
        m->other_v = where->real[FA_MANY_OTHER] < 0 ? 0.0 : v[FA_MANY_OTHER];
        m->other_k = value[FA_MANY_OTHER] + 1e-8 + 1e-12 * m->total * (1.0 + v[FA_MANY_OTHER]);
    }
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
    run->relative = run->turning = 0.0;
    run->log_tail = -log(FA_PI * t) + 0.5 * (c * (c - 1.0) - t * t) * m->mu2 + 1e-9;
    return 1;
}

/* what the points are, all rows counted, at eps over exp(ref); 0: they will not do */
FA_FUNC int fa_many_finish(fa_many *m, const fa_many_where *where, int points, const double *k, double eps, double ref)
{
    fa_many_read *run = m->line + where->way;
    fa_cap_line *line = &run->line;
    double *inverse = line->scratch[0];
    int i;
    run->relative += run->turning * points; /* what the errors of the phasors grow by a point */
    for (i = 0; i < points; i++)
        inverse[i] = exp(fa_min(-inverse[i], 600.0)) * (1.0 - run->turning * (points - i) / run->relative);
    fa_many_real_points(m, where, k);
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
    int points = where->giants * FA_MANY_GIANT, b, lane, i;
    double k[FA_MANY_REALS] = {0.0};
    size_t row_size = fa_row_size(where->giants);
    fa_many_shelf *shelf = m->kept && where->giants <= FA_MANY_LONGEST ? fa_kept_shelf(m->kept, where) : 0;
    if (!fa_many_begin(m, run, points) || (!shelf && !fa_many_own(m, FA_LANE * row_size)))
        return 0;
    for (b = 0; b < m->n; b += FA_LANE) {
        fa_many_row *row[FA_LANE];
        int used = m->n - b < FA_LANE ? m->n - b : FA_LANE, all = shelf != 0;
        for (lane = 0; lane < used; lane++) {
            int at = shelf ? m->place[b + lane] : lane;
            row[lane] = (fa_many_row *)((shelf ? shelf->rows : m->own) + row_size * (size_t)at);
            all = all && shelf->has[at];
        }
        if (!all && !fa_many_read_rows(m, where, b, row))
            return 0;
        for (lane = 0; lane < used; lane++) {
            double count = m->items[b + lane].count;
            fa_many_add_row(&run->line, points, count, row[lane]);
            run->relative += count * row[lane]->error;
            for (i = 0; i < FA_MANY_REALS; i++)
                k[i] += count * row[lane]->real[i];
            run->turning += 10.0 * FA_EPS * count * row[lane]->at_a;
            run->log_tail += count * row[lane]->tail;
            if (shelf)
                shelf->has[m->place[b + lane]] = 1;
        }
    }
    return fa_many_finish(m, where, points, k, eps, ref);
}

#endif
