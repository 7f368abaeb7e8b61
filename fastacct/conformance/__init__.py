"""Conformance: a few hundred jobs with certified truths, asked of any accountant: `fastacct conformance`.

`case` is what is asked and what is true, `interfaces` how an accountant is asked, `judge` what its answers are worth,
`report` and `picture` how that is told. The truths come from arbitrary precision and are stored; nothing here computes
an epsilon.
"""

from __future__ import annotations

from fastacct.conformance.case import Block, Case, load
from fastacct.conformance.interfaces import accountant_of
from fastacct.conformance.judge import VERDICTS, Result, judge, run
from fastacct.conformance.report import as_json, as_text

__all__ = ["VERDICTS", "Block", "Case", "Result", "accountant_of", "as_json", "as_text", "judge", "load", "run"]
