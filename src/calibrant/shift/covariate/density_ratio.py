"""Estimate the density ratio of a target and a source population, and say whether it can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.sides import RatioWeights, kish_size
from calibrant.messages import InputError, Note, Shown, Voice, note
from calibrant.numerics import Floats
from calibrant.shift.covariate.features import Outside, outside_range, read_features
from calibrant.shift.covariate.odds import fit_odds
from calibrant.shift.covariate.ulsif import RIDGES, fit_ulsif

LEAST_EFFECTIVE_SIZE, LEAST_EFFECTIVE_SHARE = 30.0, 0.01
"""Effective rows, in number and as a share of all rows, below which the weights cannot be used."""

MOST_OUTSIDE = 0.05
"""Share of target rows outside the range of the source, beyond the share expected without shift, that is too large."""

FEWEST_ROWS = 20
"""Rows of each population needed to estimate a ratio."""


@dataclass(frozen=True, eq=False)
class DensityRatio(Shown):
    r"""The result of :func:`estimate_density_ratio`: an estimate of :math:`w(x) = d\tilde P(x) / dP(x)`.

    Attributes
    ----------
    method
        ``"ulsif"``, ``"logistic"`` or the name of the classifier's class.
    n_source, n_target
        Rows of each population.
    effective_size
        Effective sample size of the weighted source rows, :math:`(\sum w)^2 / \sum w^2`.
    largest
        Largest weight of a source row; the mean is 1.
    upper
        Upper bound of the estimated ratio, for any row.
    outside
        Target rows outside the range of the source.
    source
        Weights of the source rows, with mean 1.
    problem
        Why the weights cannot be used, as a note, or None.
    names
        Names of the features.
    """

    method: str
    n_source: int
    n_target: int
    effective_size: float
    largest: float
    upper: float
    outside: Outside
    source: Floats
    problem: Note | None
    names: tuple[str, ...]
    _function: Callable[[Floats], Floats]
    known: ClassVar[bool] = False

    def ratio(self, features: Any) -> Floats:
        """The estimated ratio at each row, also if it cannot be used as weights; it is extrapolated outside the source.

        Parameters
        ----------
        features
            Features of the rows, as in :func:`estimate_density_ratio`.

        Returns
        -------
        ndarray
            Ratios of at least 0, scaled to mean 1 on the source rows of the estimate.
        """
        return np.asarray(self._function(read_features(features, "features", self.names).matrix))

    def weights(self, features: Any = None) -> RatioWeights:
        """Weights of rows of the source population, to be passed as ``sample_weight``; an error if they are unusable.

        Parameters
        ----------
        features
            Features of the rows; by default the source rows of the estimate, whose weights by a classifier are
            out-of-fold.

        Returns
        -------
        RatioWeights
            Estimated weights. Calibrators then issue no certificate: with an estimated ratio the map is calibrated
            only in the limit of many rows.
        """
        if self.problem is not None:
            raise InputError("source", str(self.problem), _FIXES[self.problem.code])
        values = self.source if features is None else self.ratio(features)
        if not (values > 0.0).any():
            raise InputError("features", "has no row with a positive density ratio", "pass rows of the source")
        return RatioWeights(values, max(self.upper, float(values.max())), known=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the weights."""
        names = ("method", "n_source", "n_target", "effective_size", "largest", "upper")
        problem = None if self.problem is None else self.problem.as_dict()
        return {name: getattr(self, name) for name in names} | {"outside": asdict(self.outside), "problem": problem}

    def __str__(self) -> str:
        """The diagnostics as text."""
        lines = [
            f"Density ratio by {self.method}, from {self.n_source:,} source and {self.n_target:,} target rows",
            f"Effective sample size {self.effective_size:,.0f}; largest weight {self.largest:.3g} (mean 1)",
            f"{_percent(self.outside.share)} of the target rows are outside the range of the source",
            "Assumes covariate shift: the event rate given the features is the same in both populations. "
            "Labels of the target are needed to check this.",
        ]
        if self.problem is not None:
            lines.insert(1, f"Do not use: it {self.problem}; {_FIXES[self.problem.code]}")
        return "\n  ".join(lines)


def estimate_density_ratio(
    source: Any,
    target: Any,
    *,
    method: Any = "ulsif",
    bandwidths: Sequence[float] | None = None,
    ridges: Sequence[float] | None = None,
    random_state: int = 0,
) -> DensityRatio:
    r"""Estimate the density ratio of a target and a source population from features without labels.

    Parameters
    ----------
    source, target
        Features of rows of each population: a matrix, or a frame with the same columns. Numbers only.
    method
        ``"ulsif"`` (kernels; for up to about 10 features), ``"logistic"`` (logistic regression in the features; for
        many features), or any classifier with ``fit`` and ``predict_proba``, which is fitted by 5 folds.
    bandwidths, ridges
        For ``"ulsif"``: values to try, bandwidths in standard deviations of the features. By default 7 of each.
    random_state
        Seed of the centers and folds.

    Returns
    -------
    DensityRatio
        ``weights(X)`` are the weights of rows of the source; it prints diagnostics.

    Notes
    -----
    The ratio is scaled to mean 1 on the source. Weights are refused if their effective sample size is below 30 or below
    1 % of the rows, or if over 5 % more target rows than expected lie outside the range of the source in some feature:
    nothing is known about the event rate there. The range is checked one feature at a time, so gaps inside it are not
    found.
    Edge cases: at least 20 rows of each population are needed. Features that are constant in the source are not used,
    except to check the range.
    Guarantee: no finite-sample guarantee. If the estimate is consistent, weighted binning is calibrated in the limit
    (Gupta 2023, Proposition 3.2).
    References: Kanamori, Hido and Sugiyama (2009) for uLSIF; Bickel, Brueckner and Scheffer (2009) for classifiers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = estimate_density_ratio(rng.normal(0, 1, (500, 1)), rng.normal(0.5, 1, (500, 1)), method="logistic")
    >>> print(ratio)
    Density ratio by logistic, from 500 source and 500 target rows
      Effective sample size 397; largest weight 4.04 (mean 1)
      0 % of the target rows are outside the range of the source
      Assumes covariate shift: the event rate given the features is the same in both populations. Labels of the target
    are needed to check this.
    >>> ratio.weights([[-1.0], [0.25], [1.5]]).values.round(2).tolist()  # the truth: 0.54, 1, 1.87
    [0.56, 1.02, 1.85]
    """
    one = read_features(source, "source")
    other = read_features(target, "target", one.names)
    for name, rows in (("source", len(one.matrix)), ("target", len(other.matrix))):
        if rows < FEWEST_ROWS:
            raise InputError(
                name, f"has {rows} rows, and a density ratio needs at least {FEWEST_ROWS}", "pass more rows"
            )
    check_whole("random_state", random_state, 0)
    if isinstance(method, str):
        check_option("method", method, ("ulsif", "logistic"))
    if method != "ulsif" and (bandwidths is not None or ridges is not None):
        raise InputError(
            "bandwidths" if bandwidths is not None else "ridges", "is only used by 'ulsif'", "leave it out"
        )
    random, outside = np.random.default_rng(int(random_state)), outside_range(one, other)
    varies = np.ptp(one.matrix, axis=0) > 0.0
    if not varies.any():
        raise InputError("source", "has the same features in every row", "pass features that vary")
    center, scale = one.matrix[:, varies].mean(axis=0), one.matrix[:, varies].std(axis=0)

    def standardized(matrix: Floats) -> Floats:
        return np.asarray((matrix[:, varies] - center) / scale)

    if method == "ulsif":
        tried = None if bandwidths is None else _positive("bandwidths", bandwidths)
        ridge = RIDGES if ridges is None else _positive("ridges", ridges)
        fitted: Any = fit_ulsif(standardized(one.matrix), standardized(other.matrix), random, tried, ridge)
        at_source = fitted(standardized(one.matrix))
    else:
        estimator = None if method == "logistic" else method
        fitted, at_source = fit_odds(standardized(one.matrix), standardized(other.matrix), estimator, random)
    unit = float(at_source.mean())
    if not unit > 0.0:
        unit = float(np.finfo(np.float64).tiny)
    weights, size = at_source / unit, kish_size(at_source)
    return DensityRatio(
        method if isinstance(method, str) else type(method).__name__,
        len(one.matrix),
        len(other.matrix),
        size,
        float(weights.max()),
        fitted.upper / unit,
        outside,
        weights,
        _problem(size, len(weights), outside),
        one.names,
        lambda matrix: np.asarray(fitted(standardized(matrix)) / unit),
    )


def _percent(share: float) -> str:
    """A share with two digits, but never as a power of ten: 0.42 %, 100 %.

    Examples
    --------
    >>> _percent(0.0042), _percent(0.0), _percent(0.996)
    ('0.42 %', '0 %', '100 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _positive(name: str, values: Sequence[float]) -> tuple[float, ...]:
    found = tuple(float(each) for each in values)
    if not found or not all(np.isfinite(each) and each > 0.0 for each in found):
        raise InputError(name, "must be a list of positive numbers", "leave it out for the default values")
    return found


# ------------------------------------------------------------------------------------------------------------ problems


@note("few-effective-rows")
def _few_effective(voice: Voice, size: float, rows: int, needed: float) -> str:
    words = voice.nouns
    return (
        f"has few {words.rows} like the target: {rows:,} weighted {words.rows} have an effective sample size of "
        f"{size:,.1f}, and {needed:,.0f} are needed"
    )


@note("outside-source")
def _too_far(voice: Voice, share: float, feature: str, low: float, high: float) -> str:
    return (
        f"does not cover the target: {100 * share:.3g} % of the target {voice.nouns.rows} are outside its range, most "
        f"of them in feature {feature!r}, which goes from {low:.6g} to {high:.6g} in the source"
    )


_FIXES = {
    "few-effective-rows": "collect labels of the target population, or of source rows that are like it",
    "outside-source": "collect labels for these rows, or restrict the target to the range of the source",
}


def _problem(size: float, rows: int, outside: Outside) -> Note | None:
    if outside.share > outside.expected + MOST_OUTSIDE:
        return _too_far(outside.share, outside.feature, outside.low, outside.high)
    needed = max(LEAST_EFFECTIVE_SIZE, LEAST_EFFECTIVE_SHARE * rows)
    return _few_effective(size, rows, needed) if size < needed else None
