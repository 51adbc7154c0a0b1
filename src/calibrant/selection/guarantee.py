"""Bins within a given distance of their true rates, with alpha divided among the numbers of bins that are tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np

from calibrant.fits.bins import ROUNDING, counted, mass_edges, own_row_bins
from calibrant.fits.prior_correction import restored
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.origins import OWN_ROWS, Assumption, BinRule
from calibrant.guarantees.planning import MOST_LABELS, TooFewLabels
from calibrant.maps import Map
from calibrant.messages import InputError, Note, Phrase, Setting, count_text
from calibrant.numerics import Floats, multiply_odds
from calibrant.selection.candidates import CANDIDATES
from calibrant.selection.comparison import beyond_epsilon
from calibrant.selection.folds import Folds
from calibrant.selection.losses import Loss
from calibrant.selection.rule import Candidate, Selection, select
from calibrant.tallies import Tally

BIN_COUNTS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
"""Numbers of bins that are tried. A single bin would meet any guarantee and be useless."""

FIRST_LOOK_SHARE = 0.8
"""Share of alpha that the first look spends. Each further look spends half of what is left."""

Wish = float | tuple[float, float]
"""A guarantee that is asked for: epsilon, at 95 % confidence, or (epsilon, alpha)."""

ALPHA = 0.05
"""1 - confidence where only epsilon is given."""


CAUTION, TIED = 2.0, 0.1
"""Standard errors by which rows and rates may be unfavorable at the number of labels that a refusal names, and the
level of the interval of the share of rows in a bin of tied scores."""


def look_share(look: int) -> float:
    """Share of alpha that a look may spend; the shares of all looks add up to 1.

    Examples
    --------
    >>> [round(look_share(look), 3) for look in (1, 2, 3)]
    [0.8, 0.1, 0.05]
    """
    return FIRST_LOOK_SHARE if look == 1 else (1.0 - FIRST_LOOK_SHARE) * 0.5 ** (look - 1)


def checked_wish(wish: object) -> tuple[float, float]:
    """Epsilon and alpha of a guarantee that is asked for; anything else raises an error.

    Examples
    --------
    >>> checked_wish(0.02), checked_wish((0.02, 0.1))
    ((0.02, 0.05), (0.02, 0.1))
    """
    pair = wish if isinstance(wish, tuple | list) else (wish, ALPHA)
    numbers = len(pair) == 2 and all(isinstance(part, Real) and not isinstance(part, bool) for part in pair)
    if not numbers or not all(0.0 < part < 1.0 for part in pair):
        problem = f"must be epsilon or (epsilon, alpha), all between 0 and 1, got {wish!r}"
        example = Setting("guarantee", 0.05)
        fix = Phrase("pass {example} for bins within 5 percentage points with confidence 95 %", example=example)
        raise InputError("guarantee", problem, fix)
    return float(pair[0]), float(pair[1])


@dataclass(frozen=True)
class Guarantee:
    r"""Bins within ``epsilon`` of their true rates with confidence 1 - ``alpha``, requested for the ``look``-th time.

    Each number of bins that is tried, B, spends a share of alpha proportional to 1 / B. So the intervals of all of them
    hold simultaneously, and any may be chosen, by any rule and on the same rows. Which numbers are tried, and their
    shares, depends only on the number of rows. They do not depend on epsilon, so epsilon may also be chosen on these
    rows: after a refusal, the epsilon that it names needs no further share.
    """

    epsilon: float
    alpha: float
    look: int = 1
    odds: float = 1.0
    """Weight of an event relative to a negative row, where rows were sampled by class."""

    @property
    def setting(self) -> Setting:
        """The argument that asks for it."""
        return Setting("guarantee", self.epsilon if self.alpha == ALPHA else (self.epsilon, self.alpha))

    def tried(self, rows: int) -> tuple[int, ...]:
        """Numbers of bins that have two rows in each bin."""
        return tuple(count for count in BIN_COUNTS if 2 * count <= rows)

    def shares(self, rows: int) -> dict[int, float]:
        """Share of alpha by number of bins that is tried."""
        counts = self.tried(rows) or BIN_COUNTS[:1]
        whole = sum(1.0 / count for count in counts)
        return {count: look_share(self.look) / (count * whole) for count in counts}

    def holds(self, bins: Bins) -> bool:
        """Whether the intervals of these bins are within epsilon."""
        return self.reach(bins) <= self.epsilon

    def reach(self, bins: Bins) -> float:
        """The largest distance between an output and an end of its interval."""
        known = bins.n > 0
        if not known.any():
            return np.inf
        low, high = clopper_pearson(bins.events[known], bins.n[known], self.alpha * bins.share / int(known.sum()))
        low, high, outputs = map(bins.restored, (low, high, bins.outputs[known]))
        return float(np.maximum(outputs - low, high - outputs).max())


def guaranteed_bins(tally: Tally, guarantee: Guarantee, folds: Folds, loss: Loss) -> tuple[Selection, Bins]:
    r"""The best number of bins among those whose intervals are within epsilon, and these bins.

    All rows define and fill the bins (``docs/certificates/own-rows.md``), for each of a few numbers of bins, each at
    its share of alpha. Among those within epsilon, the cross-validated loss decides, with the fewest bins as the
    simplest candidate. The bins do not depend on a random draw, so the guarantee holds for every seed of the ``folds``.
    For rows sampled by class, the losses are those of the rows as sampled, and the intervals those of the population
    that the weights restore.

    Raises
    ------
    TooFewLabels
        If no number of bins is within epsilon, so that a requested guarantee is never silently missing. The message
        says which epsilon these rows allow, and about how many labels are needed, which is a second look.
    """
    made = {count: _bins(count, guarantee, tally) for count in guarantee.tried(_rows(tally))}
    if not any(guarantee.holds(bins) for bins in made.values()):
        raise _missing(tally, guarantee, made.values())
    candidates = [
        Candidate(f"{count} bins", partial(_fit, count, guarantee), when=partial(_holds, count, guarantee))
        for count in made
    ]
    keep = (
        None
        if tally.score_type == "real"
        else replace(CANDIDATES["identity"], fit=partial(_as_sampled, guarantee.odds))
    )
    selection = select(folds, candidates, tally, loss, keep=keep)
    count = next(count for count, each in zip(made, candidates, strict=True) if each.name == selection.chosen.name)
    return selection, made[count]


def _bins(count: int, guarantee: Guarantee, tally: Tally) -> Bins:
    made = (
        own_row_bins(tally, count)
        if tally.counts
        else counted(tally, mass_edges(tally, count, np.inf), BinRule.WEIGHTS, OWN_ROWS)
    )
    return replace(
        made,
        share=guarantee.shares(_rows(tally)).get(count, 0.0),
        look=guarantee.look,
        assumption=Assumption.FIRST_LOOK if guarantee.look == 1 else Assumption.LATER_LOOK,
        odds=guarantee.odds,
    )


def _rows(tally: Tally) -> int:
    """Number of rows, or the effective sample size of importance weights, for which no certificate is issued."""
    return int(tally.effective_size * (1.0 + ROUNDING))


def _fit(count: int, guarantee: Guarantee, tally: Tally) -> Map:
    """The bins of the rows as sampled, to which the losses refer."""
    return replace(_bins(count, guarantee, tally), odds=1.0).to_map()


def _as_sampled(odds: float, tally: Tally) -> Map:
    """The original model, which refers to the population, moved to the rows as sampled."""
    kept = CANDIDATES["identity"].fit(tally)
    return kept if odds == 1.0 else restored(kept, 1.0 / odds)


def _holds(count: int, guarantee: Guarantee, tally: Tally) -> Note | None:
    """None when this number of bins is within epsilon on these rows."""
    return None if guarantee.holds(_bins(count, guarantee, tally)) else beyond_epsilon(guarantee.epsilon)


def _half_widths(rates: Floats, rows: Floats, alpha: float, odds: float = 1.0) -> Floats:
    events = np.rint(rates * rows)
    low, high = clopper_pearson(events, rows, alpha)
    outputs = np.where((events == 0) | (events == rows), (events + 1.0) / (rows + 2.0), events / rows)
    low, high, outputs = (multiply_odds(each, odds) for each in (low, high, outputs))
    return np.maximum(outputs - low, high - outputs)


def _missing(tally: Tally, guarantee: Guarantee, made: Iterable[Bins]) -> TooFewLabels:
    """The error if no number of bins is within epsilon: the epsilon that these rows allow, and the labels needed.

    Rows double from look to look, so the rows of each look are fixed in advance, whatever the labels.
    """
    reach = min(map(guarantee.reach, made), default=1.0)
    digits = 10.0 ** (np.floor(np.log10(reach)) - 2.0)
    allowed = float(f"{np.ceil(reach / digits) * digits:.3g}")
    allowed = allowed if allowed >= reach else float(f"{allowed + digits:.3g}")
    total, later = int(tally.total), guarantee
    while True:
        total, later = 2 * max(total, 1), replace(later, look=later.look + 1)
        if _two_bins(total, later, tally) <= guarantee.epsilon or total >= MOST_LABELS:
            break
    problem = f"cannot be met with {count_text(tally.total)} labels: even two bins are not within {guarantee.epsilon:g}"
    # A value that these rows have rarely, or not at all, may later be a bin of its own, which only more rows can show.
    size = "about" if _untied(tally) else "at least"
    again = f"try again at {size} {total:,} labels with {{look}} (labels double from look to look)"
    wider = replace(guarantee, epsilon=allowed).setting if allowed < 1.0 else None
    first = "" if wider is None else "pass {wider}, the smallest that these labels allow, or "
    made_of = Phrase(first + again, wider=wider, look=Setting("look", later.look))
    error = TooFewLabels(guarantee.setting, problem, made_of)
    error.wider, error.labels, error.look = wider, total, later.look
    return error


def _untied(tally: Tally) -> bool:
    """Whether the edge between two bins is the score of one row, as it is without ties."""
    return not tally.counts or tally.total < 4 or own_row_bins(tally, BIN_COUNTS[0]).uncovered_rows == 1


def _two_bins(total: int, guarantee: Guarantee, tally: Tally) -> float:
    """A distance that two bins of ``total`` rows are likely to be within, if rates are anywhere in their intervals."""
    alpha = guarantee.alpha * guarantee.shares(total)[BIN_COUNTS[0]]
    parts, low, high = np.full(2, 0.5), np.zeros(2), np.ones(2)
    if tally.counts and tally.total >= 4:
        bins = own_row_bins(tally, BIN_COUNTS[0])
        n, events = bins.n[bins.n > 0], bins.events[bins.n > 0]
        if bins.uncovered_rows >= max(2.0, tally.total / (10 * BIN_COUNTS[0])):  # with more rows, a bin of its own
            n, events = np.append(n, bins.uncovered_rows), np.append(events, tally.positives - events.sum())
        if len(n):
            parts, (low, high) = n / tally.total, clopper_pearson(events, n, alpha / len(n))
            if not _untied(tally):  # how many rows fall into a bin is up to chance
                parts, _ = clopper_pearson(n, np.full_like(n, tally.total), TIED)
    rows = np.maximum(np.floor(parts * total - CAUTION * np.sqrt(parts * (1.0 - parts) * total)), 1.0)
    widest = np.clip(0.5, low, high)
    chance = CAUTION * np.sqrt(widest * (1.0 - widest) / rows)
    rates = np.linspace(np.maximum(low - chance, 0.0), np.minimum(high + chance, 1.0), 9)
    return float(_half_widths(rates, rows, alpha / len(parts), guarantee.odds).max())
