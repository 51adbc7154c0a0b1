"""MulticlassAutoCalibrator: choose a softmax map by cross-validation, with nested estimates of its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import get_args

import numpy as np
from sklearn.base import clone

from calibrant.arrays.columns import check_list, check_option
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.choice import Chooser
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.multiclass.reduction import ReducingCalibrator
from calibrant.calibrators.multiclass.scaling import MAX_COMPARED_SCORES, check_parts, scaled_together
from calibrant.fits.multiclass.ridge import Affine
from calibrant.fits.multiclass.softmax import effective_weights, zero_notes, zeros_as
from calibrant.guarantees.certificate import Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import MulticlassMap
from calibrant.messages import InputError, Note, Voice, count_text, note
from calibrant.selection.comparison import nested_sentence
from calibrant.selection.losses import Loss
from calibrant.selection.multiclass.cross_validation import Given, Setting, Trials, fold_count
from calibrant.selection.multiclass.folds import MulticlassFolds, some_rows
from calibrant.selection.multiclass.rule import (
    FORMS,
    MulticlassCandidate,
    MulticlassComparison,
    MulticlassSelection,
    fitted,
    select_classes,
)

CHOSEN = NoCertificate(
    NoCertificateCode.SELECTED,
    "the map was chosen among several candidates and fitted on the same rows, which no theorem here covers: use "
    "TopLabelHistogramBinning or ClasswiseHistogramBinning on other rows if you need a certificate",
)

NOTHING = NoCertificate(
    NoCertificateCode.NOT_FITTED, "nothing was fitted, and there is no guarantee for the original model"
)


@dataclass(eq=False, repr=False)
class MulticlassAutoCalibrator(Chooser, MulticlassCalibrator):
    r"""Choose a softmax map by cross-validation: the original model, a temperature, a vector or a structured matrix.

    Each candidate has the clamp and the penalty of lowest loss on held-out rows. The default choice is the
    structured map (above 128 classes the temperature map), or a candidate that is better by two standard errors.
    The original model is kept instead if its loss is no higher (below 200 rows, if it is not higher by two standard
    errors). A simpler candidate is chosen instead if its loss, with two standard errors added, is higher by at most
    0.07 % of the loss of predicting the class frequencies. If the nested loss of the choice is above that of the
    original model, the original model is kept. Candidates are compared by a proper scoring rule, never by a calibration
    error.

    Parameters
    ----------
    candidates : sequence of str or calibrators, optional
        Candidates to try instead, simplest first: names (``"temperature"``, ``"vector"``, ``"structured"``), or
        multiclass calibrators whose rows sum to 1. The original model, ``"identity"``, is always among them.
    loss : {"log", "brier"}
        Loss by which candidates are compared; the Brier score is summed over classes.
    cv : int
        Number of folds: at random, by whole ``groups``, or, with ``time``, one more fold in order of time, each
        evaluated by a fit to those before it; with both, without the earlier rows of its groups. Above 32 classes, and
        without ``time``, an odd number of five or more folds is lowered by one.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    choice_ : str
        Name of the chosen candidate.
    setting_ : Setting or None
        Its form, clamp and penalty; None for a calibrator that was passed.
    comparison_ : MulticlassComparison
        All candidates with their cross-validated losses; prints as a table.
    before_, after_, change_ : Estimate
        Mean loss of the original model, mean loss of this whole procedure, choice included, and the difference, with
        95 % confidence intervals, all on the same rows. They come from nested cross-validation: a fold is evaluated by
        what was chosen on, and fitted to, other folds.
    status_ : str
        ``"calibrated"``: a map was chosen. ``"kept"``: the original model was compared with others and is as good.
        ``"uncalibrated"``: too few rows, or one class, to compare anything; scores pass through.

    Notes
    -----
    Edge cases: probabilities of the original model below 2**-32 are replaced by half the smallest other one, in losses
    and if it is kept; logits become probabilities. Below 50 rows, or with one class, nothing is compared. Candidates
    are compared on at most about 500,000 scores; the chosen one is fitted to all. Above 32 classes or from 2,000 rows
    the choice in nested cross-validation is made on one other fold. Above 32 classes penalties are compared on one fold
    (that of the vector map only if the structured one is not tried), and logits are not clipped.
    Normalized class-wise maps are not tried by default: on real cases they were worse than the structured map nine
    times out of ten.
    Guarantee: no finite-sample guarantee; no certificate is issued after a choice on the same rows.
    Cost: about 15 settings, each fitted to 15 subsets of the folds, to 8 from 2,000 rows. Above 32 classes fewer: about
    110 passes over the rows (one to two seconds for 5,000 rows of 100 classes).
    Reference: Cawley and Talbot (2010) for nesting; Guo et al. (2017), Kull et al. (2019) for the maps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 2000)
    >>> y = [rng.choice(3, p=row) for row in p]
    >>> MulticlassAutoCalibrator().fit(p, y).choice_
    'identity'
    >>> sharp = p**2 / (p**2).sum(axis=1, keepdims=True)  # overconfident
    >>> cal = MulticlassAutoCalibrator().fit(sharp, y)
    >>> cal.choice_, cal.transform([[0.8, 0.1, 0.1]]).round(2).tolist()
    ('structured', [[0.59, 0.23, 0.18]])
    """

    setting_: Setting | None = field(init=False)
    comparison_: MulticlassComparison = field(init=False)

    candidates: Sequence[str | MulticlassCalibrator] | None = None
    _: KW_ONLY
    loss: Loss = "log"
    cv: int = 5
    random_state: int = 0

    def _check_settings(self) -> None:
        check_option("loss", self.loss, get_args(Loss))
        check_parts(self.cv)
        self._pool()

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        self._check_settings()
        zeros = zeros_as(rows)
        notes = (*((scaled_together(),) if rows.score_type == "independent" else ()), *_impossible(rows, zeros))
        worth = float(effective_weights(rows).sum()) if np.count_nonzero(rows.class_mass) > 1 else 0.0
        selection, start = self._selected(rows, zeros, worth)
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
        return Fit(fitted(chosen, rows, start), (*notes, *kept), found)

    def _selected(self, rows: MulticlassRows, zeros: float, worth: float) -> tuple[MulticlassSelection, Affine | None]:
        """The choice, and a start for the fit of the chosen map to all rows."""
        some = some_rows(rows, MAX_COMPARED_SCORES, self.random_state)
        folds = MulticlassFolds.of(some, fold_count(some, self.cv), self.random_state)
        trials = Trials(some, folds, self.loss, zeros)
        selection = select_classes(trials, self._pool(), worth)
        return selection, trials.start(selection.trial)

    def _pool(self) -> list[MulticlassCandidate]:
        """The candidates, simplest first."""
        if self.candidates is None:
            return [MulticlassCandidate.named(name) for name in FORMS]
        check_list("candidates", self.candidates)
        return [
            MulticlassCandidate.named("identity"),
            *(_candidate(each) for each in self.candidates if each != "identity"),
        ]

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> NoCertificate:
        return NOTHING if self.status_ == "uncalibrated" else CHOSEN

    def _why_nothing(self) -> str:
        few = np.count_nonzero(self.provenance_.class_mass) > 1
        why = (
            f"{count_text(self.provenance_.n)} rows are too few to compare candidates"
            if few
            else "the labels have only one class"
        )
        return f"{why}, so the original probabilities are returned."

    def _describe(self, voice: Voice) -> str:
        if self.status_ == "uncalibrated":
            return "Nothing was chosen: the map is the original model."
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
            return f"Chosen: {self.choice_} ({self.map_.words})."
        clamp = f"probabilities clipped at {setting.clamp:.2g}"
        penalty = "" if setting.form == "temperature" else f", penalty {setting.strength:g} rows"
        return f"Chosen: {self.choice_} ({self.map_.words}, {clamp}{penalty})."


labels_of_probability_zero = note(
    "labels-of-probability-zero",
    "the model gives {labels:,} of {rows:,} labels probability 0, an infinite log loss: 0 is replaced by {zeros:.4g}",
)


def _impossible(rows: MulticlassRows, zeros: float) -> tuple[Note, ...]:
    """A note on labels to which the model gives probability 0, where its log loss is infinite."""
    if rows.score_type == "logit":
        return ()
    count = int(np.count_nonzero(rows.scores[np.arange(len(rows)), rows.labels] == 0.0))
    return (labels_of_probability_zero(count, len(rows), float(zeros)),) if count else ()


def _candidate(given: str | MulticlassCalibrator) -> MulticlassCandidate:
    if isinstance(given, ReducingCalibrator) and not given.normalized:
        raise InputError(
            "candidates",
            f"are compared by a multiclass loss, and the probabilities of {given!r} do not sum to 1",
            "leave it out",
        )
    if isinstance(given, MulticlassCalibrator):
        return MulticlassCandidate(
            repr(given), given=Given(repr(given), lambda rows: clone(given)._fit_rows(rows).map_)
        )
    if isinstance(given, type) and issubclass(given, MulticlassCalibrator):
        kind = given.__name__
        raise InputError("candidates", f"must be instances, but {kind} is a class", f"pass {kind}()")
    if not isinstance(given, str) or given not in FORMS:
        names = ", ".join(map(repr, FORMS))
        raise InputError("candidates", f"must be multiclass calibrators or names among {names}, not {given!r}")
    return MulticlassCandidate.named(given, rows=0.0)
