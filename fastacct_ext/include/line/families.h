/* line/families.h -- the kinds of loss: what each does in a way of its own.
 *
 * Sampled Gaussians have nodes that are uniform in z on the left and in the loss on the right; those of other mixtures
 * are uniform in z.  All else is the same for both: the pair says where a loss is, what lies beyond a window, and how
 * fast it rises.
 */
#ifndef FA_LINE_FAMILIES_H
#define FA_LINE_FAMILIES_H

#include "capped_errors.h"

FA_FUNC int fa_cap_fill_rough(const fa_cap_block *block, fa_cap_nodes *s, double h, double edge, double narrow,
                              double z_low, double z_high, int all)
{
    double stretch = fa_min(1.0, 1.2 * edge / h);
    (void)narrow;
    if (!(all ? fa_cap_fill(block, s, h, stretch, z_low, z_high)
              : fa_cap_fill_coarse(block, s, h, stretch, z_low, z_high)))
        return 0;
    if (all > 1)
        fa_cap_bends(block, s);
    return 1;
}

FA_FUNC int fa_mix_fill_rough(const fa_cap_block *block, fa_cap_nodes *s, double h, double edge, double narrow,
                              double z_low, double z_high, int all)
{
    (void)edge, (void)all;
    return fa_mix_fill(block, s, fa_min(h, 1.2 * narrow * block->inv_var), z_low, z_high);
}

static const fa_family fa_sampled_family = {6.5,
                                            fa_cap_fill_rough,
                                            fa_cap_lay_line,
                                            fa_cap_moduli_of,
                                            fa_cap_majorant_all,
                                            fa_cap_majorant_large};
static const fa_family fa_mixture_family = {8.3,
                                            fa_mix_fill_rough,
                                            fa_mix_lay_line,
                                            fa_mix_fill_moduli,
                                            fa_mix_majorant_all,
                                            fa_mix_majorant_large};

#endif
