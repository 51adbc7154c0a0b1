"""Scores of exactly 0 or 1: the notes on how log-odds read them, and the ends that ``clamp=`` sets."""

from __future__ import annotations

from numbers import Real

from calibrant.arrays import Rows, ScoreType
from calibrant.messages import InputError, Note, Voice, count_text, note, plural
from calibrant.numerics import LEAST_LOW, Ends
from calibrant.tallies.tally import Tally

NO_INTERIOR = "every score is exactly 0 or 1, so log-odds are not defined"


@note("scores-clipped")
def scores_clipped(voice: Voice, moved: float, low: float, high: float, counts: bool) -> str:
    """Scores that log-odds read as ``low`` or ``high``; ``moved`` is their number, or their weight."""
    return f"{_are(voice, moved, counts)} clipped to [{end_text(low)}, {end_text(high)}] in log-odds"


@note("scores-at-ends")
def scores_at_ends(voice: Voice, zeros: float, ones: float, low: float, high: float, counts: bool) -> str:
    """Scores of exactly 0 and 1, which log-odds read as ``low`` and ``high``; their numbers, or their weights."""
    found = [(end, rows, at) for end, rows, at in ((0, zeros, low), (1, ones, high)) if rows]
    read = [f"{_are(voice, rows, counts, f' of exactly {end}')} read as {end_text(at)}" for end, rows, at in found]
    where = f"from {found[0][0]}" if len(found) == 1 else "from 0 and 1"
    return f"{' and '.join(read)} in log-odds, half as far {where} as the nearest other {voice.nouns.score}"


def end_notes(tally: Tally) -> tuple[Note, ...]:
    """A note on how scores of exactly 0 and 1 are read in log-odds; empty if there are no such scores.

    With ends that move other scores too, such as those of ``clamp=``, the note counts all scores that are moved.

    Examples
    --------
    >>> from calibrant.numerics import Ends
    >>> tally = Tally.from_arrays([0.5, 0.8, 0.95, 1.0, 1.0], [0, 1, 1, 0, 1])
    >>> print(*end_notes(tally))
    2 scores of exactly 1 are read as 0.975 in log-odds, half as far from 1 as the nearest other score
    >>> print(*end_notes(tally.with_ends(Ends.at(0.1))))
    3 scores are clipped to [0.1, 0.9] in log-odds
    """
    if tally.score_type != "probability" or not tally.has_interior:  # real scores of 0 and 1 are like any other
        return ()
    ends = tally.ends
    if ends != tally.own_ends:
        moved = sum(float(n[(scores < ends.low) | (scores > ends.high)].sum()) for scores, n, _ in tally.pieces())
        return (scores_clipped(moved, ends.low, ends.high, tally.counts),) if moved else ()
    zeros, ones = map(float, tally.on_ends())
    return (scores_at_ends(zeros, ones, ends.low, ends.high, tally.counts),) if zeros or ones else ()


def ends_of_rows(rows: Rows) -> Ends:
    """How log-odds read scores of exactly 0 and 1 among these rows."""
    return Ends.of(rows.scores) if rows.score_type == "probability" else Ends()


def ends_at(clamp: object, score_type: ScoreType = "probability") -> Ends:
    """The ends that ``clamp=`` sets; it must be a number below 1/2, and scores must be probabilities."""
    if isinstance(clamp, bool) or not isinstance(clamp, Real) or not LEAST_LOW <= float(clamp) < 0.5:
        raise InputError("clamp", f"must be a number between 1e-300 and 0.5, or None, got {clamp!r}")
    if score_type != "probability":
        raise InputError("clamp", f"is for probabilities, not {score_type} scores", "leave it out")
    return Ends.at(float(clamp))


def clipped(ends: Ends | None, what: str = "scores") -> str:
    """What follows the name of a log loss that is infinite without the clip; nothing without one.

    Examples
    --------
    >>> f"Log loss{clipped(Ends(0.05, 0.975))}"
    'Log loss, scores clipped to [0.05, 0.975],'
    """
    return "" if ends is None else f", {what} clipped to [{end_text(ends.low)}, {end_text(ends.high)}],"


def end_text(p: float) -> str:
    """A probability near 0 or 1, with the digits that matter.

    Examples
    --------
    >>> [end_text(p) for p in (0.005, 0.975, 1 - 2.0**-32, 1e-20)]
    ['0.005', '0.975', '1 - 2.33e-10', '1e-20']
    """
    return f"{p:.4g}" if p < 0.999 else f"1 - {1.0 - p:.3g}"


def _are(voice: Voice, rows: float, counts: bool, which: str = "") -> str:
    """A number of scores as the subject of a sentence, with its verb."""
    if not counts:
        return f"{voice.nouns.scores}{which} with total weight {count_text(rows)} are"
    return f"{plural(rows, voice.nouns.score, voice.nouns.scores)}{which} {'is' if rows == 1 else 'are'}"
