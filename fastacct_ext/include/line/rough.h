/* line/rough.h -- upper bounds of eps and delta where no path certifies: truncated Chernoff bounds.
 * docs/algorithms/contour.md, "The last resort". */
#ifndef FA_ROUGH_H
#define FA_ROUGH_H

#include "placing.h"

/* The last resort, direction remove: Chernoff's bound for the records up to a close cut, plus P(any record beyond).  A
 * few percent above the truth where Renyi's bound is tens of times above it, because M explodes. K of what is left of
 * the cut: by the trapezoid rule up to a node plus half a step; what the end adds to its error is below half a step of
 * the integrand there, for real u (docs/algorithms/contour.md, "The cut").  NaN: no memory */
FA_FUNC double fa_rough_k(fa_contour *run, double v, double *d1_out, double *d2_out)
{
    double k = 0.5 * v * (v - 1.0) * run->mu2, d1 = (v - 0.5) * run->mu2, d2 = run->mu2;
    int b;
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_pair *m = &block->pair;
        double s1, s2, r, one, edge, unused;
        r = fa_real_sums(&block->real, v, INFINITY, &s1, &s2);
        edge = (floor(block->cut / block->real.h) + 0.5) * block->real.h;
        edge = v * (m->kappa + fa_pair_loss(m, edge, &unused, &unused) - block->mean) - 0.5 * edge * edge * m->inv_var;
        r += 0.2 * block->real.h / m->sigma * exp(fa_min(edge, 690.0)) +
             (1e-13 + 16.0 * FA_EPS * v * (fabs(m->kappa) + fabs(block->mean))) * (1.0 + fabs(r)) +
             v * block->mean_error;
        if (!(r < INFINITY) || !(edge < 690.0))
            return INFINITY;
        one = 1.0 / (1.0 + r);
        k += block->count * (v * block->mean + log1p(r) + 4.0 * FA_EPS * (fabs(v * block->mean) + fabs(log1p(r))));
        d1 += block->count * (block->mean + s1 * one);
        d2 += block->count * (s2 * one - s1 * one * (s1 * one));
    }
    *d1_out = d1;
    *d2_out = d2;
    return k;
}

/* nodes for fa_rough_k: up to `x` standard deviations beyond P's last mean; log of P(any record beyond).  0: failure */
FA_FUNC int fa_rough_fill(fa_contour *run, double x, double *log_beyond_out)
{
    int b;
    double beyond = 0.0;
    run->cut = NAN; /* the lines' cut is to be set again */
    for (b = 0; b < run->n_blocks; b++) {
        fa_block *block = run->blocks + b;
        const fa_pair *m = &block->pair;
        double y, alias, h = fa_line_step(m, 2.0, 0.0, fa_line_need(run), &y, &alias), cut = m->p_top + x * m->sigma,
                         last;
        if (!fa_nodes_fill(&block->real, m, h, 0.0, m->q_low - 2.0 * FA_WIDTH * m->sigma, fa_max(cut, fa_mean_end(m))))
            return 0;
        block->mean = fa_mean_loss(&block->real, m->kappa);
        block->mean_error = fa_mean_error(m, block->mean, fa_line_need(run));
        fa_nodes_shift(&block->real, m->kappa - block->mean);
        fa_nodes_cut(&block->real, cut);
        block->cut = cut;
        block->real_left = INFINITY; /* of no use to the lines */
        block->real_right = -INFINITY;
        last = (floor(cut / block->real.h) + 0.5) * block->real.h; /* what the sums stand for ends here */
        beyond += block->count * 0.5 * erfc((last - m->p_top) / m->sigma * 0.70710678118654752440) * (1.0 + 1e-13);
    }
    *log_beyond_out = beyond > 1e-290 ? log(beyond)
                                      : log(run->total) - 0.5 * (x - 0.5) * (x - 0.5); /* erfc underflows */
    return 1;
}

/* smallest bound of eps at log_delta (for_delta = 0), or of log delta at eps, over v and some cuts; inf when there is
 * none */
FA_FUNC double fa_rough(fa_contour *run, double target, int for_delta)
{
    double best = for_delta ? 0.0 : INFINITY, guess = for_delta ? -10.0 : target, log_beyond, d1, d2;
    int i, round;
    if (run->sign < 0)
        return best;
    run->n = 0;
    for (round = 0; round < (for_delta ? 12 : 1); round++) {
        double low = -40.0, high = 40.0, x, level = INFINITY, left;
        if (!fa_rough_fill(run, sqrt(2.0 * fa_max(1.0, log(run->total + 1.0) - guess + 1.0)), &log_beyond))
            break;
        left = for_delta ? target : target + log(-expm1(fa_min(log_beyond - target, -1e-9)));
        if (!for_delta && !(log_beyond < target - 0.1))
            break;
        for (i = 0; i < 100; i++) { /* the bound is unimodal in log(v - 1): thirds */
            double value[2];
            int j;
            for (j = 0; j < 2; j++) {
                double v;
                x = low + (high - low) * (j ? 0.6 : 0.4);
                v = 1.0 + exp(x);
                value[j] = fa_rough_k(run, v, &d1, &d2);
                value[j] = !(value[j] < 1e300) ? INFINITY
                           : for_delta         ? value[j] + fa_log_b(v) - (v - 1.0) * target
                                               : (value[j] + fa_log_b(v) - left) / (v - 1.0);
                value[j] = fa_max(value[j], -1e12); /* no less is needed */
                value[j] += 1e-12 * (1.0 + fabs(value[j])) * (for_delta ? 1.0 : 1.0 / (v - 1.0));
                level = fa_min(level, value[j]);
            }
            if (value[0] < value[1] || !(value[1] < INFINITY))
                high = low + (high - low) * 0.6;
            else
                low = low + (high - low) * 0.4;
        }
        if (!for_delta)
            return fa_max(level, 0.0) * (1.0 + 1e-12);
        level = fa_max(level, log_beyond) + log1p(exp(-fabs(level - log_beyond))) + 1e-12;
        best = fa_min(best, level);
        if (level > guess - 0.5) /* the cut matters no more, or too much already */
            break;
        guess = fa_max(level, guess - 60.0);
    }
    return best;
}

#endif
