"""Multiclass scaling: a slope and an intercept for each class, or all slopes between classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal, cast, get_args

import numpy as np

from calibrant.arrays.columns import check_option, is_whole
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.fits.multiclass.penalty import Ridge
from calibrant.fits.multiclass.ridge import Affine, fit_affine
from calibrant.fits.multiclass.softmax import LogRows, fit_slope, zero_notes
from calibrant.maps import SoftmaxMap
from calibrant.messages import InputError, Note, Voice, note
from calibrant.messages import Setting as Option
from calibrant.selection.folds import FOLDS
from calibrant.selection.multiclass.cross_validation import (
    MAX_MATRIX_CLASSES,
    Setting,
    Trials,
    View,
    best_setting,
    fit_setting,
    fold_count,
    middle,
    safest,
    searched,
)
from calibrant.selection.multiclass.folds import MulticlassFolds, some_rows

ScaledOn = Literal["log-probability", "logit"]
"""What slopes act on: log probabilities, or logits as the model gave them."""

MAX_RAW_LOGIT = 1e6
"""Raw logits of a fit may be this large, so that their squares neither overflow nor lose the intercepts."""

MAX_COMPARED_SCORES = 1 << 19
"""Settings are compared on at most about this many scores."""

DIAGONAL_SHARE = 1e-2
"""Penalty of a diagonal slope in Dirichlet scaling relative to an off-diagonal one: enough to keep it bounded."""


scaled_together = note(
    "scaled-together",
    "columns are independent probabilities, but are scaled jointly: the rows of the output sum to 1",
)


class SoftmaxCalibrator(MulticlassCalibrator):
    """Base class of multiclass scalings: the fit, the clamp and the printout.

    Attributes
    ----------
    temperature_ : float
        The temperature of pure temperature scaling; the penalties measure slopes relative to it.
    """

    on: ScaledOn = "log-probability"
    clamp: float | None = None
    temperature_: float

    def _fit_affine(self, rows: MulticlassRows, ridge: Ridge) -> Fit[SoftmaxMap]:
        """Fit a map on log probabilities or raw logits with these penalties."""
        check_option("on", self.on, get_args(ScaledOn))
        if self.on == "logit":
            logs = _raw_logits(rows, self.clamp)
            slope, notes = _slope(rows, logs)
            return Fit(fit_affine(logs, ridge, slope).to_map(logs), notes, {"temperature_": 1.0 / slope})
        if self.clamp is not None and not 0.0 < self.clamp < 1.0:
            raise InputError("clamp", f"must lie between 0 and 1, got {self.clamp!r}")
        logs = LogRows.of(rows, self.clamp)
        slope, notes = _slope(rows, logs)
        fitted = fit_affine(logs, ridge, slope).to_map(logs)
        return Fit(fitted, (*zero_notes(rows, logs.clamp), *notes), {"temperature_": 1.0 / slope})

    def _describe(self, voice: Voice) -> str:
        fitted = cast(SoftmaxMap, self.map_)
        size = len(fitted.classes)
        slopes = fitted.slope if len(fitted.slope) == size else fitted.slope.reshape(size, size).diagonal()
        span = (
            f"slopes from {slopes.min():.4g} to {slopes.max():.4g} (temperature scaling: {1 / self.temperature_:.4g})"
        )
        of = ", of raw logits" if fitted.raw else ""
        return f"{span}, intercepts from {fitted.intercept.min():.4g} to {fitted.intercept.max():.4g}{of}"


@dataclass(eq=False, repr=False)
class VectorScaling(SoftmaxCalibrator):
    r"""Vector scaling: a slope and an intercept for each class, on log probabilities or on raw logits.

    .. math:: m(z) = \operatorname{softmax}(v \odot z + b)

    with :math:`z = \log p` and p the probabilities, or the softmax of logits. This is the diagonal case of
    :class:`DirichletScaling`. The vector scaling of Guo et al. (2017), ``on="logit"``, has its slopes on raw logits,
    which differ from :math:`\log p` by a number that varies from row to row. It is a different family: the two share
    only the maps whose slopes are all equal, which are temperature scaling with intercepts. Ridge penalties of
    :math:`\tfrac{\lambda}{2} \sum_k (v_k / t - \bar v / t)^2` and :math:`\tfrac{\lambda}{2} \sum_k b_k^2`, with t the
    slope of pure temperature scaling, keep the parameters bounded if the classes are separable.

    Parameters
    ----------
    ridge : float
        :math:`\lambda`, in rows.
    on : {"log-probability", "logit"}
        What the slopes act on. ``"logit"`` takes logits as the model gave them, and needs them as scores.
    clamp : float, optional
        Lower bound to which probabilities are clipped before their logarithm is taken. By default those below 2**-32
        count as 0 and are replaced by half the smallest other one, with a note; logits are clipped at 1e-300.
        Refused with ``on="logit"``.

    Notes
    -----
    Edge cases: a class without rows keeps the slope of the temperature map; its intercept is determined by the penalty.
    Adding a constant to a row of logits has no effect, except with ``on="logit"``: there the logits of a new row must
    come from the same model, and neither be shifted nor be normalized.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: about eight Newton steps up to 16 classes, then about 20 passes of log loss and gradient over the rows; above
    150 classes some dozens.
    Reference: Kull et al. (2019), for log probabilities; Guo et al. (2017) and Gupta (2023), eq. 1.14, for logits
    (docs/errata.md).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> tilted = p * [1, 1, 3]
    >>> y = [rng.choice(3, p=row / row.sum()) for row in tilted]
    >>> VectorScaling().fit(p, y).transform([[0.25, 0.25, 0.5]]).round(2).tolist()
    [[0.12, 0.12, 0.76]]

    On raw logits, of which the first is too large in scale:

    >>> z = rng.normal(size=(3000, 3)) * [3, 1, 1]
    >>> y = [rng.choice(3, p=row / row.sum()) for row in np.exp(z / [3, 1, 1])]
    >>> VectorScaling(on="logit").fit(z, y, score_type="logit").map_.slope.round(1).tolist()
    [0.3, 1.1, 1.0]
    """

    ridge: float = 1.0
    _: KW_ONLY
    on: ScaledOn = "log-probability"
    clamp: float | None = None

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SoftmaxMap]:
        check_ridge("ridge", self.ridge)
        return self._fit_affine(rows, Ridge(self.ridge, None, self.ridge))


@dataclass(eq=False, repr=False)
class MatrixScaling(SoftmaxCalibrator):
    r"""Matrix scaling: a full matrix of slopes between classes, on log probabilities or on raw logits.

    .. math:: m(z) = \operatorname{softmax}(W z + b)

    with :math:`z = \log p`, ridge penalties on the off-diagonal entries of W and on b (ODIR), in units of logits after
    pure temperature scaling, and a penalty of one row on the diagonal, which keeps it bounded if the classes are
    separable. The family is that of :class:`DirichletScaling`, with given penalties. The matrix scaling of Guo et al.
    (2017), ``on="logit"``, acts on raw logits and is a different family, unless all rows of W have the same sum.

    Parameters
    ----------
    off_diagonal, intercept : float
        Penalties of the off-diagonal entries and of the intercepts, in rows.
    on, clamp
        As in :class:`VectorScaling`.

    Notes
    -----
    Edge cases: as in :class:`VectorScaling`. K classes have K (K + 1) parameters: with few rows for each of them use
    :class:`StructuredScaling`, which chooses the penalty.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: about eight Newton steps of n K^4 / 4 operations up to 16 classes, then 20 to 100 passes of 4 n K^2, more the
    weaker the penalties.
    Reference: Kull et al. (2019), for log probabilities and the penalties; Guo et al. (2017) and Gupta (2023), eq.
    1.15, for logits (docs/errata.md).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> y = [rng.choice(3, p=0.5 * row + 0.5 * row[[1, 0, 2]]) for row in p]  # the first two are often confused
    >>> MatrixScaling().fit(p, y).transform([[0.6, 0.2, 0.2]]).round(2).tolist()
    [[0.38, 0.42, 0.2]]
    """

    off_diagonal: float = 10.0
    intercept: float = 1.0
    _: KW_ONLY
    on: ScaledOn = "log-probability"
    clamp: float | None = None

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SoftmaxMap]:
        check_ridge("off_diagonal", self.off_diagonal)
        check_ridge("intercept", self.intercept)
        return self._fit_affine(rows, Ridge(1.0, self.off_diagonal, self.intercept))


@dataclass(eq=False, repr=False)
class StructuredScaling(SoftmaxCalibrator):
    r"""Structured scaling: a matrix of slopes shrunk toward a common temperature.

    .. math:: m(z) = \operatorname{softmax}\bigl(t (V z) + b\bigr)

    with t the slope of pure temperature scaling, V near the identity, and ridge penalties :math:`\lambda / 5` for the
    deviations of its diagonal from their mean, :math:`\lambda` for the off-diagonal entries, and 1 for the intercepts,
    all in rows. Up to 128 classes V is a full matrix, beyond that it is diagonal.

    Parameters
    ----------
    strength : float, optional
        :math:`\lambda`. By default 30 (300 above 32 classes), unless a value from 1 to 1,000 is better by a standard
        error on held-out rows.
    clamp : float, optional
        Lower bound to which probabilities are clipped. By default the best on held-out rows, from no bound to 0.01:
        random forests, for example, predict 0 too often.
    cv : int
        Number of folds for this choice.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    strength_, clamp_ : float
        The penalty and the clamp in use.

    Notes
    -----
    Edge cases: as in :class:`VectorScaling`. With one row, or one fold, the first penalty and the clamp 2**-32 are
    used.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Above 32 classes penalties are compared on one fold, an odd number of five or more folds is lowered by one, and
    logits are not clipped.
    Cost: about ten settings, each fitted ``cv`` times; above 32 classes about 50 passes of log loss and gradient over
    the rows, with progress in the logger ``calibrant`` at level INFO.
    Reference: Kull et al. (2019) and Berta et al. (2025) for penalized matrices.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> y = [rng.choice(3, p=0.5 * row + 0.5 * row[[1, 0, 2]]) for row in p]  # the first two are often confused
    >>> cal = StructuredScaling().fit(p, y)
    >>> cal.transform([[0.6, 0.2, 0.2]]).round(2).tolist(), cal.strength_
    ([[0.38, 0.41, 0.21]], 30.0)
    """

    strength_: float = field(init=False)
    clamp_: float = field(init=False)

    strength: float | None = None
    _: KW_ONLY
    clamp: float | None = None
    cv: int = FOLDS
    random_state: int = 0

    def _first(self, size: int) -> Setting:
        """The setting with which the search starts."""
        return Setting("matrix" if size <= MAX_MATRIX_CLASSES else "vector", self.clamp or 2.0**-32, middle(size))

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SoftmaxMap]:
        setting, start = self._setting(rows)
        logs = LogRows.of(rows, setting.clamp)
        slope, notes = _slope(rows, logs, start)
        fitted = fit_setting(setting, logs, slope, start)[0]
        return Fit(fitted, notes, {"temperature_": 1.0 / slope} | self._chosen(setting))

    def _chosen(self, setting: Setting) -> dict[str, float]:
        """Attributes with the chosen setting."""
        return {"strength_": setting.strength, "clamp_": setting.clamp}

    def _setting(self, rows: MulticlassRows) -> tuple[Setting, Affine | None]:
        """The setting in use, and a start for its fit."""
        check_parts(self.cv)
        if self.clamp is not None and not 0.0 < self.clamp < 1.0:
            raise InputError("clamp", f"must lie between 0 and 1, got {self.clamp!r}")
        first = self._first(len(rows.classes))
        if self.strength is not None:
            check_ridge("strength", self.strength)
            first = replace(first, strength=self.strength)
            if self.clamp is not None:
                return first, None
        view = crossed(rows, self.cv, self.random_state)
        if view is None:
            return first, None
        found = self._searched(view, first)
        return found, view.trials.start(found)

    def _searched(self, view: View, first: Setting) -> Setting:
        if self.strength is None:
            return searched(view, first) if self.clamp is None else best_setting(view, first, (self.clamp,))
        return safest(view, [replace(first, clamp=clamp) for clamp in view.trials.clamps()])

    def _describe(self, voice: Voice) -> str:
        return f"{super()._describe(voice)}; penalty {self.strength_:g} rows, clamp {self.clamp_:.3g}"


@dataclass(eq=False, repr=False)
class DirichletScaling(StructuredScaling):
    r"""Dirichlet calibration: the correct map if the probabilities follow a Dirichlet distribution in each class.

    .. math:: m(p) = \operatorname{softmax}(W \log p + b)

    with ridge penalties on the off-diagonal entries of W and on b (ODIR), chosen by cross-validation; the diagonal is
    nearly unpenalized. :class:`StructuredScaling` also shrinks the diagonal toward a common slope.

    Parameters
    ----------
    strength : float, optional
        Penalty of the off-diagonal entries, in rows; by default chosen as in :class:`StructuredScaling`.
    intercept : float, optional
        Penalty of the intercepts; by default the best on held-out rows among 0.1, 1, 10 and 100 (above 32 classes,
        1 and 10).
    clamp, cv, random_state
        As in :class:`StructuredScaling`.

    Attributes
    ----------
    strength_, intercept_, clamp_ : float
        The penalties and the clamp in use.

    Notes
    -----
    Edge cases and cost: as in :class:`StructuredScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Reference: Kull et al. (2019), in their linear parametrization; Gupta (2023), section 5.4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=3000)
    >>> p = np.array([rng.dirichlet(1 + 2 * np.eye(3)[label]) for label in y])
    >>> cal = DirichletScaling().fit(p, y)  # the true log-odds of two classes are 2 log (p_j / p_k)
    >>> cal.transform([[0.5, 0.25, 0.25]]).round(2).tolist()
    [[0.65, 0.18, 0.18]]
    """

    intercept: float | None = None

    def _first(self, size: int) -> Setting:
        if self.intercept is not None:
            check_ridge("intercept", self.intercept)
        penalty = 1.0 if self.intercept is None else self.intercept
        return replace(super()._first(size), form="matrix", share=DIAGONAL_SHARE, intercepts=penalty)

    def _chosen(self, setting: Setting) -> dict[str, float]:
        return {**super()._chosen(setting), "intercept_": setting.intercepts}

    def _searched(self, view: View, first: Setting) -> Setting:
        found = super()._searched(view, first)
        if self.intercept is not None:
            return found
        view = view.few()
        if not view.trials.many:
            return min((replace(found, intercepts=penalty) for penalty in (1.0, 0.1, 10.0, 100.0)), key=view.mean)
        return min(found, replace(found, intercepts=10.0), key=view.mean)


def _raw_logits(rows: MulticlassRows, clamp: float | None) -> LogRows:
    """The logits as given, or an error if there are none."""
    if clamp is not None:
        raise InputError("clamp", "applies to log probabilities only", "leave it out with on='logit'")
    if rows.score_type != "logit":
        raise InputError(
            Option("on", "logit"),
            "needs logits, and the scores are probabilities, which determine logits only up to a constant of each row",
            "pass logits with score_type='logit', or leave out on",
        )
    largest = float(np.abs(rows.scores).max(initial=0.0))
    if largest > MAX_RAW_LOGIT:
        raise InputError(
            "scores",
            f"has a logit of size {largest:.4g}, and slopes of raw logits need sizes up to {MAX_RAW_LOGIT:,.0f}",
            "divide them by a constant, or leave out on='logit'",
        )
    return LogRows.as_given(rows)


def _slope(rows: MulticlassRows, logs: LogRows, start: Affine | None = None) -> tuple[float, tuple[Note, ...]]:
    """The slope of the temperature map, and notes on it; the slope of other parameters saves time as a start."""
    slope, notes = fit_slope(logs, start=None if start is None else start.slope)
    return slope, (*((scaled_together(),) if rows.score_type == "independent" else ()), *notes)


def crossed(rows: MulticlassRows, cv: int, random_state: int) -> View | None:
    """The rows, or a subset, in folds for comparison by log loss; None if there is only one fold."""
    some = some_rows(rows, MAX_COMPARED_SCORES, random_state)
    if len(some) < 2:
        return None
    trials = Trials(some, MulticlassFolds.of(some, fold_count(some, cv), random_state), "log")
    return View(trials, trials.parts) if trials.parts else None


def check_parts(cv: int) -> None:
    """Check a number of folds."""
    if not is_whole(cv) or cv < 2:
        raise InputError("cv", f"must be an integer of at least 2, the number of folds, got {cv!r}")


def check_ridge(name: str, value: float) -> None:
    """Check a penalty in rows."""
    if not (np.isscalar(value) and not isinstance(value, str) and 0.0 < float(value) < np.inf):
        raise InputError(name, f"must be a number of rows above 0, got {value!r}")
