"""One training run under every sampler: what fastacct says, and what other libraries print for it.

python bench/samplers.py measure "opacus PRV"  # in an environment of that library alone: adds its numbers to the JSON
python -m bench.samplers                  # the table of docs/samplers.md and its picture
python -m bench.samplers --check          # whether the table is what the code and samplers.json say
"""

from __future__ import annotations

import json
import math
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
KEPT: Final = Path(__file__).with_suffix(".json")
MARK: Final = "<!-- made by python -m bench.samplers -->"
NOISE: Final = 1.0408
COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#999933")
"""Of other libraries; told apart without seeing red and green (Okabe, Ito 2008)."""
RUN: Final[dict[str, Any]] = {"records": 50_000, "batch_size": 512, "epochs": 30, "delta": 1e-5}
ZERO: Final[dict[str, Any]] = {"neighbors": "zero_out"}

ROWS: Final[list[tuple[str, str, str, dict[str, Any]]]] = [
    ("poisson", "Poisson", "added or removed", {}),
    ("poisson replaced", "Poisson", "replaced", {"neighbors": "replace_one"}),
    ("truncated 640", "Poisson, at most 640", "zeroed out", {"sampling": "truncated", "at_most": 640} | ZERO),
    ("truncated 512", "Poisson, at most 512", "zeroed out", {"sampling": "truncated", "at_most": 512} | ZERO),
    ("allocation", "random allocation", "added or removed", {"sampling": "allocation"}),
    ("kept bins", "the same step in all epochs", "added or removed", {"sampling": "allocation", "bins": "persistent"}),
    ("cyclic", "cyclic Poisson, 4 groups", "zeroed out", {"sampling": "cyclic", "bands": 4} | ZERO),
    ("fixed", "exactly 512", "added or removed", {"sampling": "fixed_size"}),
    ("fixed replaced", "exactly 512", "replaced", {"sampling": "fixed_size", "neighbors": "replace_one"}),
    ("replacement", "512 draws with replacement", "added or removed", {"sampling": "with_replacement"}),
    ("shuffled", "shuffled", "zeroed out", {"sampling": "shuffled"} | ZERO),
    ("shuffled replaced", "shuffled", "replaced", {"sampling": "shuffled", "neighbors": "replace_one"}),
]
"""Key, batches, what happens to a record, and the keywords of `fa.dpsgd`."""

SIZES: Final = (
    f"sigma, delta, n, b, steps, epochs, t, whole = {NOISE}, 1e-5, 50_000, 512, 2930, 30, 98, 97\nq = b / n\n"
)
JAX: Final = "jp.DpsgdTrainingAccountant(jp.PldAccountantConfig()).compute_epsilon(steps, jp.DpParams(\
noise_multipliers=sigma, num_samples=n, delta=delta, batch_size=b{}))"
PEERS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    **{
        f"opacus {kind}": (
            "opacus",
            f"from opacus.accountants import {kind}Accountant\na = {kind}Accountant()\n"
            "a.history = [(sigma, 1 / t, t * epochs)]\n",
            {"poisson": "a.get_epsilon(delta)", "shuffled": "a.get_epsilon(delta)"},
        )
        for kind in ("PRV", "RDP")
    },
    "dp_accounting": (
        "dp-accounting",
        "from dp_accounting import NeighboringRelation as N, dp_event as ev, pld, rdp\n"
        "def of(event, count=steps, relation=N.ADD_OR_REMOVE_ONE):\n"
        "    return pld.PLDAccountant(relation).compose(event, count).get_epsilon(delta)\n"
        "g = ev.GaussianDpEvent(sigma)\n"
        "poisson = ev.PoissonSampledDpEvent(q, g)\n"
        "fixed = ev.SampledWithoutReplacementDpEvent(n, b, g)\n",
        {
            "poisson": "of(poisson)",
            "poisson replaced": "of(poisson, relation=N.REPLACE_ONE)",
            "truncated 640": "of(ev.TruncatedSubsampledGaussianDpEvent(n, q, 640, sigma))",
            "truncated 512": "of(ev.TruncatedSubsampledGaussianDpEvent(n, q, 512, sigma))",
            "fixed replaced": "rdp.RdpAccountant(neighboring_relation=N.REPLACE_ONE)"
            ".compose(fixed, steps).get_epsilon(delta)",
        },
    ),
    "jax_privacy": (
        "jax-privacy",
        "from jax_privacy import accounting as jp\n",
        {
            "poisson": JAX.format(""),
            "fixed replaced": JAX.format(", sampling_method=jp.SamplingMethod.FIXED_BATCH_SIZE"),
            "truncated 640": JAX.format(", truncated_batch_size=640"),
            "truncated 512": JAX.format(", truncated_batch_size=512"),
            "cyclic": JAX.format(", cycle_length=4"),
        },
    ),
    "tensorflow_privacy": (
        "tensorflow-privacy",
        "import importlib.util, site\n"  # the package itself does not import beside TensorFlow of today
        "path = site.getsitepackages()[0] + '/tensorflow_privacy/privacy/analysis/compute_dp_sgd_privacy_lib.py'\n"
        "spec = importlib.util.spec_from_file_location('lib', path)\n"
        "lib = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(lib)\n"
        "from functools import partial\n"
        "of = partial(lib._compute_dp_sgd_example_privacy, epochs, sigma, delta, used_microbatching=False)\n",
        {"poisson": "of(poisson_subsampling_probability=q)", "shuffled": "of()"},
    ),
    "opake": (
        "opake-accounting",
        "from opake.dpsgd.accounting import gaussian as g, k_out_of_t, poisson\n"
        "from opake.dpftrl.accounting import balls_in_bins, mf_gaussian\n"
        "from opake.dpftrl.noise import identity_strategy\n"
        "def of(most):\n"
        "    step = poisson(g(sigma), q, truncated_batch_size=most, dataset_size=n)\n"
        "    return (step * steps).epsilon_at(delta)\n",
        {
            "poisson": "(poisson(g(sigma), q) * steps).epsilon_at(delta)",
            "truncated 640": "of(640)",
            "truncated 512": "of(512)",
            "allocation": "k_out_of_t(g(sigma), k=epochs, t=whole * epochs, allocation='block').epsilon_at(delta)",
            "kept bins": "balls_in_bins(mf_gaussian(sigma, identity_strategy()), num_bins=whole, "
            "n_steps=whole * epochs).epsilon_at(delta)",
        },
    ),
    "PLD_accounting": (
        "PLD_accounting",
        "from PLD_accounting import gaussian_allocation_epsilon_range as of\n",
        {"allocation": "of(delta=delta, sigma=sigma, num_steps=whole, num_epochs=epochs)[::-1]"},
    ),
    "random_allocation": (
        "random-allocation",
        "from random_allocation.other_schemes.shuffle import ShuffleAccountant as S\n",
        {
            "shuffled": "[S(2.0, 1.0).get_epsilons(sigma, (delta,), t, epochs)[0], None]",
            "shuffled replaced": "[S(2.0, 0.0).get_epsilons(sigma, (delta,), t, epochs)[0], None]",
        },
    ),
}
"""Name of the package, what comes first, and an expression for each row: epsilon, or both ends.

A name has the accountant behind it where the library has several that print a number here.
"""


def measure(library: str) -> dict[str, Any]:
    """What a library prints for each row, and how many seconds its first call takes."""
    package, first, calls = PEERS[library]
    names: dict[str, Any] = {}
    exec(SIZES + first, names)
    found: dict[str, Any] = {}
    for row, call in calls.items():
        begin = time.perf_counter()
        value = eval(call, names)
        ends = [None if x is None else float(x) for x in value] if isinstance(value, (list, tuple)) else float(value)
        found[row] = {"epsilon": ends, "seconds": round(time.perf_counter() - begin, 4)}
    return {"version": metadata.version(package), "rows": found}


def shown(value: Any) -> str:
    """Epsilon to two digits, upper ends rounded up, lower ends down."""
    if not isinstance(value, list):
        return f"{value:.2f}"
    low = "" if value[0] is None else f"{math.floor(100.0 * value[0]) / 100.0:.2f}"
    return f"at least {low}" if value[1] is None else f"{low} to {math.ceil(100.0 * value[1]) / 100.0:.2f}"


def ours() -> dict[str, Any]:
    """Epsilon of each row, or both ends where these differ by more than a thousandth."""
    import fastacct as fa

    found: dict[str, Any] = {}
    for key, _, _, how in ROWS:
        low, high, _ = fa.dpsgd.epsilon_bounds(noise_multiplier=NOISE, **RUN, **how)
        found[key] = [float(low), float(high)] if high - low > 1e-3 * high else math.ceil(100.0 * high) / 100.0
    return found


def table() -> str:
    """A line a row."""
    peers, mine = json.loads(KEPT.read_text()), ours()
    lines = ["| batches | a record is | fastacct | other libraries |", "|---|---|---|---|"]
    for key, batches, record, _ in ROWS:
        others = [f"{name} {shown(one['rows'][key]['epsilon'])}" for name, one in peers.items() if key in one["rows"]]
        lines.append(f"| {batches} | {record} | {shown(mine[key])} | {', '.join(others) or 'none'} |")
    versions = ", ".join(
        f"{name} {version}" for name, version in {n.split()[0]: p["version"] for n, p in peers.items()}.items()
    )
    return "\n".join([*lines, "", f"Versions: {versions}."])


def picture() -> Any:
    """An interval or a point for each row, and the points of other libraries."""
    from fastacct.plot.figures import MEDIUM, SMALL, new_figure

    peers, mine = json.loads(KEPT.read_text()), ours()
    figure, axes = new_figure(9.0, 5.2)
    axis = axes[0]
    rows = ROWS[::-1]
    for place, (key, _, _, _) in enumerate(rows):
        low, high = mine[key] if isinstance(mine[key], list) else (mine[key], mine[key])
        axis.plot([low, high], [place, place], color="black", lw=5.0, marker="o", ms=5.0, zorder=2)
        axis.annotate(shown(mine[key]), (high, place), (7, -3), textcoords="offset points", fontsize=SMALL)
    for i, (name, one) in enumerate(peers.items()):
        at = [
            (end, place + 0.27)
            for place, (key, _, _, _) in enumerate(rows)
            if key in one["rows"]
            for end in [one["rows"][key]["epsilon"]]
            for end in (end if isinstance(end, list) else [end])
            if end is not None
        ]
        axis.plot(*zip(*at, strict=True), ls="", marker="ohvs^D*P"[i], color=COLORS[i], ms=6.5, label=name, zorder=3)
    axis.plot([], [], color="black", lw=5.0, marker="o", ms=5.0, label="fastacct")
    axis.set_yticks(range(len(rows)), [f"{batches}, {record}" for _, batches, record, _ in rows], fontsize=SMALL)
    axis.set_xscale("log")
    axis.set_xlim(2.4, 260.0)
    ticks = [3, 5, 10, 20, 50, 100]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xlabel(
        "ε at δ = 1e-5, noise multiplier 1.0408, 50,000 records, batch size 512, 30 epochs", fontsize=MEDIUM
    )
    axis.grid(axis="y", alpha=0.3)
    axis.legend(fontsize=SMALL, loc="upper right")
    return figure


def main() -> int:
    if sys.argv[1:2] == ["measure"]:
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        kept[sys.argv[2]] = measure(sys.argv[2])
        KEPT.write_text(json.dumps({name: kept[name] for name in PEERS if name in kept}, indent=1) + "\n")
        return 0
    from bench import dark

    page = ROOT / "docs" / "samplers.md"
    before, _, after = page.read_text().split(MARK)
    made = f"{before}{MARK}\n{table()}\n{MARK}{after}"
    if sys.argv[1:] == ["--check"]:
        return int(made != page.read_text())
    page.write_text(made)
    dark.save(picture(), ROOT / "docs" / "images" / "samplers.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
