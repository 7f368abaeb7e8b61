/* line/pieces_nodes.h -- losses that are data on the capped line: their nodes, what these leave out, and the tail.
 *
 * They are bounded: they have no floor, and nothing beyond their nodes; lattices alone have a cap.
 */
#ifndef FA_LINE_PIECES_NODES_H
#define FA_LINE_PIECES_NODES_H

#include "capped_real.h"

#define FA_PIECES_NODES 16384 /* of panels, at most ... */
#define FA_PIECES_GIVEN 65536 /* ... and of atoms and tables */
#define FA_PIECES_REAL  1e-13 /* error of nodes for placing, over the largest exp(v L) */

/* whether the end is no end of the loss: a panel with a Gaussian density, or a lattice */
FA_FUNC int fa_pieces_curved(const fa_pieces *law)
{
    int i, any = law->smooth.step > 0.0;
    for (i = 0; i < law->n_panels; i++)
        any |= law->panels[i].curve > 0.0;
    return any;
}

/* about the mean square of the losses, or more */
FA_FUNC double fa_pieces_spread(const fa_pieces *law)
{
    double low = fa_pieces_end(law, 0), high = fa_pieces_end(law, 1), most = fa_max(high, -low), sum = 0.0, all = 0.0,
           slope;
    int i, k;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double wide = (p->high - p->low) / FA_CELLS;
        for (k = 0; k < FA_CELLS; k++) {
            double x = p->low + (k + 0.5) * wide, loss = fa_panel_loss(p, x, &slope),
                   mass = exp(fa_panel_log_density(p, x) + 0.5 * loss) * wide;
            sum += mass * loss * loss;
            all += mass;
        }
    }
    for (i = 0; i < law->n_atoms; i++) {
        double loss = law->atoms[i].loss, mass = exp(law->atoms[i].log_weight + 0.5 * loss);
        sum += mass * loss * loss;
        all += mass;
    }
    return fa_pieces_curved(law) ? sum / all : most * most;
}

/* steps of a loss that is data, which stays where it is */
FA_FUNC void fa_cap_job_add_pieces(fa_cap_job *job, const fa_pieces *pieces, double steps)
{
    fa_cap_block *block = job->blocks + job->n++;
    double least = fa_pieces_end(pieces, 0), most = fa_pieces_end(pieces, 1), capacity = block->capacity;
    fa_cap_nodes coarse = block->coarse, nodes = block->nodes;
    double *rows[] = {block->inverse, block->log_small, block->ratio, block->share, block->memory};
    free(block->cells); /* of another loss */
    memset(block, 0, sizeof(*block));
    block->coarse = coarse;
    block->nodes = nodes;
    block->coarse.laid = 0.0;
    block->inverse = rows[0], block->log_small = rows[1], block->ratio = rows[2], block->share = rows[3];
    block->memory = rows[4];
    block->capacity = (int)capacity;
    block->pieces = pieces;
    block->share_at = NAN;
    fa_pieces_no_cap(block);
    block->plain_v = block->last_v = pieces->smooth.step > 0.0
                                         ? fa_smooth_last(&pieces->smooth, pieces->atoms, pieces->n_atoms,
                                                          pieces->is_flipped, &block->window)
                                         : INFINITY;
    block->sync = FA_CAP_SYNC;
    block->sigma = block->q = block->inv_var = 1.0;
    block->steps = steps;
    block->log_steps = log(steps);
    block->kappa = fa_pieces_curved(pieces) ? 0.0 : least;
    block->variance = steps * fa_min(1e6, fa_pieces_spread(pieces));
    job->steps += steps;
    job->variance += block->variance;
    job->least += steps * least;
    job->top += steps * most;
    job->data++;
    job->ended += !fa_pieces_curved(pieces);
}

/* nodes for both questions, to an error of `most`.  0: too many, or no memory */
FA_FUNC int fa_pieces_lay(const fa_cap_block *block, fa_cap_nodes *s, const fa_asked *one, const fa_asked *two,
                          double most)
{
    const fa_pieces *law = block->pieces;
    fa_node_rows rows;
    int j, used, n;
    double given = law->n_atoms + (double)FA_TABLE_TEN * law->table.n_panels;
    s->laid = 0.0;
    if (!(given <= FA_PIECES_GIVEN) || !fa_pieces_mesh(law, one, two, most, FA_PIECES_NODES, &s->mesh))
        return 0;
    used = fa_pieces_count(law, &s->mesh);
    n = (used + 2 * FA_LANE - 1) / (2 * FA_LANE) * (2 * FA_LANE);
    if (!fa_cap_nodes_reserve(s, n))
        return 0;
    rows = (fa_node_rows){s->sum.lr, s->sum.log_w, s->slip, s->fine};
    (void)fa_pieces_fill(law, &s->mesh, &rows);
    used = fa_pieces_keep(block, s, used);
    n = (used + 2 * FA_LANE - 1) / (2 * FA_LANE) * (2 * FA_LANE);
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
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            s->z[j] = s->sum.lr[j] + block->kappa;
            s->x[j] = (s->z[j] - block->window.at) * FA_HALF_ROOT / block->window.width;
        }
        fa_cap_edge(s, 1);
        s->sum.n = n;
    }
    fa_cap_no_floor(s);
    return 1;
}

/* nodes for real exponents between two, relative to about where exp(v L) is largest */
FA_FUNC int fa_pieces_lay_real(const fa_cap_block *block, fa_cap_nodes *s, double low, double high)
{
    const fa_pieces *law = block->pieces;
    double at[2] = {low, high}, mean[2];
    int i;
    for (i = 0; i < 2; i++) {
        double size = fa_pieces_size(law, law->is_flipped ? 1.0 - at[i] : at[i]), end = fa_pieces_end(law, at[i] > 0.0);
        mean[i] = at[i] != 0.0 ? fa_min(size, at[i] * end) / at[i] : 0.0;
    }
    return fa_pieces_lay(block, s, &(const fa_asked){low, 0.0, mean[0], 0.0},
                         &(const fa_asked){high, 0.0, mean[1], 0.0}, FA_PIECES_REAL);
}

/* nodes of a line for Im u up to t: as good, relative to |M| on the real line, as the effort asks for */
FA_FUNC int fa_pieces_lay_line(fa_cap_block *block, double tilt, double right, double t, double need)
{
    double size = fa_max(0.0, block->k / block->steps) - need - block->log_steps - 4.0;
    const fa_asked one = {tilt, t, 0.0, 0.0, block->window}, two = {right, 0.0, 0.0, 0.0, block->window};
    return fa_pieces_lay(block, &block->nodes, &one, &two, exp(fa_min(600.0, size)));
}

/* what the nodes' rule leaves out of E[exp(x l)] for x between 0 and v, l the loss less its mean, and of its mass */
FA_FUNC double fa_pieces_real_error(const fa_cap_block *block, double v)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_asked plain = {v, 0.0, s->mean, 0.0, block->window}, none = {0.0, 0.0, 0.0, 0.0, block->window};
    return fa_mesh_error(block->pieces, &s->mesh, &plain, &none) + fa_mesh_error(block->pieces, &s->mesh, &none, &none);
}

FA_FUNC fa_cap_moduli fa_pieces_quadrature(const fa_cap_job *job, const fa_cap_block *block, double tilt, double low,
                                           double t, double right)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_asked mean = {1.0, 0.0, 0.0, 1.0, block->window};
    fa_asked line = {tilt, t, s->mean, sqrt(tilt * tilt + t * t), block->window};
    fa_cap_moduli out = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {0.0}};
    int i;
    out.line = fa_mesh_error(block->pieces, &s->mesh, &line, &line);
    for (i = 0; i < FA_CAP_LEVELS && block->pieces->table.n_panels > 0; i++) {
        line.t *= 0.25;
        line.size = sqrt(tilt * tilt + line.t * line.t);
        out.less[i] = fa_max(0.0, out.line - fa_mesh_error(block->pieces, &s->mesh, &line, &line));
    }
    out.mean = fa_mesh_error(block->pieces, &s->mesh, &mean, &mean);
    out.right = fa_pieces_real_error(block, right);
    if (job->has_floor)
        out.low = fa_pieces_real_error(block, low);
    return out;
}

#define FA_PIECES_WINDOWS 40
#define FA_PIECES_LADDER  1.4  /* ratio of heights */
#define FA_PIECES_STEEP   16.0 /* log of by how much a cell's weights change, and ... */
#define FA_PIECES_WIDE    3.0  /* ... its width in x, at most: its own rule has all digits there */

/* whether cells are so narrow at Re u = c that their own rules have all digits */
FA_FUNC int fa_pieces_are_fine(const fa_pieces *law, double c)
{
    double low, high, wide = 0.0;
    int i;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        low = p->low, high = p->high;
        if (p->curve > 0.0)
            fa_panel_core(p, fa_panel_sees(p, law->is_flipped ? 1.0 - c : c, 0), &low, &high);
        wide = fa_max(wide, (high - low) / (FA_CELLS - 2));
    }
    return wide <= FA_PIECES_WIDE && wide * (fabs(c) + 1.0) <= FA_PIECES_STEEP;
}

/* what the tail's bounds at Re u = c are made of: once for a line.  0: no memory */
FA_FUNC int fa_pieces_prepare(fa_cap_block *block, double c)
{
    const fa_pieces *law = block->pieces;
    int n = fa_pieces_cells(law);
    if (block->share_at == c)
        return 1;
    if (!block->cells && n > 0)
        block->cells = fa_alloc(sizeof(fa_cell) * (size_t)n);
    if (!block->cells && n > 0)
        return 0;
    block->own_share = fa_pieces_share(law, c);
    block->fine = fa_pieces_are_fine(law, c);
    if (block->fine)
        fa_pieces_cut(law, c, block->own_share.size, block->cells);
    block->share_at = c;
    return 1;
}

/* log of a bound of |E[exp(u l)]| for all Im u >= t: by windows of the losses up to some t, then by the share of the
 * atoms */
FA_FUNC double fa_pieces_majorant(fa_cap_block *block, double c, double t)
{
    const fa_pieces *law = block->pieces;
    double border = FA_PIECES_LADDER * t, far, near = 0.0, all = 0.0, shift = c * block->nodes.mean;
    int i, n = fa_pieces_cells(law);
    if (law->smooth.step > 0.0)
        return fa_smooth_majorant(&law->smooth, law->atoms, law->n_atoms, law->is_flipped ? 1.0 - c : c, t,
                                  &block->window) +
               1e-10 - shift;
    if (!fa_pieces_prepare(block, c))
        return INFINITY;
    far = fa_share_beyond(block->own_share, t);
    if (!block->fine)
        return far + 1e-10 - shift;
    for (i = 0; i < n; i++)
        all += block->cells[i].s0;
    for (i = 0; i < FA_PIECES_WINDOWS; i++, border *= FA_PIECES_LADDER) {
        double low = border / FA_PIECES_LADDER, bound = all - fa_cells_lost(block->cells, n, low, FA_PI / border);
        if (far <= block->own_share.size + log(fa_max(near, bound)))
            break;
        near = fa_max(near, bound);
        far = fa_share_beyond(block->own_share, border);
    }
    return (near > 0.0 ? fa_max(far, block->own_share.size + log(near)) : far) + 1e-10 - shift;
}

#endif
