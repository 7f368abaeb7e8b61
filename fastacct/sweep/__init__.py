"""Sweeps over configurations of DP-SGD: axes in, a labelled grid out, in memory or in a file that can be resumed.

`plan` says what a grid is, `work` evaluates its chunks, `store` writes them, `cost` predicts what they take, and
`choose` goes from a grid to a decision.
"""

from fastacct.sweep.choose import cheapest, feasible, pareto
from fastacct.sweep.plan import Sweep, sweep
from fastacct.sweep.store import open_sweep

__all__ = ["Sweep", "cheapest", "feasible", "open_sweep", "pareto", "sweep"]
