"""Puts a built site beside those of other versions, and writes the file from which its menu of versions is made.

python docs/website/versions.py docs/_build/site FOLDER VERSION ADDRESS
"""

import json
import re
import shutil
import sys
from pathlib import Path

START = '<!doctype html><meta charset="utf-8"><title>fastacct</title><meta http-equiv="refresh" content="0; url={}/">\n'
NEXT = "dev"
"""What is not released yet."""


def releases(folder: Path) -> list[str]:
    """Versions that are there, the newest first."""
    found = [one.name for one in folder.iterdir() if re.fullmatch(r"\d+(\.\d+)+", one.name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def publish(site: Path, folder: Path, version: str, address: str) -> None:
    """Replace one version; the newest release is what people see who name none."""
    if version != NEXT and not re.fullmatch(r"\d+(\.\d+)+", version):
        raise ValueError(f"version = {version!r} is neither {NEXT} nor a release such as 0.3.0")
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    known = releases(folder)
    newest = known[0] if known else NEXT
    named = [NEXT] * (folder / NEXT).is_dir() + known
    rows = [{"name": one, "version": one, "url": f"{address}/{one}/", "preferred": one == newest} for one in named]
    (folder / "switcher.json").write_text(json.dumps(rows, indent=1) + "\n")
    (folder / "index.html").write_text(START.format(newest))
    (folder / ".nojekyll").touch()


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
