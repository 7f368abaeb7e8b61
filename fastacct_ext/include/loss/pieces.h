/* loss/pieces.h -- a privacy loss as data: atoms, and panels on which Q's density is an exponential.
 *
 *   panel   x in [low, high], density exp(log_density + slope (x - low)) under Q;
 *           L = log(1 - rate + rate e^x) + shift
 *   atom    L = loss, chance exp(log_weight) under Q
 *   table   values of functions in panels of their own (loss/table.h)
 *   flipped the same of -L under P: E_P[exp(-u L)] = E_Q[exp((1 - u) L)]
 *
 * Together they are one pair of distributions: both masses are 1.  What a rule of n points leaves out of an integral of
 * g over a panel of half width a is at most 64/15 a max|g| r^(-2n)/(1 - r^-2), the maximum over the ellipse of radius
 * r.  docs/algorithms/panels.md.
 */
#ifndef FA_LOSS_PIECES_H
#define FA_LOSS_PIECES_H

#include "../num/gauss.h"
#include "table.h"

typedef struct {
    double low, high, log_density, slope, rate, shift, slip, fine; /* slip: of x; fine: of the density */
} fa_panel;

typedef struct {
    int n_atoms, n_panels, is_flipped;
    const fa_atom *atoms;
    const fa_panel *panels;
    fa_table table; /* of a loss that is a function: no panels, or its own */
} fa_pieces;

/* nodes of equal panels: none wider than this, with a rule of n points each */
typedef struct {
    double width;
    int n;
} fa_mesh;

/* L of a point of a panel, and its derivative in x, the chance that the record took part */
FA_INLINE double fa_panel_loss(const fa_panel *p, double x, double *slope_out)
{
    double loss = p->rate >= 1.0 ? x
                  : x > 30.0     ? x + log(p->rate) + log1p((1.0 - p->rate) / p->rate * exp(-x))
                                 : log1p(p->rate * expm1(x));
    *slope_out = p->rate >= 1.0 ? 1.0 : fa_min(1.0, exp(x + log(p->rate) - loss));
    return loss + p->shift;
}

FA_INLINE int fa_panel_cuts(const fa_panel *p, const fa_mesh *mesh)
{
    return (int)ceil((p->high - p->low) / mesh->width * (1.0 - 1e-12));
}

/* the least and the largest loss */
FA_FUNC double fa_pieces_end(const fa_pieces *law, int largest)
{
    double end = -INFINITY, slope, side = largest == law->is_flipped ? -1.0 : 1.0;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        end = fa_max(end, side * law->atoms[i].loss);
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        end = fa_max(end, side * fa_panel_loss(p, side > 0.0 ? p->high : p->low, &slope));
    }
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++)
        end = i % FA_TABLE_ROW < FA_TABLE_TEN ? fa_max(end, side * law->table.points[i].loss) : end;
    return largest ? end : -end;
}

/* by how many u the place of an end may be off */
FA_FUNC double fa_pieces_slip(const fa_pieces *law)
{
    double worst = 0.0, slope;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        worst = fa_max(worst, law->atoms[i].slip + 4.0 * fabs(law->atoms[i].loss));
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        double loss = fa_max(fabs(fa_panel_loss(p, p->low, &slope)), fabs(fa_panel_loss(p, p->high, &slope)));
        worst = fa_max(worst, p->slip + 8.0 * loss);
    }
    return worst;
}

#define FA_RADII 10
#define FA_ARC   2.5 /* |Im x| up to which 1 - rate + rate e^x keeps clear of 0 */

/* of a panel's ellipse: log of the rule's constant times the largest density, the range of Re L, the largest |Im L| */
typedef struct {
    double log_size, high, low, turn;
} fa_ellipse;

/* 0: the loss is not analytic there.  |1 - q + q e^(x+iy)| >= (1 - q + q e^x) cos(y/2), and so Im L <= y L'(x)/cos(y/2)
 */
FA_FUNC int fa_panel_ellipse(const fa_panel *p, double mid, double half, int n, int i, fa_ellipse *out)
{
    static const double radius[FA_RADII] = {1.25, 1.5, 1.8, 2.2, 2.8, 3.6, 5.0, 8.0, 16.0, 64.0};
    double r = radius[i], wide = 0.5 * half * (r + 1.0 / r), y = 0.5 * half * (r - 1.0 / r), slope,
           right = mid + wide - p->low, left = mid - wide - p->low, clear = p->rate < 1.0 ? cos(0.5 * y) : 1.0;
    if (p->rate < 1.0 && !(y < FA_ARC))
        return 0;
    out->log_size = log(64.0 / 15.0 * half) - log1p(-1.0 / (r * r)) - 2.0 * n * log(r) + p->log_density +
                    fa_max(p->slope * right, p->slope * left);
    out->low = fa_panel_loss(p, mid - wide, &slope) + log(clear);
    out->high = fa_panel_loss(p, mid + wide, &slope);
    out->turn = fa_min(y, y * slope / clear);
    return 1;
}

/* of what a rule is asked: the integral of exp(u l), or of exp(u l) - 1 - u l, l = L - mean, |u| <= size */
typedef struct {
    double v, t, mean, size; /* Re u, |Im u| up to t; size = 0: of exp(u l) alone */
} fa_asked;

/* log of the error on one ellipse.  |e^s - 1 - s| <= min(E + 1 + |s|, |s|^2/2 max(1, E)), E = |e^s| */
FA_FUNC double fa_ellipse_error(const fa_ellipse *e, const fa_asked *ask, int is_flipped)
{
    double v = is_flipped ? 1.0 - ask->v : ask->v, off = is_flipped ? -ask->mean : ask->mean,
           plain = fa_max(v * e->high, v * e->low) + ask->t * e->turn, one, x, big;
    if (ask->size == 0.0)
        return e->log_size + plain - ask->v * ask->mean;
    one = is_flipped ? e->high : 0.0;
    x = ask->size * (fa_max(fabs(e->high - off), fabs(e->low - off)) + e->turn);
    plain -= ask->v * ask->mean;
    big = fa_max(one, plain);
    return e->log_size + fa_min(big + log(2.0 + x), big + 2.0 * log(x) - FA_LN2);
}

/* the ellipses of part k of a panel, at most FA_RADII; how many */
FA_FUNC int fa_panel_ellipses(const fa_panel *p, const fa_mesh *mesh, int k, fa_ellipse *out)
{
    double half = 0.5 * (p->high - p->low) / fa_panel_cuts(p, mesh);
    int r = 0;
    while (r < FA_RADII && fa_panel_ellipse(p, p->low + (2 * k + 1) * half, half, mesh->n, r, out + r))
        r++;
    return r;
}

/* the error of that part */
FA_FUNC double fa_ellipses_error(const fa_ellipse *e, int n, const fa_asked *ask, int is_flipped)
{
    double best = INFINITY;
    int r;
    for (r = 0; r < n; r++) {
        double now = fa_ellipse_error(e + r, ask, is_flipped);
        if (now > best)
            break;
        best = now;
    }
    return best < 600.0 ? exp(best) : INFINITY;
}

/* the error of all panels; more than `most`: it ends there */
FA_FUNC double fa_pieces_error(const fa_pieces *law, const fa_mesh *mesh, const fa_asked *ask, double most)
{
    double sum = fa_table_error(&law->table, ask->v, ask->t, ask->mean, ask->size > 0.0, law->is_flipped);
    fa_ellipse e[FA_RADII];
    int i, k, cuts;
    for (i = 0; i < law->n_panels; i++) {
        cuts = fa_panel_cuts(law->panels + i, mesh);
        for (k = 0; k < cuts && sum <= most; k++)
            sum += fa_ellipses_error(e, fa_panel_ellipses(law->panels + i, mesh, k, e), ask, law->is_flipped);
    }
    return sum;
}

/* how many nodes a mesh has, those of atoms included */
FA_FUNC double fa_pieces_count(const fa_pieces *law, const fa_mesh *mesh)
{
    double count = law->n_atoms + (double)FA_TABLE_TEN * law->table.n_panels;
    int i;
    for (i = 0; i < law->n_panels; i++)
        count += (double)fa_panel_cuts(law->panels + i, mesh) * mesh->n;
    return count;
}

/* the mesh with the fewest nodes whose error is at most `most` at both questions.  0: none with up to `limit` nodes */
FA_FUNC int fa_pieces_mesh(const fa_pieces *law, const fa_asked *one, const fa_asked *two, double most, double limit,
                           fa_mesh *out)
{
    double widest = 0.0, least = INFINITY, slope;
    int i, n, part;
    for (i = 0; i < law->n_panels; i++)
        widest = fa_max(widest, law->panels[i].high - law->panels[i].low);
    out->width = widest > 0.0 ? widest : 1.0;
    out->n = FA_GAUSS_LEAST;
    if (law->n_panels == 0)
        return fa_pieces_count(law, out) <= limit;
    for (part = 1, slope = 0.0, i = 0; i < law->n_panels; i++) {
        double here;
        (void)fa_panel_loss(law->panels + i, law->panels[i].high, &here);
        slope = fa_max(slope, here);
    }
    while (part < 0.003 * one->t * slope * widest)
        part *= 2;
    for (; part <= 4096; part *= 2) {
        fa_mesh mesh = {widest / part, FA_GAUSS_LEAST};
        if (fa_pieces_count(law, &mesh) >= fa_min(least, limit))
            break;
        for (n = FA_GAUSS_LEAST; n <= FA_GAUSS_MOST; n *= 2) {
            double count;
            mesh.n = n;
            count = fa_pieces_count(law, &mesh);
            if (count < least && count <= limit && fa_pieces_error(law, &mesh, one, most) <= most &&
                fa_pieces_error(law, &mesh, two, most) <= most) {
                least = count;
                *out = mesh;
            }
        }
    }
    return least < INFINITY;
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

/* nodes of one panel from `at` on; how many */
FA_FUNC int fa_panel_fill(const fa_panel *p, const fa_mesh *mesh, const fa_node_rows *to, int at)
{
    int k, j, i, cuts = fa_panel_cuts(p, mesh), half_n = mesh->n / 2, place = fa_gauss_place(mesh->n), count = 0;
    double half = 0.5 * (p->high - p->low) / cuts, ends = fabs(p->low) + fabs(p->high), log_half = log(half);
    for (k = 0; k < cuts; k++)
        for (j = -half_n; j < half_n; j++, count++) {
            double x, slope, loss, power;
            i = place + (j < 0 ? -j - 1 : j);
            x = p->low + half * (2 * k + 1 + (j < 0 ? -fa_gauss_node[i] : fa_gauss_node[i]));
            loss = fa_panel_loss(p, x, &slope);
            power = p->slope * (x - p->low);
            fa_node_put(to, at + count, loss, p->log_density + power + log_half + log(fa_gauss_weight[i]),
                        slope * (p->slip + 4.0 * ends) + 8.0 * (fabs(loss) + fabs(p->shift)) +
                            8.0 * fabs(expm1(p->shift - loss)) + (x > 30.0 ? 4.0 * fabs(log(p->rate)) : 0.0),
                        p->fine + 12.0 + 4.0 * fabs(p->log_density) + 6.0 * fabs(power) + 4.0 * fabs(log_half) +
                            fabs(p->slope) * (p->slip + 4.0 * ends));
        }
    return count;
}

/* all nodes, in the order of their losses; how many */
FA_FUNC int fa_pieces_fill(const fa_pieces *law, const fa_mesh *mesh, const fa_node_rows *to)
{
    double *rows[4] = {to->loss, to->log_weight, to->slip, to->fine};
    int i, j, k, n = 0;
    for (i = 0; i < law->n_panels; i++)
        n += fa_panel_fill(law->panels + i, mesh, to, n);
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++) {
        const fa_atom *a = law->table.points + i;
        if (i % FA_TABLE_ROW < FA_TABLE_TEN)
            fa_node_put(to, n++, a->loss, a->log_weight, a->slip, a->fine);
    }
    for (i = 0; i < law->n_atoms; i++) {
        const fa_atom *a = law->atoms + i;
        fa_node_put(to, n++, a->loss, a->log_weight, a->slip, a->fine);
    }
    for (i = 1; i < n; i++) {
        double kept[4];
        for (k = 0; k < 4; k++)
            kept[k] = rows[k][i];
        for (j = i; j > 0 && rows[0][j - 1] > kept[0]; j--)
            for (k = 0; k < 4; k++)
                rows[k][j] = rows[k][j - 1];
        for (k = 0; k < 4; k++)
            rows[k][j] = kept[k];
    }
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

/* variation, jumps at the ends included, of the density of L on a panel times e^(cL - size): its logarithm's derivative
 * in x, slope - 1 + (c + 1) L', is monotone */
FA_FUNC double fa_panel_variation(const fa_panel *p, double c, double size)
{
    double at[2] = {p->low, p->high}, f[2], d[2], step, top, x, odds;
    int e;
    for (e = 0; e < 2; e++) {
        double loss = fa_panel_loss(p, at[e], &step);
        f[e] = exp(p->log_density + p->slope * (at[e] - p->low) + c * loss - size) / step;
        d[e] = p->rate < 1.0 ? p->slope - 1.0 + (c + 1.0) * step : p->slope + c;
    }
    if (d[0] * d[1] >= 0.0)
        return 2.0 * fa_max(f[0], f[1]) * (1.0 + 1e-9);
    if (d[0] < 0.0)
        return 2.0 * (f[0] + f[1]) * (1.0 + 1e-9);
    odds = (1.0 - p->slope) / (c + 1.0); /* L' where the density is largest */
    x = log(odds / (1.0 - odds)) + log1p(-p->rate) - log(p->rate);
    top = exp(p->log_density + p->slope * (x - p->low) + c * fa_panel_loss(p, x, &step) - size) / odds;
    return 2.0 * fa_max(top, fa_max(f[0], f[1])) * (1.0 + 1e-6);
}

/* log of about the largest weight or density of Q times e^(vL): beside that, what underflows is nothing */
FA_FUNC double fa_pieces_size(const fa_pieces *law, double v)
{
    double size = -INFINITY, slope;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        size = fa_max(size, law->atoms[i].log_weight + v * law->atoms[i].loss);
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++)
        size = fa_max(size, law->table.points[i].log_weight + v * law->table.points[i].loss);
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        size = fa_max(size, p->log_density + v * fa_panel_loss(p, p->low, &slope));
        size = fa_max(size, p->log_density + p->slope * (p->high - p->low) + v * fa_panel_loss(p, p->high, &slope));
    }
    return size;
}

/* at Re u = c: the atoms' weights times e^(cL), and the variation of the density, jumps included, times that; both over
 * e^size */
typedef struct {
    double size, atoms, variation;
} fa_share_of;

FA_FUNC fa_share_of fa_pieces_share(const fa_pieces *law, double c)
{
    fa_share_of out = {0.0, 0.0, 0.0};
    double v = law->is_flipped ? 1.0 - c : c;
    int i;
    out.size = fa_pieces_size(law, v);
    for (i = 0; i < law->n_panels; i++)
        out.variation += fa_panel_variation(law->panels + i, v, out.size);
    out.variation += fa_table_variation(&law->table, v, out.size, &out.atoms);
    for (i = 0; i < law->n_atoms; i++)
        out.atoms += exp(law->atoms[i].log_weight + v * law->atoms[i].loss - out.size);
    return out;
}

/* log of a bound of |E[exp(uL)]| for all Im u >= t: integration by parts */
FA_INLINE double fa_share_beyond(fa_share_of share, double t)
{
    return share.size + log(share.atoms + share.variation / t) + 1e-10;
}

#endif
