"""How far off, how sure, and what a perfect model would show: numbers about calibration.

Every metric is a function of ``(scores, y, sample_weight)``, or of a :class:`~calibrant.tallies.Tally` alone, and
returns a value that prints itself. ``METRICS`` lists those that give one number, ``TESTS`` those that give a p-value;
contract tests run over both.
"""

from collections.abc import Callable

from calibrant.metrics.bins import Bins
from calibrant.metrics.cumulative import ecce
from calibrant.metrics.decompositions import Decomposition, decompose
from calibrant.metrics.errors import debiased_ece, ece, pde, sweep_ece, weak_error
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.grades import GradeTable, grade_table, pluto_tasche
from calibrant.metrics.kernel import skce
from calibrant.metrics.recalibration import calibration_curve, ici, recalibration
from calibrant.metrics.resampling import bootstrap
from calibrant.metrics.scores import (
    accuracy,
    auc,
    brier,
    classification_loss,
    log_loss,
    net_benefit,
    refinement,
    rmse,
    sharpness,
)
from calibrant.metrics.significance import (
    Finding,
    always_valid_test,
    debiased_l2_test,
    ecce_test,
    hosmer_lemeshow,
    spiegelhalter,
)
from calibrant.metrics.simulation import kendall_tau, metric_bias, probabilistic_count, theoretical_error
from calibrant.metrics.smooth import smooth_ece
from calibrant.metrics.streams import epsilon_error, error_over_time
from calibrant.metrics.validity import ValidityCurve, validity_curve

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
"""Metrics of one number, by name."""

TESTS: dict[str, Callable[..., Finding]] = {
    "always_valid_test": always_valid_test,
    "debiased_l2_test": debiased_l2_test,
    "ecce_test": ecce_test,
    "hosmer_lemeshow": hosmer_lemeshow,
    "spiegelhalter": spiegelhalter,
}
"""Tests of calibration, by name."""

__all__ = [
    "METRICS",
    "TESTS",
    "Bins",
    "Decomposition",
    "Estimate",
    "Finding",
    "GradeTable",
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
    "grade_table",
    "hosmer_lemeshow",
    "ici",
    "kendall_tau",
    "log_loss",
    "metric_bias",
    "net_benefit",
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
