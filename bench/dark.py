"""Let the SVG pictures of the documentation follow the reader's dark mode, on GitHub and on the site.

    python -m bench.dark docs/images/*.svg

A picture keeps its opaque white ground, so that it is legible where nothing is known of the reader. Where the page is
dark, white becomes nearly black and each colour keeps its hue.
"""

import re
import sys
from pathlib import Path

import fastacct as fa

RULE = "svg{background:#fff}@media (prefers-color-scheme:dark){svg{filter:invert(.93) hue-rotate(180deg)}}"


def follow(path: Path) -> Path:
    """Give one SVG file the rule, once."""
    text = path.read_text()
    if RULE not in text:
        path.write_text(re.sub(r"(<svg\b[^>]*>)", rf"\1\n<style>{RULE}</style>", text, count=1))
    return path


def save(figure, path: Path) -> Path:
    """Write a figure that follows dark mode."""
    return follow(fa.plot.save(figure, path, overwrite=True))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(follow(Path(name)))
