/* line/families.h -- the kinds of loss: what each does in a way of its own.
 *
 * Sampled Gaussians have nodes that are uniform in z on the left and in the loss on the right; those of other mixtures
 * are uniform in z.  All else is the same for both: the pair says where a loss is, what lies beyond a window, and how
 * fast it rises.  Losses that are data have rules of their own, in panels, z being the loss.
 */
#ifndef FA_LINE_FAMILIES_H
#define FA_LINE_FAMILIES_H

#include "capped_ledger.h"

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

/* of losses that are data, by what their own files have */
FA_FUNC int fa_pieces_find_rough(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line,
                                 const fa_cap_effort *effort)
{
    (void)job, (void)effort;
    return fa_pieces_lay_real(block, &block->nodes, line->plan.tilt, line->plan.tilt, 0.0);
}

FA_FUNC int fa_pieces_lay_for(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line,
                              const fa_cap_effort *effort, double t)
{
    const fa_cap_plan *plan = &line->plan;
    return fa_pieces_lay_line(block, plan->tilt, fa_cap_tilt(job, plan->right), plan->low, job->fall_a, t,
                              effort->need + plan->excess);
}

FA_FUNC fa_cap_moduli fa_pieces_measure(const fa_cap_job *job, fa_cap_block *block, const fa_cap_line *line, double t,
                                        double v_right)
{
    return fa_pieces_quadrature(job, block, line->plan.tilt, line->plan.low, t, v_right);
}

FA_FUNC double fa_pieces_back_error(const fa_cap_block *block, double a) { return fa_pieces_real_error(block, a, 0.0); }

FA_FUNC double fa_pieces_majorant_all(fa_cap_block *block, const fa_cap_line *line, double t, double lower, double pay,
                                      double *slack_out)
{
    (void)lower, (void)pay;
    *slack_out = 0.0;
    return fa_pieces_majorant(block, line->plan.tilt, t);
}

FA_FUNC double fa_pieces_majorant_of_large(fa_cap_block *block, const fa_cap_line *line, double t, double lower,
                                           double pay)
{
    (void)lower, (void)pay;
    return fa_pieces_majorant_large(block, line->plan.tilt, t);
}

static const fa_family fa_sampled_family = {.begin = 6.5,
                                            .place_cap = fa_cap_place_own_cap,
                                            .rough = fa_cap_fill_rough,
                                            .coarse = fa_cap_fill_for,
                                            .find_rough = fa_cap_find_rough,
                                            .lay = fa_cap_lay_line,
                                            .quadrature = fa_cap_quadrature,
                                            .moduli = fa_cap_moduli_of,
                                            .ends = fa_cap_ends,
                                            .outside = fa_cap_beyond_sums,
                                            .back_error = fa_cap_back_error,
                                            .majorant = fa_cap_majorant_all,
                                            .majorant_large = fa_cap_majorant_large};
static const fa_family fa_mixture_family = {.begin = 8.3,
                                            .place_cap = fa_cap_place_own_cap,
                                            .rough = fa_mix_fill_rough,
                                            .coarse = fa_cap_fill_for,
                                            .find_rough = fa_cap_find_rough,
                                            .lay = fa_mix_lay_line,
                                            .quadrature = fa_cap_quadrature,
                                            .moduli = fa_mix_fill_moduli,
                                            .ends = fa_cap_ends,
                                            .outside = fa_cap_beyond_sums,
                                            .back_error = fa_cap_back_error,
                                            .majorant = fa_mix_majorant_all,
                                            .majorant_large = fa_mix_majorant_large};
static const fa_family fa_pieces_family = {.place_cap = fa_pieces_place_cap,
                                           .coarse = fa_pieces_fill_for,
                                           .find_rough = fa_pieces_find_rough,
                                           .lay = fa_pieces_lay_for,
                                           .quadrature = fa_pieces_measure,
                                           .ends = fa_pieces_no_ends,
                                           .outside = fa_pieces_outside_sums,
                                           .back_error = fa_pieces_back_error,
                                           .majorant = fa_pieces_majorant_all,
                                           .majorant_large = fa_pieces_majorant_of_large};

#endif
