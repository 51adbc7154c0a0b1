"""Is it calibrated, what changes, and what to do: verdicts in words and counts."""

from calibrant.verdict.check import check, judge
from calibrant.verdict.compare import Change, compare
from calibrant.verdict.verdict import Verdict

__all__ = ["Change", "Verdict", "check", "compare", "judge"]
