"""Certificates: what is promised about a binned map, how surely, under which assumptions, by which theorem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import InputError, Kind, check_rows
from calibrant.guarantees.provenance import Provenance
from calibrant.numerics import Floats, Guide, Ints

Mode = Literal["simultaneous", "marginal"]
Bound = Literal["clopper-pearson", "hoeffding", "bernstein", "always-valid"]
Flags = NDArray[np.bool_]

UNEVEN = 1.5
"""Ratio of the widest bin to the median one from which on a certificate prints both."""

MUCH_UNCOVERED = 0.05
"""Share of rows on uncovered edges from which on a certificate says how to do better."""

IMPOSSIBLE = (
    "no distribution-free guarantee is possible for an injective map, however many rows it is fitted on "
    "(Gupta 2023, Theorem 3.3): use HistogramBinning if you need a certificate"
)


def union_of(mode: Mode, bound: Bound, promised: Flags) -> int:
    """How many intervals share alpha: all promised ones, or the one of a new row.

    Bins that are empty now may fill later, which counts where one may look at any time.
    """
    if mode == "marginal":
        return 1
    return len(promised) if bound == "always-valid" else int(promised.sum())


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

    def __call__(self, alpha: float | None = None, *, bound: Bound | None = None, mode: Mode | None = None) -> Refusal:
        """The refusal itself, so that ``certificate()`` reads alike on a calibrator and on what was loaded."""
        return self

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
        Bins with rows that speak for them.
    uncovered
        Bins that are an edge chosen by the rows, with too few rows on it to be promised anything.
    share, look
        Share of alpha that the intervals spend, where the number of bins was chosen by their labels; the rest pays for
        the numbers that were not chosen and for other looks. How often the guarantee was asked for on growing rows.
    odds
        Weight of an event relative to a negative row, where rows were sampled by class. ``rows`` and ``events`` count
        the rows as sampled; outputs and intervals are of the population that the weights restore.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound
    kind: Kind
    n: int
    knots: Floats
    outputs: Floats
    lower: Floats
    upper: Floats
    rows: Ints
    events: Ints
    uncovered: Flags
    uncovered_rows: int
    rule: str
    assumptions: tuple[str, ...]
    source: str
    share: float = field(default=1.0, metadata={"optional": True})
    look: int = field(default=1, metadata={"optional": True})
    odds: float = field(default=1.0, metadata={"optional": True})

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other; a document may hold anything."""
        bins = len(self.outputs)
        columns = (self.lower, self.upper, self.rows, self.events, self.uncovered)
        if len(self.knots) != bins - 1 or any(len(column) != bins for column in columns):
            raise ValueError(f"a certificate of {bins} bins needs {bins - 1} knots and {bins} entries in every column")
        if self.mode not in get_args(Mode) or self.bound not in get_args(Bound):
            raise ValueError(f"mode {self.mode!r} or bound {self.bound!r} is not known")
        if not (np.isfinite(self.knots).all() and (self.knots[1:] > self.knots[:-1]).all()):
            raise ValueError("knots must be finite and strictly increasing")
        ordered = (self.lower >= 0.0) & (self.lower <= self.upper) & (self.upper <= 1.0)
        if not (ordered & (self.outputs >= 0.0) & (self.outputs <= 1.0)).all():
            raise ValueError("outputs and intervals must lie in [0, 1], and intervals not be turned around")
        if (self.events < 0).any() or (self.events > self.rows).any() or (self.uncovered & (self.rows > 0)).any():
            raise ValueError("events must lie between 0 and the rows of their bin, and uncovered bins have no rows")
        if (
            not self.promised.any()
            or self.n != self.rows.sum()
            or self.epsilon != self.half_widths[self.promised].max()
        ):
            raise ValueError("n and epsilon must be those of the promised bins")
        if not 0.0 < self.alpha < 1.0 or self.uncovered_rows < 0:
            raise ValueError("alpha must lie between 0 and 1, and uncovered_rows not below 0")
        if not 0.0 < self.share <= 1.0 or self.look < 1:
            raise ValueError("share must lie above 0 and up to 1, and look be at least 1")
        if not (self.odds > 0.0 and np.isfinite(self.odds)):
            raise ValueError("odds must be above 0 and finite")

    @property
    def promised(self) -> Flags:
        """Bins that the certificate speaks about."""
        return self.rows > 0

    @property
    def half_widths(self) -> Floats:
        r""":math:`\epsilon_b = \max(\text{output} - \text{lower}, \text{upper} - \text{output})` by bin."""
        return np.maximum(self.outputs - self.lower, self.upper - self.outputs)

    def rests_on(self, provenance: Provenance) -> bool:
        """Whether such rows can carry the promise: independent and counted, and enough of them with either label."""
        events, rows = int(self.events.sum()), self.n + self.uncovered_rows
        counted = provenance.weights == "by-class" or (provenance.weights == "counts" and self.odds == 1.0)
        gone_through = counted and provenance.sampling == "independent"  # as issuing.gate asks
        others = provenance.n - provenance.events
        return gone_through and rows <= provenance.n and events <= provenance.events and self.n - events <= others

    def __call__(
        self, alpha: float | None = None, *, bound: Bound | None = None, mode: Mode | None = None
    ) -> Certificate:
        """The certificate itself, so that ``certificate()`` reads alike on a calibrator and on what was loaded.

        Another ``alpha``, bound or mode is refused: a stored promise cannot be made anew without its rows.
        """
        asked = {"alpha": alpha, "bound": bound, "mode": mode}
        for name, value in asked.items():
            if value is not None and value != getattr(self, name):
                raise InputError(
                    f"the stored certificate has {name}={getattr(self, name)!r}: ask the calibrator for another one "
                    "before it is saved"
                )
        return self

    def __str__(self) -> str:
        """The promise in one sentence; then what it rests on, what it leaves out and what it assumes."""
        bins = int(self.promised.sum())
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.mode == "marginal":
            head = f"For a new row, with probability at least {percent}, the true event rate of its bin"
        else:
            where = f"in each of the {bins:,} bins" if bins > 1 else "in the one bin"
            head = f"With confidence {percent}, {where} the true event rate"
        lines = [
            f"{head} differs from the calibrated probability by at most {_round_up(self.epsilon)}.",
            f"  Basis: {_count(self.n, 'row')}, {self.bound} intervals; {self.source}.",
        ]
        if self.odds != 1.0:
            lines.append(
                f"  Population: the one that the class weights restore, where an event counts {self.odds:.6g} times as "
                "much as a negative row; not the rows as sampled."
            )
        if self.share < 1.0:
            lines.append(
                f"  Alpha: these bins spend {100 * self.share:.3g} % of it; the rest pays for the choice of the number "
                "of bins and for further looks."
            )
        widths = self.half_widths[self.promised]
        if self.epsilon > UNEVEN * np.median(widths):
            half = _round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            lines.append(f"  By bin: {(len(widths) + 1) // 2} of the {len(widths)} hold within {half}.")
        edges = int(self.uncovered.sum())
        if edges:
            share = f"{self.uncovered_rows:,} of {self.n + self.uncovered_rows:,} rows"
            lines.append(f"  Not covered: scores on a bin edge ({_count(edges, 'edge')}, {share}).")
            if self.uncovered_rows > MUCH_UNCOVERED * self.n:
                lines[-1] += ' Use bins_from="part" or fewer bins to cover them.'
        empty = len(self.rows) - bins - edges
        if empty:
            lines.append(f"  Not covered: {_count(empty, 'bin')} without a row.")
        return "\n".join([*lines, "  Assumes: " + "; ".join(self.assumptions) + "."])

    def check(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        level: float = 0.01,
        by_bin: bool = False,
        positive: Any = None,
    ) -> CertificateCheck:
        """Hold the promise against fresh rows that played no part in the fit.

        Each promised bin is tested, by exact binomial tails and at ``level`` divided by the number of bins, for a true
        rate within epsilon of its output, or, with ``by_bin``, inside its own interval, which is often narrower. A
        promise that holds is called broken with probability at most ``level``.
        """
        if self.mode == "marginal":
            raise InputError("a marginal certificate speaks of one new row: ask for mode='simultaneous' to check bins")
        rows = check_rows(scores, y, positive=positive, kind=self.kind)
        index = Guide(self.knots).locate(rows.scores)
        n = np.bincount(index, minlength=len(self.rows))
        events = np.bincount(index[rows.labels == 1], minlength=len(self.rows))
        return self.check_counts(n, events, level=level, by_bin=by_bin)

    def check_counts(self, n: Ints, events: Ints, *, level: float = 0.01, by_bin: bool = False) -> CertificateCheck:
        """The same, from the fresh rows and events in each bin."""
        n, events = n * self.promised, events * self.promised
        lower = self.lower if by_bin else np.maximum(self.outputs - self.epsilon, 0.0)
        upper = self.upper if by_bin else np.minimum(self.outputs + self.epsilon, 1.0)
        needed = level / int(self.promised.sum())
        p_values = _outside_p_values(events, n, lower, upper)
        best = np.minimum(_outside_p_values(0 * n, n, lower, upper), _outside_p_values(n, n, lower, upper))
        return CertificateCheck(
            holds=not (p_values < needed).any(),
            telling=bool((best < needed).any()),
            n=int(n.sum()),
            p_values=p_values,
            rows=n,
            events=events,
            lower=lower,
            upper=upper,
            broken=np.flatnonzero(p_values < needed),
        )


@dataclass(frozen=True, eq=False)
class CertificateCheck:
    """Result of holding a certificate against fresh rows; true in a condition when nothing contradicts it.

    ``telling`` is False when no outcome of so few rows could have contradicted the promise.
    """

    holds: bool
    telling: bool
    n: int
    p_values: Floats
    rows: Ints
    events: Ints
    lower: Floats
    upper: Floats
    broken: Ints

    def __bool__(self) -> bool:
        """Whether the promise stands."""
        return self.holds

    def __str__(self) -> str:
        """The verdict, with the worst bin when the promise is contradicted."""
        if not self.telling:
            return f"{_count(self.n, 'fresh row')}: too few to contradict the certificate, whatever they had shown."
        if self.holds:
            return f"{_count(self.n, 'fresh row')}: no contradiction to the certificate."
        worst = int(np.argmin(self.p_values))
        return (
            f"{_count(self.n, 'fresh row')}: contradicted in {_count(len(self.broken), 'bin')}; the worst, bin {worst},"
            f" promised a rate between {self.lower[worst]:.4g} and {self.upper[worst]:.4g}, shows "
            f"{self.events[worst]:,} events in {self.rows[worst]:,} rows (p = {self.p_values[worst]:.2g})."
        )


def _outside_p_values(events: Ints, n: Ints, lower: Floats, upper: Floats) -> Floats:
    """Two-sided exact p-value, by bin, of the claim that the true rate lies in [lower, upper]."""
    from scipy import stats

    low = np.where(lower > 0, stats.binom.cdf(events, n, lower), 1.0)
    high = np.where(upper < 1, stats.binom.sf(events - 1, n, upper), 1.0)
    return np.where(n > 0, np.minimum(2.0 * np.minimum(low, high), 1.0), 1.0)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _round_up(x: float) -> str:
    """Three decimals, rounded up: a promise is not rounded in the promiser's favour."""
    return f"{np.ceil(x * 1000) / 1000:.3f}"
