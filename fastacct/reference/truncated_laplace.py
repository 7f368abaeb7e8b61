"""Delta of truncated Laplace noise."""

import itertools

from mpmath import mp, mpf

from .certify import NotConverged

__all__ = ["truncated_laplace_delta"]


def truncated_laplace_delta(noise: float, bound: float, epsilon: float, sensitivity: int = 1, digits: int = 30) -> mpf:
    """By the distribution function where the loss crosses epsilon, and by integration of both densities: they agree."""
    with mp.workdps(digits + 20):
        b, most, e, far = (mpf(x) for x in (noise, bound, epsilon, sensitivity))
        whole = 2 * b * -mp.expm1(-most / b)

        def density(x: mpf) -> mpf:
            return mp.exp(-abs(x) / b) / whole if abs(x) <= most else mpf(0)

        def below(x: mpf) -> mpf:
            half = b / whole * -mp.expm1(-min(abs(x), most) / b)
            return mpf("0.5") + half if x > 0 else mpf("0.5") - half

        start = far - most  # outcomes below it are impossible for the other data set
        at = start if e >= far / b else max((far - b * e) / 2, start)
        at = min(at, most)
        closed = below(at) - mp.exp(e) * below(at - far)
        points = sorted({x for x in (-most, min(start, most), mpf(0), far, at, most) if -most <= x <= most})
        total = mpf(0)
        for low, high in itertools.pairwise(points):
            middle = (low + high) / 2
            if density(middle) > mp.exp(e) * density(middle - far):
                total += mp.quad(density, [low, high]) - mp.exp(e) * mp.quad(lambda x: density(x - far), [low, high])
        if abs(total - closed) > mpf(10) ** -digits * max(abs(closed), mpf(10) ** -digits):
            raise NotConverged(f"{total} and {closed} disagree")
        return +closed
