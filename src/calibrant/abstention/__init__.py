"""Answer, abstain or pass on: thresholds on a confidence at which few answers are wrong, with a guarantee."""

from calibrant.abstention.accept import Acceptance, accept
from calibrant.abstention.models import ModelChoice, accept_models

__all__ = ["Acceptance", "ModelChoice", "accept", "accept_models"]
