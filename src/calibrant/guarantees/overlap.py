r"""Were these rows used to fit the map? A small sketch of the fitted rows answers, and keeps nothing else of them.

A row is its score and its label. Every distinct pair is mixed to 64 bits, and the sketch holds 64 words: hashes of the
pairs that mix to the smallest numbers (bottom-k). It does not depend on the order of rows, and the sketch of two sets
of rows together is made of their sketches. Where rows are judged, pairs are taken in the same order; up to the last of
them that the sketch knows, every fitted pair is known, so the share of known ones estimates the share of judged rows
that were fitted:

.. math:: \hat o = \frac{h - 1}{r - 1},

with h hits, the last at rank r. Independent rows can meet by chance where scores are rounded. The share of pairs that
hold several rows tells how often: with f of m pairs tied, about :math:`q = 2 (f + 2) / m` of the pairs of another
sample of that size, times k / r where the fitted rows are more than the judged ones. An alarm needs that chance
explains the hits with probability below one in a million, and more than 5 % of rows beyond it; from q = 1/2 on scores
are heaped, and the sketch abstains. All of the fitted rows are known again by their fingerprint even then. Another
sample of as many rows has the same counts :math:`n_1, \dots, n_K` of its K pairs with probability about

.. math:: \frac{\prod_k c(n_k)}{c(n)}, \qquad c(x) = \frac{1}{\sqrt{4 \pi x - 2}},

where c(x) is, to 1 %, the chance that two Poisson variables of mean :math:`x \ge 1` agree, and n is the number of all
rows. That must be below one in a million too, as it is for 150 rows in 8 pairs; for 2,000 rows in 4 it is not.

Notes
-----
Guarantee: none in finite samples. Scores that are not rounded raise no false alarm (two words of 64 bits agree by
chance once in 10^14 times); rounded to 3, 4 or 5 decimals none was seen in 35,000 pairs of samples, where the sketch
did not abstain (``tests/statistical/test_overlap.py``).
Privacy: words are BLAKE2b hashes. Who already has the exact score of a row can test whether it is among the 64, and
with which label; scores that are easily guessed, such as 0.95, are heaped and not stored.
Size: 64 words are 1.2 KiB of a document. Rows that were fitted as a whole are found from 14 on, a fifth of the
fitted rows (13 hits expected) in nine of ten cases, a tenth in half; four times as many words would find a twentieth.
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
"""Words of a sketch."""

DEEPEST = 2_048
"""Judged pairs that are looked at: where 5 % of them were fitted, 64 hits lie among the first 1,280."""

LEAST_SHARE, CHANCE = 0.05, 1e-6
"""Share of judged rows from which on they are called fitted, and the probability that chance does it."""

HEAPED = 0.5
"""Share of pairs that another sample would meet by chance, from which on nothing is said."""

_FACTOR, _HIGHEST = np.uint64(0x9E3779B97F4A7C15), np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Lowest:
    """The (score, label) pairs whose scores mix to the smallest numbers, in that order, and whether each is tied."""

    mixed: NDArray[np.uint64]
    labels: NDArray[np.bool_]
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, tally: Tally, size: int) -> Lowest:
        """Pairs of the lowest ``size`` scores of an exact tally."""
        kept = np.zeros((3, 0), dtype=np.uint64)  # mixed score, events, other rows; of the latter 2 stands for more
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
        pairs = ordered[1:].T.ravel()  # of each score its events, then its other rows
        filled = np.flatnonzero(pairs)
        return cls(ordered[0][filled // 2], filled % 2 == 0, pairs[filled] > 1)

    @property
    def chance(self) -> float:
        """Share of pairs that another sample as large would meet by chance."""
        return 2.0 * (int(self.tied.sum()) + 2) / max(len(self.tied), 1)

    @property
    def words(self) -> tuple[str, ...]:
        """A one-way hash of each pair."""
        pairs = zip(self.mixed.astype("<u8"), self.labels, strict=True)
        return tuple(blake2b(x.tobytes() + (b"1" if label else b"0"), digest_size=8).hexdigest() for x, label in pairs)


@dataclass(frozen=True)
class Overlap:
    """About which share of the judged rows was fitted, and whether they are all of the fitted rows."""

    share: float
    whole: bool = False

    @property
    def in_sample(self) -> bool:
        """Whether rows that were fitted are among those that are judged."""
        return self.share > 0.0


def mix(scores: Floats) -> NDArray[np.uint64]:
    """The bit patterns of scores, multiplied by an odd number: no two alike, and in an order of their own."""
    x = (scores + 0.0).view(np.uint64)
    np.multiply(x, _FACTOR, out=x)
    return x


def sketch(tally: Tally) -> tuple[str, ...]:
    """The words that a map keeps of its rows, sorted; none of a grid, of a table of bins or of heaped scores.

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
    """Overlap of judged rows with those that a sketch and a fingerprint are of; None when it cannot be told.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fitted, new = (Tally.from_arrays(rng.random(1000), rng.random(1000) < 0.3) for _ in range(2))
    >>> words = sketch(fitted)
    >>> overlap(words, fitted.fingerprint, fitted), overlap(words, fitted.fingerprint, new)
    (Overlap(share=1.0, whole=True), Overlap(share=0.0, whole=False))
    >>> round(overlap(words, fitted.fingerprint, fitted + new).share, 1)  # of 64 words, so give or take 0.06
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
    """Which share of the rows of ``one`` are rows of ``other`` too, as far as can be seen: 0 where it cannot.

    Scores are compared with their labels and without, since the same rows may come before and after their labels; a
    tally on a grid is compared on that grid.

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
    """Both tallies at the resolution of the coarser one; None where there is none for both."""
    if "bins" in (one.resolution, other.resolution) or one.kind != other.kind:
        return None
    grids = [each.grid for each in (one, other) if each.grid is not None]
    if not grids:
        return one, other
    if len({(grid.low, grid.high) for grid in grids}) > 1 or not (len(grids) == 2 or grids[0].unit):
        return None  # scores may lie beyond the range of the other's grid
    coarsest = min(grids, key=lambda grid: grid.bits)
    return one.coarsen(coarsest), other.coarsen(coarsest)


def _physical(tally: Tally) -> Iterator[tuple[Floats, Ints, Ints]]:
    """Scores, rows and events under importance weights; where a score has both labels, either may have the others."""
    rows = cast(Ints, tally.cells.rows)
    hit, missed = tally.events > 0.0, tally.n > tally.events
    of_each = rows - (hit & missed)
    yield tally.scores, of_each * hit + of_each * missed, of_each * hit


def _agreement(tally: Tally) -> float:
    """About how probable it is that another sample of as many rows has the same counts of (score, label) pairs."""
    first, second = tally.events, tally.n - tally.events
    if not tally.counts:  # where a score has both labels, the split of its rows that chance repeats most easily
        rows, both = cast(Ints, tally.cells.rows), (first > 0.0) & (second > 0.0)
        first, second = np.where(both, 1, rows), np.maximum(rows - 1, 1) * both
    pairs = np.concatenate([first, second]).astype(np.float64)
    pairs = pairs[pairs > 0.0]
    if len(pairs) < 2:
        return 1.0
    whole, each = (np.log(4.0 * np.pi * count - 2.0) for count in (pairs.sum(), pairs))
    return float(np.exp((whole - each.sum()) / 2.0))


def _tail(hits: int, trials: int, chance: float) -> float:
    """Chernoff's bound of the probability of as many hits."""
    share = hits / trials
    if share <= chance:
        return 1.0
    distance = share * math.log(share / chance)
    if share < 1.0:
        distance += (1.0 - share) * math.log((1.0 - share) / (1.0 - chance))
    return math.exp(-trials * distance)
