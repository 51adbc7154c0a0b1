r"""When a draw under a fixed seed may carry a guarantee.

A certificate of bins that a random part of the rows chose counts the draw: of all draws from all samples at most alpha
are false. Under a seed the draw is a function of the tally, :math:`B(t) \in \{0, 1\}` says whether it fails on tally t,
and the chance that counts is that of this seed, :math:`V = \sum_t P(t) B(t)`. With draws as good as independent from
tally to tally (the seed is hashed together with the tally's fingerprint), V has the mean of a fresh draw, at most
alpha, and the variance

.. math:: \sum_t P(t)^2 \operatorname{Var} B(t) \le \alpha \max_t P(t) .

So a seed is as good as a fresh draw where every single tally is improbable, and pure luck where a few tallies share
all the probability: with a constant score V reached 31 % at alpha = 10 %. No distribution of independent rows gives a
tally with counts :math:`n_1, \dots, n_K` of its (score, label) pairs more than

.. math:: \frac{n!}{\prod_k n_k!} \prod_k \Bigl(\frac{n_k}{n}\Bigr)^{n_k},

so a certificate is issued only where this is at most :data:`IMPROBABLE`. Bernstein's inequality for the independent
:math:`P(t) B(t)` then bounds the share of seeds, for any one distribution, under which V exceeds alpha by more than
0.00001: it is below :math:`e^{-10^{-10} / (2 \cdot 10^{-12})}`, one in 10^21. Issuing more seldom can only lower V.
See docs/certificates/fixed-bins.md.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.tallies import Tally

IMPROBABLE = 1e-12
"""The largest probability of one tally at which the luck of a seed averages out: 31 distinct rows are enough."""

FIXED_DRAW = Refusal(
    RefusalCode.FIXED_DRAW,
    "random_state fixes the draw, and so few outcomes are possible with these tied scores that the confidence, which "
    "counts all draws, can be false for one: leave random_state out, or use HistogramBinning(), which draws nothing",
)


def seed_refusal(tally: Tally, random_state: int | None) -> Refusal | None:
    """Why bins that a part of this tally chose carry no certificate under this seed; None where they may.

    Examples
    --------
    >>> tied = Tally.from_arrays([0.3] * 100, [0, 1] * 50)
    >>> distinct = Tally.from_arrays(np.arange(31) / 30, np.arange(31) % 2)
    >>> [seed_refusal(*each) is FIXED_DRAW for each in ((tied, None), (tied, 0), (distinct, 0))]
    [False, True, False]
    """
    return FIXED_DRAW if random_state is not None and largest_probability(tally) > IMPROBABLE else None


def largest_probability(tally: Tally) -> float:
    """The largest probability that independent rows of any one distribution have of making this tally of counts.

    Examples
    --------
    >>> largest_probability(Tally.from_arrays([0.3] * 4, [0, 0, 1, 1]))  # 6 (1/2)^4
    0.375
    """
    pairs = np.concatenate([tally.events, tally.n - tally.events])
    size = float(pairs.sum())
    counts, times = np.unique(pairs[pairs > 1], return_counts=True)  # a count of 1 has no factorial
    factorials = sum(k * math.lgamma(count + 1.0) for count, k in zip(counts.tolist(), times.tolist(), strict=True))
    shares = float((times * counts * np.log(counts)).sum()) - size * math.log(max(size, 1.0))
    return math.exp(min(math.lgamma(size + 1.0) - factorials + shares, 0.0))
