/* loss/path.h -- the modulus of E[e^(uL)] far out, where panels have smooth windows: on paths beside the real line.
 *
 * A path is at Im x = y from the left on, and from where Im L has grown to `most` on it stays at that.  There e^(-t Im
 * L) falls faster than the density and the windows grow.  docs/algorithms/panels.md, "Windows on losses".
 */
#ifndef FA_LOSS_PATH_H
#define FA_LOSS_PATH_H

#include "share.h"

#define FA_PATHS      12  /* of which the best one counts */
#define FA_PATH_TOP   1.5 /* the largest y ... */
#define FA_PATH_RATIO 0.6 /* ... and the next one's over it, with `most` so many widths of the cap's window: ... */
#define FA_PATH_TURN  4.0
#define FA_PATH_UP    4.0 /* above a floor, Im L at a panel's end is so many widths at most, ... */
#define FA_PATH_FIRST 0.4 /* ... `most` is so many widths, ... */
#define FA_PATH_NEXT  1.4 /* ... and the next one's over it */
/* of a part of a path: log of a bound of its share at t = 0, and the least |Im L| */
typedef struct {
    double size, turn;
} fa_path_part;

/* a point of a path: x, Im x there, Im A, and |Im B|, which has the same sign in L */
typedef struct {
    double x, y, of, back;
} fa_path_point;

FA_FUNC fa_path_point fa_path_at(const fa_panel *p, double x, double y, double most)
{
    double rest = 1.0 - p->rate, grown = p->rate * exp(fa_min(x, 600.0)), sine = rest * sin(most);
    fa_path_point out = {x, y, y, 0.0};
    if (sine < grown) /* sin(y - most) q e^x = (1 - q) sin(most) there */
        out.y = fa_min(y, most + asin(sine / grown));
    out.of = fa_min(out.y, p->rate < 1.0 ? atan2(grown * sin(out.y), rest + grown * cos(out.y)) : out.y);
    if (p->replaced > 0.0) {
        grown = p->rate * exp(fa_min(-x - p->replaced, 600.0));
        out.back = atan2(grown * sin(out.y), rest + grown * cos(out.y));
    }
    return out;
}

/* log of a bound of what a path of this length has above an arch up to height y, |Im L| up to `turn` */
FA_FUNC double fa_path_size(const fa_panel *p, double v, const fa_arch *arch, double y, double length, double turn,
                            const fa_edges *edges)
{
    double clear = fa_sample_clear(p->rate, arch->left, arch->right, y);
    if (p->replaced > 0.0)
        clear = fa_min(clear, fa_sample_clear(p->rate, -arch->right - p->replaced, -arch->left - p->replaced, y));
    return fa_arch_peak(p, arch, v, 1.0 - v, 0.0) + 0.5 * p->curve * y * y + log(length) + 1e-9 +
           fa_min(0.0, v) * clear + (p->replaced > 0.0 ? fa_min(0.0, 1.0 - v) * clear : 0.0) +
           fa_arch_edges(p, arch, clear, turn * (1.0 + 1e-9), edges);
}

/* from one point to another, between which y falls and Im A grows */
FA_FUNC fa_path_part fa_path_along(const fa_panel *p, double v, const fa_path_point *from, const fa_path_point *to,
                                   const fa_edges *edges)
{
    const fa_arch arch = fa_arch_of(p, from->x, to->x);
    return (fa_path_part){
        fa_path_size(p, v, &arch, from->y, to->x - from->x + from->y - to->y, to->of + from->back, edges),
        (from->of + to->back) * (1.0 - 1e-9)};
}

/* up from the real line at an end, where nothing falls; |Im A| <= y A'/cos(y/2) */
FA_FUNC fa_path_part fa_path_up(const fa_panel *p, double v, const fa_path_point *at, const fa_edges *edges)
{
    const fa_arch arch = fa_arch_of(p, at->x, at->x);
    double slope, back, y = at->y, clear = p->rate < 1.0 ? cos(0.5 * y) : 1.0;
    (void)fa_log_sample(p->rate, at->x, &slope);
    (void)fa_panel_back(p, at->x, &back);
    return (fa_path_part){
        fa_path_size(p, v, &arch, y, y, fa_min(y, y * slope / clear) + fa_min(y, y * back / clear), edges), 0.0};
}

/* all parts of a panel on one path.  Above a floor it stays on the real line while losses are negative, and goes up no
 * further than the floor's window lets it */
FA_FUNC fa_path_part *fa_panel_path(const fa_panel *p, double v, double y, double most, const fa_edges *edges,
                                    fa_path_part *out)
{
    double cut[FA_ARCHES + 1], slope, back;
    fa_path_point last, at;
    int k, start = 0;
    fa_panel_cuts(p, v, edges, cut);
    if (edges->floor.width > 0.0 && p->replaced > 0.0 && cut[0] < -0.5 * p->replaced) {
        for (start = 1; start + 1 < FA_ARCHES && cut[start + 1] <= -0.5 * p->replaced; start++)
            ;
        cut[start] = -0.5 * p->replaced;
    }
    (void)fa_log_sample(p->rate, cut[start], &slope);
    (void)fa_panel_back(p, cut[start], &back);
    if (edges->floor.width > 0.0)
        y = fa_min(y, FA_PATH_UP * edges->floor.width / (slope + back));
    last = fa_path_at(p, cut[0], start ? 0.0 : y, most);
    for (k = 0; k <= FA_ARCHES; k++, last = at) {
        at = fa_path_at(p, cut[k], k < start ? 0.0 : y, most);
        if (k > 0 && k <= start) /* to where it goes up */
            at.y = at.of = at.back = 0.0;
        if (k > 0)
            *out++ = at.x > last.x ? fa_path_along(p, v, &last, &at, edges) : (fa_path_part){-INFINITY, 0.0};
        if (k == start) {
            at = fa_path_at(p, cut[k], y, most);
            *out++ = fa_path_up(p, v, &at, edges);
        }
    }
    *out++ = fa_path_up(p, v, &last, edges);
    return out;
}

FA_INLINE int fa_pieces_path_rows(const fa_pieces *law) { return (FA_ARCHES + 2) * law->n_panels; }

FA_FUNC void fa_pieces_paths(const fa_pieces *law, double c, const fa_edges *edges, fa_path_part *out)
{
    double v = law->is_flipped ? 1.0 - c : c, y = FA_PATH_TOP, most = FA_PATH_TURN * edges->cap.width;
    int i, k, has_floor = edges->floor.width > 0.0;
    if (has_floor)
        most = FA_PATH_FIRST * fa_min(edges->cap.width, edges->floor.width);
    for (k = 0; k < FA_PATHS; k++) {
        for (i = 0; i < law->n_panels; i++)
            out = fa_panel_path(law->panels + i, fa_panel_sees(law->panels + i, v, 0), y, fa_min(most, 0.5 * y), edges,
                                out);
        y *= has_floor ? 1.0 : FA_PATH_RATIO;
        most *= has_floor ? FA_PATH_NEXT : 1.0;
    }
}

/* log of a bound of |E[e^(uL)]| times the windows for all Im u >= t: on the best path, and the atoms */
FA_FUNC double fa_paths_beyond(const fa_pieces *law, const fa_path_part *part, double c, double t,
                               const fa_edges *edges)
{
    double v = law->is_flipped ? 1.0 - c : c, best = INFINITY, atoms = 0.0;
    int h, k, i, n = fa_pieces_path_rows(law);
    for (h = 0; h < FA_PATHS; h++, part += n) {
        double sum = 0.0;
        FA_PRAGMA(omp simd reduction(+ : sum))
        for (k = 0; k < n; k++) {
            double size = part[k].size - t * part[k].turn;
            sum += size <= -690.0 ? 1e-299 : fa_exp_plain_v(fa_min(690.0, size));
        }
        best = sum < best ? sum : best;
    }
    for (i = 0; i < law->n_atoms; i++)
        atoms += exp(law->atoms[i].log_weight + v * law->atoms[i].loss +
                     (fa_edges_any(edges) ? fa_edges_log(edges, law->atoms[i].loss) : 0.0));
    return best < 1e290 ? log(best + atoms) + 1e-9 : INFINITY;
}

#endif
