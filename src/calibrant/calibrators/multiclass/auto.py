"""One line to calibrate class scores: a nested, cross-fitted choice among softmax maps, with honest numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import get_args

import numpy as np
from sklearn.base import clone

from calibrant.arrays.columns import check_list, check_option
from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.choice import Chooser
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.calibrators.multiclass.reduction import ReducingCalibrator
from calibrant.calibrators.multiclass.scaling import COMPARED, check_parts, scaled_together
from calibrant.fits.softmax import effective_weights, zero_notes, zeros_as
from calibrant.guarantees.certificate import Bound, Mode
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import ClassMap
from calibrant.messages import InputError, Note, Voice, note
from calibrant.selection.comparison import nested_sentence
from calibrant.selection.folds import check_one_split
from calibrant.selection.losses import Loss
from calibrant.selection.multiclass.cross_validation import Given, Setting, Trials
from calibrant.selection.multiclass.folds import ClassFolds, some_rows
from calibrant.selection.multiclass.rule import FORMS, ClassCandidate, ClassComparison, fitted, select_classes

CHOSEN = Refusal(
    RefusalCode.SELECTED,
    "the map was chosen among several, and fitted, on all of these rows, which no theorem here covers: use "
    "TopLabelHistogramBinning or ClassWiseHistogramBinning on rows of their own for a promise",
)

NOTHING = Refusal(RefusalCode.NOT_FITTED, "nothing was fitted, and the model by itself promises nothing")


@dataclass(eq=False, repr=False)
class ClassAutoCalibrator(Chooser, ClassCalibrator):
    r"""The softmax map that the rows support: the model as it is, a temperature, a vector or a structured matrix.

    Candidates are cross-fitted, each with the clamp and the penalty that do best on unseen rows. What is fitted to all
    rows is the structured map (above 128 classes the temperature), or a candidate that is better by two standard
    errors; but the model as it is where that loses no more (below 200 rows, where it is not surely worse), and a
    simpler candidate where it is surely as good: worse by at most 0.07 % of the loss of predicting the class rates,
    with two standard errors. A choice whose nested loss is above that of the model is not made. All is by a proper
    loss, never by a calibration error.

    Parameters
    ----------
    candidates : sequence of str or calibrators, optional
        What to try instead, simplest first: names (``"temperature"``, ``"vector"``, ``"structured"``), or calibrators
        of classes whose rows sum to 1. Keeping the model, ``"identity"``, is always among them.
    loss : {"log", "brier"}
        What a candidate is judged by; the Brier score is summed over classes.
    cv : int
        Parts that the rows are cut into: at random, by whole ``groups``, or, with ``time``, into one part more, each
        judged by what was fitted to those before it.
    random_state : int
        Seed of the parts.

    Attributes
    ----------
    choice_ : str
        Name of the chosen candidate.
    setting_ : Setting or None
        Its form, clamp and penalty; None for a calibrator that was passed.
    comparison_ : ClassComparison
        All candidates with their cross-fitted losses; prints as a table.
    before_, after_, change_ : Estimate
        Mean loss of the model, mean loss of this whole procedure, choice included, and the difference, with 95 %
        intervals, all on the same rows. Nested: what a part is judged by was chosen on, and fitted to, other parts.
    state_ : str
        ``"calibrated"``: a map was chosen. ``"kept"``: the model was compared with others and is as good.
        ``"uncalibrated"``: too few rows, or one class, to compare anything; scores pass through.

    Notes
    -----
    Edges: the model's probabilities below 2**-32 are read as half the smallest other one, in losses and where it is
    kept; logits become probabilities. Below 50 rows,
    or with one class only, nothing is compared. Candidates are compared on about 500,000 scores at most; the chosen one
    is fitted to all. Maps of each class by itself, normalised, are not tried by default: on real cases they lose to the
    structured map nine times of ten.
    Guarantee: no finite-sample guarantee; certificates are refused after a choice on the same rows.
    Cost: about 15 settings, fitted to each of 15 parts of the rows.
    Reference: Cawley and Talbot (2010) for nesting; Guo et al. (2017), Kull et al. (2019) for the maps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 2000)
    >>> y = [rng.choice(3, p=row) for row in p]
    >>> ClassAutoCalibrator().fit(p, y).choice_
    'identity'
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # twice too sure
    >>> cal = ClassAutoCalibrator().fit(sharp, y)
    >>> cal.choice_, cal.transform([[0.8, 0.1, 0.1]]).round(2).tolist()
    ('structured', [[0.59, 0.23, 0.18]])
    """

    setting_: Setting | None = field(init=False)
    comparison_: ClassComparison = field(init=False)

    candidates: Sequence[str | ClassCalibrator] | None = None
    _: KW_ONLY
    loss: Loss = "log"
    cv: int = 5
    random_state: int = 0

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        check_option("loss", self.loss, get_args(Loss))
        check_parts(self.cv)
        check_one_split(rows.groups, rows.time)
        zeros = zeros_as(rows)
        notes = (*((scaled_together(),) if rows.kind == "independent" else ()), *_impossible(rows, zeros))
        worth = float(effective_weights(rows).sum()) if np.count_nonzero(rows.class_mass) > 1 else 0.0
        some = some_rows(rows, COMPARED, self.random_state)
        trials = Trials(some, ClassFolds.of(some, self.cv, self.random_state), self.loss, zeros)
        selection = select_classes(trials, self._pool(), worth)
        chosen = selection.trial
        found = {
            "choice_": selection.name,
            "setting_": chosen if isinstance(chosen, Setting) else None,
            "comparison_": selection.comparison,
            "before_": selection.before,
            "after_": selection.after,
            "change_": selection.change,
        }
        kept = zero_notes(rows, zeros) if selection.name == "identity" else ()
        return Fit(fitted(chosen, rows), (*notes, *kept), found)

    def _pool(self) -> list[ClassCandidate]:
        """What is tried, simplest first."""
        if self.candidates is None:
            return [ClassCandidate.named(name) for name in FORMS]
        check_list("candidates", self.candidates)
        return [ClassCandidate.named("identity"), *(_candidate(each) for each in self.candidates if each != "identity")]

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Refusal:
        return NOTHING if self.state_ == "uncalibrated" else CHOSEN

    def _why_nothing(self) -> str:
        few = np.count_nonzero(self.provenance_.class_mass) > 1
        why = (
            f"{self.provenance_.n:,.6g} rows are too few to compare anything" if few else "the rows hold one class only"
        )
        return f"{why}, so the scores pass through as they are."

    def _describe(self, voice: Voice) -> str:
        if self.state_ == "uncalibrated":
            return "Nothing was chosen: the map is the model as it is."
        waiting = [f"{line.name} ({line.outcome.say(voice)})" for line in self.comparison_.lines if np.isnan(line.loss)]
        losses = self.before_, self.after_, self.change_
        lines = [self._decision(), nested_sentence(voice, losses, self.loss, self.choice_ == "identity")]
        if waiting:
            lines.append(f"Not tried: {', '.join(waiting)}.")
        return "\n  ".join([*lines, self._number_compared(voice)])

    def _decision(self) -> str:
        if self.choice_ == "identity":
            return self.comparison_.kept
        setting = self.setting_
        if setting is None:
            return f"Chose {self.choice_}: {self.map_!r}."
        held = f"probabilities held at {setting.clamp:.2g}"
        penalty = "" if setting.form == "temperature" else f", penalty {setting.strength:g} rows"
        return f"Chose {self.choice_}: {self.map_!r}, {held}{penalty}."


labels_of_probability_zero = note(
    "labels-of-probability-zero",
    "the model gives {labels:,} of {rows:,} labels probability 0, an infinite log loss: here 0 is read as {zeros:.4g}",
)


def _impossible(rows: ClassRows, zeros: float) -> tuple[Note, ...]:
    """What to say about labels that the model calls impossible: its own log loss is infinite."""
    if rows.kind == "logit":
        return ()
    count = int(np.count_nonzero(rows.scores[np.arange(len(rows)), rows.labels] == 0.0))
    return (labels_of_probability_zero(count, len(rows), float(zeros)),) if count else ()


def _candidate(given: str | ClassCalibrator) -> ClassCandidate:
    if isinstance(given, ReducingCalibrator) and not given.normalised:
        raise InputError(
            "candidates", f"are compared by a loss of whole rows, which {given!r} does not give", "leave it out"
        )
    if isinstance(given, ClassCalibrator):
        return ClassCandidate(repr(given), given=Given(repr(given), lambda rows: clone(given)._fit_rows(rows).map_))
    if isinstance(given, type) and issubclass(given, ClassCalibrator):
        kind = given.__name__
        raise InputError("candidates", f"must hold instances, and {kind} is a class", f"pass {kind}()")
    if not isinstance(given, str) or given not in FORMS:
        names = ", ".join(map(repr, FORMS))
        raise InputError("candidates", f"must hold calibrators of classes or names among {names}, not {given!r}")
    return ClassCandidate.named(given, rows=0.0)
