"""What the site adds to the pages as they are in the repository: links, lists of contents, and the reference."""

from importlib.metadata import distribution
from pathlib import Path

from api_pages import PUBLIC, captions, with_example, write_pages
from contents import toctree
from words import directive

PICTURES = "https://raw.githubusercontent.com/fastacct/fastacct/main/"
FOREIGN = ["autodp", "diffprivlib", "dp_accounting", "flwr", "jax", "jax_privacy", "opacus", "opendp", "pipeline_dp"]
FOREIGN += ["riskcal", "sklearn", "torch"]
"""Libraries of adapters, which the reference is built without."""
EXPLORER = "[Explorer: try it in your browser](explorer.md)"
"""The first link of the landing page: to the explorer itself, where it has been built."""
START = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>fastacct</title>
<meta http-equiv="refresh" content="0; url=docs/README.html"></head>
<body><a href="docs/README.html">fastacct</a></body></html>
"""


def mathjax() -> str:
    """The file of MathJax that holds its fonts, from the package that brings it."""
    files = distribution("sphinx-mathjax-offline").files or []
    return str(next(one for one in files if one.name == "tex-svg.js").locate())


def extra_files(root: Path) -> list[str]:
    """Pages that are not made by Sphinx: the first one, and the explorer where it has been built."""
    place = root / "docs" / "_build" / "extra"
    place.mkdir(parents=True, exist_ok=True)
    (place / "index.html").write_text(START)
    (place / "explorer.html").unlink(missing_ok=True)
    explorer = root / "fastacct" / "explorer" / "index.html"
    if explorer.is_file():
        (place / "explorer.html").write_bytes(explorer.read_bytes())
    return [str(place)]


def as_page(app, docname: str, source: list[str]) -> None:
    """A page of the repository as a page of the site."""
    text = source[0]
    if docname == "README":
        text = text.replace("# fastacct\n", "# Overview, speed and limits\n", 1)
    text = text.replace(PICTURES, "../" * docname.count("/"))
    if docname == "docs/README" and (Path(app.srcdir) / "docs" / "_build" / "extra" / "explorer.html").is_file():
        text = text.replace(EXPLORER, f'<a href="../explorer.html">{EXPLORER[1:].partition("]")[0]}</a>', 1)
    heading, line, rest = text.partition("\n")
    text = heading + line + directive(docname) + rest
    for name in ("contents.py", "words.py"):
        app.env.note_dependency(str(Path(__file__).with_name(name)))
    if docname == "docs/README":
        app.env.note_dependency(str(Path(app.srcdir) / "fastacct" / "explorer" / "index.html"))
    source[0] = text + toctree(docname, captions(app.api_pages) if docname == "docs/reference/README" else None)


def colour_examples(app, doctree) -> None:
    """Indented examples are sessions of Python, other indented blocks are text."""
    from docutils import nodes

    for block in doctree.findall(nodes.literal_block):
        if block.get("language", "none") in ("none", "default"):
            block["language"] = "pycon" if block.astext().lstrip().startswith(">>>") else "text"


def name_role(role, rawtext, text, lineno, inliner, options=None, content=None):
    """A name in single quotes: code, and a link where it is public."""
    from docutils import nodes
    from sphinx import addnodes

    code = nodes.literal(text, text)
    full = PUBLIC.get(text.removeprefix("fastacct.").removeprefix("fa.").removesuffix("()"))
    linked = full and (text.startswith("fa") or text[:1].isupper())
    if not linked:
        return [code], []
    env = inliner.document.settings.env
    place = addnodes.pending_xref("", code, refdomain="py", reftype="obj", reftarget=full, refdoc=env.docname)
    place["py:module"] = place["py:class"] = None
    return [place], []


def escape_bars(app, what, name, found, options, lines: list[str]) -> None:
    """A bar in the prose of a docstring is a bar, not the beginning of a substitution."""
    code = False
    for at, line in enumerate(lines):
        code = line.strip().startswith(">>>") or (code and bool(line.strip()))
        if "|" in line and not code and not line.strip().startswith(("+", "|")):
            lines[at] = line.replace("|", "\\|")


def connect(app):
    """Called by Sphinx, once a build."""
    app.add_role("name", name_role)
    app.api_pages = write_pages(Path(app.srcdir) / "docs" / "reference" / "api")
    app.config.html_static_path.append(mathjax())
    app.config.html_extra_path += extra_files(Path(app.srcdir))
    (Path(app.outdir) / "explorer.html").unlink(missing_ok=True)  # of an earlier build
    app.connect("source-read", as_page)
    app.connect(
        "autodoc-process-docstring", lambda a, b, name, one, e, lines: with_example(name, one, lines), priority=400
    )
    app.connect("doctree-read", colour_examples)
    app.connect("autodoc-process-docstring", escape_bars)
    return {"parallel_read_safe": True}
