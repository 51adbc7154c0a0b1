"""Model updating: keep the model, correct its intercept, its intercept and slope, or its whole curve."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from calibrant.arrays.columns import check_option
from calibrant.calibration import Calibration
from calibrant.calibrators.binary.scaling import LogitShift, PlattScaling
from calibrant.calibrators.binary.spline import SplineCalibrator
from calibrant.clinical.tables import Table
from calibrant.maps import LogitAffineMap, Map
from calibrant.messages import CalibrantWarning, InputError, Note, note
from calibrant.metrics.binary.bins import grouped_or_tally
from calibrant.metrics.binary.curves.distances import Covariance, SplineModel, fitted_model
from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.metrics.estimates import Result
from calibrant.metrics.inputs import named_rows
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.notebook import table_block
from calibrant.numerics import Floats
from calibrant.solvers import fit_logistic, softplus
from calibrant.tallies import Clusters, Tally

Update = Literal["none", "intercept", "slope", "flexible"]
Method = Literal["closed test", "none", "intercept", "slope", "flexible"]

WORDS = {
    "none": "keep the original model",
    "intercept": "correct the intercept",
    "slope": "correct intercept and slope (logistic recalibration)",
    "flexible": "correct the whole curve (spline of the log-odds)",
}

CLUSTERS_FOR_CURVE = 40
"""Clusters that a test of a curve needs: eight for each of its coefficients; with fewer it rarely rejects anything."""

no_curve_to_test = note(
    "no-curve-to-test",
    "too few events or clusters to test a curve: intercept and slope are the largest correction that was tested",
)
spline_of_the_map = note(
    "spline-of-the-map",
    "the test uses a spline with fixed knots, the map a smooth curve that never decreases and whose smoothness is "
    "estimated",
)


@dataclass(frozen=True)
class UpdateTest(Result):
    """One test of the closed procedure: the largest correction against a smaller one.

    Attributes
    ----------
    smaller
        The smaller correction, which is the hypothesis.
    statistic
        Likelihood ratio; with clusters the F statistic of a Wald test with the cluster sandwich.
    df, df_error
        Degrees of freedom; ``df_error`` is None for a likelihood ratio.
    p_value
        Its p-value.
    """

    smaller: Update
    statistic: float
    df: int
    df_error: float | None
    p_value: float


@dataclass(frozen=True)
class ModelUpdate(Table):
    """A chosen update of a risk model: the tests that led to it, and the map to ship.

    Attributes
    ----------
    chosen
        ``"none"``, ``"intercept"``, ``"slope"`` or ``"flexible"``.
    calibration
        The update as a :class:`calibrant.Calibration`: ``transform`` applies it, and it is saved and exported like
        any other.
    tests
        The tests in the order of the procedure; none if the update was not chosen by tests.
    alpha
        Level of the procedure.
    notes
        What the reader must know, one sentence each.
    """

    chosen: Update
    calibration: Calibration
    tests: tuple[UpdateTest, ...]
    alpha: float
    notes: tuple[Note, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per test."""
        return [dict(vars(each)) for each in self.tests]

    @property
    def formula(self) -> str:
        """The update as a formula, if it has one."""
        found = self.calibration.map
        if self.chosen == "none":
            return "the predicted risks are kept"
        if not isinstance(found, LogitAffineMap):
            return "the update is a curve: write it with calibration.export_sql or calibration.export_source"
        return f"new log-odds = {found.intercept:.4f} + {found.slope:.4f} x log-odds of the predicted risk"

    def to_dict(self) -> dict[str, Any]:
        """Plain data; ``calibration`` is the document that :meth:`calibrant.Calibration.from_json` reads as text."""
        return {
            "chosen": self.chosen,
            "formula": self.formula,
            "calibration": json.loads(self.calibration.to_json()),
            "alpha": self.alpha,
            "tests": [each.to_dict() for each in self.tests],
            "notes": [each.as_dict() for each in self.notes],
        }

    def __str__(self) -> str:
        lines = [self._headline, f"  {self.formula}"]
        if self.tests:
            lines.append(f"  {'correction tested as sufficient':<34}{'statistic':>10}{'df':>12}{'p-value':>10}")
            lines += [f"  {a:<34}{b:>10}{c:>12}{d:>10}" for a, b, c, d in self._lines()]
        return "\n".join([*lines, *(f"  {each}" for each in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the choice, the formula and the tests."""
        head = ("correction tested as sufficient", "statistic", "df", "p-value")
        notes = [self.formula, *(f"  {each}" for each in self.notes)]
        return table_block(head, self._lines(), title=self._headline, notes=notes)

    @property
    def _headline(self) -> str:
        how = f" (closed test at level {self.alpha:g})" if self.tests else ""
        return f"Update: {WORDS[self.chosen]}{how}"

    def _lines(self) -> list[tuple[str, str, str, str]]:
        names = {"none": "no correction", "intercept": "a new intercept", "slope": "a new intercept and slope"}
        made = []
        for each in self.tests:
            df = f"{each.df}" if each.df_error is None else f"{each.df}, {each.df_error:.0f}"
            made.append((names[each.smaller], f"{each.statistic:.2f}", df, f"{each.p_value:.4f}"))
        return made


def update_model(
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    score: str | None = None,
    label: str | None = None,
    method: Method = "closed test",
    alpha: float = 0.05,
) -> ModelUpdate:
    r"""Update a risk model for a new population, with as small a correction as the data call for.

    Candidates, from small to large: the original model; a new intercept; a new intercept and slope on the log-odds
    (logistic recalibration); a smooth curve of the log-odds. The closed test compares the largest with each smaller
    one, in this order, by likelihood ratios, and stops at the first that is not rejected at level alpha:

    .. math:: \mathrm{LR}_j = D_j - D_{\text{curve}} \sim \chi^2_{k - j}, \qquad j = 0, 1, 2,

    where :math:`D_j` is the deviance of a candidate with j parameters, and k the number of parameters of the curve (5
    by default). If no smaller one is kept, the curve is chosen. Since the hypotheses are nested, the probability of a
    larger correction than the right one is at most alpha, whichever is right.

    Parameters
    ----------
    scores : array-like
        Predicted risk of each participant of the new population; or a tally alone; or a frame, with the names
        of its columns in ``score`` and ``label``.
    y : array-like
        Outcome, 0 or 1.
    sample_weight : array-like, optional
        Importance weights; the tests then use the effective sample size, which is an approximation.
    groups : array-like, optional
        Cluster of each participant. Tests are then Wald tests with the cluster sandwich (CR3) and Hotelling's F
        distribution, and need at least ten clusters; below 40 the largest candidate is intercept and slope. With a
        frame, the name of a column.
    score, label : str, optional
        Columns of the frame.
    method : str, default="closed test"
        ``"closed test"``, or the update to take: ``"none"``, ``"intercept"``, ``"slope"`` or ``"flexible"``.
    alpha : float, default=0.05
        Level of the closed test.

    Returns
    -------
    ModelUpdate
        The chosen update as a :class:`calibrant.Calibration`, and the tests.

    Notes
    -----
    In Vergouwe et al. (2017) the largest candidate refits all coefficients of the model, which needs its predictors.
    Here it is a curve of the predicted risk, so a predictor whose effect has changed is seen only as far as it changes
    the curve.
    Edges: with fewer than 15 rows of the minority class the curve is a line, and intercept and slope are the largest
    candidate. One class is refused.
    Guarantee: no finite-sample guarantee; the level holds in large samples. An update fitted here must be validated on
    other participants.
    Cost: one fit of each candidate.
    References: Vergouwe et al. (2017), A closed testing procedure to select an appropriate method for updating
    prediction models; Steyerberg (2019), Clinical Prediction Models, chapter 20.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(-1.0, 1.0, 3000)
    >>> died = (rng.random(3000) < 1 / (1 + np.exp(0.6 - z))).astype(int)
    >>> update = update_model(1 / (1 + np.exp(-z)), died)
    >>> update.chosen, round(update.calibration.map.intercept, 1)
    ('intercept', -0.6)
    """
    check_option("method", method, get_args(Method))
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie between 0 and 1, got {alpha!r}", "pass 0.05 for 5 %")
    scores, y, sample_weight, groups = named_rows(scores, y, sample_weight, groups, score, label)
    data = grouped_or_tally(scores, y, sample_weight, groups)
    tally = data.tally if isinstance(data, Clusters) else data
    if not 0.0 < float(tally.positives) < float(tally.total):
        raise InputError("y", "has only one class", "an update needs participants with and without the event")
    if isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS and method == "closed test":
        raise InputError(
            "groups",
            f"has {data.size} clusters, and the tests need at least {FEWEST_CLUSTERS}",
            "pass method='intercept' or another update, or leave groups out if rows are independent",
        )
    tests: tuple[UpdateTest, ...] = ()
    notes: list[Note] = []
    if method == "closed test":
        tests, largest = _tests(data)
        chosen: Update = next((each.smaller for each in tests if each.p_value > alpha), largest)
        if largest == "slope":
            notes.append(no_curve_to_test())
    else:
        chosen = method
    if chosen == "flexible" and tests:
        notes.append(spline_of_the_map())
    calibration = _fitted(chosen, scores, y, sample_weight, groups)
    last = next((place for place, each in enumerate(tests) if each.p_value > alpha), len(tests))
    return ModelUpdate(chosen, calibration, tests[: last + 1], alpha, tuple(notes))


def _fitted(chosen: Update, scores: Any, y: Any, sample_weight: Any, groups: Any) -> Calibration:
    if chosen == "none":
        same: Map = LogitAffineMap(1.0, 0.0)
        return Calibration(same)
    calibrator: Any = {"intercept": LogitShift, "slope": PlattScaling, "flexible": SplineCalibrator}[chosen]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        if isinstance(scores, Tally):
            calibrator.fit_tally(scores)
        else:
            calibrator.fit(scores, y, sample_weight, groups=groups)
    found: Calibration = calibrator.calibration_
    return found


def _tests(data: Tally | Clusters) -> tuple[tuple[UpdateTest, ...], Update]:
    """Tests of the largest candidate against the smaller ones, and the largest."""
    few = isinstance(data, Clusters) and data.size < CLUSTERS_FOR_CURVE
    found = fitted_model(data, 0 if few else 5)
    if found is not None and len(found[0].fitted) > 2:
        model, _, covariance = found
        if isinstance(data, Clusters):
            return tuple(_wald(model, covariance, data.size, j) for j in (0, 1, 2)), "flexible"
        return tuple(_ratios(model)), "flexible"
    if found is not None and isinstance(data, Clusters):
        model, _, covariance = found
        return tuple(_wald(model, covariance, data.size, j) for j in range(len(model.fitted))), "slope"
    likelihood = Parameters.of(data).likelihood
    deviances = [likelihood.deviance(0.0, 0.0), likelihood.best(slope_change=0.0).deviance]
    return tuple(_chi2(j, each - likelihood.best().deviance, 2 - j) for j, each in enumerate(deviances)), "slope"


def _ratios(model: SplineModel) -> list[UpdateTest]:
    """Likelihood ratios of the spline against the identity, a shift, and a line, on the same cells."""
    z = model.diagonal @ model.features
    full = _deviance(model, model.fitted @ model.features)
    line = _best_line(model, z)
    return [_chi2(j, each - full, len(model.fitted) - j) for j, each in enumerate((_deviance(model, z), *line))]


def _best_line(model: SplineModel, z: Floats) -> tuple[float, float]:
    """Deviances with the best intercept, and with the best intercept and slope."""
    shift = 0.0
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-(z + shift)))
        move = float((model.events - model.n * p).sum()) / max(float((model.n * p * (1.0 - p)).sum()), 1e-300)
        shift += float(np.clip(move, -2.0, 2.0))
        if abs(move) < 1e-12:
            break
    fit = fit_logistic(lambda: [(model.features[:2], model.n, model.events)], 2)
    return _deviance(model, z + shift), _deviance(model, fit.coefficients @ model.features[:2])


def _deviance(model: SplineModel, z: Floats) -> float:
    value, _ = softplus(z)
    return 2.0 * float((model.n * value - model.events * z).sum())


def _chi2(j: int, ratio: float, df: int) -> UpdateTest:
    smaller: Update = ("none", "intercept", "slope")[j]
    ratio = max(ratio, 0.0)
    return UpdateTest(smaller, ratio, df, None, float(special.chdtrc(df, ratio)))


def _wald(model: SplineModel, covariance: Covariance, clusters: int, j: int) -> UpdateTest:
    """Wald test that all coefficients from the j-th on are those of the diagonal, with Hotelling's F distribution."""
    smaller: Update = ("none", "intercept", "slope")[j]
    gap, spread = (model.fitted - model.diagonal)[j:], covariance(model.fitted)[j:, j:]
    df, rest = len(gap), clusters - len(gap)
    statistic = float(gap @ np.linalg.pinv(spread, hermitian=True) @ gap) * rest / (df * (clusters - 1.0))
    return UpdateTest(smaller, statistic, df, float(rest), float(special.fdtrc(df, rest, statistic)))
