/* exact/classical_blocks.h -- the accountants before Renyi DP, and a Gaussian in closed form, over n cells. */
#ifndef FA_CLASSICAL_BLOCKS_H
#define FA_CLASSICAL_BLOCKS_H

#include "../kernels.h"
#include "classical.h"

/* what is not a number, or below 0, is unknown */
FA_INLINE double fa_or_unknown(double epsilon) { return epsilon >= 0.0 ? epsilon : INFINITY; }

/* a kernel that gives one number for each cell i of `in`, and nothing that can fail */
#define FA_KERNEL_OF_VALUES(name, value_of_cell)                                                                       \
    static int64_t name(const fa_cells *in, const fa_question *ask, double seconds, const fa_answers *out)             \
    {                                                                                                                  \
        int64_t i;                                                                                                     \
        (void)ask;                                                                                                     \
        (void)seconds;                                                                                                 \
        for (i = 0; i < in->n; i++) {                                                                                  \
            out->value[i] = value_of_cell;                                                                             \
            out->status[i] = FA_OK;                                                                                    \
        }                                                                                                              \
        return in->n;                                                                                                  \
    }

FA_KERNEL_OF_VALUES(fa_gaussian_epsilon_block, fa_or_unknown(fa_gaussian_epsilon(in->mu[i], log(in->target[i]))))
FA_KERNEL_OF_VALUES(fa_gaussian_delta_block, fa_gaussian_delta(in->mu[i], in->target[i]))
FA_KERNEL_OF_VALUES(fa_basic_epsilon_block,
                    fa_or_unknown(fa_basic_epsilon(in->sigma[i], in->q[i], in->steps[i], in->target[i])))
FA_KERNEL_OF_VALUES(fa_advanced_epsilon_block,
                    fa_or_unknown(fa_advanced_epsilon(in->sigma[i], in->q[i], in->steps[i], in->target[i])))
FA_KERNEL_OF_VALUES(fa_clt_mu_approx_block, fa_clt_mu_approx(in->sigma[i], in->q[i], in->steps[i]))

#endif
