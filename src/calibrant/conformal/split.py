"""Split conformal: some rows fit the model, the others give the radius."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from calibrant.arrays.columns import check_length, read_floats, refuse_not_finite
from calibrant.conformal.base import ConformalRegressor, Floats, generator, is_number, read_rows, take
from calibrant.conformal.conditional.thresholds import Calibrated, Unseen
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.families import Family, family_of
from calibrant.conformal.models import check_model
from calibrant.conformal.nested import Band
from calibrant.conformal.quantiles import check_alpha, check_ratios, conformal_quantile
from calibrant.conformal.sets import PredictionSets
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError


@dataclass(eq=False, repr=False)
class SplitConformal(ConformalRegressor):
    r"""Prediction intervals around any regressor, by split conformal prediction.

    With scores :math:`r_i` of the m rows that were held out, and :math:`\hat r` the
    :math:`\lceil (1 - \alpha)(m + 1) \rceil`-th smallest of them, the set of a new row is
    :math:`C(x) = \{y : r(x, y) \le \hat r\}`.

    Parameters
    ----------
    model
        A regressor of scikit-learn or with its interface. For the families of quantiles see :class:`Quantiles`.
    alpha
        Miscoverage level: sets hold a new outcome with probability at least 1 - alpha.
    family : str or Family
        Shape of the sets: ``"residual"`` (one radius), ``"scaled"`` (radius by a model of the spread), ``"cqr"``,
        ``"cqr-m"`` or ``"cqr-r"`` (between quantiles), ``"distribution"`` (quantiles of a forest), or a
        :class:`Family` with settings.
    calibration_share
        Share of the rows that is held out.
    prefit
        Whether the model is fitted already: then all rows passed to ``fit`` are new to it, and calibrate. A model in
        scikit-learn's ``FrozenEstimator`` is always prefit, as is a tuple of such models; a model with a frozen part
        needs ``prefit=True``.
    random_state
        Seed of the split.

    Attributes
    ----------
    scores_
        Scores of the held-out rows, in increasing order.
    calibration_rows_
        Positions of the held-out rows.

    Notes
    -----
    Guarantee: finite-sample. If old and new rows are exchangeable, a new outcome is in its set with probability at
    least 1 - alpha, and at most 1 - alpha + 1/(m + 1) if scores have no ties; also given the rows that fitted the
    model. It is marginal: some kinds of rows may be covered less often. docs/certificates/conformal.md has the proof.
    References: Papadopoulos et al. (2002); Lei et al. (2018); Gupta (2023), Proposition 9.1.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = X[:, 0] + rng.normal(size=400)
    >>> sets = SplitConformal(LinearRegression(), alpha=0.1).fit(X, y).predict_sets([[0.0], [2.0]])
    >>> print(sets)
    2 prediction sets, mean width 3.143.
      A new outcome is in its set with probability at least 90 % (Gupta (2023), Proposition 9.1),
      if old and new rows are exchangeable, such as independent draws from one population.
      row 0: -1.584 to 1.559
      row 1: 0.66 to 3.803
    """

    model: Any
    _: KW_ONLY
    alpha: float = 0.1
    family: str | Family = "residual"
    calibration_share: float = 0.3
    prefit: bool = False
    random_state: int | None = 0

    def fit(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None, sample_weight: Any = None) -> Self:
        """Fit the model to some rows, and keep the scores of the others.

        Parameters
        ----------
        X, y
            Features and outcomes.
        groups
            Group of each row, for sets with the coverage in each group; new rows then need theirs.
        sample_weight
            Density ratio of new and old rows, for new rows from another population, which then need theirs;
            :func:`calibrant.shift.known_weights` declares one that is known. The model does not use it.
        """
        check_alpha(self.alpha)
        family, prefit = family_of(self.family), self.prefit or _frozen_whole(self.model)
        check_model(self.model, family, prefit=prefit)
        n, outcomes = read_rows(X, y, least=1 if prefit else 2)
        if prefit:
            held = np.arange(n)
            fitted = held[:0]
        else:
            if not is_number(self.calibration_share) or not 0.0 < self.calibration_share < 1.0:
                raise InputError("calibration_share", f"must be between 0 and 1, got {self.calibration_share!r}")
            size = min(max(round(n * self.calibration_share), 1), n - 1)
            order = generator(self.random_state).permutation(n)
            held, fitted = np.sort(order[:size]), np.sort(order[size:])
        if prefit:
            self.learned_ = family.fit(self.model, X, outcomes, prefit=True)
        else:
            self.learned_ = family.fit(self.model, take(X, fitted), outcomes[fitted])
        scores = self.learned_.nested(take(X, held)).score(outcomes[held])
        self.scores_: Floats = np.sort(scores)
        self.calibrated_ = Calibrated(scores).taken(groups, sample_weight, n, held)
        self.calibration_rows_: NDArray[np.int64] = held
        return self

    def predict(self, X: Any) -> Floats:
        """The model's own forecasts; the middle of the quantiles for families of quantiles."""
        check_is_fitted(self)
        return self.learned_.center(X)

    def predict_sets(
        self,
        X: Any,
        alpha: float | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        unseen: Unseen = "refuse",
    ) -> PredictionSets:
        """Prediction sets of new rows, with the certificate for this alpha.

        Parameters
        ----------
        X
            Features of new rows.
        alpha
            Another alpha than that of the method.
        groups, sample_weight
            Group or density ratio of each row, if ``fit`` had them.
        unseen
            What to do with a group that ``fit`` did not see: ``"refuse"``, or ``"everything"``, the whole line.
        """
        check_is_fitted(self)
        if groups is None and sample_weight is None and self.calibrated_.alike:
            return super().predict_sets(X, alpha)
        level = check_alpha(self.alpha if alpha is None else alpha)
        if _num_samples(X) == 0:
            raise InputError("X", "is empty", "pass at least one row")
        nested = self.learned_.nested(X)
        limits = self.calibrated_.at(level).at(len(nested), groups=groups, weights=sample_weight, unseen=unseen)
        lower, upper = nested.level(limits[:, 0])
        return PredictionSets.from_intervals(lower, upper, self.certificate(level))

    def _calibration_rows(self) -> int:
        return self.scores_.size

    def _ends_of_a_row(self) -> int:
        return 1

    def _sets(self, X: Any, alpha: float) -> PredictionSets:
        lower, upper = self.learned_.nested(X).level(np.asarray(conformal_quantile(self.scores_, alpha)))
        return PredictionSets.from_intervals(lower, upper)

    def _certificate(self, alpha: float) -> Coverage | NoCertificate:
        return self.calibrated_.at(alpha).certificate()


def split_intervals(
    predicted: ArrayLike,
    y: ArrayLike,
    new_predicted: ArrayLike,
    *,
    alpha: float = 0.1,
    spread: ArrayLike | None = None,
    new_spread: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    new_groups: ArrayLike | None = None,
    sample_weight: Any = None,
    new_sample_weight: Any = None,
    unseen: Unseen = "refuse",
) -> PredictionSets:
    """Intervals around forecasts, from past forecasts and their outcomes alone: no model is needed.

    Parameters
    ----------
    predicted, y
        Past forecasts and their outcomes; the forecaster must not have learned from these outcomes.
    new_predicted
        New forecasts.
    alpha
        Miscoverage level.
    spread, new_spread
        How uncertain the forecaster says it is, in any unit: then the radius is proportional to it.
    groups, new_groups
        Group of each row, for the coverage in each group.
    sample_weight, new_sample_weight
        Density ratio of new and past rows, for new rows from another population;
        :func:`calibrant.shift.known_weights` declares one that is known.
    unseen
        What to do with a new group: ``"refuse"``, or ``"everything"``, the whole line.

    Returns
    -------
    PredictionSets
        One interval for each new forecast, with its certificate.

    Notes
    -----
    Guarantee: finite-sample. A new outcome is in its interval with probability at least 1 - alpha, if past and new rows
    are exchangeable. References: Papadopoulos et al. (2002); Gupta (2023), Proposition 9.1.

    Examples
    --------
    >>> past, outcomes = [10.0, 12.0, 9.0, 11.0], [11.0, 10.0, 9.5, 14.0]
    >>> split_intervals(past, outcomes, [10.0], alpha=0.25).to_array().round(6).tolist()
    [[[7.0, 13.0]]]
    """
    old, new = (_finite(each, name) for each, name in ((predicted, "predicted"), (new_predicted, "new_predicted")))
    outcomes = _finite(y, "y")
    check_length(outcomes, "y", old.size, "predicted")
    if (spread is None) != (new_spread is None):
        raise InputError("spread", "is given for old or new rows alone", "pass spread and new_spread, or neither")
    speeds: list[Floats | None] = [None, None]
    if spread is not None and new_spread is not None:
        speeds = [_finite(spread, "spread"), _finite(new_spread, "new_spread")]
        for each, name, rows, of in zip(
            speeds, ("spread", "new_spread"), (old, new), ("predicted", "new_predicted"), strict=True
        ):
            assert each is not None
            check_length(each, name, rows.size, of)
            if (each <= 0.0).any():
                raise InputError(name, "has values that are not above 0", "pass positive spreads")
    if new_sample_weight is not None:
        check_ratios(read_floats(new_sample_weight, "new_sample_weight"), "new_sample_weight")
    scores = Band.around(old, speeds[0]).score(outcomes)
    thresholds = Calibrated(scores, groups, sample_weight).at(check_alpha(alpha))
    limits = thresholds.at(new.size, groups=new_groups, weights=new_sample_weight, unseen=unseen)
    lower, upper = Band.around(new, speeds[1]).level(limits[0, 0] if len(limits) == 1 else limits[:, 0])
    return PredictionSets.from_intervals(lower, upper, thresholds.certificate())


def _frozen_whole(model: Any) -> bool:
    if isinstance(model, tuple | list):
        return bool(model) and all(isinstance(each, FrozenEstimator) for each in model)
    return isinstance(model, FrozenEstimator)


def _finite(values: ArrayLike, name: str) -> Floats:
    found: Floats = read_floats(values, name)
    if not np.isfinite(found).all():
        refuse_not_finite(found, name, "drop these rows")
    return found
