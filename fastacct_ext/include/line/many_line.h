/* line/many_line.h -- the line of line/contour.h over different steps, from the rows of each of them.
 */
#ifndef FA_MANY_LINE_H
#define FA_MANY_LINE_H

#include "many_place.h"

#define FA_MANY_SLACK 15.0 /* -log of the error of a step's tail, relative to M(a) */

FA_INLINE double *fa_row_points(fa_many_row *row) { return (double *)(row + 1); }

/* log of the bound of |M| for all Im u >= t, of the step in a lane */
FA_FUNC double fa_many_tail(const fa_many_group *g, int lane, double a, double t)
{
    fa_block block;
    memset(&block, 0, sizeof(block));
    fa_pair_sampled(&block.pair, g->sigma[lane], g->rate[lane]);
    block.cut = block.cut_loss = INFINITY;
    return a * block.pair.kappa + fa_tail_majorant(&block, a, t,
                                                   (g->at_a[lane] + 2.0 * g->error[lane]) * exp(-a * block.pair.kappa),
                                                   -FA_MANY_SLACK);
}

/* the rows of the items from number b on, where each goes; 0: failure */
FA_FUNC int fa_many_read_rows(fa_many *m, const fa_many_where *where, int b, fa_many_row **to)
{
    fa_many_scratch *s = fa_many_group_of(m, b);
    const fa_contour *run = m->line + where->way;
    double a = fa_line_u(run, run->c);
    int points = where->giants * FA_MANY_GIANT, i, lane;
    fa_many_wish w = {
        .a = a, .h = run->h, .t_max = (points - 1) * run->h, .need = FA_MANY_NEED, .giants = where->giants};
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

/* the line's points without any step: what divides, and the plain Gaussians */
FA_FUNC void fa_many_begin(fa_contour *run, int points, double *size, double *least)
{
    double a = fa_line_u(run, run->c), mu2 = run->mu2;
    int i;
    for (i = 0; i < points; i++) {
        double t = i * run->h;
        run->zr[i] = 0.5 * mu2 * (a * (a - 1.0) - t * t) -
                     0.5 * (fa_log_v(FA_FMA(a, a, t * t)) + fa_log_v(FA_FMA(a - 1.0, a - 1.0, t * t)));
        run->zi[i] = mu2 * (a - 0.5) * t - (fa_angle_v(t, a) + fa_angle_v(t, a - 1.0));
        size[i] = 0.0;
        least[i] = INFINITY;
    }
}

/* a step's row, counted */
FA_INLINE void fa_many_add_row(fa_contour *run, int points, double count, fa_many_row *row, double *size, double *least)
{
    const double *re = fa_row_points(row), *im = re + points;
    double *zr = run->zr, *zi = run->zi;
    int i;
    FA_PRAGMA(omp simd)
    for (i = 0; i < points; i++) {
        zr[i] = FA_FMA(count, re[i], zr[i]);
        zi[i] = FA_FMA(count, im[i], zi[i]);
        size[i] += count * (fabs(re[i]) + fabs(im[i]));
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
    fa_contour *run = m->line + where->way;
    double v[FA_MANY_REALS], value[FA_MANY_REALS], wide;
    int i;
    for (i = 0; i < FA_MANY_REALS; i++) {
        v[i] = where->real[i] < 0 ? 1.0 : fa_place_v(where->real[i]);
        value[i] = k[i] + 0.5 * v[i] * (v[i] - 1.0) * run->mu2;
    }
    wide = 1e-8 + 1e-12 * m->total * (1.0 + v[FA_MANY_RIGHT] + v[FA_MANY_LEFT]);
    run->right = v[FA_MANY_RIGHT];
    run->left = v[FA_MANY_LEFT];
    run->right_log = value[FA_MANY_RIGHT] + fa_log_b(run->right);
    run->left_log = value[FA_MANY_LEFT] + fa_log_b(run->left);
    run->slop = wide + 64.0 * FA_EPS * (fabs(run->right_log) + fabs(run->left_log));
    run->log_tail += wide + 64.0 * FA_EPS * fabs(run->log_tail);
    if (!where->way) {
        m->other_v = where->real[FA_MANY_OTHER] < 0 ? 0.0 : v[FA_MANY_OTHER];
        m->other_k = value[FA_MANY_OTHER] + 1e-8 + 1e-12 * m->total * (1.0 + v[FA_MANY_OTHER]);
    }
}

/* the line chosen by fa_many_choose, evaluated over all items; 0: it will not do */
FA_FUNC int fa_many_pass(fa_many *m, const fa_many_where *where)
{
    fa_contour *run = m->line + where->way;
    int points = where->giants * FA_MANY_GIANT, b, lane, i;
    double size[FA_MANY_POINTS], least[FA_MANY_POINTS], t_max = (points - 1) * run->h, turning = 0.0,
                                                        k[FA_MANY_REALS] = {0.0};
    size_t row_size = fa_row_size(where->giants);
    fa_many_shelf *shelf = m->kept && where->giants <= FA_MANY_LONGEST ? fa_kept_shelf(m->kept, where) : 0;
    run->n = 0;
    run->cut = INFINITY;
    run->log_cut = -INFINITY;
    run->t_end = t_max;
    run->relative = 0.0;
    if (!fa_contour_reserve(run, points) || (!shelf && !fa_many_own(m, FA_LANE * row_size)))
        return 0;
    fa_many_begin(run, points, size, least);
    run->log_tail = -log(FA_PI * t_max) + 0.5 * (run->c * (run->c - 1.0) - t_max * t_max) * run->mu2 + 1e-9;
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
            fa_many_add_row(run, points, count, row[lane], size, least);
            run->relative += count * row[lane]->error;
            for (i = 0; i < FA_MANY_REALS; i++)
                k[i] += count * row[lane]->real[i];
            turning += 10.0 * FA_EPS * count * row[lane]->at_a;
            run->log_tail += count * row[lane]->tail;
            if (shelf)
                shelf->has[m->place[b + lane]] = 1;
        }
    }
    run->relative += turning * points; /* what the errors of the phasors grow by a point */
    run->block_sum = 0.0;
    for (i = 0; i < points; i++) {
        run->inverse[i] = exp(fa_min(-least[i], 600.0)) * (1.0 - turning * (points - i) / run->relative);
        run->block_sum = fa_max(run->block_sum, size[i]);
    }
    fa_many_real_points(m, where, k);
    if (!(run->relative * run->inverse[0] < 1e-3) || !(run->log_tail < 1e300) || !(run->right_log < 1e300) ||
        !(run->left_log < 1e300))
        return 0;
    run->n = points;
    return 1;
}

#endif
