"""Histogram binning: the calibrator with a finite-sample, distribution-free guarantee."""

from __future__ import annotations

import warnings
from itertools import pairwise
from numbers import Integral
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import CalibrantWarning, InputError
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.guarantees.certificates import Certificate, Mode, Refusal
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.planning import plan, split_size
from calibrant.maps import Map, StepMap
from calibrant.numerics import Floats, Ints
from calibrant.tallies import Counts, Tally

HEAVY_ROWS = 30
MAX_DEFAULT_BINS = 100

OWN_ROWS_SOURCE = "Gupta 2023, Theorem 4.1, given the edges"
FIXED_SOURCE = "Gupta 2023, section 3.4.1, bins fixed beforehand"
CHOSEN_BEFORE = "the bins were chosen before these rows were seen"
OTHER_ROWS = "the tally that chose the bins is independent of these rows"


class HistogramBinning(BinaryCalibrator):
    r"""Cut the scores into bins and give every bin the event rate seen in it.

    .. math:: m(s) = \hat\pi_b \quad\text{for } s \text{ in bin } b,\qquad
              \hat\pi_b = \frac{\text{events in } b}{\text{rows in } b}.

    Parameters
    ----------
    n_bins : int, optional
        Number of bins B. When neither this nor ``points_per_bin`` nor ``epsilon`` is given, about
        :math:`\sqrt n / 6.3`, the trend of the suggestions in 002 Figure 4.2 (5, 11, 22 at 1,000, 5,000, 20,000 rows),
        at most 100.
    points_per_bin : int, optional
        Choose B as n divided by this.
    epsilon, alpha : float
        Choose the largest B whose worst-case epsilon at confidence 1 - alpha (002 eq. 4.8, which depends on n only)
        is at most ``epsilon``.
    strategy : {"mass", "width"}
        Bins of about equal mass, or of equal width on [0, 1].
    bins_from : {"auto", "all", "part"} or Tally
        Which rows choose the edges of equal-mass bins.

        - ``"all"``: the calibration rows themselves (002 Algorithm 4.1). An edge is a calibration score; rows on it
          take no part in the rates. An edge value with at least max(30, n / 10B) rows, or two and as many as a bin,
          becomes a bin of its own; a lighter one falls to the bin on its right, and the certificate says that it is
          not covered. Needs every distinct score.
        - ``"part"``: a random part of the rows (``part_size``), drawn on the tally; rates come from the other rows
          (uniform-mass binning with sample splitting). Values with at least half a bin's share and 30 expected rows
          are bins of their own. Every score is covered.
        - a :class:`Tally`, such as yesterday's: its rows choose the edges and all of today's give the rates.
        - ``"auto"``: ``"all"`` for exact tallies, ``"part"`` for gridded ones.
    part_size : int or float, optional
        Rows, or share of the rows, that choose the edges under ``"part"``; by default :math:`n^{2/3} B^{1/3}`, see
        :func:`calibrant.guarantees.planning.split_size`.
    estimate : {"inner", "all"}
        ``"all"`` also averages in the rows on a bin's upper edge, as Zadrozny and Elkan (2001) did (002 Corollary 4.1).
    extremes : {"succession", "mean"}
        What a bin of n rows with no event, or nothing but events, puts out: (k + 1) / (n + 2), or the plain 0 or 1. The
        certificate is around the output either way.
    random_state : int
        Seed of the draw under ``"part"``.

    Attributes
    ----------
    bins_ : Bins
        Edges, outputs, rows and events by bin; intervals come with ``certificate(alpha)``.

    Notes
    -----
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included; see
    ``docs/certificates/``. Bins may come out in another order than the scores: pooling them would void the promise.
    Cost: one sort (exact) or one pass (grid), then O(cells).

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.random(2000)
    >>> y = rng.random(2000) < scores**2
    >>> cal = HistogramBinning(n_bins=5).fit(scores, y)
    >>> cal.transform([0.05, 0.5, 0.95]).round(3).tolist()
    [0.018, 0.223, 0.81]
    >>> print(cal.certificate(alpha=0.1))
    With confidence 90 %, in each of the 5 bins the true event rate differs from the calibrated probability by at most
    0.060 (clopper-pearson, 1,996 rows; Gupta 2023, Theorem 4.1, given the edges). Scores exactly on a bin edge
    (4 values) are not covered. It assumes that the rows are independent draws from the population that the map will
    serve.
    """

    _monotone: ClassVar[bool] = False

    def __init__(
        self,
        n_bins: int | None = None,
        *,
        points_per_bin: int | None = None,
        epsilon: float | None = None,
        alpha: float = 0.1,
        strategy: Literal["mass", "width"] = "mass",
        bins_from: Literal["auto", "all", "part"] | Tally = "auto",
        part_size: int | float | None = None,
        estimate: Literal["inner", "all"] = "inner",
        extremes: Literal["succession", "mean"] = "succession",
        random_state: int = 0,
    ) -> None:
        self.n_bins = n_bins
        self.points_per_bin = points_per_bin
        self.epsilon = epsilon
        self.alpha = alpha
        self.strategy = strategy
        self.bins_from = bins_from
        self.part_size = part_size
        self.estimate = estimate
        self.extremes = extremes
        self.random_state = random_state

    def _fit_map(self, tally: Tally) -> Map:
        self._check_parameters()
        self.bins_ = self._bins(tally)
        return StepMap(self.bins_.knots, self.bins_.outputs)

    def _certify(self, alpha: float, bound: str, mode: Mode) -> Certificate | Refusal:
        return issue(self.bins_, self.provenance_, alpha, bound, mode)

    # ---------------------------------------------------------------------------------------------- where bins end

    def _bins(self, tally: Tally) -> Bins:
        if tally.resolution == "bins":
            return self._fixed(tally, cast(Floats, tally.edges), "the table's own bins", CHOSEN_BEFORE)
        if self.strategy == "width":
            return self._fixed(tally, self._equal_widths(tally), "equal widths")
        if isinstance(self.bins_from, Tally):
            if self.bins_from.kind != tally.kind:
                raise InputError(f"bins_from holds {self.bins_from.kind} scores, but these are {tally.kind} scores")
            if self.bins_from is tally:
                raise InputError('bins_from holds the very rows that are fitted: leave it out, or use bins_from="part"')
            edges = _mass_edges(self.bins_from, self._count(self.bins_from), self.bins_from.total)
            return self._fixed(tally, edges, "equal masses of another tally", OTHER_ROWS)
        if not tally.counts:
            return self._fixed(tally, _mass_edges(tally, self._count(tally), np.inf), "equal weights")
        if self.bins_from == "part" or (self.bins_from == "auto" and tally.resolution == "grid"):
            return self._from_part(tally)
        if tally.resolution != "exact":
            raise InputError('bins_from="all" needs every distinct score: use an exact tally, or bins_from="part"')
        return self._from_own_rows(tally)

    def _equal_widths(self, tally: Tally) -> Floats:
        if tally.kind != "probability":
            raise InputError(f'strategy="width" cuts [0, 1] and needs probabilities, not {tally.kind} scores')
        count = self._count(tally)
        edges = np.arange(1, count) / count
        return edges if tally.grid is None else np.unique(tally.grid.lower_edges(tally.grid.codes(edges)))

    def _from_part(self, tally: Tally) -> Bins:
        total = int(tally.total)
        count = self._count(tally)
        size = self._part_rows(total, count)
        part, rest = tally.split(size, self.random_state)
        edges = _mass_edges(part, count, total)
        return self._fixed(rest, edges, f"equal masses of a random part of {size:,} rows")

    def _part_rows(self, total: int, count: int) -> int:
        if self.part_size is None:
            return split_size(total, count)
        size = int(self.part_size) if isinstance(self.part_size, Integral) else round(float(self.part_size) * total)
        if not 0 < size < total:
            raise InputError(
                f"part_size asks for {size} of {total} rows: leave some for the edges and some for the rates"
            )
        return size

    # ------------------------------------------------------------------------------------------ what bins put out

    def _fixed(self, tally: Tally, edges: Floats, rule: str, assumption: str = "") -> Bins:
        """Bins whose edges owe nothing to these rows: every row counts, every score is covered."""
        n, events = (cast(Ints, column) for column in tally.partition(edges))
        return Bins(
            edges, self._outputs(n, events), n, events, np.zeros(len(n), dtype=bool), rule, FIXED_SOURCE, assumption
        )

    def _from_own_rows(self, tally: Tally) -> Bins:
        """002 Algorithm 4.1, with heavy edge values as bins of their own; see docs/certificates/own-rows.md."""
        total, count = int(tally.total), self._count(tally)
        ranks = -(-np.arange(1, count) * (total + 1) // count)  # ceil(b (n + 1) / B)
        values, sizes = tally.cell_at(ranks)
        values, first = np.unique(values, return_index=True)
        heavy = sizes[first] >= max(min(max(HEAVY_ROWS, total / (10 * count)), total / count - 1), 2)
        regions = np.column_stack([values, np.nextafter(values, np.inf)]).ravel()
        n, events = tally.partition(regions)  # below the first value, on it, above it, on the second, ...
        return self._assemble(values, heavy, n, events)

    def _assemble(self, values: Floats, heavy: NDArray[np.bool_], n: Counts, events: Counts) -> Bins:
        """Bins from the regions below, on and above each edge value; a light one falls to the bin on its right."""
        used_n, used_events = n.copy(), events.copy()
        light = 2 * np.flatnonzero(~heavy) + 1
        if self.estimate == "all":  # the rows on a light upper edge join the mean of the bin below it
            used_n[light - 1] += n[light]
            used_events[light - 1] += events[light]
        lonely = light[used_n[light + 1] == 0]  # nothing above the edge value: it speaks for its bin, without a promise
        used_n[lonely + 1], used_events[lonely + 1] = n[lonely], events[lonely]
        above = np.nextafter(values, np.inf)
        apart = heavy & ~np.isin(above, values)  # no double lies between a heavy edge value and one right after it
        is_bin = np.ones(len(n), dtype=bool)
        is_bin[light] = False
        is_bin[2 * np.flatnonzero(heavy & ~apart) + 2] = False
        edge_open = np.zeros(len(n), dtype=bool)
        edge_open[light + 1] = True
        return Bins(
            np.sort(np.concatenate([values, above[apart]])),
            self._outputs(used_n[is_bin], used_events[is_bin]),
            cast(Ints, n[is_bin]),
            cast(Ints, events[is_bin]),
            edge_open[is_bin],
            "equal masses of the rows themselves",
            OWN_ROWS_SOURCE,
        )

    def _outputs(self, n: Counts, events: Counts) -> Floats:
        """Event rate by bin; bins without rows take the rate of their neighbours with rows, pooled."""
        n, events = n.astype(np.float64), events.astype(np.float64)
        filled = np.flatnonzero(n > 0)
        if len(filled) < len(n):
            left = filled[np.maximum(np.searchsorted(filled, np.arange(len(n)), side="right") - 1, 0)]
            right = filled[np.minimum(np.searchsorted(filled, np.arange(len(n)), side="left"), len(filled) - 1)]
            both = np.where(left == right, 0.5, 1.0)
            n, events = both * (n[left] + n[right]), both * (events[left] + events[right])
        rates = events / n
        extreme = (events == 0) | (events == n)
        return np.where(extreme, (events + 1) / (n + 2), rates) if self.extremes == "succession" else rates

    # ------------------------------------------------------------------------------------------------ how many bins

    def _count(self, tally: Tally) -> int:
        total = int(tally.effective_size)
        count = self._asked_for(total)
        most = max(total // 2, 1)
        if count > most:
            warnings.warn(
                f"{total} rows are too few for {count} bins: {most} are used (a certificate needs two rows a bin)",
                CalibrantWarning,
                stacklevel=2,
            )
        return min(count, most)

    def _asked_for(self, total: int) -> int:
        if self.n_bins is not None:
            return int(self.n_bins)
        if self.points_per_bin is not None:
            return max(total // int(self.points_per_bin), 1)
        if self.epsilon is not None:
            scheme: Literal["umd", "ums"] = "ums" if self.bins_from == "part" else "umd"
            return plan(n=total, epsilon=self.epsilon, alpha=self.alpha, scheme=scheme).n_bins
        return int(np.clip(np.sqrt(total) / 6.3, 1, MAX_DEFAULT_BINS))

    def _check_parameters(self) -> None:
        given = [name for name in ("n_bins", "points_per_bin", "epsilon") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} both choose the number of bins: give one of them")
        for name in ("n_bins", "points_per_bin"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not (name == "bins_from" and isinstance(value, Tally)) and value not in allowed:
                raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")

    def _describe(self) -> str:
        bins = self.bins_
        inverted = int((np.diff(bins.outputs[bins.n > 0]) < 0).sum())
        order = (
            ""
            if not inverted
            else f"; the outputs fall {inverted} time{'s' if inverted > 1 else ''} as the score rises"
        )
        return f"{len(bins.n)} bins from {bins.rule}, {int(bins.n.min()):,} to {int(bins.n.max()):,} rows each{order}"


_CHOICES: dict[str, tuple[str, ...]] = {
    "strategy": ("mass", "width"),
    "bins_from": ("auto", "all", "part"),
    "estimate": ("inner", "all"),
    "extremes": ("succession", "mean"),
}


def _mass_edges(tally: Tally, count: int, rows_to_come: float) -> Floats:
    """Inner edges of about ``count`` bins of equal mass between whole cells, heavy values in bins of their own."""
    n, edges = tally.n, tally.lower_edges
    if not len(n):
        return np.zeros(0)
    total = n.sum()
    share = n / total
    heavy = (share >= 0.5 / count) & (share * rows_to_come >= HEAVY_ROWS)
    after = np.append(edges[1:], np.inf)
    if tally.resolution == "exact":
        after = np.nextafter(edges, np.inf)
    cuts = [edges[heavy], after[heavy]]
    bounds = np.concatenate([[-1], np.flatnonzero(heavy), [len(n)]])
    for before, behind in pairwise(bounds.tolist()):
        piece = slice(before + 1, behind)
        mass = n[piece].sum()
        inside = max(round(count * mass / total), 1) if mass > 0 else 0
        if inside > 1:
            targets = mass * np.arange(1, inside) / inside
            cuts.append(edges[piece][np.searchsorted(np.cumsum(n[piece]), targets, side="right")])
    inner = np.unique(np.concatenate(cuts))
    return np.asarray(inner[(inner > edges[0]) & (inner <= edges[-1])])
