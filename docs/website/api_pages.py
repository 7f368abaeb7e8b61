"""Pages of the reference: every public name of the package, found in the lists `__all__`, on a page of its own.

A page with a table of its names, functions first, stands above the pages of each module and of each group of names.
"""

import ast
import doctest
import inspect
import re
import sys
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path
from types import GenericAlias, ModuleType

import fastacct as fa
from fastacct.mechanisms.samplers import VERBS

PACKAGE = Path(fa.__file__).parent
EXAMPLES = Path(__file__).parents[1] / "reference" / "examples.md"
SUBMODULES = ["gradient", "testing", "reference", "conformance"]
"""Public modules that are imported by their own name, beside those of `fastacct.__all__`."""

GROUPS = {
    "verbs": (
        "Epsilon, delta and Rényi divergences",
        ("epsilon", "core.bounds", "accountants.explain", "core.progress"),
    ),
    "attacks": ("Attacks and trade-off curves", ("tradeoff", "gdp")),
    "loss": ("The privacy loss", ("privacy_loss", "moments")),
    "accountants": ("Accountants", ("accountants",)),
    "budget": ("Budgets", ("ledger",)),
    "mechanisms": ("Classes of mechanisms", ("mechanisms",)),
    "utility": ("Errors, and noise for a target", ("mechanisms.utility", "mechanisms.error", "calibrate")),
    "sweeps": ("Sweeps, plans and reports", ("sweep", "reports")),
    "loaders": ("Loaders and networks", ("loaders", "accountants.network")),
}
"""Pages of the names of `fastacct` itself: title, and the modules in which they are defined."""
REST = ("more", "More")


def listed(file: Path) -> list[str]:
    """`__all__` of a file that may not be imported here."""
    names: list[str] = []
    for node in ast.parse(file.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(getattr(one, "id", "") == "__all__" for one in targets):
            names += ast.literal_eval(node.value)
    return names


def constants(file: Path) -> set[str]:
    """Names that are assigned in a file."""
    nodes = ast.parse(file.read_text()).body
    targets = [one for node in nodes for one in getattr(node, "targets", [getattr(node, "target", None)])]
    return {getattr(one, "id", "") for one in targets}


_PARTS = ("dp_events", "dp_sampling", "opacus_draws", "opacus_loaders")
"""Modules of `fastacct.compat` that adapters are made of."""


def adapters() -> dict[str, list[str]]:
    """{name of a module of `fastacct.compat`: its public names}."""
    files = [*(PACKAGE / "compat").glob("[a-z]*.py"), *(PACKAGE / "compat").glob("*/__init__.py")]
    names = {file.parent.name if file.stem == "__init__" else file.stem: listed(file) for file in files}
    return {f"compat.{name}": names[name] for name in sorted(names) if name not in _PARTS}


def modules() -> dict[str, ModuleType]:
    """{name under which a public module is reached: the module}."""
    reached = {name: getattr(fa, name) for name in sorted(set(fa.__all__)) if inspect.ismodule(getattr(fa, name))}
    return reached | {name: import_module(f"fastacct.{name}") for name in SUBMODULES}


def names_of(module: ModuleType) -> list[str]:
    """Public names of a module: functions as they stand in their files, the rest, then classes by the alphabet."""

    def place(name: str) -> tuple[int, str, int, str]:
        found = inspect.unwrap(getattr(module, name))
        code = getattr(found, "__code__", None)
        if code:
            return 0, code.co_filename, code.co_firstlineno, name
        return 2 if inspect.isclass(found) else 1, "", 0, name.casefold()

    return sorted(set(module.__all__), key=place)


def group_of(name: str) -> tuple[str, int]:
    """The page of a name of `fastacct`, and which part of it: the longest module in `GROUPS` in which it is defined."""
    home = getattr(getattr(fa, name), "__module__", "").removeprefix("fastacct.")
    fits = {
        one: (page, rank)
        for page, (_, modules_of) in GROUPS.items()
        for rank, one in enumerate(modules_of)
        if home == one or home.startswith(f"{one}.")
    }
    return fits[max(fits, key=len)] if fits else (REST[0], 0)


def explained(kind: type) -> list[str]:
    """Fields of a class that a string below them explains."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):  # made at run time
        return []
    body = getattr(node, "body", [])
    named = [getattr(one, "target", None) or next(iter(getattr(one, "targets", [])), None) for one in body]
    pairs = zip(named, body[1:], strict=False)
    return [
        one.id
        for one, text in pairs
        if isinstance(one, ast.Name) and isinstance(text, ast.Expr) and not one.id.startswith("_")
    ]


def members(kind: type) -> list[str]:
    """Methods and properties that a class shows itself; of a mechanism what not all of them have, and its samplers."""
    own = [name for name, one in vars(kind).items() if not name.startswith("_") and inspect.getdoc(one)]
    if issubclass(kind, fa.Mechanism) and kind is not fa.Mechanism:
        of_all = dir(fa.Mechanism)
        own = [name for name in own if callable(getattr(kind, name))]
        return [name for name in own if name in VERBS or name not in of_all]
    fields = explained(kind)
    if issubclass(kind, fa.Method) and kind is not fa.Method:
        return fields
    shown = [name for name in own if callable(getattr(kind, name)) or isinstance(vars(kind)[name], property)]
    return fields + [name for name in shown if name not in fields]


def directive(module: str, name: str, found: object) -> str:
    """The lines that document one name."""
    if isinstance(found, GenericAlias):
        return f".. py:data:: {name}\n   :module: {module}\n\n   Another name of ``{found}``.\n"
    if inspect.isclass(found):
        shown = members(found)
        option = f"\n   :members: {', '.join(shown)}" if shown else ""
        return f".. autoclass:: {module}.{name}{option}\n"
    return f".. {'autofunction' if callable(found) else 'autodata'}:: {module}.{name}\n"


@cache
def more_examples() -> dict[str, str]:
    """{full name: example} of the names whose docstrings have none, from docs/reference/examples.md."""
    parts = re.split(r"^## (\S+)$", EXAMPLES.read_text(), flags=re.MULTILINE)[1:]
    first = "    >>> import fastacct as fa\n"
    return {name: first + text.strip("\n") + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


def with_example(full: str, found: object, lines: list[str]) -> None:
    """Add the section Examples to the lines of a docstring that has none, and to examples their imports."""
    if full in more_examples() and not any(">>>" in line for line in lines):
        lines += ["", "Examples", "--------", *textwrap.dedent(more_examples()[full]).splitlines(), ""]
    first = next((at for at, line in enumerate(lines) if line.lstrip().startswith(">>> ")), None)
    if first is not None:
        indent = lines[first].partition(">")[0]
        lines[first:first] = [f"{indent}>>> {one}" for one in imports(found, lines)]


def imports(found: object, lines: list[str]) -> list[str]:
    """What examples need to run where they are pasted: they are tested where their name is defined."""
    code = "".join(one.source for one in doctest.DocTestParser().get_examples("\n".join(lines)))
    nodes = list(ast.walk(ast.parse(code)))
    bound = {one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    bound |= {(one.asname or one.name).split(".")[0] for one in nodes if isinstance(one, ast.alias)}
    bound |= {one.arg for one in nodes if isinstance(one, ast.arg)}
    here = sys.modules[getattr(found, "__module__", None) or "fastacct"]
    needed = []
    for name in sorted({one.id for one in nodes if isinstance(one, ast.Name)} - bound):
        one = getattr(here, name, None)
        if inspect.ismodule(one):
            needed.append(f"import {one.__name__}" + (f" as {name}" if name != one.__name__ else ""))
        elif one is not None:
            place = "fastacct" if getattr(fa, name, None) is one and name in fa.__all__ else here.__name__
            needed.append(f"from {place} import {name}")
    return needed


def page(title: str, lines: list[str]) -> str:
    """A page in reStructuredText."""
    return "\n".join([title, "=" * len(title), "", *lines, ""])


def file_of(full: str) -> str:
    """The page of a full name; names that differ by capitals alone differ in more, for file systems that see none."""
    twins = sorted(one for one in PUBLIC.values() if one.casefold() == full.casefold())
    return f"{full}_{twins.index(full) + 1}" if full != twins[-1] else full


def full_name(reached: str, module: ModuleType, name: str) -> str:
    """A name of a module, or that of `fastacct` itself where it is the same."""
    is_own = name in fa.__all__ and getattr(fa, name) is getattr(module, name)
    return f"fastacct.{name}" if is_own else f"fastacct.{reached}.{name}"


def pages() -> dict[str, str]:
    """{name of a page: its text}."""
    made: dict[str, str] = {}

    def index(key: str, title: str, about: list[str], fulls: dict[str, object]) -> None:
        """A page above those of names that no page before has: what they have in common, and a table of all."""
        listed = [full for full, found in fulls.items() if not isinstance(found, GenericAlias | ModuleType)]
        table = [".. py:currentmodule:: None", "", ".. autosummary::", "   :nosignatures:", ""] if listed else []
        table += [*(f"   ~{full}" for full in listed), ""]
        apart = [f"* :doc:`{full} <{full.split('.')[-1]}>`" for full, one in fulls.items() if inspect.ismodule(one)]
        below = [full for full, one in fulls.items() if file_of(full) not in made and not inspect.ismodule(one)]
        rows = [f"   {full.split('.')[-1]} <{file_of(full)}>" for full in below]
        toctree = [".. toctree::", "   :hidden:", "", *rows] if rows else []
        made[key] = page(title, [*table, *about, "", *apart, "", *toctree])
        for full in below:
            module, _, name = full.rpartition(".")
            made[file_of(full)] = page(full, [directive(module, name, fulls[full])])

    own = [name for name in names_of(fa) if not inspect.ismodule(getattr(fa, name))]
    for key, title in [*((key, one[0]) for key, one in GROUPS.items()), REST]:
        names = [name for name in own if group_of(name)[0] == key and key not in modules()]
        if names:
            names.sort(key=lambda name: (inspect.isclass(getattr(fa, name)), group_of(name)[1]))
            index(key, title, [], {f"fastacct.{name}": getattr(fa, name) for name in names})
    for reached, module in modules().items():
        about = [f".. automodule:: fastacct.{reached}"]
        if f"fastacct.{reached}" != module.__name__:
            about = [inspect.getdoc(module) or ""]
        fulls = {full_name(reached, module, name): getattr(module, name) for name in names_of(module)}
        index(reached, f"fastacct.{reached}", about, fulls)
    for reached, names in adapters().items():
        file = PACKAGE / "compat" / f"{reached.removeprefix('compat.')}.py"
        data = sorted(constants(file).intersection(names)) if file.is_file() else []
        lines = [f".. automodule:: fastacct.{reached}", "   :members:", ""]
        made[reached] = page(f"fastacct.{reached}", lines + [f".. autodata:: fastacct.{reached}.{x}\n" for x in data])
    return made


def public() -> dict[str, str]:
    """{name below `fastacct`: its full name} of every public name."""
    found = {name: f"fastacct.{name}" for name in set(fa.__all__)}
    for reached, module in modules().items():
        found |= {f"{reached}.{name}": full_name(reached, module, name) for name in module.__all__}
    for reached, names in adapters().items():
        found |= {f"{reached}.{name}": f"fastacct.{reached}.{name}" for name in names}
    return found


PUBLIC = public()


def write_pages(folder: Path) -> list[str]:
    """Write the pages that have changed; those that stand in no page's list, for a list of contents."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)
    below = {file_of(full) for full in PUBLIC.values()}
    return [f"docs/reference/api/{name}" for name in texts if name not in below]


def captions(pages_made: list[str]) -> dict[str, list[str]]:
    """The pages of the reference in three lists: names of `fastacct`, public modules, adapters."""
    kinds: dict[str, list[str]] = {"fastacct": [], "Modules": [], "Other libraries": []}
    for one in pages_made:
        name = one.rpartition("/")[2]
        own = "fastacct" if name in (*GROUPS, REST[0]) else "Modules"
        kind = "Other libraries" if name.startswith("compat") else own
        kinds[kind].append(one)
    return kinds
