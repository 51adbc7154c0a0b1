"""What calibration by regression promises, in words and numbers: on all rows, or in groups that are features."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.arrays import InputError
from calibrant.arrays.columns import is_whole
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import IN_ORDER, OnlineCertificate


@dataclass(frozen=True)
class Promised:
    """The functions that a regression is calibrated on, and what is promised of them.

    Attributes
    ----------
    features
        How many features there are.
    functions
        How many test functions are in use; the first is the forecast itself.
    products
        Whether products of the two are among the regressors.
    own
        Whether the test functions are the user's.
    """

    features: int
    functions: int
    products: bool
    own: bool

    def everywhere(self, rows: int, spend: float) -> OnlineCertificate | Refusal:
        r"""On all rows, every feature and every test function: :math:`\sqrt{(T + 1) \cdot \text{spend}}`.

        A bound is on the constant, whose squares add up to T, and on what is in [-1, 1]; the forecast itself has 1
        more (docs/certificates/regression.md), which is paid where test functions are named.
        """
        parts = ["on all rows"]
        if self.features:
            parts.append(
                "weighted by " + ("the feature" if self.features == 1 else f"each of the {self.features} features")
            )
        if self.functions > 1:
            parts.append(f"weighted by each of the {self.functions} test functions")
        if self.products and self.features:
            parts.append("weighted by each product of the two" if self.functions > 1 else "by feature times forecast")
        where = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
        bound = math.sqrt((rows + 1) * spend) + (1.0 if self.functions > 1 else 0.0)
        return self._told(where, bound, rows, rows)

    def in_groups(self, rows: int, group_rows: int, spend: float) -> OnlineCertificate | Refusal:
        r"""In groups of g rows that are features: :math:`\sqrt{(g + 1) \cdot \text{spend}}`.

        Test functions on all rows are not named, since their squares do not add up to less in a group.
        """
        if not self.features:
            raise InputError("group_rows must be left out: there are no features, and only these are groups")
        if not is_whole(group_rows) or not 0 <= group_rows <= rows:
            raise InputError(f"group_rows must be a whole number of at most n_rows, {rows:,}, not {group_rows!r}")
        groups = f"each of the {self.features} groups that are features"
        if self.features == 1:
            groups = "the group that is the feature"
        where = f"in {groups}, where it has at most {int(group_rows):,} rows,"
        if self.products:
            weights = f"each of the {self.functions} test functions" if self.functions > 1 else "the forecast"
            where += f" also weighted by {weights},"
        return self._told(where, math.sqrt((group_rows + 1) * spend), rows, int(group_rows))

    def _told(self, where: str, bound: float, rows: int, inside: int) -> OnlineCertificate | Refusal:
        if bound >= inside:
            return Refusal("the bound says nothing of so few rows: pass n_rows and group_rows to see what more give")
        assumptions = [IN_ORDER]
        if self.features:
            assumptions.append("features are fixed before the forecast")
        if where.startswith("in "):
            assumptions.append("a feature is 1 in its group and 0 outside")
        if self.own:
            assumptions.append("the test functions are continuous in the forecast")
        return OnlineCertificate(
            f"the difference between events forecast and events seen {where}",
            bound,
            rows,
            False,
            tuple(assumptions),
            "Foster and Kakade 2006, Theorem 3.3, with the constants of our proof",
        )
