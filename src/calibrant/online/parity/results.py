"""Results of evaluating probabilities of a decrease: one result, a table, and the loss of decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import Drawn, InputError, Shown
from calibrant.notebook import table_block
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from calibrant.metrics import Estimate
    from calibrant.tallies import Tally

COLUMNS = ("QCE", "PCE", "(expected)", "Sharp", "Acc", "AUROC")


@dataclass(frozen=True)
class ParityResult(Drawn, Shown):
    """Evaluation of probabilities of a decrease (a value that falls or stays); prints as a table of one row.

    Attributes
    ----------
    name
        Name of the forecast.
    n_rows, n_bins
        Number of rows evaluated, and of equal-width bins.
    base_rate, tie_rate
        Share of rows whose value falls or stays, and share of rows whose value stays.
    qce
        Quantile calibration error of the base forecast; None for probabilities without quantiles.
    pce
        Parity calibration error; ``pce.null`` is the expected value for calibrated probabilities at this sample size.
    sharpness
        Sharpness, between the square of the base rate (uninformative bins) and the base rate.
    accuracy
        Accuracy of predicting a decrease if its probability is at least 1/2.
    auroc
        Area under the ROC curve.
    tally
        Probabilities and outcomes, for :class:`~calibrant.displays.ParityDisplay`.
    """

    name: str
    n_rows: int
    base_rate: float
    tie_rate: float
    n_bins: int
    qce: Estimate | None
    pce: Estimate
    sharpness: Estimate
    accuracy: Estimate
    auroc: Estimate
    tally: Tally = field(repr=False, compare=False)

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The columns of the table."""
        qce = None if self.qce is None else self.qce.value
        rest = (self.sharpness.value, self.accuracy.value, self.auroc.value)
        return (qce, self.pce.value, self.pce.null, *rest)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        rates = {"base_rate": self.base_rate, "tie_rate": self.tie_rate}
        facts = {"name": self.name, "n_rows": self.n_rows, **rates, "n_bins": self.n_bins}
        metrics = {"pce": self.pce, "sharpness": self.sharpness, "accuracy": self.accuracy, "auroc": self.auroc}
        known = metrics if self.qce is None else {"qce": self.qce, **metrics}
        return {**facts, **{key: metric.to_dict() for key, metric in known.items()}}

    def __str__(self) -> str:
        """A table of one row."""
        return str(ParityTable((self,)))

    def _repr_html_(self) -> str:
        """For notebooks: a table of one row."""
        return ParityTable((self,))._repr_html_()


@dataclass(frozen=True)
class ParityTable(Drawn, Shown):
    """Several results on the same rows, as in the tables of Gupta (2023), chapter 7; ``table["OPS"]`` is one of them.

    Attributes
    ----------
    results
        The :class:`ParityResult` objects, the base forecast first.

    Notes
    -----
    Columns: QCE, the quantile calibration error of the base forecast; PCE, the parity calibration error, the mean
    difference between the probability of a decrease and its observed frequency over bins; (expected), the PCE expected
    for calibrated probabilities; Sharp, sharpness, between the square of the base rate and the base rate; Acc and
    AUROC, accuracy and area under the ROC curve.
    """

    results: tuple[ParityResult, ...]

    def __getitem__(self, name: str) -> ParityResult:
        """The result of this name."""
        for result in self.results:
            if result.name == name:
                return result
        known = ", ".join(repr(result.name) for result in self.results)
        raise InputError("name", f"must be one of {known}, not {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"results": [result.to_dict() for result in self.results]}

    def __str__(self) -> str:
        """A header, and one line for each result."""
        wide = max(len(result.name) for result in self.results)
        widths = [max(len(column), 6) for column in COLUMNS]
        head = "  ".join(f"{column:>{width}}" for column, width in zip(COLUMNS, widths, strict=True))
        lines = [self._headline(), f"{'':{wide}}  {head}"]
        for name, *texts in self._rows():
            row = "  ".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))
            lines.append(f"{name:{wide}}  {row}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: the same table."""
        return table_block(("", *COLUMNS), self._rows(), title=self._headline())

    def _headline(self) -> str:
        first = self.results[0]
        rates = falls_or_stays(first.base_rate, first.tie_rate)
        return f"{first.n_rows:,} rows, {rates}, {first.n_bins} bins"

    def _rows(self) -> list[list[str]]:
        """Name and numbers of each result, as text."""
        return [[each.name, *("-" if x is None else f"{x:.4f}" for x in each.numbers)] for each in self.results]


@dataclass(frozen=True, eq=False)
class DecisionResult(Shown):
    """Actions chosen in every row, and their losses.

    Attributes
    ----------
    actions
        Names of the actions.
    taken
        Index of the action in each row.
    losses
        Loss in each row.
    """

    actions: tuple[Any, ...]
    taken: NDArray[np.intp]
    losses: Floats

    @property
    def total(self) -> float:
        """Total loss."""
        return float(self.losses.sum())

    @property
    def cumulative(self) -> Floats:
        """Cumulative loss."""
        return np.cumsum(self.losses)

    @property
    def shares(self) -> dict[Any, float]:
        """Share of rows in which each action was chosen."""
        counts = np.bincount(self.taken, minlength=len(self.actions)) / len(self.taken)
        return dict(zip(self.actions, counts.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        shares = [{"action": action, "share": share} for action, share in self.shares.items()]
        return {"n_rows": len(self.losses), "total": self.total, "shares": shares}

    def __str__(self) -> str:
        """One sentence."""
        shares = ", ".join(f"{action} {100.0 * share:.1f} %" for action, share in self.shares.items())
        return f"Total loss {self.total:,.1f} over {len(self.losses):,} rows (actions: {shares})."


def falls_or_stays(base_rate: float, tie_rate: float) -> str:
    """Shares of decreases and of ties, in words."""
    ties = f" ({100.0 * tie_rate:.1f} % stay)" if tie_rate else ""
    return f"{100.0 * base_rate:.1f} % fall or stay{ties}"
