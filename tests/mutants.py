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

ROOT = Path(__file__).resolve().parents[1]
# fmt: off
MUTANTS = (
    # file in fastacct/, text, text without the rule, test: tests/test_<module>.py and how its name begins
    ("mechanisms/network.py", "+ wide + far)", "+ wide)", "network test_cycles_that_are_too_long"),
    ("mechanisms/network.py", "+ wide + far)", "+ far)", "network test_contributions_that_are_too_many"),
    ("mechanisms/network.py", "* chances, axis=-1) * (1.0 + 1e-12)", "* chances, axis=-1)",
     "network test_rounding_of_a_sum"),
    ("mechanisms/random_graph.py", "rounding=ROUND_CEILING", "rounding='ROUND_FLOOR'",
     "network_coalitions test_probabilities_of_few"),
    ("mechanisms/gaussian.py", "if near <= root else math.nextafter(near, 0.0)", "", "gaussian test_noise_of_several"),
    ("mechanisms/gaussian.py", "== np.inf), noise, np.nextafter(noise, 0.0))", "== np.inf), noise, noise)",
     "gaussian test_noise_of_gaussian_dp"),
    ("mechanisms/selection.py", "float_above(one) if", "float(one) if", "selection test_the_quotient_is"),
    ("core/bounds.py", "if math.isnan(lower) or math.isnan(upper):", "if False:", "bounds test_what_is_no_number"),
    ("losses/revealed.py", "nan=1.0) + 2e-12", "nan=1.0)", "network test_an_error_of_the_share"),
    ("losses/measure.py", "+ side * 4.0 * source.quadrature_near(2.0 * spacing) / whole", "",
     "grid_ledger test_the_error_of_a_rule"),
    ("losses/measure.py", "rest = np.maximum(gap -", "rest = np.maximum(0.9 * gap -", "measure test_atoms_between"),
    ("readers/grid/window.py", "self.below.delta(epsilon) - self.rest(epsilon)", "self.below.delta(epsilon)",
     "grid_ledger test_what_lone"),
    ("readers/grid/reader.py", "math.ceil(math.sqrt(_ONCE * moved) + 0.5 * moved * spacing) + 2 +", "0 +",
     "grid_ledger test_the_rest_reaches"),
    ("readers/grid/reader.py", "+ math.floor(dots.slack / spacing)", "", "grid_ledger test_slack_beyond"),
    ("readers/grid/window.py", "(seen := self.finite(found)) > 0.0 and", "(seen := self.delta(found)) >= 0.0 and",
     "grid_ledger test_the_largest_loss"),
    ("losses/measure.py", "slack, cut * off)", "slack, cut)", "grid_ledger test_mass_below"),
    ("samplers/poisson.py", "base.loss_error[keep] + base.slack", "base.loss_error[keep]",
     "sampling test_errors_of_losses"),
    ("samplers/poisson.py", "* (1.0 + 2e-15 / (1.0 - rate))", "", "sampling test_pure_epsilon_of_a_sample"),
    ("samplers/truncated.py", ">= _SMALLEST], lost))", ">= _SMALLEST], 0.0))", "batches test_a_truncation_too_rare"),
    ("samplers/draws.py", 'contributed(0.5 * noise, counts, "remove")', 'contributed(noise, counts, "remove")',
     "draws test_no_data_set"),
    ("samplers/draws.py", "2.0 * k / noise) for", "k / noise) for", "draws test_no_data_set"),
    ("samplers/draws.py", "Decimal(rate) / records", "Decimal(rate) / (records + 1)", "draws test_no_data_set"),
    ("samplers/draws.py", "if rest + waiting > 0:", "if waiting > 0:", "draws test_counts_are"),
    ("samplers/draws.py", "NOTHING if counts.below is None else pair(counts.below)", "pair(counts.above)",
     "draws test_counts_that_are_moved"),
    ("samplers/shuffled.py", "noise / moved", "noise", "shuffled test_shuffled_batches_are"),
    ("samplers/shuffled.py", "2.0 - moved", "1.0 - moved", "shuffled test_of_a_record_zeroed"),
    ("samplers/shuffled.py", "steps - 1.0", "steps - 2.0", "shuffled test_of_a_record_zeroed"),
    ("mechanisms/epochs.py", ', is_ordered=relation == "zero_out"', "", "shuffled test_the_record_is_on"),
    ("mechanisms/strategies.py", "b // n, most_shared", "b, most_shared", "strategies test_the_class_of"),
    ("mechanisms/strategies.py", "c[:, i::b]", "c[:, i : i + 1]", "strategies test_random_bins_are"),
    ("mechanisms/strategies.py", "self.own[1] - most)", "self.own[0] - most)", "strategies test_random_bins_are"),
    ("mechanisms/epochs.py", "(few + 1.0, longer)", "(few + 2.0, longer)", "draws test_blocks"),
    ("mechanisms/batches.py", "self.unsampled().poisson(self.sample_rate)", "self.mechanism.poisson(self.sample_rate)",
     "batches test_a_record_added"),
    ("gradient.py", "apart[2, is_whole] = np.maximum(1.0, np.rint(_BETWEEN * steps[is_whole]))", "pass",
     "gradient test_next_to_the_largest_loss_whole"),
    ("gradient.py", "errors[(middle == 0.0).any(axis=-1) & (self.what == EPSILON)] = np.inf", "pass",
     "gradient test_epsilons_next_to_0"),
    ("gradient.py", "np.minimum(apart[1], (1.0 - rate) / 8.0)", "apart[1]",
     "gradient test_next_to_all_records"),
    ("gradient.py", "_sum(np.abs(_WEIGHTS[side]), half)", "0.0", "gradient test_derivatives_are_those"),
    ("batching.py", 'whole = given.get("selected", 1.0), math.floor', 'whole = given.get("selected", 1.0), math.ceil',
     "batching test_an_allocation"),
    ("batching.py", "-(-int(steps) // int(b))", "int(steps) // int(b)", "batching test_dpsgd_takes"),
    ("readers/cell_job.py", "upper = np.where(easier > 0.0, upper, np.inf)", "pass", "draws test_a_component"),
    ("readers/cell_job.py", "upper = (upper + lost)", "upper = upper", "draws test_a_component"),
    ("losses/mixture.py", " + sum(abs(a - b) / min(a, b) for a, b in pairs if b > 0.0)", "", "draws test_a_weight"),
    ("sensitivity.py", "+ 2.0 * len(c) * unit * (np.abs(c).T @ np.abs(c)) * (c.min() < 0.0)", "* 0.5",
     "strategies test_no_participation"),
    ("privacy_loss.py", "2.0 * WEIGHTS_OFF * releases", "0.0", "privacy_loss test_tables_that_add_up"),
    ("readers/renyi.py", "np.maximum(best + padding, 0.0)", "np.maximum(best, 0.0)", "renyi test_each_conversion"),
    ("readers/renyi.py", "np.minimum(best + padding, zero)", "np.minimum(best, zero)", "renyi test_each_conversion"),
    ("ledger/filters.py", "else math.nextafter(found, math.inf)", "else found", "filters test_sums_of_a_filter"),
    ("sensitivity.py", "if Fraction(near) ** 2 >= Fraction(value) else math.nextafter(near, math.inf)", "",
     "sensitivity test_roundings"),
    ("core/rounding.py", "np.nextafter(moved, np.inf), moved))\n\n\ndef divided", "moved, moved))\n\n\ndef divided",
     "rounding test_products_are_rounded_up"),
    ("core/rounding.py", "np.nextafter(moved, 0.0)", "moved", "rounding test_quotients_are_rounded_down"),
    ("core/rounding.py", "np.asarray(divisor)) * (1.0 + 4e-16)", "np.asarray(divisor))",
     "rounding test_quotients_of_rounded"),
    ("core/rounding.py", "math.nextafter(rate, 1.0)", "rate", "rounding test_rates_of_batches"),
    ("core/rounding.py", "value + 1e-323", "value", "rounding test_products_that_underflow"),
    ("compat/dp_events.py", "(1 - 4e-16) / event.noise_parameter", "1 / event.noise_parameter",
     "compat_dp_events test_noise_of_a"),
    ("compat/dp_events.py", "p) / p) * (1 + 1e-15)", "p) / p)", "compat_dp_events test_epsilon_of_a_randomised"),
    ("compat/dp_events.py", "** 2 * (1 + 1e-15)", "** 2", "compat_dp_events test_rho_of_a_discrete"),
)
# fmt: on


def passes(copy: Path, tests: Iterable[str], *options: str) -> bool:
    """Whether tests pass in a copy."""
    files, names = zip(*(one.split(maxsplit=1) for one in tests), strict=True)
    chosen = " or ".join(f"test_{file} and {name}" for file, name in zip(files, names, strict=True))
    wanted = ["-k", chosen, *(f"tests/test_{one}.py" for one in dict.fromkeys(files))]
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
