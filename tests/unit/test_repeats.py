"""Rows that are copies of other rows are noted where numbers rest on independent rows."""

from __future__ import annotations

import numpy as np
from tests import worlds

import calibrant as cb
from calibrant.arrays import check_rows
from calibrant.numerics import Grid
from calibrant.tallies import Tally, repeat_notes, repeat_notes_of_rows, repeats


def draw(n: int = 300, rate: float = 0.3, seed: int = 0) -> worlds.Rows:
    """Calibrated, with about this rate of events."""
    return worlds.calibrated(n, seed, shape=(2.0, 2.0 * (1.0 - rate) / rate))


def repeated(notes):
    return [note for note in notes if note.code in ("copied-rows", "unmixed-labels")]


def test_equal_copies_are_counted(subtests):
    for copies in [2, 3, 10]:
        with subtests.test(copies=copies):
            scores, y = draw()
            assert not repeat_notes(Tally.from_arrays(scores, y))
            (note,) = repeat_notes(Tally.from_arrays(np.tile(scores, copies), np.tile(y, copies)))
            assert (note.code, note.values) == ("copied-rows", {"copies": copies})
            assert str(note) == (
                f"the rows look repeated: nearly every pair of score and label occurs {copies} times or a multiple of "
                "it. If a join or oversampling made copies, losses and intervals are too optimistic: remove the "
                "copies, or pass the id of the original row as groups"
            )


def test_equal_copies_of_tied_scores_are_seen():
    scores, y = draw(2_000)
    scores = scores.round(2)
    assert not repeat_notes(Tally.from_arrays(scores, y))
    (note,) = repeat_notes(Tally.from_arrays(np.tile(scores, 4), np.tile(y, 4)))
    assert (note.code, note.values) == ("copied-rows", {"copies": 4})


def test_unequal_copies_are_seen():
    # A join in which each row found one to six partners, a bootstrap sample, and the events alone drawn again.
    rng = np.random.default_rng(1)
    scores, y = draw()
    events = np.flatnonzero(y)
    for index in (
        np.repeat(np.arange(300), rng.integers(1, 7, 300)),
        rng.integers(0, 300, 300),
        np.concatenate([np.flatnonzero(y == 0), rng.choice(events, 3 * len(events))]),
    ):
        (note,) = repeat_notes(Tally.from_arrays(scores[index], y[index]))
        assert (note.code, note.values["mixed"]) == ("unmixed-labels", 0)
        assert "0 have both labels; about " in str(note)


def test_a_few_copies_are_no_matter():
    scores, y = draw(1_000)
    twice = np.concatenate([np.arange(1_000), np.arange(0, 1_000, 12)])
    assert not repeat_notes(Tally.from_arrays(scores[twice], y[twice]))


def test_copies_are_seen_with_importance_weights_and_as_counts():
    scores, y = draw()
    weights = np.tile(np.random.default_rng(2).uniform(0.5, 2.0, 300), 3)
    assert repeat_notes(Tally.from_arrays(np.tile(scores, 3), np.tile(y, 3), weights))
    assert repeat_notes(Tally.from_arrays(scores, y, np.full(300, 3), weight_type="frequency"))


def test_a_grid_joins_scores_and_says_nothing():
    scores, y = draw()
    assert not repeat_notes(Tally.from_arrays(np.tile(scores, 3), np.tile(y, 3), grid=Grid()))


def test_many_rows_are_looked_at_by_score(monkeypatch):
    monkeypatch.setattr(repeats, "MAX_ROWS", 500)
    scores, y = draw(1_500)
    assert repeat_notes_of_rows(check_rows(np.tile(scores, 3), np.tile(y, 3)))
    assert not repeat_notes_of_rows(check_rows(*draw(4_500)))


def test_the_note_reaches_every_result():
    scores, y = draw(120)
    s, labels, groups = np.tile(scores, 10), np.tile(y, 10), np.tile(np.arange(120), 10)
    half = np.tile(np.arange(120) % 2, 10)
    for results, expected in (
        ([cb.check(s, labels), cb.check(Tally.from_arrays(s, labels)), cb.compare(s, s**2, labels).old], 1),
        ([cb.check(s, labels, groups=groups), cb.compare(s, s**2, labels, groups=groups).old], 0),
        ([cb.check(s, labels, calibration=cb.HistogramBinning(n_bins=2).fit(*draw(seed=3)))], 1),
    ):
        assert [len(repeated(result.notes)) for result in results] == [expected] * len(results)
    fitted = [
        cb.calibrate(s, labels),
        cb.HistogramBinning(n_bins=3).fit(s, labels),
        cb.calibrate(s, labels, by=half),
    ]
    assert [len(repeated(cal.notes_)) for cal in fitted] == [1, 1, 1]
    assert not repeated(cb.calibrate(s, labels, groups=groups).notes_)
    assert "the rows look repeated" in str(fitted[0])
    assert "the rows look repeated" in str(cb.compare(s, s**2, labels))
    assert "the rows look repeated" in cb.report(s, labels).to_markdown()
