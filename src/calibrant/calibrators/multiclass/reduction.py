"""Reduce multiclass calibration to binary problems: any binary calibrator, for any notion with binary claims."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.multiclass.claims import Rare, Solver
from calibrant.fits.bins import check_bins
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import Bins, Evidence, issue_classes
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import ClassAxis, MulticlassMap, PerClassMap, TopMap
from calibrant.messages import InputError, Voice, count_text, note
from calibrant.notions import Notion, as_notion
from calibrant.tallies import Tally

MIN_CLASS_ROWS = 20
"""Rows that a class needs for a separate map; Gupta (2023), section 5.E.6, asks for this many in each bin."""

NORMALIZED = (
    "rows are divided by their sums, which changes the observed rates of every column, and no theorem on class-wise "
    "calibration holds after that (Gupta 2023, section 5.C.2)"
)


rows_divided = note("rows-divided", NORMALIZED)


class ReducingCalibrator(MulticlassCalibrator):
    """Base class of reductions: a binary calibrator solves the problems of a notion, and the maps are combined.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        The bins behind each map that can have a certificate.
    named_ : dict
        By rank, the number of rows that name each class; for notions that treat each named class separately.
    """

    rare: Rare = "pool"
    min_rows: int = MIN_CLASS_ROWS
    normalized: bool = False
    evidence_: tuple[Evidence, ...]
    named_: dict[int, dict[str, float]]
    _refusal: NoCertificate | None

    def _aim(self) -> Notion:
        """The notion of calibration."""
        raise NotImplementedError

    def _binary(self) -> BinaryCalibrator:
        """The binary calibrator, not fitted."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        self._aim()
        check_calibrator(self._binary())

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        notion, binary = self._aim(), self._binary()
        class_wise = notion.supported_claims(len(rows.classes))[0].rank is None
        self._check(binary, class_wise)
        solver = Solver(binary, rows, self.rare, self.min_rows, self._settled)
        maps = solver.maps(notion)
        found = {
            "evidence_": tuple(solver.evidence),
            "named_": solver.named,
            "_refusal": solver.refusal,
        }
        notes = (*solver.notes(), *((rows_divided(),) if self.normalized else ()))
        on: ClassAxis = "logit" if rows.score_type == "logit" else "probability"
        if class_wise:
            return Fit(PerClassMap(rows.classes, maps, on, self.normalized), notes, found)
        return Fit(TopMap(rows.classes, len(notion.claims(len(rows.classes))), maps, on), notes, found)

    def _settled(self, bins: Bins, tally: Tally) -> Bins:
        """The bins of a binary fit with their final outputs."""
        return bins

    def _check(self, binary: object, class_wise: bool) -> None:
        check_option("rare", self.rare, ("pool", "refuse"))
        check_bins(self.min_rows, "min_rows")
        check_calibrator(binary)
        if self.normalized and not class_wise:
            raise InputError("normalized", "is for class-wise probabilities only", "leave it out")

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if self.normalized:
            return NoCertificate(
                NoCertificateCode.NO_THEOREM, f"{NORMALIZED}: leave normalized out if you need a certificate"
            )
        if self._refusal is not None:
            return (
                super()._certify(alpha, interval, coverage)
                if self._refusal.code is NoCertificateCode.INJECTIVE
                else self._refusal
            )
        return issue_classes(
            self._aim(),
            self.map_.classes,
            self.evidence_,
            self.provenance_,
            self.named_,
            self.min_rows,
            alpha,
            interval,
            coverage,
        )

    def _describe(self, voice: Voice) -> str:
        rows = np.concatenate([np.zeros(0), *(each.bins.n[each.bins.n > 0] for each in self.evidence_)])
        if not len(rows):
            return str(self.map_.words)
        return f"{self.map_.words}: {len(rows):,} bins of {count_text(rows.min())} to {count_text(rows.max())} rows"


@dataclass(eq=False, repr=False)
class Reduction(ReducingCalibrator):
    r"""Apply a binary calibrator to several classes, through the binary problems of a notion of calibration.

    .. math:: h_k = A\bigl(g_k,\ \{(x_i, 1\{y_i = c_k(x_i)\})\}\bigr)

    for every claim k of the notion, where A is the binary calibrator and :math:`g_k(x)` the model's probability of the
    class :math:`c_k(x)`: the most likely one (``"confidence"``), each of the k most likely ones
    (``TopKConfidence(k)``), or each class separately (``"class-wise"``). Notions that treat each named class separately
    (``"top-label"``, ``TopKLabel(k)``) have one problem for each class, with the rows that name it.

    Parameters
    ----------
    notion : Notion or str
        See :mod:`calibrant.notions`.
    calibrator : BinaryCalibrator, optional
        Cloned and fitted to each problem; by default ``HistogramBinning()``.
    normalized : bool
        Divide class-wise rows by their sums, as Zadrozny and Elkan (2002) did (Gupta 2023, Algorithm 5.4). For
        comparison: the columns are then no longer the observed rates, and there is no guarantee.
    rare : {"pool", "refuse"}
        Classes named by fewer than ``min_rows`` rows: ``"pool"`` gives them one shared map, fitted to their rows
        together, or to the rows of all classes if even these are fewer; ``"refuse"`` raises an error. ``notes_`` lists
        them. Class-wise problems have all rows, so no class is rare there.
    min_rows : int
        Rows that a named class needs for a separate map (effective sample size with importance weights).

    Attributes
    ----------
    evidence_ : tuple of Evidence
        The bins behind each map that can have a certificate.
    named_ : dict
        By rank, the number of rows that name each class; for notions that treat each named class separately.

    Notes
    -----
    Top notions keep the model's predicted classes and return their probabilities, with ``map_.outputs`` ``top 1``,
    ``top 2``, ...; class-wise rows need not sum to 1. Logits go through softmax first.
    Guarantee: with a calibrator whose bins have one (``HistogramBinning``), ``certificate(alpha)`` holds for every
    distribution of independent rows, for all classes and bins simultaneously, but not for pooled classes: which classes
    are pooled depends on their numbers of rows, so their rows are not independent draws from the pool
    (``docs/certificates/classes.md``). With other calibrators no finite-sample guarantee.
    Cost: one pass over the matrix and a binary fit for each problem, one at a time; the matrix is not copied.
    Reference: Gupta (2023), Algorithms 5.1 to 5.7.

    Examples
    --------
    >>> from calibrant import PlattScaling
    >>> rng = np.random.default_rng(1)
    >>> p = rng.dirichlet([1, 1, 1], 600)
    >>> y = np.array(["a", "b", "c"])[[rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p]]
    >>> top = Reduction("top-label", PlattScaling()).fit(p, y)
    >>> new = [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]
    >>> top.predict(new).tolist(), top.transform(new).round(2).tolist()
    (['a', 'c'], [[0.59], [0.51]])
    >>> Reduction("class-wise", PlattScaling()).fit(p, y).transform(new).round(2).tolist()
    [[0.56, 0.28, 0.22], [0.23, 0.32, 0.45]]
    """

    notion: Notion | str = "top-label"
    calibrator: BinaryCalibrator | None = None
    _: KW_ONLY
    normalized: bool = False
    rare: Rare = "pool"
    min_rows: int = MIN_CLASS_ROWS

    def _aim(self) -> Notion:
        if isinstance(self.notion, BinaryCalibrator):
            raise InputError(
                "notion",
                "must be a notion; the calibrator is the second argument",
                'pass Reduction("top-label", calibrator)',
            )
        return as_notion(self.notion)

    def _binary(self) -> BinaryCalibrator:
        return HistogramBinning() if self.calibrator is None else self.calibrator
