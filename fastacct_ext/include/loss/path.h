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

#define FA_PATH_ROWS (FA_ARCHES + 2)

/* What all paths of a panel have: A' and -B' at cuts, and q e^x and q e^y; of parts between these, and of the ways up
 * at `start` and at the right end, A' and -B' at both ends, the largest density times e^(vL), and L at both ends.
 * Above a floor they stay on the real line up to the cut `start`, where losses are negative, and go up there */
typedef struct {
    const fa_panel *panel;
    double cut[FA_ARCHES + 1], of[FA_ARCHES + 1], back[FA_ARCHES + 1], grown[FA_ARCHES + 1], fallen[FA_ARCHES + 1];
    double of_left[FA_PATH_ROWS], of_right[FA_PATH_ROWS], back_left[FA_PATH_ROWS], back_right[FA_PATH_ROWS];
    double peak[FA_PATH_ROWS], low[FA_PATH_ROWS], high[FA_PATH_ROWS];
    int start;
} fa_path_base;

FA_FUNC void fa_path_lay(const fa_panel *p, double v, const fa_edges *edges, fa_path_base *out)
{
    fa_arch arch[FA_PATH_ROWS];
    int k;
    out->panel = p;
    out->start = 0;
    fa_panel_cuts(p, v, edges, out->cut);
    if (edges->floor.width > 0.0 && p->replaced > 0.0 && out->cut[0] < -0.5 * p->replaced) {
        for (k = 1; k + 1 < FA_ARCHES && out->cut[k + 1] <= -0.5 * p->replaced; k++)
            ;
        out->cut[k] = -0.5 * p->replaced;
        out->start = k;
    }
    fa_panel_bend(p, out->cut, arch, out->of, out->back);
    arch[FA_ARCHES] = fa_arch_of(p, out->cut[out->start], out->cut[out->start]);
    arch[FA_ARCHES + 1] = fa_arch_of(p, out->cut[FA_ARCHES], out->cut[FA_ARCHES]);
    for (k = 0; k < FA_PATH_ROWS; k++) {
        int left = k < FA_ARCHES ? k : k == FA_ARCHES ? out->start : FA_ARCHES, right = left + (k < FA_ARCHES);
        out->of_left[k] = out->of[left], out->back_left[k] = out->back[left];
        out->of_right[k] = out->of[right], out->back_right[k] = out->back[right];
        out->peak[k] = fa_arch_peak(p, arch + k, v, 1.0 - v, 0.0);
        out->low[k] = arch[k].of.low - arch[k].back.low;
        out->high[k] = arch[k].of.high - arch[k].back.high;
    }
    FA_PRAGMA(omp simd)
    for (k = 0; k <= FA_ARCHES; k++) {
        out->grown[k] = p->rate * fa_exp_plain_v(fa_min(out->cut[k], 600.0));
        out->fallen[k] = p->rate * fa_exp_plain_v(fa_min(-out->cut[k] - p->replaced, 600.0));
    }
}

/* at the cuts: Im x of a path, Im A, and |Im B|, which has the same sign in L */
typedef struct {
    double y[FA_ARCHES + 1], of[FA_ARCHES + 1], back[FA_ARCHES + 1];
} fa_path_points;

FA_FUNC void fa_path_at(const fa_path_base *b, double y, double most, fa_path_points *out)
{
    const fa_panel *p = b->panel;
    double rest = 1.0 - p->rate, unused, sine = rest * fa_sincos_v(most, &unused);
    int k;
    FA_PRAGMA(omp simd)
    for (k = 0; k <= FA_ARCHES; k++) {
        double ratio = fa_min(1.0, sine / fa_max(b->grown[k], 1e-300)), co, si,
               /* sin(y - most) q e^x = (1 - q) sin(most) there */
            at = ratio < 1.0 ? fa_min(y, most + fa_angle_v(ratio, sqrt((1.0 - ratio) * (1.0 + ratio)))) : y;
        si = fa_sincos_v(at, &co);
        out->y[k] = at;
        out->of[k] = fa_min(at, rest > 0.0 ? fa_angle_v(b->grown[k] * si, rest + b->grown[k] * co) : at);
        out->back[k] = p->replaced > 0.0 ? fa_angle_v(b->fallen[k] * si, rest + b->fallen[k] * co) : 0.0;
    }
}

/* how much less than L Re L may be up to height y, between A' and -B' at two ends */
FA_INLINE double fa_path_clear(const fa_panel *p, double of_left, double of_right, double back_left, double back_right,
                               double y)
{
    double of = fa_sample_clear(of_left, of_right, y), back = fa_sample_clear(back_right, back_left, y);
    return (p->rate < 1.0 ? 1.0 : 0.0) * fa_min(of, back);
}

/* all parts of a panel on one path, between whose points y falls and Im A grows, and its ways up, where nothing falls
 * and |Im A| <= y A'/cos(y/2).  It goes up no further than the floor's window lets it */
FA_FUNC void fa_panel_path(const fa_path_base *b, double v, double y, double most, const fa_edges *edges,
                           fa_path_part *out)
{
    const fa_panel *p = b->panel;
    const fa_edge *edge = &edges->cap;
    fa_path_points at;
    double size[FA_PATH_ROWS], low[FA_PATH_ROWS], high[FA_PATH_ROWS], turn[FA_PATH_ROWS], height[FA_PATH_ROWS],
        length[FA_PATH_ROWS], fall[FA_PATH_ROWS];
    int k, i, start = b->start, is_turned = p->turned != 0.0;
    if (edges->floor.width > 0.0)
        y = fa_min(y, FA_PATH_UP * edges->floor.width / (b->of[start] + b->back[start]));
    fa_path_at(b, y, most, &at);
    for (k = 0; k < start; k++) {
        height[k] = turn[k] = fall[k] = 0.0;
        length[k] = b->cut[k + 1] - b->cut[k];
    }
    for (k = start; k < FA_ARCHES; k++) {
        height[k] = at.y[k];
        length[k] = b->cut[k + 1] - b->cut[k] + at.y[k] - at.y[k + 1];
        turn[k] = at.of[k + 1] + at.back[k];
        fall[k] = (at.of[k] + at.back[k + 1]) * (1.0 - 1e-9);
    }
    for (i = 0; i < 2; i++, k++) {
        double far = at.y[i ? FA_ARCHES : start], c = p->rate < 1.0 ? cos(0.5 * far) : 1.0;
        height[k] = length[k] = far;
        turn[k] = fa_min(far, far * b->of_left[k] / c) + fa_min(far, far * b->back_left[k] / c);
        fall[k] = 0.0;
    }
    FA_PRAGMA(omp simd)
    for (k = 0; k < FA_PATH_ROWS; k++) {
        double clear = fa_path_clear(p, b->of_left[k], b->of_right[k], b->back_left[k], b->back_right[k], height[k]),
               least = b->low[k] + clear, top = b->high[k] - (p->replaced > 0.0 ? clear : 0.0);
        low[k] = is_turned ? -top : least;
        high[k] = is_turned ? -least : top;
        size[k] = b->peak[k] + 0.5 * p->curve * height[k] * height[k] + fa_log_v(fa_max(length[k], 1e-300)) + 1e-9 +
                  fa_min(0.0, v) * clear + (p->replaced > 0.0 ? fa_min(0.0, 1.0 - v) * clear : 0.0);
    }
    for (i = 0; i < 2; i++, edge = &edges->floor)
        if (edge->width > 0.0) {
            const fa_edge window = *edge;
            FA_PRAGMA(omp simd)
            for (k = 0; k < FA_PATH_ROWS; k++)
                size[k] += fa_edge_most_v(&window, low[k], high[k], turn[k] * (1.0 + 1e-9));
        }
    for (k = 0; k < FA_PATH_ROWS; k++)
        out[k] = (fa_path_part){k >= FA_ARCHES || b->cut[k + 1] > b->cut[k] ? size[k] : -INFINITY, fall[k]};
}

FA_INLINE int fa_pieces_path_rows(const fa_pieces *law) { return FA_PATH_ROWS * law->n_panels; }

FA_FUNC void fa_pieces_paths(const fa_pieces *law, double c, const fa_edges *edges, fa_path_part *out)
{
    double v = law->is_flipped ? 1.0 - c : c;
    int i, k, has_floor = edges->floor.width > 0.0;
    fa_count(40.0 * FA_PATHS * fa_pieces_path_rows(law));
    for (i = 0; i < law->n_panels; i++) {
        double own = fa_panel_sees(law->panels + i, v, 0), y = FA_PATH_TOP,
               most = has_floor ? FA_PATH_FIRST * fa_min(edges->cap.width, edges->floor.width)
                                : FA_PATH_TURN * edges->cap.width;
        fa_path_base base;
        fa_path_lay(law->panels + i, own, edges, &base);
        for (k = 0; k < FA_PATHS; k++) {
            fa_panel_path(&base, own, y, fa_min(most, 0.5 * y), edges, out + (k * law->n_panels + i) * FA_PATH_ROWS);
            y *= has_floor ? 1.0 : FA_PATH_RATIO;
            most *= has_floor ? FA_PATH_NEXT : 1.0;
        }
    }
}

/* log of a bound of |E[e^(uL)]| times the windows for all Im u >= t: on the best path, and the atoms */
FA_FUNC double fa_paths_beyond(const fa_pieces *law, const fa_path_part *part, double c, double t,
                               const fa_edges *edges)
{
    double v = law->is_flipped ? 1.0 - c : c, best = INFINITY, atoms = 0.0;
    int h, k, i, n = fa_pieces_path_rows(law);
    fa_count(2.0 * FA_PATHS * n);
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
