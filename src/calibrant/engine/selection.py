"""Which columns and rows of a frame are counted, and why some cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.frames import Rows, collect_frame
from calibrant.arrays.labels import encode_labels
from calibrant.arrays.score_types import ROUNDING
from calibrant.engine.columns import fresh_name, on_local_clock, plain_names, read_frame, with_cluster_bucket
from calibrant.engine.unusable import MISSING, Role, Unusable
from calibrant.messages import Advice, InputError, Phrase, Setting

WeightType = Literal["importance", "frequency"]

EXACT = 2.0**53
NARROW = (nw.Int8, nw.Int16, nw.UInt8, nw.UInt16)
"""Integer types that every engine sums in 64 bits."""

GRIDS = "pass a grid such as Grid(4) for probabilities, and Grid(low=..., high=...) for other kinds"
"""The fix if the range of a grid is not that of the scores."""

EVERY = ("1s", "1m", "1h", "1d", "1mo", "1q", "1y")
DAYS = ("1d", "1mo", "1q", "1y")
"""Lengths of time periods, and those that begin at midnight."""


@dataclass(frozen=True)
class Selection:
    """Rows with the columns ``score``, ``label``, ``weight`` and keys, named by their roles.

    A column ``good`` says whether all values but the score are valid; scores are checked while counting.
    """

    rows: Rows
    ends: tuple[float, float]
    """Range of the scores that are counted."""
    keys: tuple[str, ...]
    days: str | None
    """The key with days, if there is one."""
    weighted: bool
    counts: bool
    checked: Rows
    """The same rows with a boolean column for each reason why a row cannot be counted."""
    reasons: Mapping[str, tuple[Role, str, str]]
    """For each of these columns: role and name of the original column, and its problem."""

    @classmethod
    def of(
        cls,
        frame: Any,
        score: str,
        label: str,
        *,
        ends: tuple[float, float],
        rounding: bool = False,
        sample_weight: str | None = None,
        weight_type: WeightType = "importance",
        by: str | Sequence[str] | None = None,
        time: str | None = None,
        every: str = "1d",
        groups: str | None = None,
        positive: Any = None,
    ) -> Selection:
        """Select the columns of ``frame`` by their roles; with ``rounding`` scores just outside are the ends."""
        check_option("weight_type", weight_type, get_args(WeightType))
        check_option("every", every, EVERY)
        if not (by is None or isinstance(by, Sequence)):
            raise InputError(Setting("by", by), "must name columns", "pass a name, or a list of names")
        weight, counts, by = sample_weight, weight_type == "frequency", [by] if isinstance(by, str) else list(by or ())
        given = [score, label, *by, *(name for name in (weight, time, groups) if name is not None)]
        source, place = plain_names(frame, given)
        bucket = fresh_name(source, "cluster bucket")
        if groups is not None:
            source = with_cluster_bucket(source, place[groups], bucket)
        if time is not None:
            source = on_local_clock(source, place[time])
        rows = read_frame(source)
        types = rows.collect_schema()
        parts = [_score(nw.col(place[score]), types[place[score]], score, ends, rounding)]
        parts.append(_label(rows, place[label], label, positive))
        if weight is not None:
            parts.append(_weight(nw.col(place[weight]), weight, counts))
        keys = [(_segment(nw.col(place[name]), types[place[name]], name), name, types[place[name]]) for name in by]
        if time is not None:
            spark = rows.implementation.is_spark_like()
            moment = _bucket(nw.col(place[time]), types[place[time]], time, every, spark)
            keys.append((moment, time, nw.Datetime()))
        if groups is not None:
            keys.append((nw.col(bucket), groups, nw.Int64()))
        parts += [_key(*key, number) for number, key in enumerate(keys)]
        days = f"key{len(by)}" if time is not None and every in DAYS else None
        places = tuple(f"key{number}" for number in range(len(keys)))
        return cls._select(rows, ends, parts, places, days, weight is not None, counts)

    @classmethod
    def _select(
        cls,
        rows: Rows,
        ends: tuple[float, float],
        parts: Sequence[_Part],
        keys: tuple[str, ...],
        days: str | None,
        weighted: bool,
        counts: bool,
    ) -> Selection:
        if rows.implementation.is_polars():
            rows = rows.lazy()
        # lazy engines treat an unknown condition as false
        eager = isinstance(rows, nw.DataFrame)
        good = reduce(and_, (part.good.fill_null(False) if eager else part.good for part in parts[1:]))
        named = rows.select(*(part.value.alias(part.name) for part in parts), good.alias("good"))
        ok = nw.col("good")
        chosen: list[nw.Expr] = [nw.col("score"), ok]
        for part in parts[1 : 3 if weighted else 2]:
            dtype = nw.Float64 if part.name == "weight" and not counts else nw.Int64
            column = nw.col(part.name)
            if not part.narrow:  # sums over rows that cannot be counted must stay in range too
                column = nw.when(ok).then(column).otherwise(0).cast(dtype)
            chosen.append(column.alias(part.name))
        flags = [((part.role, part.column, problem), flag) for part in parts for problem, flag in part.problems.items()]
        names = {f"reason{number}": reason for number, (reason, _) in enumerate(flags)}
        bad = ~reduce(and_, (part.good.fill_null(False) for part in parts))
        reasons = (flag.alias(name) for name, (_, flag) in zip(names, flags, strict=True))
        checked = rows.select(bad.alias("bad"), *reasons)
        return cls(named.select(*chosen, *keys), ends, keys, days, weighted, counts, checked, names)

    def unusable(self) -> Unusable:
        """How many rows cannot be counted, and why."""
        names = ["bad", *self.reasons]
        sums = [nw.when(nw.col(name).fill_null(False)).then(1).otherwise(0).sum().alias(name) for name in names]
        found = collect_frame(self.checked.select(*sums, nw.len().alias("rows")))
        counts = {name: int(found[name].item()) for name in (*names, "rows")}
        why = tuple((*reason, counts[name]) for name, reason in self.reasons.items() if counts[name])
        return Unusable(counts["bad"], counts["rows"], why)


@dataclass(frozen=True)
class _Part:
    """A column in its role, the condition for valid values, and the possible problems."""

    name: str
    role: Role
    column: str
    value: nw.Expr
    good: nw.Expr
    problems: Mapping[str, nw.Expr]
    narrow: bool = False
    """Whether it is an integer of 16 bits or less."""


def _known(numbers: nw.Expr) -> nw.Expr:
    """Neither NULL nor NaN. DuckDB trusts statistics of Parquet files, which leave NaN out, in isnan, but not here."""
    return numbers.is_finite() | (numbers.abs() == math.inf)


def _score(column: nw.Expr, dtype: Any, name: str, ends: tuple[float, float], rounding: bool) -> _Part:
    if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object)):
        raise InputError(Setting("score", name), f"holds {dtype} and not numbers", Advice.NAME_SCORES)
    s = column.cast(nw.Float64)
    missing = s.is_null() | ~_known(s)
    if rounding:
        s = nw.when((s > ends[1]) & (s <= ends[1] + ROUNDING)).then(ends[1]).otherwise(s)
        s = nw.when((s < ends[0]) & (s >= ends[0] - ROUNDING)).then(ends[0]).otherwise(s)
    good = s.is_finite() & s.is_between(*ends)
    problems = {MISSING: missing, f"outside [{ends[0]:g}, {ends[1]:g}]": ~missing & ~good}
    return _Part("score", "score", name, s, good, problems)


def _label(rows: Rows, place: str, name: str, positive: Any) -> _Part:
    column, dtype = nw.col(place), rows.collect_schema()[place]
    if positive is not None or dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean):
        missing = column.is_null() | ~_known(column) if dtype.is_float() else column.is_null()
        found = [True]  # compared, not cast: DuckDB would cast in its CSV reader, which fails on "yes"
        if positive is not None or dtype != nw.Boolean:
            found = _event(rows.select(place).filter(~missing), place, name, positive)
        y = nw.when(column == found[0]).then(1).otherwise(0) if found else nw.when(missing).then(0).otherwise(0)
        return _Part("label", "label", name, y.cast(nw.Int8), ~missing, {MISSING: missing}, narrow=True)
    y = column if dtype.is_integer() else column.cast(nw.Float64)
    missing = y.is_null() if dtype.is_integer() else y.is_null() | ~_known(y)
    good = y.is_between(0, 1) if dtype.is_integer() else (y == 0.0) | (y == 1.0)
    problems = {MISSING: missing, "neither 0 nor 1": ~missing & ~good}
    return _Part("label", "label", name, y, good, problems, narrow=dtype in NARROW)


def _event(labels: Rows, place: str, name: str, positive: Any) -> list[Any]:
    """The label that counts as the event, as in the frame; empty if no row has it.

    More than two labels are refused, and two labels without ``positive``.
    """
    values = collect_frame(labels.unique().head(3))[place].to_list()
    if values:
        encode_labels(np.array(values, dtype=object), positive, name)
    return [value for value in values if value == positive]


def _weight(column: nw.Expr, name: str, counts: bool) -> _Part:
    w = column.cast(nw.Float64)
    missing = w.is_null() | ~_known(w)
    good = w.is_finite() & w.is_between(0.0, EXACT - 1.0 if counts else float(np.finfo(np.float64).max))
    words = "negative or infinite"
    if counts:
        good, words = good & (w == w.floor()), "not an integer below 2**53"
    return _Part("weight", "weight", name, w, good, {MISSING: missing, words: ~missing & ~good})


def _key(column: nw.Expr, name: str, dtype: Any, number: int) -> _Part:
    missing = column.is_null() | ~_known(column) if dtype.is_float() else column.is_null()
    return _Part(f"key{number}", "key", name, column, ~missing, {MISSING: missing})


def _segment(column: nw.Expr, dtype: Any, name: str) -> nw.Expr:
    plain = (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object, nw.Date)
    if dtype in plain or dtype.is_integer() or dtype.is_float() or dtype.is_decimal():
        return column
    if isinstance(dtype, nw.Datetime):
        raise InputError(
            Setting("by", name),
            "holds timestamps",
            Phrase("use {time}, which splits them into days, hours or months", time=Setting("time", name)),
        )
    raise InputError(Setting("by", name), f"is of type {dtype}", "pass a column of text, numbers, booleans or dates")


def _bucket(column: nw.Expr, dtype: Any, name: str, every: str, spark: bool) -> nw.Expr:
    """Timestamps truncated to periods; those with a time zone in local time."""
    if dtype == nw.Date and every == "1d":
        return column
    if dtype in (nw.Date, nw.Object):  # plain pandas has no type for dates
        return column.cast(nw.Datetime()).dt.truncate(every)
    if isinstance(dtype, nw.Datetime):
        cut = column.dt.truncate(every)  # in Spark this has a time zone, even if the timestamp had none
        return cut.dt.replace_time_zone(None) if dtype.time_zone is not None or spark else cut
    raise InputError(
        Setting("time", name),
        f"is of type {dtype}, and only dates and timestamps can be split into periods",
        Phrase("use {by}", by=Setting("by", name)),
    )
