"""Histogram binning, a calibrator with a finite-sample, distribution-free guarantee."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_option
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.bins import (
    ROUNDING,
    check_bins,
    counted,
    default_bins,
    mass_edges,
    own_row_bins,
    parted,
    weighted,
    width_edges,
)
from calibrant.fits.ranking import Ranking
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.origins import FIXED_BINS, Assumption, BinRule
from calibrant.guarantees.overlap import common_rows
from calibrant.guarantees.planning import Scheme, plan, split_size
from calibrant.guarantees.provenance import Sampling
from calibrant.guarantees.seeds import seed_refusal
from calibrant.maps import Map
from calibrant.messages import Argument, InputError, Phrase, Setting, Voice, count_text, note, plural, warn
from calibrant.numerics import Floats
from calibrant.tallies import Tally


@note("fewer-bins")
def fewer_bins(voice: Voice, rows: int, asked: int, bins: int) -> str:
    """Note on more bins than the rows can fill."""
    noun = voice.nouns.rows
    return f"{rows} {noun} are too few for {asked} bins: {bins} are used (a certificate needs two {noun} per bin)"


known_ratio = note(
    "known-ratio", "the map and its certificate refer to the target population; counts refer to the source {nouns.rows}"
)


@dataclass(eq=False, repr=False)
class HistogramBinning(BinaryCalibrator):
    r"""Cut the scores into bins and output the event rate of each bin.

    .. math:: m(s) = \hat\pi_b \quad\text{for } s \text{ in bin } b,\qquad
              \hat\pi_b = \frac{\text{events in } b}{\text{rows in } b}.

    Parameters
    ----------
    n_bins : int, optional
        Number of bins B. If neither this nor ``points_per_bin`` nor ``epsilon`` is given, about :math:`\sqrt n / 6.3`,
        at most 100: the trend of the suggestions in Gupta (2023), Figure 4.2 (5, 11, 22 at 1,000, 5,000, 20,000 rows).
    points_per_bin : int, optional
        Choose B as n divided by this.
    epsilon, alpha : float
        Choose the largest B whose worst-case epsilon at confidence level 1 - alpha is at most ``epsilon``
        (Gupta 2023, eq. 4.8, which depends on n only).
    strategy : {"mass", "width"}
        Bins of about equal mass, or of equal width on [0, 1].
    bins_from : {"all", "split"} or Tally
        Which rows define the edges of equal-mass bins.

        - ``"all"``: the calibration rows themselves (Gupta 2023, Algorithm 4.1). An edge is the score, or the grid
          cell, of a row; rows on an edge do not count in the rates on either side. An edge with at least max(30,
          n / 10B) rows, or half as many as a bin (and two), becomes a separate bin. A lighter edge gets the output of
          the bin above it, or its own rate if that bin has no rows, and the certificate says that it is not covered.
        - ``"split"``: a random split of the rows (``split_size``); rates come from the other rows (uniform-mass binning
          with sample splitting). Tied values with at least half a bin's share and 30 expected rows are separate bins.
          Every score is covered.
        - a :class:`Tally`, such as yesterday's: its rows define the edges and all rows of today give the rates.
    split_size : int or float, optional
        Rows, or share of the rows, that define the edges under ``"split"``; by default :math:`n^{2/3} B^{1/3}`, see
        :func:`calibrant.guarantees.planning.split_size`.
    estimate : {"inner", "all"}
        ``"all"`` also averages in the rows on a bin's upper edge, as in Zadrozny and Elkan (2001); see Gupta (2023),
        Corollary 4.1.
    extremes : {"succession", "mean"}
        Output of a bin of n rows with no event, or only events: (k + 1) / (n + 2), or exactly 0 or 1. The certificate
        is around the output either way.
    random_state : int, optional
        Seed of the draw under ``"split"``; by default a new draw at every fit. The confidence level of a certificate
        averages over the draw, so the seed must not be picked by its result. With few distinct scores, a seeded fit
        has no certificate (:mod:`calibrant.guarantees.seeds`).

    Attributes
    ----------
    bins_ : Bins
        Edges, outputs, rows and events by bin; intervals come with ``certificate(alpha)``.

    Notes
    -----
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included; see
    ``docs/certificates/``. Outputs may decrease from one bin to the next: pooling such bins would void the guarantee.
    Weights made by :func:`calibrant.shift.known_weights` give bins of the source rows, with outputs and a certificate
    for the target population (``interval="betting"``, or ``"weighted-hoeffding"``).
    With ``interval="always-valid"`` pass ``n_bins``: a number of bins that depends on the rows changes as they arrive.
    Cost: one sort (exact) or one pass (grid), then O(cells).
    Reference: Gupta (2023), Theorem 4.1 and section 3.4.1; Zadrozny and Elkan (2001).

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
    0.060.
      Basis: 1,996 rows, clopper-pearson intervals; Gupta 2023, Theorem 4.1, given the edges.
      Not covered: scores on a bin edge (4 edges, 4 of 2,000 rows).
      Assumes: the rows are independent draws from the population that the map will be applied to, and were not used to
    train or tune the model; no argument of the fit was chosen using their labels.
    """

    _monotone: ClassVar[bool] = False
    _restores: ClassVar[bool] = True
    bins_: Bins = field(init=False)

    n_bins: int | None = None
    _: KW_ONLY
    points_per_bin: int | None = None
    epsilon: float | None = None
    alpha: float = 0.1
    strategy: Literal["mass", "width"] = "mass"
    bins_from: Literal["all", "split"] | Tally = "all"
    split_size: int | float | None = None
    estimate: Literal["inner", "all"] = "inner"
    extremes: Literal["succession", "mean"] = "succession"
    random_state: int | None = None

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        self._check_parameters(tally)
        bins = self._bins(tally)
        return Fit(bins.to_map(), found={"bins_": bins})

    def _fit_score_rows(self, rows: Rows, sampling: Sampling, *, by_class: bool) -> Self:
        if by_class or rows.ratio is None or not rows.ratio.known:
            return super()._fit_score_rows(rows, sampling, by_class=by_class)
        if self.bins_from == "split":
            raise InputError(
                Setting("bins_from", "split"),
                "is not supported for a known density ratio",
                "leave it out, or pass a tally of other rows",
            )
        source = Tally.from_rows(replace(rows, weights=None, counts=True))
        super()._fit_tally(source, sampling, (*rows.notes, known_ratio()))
        self.bins_ = weighted(self.bins_, rows, succession=self.extremes == "succession")
        self.map_ = self.bins_.to_map()
        self.ranking_ = Ranking.of(self.map_, source)
        self.provenance_ = replace(self.provenance_, weight_type="known-ratio")
        return self

    def _restored(self) -> Map:
        self.bins_ = replace(self.bins_, odds=self._odds)
        return self.bins_.to_map()

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return issue(self.bins_, self.provenance_, alpha, interval, coverage)

    # ---------------------------------------------------------------------------------------------- where bins end

    def _bins(self, tally: Tally) -> Bins:
        if tally.edges is not None:
            return self._fixed(tally, tally.edges, BinRule.TABLE, Assumption.BINS_BEFORE)
        count = self._count(tally)
        if self.strategy == "width":
            return self._fixed(tally, width_edges(tally, count), BinRule.WIDTHS, fixed=count == self.n_bins)
        if isinstance(self.bins_from, Tally):
            return self._from_another(tally, self.bins_from, count)
        if not tally.counts:
            return self._fixed(tally, mass_edges(tally, count, np.inf), BinRule.WEIGHTS)
        return self._from_part(tally, count) if self.bins_from == "split" else self._from_own_rows(tally, count)

    def _fixed(
        self,
        tally: Tally,
        edges: Floats,
        rule: BinRule,
        assumption: Assumption | None = None,
        *,
        fixed: bool = True,
        refusal: NoCertificate | None = None,
    ) -> Bins:
        kept = self.extremes == "succession"
        return counted(tally, edges, rule, FIXED_BINS, assumption, fixed=fixed, succession=kept, refusal=refusal)

    def _from_another(self, tally: Tally, other: Tally, count: int) -> Bins:
        edges = mass_edges(other, count, tally.total)
        stays = count == self.n_bins and np.array_equal(edges, mass_edges(other, count, np.inf))
        rule, refusal = BinRule.OTHER_MASSES, _refuse_common_rows(tally, other)
        return self._fixed(tally, edges, rule, Assumption.OTHER_ROWS, fixed=stays, refusal=refusal)

    def _from_part(self, tally: Tally, count: int) -> Bins:
        if self.split_size is None:
            part, rest = tally.split(split_size(int(tally.total), count), self.random_state)
        else:
            part, rest = parted(tally, self.split_size, self.random_state)
        edges, refusal = mass_edges(part, count, float(rest.total)), seed_refusal(tally, self.random_state)
        made = self._fixed(rest, edges, BinRule.PART_MASSES, Assumption.ONE_DRAW, fixed=False, refusal=refusal)
        return replace(made, part_rows=int(part.total))

    def _from_own_rows(self, tally: Tally, count: int) -> Bins:
        kept = self.extremes == "succession"
        return own_row_bins(tally, count, succession=kept, edge_rows=self.estimate == "all")

    # ------------------------------------------------------------------------------------------------ how many bins

    def _count(self, tally: Tally) -> int:
        total = int(tally.effective_size * (1.0 + ROUNDING))
        count, most = self._asked_for(total), max(total // 2, 1)
        if count > most:
            warn(fewer_bins(total, count, most))
        return min(count, most)

    def _asked_for(self, total: int) -> int:
        if self.n_bins is not None:
            return int(self.n_bins)
        if self.points_per_bin is not None:
            return max(total // int(self.points_per_bin), 1)
        if self.epsilon is not None:
            scheme: Scheme = (
                "ums" if self.bins_from == "split" else "umd" if self.estimate == "inner" else "umd-original"
            )
            return plan(n=total, epsilon=self.epsilon, alpha=self.alpha, scheme=scheme).n_bins
        return default_bins(total)

    def _check_parameters(self, tally: Tally) -> None:
        for name, allowed in _CHOICES.items():
            if not (name == "bins_from" and isinstance(self.bins_from, Tally)):
                check_option(name, getattr(self, name), allowed)
        given = [name for name in ("n_bins", "points_per_bin", "epsilon") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(
                given[0],
                Phrase("and {other} both set the number of bins", other=Argument(given[1])),
                "pass one of them",
            )
        for name in ("n_bins", "points_per_bin"):
            if getattr(self, name) is not None:
                check_bins(getattr(self, name), name)
        if given and tally.edges is not None:
            raise InputError(given[0], "has no effect on a tally that already has bins", "leave it out")
        if self.strategy == "width" and self.bins_from != "all":
            raise InputError(
                Setting("strategy", "width"),
                "does not use rows to define bins",
                Phrase("leave {bins_from} out", bins_from=Argument("bins_from")),
            )
        if self.split_size is not None and self.bins_from != "split":
            raise InputError(
                "split_size",
                "is the size of the split that defines the bins",
                Phrase("pass {part}, or leave it out", part=Setting("bins_from", "split")),
            )
        if self.epsilon is not None and (self.strategy == "width" or isinstance(self.bins_from, Tally)):
            raise InputError(
                "epsilon",
                "is only supported for bins that these rows define",
                Phrase("pass {n_bins}", n_bins=Argument("n_bins")),
            )
        if isinstance(self.bins_from, Tally):
            _check_other(self.bins_from, tally)

    def _describe(self, voice: Voice) -> str:
        bins = self.bins_
        rows = bins.n[bins.n > 0]
        spread = (
            f"{count_text(rows.min())}"
            if rows.min() == rows.max()
            else f"{count_text(rows.min())} to {count_text(rows.max())}"
        )
        inverted = int((np.diff(bins.outputs[bins.n > 0]) < 0).sum())
        order = (
            ""
            if not inverted
            else f"; outputs decrease {'once' if inverted == 1 else f'{inverted} times'} as the score increases"
        )
        return f"{plural(len(rows), 'bin')} from {bins.origin}, {spread} rows each{order}"


_CHOICES: dict[str, tuple[str, ...]] = {
    "strategy": ("mass", "width"),
    "bins_from": ("all", "split"),
    "estimate": ("inner", "all"),
    "extremes": ("succession", "mean"),
}


def _refuse_common_rows(tally: Tally, other: Tally) -> NoCertificate | None:
    """The reason for no certificate if rows that fill the bins also define them; an error if all rows do."""
    common = common_rows(tally, other)
    if other is tally or common.whole:
        raise InputError(
            "bins_from",
            "contains the rows that are fitted",
            Phrase("leave it out, or use {part}", part=Setting("bins_from", "split")),
        )
    if not common.in_sample:
        return None
    return NoCertificate(
        NoCertificateCode.COMMON_ROWS,
        Phrase(
            "about {share} % of the rows are also in {bins_from}, so they define the bins that they fill: pass the "
            "tally of other rows, or leave {bins_from} out",
            share=f"{100 * common.share:.0f}",
            bins_from=Argument("bins_from"),
        ),
    )


def _check_other(other: Tally, tally: Tally) -> None:
    if other.score_type != tally.score_type:
        raise InputError(
            "bins_from", f"must have {tally.score_type} scores like the fitted rows, got {other.score_type} scores"
        )
