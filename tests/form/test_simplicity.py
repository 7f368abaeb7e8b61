"""What a reader of the engine meets, counted: the ceilings of docs/design.md, which a stated feature alone lifts."""

import ast
import collections
import re
from functools import cache

import pytest

from tests.form.test_architecture import ROOT, imports, modules, rows

PACKAGE = ROOT / "fastacct"
ROOMS = ("core", "losses", "samplers", "readers", "accountants")
VERBS = ("dpsgd", "epsilon", "calibrate", "tradeoff", "gdp", "privacy_loss", "gradient")
SHARED = ("base", "process", "algebra")
"""Of the mechanisms: what all kinds share."""
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.With, ast.Assert, ast.comprehension)
SHOWN = ("labels", "words", "html", "files", "progress")
"""What of `core` is for people and other libraries, and no part of a number."""


@cache
def engine():
    """{dotted name: syntax tree} of what stands between a question and its kernel."""
    found = {}
    for module, file in modules().items():
        room, *inner = module.split(".")[1:] or [""]
        is_shared = room == "mechanisms" and inner and inner[-1] in SHARED
        if room in ROOMS or (room in VERBS and not inner) or is_shared:
            found[module] = ast.parse(file.read_text())
    return found


def decisions(tree):
    """Branches, loops, cases and words that join conditions; those of functions inside counted too."""
    total = 0
    for node in ast.walk(tree):
        if isinstance(node, BRANCHES):
            total += 1 + (len(node.ifs) if isinstance(node, ast.comprehension) else 0)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.Match):
            total += len(node.cases)
    return total


def outer_functions(tree):
    """Functions and methods, without those inside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        else:
            yield from outer_functions(node)


@cache
def complexities():
    """Of each function of the engine."""
    return [1 + decisions(function) for tree in engine().values() for function in outer_functions(tree)]


@cache
def constants():
    """{name: its values} of the numbers that modules of the engine name, and how many there are."""
    found, total = collections.defaultdict(set), 0
    for tree in engine().values():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if not (len(targets) == 1 and isinstance(targets[0], ast.Name) and getattr(node, "value", None)):
                continue
            if not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", targets[0].id):
                continue
            inside = list(ast.walk(node.value))
            has_number = any(type(getattr(one, "value", None)) in (int, float) for one in inside)
            called = {getattr(one.func, "id", "") for one in inside if isinstance(one, ast.Call)}
            if has_number and not called & {"Domain", "frozenset"}:
                found[targets[0].id.lstrip("_")].add(ast.unparse(node.value))
                total += 1
    return found, total


@cache
def stands_on(module):
    """All modules of the package that it reaches by imports."""
    seen, todo = set(), [module]
    while todo:
        for other, _ in imports(todo.pop()):
            if other in modules() and other not in seen and modules()[other].name != "__init__.py":
                seen.add(other)
                todo.append(other)
    return seen - {module}


def code_of(room):
    """Lines of a room that are no docstring, comment, blank line or import."""
    total = 0
    for module, tree in engine().items():
        if module.split(".")[1] != room:
            continue
        lines = set()
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
            if not isinstance(node, ast.stmt) or isinstance(node, ast.Import | ast.ImportFrom) or is_text:
                continue
            has_body = hasattr(node, "body")
            lines.update([node.lineno] if has_body else range(node.lineno, node.end_lineno + 1))
        total += len(lines)
    return total


def of_product(text):
    """Modules without the oracle, the adapters and the stored truths."""
    return [module for module in text if not any(part in module for part in (".reference", ".compat", ".conformance"))]


def mean_reach():
    inner = [module for module in engine() if modules()[module].name != "__init__.py"]
    return sum(len(stands_on(module)) for module in inner) / len(inner)


@cache
def floors(module):
    """How many modules stand on each other below a module, itself included."""
    below = {other for other, _ in imports(module) if other in modules()} - {module}
    return 1 + max(map(floors, below), default=0)


def numbers():
    """Modules that make numbers, one floor below those that show them; bounds show themselves in a notebook."""
    rooms = re.compile(rf"fastacct\.(core|losses|samplers|readers)\.(?!(?:{'|'.join((*SHOWN, 'bounds'))})$)")
    return sorted(module for module in engine() if rooms.match(module))


MEASURED = {
    "decisions in files of `readers`": lambda: sum(
        decisions(tree) for module, tree in engine().items() if re.fullmatch(r"fastacct\.readers\.\w+", module)
    ),
    "functions with 15 decisions or more": lambda: sum(one >= 15 for one in complexities()),
    "functions with 10 decisions or more": lambda: sum(one >= 10 for one in complexities()),
    "decisions of one function": lambda: max(complexities()),
    "numbers with a name": lambda: constants()[1],
    "names with several values": lambda: sum(len(values) > 1 for values in constants()[0].values()),
    "files under a file of the engine, on average": mean_reach,
    "floors of imports": lambda: max(map(floors, modules())),
    "lines of code of `losses`": lambda: code_of("losses"),
    "lines of code of `readers`": lambda: code_of("readers"),
    "lines of code of `samplers`": lambda: code_of("samplers"),
    "files that name one sampler": lambda: sum(
        bool(re.search(r"\bwith_replacement\b", file.read_text()))
        for file in PACKAGE.rglob("*")
        if file.suffix in (".py", ".toml", ".j2") and "reference" not in file.parts
    ),
    "modules and folders at the top of the package": lambda: len(
        {module for module in of_product(modules()) if module.count(".") == 1}
    ),
    "mentions of `Any`": lambda: sum(
        len(re.findall(r"\bAny\b", modules()[module].read_text())) for module in of_product(modules())
    ),
}


def ceilings():
    """{what: at most} as the page says."""
    return {what: float(most) for what, most in rows("What a reader meets")}


def test_the_page_names_what_is_counted():
    assert ceilings().keys() == MEASURED.keys()


@pytest.mark.parametrize("what", sorted(MEASURED))
def test_a_reader_meets_no_more_than_the_page_says(what):
    assert MEASURED[what]() <= ceilings()[what]


def test_no_ceiling_is_far_above_what_is_there():
    assert {what: most for what, most in ceilings().items() if most > 1.1 * MEASURED[what]() + 1.0} == {}


@pytest.mark.parametrize("module", numbers())
def test_what_makes_a_number_imports_nothing_that_shows_it(module):
    assert not {other for other, _ in imports(module)} & {f"fastacct.core.{one}" for one in SHOWN}


def test_counts_see_what_they_count():
    tree = ast.parse("def f(x):\n    if x and x > 1:\n        return [y for y in x if y]\n    return 0 if x else 1\n")
    assert decisions(tree) == 5
    assert len(list(outer_functions(tree))) == 1
