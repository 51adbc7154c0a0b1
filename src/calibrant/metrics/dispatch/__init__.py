"""Metrics that take one column of scores or a matrix of class scores."""

from calibrant.metrics.dispatch.errors import adaptive_ece, debiased_ece, ece, pde, skce, validity_curve
from calibrant.metrics.dispatch.scores import accuracy, brier, log_loss

__all__ = [
    "accuracy",
    "adaptive_ece",
    "brier",
    "debiased_ece",
    "ece",
    "log_loss",
    "pde",
    "skce",
    "validity_curve",
]
