"""From several classes to binary problems and back: any binary calibrator, through any notion with binary claims."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.calibrators.base import BinaryCalibrator, Fit, check_calibrator
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.calibrators.multiclass.claims import Rare, Solver
from calibrant.fits.bins import check_bins
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.issuing import Bins, Evidence, issue_classes
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import ClassAxis, ClassMap, PerClassMap, TopMap
from calibrant.messages import InputError, Voice, note
from calibrant.notions import Notion, as_notion
from calibrant.tallies import Tally

LEAST = 20
"""Rows from which on a class has a map of its own: 002 section 5.E.6 wants as many in each bin."""

NORMALISED = (
    "rows are divided by their sums, which moves every column off the rates that were counted, and no theorem on "
    "class-wise calibration holds after that (Gupta 2023, section 5.C.2)"
)


rows_divided = note("rows-divided", NORMALISED)


class ReducingCalibrator(ClassCalibrator):
    """What reductions share: the problems of a notion solved by a binary calibrator, and the maps put together.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        The bins behind each map that can carry a promise.
    named_ : dict
        By rank, in how many rows each class is named; for notions that ask for each named class separately.
    """

    rare: Rare = "pool"
    least: int = LEAST
    normalised: bool = False
    evidence_: tuple[Evidence, ...]
    named_: dict[int, dict[str, float]]
    _refusal: Refusal | None

    def _aim(self) -> Notion:
        """The notion that is aimed at."""
        raise NotImplementedError

    def _binary(self) -> BinaryCalibrator:
        """What solves the problems, not fitted."""
        raise NotImplementedError

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        notion, binary = self._aim(), self._binary()
        class_wise = notion.supported_claims(len(rows.classes))[0].rank is None
        self._check(binary, class_wise)
        solver = Solver(binary, rows, self.rare, self.least, self._settled)
        maps = solver.maps(notion)
        found = {
            "evidence_": tuple(solver.evidence),
            "named_": solver.named,
            "_refusal": solver.refusal,
        }
        notes = (*solver.notes(), *((rows_divided(),) if self.normalised else ()))
        on: ClassAxis = "logit" if rows.kind == "logit" else "probability"
        if class_wise:
            return Fit(PerClassMap(rows.classes, maps, on, self.normalised), notes, found)
        return Fit(TopMap(rows.classes, len(notion.claims(len(rows.classes))), maps, on), notes, found)

    def _settled(self, bins: Bins, tally: Tally) -> Bins:
        """The bins of a binary fit with the outputs that they are to have."""
        return bins

    def _check(self, binary: object, class_wise: bool) -> None:
        check_option("rare", self.rare, ("pool", "refuse"))
        check_bins(self.least, "least")
        check_calibrator(binary)
        if self.normalised and not class_wise:
            raise InputError("normalised", "is for class-wise probabilities only", "leave it out")

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        if self.normalised:
            return Refusal(RefusalCode.NO_THEOREM, f"{NORMALISED}: leave normalised out if you need a certificate")
        if self._refusal is not None:
            return (
                super()._certify(alpha, bound, mode) if self._refusal.code is RefusalCode.INJECTIVE else self._refusal
            )
        return issue_classes(
            self._aim(),
            self.map_.classes,
            self.evidence_,
            self.provenance_,
            self.named_,
            self.least,
            alpha,
            bound,
            mode,
        )

    def _describe(self, voice: Voice) -> str:
        rows = np.concatenate([np.zeros(0), *(each.bins.n[each.bins.n > 0] for each in self.evidence_)])
        if not len(rows):
            return repr(self.map_)
        return f"{self.map_!r}: {len(rows):,} bins of {rows.min():,.6g} to {rows.max():,.6g} rows"


@dataclass(eq=False, repr=False)
class Reduction(ReducingCalibrator):
    r"""Any binary calibrator, for several classes: it solves each binary problem that a notion of calibration poses.

    .. math:: h_k = A\bigl(g_k,\ \{(x_i, 1\{y_i = c_k(x_i)\})\}\bigr)

    for every claim k of the notion, where A is the binary calibrator and :math:`g_k(x)` the probability that the model
    gives the class :math:`c_k(x)`: the most likely one (``"confidence"``), each of the k most likely ones
    (``TopKConfidence(k)``), or each class by itself (``"class-wise"``). Notions that ask for each named class
    separately (``"top-label"``, ``TopKLabel(k)``) pose a problem for each of them, of the rows that name it.

    Parameters
    ----------
    notion : Notion or str
        See :mod:`calibrant.notions`.
    calibrator : BinaryCalibrator, optional
        Fitted anew to each problem; by default ``HistogramBinning()``.
    normalised : bool
        Divide class-wise rows by their sums, as Zadrozny and Elkan (2002) did (002 Algorithm 5.4). For comparison: the
        columns are then no longer the rates that were counted, and nothing is promised.
    rare : {"pool", "refuse"}
        What becomes of classes that fewer than ``least`` rows name, or none: they share one map, fitted to their rows
        together, or to the rows of all classes where even these are fewer; or an error. ``notes_`` lists them.
        Class-wise problems have all rows, so no class is rare there.
    least : int
        Rows from which on a named class has a map of its own (effective rows under importance weights).

    Attributes
    ----------
    evidence_ : tuple of Evidence
        The bins behind each map that can carry a promise.
    named_ : dict
        By rank, in how many rows each class is named; for notions that ask for each named class separately.

    Notes
    -----
    Top notions keep the model's class and give its probability, ``map_.outputs`` being ``top 1``, ``top 2``, ...;
    class-wise rows need not sum to 1. Logits go through softmax first.
    Guarantee: with a calibrator whose bins carry one (``HistogramBinning``), ``certificate(alpha)`` holds for every
    distribution of independent rows, for all classes and bins at once, but not for pooled classes: which classes are
    pooled depends on how many rows there are of each, so their rows are no independent draws of the pool
    (``docs/certificates/classes.md``). With other calibrators no finite-sample guarantee.
    Cost: one pass over the matrix and a binary fit for each problem, one at a time; no second matrix is made.
    Reference: 002 Algorithms 5.1 to 5.7.

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
    normalised: bool = False
    rare: Rare = "pool"
    least: int = LEAST

    def _aim(self) -> Notion:
        if isinstance(self.notion, BinaryCalibrator):
            raise InputError(
                "notion",
                "must be a notion, and the calibrator is the second argument",
                'pass Reduction("top-label", calibrator)',
            )
        return as_notion(self.notion)

    def _binary(self) -> BinaryCalibrator:
        return HistogramBinning() if self.calibrator is None else self.calibrator
