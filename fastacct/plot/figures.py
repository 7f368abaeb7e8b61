"""What all pictures share: sizes, axes, files."""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import numpy as np

from fastacct.accountants.run import Parameters, process_of, refused
from fastacct.core.extras import import_extra
from fastacct.core.files import atomic_output, refuse_existing
from fastacct.core.words import told_names
from fastacct.mechanisms.algebra import Mechanism, Process

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Drawn = TypeVar("Drawn")
Color = tuple[float, float, float, float]
SUFFIXES: Final = (".png", ".pdf", ".svg")
DPI: Final = 200
SMALL: Final = 9.0
"""Points: three panels are 9 inches wide; shown 900 pixels wide, the smallest text is still 12 pixels high."""
MEDIUM: Final = 10.0
LARGE: Final = 12.0
NARROWEST: Final = 6.4
WIDE: Final = 8.0
LEGEND_ROWS: Final = 16

STYLES: Final = (("#0072b2", "-"), ("#d55e00", "--"), ("#009e73", "-."), ("#cc79a7", ":"))
"""Colours that people tell apart (Okabe, Ito), and dashes for those who do not."""


@told_names
def save(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a figure as PNG, PDF or SVG, as its suffix says; whole or not at all, the same bytes for the same figure.

    Raises
    ------
    ValueError
        Another suffix.
    FileExistsError
        The file exists and `overwrite` is false.

    Examples
    --------
    >>> save(epsilon_grid(grid), "grid.png")  # doctest: +SKIP
    PosixPath('grid.png')
    """
    target = as_picture(path, overwrite=overwrite)
    import matplotlib

    kind = target.suffix[1:]
    # no creation date, no version of the software, no random names inside
    nothing = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    with atomic_output(target, overwrite=overwrite) as temporary, matplotlib.rc_context({"svg.hashsalt": "fastacct"}):
        figure.savefig(temporary, format=kind, dpi=DPI, metadata=nothing)
    return target


def as_picture(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path of a picture, if `save` can write it: suffix, folder, existing file, matplotlib.

    Examples
    --------
    >>> import fastacct as fa
    >>> fa.plot.as_picture("no_such_folder_yet.png").suffix
    '.png'
    """
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise ValueError(f"path = {str(target)!r}: a picture's name must end in {', '.join(SUFFIXES)}")
    refuse_existing(target, overwrite)
    import_extra("matplotlib.figure", "plot")
    return target


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure that pyplot does not know, and its panels, row by row."""
    figure: Figure = import_extra("matplotlib.figure", "plot").Figure(figsize=(width, height))
    figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]
    figure.set_layout_engine("constrained", wspace=0.08)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=share, sharey=share)).ravel().tolist()
    for axis in axes:
        axis.tick_params(labelsize=SMALL)
    return figure, axes


def panel(axis: Axes | None = None, height: float = 4.3, width: float = NARROWEST) -> Axes:
    """The only panel of a new figure, or the one that is given."""
    return new_figure(width, height)[1][0] if axis is None else axis


def finished(axis: Axes, title: str, key: Literal["best", "lower right", "upper left"] | None = None) -> Figure:
    """The figure of a panel, which gets its title and, where a place is named, a legend."""
    if key is not None:
        axis.legend(fontsize=SMALL, frameon=False, loc=key)
    axis.set_title(title, fontsize=MEDIUM)
    return cast("Figure", axis.get_figure())


Several: TypeAlias = Mapping[str, Drawn] | Sequence[Drawn] | Drawn
"""What pictures take: one thing, several in a list, or several with names."""


_Namer: TypeAlias = Callable[[Any], str]
_Pairs: TypeAlias = list[tuple[str, Any]]


def named(given: object, what: str, name_of: _Namer | None = None) -> _Pairs:
    """Names and things of `Several`: of a dict, of a list, or of a single thing."""
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    is_run = hasattr(given, "_fields")  # which is a tuple, too
    several = [*given] if isinstance(given, list | tuple) and not is_run else [given]
    return [(name_of(one) if name_of else f"{what}[{i}]", one) for i, one in enumerate(several)]


def jobs_of(given: object, run: Mapping[str, object], what: str, name_of: _Namer) -> _Pairs:
    """Names and jobs of `Several`, or a run of DP-SGD by its keywords; each job may be a dict of such keywords."""
    if run:
        told = f"give {what} or the keywords of a run, without {{}}"
        refused(run, ("accountant", "neighbors", "threads"), told, ("axis", "marked", "points"))
        if given is not None:
            raise TypeError(f"give either {what} or the keywords of a run, not both")
    elif given is None:
        raise TypeError(f"{what} is missing: give a job, a list or a dict {{name: job}}, or the keywords of a run")
    whole = run or given
    if isinstance(whole, Mapping) and not _is_run(whole):
        return [(name, _job(one)) for name, one in named(whole, what)]
    return named([_job(one) for _, one in named([whole] if isinstance(whole, Mapping) else whole, what)], what, name_of)


def _is_run(given: Mapping[str, object]) -> bool:
    """Whether a dict has the keywords of a run, and is none of jobs that are called so."""
    known = given.keys() <= Parameters.__annotations__.keys()
    return bool(given) and known and not any(isinstance(one, Mechanism | Process | Mapping) for one in given.values())


def _job(one: object) -> object:
    return process_of(cast("Parameters", one)) if isinstance(one, Mapping) else one


def styled(
    named: Mapping[str, Drawn] | Sequence[tuple[str, Drawn]], what: str
) -> Iterator[tuple[str, Drawn, str, str]]:
    """Names, what is drawn as lines, and the colour and the dash of each; nothing to draw is refused."""
    if not named:
        raise ValueError(f"{what} is empty: nothing to draw")
    pairs = named.items() if isinstance(named, Mapping) else named
    for (name, one), (color, dash) in zip(pairs, cycle(STYLES)):
        yield name, one, color, dash


def wrapped(name: str, letters: int) -> str:
    """A name in lines of so many letters, broken at spaces where terms end, and long code at brackets."""
    terms = re.sub(r" (?=[+*] )|(?<= \*) ", "\xa0", name)
    long = re.sub(r"(?<=[({])(?=[^({]\S{23})", "\x01 ", terms)
    lines = textwrap.fill(long, letters, break_long_words=False)
    return re.sub(r"\x01 ?", "", lines).replace("\xa0", " ")


def spread(notes: Sequence[Text]) -> None:
    """Move notes up, or down where there is no room, until none is on another nor outside its panel."""
    if not notes:
        return
    from matplotlib.text import Annotation

    axis = cast("Axes", notes[0].axes)
    figure = cast("Figure", axis.get_figure())
    figure.draw_without_rendering()  # only now it is known where things are
    points, panel_box = 72.0 / figure.dpi, axis.get_window_extent()
    placed: list[Bbox] = []
    for note in sorted((one for one in notes if isinstance(one, Annotation)), key=lambda one: one.xy[1]):
        note.set_bbox({"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8})
        x, y = note.xyann
        box = note.get_window_extent()
        for step in (*range(100), *range(-1, -100, -1)):
            moved = box.translated(0.0, 0.25 * step * box.height)
            is_inside = moved.y0 >= panel_box.y0 and moved.y1 <= panel_box.y1
            if is_inside and not any(moved.overlaps(other) for other in placed):
                break
        note.xyann = x, y + 0.25 * step * box.height * points
        placed.append(moved)


def _png(figure: Figure) -> bytes:
    """What a notebook shows."""
    target = BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


def name_axes(axis: Axes, x: str, y: str, *, grid: bool = True) -> None:
    """Labels of both axes, and a light grid."""
    axis.set_xlabel(x, fontsize=MEDIUM)
    axis.set_ylabel(y, fontsize=MEDIUM)
    if grid:
        axis.grid(True, color="#dddddd", linewidth=0.6)


def power(value: float) -> str:
    """A number for a formula: a power of ten as one."""
    digits, _, exponent = f"{value:.3e}".partition("e")
    return f"10^{{{int(exponent)}}}" if digits == "1.000" and abs(int(exponent)) > 3 else f"{value:g}"


def colors(n: int, what: str) -> list[Color]:
    """A colour for each of `n` lines; nothing to draw is refused."""
    if not n:
        raise ValueError(f"{what} is empty: nothing to draw")
    viridis = import_extra("matplotlib", "plot").colormaps["viridis"]
    return [viridis(x) for x in np.linspace(0.0, 0.7, n)]  # beyond, too little contrast with white


def legend(figure: Figure, entries: int) -> None:
    """A legend to the right, in as many columns as it needs; the figure grows with them."""
    columns = math.ceil(entries / LEGEND_ROWS)
    figure.set_figwidth(figure.get_figwidth() + 2.4 * (columns - 1))
    figure.legend(loc="outside right center", fontsize=SMALL, frameon=False, ncols=columns)


def log_scale(axis: Axes, side: Axis, low: float, high: float) -> None:
    """A logarithmic axis with a handful of labels, none of which run into each other."""
    from matplotlib.ticker import FixedLocator, NullLocator

    (axis.set_xscale if side is axis.xaxis else axis.set_yscale)("log")
    (axis.set_xlim if side is axis.xaxis else axis.set_ylim)(low, high)
    side.set_major_locator(FixedLocator(log_ticks(low, high)))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(lambda value, _: f"${power(value)}$" if "^" in power(value) else f"{value:g}")


def log_ticks(low: float, high: float) -> list[float]:
    """The roundest numbers of an interval: powers of ten, or where these are few 1 and 3, or 1, 2 and 5 times them."""
    from matplotlib.ticker import MaxNLocator

    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    candidates = [(3, [float(f"1e{k}") for k in tens if k % stride == 0]) for stride in range(len(tens), 0, -1)]
    for least, digits in ((3, (1, 3)), (2, (1, 2, 5))):
        candidates.append((least, [float(f"{digit}e{k}") for k in tens for digit in digits]))
    even = (MaxNLocator(nbins=n, steps=[1, 2, 5, 10]).tick_values(low, high) for n in range(3, 9))
    for least, ticks in (*candidates, *((2, list(ticks)) for ticks in even)):
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) >= least:
            break
    return inside
