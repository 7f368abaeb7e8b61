"""What a switch of the backend gains: the same calls of dp_accounting and Opacus with their accountants and with ours.

python -m bench.backends [--write]     # needs both libraries; writes the tables of docs/backends
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fastacct as fa

DOCS: Final = Path(__file__).parents[1] / "docs" / "backends"
MARK: Final = "<!-- made by bench/backends.py -->"
SEED: Final = 7


def seconds(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Mean time of a call and its last answer, after one that is not measured."""
    found = call()
    start = time.perf_counter()
    for _ in range(repeat):
        found = call()
    return (time.perf_counter() - start) / repeat, found


def runs(count: int) -> list[tuple[float, int, float]]:
    """Random sample rates, steps and target epsilons."""
    rng = random.Random(SEED)
    return [(10 ** rng.uniform(-3, -1.3), rng.randint(500, 5000), rng.uniform(0.5, 6.0)) for _ in range(count)]


def dp_accounting_rows(count: int) -> list[str]:
    """Calibration, and an epsilon, of random runs."""
    from dp_accounting import dp_event
    from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    from fastacct.compat.dp_accounting import FastAccountant

    def event(noise: float, rate: float, steps: int) -> Any:
        return dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)), steps
        )

    makers = {"FastAccountant": FastAccountant, "PLDAccountant": PLDAccountant, "RdpAccountant": RdpAccountant}
    times, noises, single = dict.fromkeys(makers, 0.0), dict.fromkeys(makers, 0.0), dict.fromkeys(makers, 0.0)
    for rate, steps, epsilon in runs(count):
        for name, make in makers.items():
            own = name == "FastAccountant"

            def calibrated(make: Any = make, r: float = rate, n: int = steps, e: float = epsilon) -> float:
                return float(calibrate_dp_mechanism(make, lambda scale: event(scale, r, n), e, 1e-6))

            spent, noise = seconds(calibrated, 3) if own else timed(calibrated)
            if own:
                reached = fa.dpsgd.epsilon(noise_multiplier=noise, sample_rate=rate, steps=steps, delta=1e-6)
                assert epsilon * (1 - 1e-4) <= reached <= epsilon, (reached, epsilon)
            times[name] += spent
            noises[name] += noise
            accountant = make().compose(event(1.0, rate, steps))
            single[name] += seconds(lambda a=accountant: a.get_epsilon(1e-6), 20 if own else 1)[0]
    trails = {}
    for name, make in makers.items():
        whole = make()
        trails[name] = along(
            lambda noise, a=whole: a.compose(event(noise, 0.01, 20)),
            lambda a=whole: a.get_epsilon(1e-6),
            name == "FastAccountant",
        )
    rows = [
        "| accountant | `calibrate_dp_mechanism` | times slower | noise found | `get_epsilon` | new noise | one grew |",
        "|---|---|---|---|---|---|---|",
    ]
    first = times["FastAccountant"]
    for name in makers:
        noise = noises[name] / noises["FastAccountant"]
        rows.append(
            f"| `{name}` | {1e3 * times[name] / count:.3g} ms | {times[name] / first:,.0f} | {noise:.4f} | "
            f"{1e6 * single[name] / count:.3g} us | {' | '.join(map(written, trails[name]))} |"
        )
    return rows


def along(step: Callable[[float], Any], epsilon: Callable[[], Any], own: bool) -> tuple[float, float]:
    """Mean time of 20 steps and the epsilon after them: while the noise is new each of 96 times, and while it stays."""
    new, same = [], []
    for i in range(96):
        noise = 1.0 + 0.001 * i
        if own or i % 24 == 23:
            new.append(timed(lambda n=noise: (step(n), epsilon()))[0])
        else:
            step(noise)
    for _ in range(200 if own else 3):
        same.append(timed(lambda n=noise: (step(n), epsilon()))[0])
    return sum(new) / len(new), sum(same) / len(same)


def written(spent: float) -> str:
    """A time with its unit."""
    return f"{1e6 * spent:.3g} us" if spent < 1e-3 else f"{1e3 * spent:.3g} ms"


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time of one call, and its answer."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def opacus_rows(count: int) -> list[str]:
    """Noise of random runs, and epsilons while a run goes on."""
    from opacus.accountants import create_accountant
    from opacus.accountants.utils import get_noise_multiplier

    from fastacct.compat import opacus as fast

    fast.register()
    names = ("fastacct", "prv", "rdp")
    times, noises = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for rate, steps, epsilon in runs(count):
        asked = {"target_epsilon": epsilon, "target_delta": 1e-6, "sample_rate": rate, "steps": steps}
        for name in names:

            def found(name: str = name, asked: dict[str, Any] = asked) -> float:
                return float(get_noise_multiplier(accountant=name, **asked))

            spent, noise = seconds(found, 3) if name == "fastacct" else timed(found)
            times[name] += spent
            noises[name] += noise
    steps_of = {}
    for name in names:
        accountant = create_accountant(name)
        total, n = 0.0, 200 if name == "fastacct" else 5
        for _ in range(n):
            accountant.step(noise_multiplier=1.0, sample_rate=0.01)
            total += timed(lambda a=accountant: a.get_epsilon(delta=1e-6))[0]
        steps_of[name] = total / n
    trails = {}
    for name in names:
        whole = create_accountant(name)
        trails[name] = along(
            lambda noise, a=whole: [a.step(noise_multiplier=noise, sample_rate=0.01) for _ in range(20)],
            lambda a=whole: a.get_epsilon(delta=1e-6),
            name == "fastacct",
        )
    rows = [
        "| accountant | `get_noise_multiplier` | times slower | noise found | `get_epsilon` | new noise | one grew |"
    ]
    rows.append("|---|---|---|---|---|---|---|")
    for name in names:
        rows.append(
            f"| `{name}` | {1e3 * times[name] / count:.3g} ms | {times[name] / times['fastacct']:,.0f} | "
            f"{noises[name] / noises['fastacct']:.4f} | {1e6 * steps_of[name]:.3g} us | "
            f"{' | '.join(map(written, trails[name]))} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for page, rows in (("dp_accounting.md", dp_accounting_rows), ("opacus.md", opacus_rows)):
        table = "\n".join(rows(given.count))
        print(table)
        if given.write:
            text = (DOCS / page).read_text().split(MARK)
            text[1] = f"\n{table}\n"
            (DOCS / page).write_text(MARK.join(text))


if __name__ == "__main__":
    main()
