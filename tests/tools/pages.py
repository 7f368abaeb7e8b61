"""Examples on the pages of the documentation that need a library which the tests of the package do not install."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "backends"


def run_examples(page):
    """Run the blocks of a page that stand alone: those that begin with an import statement of a library."""
    blocks = re.findall(r"```python\n(import .*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    assert blocks, page
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), {"__name__": page})
