/* loss/edges.h -- smooth windows on losses: what a line has of them, and what it leaves to a closed form.
 *
 * A window is Phi(side (at - l)/width), side 1 or -1: entire, so that no quadrature notices its edge.
 * docs/algorithms/panels.md, "Windows on losses".
 */
#ifndef FA_LOSS_EDGES_H
#define FA_LOSS_EDGES_H

#include "../num/window.h"

/* width 0: no window */
typedef struct {
    double at, width, side;
} fa_edge;

/* a product of two */
typedef struct {
    fa_edge cap, floor;
} fa_edges;

#define FA_NO_EDGES (&(const fa_edges){{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}})

FA_INLINE int fa_edges_any(const fa_edges *w) { return w->cap.width > 0.0 || w->floor.width > 0.0; }

/* log of both at a loss */
FA_FUNC double fa_edges_log(const fa_edges *w, double loss)
{
    double sum = 0.0;
    if (w->cap.width > 0.0)
        sum += fa_log_tail(w->cap.side * (loss - w->cap.at) / w->cap.width);
    if (w->floor.width > 0.0)
        sum += fa_log_tail(w->floor.side * (loss - w->floor.at) / w->floor.width);
    return sum;
}

/* log of 1 + e^size / 2 but for what is above 1: of a window of which Re l is so far on the closed side, `open` on the
 * other, and |Im l| at most `turn`, that is size */
typedef struct {
    double closed, size;
} fa_edge_place;

FA_INLINE fa_edge_place fa_edge_at(const fa_edge *e, double low, double high, double turn)
{
    double left = low - e->at, right = e->at - high, closed = e->side > 0.0 ? left : right,
           away = fa_max(0.0, fa_max(left, right));
    return (fa_edge_place){closed, (turn * turn - away * away) / (2.0 * e->width * e->width) - FA_LN2};
}

/* log of a bound of |Phi(a + ib)| where Re l is between two and |Im l| at most `turn`: with a and b as there, 1 +
 * e^((b^2 - a^2)/2)/2, and without the 1 for a < 0 */
FA_FUNC double fa_edge_most(const fa_edge *e, double low, double high, double turn)
{
    const fa_edge_place at = fa_edge_at(e, low, high, turn);
    if (!(e->width > 0.0))
        return 0.0;
    return at.closed > 0.0 ? at.size : at.size > 600.0 ? at.size + 1e-9 : log1p(exp(fa_max(-700.0, at.size)));
}

FA_INLINE double fa_edge_most_v(const fa_edge *e, double low, double high, double turn)
{
    const fa_edge_place at = fa_edge_at(e, low, high, turn);
    double both = fa_log1p_plain_v(fa_exp_plain_v(fa_min(600.0, at.size)));
    return at.closed > 0.0 ? at.size : at.size > 600.0 ? at.size + 1e-9 : both;
}

FA_INLINE double fa_edges_most(const fa_edges *w, double low, double high, double turn)
{
    return fa_edge_most(&w->cap, low, high, turn) + fa_edge_most(&w->floor, low, high, turn);
}

#endif
