"""Correct for undersampling, class weights and other changes of the class ratio in training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from calibrant.arrays.keys import key_text
from calibrant.calibration import Calibration
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import LogitAffineMap, SoftmaxMap
from calibrant.messages import InputError, Setting
from calibrant.numerics import CLAMP, Floats
from calibrant.shift.stages import check_rate, log_odds

NO_ROWS = NoCertificate(
    NoCertificateCode.NOT_FITTED, "the map is computed from the sampling rates and was not fitted to rows"
)

SYNTHETIC = frozenset({"smote", "adasyn", "borderline-smote", "svm-smote", "smotenc", "rose", "mixup", "synthetic"})
"""Rebalancing methods that generate synthetic rows."""

RESAMPLING = frozenset({"undersampling", "oversampling", "weights"})
"""Rebalancing methods that keep, repeat or weight all rows of a class alike."""


@dataclass(frozen=True, init=False, repr=False)
class SamplingCorrection(Calibration):
    r"""Closed-form correction for a changed class ratio in training; needs no data.

    .. math::
        \operatorname{logit} p(x) = \operatorname{logit} s(x) + \log f - \log w
        \qquad\text{or}\qquad
        \operatorname{logit} p(x) = \operatorname{logit} s(x) + \operatorname{logit} \pi - \operatorname{logit} \pi_t,

    where s is the model's probability, f the share of negatives that was kept, w the weight of a positive row relative
    to a negative one (``scale_pos_weight``; repeating every positive k times is w = k), :math:`\pi_t` the rate of
    events in training and :math:`\pi` the true one. Derivation: by Bayes' rule the odds are (prior odds) x (likelihood
    ratio), and dropping negatives at random leaves the ratio alone and divides the prior odds by f.

    Parameters
    ----------
    kept_negatives
        Share of the negatives that stayed in training, in (0, 1].
    class_weight
        Weight of positives relative to negatives, above 0; can be combined with ``kept_negatives``. For several classes
        a mapping from each class, in the order of the columns, to its weight.
    train_rate, true_rate
        Event rates in training and in the population, instead of the above. For several classes two mappings with the
        frequency of each class: log-probabilities are shifted by the logarithm of the ratio.
    method
        Optional: ``"undersampling"``, ``"oversampling"`` (repeating rows) or ``"weights"``. SMOTE and other methods
        that generate synthetic rows raise an error.

    Notes
    -----
    Edge cases: scores of 0 and 1 are clipped and stay within 2e-10 / f of them. The ranking does not change.
    Guarantee: exact if s is calibrated on the training distribution and rows of a class were kept independently of x;
    no finite-sample guarantee otherwise. Miscalibration of the model itself remains: use :func:`calibrant.check` on the
    result when labels are available. Cost: none.
    References: Elkan (2001), Theorem 2; King and Zeng (2001), on prior correction; Dal Pozzolo et al. (2015).

    Examples
    --------
    >>> correction = SamplingCorrection(kept_negatives=0.1)
    >>> print(correction)
    10 % of the negatives were kept in training: odds are multiplied by 0.1, so a score of 0.5 becomes 0.09091.
    >>> correction.transform([0.5, 0.9]).round(4).tolist()
    [0.0909, 0.4737]
    >>> SamplingCorrection(train_rate=0.5, true_rate=0.02).transform([0.5]).round(4).tolist()
    [0.02]
    >>> balanced = SamplingCorrection(class_weight={"common": 1.0, "rare": 5.0, "rarest": 20.0})
    >>> balanced.transform([[0.2, 0.5, 0.3]]).round(3).tolist()
    [[0.635, 0.317, 0.048]]
    """

    kept_negatives: float | None = None
    class_weight: float | Mapping[str, float] | None = None
    train_rate: float | Mapping[str, float] | None = None
    true_rate: float | Mapping[str, float] | None = None

    def __init__(
        self,
        *unnamed: Any,
        kept_negatives: float | None = None,
        class_weight: float | Mapping[Any, float] | None = None,
        train_rate: float | Mapping[Any, float] | None = None,
        true_rate: float | Mapping[Any, float] | None = None,
        method: str | None = None,
        **unknown: Any,
    ) -> None:
        _refuse_unnamed(unnamed, unknown)
        _refuse_synthetic(method)
        if any(isinstance(each, Mapping) for each in (class_weight, train_rate, true_rate)):
            of_classes = {"class_weight": class_weight, "train_rate": train_rate, "true_rate": true_rate}
            _refuse_mixed(kept_negatives, of_classes)
            named = {name: _by_class(name, each) for name, each in of_classes.items() if each is not None}
            for name in ("kept_negatives", *of_classes):
                object.__setattr__(self, name, named.get(name))
            classes, shift = _shift_of_classes(named)
            super().__init__(SoftmaxMap(classes, np.ones(1), shift, "probability", CLAMP), None, NO_ROWS)
            return
        recipe: dict[str, Any] = {"kept_negatives": kept_negatives, "class_weight": class_weight}
        rates: dict[str, Any] = {"train_rate": train_rate, "true_rate": true_rate}
        offset = _offset(recipe, rates)
        for name, value in {**recipe, **rates}.items():
            object.__setattr__(self, name, None if value is None else float(value))
        super().__init__(LogitAffineMap(1.0, offset), None, NO_ROWS)

    def __str__(self) -> str:
        """One sentence."""
        if isinstance(self.map, SoftmaxMap):
            factors = np.exp(self.map.intercept - self.map.intercept.max())
            each = ", ".join(f"{name} {factor:.4g}" for name, factor in zip(self.classes, factors, strict=True))
            return f"Probabilities are multiplied by a factor for each class and divided by their sum: {each}."
        done = []
        if self.kept_negatives is not None:
            done.append(f"{100 * self.kept_negatives:.4g} % of the negatives were kept in training")
        if self.class_weight is not None:
            done.append(f"positives had {cast(float, self.class_weight):.4g} times the weight of negatives in training")
        if self.train_rate is not None and self.true_rate is not None:
            train, true = 100 * cast(float, self.train_rate), 100 * cast(float, self.true_rate)
            done.append(f"the event rate was {train:.4g} % in training and is {true:.4g} % in the population")
        text = " and ".join(done)
        half = float(self.map.apply(np.array([0.5]))[0])
        return (
            f"{text[0].upper()}{text[1:]}: odds are multiplied by {math.exp(self.offset):.4g}, "
            f"so a score of 0.5 becomes {half:.4g}."
        )

    def __repr__(self) -> str:
        """The arguments."""
        names = ("kept_negatives", "class_weight", "train_rate", "true_rate")
        given = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) is not None]
        return f"SamplingCorrection({', '.join(given)})"

    @property
    def offset(self) -> float:
        """The shift of the log-odds; for several classes there is one for each, in ``map.intercept``."""
        if not isinstance(self.map, LogitAffineMap):
            raise InputError("offset", "is that of one score, and there are several classes", "use map.intercept")
        return self.map.intercept


def _refuse_unnamed(unnamed: tuple[Any, ...], unknown: dict[str, Any]) -> None:
    """Refuse a number without a name, which may be a share or a weight, and names that there are not."""
    fix = "pass what is known by name: kept_negatives= or class_weight=, or train_rate= and true_rate="
    for value in unnamed:
        raise InputError("kept_negatives", f"or another argument is meant by {value!r}", fix)
    for name, value in unknown.items():
        raise InputError(Setting(name, value), "is not an argument", fix)


def _refuse_mixed(kept_negatives: float | None, given: dict[str, Any]) -> None:
    """Reject a mixture of numbers and mappings, and the wrong number of them."""
    there = {name for name, each in given.items() if each is not None}
    if kept_negatives is not None or there not in ({"class_weight"}, {"train_rate", "true_rate"}):
        raise InputError(
            "class_weight",
            "by class must be given alone, or train_rate together with true_rate by class",
            "pass class_weight={...}, or train_rate={...} and true_rate={...}",
        )
    odd = next((name for name in there if not isinstance(given[name], Mapping)), None)
    if odd is not None:
        raise InputError(odd, f"must be a mapping from each class to a number, got {given[odd]!r}")


def _by_class(name: str, given: Any) -> dict[str, float]:
    """Positive numbers by the text of each class."""
    found = {str(key_text(key, name)): float(value) for key, value in given.items()}
    if len(found) < 2 or not all(1e-12 <= value <= 1e12 for value in found.values()):
        raise InputError(name, f"must have a number above 0 for each of two classes or more, got {given!r:.80}")
    return found


def _shift_of_classes(named: dict[str, dict[str, float]]) -> tuple[tuple[str, ...], Floats]:
    """The classes in their order, and the shift of the log-probability of each."""
    if "class_weight" in named:
        weights = named["class_weight"]
        return tuple(weights), -np.log(np.array(list(weights.values())))
    train, true = named["train_rate"], named["true_rate"]
    if set(train) != set(true):
        raise InputError("true_rate", "must have the classes of train_rate", f"they are {', '.join(train)}")
    for name, rates in named.items():
        if abs(sum(rates.values()) - 1.0) > 1e-6:
            raise InputError(name, f"must sum to 1, got {sum(rates.values()):.6g}", "pass the frequency of every class")
    return tuple(train), np.log(np.array([true[each] / train[each] for each in train]))


def _offset(recipe: dict[str, float | None], rates: dict[str, float | None]) -> float:
    kept, weight = recipe["kept_negatives"], recipe["class_weight"]
    train, true = rates["train_rate"], rates["true_rate"]
    by_recipe, by_rates = kept is not None or weight is not None, train is not None or true is not None
    if by_recipe == by_rates or (train is None) != (true is None):
        raise InputError(
            "kept_negatives",
            "and class_weight describe the sampling in one way, the two rates in another, and exactly one is needed",
            "pass kept_negatives, class_weight or both; or pass train_rate together with true_rate",
        )
    if train is not None and true is not None:
        return log_odds(check_rate("true_rate", true)) - log_odds(check_rate("train_rate", train))
    offset = 0.0
    if kept is not None:
        if not 1e-12 <= kept <= 1.0:
            raise InputError(
                "kept_negatives",
                f"must be the share of negatives kept, in (0, 1], got {kept!r}",
                "write 10 % as 0.1",
            )
        offset += math.log(kept)
    if weight is not None:
        if not 1e-12 <= weight <= 1e12:
            raise InputError(
                "class_weight", f"must be the weight of a positive row, a finite number above 0, got {weight!r}"
            )
        offset -= math.log(weight)
    return offset


def _refuse_synthetic(method: str | None) -> None:
    name = None if method is None else str(method).lower().replace("_", "-")
    if name is None or name in RESAMPLING:
        return
    if name in SYNTHETIC:
        raise InputError(
            Setting("method", method),
            "generates synthetic rows, which change the score distributions, so no factor on the odds corrects it",
            "fit a calibrator, such as PlattScaling, to real held-out rows",
        )
    raise InputError(
        Setting("method", method),
        "is not a known method",
        "pass 'undersampling', 'oversampling' or 'weights', or leave it out",
    )
