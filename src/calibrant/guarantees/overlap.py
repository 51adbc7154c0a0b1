r"""Detect rows that were used to fit the map, from a small sketch of the fitted rows.

A row is a (score, label) pair. Every distinct pair is mixed to 64 bits, and the sketch holds 64 words: hashes of the
pairs that mix to the smallest numbers (bottom-k). It does not depend on the order of rows, and sketches of two sets of
rows can be merged. When rows are checked, their pairs are taken in the same order. Up to the last match the sketch
contains every fitted pair, so the share of matches estimates the share of checked rows that were fitted:

.. math:: \hat o = \frac{h - 1}{r - 1},

with h matches, the last at rank r. If scores are rounded, independent rows can match by chance. The share of tied pairs
shows how often: with f of m pairs tied, about :math:`q = 2 (f + 2) / m` of the pairs of another sample of that size
match, times k / r if there are more fitted rows than checked ones. An alarm requires that chance explains the matches
with probability below one in a million, and that more than 5 % of the rows match beyond chance. At q >= 1/2 there are
too many ties and the sketch abstains. Even then the complete set of fitted rows is recognized by its fingerprint.
Another sample of the same size has the same counts :math:`n_1, \dots, n_K` of its K pairs with probability about

.. math:: \frac{\prod_k c(n_k)}{c(n)}, \qquad c(x) = \frac{1}{\sqrt{4 \pi x - 2}},

where c(x) is, to 1 %, the probability that two Poisson variables with mean :math:`x \ge 1` are equal, and n is the
total number of rows. This must be below one in a million too: it is for 150 rows in 8 pairs, but not for 2,000 rows in
4 pairs.

Notes
-----
Guarantee: no finite-sample guarantee. Scores that are not rounded raise no false alarm (two words of 64 bits agree by
chance once in 10^14 times). With scores rounded to 3, 4 or 5 decimals no false alarm was seen in 35,000 pairs of
samples for which the sketch did not abstain (``tests/statistical/test_overlap.py``).
Privacy: words are BLAKE2b hashes. Anyone who has the exact score of a row can test whether it is among the 64, and
with which label. Scores that are easy to guess, such as 0.95, have many ties and are not stored.
Size: 64 words take 1.2 KiB of a document. The complete set of fitted rows is recognized if it has at least 14 rows; a
fifth of the fitted rows (13 expected matches) in nine of ten cases, a tenth in half of the cases. Four times as many
words would detect a twentieth.
Cost: one pass of a multiplication and a comparison, about a tenth of an argsort.
Reference: Cohen and Kaplan (2007), for estimates from bottom-k sketches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics import Floats, Ints
from calibrant.tallies import Tally

WORDS = 64
"""Number of words in a sketch."""

DEEPEST = 2_048
"""Largest number of checked pairs used: if 5 % of them were fitted, 64 matches are among the first 1,280."""

LEAST_SHARE, CHANCE = 0.05, 1e-6
"""Smallest share of fitted rows that raises an alarm, and the largest probability that chance explains it."""

HEAPED = 0.5
"""The sketch abstains if another sample would share at least this share of pairs by chance."""

_FACTOR, _HIGHEST = np.uint64(0x9E3779B97F4A7C15), np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Lowest:
    """The (score, label) pairs whose scores have the smallest mixed values, in that order, and whether each is tied."""

    mixed: NDArray[np.uint64]
    labels: NDArray[np.bool_]
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, tally: Tally, size: int) -> Lowest:
        """Pairs of the ``size`` scores of an exact tally with the smallest mixed values."""
        kept = np.zeros((3, 0), dtype=np.uint64)  # mixed score, events, negatives; counts above 2 are stored as 2
        bound = _HIGHEST
        for scores, n, events in tally.pieces() if tally.counts else _physical(tally):
            mixed = mix(scores)
            low = np.flatnonzero(mixed <= bound)
            counts = (np.minimum(rows, 2).astype(np.uint64) for rows in (events[low], n[low] - events[low]))
            kept = np.concatenate([kept, [mixed[low], *counts]], axis=1)
            if kept.shape[1] > size:
                kept = kept[:, np.argsort(kept[0])[:size]]
                bound = kept[0, -1]
        ordered = kept[:, np.argsort(kept[0])]
        pairs = ordered[1:].T.ravel()  # for each score its events, then its negatives
        filled = np.flatnonzero(pairs)
        return cls(ordered[0][filled // 2], filled % 2 == 0, pairs[filled] > 1)

    @property
    def chance(self) -> float:
        """Share of pairs that another sample of the same size would contain by chance."""
        return 2.0 * (int(self.tied.sum()) + 2) / max(len(self.tied), 1)

    @property
    def words(self) -> tuple[str, ...]:
        """A one-way hash of each pair."""
        pairs = zip(self.mixed.astype("<u8"), self.labels, strict=True)
        return tuple(blake2b(x.tobytes() + (b"1" if label else b"0"), digest_size=8).hexdigest() for x, label in pairs)


@dataclass(frozen=True)
class Overlap:
    """Estimated share of the checked rows that were fitted, and whether they are exactly the fitted rows."""

    share: float
    whole: bool = False

    @property
    def in_sample(self) -> bool:
        """Whether some of the checked rows were fitted."""
        return self.share > 0.0


def mix(scores: Floats) -> NDArray[np.uint64]:
    """Bit patterns of scores, multiplied by an odd number: distinct scores stay distinct, in a pseudorandom order."""
    x = (scores + 0.0).view(np.uint64)
    np.multiply(x, _FACTOR, out=x)
    return x


def sketch(tally: Tally) -> tuple[str, ...]:
    """Sorted words of a map's rows; empty for a grid, for a table of bins and for scores with many ties.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores, y = rng.random(1000), rng.random(1000) < 0.3
    >>> words = sketch(Tally.from_arrays(scores, y))
    >>> len(words), words == sketch(Tally.from_arrays(scores[::-1], y[::-1]))
    (64, True)
    >>> sketch(Tally.from_arrays(scores.round(1), y))
    ()
    """
    if tally.resolution != "exact":
        return ()
    lowest = Lowest.of(tally, WORDS)
    return () if lowest.chance > HEAPED else tuple(sorted(lowest.words))


def overlap(words: tuple[str, ...], fingerprint: str, judged: Tally) -> Overlap | None:
    """Overlap of the checked rows with the fitted rows of a sketch and fingerprint; None if it cannot be determined.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fitted, new = (Tally.from_arrays(rng.random(1000), rng.random(1000) < 0.3) for _ in range(2))
    >>> words = sketch(fitted)
    >>> overlap(words, fitted.fingerprint, fitted), overlap(words, fitted.fingerprint, new)
    (Overlap(share=1.0, whole=True), Overlap(share=0.0, whole=False))
    >>> round(overlap(words, fitted.fingerprint, fitted + new).share, 1)  # from 64 words: standard error 0.06
    0.5
    """
    if judged.fingerprint == fingerprint and _agreement(judged) < CHANCE:
        return Overlap(1.0, whole=True)
    if not words or judged.resolution != "exact":
        return None
    lowest = Lowest.of(judged, DEEPEST)
    known = set(words)
    hits = np.flatnonzero([word in known for word in lowest.words])
    found, depth = len(hits), int(hits[-1]) + 1 if len(hits) else 0
    chance = lowest.chance * max(1.0, len(words) / max(depth, 1))
    if lowest.chance > HEAPED:
        return None
    if found < 2 or _tail(found - 1, depth - 1, min(chance, 1.0)) > CHANCE:
        return Overlap(0.0)
    share = (found - 1) / (depth - 1)
    return Overlap(share if share - chance > LEAST_SHARE else 0.0)


def common_rows(one: Tally, other: Tally) -> Overlap:
    """Estimated share of the rows of ``one`` that are also in ``other``; 0 if it cannot be determined.

    Scores are compared with and without their labels, since the same rows may be given before and after their labels
    arrive. A tally on a grid is compared on that grid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores, y = rng.random(1000), rng.random(1000) < 0.3
    >>> rows = Tally.from_arrays(scores, y)
    >>> common_rows(rows, Tally.from_arrays(scores, ~y)).whole, common_rows(rows, rows.coarsen(10)).whole
    (True, True)
    """
    pair = _on_one_grid(one, other)
    if pair is None:
        return Overlap(0.0)
    one, other = pair
    found = [
        overlap(sketch(theirs), theirs.fingerprint, ours)
        for ours, theirs in ((one, other), (one.unlabeled(), other.unlabeled()))
    ]
    seen = [each for each in found if each is not None]
    return max(seen, key=lambda each: (each.whole, each.share), default=Overlap(0.0))


def _on_one_grid(one: Tally, other: Tally) -> tuple[Tally, Tally] | None:
    """Both tallies at the resolution of the coarser one; None if they have no common grid."""
    if "bins" in (one.resolution, other.resolution) or one.score_type != other.score_type:
        return None
    grids = [each.grid for each in (one, other) if each.grid is not None]
    if not grids:
        return one, other
    if len({(grid.low, grid.high) for grid in grids}) > 1 or not (len(grids) == 2 or grids[0].unit):
        return None  # scores may lie beyond the range of the other's grid
    coarsest = min(grids, key=lambda grid: grid.bits)
    return one.coarsen(coarsest), other.coarsen(coarsest)


def _physical(tally: Tally) -> Iterator[tuple[Floats, Ints, Ints]]:
    """Scores, rows and events under importance weights; for a score with both labels the split of rows is unknown."""
    rows = cast(Ints, tally.cells.rows)
    hit, missed = tally.events > 0.0, tally.n > tally.events
    of_each = rows - (hit & missed)
    yield tally.scores, of_each * hit + of_each * missed, of_each * hit


def _agreement(tally: Tally) -> float:
    """Approximate probability that another sample of the same size has the same counts of (score, label) pairs."""
    first, second = tally.events, tally.n - tally.events
    if not tally.counts:  # if a score has both labels, use the most probable split of its rows
        rows, both = cast(Ints, tally.cells.rows), (first > 0.0) & (second > 0.0)
        first, second = np.where(both, 1, rows), np.maximum(rows - 1, 1) * both
    pairs = np.concatenate([first, second]).astype(np.float64)
    pairs = pairs[pairs > 0.0]
    if len(pairs) < 2:
        return 1.0
    whole, each = (np.log(4.0 * np.pi * count - 2.0) for count in (pairs.sum(), pairs))
    return float(np.exp((whole - each.sum()) / 2.0))


def _tail(hits: int, trials: int, chance: float) -> float:
    """Chernoff bound on the probability of at least this many matches."""
    share = hits / trials
    if share <= chance:
        return 1.0
    distance = share * math.log(share / chance)
    if share < 1.0:
        distance += (1.0 - share) * math.log((1.0 - share) / (1.0 - chance))
    return math.exp(-trials * distance)
