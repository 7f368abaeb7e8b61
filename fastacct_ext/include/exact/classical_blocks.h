/* exact/classical_blocks.h -- the accountants before Renyi DP, and a Gaussian in closed form, over n cells. */
#ifndef FA_CLASSICAL_BLOCKS_H
#define FA_CLASSICAL_BLOCKS_H

#include "../kernels.h"
#include "classical.h"

/* what is not a number, or below 0, is unknown */
FA_INLINE double fa_or_unknown(double epsilon) { return epsilon >= 0.0 ? epsilon : INFINITY; }

static int64_t fa_gaussian_epsilon_block(const fa_cells *in, const fa_question *ask, double seconds,
                                         const fa_answers *out)
{
    int64_t i;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i++) {
        double mu = in->mu[i], delta = in->target[i];
        out->value[i] = delta >= 1.0 || !(mu > 0.0) ? 0.0 : fa_or_unknown(fa_gaussian_epsilon(mu, log(delta)));
        out->status[i] = FA_OK;
    }
    return in->n;
}

static int64_t fa_gaussian_delta_block(const fa_cells *in, const fa_question *ask, double seconds,
                                       const fa_answers *out)
{
    int64_t i;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i++) {
        double mu = in->mu[i], eps = in->target[i], d = 0.0;
        if (mu > 0.0 && eps != INFINITY)
            d = exp(fa_gaussian_log_delta(mu, eps)) * (1.0 + 4.0 * FA_EPS) + 0x1p-1074;
        out->value[i] = d <= 1.0 ? d : 1.0;
        out->status[i] = FA_OK;
    }
    return in->n;
}

static int64_t fa_basic_epsilon_block(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)
{
    int64_t i;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i++) {
        out->value[i] = fa_or_unknown(fa_basic_epsilon(in->sigma[i], in->q[i], in->steps[i], in->target[i]));
        out->status[i] = FA_OK;
    }
    return in->n;
}

static int64_t fa_advanced_epsilon_block(const fa_cells *in, const fa_question *ask, double seconds,
                                         const fa_answers *out)
{
    int64_t i;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i++) {
        out->value[i] = fa_or_unknown(fa_advanced_epsilon(in->sigma[i], in->q[i], in->steps[i], in->target[i]));
        out->status[i] = FA_OK;
    }
    return in->n;
}

static int64_t fa_clt_mu_approx_block(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)
{
    int64_t i;
    (void)ask;
    (void)seconds;
    for (i = 0; i < in->n; i++) {
        double q = in->q[i], steps = in->steps[i];
        out->value[i] = q > 0.0 && steps > 0.0 ? fa_clt_mu_approx(in->sigma[i], q, steps) : 0.0;
        out->status[i] = FA_OK;
    }
    return in->n;
}

#endif
