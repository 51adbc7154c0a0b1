r"""When a random split under a fixed seed can have a guarantee.

If a random split of the rows chooses the bins, the confidence of the certificate is over samples and splits: it fails
in at most alpha of them. Under a seed the split is a function of the tally, :math:`B(t) \in \{0, 1\}` says whether the
certificate fails on tally t, and the probability that matters is that of this seed, :math:`V = \sum_t P(t) B(t)`. If
splits are as good as independent between tallies (the seed is hashed together with the tally's fingerprint), V has the
mean of a fresh split, at most alpha, and the variance

.. math:: \sum_t P(t)^2 \operatorname{Var} B(t) \le \alpha \max_t P(t) .

So a seed is as good as a fresh split if every single tally is improbable. If a few tallies have all the probability, V
depends on luck: with a constant score it reached 31 % at alpha = 10 %. No distribution of independent rows gives a
tally with counts :math:`n_1, \dots, n_K` of its (score, label) pairs a probability above

.. math:: \frac{n!}{\prod_k n_k!} \prod_k \Bigl(\frac{n_k}{n}\Bigr)^{n_k},

so a certificate is issued only if this is at most :data:`IMPROBABLE`. Bernstein's inequality for the independent
:math:`P(t) B(t)` then bounds the share of seeds, for any one distribution, under which V exceeds alpha by more than
0.00001: it is below :math:`e^{-10^{-10} / (2 \cdot 10^{-12})}`, one in 10^21. Issuing fewer certificates can only lower
V.
See docs/certificates/fixed-bins.md.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.numerics import Floats
from calibrant.tallies import Tally

IMPROBABLE = 1e-12
"""Largest probability of a single tally at which a fixed seed is allowed; 31 distinct rows are enough."""

FIXED_DRAW = NoCertificate(
    NoCertificateCode.FIXED_DRAW,
    "random_state fixes the random split, and with these tied scores there are too few possible outcomes: the "
    "confidence, which is over all splits, may not hold for this one; leave random_state out, or use "
    "HistogramBinning(), which makes no random split",
)


def seed_refusal(tally: Tally, random_state: int | None) -> NoCertificate | None:
    """Why bins chosen by a random split of this tally have no certificate under this seed; None if they can have one.

    Examples
    --------
    >>> tied = Tally.from_arrays([0.3] * 100, [0, 1] * 50)
    >>> distinct = Tally.from_arrays(np.arange(31) / 30, np.arange(31) % 2)
    >>> [seed_refusal(*each) is FIXED_DRAW for each in ((tied, None), (tied, 0), (distinct, 0))]
    [False, True, False]
    """
    return pairs_refusal(_pairs(tally), random_state)


def pairs_refusal(pairs: Floats, random_state: int | None) -> NoCertificate | None:
    """The same for the counts of equal rows and labels, whatever a row is."""
    return FIXED_DRAW if random_state is not None and _probability(pairs) > IMPROBABLE else None


def _pairs(tally: Tally) -> Floats:
    return np.concatenate([tally.events, tally.n - tally.events])


def largest_probability(tally: Tally) -> float:
    """Largest probability of this tally of counts under any distribution of independent rows.

    Examples
    --------
    >>> largest_probability(Tally.from_arrays([0.3] * 4, [0, 0, 1, 1]))  # 6 (1/2)^4
    0.375
    """
    return _probability(_pairs(tally))


def _probability(pairs: Floats) -> float:
    size = float(pairs.sum())
    counts, times = np.unique(pairs[pairs > 1], return_counts=True)  # a count of 1 has no factorial
    factorials = sum(k * math.lgamma(count + 1.0) for count, k in zip(counts.tolist(), times.tolist(), strict=True))
    shares = float((times * counts * np.log(counts)).sum()) - size * math.log(max(size, 1.0))
    return math.exp(min(math.lgamma(size + 1.0) - factorials + shares, 0.0))
