"""Audits: what attacks show of a run, beside what is proved of it.

An accountant proves what no attack exceeds.  An audit runs attacks, and shows an epsilon that the run has at least, or
that it is not the job that it is said to be.  Everything shown is true with the confidence that was asked for, of every
mechanism: thresholds may be chosen by the data, and no model of the scores is assumed.  Claims are compared from the
side that is proved: an audit refutes a job only where its certified trade-off curve is exceeded.
"""

from fastacct.audit.betting import Sequential, sequential
from fastacct.audit.many_runs import Scores, scores
from fastacct.audit.planned import Comparison, Plan, compare, plan
from fastacct.audit.single_run import OneRun, count_guesses, one_run

__all__ = ["Comparison", "OneRun", "Plan", "Scores", "Sequential"]
__all__ += ["compare", "count_guesses", "one_run", "plan", "scores", "sequential"]
