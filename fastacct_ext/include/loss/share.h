/* loss/share.h -- how large the density of a loss is, times e^(cL) and windows, and how much it varies: what is left of
 * its moments far out.  docs/algorithms/panels.md.
 */
#ifndef FA_LOSS_SHARE_H
#define FA_LOSS_SHARE_H

#include "pieces.h"

#define FA_CUTS      40   /* parts of a panel's core ... */
#define FA_GRADED    24   /* ... and of what is on either side, the next one longer by ... */
#define FA_GRADE     1.35 /* ... this factor */
#define FA_ARCHES    (FA_CUTS + 2 * FA_GRADED)
#define FA_COARSE    32   /* points of a panel at which its largest value is looked for ... */
#define FA_FINER     3    /* ... and how often it is, between two others, where there are windows */
#define FA_CORE      64   /* points at which its core is looked for */
#define FA_CORE_DEEP 45.0 /* -log of a density, over the largest, from which on it is not in the core */

/* log of the density times e^(vL) and the windows */
FA_FUNC double fa_panel_log_size(const fa_panel *p, double x, double v, const fa_edges *edges)
{
    double slope, loss = fa_panel_loss(p, x, &slope);
    return fa_panel_log_density(p, x) + v * loss + fa_edges_log(edges, p->turned != 0.0 ? -loss : loss);
}

/* about that at n + 1 points from `first` on, n <= FA_CORE; and at which it is largest */
FA_FUNC int fa_panel_log_sizes(const fa_panel *p, int n, double first, double step, double v, const fa_edges *edges,
                               double *out)
{
    double x[FA_CORE + 1] = {first}, loss[FA_CORE + 1], back[FA_CORE + 1], room[FA_CORE + 1],
           side = p->turned != 0.0 ? -1.0 : 1.0;
    const fa_edge *edge = &edges->cap;
    int i, k, top = 0;
    for (i = 1; i <= n; i++)
        x[i] = first + i * step;
    fa_panel_losses(p, n + 1, x, loss, back, room);
    for (i = 0; i <= n; i++)
        out[i] = fa_panel_log_peak(p, x[i]) + back[i] + v * loss[i];
    for (k = 0; k < 2; k++, edge = &edges->floor) {
        double scale = edge->width > 0.0 ? edge->side / edge->width : 0.0;
        FA_PRAGMA(omp simd)
        for (i = 0; i <= (scale != 0.0 ? n : -1); i++)
            out[i] += fa_log_tail_about_v(scale * (side * loss[i] - edge->at));
    }
    for (i = 1; i <= n; i++)
        top = out[i] > out[top] ? i : top;
    return top;
}

#define FA_EDGE_FAR 10.0 /* widths beyond a window's edge where it is closed */

/* where a window is open, narrowing x between two */
FA_FUNC void fa_panel_clip(const fa_panel *p, const fa_edge *edge, double *low, double *high)
{
    if (edge->width > 0.0 && edge->side > 0.0)
        *high = fa_min(*high, fa_panel_place(p, edge->at + FA_EDGE_FAR * edge->width));
    if (edge->width > 0.0 && edge->side < 0.0)
        *low = fa_max(*low, fa_panel_place(p, edge->at - FA_EDGE_FAR * edge->width));
}

/* where all are, or the whole panel */
FA_FUNC void fa_panel_open(const fa_panel *p, const fa_edges *edges, double *low, double *high)
{
    *low = p->low;
    *high = p->high;
    if (p->turned != 0.0)
        return;
    fa_panel_clip(p, &edges->cap, low, high);
    fa_panel_clip(p, &edges->floor, low, high);
    if (!(*high > *low)) {
        *low = p->low;
        *high = p->high;
    }
}

/* where that is not nothing */
FA_FUNC void fa_panel_core(const fa_panel *p, double v, const fa_edges *edges, double *low, double *high)
{
    double step, first, last, at[FA_CORE + 1];
    int top, from = 0, to = FA_CORE;
    fa_panel_open(p, edges, &first, &last);
    step = (last - first) / FA_CORE;
    top = fa_panel_log_sizes(p, FA_CORE, first, step, v, edges, at);
    while (from + 1 < top && at[from + 1] < at[top] - FA_CORE_DEEP)
        from++;
    while (to - 1 > top && at[to - 1] < at[top] - FA_CORE_DEEP)
        to--;
    *low = first + from * step;
    *high = to == FA_CORE ? last : first + to * step;
}

/* where the arches of a panel end, and the first one begins: in its core even, on either side longer and longer */
FA_FUNC void fa_panel_cuts(const fa_panel *p, double v, const fa_edges *edges, double *cut)
{
    double low, high, step, left, right;
    int i;
    fa_panel_core(p, v, edges, &low, &high);
    step = (high - low) / FA_CUTS;
    for (i = 0; i <= FA_CUTS; i++)
        cut[FA_GRADED + i] = i == FA_CUTS ? high : low + i * step;
    for (i = 1; i <= FA_GRADED; i++, step *= FA_GRADE) {
        left = fa_max(p->low, cut[FA_GRADED - i + 1] - step);
        right = fa_min(p->high, cut[FA_GRADED + FA_CUTS + i - 1] + step);
        cut[FA_GRADED - i] = i == FA_GRADED ? p->low : left;
        cut[FA_GRADED + FA_CUTS + i] = i == FA_GRADED ? p->high : right;
    }
}

/* the arches between these, and A' and -B' there */
FA_FUNC void fa_panel_bend(const fa_panel *p, const double *cut, fa_arch *out, double *of, double *back)
{
    double room[4][2 * FA_ARCHES + 1];
    fa_arches_of(p, FA_ARCHES, cut, out, of, back, (double *const[]){room[0], room[1], room[2], room[3]});
}

FA_FUNC void fa_panel_arches(const fa_panel *p, double v, const fa_edges *edges, fa_arch *out)
{
    double cut[FA_ARCHES + 1], of[FA_ARCHES + 1], back[FA_ARCHES + 1];
    fa_panel_cuts(p, v, edges, cut);
    fa_panel_bend(p, cut, out, of, back);
}

/* log of a bound of the density of L times e^(cL) on an arch: L' is at least A' = q e^(x - A), and -B' = q e^(y - B) */
FA_FUNC double fa_arch_density(const fa_panel *p, const fa_arch *arch, double c)
{
    double scale = log(p->rate);
    if (p->rate >= 1.0 && !(p->replaced > 0.0))
        return fa_arch_peak(p, arch, c, 1.0 - c, 0.0);
    if (!(p->replaced > 0.0) || arch->left + arch->right > -p->replaced)
        return fa_arch_peak(p, arch, c + 1.0, 1.0 - c, -1.0) - scale - p->shift;
    return fa_arch_peak(p, arch, c, 2.0 - c, 1.0) + p->replaced - scale;
}

/* log of by how much windows change on an arch */
FA_FUNC double fa_arch_change(const fa_panel *p, const fa_arch *arch, const fa_edges *edges)
{
    double side = p->turned != 0.0 ? -1.0 : 1.0, low = fa_edges_log(edges, side * (arch->of.low - arch->back.low)),
           high = fa_edges_log(edges, side * (arch->of.high - arch->back.high));
    return fa_max(low, high) + log(-expm1(-fabs(low - high)) + 1e-12);
}

/* the variation of that where Q is a sample, or with a cap: f' is f times slope - curve (x - centre) + B' + c L' -
 * L''/L', and |L''| is at most L' */
FA_FUNC double fa_replaced_variation(const fa_panel *p, double c, double size, const fa_edges *edges)
{
    double sum = 0.0, cut[FA_ARCHES + 1], of[FA_ARCHES + 1], back[FA_ARCHES + 1];
    fa_arch arches[FA_ARCHES];
    int i;
    fa_panel_cuts(p, c, edges, cut);
    fa_panel_bend(p, cut, arches, of, back);
    for (i = 0; i < FA_ARCHES; i++) {
        const fa_arch arch = arches[i];
        double size_of = fa_arch_density(p, &arch, c) - size, steep = of[i + 1] + back[i], /* A' rises, and -B' falls */
               peak = exp(size_of + fa_arch_edges(p, &arch, 0.0, 0.0, edges)),
               far = fa_max(fabs(arch.left - p->centre), fabs(arch.right - p->centre));
        sum += peak * (arch.right - arch.left) * (fabs(p->slope) + p->curve * far + back[i] + fabs(c) * steep + 1.0);
        sum += i == 0 || i == FA_ARCHES - 1 ? peak : 0.0;
        sum += fa_edges_any(edges) ? exp(fa_arch_change(p, &arch, edges) + size_of) : 0.0;
    }
    return sum * (1.0 + 1e-9);
}

/* log of a bound of the density of L times e^(cL) */
FA_FUNC double fa_panel_peak(const fa_panel *p, double c)
{
    double most = -INFINITY;
    fa_arch arches[FA_ARCHES];
    int i;
    fa_panel_arches(p, c, FA_NO_EDGES, arches);
    for (i = 0; i < FA_ARCHES; i++)
        most = fa_max(most, fa_arch_density(p, arches + i, c));
    return most;
}

/* variation, jumps at the ends included, of the density of L on a panel times e^(cL - size): its logarithm's derivative
 * in x, slope - 1 + (c + 1) L', is monotone; less a line, that of a Gaussian has three zeros at most, two maxima */
FA_FUNC double fa_panel_variation(const fa_panel *p, double c, double size, const fa_edges *edges)
{
    double at[2] = {p->low, p->high}, f[2], d[2], step, top, x, odds;
    int e;
    if (p->replaced > 0.0 || fa_edges_any(edges))
        return fa_replaced_variation(p, c, size, edges);
    if (p->curve > 0.0)
        return (p->rate < 1.0 && 0.25 * (c + 1.0) > p->curve ? 4.0 : 2.0) * exp(fa_panel_peak(p, c) - size) *
               (1.0 + 1e-9);
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

/* log of about the largest value of the density times e^(vL) and the windows */
FA_FUNC double fa_panel_largest(const fa_panel *p, double v, const fa_edges *edges)
{
    double low, high, best = p->low, size = -INFINITY, step, at[FA_COARSE + 1];
    int round, points = p->curve > 0.0 ? FA_COARSE : 1;
    fa_panel_open(p, edges, &low, &high);
    for (round = 0; round <= (fa_edges_any(edges) ? FA_FINER : 0); round++) {
        int top;
        step = (high - low) / points;
        top = fa_panel_log_sizes(p, points, low, step, v, edges, at);
        best = at[top] > size ? low + top * step : best;
        size = fa_max(size, at[top]);
        low = fa_max(p->low, best - step);
        high = fa_min(p->high, best + step);
        points = 8;
    }
    return size;
}

/* log of about the largest weight or density of Q times e^(vL) and the windows: beside that, what underflows is
 * nothing */
FA_FUNC double fa_pieces_size(const fa_pieces *law, double v, const fa_edges *edges)
{
    double size = -INFINITY;
    int i;
    for (i = 0; i < law->n_atoms; i++)
        size = fa_max(size, law->atoms[i].log_weight + v * law->atoms[i].loss +
                                (fa_edges_any(edges) ? fa_edges_log(edges, law->atoms[i].loss) : 0.0));
    for (i = 0; i < law->table.n_panels * FA_TABLE_ROW; i++)
        size = fa_max(size, law->table.points[i].log_weight + v * law->table.points[i].loss);
    for (i = 0; i < law->n_panels; i++)
        size = fa_max(size, fa_panel_largest(law->panels + i, fa_panel_sees(law->panels + i, v, 0), edges));
    return size;
}

/* at Re u = c: the atoms' weights times e^(cL), and the variation of the density, jumps included, times that; both over
 * e^size */
typedef struct {
    double size, atoms, variation;
} fa_share_of;

/* whether two panels are one but for the direction of their losses, from 0 on */
FA_FUNC int fa_panels_meet(const fa_panel *p, const fa_panel *q)
{
    return !(p->replaced > 0.0) && p->low == 0.0 && q->low == 0.0 && p->shift == 0.0 && q->shift == 0.0 &&
           p->rate == q->rate && p->log_density == q->log_density && p->curve == q->curve && p->centre == q->centre;
}

/* a panel and the same one turned: there the density goes on without a jump, which both have counted.  What is to be
 * taken off */
FA_FUNC double fa_pieces_joined(const fa_pieces *law, double size, const fa_edges *edges)
{
    double sum = 0.0, slope;
    int i, k;
    for (i = 0; i < law->n_panels; i++) {
        const fa_panel *p = law->panels + i;
        int pairs = 0; /* turned ones less those before p that have taken one */
        for (k = 0; k < law->n_panels && !(p->turned != 0.0); k++)
            if (fa_panels_meet(p, law->panels + k))
                pairs += law->panels[k].turned != 0.0 ? 1 : k < i ? -1 : 0;
        if (pairs <= 0)
            continue;
        (void)fa_panel_loss(p, 0.0, &slope);
        sum += 2.0 * exp(fa_panel_log_size(p, 0.0, 0.0, edges) - size) / slope * (1.0 - 1e-9);
    }
    return sum;
}

FA_FUNC fa_share_of fa_pieces_share(const fa_pieces *law, double c, const fa_edges *edges)
{
    fa_share_of out = {0.0, 0.0, 0.0};
    double v = law->is_flipped ? 1.0 - c : c;
    int i;
    out.size = fa_pieces_size(law, v, edges);
    for (i = 0; i < law->n_panels; i++)
        out.variation += fa_panel_variation(law->panels + i, fa_panel_sees(law->panels + i, v, 0), out.size, edges);
    out.variation -= fa_pieces_joined(law, out.size, edges);
    out.variation += fa_table_variation(&law->table, v, out.size, &out.atoms);
    for (i = 0; i < law->n_atoms; i++)
        out.atoms += exp(law->atoms[i].log_weight + v * law->atoms[i].loss - out.size);
    if (!(out.variation < INFINITY)) /* L' underflows */
        out.variation = INFINITY;
    return out;
}

/* log of a bound of |E[exp(uL)]| for all Im u >= t: integration by parts */
FA_INLINE double fa_share_beyond(fa_share_of share, double t)
{
    return share.size + log(share.atoms + share.variation / t) + 1e-10;
}

#endif
