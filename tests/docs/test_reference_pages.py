"""The reference on the site: every public name is on a page of it, and every one has an example that runs."""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "website"))

import api_pages  # noqa: E402
import check_site  # noqa: E402
import contents  # noqa: E402

PAGES = api_pages.pages()
HERE = {name: full for name, full in api_pages.PUBLIC.items() if not name.startswith("compat.")}


def found(full):
    """What a full name stands for."""
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name) if module == "fastacct" else public(module, name)


def public(module, name):
    """A name of a public module."""
    home = api_pages.modules()[module.removeprefix("fastacct.")]
    return getattr(home, name)


@pytest.mark.parametrize("full", sorted(set(api_pages.PUBLIC.values())))
def test_every_public_name_is_on_a_page(full):
    module, _, name = full.rpartition(".")
    if full.startswith("fastacct.compat."):
        assert "automodule:: " + module in PAGES[module.removeprefix("fastacct.")]
    elif inspect.ismodule(found(full)):
        assert name in PAGES
    else:
        assert any(re.search(rf":: ({re.escape(module)}\.)?{name}$", page, re.MULTILINE) for page in PAGES.values())


def examples(full):
    """The text with the example of a name: its docstring, or the page of more examples."""
    text = inspect.getdoc(found(full)) or ""
    return text if ">>>" in text else api_pages.more_examples().get(full, "")


CODE = [full for full in sorted(set(HERE.values())) if inspect.isroutine(found(full)) or inspect.isclass(found(full))]


@pytest.mark.parametrize("full", CODE)
def test_every_public_name_has_an_example_that_runs(full, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if full.startswith("fastacct.jit.") or "jit" in examples(full):
        pytest.importorskip("numba")
    text = examples(full)
    assert ">>>" in text, "neither its docstring nor docs/reference/examples.md has one"
    names = dict(vars(sys.modules[getattr(found(full), "__module__", "fastacct")]))
    test = doctest.DocTestParser().get_doctest(text, names, full, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("module", sorted(api_pages.adapters()))
def test_every_adapter_has_a_page_with_examples(module):
    page = ROOT / "docs" / "backends" / f"{module.removeprefix('compat.')}.md"
    text = page.read_text()
    assert "```python" in text
    assert re.search(r"from fastacct\.compat(\." + module.removeprefix("compat.") + "| import)", text)


def test_examples_beside_the_docstrings_are_of_names_that_need_them():
    for full in api_pages.more_examples():
        assert full in HERE.values(), full
        assert ">>>" not in (inspect.getdoc(found(full)) or ""), f"{full} has an example of its own"


def test_the_lists_of_contents_have_every_page_once():
    listed = [one for below in contents.CONTENTS.values() for one in (getattr(below, "values", lambda b=below: b)())]
    assert len(listed) == len(set(listed))
    assert contents.unlisted() == [], "say in docs/website/contents.py where it stands"
    assert all((ROOT / f"{one}.md").is_file() for one in listed)


def test_the_check_of_the_site_finds_what_is_wrong(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="fastacct.epsilon"><a href="b.html#here">b</a> <a href="c.html">c</a> <a href="#no">no</a>'
        '<img src="https://example.org/x.png"><script src="x.js"></script></p>'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org">outside is not fetched</a></p>')
    assert check_site.problems_of(tmp_path, ["fastacct.epsilon", "fastacct.delta"]) == [
        "a.html: fetches https://example.org/x.png",
        "a.html: no anchor #no",
        "a.html: no file c.html",
        "a.html: no file x.js",
        "not in the reference: fastacct.delta",
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_explorer_is_on_the_site_where_it_has_been_built(tmp_path, is_there):
    import build_site

    if is_there:
        (tmp_path / "fastacct" / "explorer").mkdir(parents=True)
        (tmp_path / "fastacct" / "explorer" / "index.html").write_text("<title>explorer</title>")
    (place,) = map(Path, build_site.extra_files(tmp_path))
    assert (place / "index.html").is_file()
    assert (place / "explorer.html").is_file() == is_there
    app = type(
        "App", (), {"srcdir": str(tmp_path), "env": type("Env", (), {"note_dependency": print})(), "api_pages": []}
    )
    text = ["# fastacct\n\nWords.\n\n## Install\n"]
    build_site.as_page(app, "docs/README", text)
    assert ("../explorer.html" in text[0]) == is_there
