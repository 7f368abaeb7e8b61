/* line/many_line.h -- the line of line/contour.h over very many different steps: one pass, nothing kept of any.
 *
 * Every step is read once, on the real line: its M at all points of the line, at Chernoff's two points, and its share
 * of the tail.  Only the choice of the line depends on the sketch; every number that is certified is a sum over all
 * steps.
 */
#ifndef FA_MANY_LINE_H
#define FA_MANY_LINE_H

#include "many_sketch.h"

#define FA_MANY_LONG 10 /* giant steps; on longer lines all steps bound the tail */

/* FA_LANE items from number b on; where there are fewer, the last one stands in with count 0 */
FA_INLINE void fa_many_take(const fa_many *m, fa_many_group *g, int b, double cut)
{
    int lane;
    memset(g, 0, sizeof(*g));
    for (lane = 0; lane < FA_LANE; lane++) {
        const fa_many_item *item = m->items + (b + lane < m->n ? b + lane : m->n - 1);
        g->sigma[lane] = item->sigma;
        g->kappa[lane] = log1p(-item->rate);
        g->constant[lane] = log(item->rate);
        g->count[lane] = b + lane < m->n ? item->count : 0.0;
    }
    FA_PRAGMA(omp simd)
    for (lane = 0; lane < FA_LANE; lane++) {
        g->inv_var[lane] = 1.0 / (g->sigma[lane] * g->sigma[lane]);
        g->constant[lane] = g->constant[lane] - g->kappa[lane] - 0.5 * g->inv_var[lane];
        g->cut[lane] = 1.0 + cut * g->sigma[lane];
    }
}

/* log of the bound of |M|^count for all Im u >= t_max, of an item that stands in `lane` */
FA_FUNC double fa_many_tail(fa_many *m, const fa_many_item *item, int lane, const fa_many_wish *w)
{
    const fa_many_group *g = &m->scratch.group;
    fa_pair *pair = &m->tail.pair;
    double a = w->a, unused;
    if (w->giants <= FA_MANY_LONG && item->variance < m->tail_from * item->count)
        return item->count * g->log_a[lane];
    fa_pair_sampled(pair, item->sigma, item->rate);
    m->tail.cut = pair->p_top + w->cut * pair->sigma;
    m->tail.cut_loss = w->cut < INFINITY ? pair->kappa + fa_pair_loss(pair, m->tail.cut, &unused, &unused) : INFINITY;
    return item->count *
           (a * pair->kappa + fa_tail_majorant(&m->tail, a, w->t_max, g->at_a[lane] * exp(-a * pair->kappa),
                                               -4.0 - log(m->total) - 40.0 / m->total));
}

/* the line placed on `from`, with nothing to read yet, and what it wants to know of every step */
FA_FUNC fa_many_wish fa_many_wish_of(const fa_many *m, fa_contour *run, const fa_contour *from, int giants,
                                     double other_v)
{
    fa_many_wish w = {
        .a = fa_line_u(from, from->c), .h = from->h, .cut = from->cut, .total = m->total, .giants = giants};
    w.t_max = (giants * FA_MANY_GIANT - 1) * from->h;
    w.need = 25.5 + log(1.0 + m->total);
    w.real[FA_MANY_RIGHT] = fa_line_u(from, from->right);
    w.real[FA_MANY_LEFT] = from->left > 1.0 ? fa_line_u(from, from->left) : 0.0;
    w.real[FA_MANY_OTHER] = other_v > 1.0 ? fa_line_u(from, 1.0 - other_v) : 0.0;
    w.far = from->sign > 0 ? w.real[FA_MANY_RIGHT] : fa_min(w.a, w.real[FA_MANY_RIGHT]);
    run->n = 0;
    run->c = from->c;
    run->h = from->h;
    run->cut = from->cut;
    run->log_cut = from->log_cut;
    run->right = from->right;
    run->left = from->left;
    run->t_end = w.t_max;
    return w;
}

/* the line's points, from the sums over all steps; turning: what the errors of the phasors grow by a point */
FA_FUNC void fa_many_finish(const fa_many_scratch *s, const fa_many_wish *w, double turning, fa_contour *run)
{
    double a = w->a, mu2 = run->mu2;
    int i, lane, points = w->giants * FA_MANY_GIANT;
    run->block_sum = 0.0;
    for (i = 0; i < points; i++) {
        double t = i * run->h, zr = 0.0, zi = 0.0, size = 0.0, least = INFINITY;
        for (lane = 0; lane < FA_LANE; lane++) {
            zr += s->zr[i][lane];
            zi += s->zi[i][lane];
            size += s->size[i][lane];
            least = fa_min(least, s->least[i][lane]);
        }
        run->zr[i] = zr + 0.5 * mu2 * (a * (a - 1.0) - t * t) -
                     0.5 * (fa_log_v(FA_FMA(a, a, t * t)) + fa_log_v(FA_FMA(a - 1.0, a - 1.0, t * t)));
        run->zi[i] = zi + mu2 * (a - 0.5) * t - (fa_angle_v(t, a) + fa_angle_v(t, a - 1.0));
        run->inverse[i] = 1.0 / sqrt(fa_max(least, 1e-280)) * (1.0 - turning * (points - i) / run->relative);
        run->block_sum = fa_max(run->block_sum, size);
    }
}

/* evaluate the line placed on `from` over all steps, `giants` times nine points; 0: it will not do.  With other_v > 1,
 * also the other direction's K at that point */
FA_FUNC int fa_many_pass(fa_many *m, fa_contour *run, const fa_contour *from, int giants, double other_v)
{
    fa_many_scratch *s = &m->scratch;
    const fa_many_group *g = &s->group;
    fa_many_wish w = fa_many_wish_of(m, run, from, giants, other_v);
    double v[FA_MANY_REALS] = {run->right, run->left, other_v}, k[FA_MANY_REALS], turning = 0.0, log_tail, wide;
    int i, b, lane, points = giants * FA_MANY_GIANT;
    if (points > FA_MANY_POINTS || !fa_contour_reserve(run, points))
        return 0;
    memset(s->zr, 0, sizeof(s->zr[0]) * (size_t)points);
    memset(s->zi, 0, sizeof(s->zi[0]) * (size_t)points);
    memset(s->size, 0, sizeof(s->size[0]) * (size_t)points);
    for (i = 0; i < points; i++)
        for (lane = 0; lane < FA_LANE; lane++)
            s->least[i][lane] = INFINITY;
    for (i = 0; i < FA_MANY_REALS; i++)
        k[i] = 0.5 * v[i] * (v[i] - 1.0) * run->mu2;
    log_tail = -log(FA_PI * w.t_max) + 0.5 * (run->c * (run->c - 1.0) - w.t_max * w.t_max) * run->mu2 + 1e-9;
    run->relative = 0.0;
    for (b = 0; b < m->n; b += FA_LANE) {
        fa_many_take(m, &s->group, b, run->cut);
        if (!fa_many_sum(s, &w))
            return 0;
        for (lane = 0; lane < FA_LANE && b + lane < m->n; lane++) {
            run->relative += g->count[lane] * g->error[lane];
            turning += 10.0 * FA_EPS * g->count[lane] * g->at_a[lane];
            for (i = 0; i < FA_MANY_REALS; i++)
                k[i] += w.real[i] != 0.0 ? g->count[lane] * g->real[i][lane] : 0.0;
            log_tail += fa_many_tail(m, m->items + b + lane, lane, &w);
        }
    }
    run->relative += turning * points;
    fa_many_finish(s, &w, turning, run);
    wide = 1e-8 + 1e-12 * m->total * (1.0 + fabs(w.real[FA_MANY_RIGHT]) + fabs(w.real[FA_MANY_LEFT]));
    run->right_log = k[FA_MANY_RIGHT] + fa_log_b(run->right);
    run->left_log = w.real[FA_MANY_LEFT] != 0.0 ? k[FA_MANY_LEFT] + fa_log_b(run->left) : 0.0;
    run->log_tail = log_tail + wide + 64.0 * FA_EPS * fabs(log_tail);
    run->slop = wide + 64.0 * FA_EPS * (fabs(run->right_log) + fabs(run->left_log));
    if (run->sign > 0) {
        m->chernoff_v = other_v;
        m->chernoff_k = k[FA_MANY_OTHER] + 1e-8 + 1e-12 * m->total * (1.0 + other_v);
    }
    if (!(run->relative * run->inverse[0] < 1e-3) || !(run->right_log < 1e300) || !(run->left_log < 1e300))
        return 0;
    run->n = points;
    return 1;
}

#endif
