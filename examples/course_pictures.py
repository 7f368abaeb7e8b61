"""Draw the pictures of the course: `python examples/course_pictures.py docs/images`.

`python -m bench.dark docs/images/*.svg` then lets them follow a reader's dark mode.
"""

import sys
from pathlib import Path

import numpy as np

import fastacct as fa

DELTA = 1e-6
NOISE = np.geomspace(0.05, 1000.0, 90)


def draw(folder: Path) -> list[Path]:
    """All pictures, each the answer to one question of the course."""
    pictures = {"accuracy": accuracy(), "prefix_sums": prefix_sums(), "privacy_loss": losses(), "network": network()}
    return [fa.plot.save(one, folder / f"{name}.svg", overwrite=True) for name, one in pictures.items()]


def accuracy():
    """What does privacy cost, in error?"""
    about = {"delta": DELTA, "dimension": 100}
    curves = {
        "Laplace: one of 100 counts changes by 1": fa.curve.accuracy_curve(fa.Laplace, NOISE, **about),
        "Gaussian: a change of L2 length 1": fa.curve.accuracy_curve(fa.Gaussian, NOISE, **about),
        "Laplace: each of 100 changes by 0.1": fa.curve.accuracy_curve(fa.Laplace, NOISE, **about, contribution=10.0),
    }
    figure = fa.plot.accuracy(curves)
    axis = figure.axes[0]
    axis.set_xlim(1.0, 1000.0)
    axis.set_ylim(0.03, 10.0)
    axis.set_xticks([1, 10, 100, 1000])
    axis.set_yticks([0.1, 1, 10])
    figure.suptitle("What privacy costs: the largest error among 100 numbers")
    return figure


def prefix_sums():
    """How much noise is in each running sum?"""
    steps = list(range(1, 129))
    sums = {
        "each sum published for itself": fa.utility(fa.Gaussian(np.sqrt(128.0)), dimension=1),
        "from the tree": fa.utility(fa.TreeAggregation(np.sqrt(8.0), steps=128), step=steps),
    }
    figure = fa.plot.prefix_error(sums, steps)
    figure.axes[0].set_xticks([1, 16, 32, 48, 64, 80, 96, 112, 128])
    spent = fa.epsilon(fa.Gaussian(1.0), delta=DELTA)  # 128 releases, or 8 nodes above each leaf
    figure.suptitle(rf"Noise of 128 running sums; both cost $\varepsilon = {spent:.2f}$ at $\delta = 10^{{-6}}$")
    return figure


def losses():
    """How likely is a large privacy loss?"""
    drawn = {
        "20 releases, Laplace noise 2": fa.privacy_loss(fa.Laplace(2.0) * 20),
        r"one release, Gaussian noise $\sigma = 0.5$": fa.privacy_loss(fa.Gaussian(0.5)),
    }
    return fa.plot.privacy_loss(drawn)


def network():
    """How much does one party learn, of many that pass messages on?"""
    sizes = (10, 30, 100, 300, 1000)

    def gains(walk):
        return {n: fa.network_gain(walk(n), delta=DELTA) for n in sizes}

    walks = {
        "one party, sums": gains(lambda n: fa.RandomWalk(8.0, 20, "complete", n)),
        "one party, gradient steps": gains(lambda n: fa.GradientWalk(8.0, 20, n)),
        "a tenth of them together, gradient steps": gains(lambda n: fa.GradientWalk(8.0, 20, n, colluding=n // 10)),
    }
    figure = fa.plot.network_gain(walks)
    figure.suptitle(r"What parties learn of another: noise multiplier 8, 20 visits, $\delta = 10^{-6}$")
    return figure


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")):
        print(path)
