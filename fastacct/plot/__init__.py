"""Pictures: runs, sweeps, curves, accuracy beside privacy, losses and networks.

Needs matplotlib (extra `plot`), which is imported when the first picture is drawn. Every function
returns a `matplotlib.figure.Figure` that is not registered with pyplot: nothing to close, safe in threads. It shows
itself in a notebook; `save` writes it as PNG, PDF or SVG.

>>> import fastacct as fa
>>> axes = {"noise_multiplier": [0.5, 1, 2, 4], "sample_rate": [0.001, 0.01, 0.1], "steps": [100, 1000]}
>>> grid = fa.sweep(**axes, delta=1e-5).compute()
>>> figure = fa.plot.epsilon_grid(grid)
"""

from fastacct.plot.figures import as_picture, save
from fastacct.plot.grids import epsilon_grid, epsilon_plane
from fastacct.plot.ideas import batches, budget, hockey_stick, noise_for_releases, samplers
from fastacct.plot.lessons import accuracy, network_gain, prefix_error, privacy_loss
from fastacct.plot.runs import epsilon_over_epochs, noise_map, plan, privacy_curves, tradeoff

__all__ = ["accuracy", "as_picture", "epsilon_grid", "epsilon_over_epochs", "epsilon_plane", "network_gain"]
__all__ += ["noise_map", "plan", "prefix_error", "privacy_curves", "privacy_loss", "save", "tradeoff"]
__all__ += ["batches", "budget", "hockey_stick", "noise_for_releases", "samplers"]
