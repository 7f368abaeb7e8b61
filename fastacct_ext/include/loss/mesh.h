/* loss/mesh.h -- nodes of panels, and what their rules leave out.
 *
 * A panel is cut into parts, each with a rule of its own.  What a rule of n points leaves out of an integral of g over
 * a part of half width a is at most 64/15 a max|g| r^(-2n)/(1 - r^-2), the maximum over the ellipse of radius r; and at
 * most 4 a max|g| on the real line, since weights are positive and add up to 2a.  docs/algorithms/panels.md.
 */
#ifndef FA_LOSS_MESH_H
#define FA_LOSS_MESH_H

#include <string.h>

#include "../num/gauss.h"
#include "pieces.h"

#define FA_RADII 11  /* the first one is the real line */
#define FA_ENDS  (2 * FA_RADII + 1)
#define FA_ARC   2.5 /* |Im x| up to which 1 - rate + rate e^x keeps clear of 0 */
#define FA_HALF  40  /* how often a panel may be halved */

/* of a part's ellipse: log of the rule's constant, of which power of e^curve a Gaussian density grows off the real
 * line, log of r, log of how much less than L Re L may be, the largest |Im L| */
typedef struct {
    fa_arch arch;
    double log_size, grow, log_r, clear, turn;
} fa_ellipse;

/* of panels that follow each other and have the same losses at the same x: their densities add up */
typedef struct {
    const fa_panel *panel;
    double mid, half;
    int panels, n, radii;
    fa_ellipse ellipse[FA_RADII];
} fa_part;

typedef struct {
    int parts, capacity, count; /* count: of nodes */
    fa_part *part;
} fa_mesh;

FA_FUNC void fa_mesh_free(fa_mesh *mesh)
{
    free(mesh->part);
    memset(mesh, 0, sizeof(*mesh));
}

/* The ellipses of a part, as far as the loss is analytic there.  |1 - q + q e^(x+iy)| >= (1 - q + q e^x) cos(y/2), and
 * so Im L <= y L'(x)/cos(y/2).  The first one is the real line.  A and B are computed at the left ends, at the right
 * ones, and in the middle */
FA_FUNC void fa_part_ellipses(fa_part *part)
{
    static const double radius[FA_RADII] = {1.0, 1.25, 1.5, 1.8, 2.2, 2.8, 3.6, 5.0, 8.0, 16.0, 64.0},
                        log_of[FA_RADII] = {0.0,
                                            0.22314355131420976,
                                            0.4054651081081644,
                                            0.5877866649021191,
                                            0.7884573603642703,
                                            1.0296194171811581,
                                            1.2809338454620642,
                                            1.6094379124341003,
                                            2.0794415416798357,
                                            2.772588722239781,
                                            4.1588830833596715};
    const fa_panel *p = part->panel;
    double x[FA_ENDS], a[FA_ENDS], rise[FA_ENDS], b[FA_ENDS] = {0.0}, fall[FA_ENDS] = {0.0}, y[FA_RADII],
           wide[FA_RADII], size[FA_RADII], clear[FA_RADII], turn[FA_RADII], half = part->half, log_half = log(half);
    int i, n;
    for (i = n = 0; i < FA_RADII; i++) {
        double r = radius[i];
        wide[i] = i ? 0.5 * half * (r + 1.0 / r) : half;
        y[i] = 0.5 * half * (r - 1.0 / r);
        n = n == i && (p->rate >= 1.0 || y[i] < FA_ARC) ? i + 1 : n;
    }
    part->radii = n;
    for (i = 0; i < n; i++) {
        x[i] = part->mid - wide[i];
        x[n + i] = part->mid + wide[i];
    }
    x[2 * n] = part->mid;
    fa_log_samples(p->rate, 2 * n + 1, x, a, rise);
    if (p->replaced > 0.0) {
        double turned[FA_ENDS];
        for (i = 0; i <= 2 * n; i++)
            turned[i] = -x[i] - p->replaced;
        fa_log_samples(p->rate, 2 * n + 1, turned, b, fall);
    }
    FA_PRAGMA(omp simd)
    for (i = 0; i < n; i++) {
        double co, r = radius[i];
        (void)fa_sincos_v(0.5 * y[i], &co);
        co = p->rate < 1.0 ? co : 1.0;
        clear[i] = p->rate < 1.0 ? fa_min(fa_sample_clear(rise[i], rise[n + i], y[i]),
                                          fa_sample_clear(fall[n + i], fall[i], y[i]))
                                 : 0.0;
        turn[i] = fa_min(y[i], y[i] * rise[n + i] / co) + fa_min(y[i], y[i] * fall[i] / co);
        size[i] = log_half + fa_log_v(64.0 / 15.0 / (1.0 - 1.0 / fa_max(1.5, r * r)));
    }
    size[0] = log_half + 2.0 * FA_LN2, clear[0] = turn[0] = 0.0;
    for (i = 0; i < n; i++)
        part->ellipse[i] = (fa_ellipse){
            {x[i],
             x[n + i],
             {a[i] + p->shift, a[n + i] + p->shift, a[2 * n] + p->shift, rise[2 * n]},
             {b[i], b[n + i], b[2 * n], -fall[2 * n]}},
            size[i], 0.5 * y[i] * y[i], log_of[i], clear[i], turn[i]};
}

FA_FUNC void fa_part_open(fa_part *part, const fa_panel *p, int panels, double left, double right)
{
    part->panel = p;
    part->panels = panels;
    part->mid = 0.5 * (left + right);
    part->half = 0.5 * (right - left);
    fa_part_ellipses(part);
}

/* of what a rule is asked: the integral of exp(u l), or of exp(u l) - 1 - u l, l = L - mean, |u| <= size */
typedef struct {
    double v, t, mean, size; /* Re u, |Im u| up to t; size = 0: of exp(u l) alone */
    fa_edges edges;          /* times these windows */
} fa_asked;

/* what nodes are for: an error of at most `most`, for all Re u between two questions */
typedef struct {
    const fa_asked *one, *two;
    double most;
} fa_demand;

/* log of the largest of the bounds of a part's densities times |e^(vL)| on an ellipse: the losses are the same for all
 * of them */
FA_FUNC double fa_ellipse_most(const fa_part *part, const fa_ellipse *e, double v)
{
    const fa_panel *p = part->panel;
    const fa_turn turn = fa_arch_turn(p, &e->arch, v, 1.0 - v, 0.0);
    double most = -INFINITY;
    int i;
    for (i = 0; i < part->panels; i++)
        most = fa_max(most, fa_turn_peak(p + i, &e->arch, &turn) + p[i].curve * e->grow);
    return most + fa_min(0.0, v) * e->clear + (p->replaced > 0.0 ? fa_min(0.0, 1.0 - v) * e->clear : 0.0);
}

/* log of the error on one ellipse, but for r^(-2n).  |e^s - 1 - s| <= min(E + 1 + |s|, |s|^2/2 max(1, E)), E = |e^s| */
FA_FUNC double fa_ellipse_error(const fa_part *part, const fa_ellipse *e, const fa_asked *ask, int is_turned)
{
    double off = is_turned ? -ask->mean : ask->mean, x, big, low = e->arch.of.low - e->arch.back.low + e->clear,
           high = e->arch.of.high - e->arch.back.high - (part->panel->replaced > 0.0 ? e->clear : 0.0),
           plain = fa_ellipse_most(part, e, is_turned ? 1.0 - ask->v : ask->v) + ask->t * e->turn - ask->v * ask->mean,
           size = e->log_size + (fa_edges_any(&ask->edges)
                                     ? fa_arch_edges(part->panel, &e->arch, e->clear, e->turn, &ask->edges)
                                     : 0.0);
    if (ask->size == 0.0)
        return size + plain;
    x = ask->size * (fa_max(fabs(high - off), fabs(low - off)) + e->turn);
    big = fa_max(fa_ellipse_most(part, e, is_turned ? 1.0 : 0.0), plain);
    return size + fa_min(big + log(2.0 + x), big + 2.0 * log(x) - FA_LN2);
}

/* the errors of a part with 16, 32 and 64 points, for all Re u between two questions: that of each ellipse is convex in
 * it, so that it is the ellipse that is best for both that counts */
FA_FUNC void fa_part_errors(const fa_part *part, const fa_asked *one, const fa_asked *two, int is_flipped, double *out)
{
    int turned = (part->panel->turned != 0.0) != is_flipped, r, k;
    double best[3] = {INFINITY, INFINITY, INFINITY}, many = part->panels > 1 ? log(part->panels) : 0.0;
    for (r = 0; r < part->radii; r++) {
        const fa_ellipse *e = part->ellipse + r;
        double now = fa_ellipse_error(part, e, one, turned);
        if (two != one)
            now = fa_max(now, fa_ellipse_error(part, e, two, turned));
        for (k = 0; k < 3; k++)
            best[k] = fa_min(best[k], many + now - (double)(2 * FA_GAUSS_LEAST << k) * e->log_r);
    }
    for (k = 0; k < 3; k++)
        out[k] = best[k] < 600.0 ? exp(fa_max(-700.0, best[k])) : INFINITY;
}

/* the first of these rules, counted from 1, that meets all demands for this share of what they allow; 0: none */
FA_FUNC int fa_part_rule(const fa_part *part, const fa_demand *demand, int n, int is_flipped, double share)
{
    double errors[3];
    int i, k = 0;
    for (i = 0; i < n; i++) {
        fa_part_errors(part, demand[i].one, demand[i].two, is_flipped, errors);
        while (k < 3 && !(errors[k] <= share * demand[i].most))
            k++;
        if (k == 3)
            return 0;
    }
    return k + 1;
}

FA_INLINE double fa_asked_of_table(const fa_pieces *law, const fa_asked *ask)
{
    double lattice = law->smooth.step > 0.0 ? fa_smooth_error(&law->smooth, law->atoms, law->n_atoms, ask->v, ask->t,
                                                              ask->mean, ask->size, law->is_flipped, &ask->edges.cap)
                                            : 0.0;
    return lattice + fa_table_error(&law->table, ask->v, ask->t, ask->mean, ask->size > 0.0, law->is_flipped);
}

/* the error of all panels, tables and lattices, for all Re u between two questions */
FA_FUNC double fa_mesh_error(const fa_pieces *law, const fa_mesh *mesh, const fa_asked *one, const fa_asked *two)
{
    double sum = fa_asked_of_table(law, one), errors[3];
    int i;
    if (two != one)
        sum = fa_max(sum, fa_asked_of_table(law, two));
    for (i = 0; i < mesh->parts; i++) {
        const fa_part *part = mesh->part + i;
        fa_part_errors(part, one, two, law->is_flipped, errors);
        sum += errors[part->n == FA_GAUSS_LEAST ? 0 : part->n == FA_GAUSS_MOST ? 2 : 1];
    }
    return sum;
}

/* room for one more part.  0: no memory */
FA_FUNC int fa_mesh_reserve(fa_mesh *mesh)
{
    int capacity = mesh->capacity ? 2 * mesh->capacity : 32;
    fa_part *fresh;
    if (mesh->parts < mesh->capacity)
        return 1;
    fresh = fa_alloc(sizeof(fa_part) * (size_t)capacity);
    if (!fresh)
        return 0;
    if (mesh->parts > 0)
        memcpy(fresh, mesh->part, sizeof(fa_part) * (size_t)mesh->parts);
    free(mesh->part);
    mesh->part = fresh;
    mesh->capacity = capacity;
    return 1;
}

/* how many panels from the i-th on have the same losses at the same x, and the largest x */
FA_FUNC int fa_panels_alike(const fa_pieces *law, int i, double *high)
{
    const fa_panel *p = law->panels + i, *q = p;
    *high = p->high;
    while (++q < law->panels + law->n_panels && p->curve > 0.0 && q->curve > 0.0 && q->low == p->low &&
           q->rate == p->rate && q->shift == p->shift && q->turned == p->turned && q->replaced == 0.0 &&
           p->replaced == 0.0)
        *high = fa_max(*high, q->high);
    return (int)(q - p);
}

/* Parts that meet these demands: each panel is halved until every part has a rule that is good enough for its share of
 * the width.  0: more than `limit` nodes, or no memory */
FA_FUNC int fa_pieces_mesh(const fa_pieces *law, const fa_demand *demand, int n, double limit, fa_mesh *mesh)
{
    double all = 0.0, stack[FA_HALF + 1], high;
    int i, depth, rule, panels;
    mesh->parts = mesh->count = 0;
    for (i = 0; i < law->n_panels; i += panels) {
        panels = fa_panels_alike(law, i, &high);
        all += high - law->panels[i].low;
    }
    for (i = 0; i < law->n_panels; i += panels) {
        const fa_panel *p = law->panels + i;
        double left = p->low;
        panels = fa_panels_alike(law, i, stack);
        for (depth = 1; depth > 0;) { /* the next part begins at `left` and ends at the last of the stack */
            fa_part *part;
            if (!fa_mesh_reserve(mesh))
                return 0;
            part = mesh->part + mesh->parts;
            fa_part_open(part, p, panels, left, stack[depth - 1]);
            rule = fa_part_rule(part, demand, n, law->is_flipped, 2.0 * part->half / all);
            if (rule == 0) {
                if (depth == FA_HALF || mesh->count > limit)
                    return 0;
                stack[depth++] = part->mid;
                continue;
            }
            part->n = FA_GAUSS_LEAST << (rule - 1);
            mesh->count += part->n;
            mesh->parts++;
            left = stack[--depth];
        }
    }
    return mesh->count <= limit;
}

#endif
