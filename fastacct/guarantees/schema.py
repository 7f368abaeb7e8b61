"""Documents: JSON that means one thing, and what its schema allows; `schema.json` is the schema, word for word."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, TypedDict, cast

MOST_BYTES: Final = 2**22
"""Of a file; those of most jobs have 5,000."""
_DEEPEST: Final = 40
_DIGITS: Final = 20
_TOLD: Final = {"type", "enum", "const", "pattern", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
Word = int | float | str
Point = list[str]
"""A place, and two bounds."""
Rule = TypedDict(
    "Rule",
    {
        "$ref": str,
        "$defs": "dict[str, Rule]",
        "type": "str | list[str]",
        "enum": list[object],
        "const": object,
        "properties": "dict[str, Rule]",
        "additionalProperties": "bool | Rule",
        "required": list[str],
        "items": "Rule",
        "minItems": int,
        "maxItems": int,
        "pattern": str,
        "maxLength": int,
        "minimum": float,
        "maximum": float,
    },
    total=False,
)
"""The part of JSON Schema that `schema.json` uses."""


class Block(TypedDict):
    """A mechanism as saved budgets have it, and how often it is run."""

    mechanism: dict[str, object]
    count: int


class Unit(TypedDict):
    """The unit of privacy."""

    of: str
    rows: int


class Interval(TypedDict):
    """Certified bounds."""

    lower: str
    upper: str
    status: str


class AuditRow(TypedDict):
    """What an audit showed."""

    method: str
    confidence: str
    epsilon_lower: str
    of: dict[str, int | list[int]]


class Numbers(TypedDict):
    """What is computed of a job."""

    epsilon: Interval
    curve: list[Point]
    tradeoff: list[Point]


class Document(Numbers):
    """A whole guarantee, as `schema.json` describes it."""

    format: str
    version: int
    job: list[Block]
    run: dict[str, Word]
    neighbors: str
    adjacency: str
    unit: Unit
    trust_model: str
    sampler: list[str]
    public: dict[str, Word]
    delta: str
    certificate: dict[str, object] | None
    audits: list[AuditRow]
    versions: dict[str, str]
    digest: str


@cache
def schema() -> Rule:
    """The schema of version 1."""
    found: Rule = json.loads((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))
    return found


def parsed(text: str) -> Document:
    """The document in a text.

    Raises
    ------
    ValueError
        It is no JSON, or JSON that readers take differently: a name twice, NaN, a number beyond floats; or it is too
        long, too deep, or not what the schema allows.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} characters")
    try:
        found = json.loads(
            text, object_pairs_hook=once, parse_constant=_no_number, parse_float=_finite, parse_int=_whole
        )
        _measure(found, 0)
        json.dumps(found, ensure_ascii=False).encode()  # refuses halves of characters
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a surrogate alone)") from None
    check(found, schema(), "")
    return cast("Document", found)


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON in which no name is twice."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(digits: str) -> float:
    return value if math.isfinite(value := float(digits)) else _no_number(digits[:60])


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= _DIGITS else _no_number(digits[:60])


def _measure(value: object, depth: int) -> None:
    """Refuse what is nested more deeply than any job."""
    if depth > _DEEPEST:
        raise RecursionError
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _measure(part, depth + 1)


def check(value: object, rule: Rule, at: str) -> None:
    """Refuse what a schema does not allow, by its place."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    if not _fits(value, rule):
        shown = {name: one for name, one in rule.items() if name in _TOLD}
        raise ValueError(f"{at or 'the whole'} = {value!r:.60} is not as {json.dumps(shown)} asks")
    if isinstance(value, list):
        for place, part in enumerate(value):
            check(part, rule.get("items", {}), f"{at}[{place}]")
    if isinstance(value, dict):
        others = rule.get("additionalProperties", True)
        for name, part in value.items():
            inner = rule.get("properties", {}).get(name, others)
            if inner is False:
                raise ValueError(f"{at}.{name:.60} is not known".lstrip("."))
            check(part, inner if isinstance(inner, dict) else {}, f"{at}.{name:.60}".lstrip("."))
        if missing := [name for name in rule.get("required", ()) if name not in value]:
            raise ValueError(f"{at}.{missing[0]} is missing".lstrip("."))


def _fits(value: object, rule: Rule) -> bool:
    """Whether a value itself is allowed, whatever its parts."""
    kind = _TYPES.get(type(value)) or ("integer" if float(cast("float", value)).is_integer() else "number")
    types, allowed = rule.get("type", kind), rule.get("enum", [rule.get("const", value)])
    if {kind, "number" if kind == "integer" else kind}.isdisjoint([types] if isinstance(types, str) else types):
        return False
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        return False
    if isinstance(value, int | float):
        return rule.get("minimum", value) <= value <= rule.get("maximum", value)
    if isinstance(value, list):
        return rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value))
    if isinstance(value, str):
        return len(value) <= rule.get("maxLength", len(value)) and re.search(rule.get("pattern", ""), value) is not None
    return True
