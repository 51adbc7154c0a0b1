"""Where a map comes from: enough to say which rows it saw and which promises they can carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, get_args

from calibrant.arrays import Kind
from calibrant.arrays.class_rows import ClassKind, ClassRows
from calibrant.guarantees.overlap import Overlap, overlap, sketch
from calibrant.numerics import Floats, row_fingerprint
from calibrant.tallies import Tally

Weighting = Literal["counts", "importance"]
Sampling = Literal["independent", "grouped", "time-ordered", "out-of-fold", "selected"]
State = Literal["calibrated", "kept", "uncalibrated"]

UNCALIBRATED = "Uncalibrated: there were too few rows to choose a map, so this one shows nothing about the scores."
"""What is printed before anything else about a map that nothing was compared with."""


@cache
def library_version() -> str:
    """Version of the installed package."""
    try:
        return version("calibrant")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0"


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
        """Refuse a state that is not known."""
        _check_state(self.state)

    @classmethod
    def of(
        cls, method: str, tally: Tally, sampling: Sampling = "independent", state: State = "calibrated"
    ) -> Provenance:
        """Provenance of a fit of ``method`` on ``tally``."""
        return cls(
            method=method,
            kind=tally.kind,
            n=tally.total,
            events=tally.positives,
            weights="counts" if tally.counts else "importance",
            sampling=sampling,
            resolution=tally.resolution,
            fingerprint=tally.fingerprint,
            library=library_version(),
            state=state,
            sketch=sketch(tally),
        )

    def overlap(self, judged: Tally) -> Overlap | None:
        """Which share of the rows that are judged was fitted; None when it cannot be told."""
        return overlap(self.sketch, self.fingerprint, judged) if judged.kind == self.kind else None


@dataclass(frozen=True, eq=False)
class ClassProvenance:
    """The rows of class scores behind a fitted map; ``sampling`` and ``state`` as in :class:`Provenance`.

    ``class_mass`` are the rows (or sums of weights) of each class, in the order of the map's classes. ``columns`` are
    what the columns of a frame were called at fit, where not as the classes.
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

    def __post_init__(self) -> None:
        """Refuse a state that is not known, and counts below zero."""
        _check_state(self.state)
        if (self.class_mass < 0).any():
            raise ValueError("rows of a class must not be below 0")

    @classmethod
    def of(
        cls, method: str, rows: ClassRows, sampling: Sampling = "independent", state: State = "calibrated"
    ) -> ClassProvenance:
        """Provenance of a fit of ``method`` on ``rows``."""
        return cls(
            method=method,
            kind=rows.kind,
            n=float(rows.mass.sum()),
            class_mass=rows.class_mass,
            weights="counts" if rows.counts else "importance",
            sampling=sampling,
            fingerprint=f"{row_fingerprint(rows.scores, rows.labels, rows.mass):016x}",
            library=library_version(),
            state=state,
            columns=rows.columns,
        )


def _check_state(state: str) -> None:
    if state not in get_args(State):
        raise ValueError(f"state must be one of {', '.join(get_args(State))}, got {state!r}")
