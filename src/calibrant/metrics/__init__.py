"""Calibration metrics and tests, with standard errors, intervals, and the expected value of a calibrated model.

Every metric is a function of ``(scores, y, sample_weight)``, or of a :class:`~calibrant.tallies.Tally` alone, and
returns a result object that can be printed. ``METRICS`` lists the metrics with one number, ``MULTICLASS_METRICS`` those
of a matrix of class scores, ``TESTS`` those with a p-value; contract tests run over them.
"""

from collections.abc import Callable

from calibrant.messages import public_names
from calibrant.metrics import dispatch
from calibrant.metrics.binary import cumulative, decompositions, entropy, errors, significance, smooth
from calibrant.metrics.binary import net_benefit as benefit
from calibrant.metrics.binary import scores as overall
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.curves import recalibration as curves
from calibrant.metrics.binary.decompositions import Decomposition
from calibrant.metrics.binary.resampling import bootstrap
from calibrant.metrics.binary.significance import Finding
from calibrant.metrics.binary.validity import ValidityCurve
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.inputs import MetricTable, SegmentResult
from calibrant.metrics.intervals import interval
from calibrant.metrics.multiclass import errors as class_errors
from calibrant.metrics.multiclass import kernel as class_kernel
from calibrant.metrics.multiclass.bins import MulticlassBins
from calibrant.metrics.multiclass.errors import MulticlassErrors
from calibrant.metrics.multiclass.paths import hierarchical_accuracy, mean_depth, path_calibration_error, path_log_loss
from calibrant.metrics.properties import Desiderata, TradeOff, TradeOffLine, desiderata, trade_off
from calibrant.metrics.public import for_rows
from calibrant.metrics.regions import tree_regions
from calibrant.metrics.simulation import (
    Closeness,
    closeness,
    kendall_tau,
    metric_bias,
    probabilistic_count,
    theoretical_error,
)
from calibrant.metrics.streams import epsilon_error, error_over_time

_CHECK = "use calibrant.check(scores, y, groups=...), whose tests account for groups, or metrics.interval"
_INTERVAL = "leave it out: this result has no interval; metrics.interval(metric, ..., groups=...) has one"

accuracy = for_rows(dispatch.accuracy)
adaptive_ece = for_rows(dispatch.adaptive_ece)
auc = for_rows(overall.auc)
brier = for_rows(dispatch.brier)
classwise_ece = for_rows(class_errors.classwise_ece)
classification_loss = for_rows(overall.classification_loss)
debiased_ece = for_rows(dispatch.debiased_ece)
dirichlet_error = for_rows(class_kernel.dirichlet_error, refuse=_INTERVAL)
ecce = for_rows(cumulative.ecce)
ece = for_rows(dispatch.ece)
ici = for_rows(curves.ici)
log_loss = for_rows(dispatch.log_loss)
net_benefit = for_rows(benefit.net_benefit)
normalized_entropy = for_rows(entropy.normalized_entropy)
pde = for_rows(dispatch.pde)
recalibration = for_rows(curves.recalibration)
refinement = for_rows(overall.refinement)
rmse = for_rows(overall.rmse)
sharpness = for_rows(overall.sharpness)
skce = for_rows(dispatch.skce)
smooth_ece = for_rows(smooth.smooth_ece)
sweep_ece = for_rows(errors.sweep_ece)
calibration_curve = for_rows(curves.calibration_curve, refuse=_INTERVAL)
decompose = for_rows(decompositions.decompose, refuse=_INTERVAL)
errors_by_class = for_rows(class_errors.errors_by_class, refuse=_INTERVAL)
marginal_error = for_rows(class_errors.marginal_error, refuse=_INTERVAL)
validity_curve = for_rows(dispatch.validity_curve, refuse=_INTERVAL)
weak_error = for_rows(errors.weak_error, refuse=_INTERVAL)
always_valid_test = for_rows(significance.always_valid_test, refuse=_CHECK)
debiased_l2_test = for_rows(significance.debiased_l2_test, refuse=_CHECK)
ecce_test = for_rows(significance.ecce_test, refuse=_CHECK)
hosmer_lemeshow = for_rows(significance.hosmer_lemeshow, refuse=_CHECK)
spiegelhalter = for_rows(significance.spiegelhalter, refuse=_CHECK)

METRICS: dict[str, Callable[..., Estimate]] = {
    "accuracy": accuracy,
    "auc": auc,
    "brier": brier,
    "classification_loss": classification_loss,
    "debiased_ece": debiased_ece,
    "ecce": ecce,
    "ece": ece,
    "log_loss": log_loss,
    "pde": pde,
    "refinement": refinement,
    "rmse": rmse,
    "sharpness": sharpness,
    "skce": skce,
    "smooth_ece": smooth_ece,
    "sweep_ece": sweep_ece,
}
"""Metrics with one number, by name."""

MULTICLASS_METRICS: dict[str, Callable[..., Estimate]] = {
    "accuracy": accuracy,
    "adaptive_ece": adaptive_ece,
    "brier": brier,
    "classwise_ece": classwise_ece,
    "ece": ece,
    "log_loss": log_loss,
    "debiased_ece": debiased_ece,
    "dirichlet_error": dirichlet_error,
    "marginal_error": marginal_error,
    "pde": pde,
    "skce": skce,
}
"""Metrics of a matrix of class scores with one number, by name."""

TESTS: dict[str, Callable[..., Finding]] = {
    "always_valid_test": always_valid_test,
    "debiased_l2_test": debiased_l2_test,
    "ecce_test": ecce_test,
    "hosmer_lemeshow": hosmer_lemeshow,
    "spiegelhalter": spiegelhalter,
}
"""Tests of calibration, by name."""

NEEDS_COUNTS = frozenset({"always_valid_test", "debiased_l2_test"})
"""Tests that refuse importance weights, because their null distribution is one of counts."""

__all__ = [
    "METRICS",
    "MULTICLASS_METRICS",
    "NEEDS_COUNTS",
    "TESTS",
    "Bins",
    "Closeness",
    "Decomposition",
    "Desiderata",
    "Estimate",
    "Finding",
    "MetricTable",
    "MulticlassBins",
    "MulticlassErrors",
    "SegmentResult",
    "TradeOff",
    "TradeOffLine",
    "ValidityCurve",
    "accuracy",
    "adaptive_ece",
    "always_valid_test",
    "auc",
    "bootstrap",
    "brier",
    "calibration_curve",
    "classification_loss",
    "classwise_ece",
    "closeness",
    "debiased_ece",
    "debiased_l2_test",
    "decompose",
    "desiderata",
    "dirichlet_error",
    "ecce",
    "ecce_test",
    "ece",
    "epsilon_error",
    "error_over_time",
    "errors_by_class",
    "hierarchical_accuracy",
    "hosmer_lemeshow",
    "ici",
    "interval",
    "kendall_tau",
    "log_loss",
    "marginal_error",
    "mean_depth",
    "metric_bias",
    "net_benefit",
    "normalized_entropy",
    "path_calibration_error",
    "path_log_loss",
    "pde",
    "probabilistic_count",
    "recalibration",
    "refinement",
    "rmse",
    "sharpness",
    "skce",
    "smooth_ece",
    "spiegelhalter",
    "sweep_ece",
    "theoretical_error",
    "trade_off",
    "tree_regions",
    "validity_curve",
    "weak_error",
]

__dir__ = public_names(__all__)
