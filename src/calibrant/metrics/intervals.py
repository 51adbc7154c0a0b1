"""Confidence intervals for any metric, by resampling rows or groups of dependent rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_whole, meant, read_column
from calibrant.arrays.labels import LabelType
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.arrays.sides import side_column
from calibrant.messages import InputError, Note, Voice, note
from calibrant.metrics import dispatch
from calibrant.metrics.binary.bins import grouped_or_tally
from calibrant.metrics.binary.curves.distances import DRAWS, spline_intervals
from calibrant.metrics.binary.curves.distances import NAMES as CURVE_DISTANCES
from calibrant.metrics.binary.curves.log_odds import LogOdds, event_ratios, fit_intercept, fit_slope
from calibrant.metrics.binary.curves.recalibration import ici
from calibrant.metrics.draws import (
    Draws,
    Ends,
    accelerated,
    inverted,
    only_values,
    samples_needed,
    values_only,
    widened,
)
from calibrant.metrics.estimates import BINARY, Estimate, Ideal, metric
from calibrant.metrics.inputs import Inputs, by_segment, read_inputs
from calibrant.metrics.multiclass import scores as class_scores
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.metrics.variance import FEWEST_CLUSTERS, few_groups, too_few_samples
from calibrant.notions import Confidence, as_notion
from calibrant.numerics import Floats
from calibrant.progress import progress
from calibrant.tallies import Clusters, Tally

REPETITIONS, DISTANCE_REPETITIONS = 1_000, 300
"""Default number of bootstrap samples, and that of distances, which are evaluated at several errors each."""

MOST_REPETITIONS = 2_000
"""Bootstrap samples of a distance that are drawn at most if the confidence level needs more than the default."""

FEW_UNITS = 10
"""Number of rows of the minority class, or of groups, below which a note says that the interval is approximate."""


def _curve_error(name: str) -> Callable[..., Estimate]:
    title = {"ici": "ICI", "e50": "E50", "e90": "E90", "emax": "Emax"}[name]

    def error(data: Any, **options: Any) -> Estimate:
        found = ici(data, **{**options, "repetitions": 0})
        return Estimate(f"{title}, {found.method} curve", getattr(found, name), notes=found.notes)

    return error


for _name in CURVE_DISTANCES:
    metric(Ideal.ZERO, _name)(_curve_error(_name))
metric(name="slope")(lambda data: fit_slope(LogOdds.of(data))[0])
metric(name="intercept")(lambda data: fit_intercept(LogOdds.of(data)))
metric(name="expected_over_observed")(lambda data: event_ratios(LogOdds.of(data))[0])
metric(name="observed_over_expected")(lambda data: event_ratios(LogOdds.of(data))[1])

MEANS = frozenset({"accuracy", "brier", "log_loss"})
"""Metrics of a matrix that are means over rows."""

OF_CLASSES = MEANS | {"debiased_ece", "ece", "pde"}
"""Metrics that take a matrix of class scores."""

SEVERAL_NUMBERS = {
    "recalibration": "'slope', 'intercept' or 'expected_over_observed'",
    "decompose": "a function that returns one of its parts",
    "net_benefit": "a function that returns the net benefit at one threshold",
}


def interval(
    metric: str | Callable[..., Any],
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    by: Any = None,
    score: str | Sequence[str] | None = None,
    label: str | None = None,
    label_type: LabelType = "class",
    confidence: float = 0.95,
    repetitions: int | None = None,
    random_state: int = 0,
    **options: Any,
) -> Any:
    r"""Confidence interval for any metric, by resampling rows or groups of dependent rows.

    Three methods, chosen by the metric:

    - *Losses, AUC, slope, intercept, ratios* and functions of your own: the bias-corrected and accelerated bootstrap
      (BCa), with ends :math:`\sqrt{m / (m - 1)}\, t_{m - 1}` standard deviations away in place of 1.96, where m is the
      number of rows of the minority class, or the effective number of groups if that is smaller.
    - *Distances from calibration* (ECE, debiased ECE, ICI, E50, E90, Emax, smECE, ECCE, SKCE): they are biased upward,
      and quantiles of bootstrap samples are more biased still, so a test is inverted instead. The interval holds every
      distance at which the observed value is not extreme. It begins at 0 if a calibrated model may show this value. For
      ICI, E50, E90 and Emax of a spline, random coefficients of the curve replace the samples.
    - *Means over rows of a matrix* (log loss, Brier score, accuracy): BCa on the losses of the rows.

    Parameters
    ----------
    metric : str or callable
        Name of a metric (``"auc"``, ``"ece"``, ``"slope"``, ``"ici"``, ...), one of the functions of
        :mod:`calibrant.metrics`, or a function of ``(scores, y)`` that returns a number. With ``sample_weight`` your
        function is called with the weights as third argument.
    scores : array-like, Tally or matrix
        Probability of each row, a tally alone, or one column per class.
    y : array-like
        Labels, as the metric takes them.
    sample_weight : array-like, optional
        Importance weight of each row.
    groups : array-like, optional
        Group of dependent rows that each row belongs to. Whole groups are drawn then; with fewer than ten groups there
        is no interval.
    by : array-like or mapping, optional
        Segment of each row, or a mapping of names to such columns: the result is a :class:`MetricTable`.
    score, label : str, optional
        Names of the columns of scores and labels if ``scores`` is a frame; a list of names for several classes.
        ``sample_weight``, ``groups`` and ``by`` are then names as well.
    label_type : {"class", "fraction"}, default="class"
        ``"fraction"``: labels are numbers in [0, 1]; each row is then one unit of the bootstrap.
    confidence : float, default=0.95
        Confidence level.
    repetitions : int, optional
        Bootstrap samples: 1,000 by default, and 300 at each error that is tried for a distance, up to 2,000 if the
        confidence level needs them. Too few of them for a distance give no interval, with a note; for other metrics the
        interval then ends at the most extreme sample, and a note says how many the confidence level needs.
    random_state : int, default=0
        Seed.
    **options
        Passed on to the metric, such as ``n_bins=10``.

    Returns
    -------
    Estimate or MetricTable
        The metric's value with ``se``, ``low`` and ``high``. The ends are None, with a note, where no interval can be
        trusted: fewer than ten groups, one class, a metric that many samples do not define, or a function of your own
        whose samples are nearly all on one side of its value.

    Notes
    -----
    Guarantee: no finite-sample guarantee. Coverage of 95 % intervals in 400 samples each, with 100 bootstrap samples
    (``python benchmarks/interval_coverage.py``), for 200 rows with 30 % events, for 1,000 rows with 3 % events, and for
    600 rows in 20 groups whose log-odds differ by 0.5: AUC 94.0, 94.0 and 94.5 %; log loss 92.8, 92.2 and 93.8 %; Brier
    score 94.2, 92.0 and 94.0 %; E/O 91.5, 93.0 and 93.2 %; intercept 91.8, 93.2 and 93.5 %. A share of 400 samples is
    uncertain by 2 to 3 points; most of these intervals are somewhat too short. Slope and ECE were not run at this size.
    In simulations of 30 to 150 samples each: AUC 91 % with 12 groups and 96 % with 40; E/O 93 % with 15 groups; ECE 92
    to 100 % with 300 and 2,000 rows, for calibrated and for miscalibrated scores; debiased ECE 93 % with 300 rows. With
    fewer than about 20 groups intervals are somewhat too short.
    ``tests/statistical/test_interval.py`` checks settings like these, and slope and ICI.
    More than 250 distinct scores are resampled on a grid of 100 to 300 cells; the value itself is exact.
    ``pde`` and the plug-in errors of a matrix have no interval, except ``ece`` with ``notion="confidence"``;
    ``debiased_ece`` of a matrix has its own.
    Cost: ``repetitions`` evaluations on some hundred cells, about 0.2 s; for distances about six times as many, 0.5 to
    4 s (smECE: 15 s). For functions of your own, ``repetitions`` evaluations on all rows.
    References: Efron (1987), Better bootstrap confidence intervals; Hesterberg (2015), What teachers should know about
    the bootstrap, for few units; DiCiccio and Romano (1990), Nonparametric confidence limits by resampling methods and
    least favorable families, for the inverted test.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> y = (rng.random(1000) < scores**1.5).astype(int)
    >>> print(interval("auc", scores, y))
    AUC: 0.8572 (95 % CI 0.8344 to 0.8769)
    >>> print(interval("ici", scores, y, repetitions=50))
    ICI, spline curve: 0.0861 (95 % CI 0.0589 to 0.1088)
    >>> calibrated = (rng.random(1000) < scores).astype(int)
    >>> interval("ece", scores, calibrated, repetitions=50).low
    0.0
    """
    if not 0.0 < confidence < 1.0:
        raise InputError("confidence", f"must lie between 0 and 1, got {confidence!r}", "pass 0.95 for 95 %")
    check_whole("random_state", random_state, 0)
    if repetitions is not None:
        check_whole("repetitions", repetitions, 20)
    name, function = _resolved(metric)
    inputs = read_inputs(
        scores,
        y,
        sample_weight,
        groups=groups,
        by=by,
        score=score,
        label=label,
        label_type=label_type,
        options=options,
        one_event=name is not None and not any(options.get(each) is not None for each in ("notion", "named")),
    )
    asked = _Asked(confidence, repetitions, random_state)
    return by_segment(inputs, lambda rows: _interval(name, function, rows, asked))


def between_groups(function: Callable[..., Any], rows: Inputs) -> Any:
    """The estimate of a metric with a standard error and interval between groups of dependent rows."""
    name, found = _resolved(function)
    return _interval(name, found, rows, _Asked(0.95, None, 0, "groups"))


class _Asked:
    """Confidence level, repetitions and seed."""

    def __init__(self, confidence: float, repetitions: int | None, random_state: int, argument: str = "metric") -> None:
        self.confidence, self.repetitions, self.random_state = confidence, repetitions, random_state
        self.argument = argument

    def size(self, default: int) -> int:
        return default if self.repetitions is None else int(self.repetitions)


def _resolved(metric: Any) -> tuple[str | None, Callable[..., Any]]:
    """Name and function of a metric; no name for a function of the caller's own."""
    if isinstance(metric, str):
        if metric not in BINARY:
            known = ", ".join(map(repr, sorted(BINARY)))
            raise InputError(
                "metric",
                f"is {metric!r}, which is not the name of one",
                f"pass one of {known}{meant(metric, sorted(BINARY))}",
            )
        return metric, BINARY[metric].function
    if not callable(metric):
        raise InputError("metric", f"is of type {type(metric).__name__}", "pass a name or a function of (scores, y)")
    own = inspect.unwrap(metric)
    called = getattr(own, "__name__", "")
    if getattr(own, "__module__", "").startswith("calibrant.metrics"):
        if called in SEVERAL_NUMBERS:
            raise InputError("metric", f"{called} has several numbers", f"pass {SEVERAL_NUMBERS[called]}")
        if called in BINARY:
            return called, BINARY[called].function
    return None, metric


def _interval(name: str | None, function: Callable[..., Any], rows: Inputs, asked: _Asked) -> Estimate:
    if name is None:
        return _of_function(function, rows, asked)
    if rows.options.get("regions") is not None:
        problem = "cannot be combined with groups of rows, fractional labels or an interval by resampling"
        raise InputError("regions", problem, "leave these out, or pass a function of (scores, y) to metrics.interval")
    if not isinstance(rows.scores, Tally | Clusters) and (is_matrix(rows.scores) or "named" in rows.options):
        return _of_matrix(name, rows, asked)
    data = grouped_or_tally(rows.scores, rows.y, rows.sample_weight, rows.groups)
    return _of_tally(name, function, data, rows.options, asked)


# ------------------------------------------------------------------------------------------------- one column of scores


def _of_tally(
    name: str, function: Callable[..., Estimate], data: Tally | Clusters, options: dict[str, Any], asked: _Asked
) -> Estimate:
    tally = data.tally if isinstance(data, Clusters) else data
    grouped = isinstance(data, Clusters)
    with values_only():
        value = function(tally, **options)
    found = value if grouped or only_values() else function(tally, **options)
    found = replace(found, value=value.value, se=None, low=None, high=None)
    if grouped:
        found = replace(found, null=None, null_high=None, null_low=None)
    if not math.isfinite(value.value):
        return found
    if isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS:
        return _noted(found, few_groups(FEWEST_CLUSTERS))
    if name in CURVE_DISTANCES and options.get("method", "spline") == "spline":
        least = max(DRAWS, round(20.0 / (1.0 - asked.confidence)))
        curve = spline_intervals(data, max(asked.size(least), least), asked.random_state, asked.confidence)
        if curve is not None:
            low, high, se = (float(each[CURVE_DISTANCES.index(name)]) for each in (curve.low, curve.high, curve.se))
            return _with_ends(found, Ends(low, high, se), curve.units, asked.confidence)
    ideal = BINARY[name].ideal
    if ideal is Ideal.UNKNOWN:
        return _noted(found, not_zero_if_calibrated())
    distance = ideal is Ideal.ZERO
    draws = Draws.of(data, asked.size(DISTANCE_REPETITIONS if distance else REPETITIONS), asked.random_state)
    if not draws.units >= 2.0:
        return _noted(found, too_few_units())
    errors_away = widened(asked.confidence, draws.units)
    needed = samples_needed(errors_away)
    if distance and asked.repetitions is None and DISTANCE_REPETITIONS < needed <= MOST_REPETITIONS:
        draws = Draws.of(data, needed, asked.random_state)

    def statistic(sample: Tally) -> Floats:
        return np.array([function(sample, **options).value])

    with values_only():
        on_cells = statistic(draws.once())
        ends: Ends | None
        if distance:
            made = inverted(draws, statistic, on_cells, errors_away)
            ends = None if made is None else made[0]
        else:
            moved = value.value - float(on_cells[0])
            samples = np.array([statistic(each)[0] for each in draws.samples()]) + moved
            left = np.array([statistic(each)[0] for each in draws.without_block()])
            ends = accelerated(samples, value.value, left, errors_away)
    return _with_ends(found, ends, draws.units, asked.confidence)


def _with_ends(found: Estimate, ends: Ends | None, units: float, confidence: float) -> Estimate:
    if ends is None:
        return _noted(found, no_curve())
    if ends.needed and not math.isfinite(ends.low):
        return _noted(replace(found, se=ends.se), too_few_samples(ends.needed))
    if ends.biased:
        return _noted(replace(found, se=ends.se), biased_samples())
    if not math.isfinite(ends.low):
        return _noted(found, undefined_samples(ends.undefined))
    if ends.se == 0.0 and ends.low == ends.high:
        return _noted(replace(found, se=0.0), same_in_every_sample())
    made = replace(found, se=ends.se, low=ends.low, high=ends.high, confidence=confidence)
    if ends.needed:
        made = _noted(made, ends_of_the_samples(ends.needed))
    return _noted(made, few_units(units)) if units < FEW_UNITS else made


def _noted(found: Estimate, *notes: Note) -> Estimate:
    return replace(found, notes=(*found.notes, *notes))


# -------------------------------------------------------------------------------------------------- matrices of scores


def _of_matrix(name: str, rows: Inputs, asked: _Asked) -> Estimate:
    if name in MEANS:
        return _of_means(name, rows, asked)
    options = dict(rows.options)
    confident = as_notion(options.get("notion") or "confidence") == Confidence()
    if name not in ("ece", "debiased_ece") or not confident:
        raise InputError(
            asked.argument,
            "cannot be used here: this error of a matrix of class scores has no interval by resampling",
            "pass notion='confidence', or use metrics.debiased_ece, which has an interval of its own",
        )
    given = {key: options.pop(key, None) for key in ("notion", "classes", "score_type", "named")}
    options.pop("uncertainty", None)
    given["notion"] = "confidence"
    claims = read_claims(rows.scores, rows.y, rows.sample_weight, **given)
    assert claims.named is not None
    top = np.clip(claims.scores[:, 0].astype(np.float64), 0.0, 1.0)
    right = (claims.named[:, 0] == claims.labels).astype(int)
    weights = _kept_weights(rows.sample_weight)
    groups = None if rows.groups is None else side_column(rows.groups, "groups", len(rows.y))
    if weights is not None:
        groups = None if groups is None else groups[weights > 0.0]
        weights = weights[weights > 0.0]
    data = grouped_or_tally(top, right, weights, groups)
    found = _of_tally(name, BINARY[name].function, data, options, asked)
    return replace(found, name=f"confidence {found.name}")


def _kept_weights(sample_weight: Any) -> Floats | None:
    return None if sample_weight is None else np.asarray(read_column(sample_weight, "sample_weight"), dtype=np.float64)


def _of_means(name: str, rows: Inputs, asked: _Asked) -> Estimate:
    """Mean of the losses of rows: samples of rows, or of whole groups, are sums of weights and losses."""
    with values_only():
        found: Estimate = getattr(dispatch, name)(rows.scores, rows.y, rows.sample_weight, **rows.options)
    if rows.groups is not None:
        found = replace(found, null=None, null_high=None, null_low=None)
    found = replace(found, se=None, low=None, high=None)
    if not math.isfinite(found.value):
        return found
    losses, mass = class_scores.row_losses(name, rows.scores, rows.y, rows.sample_weight, **rows.options)
    unit = np.arange(len(losses))
    if rows.groups is not None:
        column = side_column(rows.groups, "groups", len(rows.y))
        weights = _kept_weights(rows.sample_weight)
        unit = np.unique(column if weights is None else column[weights > 0.0], return_inverse=True)[1]
    size = int(unit.max()) + 1
    if rows.groups is not None and size < FEWEST_CLUSTERS:
        return _noted(found, few_groups(FEWEST_CLUSTERS))
    if size < 2:
        return _noted(found, too_few_units())
    sums = np.stack([np.bincount(unit, mass * losses, size), np.bincount(unit, mass, size)])
    rng = np.random.default_rng([int(asked.random_state), 5])
    samples = np.empty(asked.size(REPETITIONS))
    for place in range(len(samples)):
        times = np.bincount(rng.integers(0, size, size), minlength=size)
        total, weight = sums @ times
        samples[place] = total / weight
    total, weight = sums.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        left = (total - sums[0]) / (weight - sums[1])
    units = float(weight**2 / (sums[1] ** 2).sum())
    if not units >= 2.0:
        return _noted(found, too_few_units())
    ends = accelerated(samples, found.value, left, widened(asked.confidence, units))
    return _with_ends(found, ends, units, asked.confidence)


# ------------------------------------------------------------------------------------------- functions of the caller's


def _of_function(function: Callable[..., Any], rows: Inputs, asked: _Asked) -> Estimate:
    """BCa on rows for a function that is not known here."""
    if isinstance(rows.scores, Tally | Clusters):
        raise InputError("scores", "is a tally, and a function of your own is called with rows", "pass arrays")
    whole = rows._as_arrays()
    n = len(whole.scores)
    if n == 0:
        raise InputError("scores", "is empty", "pass at least one row")
    known = getattr(inspect.unwrap(function), "__module__", "").startswith("calibrant.")
    left_out = () if known else whole.added  # classes that were read from the columns are not the caller's option

    def call(index: NDArray[np.intp]) -> float:
        part = whole._taken(index)
        beside = () if part.sample_weight is None else (part.sample_weight,)
        options = {key: value for key, value in part.options.items() if value is not None and key not in left_out}
        made = function(part.scores, part.y, *beside, **options)
        try:
            return float(made)
        except (TypeError, ValueError):
            problem = f"returns {type(made).__name__}, not a number"
            raise InputError("metric", problem, "pass a function that returns one number") from None

    every = np.arange(n)
    name = getattr(function, "__name__", "metric")
    found = Estimate("metric" if name == "<lambda>" else name.replace("_", " "), call(every))
    codes = every if whole.groups is None else np.unique(whole.groups, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    size = len(members)
    if whole.groups is not None and size < FEWEST_CLUSTERS:
        return _noted(found, few_groups(FEWEST_CLUSTERS))
    if not math.isfinite(found.value) or size < 2:
        return found if size >= 2 else _noted(found, too_few_units())
    rng = np.random.default_rng([int(asked.random_state), 6])

    def joined(chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        return chosen if whole.groups is None else np.concatenate([members[each] for each in chosen])

    draws = [joined(rng.integers(0, size, size)) for _ in range(asked.size(REPETITIONS))]
    samples = np.array([_or_nan(call, index) for index in progress(draws, "metrics: bootstrap samples")])
    blocks = min(size, 50)
    block = rng.permutation(size) % blocks
    left = np.array([_or_nan(call, joined(np.flatnonzero(block != each))) for each in range(blocks)])
    counts = np.array([len(each) for each in members], dtype=np.float64)
    units = float(counts.sum() ** 2 / (counts * counts).sum())
    ends = accelerated(samples, found.value, left, widened(asked.confidence, max(units, 2.0)))
    return _with_ends(found, ends, units, asked.confidence)


def _or_nan(call: Callable[[NDArray[np.intp]], float], index: NDArray[np.intp]) -> float:
    """The value of a sample; NaN where a function is not defined, as those of scikit-learn for one class."""
    try:
        return call(index)
    except ValueError:
        return math.nan


# ---------------------------------------------------------------------------------------------------------------- notes

too_few_units = note("too-few-units", "no interval: it needs two {nouns.rows} of each class, or two independent units")
no_curve = note("no-interval-without-a-curve", "no interval: no calibration curve can be fitted to these {nouns.rows}")
biased_samples = note(
    "biased-samples",
    "no interval: bootstrap samples are nearly all on one side of the value, so it is biased and their quantiles are "
    "not an interval for it",
)
ends_of_the_samples = note(
    "ends-of-the-samples",
    "the interval is too short: it ends at the most extreme bootstrap sample, and this confidence level needs "
    "at least {needed:,} samples (repetitions), or more {nouns.rows}",
)
same_in_every_sample = note("same-in-every-sample", "no interval: all bootstrap samples show the same value")
not_zero_if_calibrated = note(
    "not-zero-if-calibrated", "no interval: this error is not 0 for a calibrated model; debiased_ece has an interval"
)


@note("undefined-samples")
def undefined_samples(voice: Voice, share: float) -> str:
    """Bootstrap samples for which the metric is not defined."""
    return f"no interval: the metric is not defined in {100 * share:.0f} % of the bootstrap samples"


@note("few-units")
def few_units(voice: Voice, units: float) -> str:
    """Few rows of the minority class, or few groups."""
    return (
        f"the interval is approximate: it rests on about {units:.0f} {voice.nouns.rows} of the minority class or groups"
    )
