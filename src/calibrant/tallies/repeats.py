"""Detect rows that look like copies of other rows, after a wrong join or oversampling."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from calibrant.arrays import Rows
from calibrant.messages import Note, Voice, note
from calibrant.numerics import Floats, Ints, row_hashes
from calibrant.tallies.tally import Tally

MAX_PIECES = 4
"""Pieces of about 32,768 cells that are examined."""
MAX_ROWS = 1 << 16
"""With more rows than this, only the rows of some scores are examined."""
MAX_COPIES = 50
"""Largest number of equal copies that is searched for."""
MIN_MULTIPLES_SHARE = 0.95
"""Share of the counts that must be multiples of the number of copies."""
MIN_COUNTS, MIN_CLASS_COUNTS = 30, 10
"""Minimum number of pairs of score and label, and of pairs with each label."""
NEIGHBORS = 25
"""Distinct scores on either side from which the event rate near a score is estimated."""
MIN_EXPECTED_MIXED = 20.0
"""Minimum expected number of scores with both labels, if rows were independent."""
MAX_MIXED_RATIO = 0.05
"""Ratio of observed to expected scores with both labels up to which rows count as copies."""
MIN_COPIED_SHARE = 0.1
"""Share of the rows that must be copies."""


@note("copied-rows")
def copied_rows(voice: Voice, copies: int) -> str:
    """Rows that seem to occur ``copies`` times each."""
    nouns = voice.nouns
    pairs = f"nearly every pair of {nouns.score} and label occurs {copies} times or a multiple of it"
    return f"the {nouns.rows} look repeated: {pairs}. {_fix(voice)}"


@note("unmixed-labels")
def unmixed_labels(voice: Voice, tied: int, mixed: int, expected: float) -> str:
    """Rows of equal score whose labels are equal more often than those of independent rows would be."""
    nouns = voice.nouns
    pairs = f"of {tied:,} {nouns.scores} with several {nouns.rows}, {mixed:,} have both labels"
    usual = f"about {expected:,.0f} are expected for independent {nouns.rows}"
    return f"the {nouns.rows} look repeated: {pairs}; {usual}. {_fix(voice)}"


def _fix(voice: Voice) -> str:
    return (
        "If a join or oversampling made copies, losses and intervals are too optimistic: remove the copies, or pass "
        f"the id of the original {voice.nouns.row} as {voice.argument('groups')}"
    )


def repeat_notes(tally: Tally) -> tuple[Note, ...]:
    r"""A note if the rows of an exact tally look like copies of other rows, else an empty tuple.

    Either of two signs is enough. Equal numbers of copies: for some :math:`k \ge 2`, the counts of nearly all pairs of
    score and label are multiples of k. Any numbers of copies: rows with equal scores have equal labels, although both
    labels are expected from the event rate near that score.

    Notes
    -----
    For independent rows, with or without ties, at most one sample in 10,000 gets a note, see
    ``tests/statistical/test_repeats.py``. Clusters that share score and label look like copies and get the note too. A
    tally on a grid never gets it: its cells combine different scores. Cost: O(cells), for at most 131,072 cells.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(200)
    >>> y = rng.random(200) < p
    >>> repeat_notes(Tally.from_arrays(p, y))
    ()
    >>> (note,) = repeat_notes(Tally.from_arrays(np.tile(p, 3), np.tile(y, 3)))
    >>> note.code, note.values["copies"]
    ('copied-rows', 3)
    """
    if tally.resolution != "exact":
        return ()
    n, events = _counts(tally)
    tied = n > 1
    if int((n - 1).sum()) < MIN_COPIED_SHARE * int(n.sum()) or int(tied.sum()) < MIN_CLASS_COUNTS:
        return ()
    copies = _equal_copies(n, events)
    if copies:
        return (copied_rows(copies),)
    expected = float(_mixed(n, events)[tied].sum())
    mixed = int((tied & (events > 0) & (events < n)).sum())
    if expected >= MIN_EXPECTED_MIXED and mixed <= MAX_MIXED_RATIO * expected:
        return (unmixed_labels(int(tied.sum()), mixed, expected),)
    return ()


def repeat_notes_of_rows(rows: Rows) -> tuple[Note, ...]:
    """The same for rows; empty if they have groups. Of many rows, only all rows of some scores are examined."""
    if rows.groups is not None:
        return ()
    bare = replace(rows, time=None)
    size = len(rows.scores)
    if size > MAX_ROWS:
        hashes = row_hashes(rows.scores[:, None], np.zeros(size))
        kept = hashes < np.uint64(2**64 // (size // MAX_ROWS + 1))
        bare = replace(
            bare,
            scores=rows.scores[kept],
            labels=rows.labels[kept],
            weights=None if rows.weights is None else rows.weights[kept],
        )
    return repeat_notes(Tally.from_rows(bare))


def _counts(tally: Tally) -> tuple[Ints, Ints]:
    """Physical rows and events by distinct score; only the first cells if there are very many."""
    if not tally.counts:
        cells = tally.cells
        assert cells.rows is not None
        assert cells.row_events is not None
        return cells.rows, cells.row_events
    pieces = list(islice(tally.pieces(), MAX_PIECES))
    n, events = (np.concatenate([piece[place] for piece in pieces]).astype(np.int64) for place in (1, 2))
    return n, events


def _equal_copies(n: Ints, events: Ints) -> int:
    """Largest number that nearly all counts of (score, label) are multiples of, also within each class; 0 if none."""
    classes = [counts[counts > 0] for counts in (events, n - events)]
    if min(map(len, classes)) < MIN_CLASS_COUNTS or sum(map(len, classes)) < MIN_COUNTS:
        return 0
    most = min(
        MAX_COPIES, *(int(np.quantile(counts, 1.0 - MIN_MULTIPLES_SHARE, method="higher")) for counts in classes)
    )
    for copies in range(most, 1, -1):
        if all((counts % copies == 0).mean() >= MIN_MULTIPLES_SHARE for counts in classes):
            return copies
    return 0


def _mixed(n: Ints, events: Ints) -> Floats:
    """Probability that independent rows of each score have both labels, given the event rate of nearby scores."""
    rows, hits = (np.concatenate([[0], np.cumsum(column)]) for column in (n, events))
    place = np.arange(len(n))
    low, high = np.maximum(place - NEIGHBORS, 0), np.minimum(place + NEIGHBORS + 1, len(n))
    beside = np.maximum(rows[high] - rows[low] - n, 1)
    rate = (hits[high] - hits[low] - events) / beside
    return np.asarray(1.0 - rate**n - (1.0 - rate) ** n)
