"""Answer, abstain or pass on: thresholds on a confidence at which few answers are wrong, with a guarantee."""

from calibrant.abstention.acceptance import Acceptance, accept
from calibrant.abstention.coverage import RiskCoverage, risk_coverage
from calibrant.abstention.gaps import Gap, Overconfidence, overconfidence
from calibrant.abstention.models import ModelChoice, accept_models
from calibrant.abstention.routing import Route, route
from calibrant.messages import public_names

__all__ = [
    "Acceptance",
    "Gap",
    "ModelChoice",
    "Overconfidence",
    "RiskCoverage",
    "Route",
    "accept",
    "accept_models",
    "overconfidence",
    "risk_coverage",
    "route",
]

__dir__ = public_names(__all__)
