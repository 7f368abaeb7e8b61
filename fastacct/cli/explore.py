"""`fastacct explore`: the explorer page in a browser."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from pathlib import Path
from typing import Final

from fastacct.cli.answers import Answer

PAGE: Final = Path(__file__).parent.parent / "explorer" / "index.html"


def explore(given: Namespace) -> Answer:
    """Open the page, or say where it is."""
    if not PAGE.is_file():
        raise OSError("the explorer page is not built; in a clone of the repository, make explorer builds it")
    is_open = given.print_path or webbrowser.open(PAGE.as_uri())
    words = str(PAGE) if given.print_path else f"The page is {PAGE}{'' if is_open else '; no browser was found'}."
    return Answer({"command": "explore", "path": str(PAGE)}, [words])
