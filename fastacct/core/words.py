"""Names as people write them, which one was probably meant, and JSON."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache, wraps
from itertools import chain, islice
from types import FunctionType, ModuleType
from typing import Final, NoReturn, ParamSpec, TypeVar, cast

import numpy as np

_DEFAULTS: Final = {"neighbors": "add_remove", "sampling": "poisson"}
"""Of keywords that are not None where they are not given."""

_LATEX: Final = str.maketrans(
    {"ε": r"$\varepsilon$", "δ": r"$\delta$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "<": "$<$", ">": "$>$"}
    | {c: "\\" + c for c in "#$%&_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
)
P = ParamSpec("P")
Answer = TypeVar("Answer")
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What terminals obey, and what turns the direction of a text."""
_LOWERED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_WORD: Final = re.compile("[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    import tomllib
    from pathlib import Path

    parts = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8")).items()
    return {part: {meant: words.split() for meant, words in listed.items()} for part, listed in parts}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to a refusal; empty where no known name is near.  words.toml has what others call it."""
    hint = next(_hints(word, [name for name in known if name != word and name[:1] != "_"]), "")
    return f" ({hint})" if hint else ""


def top_hint(word: str, known: Iterable[str]) -> str:
    """The hint at a name of the package; where there is none, what a mechanism or a function that it lacks is like."""
    lacks = _table()["lacks"]["a class" if word[:1].isupper() else "a function"]
    return did_you_mean(word, known) or f" ({' '.join(lacks)})"


def option_meant(command: str, word: str, known: Iterable[str]) -> str:
    """A hint at the option that was meant, to append to a refusal; a command may have hints of its own."""
    table = _table()["option"]
    if own := table.get(command):
        return f" ({' '.join(own)})"
    told = next((cure for cure, words in table.items() if word in words), "")
    return f" ({told})" if told else did_you_mean(word, known)


def command_meant(word: str, known: Iterable[str]) -> str:
    """A hint at the command that was meant, to append to a refusal."""
    folded = word.casefold()
    told = next((command for command, words in _table()["command"].items() if folded in words), "")
    if told in (known := [*known]):
        return f" (did you mean {told!r}?)"
    return f" (write fastacct {told})" if told else did_you_mean(word, known)


def _hints(word: str, names: list[str]) -> Iterator[str]:
    """What others call one of these names, what to do instead, and names that are nearly so, of its parts too."""
    table = _table()
    yield from (f"did you mean {name!r}?" for name in _ours(word.casefold(), names))
    yield from _cured((cure for cure, words in table["instead"].items() if word in words), names)
    yield from (f"did you mean {name!r}?" for name in _near(word, names, alike=0.85))
    yield from _within(word, names)
    yield from (f"did you mean {name!r}?" for name in _near(word, names, alike=0.8 if word[:1].isupper() else 0.65))
    begin, _, rest = word.partition("_")
    if rest and begin in table["before"]["a name"]:
        yield from _hints(rest, names)


def _cured(cures: Iterable[str], names: list[str]) -> Iterator[str]:
    """What to do instead, unless it is a method that these names have not; a function that they have by its name."""
    for cure in cures:
        of = re.match(r"(write fastacct\.)?(?!print|dir|help)(\w+)\((?!fastacct)", cure)
        if of and of[1] and of[2] in names and "Gaussian" not in names:
            yield f"did you mean {of[2]!r}?"
        elif of is None or of[1] or of[2] in names:
            yield cure


def _within(word: str, names: list[str]) -> Iterator[str]:
    """Hints at a name of the same words, and at the longest part of them that is known."""
    parts = _parts(word)
    if len(parts) > 1:
        yield from (f"did you mean {name!r}?" for name in names if {*_parts(name)} == {*parts})
    for size in range(len(parts), 0, -1):
        begins = range(len(parts) - size + 1)
        for begin in begins if size > 1 else begins[::-1]:  # what a name is stands at its end: attack_advantage
            yield from _of_part(parts[begin : begin + size], names, is_whole=size == len(parts))


def _of_part(parts: list[str], names: list[str], *, is_whole: bool) -> Iterator[str]:
    """Hints at what some words of a name mean, unless they say nothing."""
    part, table = "".join(parts), _table()
    if len(part) < 3 or part in table["before"]["any name"]:
        return
    yield from (f"did you mean {name!r}?" for name in _named_so(part, names))
    if is_whole or len(parts) > 1 or part not in table["before"]["a whole"]:
        yield from _cured(_saying(part, "instead"), names)


def _named_so(part: str, names: list[str]) -> Iterator[str]:
    """Names that are a word, and those that others call so."""
    yield from sorted((name for name in names if _folded(name) == part), key=lambda name: name != part)
    yield from (name for name in _saying(part, "meant") if name in names)


def _saying(part: str, kind: str) -> Iterator[str]:
    """What has a word among its own."""
    return (said for said, words in _table()[kind].items() if part in map(_folded, words))


def _parts(name: str) -> list[str]:
    """The words of a name."""
    return [one.casefold() for one in (re.split("[_.]", name) if "_" in name else _WORD.findall(name)) if one]


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def _ours(folded: str, names: list[str]) -> Iterator[str]:
    meant = [name for name, words in _table()["meant"].items() if folded in words]
    yield from (name for name in meant if name in names)
    yield from (f"dpsgd.{name}" for name in (folded, *meant) if f"dpsgd.{name}" in names)


def _near(word: str, names: list[str], alike: float) -> Iterator[str]:
    import difflib

    folded = word.casefold()
    yield from (name for name in names if name.casefold() == folded)
    yield from (name for name in names if len(word) > 4 and name.casefold().startswith(folded))
    yield from difflib.get_close_matches(word, [name for name in names if not name.startswith("_")], cutoff=alike)


class _Hinting(ModuleType):
    """A module that says what is in it where it is called."""

    def __call__(self, *given: object, **named: object) -> NoReturn:
        names = getattr(self, "__all__", dir(self))
        strings = [*given, *named.values()]
        words = [one if isinstance(one, str) else getattr(one, "__name__", "") for one in strings]
        meant = (f"did you mean {word!r}?" for word in words if word in names)
        others = (hint for word in words for hint in _hints(word, names) if hint.startswith("did"))
        usual = " ".join(_table()["called"].get(self.__name__.rpartition(".")[2], []))
        hint = next(chain(meant, others), usual)
        told = f" ({hint})" if hint else ""
        raise TypeError(f"{self.__name__} is a module: call one of {', '.join(names)}{told}")


def shows_names(module: ModuleType) -> None:
    """Let a module with a list `__all__`, and the modules in it, show these names alone and hint at misspelt ones."""
    names, inside = getattr(module, "__all__", None), vars(module)
    if names is None or "__dir__" in inside:
        return

    def unknown(name: str) -> object:
        hint = "" if name.startswith("_") else did_you_mean(name, names) or _those(names)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}{hint}")

    if type(module) is ModuleType:
        module.__class__ = _Hinting
    inside.update({"__dir__": lambda: [*names], "__getattr__": inside.get("__getattr__", unknown)})
    for one in names:
        if isinstance(inside.get(one), ModuleType):
            shows_names(inside[one])


def hinting(hints: Mapping[str, str]) -> Callable[[object, str], object]:
    """A method `__getattr__` that says what to write instead of a name that an object does not have."""

    def unknown(self: object, name: str) -> object:
        public = [] if name.startswith("_") else dir(self)
        parts = (f" ({hints[part]})" for part in (name, *_parts(name)) if part in hints)
        whole = f" ({hints[name]})" if name in hints else ""
        hint = next(filter(None, chain([whole, did_you_mean(name, public)], islice(parts, 1), [_those(public)])), "")
        kind = next(base.__name__ for base in type(self).__mro__ if not base.__name__.startswith("_"))
        raise AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")

    return unknown


def told_names(function: Callable[P, Answer], beside: str = "") -> Callable[P, Answer]:
    """Let a function refuse arguments that it does not take with the one that was probably meant, or all names.

    One with `**keywords` refuses its own.
    """
    known = inspect.signature(function).parameters
    takes_any = cast("FunctionType", inspect.unwrap(function)).__code__.co_flags & inspect.CO_VARKEYWORDS
    own = [name for name, one in known.items() if name != "self" and one.kind is not one.VAR_KEYWORD]
    places = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in known.values())
    unnamed = places - ("self" in known)

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> Answer:
        if len(given) > places:
            raise too_many(function.__name__, unnamed, own, beside)
        if not takes_any:
            refuse_unknown(named, known)
        try:
            return function(*given, **named)
        except TypeError as error:
            raise as_usual(error) from None

    return call


def as_usual(error: TypeError) -> TypeError:
    """The error; of a call that lacks an argument, or has one twice, with what is usually given."""
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # of what was called
        return error
    if "multiple values" in str(error):
        return TypeError(f"{error} (several jobs are one: job + other, job * count)")
    usual = next((words for name, words in _table()["given"].items() if repr(name) in str(error)), [])
    return TypeError(f"{error} (as {' '.join(usual)})") if usual else error


def too_many(name: str, places: int, names: Iterable[str], beside: str = "") -> TypeError:
    """What says that arguments were given without names which have one."""
    many = f"{places or 'no'} argument{'s' * (places != 1)}"
    named, usual = [*names], _table()["given"]
    beside = beside or next((f" (as {' '.join(usual[one])})" for one in named if one in usual), "")
    return TypeError(f"{name} takes {many} without names; their names: {', '.join(named)}{beside}")


def refuse_unknown(given: Mapping[str, object], known: Mapping[str, object], targets: tuple[str, ...] = ()) -> None:
    """Refuse keywords that are not known, with the one that was probably meant, of these or of the targets beside."""
    if unknown := sorted(given.keys() - known.keys()):
        raise TypeError(f"unexpected keyword argument {unknown_named(unknown, [*known, *targets])}")


def unknown_named(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Names that are not known, and behind them what was probably meant."""
    known = [*known]
    cures = [(repr(name), _keyword_meant(name, known) or did_you_mean(name, known)) for name in unknown]
    return by_cure(cures) + ("" if all(cure for _, cure in cures) else _those(known))


def _those(names: Iterable[str]) -> str:
    """The names that there are, where none was meant and they are few."""
    shown = [name for name in names if name[:1] != "_"]
    return f" (there are {', '.join(shown)})" if 0 < len(shown) <= 24 else ""


def _keyword_meant(word: str, known: list[str]) -> str:
    """A keyword and its value, where another library has a keyword for this value."""
    for told, words in _table()["keyword"].items():
        name = told.partition("=")[0]
        plain = word.removeprefix("with_").removeprefix("is_").removeprefix("use_")
        if plain in words and name in known and next(_ours(word, known), name) == name:
            return f" (write {told.format(plain)})"
    return ""


def by_cure(told: Iterable[tuple[str, str]]) -> str:
    """Names, each with its cure; those that have one cure together."""
    cures: dict[str, list[str]] = {}
    for name, cure in told:
        cures.setdefault(cure, []).append(name)
    return ", and ".join(f"{', '.join(names)}{cure}" for cure, names in cures.items())


def formerly(given: MutableMapping[str, object], old: str, new: str) -> None:
    """Take a keyword by its former name, for one release, with a warning."""
    if old in given:
        if new in given:
            raise TypeError(f"give {new}, and no {old}, which is its former name")
        warnings.warn(
            f"{old} is called {new}: {old} is accepted in this release only", DeprecationWarning, stacklevel=3
        )
        given[new] = given.pop(old)


def written_out(keywords: Mapping[str, object], functions: Iterable[Callable[..., object]]) -> list[inspect.Signature]:
    """Give functions with `**keywords` a signature with each of them, for completion and `help`; these signatures.

    What must be given by name is `...` where it is not, so that a keyword that is not known is refused first.
    """
    named = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in keywords.items()
    ]
    shown = []
    for function in functions:
        signature = inspect.signature(function)
        own = [value for value in signature.parameters.values() if value.kind != inspect.Parameter.VAR_KEYWORD]
        extra = [parameter for parameter in named if parameter.name not in signature.parameters]
        signature = signature.replace(parameters=own + extra)
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__kwdefaults__ = dict.fromkeys(_needed(own), ...) | (function.__kwdefaults__ or {})
        shown.append(signature)
    return shown


def _needed(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """What must be given by name."""
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]


def as_json(document: object, indent: int | None = None) -> str:
    """JSON, which has no infinity: it becomes the text "inf".  Floats keep every digit."""
    import json

    return json.dumps(_numbers_of(document), allow_nan=False, indent=indent)


def as_latex(text: str) -> str:
    """Text for LaTeX, with the signs of formulas as formulas."""
    text = text.replace("<=", "≤").replace(">=", "≥")
    text = re.sub(r"\b(epsilon|delta)(?= [=≤≥])", lambda named: "ε" if named[0] == "epsilon" else "δ", text)
    plain = text.translate(_LATEX).replace(r"e\^{}$\varepsilon$", r"$e^\varepsilon$")
    number = r"(?<![\w/.-])(\d[\d.]*)e([+-]\d+)(?![\w/.]*\w)"  # not in the name of a file
    plain = re.sub(number, lambda found: rf"{found[1]}$\times 10^{{{int(found[2])}}}$", plain)
    return re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda high: f"$^{{{high.group().translate(_LOWERED)}}}$", plain)


def in_one_line(text: str) -> str:
    """Words of others in one line, which makes no heading and no row, with control characters spelt out."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], " ".join(text.split()))


def as_plain(value: object) -> object:
    """A value that JSON has, or its text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | None) else str(value)


def _numbers_of(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _numbers_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_of(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
