"""What the first screens of README and of the site show: the table of samplers and the picture.

python -m bench.readme          # writes both
python -m bench.readme --check  # whether the table is what the code computes
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

import fastacct as fa
from bench import dark
from fastacct.plot.figures import new_figure

ROOT: Final = Path(__file__).parent.parent
MARK: Final = "<!-- made by python -m bench.readme -->"
RUN: Final[dict[str, Any]] = {"records": 50_000, "batch_size": 512, "epochs": 30, "delta": 1e-6}
NOISE: Final = 1.117
PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "README.md")


SIZES = np.geomspace(64, 8192, 29).round().astype(int)
EPOCHS = np.geomspace(1.0, 100.0, 25)


TRAINING = fa.Gaussian(1.0).poisson(0.01) * 1000
STATISTICS, MODEL = fa.Laplace(20.0) * 5, fa.Gaussian(1.1).poisson(256 / 60_000) * 14_000
PIPELINE = {"statistics": STATISTICS, "training": MODEL, "both": STATISTICS + MODEL}
RELEASES = {"histogram": fa.Laplace(4.0), "training": TRAINING, "again": TRAINING, "a mean": fa.Gaussian(20.0)}


def up(value: Any, digits: int) -> str:
    """Rounded to the safe side."""
    return f"{math.ceil(float(value) * 10**digits) / 10**digits:.{digits}f}"


def samplers() -> str:
    """Epsilon of one noise multiplier, and noise for epsilon 3, of every sampler."""

    def row(name: str, **how: Any) -> str:
        low, high, _ = fa.dpsgd.epsilon_bounds(noise_multiplier=NOISE, **RUN, **how)
        least = f"{math.floor(100.0 * low) / 100.0:.2f} to " if high - low > 0.01 else ""
        return f"| {name} | {least}{up(high, 2)} | {up(fa.dpsgd.noise_multiplier(epsilon=3.0, **RUN, **how), 4)} |"

    bins: dict[str, Any] = {"sampling": "allocation"}
    draws: dict[str, Any] = {"sampling": "with_replacement"}
    order: dict[str, Any] = {"sampling": "shuffled"}
    return "\n".join(
        [
            f"| your batches | a record is | epsilon at noise {NOISE} | noise for epsilon 3 |",
            "|---|---|---|---|",
            row("Poisson: each record with probability 512/50,000, in 2,930 steps | added or removed"),
            row('the same, `neighbors="replace_one"` | replaced', neighbors="replace_one"),
            row('each record in one random step of each epoch, `sampling="allocation"` | added or removed', **bins),
            row('exactly 512, drawn anew each step, `sampling="fixed_size"` | added or removed', sampling="fixed_size"),
            row('512 draws with replacement, `sampling="with_replacement"` | added or removed', **draws),
            row(
                'shuffled (most loaders), `sampling="shuffled"`: an interval | zeroed out',
                neighbors="zero_out",
                **order,
            ),
            row("the same | replaced", neighbors="replace_one", **order),
        ]
    )


def picture() -> Any:
    """Epsilon over epochs, noise for epsilon 3, and what an attack can do."""
    figure, axes = new_figure(13.0, 4.1, 1, 3)
    sizes = {"records": 50_000, "delta": 1e-6}
    batches, epochs = SIZES.tolist(), EPOCHS.tolist()
    fa.plot.epsilon_over_epochs([0.7, 0.8, 1.0, 1.5], **sizes, batch_size=512, epochs=epochs, axis=axes[0])
    fa.plot.noise_map(epsilon=3.0, **sizes, batch_size=batches, epochs=epochs, axis=axes[1])
    step = fa.Gaussian(NOISE).poisson(512 / 50_000)
    jobs = {f"{n} epochs": step * (n * 50_000 // 512 + 1) for n in (10, 30, 100)}
    fa.plot.tradeoff(jobs, delta=1e-6, axis=axes[2])
    names = (
        "DP-SGD with Poisson sampling, 50,000 records, batch size 512 (left and right), noise multiplier 1.117 (right)"
    )
    figure.suptitle(names, fontsize=10)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check, table = parser.parse_args().check, samplers()
    for page in PAGES:
        before, _, after = page.read_text().split(MARK)
        made = f"{before}{MARK}\n{table}\n{MARK}{after}"
        if is_check and made != page.read_text():
            return 1
        page.write_text(made)
    if is_check:
        return 0
    images = ROOT / "docs" / "images"
    fa.plot.save(picture(), images / "first_screen.png", overwrite=True)
    plans = fa.plan(records=50_000, epsilon=3.0, delta=1e-6, batch_size=SIZES, epochs=EPOCHS)
    drawn = {"delta": fa.plot.hockey_stick(), "batches": fa.plot.batches()}
    drawn["budget"] = fa.plot.budget(RELEASES, epsilon=2.5, delta=1e-5)
    drawn["curves"] = fa.plot.privacy_curves(PIPELINE)
    kinds = {"Laplace": fa.Laplace, "Gaussian": fa.Gaussian}
    counts = [1, 2, 3, 5, 7, 10, 20, 30, 50, 100, 300, 1000]
    drawn["releases"] = fa.plot.noise_for_releases(kinds, releases=counts, epsilon=1.0, delta=1e-6)
    fa.plot.save(fa.plot.plan(plans), images / "plan.png", overwrite=True)  # a map in colours: as dots
    for name, figure in drawn.items():
        dark.save(figure, images / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
