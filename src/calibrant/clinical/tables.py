"""Tables of results: rows as plain data, as a frame, as text and as HTML."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

from calibrant.metrics.estimates import Estimate, Result


class Table(Result):
    """Base class of results that are a table: ``rows`` is its data, and ``to_frame`` makes a data frame of it."""

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """One dict per line of the table."""

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """The table as a data frame.

        Parameters
        ----------
        backend
            Library of the frame: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.

        Returns
        -------
        frame
            One line per measure or cluster.
        """
        import narwhals.stable.v2 as nw  # imported here because it is slow to load

        rows = self.rows
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(columns, backend=backend).to_native()


def row_of(estimate: Estimate, ideal: float | None = None, **more: Any) -> dict[str, Any]:
    """An estimate as a line of a table; what is unknown is NaN."""
    ends = {name: _number(getattr(estimate, name)) for name in ("value", "se", "low", "high")}
    return {"measure": estimate.name, **ends, "ideal": _number(ideal), **more}


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def number(value: float | None, digits: int = 3) -> str:
    """A number as text; a dash if it is not known.

    Examples
    --------
    >>> number(0.12345), number(None), number(float("nan")), number(float("inf"))
    ('0.123', '-', '-', 'inf')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def interval_text(low: float | None, high: float | None, digits: int = 3) -> str:
    """Ends of an interval as text; a dash without them.

    Examples
    --------
    >>> interval_text(0.5, 1.25), interval_text(None, None)
    ('0.500 to 1.250', '-')
    """
    ends = (number(low, digits), number(high, digits))
    return "-" if ends == ("-", "-") else f"{ends[0]} to {ends[1]}"
