"""Provenance of a map: the method and rows behind it, and which guarantees these rows can support."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from calibrant.arrays import ScoreType
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.overlap import Overlap, overlap, sketch
from calibrant.messages import InputError, Phrase, Setting
from calibrant.numerics import Floats, row_fingerprint
from calibrant.tallies import Tally
from calibrant.visible import visible

if TYPE_CHECKING:
    from calibrant.arrays.multiclass.rows import MulticlassRows

WeightType = Literal["frequency", "importance", "by-class", "known-ratio", "estimated-ratio", "fractional-labels"]
Sampling = Literal["independent", "grouped", "time-ordered", "out-of-fold", "selected"]
Status = Literal["calibrated", "kept", "uncalibrated"]
Labels = Literal["text", "whole", "truth"]

UNCALIBRATED = "Uncalibrated: too few rows to choose a map; this one is not evidence that the scores are calibrated."
"""First line printed for a map that was not compared with the original model."""


@cache
def library_version() -> str:
    """Version of the installed package."""
    try:
        return version("calibrant")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0"


def _shared(method: str, data: Tally | MulticlassRows, sampling: Sampling, status: Status) -> dict[str, Any]:
    """Fields that the provenance of one score and of several classes share."""
    weight_type: WeightType = "frequency" if data.counts else "importance"
    return {
        "method": method,
        "score_type": data.score_type,
        "weight_type": weight_type,
        "sampling": sampling,
        "library": library_version(),
        "status": status,
    }


def _stated(default: Any) -> Any:
    """A field that documents leave out unless it is stated."""
    return field(default=default, metadata={"optional": True}, repr=False)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a map comes from, as stated by :meth:`calibrant.Calibration.with_origin`; all of it is optional.

    Attributes
    ----------
    fitted_at
        Time of the fit, in ISO 8601 with its time zone.
    first_day, last_day
        First and last day of the rows, in ISO 8601.
    source
        Files, tables or stores of the rows.
    model, model_version
        Name and version of the model whose scores are calibrated.
    parent
        Fingerprint of the map that this one replaces.
    meta
        Further entries, each ``key=value``.
    """

    fitted_at: str = _stated("")
    first_day: str = _stated("")
    last_day: str = _stated("")
    source: tuple[str, ...] = _stated(())
    model: str = _stated("")
    model_version: str = _stated("")
    parent: str = _stated("")
    meta: tuple[str, ...] = _stated(())

    def _check_origin(self) -> None:
        """Reject times and days that are not ISO 8601 or in the wrong order, and entries without a key."""
        if self.fitted_at and datetime.fromisoformat(self.fitted_at).tzinfo is None:
            raise ValueError(f"fitted_at must have a time zone, got {self.fitted_at!r}")
        days = [date.fromisoformat(day) for day in (self.first_day, self.last_day) if day]
        if days != sorted(days):
            raise ValueError(f"first_day {self.first_day} is after last_day {self.last_day}")
        odd = [entry for entry in self.meta if entry.find("=") < 1]
        if odd:
            raise ValueError(f"meta must be entries key=value, got {odd[0]!r}")

    def with_stated(
        self, *, fitted_at: Any, first_day: Any, last_day: Any, source: Any, parent: Any, meta: Any, **names: Any
    ) -> Self:
        """The same with what is stated; None keeps what there was, and a time that was never stated is now."""
        known = self.fitted_at or datetime.now(UTC).replace(microsecond=0)
        found: dict[str, Any] = {
            "fitted_at": _time(known if fitted_at is None else fitted_at),
            "first_day": self.first_day if first_day is None else _day("first_day", first_day),
            "last_day": self.last_day if last_day is None else _day("last_day", last_day),
            "source": self.source if source is None else _sources(source),
            "parent": self.parent if parent is None else parent,
            "meta": self.meta if meta is None else _entries(self.entries, meta),
            **{name: str(value) for name, value in names.items() if value is not None},
        }
        first, last = found["first_day"], found["last_day"]
        if first and last and first > last:
            problem = Phrase("is after {last}", last=Setting("last_day", last))
            raise InputError(Setting("first_day", first), problem, "pass the first day of the rows, then the last")
        if not isinstance(parent, str | None):
            raise InputError("parent", f"must be a Calibration or its fingerprint, got {parent!r}", "pass load(path)")
        return replace(self, **found)

    @property
    def entries(self) -> dict[str, str]:
        """The entries of ``meta`` by key."""
        return {key: value for key, _, value in (entry.partition("=") for entry in self.meta)}

    @property
    def origin(self) -> str:
        """What is stated, in one sentence; empty if nothing is."""
        named = " ".join(filter(None, (self.model, self.model_version)))
        parts = [
            f"fitted at {self.fitted_at}" if self.fitted_at else "",
            self._days,
            f"from {', '.join(self.source)}" if self.source else "",
            f"model {named}" if named else "",
            f"replaces {self.parent}" if self.parent else "",
            *self.meta,
        ]
        stated = "; ".join(filter(None, map(visible, parts)))
        return f"Origin: {stated}." if stated else ""

    @property
    def _days(self) -> str:
        """The days of the rows in words, of which one end or both may be unknown."""
        if self.first_day and self.last_day:
            both = f"days {self.first_day} to {self.last_day}"
            return f"day {self.first_day}" if self.first_day == self.last_day else both
        if self.first_day:
            return f"days from {self.first_day} on"
        return f"days up to {self.last_day}" if self.last_day else ""


def _time(value: Any) -> str:
    fix = "pass a time with its zone, such as 2026-03-01T06:00:00+00:00"
    try:
        text = value if isinstance(value, str) else value.isoformat()
        zone = datetime.fromisoformat(text).tzinfo
    except (AttributeError, TypeError, ValueError):
        raise InputError(Setting("fitted_at", value), "is not a time in ISO 8601", fix) from None
    if zone is None:
        raise InputError(Setting("fitted_at", text), "has no time zone", fix)
    return str(text)


def _day(name: str, value: Any) -> str:
    """A day in ISO 8601; empty text stays empty, which states none."""
    try:
        return date.fromisoformat(str(value)).isoformat() if value != "" else ""
    except ValueError:
        raise InputError(Setting(name, value), "is not a day", "pass a date, or text like 2026-03-01") from None


def _sources(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str | PathLike) else value
    if not isinstance(given, Iterable):
        raise InputError("source", f"must be text or a list of texts, got {value!r}", "name files, tables or stores")
    return tuple(str(fspath(each) if isinstance(each, PathLike) else each) for each in given)


def _entries(known: dict[str, str], meta: Any) -> tuple[str, ...]:
    """Entries ``key=value``, the known ones first; a new value of a known key replaces it."""
    if not isinstance(meta, Mapping):
        raise InputError("meta", f"must be a dict, got {meta!r}", "pass entries by key, such as {'ticket': 17}")
    odd = next((key for key in map(str, meta) if not key or "=" in key), None)
    if odd is not None:
        raise InputError("meta", f"has the key {odd!r}, which cannot be read again", "pass keys with text, without =")
    return tuple(f"{key}={value}" for key, value in (known | {str(key): meta[key] for key in meta}).items())


@dataclass(frozen=True)
class Provenance(Origin):
    """The data behind a fitted map.

    ``sampling`` is what the user declared about the rows: without ``groups=`` or ``time=`` they are assumed to be
    independent, and every certificate states this assumption.

    ``status`` is ``"calibrated"`` if a map was fitted, ``"kept"`` if the original model was compared with maps and is
    as good as they are, and ``"uncalibrated"`` if nothing could be compared. ``sketch`` holds hashes of 64 rows, by
    which :meth:`overlap` recognizes them; it is empty for scores with many ties and for grids. ``column`` and
    ``columns`` say which of two columns of scores was that of the event, and what they were called. All four are
    optional in documents.
    """

    method: str
    score_type: ScoreType
    n: float
    events: float
    weight_type: WeightType
    sampling: Sampling
    resolution: str
    fingerprint: str
    library: str
    status: str = field(default="calibrated", metadata={"optional": True})
    sketch: tuple[str, ...] = field(default=(), metadata={"optional": True}, repr=False)
    column: int = _stated(1)
    columns: tuple[str, ...] = _stated(())

    def __post_init__(self) -> None:
        _check_status(self.status)
        self._check_origin()
        if self.column not in (0, 1) or len(self.columns) not in (0, 2):
            raise ValueError(f"column must be 0 or 1 of two columns, got {self.column} of {self.columns}")

    @classmethod
    def of(
        cls, method: str, tally: Tally, sampling: Sampling = "independent", status: Status = "calibrated"
    ) -> Provenance:
        """Provenance of a fit of ``method`` on ``tally``."""
        return cls(
            **_shared(method, tally, sampling, status),
            n=tally.total,
            events=tally.positives,
            resolution=tally.resolution,
            fingerprint=tally.fingerprint,
            sketch=sketch(tally),
        )

    def overlap(self, judged: Tally) -> Overlap | None:
        """Estimated share of the checked rows that were fitted; None if it cannot be determined."""
        return overlap(self.sketch, self.fingerprint, judged) if judged.score_type == self.score_type else None


@dataclass(frozen=True, eq=False)
class MulticlassProvenance(Origin):
    """The data behind a fitted multiclass map; ``sampling`` and ``status`` as in :class:`Provenance`.

    ``class_mass`` holds the rows (or sums of weights) of each class, in the order of the map's classes. ``columns`` are
    the column names of the frame passed to fit, if they differ from the classes. ``labels`` is the type of the labels
    in ``y``: text, integers or booleans; documents without it mean text.
    """

    method: str
    score_type: MulticlassScoreType
    n: float
    class_mass: Floats
    weight_type: WeightType
    sampling: Sampling
    fingerprint: str
    library: str
    status: str = "calibrated"
    columns: tuple[str, ...] = ()
    labels: str = field(default="text", metadata={"optional": True})

    def __post_init__(self) -> None:
        """Reject an unknown status or label type, and negative counts."""
        _check_status(self.status)
        self._check_origin()
        if self.labels not in get_args(Labels):
            raise ValueError(f"labels must be one of {', '.join(get_args(Labels))}, got {self.labels!r}")
        if (self.class_mass < 0).any():
            raise ValueError("class_mass must not be negative")

    @classmethod
    def of(
        cls, method: str, rows: MulticlassRows, sampling: Sampling = "independent", status: Status = "calibrated"
    ) -> MulticlassProvenance:
        """Provenance of a fit of ``method`` on ``rows``."""
        return cls(
            **_shared(method, rows, sampling, status),
            n=float(rows.mass.sum()),
            class_mass=rows.class_mass,
            fingerprint=f"{row_fingerprint(rows.scores, rows.labels, rows.mass):016x}",
            columns=rows.columns,
            labels=_label_form(rows),
        )

    def as_written(self, classes: Sequence[str]) -> list[Any]:
        """The classes as labels of ``y``; a name that is not a label of that type raises a ValueError."""
        if self.labels == "text":
            return list(classes)
        values = (
            [_TRUTHS.get(name) for name in classes] if self.labels == "truth" else [_whole(each) for each in classes]
        )
        if None in values:
            raise ValueError(f"the class {classes[values.index(None)]!r} is not a label of type {self.labels!r}")
        return values


_TRUTHS = {"true": True, "false": False}


def _whole(name: str) -> int | None:
    """The integer with these digits, or None."""
    digits = name.removeprefix("-")
    return int(name) if digits.isascii() and digits.isdigit() and str(int(name)) == name else None


def _label_form(rows: MulticlassRows) -> Labels:
    """Type of the labels; text if the names cannot be converted back."""
    values = rows.values.tolist()
    if all(isinstance(value, bool) for value in values):
        return "truth"
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return "whole" if numbers and None not in map(_whole, rows.classes) else "text"


def _check_status(status: str) -> None:
    if status not in get_args(Status):
        raise ValueError(f"status must be one of {', '.join(get_args(Status))}, got {status!r}")
