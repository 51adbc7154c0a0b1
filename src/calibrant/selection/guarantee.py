"""Bins within a given distance of their true rates, with alpha divided among the numbers of bins that are tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calibrant.fits.bins import OWN_ROWS_SOURCE, ROUNDING, counted, mass_edges, own_row_bins
from calibrant.fits.prior_correction import restored
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.origins import Assumption, BinRule
from calibrant.guarantees.planning import MOST_LABELS
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

FEWEST_BINS_SHARE = 0.25
"""Share of a look's alpha that the smallest number of bins gets: the last resort before there is no guarantee."""


def look_share(look: int) -> float:
    """Share of alpha that a look may spend; the shares of all looks add up to 1.

    Examples
    --------
    >>> [round(look_share(look), 3) for look in (1, 2, 3)]
    [0.8, 0.1, 0.05]
    """
    return FIRST_LOOK_SHARE if look == 1 else (1.0 - FIRST_LOOK_SHARE) * 0.5 ** (look - 1)


@dataclass(frozen=True)
class Guarantee:
    r"""Bins within ``epsilon`` of their true rates with confidence 1 - ``alpha``, requested for the ``look``-th time.

    Each number of bins that is tried spends its share of alpha: the smallest number a quarter of it, the others equal
    shares of the rest. So the intervals of all of them hold simultaneously, and any may be chosen, by any rule and on
    the same rows. Which numbers are tried, and their shares, depends only on the number of rows.
    """

    epsilon: float
    alpha: float
    look: int = 1
    odds: float = 1.0
    """Weight of an event relative to a negative row, where rows were sampled by class."""

    def tried(self, rows: int) -> tuple[int, ...]:
        """Numbers of bins that could be within epsilon of a rate of 0 or 1, the rates with the shortest intervals."""
        return tuple(count for count in BIN_COUNTS if 2 * count <= rows and self._shortest(rows // count, count))

    def _shortest(self, rows: int, count: int) -> bool:
        widths = _half_widths(np.array([0.0, 1.0]), np.full(2, float(rows)), self.alpha / count, self.odds)
        return float(widths.min()) <= self.epsilon

    def shares(self, rows: int) -> dict[int, float]:
        """Share of alpha by number of bins that is tried."""
        fewest, *others = self.tried(rows) or BIN_COUNTS[:1]
        first = FEWEST_BINS_SHARE if others else 1.0
        parts = {fewest: first} | {count: (1.0 - first) / len(others) for count in others}
        return {count: look_share(self.look) * part for count, part in parts.items()}

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
    InputError
        If no number of bins is within epsilon, so that a requested guarantee is never silently missing. The message
        says about how many labels are needed, and that asking again is a second look.
    """
    made = {count: _bins(count, guarantee, tally) for count in guarantee.tried(_rows(tally))}
    if not any(guarantee.holds(bins) for bins in made.values()):
        raise _missing(tally, guarantee)
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
        else counted(tally, mass_edges(tally, count, np.inf), BinRule.WEIGHTS, OWN_ROWS_SOURCE)
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


def _missing(tally: Tally, guarantee: Guarantee) -> InputError:
    """The error if no number of bins is within epsilon.

    Rows double from look to look, so the rows of each look are fixed in advance, whatever the labels.
    """
    total, rate = int(tally.total), (float(tally.positives) + 0.5) / (float(tally.total) + 1.0)
    needed = guarantee
    while True:
        total, needed = 2 * max(total, 1), replace(needed, look=needed.look + 1)
        if _two_bins(total, rate, needed) <= guarantee.epsilon or total >= MOST_LABELS:
            break
    return InputError(
        Setting("guarantee", (guarantee.epsilon, guarantee.alpha)),
        f"cannot be met with {count_text(tally.total)} labels: even two bins are not within {guarantee.epsilon:g}",
        Phrase(
            f"allow a larger epsilon, or try again at {total:,} labels with {{look}} (labels double from look to look, "
            "and every look spends a share of alpha)",
            look=Setting("look", needed.look),
        ),
    )


def _two_bins(total: int, rate: float, guarantee: Guarantee) -> float:
    rows = np.array([max(np.floor(total / 2), 1.0)])
    return float(
        _half_widths(
            np.array([rate]), rows, guarantee.alpha * guarantee.shares(total)[BIN_COUNTS[0]] / 2, guarantee.odds
        )[0]
    )
