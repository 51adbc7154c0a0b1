"""Which calibrator, honestly: cross-fitted losses of candidates, a rule that prefers the simple, and nested numbers.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from calibrant.arrays import Kind
from calibrant.calibrators.folds import Folds
from calibrant.maps import Map
from calibrant.metrics.estimates import TWO_SIDED, Estimate
from calibrant.numerics import CLAMP, Floats
from calibrant.tallies import Tally

Loss = Literal["log", "brier"]

NAMES: dict[Loss, str] = {"log": "log loss", "brier": "Brier score"}

PARSIMONY, DOUBT = 0.5, 0.75
"""Standard errors of the paired difference by which a candidate may be worse than the best and still be taken for being
simpler; and the same for the first one, which is to keep the model."""


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
    below: float = float("inf")
    """Rows of the rarer class from which on it is tried no more."""
    rows: float = 0.0
    kinds: tuple[Kind, ...] = ("probability", "logit", "real")

    def why_not(self, facts: Facts) -> str:
        """Why it is not tried; empty when it is."""
        if facts.kind not in self.kinds:
            return f"not for {facts.kind} scores"
        if facts.rows < self.rows:
            return f"from {self.rows:,.6g} rows on"
        if facts.rarer < self.least:
            return f"from {self.least:,.6g} rows of the rarer class on"
        return f"below {self.below:,.6g} rows of the rarer class" if facts.rarer >= self.below else ""


# ----------------------------------------------------------------------------------------------------------- the losses


@dataclass(frozen=True, eq=False)
class Losses:
    """Summed losses of several candidates on the same rows, with what standard errors of differences need."""

    total: float
    size: float
    """Rows, or what weights are worth."""
    sums: Floats
    products: Floats
    clusters: Floats
    """By cluster bucket: rows, then each candidate's summed loss; no line without clusters."""

    @classmethod
    def of(cls, part: Tally, buckets: Sequence[Tally], maps: Sequence[Map], loss: Loss) -> Losses:
        """Losses on one part of the rows."""
        outputs = np.array([np.asarray(each.apply(part.scores), dtype=np.float64) for each in maps])
        by_label = _row_losses(outputs, loss)
        n, events = part.n.astype(np.float64), part.events.astype(np.float64)
        sums, products = np.zeros(len(maps)), np.zeros((len(maps), len(maps)))
        for weight, rows in zip((events, n - events), by_label, strict=True):
            weighted = rows * weight
            sums += weighted.sum(axis=1)
            products += np.einsum("jc,kc->jk", weighted, rows)
        lines = [_bucket_sums(part, bucket, by_label) for bucket in buckets]
        clusters = np.array(lines) if lines else np.zeros((0, 1 + len(maps)))
        return cls(float(n.sum()), part.effective_size, sums, products, clusters)

    def __add__(self, other: Losses) -> Losses:
        """Losses on both sets of rows."""
        return Losses(
            self.total + other.total,
            self.size + other.size,
            self.sums + other.sums,
            self.products + other.products,
            np.concatenate([self.clusters, other.clusters]),
        )

    def only(self, columns: Sequence[int]) -> Losses:
        """The same of some candidates."""
        index = np.asarray(columns, dtype=np.intp)
        clusters = self.clusters[:, np.append(0, index + 1)]
        return Losses(self.total, self.size, self.sums[index], self.products[np.ix_(index, index)], clusters)

    @property
    def means(self) -> Floats:
        """Mean loss by candidate."""
        return self.sums / self.total

    def spread(self, weights: Floats) -> float:
        """Standard error of a combination of the mean losses, from rows or, where there are any, from clusters."""
        mean = float((weights * self.means).sum())
        if len(self.clusters):
            excess = (self.clusters[:, 1:] * weights).sum(axis=1) - mean * self.clusters[:, 0]
            count = len(excess)
            return float(np.sqrt((excess**2).sum() * count / max(count - 1, 1))) / self.total
        square = float((weights[:, None] * weights * self.products).sum()) / self.total
        return float(np.sqrt(max(square - mean**2, 0.0) / self.size))

    def difference(self, one: int, other: int) -> tuple[float, float]:
        """How much greater the mean loss of ``one`` is, and the standard error of that."""
        weights = np.zeros(len(self.sums))
        weights[one] += 1.0
        weights[other] -= 1.0
        return float(self.means[one] - self.means[other]), self.spread(weights)


def _row_losses(outputs: Floats, loss: Loss) -> tuple[Floats, Floats]:
    """Loss of an event and of a non-event at each output; 0 and 1 count as the log-odds clamp."""
    if loss == "brier":
        return (1.0 - outputs) ** 2, outputs**2
    held = np.clip(outputs, CLAMP, 1.0 - CLAMP)
    return -np.log(held), -np.log1p(-held)


def _bucket_sums(part: Tally, bucket: Tally, by_label: tuple[Floats, Floats]) -> Floats:
    place = np.searchsorted(part.cells.keys, bucket.cells.keys)
    events, others = bucket.events.astype(np.float64), (bucket.n - bucket.events).astype(np.float64)
    sums = (by_label[0][:, place] * events).sum(axis=1) + (by_label[1][:, place] * others).sum(axis=1)
    return np.append(float(bucket.total), sums)


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
        return {"loss": self.loss, "reference": self.reference, "candidates": lines}

    def __str__(self) -> str:
        """A table, one line per candidate, the simplest first."""
        width = max(len(line.name) for line in self.lines)
        head = f"{'candidate':<{max(width, 9)}}  {NAMES[self.loss]:>11}  against {self.reference} (95 % interval)"
        return "\n".join([head, *(_text(line, max(width, 9)) for line in self.lines)])


def _text(line: Compared, width: int) -> str:
    if np.isnan(line.loss):
        told = line.outcome if line.chosen else f"not tried: {line.outcome}"
        return f"{line.name:<{width}}  {'-':>11}  {told}"
    change = "" if np.isnan(line.change) else f"{line.change:+.5f} ({line.low:+.5f} to {line.high:+.5f})"
    return f"{line.name:<{width}}  {line.loss:>11.5f}  {change:<33}  {line.outcome}".rstrip()


@dataclass(frozen=True)
class Selection:
    """The chosen candidate, what it was compared with, and nested numbers of the whole procedure."""

    chosen: Candidate
    comparison: Comparison
    before: Estimate
    after: Estimate
    change: Estimate


def select(
    folds: Folds, candidates: Sequence[Candidate], whole: Tally, loss: Loss, *, keep: Candidate | None = None
) -> Selection:
    r"""The simplest candidate whose cross-fitted loss is as good as the best one's, and what that procedure is worth.

    With :math:`L_c` the mean loss of candidate c on rows that its maps had not seen, and :math:`s_{c,d}` the standard
    error of :math:`L_c - L_d` from paired rows, the first c, in order of complexity, with

    .. math:: L_c - L_{best} \le \kappa\, s_{c, best}, \qquad \kappa = 0.5,

    and :math:`\kappa = 0.75` for the first candidate, which is to keep the model.

    ``candidates`` come simplest first. ``keep`` is what they are compared with, the first of them by default; given,
    it cannot be chosen. ``before``, ``after`` and ``change`` are nested: in each part of the rows the loss of what the
    same rule chooses on, and fits to, the other parts (or those before it), each candidate tried where its ladder
    admits it. Without two parts that can be compared the first candidate is taken.

    Notes
    -----
    Guarantee: none in finite samples; the nested loss is that of the procedure on (K - 1) / K of the rows.
    Cost: fits to K (K - 1) / 2 + K parts of the rows per candidate; K - 1 when walking forward.
    """
    runs = tuple(candidates) if keep is None else (keep, *candidates)
    facts = Facts.of(whole)
    tried = [each for each in runs if not each.why_not(facts)]
    first = 0 if keep is None or tried[0] is not keep else 1
    crossed = _Crossed(folds, tried, loss)
    flat = crossed.flat()
    best = first if flat is None else choose(flat, range(first, len(tried)))
    place = {each.name: column for column, each in enumerate(tried)}
    lines = tuple(_line(each, flat, place.get(each.name), best, each.why_not(facts)) for each in runs)
    nested = _estimates(crossed.nested(first), loss)
    return Selection(tried[best], Comparison(loss, tried[0].name, lines), *nested)


def choose(losses: Losses, columns: Sequence[int]) -> int:
    """The first column whose mean loss is within so many standard errors of the least."""
    best = min(columns, key=lambda column: losses.means[column])
    for column in columns:
        worse, spread = losses.difference(column, best)
        if worse <= (PARSIMONY if column else DOUBT) * spread:
            return column
    return best


class _Crossed:
    """Losses of every candidate on every part, by what is fitted without it, and without it and one other part."""

    def __init__(self, folds: Folds, candidates: Sequence[Candidate], loss: Loss) -> None:
        self.folds, self.candidates, self.loss = folds, candidates, loss
        parts = range(len(folds.parts))
        self.seen = [self._train(self._without(k)) for k in parts]
        """What is fitted to when each part is left out; None where there is nothing."""
        self.outer = [self._judge(seen, k) for k, seen in enumerate(self.seen)]

    def flat(self) -> Losses | None:
        """Over all parts that could be judged."""
        return _total(self.outer)

    def nested(self, first: int) -> Losses | None:
        """First column: the reference. Second: whatever was chosen, from column ``first`` on, without the part."""
        made = []
        for outer, seen, losses in zip(self.outer, self.seen, self._inner(), strict=True):
            if outer is not None and seen is not None:
                facts = Facts.of(seen)
                tried = [not each.why_not(facts) for each in self.candidates]
                columns = [column for column in range(first, len(tried)) if tried[column]] or [first]
                chosen = columns[0] if losses is None else choose(losses, columns)
                made.append(outer.only([0, chosen]))
        return _total(made)

    def _inner(self) -> list[Losses | None]:
        """For each part, losses on the other parts by fits that saw neither."""
        count = len(self.folds.parts)
        if self.folds.forward:  # the past of a part was judged by its own past already
            return [_total(self.outer[:k]) for k in range(count)]
        found: list[list[Losses | None]] = [[] for _ in range(count)]
        for one, other in combinations(range(count), 2):
            seen = self._train(self._without(one, other))
            if seen is not None:
                maps = self._maps(seen)
                found[one].append(self._losses(maps, other))
                found[other].append(self._losses(maps, one))
        return [_total(each) for each in found]

    def _without(self, *left_out: int) -> list[Tally]:
        parts = self.folds.parts
        if self.folds.forward:
            return list(parts[: left_out[0]])
        return [part for place, part in enumerate(parts) if place not in left_out]

    def _train(self, parts: list[Tally]) -> Tally | None:
        return reduce(Tally.__add__, parts).for_fitting() if parts else None

    def _judge(self, seen: Tally | None, part: int) -> Losses | None:
        return None if seen is None else self._losses(self._maps(seen), part)

    def _maps(self, seen: Tally) -> list[Map]:
        return [candidate.fit(seen) for candidate in self.candidates]

    def _losses(self, maps: Sequence[Map], part: int) -> Losses:
        buckets = self.folds.clusters[part] if self.folds.clusters else ()
        return Losses.of(self.folds.parts[part], buckets, maps, self.loss)


def _total(losses: Sequence[Losses | None]) -> Losses | None:
    known = [each for each in losses if each is not None]
    return reduce(Losses.__add__, known) if known else None


def _line(candidate: Candidate, flat: Losses | None, column: int | None, best: int, why_not: str) -> Compared:
    nan = float("nan")
    if column is None or flat is None:
        outcome = why_not or ("chosen: there is nothing to compare" if column == best else "nothing to compare")
        return Compared(candidate.name, nan, nan, nan, nan, outcome, column == best)
    change, spread = flat.difference(column, 0)
    ends = (change, change - TWO_SIDED * spread, change + TWO_SIDED * spread) if column else (nan, nan, nan)
    return Compared(candidate.name, float(flat.means[column]), *ends, _outcome(flat, column, best), column == best)


def _outcome(flat: Losses, column: int, best: int) -> str:
    if column == best:
        return "chosen"
    if column < best:
        return "worse"
    return "better, but by no more than chance" if flat.means[column] < flat.means[best] else "no better"


def _estimates(nested: Losses | None, loss: Loss) -> tuple[Estimate, Estimate, Estimate]:
    name = NAMES[loss]
    if nested is None:
        reason = ("too few parts of the rows to fit to some and judge on others",)
        unknown = [Estimate(f"{name} {when}", float("nan"), notes=reason) for when in ("before", "after", "change")]
        return unknown[0], unknown[1], unknown[2]
    made = []
    for when, weights in (("before", [1.0, 0.0]), ("after", [0.0, 1.0]), ("change", [-1.0, 1.0])):
        value = float((np.array(weights) * nested.means).sum())
        se = nested.spread(np.array(weights))
        ends = value - TWO_SIDED * se, value + TWO_SIDED * se
        made.append(Estimate(f"{name}, {when}", value, se, *ends))
    return made[0], made[1], made[2]
