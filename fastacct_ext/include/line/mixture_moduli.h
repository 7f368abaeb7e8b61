/* line/mixture_moduli.h -- moduli of a step of Gaussian mixtures off the real line: bounds of their quadrature's error.
 * docs/algorithms/line.md, "Mixtures".
 */
#ifndef FA_LINE_MIXTURE_MODULI_H
#define FA_LINE_MIXTURE_MODULI_H

#include "capped_draw.h"

/* Integral of a modulus beyond the first or the last node over its value there, in cells of two steps: exp(v l + rate
 * D) times Q and the cap's window, piece by piece.  To the right A grows and |B| falls, to the left A falls and |B|
 * grows; to the right it ends with the window */
FA_FUNC double fa_mix_beyond(const fa_cap_block *block, double rate, double v, int to_left)
{
    const fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const fa_pair *m = block->pair;
    double s2 = block->sigma * block->sigma, first = s->z[to_left ? 0 : s->sum.n - 2], z = first, piece,
           sum = 0.0, here = 0.0, a0, b0, l0 = fa_pair_loss(m, first, &a0, &b0), a = a0, b = b0, top = -m->q_low,
           end = w->cap + FA_CAP_CUT * w->width, u0 = fa_max(0.0, first - w->cap);
    int i;
    for (i = 0; i < 400; i++) {
        double next_a, next_b, l,
            u1 = fa_max(0.0, z - w->cap), fell = 0.5 * (z * z - first * first) / s2,
            most = rate * (a + top - (a0 - b0)) + (first - z) * (top + fa_max(0.0, -v) * (top + a0)) / s2 +
                   fa_max(0.0, v) * here,
            size;
        if (to_left ? most - fell < -60.0 : z >= end)
            return sum / (2.0 * s->h * s2);
        piece = s2 * fa_max(0.03, fa_min(0.5, 3.0 / (1.0 + (rate + fabs(v)) * (a - b)))) * (1.0 + 0.05 * i);
        l = fa_pair_loss(m, to_left ? z - piece : z + piece, &next_a, &next_b) - l0;
        size = rate * ((to_left ? a - next_b : next_a - b) - (a0 - b0)) + fa_max(v * here, v * l) - fell +
               (to_left ? (first - z + piece) * top / s2 : 0.0) - 0.5 * (u1 * u1 - u0 * u0) / (w->width * w->width);
        sum += piece * exp(size);
        z += to_left ? -piece : piece;
        here = l;
        a = next_a;
        b = next_b;
    }
    return INFINITY;
}

/* What lies beyond the last node, counted by fa_cap_cells as 1e4 cells, and more where a modulus asks for it; with the
 * first form alone there, whose factors are constant.  Walled also with the second, which is exp(v l + |v| bend D):
 * negative exponents make the first one huge */
FA_FUNC void fa_mix_close_right(const fa_cap_block *block, double rate, double v, double bend, double *one, double *two)
{
    int last = block->nodes.sum.n / 2 - 1;
    one[last] *= fa_max(1.0, 2e-4 * fa_mix_beyond(block, rate, v, 0));
    two[last] = block->walled ? two[last] * fa_max(1.0, 2e-4 * fa_mix_beyond(block, rate + fabs(v) * bend, v, 0))
                              : one[last];
}

/* the same, and beyond the first node where losses fall without end */
FA_FUNC void fa_mix_close_moduli(const fa_cap_block *block, double rate, double v, double bend, double *one,
                                 double *two)
{
    fa_mix_close_right(block, rate, v, bend, one, two);
    if (!fa_pair_falls(block->pair))
        return;
    one[0] *= fa_max(1.0, 2e-4 * fa_mix_beyond(block, rate, v, 1));
    two[0] = one[0];
}

/* moduli of mixtures */
FA_FUNC void fa_mix_fill_moduli(fa_cap_block *block, const fa_cap_line *line, double t, double v_right, int with_floor,
                                fa_cap_cells_of *out)
{
    fa_cap_nodes *s = &block->nodes;
    const fa_cap_windows *w = &block->w;
    const double *ls = s->sum.lr, *log_q = s->log_q, *spread = s->spread, *gross = s->gross, *zs = s->z;
    double *line1 = out->line[0] = s->sum.vr, *line2 = out->line[1] = s->sum.vi, *mean1 = out->mean[0] = s->sum.gr,
           *mean2 = out->mean[1] = s->sum.gi, *right = out->right[0] = s->scratch, *right2 = out->right[1] = s->sum.er,
           *back = out->back[0] = s->large_i, *back2 = out->back[1] = s->sum.ei, *large = out->large[0] = s->scratch2,
           *large2 = out->large[1] = s->sum.fi, *low = out->low[0] = s->large_r, *low2 = out->low[1] = s->sum.fr;
    double eta = block->strip, co = cos(0.5 * eta), pen = -log(co), g = 2.0 * s->h, s2 = block->sigma * block->sigma,
           c = line->plan.tilt, u = sqrt(c * c + t * t), v_low = line->plan.low, y = eta * s2,
           v_back = fa_pair_falls(block->pair) ? FA_MIX_PUT : 0.0, mean = s->mean, off = fabs(mean - block->kappa),
           most = fa_max(fa_max(fabs(c), fabs(v_right)), fa_max(fabs(v_back), with_floor ? v_low : 0.0)),
           cells = exp(2.0 * g) * g * g / 8.0, grow = 0.5 * s2 * eta * eta + FA_LN2, step = g * s2,
           bump = 9.0 + (block->pair->slope > 0.0 ? 2.0 / (eta * eta) : 0.0);
    double cap = w->cap, width = w->width, inv_cap = 0.5 / (width * width), bend = eta * eta / (co * co),
           plain = block->walled, floor_at = block->split ? w->floor : zs[s->sum.n - 1] + 20.0 * w->floor_width,
           floor_width = with_floor ? w->floor_width : 1.0, inv_floor = 0.5 / (floor_width * floor_width);
    int j, n = s->sum.n / 2;
    FA_PRAGMA(omp simd)
    for (j = 0; j < n; j++) {
        int k = 2 * j;
        double l = ls[k], d = s->moved[k], li = eta * d / co, re = eta * eta * d / (co * co), u0 = zs[k] - cap,
               u1 = floor_at - zs[k], e0 = fa_min(600.0, inv_cap * (y * y - u0 * u0)),
               b = s2 + (most * (1.0 + eta * eta / (co * co)) + t * eta / co) * spread[k] + bump +
                   (u0 > -8.0 * width ? 2.0 * inv_cap * s2 * s2 : 0.0),
               x = u * (gross[k] + off + li + re), q, ek, eb, line_re, size, loss;
        q = log_q[k] + grow + cells * b + (u0 < step ? 0.0 : e0);
        size = u0 < step ? 1.0 + 0.5 * fa_exp_plain_v(e0) : 0.5;
        ek = size * fa_exp_plain_v(fa_min(600.0, q));
        eb = size * fa_exp_plain_v(fa_min(600.0, q + c * l + fabs(c) * pen + t * li));
        line_re = size * fa_exp_plain_v(fa_min(600.0, q + c * l + fabs(c) * re + t * li));
        line1[j] = plain > 0.0 ? eb : eb + ek * (1.0 + x);
        line2[j] = plain > 0.0 ? line_re : 0.5 * x * x * fa_max(ek, line_re);
        right[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_right * l + fabs(v_right) * pen));
        right2[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_right * l + fabs(v_right) * re));
        back[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_back * l + fabs(v_back) * pen));
        back2[j] = ek + size * fa_exp_plain_v(fa_min(600.0, q + v_back * l + fabs(v_back) * re));
        loss = gross[k] + fabs(block->kappa) + li + re;
        mean1[j] = size * fa_exp_plain_v(fa_min(600.0, q + l + mean + pen)) + ek * (1.0 + loss);
        mean2[j] = 0.5 * loss * loss * fa_max(ek, size * fa_exp_plain_v(fa_min(600.0, q + l + mean + re)));
        if (with_floor) {
            double e1 = fa_min(600.0, inv_floor * (y * y - u1 * u1)), k1 = 0.5 * fa_exp_plain_v(e1),
                   bent = fa_cap_swell(cells * 2.0 * inv_floor * s2 * s2), edge;
            large[j] = bent * (u1 < step ? 1.0 + k1 : k1) * eb;
            large2[j] = bent * (u1 < step ? 1.0 + k1 : k1) * line_re;
            q += u1 > -step ? 0.0 : e1;
            edge = bent * size * (u1 > -step ? 1.0 + k1 : 0.5);
            low[j] = edge * (fa_exp_plain_v(fa_min(600.0, q)) + fa_exp_plain_v(fa_min(600.0, q + v_low * (l + pen))));
            low2[j] = edge * (fa_exp_plain_v(fa_min(600.0, q)) + fa_exp_plain_v(fa_min(600.0, q + v_low * (l + re))));
        }
    }
    fa_mix_close_moduli(block, t * eta / co, c, bend, line1, line2);
    fa_mix_close_moduli(block, 0.0, v_right, bend, right, right2);
    fa_mix_close_moduli(block, 0.0, v_back, bend, back, back2);
    fa_mix_close_moduli(block, 0.0, 1.0, bend, mean1, mean2);
    if (with_floor)
        fa_mix_close_right(block, t * eta / co, c, bend, large, large2);
}

#endif
