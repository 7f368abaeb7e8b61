/* line/pieces_cap.h -- the cap of a loss that is a lattice, z being the loss: what is beyond it is summed up there.
 *
 * docs/algorithms/allocation.md, "Reading".
 */
#ifndef FA_LINE_PIECES_CAP_H
#define FA_LINE_PIECES_CAP_H

#include "capped_job.h"

#define FA_CAP_NEVER    (-1e30) /* log of a chance that is none, where -inf would be no number in the end */
#define FA_CAP_NONE     3       /* of an effort's caps: lattices have none */
#define FA_PIECES_WIDTH 2.0     /* of the window, at least, in deviations of the Gaussian part */

FA_FUNC void fa_pieces_no_cap(fa_cap_block *block)
{
    memset(&block->w, 0, sizeof(block->w));
    block->w.width = block->w.floor_width = 1.0;
    block->w.log_q = block->w.log_p = FA_CAP_NEVER;
    block->window = (fa_smooth_cap){0.0, 0.0, 1.0};
}

/* what aliases in E_Q[e^(vL) (1 - keep)] */
FA_FUNC double fa_pieces_beyond_alias(const fa_cap_block *block, double v)
{
    const fa_pieces *law = block->pieces;
    const fa_smooth_cap other = {block->window.at, block->window.width, -1.0};
    return fa_smooth_alias(&law->smooth, law->atoms, law->n_atoms, v, 0.0, &other);
}

/* a cap whose window begins at the loss `from`, or none where the lattice ends before */
FA_FUNC void fa_pieces_place_cap(fa_cap_block *block, const fa_cap_effort *effort, double from)
{
    const fa_pieces *law = block->pieces;
    const fa_smooth *s = &law->smooth;
    const fa_atom *at = law->atoms;
    fa_cap_windows *w = &block->w;
    double width, cap, p = 0.0, q = 0.0, gain = 0.0, off = 0.0, inv;
    int j;
    fa_pieces_no_cap(block);
    block->last_v = block->plain_v;
    if (!(s->step > 0.0) || law->is_flipped || !(from < s->high))
        return;
    width = fa_max((effort->cap_ratio - 1.0) * from / FA_CAP_DEPTH, FA_PIECES_WIDTH / sqrt(fa_smooth_g(s)));
    cap = from + FA_CAP_DEPTH * width;
    inv = FA_HALF_ROOT / width;
    if (!(cap < s->high))
        return;
    FA_PRAGMA(omp simd reduction(+ : p, q, gain) reduction(max : off))
    for (j = 0; j < law->n_atoms; j++) {
        double loss = at[j].loss, x = (cap - loss) * inv, half = 0.5 * fa_erfc_v(fa_min(FA_ERFC_END, fabs(x))),
               one = fa_exp_plain_v(fa_max(-690.0, at[j].log_weight)) * (x > 0.0 ? half : 1.0 - half),
               e = fa_exp_plain_v(loss), grown, deep = fa_max(0.0, x), fine = at[j].fine + 8.0 + 4.0 * deep * deep;
        one = x < 20.0 ? one : 0.0;
        fine = one > 0.0 ? fine : 0.0;
        q += one;
        p += one * e;
        gain += one * (loss < 1.0 ? fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &grown) + loss : e - 1.0);
        off = fine > off ? fine : off;
    }
    if (!(q > 1e-160) || !(gain >= 0.0))
        return;
    block->window = (fa_smooth_cap){cap, width, 1.0};
    w->cap = cap, w->width = width;
    w->log_q = log(q), w->log_p = log(p), w->q_mass = q, w->gain = gain, w->lost = q / p;
    w->off = off + 8.0 + law->n_atoms +
             (fa_pieces_beyond_alias(block, 0.0) / q + fa_pieces_beyond_alias(block, 1.0) / p) / FA_EPS;
    w->depth = 0.25 * sqrt(w->off);
    block->last_v = fa_smooth_last(s, at, law->n_atoms, 0, &block->window);
}

/* the window on nodes whose losses and weights are laid; those far beyond it are left out, of `used` */
FA_FUNC int fa_pieces_keep(const fa_cap_block *block, fa_cap_nodes *s, int used)
{
    const fa_pieces *law = block->pieces;
    double end;
    if (!(block->window.width > 0.0))
        return used;
    end = fa_smooth_end(law->atoms, law->n_atoms, &block->window);
    while (used > 1 && s->sum.lr[used - 1] > end)
        used--;
    return used;
}

/* weights beyond the cap, in the nodes' scratch */
FA_FUNC void fa_pieces_weigh_beyond(const fa_cap_block *block)
{
    const fa_cap_nodes *s = &block->nodes;
    double *beyond = s->scratch, *bent = s->scratch2;
    int j, n = s->sum.n;
    for (j = 0; j < n; j++) {
        beyond[j] = s->log_q[j] > -690.0 ? 1.000001 * s->beyond[j] * exp(s->log_q[j]) : 0.0;
        bent[j] = 0.0;
    }
}

#endif
