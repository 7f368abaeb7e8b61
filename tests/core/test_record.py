"""Records are frozen dataclasses to everybody else, though nothing is compiled for a class."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

import fastacct as fa
from fastacct.core.record import Compared, Record


class Point(Compared):
    x: "float"
    y: "float" = 2.0
    unit: "str" = field(default="m", kw_only=True)


@dataclass(frozen=True)
class Standard:
    x: "float"
    y: "float" = 2.0
    unit: "str" = field(default="m", kw_only=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class Own(fa.Mechanism):
    """A user's mechanism by the standard decorator."""

    rho: float
    name: str = field(default="mine", repr=False)


def test_a_record_is_made_and_shown_as_a_standard_dataclass():
    for given, named in (((1.0,), {}), ((1.0, 3.0), {"unit": "s"}), ((), {"y": 0.0, "x": 4.0})):
        made, standard = Point(*given, **named), Standard(*given, **named)
        assert repr(made) == repr(standard).replace("Standard", "Point")
        assert dataclasses.asdict(made) == dataclasses.asdict(standard)
        assert dataclasses.replace(made, x=7.0) == Point(**dataclasses.asdict(standard) | {"x": 7.0})
    assert inspect.signature(Point) == inspect.signature(Standard)
    assert Point.__match_args__ == Standard.__match_args__
    assert [one.name for one in dataclasses.fields(Point)] == [one.name for one in dataclasses.fields(Standard)]


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {}, "Point: missing a required argument: 'x'"),
        ((1.0, 2.0, "m"), {}, "Point: too many positional arguments"),
        ((1.0,), {"x": 1.0}, "Point: multiple values for argument 'x'"),
        ((1.0,), {"z": 1.0}, "Point: got an unexpected keyword argument 'z'"),
        ((), {"z": 1.0}, "Point: got an unexpected keyword argument 'z'"),
    ],
)
def test_a_wrong_call_is_refused_by_name(given, named, message):
    with pytest.raises(TypeError, match=message):
        Point(*given, **named)


def test_a_record_cannot_be_changed():
    point = Point(1.0)
    for change in (lambda: setattr(point, "x", 2.0), lambda: setattr(point, "z", 2.0), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
        assert point == Point(1.0)


def test_records_are_compared_by_class_and_fields_or_are_themselves():
    assert Point(1.0) == Point(1.0, 2.0) != Point(2.0)
    assert len({Point(1.0), Point(1.0), Point(2.0)}) == 2
    assert fa.Exact() == fa.Exact() != fa.RDP()
    assert fa.Gaussian(1.0) != fa.Laplace(1.0)

    class Itself(Record):
        x: "float"

    assert Itself(1.0) != Itself(1.0)


def test_users_derive_standard_dataclasses():
    own = Own(rho=0.5, name="other")
    assert repr(own).endswith("Own(rho=0.5)")
    assert own == Own(rho=0.5, name="other") != Own(rho=0.5)
    assert copy.deepcopy(own) == own == dataclasses.replace(own)
    with pytest.raises(FrozenInstanceError):
        own.rho = 1.0
    with pytest.raises(TypeError, match="non-frozen"):
        dataclass(type("Thawed", (fa.Mechanism,), {}))


def test_a_pickled_mechanism_is_equal_and_hashed_alike_in_another_process():
    step = fa.Gaussian(1.0).poisson(0.01)
    assert hash(step) == hash(pickle.loads(pickle.dumps(step)))
    code = f"""
import pickle, fastacct as fa
step = pickle.loads({pickle.dumps(step)!r})
print(fa.Process({{step: 1}})[fa.Gaussian(1.0).poisson(0.01)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
