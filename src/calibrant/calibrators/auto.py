"""One line to calibrate: a nested, cross-fitted choice among methods, with honest numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, get_args

from sklearn.base import clone

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_list, check_option
from calibrant.calibrators.base import DEFAULT_ALPHA, BinaryCalibrator, Fit, check_calibrator
from calibrant.calibrators.choice import Chooser
from calibrant.fits.needs import BLEND_ROWS, SHRUNKEN_ROWS
from calibrant.fits.prior_correction import class_odds
from calibrant.fits.scaling import rates_text
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.provenance import Sampling
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import BetaMap, LogitAffineMap, Map
from calibrant.messages import Advice, Argument, InputError, Note, Phrase, Voice, note
from calibrant.numerics import Grid
from calibrant.selection.candidates import BLEND, CANDIDATES, RATES, REAL_BLEND
from calibrant.selection.comparison import needs_minority_rows, needs_rows, nested_sentence
from calibrant.selection.folds import Folds, check_one_split
from calibrant.selection.guarantee import Guarantee, guaranteed_bins
from calibrant.selection.losses import Loss
from calibrant.selection.original_model import OriginalTest
from calibrant.selection.rule import Blend, Candidate, Selection, select
from calibrant.tallies import NO_INTERIOR, Tally, end_notes, end_text

COMPARED = Grid(6)
"""Where candidates are compared when there are many scores: losses of scores that agree to two per cent differ by a few
millionths, and twice as many cells would cost a tenth more."""

MOST_EXACT = 1 << 14
"""More distinct scores than this are compared there."""

NEEDS = (needs_rows.code, needs_minority_rows.code)
"""Outcomes of candidates that take more rows than there are."""

CHOSEN = Refusal(
    RefusalCode.SELECTED,
    Phrase(
        "the map was chosen among several, and fitted, on all of these rows, which no theorem here covers: "
        "{ask} for bins with a certificate",
        ask=Advice.PASS_GUARANTEE,
    ),
)


@dataclass(eq=False, repr=False)
class AutoCalibrator(Chooser, BinaryCalibrator):
    r"""An average of maps, weighted by how they do on rows they have not seen, or something simpler that is as good.

    Candidates are cross-fitted. With :math:`L_c` the mean loss of candidate c on rows that its maps had not seen and
    :math:`s_{c,d}` the standard error of :math:`L_c - L_d` from paired rows, what is fitted to all rows is

    - the original model, if its loss is no greater than that of the blend;
    - else the simplest candidate that is surely as good: :math:`L_c - L_{blend} + 2 s_{c, blend} \le t`, where t is
      0.07 % of the loss of a constant prediction, the event rate;
    - else the blend: the average of the model, a beta map shrunk toward it, a spline, an isotonic curve and
      Venn-Abers, with weights of least cross-fitted loss. It rises wherever one of them does.

    Two gates follow. The original model is also kept if choices made without a part of the rows do not lower the loss
    there. But if a test of its level and slope rejects it (alpha 0.01, with the same groups and weights as
    :func:`calibrant.check`), the rule chooses among the others. At last, where ``change_`` is not below 0, the original
    model is kept in any case.

    All is by a proper loss, never by a calibration error: that of a constant is zero. One map chosen by its loss on few
    rows is mostly lucky; ``docs/decisions/0010-calibrate.md`` has the figures.

    What the rows of the minority class support decides what is tried: below 3 the model and, with 10 rows in all, an
    intercept shrunk toward it; from 3 on the blend; alone, from 10 on a shrunken beta map, from 50 on temperature,
    Platt's and the beta map, from 100 on a spline, from 1,000 on isotonic regression, Venn-Abers, bins and scaled bins.

    Parameters
    ----------
    candidates : sequence of str or calibrators, optional
        What to try instead, simplest first: names (``"shift"``, ``"shrunken"``, ``"temperature"``, ``"platt"``,
        ``"beta"``, ``"spline"``, ``"isotonic"``, ``"venn-abers"``, ``"binning"``, ``"scaling-binning"``), tried at any
        number of rows, ``"blend"``, or calibrators. Keeping the model, ``"identity"``, is always among them. Without
        the blend, the first within half a standard error of the least loss is taken.
    loss : {"log", "brier"}
        What a candidate is judged by.
    cv : int
        Parts that the rows are cut into: at random, by whole ``groups``, or, with ``time``, into one part more, each
        judged by what was fitted to those before it.
    guarantee : (epsilon, alpha), optional
        Choose among numbers of bins instead, so that with confidence 1 - alpha every bin is within epsilon of its true
        rate. Each number of bins that is tried spends its share of alpha, so the choice is covered, for every seed;
        ``certificate()`` states it. When no number of bins is within epsilon, an error says about how many more labels
        are needed.
    clamp : float, optional
        Clip scores to [clamp, 1 - clamp] before their log-odds are taken. By default a score of exactly 0 or 1 is read
        as half as far from its end as the nearest other score, with a note, and no other score is moved. The model as
        it is counts in losses, and is kept, as it is read.
    look : int
        1 when a guarantee is asked for on these rows for the first time. Look k is for :math:`2^{k-1}` times as many
        rows, the first ones among them. The first look spends 80 % of alpha and each further one half of what is left,
        so that all looks together fail with probability at most alpha.
    random_state : int
        Seed of the parts.

    Attributes
    ----------
    choice_ : str
        Name of the chosen candidate.
    weights_ : dict
        Of the blend, if that was chosen: share by name of its part.
    comparison_ : Comparison
        All candidates with their cross-fitted losses; prints as a table.
    before_, after_, change_ : Estimate
        Mean loss of the original model, mean loss of this whole procedure, choice and gates included, and the
        difference, with 95 % intervals, all on the same rows. Nested: what a part is judged by was chosen on, and
        fitted to, other parts. Where the original model is kept, a note says that its own loss is ``before_``.
        The interval of the change is for the map in use, on new rows; it needs ten rows of the minority class, and
        there is none below.
    bins_ : Bins or None
        The bins behind a guarantee.
    state_ : str
        ``"calibrated"``: a map was chosen. ``"kept"``: the model was compared with others and is as good.
        ``"uncalibrated"``: too few rows, or one class, to compare anything; scores pass through.

    Notes
    -----
    Rows of one group stay together, and with ``time`` every part is judged by its past: pass one of them. The rows of a
    frame are then read into memory; otherwise they are counted where they are. With ``weights="by-class"`` bins with a
    guarantee are made of the rows as sampled and moved; a choice without one weighs the rows.
    Edges: scores of kind ``"real"`` are not probabilities, so Platt's map stands in for the model. Where every score is
    exactly 0 or 1 there are no log-odds, and a table of two rates is compared with the model. Outputs of exactly 0 and
    1 count in the log loss as log-odds of 36 do. With one part or one class only, nothing is compared and the model is
    kept. Importance weights, also whole ones, count by what they are worth; rows of arrays are dealt to parts whole,
    those of a tally by what a row of their cell is worth. Above 16,384 distinct scores candidates are compared on a
    grid of 4,096 cells; the chosen one is fitted to all scores.
    Guarantee: none without ``guarantee``; in simulations a calibrated model loses 0.001 to 0.004 nats by it at 100
    rows, and less than 0.001 from 1,000 on. Certificates are refused after a choice on the same rows.
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
    guarantee: tuple[float, float] | None = None
    clamp: float | None = None
    look: int = 1
    random_state: int = 0

    @property
    def alpha(self) -> float:
        """What a certificate may fail with: the guarantee's alpha, or 0.1."""
        return DEFAULT_ALPHA if self.guarantee is None else self.guarantee[1]

    def _splits_rows(self, groups: object, time: object) -> bool:
        check_one_split(groups, time)
        return groups is not None or time is not None

    def _fit_score_rows(self, rows: Rows, sampling: Sampling, *, by_class: bool) -> Self:
        if by_class and self.guarantee is None:
            class_odds(rows)  # refuses weights that differ within a class
            by_class = False
        if by_class or (rows.groups is None and rows.time is None and rows.counts):
            return super()._fit_score_rows(rows, sampling, by_class=by_class)
        self._check()
        self._apart: Folds | None = Folds.of_rows(rows, self.cv, _grid_of_rows(rows), self.random_state)
        try:
            return super()._fit_score_rows(rows, sampling, by_class=False)
        finally:
            del self._apart

    def _restored(self) -> Map:
        return self.map_  # the bins of a guarantee are moved where they are made

    def _seen(self, tally: Tally) -> Tally:
        """Importance weights by what they are worth, also whole ones: numbers on unseen rows are about rows."""
        seen = tally.for_fitting() if self.guarantee is not None else tally.in_effective_rows()
        return self._clipped(seen)

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        folds = getattr(self, "_apart", None)
        if folds is None:
            folds = Folds.at_random(_comparable(tally), self.cv, self.random_state)
        folds = folds.with_ends(tally.ends)  # those of all rows, so that every part is read as the final map reads it
        if self.guarantee is None:
            chosen = select(folds, self._pool(tally), tally, self.loss, blend=self._blend(tally))
            return Fit(chosen.fit(tally), _end_notes(tally), _found(chosen, None))
        guarantee = Guarantee(*self.guarantee, self.look, self._odds)
        chosen, bins = guaranteed_bins(tally, guarantee, folds, self.loss)
        return Fit(bins.to_map(), _end_notes(tally), _found(chosen, bins))

    def _pool(self, tally: Tally) -> list[Candidate]:
        """What is tried, simplest first."""
        kind = tally.kind
        if not tally.has_interior and self._blends():
            pool = [CANDIDATES["identity"], RATES]
        elif self.candidates is None:
            pool = [each for each in CANDIDATES.values() if kind in each.kinds]
        else:
            named = _candidates(self.candidates)
            pool = [CANDIDATES["identity"], *(each for each in named if each.name != "identity")]
        if kind == "real":  # no probabilities to keep: Platt's map is the simplest thing there is
            return [replace(CANDIDATES["platt"], least=0.0), *(e for e in pool if e.name not in ("platt", "identity"))]
        return pool

    def _blends(self) -> bool:
        return self.candidates is None or BLEND.name in self.candidates

    def _blend(self, tally: Tally) -> Blend | None:
        if not self._blends() or not tally.has_interior:
            return None
        return REAL_BLEND if tally.kind == "real" else BLEND

    def _check(self) -> None:
        check_option("loss", self.loss, get_args(Loss))
        if isinstance(self.cv, bool) or not isinstance(self.cv, Integral) or self.cv < 2:
            raise InputError("cv", f"must be an integer of at least 2, the number of parts, got {self.cv!r}")
        if not isinstance(self.look, Integral) or isinstance(self.look, bool) or self.look < 1:
            raise InputError("look", f"must be an integer of at least 1, got {self.look!r}")
        if self.candidates is not None:
            _candidates(self.candidates)
        if self.guarantee is None:
            if self.look != 1:
                raise InputError(
                    "look",
                    "counts how often a guarantee was asked for",
                    Phrase("pass {guarantee} too", guarantee=Argument("guarantee")),
                )
            return
        if self.candidates is not None:
            raise InputError("guarantee", "is about bins and takes no other candidates", "leave candidates out")
        pair = self.guarantee
        numbers = isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, Real) for part in pair)
        if not numbers or not all(0.0 < part < 1.0 for part in pair):
            raise InputError("guarantee", f"must be (epsilon, alpha), both between 0 and 1, got {self.guarantee!r}")

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        if self.bins_ is None:
            return CHOSEN
        return issue(self.bins_, self.provenance_, alpha, bound, mode)

    def _why_nothing(self) -> str:
        data = self.provenance_
        rarer = min(data.events, data.n - data.events)
        aside = " (exact 0 and 1 aside)" if self.comparison_.notes else ""
        through = f"the scores pass through as they are{aside}"
        what = through if self.choice_ == "identity" else f"{self.choice_} stands in"
        if not rarer:
            return f"the rows hold one class only, so {what}."
        if rarer >= BLEND_ROWS and data.n >= SHRUNKEN_ROWS:
            return f"there was one candidate, or one part of the rows, and nothing to compare, so {what}."
        return f"{data.n:,.6g} rows, {rarer:,.6g} of the rarer class, are too few to compare anything, so {what}."

    def _describe(self, voice: Voice) -> str:
        if self.state_ == "uncalibrated":
            return "\n  ".join([self._decision(), *self._not_tried(voice)])
        lines = [self._decision(), self._honest(voice), *self._not_tried(voice), self._number_compared(voice)]
        return "\n  ".join(lines)

    def _decision(self) -> str:
        if self.bins_ is not None:
            return f"Chose {self.choice_} among {', '.join(line.name for line in self._compared())}."
        if self.choice_ != "identity":
            return f"Chose {self.choice_}: {self._in_words()}."
        if self.state_ == "uncalibrated":
            return "Nothing was chosen: the map is the model as it is."
        if self._test.rejects:
            return (
                f"Keep your model as it is. A test rejects it, because {self._test}; but nothing that was tried is "
                "reliably better on unseen rows."
            )
        return self.comparison_.kept

    def _in_words(self) -> str:
        if self.weights_:
            return " + ".join(f"{100 * weight:.0f} % {name}" for name, weight in self.weights_.items())
        if isinstance(self.map_, LogitAffineMap):
            return f"slope {self.map_.slope:.4g}, intercept {self.map_.intercept:.4g} on the {self.map_.on}"
        if isinstance(self.map_, BetaMap):
            shrunk = ", shrunk toward the model" if self.choice_ == "shrunken" else ""
            return f"a beta map{shrunk} (a {self.map_.a:.4g}, b {self.map_.b:.4g}, c {self.map_.c:.4g})"
        return rates_text(self.map_) if self.choice_ == RATES.name else repr(self.map_)

    def _not_tried(self, voice: Voice) -> list[str]:
        """Candidates that take more rows than there are; the unit of most is reported once, at the end."""
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
        where = "parts of the rows" if self.bins_ is None else "parts of the rows that chose"
        losses = self.before_, self.after_, self.change_
        return nested_sentence(voice, losses, self.loss, self.choice_ == "identity", where)


def _found(selection: Selection, bins: Bins | None) -> dict[str, Any]:
    """What a choice leaves beside its map."""
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
    """What a candidate waits for, without its unit where that is rows of the rarer class."""
    if outcome.code != needs_minority_rows.code:
        return outcome.say(voice)
    return f"from {outcome.values['needed']:,.6g}"


@note("no-interior-scores")
def no_interior_scores(voice: Voice, low: float, high: float) -> str:
    """Of a model whose scores are all exactly 0 or 1."""
    return f"{NO_INTERIOR}: in losses the model's 0 and 1 count as {end_text(low)} and {end_text(high)}"


def _end_notes(tally: Tally) -> tuple[Note, ...]:
    return end_notes(tally) if tally.has_interior else (no_interior_scores(*map(float, tally.ends)),)


def _candidates(given: Sequence[str | BinaryCalibrator]) -> list[Candidate]:
    """What the user wants to try, but for the blend."""
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
        raise InputError("candidates", f"must hold calibrators or names among {names}, not {given!r}")
    return replace(CANDIDATES[given], least=0.0, rows=0.0)


def _comparable(tally: Tally) -> Tally:
    """The tally itself, or on a grid when it has so many scores that comparing would cost more than it tells."""
    if tally.resolution != "exact" or tally.total <= MOST_EXACT or len(tally) <= MOST_EXACT:
        return tally
    if tally.kind == "probability":
        return tally.coarsen(COMPARED)
    return tally.coarsen(Grid(COMPARED.bits, float(tally.scores[0]), float(tally.scores[-1])))


def _grid_of_rows(rows: Rows) -> Grid | None:
    if len(rows.scores) <= MOST_EXACT:
        return None
    if rows.kind == "probability":
        return COMPARED
    return Grid(COMPARED.bits, float(rows.scores.min()), float(rows.scores.max()))
