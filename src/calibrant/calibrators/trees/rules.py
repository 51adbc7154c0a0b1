"""The leaves of a tree as rules: conditions, a probability or a curve, an interval and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.fits.trees.leaves import LeafCounts
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.provenance import Sampling
from calibrant.maps import ClassTreeMap, LogitAffineMap, TreeMap
from calibrant.maps.trees import Limit
from calibrant.messages import InputError, Phrase, Setting, Shown, count_text
from calibrant.notebook import table_block
from calibrant.numerics import Floats

SAME_ROWS = Phrase(
    "The same rows chose the splits and fill the leaves, so the intervals are too narrow: fit with {honest} for "
    "intervals that hold.",
    honest=Setting("honest", True),
)
DEPENDENT = {
    "grouped": Phrase("Rows of a group may depend on each other, so the intervals are too narrow."),
    "time-ordered": Phrase("Rows that are close in time may depend on each other, so the intervals are too narrow."),
    "out-of-fold": Phrase(
        "The scores are out-of-fold, from several models, so the intervals are not exact for one of them."
    ),
    "selected": Phrase("The map was selected among several on the same rows, so the intervals are too narrow."),
}
"""What to know about the intervals, by how the rows were sampled."""
MOST_INTERVALS = 4
"""Classes whose intervals are printed beside their probabilities; ``to_frame()`` has all."""
NO_INTERVALS = Phrase("The rows have importance weights, so there are no intervals.")


@dataclass(frozen=True)
class ClassShare:
    """One class of a leaf.

    Attributes
    ----------
    name
        The class.
    probability
        The probability of the class in the leaf; NaN if it depends on the scores.
    rate, low, high
        Observed share of the class among the leaf's rows, and its confidence interval, NaN if there is none.
    events
        Rows of the class; a sum of weights if rows have importance weights.
    before, after
        Mean probability of the class over the leaf's rows by the model, and after its map at these means; NaN for a
        leaf whose probabilities do not depend on the scores.
    """

    name: str
    probability: float
    rate: float
    low: float
    high: float
    events: float
    before: float = math.nan
    after: float = math.nan


@dataclass(frozen=True)
class Rule(Shown):
    """One leaf of a tree.

    Attributes
    ----------
    limits
        What the rule asks of each column; none if the tree is one leaf.
    probability
        The probability of the leaf; NaN if it depends on the score.
    rate, low, high
        Observed event rate of the leaf's rows, and its confidence interval, NaN if there is none.
    rows, events
        Rows and events of the leaf; sums of weights if rows have importance weights.
    slope, intercept
        The curve of the leaf on the log-odds, or on the score; NaN for a leaf of one probability.
    examples
        Pairs of a score and the probability that the leaf gives it, at a low, a middle and a high score of its rows;
        none for a leaf of one probability.
    missing
        Columns that had missing values in the fit: only for these does the text say where they belong.
    booleans
        Columns that had only true and false in the fit.
    confidence
        Confidence level of the interval.
    classes
        Of several classes, what holds for each; then the numbers above that are about events are NaN.
    """

    limits: tuple[Limit, ...]
    probability: float
    rate: float
    low: float
    high: float
    rows: float
    events: float
    slope: float
    intercept: float
    examples: tuple[tuple[float, float], ...]
    missing: frozenset[str]
    booleans: frozenset[str]
    confidence: float
    classes: tuple[ClassShare, ...] = ()

    @property
    def name(self) -> str:
        """The conditions, joined."""
        said = (limit.said(limit.column in self.missing, limit.column in self.booleans) for limit in self.limits)
        return " and ".join(said) or "all rows"

    @property
    def interval(self) -> str:
        """The interval in words; empty if there is none."""
        if math.isnan(self.low):
            return self._class_intervals()
        return f"{100 * self.confidence:g} % CI {_percent(self.low)} to {_percent(self.high)}"

    def _class_intervals(self) -> str:
        """The intervals of the classes, if there are few enough to read."""
        if not 0 < len(self.classes) <= MOST_INTERVALS or math.isnan(self.classes[0].low):
            return ""
        ends = [f"{_percent(each.low)} to {_percent(each.high)}" for each in self.classes]
        return f"{100 * self.confidence:g} % CI {', '.join(ends)}"

    @property
    def outcome(self) -> str:
        """What the leaf says, in words: its probabilities, or how it changes scores."""
        if self.classes:
            return self._of_classes()
        if not self.examples:
            return f"{_percent(self.probability)} %"
        before, after = ([_score(each) for each in side] for side in zip(*self.examples, strict=True))
        return f"{', '.join(before)} become {', '.join(after)}"

    def _of_classes(self) -> str:
        if not math.isnan(self.classes[0].probability):
            return self._listed("probability")
        return f"a mean of {self._listed('before')} becomes {self._listed('after')}"

    def _listed(self, side: str) -> str:
        return ", ".join(f"{_percent(getattr(each, side))} % {each.name}" for each in self.classes)

    def said(self, unit: str = "rows", weighted: bool = False) -> str:
        """The rule in a line, with this noun for its rows, or the sum of their importance weights."""
        between = f" ({self.interval})" if self.interval and not self.examples else ""
        if self.classes and not math.isnan(self.classes[0].before):
            between = f", observed {self._listed('rate')}{between}"
        observed = f", observed {_percent(self.rate)} %" if self.examples and self.rate == self.rate else ""
        observed += f" ({self.interval})" if self.examples and self.interval else ""
        if not (self.rows or weighted):
            between = " (no interval)"
        size = f"weight {count_text(self.rows)}" if weighted else f"{count_text(self.rows)} {unit}"
        return f"{self.name}: {self.outcome}{between}{observed}, {size}"

    def __str__(self) -> str:
        """The rule in a line."""
        return self.said()


@dataclass(frozen=True)
class Rules(Shown):
    """The leaves of a fitted tree as rules; prints one line for each.

    Leaves of one probability come in its order, the highest first; curves, and leaves of several classes, in the order
    of the tree.

    Attributes
    ----------
    rules
        The rules.
    honest
        Whether other rows chose the splits than those that are counted.
    unit
        Noun for the rows.
    sampling
        How the rows were sampled; intervals are exact for independent ones.
    weighted
        Whether rows have importance weights, so that there are no intervals.
    """

    rules: tuple[Rule, ...]
    honest: bool
    unit: str = "rows"
    sampling: Sampling = "independent"
    weighted: bool = False

    @classmethod
    def of(
        cls,
        tree: TreeMap | ClassTreeMap,
        counts: LeafCounts,
        missing: frozenset[str],
        booleans: frozenset[str],
        confidence: float,
        unit: str,
        *,
        weighted: bool,
        sampling: Sampling = "independent",
    ) -> Rules:
        """The rules of a tree, from what is in its leaves."""
        if not 0.0 < confidence < 1.0:
            raise InputError("confidence", f"must lie strictly between 0 and 1, got {confidence!r}")
        low, high = np.full(counts.events.shape, np.nan), np.full(counts.events.shape, np.nan)
        if not weighted:
            rows = counts.rows.reshape(-1, *[1] * (counts.events.ndim - 1))
            ends = BOUNDS["clopper-pearson"](
                counts.events.astype(np.int64),
                np.broadcast_to(rows, counts.events.shape).astype(np.int64),
                1 - confidence,
            )
            low, high = (np.where(rows > 0, end, np.nan) for end in ends)
        kinds = missing, booleans, confidence
        if isinstance(tree, ClassTreeMap):
            several = [_class_rule(tree, j, counts, low[j], high[j], *kinds) for j in tree.in_order]
            return cls(tuple(several), counts.chose > 0, unit, sampling, weighted)
        found = [_rule(tree, j, counts, float(low[j]), float(high[j]), *kinds) for j in tree.in_order]
        if tree.constants is not None:
            found.sort(key=lambda rule: -rule.probability)
        return cls(tuple(found), counts.chose > 0, unit, sampling, weighted)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    @property
    def notes(self) -> tuple[Phrase, ...]:
        """What to know about the intervals."""
        if self.weighted:
            return (NO_INTERVALS,)
        same = () if self.honest or len(self.rules) == 1 else (SAME_ROWS,)
        return (*same, DEPENDENT[self.sampling]) if self.sampling in DEPENDENT else same

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data, one entry for each rule; numbers that do not apply are None."""
        names = ("probability", "rate", "low", "high", "rows", "events", "slope", "intercept")
        return [
            {"rule": rule.name}
            | {name: None if math.isnan(getattr(rule, name)) else getattr(rule, name) for name in names}
            | {
                f"{name} of {each.name}": None if math.isnan(getattr(each, name)) else getattr(each, name)
                for each in rule.classes
                for name in ("probability", "rate", "low", "high", "events")
            }
            for rule in self.rules
        ]

    def to_frame(self) -> Any:
        """The rules as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()).dropna(axis=1, how="all")

    def __str__(self) -> str:
        """One line for each rule, and what to know about the intervals."""
        return "\n".join([*(rule.said(self.unit, self.weighted) for rule in self.rules), *map(str, self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        curves = any(rule.examples for rule in self.rules)
        said = "scores" if curves else "probabilities" if self.rules[0].classes else "probability"
        rows = [
            (
                rule.name,
                rule.outcome,
                *([f"{_percent(rule.rate)} %"] if curves else []),
                rule.interval,
                count_text(rule.rows),
            )
            for rule in self.rules
        ]
        head = ("rule", said, *(["observed"] if curves else []), "interval", "weight" if self.weighted else self.unit)
        return table_block(head, rows, notes=[*map(str, self.notes)])


def _rule(
    tree: TreeMap,
    j: int,
    counts: LeafCounts,
    low: float,
    high: float,
    missing: frozenset[str],
    booleans: frozenset[str],
    confidence: float,
) -> Rule:
    part, constants = tree.maps[j], tree.constants
    slope = intercept = probability = math.nan
    examples: tuple[tuple[float, float], ...] = ()
    if constants is not None:
        probability = float(constants[j])
    else:
        marks = np.unique([each[j] for each in (counts.low, counts.middle, counts.high)])
        marks = marks[~np.isnan(marks)]
        examples = tuple(zip(marks.tolist(), part.apply(marks).tolist(), strict=True))
    if isinstance(part, LogitAffineMap):
        slope, intercept = part.slope, part.intercept
    counted = float(counts.rates[j]), low, high, float(counts.rows[j]), float(counts.events[j])
    return Rule(tree.limits[j], probability, *counted, slope, intercept, examples, missing, booleans, confidence)


def _class_rule(
    tree: ClassTreeMap,
    j: int,
    counts: LeafCounts,
    low: Floats,
    high: Floats,
    missing: frozenset[str],
    booleans: frozenset[str],
    confidence: float,
) -> Rule:
    constants, nothing = tree.constants, np.full(len(tree.classes), np.nan)
    before = after = nothing
    if constants is None and counts.rows[j] > 0:
        before = counts.middle[j]
        given = np.log(np.maximum(before, np.finfo(float).tiny)) if tree.on == "logit" else before
        after = tree.maps[j].apply(given[None])[0]
    columns = (constants[j] if constants is not None else nothing, counts.rates[j], low, high, counts.events[j])
    numbers = np.column_stack([*columns, before, after]).tolist()
    classes = tuple(ClassShare(name, *line) for name, line in zip(tree.classes, numbers, strict=True))
    unknown, rows = math.nan, float(counts.rows[j])
    return Rule(
        tree.limits[j], unknown, unknown, unknown, unknown, rows, unknown, unknown, unknown, (), missing, booleans,
        confidence, classes,
    )  # fmt: skip


def _percent(p: float) -> str:
    """A probability in percent, with enough digits for a small one."""
    value = 100.0 * p
    if value != value:
        return "?"
    return (
        f"{value:.0f}"
        if 9.95 <= value <= 90.0 or value in (0.0, 100.0)
        else f"{value:.1f}"
        if value >= 0.95
        else f"{value:.2g}"
    )


def _score(value: float) -> str:
    """A score: in percent if it can be a probability."""
    return f"{_percent(value)} %" if 0.0 <= value <= 1.0 else f"{value:.3g}"
