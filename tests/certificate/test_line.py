"""Certificates of many digits: a line in balls proves them, and what must not be proved on it."""

import copy
import json
from time import process_time

import flint
import mpmath as mp
import pytest

import fastacct as fa
from fastacct import certificate
from fastacct.certificate import checker
from fastacct.certificate import line as line_of
from fastacct.certificate.describe import releases
from tests.certificate.test_canaries import less, put
from tests.certificate.test_certificate import RUN

LINES = {
    "sampled": (RUN, "add_remove", 1e-5, 10),
    "replaced": (fa.Gaussian(2.0).poisson(0.05) * 100, "replace_one", 1e-6, 9),
    "group": (fa.Gaussian(3.0).poisson(0.05).group(2) * 100, "zero_out", 1e-6, 9),
    "fixed size": (fa.Gaussian(4.0).fixed_size(100, 1000) * 50, "remove", 1e-5, 8),
    "two steps of all records": (fa.Gaussian(2.0) * 2, "add_remove", 1e-5, 9),
    "replaced, in closed form": (fa.Gaussian(2.0) * 1, "replace_one", 1e-9, 12),
    "a group of all": (fa.Gaussian(6.0).group(3) * 20, "zero_out", 1e-7, 11),
    "Laplace noise and all records": (fa.Laplace(2.0) * 40 + fa.Gaussian(9.0) * 3, "add_remove", 1e-5, 12),
    "beside Laplace noise": (fa.Gaussian(2.0).poisson(0.2) * 50 + fa.Laplace(20.0) * 3, "add", 1e-4, 8),
}


@pytest.mark.parametrize("name", LINES)
def test_many_digits_are_proved_on_a_line(name: str) -> None:
    job, relation, delta, digits = LINES[name]
    found = fa.certify(job, delta=delta, neighbors=relation, digits=digits)
    bounds = fa.epsilon_bounds(job, delta=delta, neighbors=relation)
    assert bounds.lower <= float(found.epsilon) <= bounds.upper * (1.0 + 20.0 * 10.0**-digits)


@pytest.mark.parametrize("reach", ["0.01", "9"])
def test_moments_and_their_bounds_hold_however_short_the_reach(reach: str) -> None:
    """Of a rare large loss, most of what is bounded lies beyond a short one."""
    rate, two = flint.arb("0.001"), flint.arb(2)
    made = line_of.Normals(
        flint.arb(1), [(1 - rate, 0), (rate, 1)], [(flint.arb(1), 0)], two, flint.arb(reach), lambda x: x
    )

    def integrand(x: mp.mpf, t: int) -> mp.mpc:
        return mp.npdf(x) * mp.exp(mp.mpc(2, t) * mp.log(1 + mp.mpf("0.001") * mp.expm1(x - 0.5)))

    for t in (0, 100):
        truth = mp.quad(lambda x, t=t: integrand(x, t), mp.linspace(-10, 12, 12))
        found = made.moment(flint.acb(2, t))
        assert found.real.overlaps(flint.arb(float(truth.real), 1e-9))
        assert found.imag.overlaps(flint.arb(float(truth.imag), 1e-9))
        if t:
            assert float(made.bound(flint.arb(t), flint.arb("0.99")).upper()) >= float(abs(truth)) * (1.0 - 1e-9)


def test_many_digits_of_other_noise_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 7 digits are proved of Gaussian noise"):
        fa.certify(fa.PureDP(0.1) * 9, delta=1e-6, digits=9)
    with pytest.raises(ValueError, match="more than 7 digits are proved of Gaussian noise"):
        fa.certify(fa.Gaussian(1.0).poisson(0.1, at_most=9, records=50) * 9, delta=1e-6, digits=9)


def test_what_one_side_lacks_is_added_on_a_line() -> None:
    """Nine tenths of P are normal distributions, what is left has an infinite loss."""
    release = {"count": 1, "mixture": "2", "p": [["0.5", "1"], ["0.4", "0"]], "q": [["1", "0"]]}
    plan = {"line": "4", "step": "0.3", "nodes": 12, "cuts": ["0.3"], "reach": "7", "bits": 64}
    document = {"format": "fastacct certificate 1", "relation": "remove", "releases": [release], "epsilon": "3"}
    document |= {"delta": "0.101", "proof": {"remove": plan}}
    assert checker.proved(json.dumps(document))
    with pytest.raises(ValueError, match=r"only delta <= \[?0.1"):
        checker.proved(json.dumps(document | {"delta": "0.0999"}))


def test_digits_that_would_take_minutes_are_refused_at_once() -> None:
    for job in (fa.Gaussian(2.0).poisson(0.1) * 2, fa.Laplace(5.0) * 3):
        with pytest.raises(ValueError, match="9 digits of this job take over 2,000 nodes: ask for 7 or fewer"):
            fa.certify(job, delta=1e-5, neighbors="remove", digits=9)


@pytest.mark.parametrize(
    "job", [fa.Laplace(2.0), fa.Laplace(2.0).group(3), fa.Gaussian(3.0), fa.Gaussian(3.0).group(2)]
)
@pytest.mark.parametrize("c", ["1.5", "4", "-0.5", "-3"])
def test_bounds_of_closed_forms_hold_all_that_is_beyond(job: fa.Mechanism, c: str) -> None:
    checker.ctx.prec = 128
    (release,) = releases(job, "remove")
    part = line_of.part(release, "remove", checker.ball(c[1:]) * -1 if c[0] == "-" else checker.ball(c), 9, checker)
    for start in (0.01, 1.0, 9.0, 100.0):
        far = [abs(part.moment(checker.acb(float(c), start * (1.0 + 0.1 * k)))) for k in range(60)]
        bound = part.bound(checker.arb(start), None)
        assert all(bound.upper() >= one.lower() for one in far)
    assert (bound / part.moment(checker.acb(float(c))).real).upper() < 0.97  # it falls with t


@pytest.fixture(scope="module")
def line() -> dict:
    job = fa.Laplace(20.0) * 3 + fa.Gaussian(2.0).poisson(0.2) * 50
    return json.loads(fa.certify(job, delta=1e-4, neighbors="remove", digits=8).text)


OFF_THE_LINE = {
    "a word in a plan": put("proof/remove/epsilon", "0.1"),
    "1e-7 below the truth": put("epsilon", lambda text: less(text, 1.0 - 1e-7)),
    "less delta": put("delta", lambda text: less(text, 0.999)),
    "one release more": put("releases/1/count", 51),
    "less noise": put("releases/1/gaussian", "1.999"),
    "a larger rate": put("releases/1/poisson", "0.2001"),
    "no sample": lambda document: document["releases"][1].pop("poisson"),
    "less Laplace noise": put("releases/0/laplace", "19"),
    "a group": put("releases/1/group", 2),
    "another relation": put("relation", "replace_one"),
    "few nodes": put("proof/remove/nodes", 4),
    "no nodes": put("proof/remove/nodes", 0),
    "1e9 nodes": put("proof/remove/nodes", 10**9),
    "a line at 1": put("proof/remove/line", "1"),
    "a line left of 1": put("proof/remove/line", "0.7"),  # where a sum would be delta - 1
    "a line far right": put("proof/remove/line", "1000"),
    "a step that is wide": put("proof/remove/step", lambda text: less(text, 3.0)),
    "a step of 0": put("proof/remove/step", "0"),
    "a short reach": put("proof/remove/reach", "3"),
    "no reach": put("proof/remove/reach", "0"),
    "a late cut": put("proof/remove/cuts", ["0.5", "0.99"]),
    "a cut left out": put("proof/remove/cuts", ["0.5"]),
    "few bits": put("proof/remove/bits", 16),
    "a kind it does not know": put("releases/0", {"count": 3, "guarantee": ["0.05", "0"]}),
    "a sample of Laplace noise": put("releases/0/poisson", "0.5"),
    "at most so many": put("releases/1/at_most", [10, 100]),
}


def test_a_wide_step_is_refused_at_its_first_node(line: dict) -> None:
    put("proof/remove/step", "1e300")(line := copy.deepcopy(line))
    with pytest.raises(ValueError, match="a wide step, or few nodes"):
        checker.proved(json.dumps(line))


def test_nodes_that_take_more_than_ten_minutes_are_refused_after_seconds(line: dict, monkeypatch) -> None:
    put("proof/remove/nodes", 4000)(line := copy.deepcopy(line))
    monkeypatch.setattr(checker, "process_time", lambda: 100.0 * process_time())
    begun = process_time()
    with pytest.raises(ValueError, match="ten minutes are not enough"):
        checker.proved(json.dumps(line))
    assert process_time() - begun < 5.0


@pytest.mark.parametrize("name", OFF_THE_LINE)
def test_what_is_wrong_is_not_proved_on_a_line(name: str, line: dict) -> None:
    changed = copy.deepcopy(line)
    OFF_THE_LINE[name](changed)
    with pytest.raises((ArithmeticError, AttributeError, LookupError, TypeError, ValueError)):
        checker.proved(json.dumps(changed))


@pytest.mark.parametrize(("nodes", "tries"), [(400, 3), (600, 1)])
def test_a_dear_certificate_is_tried_once(nodes: int, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try of so many nodes takes half a minute."""
    tried: list[object] = []

    def refused(checker: object, document: object) -> None:
        tried.append(document)
        raise ValueError("not proved")

    monkeypatch.setattr(certificate, "_proved", refused)
    monkeypatch.setattr(certificate.Lines, "plan", lambda self, direction: {"nodes": nodes})
    with pytest.raises(ValueError, match="no certificate of 9 digits was found, ask for 7 or fewer: not proved"):
        fa.certify(fa.Gaussian(2.0) * 2, delta=1e-5, digits=9)
    assert len(tried) == tries
