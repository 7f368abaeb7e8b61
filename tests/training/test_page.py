"""The loops of docs/howto/training.md and docs/loaders.md run, each where its library is installed."""

import os
import re
import warnings
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
    assert len(BLOCKS) == 9


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


def test_the_poisson_recipe_for_hugging_face_draws_from_no_seed_that_somebody_knows(tmp_path, monkeypatch):
    """Two runs have other batches, and neither has those of the Trainer's own seed, 42."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for library in ("transformers", "accelerate", "opacus"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler as Sampler

    monkeypatch.chdir(tmp_path)
    draws, drawn, block = (
        Sampler.__iter__,
        [],
        next(one.values[0] for one in BLOCKS if "(loader, generator=" in one.values[0]),
    )
    monkeypatch.setattr(Sampler, "__iter__", lambda self: (drawn.append(batch) or batch for batch in draws(self)))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the batches may be known")
        warnings.filterwarnings("error", "the noise is drawn")
        for _ in range(2):
            exec(compile(block, "page", "exec"), {"__name__": "page"})
    torch.manual_seed(42)
    public = [*draws(Sampler(num_samples=400, sample_rate=0.1))]
    first, second = drawn[:30], drawn[30:]
    assert len(first) == len(second) == 30
    assert not any(batch in first for batch in second + public)
    assert not any(batch in second for batch in public)
