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

/* What all paths of a panel have: arches between cuts, A' and -B' there, and q e^x and q e^y.  Above a floor they stay
 * on the real line up to the cut `start`, where losses are negative, and go up there */
typedef struct {
    const fa_panel *panel;
    double cut[FA_ARCHES + 1], of[FA_ARCHES + 1], back[FA_ARCHES + 1], grown[FA_ARCHES + 1], fallen[FA_ARCHES + 1];
    fa_arch arch[FA_ARCHES];
    int start;
} fa_path_base;

FA_FUNC void fa_path_lay(const fa_panel *p, double v, const fa_edges *edges, fa_path_base *out)
{
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
    fa_panel_bend(p, out->cut, out->arch, out->of, out->back);
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

/* log of a bound of what a path of this length has above an arch up to height y, |Im L| up to `turn`; clear: how much
 * less than L Re L may be */
FA_FUNC double fa_path_size(const fa_panel *p, double v, const fa_arch *arch, double y, double log_length, double clear,
                            double turn, const fa_edges *edges)
{
    return fa_arch_peak(p, arch, v, 1.0 - v, 0.0) + 0.5 * p->curve * y * y + log_length + 1e-9 +
           fa_min(0.0, v) * clear + (p->replaced > 0.0 ? fa_min(0.0, 1.0 - v) * clear : 0.0) +
           fa_arch_edges(p, arch, clear, turn * (1.0 + 1e-9), edges);
}

/* how much less than L Re L may be up to height y, between A' and -B' at two ends */
FA_INLINE double fa_path_clear(const fa_panel *p, double of_left, double of_right, double back_left, double back_right,
                               double y)
{
    double of = fa_sample_clear(of_left, of_right, y), back = fa_sample_clear(back_right, back_left, y);
    return p->rate < 1.0 ? fa_min(of, back) : 0.0;
}

/* up from the real line at a cut, where nothing falls; |Im A| <= y A'/cos(y/2) */
FA_FUNC fa_path_part fa_path_up(const fa_path_base *b, double v, int at, double y, const fa_edges *edges)
{
    const fa_panel *p = b->panel;
    const fa_arch arch = fa_arch_of(p, b->cut[at], b->cut[at]);
    double slope = b->of[at], back = b->back[at], c = p->rate < 1.0 ? cos(0.5 * y) : 1.0;
    return (fa_path_part){fa_path_size(p, v, &arch, y, log(y), fa_path_clear(p, slope, slope, back, back, y),
                                       fa_min(y, y * slope / c) + fa_min(y, y * back / c), edges),
                          0.0};
}

/* all parts of a panel on one path, between whose points y falls and Im A grows.  It goes up no further than the
 * floor's window lets it */
FA_FUNC void fa_panel_path(const fa_path_base *b, double v, double y, double most, const fa_edges *edges,
                           fa_path_part *out)
{
    const fa_panel *p = b->panel;
    fa_path_points at;
    double log_length[FA_ARCHES], clear[FA_ARCHES];
    int k, start = b->start;
    if (edges->floor.width > 0.0)
        y = fa_min(y, FA_PATH_UP * edges->floor.width / (b->of[start] + b->back[start]));
    fa_path_at(b, y, most, &at);
    out[FA_ARCHES] = fa_path_up(b, v, start, at.y[start], edges);
    out[FA_ARCHES + 1] = fa_path_up(b, v, FA_ARCHES, at.y[FA_ARCHES], edges);
    FA_PRAGMA(omp simd)
    for (k = 0; k < FA_ARCHES; k++) {
        double height = k < start ? 0.0 : at.y[k], falls = k < start ? 0.0 : height - at.y[k + 1],
               length = b->cut[k + 1] - b->cut[k] + falls;
        log_length[k] = fa_log_v(fa_max(length, 1e-300));
        clear[k] = fa_path_clear(p, b->of[k], b->of[k + 1], b->back[k], b->back[k + 1], height);
    }
    for (k = 0; k < FA_ARCHES; k++) {
        int is_up = k >= start;
        out[k] = (fa_path_part){-INFINITY, 0.0};
        if (b->cut[k + 1] > b->cut[k])
            out[k] = (fa_path_part){fa_path_size(p, v, b->arch + k, is_up ? at.y[k] : 0.0, log_length[k], clear[k],
                                                 is_up ? at.of[k + 1] + at.back[k] : 0.0, edges),
                                    is_up ? (at.of[k] + at.back[k + 1]) * (1.0 - 1e-9) : 0.0};
    }
}

#define FA_PATH_ROWS (FA_ARCHES + 2)

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
