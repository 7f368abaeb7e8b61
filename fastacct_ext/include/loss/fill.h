/* loss/fill.h -- nodes of panels, tables and atoms, in the order of their losses: sixteen and more at a time. */
#ifndef FA_LOSS_FILL_H
#define FA_LOSS_FILL_H

#include "mesh.h"

/* how many nodes there are, those of atoms included */
FA_INLINE int fa_pieces_count(const fa_pieces *law, const fa_mesh *mesh)
{
    return law->n_atoms + FA_TABLE_TEN * law->table.n_panels + mesh->count;
}

/* where nodes go: loss, log of the weight under Q (or P), and what both may be off by */
typedef struct {
    double *loss, *log_weight, *slip, *fine;
} fa_node_rows;

FA_INLINE void fa_node_put(const fa_node_rows *to, int at, double loss, double log_weight, double slip, double fine)
{
    to->loss[at] = loss;
    to->log_weight[at] = log_weight;
    to->slip[at] = slip;
    to->fine[at] = fine;
}

/* log of the density at n points, where B is `back`, by how many u it may be off, and the points: 3 of x - low, and 2
 * of its parts */
FA_FUNC void fa_part_weigh(const fa_part *part, int n, const double *x, const double *back, double *size, double *fine,
                           double *move)
{
    double top[FA_GAUSS_MOST], all[FA_GAUSS_MOST];
    int i, j, many = part->panels;
    for (j = 0; j < n; j++) {
        top[j] = many > 1 ? -INFINITY : 0.0;
        size[j] = all[j] = move[j] = 0.0;
    }
    for (i = 0; i < many && many > 1; i++) {
        const fa_panel *p = part->panel + i;
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++)
            top[j] = fa_max(top[j], fa_panel_log_peak(p, x[j]));
    }
    for (i = 0; i < many; i++) {
        const fa_panel *p = part->panel + i;
        double fixed = p->fine + 4.0 * fabs(p->log_density), ends = p->slip + 2.0 * (fabs(p->low) + fabs(part->mid));
        FA_PRAGMA(omp simd)
        for (j = 0; j < n; j++) {
            double away = x[j] - p->centre, log_size = fa_panel_log_peak(p, x[j]),
                   share = many > 1 ? fa_exp_plain_v(log_size - top[j]) : 1.0, line = p->slope * (x[j] - p->low),
                   off = ends + 2.0 * fabs(x[j]) + 3.0 * (x[j] - p->low);
            size[j] += many > 1 ? share : log_size;
            all[j] += share * (fixed + 6.0 * (fabs(line) + p->curve * away * away) +
                               fabs(p->slope - p->curve * away) * off);
            move[j] = fa_max(move[j], off);
        }
    }
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        fine[j] = many > 1 ? all[j] / size[j] + 8.0 + many : all[j];
        size[j] = (many > 1 ? top[j] + fa_log_v(size[j]) : size[j]) + back[j];
    }
}

/* nodes of one part from `at` on, or back from there where the panel is turned, so that losses rise */
FA_FUNC void fa_part_fill(const fa_part *part, const fa_node_rows *to, int at)
{
    const fa_panel *p = part->panel;
    double x[FA_GAUSS_MOST] = {0.0}, weight[FA_GAUSS_MOST], of[FA_GAUSS_MOST], slope[FA_GAUSS_MOST],
           back[FA_GAUSS_MOST] = {0.0}, fall[FA_GAUSS_MOST] = {0.0}, size[FA_GAUSS_MOST], fine[FA_GAUSS_MOST],
           move[FA_GAUSS_MOST], slip[FA_GAUSS_MOST], log_half = log(part->half), scale = 4.0 * fabs(log(p->rate)),
           is_sample = p->rate < 1.0, is_replaced = p->replaced > 0.0;
    int k, n = part->n, half_n = n / 2, place = fa_gauss_place(n);
    for (k = 0; k < half_n; k++) {
        double step = part->half * fa_gauss_node[place + k];
        x[half_n - 1 - k] = part->mid - step;
        x[half_n + k] = part->mid + step;
        weight[half_n - 1 - k] = weight[half_n + k] = fa_gauss_weight[place + k];
    }
    fa_log_samples(p->rate, n, x, of, slope);
    if (p->replaced > 0.0) {
        for (k = 0; k < n; k++)
            slip[k] = -x[k] - p->replaced;
        fa_log_samples(p->rate, n, slip, back, fall);
    }
    fa_part_weigh(part, n, x, back, size, fine, move);
    FA_PRAGMA(omp simd)
    for (k = 0; k < n; k++) {
        double loss = of[k] + p->shift - back[k], less, fallen;
        (void)fa_exp_both_v(-of[k], &less);
        (void)fa_exp_both_v(-back[k], &fallen);
        slip[k] = (slope[k] + fall[k]) * move[k] + 8.0 * (fabs(loss) + fabs(p->shift)) + (x[k] > 30.0 ? scale : 0.0) +
                  is_sample * 8.0 * fabs(less);
        fallen = fall[k] * (move[k] + 2.0 * p->replaced) + 8.0 * (fabs(back[k]) + fabs(fallen)) +
                 (-x[k] - p->replaced > 30.0 ? scale : 0.0);
        slip[k] += is_replaced * 2.0 * fallen;
        fine[k] += 12.0 + 4.0 * fabs(log_half) + is_replaced * fallen;
        size[k] += log_half + fa_log_v(weight[k]);
        of[k] = loss;
    }
    for (k = 0; k < n; k++)
        if (p->turned != 0.0)
            fa_node_put(to, at - 1 - k, -of[k], size[k] + of[k], slip[k], fine[k] + slip[k] + 4.0 * fabs(of[k]));
        else
            fa_node_put(to, at + k, of[k], size[k], slip[k], fine[k]);
}

/* nodes of all panels; how many */
FA_FUNC int fa_panels_fill(const fa_mesh *mesh, const fa_node_rows *to)
{
    int i, first, at = 0, n = 0;
    for (first = 0; first < mesh->parts; first = i) {
        const fa_panel *p = mesh->part[first].panel;
        for (i = first; i < mesh->parts && mesh->part[i].panel == p; i++)
            n += mesh->part[i].n;
        at = p->turned != 0.0 ? n : at;
        for (i = first; i < mesh->parts && mesh->part[i].panel == p; i++) {
            fa_part_fill(mesh->part + i, to, at);
            at += p->turned != 0.0 ? -mesh->part[i].n : mesh->part[i].n;
        }
        at = n;
    }
    return n;
}

/* where the run of rising losses ends that begins at a place of an order */
FA_INLINE int fa_run_end(const double *loss, const int *order, int from, int n)
{
    do
        from++;
    while (from < n && !(loss[order[from - 1]] > loss[order[from]]));
    return from;
}

/* two runs of an order as one: of losses that are the same those of the first come first */
FA_FUNC void fa_runs_merge(const double *loss, const int *order, int from, int middle, int end, int *out)
{
    int one = from, other = middle, i;
    for (i = from; i < end; i++)
        out[i] = other == end || (one < middle && !(loss[order[one]] > loss[order[other]])) ? order[one++]
                                                                                          : order[other++];
}

/* Rows in the order of their losses, by runs: a panel has one or two.  0: no memory */
FA_FUNC int fa_nodes_sort(double *const *rows, int n)
{
    double *row = fa_alloc((sizeof(double) + 2 * sizeof(int)) * (size_t)(n + 1));
    int *order = (int *)(row + n + 1), *merged = order + n + 1, *other, i, k, from, middle, end;
    if (!row)
        return 0;
    for (i = 0; i < n; i++)
        order[i] = i;
    while (n && fa_run_end(rows[0], order, 0, n) < n) {
        for (from = 0; from < n; from = end) {
            middle = fa_run_end(rows[0], order, from, n);
            end = middle < n ? fa_run_end(rows[0], order, middle, n) : n;
            fa_runs_merge(rows[0], order, from, middle, end, merged);
        }
        other = order, order = merged, merged = other;
    }
    for (k = 0; k < 4; k++) {
        memcpy(row, rows[k], sizeof(double) * (size_t)n);
        for (i = 0; i < n; i++)
            rows[k][i] = row[order[i]];
    }
    free(row);
    return 1;
}

/* all nodes, in the order of their losses; how many, 0: no memory */
FA_FUNC int fa_pieces_fill(const fa_pieces *law, const fa_mesh *mesh, const fa_node_rows *to)
{
    double *rows[4] = {to->loss, to->log_weight, to->slip, to->fine};
    int i, j, k, n = fa_panels_fill(mesh, to);
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++) {
        const fa_atom *a = law->table.points + i;
        if (i % FA_TABLE_ROW < FA_TABLE_TEN)
            fa_node_put(to, n++, a->loss, a->log_weight, a->slip, a->fine);
    }
    for (i = 0; i < law->n_atoms; i++) {
        const fa_atom *a = law->atoms + i;
        fa_node_put(to, n++, a->loss, a->log_weight, a->slip, a->fine);
    }
    if (!fa_nodes_sort(rows, n))
        return 0;
    if (!law->is_flipped)
        return n;
    for (i = 0, j = n - 1; i < j; i++, j--)
        for (k = 0; k < 4; k++) {
            double kept = rows[k][i];
            rows[k][i] = rows[k][j];
            rows[k][j] = kept;
        }
    for (i = 0; i < n; i++) {
        to->log_weight[i] += to->loss[i];
        to->fine[i] += to->slip[i] + 4.0 * fabs(to->log_weight[i]);
        to->loss[i] = -to->loss[i];
    }
    return n;
}

#endif
