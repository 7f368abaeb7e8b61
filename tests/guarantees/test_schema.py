"""What a document may be: the schema, what contradicts itself, and what is refused before it is looked at."""

import json
import math
import time

import pytest

from fastacct.guarantees.schema import MOST_BYTES, parsed, schema
from fastacct.results import Guarantee, read_guarantee
from tests.documents import HOSTILE, of_a_user, places, put, sealed


@pytest.fixture
def written():
    return of_a_user()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), 'version = 2 is not as {"const": 1}'),
        (lambda d: d.update(version=True), "version = True"),
        (lambda d: d.update(more=1), "more is not known"),
        (lambda d: d.pop("curve"), "curve is missing"),
        (lambda d: d.update(adjacency="bounded"), "contradicts the job: 'unbounded'"),
        (lambda d: d.update(sampler=[]), r"contradicts the job: \['poisson'\]"),
        (lambda d: d["epsilon"].update(status="LOOSE"), "contradicts its ends: 'TIGHT'"),
        (lambda d: d["epsilon"].update(upper="1e-30"), "is no interval"),
        (lambda d: d["unit"].update(of="row"), "of a unit that is a row"),
        (lambda d: d["curve"].reverse(), r"curve\[0\] is of 1e-20"),
        (lambda d: d["tradeoff"][3].__setitem__(2, "1.5"), "is no interval"),
        (lambda d: d["tradeoff"].pop(), "tradeoff = "),
        (lambda d: d.update(delta="1e-6"), "shortest decimal"),
        (lambda d: d["job"][0].update(count=0), r"job\[0\].count = 0"),
        (lambda d: d["job"][0]["mechanism"].update(kind="Unknown"), "kind = 'Unknown'"),
        (lambda d: d["job"][0]["mechanism"].update(sample_rate=1.5), "sample_rate"),
        (lambda d: d["job"][0]["mechanism"].update(sample_rate=[0.1, 0.2]), "more than one job"),
        (lambda d: d["job"][0]["mechanism"].update(kind="Laplace"), "one: Laplace: got an unexpected keyword argument"),
        (lambda d: d["job"].append({"mechanism": {"kind": "Accountant"}, "count": 1}), "kind = 'Accountant'"),
        (lambda d: d.update(certificate=CLAIM | {"releases": []}), "the certificate is of another job"),
        (lambda d: d.update(certificate=CLAIM), "the certificate is of another job"),
        (lambda d: d.update(neighbors="replace_one", job=[{"mechanism": MIXTURE, "count": 1}]), "not supported"),
    ],
)
def test_contradictions_are_named_whatever_the_digest(written, change, message):
    document = written.to_dict()
    change(document)
    with pytest.raises(ValueError, match=message):
        Guarantee(sealed(document))


CLAIM = {"format": "fastacct certificate 1", "epsilon": "1" * 10**5, "delta": "0.000001", "relation": "add_remove"}
MIXTURE = {
    "kind": "PoissonSampled",
    "mechanism": {"kind": "Laplace", "noise_multiplier": 1.0},
    "sample_rate": 0.1,
}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-1], "one: it is no JSON: Expecting ',' delimiter: line "),
        (lambda text: text + text, "one: it is no JSON: Extra data"),
        (lambda _: "", "one: it is no JSON: Expecting value"),
        (lambda _: "[]", r'one: the whole = \[\] is not as \{"type": "object"\} asks'),
        (lambda text: text.replace('"central"', '"\\ud800"'), "one: it has half of a character"),
        (lambda text: text.replace('"rows": 2', '"rows": NaN'), "one: NaN is no number"),
    ],
)
def test_damage_is_told_in_a_line_without_names_of_errors(written, damage, message):
    with pytest.raises(ValueError, match=message) as told:
        Guarantee(damage(written.text))
    assert len(str(told.value)) < 350
    assert "Error" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "3", '"x"', "\x00", "NaN", "[" * 10**6, '{"a":' * 10**6, "9" * 10**6, "1e999"),
        *('{"format": "fastacct guarantee", "format": "fastacct guarantee"}', " " * (MOST_BYTES + 1)),
        "[" + "0," * (MOST_BYTES // 2 - 2) + "0]",
        "{" + ",".join(f'"{k}":0' for k in range(300_000)) + "}",
        '"' + '\\"' * (MOST_BYTES // 2 - 2),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_guarantee_is_refused_at_once(text):
    start = time.process_time()
    with pytest.raises(ValueError, match="no guarantee, or a damaged one"):
        Guarantee(text)
    assert time.process_time() - start < 3.0


def test_what_is_nested_deeper_than_any_job_is_refused(written):
    document = written.to_dict()
    for _ in range(40):
        document["job"][0]["mechanism"]["more"] = document["job"][0]["mechanism"].copy()
    with pytest.raises(ValueError, match="nested too deeply"):
        Guarantee(sealed(document))


def test_a_name_twice_is_refused_whichever_is_right(written):
    right = f'"delta": "{written.delta!r}"'
    for twice in (f'"delta": "0.5", {right}', f'{right}, "delta": "0.5"', f"{right}, {right}"):
        assert written.text.count(right) == 1
        with pytest.raises(ValueError, match="'delta' is given twice"):
            Guarantee(written.text.replace(right, twice))


@pytest.mark.parametrize("word", ["1e999", "Infinity", "NaN", "9" * 30])
def test_numbers_that_readers_take_differently_are_refused(written, word):
    document = written.to_dict()
    document["job"][0]["mechanism"]["mechanism"]["noise_multiplier"] = math.inf
    forged = sealed(document)
    assert forged.count("Infinity") == 1
    with pytest.raises(ValueError, match="is no number"):
        Guarantee(forged.replace("Infinity", word))


def test_a_file_of_a_gigabyte_is_refused_at_once(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(2**30)
    start = time.process_time()
    with pytest.raises(ValueError, match="more than 4194304 bytes"):
        read_guarantee(path)
    assert time.process_time() - start < 1.0
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match=r"bytes\.json"):
        read_guarantee(tmp_path / "bytes.json")


def test_the_schema_is_a_schema_and_allows_what_is_written(written):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    jsonschema.Draft202012Validator.check_schema(schema())
    document = written.to_dict()
    validator.validate(document)
    for i, at in enumerate(places(document)):
        for value in (one for one in HOSTILE[i % 4 :: 4] if one != "\ud800"):
            changed = put(document, at, value)
            try:
                parsed(json.dumps(changed))
                is_allowed = True
            except ValueError:
                is_allowed = False
            assert is_allowed == validator.is_valid(changed), (at, value)
