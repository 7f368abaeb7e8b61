"""What the extra `site` needs, one a line, with the extras of the package that it names written out."""

import re
import tomllib
from pathlib import Path

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def needs(extra: str) -> list[str]:
    """Requirements of an extra; `fastacct[a,b]` stands for those of a and b."""
    found = []
    for one in EXTRAS[extra]:
        own = re.fullmatch(r"fastacct\[(.+)\]", one)
        found += [inner for name in own[1].split(",") for inner in needs(name)] if own else [one]
    return found


if __name__ == "__main__":
    print(*needs("site"), sep="\n")
