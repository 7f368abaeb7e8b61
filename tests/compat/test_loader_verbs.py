"""The noise and the steps that fit, of live loaders: the verbs of dpsgd that find a parameter take a loader, too."""

import pytest

import fastacct as fa
from fastacct.loaders.objects import seen

pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.compat.test_loader_objects import KNOWN, RECORDS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", [name for name in KNOWN if KNOWN[name][2]])
def test_the_noise_and_the_steps_that_fit_are_those_of_the_loader(name):
    live, relation = KNOWN[name][0](), KNOWN[name][2][0]
    own = {"loader": live, "neighbors": relation} | ({"records": RECORDS} if seen(live).asks else {})
    run = own | {"delta": 1e-3}
    count = {"epochs": 2} if seen(live).is_pass else {"steps": 6}
    noise = fa.dpsgd.noise_multiplier(**run, **count, epsilon=1.0)
    assert fa.dpsgd.epsilon(**run, **count, noise_multiplier=noise) <= 1.0
    assert fa.dpsgd.epsilon(**run, **count, noise_multiplier=0.999 * noise) > 1.0
    assert fa.dpsgd.rdp(**own, **count, noise_multiplier=noise, orders=2.0) > 0.0
    with pytest.raises(TypeError, match="sample_rate is what the loader fixes"):
        fa.dpsgd.sample_rate(**run, **count, noise_multiplier=noise, epsilon=1.0)
    if seen(live).unit == "epochs":
        with pytest.raises(ValueError, match="epochs are not calibrated"):
            fa.dpsgd.steps(**run, noise_multiplier=noise, epsilon=1.0)
        return
    steps = fa.dpsgd.steps(**run, noise_multiplier=noise, epsilon=1.0)
    assert fa.dpsgd.epsilon(**run, noise_multiplier=noise, steps=steps) <= 1.0
    assert steps == seen(live).most or fa.dpsgd.epsilon(**run, noise_multiplier=noise, steps=steps + 1) > 1.0
