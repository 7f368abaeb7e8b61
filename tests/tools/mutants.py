"""Rules that were taken out one by one, and the test that must notice: python -m tests.mutants [part of a row ...].

Each row is one rule: a file, a piece of its text and what stands there without the rule, and a test.  The rule is taken
out in a scratch copy of the repository, where the test has to fail; before, all tests have to pass there unchanged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# fmt: off
MUTANTS = (
    # file in fastacct/, text, text without the rule, test: "verbs/jit test_a" is in tests/verbs/test_jit.py, begins so
    ("mechanisms/network.py", "+ wide + far)", "+ wide)", "mechanisms/network test_cycles_that_are_too_long"),
    ("mechanisms/network.py", "+ wide + far)", "+ far)", "mechanisms/network test_contributions_that_are_too_many"),
    ("mechanisms/network.py", "* chances, axis=-1) * (1.0 + 1e-12)", "* chances, axis=-1)",
     "mechanisms/network test_rounding_of_a_sum"),
    ("mechanisms/random_graph.py", "rounding=ROUND_CEILING", "rounding='ROUND_FLOOR'",
     "mechanisms/random_graph test_probabilities_of_few"),
    ("mechanisms/gaussian.py", "if near <= root else math.nextafter(near, 0.0)", "",
     "mechanisms/gaussian test_noise_of_several"),
    ("mechanisms/gaussian.py", "== np.inf), noise, np.nextafter(noise, 0.0))", "== np.inf), noise, noise)",
     "mechanisms/gaussian test_noise_of_gaussian_dp"),
    ("mechanisms/selection.py", "float_above(one) if", "float(one) if", "mechanisms/selection test_the_quotient_is"),
    ("core/bounds.py", "if math.isnan(lower) or math.isnan(upper):", "if False:", "core/bounds test_what_is_no_number"),
    ("losses/revealed.py", "nan=1.0) + 2e-12", "nan=1.0)", "mechanisms/network test_an_error_of_the_share"),
    ("losses/measure.py", "error + slip if side > 0.0 else 9.0 * error + 2.0 * slip", "error",
     "readers/grid/ledger test_losses_that"),
    ("losses/measure.py", "+ side * (1.5 + 0.5 * side) * away", "", "readers/grid/ledger test_losses_that"),
    ("losses/panels.py", "excess += (mass - excess) * ", "mass * ", "losses/masses test_masses_of_both"),
    ("losses/panels.py", "rate * (scale * rise)", "(scale * rise)", "losses/masses test_masses_of_a_sampled"),
    ("losses/loss.py", "np.searchsorted([most for most, _ in _RULES], reach)", "0 * np.searchsorted([1.0], reach)",
     "losses/masses test_rules"),
    ("losses/measure.py", "rest = np.maximum(gap -", "rest = np.maximum(0.9 * gap -",
     "losses/measure test_atoms_between"),
    ("readers/grid/window.py", "self.below.delta(epsilon) - self.rest(epsilon)", "self.below.delta(epsilon)",
     "readers/grid/ledger test_what_lone"),
    ("readers/grid/reader.py", "math.ceil(math.sqrt(_ONCE * moved) + 0.5 * moved * spacing) + 2 +", "0 +",
     "readers/grid/ledger test_the_rest_reaches"),
    ("readers/grid/reader.py", "+ math.floor(dots.slack / spacing)", "", "readers/grid/ledger test_slack_beyond"),
    ("readers/grid/window.py", "(seen := self.finite(found)) > 0.0 and", "(seen := self.delta(found)) >= 0.0 and",
     "readers/grid/ledger test_the_largest_loss"),
    ("losses/loss.py", "ROUNDING * (4.0 + most)", "0.0", "readers/grid/ledger test_mass_below"),
    ("samplers/poisson.py", "base.loss_error[keep] + base.slack", "base.loss_error[keep]",
     "samplers/poisson test_errors_of_losses"),
    ("samplers/poisson.py", "* (1.0 + 2e-15 / (1.0 - rate))", "", "samplers/poisson test_pure_epsilon_of_a_sample"),
    ("samplers/truncated.py", ">= _SMALLEST], lost)", ">= _SMALLEST], 0.0)",
     "samplers/truncated test_a_truncation_too_rare"),
    ("samplers/draws.py", 'contributed(0.5 * noise, counts, "remove")', 'contributed(noise, counts, "remove")',
     "samplers/draws test_no_data_set"),
    ("samplers/draws.py", "2.0 * k / noise) for", "k / noise) for", "samplers/draws test_no_data_set"),
    ("samplers/draws.py", "Decimal(rate) / records", "Decimal(rate) / (records + 1)",
     "samplers/draws test_no_data_set"),
    ("samplers/draws.py", "if rest + waiting > 0:", "if waiting > 0:", "samplers/draws test_counts_are"),
    ("samplers/draws.py", "NOTHING if counts.below is None else pair(counts.below)", "pair(counts.above)",
     "samplers/draws test_counts_that_are_moved"),
    ("samplers/shuffled.py", "noise / moved", "noise", "samplers/shuffled test_shuffled_batches_are"),
    ("samplers/shuffled.py", "2.0 - moved", "1.0 - moved", "samplers/shuffled test_of_a_record_zeroed"),
    ("samplers/shuffled.py", "steps - 1.0", "steps - 2.0", "samplers/shuffled test_of_a_record_zeroed"),
    ("mechanisms/epochs.py", ', is_ordered=relation == "zero_out"', "", "samplers/shuffled test_the_record_is_on"),
    ("mechanisms/strategies.py", "b // n, most_shared", "b, most_shared", "mechanisms/strategies test_the_class_of"),
    ("mechanisms/strategies.py", "c[:, i::b]", "c[:, i : i + 1]", "mechanisms/strategies test_random_bins_are"),
    ("mechanisms/strategies.py", "self.own[1] - most)", "self.own[0] - most)",
     "mechanisms/strategies test_random_bins_are"),
    ("mechanisms/epochs.py", "(few + 1.0, longer)", "(few + 2.0, longer)", "samplers/draws test_blocks"),
    ("mechanisms/batches.py", "self.unsampled().poisson(self.sample_rate)", "self.mechanism.poisson(self.sample_rate)",
     "mechanisms/batches test_a_record_added"),
    ("gradient.py", "apart[2, is_whole] = np.maximum(1.0, np.rint(_BETWEEN * steps[is_whole]))", "pass",
     "verbs/gradient_edges test_next_to_the_largest_loss_whole"),
    ("gradient.py", "errors[(middle == 0.0).any(axis=-1) & (self.what == EPSILON)] = np.inf", "pass",
     "verbs/gradient_edges test_epsilons_next_to_0"),
    ("gradient.py", "np.minimum(apart[1], (1.0 - rate) / 8.0)", "apart[1]",
     "verbs/gradient_edges test_next_to_all_records"),
    ("gradient.py", "_sum(np.abs(_WEIGHTS[side]), half)", "0.0", "verbs/gradient test_derivatives_are_those"),
    ("batching.py", 'whole = given.get("selected", 1.0), math.floor', 'whole = given.get("selected", 1.0), math.ceil',
     "verbs/batching test_an_allocation"),
    ("batching.py", "-(-int(steps) // int(b))", "int(steps) // int(b)", "verbs/batching test_dpsgd_takes"),
    ("readers/cell_job.py", "upper = np.where(easier > 0.0, upper, np.inf)", "pass",
     "kernels/line/left_out test_a_component"),
    ("readers/cell_job.py", "upper = (upper + lost)", "upper = upper", "kernels/line/left_out test_a_component"),
    ("losses/mixture.py", " + sum(abs(a - b) / min(a, b) for a, b in pairs if b > 0.0)", "",
     "kernels/line/left_out test_a_weight"),
    ("sensitivity.py", "+ 2.0 * len(c) * unit * (np.abs(c).T @ np.abs(c)) * (c.min() < 0.0)", "* 0.5",
     "mechanisms/strategies test_no_participation"),
    ("privacy_loss.py", "2.0 * WEIGHTS_OFF * releases", "0.0", "verbs/privacy_loss test_tables_that_add_up"),
    ("readers/renyi.py", "np.maximum(best + padding, 0.0)", "np.maximum(best, 0.0)",
     "readers/renyi test_each_conversion"),
    ("readers/renyi.py", "np.minimum(best + padding, zero)", "np.minimum(best, zero)",
     "readers/renyi test_each_conversion"),
    ("ledger/filters.py", "else math.nextafter(found, math.inf)", "else found", "ledger/filters test_sums_of_a_filter"),
    ("sensitivity.py", "if Fraction(near) ** 2 >= Fraction(value) else math.nextafter(near, math.inf)", "",
     "verbs/sensitivity test_roundings"),
    ("core/rounding.py", "np.nextafter(moved, np.inf), moved))\n\n\ndef divided", "moved, moved))\n\n\ndef divided",
     "core/rounding test_products_are_rounded_up"),
    ("core/rounding.py", "np.nextafter(moved, 0.0)", "moved", "core/rounding test_quotients_are_rounded_down"),
    ("core/rounding.py", "np.asarray(divisor)) * (1.0 + 4e-16)", "np.asarray(divisor))",
     "core/rounding test_quotients_of_rounded"),
    ("core/rounding.py", "math.nextafter(rate, 1.0)", "rate", "core/rounding test_rates_of_batches"),
    ("core/rounding.py", "value + 1e-323", "value", "core/rounding test_products_that_underflow"),
    ("compat/dp_events.py", "(1 - 4e-16) / event.noise_parameter", "1 / event.noise_parameter",
     "compat/dp_events test_noise_of_a"),
    ("compat/dp_events.py", "p) / p) * (1 + 1e-15)", "p) / p)", "compat/dp_events test_epsilon_of_a_randomised"),
    ("compat/dp_events.py", "** 2 * (1 + 1e-15)", "** 2", "compat/dp_events test_rho_of_a_discrete"),
    ("mechanisms/process.py", "itertools.combinations_with_replacement(dict.fromkeys(jobs), int(count))",
     "[(one,) * int(count) for one in dict.fromkeys(jobs)]", "mechanisms/process test_a_record_may_be"),
    ("ledger/filters.py", "math.log(steps.size / delta)", "math.log(1.0 / delta)", "ledger/filters test_orders_of_an"),
    ("mechanisms/guarantee.py", "3.0**doublings", "2.0**doublings", "mechanisms/guarantee test_a_group_of_a_curve"),
    ("readers/ladder.py", " * (1.0 + math.exp(min(0.5 * one.target, 700.0)))", "", "readers/job test_a_replacement"),
    ("readers/ladder.py", "one.target / (1.0 + math.exp(half))", "one.target", "readers/job test_a_replacement"),
    ("readers/infinite.py", "(reading.upper + most)", "(reading.upper)", "readers/infinite test_what_is_lost"),
    ("readers/infinite.py", "np.logaddexp(reading.upper, math.log(most))", "reading.upper",
     "readers/infinite test_what_is_lost"),
    ("readers/infinite.py", "math.log1p(-one.q[1 - i]) - math.log1p(-one.p[i])",
     "math.log1p(-one.p[1 - i]) - math.log1p(-one.q[i])", "readers/infinite test_a_table"),
    ("readers/infinite.py", "one if way == REMOVE else one.flipped()", "one", "readers/infinite test_a_table"),
    ("readers/cell.py", "<= least", "<= 1.05 * least", "readers/cell test_a_direction"),
    ("core/bounds.py", "TIGHT_WIDTH = 1e-6", "TIGHT_WIDTH = 1e-4", "core/bounds test_an_interval"),
    ("core/bounds.py", "_TOUCH: Final = 1e-12", "_TOUCH: Final = 1e-3", "core/bounds test_bounds_meet"),
    ("ledger/accountant.py", "if self._epsilon(Process(more)) <= self.budget:",
     "if self._epsilon(Process(more)) <= self.budget * (1.0 + 1e-6):", "ledger/accountant test_steps_that_are_looked"),
    ("batching.py", "as_written(m), n // b)", "as_written(m), -(-n // b))", "verbs/batching test_groups_that"),
    ("mechanisms/batches.py", "np.asarray(self.batch_size) < np.asarray(self.records)",
     "np.asarray(self.batch_size) <= np.asarray(self.records)", "mechanisms/batches test_a_batch_of_all"),
    ("readers/cell_job.py", "sum(4.0 * count * pair.rounding for", "sum(0.0 * count * pair.rounding for",
     "readers/cell_job test_weights_that_are_off_move_epsilon"),
    ("losses/mixture_moments.py", "found += mixture.off * (flat + a) / a * (1.0 + 1e-15)", "pass",
     "readers/cell_job test_weights_that_are_off_move_divergences"),
    ("losses/mixture_moments.py", "if off > 0.0:", "if off > 1.0:",
     "readers/cell_job test_weights_that_are_off_move_divergences"),
    ("readers/single.py", "slip + loss.slack + 4.0 * ROUNDING * abs(epsilon)", "slip + 4.0 * ROUNDING * abs(epsilon)",
     "readers/single test_errors_of_losses"),
    ("losses/loss.py", "self.loss + side * self.loss_error - edges", "self.loss - edges",
     "readers/single test_errors_of_losses"),
    ("readers/single.py", "if loss.infinite > delta:", "if False:", "readers/single test_an_infinite"),
    ("samplers/truncated.py", "min(float_above(x * (1 + _OFF)), 1.0)", "min(float(x), 1.0)",
     "samplers/truncated test_probabilities_of"),
    ("samplers/truncated.py", "float_below(kept * (1 - _OFF))", "float(kept)",
     "samplers/truncated test_probabilities_of"),
    ("readers/grid/composition.py", "inverse = gain * _norm(masses)", "inverse = 0.0",
     "readers/grid/ledger test_a_transform"),
    ("readers/grid/composition.py", "each += error_norm * math.sqrt(2.0 / n_points) * _norm(others)", "pass",
     "readers/grid/ledger test_a_transform"),
    ("readers/grid/composition.py", "norm += error_norm * float(others.max())", "pass",
     "readers/grid/ledger test_a_transform"),
    ("readers/moments.py", "n * ROUNDING * size", "n * ROUNDING * np.abs(total)", "verbs/moments test_the_rounding"),
    ("readers/moments.py", "n * ROUNDING * size", "0.0 * size", "verbs/moments test_the_rounding"),
    ("losses/divergence.py", "[: 1 if pieces.is_mirrored else 2]", "[:1]", "losses/divergence test_the_larger"),
    ("losses/divergence.py", "[: 1 if mixture.is_symmetric else 2]", "[:1]", "losses/divergence test_the_larger"),
    ("losses/total.py", "slack=whole.slack", "slack=0.0", "losses/total test_what_all"),
    ("losses/total.py", "_bracket([(p.add, n) for p, n in parts])", "_bracket([(p.remove, n) for p, n in parts])",
     "losses/total test_each"),
    ("readers/attack.py", "if not job.is_gaussian and (none", "if False and (none",
     "verbs/tradeoff test_without_false"),
    ("readers/roc.py", "np.maximum(a.upper, b.upper)", "a.upper", "verbs/tradeoff test_the_convex_envelope"),
    ("readers/listed.py", "log_more += count * math.log1p", "log_more += math.log1p",
     "readers/listed test_sums_of_three"),
    ("readers/listed.py", "side * (atoms.loss_error[keep] + atoms.slack)", "side * atoms.loss_error[keep]",
     "readers/listed test_sums_of_three"),
    ("readers/listed.py", "np.where(i == j, 0.0, math.log(2.0))", "0.0", "readers/listed test_sums_of_three"),
    ("mechanisms/laplace.py", "np.asarray(count) * (size * sensitivity(relation))", "np.asarray(count) * size",
     "mechanisms/laplace test_members"),
    ("mechanisms/compound.py", "poisson(self.sample_rate) * -(-self.steps // self.bands)",
     "poisson(self.sample_rate) * (self.steps // self.bands)", "mechanisms/compound test_a_round"),
    ("mechanisms/compound.py", "(self.diameter + k) ** 2 / k", "self.diameter ** 2 / k",
     "mechanisms/compound test_a_small_set"),
    ("mechanisms/compound.py", "for k in (math.floor(self.diameter) or 1, math.ceil(self.diameter)):",
     "for k in (math.floor(self.diameter) or 1,):", "mechanisms/compound test_a_small_set"),
    ("mechanisms/gopa.py", "return known + ApproxDP(0.0, self.graph_failure) if self.graph_failure > 0.0 else known",
     "return known", "mechanisms/gopa test_of_a_random"),
    ("mechanisms/gopa.py", "1.0 / (n * own) + apart, 1.0 / own", "apart, 1.0 / own",
     "mechanisms/gopa test_of_a_random"),
    ("mechanisms/gopa.py", "if i not in left_out and j not in left_out", "if i not in left_out or j not in left_out",
     "mechanisms/gopa test_noise_along"),
    ("mechanisms/gopa.py", "(1.0 - 1.0 / n) / (own + n * shared)", "(1.0 - 1.0 / n) / (own + 2.0 * n * shared)",
     "mechanisms/gopa test_noise_between"),
    ("mechanisms/nested.py", "        relation = both_ways(relation)", "        pass",
     "mechanisms/tuning test_the_best_of_many"),
    ("mechanisms/guarantee.py", "np.expm1(size * epsilon) / np.expm1(epsilon)", "float(size)",
     "mechanisms/guarantee test_a_group_of_an"),
    ("mechanisms/guarantee.py", "self.rho, float(size) * size", "self.rho, float(size)",
     "mechanisms/guarantee test_guarantees_of"),
    ("mechanisms/guarantee.py", "0.5 * (orders - 1.0) * (plain(self.tau) * plain(self.tau))",
     "0.5 * (orders - 1.0) * plain(self.tau)", "mechanisms/guarantee test_guarantees_of"),
    ("samplers/fixed_size.py", "symmetric_pieces(2.0 / noise, rate)", "symmetric_pieces(1.0 / noise, rate)",
     "mechanisms/batches test_of_many_steps"),
    ("readers/roc.py", "fall = np.maximum((a[1]", "fall = np.minimum((a[1]",
     "verbs/tradeoff test_one_sampled_step_meets_its_closed"),
    ("readers/roc.py", "way if way == BOTH or job.is_mirrored else REMOVE if way == ADD else ADD", "way",
     "verbs/tradeoff test_one_sampled_step_meets_its_closed"),
    ("readers/attack.py", "right = prior >= 0.5", "right = prior <= 0.5",
     "verbs/tradeoff test_members_is_the_probability_that_the"),
    ("mechanisms/laplace.py", "infinite = 0.5 - math.expm1", "infinite = -math.expm1",
     "mechanisms/laplace_truncated test_one_release_is_the_integral"),
    ("mechanisms/integer.py", "+ math.fsum(mass[~known]) * (1.0 + BESSEL)", "",
     "mechanisms/integer test_next_to_no_noise_is_no_privacy"),
    ("mechanisms/integer.py", "low, high = np.maximum(np.floor(orders), 1.0), np.ceil(orders)",
     "low, high = np.maximum(np.floor(orders), 1.0), np.floor(orders)",
     "mechanisms/integer test_next_to_no_noise_is_no_privacy"),
    ("mechanisms/finite.py", "(min(left + off, 1.0), left - off) if left > WEIGHTS_OFF",
     "(min(left + off, 1.0), left - off) if left > 1.0",
     "mechanisms/from_losses test_deltas_are_those_of_the_direct_sum"),
    ("mechanisms/compound.py", "(self.steps - 1).bit_length() + 1 if", "(self.steps - 1).bit_length() if",
     "mechanisms/compound test_a_tree_has_one_more_level"),
    ("textbook/convert.py", "np.tanh(0.5 * e) * (1.0 - d) + d", "np.tanh(0.5 * e)",
     "textbook/textbook test_published_values"),
    ("losses/mixture_moments.py", "np.full(u.shape, 2.0)]) * half", "np.full(u.shape, 1.0)]) * half",
     "readers/orders test_order_one_of_a_gaussian"),
    ("moments.py", "is_tight and rest < math.inf else", "is_tight else", "verbs/privacy_loss test_second_moments_wi"),
    ("compat/tf_privacy.py", "0.5 * noise_multiplier if used_microbatching else noise_multiplier", "noise_multiplier",
     "compat/tf_privacy test_the_report_has_certified_numbers"),
    ("samplers/fixed_size.py", "return min(1.0, gained - lost", "return min(1.0, -lost",
     "samplers/fixed_size test_the_div"),
    ("samplers/allocation.py", "moment[low] + (at - low) * (moment[high] - moment[low])", "moment[low]",
     "samplers/allocation test_divergences_between"),
    ("samplers/allocation.py", "whole if (few, least) == (steps, noise) else Apart(whole, NOTHING)", "whole",
     "samplers/allocation test_noise_that"),
    ("mechanisms/algebra.py", "bound, both = own(orders[unknown_at], relation), both_ways(relation)",
     "bound, both = own(orders[unknown_at], relation), relation", "mechanisms/own_mechanism test_a_sample_of"),
    ("moments.py", "square = max(near, float(far(", "square = max(near, 0.0 * float(far(",
     "verbs/moments test_the_standard"),
    ("textbook/convert.py", "d / -np.expm1(-s)", "d / s", "textbook/textbook test_the_probability_of_a_large_loss_is"),
    ("textbook/classical.py", "np.log(2.5 * m * t / (d * n))", "np.log(2.0 / d)",
     "textbook/textbook test_the_noise_of"),
    ("core/search.py", "if level(x) <= 0.0 else", "if True else", "core/search test_the_end"),
    ("readers/orders.py", "lower = np.where(known, found.lower, 0.0)", "lower = found.lower",
     "readers/orders test_what_is_known"),
    ("moments.py", "for side in (1.0, -1.0):", "for side in (1.0,):", "verbs/moments test_the_standard"),
    ("readers/attack.py", "smaller * (1.0 - near.upper)", "smaller * (1.0 - 0.99 * near.upper)",
     "verbs/tradeoff test_members"),
    ("textbook/generalization.py", "half + d * (1.0 - half)", "half", "textbook/generalization test_the_gap_of"),
    ("textbook/composition.py", "(k * d + s) * _UP", "k * d * _UP", "textbook/textbook test_every_composition"),
    ("textbook/generalization.py", "(math.log(2.0) - math.log(chance))", "(-math.log(chance))",
     "textbook/generalization test_theorems_as"),
    ("core/search.py", "if bounds(x)[1] <= target if side else bounds(x)[0] >= target:", "if True:",
     "core/search test_each_end"),
    ("mechanisms/nested.py", "return max((job.pure_epsilon(relation) for job in self.jobs), default=math.inf)",
     "return min((job.pure_epsilon(relation) for job in self.jobs), default=math.inf)",
     "mechanisms/parallel test_parallel_is"),
    ("mechanisms/nested.py", "self.job.pure_epsilon(both_ways(relation))", "self.job.pure_epsilon(relation)",
     "mechanisms/tuning test_both_directions"),
    ("gdp.py", "gaussian = _gaussian(level, y, threads)[0]", "gaussian = _gaussian(level, x, threads)[0]",
     "verbs/gdp test_the_fitted"),
    ("gdp.py", "gap = np.minimum(at_a - job, np.maximum(at_a - line, at_b - job))", "gap = at_b - job",
     "verbs/gdp test_the_fitted"),
    ("readers/lines.py", "(1.0 - tpr) * (1.0 - 4e-16)", "(1.0 - 0.99 * tpr) * (1.0 - 4e-16)",
     "readers/lines test_a_pure_guarantee_has"),
)
# fmt: on


def noticed_by(row: str) -> tuple[str, str]:
    """The file in tests/ that a row names, and words of the case: `verbs/jit test_a` is verbs/test_jit.py, test_a."""
    file, _, words = row.partition(" ")
    folder, _, name = file.rpartition("/")
    return f"{folder}/test_{name}.py", words


def passes(copy: Path, tests: Iterable[str], *options: str) -> bool:
    """Whether tests pass in a copy."""
    named = [noticed_by(one) for one in tests]
    chosen = " or ".join(f"{Path(file).stem} and {words}" for file, words in named)
    wanted = ["-k", chosen, *(f"tests/{file}" for file in dict.fromkeys(file for file, _ in named))]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options, *wanted]
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}  # of a file that changes every second
    run = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 0


def take_out(mutants: Iterable[tuple[str, str, str, str]], folder: str, parts: list[str], *options: str) -> int:
    """0 if every rule in whose row one of these parts occurs is noticed; pytest is called with these options."""
    chosen = [row for row in mutants if not parts or any(part in field for part in parts for field in row)]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", "build", ".*_cache"))
        if not passes(copy, dict.fromkeys(row[-1] for row in chosen), *options):
            print("tests fail where no rule is taken out")
            return 1
        missed = 0
        for file, text, without, test in chosen:
            path = copy / folder / file
            whole = path.read_text(encoding="utf-8")
            if whole.count(text) != 1:
                raise ValueError(f"{file} has {whole.count(text)} times: {text}")
            path.write_text(whole.replace(text, without), encoding="utf-8")
            is_missed = passes(copy, [test], *options)
            path.write_text(whole, encoding="utf-8")
            missed += is_missed
            print("MISSED " if is_missed else "noticed", f"{file}: {text!r} -> {without!r}: {test}", flush=True)
    print(f"{len(chosen)} rules taken out, {missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(take_out(MUTANTS, "fastacct", sys.argv[1:]))
