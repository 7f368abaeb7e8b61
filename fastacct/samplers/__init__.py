"""What a random batch does to a privacy loss, and what is known of batches that are refused."""

from typing import Final

__all__ = ["REFUSED", "refuse_sampler"]

REFUSED: Final = {
    "with_replacement": (
        "batches drawn with replacement are not supported: how often a record is drawn is binomial, and for a record "
        "that is replaced only upper bounds are proved; draw without replacement, .fixed_size(batch_size, records)"
    ),
    "shuffled": (
        "shuffled batches are not supported: for general gradients no amplification by shuffling is proved, and the "
        "numbers of Poisson sampling are too small (Chua et al. 2024); what is proved is the mechanism on the whole "
        "data set, once an epoch, for a record that is replaced or zeroed out"
    ),
}
"""Samplers without an accountant here, and what is known of them."""


def refuse_sampler(name: str) -> ValueError:
    """The error for one of them."""
    return ValueError(REFUSED[name])
