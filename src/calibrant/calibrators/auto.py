"""AutoCalibrator: choose a method by cross-validation, with nested estimates of its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self, get_args

from sklearn.base import clone

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_list, check_option
from calibrant.calibrators.base import DEFAULT_ALPHA, Fit
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.choice import Chooser
from calibrant.fits.needs import BLEND_ROWS, SHRUNKEN_ROWS
from calibrant.fits.prior_correction import class_odds
from calibrant.fits.scaling import rates_text
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode, gate
from calibrant.guarantees.provenance import Provenance, Sampling
from calibrant.maps import Map
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Voice, count_text, note
from calibrant.numerics import Grid
from calibrant.selection.candidates import BLEND, CANDIDATES, RATES, REAL_BLEND
from calibrant.selection.comparison import needs_minority_rows, needs_rows, nested_sentence
from calibrant.selection.folds import Folds
from calibrant.selection.guarantee import Guarantee, Wish, checked_wish, guaranteed_bins
from calibrant.selection.losses import Loss
from calibrant.selection.original_model import OriginalTest
from calibrant.selection.rule import Blend, Candidate, Selection, select
from calibrant.tallies import NO_INTERIOR, Tally, end_notes, end_text

COMPARISON_GRID = Grid(6)
"""Grid on which candidates are compared when there are many scores. Losses of scores that agree to 2 % differ by a few
millionths; twice as many cells would cost 10 % more time."""

MAX_EXACT_SCORES = 1 << 14
"""With more distinct scores than this, candidates are compared on the grid."""

NEEDS = (needs_rows.code, needs_minority_rows.code)
"""Outcomes of candidates that need more rows than there are."""

CHOSEN = NoCertificate(
    NoCertificateCode.SELECTED,
    Phrase(
        "the map was chosen among several candidates and fitted on the same rows, which no theorem here covers: "
        "{ask} for bins with a certificate",
        ask=Advice.PASS_GUARANTEE,
    ),
)


@dataclass(eq=False, repr=False)
class AutoCalibrator(Chooser, BinaryCalibrator):
    r"""Choose a calibration method by cross-validation: a blend of several maps, or something simpler if as good.

    With :math:`L_c` the mean loss of candidate c on held-out rows (cross-validation) and :math:`s_{c,d}` the
    standard error of :math:`L_c - L_d` from paired rows, the map fitted to all rows is

    - the original model, if its loss is no greater than that of the blend;
    - else the simplest candidate with :math:`L_c - L_{blend} + 2 s_{c, blend} \le t`, where t is 0.07 % of the loss of
      a constant prediction, the event rate;
    - else the blend: a weighted average of the original model, a beta map shrunk toward it, a spline, an isotonic curve
      and Venn-Abers, with the weights of lowest cross-validated loss. It increases wherever one of them does.

    Three checks follow. The original model is also kept if choices made without each fold do not lower the loss on the
    folds left out. But if a test of its intercept and slope rejects it (significance level 0.01, with the same groups
    and weights as :func:`calibrant.check`), the rule chooses among the others. Finally, if ``change_`` is not below 0,
    the original model is kept in any case.

    Candidates are compared by a proper scoring rule, never by a calibration error, which is zero for a constant
    prediction. With few rows, choosing a single map by its loss is mostly noise; see
    ``docs/decisions/0010-calibrate.md`` for figures.

    The number of minority-class rows decides what is tried. Below 3: the original model and, with at least 10 rows in
    total, an intercept shrunk toward it. At least 3: the blend. As single maps, at least 10: a shrunken beta map; 50:
    temperature, Platt and beta scaling; 100: a spline; 1,000: isotonic regression, Venn-Abers, bins and scaled bins.

    Parameters
    ----------
    candidates : sequence of str or calibrators, optional
        Candidates to try instead, simplest first: names (``"shift"``, ``"shrunken"``, ``"temperature"``, ``"platt"``,
        ``"beta"``, ``"spline"``, ``"isotonic"``, ``"venn-abers"``, ``"binning"``, ``"scaling-binning"``), tried
        with any number of rows, ``"blend"``, or calibrators. The original model, ``"identity"``, is always among them.
        Without the blend, the first candidate within half a standard error of the lowest loss is chosen.
    loss : {"log", "brier"}
        Loss by which candidates are compared.
    cv : int
        Number of folds: at random, by whole ``groups``, or, with ``time``, one more fold in order of time, each
        evaluated by a fit to those before it.
    guarantee : float or (epsilon, alpha), optional
        Choose among numbers of bins instead, so that with confidence 1 - alpha (95 % if only epsilon is given) every
        bin is within epsilon of its true rate. Each number of bins that is tried spends its share of alpha, so the
        choice is covered, for every seed, and for an epsilon that was chosen on these rows; ``certificate()`` states
        it. If no number of bins is within epsilon, an error names the smallest epsilon that these rows allow, and about
        how many labels are needed for this one.
    clamp : float, optional
        Clip scores to [clamp, 1 - clamp] before their log-odds are taken. By default, a score of exactly 0 or 1 is
        moved to half the distance between that end and the nearest other score, with a note; other scores are not
        changed. The losses of the original model, and the model if it is kept, use the scores read in this way.
    look : int
        1 if a guarantee is requested on these rows for the first time. Look k is for :math:`2^{k-1}` times as many
        rows, including the first ones. The first look spends 80 % of alpha and each further one half of what is left,
        so that all looks together fail with probability at most alpha.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    choice_ : str
        Name of the chosen candidate.
    weights_ : dict
        Weights of the blend by candidate, if the blend was chosen; else empty.
    comparison_ : Comparison
        All candidates with their cross-validated losses; prints as a table.
    before_, after_, change_ : Estimate
        Mean loss of the original model, mean loss of this whole procedure, choice and checks included, and the
        difference, with 95 % confidence intervals, all on the same rows. They come from nested cross-validation: a fold
        is evaluated by what was chosen on, and fitted to, other folds. Where the original model is kept, a note says
        that its own loss is ``before_``. The interval of the change is for the map in use, on new rows; below ten
        minority-class rows there is none.
    bins_ : Bins or None
        The bins behind a guarantee.
    status_ : str
        ``"calibrated"``: a map was chosen. ``"kept"``: the original model was compared with others and is as good.
        ``"uncalibrated"``: too few rows, or one class, to compare anything; scores pass through.

    Notes
    -----
    Rows of one group stay together, and with ``time`` every fold is evaluated by a fit to its past; with both, the fit
    leaves out earlier rows of the groups in the fold. The rows of a frame are then read into memory; otherwise they are
    counted where they are. With
    ``weight_type="by-class"``, bins with a guarantee are computed on the rows as sampled and then moved; a choice
    without a guarantee weights the rows.
    Edge cases: scores of type ``"real"`` are not probabilities, so Platt scaling takes the place of the original model.
    Where every score is exactly 0 or 1 there are no log-odds, and a table of two rates is compared with the original
    model. In the log loss, outputs of exactly 0 and 1 are clipped to log-odds of -36 and 36. With one fold or one
    class, nothing is compared and the original model is kept. Importance weights, also integers, count by their
    effective sample size; rows of arrays go to folds whole, those of a tally in units of the mean effective row of
    their cell. Above 16,384 distinct scores, candidates are compared on a grid of 4,096 cells; the chosen one is fitted
    to all scores.
    Guarantee: no finite-sample guarantee without ``guarantee``. In simulations with a calibrated model it raises the
    loss by 0.001 to 0.004 nats at 100 rows, and by less than 0.001 with at least 1,000. No certificate is issued after
    a choice on the same rows.
    Cost: one sort, then 15 fits of each candidate on cells.
    Reference: Cawley and Talbot (2010) for nesting; Wolpert (1992) and Breiman (1996) for the weights.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(3)
    >>> scores = rng.beta(2, 5, 4000)
    >>> cal = AutoCalibrator().fit(scores, rng.random(4000) < scores)
    >>> cal.choice_
    'identity'
    >>> cal = AutoCalibrator().fit(scores, rng.random(4000) < scores / (scores + 3 * (1 - scores)))
    >>> cal.choice_, cal.transform([0.3]).round(3).item(), round(0.3 / (0.3 + 3 * 0.7), 3)
    ('blend', 0.126, 0.125)
    >>> round(cal.before_.value, 3), round(cal.after_.value, 3)
    (0.425, 0.346)
    """

    _monotone: ClassVar[bool] = False
    _restores: ClassVar[bool] = True
    bins_: Bins | None = field(init=False)
    weights_: dict[str, float] = field(init=False)
    _test: OriginalTest = field(init=False)

    candidates: Sequence[str | BinaryCalibrator] | None = None
    _: KW_ONLY
    loss: Loss = "log"
    cv: int = 5
    guarantee: Wish | None = None
    clamp: float | None = None
    look: int = 1
    random_state: int = 0

    @property
    def alpha(self) -> float:
        """Probability with which a certificate may fail: the guarantee's alpha, or 0.1."""
        return DEFAULT_ALPHA if self.guarantee is None else checked_wish(self.guarantee)[1]

    def _splits_rows(self, groups: object, time: object) -> bool:
        return groups is not None or time is not None

    def _fit_score_rows(self, rows: Rows, sampling: Sampling, *, by_class: bool) -> Self:
        if rows.fractional:
            self._refuse(Tally.from_rows(rows), sampling, fractional=True)
        if by_class and self.guarantee is None:
            class_odds(rows)  # raises if weights differ within a class
            by_class = False
        if by_class or (rows.groups is None and rows.time is None and rows.counts):
            return super()._fit_score_rows(rows, sampling, by_class=by_class)
        self._check()
        self._apart: Folds | None = Folds.of_rows(rows, self.cv, _grid_of_rows(rows), self.random_state)
        try:
            return super()._fit_score_rows(rows, sampling, by_class=False)
        finally:
            del self._apart

    def _fit_tally(self, tally: Tally, sampling: Sampling, notes: tuple[Note, ...], odds: float | None = None) -> Self:
        check_option("sampling", sampling, get_args(Sampling))
        self._refuse(tally, sampling)
        return super()._fit_tally(tally, sampling, notes, odds)

    def _refuse(self, tally: Tally, sampling: Sampling, *, fractional: bool = False) -> None:
        """Refuse a guarantee that such rows cannot support, however many they are."""
        if self.guarantee is None:
            return
        rows = Provenance.of(type(self).__name__, tally, sampling)
        refusal = gate(replace(rows, weight_type="fractional-labels") if fractional else rows)
        if refusal is not None:
            raise InputError("guarantee", "cannot be met", refusal.reason)

    def _restored(self) -> Map:
        return self.map_  # the bins of a guarantee are already moved

    def _seen(self, tally: Tally) -> Tally:
        """Importance weights, also integers, by their effective sample size: held-out losses are per row."""
        seen = tally.for_fitting() if self.guarantee is not None else tally.in_effective_rows()
        return self._clipped(seen)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        folds = getattr(self, "_apart", None)
        if folds is None:
            folds = Folds.at_random(_comparable(tally), self.cv, self.random_state)
        folds = folds.with_ends(tally.ends)  # those of all rows, so that folds are read as the final map reads them
        if self.guarantee is None:
            chosen = select(folds, self._pool(tally), tally, self.loss, blend=self._blend(tally))
            return Fit(chosen.fit(tally), _end_notes(tally), _found(chosen, None))
        guarantee = Guarantee(*checked_wish(self.guarantee), self.look, self._odds)
        chosen, bins = guaranteed_bins(tally, guarantee, folds, self.loss)
        return Fit(bins.to_map(), _end_notes(tally), _found(chosen, bins))

    def _pool(self, tally: Tally) -> list[Candidate]:
        """The candidates, simplest first."""
        kind = tally.score_type
        if not tally.has_interior and self._blends():
            pool = [CANDIDATES["identity"], RATES]
        elif self.candidates is None:
            pool = [each for each in CANDIDATES.values() if kind in each.kinds]
        else:
            named = _candidates(self.candidates)
            pool = [CANDIDATES["identity"], *(each for each in named if each.name != "identity")]
        if kind == "real":  # there are no probabilities to keep: Platt scaling is the simplest candidate
            return [replace(CANDIDATES["platt"], least=0.0), *(e for e in pool if e.name not in ("platt", "identity"))]
        return pool

    def _blends(self) -> bool:
        return self.candidates is None or BLEND.name in self.candidates

    def _blend(self, tally: Tally) -> Blend | None:
        if not self._blends() or not tally.has_interior:
            return None
        return REAL_BLEND if tally.score_type == "real" else BLEND

    def _check(self) -> None:
        check_option("loss", self.loss, get_args(Loss))
        if isinstance(self.cv, bool) or not isinstance(self.cv, Integral) or self.cv < 2:
            raise InputError("cv", f"must be an integer of at least 2, the number of folds, got {self.cv!r}")
        if not isinstance(self.look, Integral) or isinstance(self.look, bool) or self.look < 1:
            raise InputError("look", f"must be an integer of at least 1, got {self.look!r}")
        if self.candidates is not None:
            _candidates(self.candidates)
        if self.guarantee is None:
            if self.look != 1:
                raise InputError(
                    "look",
                    "counts how often a guarantee was requested",
                    Phrase("pass {guarantee} too", guarantee=Argument("guarantee")),
                )
            return
        if self.candidates is not None:
            raise InputError("guarantee", "chooses among bins only", "leave candidates out")
        checked_wish(self.guarantee)

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if self.bins_ is None:
            return CHOSEN
        return issue(self.bins_, self.provenance_, alpha, interval, coverage)

    def _why_nothing(self) -> str:
        data = self.provenance_
        minority = min(data.events, data.n - data.events)
        aside = " (except exact 0 and 1)" if self.comparison_.notes else ""
        through = f"the scores are returned unchanged{aside}"
        what = through if self.choice_ == "identity" else f"{self.choice_} is used instead"
        if not minority:
            return f"the labels have only one class, so {what}."
        if minority >= BLEND_ROWS and data.n >= SHRUNKEN_ROWS:
            return f"there was only one candidate or one fold, so nothing could be compared and {what}."
        rows = f"{count_text(data.n)} rows with {count_text(minority)} of the minority class"
        return f"{rows} are too few to compare candidates, so {what}."

    def _describe(self, voice: Voice) -> str:
        if self.status_ == "uncalibrated":
            return "\n  ".join([self._decision(), *self._not_tried(voice)])
        lines = [self._decision(), self._honest(voice), *self._not_tried(voice), self._number_compared(voice)]
        return "\n  ".join(lines)

    def _decision(self) -> str:
        if self.bins_ is not None:
            return f"Chosen: {self.choice_}, among {', '.join(line.name for line in self._compared())}."
        if self.choice_ != "identity":
            return f"Chosen: {self.choice_} ({self._in_words()})."
        if self.status_ == "uncalibrated":
            return "Nothing was chosen: the map is the original model."
        if self._test.rejects:
            return (
                f"Keep the original model. A test rejects it, because {self._test}, but no candidate is reliably "
                "better on held-out rows."
            )
        return self.comparison_.kept

    def _in_words(self) -> str:
        if self.weights_:
            return " + ".join(f"{100 * weight:.0f} % {name}" for name, weight in self.weights_.items())
        if self.choice_ == RATES.name:
            return rates_text(self.map_)
        shrunk = "shrunk toward the original model; " if self.choice_ == "shrunken" else ""
        return f"{shrunk}{self.map_.words}"

    def _not_tried(self, voice: Voice) -> list[str]:
        """Candidates that need more rows than there are; the unit is stated once, at the end."""
        waiting: dict[Note, list[str]] = {}
        for line in self.comparison_.lines:
            if line.outcome.code in NEEDS and line.name not in self.weights_:
                waiting.setdefault(line.outcome, []).append(line.name)
        if not waiting:
            return []
        *others, last = sorted(waiting, key=lambda outcome: float(outcome.values["needed"]))
        words = {outcome: _shortened(outcome, voice) for outcome in others} | {last: last.say(voice)}
        listed = [f"{', '.join(waiting[outcome])} ({since})" for outcome, since in words.items()]
        return [f"Not tried: {', '.join(listed)}."]

    def _honest(self, voice: Voice) -> str:
        losses = self.before_, self.after_, self.change_
        return nested_sentence(voice, losses, self.loss, self.choice_ == "identity")


def _found(selection: Selection, bins: Bins | None) -> dict[str, Any]:
    """Fitted attributes of a choice other than its map."""
    return {
        "bins_": bins,
        "choice_": selection.chosen.name,
        "comparison_": selection.comparison,
        "weights_": selection.weights,
        "before_": selection.before,
        "after_": selection.after,
        "change_": selection.change,
        "_test": selection.test,
    }


def _shortened(outcome: Note, voice: Voice) -> str:
    """What a candidate needs, without the unit if that is minority-class rows."""
    if outcome.code != needs_minority_rows.code:
        return outcome.say(voice)
    return f"needs at least {count_text(outcome.values['needed'])}"


@note("no-interior-scores")
def no_interior_scores(voice: Voice, low: float, high: float) -> str:
    """Note on a model whose scores are all exactly 0 or 1."""
    return f"{NO_INTERIOR}: in losses the model's 0 and 1 count as {end_text(low)} and {end_text(high)}"


def _end_notes(tally: Tally) -> tuple[Note, ...]:
    return end_notes(tally) if tally.has_interior else (no_interior_scores(*map(float, tally.ends)),)


def _candidates(given: Sequence[str | BinaryCalibrator]) -> list[Candidate]:
    """The user's candidates, except the blend."""
    check_list("candidates", given)
    return [
        _candidate(each, f"candidates[{place}]")
        for place, each in enumerate(given)
        if not (isinstance(each, str) and each == BLEND.name)
    ]


def _candidate(given: str | BinaryCalibrator, name: str) -> Candidate:
    if not isinstance(given, str):
        made = check_calibrator(given, name)
        return Candidate(repr(made), lambda tally: clone(made).fit_tally(tally).map_)
    if given not in CANDIDATES:
        names = ", ".join(map(repr, [*CANDIDATES, BLEND.name]))
        raise InputError("candidates", f"must contain calibrators or names among {names}, not {given!r}")
    return replace(CANDIDATES[given], least=0.0, rows=0.0)


def _comparable(tally: Tally) -> Tally:
    """The tally itself, or the tally on a grid if it has very many distinct scores."""
    if tally.resolution != "exact" or tally.total <= MAX_EXACT_SCORES or len(tally) <= MAX_EXACT_SCORES:
        return tally
    if tally.score_type == "probability":
        return tally.coarsen(COMPARISON_GRID)
    return tally.coarsen(Grid(COMPARISON_GRID.bits, float(tally.scores[0]), float(tally.scores[-1])))


def _grid_of_rows(rows: Rows) -> Grid | None:
    if len(rows.scores) <= MAX_EXACT_SCORES:
        return None
    if rows.score_type == "probability":
        return COMPARISON_GRID
    return Grid(COMPARISON_GRID.bits, float(rows.scores.min()), float(rows.scores.max()))
