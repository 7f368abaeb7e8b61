"""Method line: delta of jobs of Gaussian mixtures and Laplace noise to many digits, in balls; for `checker.py`.

With M(u) = E_Q (P/Q)^u of a release, F(u) = product of M_i(u)^T_i exp(-(u - 1) epsilon) / (u (u - 1)) and c > 1,
delta(epsilon) is the integral of F(c + i t) over all t, divided by 2 pi (direction add: M(1 - u) in place of M(u)).

1. Any step h: the sum of h F(c + i k h) over all whole k, divided by 2 pi, is not below delta.  By Poisson's formula it
   is the sum over whole j of exp((c - 1) s) E_P (1 - exp(epsilon + s - loss))_+ at s = 2 pi j / h, delta at j = 0, and
   none of them is negative.
2. M(c + i t) in closed form, or by Arb's quadrature between two outputs; beyond them |P^u Q^(1 - u)| is at most that of
   pairs of normal distributions, one of P and one of Q: p^c q^(1 - c) is convex in (p, q) for c >= 1 and c <= 0.
3. Beyond n nodes |M| of mixtures is at most its value at t = 0 left of an output x0, and right of it, by parts, at most
   (g(x0) + g(end) + the variation of g) / t, with g = density / loss'.  The rest of the sum is at most
   product of these bounds^T_i exp(-(c - 1) epsilon) / (pi n h), since |u (u - 1)| >= t^2.
"""

from collections import namedtuple

from flint import acb, arb, ctx

PIECES = 400
Known = namedtuple("Known", "c moment bound remove add", defaults=(1, 1))  # closed forms; the masses of P and of Q


class Normals:
    """P and Q with normal distributions [(weight, mean)], for u = c + i t with c >= 1 or c <= 0."""

    def __init__(self, noise, p, q, c, reach, in_time):
        self.noise, self.p, self.q, self.c, self.in_time = noise, p, q, c, in_time
        self.remove, self.add = (sum(w for w, _ in side) for side in (p, q))
        lacking = self.remove ** (c - 1) * self.add**-c
        middles = [c * a + (1 - c) * b for _, a in p for _, b in q]
        self.low = (min(middles, key=lambda x: float(x.mid())) - reach * noise).mid()
        self.high = (max(middles, key=lambda x: float(x.mid())) + reach * noise).mid()
        self.scale = noise * (2 * arb.pi()).sqrt()
        above = lambda x: (x / arb(2).sqrt()).erfc() / 2
        beyond = lambda z: above((self.high - z) / noise) + above((z - self.low) / noise)
        far = lambda a, b: ((c * c - c) * (a - b) ** 2 / (2 * noise**2)).exp() * lacking
        self.outside = sum(w * v * far(a, b) * beyond(c * a + (1 - c) * b) for w, a in p for v, b in q)

    def density(self, side, x):  # over that of N(0)
        return sum(w * (m * (2 * x - m) / (2 * self.noise**2)).exp() for w, m in side)

    def integral(self, u, low, high):  # of P^u Q^(1 - u), proved by Arb
        def density(z, analytic):
            p, q = self.density(self.p, z), self.in_time(self.density(self.q, z))
            if analytic and not (p.real > 0 and q.real > 0):
                return acb("nan")
            return (u * p.log() + (1 - u) * q.log() - z * z / (2 * self.noise**2)).exp()

        off = arb(2) ** (16 - ctx.prec)
        return acb.integral(density, acb(low), acb(high), rel_tol=off, abs_tol=off, eval_limit=20000) / self.scale

    def moment(self, u):  # M(u): paragraph 2 of the head
        off = arb(0, self.outside.upper())
        return self.integral(u, self.low, self.high) + acb(off, off)

    def means(self, side, x):  # the mean and variance of the means, under the density at x
        each = [(w * (m * (2 * x - m) / (2 * self.noise**2)).exp(), m) for w, m in side]
        total = sum(w for w, _ in each)
        mean = sum(w * m for w, m in each) / total
        return mean, sum(w * (m - mean) ** 2 for w, m in each) / total

    def bound(self, t, cut):
        """Of |M| at c + i s for all s >= t."""
        start, c, v = (self.low + (self.high - self.low) * cut).mid(), self.c, self.noise**2

        def pieces(x):  # g and its logarithmic derivative
            (a, wide), (b, narrow) = self.means(self.p, x), self.in_time(self.means(self.q, x))
            ratio = c * self.density(self.p, x).log() + (1 - c) * self.density(self.q, x).log()
            g = (ratio - x * x / (2 * v)).exp() / self.scale * v / (a - b)
            return g, (c * a + (1 - c) * b - x) / v - (wide - narrow) / (v * (a - b))

        width, varied = (self.high - start) / PIECES, arb()
        for i in range(PIECES):
            g, change = pieces((start + i * width).union(start + (i + 1) * width))
            varied += width * abs(g * change)
        ends = pieces(start)[0] + pieces(self.high)[0]
        return self.integral(acb(c), self.low, start).real + self.outside + (ends + varied) / t


def laplace(far, c):  # |u / (2u - 1)| falls to 1/2 as t grows, and |(u - 1) / (2u - 1)| rises to it
    up, down = (lambda u: ((u - 1) * far).exp()), (lambda u: (-u * far).exp())
    moment = lambda u: (u * up(u) + (u - 1) * down(u)) / (2 * u - 1)
    bound = lambda u: abs(u / (2 * u - 1)) * up(u.real) + down(u.real) / 2
    return Known(c, moment, lambda t, cut: bound(acb(c.max(1 - c), t)))  # M(u) = M(1 - u)


def part(release, relation, c, reach, read):
    """Of a release, at Re u = c."""
    if set(release) == {"count", "laplace"}:
        return laplace((2 if relation == "replace_one" else 1) / read.ball(release["laplace"]), c)
    read.require("at_most" not in release and "laplace" not in release, "method line does not know such a release")
    noise, p, q = read.beside("batches").normals(release, relation, read)
    read.require(len(p) + len(q) <= 64, "more than 64 parts take long on a line")
    if len(p) == len(q) == 1 and p[0][0] == q[0][0] == 1:  # two normal distributions
        moment = lambda u: (u * (u - 1) * ((p[0][1] - q[0][1]) / noise) ** 2 / 2).exp()
        return Known(c, moment, lambda t, cut: abs(moment(acb(c, t))))
    return Normals(noise, p, q, c, reach, read.in_time)


def largest_delta(job, direction, plan, read):
    """An upper bound of delta at the claimed epsilon."""
    ctx.prec, n = read.whole(plan["bits"], "bits", 64, 512), read.whole(plan["nodes"], "nodes", 1, 4000)
    c, h, epsilon = read.ball(plan["line"]), read.ball(plan["step"]), read.ball(job["epsilon"])
    read.require(c > 1 and h > 0 and 0 < len(job["releases"]) == len(plan["cuts"]) <= 10, "line, step or cuts")
    parts, total, finite, rest = [], arb(), arb(1), ((1 - c) * epsilon).exp() / (arb.pi() * n * h)
    for release, cut in zip(job["releases"], map(read.ball, plan["cuts"])):
        read.require(cut > 0 and cut < 1, "a cut is between 0 and 1")
        times = read.whole(release["count"], "count", 1, 10**9)
        one = part(release, job["relation"], c if direction == "remove" else 1 - c, read.ball(plan["reach"]), read)
        finite, rest = finite * getattr(one, direction) ** times, rest * one.bound(n * h, cut) ** times
        parts.append((one, times))
    for k in read.paced(range(n + 1)):
        u = acb(c, k * h)
        value = (-(u - 1) * epsilon).exp() / (u * (u - 1))
        for one, times in parts:
            value *= one.moment(u if direction == "remove" else 1 - u) ** times
        read.require(k > 0 or h * value.real + rest < 1000 * read.ball(job["delta"]), "a wide step, or few nodes")
        total += value.real if k == 0 else 2 * value.real
    return total * h / (2 * arb.pi()) + rest + (1 - finite)
