/* loss/cells.h -- moments of neighbouring losses, and how much phases that differ take from the modulus of their sum.
 *
 * A cell is a part of a panel, a panel of a table or an atom.  docs/algorithms/panels.md has the proof.
 */
#ifndef FA_LOSS_CELLS_H
#define FA_LOSS_CELLS_H

#include "fill.h"
#include "share.h"

#define FA_CELLS      64   /* of a panel */
#define FA_CELL_EDGE  9.0  /* widths left of a cap where its window begins */
#define FA_CELL_STEEP 16.0 /* log of by how much a cell's weights change, at most */

/* a part of the losses, between two of them: its moments under e^(cL) Q, of L less `low` */
typedef struct {
    double low, high, s0, s1, s2;
} fa_cell;

/* adds the part from lost loss on that a point has */
FA_INLINE void fa_cell_add(fa_cell *cell, double loss, double weight)
{
    double away = loss - cell->low;
    cell->s0 += weight;
    cell->s1 += weight * away;
    cell->s2 += weight * away * away;
}

FA_INLINE int fa_pieces_cells(const fa_pieces *law)
{
    return FA_CELLS * law->n_panels + law->table.n_panels + law->n_atoms;
}

/* the first and the last cell of a Gaussian panel: what is left and right of its core, as if it were no loss.  They fit
 * no window */
FA_FUNC void fa_cells_beyond(const fa_panel *p, double v, double size, double low, double high, const fa_edges *edges,
                             fa_cell *out)
{
    const double ends[2][2] = {{p->low, low}, {high, p->high}};
    int e;
    for (e = 0; e < 2; e++) {
        fa_arch arch = fa_arch_of(p, ends[e][0], ends[e][1]);
        out[e] = (fa_cell){-INFINITY, INFINITY, 0.0, 0.0, 0.0};
        if (ends[e][1] > ends[e][0])
            out[e].s0 = (ends[e][1] - ends[e][0]) *
                        exp(fa_arch_peak(p, &arch, v, 1.0 - v, 0.0) - size + fa_arch_edges(p, &arch, 0.0, 0.0, edges));
    }
}

/* cells of a panel left of a cap, each with moments by a rule of its own, over e^size */
FA_FUNC void fa_panel_cells(const fa_panel *p, double v, double size, const fa_edges *edges, fa_cell *out)
{
    double low = p->low, high = p->high, side = p->turned != 0.0 ? -1.0 : 1.0, half, node[FA_GAUSS_LEAST],
           share[FA_GAUSS_LEAST], end[FA_CELLS + 1] = {0.0}, bound[FA_CELLS + 1], back[FA_CELLS + 1],
           room[FA_CELLS + 1];
    int k, j, place = fa_gauss_place(FA_GAUSS_LEAST), half_n = FA_GAUSS_LEAST / 2, cells = FA_CELLS;
    if (p->curve > 0.0) {
        fa_panel_core(p, v, edges, &low, &high);
        fa_cells_beyond(p, v, size, low, high, edges, out);
        out += 2;
        cells -= 2;
    }
    half = 0.5 * (high - low) / cells;
    for (j = 0; j < FA_GAUSS_LEAST; j++) {
        node[j] = j < half_n ? -fa_gauss_node[place + j] : fa_gauss_node[place + j - half_n];
        share[j] = half * fa_gauss_weight[place + j % half_n];
    }
    for (k = 0; k <= cells; k++)
        end[k] = low + half * (2 * k);
    fa_panel_losses(p, cells + 1, end, bound, back, room);
    for (k = 0; k < cells; k++, out++) {
        double mid = low + half * (2 * k + 1), x[FA_GAUSS_LEAST], loss[FA_GAUSS_LEAST], s0 = 0.0, s1 = 0.0, s2 = 0.0,
               least = side > 0.0 ? bound[k] : -bound[k + 1], most = side > 0.0 ? bound[k + 1] : -bound[k];
        *out = (fa_cell){-INFINITY, INFINITY, 0.0, 0.0, 0.0}; /* what it has is not taken off */
        if (edges->cap.width > 0.0 && (most > edges->cap.at - FA_CELL_EDGE * edges->cap.width ||
                                       fabs(v) * (most - least) > FA_CELL_STEEP))
            continue;
        for (j = 0; j < FA_GAUSS_LEAST; j++)
            x[j] = mid + half * node[j];
        fa_panel_losses(p, FA_GAUSS_LEAST, x, loss, back, room);
        FA_PRAGMA(omp simd reduction(+ : s0, s1, s2))
        for (j = 0; j < FA_GAUSS_LEAST; j++) {
            double weight = share[j] * fa_exp_plain_v(fa_panel_log_peak(p, x[j]) + back[j] + v * loss[j] - size),
                   away = side * loss[j] - least;
            s0 += weight;
            s1 += weight * away;
            s2 += weight * away * away;
        }
        *out = (fa_cell){least, most, s0, s1, s2};
    }
}

/* cells of all densities left of a cap, and atoms, over e^size, in the order of their losses */
FA_FUNC void fa_pieces_cut(const fa_pieces *law, double c, double size, const fa_edges *edges, fa_cell *first)
{
    double v = law->is_flipped ? 1.0 - c : c;
    int i, j, n = fa_pieces_cells(law);
    fa_cell *out = first;
    for (i = 0; i < law->n_panels; i++, out += FA_CELLS)
        fa_panel_cells(law->panels + i, fa_panel_sees(law->panels + i, v, 0), size, edges, out);
    for (i = 0; i < law->table.n_panels; i++, out++) {
        const fa_atom *a = law->table.points + (size_t)i * FA_TABLE_ROW;
        *out = (fa_cell){INFINITY, -INFINITY, 0.0, 0.0, 0.0};
        for (j = 0; j < FA_TABLE_ROW; j++) {
            out->low = fa_min(out->low, a[j].loss);
            out->high = fa_max(out->high, a[j].loss);
        }
        for (j = 0; j < FA_TABLE_TEN; j++)
            fa_cell_add(out, a[j].loss, exp(a[j].log_weight + v * a[j].loss - size));
    }
    for (i = 0; i < law->n_atoms; i++, out++) {
        const fa_atom *a = law->atoms + i;
        *out = (fa_cell){a->loss, a->loss, exp(a->log_weight + v * a->loss - size), 0.0, 0.0};
        if (edges->cap.width > 0.0 && a->loss > edges->cap.at - FA_CELL_EDGE * edges->cap.width)
            out->s0 = 0.0;
    }
    for (i = 1; i < n; i++) {
        fa_cell kept = first[i];
        for (j = i; j > 0 && first[j - 1].low > kept.low; j--)
            first[j] = first[j - 1];
        first[j] = kept;
    }
}

/* Windows of neighbouring cells of up to `window`: by how much the integral of e^(cL) is less than it could be, for Im
 * u from t on, where phases in a window differ by at most pi: of a window's mass p, p (1 - sqrt(1 - 4 t^2 Var/pi^2)) */
FA_FUNC double fa_cells_lost(const fa_cell *cells, int n, double t, double window)
{
    double lost = 0.0, unit = 4.0 / (FA_PI * FA_PI) * t * t * 0.9999;
    int i, j;
    fa_count(8.0 * n);
    for (i = 0; i < n; i = j) {
        fa_cell w = cells[i];
        double bend;
        for (j = i + 1; j < n && fa_max(w.high, cells[j].high) - fa_min(w.low, cells[j].low) <= window; j++) {
            double low = fa_min(w.low, cells[j].low), a = w.low - low, b = cells[j].low - low;
            w.s2 = w.s2 + 2.0 * a * w.s1 + a * a * w.s0 + cells[j].s2 + 2.0 * b * cells[j].s1 + b * b * cells[j].s0;
            w.s1 = w.s1 + a * w.s0 + cells[j].s1 + b * cells[j].s0;
            w.s0 += cells[j].s0;
            w.high = fa_max(w.high, cells[j].high);
            w.low = low;
        }
        if (!(w.high - w.low <= window) || !(w.s0 > 0.0))
            continue;
        bend = fa_min(1.0, unit * fa_max(0.0, w.s2 / w.s0 - (w.s1 / w.s0) * (w.s1 / w.s0)));
        lost += w.s0 * bend / (1.0 + sqrt(1.0 - bend));
    }
    return lost;
}

#endif
