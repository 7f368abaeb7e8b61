"""The rooms of docs/design.md are the rooms of the code: imports go down, and the newcomer's path keeps its limits."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design.md"
MOST_LINES = 400
PATH_FILES, PATH_LINES, PATH_BYTES = 8, 2000, 120_000
MAY_IMPORT_THE_ROOT = ("compat",)
LOADS_BY_NAME = ("fastacct", "fastacct.core.extras", "fastacct.certificate.checker")
"""The package root, for names that are loaded at first use; the importer of optional libraries; a program that runs
without the package, and finds its second file beside itself."""


def rows(heading):
    """Cells of the first table under a heading of docs/design.md, without its head."""
    text = DESIGN.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE).group()
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


@cache
def rooms():
    """{room: (its modules at the top of the package, the rooms that it may import)}."""
    return {
        room: (re.findall(r"`(\w+)`", modules), [one.strip() for one in allowed.split(",") if one.strip()])
        for room, modules, _, allowed in rows("Rooms")
    }


@cache
def modules():
    """{dotted name: file} of the package."""
    found = {}
    for file in sorted((ROOT / "fastacct").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def room_of(module):
    """The room of a module; the package root has none."""
    parts = module.split(".")
    if parts[0] == "fastacct" and len(parts) == 1:
        return "root"
    top = parts[0] if parts[0] != "fastacct" else parts[1]
    return next((room for room, (tops, _) in rooms().items() if top in tops), f"no room for {top}")


def nodes(tree):
    """All nodes that run: also those inside functions, not those for type checkers."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from nodes(other)
        else:
            yield child
            yield from nodes(child)


def absolute(module, node):
    """The module that `from ... import` names, dots resolved."""
    if not node.level:
        return node.module
    parts = module.split(".") if modules()[module].name == "__init__.py" else module.split(".")[:-1]
    return ".".join(parts[: len(parts) - node.level + 1] + ([node.module] if node.module else []))


@cache
def imports(module):
    """(module imported, line, whether it is the root itself) of a module, within the package and its kernels."""
    found = []
    for node in nodes(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] in ("fastacct", "fastacct_ext"):
                    found.append((name.name, node.lineno))
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            if base.split(".")[0] == "fastacct_ext":
                found.append((base, node.lineno))
            elif base.split(".")[0] == "fastacct":
                for name in node.names:
                    inner = f"{base}.{name.name}"
                    if base == "fastacct" and module != "fastacct":
                        found.append(("fastacct", node.lineno))
                    found.append((inner if inner in modules() else base, node.lineno))
    return tuple(found)


def circles():
    """Sets of modules that import each other, directly or not."""
    index, low, path, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        path.append(module)
        for other, _ in imports(module):
            if other not in modules() or other == module:
                continue
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in path:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            circle = path[path.index(module) :]
            del path[path.index(module) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in modules():
        if module not in index:
            visit(module)
    return found


def test_every_module_has_a_room_and_every_room_its_modules():
    tops = {module.split(".")[1] for module in modules() if "." in module} | {"fastacct_ext"}
    named = [top for own, _ in rooms().values() for top in own]
    assert sorted(named) == sorted(tops)


def test_the_table_of_rooms_has_arrows_down_only():
    above = []
    for room, (_, allowed) in rooms().items():
        assert set(allowed) <= set(above), f"{room} imports a room that stands below it in the table"
        above.append(room)


def test_rooms_import_only_what_the_table_allows():
    wrong = []
    for module in modules():
        room = room_of(module)
        if room == "root":
            continue
        for other, line in imports(module):
            target = room_of(other)
            if target not in ("root", room, *rooms().get(room, ((), ()))[1]):
                wrong.append(f"{modules()[module].relative_to(ROOT)}:{line} {room} -> {target} ({other})")
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle():
    assert not circles()


def test_only_faces_import_the_package_root():
    wrong = [
        f"{modules()[module].relative_to(ROOT)}:{line}"
        for module in modules()
        if room_of(module) not in MAY_IMPORT_THE_ROOT
        for other, line in imports(module)
        if other == "fastacct"
    ]
    assert not wrong, wrong


def test_modules_are_imported_by_name_only_where_they_are_of_another_library():
    wrong = []
    for module, file in modules().items():
        for node in nodes(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = ast.unparse(node.func).split(".")[-1]
            name = node.args[0]
            if called not in ("import_module", "import_extra", "__import__") or module in LOADS_BY_NAME:
                continue
            text = name.value if isinstance(name, ast.Constant) else "" if called == "import_extra" else "fastacct"
            if text.split(".")[0] in ("fastacct", "fastacct_ext"):
                wrong.append(f"{file.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert not wrong, wrong


def test_nothing_is_kept_under_the_locks_of_the_standard_library():
    """They are one for all objects of a class before Python 3.12, and stay held in a child that another thread left."""
    assert [module for module, file in modules().items() if "cached_property" in file.read_text()] == []


@pytest.mark.parametrize("module", sorted(modules()))
def test_no_file_is_longer_than_a_person_reads_at_once(module):
    assert len(modules()[module].read_text().splitlines()) <= MOST_LINES


def test_the_newcomers_path_keeps_its_limits():
    files = [ROOT / name for first, _ in rows("The newcomer's path") for name in re.findall(r"`([^`]+)`", first)]
    assert len(files) == len(set(files)) == PATH_FILES
    assert sum(len(file.read_text().splitlines()) for file in files) <= PATH_LINES
    assert sum(file.stat().st_size for file in files) <= PATH_BYTES


def test_files_that_the_design_names_exist():
    text = DESIGN.read_text()
    for name in set(re.findall(r"`((?:[\w]+/)+[\w]*\.?\w*|\w+\.(?:py|h|md))`", text)):
        places = (ROOT, ROOT / "fastacct", ROOT / "fastacct" / "readers", ROOT / "fastacct" / "mechanisms")
        headers = list((ROOT / "fastacct_ext" / "include").rglob(name)) if name.endswith(".h") else []
        assert headers or any((place / name).exists() for place in places), name


HEADERS = sorted((ROOT / "fastacct_ext" / "include").rglob("*.h"))
MOST_COLUMNS, MOST_LINES_OF_A_FUNCTION = 120, 60


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_headers_keep_their_limits(header):
    lines = header.read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    start = None
    for number, line in enumerate(lines):
        if re.match(r"(FA_FUNC|FA_INLINE|static)\b.*[^;]$", line) and "=" not in line:
            start = number
        elif line == "}" and start is not None:
            assert number - start + 1 <= MOST_LINES_OF_A_FUNCTION, lines[start]
            start = None


INCLUDE = ROOT / "fastacct_ext" / "include"


@cache
def header_groups():
    """[(folders, or files at the top, that stand together; the names of folders and files that they may include)]."""
    return [
        (names.replace("`", "").split(", "), [one for one in allowed.split(", ") if one])
        for names, allowed in rows("Kernels")
    ]


def group_of(header):
    """The folder of a header, or its own name at the top."""
    return header.relative_to(INCLUDE).parts[0]


@cache
def includes(header):
    """The headers that a header includes, those of the system and of the compiler left out."""
    found = re.findall(r'^ *#include "([^"]+)"', header.read_text(), re.MULTILINE)
    return tuple((header.parent / name).resolve() for name in found)


def test_every_header_stands_in_the_table_and_its_arrows_go_up_to_what_is_simpler():
    named = [name for names, _ in header_groups() for name in names]
    assert sorted(named) == sorted({group_of(header) for header in HEADERS})
    above = set()
    for names, allowed in header_groups():
        assert set(allowed) <= above, names
        above |= set(names)


def test_headers_include_what_the_table_allows():
    for header in HEADERS:
        mine = group_of(header)
        own, allowed = next((names, allowed) for names, allowed in header_groups() if mine in names)
        for taken in includes(header):
            assert taken.exists(), (header.name, taken.name)
            other = group_of(taken)
            assert other in own or other in allowed, (header.name, f"{other}: {taken.name}")


def test_headers_include_no_header_twice_and_none_in_a_circle():
    seen = {}

    def reach(header, path):
        assert header not in path, [one.name for one in (*path, header)]
        if header not in seen:
            taken = includes(header)
            assert len(taken) == len(set(taken)), header.name
            for one in taken:
                reach(one, (*path, header))
            seen[header] = True

    for header in HEADERS:
        reach(header.resolve(), ())
    assert len(seen) == len(HEADERS)


def test_headers_are_found():
    assert len(HEADERS) > 50


ADAPTERS = sorted(module for module in modules() if module.startswith("fastacct.compat."))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_are_small_and_take_public_names_only(adapter):
    assert len(modules()[adapter].read_text().splitlines()) <= 250
    names = {name for name, _ in imports(adapter)}
    assert {name for name in names if not name.startswith("fastacct.compat")} <= {"fastacct", "fastacct.core.extras"}
