"""The loops of docs/howto/training.md and docs/loaders.md run, each where its library is installed."""

import os
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs"
LIBRARIES = ("torch", "transformers", "accelerate", "lightning", "opacus", "keras")
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in (PAGES / "howto" / "training.md", PAGES / "loaders.md")
    for i, block in enumerate(re.findall(r"```python\n(import .*?)```", page.read_text(), re.DOTALL))
]
pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_pages_have_loops():
    assert len(BLOCKS) == 7


@pytest.mark.parametrize("block", BLOCKS)
def test_loops_of_the_pages_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "keras" in block:
        monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", "torch"))
        pytest.importorskip("torch", reason="PyTorch is not installed")
    for library in LIBRARIES:
        if re.search(rf"(?m)^(import|from) {library}\b", block):
            pytest.importorskip(library, reason=f"{library} is not installed")
    exec(compile(block, "page", "exec"), {"__name__": "page"})
