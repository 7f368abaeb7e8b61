"""The C interface: a program compiled by `cc` alone has the bits of Python, and bad input gives the safe side."""

import math
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fastacct as fa
from fastacct_ext import _kernels
from tests import compiled as kept

if shutil.which("cc") is None:
    pytest.skip("no C compiler named cc", allow_module_level=True)

INCLUDE = Path(fa.get_include())
SOURCE = INCLUDE.parent / "fastacct.c"
PAGE = Path(__file__).parents[2] / "docs" / "backends" / "c.md"
RELATIONS = ("add_remove", "add", "remove")
FLAGS = {"baseline": (), "x86-64-v3": ("-march=x86-64-v3",), "x86-64-v4": ("-march=x86-64-v4",)}

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "fastacct.h"

/* program FUNCTION RELATION N < rows of four numbers: bounds and status of each, in hexadecimal; the largest status */
int main(int argc, char **argv)
{
    size_t n = argc == 4 ? strtoul(argv[3], 0, 10) : 0, i;
    double *room = calloc(6 * n, sizeof(double)), *c[6];
    uint8_t *status = calloc(n, 1);
    fastacct_relation relation = (fastacct_relation)(argc == 4 ? atoi(argv[2]) : -1);
    int most = -1;
    for (i = 0; i < 6; i++)
        c[i] = room + i * n;
    for (i = 0; i < n; i++)
        if (scanf("%la %la %la %la", c[0] + i, c[1] + i, c[2] + i, c[3] + i) != 4)
            return 1;
    if (argv[1][0] == 'e')
        most = fastacct_epsilon(n, c[0], c[1], c[2], c[3], relation, c[4], c[5], status);
    if (argv[1][0] == 'd')
        most = fastacct_delta(n, c[0], c[1], c[2], c[3], relation, c[4], c[5], status);
    if (argv[1][0] == 'r')
        most = fastacct_rdp(n, c[0], c[1], c[2], c[3], c[4], c[5], status);
    if (argv[1][0] == 'n')
        most = fastacct_noise_multiplier(n, c[0], c[1], c[2], c[3], relation, c[5], status);
    for (i = 0; i < n; i++)
        printf("%a %a %d\n", c[4][i], c[5][i], status[i]);
    printf("%s %d\n", fastacct_instruction_set(), most);
    return 0;
}
"""

CHECKS = r"""
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "fastacct.h"

static int wrong;
#define CHECK(what) if (!(what)) wrong = printf("line %d: %s\n", __LINE__, #what)

int main(void)
{
    double s[3] = {1.0, NAN, 2.0}, q[3] = {0.01, 0.01, 0.01}, t[3] = {10, 10, 10.5}, d[3] = {1e-5, 1e-5, 1e-5};
    double low[3], up[3];
    uint8_t code[3];
    CHECK(!strcmp(fastacct_version(), FASTACCT_VERSION));
    CHECK(fastacct_epsilon(0, s, q, t, d, FASTACCT_ADD, low, up, code) == FASTACCT_TIGHT);
    CHECK(fastacct_epsilon(0, 0, 0, 0, 0, FASTACCT_ADD, 0, 0, 0) == FASTACCT_TIGHT);
    CHECK(fastacct_epsilon(3, s, q, t, d, FASTACCT_ADD_REMOVE, low, up, code) == FASTACCT_BAD_INPUT);
    CHECK(code[0] == FASTACCT_TIGHT && low[0] > 0.0 && low[0] <= up[0] && up[0] < 1.0);
    CHECK(code[1] == FASTACCT_BAD_INPUT && low[1] == 0.0 && up[1] == INFINITY);
    CHECK(code[2] == FASTACCT_BAD_INPUT && low[2] == 0.0 && up[2] == INFINITY);
    CHECK(fastacct_epsilon(1, s, q, t, d, FASTACCT_ADD, 0, low, 0) == FASTACCT_TIGHT && low[0] < up[0]);
    CHECK(fastacct_delta(3, s, q, t, d, (fastacct_relation)7, low, up, code) == FASTACCT_BAD_INPUT);
    CHECK(code[0] == FASTACCT_BAD_INPUT && low[0] == 0.0 && up[0] == 1.0);
    CHECK(fastacct_delta(1, s, q, t, d, (fastacct_relation)-1, 0, up, 0) == FASTACCT_BAD_INPUT && up[0] == 1.0);
    CHECK(fastacct_delta(1, 0, q, t, d, FASTACCT_ADD, low, up, code) == FASTACCT_BAD_INPUT && up[0] == 1.0);
    CHECK(fastacct_delta(1, s, 0, t, d, FASTACCT_ADD, low, up, code) == FASTACCT_BAD_INPUT && up[0] == 1.0);
    CHECK(fastacct_rdp(1, s, q, 0, d, low, up, code) == FASTACCT_BAD_INPUT && up[0] == INFINITY);
    CHECK(fastacct_rdp(1, s, q, t, 0, low, up, code) == FASTACCT_BAD_INPUT && up[0] == INFINITY);
    CHECK(fastacct_rdp(1, s, q, t, d, low, 0, code) == FASTACCT_BAD_INPUT && code[0] == FASTACCT_BAD_INPUT);
    CHECK(fastacct_noise_multiplier(1, 0, d, q, t, FASTACCT_ADD, up, 0) == FASTACCT_BAD_INPUT && up[0] == INFINITY);
    CHECK(fastacct_noise_multiplier(1, s, d, q, t, FASTACCT_ADD, 0, 0) == FASTACCT_BAD_INPUT);
    fesetround(FE_UPWARD);
    CHECK(fastacct_epsilon(1, s, q, t, d, FASTACCT_ADD, low, up, code) == FASTACCT_BAD_ARITHMETIC);
    CHECK(code[0] == FASTACCT_BAD_ARITHMETIC && low[0] == 0.0 && up[0] == INFINITY);
    return wrong;
}
"""


def cc(*options, cwd=None):
    """Run the compiler in an environment that knows no Python."""
    return subprocess.run(
        ["cc", *map(str, options)], capture_output=True, text=True, cwd=cwd, env={"PATH": os.environ["PATH"]}
    )


def library(level):
    """fastacct.c at an instruction-set level."""
    flags = ("-O1",) if level == "no vectors" else ("-O2", "-fopenmp-simd", "-fno-math-errno", *FLAGS[level])
    return kept.compiled(SOURCE, [*flags, "-Wall", "-Werror", "-c"], ".o")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """From C text and an instruction-set level to a program."""
    folder = tmp_path_factory.mktemp("c")

    @cache
    def program(text, level="baseline"):
        source = folder / "program.c"
        source.write_text(text)
        name = folder / f"program_{abs(hash((text, level)))}"
        options = ["-std=c99", "-pedantic", "-Wall", "-Wno-misleading-indentation", "-Werror", "-I", INCLUDE]
        made = cc(*options, source, library(level), "-lm", "-o", name)
        assert made.returncode == 0, made.stderr
        return name

    return program


def ask(program, function, columns, relation="add_remove"):
    """Lower and upper bounds, codes, the level, and the value returned, of the C program."""
    rows = "\n".join(" ".join(float(x).hex() for x in row) for row in zip(*columns, strict=True))
    command = [program, function, str(RELATIONS.index(relation)), str(len(columns[0]))]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, check=True)
    *lines, last = [line.split() for line in done.stdout.splitlines()]
    lower, upper = (np.array([float.fromhex(line[i]) for line in lines]) for i in (0, 1))
    return lower, upper, np.array([int(line[2]) for line in lines]), last[0], int(last[1])


@pytest.fixture
def level():
    """Choose Python's instruction-set level; afterwards it is as before."""
    before = _kernels.level()
    yield _kernels.select
    _kernels.select(before)


def some(rng, values, edges, share=0.15):
    """Values, some of them replaced by edges."""
    return np.where(rng.random(values.size) < share, rng.choice(edges, values.size), values)


def cells(n, seed=20250117):
    """Noise, rate, steps, delta, epsilon and order of n cells, edges among them."""
    rng = np.random.default_rng(seed)
    noise = some(rng, 10.0 ** rng.uniform(-0.5, 1.5, n), [0.0, math.inf, 1e-3, 1e3, 1e-300, 1e300])
    rate = some(rng, 10.0 ** rng.uniform(-4.0, 0.0, n), [0.0, 1.0, 1e-300, 1.0 - 2.0**-53, 0.5])
    steps = some(rng, np.floor(10.0 ** rng.uniform(0.0, 5.0, n)), [0.0, 1.0, 2.0, 2.0**53])
    delta = some(rng, 10.0 ** rng.uniform(-14.0, -1.0, n), [0.0, 1.0, 1e-300, 5e-324, 0.9])
    epsilon = some(rng, 10.0 ** rng.uniform(-2.0, 1.5, n), [0.0, math.inf, 1e-9, 700.0])
    orders = some(rng, 1.0 + 10.0 ** rng.uniform(-2.0, 3.0, n), [math.inf, 1.0 + 2.0**-52, 1e11, 1e5, 2.0])
    return noise, rate, steps, delta, epsilon, orders


def same(found, expected):
    """Whether two arrays have the same bits."""
    return np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def compare(program, n, relations=RELATIONS):
    """All functions of a program and of Python, at the level Python has now."""
    noise, rate, steps, delta, epsilon, orders = cells(n)
    run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}
    for relation in relations:
        for name, target, bounds in (
            ("epsilon", delta, fa.dpsgd.epsilon_bounds(**run, delta=delta, neighbors=relation)),
            ("delta", epsilon, fa.dpsgd.delta_bounds(**run, epsilon=epsilon, neighbors=relation)),
        ):
            lower, upper, status, level, most = ask(program, name, (noise, rate, steps, target), relation)
            assert level == _kernels.level()
            assert most == status.max()
            mine = status != fa.Status.LOOSE  # else other rungs of Python may say more
            assert mine.sum() > 0.6 * n
            assert (status[mine] == bounds.status[mine]).all(), (name, relation)
            assert same(lower[mine], bounds.lower[mine]), (name, relation)
            assert same(upper[mine], bounds.upper[mine]), (name, relation)
            assert (bounds.upper <= upper).all(), (name, relation)
            assert (np.maximum(lower, bounds.lower) <= np.minimum(upper, bounds.upper)).all()
        few = slice(0, n // 10)
        goal = np.maximum(epsilon, 0.05)[few], delta[few], np.minimum(rate, 0.3)[few], np.minimum(steps, 1e5)[few]
        given = dict(zip(("epsilon", "delta", "sample_rate", "steps"), goal, strict=True))
        _, found, status, *_ = ask(program, "noise_multiplier", goal, relation)
        assert same(found, fa.dpsgd.noise_multiplier(**given, neighbors=relation)), relation
        assert ((status == fa.Status.NOT_MET) == (found == math.inf)).all()
    divergences = fa.dpsgd.rdp_bounds(**run, orders=orders)
    lower, upper, status, *_ = ask(program, "rdp", (noise, rate, steps, orders))
    assert same(lower, divergences.lower)
    assert same(upper, divergences.upper)
    assert (status == divergences.status).all()


def test_the_header_and_the_source_are_where_they_are_said_to_be():
    assert (INCLUDE / "fastacct.h").is_file()
    assert SOURCE.is_file()


def test_the_header_has_the_version_of_the_package():
    assert f'#define FASTACCT_VERSION "{fa.__version__}"\n' in (INCLUDE / "fastacct.h").read_text()


def test_a_program_without_python_has_the_bits_of_python(compiled, level):
    level("baseline")
    compare(compiled(PROGRAM), 50)


@pytest.mark.slow
def test_so_it_has_at_the_best_level_of_this_processor(compiled, level):
    best = level()
    compare(compiled(PROGRAM, best), 100)


@pytest.mark.slow
def test_without_vectors_only_the_last_digits_differ(compiled):
    noise, rate, steps, delta, _, _ = cells(100)
    lower, upper, status, *_ = ask(compiled(PROGRAM, "no vectors"), "epsilon", (noise, rate, steps, delta))
    truth = fa.dpsgd.epsilon_bounds(noise_multiplier=noise, sample_rate=rate, steps=steps, delta=delta)
    assert (np.maximum(lower, truth.lower) <= np.minimum(upper, truth.upper)).all()
    tight = (status == 0) & (upper > 0.0)
    assert tight.sum() > 50
    np.testing.assert_allclose(upper[tight], truth.upper[tight], rtol=1e-11)


@pytest.mark.parametrize(
    ("function", "good", "bad", "safe"),
    [
        ("epsilon", (1.0, 0.01, 100.0, 1e-5), [-1e-9, -0.5, 1.5], math.inf),
        ("delta", (1.0, 0.01, 100.0, 0.5), [-1e-9], 1.0),
        ("rdp", (1.0, 0.01, 100.0, 2.0), [1.0, 0.5, -3.0, 1.1e11], math.inf),
    ],
)
def test_bad_numbers_give_the_safe_side_and_leave_other_cells_alone(compiled, function, good, bad, safe):
    wrong = [
        (0, [-1.0, -5e-324]),
        (1, [-1e-300, 1.0000000000000002, math.inf]),
        (2, [-1.0, 0.5, 2.0**54, math.inf]),
        (3, bad),
    ]
    rows, is_bad = [good], [False]
    for at, values in wrong:
        for value in (*values, math.nan, -math.inf):
            rows += [(*good[:at], value, *good[at + 1 :]), good]
            is_bad += [True, False]
    lower, upper, status, _, most = ask(compiled(PROGRAM), function, tuple(zip(*rows, strict=True)))
    is_bad = np.array(is_bad)
    assert most == 3
    assert (status[is_bad] == 3).all()
    assert (lower[is_bad] == 0.0).all()
    assert (upper[is_bad] == safe).all()
    assert (status[~is_bad] == 0).all()
    assert np.unique(upper[~is_bad]).size == np.unique(lower[~is_bad]).size == 1
    assert 0.0 < lower[0] <= upper[0] < safe


def test_under_add_epsilon_is_never_above_the_largest_loss(compiled):
    rate, steps = np.repeat([0.1, 0.5, 1.0 - 2.0**-53], 4), np.tile([1.0, 2.0, 7.0, 1e4], 3)
    for delta in (1e-300, 1e-40):
        columns = (np.full(12, 0.05), rate, steps, np.full(12, delta))
        _, upper, *_ = ask(compiled(PROGRAM), "epsilon", columns, "add")
        assert (upper <= -steps * np.log1p(-rate) * (1.0 + 1e-14)).all()


def test_null_arrays_unknown_relations_and_odd_rounding_give_the_safe_side(compiled):
    done = subprocess.run([compiled(CHECKS)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("part", ["fast-math", "unsafe-math-optimizations", "finite-math-only", "reciprocal-math"])
def test_fast_math_and_its_parts_are_refused(part):
    made = cc("-E", f"-f{part}", SOURCE, "-o", os.devnull)
    assert made.returncode != 0
    assert "without -ffast-math" in made.stderr


@pytest.mark.skipif(not PAGE.exists(), reason="needs the documentation")
def test_the_program_of_the_documentation_prints_what_it_says(compiled):
    text = PAGE.read_text()
    (program,), (printed,) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("c", "text"))
    done = subprocess.run([compiled(program)], capture_output=True, text=True, check=True)
    assert done.stdout == printed


MEETING = r"""
#include <float.h>
#include <stdio.h>
#include <string.h>
#include "exact/one_step.h"
#include "../src/dispatch.c"

const fa_kernels *fa_kernels_baseline(void) { return 0; }
const fa_kernels *fa_kernels_v3(void) { return 0; }
const fa_kernels *fa_kernels_v4(void) { return 0; }

static int wrong;
#define CHECK(what) if (!(what)) wrong = printf("line %d: %s\n", __LINE__, #what)

int main(void)
{
    fa_interval low = {1.0, 2.0}, high = {3.0, 4.0}, none = {0.0, INFINITY}, nan = {NAN, 2.5}, r;
    r = fa_share(low, (fa_interval){1.5, 3.0});
    CHECK(r.lower == 1.5 && r.upper == 2.0 && !fa_disagreed());
    r = fa_share(fa_share(none, low), (fa_interval){2.0, 2.0}); /* they meet in one point */
    CHECK(r.lower == 2.0 && r.upper == 2.0 && !fa_disagreed());
    r = fa_safe(fa_share(low, high), 0.0, INFINITY);
    CHECK(r.lower == 0.0 && r.upper == 4.0 && fa_disagreed() && !fa_disagreed());
    r = fa_safe(fa_share(high, low), 0.0, INFINITY);
    CHECK(r.lower == 0.0 && r.upper == 4.0 && fa_disagreed());
    r = fa_safe(fa_share(fa_share(low, high), low), 0.0, INFINITY); /* what agrees with one of both changes nothing */
    CHECK(r.lower == 0.0 && r.upper == 4.0 && fa_disagreed());
    r = fa_safe(fa_share(low, fa_share(high, low)), 0.0, INFINITY);
    CHECK(r.lower == 0.0 && r.upper == 4.0 && fa_disagreed());
    r = fa_safe((fa_interval){2.0, 1.0}, 0.0, INFINITY);
    CHECK(r.lower == 0.0 && r.upper == 2.0 && fa_disagreed());
    r = fa_safe((fa_interval){-3.0, -INFINITY}, -INFINITY, 0.0);
    CHECK(r.lower == -INFINITY && r.upper == -3.0 && fa_disagreed());
    r = fa_safe(fa_share(low, nan), 0.0, INFINITY); /* no number, no disagreement: the safe side */
    CHECK(r.lower == 0.0 && r.upper == 2.5 && !fa_disagreed());
    r = fa_safe((fa_interval){1.0, NAN}, 0.0, 7.0);
    CHECK(r.lower == 1.0 && r.upper == 7.0 && !fa_disagreed());
    return wrong;
}
"""


def test_intervals_that_do_not_meet_give_the_larger_upper_bound_and_are_seen(tmp_path):
    """Two certified intervals of one number that do not meet: one is wrong, and the smaller upper bound may be it."""
    (tmp_path / "meeting.c").write_text(MEETING)
    flags = ["-std=gnu11", "-O1", "-w", "-I", INCLUDE]
    made = cc(*flags, "meeting.c", "-lm", "-o", "meeting", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "meeting"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
