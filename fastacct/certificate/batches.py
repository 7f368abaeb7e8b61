"""Gaussian noise on a random batch, or with random means: delta(y) in balls, direction remove; for `checker.py`.

Noise N(0, noise^2), contributions of norm at most 1.  How many of a group are drawn is random, and does not depend on
data.  Of a Poisson sample each counts once; in a batch of m of n records, or of d draws from n, each that is drawn
takes the place of another one, which moves the sum by up to 2.  docs/algorithms/batches.md has the theorems.

* Mixtures: P a sum of normal distributions with means >= 0, Q one with means <= 0.  Their ratio r = P/Q rises with x,
  and at y = r(x) delta is P(x, inf) - y Q(x, inf).  delta(0) = 1 and delta is convex: its slope is between 0 and -1,
  and -1/z from z on.  So for y near r(x) delta is at least P(x, inf) - y Q(x, inf), a tangent, and above that at most
  by |r(x) - y| / max(1, min(y, r(x))).  It does not matter how x is found.
* A batch that keeps its size, a record of which is replaced or zeroed: delta(y) <= sum of P[c] delta_c((y - 1 + r)/r)
  for y >= 1, r = P[c > 0], delta_c that of N(2 c) against N(0), in both directions (Balle, Barthe, Gaboardi 2018).
  For y < 1 it is 1 - y + y delta(1/y): the pair that is its own mirror image composes (Zhu, Dong, Wang 2022).
* A Poisson sample that keeps at most B records: it is revealed whether B others were drawn, with probability tau.
"""

from flint import arb, ctx


def above(x):
    """The mass of a standard normal distribution there."""
    return (x / arb(2).sqrt()).erfc() / 2


def total(weighted):
    """Of [(weight, anything)]."""
    return sum((weight for weight, _ in weighted), arb())


def mixture(noise, p, q):
    """[(weight, mean)] of P and Q; what P lacks has an infinite loss, what Q lacks is never seen under P."""
    lowest, near = min(mean for _, mean in q), [arb(), arb()]
    least = total(part for part in p if part[1] == lowest) / total(part for part in q if part[1] == lowest)

    moved = [part for part in p if part[1] > 0]
    scaled = [[(w * (-(arb(m) ** 2) / (2 * noise**2)).exp(), m / noise**2, m) for w, m in side] for side in (p, q)]

    def density(side, x):  # over that of N(0), and times the means
        each = [(weight * (x * rise).exp(), mean) for weight, rise, mean in scaled[side]]
        return total(each), sum((one * mean for one, mean in each), arb())

    def delta(y):  # paragraph 1 of the head: a tangent, and how far above it delta may be
        if not y > least:
            known = 1 - y * total(q)
            return known if y <= least else known.union(1 - least * total(q))
        x = near[0] + near[1]
        if len(moved) == len(q) == 1:  # known, where Q is one normal distribution
            x = (noise**2 * ((y - least) / moved[0][0]).log() / moved[0][1] + moved[0][1] / arb(2)).mid()
        step = arb()
        for i in range(99):  # Newton's steps on log r(x) = log y, from where the last two x lead
            x = (x - step).mid()  # fixed here: r(x) and the tails are of the same x, whichever turn is the last
            (a, rise), (b, fall) = density(0, x), density(1, x)
            off = (a / (b * y)).log()
            if not off.is_finite() or abs(off) < arb(2) ** (24 - ctx.prec):
                break
            step = (noise**2 * off / (rise / a - fall / b)).min(noise * 2**i).max(-noise * 2**i)
        near[:] = x, x - near[0]
        tails = [total((weight * above((x - mean) / noise), mean) for weight, mean in side) for side in (p, q)]
        tangent = 1 - total(p) + tails[0] - y * tails[1]
        return tangent.union(tangent + abs(a / b - y) / (a / b).min(y).max(1))

    return delta


def counts(first, ratio, most):
    """Probabilities of 0, 1, ... from the first one and their ratios, until what is left does not matter."""
    found, left = [first], 1 - first
    while len(found) <= most and not left < arb(2) ** -min(ctx.prec - 64, 256):
        found.append(found[-1] * ratio(len(found) - 1))
        left -= found[-1]
    return found


def drawn(size, rate, most):  # binomial
    """Each with this probability."""
    return counts((1 - rate) ** size, lambda c: rate / (1 - rate) * (size - c) / (c + 1), min(size, most))


def held(size, batch, records, most):  # hypergeometric
    """By a batch that is drawn without replacement."""
    first, left = arb(1), records - batch
    for i in range(size):
        first *= arb(left - i) / (records - i)
    ratio = lambda c: arb((size - c) * (batch - c)) / ((c + 1) * (left - size + c + 1))
    return counts(first, ratio, min(size, batch, most))


def staying(noise, chances):
    """Of a batch that keeps its size, a group of which is replaced, by the number of places that it takes."""
    r, lacking = 1 - chances[0], 1 - sum(chances)
    of = [(weight, noise / (2 * c)) for c, weight in enumerate(chances) if c]  # N(2 c) and N(0) as N(1) and N(0)

    def half(y):  # paragraph 2, for y >= 1
        x, at = (y - 1 + r) / r, ((y - 1 + r) / r).log()
        return lacking + sum(w * (above(s * at - 1 / (2 * s)) - x * above(s * at + 1 / (2 * s))) for w, s in of)

    def delta(y):
        if y > 1:
            return half(y)
        mirrored = 1 - y + y * half(1 / y)
        return mirrored if y < 1 else mirrored.union(half(y))

    return delta


def places(release, read):
    """Noise, the chances that 0, 1, ... of a group are drawn, and how far each moves the sum."""
    noise, size = read.ball(release["gaussian"]), read.whole(release.get("group", 1), "group", 1, 10**4)
    pair = next((name for name in ("fixed", "draws") if name in release), None)
    way, most = pair or "poisson", read.whole(release.get("reach", 250), "reach", 1, 250)  # more: an infinite loss
    words = {"count", "gaussian", "group"} | ({way, "at_most", "reach"} if way in release else set())
    read.require(set(release) <= words, "drawn in two ways")
    if pair:
        batch, records = (read.whole(number, pair, 1, 10**9) for number in release[pair])
        read.require(size + (batch if pair == "fixed" else 1) <= records, "there are too few records")
        fixed = pair == "fixed"
        return noise, held(size, batch, records, most) if fixed else drawn(batch, arb(size) / records, most), 2
    if "poisson" not in release:
        return noise, [arb()] * size + [arb(1)], 1
    rate = read.ball(release["poisson"])
    read.require(rate > 0 and rate < 1, "poisson")
    return noise, drawn(size, rate, most), 1


def normals(release, relation, read):
    """Noise, and P and Q as [(weight, mean)]."""
    if "mixture" in release:
        known = set(release) == {"count", "mixture", "p", "q"} and relation != "replace_one"
        read.require(known and read.are_two(release["p"] + release["q"]), "not a mixture like that")
        sides = [[[*map(read.exact, one)] for one in release[side]] for side in "pq"]
        read.require(all(sum(weight for weight, _ in side) <= 1 for side in sides), "weights are more than 1")
        p, q = ([(arb(weight), mean) for weight, mean in side] for side in sides)
        read.require(max(mean for _, mean in p) > 0 and len(p) * len(q) <= 10**4, "P is at 0, or there are too many")
        return read.ball(release["mixture"]), p, [(weight, -mean) for weight, mean in q]
    noise, chances, far = places(release, read)
    read.require(far == 1 or relation in ("add_remove", "add", "remove"), "its records keep their places")
    p = [(weight, far * c) for c, weight in enumerate(chances) if weight > 0]
    return noise, p, [(weight, -mean) for weight, mean in p] if relation == "replace_one" else [(arb(1), 0)]


def one_batch(release, relation, read):
    """delta(y) of a release; `read` is the program, which reads numbers."""
    stays = relation in ("replace_one", "zero_out")
    if stays and ("fixed" in release or "draws" in release):
        read.require("at_most" not in release, "drawn in two ways")
        return staying(*places(release, read)[:2])
    own = mixture(*normals(release, relation, read))
    if "at_most" not in release:
        return own
    (most, records), rate = release["at_most"], read.ball(release["poisson"])
    fewer = read.whole(most, "at_most", 1, 10**9) < read.whole(records, "at_most", 2, 10**9)
    read.require(release.get("group", 1) == 1 and fewer, "at_most")
    read.require(most * ctx.prec < 2**26, "so many kept records take long")
    tau, more = (rate.beta_lower(b, records - most, regularized=True) for b in (most, most + 1))
    kept = most * more / (records * tau)  # of the record, given that so many others were drawn; never more than `rate`
    kept = kept.min(rate) if kept.is_finite() else rate
    p = [(1 - kept, 0), (kept, 2)]
    noise = read.ball(release["gaussian"])
    other = staying(noise, [1 - kept, kept]) if stays else mixture(noise, p, [(arb(1), 0)])
    return lambda y: (1 - tau) * own(y) + tau * other(y)
