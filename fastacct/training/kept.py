"""The file of a meter, which fits and processes may share: what each of them counts is added up."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

from fastacct.core.files import atomic_output, locked, real_file, refuse_existing
from fastacct.core.words import as_json
from fastacct.training.given import total
from fastacct.training.meter import Meter


@contextlib.contextmanager
def kept(meter: Meter, path: str | os.PathLike[str]) -> Iterator[None]:
    """Add to a meter what others have counted in the file, keep them out, and write the sum at the end.

    The file never says less than before.

    Raises
    ------
    ValueError
        The file of another run, or a damaged one; a meter that was loaded with another state, of which nobody knows
        whether the file has it.
    """
    real = real_file(path)
    refuse_existing(real, overwrite=True)
    name = str(real)
    with locked(real):
        before = json.loads(real.read_text("utf-8")) if real.exists() else None
        known = meter._met.get(name, total(meter._named[1]))
        begun = known
        if before is not None and name not in meter._met and known != (0, 0):
            raise ValueError(
                f"a state was loaded, and {real.name} has a count of its own: leave load_state_dict out, the file "
                "keeps the count, or give the file another name"
            )
        if before is not None:
            steps, units, _ = meter._counts_in(before)
            begun = max(known, (units, steps))
            meter._seeds.theirs |= {*before.get("seeds", ())} - meter._seeds.marks
        meter._units += begun[0] - known[0]
        meter.steps += begun[1] - known[1]
        meter._met[name] = begun
        yield
        state = meter.state_dict()
        if state != before:
            with atomic_output(real, overwrite=True) as file:
                file.write_text(as_json(state), "utf-8")
        meter._met[name] = meter._units, meter.steps
