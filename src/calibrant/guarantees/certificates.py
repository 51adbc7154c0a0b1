"""Certificates: what is promised about a binned map, how surely, under which assumptions, by which theorem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError, Kind, check_rows
from calibrant.numerics import Floats, Guide, Ints

Mode = Literal["simultaneous", "marginal"]
Flags = NDArray[np.bool_]

IMPOSSIBLE = (
    "no distribution-free guarantee is possible for an injective map, however many rows it is fitted on "
    "(Gupta 2023, Theorem 3.3): use HistogramBinning if you need a certificate"
)


@dataclass(frozen=True)
class Refusal:
    """Why no certificate is issued; false in a condition, a sentence when printed.

    Examples
    --------
    >>> print(Refusal("the rows are grouped"))
    No certificate: the rows are grouped.
    """

    reason: str

    def __bool__(self) -> bool:
        """A refusal is no certificate."""
        return False

    def __str__(self) -> str:
        """One sentence."""
        return f"No certificate: {self.reason}."


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""A promise about the true event rates of a map's bins.

    Simultaneous: with probability at least :math:`1 - \alpha` over the calibration data,
    :math:`|\mathbb{E}[Y \mid X \in \text{bin } b] - \text{output}_b| \le \epsilon_b` for every promised bin b.
    Marginal: for one new row, the same of the bin it falls in, with probability at least :math:`1 - \alpha` over the
    calibration data and that row. The claim is on the bin, not on the output, so equal outputs are no difficulty.

    Attributes
    ----------
    epsilon
        Largest :math:`\epsilon_b` over the promised bins.
    lower, upper
        Interval for each bin's true event rate; [0, 1] where nothing is promised.
    promised
        Bins that held at least one row.
    edge_open
        Bins whose lowest score, the edge itself, is not covered.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: str
    kind: Kind
    n: int
    knots: Floats
    outputs: Floats
    lower: Floats
    upper: Floats
    rows: Ints
    events: Ints
    edge_open: Flags
    rule: str
    assumptions: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse numbers that do not describe bins; a document may hold anything."""
        bins = len(self.outputs)
        columns = (self.lower, self.upper, self.rows, self.events, self.edge_open)
        if len(self.knots) != bins - 1 or any(len(column) != bins for column in columns):
            raise ValueError(f"a certificate of {bins} bins needs {bins - 1} knots and {bins} entries in every column")
        if not (0.0 < self.alpha < 1.0 and 0.0 <= self.epsilon <= 1.0):
            raise ValueError("alpha and epsilon must lie between 0 and 1")
        if (self.rows < 0).any() or (self.events < 0).any() or (self.events > self.rows).any():
            raise ValueError("events must lie between 0 and the rows of their bin")

    @property
    def promised(self) -> Flags:
        """Bins that the certificate speaks about."""
        return self.rows > 0

    @property
    def half_widths(self) -> Floats:
        r""":math:`\epsilon_b = \max(\text{output} - \text{lower}, \text{upper} - \text{output})` by bin."""
        return np.maximum(self.outputs - self.lower, self.upper - self.outputs)

    def __str__(self) -> str:
        """The promise in one sentence, what it leaves out, and what it rests on."""
        bins = int(self.promised.sum())
        which = f"in each of the {bins} bins" if bins > 1 else "in the one bin"
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.mode == "marginal":
            head = f"For a new row, with probability at least {percent}, the true event rate of its bin"
        else:
            head = f"With confidence {percent}, {which} the true event rate"
        text = (
            f"{head} differs from the calibrated probability by at most {_round_up(self.epsilon)} "
            f"({self.bound}, {self.n:,} rows; {self.source})."
        )
        if not self.promised.all():
            text += f" Nothing is promised where no row fell ({_count(len(self.rows) - bins, 'bin')})."
        edges = int(self.edge_open.sum())
        if edges:
            text += f" Scores exactly on a bin edge ({_count(edges, 'value')}) are not covered."
        return text + " It assumes that " + "; ".join(self.assumptions) + "."

    def check(self, scores: ArrayLike, y: ArrayLike, *, level: float = 0.01, positive: Any = None) -> CertificateCheck:
        """Hold the promise against fresh rows that played no part in the fit.

        Each promised bin is tested for a true rate inside its interval by exact binomial tails, at ``level`` divided by
        the number of bins; a promise that holds is called broken with probability at most ``level``.
        """
        if self.mode == "marginal":
            raise InputError("a marginal certificate speaks of one new row: ask for mode='simultaneous' to check bins")
        from scipy import stats

        rows = check_rows(scores, y, positive=positive, kind=self.kind)
        index = Guide(self.knots).locate(rows.scores)
        on_edge = np.isin(rows.scores, self.knots[self.edge_open[1:]])
        index, labels = index[~on_edge], rows.labels[~on_edge]
        n = np.bincount(index, minlength=len(self.rows))
        events = np.bincount(index[labels == 1], minlength=len(self.rows))
        low = np.where(self.lower > 0, stats.binom.cdf(events, n, self.lower), 1.0)
        high = np.where(self.upper < 1, stats.binom.sf(events - 1, n, self.upper), 1.0)
        p_values = np.where(self.promised & (n > 0), np.minimum(2.0 * np.minimum(low, high), 1.0), 1.0)
        broken = p_values < level / max(int(self.promised.sum()), 1)
        return CertificateCheck(not broken.any(), int(n.sum()), np.flatnonzero(broken), p_values, n, events, self)


@dataclass(frozen=True, eq=False)
class CertificateCheck:
    """Result of holding a certificate against fresh rows; true in a condition when nothing contradicts it."""

    holds: bool
    n: int
    broken: Ints
    p_values: Floats
    rows: Ints
    events: Ints
    certificate: Certificate

    def __bool__(self) -> bool:
        """Whether the promise stands."""
        return self.holds

    def __str__(self) -> str:
        """The verdict, with the worst bin when the promise is contradicted."""
        if self.holds:
            return f"{self.n:,} fresh rows do not contradict the certificate."
        worst = int(np.argmin(self.p_values))
        promise = self.certificate
        return (
            f"Contradicted in {len(self.broken)} of {int(promise.promised.sum())} bins; the worst, bin {worst}, was "
            f"promised a rate between {promise.lower[worst]:.4g} and {promise.upper[worst]:.4g} and shows "
            f"{self.events[worst]:,} events in {self.rows[worst]:,} fresh rows (p = {self.p_values[worst]:.2g})."
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _round_up(x: float) -> str:
    """Three decimals, never below the number itself: a promise is not rounded in the promiser's favour."""
    return f"{np.ceil(x * 1000 - 1e-9) / 1000:.3f}"
