"""Proves one number of one job.  `python checker.py FILE` needs Python and python-flint alone, nothing of fastacct.

Every number below is a ball (Arb): an interval that holds the exact value.  delta(y) is the largest P(S) - y Q(S) over
all sets S, at y = exp(epsilon).  It is convex, falls, and its slope is at least -1.  The proof has five steps.

1. One release: delta(y) in closed form, or as a sum over outputs; of random batches in `batches.py` beside this file.
2. Chords: delta lies below its chords between some y = exp(k h), below a line of slope -1 left of them, below a
   constant right of them.  These are the delta of masses at the losses k h, and of a mass at infinity.
3. Composition: the delta of several releases grows with that of each (Zhu, Dong, Wang 2022), so losses drawn from these
   masses have a sum whose delta is at least that of the job.
4. The sum is a cyclic convolution over n places: what falls outside of a window of n places is added inside, where it
   counts at least nothing.  Right of the window is at most exp(-t end) E exp(t loss) for any t > 0, counted in full.
5. delta is at most the sum of mass (1 - exp(epsilon - loss)), the part right of the window and the mass at infinity.
Nothing in the file is believed but the job: another h, window or t proves less, or nothing.  Not proved here: that the
two distributions of a release are the worst of its mechanism, which are theorems (docs/certificates.md names them).
"""

import json
import re
import sys
from bisect import bisect_left
from fractions import Fraction
from importlib import import_module
from os.path import isfile
from time import process_time

from flint import acb, arb, ctx, fmpq

NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,400})?(e-?[0-9]{1,3})?(/[0-9]{1,40})?")
WORDS, BOTH, STARTED = {"format", "by", "relation", "releases", "delta", "epsilon", "proof"}, ["remove", "add"], [0.0]
BATCHES, WHOLE = {"group", "fixed", "draws", "at_most", "p", "q", "reach"}, {"sensitivity", "reach"}  # also said
KINDS = {"gaussian": BATCHES, "mixture": BATCHES, "discrete_gaussian": WHOLE, "skellam": WHOLE}
KINDS |= {kind: set() for kind in ("laplace", "table", "response", "guarantee")} | {"geometric": {"sensitivity"}}
DIRECTIONS = {"remove": BOTH[:1], "add": BOTH[1:], "add_remove": BOTH, "zero_out": BOTH, "replace_one": BOTH}
beside = lambda name: import_module(f"{'.' * bool(__package__)}{name}", __package__)  # another file of this folder
ball = lambda text: arb(exact(text))
in_time = lambda value: require(process_time() - STARTED[0] < 600, "ten minutes are not enough") or value
are_two = lambda pairs: all(type(pair) is list and len(pair) == 2 for pair in pairs)  # a word has places, too


def require(truth, message):
    if not truth:
        raise ValueError(message)


def paced(items):  # refused as soon as it is seen that ten minutes are not enough
    begun = process_time()
    for done, item in enumerate(items):
        require((took := process_time() - begun) < 5 or took * len(items) < 600 * done, "ten minutes are not enough")
        yield in_time(item)


def exact(text):  # a decimal, or a fraction, as it is printed
    require(isinstance(text, str) and NUMBER.fullmatch(text), f"{text!r:.60} is no decimal number in quotes")
    top, _, bottom = text.partition("/")
    return fmpq(*(Fraction(top) / Fraction(bottom or 1)).as_integer_ratio())


def whole(value, name, low, high):  # no float, no true or false
    require(type(value) is int and low <= value <= high, f"{name} = {value!r:.60} is not whole, from {low} to {high}")
    return value


def table(p, q):  # masses of the same outputs; what P has beyond them has an infinite loss
    require(all(x == 0 or (x > 0 and x.rel_accuracy_bits() > 50) for x in (*p, *q)), "masses are not precise")
    ratio = [float((a / b).log().mid()) if a > 0 < b else float("inf" if a > 0 else "-inf") for a, b in zip(p, q)]
    order = sorted(range(len(p)), key=ratio.__getitem__)
    ratio, sums = sorted(ratio), [(1 - sum(p), arb())]
    for i in reversed(order):
        sums.append((sums[-1][0] + p[i], sums[-1][1] + q[i]))

    def delta(y):
        at, low, high = y.log(), 0, len(p)  # what is nearer than floats tell apart is compared with 0, ball by ball
        if at.is_finite():
            near = 1e-9 * (1 + abs(float(at.mid())))
            low, high = bisect_left(ratio, float(at.lower()) - near), bisect_left(ratio, float(at.upper()) + near)
        p_above, q_above = sums[len(p) - high]
        return p_above - y * q_above + sum(((p[i] - y * q[i]).max(0) for i in order[low:high]), arb())

    return delta


def integers(kind, value, moved, reach):  # noise from -reach to reach + moved, added to a sum that moves by so many
    require((reach + moved) * ctx.prec < 2**26, "outputs reach too far")
    at, rest = range(reach + moved + 1), (-1 / value).exp()
    if kind == "geometric":  # one output for all below both sums, one for each between them, one for all above
        p = [rest**moved, *((1 - rest) * rest ** (moved - k) for k in range(1, moved)), arb(1)]
        return table([x / (1 + rest) for x in p], [x / (1 + rest) for x in reversed(p)])
    if kind == "skellam":  # the difference of two Poisson variables
        mass = [value.bessel_i(k) * (-value).exp() for k in paced(at)]
    else:  # beyond the last place each weight is at most exp(-last / scale^2) times the one before
        weight = [(-arb(k * k) / (2 * value * value)).exp() for k in paced(at)]
        total = weight[0] + 2 * sum(weight[1:])
        total = total.union(total + 2 * weight[-1] / ((at[-1] / value**2).exp() - 1))
        mass = [w / total for w in weight]
    return table(*([mass[abs(k - far)] for k in range(-reach, reach + moved + 1)] for far in (moved, 0)))


def one_release(release, relation):  # its delta(y), direction remove
    (kind,), other = set(release) & set(KINDS), set(release) - set(KINDS) - {"count", "poisson"}
    replaced, rate, value = relation == "replace_one", ball(release.get("poisson", "1")), release[kind]
    require(rate > 0 and rate <= 1 and other <= KINDS[kind], f"{kind} with {sorted(other)}, or no rate")
    pairs = value if kind == "table" else [value] if kind in ("response", "guarantee") else []
    require(are_two(pairs), f"{kind} = {value!r:.60} is not of two numbers")
    if KINDS[kind] is BATCHES and (other or (replaced and rate < 1)):
        return beside("batches").one_batch(release, relation, sys.modules[__name__])
    if kind == "gaussian":
        noise, above = ball(value) / (2 if replaced else 1), lambda x: (x / arb(2).sqrt()).erfc() / 2
        delta = lambda y: above(noise * y.log() - 1 / (2 * noise)) - y * above(noise * y.log() + 1 / (2 * noise))
    elif kind == "laplace":
        largest = (2 if replaced else 1) / ball(value)
        delta = lambda y: (1 - y).max(1 - ((y.log() - largest) / 2).exp()).max(0)
    elif kind == "table":
        require(all(sum(map(exact, side)) <= 1 for side in zip(*value)), "probabilities are more than 1")
        delta = table(*([ball(x) for x in side] for side in zip(*value)))
    elif kind == "response":  # of k values the true one, or another one; who has none draws any of them
        require(relation in ("replace_one", "zero_out"), "who is not there gives no answer")
        e, k = ball(value[0]).exp(), arb(whole(value[1], "values", 2, 10**9))
        other, total = (e, e + k - 1) if replaced else (1, k)
        delta = table([x / (e + k - 1) for x in (e, 1, k - 2)], [x / total for x in (1, other, k - 2)])
    elif kind == "guarantee":  # the worst (epsilon, delta)-DP mechanism (Kairouz, Oh, Viswanath 2015)
        e, d = ball(value[0]).exp(), ball(value[1])
        delta = table([(1 - d) * e / (1 + e), (1 - d) / (1 + e)], [(1 - d) / (1 + e), (1 - d) * e / (1 + e)])
    else:
        moved = whole(release["sensitivity"], "sensitivity", 1, 10**5) * (2 if replaced else 1)
        delta = integers(kind, ball(value), moved, whole(release.get("reach", 1), "reach", 1, 10**6))
    require(rate == 1 or not (replaced or kind == "response"), f"a sample of {kind} is not known like that")
    below = lambda y: 1 - y if y < 1 - rate else rate.union(1 - y)
    return delta if rate == 1 else lambda y: rate * delta((y - 1 + rate) / rate) if y > 1 - rate else below(y)


def masses(delta, h, at):  # P's, at the losses k h and at infinity, of the measure whose delta is made of chords
    y = [(h * k).exp() for k in at]
    value = [delta(one) for one in paced(y)]
    slope = [arb(-1), *((value[i + 1] - value[i]) / (y[i + 1] - y[i]) for i in range(len(at) - 1)), arb()]
    p = [one * (right - left) for one, left, right in zip(y, slope, slope[1:])]
    require(not any(v < 0 or v < 1 - x or v > 1 or mass < 0 for x, v, mass in zip(y, value, p)), "no such delta")
    return p, value[-1]


def window(job, direction, plan):  # masses of the sum of losses there, right of it if they reach so far, at infinity
    ctx.prec = whole(plan["bits"], "bits", 64, 1536)
    h, t, lattices, last, most = ball(plan["step"]), ball(plan["tilt"]), plan["lattices"], 0, 2**28 // ctx.prec
    n, first = whole(plan["places"], "places", 2, min(most, 3 * 2**19)), whole(plan["first"], "first", -(2**30), 2**30)
    product, moment, finite, both = [acb(1)] * n, (-t * h * (first + n)).exp(), arb(1), arb(1)
    require(h > 0 and t > 0 and 0 < len(job["releases"]) == len(lattices) <= 100, "step, tilt or lattices")
    require(n * len(lattices) <= 4 * most and (n < 2**13 or n % 2 ** (n.bit_length() - 4) == 0), "so many places")
    ranges = [[whole(k, "lattice", -(2**30), 2**30) for k in one] for lattice in lattices for one in lattice]
    require(sum((b - a) // by + 2 if a < b and by > 0 else most for a, b, by in ranges) < most, "points: none, or many")
    for release, lattice in zip(job["releases"], lattices):
        at = sorted({k for low, high, by in lattice for k in (*range(low, high, by), high)})
        times, delta = whole(release["count"], "count", 1, 10**9), one_release(release, job["relation"])
        turned = delta if direction == "remove" else lambda y, delta=delta: 1 - y + y * delta(1 / y)
        (p, infinite), places, total = masses(turned, h, at), [arb()] * n, arb()
        for k, mass in zip(at, p):
            places[k % n], total = places[k % n] + mass, total + mass * (t * h * k).exp()
        spectrum = [z**times for z in paced(acb.dft(places)[: n // 2 + 1])]
        spectrum += [z.conjugate() for z in spectrum[(n - 1) // 2 : 0 : -1]]
        product, last = [a * b for a, b in zip(product, spectrum)], last + times * at[-1]
        moment, finite, both = moment * total**times, finite * sum(p) ** times, both * (sum(p) + infinite) ** times
    back = acb.dft(product, inverse=True)
    return [back[k % n].real for k in range(first, first + n)], moment if last >= first + n else arb(), both - finite


def largest_delta(job, direction, plan, _):  # an upper bound at the claimed epsilon
    (inside, right, infinite), h = window(job, direction, plan), ball(plan["step"])
    total, part = right + infinite, (ball(job["epsilon"]) - h * (plan["first"] + len(inside) - 1)).exp()
    require(h * plan["first"] <= ball(job["epsilon"]), "the window begins above epsilon")
    for mass in reversed(inside):
        total, part = total + mass * (1 - part).max(0), part * h.exp()
    return total


def proved(text):  # what the file proves, as a sentence; ValueError: what it claims is not proved
    once = lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else require(False, "a key is there twice")
    job, STARTED[:] = json.loads(text, object_pairs_hook=once), [process_time()]
    require(set(job) <= WORDS and job["format"] == "fastacct certificate 1" and job["releases"], "unknown, or nothing")
    require(exact(job["delta"]) < 1, "a delta of 1 or more says nothing")
    for direction in DIRECTIONS[job["relation"]]:
        if job["proof"] == "guarantees add up":  # basic composition, in fractions
            require(all(set(one) == {"count", "guarantee"} for one in job["releases"]), "guarantees alone add up")
            require(are_two(one["guarantee"] for one in job["releases"]), "a guarantee is not of two numbers")
            each = [(whole(one["count"], "count", 1, 10**9), *map(exact, one["guarantee"])) for one in job["releases"]]
            sums = [sum(one[0] * one[i] for one in each) for i in (1, 2)]
            require(sums[0] <= exact(job["epsilon"]) and sums[1] <= exact(job["delta"]), f"they add up to {sums}")
            continue
        plan, here = job["proof"][direction], sys.modules[__name__]  # all six words of a plan are read
        require(len(plan) == 6 and set(job["proof"]) == set(DIRECTIONS[job["relation"]]), "a proof with other words")
        found = (beside("line") if "line" in plan else here).largest_delta(job, direction, plan, here)
        require(found <= ball(job["delta"]), f"only delta <= {found.upper().str(6)} is proved, direction {direction}")
    return f"proved: epsilon <= {job['epsilon']} at delta = {job['delta']} under {job['relation']} of {job['releases']}"


if __name__ == "__main__":
    try:
        require(isfile(sys.argv[1]), "there is no such file")
        require(len(text := open(sys.argv[1], encoding="utf-8").read(10**6 + 1)) <= 10**6, "more than a million bytes")
        print(proved(text))
    except Exception as error:
        sys.exit(f"not proved: {error!r}")
