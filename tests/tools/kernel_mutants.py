"""Entries of the kernels' ledgers that were taken out one by one: python -m tests.take_out runs them.

As mutants.py, for rules in C headers: each row is a header, a piece of its text and what stands there without the rule,
and a test.  No row of MUTANTS needs a build of the package: tests/kernels/test_direct_sums.py compiles its programs
from the headers of the scratch copy, and kernel_parts.py the functions of tests/kernels/parts (3 to 8 s a row).  Tests
of the rows of BUILT ask the package, one level of which is built without the rule first (25 s a row).  All rows take 20
to 40 minutes.
"""

SUMS = "kernels/direct_sums test_bounds_of_a_line_hold and "
MOMENTS, MIXTURE, SUMMED = (
    "kernels/direct_sums test_bounds_of_the_moments",
    "renyi/mixture_moments.h",
    "renyi/moments.h",
)
PIECES, EDGES = "kernels/direct_sums test_bounds_of_losses_that_are_data", "kernels/direct_sums test_bounds_of_windows"
ERRORS, LEDGER, TAIL = "line/capped_errors.h", "line/capped_ledger.h", "line/capped_tail.h"
RAY, LATTICE, RAYS = "line/ray_line.h", "line/lattice_line.h", "kernels/line/flat test_every_error_of_a_ray"
STEP, NEXT_TO_END = "exact/one_step.h", "kernels/exact/one_step test_a_sampled_step_next_to_its_largest_loss"
TWO_MASSES = "kernels/exact/one_step test_a_step_of_mixtures_needs_its_errors"
PLACES, READ = "kernels/line/flat test_a_place_next_to_epsilon", "kernels/line/flat test_bounds_of_delta_and_epsilon"
PANEL, WINDOW, COMPOSED = "density/panel.h", "density/window.h", "kernels/density/panel test_every_error"
COARSE = "kernels/density/panel test_masses_of_coarse"
ROOT, CHECKED, MEETS = (
    "invert/root.h",
    "kernels/exact/answers test_what_a_search_ends_at",
    "kernels/exact/answers test_a_parameter_meets",
)
READOUT, LARGER = "exact/exact_readout.h", "kernels/exact/answers test_the_larger_direction"
THEOREMS = "kernels/exact/one_step test_basic_and_advanced"
MISSED = "kernels/loss/sums_of_ratios test_what_coarse_densities"
CONVERSION, FORMULAS = "renyi/conversion.h", "kernels/renyi/conversion test_both_conversions"
PROFILE, PROFILES = "loss/gaussian_profile.h", "kernels/loss/gaussian_profile test_delta_is_above"
MOMENT, WHOLE_ORDERS = "renyi/log_moment.h", "kernels/renyi/log_moment test_whole_orders"
SERIES, WIDE = "renyi/order_series.h", "kernels/renyi/order_series test_a_leaf_that_is_too_wide"
# fmt: off
MUTANTS = (
    # quadrature
    (ERRORS, "errors->fixed = block->moduli.line + ends;\n    errors->mean = block",
     "errors->fixed = ends;\n    errors->mean = block", SUMS + "sampled"),
    (ERRORS, "errors->fixed = block->moduli.line + ends;\n        errors->mean = errors->large",
     "errors->fixed = ends;\n        errors->mean = errors->large", SUMS + "few and added"),
    (ERRORS, "errors->mean = block->moduli.mean + fa", "errors->mean = fa", SUMS + "sampled"),
    (ERRORS, "block->moduli.large + ends +\n                        (fa_cap_unseen",
     "ends +\n                        (fa_cap_unseen", SUMS + "participations"),
    (ERRORS, "block->moduli.large + ends +\n                            2.0 * (fa_cap_unseen",
     "ends +\n                            2.0 * (fa_cap_unseen", SUMS + "few and added"),
    (LEDGER, "out->quadrature = 1.02 * h / FA_PI * share;", "",
     "kernels/line/capped_line test_every_entry and quadrature"),
    (LEDGER, "        low = fa_cap_weigh_floor(job, line, log_scale);", "        low = 0.0;",
     SUMS + "participations"),
    ("line/capped_chernoff.h", "block->moduli.low : block->moduli.right", "block->moduli.low : 0.0", SUMS + "sampled"),
    ("line/capped_chernoff.h", "block->moduli.low : block->moduli.right", "0.0 : block->moduli.right",
     SUMS + "participations"),
    ("line/mixture_moduli.h", "line1[j] = plain > 0.0 ? eb : eb + ek * (1.0 + x);", "line1[j] = 0.0;", SUMS + "group"),
    # moduli beyond the nodes
    (ERRORS, "return sum + beyond * last;", "return sum;", SUMS + "added and not few"),
    (ERRORS, "sum = beyond * fa_min(f1[0], f2[0]), last", "sum = 0.0, last", SUMS + "added and not few"),
    ("line/mixture_moduli.h", "one[0] *= fa_max(1.0, 2e-4 * fa_mix_beyond(block, rate, v, 1));", "",
     SUMS + "replaced"),
    # ends
    (ERRORS, "errors->fixed = block->moduli.line + ends;\n    errors->mean = block",
     "errors->fixed = block->moduli.line;\n    errors->mean = block", SUMS + "sampled"),
    (ERRORS, "errors->fixed = block->moduli.line + ends;\n        errors->mean = errors->large",
     "errors->fixed = block->moduli.line;\n        errors->mean = errors->large", SUMS + "few and added"),
    (ERRORS, "block->moduli.mean + fa_cap_mean_ends(block)", "block->moduli.mean", SUMS + "sampled"),
    (ERRORS, "fa_cap_mean_ends(block)", "block->family->ends(block, 1.0, 1.0, 2)", SUMS + "cut"),
    ("line/capped_ends.h", "order) + fa_cap_right_end(block, v, u);", "order);", SUMS + "sampled"),
    ("line/capped_ends.h", "return fa_cap_left_end(block, v, u, order) +", "return", SUMS + "sampled"),
    ("line/capped_chernoff.h", "error += block->family->ends(block, real, v, 1) +", "error +=", SUMS + "sampled"),
    ("line/capped_chernoff.h", "error += fa_cap_plain_ends(block, real) +", "error +=", SUMS + "few and added"),
    ("line/capped_chernoff.h", "small_only && block->split && block->pair ? fa_cap_low_end(block, v) : 0.0;", "0.0;",
     SUMS + "outweigh"),
    ("line/capped_ends.h", "return mass + 2.0 * (beyond + here / fall) / width;", "return mass;", SUMS + "sampled"),
    ("line/capped_ends.h", "        least = mass * exp(", "        least = 0.0 * exp(", SUMS + "group"),
    # tail
    (LEDGER, "out->tail = fa_cap_close_tail(job, line, effort, eps, log_value);",
     "(void)fa_cap_close_tail(job, line, effort, eps, log_value);",
     "kernels/line/capped_line test_every_entry and tail"),
    (TAIL, "return log(sum + before);", "return log(sum);", SUMS + "added and not few"),
    (TAIL, "*slack_out = pay * (2.1 * swollen / sum + FA_EPS * (4.0 * n + fuzzy / sum));", "", SUMS + "sampled"),
    # rounding
    (LEDGER, "(sum - share + low + 8.0 * FA_EPS * size)", "(0.0 * size)",
     "kernels/line/capped_line test_rounding_is_needed"),
    (ERRORS, "out->near = FA_EPS * (near + (10.0 + w->off) * w->q_mass) +", "out->near =", SUMS + "added and not few"),
    (ERRORS, "out->far = FA_EPS * (far + (10.0 + w->off) * w->q_mass) +", "out->far =", SUMS + "added and not few"),
    (ERRORS, "errors->near = fa_cap_rounding_plain(block, line, fabs(c), steps);", "errors->near = 0.0;",
     SUMS + "few and added"),
    (ERRORS, "fa_cap_rounding_large(block, line, u, steps) + block->moduli.large + ends +\n" + 28 * " " + "2.0",
     "block->moduli.large + ends +\n" + 28 * " " + "2.0", SUMS + "few and added"),
    ("line/capped_line.h",
     "s->mean_error = FA_EPS * (error + (64.0 + w->off) * (fabs(w->gain) + fabs(s->mean) * w->q_mass));",
     "s->mean_error = 0.0;", SUMS + "sampled"),
    # put
    (LEDGER, "    out->put = fa_cap_put(job, line, eps, log_value, &out->put_rate, &out->rare);\n"
     "    if (job->has_floor)",
     "    if (job->has_floor)", "kernels/line/capped_line test_every_entry and put"),
    (LEDGER, "s->log_q[j] + raise) + cell * b);", "s->log_q[j] + raise));", SUMS + "sampled"),
    (LEDGER, "a, 0, block->family->back_error(block, a));", "a, 0, 0.0);", SUMS + "sampled"),
    (LEDGER, "return fa_cap_exp(job->lost.log_q - log_value);", "return 0.0;",
     "kernels/line/capped_ledger test_what_a_cap_takes"),
    # rest, aliases, closed parts, and their sum
    (LEDGER, "        out->floor = fa_cap_entry(fa_cap_log_weight(job, eps, log_value, p->low, 1));", "        ;",
     "kernels/line/capped_line test_every_entry and floor"),
    (LEDGER, "out->alias = fa_cap_alias(job, line, eps, log_value, p->right);", "",
     "kernels/line/capped_line test_every_entry and alias"),
    (LEDGER, "    out->alias += left;", "", "kernels/line/capped_line test_aliases_of_very_coarse"),
    (LEDGER, "out->closed = fa_cap_closed_error(job, eps, log_value);", "", SUMS + "participations"),
    (LEDGER, "out->rounding + out->closed +", "out->rounding +", "kernels/line/capped_line test_all_entries"),
    (LEDGER, "out->up = both + out->put + out->rare + out->floor;", "out->up = both + out->put + out->rare;",
     "kernels/line/capped_line test_all_entries"),
    ("line/capped_closed.h", "1e-25 + fa_cap_low_apart(job, eps, ref) +", "1e-25 +", SUMS + "few and added"),
    ("line/capped_closed.h", "fa_cap_low_apart(job, eps, ref) + FA_EPS * exp(size) *",
     "fa_cap_low_apart(job, eps, ref) + 0.0 *", SUMS + "few and added"),
    ("line/capped_chernoff.h", "return fa_min(lost < 0.1 ? 1.2 * lost : INFINITY,", "return fa_min(0.0 * lost,",
     SUMS + "few and added"),
    ("line/mixture_loss.h", "#define FA_MIX_FORGET 50.0", "#define FA_MIX_FORGET 2.0",
     "kernels/line/groups test_epsilons_of_two_steps"),
    (READOUT, "d.upper - (log_delta - e->off)", "d.upper - log_delta",
     "kernels/line/groups test_a_delta_that_may_be_off"),
    ("line/mixture_tail.h", "most = average + sqrt(variance)", "most = 0.5 * average", SUMS + "group and not added"),
    ("line/mixture_tail.h", "return fa_min(2.0 * exp(size), FA_CAP_LONGER * first / (s->h * fall));", "return 0.0;",
     SUMS + "added and group"),
    # losses that are data
    ("loss/mesh.h", "size[i] = log_half + fa_log_v(", "size[i] = -30.0 + 0.0 * fa_log_v(", PIECES),
    ("loss/mesh.h", "size = e->log_size + p->curve * e->grow +", "size = e->log_size +", PIECES),
    ("loss/mesh.h", "size[0] = log_half + 2.0 * FA_LN2", "size[0] = -30.0", PIECES),
    ("loss/pieces.h", "*at += v * (v < 0.0 ? bend->middle", "*at += 0.0 * (v < 0.0 ? bend->middle", PIECES),
    ("loss/mesh.h", "now = fa_max(now, many + fa_ellipse_error(part->panel + i, e, two, turned));", "", PIECES),
    ("loss/mesh.h", "turn[i] = fa_min(y[i], y[i] * rise[n + i] / co)", "turn[i] = 0.0", PIECES),
    ("loss/share.h", "return 2.0 * fa_max(f[0], f[1]) * (1.0 + 1e-9);", "return fa_max(f[0], f[1]);", PIECES),
    ("loss/share.h", "log(share.atoms + share.variation / t)", "log(share.variation / t)", PIECES),
    ("loss/share.h", "out.size = fa_pieces_size(law, v, edges);", "out.size = v * fa_pieces_end(law, v > 0.0);",
     PIECES),
    ("renyi/pieces_moments.h", "at->rule[1] = e / ease;", "at->rule[1] = 0.0;", PIECES),
    ("renyi/pieces_moments.h", "at->of_g = e / ease +", "at->of_g = 0.0 * e +", PIECES),
    ("renyi/pieces_moments.h", "(s[0].off + scale * at->rule[0]) / s[0].sum;", "s[0].off / s[0].sum;", PIECES),
    ("loss/cells.h", "unit = 4.0 / (FA_PI * FA_PI)", "unit = 1.0", PIECES),
    ("loss/cells.h", "w.s2 / w.s0 - (w.s1 / w.s0) * (w.s1 / w.s0)", "w.s2 / w.s0", PIECES),
    # windows on them
    ("loss/edges.h", "(turn * turn - away * away) /", "(-away * away) /", EDGES),
    ("loss/edges.h", "size + 1e-9 : log1p(exp(size))", "size : 0.0", EDGES),
    ("loss/path.h", "+ 0.5 * p->curve * y * y + log_length", "+ log_length", EDGES),
    ("loss/path.h", "arch, clear, turn * (1.0 + 1e-9), edges)", "arch, 0.0, 0.0, edges)", EDGES),
    ("loss/pieces.h", "return 0.5 * fa_log1p_plain_v(-4.0 * most * side * side) - 2e-15;", "return 0.0;",
     "kernels/loss/share test_how_near_0"),
    ("line/pieces_cap.h", "w->off = 8.0 + n + fa_max(q_off / q, off / gain) +", "w->off = 1.0 +", EDGES),
    ("line/pieces_cap.h", "s->sum.log_w[j] = size + 1e-6 +", "s->sum.log_w[j] = size - 1e-6 +", EDGES),
    ("line/pieces_nodes.h", "block->whole = (1.0 + 1e-9) * fa_cap_exp(", "block->whole = 0.5 * fa_cap_exp(", EDGES),
    ("line/pieces_nodes.h", "block->dip.at) * inv)) * 1.000001;", "block->dip.at) * inv)) * 0.999;", EDGES),
    # moments of mixtures
    (MIXTURE, "s->slack += 4.0 * alias *", "s->slack += 0.0 * alias *", MOMENTS),
    (MIXTURE, "s->slack += 2.0 * size * (1.0 + step) * left * left", "s->slack += 0.0 * left", MOMENTS),
    (MIXTURE, "s->slack += 2.0 * size * (1.0 + step) * right * right", "s->slack += 0.0 * right", MOMENTS),
    (MIXTURE, "s->slack += 2.0 * size * reach * reach * count", "s->slack += 0.0 * count", MOMENTS),
    (MIXTURE, "rough[j] / all[j] +", "0.0 +", MOMENTS),
    (SUMMED, "more * (s->e2_off + fabs(u) * s->back_off)", "0.0", MOMENTS),
    (SUMMED, "more * (s->first_off + s->back_off)", "0.0", MOMENTS),
    (SUMMED, "more * s->moved_off", "0.0", MOMENTS),
    (SUMMED, "fa_max(0.0, raw.lower - far * far", "fa_max(0.0, raw.lower - near * near", MOMENTS),
    (SUMMED, "variance.upper = raw.upper - near * near", "variance.upper = raw.upper - far * far", MOMENTS),
    # rays
    (RAY, "both = exp(moduli) * alias + exp(line->plain", "both = exp(line->plain", RAYS),
    (RAY, "exp(line->cut - c1 * by - line->ref) + fa_cap_exp(", "fa_cap_exp(", RAYS),
    (RAY, "fa_cap_exp(line->rule - c1 * by + line->away * fabs(by) - line->ref) +", "0.0 +", RAYS),
    (RAY, "1.05 * off + FA_EPS * size;", "FA_EPS * size;", RAYS),
    # lattices
    (LATTICE, "both = (1.01 * sums[2] +", "both = (0.0 * sums[2] +", "kernels/line/flat test_atoms_that_are_left_out"),
    (LATTICE, "    out.down += fa_lattice_alias(line, line->left, line->k[0], eps, out.log_value);", "",
     "kernels/line/flat test_aliases_of_a_short_period"),
    (LATTICE, "return 1.001 * fa_cap_exp(k + fa_log_b(v)", "return 0.8 * fa_cap_exp(k + fa_log_b(v)",
     "kernels/line/flat test_aliases_of_a_short_period"),
    (LATTICE, "    if (!line->whole)\n        out.down +=", "    if (0)\n        out.down +=",
     "kernels/line/flat test_aliases_of_a_short_period"),
    # their ends and places, and what is read of them
    ("line/ray_ends.h", "out->rest[j] = size[0][j] *", "out->rest[j] = 0.3 * size[0][j] *", PIECES),
    ("line/ray_ends.h", "    return sum + end->atom;\n}", "    return sum;\n}", PIECES),
    ("line/ray_places.h", "rays->snap = fa_max(rays->snap, fabs(f - k) * last->gap);", "", PLACES),
    (RAY, "2.0 * line->drift + line->rays.snap,", "2.0 * line->drift,", PLACES),
    ("line/flat_place.h", "return 1.2 * shift * fa_cap_exp(log_chernoff);", "return 0.0;", PLACES),
    ("line/ray_sums.h", "if (fabs(away) * least > 50.0)", "if (fabs(away) * least > 5.0)", RAYS),
    ("line/flat.h", "fa_min(0.0, r.log_value + log1p(r.up));", "fa_min(0.0, r.log_value);", READ),
    ("line/flat.h", "out->lower = r.log_value + log1p(-r.down);", "out->lower = r.log_value;", READ),
    # masses of densities, and composed ones
    (PANEL, "at.p_off = FA_PANEL_FACTOR * fabs(at.p - p_rough) +", "at.p_off =", COARSE),
    (PANEL, "at.q_off = FA_PANEL_FACTOR * fabs(at.q - q_rough) +", "at.q_off =",
     "kernels/density/panel test_panels_in_which"),
    (PANEL, "upper += chord;", "", COARSE),
    (WINDOW, "eps -= sign * (w->slack +", "eps -= sign * (", COMPOSED),
    (WINDOW, "total += sign * (fa_window_error(w, (double)w->n - k, near) +", "total += sign * (", COMPOSED),
    (WINDOW, "norm * w->norm_error) * (1.0 + 1e-9);", "0.5 * norm * w->norm_error) * (1.0 + 1e-9);", COMPOSED),
    (WINDOW, " + fa_window_scaled(w, sign * left_out * w->peak, eps);", ";", COMPOSED),
    (WINDOW, "w->above + (!w->is_upper || eps < w->first ? w->below : 0.0);", "w->above;", COMPOSED),
    (WINDOW, "w->peak * (1.0 + 1e-12), FA_WINDOW_NORMAL);", "w->peak * 0.99, FA_WINDOW_NORMAL);",
     "kernels/density/panel test_a_log_moment_alone"),
    (WINDOW, "return w->is_upper ? high : low;", "return w->is_upper ? low : high;",
     "kernels/density/panel test_epsilon_of"),
    (WINDOW, "total *= 1.0 + (w->is_upper ? 2.0 : -2.0) * FA_WINDOW_ULP;", "",
     "kernels/density/panel test_infinite_losses"),
    # parameters that meet a target, and answers of both directions
    (ROOT, "if (w <= 0.0 && w > -FA_SLACK)", "if (w <= FA_SLACK && w > -FA_SLACK)", CHECKED),
    (ROOT, "        if (fa_meets(t, x))\n", "        if (1)\n", CHECKED),
    (ROOT, "mine = last->excess <= 0.0 ?", "mine = last->excess <= 1e-6 ?", MEETS),
    ("invert/calibrate.h", "if (w <= 0.0) {\n            low =", "if (w <= 1e-2) {\n            low =", MEETS),
    ("invert/calibrate.h", "if (eps <= t->eps)\n            low", "if (eps <= 1.01 * t->eps)\n            low", MEETS),
    ("invert/calibrate.h", "((t->exact->directions & FA_WAYS_REMOVE) && high + 1.0 >", "(high + 1.0 >", MEETS),
    ("invert/trial.h", "e->end[1] * (1.0 + 8.0 * FA_EPS) <= run->eps", "e->end[1] * 0.9 <= run->eps",
     "kernels/exact/answers test_an_epsilon_just_below"),
    ("exact/exact_job.h", "eta = near * end, chance = 0.0;", "eta = 1e6 * near * end, chance = 0.0;",
     "kernels/exact/answers test_epsilon_is_below"),
    (READOUT, "any = log(-expm1(e->steps *", "any = log(-expm1(0.5 * e->steps *",
     "kernels/exact/answers test_no_delta"),
    (READOUT, "sum = log(e->steps) + log(e->q)", "sum = log(e->q)", "kernels/exact/answers test_no_delta"),
    (READOUT, "        (r.lower > -INFINITY && fa_add_is_below(e, eps, r.lower))) {", "        1) {", LARGER),
    (READOUT, "(r.upper == 0.0 || fa_add_is_below(e, r.upper, log_delta - e->off))", "1", LARGER),
    (READOUT, "    if (e->symmetric || eps >= e->end[1] *", "    if (1 || eps >= e->end[1] *", LARGER),
    (READOUT, "    r.upper = fa_max(r.upper, add.upper);\n    return r;\n}\n\nFA_FUNC fa_interval fa_exact_eps(",
     "    return r;\n}\n\nFA_FUNC fa_interval fa_exact_eps(", LARGER),
    # densities of means
    ("loss/sums.h", "    s->absolute += lost;\n", "", MISSED),
    ("loss/sums.h", "        out[m + FA_SUM_PAD] = out[1 - m + FA_SUM_PAD] = 0.32 * c / (m - 1);\n", "", MISSED),
    ("loss/sums.h", "double cell = 0.5 * grow / y;", "double cell = 1e-9 * grow / y;", MISSED),
    ("loss/sums.h", "s->absolute += 2.0 * s->step * all * fa_max(1.0, up[i]) *", "s->absolute += 0.0 *", MISSED),
    ("loss/allocation.h", " + 2.0 * FA_SUM_SMALL * FA_SUM_ABOUT * (w.high - w.low + 1) +\n", " +\n", MISSED),
    ("loss/allocation.h", "out->absolute += a->absolute + b->absolute + a->absolute * b->absolute;", "", MISSED),
    ("loss/allocation.h", "out->absolute += a->absolute + b->absolute +", "out->absolute += a->absolute +",
     "kernels/loss/sums_of_ratios test_what_is_missed_of_one"),
    # growth of errors over all steps
    (LEDGER, "e = x < 0.1 ? power * x :", "e = x < 0.1 ? 0.5 * power * x :",
     "kernels/line/capped_ledger test_errors_of_all_points"),
    (LEDGER, "power = job->has_floor ? 1.06 * steps : steps, weight", "power = 1.0, weight",
     "kernels/line/capped_ledger test_errors_of_all_points"),
    # without a line
    ("line/capped_bound.h", "            1.001 * fa_cap_exp(", "            0.1 * fa_cap_exp(",
     "kernels/line/capped_ledger test_the_bound_without"),
    # theorems that compose steps
    ("exact/classical.h", "strong = eps0 * sqrt(2.0 * steps * -log(0.5 * delta))",
     "strong = eps0 * sqrt(2.0 * steps * -log(delta))", THEOREMS),
    ("exact/classical.h", "log(0.5 * delta) - log(steps) -", "log(delta) - log(steps) -", THEOREMS),
    ("exact/classical.h", "log_delta0 - log(q) -", "log_delta0 -", THEOREMS),
    # series of orders, jumps that two panels share
    (SERIES, "if (low >= FA_LEAF_LEAST &&", "leaf->relative = 0.0;\n        if (low >= FA_LEAF_LEAST &&", WIDE),
    (SERIES, "rest += left_out ? peak[i] : 0.0;", "rest += 0.0;", WIDE),
    (SERIES, "return 1.001 * leaf->coefficient[FA_TERMS - 1] * most / (FA_TERMS - most);", "return 0.0;", WIDE),
    ("renyi/shared_search.h", "        total += leaf->relative * fa_min(total, 1.0);", "", WIDE),
    ("loss/share.h", "        sum += 2.0 * exp(fa_panel_log_size", "        sum += 2.2 * exp(fa_panel_log_size",
     "kernels/loss/share test_the_variation"),
    # the start of a line, deltas below every double
    ("line/capped_line.h", "FA_FMA(x2, -1.0 / 1307674368000.0, 1.0 / 6227020800.0);", "1.0 / 6227020800.0;",
     "kernels/num/start test_the_functions"),
    (READOUT, "#define FA_NOTHING -745.2", "#define FA_NOTHING -400.0",
     "kernels/exact/answers test_a_delta_that_is_a_double"),
    # what they rest on: intervals, tails, conversions, log-moments, deltas of Gaussians
    ("num/interval.h", "a.upper >= b.upper ? a.upper : b.upper >= a.upper ? b.upper : NAN", "fa_min(a.upper, b.upper)",
     "kernels/num/interval test_where_they_do_not_meet"),
    ("num/window.h", "log(0.5 * erfc(x * FA_HALF_ROOT))", "log(0.45 * erfc(x * FA_HALF_ROOT))",
     "kernels/num/window test_the_tail"),
    (CONVERSION, "(k - log_delta) / a", "(k - log_delta) / (1.0 + a)", FORMULAS),
    (CONVERSION, "return k - a * eps - gain - log_alpha +", "return k - a * eps - 2.0 * gain - log_alpha +", FORMULAS),
    (CONVERSION, "log(expm1(k) + rest);", "log(expm1(k) + 0.5 * rest);",
     "kernels/renyi/conversion test_the_optimal_conversion_needs"),
    (MOMENT, "0.5 * (a / sigma) * ((1.0 + a) / sigma)", "0.5 * (a / sigma) * (a / sigma)",
     "kernels/renyi/log_moment test_without_sampling"),
    ("renyi/binomial_series.h", "if (j < 2.0)", "if (j < 3.0)", WHOLE_ORDERS),
    ("renyi/node_cache.h", "lm->kl[i + 1] = lm->kl[i] + sum;", "lm->kl[i + 1] = lm->kl[i];", WHOLE_ORDERS),
    ("renyi/quadrature.h", "fa_max(1.0 + a, 2.0) + FA_TAIL_WIDTH * m->sigma", "fa_max(1.0 + a, 2.0) + m->sigma",
     WHOLE_ORDERS),
    ("loss/sampled.h", "return (1.0 + a) * psi;", "return a * psi;", WHOLE_ORDERS),
    ("renyi/order_search.h", "total->upper += n * one.upper;", "total->upper += one.upper;",
     "kernels/renyi/order_search test_log_moments"),
    ("renyi/order_search.h", "fa_min(0.5 * kl, -expm1(-kl))", "fa_min(0.25 * kl, -expm1(-kl))",
     "kernels/renyi/order_search test_total_variation"),
    (PROFILE, "bracket *= mu;", "bracket *= 0.9 * mu;", PROFILES),
    (PROFILE, "log1p(-miss * (1.0 - 1e-12", "log1p(-2.0 * miss * (1.0 - 1e-12", PROFILES),
    # one step
    (STEP, "r.upper = fa_min(0.0, log_delta + scale + pad);", "r.upper = fa_min(0.0, log_delta + scale);", NEXT_TO_END),
    (STEP, "r.lower = log_delta + scale - pad -", "r.lower = log_delta + scale -", NEXT_TO_END),
    (STEP, "pad = 4.0 * FA_EPS * ((q + expm1(eps)) / k + e + 1.0);", "pad = 4.0 * FA_EPS * (e + 1.0);", NEXT_TO_END),
    (STEP, "most = 16.0 * FA_EPS * (q + expm1(eps));", "most = 1e-300;",
     "kernels/exact/one_step test_a_sampled_step_a_few"),
    (STEP, "fa_min(0.0, log(fa_max(d, 0.0) + slip));", "fa_min(0.0, log(fa_max(d, 0.0)));", TWO_MASSES),
    (STEP, "r.lower = d > slip ? log(d - slip) : -INFINITY;", "r.lower = d > slip ? log(d) : -INFINITY;", TWO_MASSES),
)
BUILT = (
)
# fmt: on
