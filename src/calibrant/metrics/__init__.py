"""Calibration metrics and tests, with standard errors, intervals, and the expected value of a calibrated model.

Every metric is a function of ``(scores, y, sample_weight)``, or of a :class:`~calibrant.tallies.Tally` alone, and
returns a result object that can be printed. ``METRICS`` lists the metrics with one number, ``MULTICLASS_METRICS`` those
of a matrix of class scores, ``TESTS`` those with a p-value; contract tests run over them.
"""

from collections.abc import Callable

from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.cumulative import ecce
from calibrant.metrics.binary.decompositions import Decomposition, decompose
from calibrant.metrics.binary.errors import pde, sweep_ece, weak_error
from calibrant.metrics.binary.kernel import skce
from calibrant.metrics.binary.recalibration import calibration_curve, ici, recalibration
from calibrant.metrics.binary.scores import (
    auc,
    classification_loss,
    net_benefit,
    refinement,
    rmse,
    sharpness,
)
from calibrant.metrics.binary.significance import (
    Finding,
    always_valid_test,
    debiased_l2_test,
    ecce_test,
    hosmer_lemeshow,
    spiegelhalter,
)
from calibrant.metrics.binary.smooth import smooth_ece
from calibrant.metrics.binary.validity import ValidityCurve, validity_curve
from calibrant.metrics.dispatch import accuracy, brier, debiased_ece, ece, log_loss
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.grades import GradeTable, grade_table, pluto_tasche
from calibrant.metrics.multiclass.bins import MulticlassBins
from calibrant.metrics.multiclass.errors import MulticlassErrors, errors_by_class, marginal_error
from calibrant.metrics.multiclass.paths import hierarchical_accuracy, mean_depth, path_calibration_error, path_log_loss
from calibrant.metrics.resampling import bootstrap
from calibrant.metrics.simulation import kendall_tau, metric_bias, probabilistic_count, theoretical_error
from calibrant.metrics.streams import epsilon_error, error_over_time

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
    "brier": brier,
    "ece": ece,
    "log_loss": log_loss,
    "debiased_ece": debiased_ece,
    "marginal_error": marginal_error,
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
    "Decomposition",
    "Estimate",
    "Finding",
    "GradeTable",
    "MulticlassBins",
    "MulticlassErrors",
    "ValidityCurve",
    "accuracy",
    "always_valid_test",
    "auc",
    "bootstrap",
    "brier",
    "calibration_curve",
    "classification_loss",
    "debiased_ece",
    "debiased_l2_test",
    "decompose",
    "ecce",
    "ecce_test",
    "ece",
    "epsilon_error",
    "error_over_time",
    "errors_by_class",
    "grade_table",
    "hierarchical_accuracy",
    "hosmer_lemeshow",
    "ici",
    "kendall_tau",
    "log_loss",
    "marginal_error",
    "mean_depth",
    "metric_bias",
    "net_benefit",
    "path_calibration_error",
    "path_log_loss",
    "pde",
    "pluto_tasche",
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
    "validity_curve",
    "weak_error",
]
