"""Publish a count, a mean and a histogram of one table: noise from a target of accuracy, epsilon of all of it.

`python examples/release_statistics.py` prints what would be published, and the epsilon that it costs.
"""

import numpy as np

import fastacct as fa

AGES = np.random.default_rng(1).integers(18, 90, 5_000)  # the data
EDGES = np.arange(20, 100, 10)


def release(seed: int | None = None) -> tuple[dict[str, np.ndarray], fa.Process]:
    """The noisy answers, and what was done to the data; neighbours: one record is added or removed."""
    rng = np.random.default_rng(seed)
    noises, answers = {}, {}
    queries = {  # answer, sensitivity in L1, error that at most 1 of 20 releases may exceed
        "people": (np.array([AGES.size]), fa.sensitivity.count(), 20.0),
        # at least 4,900 people are known to be there: fewer would make the mean more sensitive
        "mean age": (np.array([np.clip(AGES, 18, 90).mean()]), fa.sensitivity.mean(18, 90, records=4_900), 0.2),
        "by decade": (np.histogram(AGES, EDGES)[0], fa.sensitivity.histogram(norm="l1"), 60.0),
    }
    for name, (answer, sensitivity, error) in queries.items():

        def law(noise, sensitivity=sensitivity, size=answer.size):
            return fa.utility(fa.Laplace(noise), contribution=sensitivity, dimension=size)

        noises[name] = fa.calibrate(law, error=error, beta=0.05)
        answers[name] = answer + rng.laplace(0.0, noises[name] * sensitivity, answer.size)
    return answers, sum((fa.Laplace(noise) * 1 for noise in noises.values()), fa.Process())


if __name__ == "__main__":
    published, job = release()
    for query, value in published.items():
        print(f"{query:10}", value.round(1))
    print(f"epsilon {fa.epsilon(job, delta=0):.3f} at delta 0, {fa.epsilon(job, delta=1e-9):.3f} at delta 1e-9")
