/* line/pieces_nodes.h -- losses that are data on the capped line: their nodes, what these leave out, and the tail.
 *
 * They are bounded: nothing is beyond their nodes.  Gaussian panels and lattices may have a cap, and panels a floor.
 */
#ifndef FA_LINE_PIECES_NODES_H
#define FA_LINE_PIECES_NODES_H

#include "capped_real.h"

#define FA_PIECES_NODES 16384   /* of panels, at most: four times as many of a loss that is alone ... */
#define FA_PIECES_GIVEN 65536   /* ... and of atoms and tables */
#define FA_CAP_NEVER    (-1e30) /* log of a chance that is none, where -inf would be no number in the end */
#define FA_PIECES_LAST  1.3     /* the last exponent of `put`, over that of the caps */
#define FA_PIECES_REAL  1e-13   /* error of nodes for placing, over the largest exp(v L) */

/* whether the end is no end of the loss: a panel with a Gaussian density, or a lattice */
FA_FUNC int fa_pieces_curved(const fa_pieces *law)
{
    int i, any = law->smooth.step > 0.0;
    for (i = 0; i < law->n_panels; i++)
        any |= law->panels[i].curve > 0.0;
    return any;
}

/* whether losses fall as far as they rise */
FA_FUNC int fa_pieces_is_two_sided(const fa_pieces *law)
{
    int i, any = law->smooth.step > 0.0;
    for (i = 0; i < law->n_panels; i++)
        any |= law->panels[i].turned != 0.0 || law->panels[i].replaced > 0.0;
    return any;
}

/* about the mean square of the losses, or more */
FA_FUNC double fa_pieces_spread(const fa_pieces *law)
{
    double low = fa_pieces_end(law, 0), high = fa_pieces_end(law, 1), most = fa_max(high, -low), sum = 0.0, all = 0.0,
           x[FA_CELLS], loss[FA_CELLS], back[FA_CELLS], room[FA_CELLS];
    int i, k;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double wide = (p->high - p->low) / FA_CELLS;
        for (k = 0; k < FA_CELLS; k++)
            x[k] = p->low + (k + 0.5) * wide;
        fa_panel_losses(p, FA_CELLS, x, loss, back, room);
        for (k = 0; k < FA_CELLS; k++) {
            double mass = exp(fa_panel_log_peak(p, x[k]) + back[k] + 0.5 * loss[k]) * wide;
            sum += mass * loss[k] * loss[k], all += mass;
        }
    }
    for (i = 0; i < law->n_atoms; i++) {
        double loss = law->atoms[i].loss, mass = exp(law->atoms[i].log_weight + 0.5 * loss);
        sum += mass * loss * loss;
        all += mass;
    }
    return fa_pieces_curved(law) ? sum / all : most * most;
}

FA_FUNC void fa_pieces_no_cap(fa_cap_block *block)
{
    memset(&block->w, 0, sizeof(block->w));
    block->w.width = block->w.floor_width = 1.0;
    block->w.log_q = block->w.log_p = FA_CAP_NEVER;
    block->window = (fa_edge){0.0, 0.0, 1.0};
    block->grows = block->may_split = 0;
}

/* E_Q[e^(aL)] times the windows of the cap and above the dip, with derivatives, on nodes, which carry the former */
FA_FUNC fa_cap_real fa_pieces_fallen(const fa_cap_block *block, const fa_cap_nodes *s, double a, double add)
{
    const double *l = s->sum.lr, *log_w = s->sum.log_w;
    double inv = FA_HALF_ROOT / block->dip.width, at = block->dip.at - block->kappa, mean = s->mean - block->kappa,
           s0 = add, s1 = 0.0, s2 = 0.0, top = 0.0;
    fa_cap_real out;
    int j, n = s->sum.n;
    FA_PRAGMA(omp simd reduction(+ : s0, s1, s2) reduction(max : top))
    for (j = 0; j < n; j++) {
        double x = (l[j] + mean - at) * inv, half = 0.5 * fa_erfc_v(fa_min(FA_ERFC_END, fabs(x))),
               size = a * l[j] + log_w[j],
               f = size > -690.0 ? fa_exp_plain_v(fa_min(690.0, size)) * (x < 0.0 ? half : 1.0 - half) : 0.0;
        top = size > top ? size : top;
        s0 += f;
        s1 += f * l[j];
        s2 += f * l[j] * l[j];
    }
    s0 = top < 690.0 ? s0 : INFINITY;
    out = (fa_cap_real){block->steps * (a * s->mean + log(s0)),
                        block->steps * (s->mean + s1 / s0),
                        block->steps * (s2 / s0 - (s1 / s0) * (s1 / s0)),
                        0.0,
                        0.0,
                        s0};
    return out;
}

/* steps of a loss that is data, which stays where it is */
FA_FUNC void fa_cap_job_add_pieces(fa_cap_job *job, const fa_pieces *pieces, double steps)
{
    fa_cap_block *block = fa_cap_job_next(job, &fa_pieces_family, steps);
    double least = fa_pieces_end(pieces, 0), most = fa_pieces_end(pieces, 1);
    free(block->cells); /* of another loss */
    free(block->paths);
    block->cells = NULL, block->paths = NULL;
    block->coarse.laid = 0.0;
    job->blocks->is_alone = block->is_alone = job->n == 1;
    block->pieces = pieces;
    block->share_at = NAN;
    fa_pieces_no_cap(block);
    block->plain_v = block->last_v = pieces->smooth.step > 0.0
                                         ? fa_smooth_last(&pieces->smooth, pieces->atoms, pieces->n_atoms,
                                                          pieces->is_flipped, &block->window)
                                         : INFINITY;
    block->sigma = block->q = block->inv_var = 1.0;
    block->kappa = fa_pieces_curved(pieces) && fa_pieces_is_two_sided(pieces) ? 0.0 : least;
    block->variance = steps * fa_min(1e6, fa_pieces_spread(pieces));
    job->variance += block->variance;
    job->least += steps * least;
    job->top += steps * most;
    job->data++;
    job->two_ended += fa_two_ends_of(pieces, &block->two);
    job->ended += !fa_pieces_curved(pieces);
    job->curves += pieces->n_panels > 0 && pieces->panels->curve > 0.0;
}

/* the windows of a line on a block's losses: the cap's, and (side 1) what is below the floor or (-1) above it */
FA_INLINE fa_edges fa_pieces_edges(const fa_cap_block *block, double side)
{
    return (fa_edges){block->window, {block->w.floor, side != 0.0 && block->split ? block->w.floor_width : 0.0, side}};
}

/* by how many u a loss that is off by one changes the logarithm of a window: of what falls to the right, up to 9 widths
 * beyond its edge, or (reach > 0) on both sides up to so many */
FA_INLINE double fa_pieces_steep(double loss, double at, double width, double reach)
{
    double away = width > 0.0 ? (loss - at) / width : INFINITY;
    if (reach > 0.0)
        return fabs(away) < reach ? 2.0 * (1.0 + fabs(away)) / width : 0.0;
    return away > -9.0 && away < INFINITY ? 2.0 * (1.0 + fa_max(0.0, fa_min(9.0, away))) / width : 0.0;
}

/* nodes that meet these demands.  0: too many, or no memory */
FA_FUNC int fa_pieces_lay(const fa_cap_block *block, fa_cap_nodes *s, const fa_demand *demand, int demands)
{
    const fa_pieces *law = block->pieces;
    fa_node_rows rows;
    int j, used, n;
    double given = law->n_atoms + (double)FA_TABLE_TEN * law->table.n_panels;
    s->laid = 0.0;
    if (!(given <= FA_PIECES_GIVEN) || !fa_goes_on() ||
        !fa_pieces_mesh(law, demand, demands, block->is_alone ? 4 * FA_PIECES_NODES : FA_PIECES_NODES, &s->mesh))
        return 0;
    used = fa_pieces_count(law, &s->mesh);
    n = (used + 2 * FA_LANES - 1) / (2 * FA_LANES) * (2 * FA_LANES);
    if (!fa_cap_nodes_reserve(s, n))
        return 0;
    rows = (fa_node_rows){s->sum.lr, s->sum.log_w, s->slip, s->fine};
    if (!fa_pieces_fill(law, &s->mesh, &rows))
        return 0;
    if (law->smooth.step > 0.0 && block->window.width > 0.0 && s != &block->outside) {
        const double end = fa_smooth_end(law->atoms, law->n_atoms, &block->window);
        while (used > 1 && s->sum.lr[used - 1] > end)
            used--;
    }
    n = (used + 2 * FA_LANES - 1) / (2 * FA_LANES) * (2 * FA_LANES);
    for (j = used; j < n; j++)
        fa_node_put(&rows, j, s->sum.lr[used - 1], -1e4, 0.0, 0.0);
    s->sum.n = s->edge = n;
    s->has_logs = 1;
    s->h = 1.0;
    s->mean = block->kappa;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        double size = s->sum.log_w[j];
        s->sum.lr[j] -= block->kappa;
        s->sum.wr[j] = size > -690.0 ? fa_exp_plain_v(size) : 0.0;
        s->log_q[j] = size;
        s->x[j] = -10.0;
        s->keep[j] = 1.0;
        s->z[j] = s->beyond[j] = 0.0;
        s->slip[j] += 2.0 * fabs(block->kappa);
    }
    if (block->window.width > 0.0) {
        const double floor_width = block->split ? block->w.floor_width : 0.0, reach = s == &block->outside ? 40.0 : 0.0;
        for (j = 0; j < n; j++) {
            s->z[j] = s->sum.lr[j] + block->kappa;
            s->x[j] = (s->z[j] - block->window.at) * FA_HALF_ROOT / block->window.width;
            s->fine[j] += s->slip[j] * (fa_pieces_steep(s->z[j], block->window.at, block->window.width, reach) +
                                        fa_pieces_steep(s->z[j], block->w.floor, floor_width, 9.0));
        }
        fa_cap_edge(s, 1);
        for (j = n - 1; j >= 0 && s->x[j] > FA_ERFC_END; j--)
            s->sum.log_w[j] = s->log_q[j] + fa_log_tail(s->x[j] / FA_HALF_ROOT);
    }
    fa_cap_no_floor(s);
    return 1;
}

/* nodes for real exponents between two, relative to about where exp(v L) is largest; and (steep > 0) for that exponent
 * below the floor */
FA_FUNC int fa_pieces_lay_real(const fa_cap_block *block, fa_cap_nodes *s, double low, double high, double steep)
{
    const fa_pieces *law = block->pieces;
    const fa_edges edges = fa_pieces_edges(block, 0.0);
    const fa_asked small = {steep, 0.0, 0.0, 0.0, {block->window, {block->w.floor, block->w.floor_width, 1.0}}};
    double at[2] = {low, high};
    fa_asked ask[2];
    int i;
    for (i = 0; i < 2; i++) {
        double size = fa_pieces_size(law, law->is_flipped ? 1.0 - at[i] : at[i], &edges),
               end = fa_pieces_end(law, at[i] > 0.0);
        ask[i] = (fa_asked){at[i], 0.0, at[i] != 0.0 ? fa_min(size, at[i] * end) / at[i] : 0.0, 0.0, edges};
    }
    return fa_pieces_lay(block, s,
                         (const fa_demand[]){{ask, ask + 1, FA_PIECES_REAL}, {&small, &small, FA_PIECES_REAL}},
                         steep > 0.0 ? 2 : 1);
}

/* nodes of a line for Im u up to t: as good, relative to |M| on the real line, as the effort asks for.  Above a floor
 * relative to the large losses alone, below it at Chernoff's point `low`, and for what takes sums back up to the
 * exponent `back` */
FA_FUNC int fa_pieces_lay_line(fa_cap_block *block, double tilt, double right, double low, double back, double t,
                               double need)
{
    const fa_edges keep = fa_pieces_edges(block, 0.0);
    double size = block->k / block->steps, most = exp(fa_min(600.0, fa_max(0.0, size) - need - block->log_steps - 4.0)),
           large_most = exp(fa_min(600.0, size - need - 4.0 + log(fa_max(1e-300, block->jumps / block->steps))));
    const fa_asked line = {tilt, t, 0.0, sqrt(tilt * tilt + t * t), keep}, real = {right, 0.0, 0.0, 0.0, keep},
                   none = {0.0, 0.0, 0.0, 0.0, keep}, large = {tilt, t, 0.0, 0.0, fa_pieces_edges(block, -1.0)},
                   few = {0.0, 0.0, 0.0, 0.0, fa_pieces_edges(block, 1.0)},
                   small = {low, 0.0, 0.0, 0.0, fa_pieces_edges(block, 1.0)},
                   fall = {-FA_PIECES_LAST * back, 0.0, 0.0, 0.0, {block->window, block->dip}},
                   below = {0.0, 0.0, 0.0, 0.0, {block->window, {block->dip.at, block->dip.width, 1.0}}};
    const fa_demand demands[] = {{&line, &line, most},
                                 {&real, &none, most},
                                 {&fall, &none, 1e-6 / block->steps},
                                 {&below, &below, 1e-12 / block->steps},
                                 {&large, &large, large_most},
                                 {&small, &few, FA_PIECES_REAL}};
    return fa_pieces_lay(block, &block->nodes, demands, block->split ? 6 : block->window.width > 0.0 ? 4 : 2);
}

/* what the dip's windows on the nodes leave out of E[exp(a l)] above it, and of the mass below it (side 1) */
FA_FUNC double fa_pieces_dip_error(const fa_cap_block *block, double a, double side)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_asked ask = {a, 0.0, s->mean, 0.0, {block->window, {block->dip.at, block->dip.width, side}}};
    return fa_mesh_error(block->pieces, &s->mesh, &ask, &ask);
}

/* a bound of Q's mass below the dip: of what is beyond the cap less than Phi(-10) is, where losses are positive, and
 * less than Phi(-29), where they are not */
FA_FUNC double fa_pieces_below(const fa_cap_block *block)
{
    const fa_cap_nodes *s = &block->nodes;
    double inv = 1.0 / block->dip.width, sum;
    int j;
    if (!(block->dip.width > 0.0))
        return 0.0;
    sum = fa_pieces_dip_error(block, 0.0, 1.0) + 1e-6 * block->w.q_mass;
    for (j = 0; j < s->sum.n; j++)
        sum += s->sum.wr[j] * exp(fa_log_tail((s->sum.lr[j] + s->mean - block->dip.at) * inv)) * 1.000001;
    return sum;
}

/* no rule ends beyond the nodes */
FA_FUNC double fa_pieces_no_ends(const fa_cap_block *block, double v, double u, int order)
{
    (void)block, (void)v, (void)u, (void)order;
    return 0.0;
}

/* what the nodes' rule leaves out of E[exp(x l)] for x between 0 and v, l = loss - mean, and of its mass */
FA_FUNC double fa_pieces_real_error(const fa_cap_block *block, double v, double side)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_edges edges = fa_pieces_edges(block, side), keep = fa_pieces_edges(block, 0.0);
    const fa_asked plain = {v, 0.0, s->mean, 0.0, edges}, none = {0.0, 0.0, 0.0, 0.0, edges},
                   mass = {0.0, 0.0, 0.0, 0.0, keep};
    return fa_mesh_error(block->pieces, &s->mesh, &plain, &none) + fa_mesh_error(block->pieces, &s->mesh, &mass, &mass);
}

FA_FUNC fa_cap_moduli fa_pieces_quadrature(const fa_cap_job *job, const fa_cap_block *block, double tilt, double low,
                                           double t, double right)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_edges keep = fa_pieces_edges(block, 0.0);
    const fa_asked mean = {1.0, 0.0, 0.0, 1.0, keep}, large = {tilt, t, s->mean, 0.0, fa_pieces_edges(block, -1.0)};
    fa_asked line = {tilt, t, s->mean, sqrt(tilt * tilt + t * t), keep};
    fa_cap_moduli out = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {0.0}};
    int i;
    out.line = fa_mesh_error(block->pieces, &s->mesh, &line, &line);
    for (i = 0; i < FA_CAP_LEVELS && block->pieces->table.n_panels > 0; i++) {
        line.t *= 0.25;
        line.size = sqrt(tilt * tilt + line.t * line.t);
        out.less[i] = fa_max(0.0, out.line - fa_mesh_error(block->pieces, &s->mesh, &line, &line));
    }
    out.mean = fa_mesh_error(block->pieces, &s->mesh, &mean, &mean);
    out.right = fa_pieces_real_error(block, right, 0.0);
    if (job->has_floor)
        out.low = fa_pieces_real_error(block, low, 1.0);
    if (block->split) {
        out.large = fa_mesh_error(block->pieces, &s->mesh, &large, &large);
        out.right += fa_pieces_real_error(block, right, -1.0);
    }
    return out;
}

#define FA_PIECES_WINDOWS 40
#define FA_PIECES_LADDER  1.4 /* ratio of heights */
#define FA_PIECES_WIDE    3.0 /* width of a cell in x, at most: its own rule has all digits there */

/* whether cells are so narrow at Re u = c that their own rules have all digits */
FA_FUNC int fa_pieces_are_fine(const fa_pieces *law, double c, const fa_edges *edges)
{
    double low, high, wide = 0.0;
    int i;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        low = p->low, high = p->high;
        if (p->curve > 0.0)
            fa_panel_core(p, fa_panel_sees(p, law->is_flipped ? 1.0 - c : c, 0), edges, &low, &high);
        wide = fa_max(wide, (high - low) / (FA_CELLS - 2));
    }
    return wide <= FA_PIECES_WIDE && (edges->cap.width > 0.0 || wide * (fabs(c) + 1.0) <= FA_CELL_STEEP);
}

/* what the tail's bounds at Re u = c are made of: once for a line.  0: no memory */
FA_FUNC int fa_pieces_prepare(fa_cap_block *block, double c)
{
    const fa_pieces *law = block->pieces;
    const fa_edges keep = fa_pieces_edges(block, 0.0), large = fa_pieces_edges(block, -1.0);
    int i, n = fa_pieces_cells(law), rows = FA_PATHS * fa_pieces_path_rows(law);
    if (block->share_at == c)
        return 1;
    if (!block->cells && n > 0)
        block->cells = fa_alloc(sizeof(fa_cell) * (size_t)n);
    if (!block->paths && rows > 0)
        block->paths = fa_alloc(sizeof(fa_path_part) * 2 * (size_t)rows);
    if ((!block->cells && n > 0) || (!block->paths && rows > 0))
        return 0;
    block->large_paths = block->paths + rows;
    block->own_share = fa_pieces_share(law, c, &keep);
    block->fine = fa_pieces_are_fine(law, c, &keep);
    if (block->fine)
        fa_pieces_cut(law, c, block->own_share.size, &keep, block->cells);
    block->whole = 0.0;
    for (i = 0; i < n && block->fine; i++)
        block->whole += block->cells[i].s0;
    if (block->window.width > 0.0) {
        fa_cap_real r = fa_cap_block_k(block, &block->nodes, c, 0, fa_pieces_real_error(block, c, 0.0));
        block->whole = (1.0 + 1e-9) * fa_cap_exp(r.k / block->steps - block->own_share.size);
        fa_pieces_paths(law, c, &keep, block->paths);
    }
    if (block->split)
        fa_pieces_paths(law, c, &large, block->large_paths);
    block->share_at = c;
    return 1;
}

/* log of a bound of |E[exp(u l)]| times 1 - the floor's window for all Im u >= t */
FA_FUNC double fa_pieces_majorant_large(fa_cap_block *block, double c, double t)
{
    const fa_edges large = fa_pieces_edges(block, -1.0);
    if (!fa_pieces_prepare(block, c))
        return INFINITY;
    return fa_paths_beyond(block->pieces, block->large_paths, c, t, &large) - c * block->nodes.mean;
}

/* log of a bound of |E[exp(u l)]| for all Im u >= t: by windows of the losses up to some t, then by the share of the
 * atoms */
FA_FUNC double fa_pieces_majorant(fa_cap_block *block, double c, double t)
{
    const fa_pieces *law = block->pieces;
    const fa_edges keep = fa_pieces_edges(block, 0.0);
    double border = FA_PIECES_LADDER * t, far, near = 0.0, most = INFINITY, shift = c * block->nodes.mean;
    int i, n = fa_pieces_cells(law);
    if (law->smooth.step > 0.0)
        return fa_smooth_majorant(&law->smooth, law->atoms, law->n_atoms, law->is_flipped ? 1.0 - c : c, t,
                                  &block->window) +
               1e-10 - shift;
    if (!fa_pieces_prepare(block, c))
        return INFINITY;
    far = fa_share_beyond(block->own_share, t);
    if (block->window.width > 0.0)
        most = fa_min(log(block->whole) + block->own_share.size, fa_paths_beyond(law, block->paths, c, t, &keep));
    /* of atoms alone the share is all there is, however far out; beyond `most` windows say nothing */
    for (i = 0; i < (block->fine && block->own_share.variation > 0.0 ? FA_PIECES_WINDOWS : 0) &&
                (near == 0.0 || block->own_share.size + log(near) < most); i++, border *= FA_PIECES_LADDER) {
        double low = border / FA_PIECES_LADDER,
               bound = block->whole - fa_cells_lost(block->cells, n, low, FA_PI / border);
        if (far <= block->own_share.size + log(fa_max(near, bound)))
            break;
        near = fa_max(near, bound);
        far = fa_share_beyond(block->own_share, border);
    }
    far = near > 0.0 ? fa_max(far, block->own_share.size + log(near)) : far;
    return fa_min(far, most) + 1e-10 - shift;
}

#endif
