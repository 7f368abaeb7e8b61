"""What a run promises and what a run should be: `report` for those who read it, `plan` for those who choose it."""

from fastacct.reports.planning import plan
from fastacct.reports.written import Report, report

__all__ = ["Report", "plan", "report"]
