"""Seeds that samples are drawn from: who knows one knows the batches, and no amplification holds for them."""

import warnings

import pytest

import fastacct as fa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils import data  # noqa: E402

from fastacct.training import Meter  # noqa: E402
from tests.compat.test_loader_objects import ROWS, loader, of, private, sampled  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def sampled_by(generator):
    """Loaders that draw samples, and one that is given to make_private."""
    of("opacus")
    drawn = data.RandomSampler(ROWS, replacement=True, generator=generator)
    return [
        (sampled(drawn), {}),
        (private(generator=generator), {}),
        (loader(generator=generator), {"make_private": True}),
    ]


def test_a_seed_of_samples_that_somebody_may_know_is_told_and_a_secret_one_is_not():
    """A sampler without a generator of its own draws from PyTorch's, which scripts and trainers seed."""
    secret = torch.Generator()
    secret.seed()
    for live, how in sampled_by(secret):
        guide = fa.loader_guide(live, **how)
        assert not any("seed is" in note or str(secret.initial_seed()) in note for note in guide.notes)
    with torch.random.fork_rng():
        torch.manual_seed(991)
        for live, how in sampled_by(None):
            assert (
                fa.loader_guide(live, **how)
                .notes[0]
                .startswith("It draws from PyTorch's own generator, whose seed is 991")
            )
            with pytest.warns(UserWarning, match="the batches may be known. .* 991.*generator=secret"):
                Meter(live, noise_multiplier=1.0, delta=1e-3, **how)
        torch.seed()
        for live, how in sampled_by(None):
            assert not any("seed is" in note for note in fa.loader_guide(live, **how).notes)
    for live, how in sampled_by(torch.Generator().manual_seed(991)):
        with pytest.warns(UserWarning, match="Its seed is 991, and who knows it"):
            Meter(live, noise_multiplier=1.0, delta=1e-3, **how)
    for live, how in sampled_by(torch.Generator()):
        with pytest.raises(ValueError, match="Batches that are known have no amplification"):
            Meter(live, noise_multiplier=1.0, delta=1e-3, **how)
    shuffled = loader(shuffle=True, generator=torch.Generator().manual_seed(991))
    with warnings.catch_warnings():  # no amplification is claimed
        warnings.simplefilter("error")
        Meter(shuffled, noise_multiplier=1.0, delta=1e-3, neighbors="zero_out")
