"""Draw the pictures of the course: `python examples/course_pictures.py docs/images`."""

import sys
from pathlib import Path

import numpy as np

import fastacct as fa

DELTA = 1e-6


def draw(folder: Path) -> list[Path]:
    """All pictures, each the answer to one question of the course."""
    noise = np.geomspace(0.3, 100.0, 60)
    curves = {
        "Laplace, a histogram: one coordinate changes by 1": fa.curve.accuracy_curve(
            fa.Laplace, noise, delta=DELTA, dimension=100
        ),
        "Gaussian: a change of length 1 in L2": fa.curve.accuracy_curve(fa.Gaussian, noise, delta=DELTA, dimension=100),
        "Laplace, all 100 coordinates change by 0.1": fa.curve.accuracy_curve(
            fa.Laplace, noise, delta=DELTA, dimension=100, contribution=10.0
        ),
    }
    steps = list(range(1, 129))
    sums = {
        "each sum published for itself": fa.utility(fa.Gaussian(np.sqrt(128.0)), dimension=1),
        "from the tree": fa.utility(fa.TreeAggregation(np.sqrt(8.0), steps=128), step=steps),
    }
    losses = {
        "Laplace noise, 20 releases": fa.privacy_loss(fa.Laplace(2.0) * 20),
        "Gaussian noise": fa.privacy_loss(fa.Gaussian(0.5)),
    }
    sizes = (10, 30, 100, 300, 1000)

    def gains(walk):
        return {n: fa.network_gain(walk(n), delta=DELTA) for n in sizes}

    walks = {
        "sums": gains(lambda n: fa.RandomWalk(8.0, 20, "complete", n)),
        "gradient steps": gains(lambda n: fa.GradientWalk(8.0, 20, n)),
        "gradient steps, a tenth collude": gains(lambda n: fa.GradientWalk(8.0, 20, n, colluding=n // 10)),
    }
    pictures = {
        "accuracy": fa.plot.accuracy(curves),
        "prefix_sums": fa.plot.prefix_error(sums, steps),
        "privacy_loss": fa.plot.privacy_loss(losses),
        "network": fa.plot.network_gain(walks),
    }
    return [fa.plot.save(one, folder / f"{name}.png", overwrite=True) for name, one in pictures.items()]


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")):
        print(path)
