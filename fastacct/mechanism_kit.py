"""What a mechanism of one's own is made of: parameters, losses, and what checks them; see docs/adding_a_mechanism.md.

`parameter`, `constant` and `option` declare fields with their ranges (`Domain`); `plain` makes one a number.  `Pair`
has the losses of both directions, `table` makes one from two tables of probabilities.  `Mechanism` is the base class.

>>> from dataclasses import dataclass
>>> import fastacct as fa
>>> from fastacct.mechanism_kit import Domain, Mechanism, Pair, Reals, parameter, plain, table
>>> @dataclass(frozen=True, eq=False)
... class Coin(Mechanism):
...     bias: Reals = parameter(Domain(0.5, 0.99))
...
...     def losses(self, relation):
...         honest = plain(self.bias)
...         heads, tails = [honest, 1.0 - honest], [1.0 - honest, honest]
...         return Pair(remove=table(heads, tails), add=table(tails, heads))
>>> round(fa.epsilon(Coin(0.75) * 2, delta=0.0), 6)  # 2 log(0.75 / 0.25)
2.197225
"""

from collections.abc import Iterable

import numpy as np

from fastacct.core.inputs import Domain, Real, Reals
from fastacct.core.relations import ALL, SAMPLED, Relation
from fastacct.losses.atoms import table as _of_cells
from fastacct.losses.loss import Bracket, Pair
from fastacct.mechanisms.algebra import Mechanism, Process
from fastacct.mechanisms.base import constant, option, parameter, plain
from fastacct.mechanisms.finite import from_pmf

__all__ = ["ALL", "SAMPLED", "Domain", "Mechanism", "Pair", "Process", "Real", "Reals", "Relation"]
__all__ += ["constant", "option", "parameter", "plain", "table"]


def table(p: Iterable[float], q: Iterable[float]) -> Bracket:
    """The loss of P against Q, two tables of probabilities over the same outcomes: log(p[i]/q[i]), inf where q[i] is 0.

    **Guarantee.** Exact for the tables as they are, rounding included: each sums to 1 within 1e-12.

    Examples
    --------
    >>> from fastacct.mechanism_kit import Pair, table
    >>> pair = Pair(remove=table([0.6, 0.4], [0.3, 0.7]), add=table([0.3, 0.7], [0.6, 0.4]))
    """
    checked = from_pmf(p, q)
    return _of_cells(np.asarray(checked.p), np.asarray(checked.q))
