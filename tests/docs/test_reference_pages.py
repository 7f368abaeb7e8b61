"""The reference on the site: every public name is on a page of it, and every one has an example that runs."""

import doctest
import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "website"))

import api_pages  # noqa: E402
import build_site  # noqa: E402
import check_site  # noqa: E402
import contents  # noqa: E402
import versions  # noqa: E402
import words  # noqa: E402

import fastacct as fa  # noqa: E402

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
    assert ">>>" in examples(full), "neither its docstring nor docs/reference/examples.md has one"
    lines = (inspect.getdoc(found(full)) or "").splitlines()
    api_pages.with_example(full, found(full), lines)  # as the site shows it, and as it is copied from there
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {}, full, None, 0)
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


def test_what_people_type_leads_to_the_page_that_has_it():
    """The index of the search is made of these; docs/website/check_site.py asks the index of a site for each."""
    every = [word for listed in words.WORDS.values() for word in listed]
    assert len(every) == len({word.lower() for word in every}) > 30
    assert {"membership inference", "user-level", "Hugging Face"} <= set(every)
    for page, listed in words.WORDS.items():
        text = (ROOT / f"{page}.md").read_text().lower()
        for word in listed:
            assert any(part[:4] in text for part in re.findall(r"[\w.-]{3,}", word.lower())), (page, word)
        assert all(f"! {word}" in words.directive(page) for word in listed)
    assert words.directive("docs/trust") == ""


def test_a_page_of_the_site_has_the_words_that_lead_to_it(tmp_path):
    text = ["# Command line\n\nWords.\n"]
    build_site.as_page(app_of(tmp_path), "docs/cli", text)
    assert text[0].startswith("# Command line\n\n```{index} ! command line, ! terminal\n```\n\nWords.\n")


def test_a_table_of_names_has_functions_first():
    for page, home, first in (("verbs", fa, "epsilon"), ("curve", fa.curve, "privacy_curve")):
        table = re.findall(r"   ~fastacct\.(?:curve\.)?(\w+)", PAGES[page])
        assert table[0] == first
        kinds = [inspect.isclass(getattr(home, name)) for name in table]
        assert kinds == sorted(kinds)
    assert "epsilon <fastacct.epsilon>" in PAGES["verbs"]
    shown = re.search(r":members: (.*)", PAGES["fastacct.Gaussian"])[1].split(", ")
    assert shown == ["poisson", "fixed_size", "with_replacement", "allocation", "shuffled"]
    assert "estimate" in PAGES["fastacct.RandomizedResponse"]


def test_pages_differ_where_capitals_count_as_small():
    assert len({name.casefold() for name in PAGES}) == len(PAGES)
    assert api_pages.file_of("fastacct.rdp") != api_pages.file_of("fastacct.RDP")


def test_what_is_copied_is_code_without_prompts_and_outputs():
    settings = (ROOT / "docs" / "conf.py").read_text()
    prompt = re.search(r'copybutton_prompt_text = r"(.*)"', settings)[1]
    assert "copybutton_prompt_is_regexp = True" in settings
    block = ">>> for x in (1, 2):\n...     print(x)\n...\n1\n2\n$ fastacct --version".splitlines()
    kept = [re.sub(f"^({prompt})", "", line) for line in block if re.match(prompt, line)]
    assert kept == ["for x in (1, 2):", "    print(x)", "", "fastacct --version"]


def test_versions_stand_side_by_side_and_the_newest_release_is_first(tmp_path):
    site, folder = tmp_path / "site", tmp_path / "pages"
    site.mkdir()
    folder.mkdir()
    for version in ("dev", "0.9.0", "0.10.0", "0.9.0"):
        (site / "index.html").write_text(version)
        versions.publish(site, folder, version, "https://here")
    listed = json.loads((folder / "switcher.json").read_text())
    assert [(one["version"], one["preferred"]) for one in listed] == [
        ("dev", False),
        ("0.10.0", True),
        ("0.9.0", False),
    ]
    assert listed[1]["url"] == "https://here/0.10.0/"
    assert "url=0.10.0/" in (folder / "index.html").read_text()
    assert (folder / "0.9.0" / "index.html").read_text() == "0.9.0"
    with pytest.raises(ValueError, match="neither dev nor a release"):
        versions.publish(site, folder, "../x", "https://here")


def app_of(folder):
    """What a page of the site asks of Sphinx."""
    env = type("Env", (), {"note_dependency": lambda _, __: None})()
    return type("App", (), {"srcdir": str(folder), "env": env, "api_pages": []})


@pytest.mark.parametrize("is_there", [True, False])
def test_the_explorer_is_on_the_site_where_it_has_been_built(tmp_path, is_there):
    if is_there:
        (tmp_path / "fastacct" / "explorer").mkdir(parents=True)
        (tmp_path / "fastacct" / "explorer" / "index.html").write_text("<title>explorer</title>")
    (place,) = map(Path, build_site.extra_files(tmp_path))
    assert (place / "index.html").is_file()
    assert (place / "explorer.html").is_file() == is_there
    text = [(ROOT / "docs" / "README.md").read_text()]
    build_site.as_page(app_of(tmp_path), "docs/README", text)
    assert ("../explorer.html" in text[0]) == is_there
