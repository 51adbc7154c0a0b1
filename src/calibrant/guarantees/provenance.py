"""Where a map comes from: enough to say which rows it saw and which promises they can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal, get_args

from calibrant.arrays import Kind
from calibrant.arrays.kinds import ClassKind
from calibrant.guarantees.overlap import Overlap, overlap, sketch
from calibrant.numerics import Floats, row_fingerprint
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from calibrant.arrays.multiclass.rows import ClassRows

Weighting = Literal["counts", "importance", "by-class"]
Sampling = Literal["independent", "grouped", "time-ordered", "out-of-fold", "selected"]
State = Literal["calibrated", "kept", "uncalibrated"]
Labels = Literal["text", "whole", "truth"]

UNCALIBRATED = "Uncalibrated: there were too few rows to choose a map, so this one shows nothing about the scores."
"""What is printed before anything else about a map that nothing was compared with."""


@cache
def library_version() -> str:
    """Version of the installed package."""
    try:
        return version("calibrant")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0"


def _shared(method: str, data: Tally | ClassRows, sampling: Sampling, state: State) -> dict[str, Any]:
    """What the provenance of one score and of several classes have in common."""
    weights: Weighting = "counts" if data.counts else "importance"
    return {
        "method": method, "kind": data.kind, "weights": weights, "sampling": sampling, "library": library_version(),
        "state": state,
    }  # fmt: skip


@dataclass(frozen=True)
class Provenance:
    """The data behind a fitted map.

    ``sampling`` is what the user declared about the rows: without ``groups=`` or ``time=`` they are taken as
    independent, and every certificate says so.

    ``state`` is ``"calibrated"`` where a map was fitted, ``"kept"`` where the model was compared with maps and is as
    good as they are, and ``"uncalibrated"`` where nothing could be compared. ``sketch`` are hashes of 64 rows, by which
    :meth:`overlap` knows them again; there are none of heaped scores and of grids. Both are optional in documents.
    """

    method: str
    kind: Kind
    n: float
    events: float
    weights: Weighting
    sampling: Sampling
    resolution: str
    fingerprint: str
    library: str
    state: str = field(default="calibrated", metadata={"optional": True})
    sketch: tuple[str, ...] = field(default=(), metadata={"optional": True}, repr=False)

    def __post_init__(self) -> None:
        _check_state(self.state)

    @classmethod
    def of(
        cls, method: str, tally: Tally, sampling: Sampling = "independent", state: State = "calibrated"
    ) -> Provenance:
        """Provenance of a fit of ``method`` on ``tally``."""
        return cls(
            **_shared(method, tally, sampling, state),
            n=tally.total,
            events=tally.positives,
            resolution=tally.resolution,
            fingerprint=tally.fingerprint,
            sketch=sketch(tally),
        )

    def overlap(self, judged: Tally) -> Overlap | None:
        """Which share of the rows that are judged was fitted; None when it cannot be told."""
        return overlap(self.sketch, self.fingerprint, judged) if judged.kind == self.kind else None


@dataclass(frozen=True, eq=False)
class ClassProvenance:
    """The rows of class scores behind a fitted map; ``sampling`` and ``state`` as in :class:`Provenance`.

    ``class_mass`` are the rows (or sums of weights) of each class, in the order of the map's classes. ``columns`` are
    what the columns of a frame were called at fit, where not as the classes. ``labels`` is how ``y`` wrote the classes:
    as text, whole numbers or truth values; documents without it mean text.
    """

    method: str
    kind: ClassKind
    n: float
    class_mass: Floats
    weights: Weighting
    sampling: Sampling
    fingerprint: str
    library: str
    state: str = "calibrated"
    columns: tuple[str, ...] = ()
    labels: str = field(default="text", metadata={"optional": True})

    def __post_init__(self) -> None:
        """Refuse a state or a form of labels that is not known, and counts below zero."""
        _check_state(self.state)
        if self.labels not in get_args(Labels):
            raise ValueError(f"labels must be one of {', '.join(get_args(Labels))}, got {self.labels!r}")
        if (self.class_mass < 0).any():
            raise ValueError("rows of a class must not be below 0")

    @classmethod
    def of(
        cls, method: str, rows: ClassRows, sampling: Sampling = "independent", state: State = "calibrated"
    ) -> ClassProvenance:
        """Provenance of a fit of ``method`` on ``rows``."""
        return cls(
            **_shared(method, rows, sampling, state),
            n=float(rows.mass.sum()),
            class_mass=rows.class_mass,
            fingerprint=f"{row_fingerprint(rows.scores, rows.labels, rows.mass):016x}",
            columns=rows.columns,
            labels=_label_form(rows),
        )

    def as_written(self, classes: Sequence[str]) -> list[Any]:
        """The classes as ``y`` wrote them; names that it cannot have written so raise a ValueError."""
        if self.labels == "text":
            return list(classes)
        values = (
            [_TRUTHS.get(name) for name in classes] if self.labels == "truth" else [_whole(each) for each in classes]
        )
        if None in values:
            raise ValueError(f"the class {classes[values.index(None)]!r} is no label of the form {self.labels!r}")
        return values


_TRUTHS = {"true": True, "false": False}


def _whole(name: str) -> int | None:
    """The whole number whose digits these are."""
    digits = name.removeprefix("-")
    return int(name) if digits.isascii() and digits.isdigit() and str(int(name)) == name else None


def _label_form(rows: ClassRows) -> Labels:
    """How the labels were written; text where the names would not lead back to them."""
    values = rows.values.tolist()
    if all(isinstance(value, bool) for value in values):
        return "truth"
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return "whole" if numbers and None not in map(_whole, rows.classes) else "text"


def _check_state(state: str) -> None:
    if state not in get_args(State):
        raise ValueError(f"state must be one of {', '.join(get_args(State))}, got {state!r}")
