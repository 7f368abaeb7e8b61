"""Checks of the built site: links and anchors lead somewhere, no page needs a network, every public name is there.

python docs/website/check_site.py docs/_build/site
"""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that fetch a file, and where they name it."""
ONLY_NAMED = ("canonical", "next", "prev", "search", "index", "author", "copyright")
"""Kinds of `<link>` that fetch nothing."""


class Page(HTMLParser):
    """Links, files and anchors of one page."""

    def __init__(self, file: Path):
        super().__init__()
        self.links: list[str] = []
        self.files: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """One element."""
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        wanted = LOADED.get(tag)
        if wanted and given.get(wanted) and given.get("rel") not in ONLY_NAMED:
            self.files.append(given[wanted])


def is_outside(address: str) -> bool:
    """Whether an address leaves the site."""
    return address.startswith(("http:", "https:", "//", "mailto:"))


def problems_of(site: Path, public: list[str]) -> list[str]:
    """One line for each thing that is wrong."""
    files = [file for file in sorted(site.rglob("*.html")) if "_static" not in file.parts]
    pages = {file.resolve(): Page(file) for file in files}
    found = []
    for file, page in pages.items():
        here = file.relative_to(site.resolve())
        found += [f"{here}: fetches {one}" for one in page.files if is_outside(one)]
        for address in [one for one in page.links + page.files if not is_outside(one)]:
            if address.startswith(("data:", "javascript:")):
                continue
            path, anchor = urldefrag(address)
            target = (file.parent / unquote(path.partition("?")[0])).resolve() if path else file
            if not target.exists():
                found.append(f"{here}: no file {address}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{here}: no anchor {address}")
    styles = [one for one in (site / "_static").rglob("*.css") if "url(http" in one.read_text(errors="replace")]
    found += [f"{one.relative_to(site)}: fetches a file" for one in styles]
    anchors = set().union(*(page.anchors for page in pages.values()))
    found += unfound_words(site)
    return sorted(found) + [f"not in the reference: {name}" for name in public if name not in anchors]


def unfound_words(site: Path) -> list[str]:
    """Words of `words.py` that the index of the site's search does not lead to their page."""
    from words import WORDS

    file = site / "searchindex.js"
    if not file.is_file():
        return []
    index = json.loads(file.read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    found = {(entry, index["docnames"][one[0]]) for entry, places in index["indexentries"].items() for one in places}
    wanted = [(word, page) for page, words in WORDS.items() for word in words]
    return [f"{page}: not found by {word}" for word, page in wanted if (word.lower(), page) not in found]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    sys.path.insert(0, str(Path(__file__).parent))
    from api_pages import PUBLIC, modules

    apart = {f"fastacct.{name}" for name in modules()}
    site = Path(sys.argv[1])
    found = problems_of(site, sorted(set(PUBLIC.values()) - apart))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(list(site.rglob('*.html')))} pages, {len(PUBLIC)} public names, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
