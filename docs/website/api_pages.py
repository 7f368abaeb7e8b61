"""Pages of the reference: every public name of the package, found in the lists `__all__`, with its docstring."""

import ast
import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path
from types import GenericAlias, ModuleType

import fastacct as fa

PACKAGE = Path(fa.__file__).parent
EXAMPLES = Path(__file__).parents[1] / "reference" / "examples.md"
SUBMODULES = ["gradient", "testing", "reference", "conformance"]
"""Public modules that are imported by their own name, beside those of `fastacct.__all__`."""

GROUPS = {
    "verbs": ("Epsilon, delta and Rényi divergences", ("epsilon", "core.bounds", "explain", "core.progress")),
    "attacks": ("Attacks and trade-off curves", ("tradeoff", "gdp")),
    "loss": ("The privacy loss", ("privacy_loss", "moments")),
    "accountants": ("Accountants", ("accountants",)),
    "budget": ("Budgets", ("ledger",)),
    "mechanisms": ("Classes of mechanisms", ("mechanisms",)),
    "utility": ("Errors, and noise for a target", ("utility", "mechanisms.error", "calibrate")),
    "sweeps": ("Sweeps, plans and reports", ("sweep", "reports")),
    "loaders": ("Loaders and networks", ("loaders", "network")),
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


_PARTS = ("dp_events", "dp_sampling", "opacus_loaders")
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
    """Public names of a module: classes, then functions, then the rest, each in alphabetical order."""
    rank = {name: 0 if inspect.isclass(getattr(module, name)) else 1 for name in set(module.__all__)}
    return sorted(rank, key=lambda name: (rank[name], name))


def group_of(name: str) -> str:
    """The page of a name of `fastacct`: that of the longest module named in `GROUPS` in which it is defined."""
    home = getattr(getattr(fa, name), "__module__", "").removeprefix("fastacct.")
    fits = {
        one: page
        for page, (_, modules_of) in GROUPS.items()
        for one in modules_of
        if home == one or home.startswith(f"{one}.")
    }
    return fits[max(fits, key=len)] if fits else REST[0]


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
    """Methods and properties that a class shows itself; of a mechanism only its other ways to make one."""
    own = [name for name, one in vars(kind).items() if not name.startswith("_") and inspect.getdoc(one)]
    if issubclass(kind, fa.Mechanism) and kind is not fa.Mechanism:
        return [name for name in own if isinstance(vars(kind)[name], classmethod)]
    fields = explained(kind)
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


def with_example(full: str, lines: list[str]) -> None:
    """Add the section Examples to the lines of a docstring that has none."""
    if full in more_examples() and not any(">>>" in line for line in lines):
        lines += ["", "Examples", "--------", *textwrap.dedent(more_examples()[full]).splitlines(), ""]


def page(title: str, lines: list[str]) -> str:
    """A page in reStructuredText."""
    return "\n".join([title, "=" * len(title), "", *lines, ""])


def pages() -> dict[str, str]:
    """{name of a page: its text}."""
    made = {}
    own = [name for name in names_of(fa) if not inspect.ismodule(getattr(fa, name))]
    for key, title in [*((key, one[0]) for key, one in GROUPS.items()), REST]:
        names = [name for name in own if group_of(name) == key]
        if names:
            made[key] = page(title, [directive("fastacct", name, getattr(fa, name)) for name in names])
    for reached, module in modules().items():
        lines = [f".. automodule:: fastacct.{reached}", ""]
        if f"fastacct.{reached}" != module.__name__:
            lines = [inspect.getdoc(module) or "", ""]
        lines += [directive(f"fastacct.{reached}", name, getattr(module, name)) for name in names_of(module)]
        made[reached] = page(f"fastacct.{reached}", lines)
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
        found |= {f"{reached}.{name}": f"fastacct.{reached}.{name}" for name in module.__all__}
    for reached, names in adapters().items():
        found |= {f"{reached}.{name}": f"fastacct.{reached}.{name}" for name in names}
    return found


PUBLIC = public()


def write_pages(folder: Path) -> list[str]:
    """Write the pages that have changed; their names for a list of contents."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)
    return [f"docs/reference/api/{name}" for name in texts]


def captions(pages_made: list[str]) -> dict[str, list[str]]:
    """The pages of the reference in three lists: names of `fastacct`, public modules, adapters."""
    kinds: dict[str, list[str]] = {"fastacct": [], "Modules": [], "Other libraries": []}
    for one in pages_made:
        name = one.rpartition("/")[2]
        own = "fastacct" if name in (*GROUPS, REST[0]) else "Modules"
        kind = "Other libraries" if name.startswith("compat") else own
        kinds[kind].append(one)
    return kinds
