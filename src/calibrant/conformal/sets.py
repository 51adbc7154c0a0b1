"""Prediction sets of numbers: one union of closed intervals for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, read_floats, refuse_missing
from calibrant.conformal.coverage import Coverage
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import Drawn, InputError, Shown, count_text, plural

Floats = NDArray[np.float64]
SHOWN_ROWS, SHOWN_PIECES = 5, 3


@dataclass(frozen=True, eq=False)
class PredictionSets(Drawn, Shown):
    """Prediction sets of n rows: each is a union of disjoint closed intervals, which may be empty.

    Attributes
    ----------
    offsets
        Row i has the intervals ``offsets[i]`` to ``offsets[i + 1]``; n + 1 integers.
    lower, upper
        Ends of all intervals, in order within each row; infinite where a set has no end.
    certificate
        Which coverage is guaranteed: a :class:`Coverage`, or the reason why there is none.

    Notes
    -----
    Guarantee: that of ``certificate``; the sets themselves have none. Reference: Gupta (2023), chapter 9.

    Examples
    --------
    >>> sets = PredictionSets.from_intervals([1.0, 2.0], [3.0, 6.0])
    >>> print(sets)
    2 prediction sets, mean width 3.
      row 0: 1 to 3
      row 1: 2 to 6
    >>> sets.covers([2.0, 7.0]).tolist()
    [True, False]
    """

    offsets: NDArray[np.int64]
    lower: Floats
    upper: Floats
    certificate: Coverage | NoCertificate | None = None

    @classmethod
    def from_intervals(
        cls, lower: ArrayLike, upper: ArrayLike, certificate: Coverage | NoCertificate | None = None
    ) -> PredictionSets:
        """One interval for each row; a row whose lower end is above its upper end, or NaN, is empty.

        Parameters
        ----------
        lower, upper
            Ends of the intervals.
        certificate
            Which coverage is guaranteed.
        """
        low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if low.ndim != 1 or low.shape != high.shape:
            raise InputError("lower", f"has shape {low.shape}, and upper {high.shape}", "pass one end for each row")
        kept = low <= high
        return cls(offsets_of(kept), low[kept], high[kept], certificate)

    @classmethod
    def from_pieces(
        cls,
        starts: NDArray[np.bool_],
        ends: NDArray[np.bool_],
        lower: Floats,
        upper: Floats,
        certificate: Coverage | NoCertificate | None = None,
    ) -> PredictionSets:
        """Read matrices with one line for each row: ``lower`` where ``starts``, and ``upper`` where ``ends``.

        Parameters
        ----------
        starts, ends
            Where intervals begin and end; as many of each in every line.
        lower, upper
            Values at these places.
        certificate
            Which coverage is guaranteed.
        """
        return cls(offsets_of(starts.sum(axis=1)), lower[starts], upper[ends], certificate)

    @classmethod
    def concatenate(cls, parts: list[PredictionSets], certificate: Coverage | NoCertificate | None) -> PredictionSets:
        """Rows of several sets, one after the other."""
        counts = np.concatenate([part.pieces for part in parts]) if parts else np.zeros(0, dtype=np.int64)
        lower = np.concatenate([part.lower for part in parts]) if parts else np.zeros(0)
        upper = np.concatenate([part.upper for part in parts]) if parts else np.zeros(0)
        return cls(offsets_of(counts), lower, upper, certificate)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, rows: Any) -> PredictionSets:
        """The sets of some rows: an index, a slice, a mask or a list of rows."""
        taken = np.atleast_1d(np.arange(len(self))[rows])
        counts = self.pieces[taken]
        first = np.repeat(self.offsets[taken] - (np.cumsum(counts) - counts), counts)
        places = np.arange(int(counts.sum())) + first
        return PredictionSets(offsets_of(counts), self.lower[places], self.upper[places], self.certificate)

    @property
    def pieces(self) -> NDArray[np.int64]:
        """Number of intervals of each row; 0 for an empty set."""
        return np.diff(self.offsets)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Whether the set of a row is empty."""
        return np.asarray(self.pieces == 0)

    @property
    def width(self) -> Floats:
        """Total length of the intervals of each row; infinite for an unbounded set."""
        rows = np.repeat(np.arange(len(self)), self.pieces)
        return np.bincount(rows, self.upper - self.lower, minlength=len(self)).astype(np.float64)

    @property
    def ends(self) -> Floats:
        """Lowest and highest value of each row, n x 2; NaN for an empty set."""
        held = ~self.empty
        found = np.full((len(self), 2), np.nan)
        found[held, 0] = self.lower[self.offsets[:-1][held]]
        found[held, 1] = self.upper[self.offsets[1:][held] - 1]
        return found

    @property
    def hull(self) -> PredictionSets:
        """The smallest interval that holds each set: never covers less, so the certificate stays."""
        ends = self.ends
        return PredictionSets.from_intervals(ends[:, 0], ends[:, 1], self.certificate)

    def covers(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether the set of each row holds the outcome of that row."""
        outcomes = read_floats(y, "y")
        check_length(outcomes, "y", len(self))
        refuse_missing(outcomes, "y", "drop these rows, and their sets with sets[rows]")
        rows = np.repeat(np.arange(len(self)), self.pieces)
        inside = (self.lower <= outcomes[rows]) & (outcomes[rows] <= self.upper)
        return np.bincount(rows, inside, minlength=len(self)) > 0

    def summary(self, y: ArrayLike) -> SetSummary:
        """Coverage and widths on rows with known outcomes."""
        covered, width = self.covers(y), self.width
        if not len(self):
            raise InputError("y", "is empty", "pass at least one row")
        return SetSummary(
            len(self),
            int(covered.sum()),
            float(np.mean(width)),
            float(np.median(width)),
            int(self.empty.sum()),
            int(np.isinf(width).sum()),
        )

    def to_array(self) -> Floats:
        """The intervals as an array n x k x 2, where k is the largest number in a row; NaN where a row has fewer."""
        counts = self.pieces
        found = np.full((len(self), int(counts.max(initial=0)), 2), np.nan)
        rows = np.repeat(np.arange(len(self)), counts)
        places = np.arange(rows.size) - self.offsets[rows]
        found[rows, places, 0], found[rows, places, 1] = self.lower, self.upper
        return found

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """One line for each interval: row, lower, upper; an empty set has no line."""
        import narwhals.stable.v2 as nw  # imported here because it is slow to load

        rows = np.repeat(np.arange(len(self)), self.pieces)
        columns = {"row": rows, "lower": self.lower, "upper": self.upper}
        return nw.from_dict(columns, backend=backend).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: the intervals of each row, and the certificate; an infinite end is None."""
        rows = [[[_end(low), _end(high)] for low, high in zip(*self._row(at), strict=True)] for at in range(len(self))]
        return {"sets": rows, "certificate": None if self.certificate is None else self.certificate.to_dict()}

    def _row(self, at: int) -> tuple[list[float], list[float]]:
        place = slice(self.offsets[at], self.offsets[at + 1])
        return self.lower[place].tolist(), self.upper[place].tolist()

    def _text(self, at: int) -> str:
        lower, upper = self._row(at)
        shown = [_interval(low, high) for low, high in zip(lower, upper, strict=True)]
        more = f" and {len(shown) - SHOWN_PIECES} more" if len(shown) > SHOWN_PIECES else ""
        return (", ".join(shown[:SHOWN_PIECES]) + more) or "no value"

    def __str__(self) -> str:
        """A sentence on the sets, the certificate, and the first rows."""
        n, empty = len(self), int(self.empty.sum())
        head = plural(n, "prediction set")
        if n:
            head += f", mean width {np.mean(self.width):.4g}"
        if empty:
            head += f", {count_text(empty)} of them empty"
        several = int((self.pieces > 1).sum())
        if several:
            head += f", {count_text(several)} with more than one interval"
        lines = [f"{head}."]
        if self.certificate is not None:
            lines.append(str(self.certificate))
        lines += [f"row {at}: {self._text(at)}" for at in range(min(n, SHOWN_ROWS))]
        if n > SHOWN_ROWS:
            lines.append(f"and {plural(n - SHOWN_ROWS, 'more row', 'more rows')}")
        return "\n  ".join(lines)


@dataclass(frozen=True)
class SetSummary(Shown):
    """Coverage and widths of prediction sets on rows with known outcomes.

    Attributes
    ----------
    rows, covered
        Number of rows, and of rows whose outcome is in the set.
    mean_width, median_width
        Of the sets; infinite if sets are unbounded.
    empty, unbounded
        Number of sets without a value, and of sets without an end.

    Notes
    -----
    Guarantee: no finite-sample guarantee; these are counts of one sample. Reference: Gupta (2023), (9.16) and (9.17).

    Examples
    --------
    >>> print(PredictionSets.from_intervals([1.0, 2.0], [3.0, 6.0]).summary([2.0, 7.0]))
    The sets cover 1 of 2 outcomes (50.0 %); mean width 3, median 3.
    """

    rows: int
    covered: int
    mean_width: float
    median_width: float
    empty: int = 0
    unbounded: int = 0

    @property
    def coverage(self) -> float:
        """Share of the outcomes that the sets hold."""
        return self.covered / self.rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; an infinite width is None."""
        widths = {"mean_width": _end(self.mean_width), "median_width": _end(self.median_width)}
        counts = {"rows": self.rows, "covered": self.covered, "empty": self.empty, "unbounded": self.unbounded}
        return counts | widths | {"coverage": self.coverage}

    def __str__(self) -> str:
        text = f"The sets cover {count_text(self.covered)} of {count_text(self.rows)} outcomes "
        text += f"({100 * self.coverage:.1f} %); mean width {self.mean_width:.4g}, median {self.median_width:.4g}"
        for count, what in ((self.empty, "empty"), (self.unbounded, "without an end")):
            if count:
                text += f"; {count_text(count)} of them {'is' if count == 1 else 'are'} {what}"
        return f"{text}."


def offsets_of(counts: ArrayLike) -> NDArray[np.int64]:
    """Where the intervals of each row begin, from their numbers.

    Examples
    --------
    >>> offsets_of([1, 0, 2]).tolist()
    [0, 1, 1, 3]
    """
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _end(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _interval(low: float, high: float) -> str:
    if np.isinf(low) and np.isinf(high):
        return "every value"
    if np.isinf(low):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if np.isinf(high) else f"{low:.4g} to {high:.4g}"
