"""A global map with corrections by segment, or a separate map for each source of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.columns import check_option, refuse_store
from calibrant.arrays.keys import Keys, key_text
from calibrant.calibration import both_classes
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.descriptions import describe
from calibrant.calibrators.held_out import SegmentFolds
from calibrant.fits.needs import SHRUNKEN_ROWS, minority_rows
from calibrant.fits.segments.counts import By, SegmentCells, Stages, segment_keys
from calibrant.fits.segments.multicalibration import Change, repair
from calibrant.fits.segments.shrinkage import Scales, shrink
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.planning import TooFewLabels
from calibrant.guarantees.provenance import Provenance, Sampling, Status
from calibrant.maps import ByGroupMap
from calibrant.maps.base import by_name
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Voice, note
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import Floats
from calibrant.reading import read
from calibrant.selection.folds import FOLDS, Folds, take_rows
from calibrant.selection.guarantee import Guarantee, Wish, checked_wish
from calibrant.selection.losses import NAMES, Loss, Losses
from calibrant.selection.rule import Candidate, select
from calibrant.selection.segments.losses import estimate, ranking_between, reference, weighted_mean
from calibrant.selection.segments.table import SegmentTable
from calibrant.tallies import GroupedTally, Tally, end_notes, repeat_notes, repeat_notes_of_rows

SegmentMethod = Literal["shrink", "multicalibrate", "separate"]

UNPROVED = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    Phrase(
        "intercepts and slopes of segments were estimated from these rows, which no theorem here covers: {alone}",
        alone=Advice.FIT_ONE_SEGMENT,
    ),
)

UNPROVED_GLOBAL = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    Phrase(
        "whether segments differ was tested on these rows, which no theorem here covers: {alone}",
        alone=Advice.FIT_ONE_SEGMENT,
    ),
)

SEVERAL = NoCertificate(
    NoCertificateCode.SEVERAL_MAPS,
    Phrase("a certificate is for one map, but each source has its own: {ask}", ask=Advice.ASK_ONE_SOURCE),
)

TOGETHER = NoCertificate(
    NoCertificateCode.BY_SEGMENT,
    "each calibrated segment has a map and a certificate of its own, at its share of alpha, and all hold "
    "simultaneously with the requested confidence: see certificates_",
)


@note("of-source")
def of_source(voice: Voice, source: str, about: Note) -> str:
    """A note on the rows of one source."""
    return f"{source}: {about.say(voice)}"


no_global_map = note("no-global-map", "there is no global map")


@dataclass(eq=False, repr=False)
class SegmentCalibrator(BinaryCalibrator):
    r"""A global map, and for each segment an intercept and a slope, shrunk toward it or fitted where it is rejected.

    .. math:: m(s, g) = \operatorname{expit}\bigl(x + a_g + d_g (x - c_g)\bigr), \qquad
              x = \operatorname{logit} m_{all}(s),

    where g is the segment of the row and :math:`c_g` the mean of x in it, weighted by its information. A segment that
    was not in the fitted rows, and a missing one, get the global map :math:`m_{all}`.

    ``segment_method="shrink"``: :math:`a_g \sim N(0, \tau^2)` and :math:`d_g \sim N(0, \sigma^2)`, with the scales that
    make the labels of all segments of a column most likely (empirical Bayes, by Laplace's method). If a few segments
    are far off and the others are not, those have a wider prior (``fits.segments.shrinkage``).
    A segment of few rows nearly keeps the global map. Scales of 0 mean that the marginal likelihood, not a test, gives
    no evidence that segments differ. Several columns are fitted one after the other.

    ``segment_method="multicalibrate"``: only segments that differ significantly from the global map are changed. All
    segments of all columns are tested, for intercept and slope, at family-wise significance level ``alpha``; those that
    are rejected in the worst column get :math:`a_g` and :math:`d_g`, and all are tested again until none is rejected.
    After a change every row, also of an unseen segment, gets one more common intercept, so that the total number of
    predicted events is right.

    ``segment_method="separate"``: scores of different origin (models, prompts, verbal confidences) are not one score.
    Each source gets a separate map, chosen and fitted on its own rows. A source with fewer than 10 minority-class rows,
    and one that was not in the fitted rows, is uncalibrated: NaN. If the calibrator has a guarantee (epsilon, alpha),
    each source gets bins that are within epsilon of their true rates, at an equal share of alpha, and a source for
    which this cannot be met is uncalibrated.

    Parameters
    ----------
    calibrator : calibrator, optional
        Calibrator of the global map, or of each source; by default ``AutoCalibrator()``.
    segment_method : {"shrink", "multicalibrate", "separate"}
        See above.
    alpha : float
        For ``"multicalibrate"``: family-wise significance level, the probability that anything is changed if the global
        map is right for every segment.
    random_state : int
        Seed of the folds for cross-validation.

    Attributes
    ----------
    global_ : calibrator or None
        The fitted global map; None with ``"separate"``.
    sources_ : dict of str to calibrator
        The fitted calibrators by source with ``"separate"``; else empty.
    segments_ : SegmentTable
        Rows, observed events, predictions of scores, global map and final map, shift and slope of each segment; prints
        as a table.
    scales_ : dict of str to Scales
        How much segments differ, by column, with ``"shrink"``; else empty.
    changes_ : tuple of Change
        The changes and their tests with ``"multicalibrate"``; else empty.
    uncalibrated_ : tuple of str
        Sources with too few rows.
    before_, after_, change_ : Estimate
        Mean loss of the original model, of this whole procedure on held-out rows, and the difference.
    gain_ : Estimate
        Mean loss of this procedure minus that of the global map, on the same rows.

    Notes
    -----
    Edge cases: rows without a segment are used for the global map only. With importance weights, also integers, rows
    and events in ``segments_`` add up to the effective sample size; ``weight_type="frequency"`` declares repetitions.
    If no segment differs, the map needs the score alone. Above 65,536 rows, segments are counted on a grid of about
    1,000 cells; the global map is fitted to all scores.
    With ``groups`` or ``time``, the losses and every choice use folds by group or forward in time; with both, forward
    and without the earlier rows of a fold's groups. The total over sources then takes their errors as fully correlated.
    Guarantee: no finite-sample guarantee for the map, unless the calibrator has a guarantee and the method is
    ``"separate"``: then every bin of every calibrated source is within epsilon of its true rate, simultaneously with
    confidence 1 - alpha, for independent rows. Given the sources of all rows, those of one source are independent draws
    from its distribution, and the shares of alpha add up to alpha. With ``"multicalibrate"`` the probability of any
    change is at most ``alpha`` if the global map is right for every segment; two things are approximations: that it is
    fitted to the same rows, which is conservative for maps of few parameters, and the tail of the slope test.
    Importance weights that depend on the labels are not covered (see
    :func:`~calibrant.fits.segments.multicalibration.repair`).
    Cost: that of the calibrator, six times on cells; then one pass over the rows, and passes over segments by cells.
    Reference: Efron and Morris (1973) for shrinkage; Hebert-Johnson et al. (2018) for multicalibration.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores, region = rng.beta(2, 5, 6000), rng.choice(["east", "north", "south"], 6000)
    >>> odds = scores / (1 - scores) * np.where(region == "north", 2.5, 1.0)
    >>> cal = SegmentCalibrator().fit(scores, rng.random(6000) < odds / (1 + odds), region)
    >>> cal.transform([0.3, 0.3, 0.3], ["north", "south", "west"]).round(2).tolist()
    [0.52, 0.32, 0.37]
    """

    _monotone = False

    calibrator: BinaryCalibrator | None = None
    _: KW_ONLY
    segment_method: SegmentMethod = "shrink"
    alpha: float = 0.05
    random_state: int = 0

    def fit(  # type: ignore[override]
        self,
        scores: Any,
        y: ArrayLike | None = None,
        by: By | str | Sequence[str] | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        score: str | None = None,
        label: str | None = None,
        weight_type: Literal["importance", "frequency"] = "importance",
        groups: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
        positive: Any = None,
        score_type: ScoreType | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to scores, labels and segments.

        Parameters
        ----------
        scores, y, sample_weight, score, label, weight_type, positive, score_type, sampling
            As in :meth:`BinaryCalibrator.fit`. With a frame, ``score=``, ``label=``, ``by=`` (one name or several),
            ``sample_weight=``, ``groups=`` and ``time=`` name its columns, which are read into memory.
        groups, time
            Group and timestamp of each row, for dependent rows: they define the folds of every choice and of the
            losses. The corrections themselves are fitted to all rows as if these were independent.
        by
            One column of segments (text, integers or booleans), or a mapping from names to columns. A single column
            keeps its own name, if it has one; otherwise it is called ``"segment"``.

        Returns
        -------
        self
            The fitted calibrator.
        """
        self._check()
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        if isinstance(y, str) and score is None:  # names of a frame by position: scores, labels, segments
            score, label, y, by, sample_weight = y, cast(str, by), None, cast(Any, sample_weight), None
        settings = {"weight_type": weight_type, "positive": positive, "score_type": score_type}
        names: dict[str, Any] = {"score": score, "label": label, "by": by, "groups": groups, "time": time}
        given = read(scores, y, sample_weight, call="fit", most=None, **names, **settings)
        if given.kind == "tally":
            raise InputError("scores", "is a tally, which already contains the labels", "pass it to fit_tally")
        if by is None:
            raise InputError("by", "is missing", "pass segments, as in fit(scores, y, by)")
        rows = given.rows()
        keys = segment_keys(given, len(rows.scores))
        repeats = () if rows.groups is not None else repeat_notes_of_rows(rows)
        self._begin((*rows.notes, *repeats), tuple(keys))
        if self.segment_method == "separate":
            column, each = self._one_column(keys)
            parts = {name: take_rows(rows, each.codes == code) for code, name in enumerate(each.names)}
            tallies = {name: Tally.from_rows(replace(part, groups=None, time=None)) for name, part in parts.items()}
            self._fit_sources(column, tallies, sampling, SegmentCells.of(rows, keys), Tally.from_rows(rows), parts)
        else:
            plain = rows.groups is None and rows.time is None
            whole = Tally.from_rows(rows)
            self.global_ = (
                self._base()._fit_tally(whole, sampling, rows.notes)
                if plain
                else self._base()._fit_score_rows(rows, sampling, by_class=False)
            )
            self._fit_segments(whole, SegmentCells.of(rows, keys), None if plain else (rows, keys))
        return self._as_written(rows, given.y)

    def _one_column(self, keys: Mapping[str, Any]) -> tuple[str, Any]:
        if len(keys) != 1:
            raise InputError(
                "by",
                f"must be one column of sources with segment_method='separate', got {len(keys)} columns",
                "join them into one column",
            )
        return next(iter(keys.items()))

    def _begin(self, notes: tuple[Note, ...], columns: tuple[str, ...]) -> None:
        """Empty results of a fit."""
        self.notes_, self.n_features_in_ = notes, 1
        self.columns_ = columns
        self.sources_: dict[str, BinaryCalibrator] = {}
        self.scales_: dict[str, Scales] = {}
        self.changes_: tuple[Change, ...] = ()
        self.uncalibrated_: tuple[str, ...] = ()
        self._refusals: tuple[TooFewLabels, ...] = ()
        self._worth: dict[str, tuple[Estimate, Estimate, Estimate]] = {}

    def _check(self) -> None:
        check_option("segment_method", self.segment_method, get_args(SegmentMethod))
        if not 0.0 < self.alpha < 1.0:
            raise InputError("alpha", f"must lie strictly between 0 and 1, got {self.alpha!r}", "pass 0.05 for 5 %")
        guarantee = None if self.calibrator is None else getattr(check_calibrator(self.calibrator), "guarantee", None)
        if guarantee is not None and self.segment_method != "separate":
            raise InputError(
                "calibrator",
                f"has a guarantee, which does not survive the corrections of segment_method={self.segment_method!r}",
                "pass segment_method='separate', or leave the guarantee out",
            )

    def _base(self) -> BinaryCalibrator:
        if self.calibrator is None:
            return AutoCalibrator(random_state=self.random_state)
        made: BinaryCalibrator = clone(self.calibrator)
        return made

    @property
    def _loss(self) -> Loss:
        loss: Loss = getattr(self.calibrator, "loss", "log")
        return loss

    # -------------------------------------------------------------------------------------------- segments of one score

    global_: BinaryCalibrator | None = field(init=False)

    def _fit_segments(
        self, tally: Tally, cells: SegmentCells, split: tuple[Rows, Mapping[str, Keys]] | None = None
    ) -> None:
        """The corrections that follow the global map; ``split`` are the rows, if groups or times define the folds."""
        assert self.global_ is not None
        read = end_notes(self.global_._clipped(tally))
        self.notes_ = (*self.notes_, *read)
        x = cells.log_odds(self.global_.map_)
        sds = None
        if self.segment_method == "shrink":
            shrunken = shrink(cells, x)
            stages, self.scales_, sds = shrunken.stages, shrunken.scales, shrunken.sds
        else:
            repairs = repair(cells, x, self.alpha)
            stages, self.changes_ = repairs.stages, repairs.changes
            self._settled, self._common = repairs.settled, repairs.common
        self.map_ = cells.followed(self.global_.map_, stages)
        self.segments_ = SegmentTable.of(cells, x, stages, sds)
        seen = self.global_.provenance_
        self.provenance_ = replace(seen, method=type(self).__name__, status="calibrated" if stages else seen.status)
        self.ranking_ = ranking_between(cells, cells.after(x, stages)) if stages else self.global_.ranking_
        count = getattr(self.calibrator, "cv", FOLDS)
        crossed = SegmentFolds(self._base, self._stages, self._loss, count, self.random_state)
        self._judge(list(crossed.of_cells(cells) if split is None else crossed.of_rows(*split)), read)

    def _stages(self, cells: SegmentCells, x: Floats) -> Stages:
        return shrink(cells, x).stages if self.segment_method == "shrink" else repair(cells, x, self.alpha).stages

    def _judge(self, losses: list[Losses], read: tuple[Note, ...]) -> None:
        """Cross-validated losses of the original model, of the global map and of the whole procedure."""
        total = reduce(Losses.__add__, losses) if losses else None
        name = NAMES[self._loss]
        self.before_ = estimate(f"{name}, before", total, [1.0, 0.0, 0.0], self._loss, read)
        self.after_ = estimate(f"{name}, after", total, [0.0, 0.0, 1.0], self._loss, read)
        self.change_ = estimate(f"{name}, change", total, [-1.0, 0.0, 1.0], self._loss, read)
        self.gain_ = estimate(f"{name}, change by segments", total, [0.0, -1.0, 1.0], self._loss)

    # ------------------------------------------------------------------------------------------------ sources of scores

    def _fit_sources(
        self,
        column: str,
        tallies: Mapping[str, Tally],
        sampling: Sampling,
        cells: SegmentCells,
        whole: Tally,
        parts: Mapping[str, Rows] | None = None,
    ) -> None:
        """A map for each source, from its tally or, if groups or times define the folds, from its rows."""
        numbers: dict[str, tuple[float, tuple[Estimate, Estimate, Estimate]]] = {}
        for name, tally in tallies.items():
            rows = None if parts is None or _plain(parts[name]) else parts[name]
            fitted = self._source_fit(tally, rows, sampling, len(tallies))
            if fitted is None:
                self.uncalibrated_ += (name,)
                continue
            self.sources_[name] = fitted
            self.notes_ += tuple(of_source(name, each) for each in end_notes(fitted._clipped(tally)))
            self._worth[name] = self._numbers(fitted, tally, rows)
            numbers[name] = (float(tally.total), self._worth[name])
        if not self.sources_:
            raise self._no_source(column)
        self.global_ = None
        maps = tuple(fitted.map_ for fitted in self.sources_.values())
        self.map_ = ByGroupMap(column, tuple(self.sources_), maps, None)
        self._look_at_sources(cells, column)
        states = {fitted.provenance_.status for fitted in self.sources_.values()}
        state: Status = "calibrated" if "calibrated" in states else "kept" if "kept" in states else "uncalibrated"
        self.provenance_ = Provenance.of(type(self).__name__, whole, sampling, state)
        shared = sampling == "grouped"  # groups may be in several sources
        self.before_, self.after_, self.change_ = (
            weighted_mean(name, {source: (weight, found[place]) for source, (weight, found) in numbers.items()}, shared)
            for place, name in enumerate(f"{NAMES[self._loss]}, {when}" for when in ("before", "after", "change"))
        )
        self.gain_ = Estimate(f"{NAMES[self._loss]}, change by segments", float("nan"), notes=(no_global_map(),))

    def _source_fit(self, tally: Tally, rows: Rows | None, sampling: Sampling, count: int) -> BinaryCalibrator | None:
        """The calibrator of one of ``count`` sources; None with too few rows, or if a guarantee cannot be met."""
        guarantee = self._guarantee
        if guarantee is None:
            if minority_rows(tally.for_fitting()) < SHRUNKEN_ROWS:
                return None
            base = self._base()
            if rows is not None:
                return base._fit_score_rows(rows, sampling, by_class=False)
            return base._fit_tally(tally, sampling, ())
        base = self._base().set_params(guarantee=(guarantee[0], guarantee[1] / count))
        try:
            return cast(BinaryCalibrator, base)._fit_tally(tally, sampling, ())
        except TooFewLabels as refusal:
            self._refusals += (refusal,)
            return None

    @property
    def _guarantee(self) -> tuple[float, float] | None:
        found: Wish | None = getattr(self.calibrator, "guarantee", None)
        return None if found is None else checked_wish(found)

    def _no_source(self, column: str) -> InputError:
        """The error if no source can be calibrated."""
        if self._guarantee is None:
            return InputError(
                "by",
                f"has no source in {column!r} with {SHRUNKEN_ROWS} minority-class rows, so none can be calibrated",
                "collect more labels",
            )
        wished, first, wider = Guarantee(*self._guarantee), "", None
        allowed = [checked_wish(each.wider.value)[0] for each in self._refusals if each.wider is not None]
        if allowed:
            wider = replace(wished, epsilon=min(allowed)).setting
            first = "pass {wider}, the smallest that any of them allows, "
        problem = f"cannot be met in any segment of {column!r}, each with its share of alpha = {wished.alpha:g}"
        error = TooFewLabels(
            wished.setting, problem, Phrase(first + "collect more labels, or join segments", wider=wider)
        )
        error.wider = wider
        return error

    @property
    def certificates_(self) -> dict[str, Certificate | NoCertificate]:
        """The certificate of each source's own map, by source; after a guarantee they hold simultaneously."""
        return {name: fitted.certificate() for name, fitted in self.sources_.items()}

    def _numbers(
        self, fitted: BinaryCalibrator, tally: Tally, rows: Rows | None
    ) -> tuple[Estimate, Estimate, Estimate]:
        """Held-out losses of one source: those of its automatic choice, or else cross-fitted here."""
        if isinstance(fitted, AutoCalibrator):
            return fitted.before_, fitted.after_, fitted.change_
        whole = fitted._clipped(tally.for_fitting())
        only = Candidate("fitted", lambda seen: clone(fitted).fit_tally(seen).map_)
        folds = Folds.at_random(whole, FOLDS, self.random_state)
        if rows is not None:
            folds = Folds.of_rows(rows, FOLDS, None, self.random_state).with_ends(whole.ends)
        found = select(folds, [only], whole, self._loss, keep=reference(whole))
        return found.before, found.after, found.change

    def _look_at_sources(self, cells: SegmentCells, column: str) -> None:
        """Predictions of the scores and of each source's map; maps differ in shape, so no shift or slope."""
        x, nan = np.full(len(cells.n), np.nan), float("nan")
        for code, name in enumerate(cells.columns[column]):
            if name in self.sources_:
                own = cells.codes[column] == code
                x[own] = cells.log_odds(self.sources_[name].map_)[own]
        lines = SegmentTable.of(cells, x, ()).lines
        self.segments_ = SegmentTable(
            tuple(replace(each, predicted_global=nan, level=nan, slope=nan) for each in lines)
        )
        self.ranking_ = ranking_between(cells, x)

    # ---------------------------------------------------------------------------------------------------- using the map

    def fit_tally(  # type: ignore[override]
        self, tally: GroupedTally, by: str | Sequence[str] | None = None, *, sampling: Sampling = "independent"
    ) -> Self:
        """Fit to tallies by segment, such as a window of a tally store.

        Parameters
        ----------
        tally
            Tallies by segment, or by tuples of segments of several columns.
        by
            Name of the column of segments, or of each column of a tuple; by default those of the tallies.
        sampling
            How the rows were obtained, as in :meth:`fit`.

        Returns
        -------
        self
            The fitted calibrator.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> scores, country = rng.beta(2, 5, 6000), rng.choice(["de", "fr"], 6000)
        >>> odds = scores / (1 - scores) * np.where(country == "fr", 2.5, 1.0)
        >>> counts = GroupedTally.from_arrays(scores, rng.random(6000) < odds / (1 + odds), groups=country)
        >>> cal = SegmentCalibrator().fit_tally(counts, "country")
        >>> cal.transform([0.3, 0.3], ["de", "fr"]).round(2).tolist()
        [0.3, 0.52]
        """
        self._check()
        check_option("sampling", sampling, get_args(Sampling))
        refuse_store("tally", tally)
        if not isinstance(tally, GroupedTally):
            raise InputError(
                "tally", "does not contain the segments of its rows", "pass a GroupedTally, or use fit(scores, y, by)"
            )
        whole = tally.total()
        names = by or tally.columns or "segment"
        named = [names] if isinstance(names, str) else list(names)
        if len(named) == len(tally.columns) and named != list(tally.columns):
            listed = ", ".join(map(repr, tally.columns))
            raise InputError(Setting("by", by), f"contradicts the tallies, which are by {listed}", "leave by out")
        cells = SegmentCells.of_tallies(tally, whole, named)
        self._begin(repeat_notes(whole), tuple(cells.columns))
        if self.segment_method == "separate":
            column, names = self._one_column(cells.columns)
            parts = {str(key_text(key)): each for key, each in tally.items() if key_text(key) is not None}
            self._fit_sources(column, {name: parts[name] for name in names}, sampling, cells, whole)
        else:
            self.global_ = self._base()._fit_tally(whole, sampling, ())
            self._fit_segments(whole, cells)
        return self

    def transform(
        self, scores: Any, score: Any = None, by: Any = None, *, source: Any = None, name: str = "calibrated"
    ) -> Any:
        """Calibrated probabilities of scores in segments ``by``, as in :meth:`fit`; NaN for uncalibrated sources.

        Parameters
        ----------
        scores
            Scores, or a frame that also has the columns of segments.
        score
            Column of scores, if ``scores`` is a frame; otherwise segments may be passed here, as second argument.
        by, source
            Segments; ``source`` is an alias of ``by``. In a frame, columns have the same names as in the fit, unless a
            mapping such as ``by={"region": "area_code"}`` renames them, as in :meth:`to_sql`.
        name
            Name of the new column of a frame.

        Returns
        -------
        array, or frame
            Probabilities; for a frame, the same kind of frame with the column ``name`` added.
        """
        several = len(getattr(self, "columns_", ())) > 1 and not isinstance(score, str)
        for given in (score, by, source) if several else ():
            if given is not None and not isinstance(by_name(given), str | Mapping):
                raise InputError(
                    "by", f"must name its columns, {', '.join(map(repr, self.columns_))}", "pass a mapping"
                )
        p = self._applicable().transform(scores, score, by, source=source, name=name)
        return p if isinstance(score, str) else self._contained(p, scores)

    def predict_proba(self, scores: ArrayLike, by: By | None = None) -> NDArray[Any]:
        """Columns ``1 - p`` and ``p``."""
        return both_classes(self.transform(scores, by))

    def fit_transform(self, scores: Any, y: ArrayLike | None = None, by: Any = None, **fit_params: Any) -> Any:
        """Fit, then transform the same scores; ``after_`` is the loss on held-out rows.

        Parameters
        ----------
        scores, y, by, **fit_params
            As in :meth:`fit`.

        Returns
        -------
        array, or frame
            Probabilities, as in :meth:`transform`.
        """
        self.fit(scores, y, by, **fit_params)
        return self.transform(scores, fit_params.get("score"), None if "score" in fit_params else by)

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if self._guarantee is not None:
            return TOGETHER
        if self.segment_method == "separate":
            return SEVERAL
        return UNPROVED if self.map_.columns else UNPROVED_GLOBAL

    def _describe(self, voice: Voice) -> str:
        return describe(self, voice)


def _plain(rows: Rows) -> bool:
    """Whether neither groups nor times define the folds."""
    return rows.groups is None and rows.time is None
