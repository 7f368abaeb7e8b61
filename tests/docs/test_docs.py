"""Documentation: links lead somewhere, and nothing is promised that does not exist."""

import ast
import doctest
import inspect
import operator
import re
import runpy
import sys
import tomllib
from calendar import month_name
from importlib import metadata
from pathlib import Path

import pytest

import fastacct as fa

ROOT = Path(__file__).parents[2]
ROOT_PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
PAGES = [*ROOT_PAGES, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts)]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_relative_link_leads_to_a_file(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_pictures_of_the_readme_have_absolute_addresses_of_files_that_exist():
    """An index page shows no picture with a relative address."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    base = urls["Homepage"].replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    for address in pictures:
        assert address.startswith(base), address
        assert (ROOT / address.removeprefix(base)).is_file(), address


def test_every_picture_is_used_follows_dark_mode_and_says_what_one_learns():
    dark = pytest.importorskip("bench.dark")
    images, text = ROOT / "docs" / "images", "".join(page.read_text() for page in PAGES)
    for picture in images.iterdir():
        assert f"images/{picture.name})" in text, f"{picture.name} is on no page"
        assert picture.suffix != ".svg" or dark.RULE in picture.read_text(), f"python -m bench.dark {picture}"
    for said in re.findall(r"!\[([^\]]*)\]\(", text):
        assert len(said.split()) >= 8, said


FIRST_RUNS = [f"docs/{name}.md" for name in ("README", "faq", "loaders", "reports", "howto/noise", "howto/budget")]


@pytest.mark.parametrize("page", ["README.md", *FIRST_RUNS, "explorer/src/run.ts", "docs/notebooks/first_number.md"])
def test_the_first_run_of_a_page_keeps_the_rule_for_delta(page):
    """At most a tenth of 1/records, as docs/faq.md says; `fa.report` would ask for a smaller one."""
    text = (ROOT / page).read_text()
    start = text.index("FIRST: Run" if page.endswith(".ts") else "records=")
    (records,) = re.findall(r"records[=:] ?([\d_]+)", text[start - 1 :])[:1]
    (delta,) = re.findall(r"delta[=:] ?([\de.-]+)", text[start - 1 :])[:1]
    assert float(delta) * int(records) <= 0.1


@pytest.mark.parametrize("page", ["docs/README.md", "docs/howto/README.md", "docs/trust.md"])
def test_a_page_has_one_name(page):
    """That of its heading, which the site's navigation shows, too."""
    place = ROOT / page
    links = re.findall(r"(?m)^\| \[([^\]]+)\]\(([^)#]+)\) \|", place.read_text())
    assert len(links) > 6
    for name, target in links:
        assert (place.parent / target).read_text().split("# ", 1)[1].startswith(f"{name}\n"), (name, target)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "algorithms").glob("[a-z]*.md")), ids=lambda page: page.name)
def test_every_proof_ends_with_what_is_not_proved(page):
    last = page.read_text().rsplit("\n## ", 1)[1]
    assert re.match(r"Proof debts\n\n(None\b|\* )", last), last[:60]


GUIDES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES += [page for name in ("course", "howto", "notebooks") for page in sorted((ROOT / "docs" / name).glob("*.md"))]
NOT_USED = (
    r"\b(read by|is read|are read|laws?|paid|in the mean|known from below|Poisson samples? of|loss less its mean)\b"
)
MOST_WORDS = 30
REFERENCES = ROOT / "docs" / "references.md"


def prose(page):
    """The text of a page without code, tables, addresses of links and comments."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"^( {4}|\|).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", GUIDES, ids=[str(p.relative_to(ROOT)) for p in GUIDES])
def test_guides_speak_the_language_of_the_field_in_short_sentences(page):
    """docs/notation.md has the words; it quotes those that are not used."""
    text = re.sub(r"Words that are not used:.*", "", prose(page))
    assert re.findall(NOT_USED, text, re.IGNORECASE) == []
    assert too_long(text) == []


def too_long(text):
    """The sentences of a text that have more words than a reader can hold."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[*#\d-])|\n(?=\S.* : )", text)
    sentences = [one for part in paragraphs for one in re.split(r"(?<=[.!?:;])\s+", part.strip())]
    return [one for one in sentences if len(one.split()) > MOST_WORDS]


@pytest.mark.parametrize("name", sorted(set(fa.__all__) | {f"dpsgd.{name}" for name in fa.dpsgd.__all__}))
def test_public_docstrings_have_short_sentences(name):
    text = inspect.getdoc(operator.attrgetter(name)(fa)) or ""
    assert too_long(re.sub(r"(?m)^\s*(>>>|\.\.\.).*$", "\n", text)) == []


@pytest.mark.parametrize("module", sorted((ROOT / "fastacct").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_docstrings_and_messages_speak_the_language_of_the_field(module):
    strings = [node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)]
    assert [one for one in strings if isinstance(one, str) and re.search(NOT_USED, one, re.IGNORECASE)] == []


def test_every_source_that_is_named_has_a_link():
    """Authors and year, as guides and docstrings write them, against the table of sources."""
    name = r"[A-Z][\w'\-]+"
    cited = re.compile(rf"\b({name})((?:,? and |, ){name})*,? \(?((?:19|20)\d\d)\b")
    linked = re.findall(rf"^\| ({name}).* (\d{{4}}) \| \[[^\]]+\]\(https://", REFERENCES.read_text(), re.MULTILINE)
    texts = [re.sub(r"\s+", " ", page.read_text()) for page in (*GUIDES, *(ROOT / "fastacct").rglob("*.py"))]
    named = {(one[1], one[3]) for text in texts for one in cited.finditer(text) if one[1] not in month_name}
    assert sorted(named - set(linked)) == []
    assert len(linked) > 40


@pytest.mark.parametrize(
    "word", ["amplification by subsampling", "f-DP", "hockey-stick divergence", "parallel composition"]
)
def test_guides_have_the_words_that_people_search_for(word):
    assert sum(word.lower() in page.read_text().lower() for page in GUIDES) >= 2, word


def test_the_tables_of_samplers_are_what_the_commands_make():
    readme, samplers = (pytest.importorskip(f"bench.{name}") for name in ("readme", "samplers"))
    for page in readme.PAGES:
        assert f"{readme.MARK}\n{readme.samplers()}\n{readme.MARK}" in page.read_text(), page
    assert f"{samplers.MARK}\n{samplers.table()}\n{samplers.MARK}" in (ROOT / "docs" / "samplers.md").read_text()


def test_the_package_has_its_version_from_one_place():
    """What is cited and the C header repeat it: .ci/release_check compares them."""
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    for name in ("pyproject.toml", "setup.py"):
        assert fa.__version__ not in (ROOT / name).read_text(), name
    assert f"\nversion: {fa.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_what_is_published_is_checked_by_one_script_whose_numbers_are_right(monkeypatch):
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert build["test-command"] == "python {project}/tests/tools/check_wheel.py"
    assert "CIBW_" not in workflow, "wheels have one configuration"
    assert "bash tests/tools/check_wheel.sh dist\n" in workflow
    assert "fastacct as" not in workflow, "no check of its own"
    assert "tests/tools/check_wheel.py" in (ROOT / "tests" / "tools" / "check_wheel.sh").read_text()
    monkeypatch.setattr(sys, "prefix", str(Path(fa.__file__).parent.parent))  # as if it were installed
    monkeypatch.setattr(metadata, "version", lambda _: fa.__version__)
    runpy.run_path(str(ROOT / "tests" / "tools" / "check_wheel.py"), run_name="__main__")


RUN = [ROOT / "docs" / "utility.md", ROOT / "docs" / "sweeps.md"]
CHAPTERS = sorted((ROOT / "docs" / "course").glob("[1-9]*.md"))


@pytest.mark.parametrize("page", CHAPTERS, ids=[page.name for page in CHAPTERS])
def test_every_chapter_shows_output_and_has_an_exercise_whose_answer_runs(page):
    text = page.read_text()
    assert "\nassert " not in text, "what is asserted prints nothing"
    asked, answer = text.split("\n**Try it.** ")[1].split("<summary>One answer</summary>")
    assert "..." in asked.split("```python\n")[1]
    assert len(doctest.DocTestParser().get_examples(answer)) >= 3


@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_examples_that_stand_alone_run(page):
    if page.name == "sweeps.md":
        pytest.importorskip("zarr")
    text = page.read_text()
    blocks = list(re.finditer(r"```python\n(import .*?)```", text, re.DOTALL))
    assert blocks
    for block in blocks:
        above = "\n" * text.count("\n", 0, block.start(1))  # so that a failure names the page's line
        exec(compile(above + block[1], str(page), "exec"), {})


def test_every_public_name_is_in_the_readme_or_the_docs():
    text = "".join(page.read_text() for page in PAGES)
    missing = [
        name for name in [*fa.__all__, *(f"dpsgd.{n}" for n in fa.dpsgd.__all__)] if name.split(".")[-1] not in text
    ]
    assert not missing


def test_every_kernel_header_says_what_it_is():
    include = ROOT / "fastacct_ext" / "include"
    headers = sorted(include.rglob("*.h"))
    assert headers
    for header in headers:
        assert header.read_text().startswith(f"/* {header.relative_to(include).as_posix()} -- "), header


def test_tables_that_were_measured_say_with_what():
    """Version and commit, which the commands write (bench/stamp.py)."""
    stamp = pytest.importorskip("bench.stamp").measured_with()
    made = r"fastacct \d+\.\d+\.\d+, commit [0-9a-f]{7,}"
    assert re.match(rf"{made}( with changes)?, \d{{4}}-\d\d-\d\d$", stamp) or "commit unknown" in stamp
    for page in ("README.md", "bench/RESULTS.md", "docs/accuracy.md", "docs/backends/conformance.md"):
        assert re.search(made, (ROOT / page).read_text()), page
