"""Correct for undersampling, class weights and other changes of the class ratio in training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.calibration import Calibration
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import LogitAffineMap
from calibrant.messages import InputError, Setting
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
        Weight of positives relative to negatives, above 0; can be combined with ``kept_negatives``.
    train_rate, true_rate
        Event rates in training and in the population, instead of the above.
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
        super().__init__(LogitAffineMap(1.0, offset), None, NO_ROWS)

    def __str__(self) -> str:
        """One sentence."""
        done = []
        if self.kept_negatives is not None:
            done.append(f"{100 * self.kept_negatives:.4g} % of the negatives were kept in training")
        if self.class_weight is not None:
            done.append(f"positives had {self.class_weight:.4g} times the weight of negatives in training")
        if self.train_rate is not None and self.true_rate is not None:
            train, true = 100 * self.train_rate, 100 * self.true_rate
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
        """The shift of the log-odds."""
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
