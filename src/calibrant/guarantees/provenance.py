"""Where a map comes from: enough to say which rows it saw and which promises they can carry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from calibrant.arrays import Kind
from calibrant.tallies import Tally

Weighting = Literal["counts", "importance"]
Sampling = Literal["independent", "grouped", "time-ordered", "out-of-fold", "selected"]


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

    @classmethod
    def of(cls, method: str, tally: Tally, sampling: Sampling = "independent") -> Provenance:
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
        )
