"""NVFlare: a filter of what a client sends, behind the filter that adds noise.

job.to(MeterFilter(noise_multiplier=2.0, sample_rate=1.0, delta=1e-6, stop_at=8.0, path="meter.json"),
       "site-1", filter_type=FilterType.TASK_RESULT)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastacct.core.extras import Foreign, import_extra
from fastacct.training.kept import kept
from fastacct.training.meter import Meter

_filter: Foreign = import_extra("nvflare.apis.filter", "nvflare")


class MeterFilter(_filter.Filter):  # type: ignore[misc]
    """Counts what is sent, and sends nothing that would exceed the budget.

    **Guarantee.** That of `Meter`, whose keywords this takes: a step is a result that is sent, to which noise was added
    before.  The file `path` is written before the result is passed on: one that was counted may not have been sent,
    but none is sent that was not counted.  Filters with one file, also of several processes, share one count.

    Results that failed are sent without what is in them: NVFlare's own filters add no noise to them.
    """

    def __init__(self, path: str, **run: Foreign) -> None:
        super().__init__()
        self.path, self.meter = Path(path), Meter(**run)

    def process(self, shareable: Foreign, fl_ctx: Foreign) -> Any:
        """Record the result, or refuse to send it."""
        if shareable.get_return_code() != "OK":
            for name in [name for name in shareable if name != "__headers__"]:
                del shareable[name]
            return shareable
        with kept(self.meter, self.path):
            self.meter.step()
        self.log_info(fl_ctx, f"epsilon {self.meter.epsilon:.6g} at delta {self.meter.delta:g}")
        return shareable
