"""The public form of every metric: frames, segments, groups of dependent rows and fractional labels are added here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Protocol, TypeVar, overload

from calibrant.arrays.columns import width
from calibrant.arrays.labels import LabelType
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.messages import InputError
from calibrant.metrics.inputs import Inputs, MetricTable, by_segment, read_inputs
from calibrant.metrics.intervals import between_groups
from calibrant.tallies import GroupedTally

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Metric(Protocol[R_co]):
    """A metric as it is called: of arrays, of a tally, or of the named columns of a frame."""

    @overload
    def __call__(
        self,
        scores: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        by: None = None,
        groups: Any = None,
        score: str | Sequence[str] | None = None,
        label: str | None = None,
        label_type: LabelType = "class",
        **options: Any,
    ) -> R_co: ...

    @overload
    def __call__(
        self,
        scores: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        by: Any,
        groups: Any = None,
        score: str | Sequence[str] | None = None,
        label: str | None = None,
        label_type: LabelType = "class",
        **options: Any,
    ) -> MetricTable[Any]: ...


PARAMETERS = """\
groups : array-like, optional
    Group of dependent rows that each row belongs to, such as a patient or a customer. {groups}
by : array-like or mapping, optional
    Segment of each row, or a mapping of names to such columns. The result is then a :class:`MetricTable` with one
    result per segment. A :class:`~calibrant.tallies.GroupedTally` in place of ``scores`` has the same effect.
score, label : str, optional
    Names of the columns of scores and labels if ``scores`` is a frame (pandas, polars, pyarrow, DuckDB); a list of
    names, one per class, for a matrix. ``sample_weight``, ``groups`` and ``by`` are then names as well.
label_type : {{"class", "fraction"}}, default="class"
    ``"fraction"``: labels are numbers in [0, 1], such as the share of annotators who saw the event. A row with label q
    counts as an event of weight q and a non-event of weight 1 - q. {fractions}
"""

OWN = "The standard error and the interval are then computed between groups."
BOOTSTRAP = (
    "The standard error and the interval are\n"
    "    then those of :func:`interval`, by drawing whole groups, and there is no null value."
)
REFUSED = "Refused, because the result assumes independent\n    rows."


def for_rows(function: Callable[..., R], *, refuse: str = "") -> Metric[R]:
    """The public form of a metric of ``(scores, y, sample_weight)``: adds frames, segments, groups and fractions.

    ``refuse`` says why groups of dependent rows are refused, and names the alternative.
    """
    own, several = (name in inspect.signature(function).parameters for name in ("groups", "classes"))
    only_classes = several and ".multiclass." in function.__module__

    @functools.wraps(function)
    def metric(
        scores: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        by: Any = None,
        score: str | Sequence[str] | None = None,
        label: str | None = None,
        label_type: LabelType = "class",
        **options: Any,
    ) -> Any:
        given = (groups, by, score, label)
        named = (
            isinstance(scores, GroupedTally | str | PathLike) or isinstance(y, str) or isinstance(sample_weight, str)
        )
        if all(each is None for each in given) and label_type == "class" and not named and width(y) < 2:
            return function(scores, y, sample_weight, **options)
        if groups is not None and refuse:
            raise InputError("groups", "cannot be used here: the result assumes independent rows", refuse)
        inputs = read_inputs(
            scores,
            y,
            sample_weight,
            groups=groups,
            by=by,
            score=score,
            label=label,
            label_type=label_type,
            options=options,
            one_event=not only_classes and not any(options.get(name) is not None for name in ("notion", "named")),
        )
        if refuse and label_type == "fraction":
            problem = "of fractions cannot be used here: the result assumes labels that are 0 or 1"
            raise InputError("label_type", problem, refuse)

        def once(rows: Inputs) -> Any:
            if not several and is_matrix(rows.scores):
                return function(rows.scores, rows.y, rows.sample_weight)  # refused there, with what to pass instead
            if rows.groups is None:
                return function(rows.scores, rows.y, rows.sample_weight, **rows.options)
            if own and not is_matrix(rows.scores):
                return function(rows.scores, rows.y, rows.sample_weight, groups=rows.groups, **rows.options)
            return between_groups(function, rows)

        return by_segment(inputs, once)

    _describe(metric, function, own, refuse)
    return metric


def _describe(metric: Any, function: Callable[..., Any], own: bool, refuse: str) -> None:
    """Signature and docstring with the added parameters, and the public module."""
    signature = inspect.signature(function)
    kept = list(signature.parameters.values())
    names = [each.name for each in kept]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (
            ("groups", None),
            ("by", None),
            ("score", None),
            ("label", None),
            ("label_type", "class"),
        )
        if name not in names
    ]
    metric.__signature__ = signature.replace(parameters=[*kept, *added])
    metric.__module__ = "calibrant.metrics"
    text = inspect.cleandoc(function.__doc__ or "")
    fractions = "Refused here." if refuse else "Intervals then treat each row as one unit."
    lines = PARAMETERS.format(groups=REFUSED if refuse else OWN if own else BOOTSTRAP, fractions=fractions)
    if own:  # described by the function itself
        lines = lines[lines.index("by : ") :]
    metric.__doc__ = text.replace("\nReturns\n-------", f"{lines}\nReturns\n-------", 1)
