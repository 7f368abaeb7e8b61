/* line/pieces_cap.h -- the cap of a loss that is data, z being the loss: what is beyond it is summed up on nodes of its
 * own.
 *
 * docs/algorithms/panels.md, "Windows on losses".
 */
#ifndef FA_LINE_PIECES_CAP_H
#define FA_LINE_PIECES_CAP_H

#include "pieces_nodes.h"

#define FA_PIECES_WIDTH   2.0  /* of the window, at least, in deviations of the Gaussian part */
#define FA_PIECES_DEEP    23.5 /* -log of the chance of what takes a sum back, beyond which it may be bounded */
#define FA_PIECES_DIP     10.0 /* what a sum hardly ever falls below, over the width of the window there */
#define FA_PIECES_SLOPE   60.0 /* largest exponent at which falls are looked for, times what a sum hardly falls below */
#define FA_PIECES_SLOW    0.3  /* least exponent at which that is looked for */
#define FA_PIECES_BACK    6.0  /* widths times the exponent of `put` that the nodes beyond a cap are for */
#define FA_PIECES_OUTSIDE 1e-18 /* error of the nodes beyond a cap, over about their largest density */

/* about how wide a window is that begins at the loss `from`: no wider than lets the noise outweigh its left end */
FA_FUNC double fa_pieces_width(const fa_pieces *law, const fa_cap_effort *effort, double from)
{
    double width = (effort->cap_ratio - 1.0) * from / FA_CAP_DEPTH;
    int i;
    if (law->smooth.step > 0.0)
        return fa_max(width, FA_PIECES_WIDTH / sqrt(fa_smooth_g(&law->smooth)));
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double x = fa_panel_place(p, from), slope, wide = 1.0 / sqrt(p->curve);
        if (p->turned != 0.0)
            continue;
        (void)fa_panel_loss(p, x, &slope);
        width = fa_min(width, slope * wide * fa_min(0.5, 5.0 / fa_max(1.0, fabs(x - p->centre) / wide)));
    }
    return width;
}

/* nodes of what is beyond the cap, weights times 1 - keep.  0: none, or too little */
FA_FUNC int fa_pieces_lay_outside(fa_cap_block *block)
{
    const fa_pieces *law = block->pieces;
    const fa_edges beyond = {{block->window.at, block->window.width, -1.0}, {0.0, 0.0, 0.0}};
    double v[3] = {0.0, 1.0, -FA_PIECES_BACK / block->window.width}, size[3], most = 1.0;
    fa_asked ask[3];
    int i;
    for (i = 0; i < 3 && law->n_panels > 0; i++) {
        size[i] = fa_pieces_size(law, v[i], &beyond);
        ask[i] = (fa_asked){v[i], 0.0, i ? (size[i] - size[0]) / v[i] : 0.0, 0.0, beyond};
    }
    if (law->n_panels > 0) {
        if (!(size[0] > -360.0))
            return 0;
        most = FA_PIECES_OUTSIDE * exp(size[0]) / sqrt(law->panels->curve);
    }
    return fa_pieces_lay(block, &block->outside, (const fa_demand[]){{ask, ask + 1, most}, {ask, ask + 2, 1e10 * most}},
                         law->n_panels > 0 ? 2 : 0);
}

/* what E_Q[e^(vL) (1 - keep)] on those nodes is off by */
FA_FUNC double fa_pieces_outside_error(const fa_cap_block *block, double v)
{
    const fa_asked ask = {v, 0.0, 0.0, 0.0, {{block->window.at, block->window.width, -1.0}, {0.0, 0.0, 0.0}}};
    return fa_mesh_error(block->pieces, &block->outside.mesh, &ask, &ask);
}

/* the mass beyond the cap of Q, what P has more, and what both may be off by */
FA_FUNC void fa_pieces_weigh_outside(fa_cap_block *block)
{
    fa_cap_nodes *s = &block->outside;
    fa_cap_windows *w = &block->w;
    double q = 0.0, gain = 0.0, q_off = 0.0, off = 0.0, inv = FA_HALF_ROOT / block->window.width, kappa = block->kappa,
           at = block->window.at;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : q, gain, q_off, off))
    for (j = 0; j < n; j++) {
        double loss = s->sum.lr[j] + kappa, x = (at - loss) * inv, half = 0.5 * fa_erfc_v(fa_min(FA_ERFC_END, fabs(x))),
               share = x > 0.0 ? half : 1.0 - half, deep = fa_max(0.0, x), size = s->log_q[j], grown,
               one = size > -690.0 ? fa_exp_plain_v(size) * share : 0.0,
               all = size + loss > -690.0 ? fa_exp_plain_v(fa_min(690.0, size + loss)) * share : 0.0,
               less = fa_expm1_minus_plain_v(fa_max(-600.0, fa_min(loss, 1.0)), &grown) + loss,
               more = loss < 1.0 ? one * less : all - one, fine = s->fine[j] + 16.0 + 4.0 * deep * deep;
        s->sum.log_w[j] = size + 1e-6 + /* erfc(x) <= e^(-x^2)/(x sqrt(pi)) */
                          (x < 25.0 ? fa_log_v(fa_max(share, 1e-300)) : -x * x - fa_log_v(fa_max(x, 25.0)) - 1.2655);
        q += one;
        gain += more;
        q_off += one * fine;
        off += fabs(more) * fine + all * s->slip[j];
    }
    w->log_q = log(q), w->log_p = log(gain), w->q_mass = q, w->gain = gain, w->lost = 0.0;
    w->off = 8.0 + n + fa_max(q_off / q, off / gain) +
             (fa_pieces_outside_error(block, 0.0) * (1.0 / q + 1.0 / gain) +
              fa_pieces_outside_error(block, 1.0) / gain) /
                 FA_EPS;
    w->depth = 0.25 * sqrt(w->off);
}

/* log of about P's chance of a loss beyond y */
FA_FUNC double fa_pieces_log_tail(const fa_pieces *law, double y)
{
    double most = -INFINITY;
    int i;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double x, slope, wide = 1.0 / sqrt(p->curve);
        if (p->turned != 0.0 || !(p->curve > 0.0))
            continue;
        x = fa_panel_place(p, y);
        (void)fa_panel_loss(p, x, &slope);
        most = fa_max(most, fa_panel_log_density(p, x) + y +
                                log(wide / fa_max(1.0, fabs(x - p->centre) / wide - slope * wide)));
    }
    return most;
}

/* whether steps of Gaussian panels may take a sum back without end */
FA_FUNC int fa_pieces_falls(const fa_cap_block *block)
{
    const fa_pieces *law = block->pieces;
    return law && !law->is_flipped && law->n_panels > 0 && fa_pieces_curved(law) && fa_pieces_is_two_sided(law);
}

/* the loss that its steps hardly ever fall below: the chance is e^-FA_PIECES_DEEP, and less */
FA_FUNC void fa_pieces_find_dip(fa_cap_block *block)
{
    double low = 0.0, high = fa_pieces_end(block->pieces, 1);
    int i;
    for (i = 0; i < 24; i++) {
        double y = 0.5 * (low + high);
        *(fa_pieces_log_tail(block->pieces, y) + block->log_steps < -FA_PIECES_DEEP - 2.0 ? &high : &low) = y;
    }
    block->dip = (fa_edge){-high, high / FA_PIECES_DIP, -1.0};
}

/* Chernoff's bounds, by their logarithms, of how far losses that are data and fall without end take a sum back: at
 * exponents that stand in the job */
FA_FUNC void fa_pieces_find_falls(fa_cap_job *job)
{
    double a = 16.0 / sqrt(fa_max(1e-300, job->variance)), ratio;
    int b, i;
    job->has_falls = 1;
    for (b = 0; b < job->n; b++)
        if (fa_pieces_falls(job->blocks + b)) {
            fa_pieces_find_dip(job->blocks + b);
            a = fa_min(a, FA_PIECES_SLOPE / -job->blocks[b].dip.at);
        }
    ratio = exp(log(fa_max(10.0, a / FA_PIECES_SLOW)) / (FA_CAP_FALLS - 1));
    for (i = 0; i < FA_CAP_FALLS; i++, a /= ratio) {
        job->fall_at[i] = a;
        job->falls[i] = 0.0;
    }
    for (b = 0; b < job->n; b++) {
        fa_cap_block *block = job->blocks + b;
        const fa_edges edges = {{0.0, 0.0, 1.0}, block->dip};
        fa_asked ask = {-job->fall_at[0], 0.0, 0.0, 0.0, edges}, none = {0.0, 0.0, 0.0, 0.0, edges};
        int is_laid;
        if (!fa_pieces_falls(block))
            continue;
        ask.mean = fa_pieces_size(block->pieces, ask.v, &edges) / ask.v;
        is_laid = fa_pieces_lay(block, &block->coarse, &(const fa_demand){&ask, &none, FA_PIECES_REAL}, 1);
        for (i = 0; i < FA_CAP_FALLS; i++)
            job->falls[i] += is_laid ? fa_pieces_fallen(block, &block->coarse, -job->fall_at[i], 0.0).k : INFINITY;
    }
}

/* how far the sum may be taken back by the others where a step is beyond that and eps: further it is nothing of delta,
 * which is about what single steps beyond eps make of it */
FA_FUNC double fa_pieces_fall(fa_cap_job *job, double eps)
{
    double low = 0.0, high = 0.0, at_eps = -INFINITY, x = 0.5 * sqrt(job->variance);
    int b, i, round;
    job->fall_a = 1.0;
    if (!job->has_falls)
        fa_pieces_find_falls(job);
    for (round = 0; round < FA_CAP_FALLS; round++) {
        double chance = 0.0, tail = -INFINITY;
        for (i = 0; i < FA_CAP_FALLS && round > 0; i++)
            if (job->falls[i] - job->fall_at[i] * x < chance) {
                chance = job->falls[i] - job->fall_at[i] * x;
                job->fall_a = job->fall_at[i];
            }
        for (b = 0; b < job->n; b++)
            if (job->blocks[b].pieces && !(job->blocks[b].pieces->smooth.step > 0.0))
                tail = fa_max(tail,
                              job->blocks[b].log_steps +
                                  fa_pieces_log_tail(job->blocks[b].pieces, round ? eps + x : fa_max(eps, 1e-300)));
        if (round == 0) {
            at_eps = tail;
            continue;
        }
        if (chance + fa_min(0.0, tail - at_eps) < -FA_PIECES_DEEP)
            high = x;
        else
            low = x;
        x = high > 0.0 ? 0.5 * (low + high) : 2.0 * x;
    }
    return high > 0.0 ? high : x;
}

/* whether one step is all: nothing takes it back */
FA_INLINE int fa_cap_is_alone(const fa_cap_job *job) { return job->steps == 1.0 && !(job->mu2 > 0.0); }

/* a cap whose window begins at the loss eps + back, at eps where nothing takes a step back; none where the losses end
 * before.  1 */
FA_FUNC int fa_pieces_place_cap(const fa_cap_job *job, fa_cap_block *block, const fa_cap_effort *effort, double eps,
                                double back)
{
    const fa_pieces *law = block->pieces;
    fa_cap_windows *w = &block->w;
    double width, cap, from = fa_cap_is_alone(job) ? eps : eps + back,
                       end = law->smooth.step > 0.0 ? law->smooth.high : fa_pieces_end(law, 1);
    fa_pieces_no_cap(block);
    block->last_v = block->plain_v;
    block->share_at = NAN;
    block->split = 0;
    if (job->is_add || job->walled || effort->caps == FA_CAPS_NONE)
        return 1;
    if (!fa_pieces_curved(law) || law->is_flipped || law->table.n_panels > 0 || !(from < end))
        return 1;
    width = fa_pieces_width(law, effort, from);
    cap = from + FA_CAP_DEPTH * width;
    if (!(cap < end) || !(width > 0.0))
        return 1;
    block->window = (fa_edge){cap, width, 1.0};
    block->grows = 1;
    block->may_split = !(law->smooth.step > 0.0);
    w->cap = cap, w->width = width;
    if (fa_pieces_lay_outside(block))
        fa_pieces_weigh_outside(block);
    if (!(w->q_mass > 1e-160) || !(w->gain > 0.0)) {
        fa_pieces_no_cap(block);
        return 1;
    }
    if (law->smooth.step > 0.0)
        block->last_v = fa_smooth_last(&law->smooth, law->atoms, law->n_atoms, 0, &block->window);
    return 1;
}

/* sums of the losses beyond the cap, if there is one, times e^(aL), with their error, and of these times the loss, and
 * its square */
FA_FUNC double fa_pieces_outside_sums(const fa_cap_block *block, double a, double *sums)
{
    const fa_cap_nodes *s = &block->outside;
    double end, j0, j1, j2;
    int j, n = s->sum.n;
    if (!(block->window.width > 0.0))
        return 0.0;
    end = s->sum.lr[n - 1] + block->kappa;
    j0 = fa_pieces_outside_error(block, a) + 2e-300 * (n + s->mesh.parts); /* e^-690 */
    j1 = j0 * end;
    j2 = j1 * end;
    FA_PRAGMA(omp simd reduction(+ : j0, j1, j2))
    for (j = 0; j < n; j++) {
        double loss = s->sum.lr[j] + block->kappa, size = s->sum.log_w[j] + a * loss,
               f = size > -690.0 ? fa_exp_plain_v(fa_min(690.0, size)) : 0.0;
        j0 += f;
        j1 += f * loss;
        j2 += f * loss * loss;
    }
    sums[0] = j0, sums[1] = j1, sums[2] = j2;
    return 0.0;
}

/* coarse nodes for real exponents from v_min to v_max */
FA_FUNC int fa_pieces_fill_for(fa_cap_block *block, double v_min, double v_max)
{
    return fa_pieces_lay_real(block, &block->coarse, fa_min(v_min, 1.0 - v_max), v_max, 0.0);
}

#endif
