"""Undo undersampling, class weights and other changes of the class ratio, from the recipe alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.calibration import Calibration
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import LogitAffineMap
from calibrant.messages import InputError, Setting
from calibrant.shift.stages import check_rate, log_odds

RECIPE = Refusal(RefusalCode.NOT_FITTED, "the map is arithmetic on the sampling recipe, and saw no rows")

SYNTHETIC = frozenset({"smote", "adasyn", "borderline-smote", "svm-smote", "smotenc", "rose", "mixup", "synthetic"})
"""Ways to rebalance that make rows up."""

DRAWN = frozenset({"undersampling", "oversampling", "weights"})
"""Ways to rebalance that keep, repeat or weigh rows of one class alike."""


@dataclass(frozen=True, init=False, repr=False)
class SamplingCorrection(Calibration):
    r"""The calibration that undoes a change of the class ratio in training; needs no data.

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
        Weight of positives relative to negatives, above 0; may stand beside ``kept_negatives``.
    train_rate, true_rate
        Rates of events in training and in truth, instead of the recipe.
    method
        What was done, if you care to say: ``"undersampling"``, ``"oversampling"`` (repeating rows) or ``"weights"``.
        SMOTE and other made-up rows are refused.

    Notes
    -----
    Edge rules: scores of 0 and 1 are moved inside the map's clamp and stay within 2e-10 / f of them. The ranking stays.
    Guarantee: exact if s is calibrated on the training distribution and rows of a class were kept without regard to x;
    no finite-sample guarantee otherwise. What the model itself is off by remains: :func:`calibrant.check` the result
    when labels are there. Cost: none.
    References: Elkan 2001, Theorem 2; King and Zeng 2001, on prior correction; Dal Pozzolo et al. 2015.

    Examples
    --------
    >>> correction = SamplingCorrection(kept_negatives=0.1)
    >>> print(correction)
    Only 10 % of the negatives were kept in training: odds are multiplied by 0.1, so that a score of 0.5 becomes
    0.09091.
    >>> correction.transform([0.5, 0.9]).round(4).tolist()
    [0.0909, 0.4737]
    >>> SamplingCorrection(train_rate=0.5, true_rate=0.02).transform([0.5]).round(4).tolist()
    [0.02]
    """

    kept_negatives: float | None = None
    class_weight: float | None = None
    train_rate: float | None = None
    true_rate: float | None = None

    def __init__(
        self,
        *,
        kept_negatives: float | None = None,
        class_weight: float | None = None,
        train_rate: float | None = None,
        true_rate: float | None = None,
        method: str | None = None,
    ) -> None:
        _refuse_synthetic(method)
        recipe = {"kept_negatives": kept_negatives, "class_weight": class_weight}
        rates = {"train_rate": train_rate, "true_rate": true_rate}
        offset = _offset(recipe, rates)
        for name, value in {**recipe, **rates}.items():
            object.__setattr__(self, name, None if value is None else float(value))
        super().__init__(LogitAffineMap(1.0, offset), None, RECIPE)

    def __str__(self) -> str:
        """One sentence."""
        done = []
        if self.kept_negatives is not None:
            done.append(f"only {100 * self.kept_negatives:.4g} % of the negatives were kept in training")
        if self.class_weight is not None:
            done.append(f"positives weighed {self.class_weight:.4g} times as much as negatives in training")
        if self.train_rate is not None and self.true_rate is not None:
            train, true = 100 * self.train_rate, 100 * self.true_rate
            done.append(f"{train:.4g} % of the rows were events in training and {true:.4g} % are in truth")
        text = " and ".join(done)
        half = float(self.map.apply(np.array([0.5]))[0])
        return (
            f"{text[0].upper()}{text[1:]}: odds are multiplied by {math.exp(self.offset):.4g}, "
            f"so that a score of 0.5 becomes {half:.4g}."
        )

    def __repr__(self) -> str:
        """The recipe."""
        names = ("kept_negatives", "class_weight", "train_rate", "true_rate")
        given = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) is not None]
        return f"SamplingCorrection({', '.join(given)})"

    @property
    def offset(self) -> float:
        """What is added to the log-odds."""
        assert isinstance(self.map, LogitAffineMap)
        return self.map.intercept


def _offset(recipe: dict[str, float | None], rates: dict[str, float | None]) -> float:
    kept, weight = recipe["kept_negatives"], recipe["class_weight"]
    train, true = rates["train_rate"], rates["true_rate"]
    by_recipe, by_rates = kept is not None or weight is not None, train is not None or true is not None
    if by_recipe == by_rates or (train is None) != (true is None):
        raise InputError(
            "kept_negatives",
            "and / or class_weight must be given, or train_rate together with true_rate, but not both",
        )
    if train is not None and true is not None:
        return log_odds(check_rate("true_rate", true)) - log_odds(check_rate("train_rate", train))
    offset = 0.0
    if kept is not None:
        if not 1e-12 <= kept <= 1.0:
            raise InputError(
                "kept_negatives",
                f"must be the share of negatives that was kept, in (0, 1], got {kept!r}",
                "10 % is 0.1",
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
    if name is None or name in DRAWN:
        return
    if name in SYNTHETIC:
        raise InputError(
            Setting("method", method),
            "makes rows up, so the classes' score distributions change and no factor on the odds undoes it",
            "fit a calibrator, such as PlattScaling, on real held-out rows",
        )
    raise InputError(
        Setting("method", method), "is not known", "pass 'undersampling', 'oversampling' or 'weights', or leave it out"
    )
