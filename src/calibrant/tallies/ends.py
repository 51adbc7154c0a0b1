"""How log-odds read the scores of a tally that are exactly 0 or 1: in words, and as ``clamp=`` asks for."""

from __future__ import annotations

from numbers import Real

from calibrant.arrays import InputError, Kind, Rows
from calibrant.numerics import LEAST_LOW, Ends
from calibrant.tallies.tally import Tally

NO_INTERIOR = "every score is exactly 0 or 1, so there are no log-odds"


def end_notes(tally: Tally) -> tuple[str, ...]:
    """One sentence on what scores of exactly 0 and 1 are read as; none where there are no such scores.

    With ends that move other scores too, such as those of ``clamp=``, the sentence counts all scores that move.

    Examples
    --------
    >>> from calibrant.numerics import Ends
    >>> tally = Tally.from_arrays([0.5, 0.8, 0.95, 1.0, 1.0], [0, 1, 1, 0, 1])
    >>> end_notes(tally)
    ('2 scores of exactly 1 are read as 0.975 in log-odds, half as far from 1 as the nearest other score',)
    >>> end_notes(tally.with_ends(Ends.at(0.1)))
    ('3 scores are clipped to [0.1, 0.9] in log-odds',)
    """
    if tally.kind != "probability" or not tally.has_interior:  # real scores of 0 and 1 are like any other
        return ()
    ends = tally.ends
    if ends != tally.own_ends:
        moved = sum(float(n[(scores < ends.low) | (scores > ends.high)].sum()) for scores, n, _ in tally.pieces())
        clipped = f"clipped to [{end_text(ends.low)}, {end_text(ends.high)}] in log-odds"
        return (f"{_amount(moved, tally)} {_are(moved, tally)} {clipped}",) if moved else ()
    found = [
        (f"{_amount(rows, tally)} of exactly {end}", f"{_are(rows, tally)} read as {end_text(at)}", end)
        for end, rows, at in zip((0, 1), tally.on_ends(), ends, strict=True)
        if rows
    ]
    if not found:
        return ()
    where = f"from {found[0][2]}" if len(found) == 1 else "from its end"
    read = " and ".join(f"{which} {what}" for which, what, _ in found)
    return (f"{read} in log-odds, half as far {where} as the nearest other score",)


def ends_of_rows(rows: Rows) -> Ends:
    """How log-odds read scores of exactly 0 and 1 among these rows."""
    return Ends.of(rows.scores) if rows.kind == "probability" else Ends()


def ends_at(clamp: object, kind: Kind = "probability") -> Ends:
    """The ends of a ``clamp=``, which must be a number below 1/2 and is for probabilities."""
    if isinstance(clamp, bool) or not isinstance(clamp, Real) or not LEAST_LOW <= float(clamp) < 0.5:
        raise InputError(f"clamp must be a number between 1e-300 and 0.5, or None, got {clamp!r}")
    if kind != "probability":
        raise InputError(f"clamp is for probabilities, not {kind} scores: leave it out")
    return Ends.at(float(clamp))


def end_text(p: float) -> str:
    """A probability near 0 or 1, with the digits that matter.

    Examples
    --------
    >>> [end_text(p) for p in (0.005, 0.975, 1 - 2.0**-32, 1e-20)]
    ['0.005', '0.975', '1 - 2.33e-10', '1e-20']
    """
    return f"{p:.4g}" if p < 0.999 else f"1 - {1.0 - p:.3g}"


def _amount(rows: float, tally: Tally) -> str:
    if not tally.counts:
        return f"scores that weigh {rows:,.6g}"
    return "1 score" if rows == 1 else f"{rows:,.12g} scores"


def _are(rows: float, tally: Tally) -> str:
    return "is" if tally.counts and rows == 1 else "are"
