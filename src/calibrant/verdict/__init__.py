"""Check the calibration of a model, or compare models, with results in counts and sentences."""

from calibrant.verdict.change import Change
from calibrant.verdict.check import check, judge
from calibrant.verdict.compare import compare
from calibrant.verdict.verdict import Verdict

__all__ = ["Change", "Verdict", "check", "compare", "judge"]
