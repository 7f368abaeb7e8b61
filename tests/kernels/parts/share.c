/* share.c -- how much the density of a loss varies (loss/share.h), against its values on a fine mesh.
 */
#include "parts.h"

#include "loss/share.h"

#define POINTS 4000

/* of Gaussian losses above 0, sampled or not, and their mirror images: at Re u = v, the bound of the variation of the
 * density of L times e^(vL), and what a mesh sees of it, which is less */
void variation(double mu, double rate, double v, double is_flipped, double *out)
{
    fa_panel panels[2];
    fa_pieces law = {0, 2, is_flipped != 0.0, NULL, panels, {0}};
    fa_share_of share;
    double sum = 0.0, at_zero[2];
    int i, k;
    for (i = 0; i < 2; i++) {
        panels[i] = (fa_panel){.high = mu * (20.0 + 0.5 * mu), .rate = rate, .fine = 8.0, .turned = i == 0};
        panels[i].curve = 1.0 / (mu * mu);
        panels[i].centre = -0.5 * mu * mu;
        panels[i].log_density = -log(mu * sqrt(2.0 * FA_PI));
    }
    share = fa_pieces_share(&law, v, FA_NO_EDGES);
    for (i = 0; i < 2; i++) {
        const fa_panel *p = panels + i;
        double last = 0.0, c = fa_panel_sees(p, v, law.is_flipped);
        for (k = 0; k <= POINTS; k++) {
            double x = p->high * k / POINTS, slope, loss = fa_panel_loss(p, x, &slope),
                   f = exp(fa_panel_log_density(p, x) + c * loss - share.size) / slope;
            sum += k ? fabs(f - last) : 0.0;
            at_zero[i] = k ? at_zero[i] : f;
            last = f;
        }
        sum += last;
    }
    out[0] = share.variation, out[1] = sum + fabs(at_zero[0] - at_zero[1]);
}

/* log of the least of |1 - q + q e^(x + iy)| over its value at y = 0, x between two numbers: the bound, and the least
 * one of many */
void clear_of(double rate, double left, double right, double y, double *out)
{
    double ends[2] = {left, right}, value[2], slope[2];
    int k;
    fa_log_samples(rate, 2, ends, value, slope);
    out[0] = fa_sample_clear(slope[0], slope[1], y);
    out[1] = INFINITY;
    for (k = 0; k <= POINTS; k++) {
        double e = rate * exp(left + (right - left) * k / POINTS), re = 1.0 - rate + e * cos(y), im = e * sin(y);
        out[1] = fmin(out[1], log(hypot(re, im) / (1.0 - rate + e)));
    }
}

/* log of the bounds of a window about a rectangle of losses: one after the other, and as vector code */
void window_of(double at, double width, double side, double low, double high, double turn, double *out)
{
    const fa_edge e = {at, width, side};
    out[0] = fa_edge_most(&e, low, high, turn);
    out[1] = fa_edge_most_v(&e, low, high, turn);
}
