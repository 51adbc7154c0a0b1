"""Which calibrator, honestly: cross-fitted losses of candidates, a rule that prefers the simple, and nested numbers.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from calibrant.arrays import Kind
from calibrant.calibrators.crossing import Crossed
from calibrant.calibrators.folds import Folds
from calibrant.calibrators.losses import MIN_MINORITY_ROWS, NAMES, Loss, Losses
from calibrant.calibrators.tables import averaged
from calibrant.maps import Map
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import Floats
from calibrant.tallies import Tally, end_notes

CERTAINTY, IMMATERIAL = 2.0, {"log": 5e-4, "brier": 1e-4}
"""Standard errors within which a difference must be immaterial for the simpler candidate to be taken, and a mean loss
that nobody would notice."""

PARSIMONY = 0.5
"""Standard errors by which a candidate may be worse than the best and be taken for being simpler, without a blend."""

TOO_FEW = f"no interval: fewer than {MIN_MINORITY_ROWS} rows of the minority class"
"""Note of an estimate."""

NEGLIGIBLE = 0.02
"""A map with a smaller weight is left out of a blend."""


class Facts(NamedTuple):
    """What decides what is tried: kind of the scores, rows, and rows of the rarer class (or what weights are worth)."""

    kind: Kind
    rows: float
    rarer: float

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """The facts about a tally."""
        total, events = float(tally.total), float(tally.positives)
        return cls(tally.kind, total, min(events, total - events))


@dataclass(frozen=True)
class Candidate:
    """A method that may be chosen: its fit, and from how many rows, and rows of the rarer class, on it is tried."""

    name: str
    fit: Callable[[Tally], Map]
    least: float = 0.0
    rows: float = 0.0
    kinds: tuple[Kind, ...] = ("probability", "logit", "real")
    when: Callable[[Tally], str] | None = None
    """Why it must not be chosen on these rows, beyond their number; empty when it may be."""

    def why_not(self, tally: Tally) -> str:
        """Why it is not tried; empty when it is."""
        facts = Facts.of(tally)
        if facts.kind not in self.kinds:
            return f"not for {facts.kind} scores"
        if facts.rows < self.rows:
            return f"from {self.rows:,.6g} rows on"
        if facts.rarer < self.least:
            return f"from {self.least:,.6g} rows of the rarer class on"
        return "" if self.when is None else self.when(tally)


# ----------------------------------------------------------------------------------------------------------- the choice


@dataclass(frozen=True)
class Compared:
    """One line of a comparison: a candidate, its cross-fitted mean loss, and what became of it."""

    name: str
    loss: float
    change: float
    """Its loss less that of keeping the model."""
    low: float
    high: float
    """Ends of a 95 % interval of the change; of several candidates the best looks better than it is."""
    outcome: str
    chosen: bool = False


@dataclass(frozen=True)
class Comparison:
    """What was compared, on rows that the maps had not seen; prints as a table.

    The choice was made by these losses, so the one of the chosen candidate is a little flattering:
    ``AutoCalibrator.after_`` is not.
    """

    loss: Loss
    reference: str
    lines: tuple[Compared, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """How scores of exactly 0 and 1 were read, where there are any."""

    @property
    def choice(self) -> str:
        """Name of the chosen candidate."""
        return next(line.name for line in self.lines if line.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that do not exist are None."""
        lines = [
            {key: None if isinstance(value, float) and np.isnan(value) else value for key, value in vars(line).items()}
            for line in self.lines
        ]
        return {"loss": self.loss, "reference": self.reference, "candidates": lines, "notes": list(self.notes)}

    def __str__(self) -> str:
        """A table, one line per candidate, the simplest first, and the rule."""
        width = max(len("candidate"), *(len(line.name) for line in self.lines))
        against = f"against {self.reference} (95 % interval)"
        head = f"{'candidate':<{width}}  {NAMES[self.loss]:>11}  {against:<33}  beside the chosen"
        notes = [f"Note: {note}." for note in self.notes]
        return "\n".join([head, *(_text(line, width) for line in self.lines), self.rule, *notes])

    @property
    def rule(self) -> str:
        """How the choice was made, in a sentence."""
        if any(line.name == Blend.name and np.isfinite(line.loss) for line in self.lines):
            return (
                f"Taken is the blend, unless {self.reference} does as well, or a simpler candidate is worse by no more "
                f"than {IMMATERIAL[self.loss]:g} for certain (two standard errors)."
            )
        return "Taken is the first within half a standard error of the least loss."


def _text(line: Compared, width: int) -> str:
    if np.isnan(line.loss):
        told = line.outcome if line.chosen else f"not tried alone: {line.outcome}"
        return f"{line.name:<{width}}  {'-':>11}  {told}"
    change = "" if np.isnan(line.change) else f"{line.change:+.5f} ({line.low:+.5f} to {line.high:+.5f})"
    return f"{line.name:<{width}}  {line.loss:>11.5f}  {change:<33}  {line.outcome}".rstrip()


@dataclass(frozen=True)
class Blend:
    """The average of several candidates, weighted by how they do on rows that they have not seen."""

    parts: tuple[Candidate, ...]
    least: float = 0.0
    """Rows of the rarer class from which on it is tried."""
    name: str = "blend"

    def why_not(self, tally: Tally) -> str:
        """Why it is not tried; empty when it is."""
        return f"from {self.least:,.6g} rows of the rarer class on" if Facts.of(tally).rarer < self.least else ""


@dataclass(frozen=True)
class Selection:
    """The chosen candidate, its fit, what it was compared with, and nested numbers of the whole procedure."""

    chosen: Candidate | Blend
    weights: dict[str, float]
    """Of a blend, by the name of the candidate; empty for a single map."""
    comparison: Comparison
    before: Estimate
    after: Estimate
    change: Estimate

    def fit(self, tally: Tally) -> Map:
        """The chosen map, fitted to these rows."""
        if isinstance(self.chosen, Candidate):
            return self.chosen.fit(tally)
        parts = [each for each in self.chosen.parts if each.name in self.weights]
        maps = [each.fit(tally) for each in parts]
        return averaged(maps, np.array([self.weights[each.name] for each in parts]), tally)


def select(
    folds: Folds,
    candidates: Sequence[Candidate],
    whole: Tally,
    loss: Loss,
    *,
    keep: Candidate | None = None,
    blend: Blend | None = None,
) -> Selection:
    r"""The blend, unless something simpler is surely as good or the model itself does better; and what that is worth.

    With :math:`L_c` the mean loss of candidate c on rows that its maps had not seen, :math:`s_{c,d}` the standard error
    of :math:`L_c - L_d` from paired rows, and d the blend:

    - the first candidate, which is to keep the model, if :math:`L_{first} \le L_d`;
    - else the first c, simplest first, with :math:`L_c - L_d + 2 s_{c,d} \le` 0.0005 nats (0.0001 of a Brier score);
    - else d.

    Without a blend d is the candidate of least loss, and the first c with :math:`L_c - L_d \le s_{c,d} / 2` is taken.

    ``candidates`` come simplest first; ``blend`` is the average of some of them. ``keep`` is what they are compared
    with, the first of them by default; given, it cannot be chosen. ``before``, ``after`` and ``change`` are nested: in
    each part of the rows the loss of what the same rule chooses on, weighs by, and fits to, the other parts (or those
    before it), each candidate tried where its ladder admits it. Without two parts that can be compared the first
    candidate is taken.

    Notes
    -----
    Choosing one map by its cross-fitted loss is mostly luck with few rows; an average is not. On 385 real cases the
    blend is nearer to the best map of each case than the choice by least loss, twice as near up to 1,000 rows
    (``docs/decisions/0010-calibrate.md``).
    Guarantee: none in finite samples; the nested loss is that of the procedure on (K - 1) / K of the rows.
    Cost: fits to K (K - 1) / 2 + K parts of the rows per candidate; K - 1 when walking forward.
    """
    runs: tuple[Candidate | Blend, ...] = (*candidates, *([] if blend is None else [blend]))
    runs = runs if keep is None else (keep, *runs)
    reasons = {each.name: each.why_not(whole) for each in runs}
    tried = [each for each in runs if not reasons[each.name]]
    first = 0 if keep is None or tried[0] is not keep else 1
    blended = blend if blend in tried else None
    singles = [each for each in tried if isinstance(each, Candidate)]
    crossed = Crossed(folds, *_fits(singles, blended), loss)
    flat = crossed.flat()
    place = {each.name: column for column, each in enumerate(tried)}
    last = None if blended is None else place[blended.name]
    best = first if flat is None else choose(flat, range(first, len(tried)), loss, last)
    lines = tuple(compared(each.name, flat, place.get(each.name), best, reasons[each.name]) for each in runs)
    read = end_notes(whole)
    unseen = crossed.nested(lambda seen, losses: _choice(tried, first, seen, losses, loss, last))
    nested = estimates(unseen, loss, gap(flat, unseen, best), read)
    chosen = tried[best]
    weights = _kept_weights(chosen, crossed.weights) if isinstance(chosen, Blend) else {}
    return Selection(chosen, weights, Comparison(loss, tried[0].name, lines, notes=read), *nested)


def _fits(
    singles: Sequence[Candidate], blend: Blend | None
) -> tuple[list[Callable[[Tally], Map]], int, list[int] | None]:
    """What is fitted, how many of the first are candidates, and which are parts of the blend; each is fitted once."""
    if blend is None:
        return [each.fit for each in singles], len(singles), None
    every = [*singles, *(each for each in blend.parts if each not in singles)]
    return [each.fit for each in every], len(singles), [every.index(each) for each in blend.parts]


def _choice(
    tried: Sequence[Candidate | Blend], first: int, seen: Tally, losses: Losses, loss: Loss, blend: int | None
) -> int:
    """What the rule chooses on fewer rows, where fewer candidates may be admitted."""
    columns = [column for column, each in enumerate(tried) if column >= first and not each.why_not(seen)] or [first]
    return choose(losses, columns, loss, blend)


def choose(losses: Losses, columns: Sequence[int], loss: Loss, blend: int | None = None) -> int:
    """The rule of :func:`select` among some columns; ``blend`` is the blend's, if it was tried."""
    if blend is None or blend not in columns:
        best = min(columns, key=lambda column: losses.means[column])
        return next(column for column in columns if _within(PARSIMONY, losses.difference(column, best)))
    for column in columns:
        worse, spread = losses.difference(column, blend)
        if worse + CERTAINTY * spread <= IMMATERIAL[loss] or (column == 0 and worse <= 0.0):
            return column
    return blend


def _within(errors: float, difference: tuple[float, float]) -> bool:
    return difference[0] <= errors * difference[1]


def _kept_weights(blend: Blend, weights: Floats) -> dict[str, float]:
    shares = np.where(weights >= NEGLIGIBLE, weights, 0.0)
    shares = shares / shares.sum()
    return {each.name: float(share) for each, share in zip(blend.parts, shares, strict=True) if share > 0.0}


def compared(name: str, flat: Losses | None, column: int | None, best: int, why_not: str) -> Compared:
    """One line of a comparison; ``column`` is the candidate's among the losses, None where it was not tried."""
    nan = float("nan")
    if column is None or flat is None:
        outcome = why_not or ("chosen: there is nothing to compare" if column == best else "nothing to compare")
        return Compared(name, nan, nan, nan, nan, outcome, column == best)
    change, spread = flat.difference(column, 0)
    ends = (change, change - flat.reach * spread, change + flat.reach * spread) if column else (nan, nan, nan)
    return Compared(name, float(flat.means[column]), *ends, _outcome(flat, column, best), column == best)


def _outcome(flat: Losses, column: int, best: int) -> str:
    if column == best:
        return "chosen"
    worse, spread = flat.difference(column, best)
    if abs(worse) > CERTAINTY * spread:
        return "worse" if worse > 0.0 else "better"
    return "not told apart"


def gap(flat: Losses | None, nested: Losses | None, best: int) -> float:
    """How much more the choice made on all rows changes the loss of unseen rows than those made without each part."""
    return 0.0 if flat is None or nested is None else flat.difference(best, 0)[0] - nested.difference(1, 0)[0]


def estimates(
    nested: Losses | None, loss: Loss, gap: float = 0.0, notes: tuple[str, ...] = ()
) -> tuple[Estimate, Estimate, Estimate]:
    """Losses before and after, and the change; of two columns, the reference and what was chosen.

    Intervals are those of :meth:`Losses.interval`, for the map in use on new rows. They are left out, with a note, for
    fewer than ten rows of the minority class.
    """
    name = NAMES[loss]
    if nested is None:
        reason = ("too few parts of the rows to fit to some and judge on others",)
        unknown = [Estimate(f"{name} {when}", float("nan"), notes=reason) for when in ("before", "after", "change")]
        return unknown[0], unknown[1], unknown[2]
    made = []
    for when, weights in (("before", [1.0, 0.0]), ("after", [0.0, 1.0]), ("change", [-1.0, 1.0])):
        value, se, low, high = nested.interval(np.array(weights), loss, gap if weights[1] else 0.0)
        if nested.minority < MIN_MINORITY_ROWS:
            made.append(Estimate(f"{name}, {when}", value, se, notes=(TOO_FEW, *notes)))
        else:
            made.append(Estimate(f"{name}, {when}", value, se, low, high, notes=notes))
    return made[0], made[1], made[2]
