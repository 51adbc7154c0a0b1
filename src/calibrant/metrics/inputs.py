"""What every metric takes beside arrays: columns of a frame, segments, groups of dependent rows, fractional labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_length, check_option, read_column
from calibrant.arrays.fractions import half_rows, twice
from calibrant.arrays.keys import read_keys
from calibrant.arrays.labels import LabelType, label_column
from calibrant.arrays.multiclass.names import without_affix
from calibrant.arrays.multiclass.rows import is_matrix, read_matrix
from calibrant.messages import CalibrantWarning, InputError, Setting
from calibrant.metrics.estimates import Result, plain
from calibrant.reading import read
from calibrant.tallies import Clusters, GroupedTally, Tally

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

BY_ROW = ("named", "regions")
"""Options that have one entry per row."""


@dataclass(frozen=True)
class SegmentResult(Generic[R], Result):
    """The result of one segment.

    Attributes
    ----------
    by
        Name of the column.
    segment
        Its value.
    rows
        Rows of the segment, or the sum of their weights.
    result
        What the metric gives for these rows.
    """

    by: str
    segment: Any
    rows: float
    result: R


@dataclass(frozen=True)
class MetricTable(Generic[R], Result):
    """Results of a metric by segment; ``table["de"]`` is that of one segment.

    Attributes
    ----------
    segments
        One :class:`SegmentResult` per segment, in the order of their names.
    """

    segments: tuple[SegmentResult[R], ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per segment, as ``pandas.DataFrame`` and ``polars.DataFrame`` take them."""
        made = []
        for each in self.segments:
            facts = each.result.to_dict() if isinstance(each.result, Result) else {"value": each.result}
            facts = {key: value for key, value in facts.items() if not isinstance(value, list | dict)}
            made.append({"by": each.by, "segment": each.segment, "rows": each.rows, **facts})
        return made

    def __getitem__(self, segment: Any) -> R:
        """The result of one segment, by its value, or by column and value."""
        name, value = segment if isinstance(segment, tuple) else (None, segment)
        found = [each.result for each in self.segments if each.segment == value and name in (None, each.by)]
        if len(found) != 1:
            raise KeyError(segment)
        return found[0]

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[SegmentResult[R]]:
        return iter(self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"segments": [plain(each) for each in self.segments]}

    def __str__(self) -> str:
        made = []
        for each in self.segments:
            made.append(f"{each.by} = {each.segment} ({each.rows:,.10g} rows): {each.result}")
        return "\n".join(made)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows of a metric, and the segments by which it is computed."""

    scores: Any
    y: Any
    sample_weight: Any
    groups: Any
    options: dict[str, Any]
    segments: dict[str, Any] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    """Options that the caller did not pass, but that were read from the names of columns or from the labels."""

    def parts(self) -> Iterator[tuple[str, Any, Inputs]]:
        """Column, value and rows of each segment."""
        if isinstance(self.scores, GroupedTally):
            for value, tally in self.scores.items():
                yield ", ".join(self.scores.columns) or "segment", value, replace(self, scores=tally)
            return
        whole = self._as_arrays()
        n = len(whole.scores)
        for name, column in self.segments.items():
            keys = read_keys(column, Setting("by", name))
            check_length(keys.codes, "by", n)
            if (keys.codes < 0).any():
                row = int(np.argmax(keys.codes < 0))
                problem = f"has a missing value in the column {name!r}, the first at row {row} counted from 0"
                raise InputError("by", problem, "drop these rows or give them a separate value")
            for code, value in enumerate(keys.names):
                yield name, value, whole._taken(np.flatnonzero(keys.codes == code))

    def _as_arrays(self) -> Inputs:
        """The same with arrays that can be indexed, and the classes of all rows."""
        options, added = dict(self.options), self.added
        if is_matrix(self.scores):
            scores, columns = read_matrix(self.scores)
            y = read_column(self.y, "y")
            if options.get("classes") is None:
                found = np.unique(y)
                listed = found.tolist() if len(found) == scores.shape[1] else None
                options["classes"] = _named_classes(columns, y) if columns else listed
                added = (*added, "classes")
        else:
            scores, y = read_column(self.scores, "scores"), read_column(self.y, "y")
        weight = None if self.sample_weight is None else read_column(self.sample_weight, "sample_weight")
        groups = None if self.groups is None else read_column(self.groups, "groups")
        for name, column in (("y", y), ("sample_weight", weight), ("groups", groups)):
            if column is not None:
                check_length(column, name, len(scores))
        for name in BY_ROW:
            if options.get(name) is not None:
                options[name] = np.asarray(options[name])
        return replace(self, scores=scores, y=y, sample_weight=weight, groups=groups, options=options, added=added)

    def _taken(self, index: NDArray[np.intp]) -> Inputs:
        options = {
            name: value[index] if name in BY_ROW and value is not None else value
            for name, value in self.options.items()
        }
        columns = {
            name: None if column is None else column[index]
            for name, column in (
                ("scores", self.scores),
                ("y", self.y),
                ("sample_weight", self.sample_weight),
                ("groups", self.groups),
            )
        }
        return replace(self, options=options, **columns)  # type: ignore[arg-type]

    @property
    def size(self) -> float:
        """Rows, or sum of weights."""
        if isinstance(self.scores, Tally):
            return float(self.scores.total)
        return float(len(self.y) if self.sample_weight is None else np.asarray(self.sample_weight, dtype=float).sum())


def read_inputs(
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    by: Any = None,
    score: str | Sequence[str] | None = None,
    label: str | None = None,
    label_type: LabelType = "class",
    options: dict[str, Any] | None = None,
    one_event: bool = True,
) -> Inputs:
    """Rows from arrays, from a tally or from the named columns of a frame.

    ``one_event``: of two columns of class scores only the probability of the event is kept.
    """
    check_option("label_type", label_type, ("class", "fraction"))
    options = dict(options or {})
    if isinstance(label, list | tuple) and len(label) > 1:
        fix = "call the metric once for each column of scores and its column of labels"
        raise InputError("label", "must name one column, and a metric is about one column of labels", fix)
    if type(scores).__module__.startswith("pyspark"):
        fix = "pass calibrant.tally(frame, score, label) in its place, which counts in Spark"
        raise InputError("scores", "is a Spark frame, and metrics read rows into memory", fix)
    known: dict[str, Any] = {name: options.get(name) for name in ("classes", "score_type")}
    given = read(
        scores, y, sample_weight, call="metrics.ece", score=score, label=label, by=by, groups=groups,
        label_type=label_type, most=None, **known,
    )  # fmt: skip
    if given.kind == "tally":
        return Inputs(given.scores, None, None, None, options)
    if given.kind == "labels":
        fix = "call the metric once for each column of scores and its column of labels"
        raise InputError("y", "has several columns, and a metric is about one column of labels", fix)
    if one_event and given.kind == "score":
        given = given.one_event(probabilities=True).as_probabilities()
    if known != {"classes": given.classes, "score_type": given.score_type}:
        options = {name: value for name, value in options.items() if name not in known}
        options |= {} if given.classes is None else {"classes": given.classes}
    made = Inputs(given.scores, given.y, given.sample_weight, given.groups, options, dict(given.by))
    return _with_fractions(made) if label_type == "fraction" else made


def _named_classes(columns: tuple[str, ...], y: Any) -> list[str]:
    """Classes by the names of their columns, without what the names share, such as ``p_`` in ``p_cat``."""
    try:
        labels = read_keys(label_column(y, "y"), "y").names
    except InputError:  # refused where the labels are read
        return list(columns)
    return list(without_affix(columns, labels))


def _with_fractions(given: Inputs) -> Inputs:
    """Each row with label q as an event of weight q and a non-event of weight 1 - q, which depend on each other."""
    if isinstance(given.scores, Tally | GroupedTally | Clusters) or is_matrix(given.scores):
        fix = "pass one column of scores with its labels as arrays or columns of a frame"
        raise InputError("label_type", "of fractions is for one column of scores", fix)
    rows = half_rows(given.scores, given.y, given.sample_weight, given.groups)
    segments = {name: twice(read_column(column, "by")) for name, column in given.segments.items()}
    return Inputs(rows.scores, rows.labels, rows.weights, rows.groups, given.options, segments)


def named_rows(scores: Any, y: Any, sample_weight: Any, groups: Any, score: Any, label: Any) -> tuple[Any, ...]:
    """Scores, labels, weights and groups: as given, or the named columns of a frame."""
    if isinstance(scores, Tally | GroupedTally | Clusters):
        return scores, y, sample_weight, groups
    given = read_inputs(scores, y, sample_weight, groups=groups, score=score, label=label)
    return given.scores, given.y, given.sample_weight, given.groups


def by_segment(inputs: Inputs, once: Callable[[Inputs], R]) -> R | MetricTable[R]:
    """The result of all rows, or a table by segment."""
    if not inputs.segments and not isinstance(inputs.scores, GroupedTally):
        return once(inputs)
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # a segment with one class is seen in its result
        for name, value, rows in inputs.parts():
            made.append(SegmentResult(name, value, rows.size, once(rows)))
    return MetricTable(tuple(made))
