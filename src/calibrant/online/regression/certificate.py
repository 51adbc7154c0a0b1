"""Certificates of calibration by regression: on all rows, or in groups given as features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.arrays.columns import is_whole
from calibrant.arrays.multiclass.names import first_names
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate, rounded_up
from calibrant.messages import InputError

if TYPE_CHECKING:
    from calibrant.online.regression.calibrated import CalibratedRegression

LATE = "With late outcomes it holds for forecasts recomputed when each outcome is learned, not for those issued before."
"""What the guarantee means if its first assumption does not hold."""


@dataclass(frozen=True)
class EventsCertificate(OnlineCertificate):
    """A guarantee that forecast and observed numbers of events differ by at most a bound.

    Attributes
    ----------
    group_rows
        Number of rows of the group that the bound is for, or of all rows.
    note
        Which groups and forecasts it applies to, in sentences.

    Examples
    --------
    >>> found = EventsCertificate("the difference in each group", 24.1, 1000, False, (), "a proof", 400, "Thus.")
    >>> print(found)  # doctest: +NORMALIZE_WHITESPACE
    After its first 1,000 rows, the difference in each group is at most 25 events, 0.0603 of a group of 400
    rows, on every sequence.
      Thus.
      Basis: a proof.
    """

    group_rows: int
    note: str

    @property
    def rate(self) -> float:
        """The bound as a share of the rows of the group."""
        return self.bound / self.group_rows

    def __str__(self) -> str:
        """The bound in events and as a rate, the groups it is for, and the assumptions."""
        of = "all rows" if self.group_rows == self.n_rows else f"a group of {self.group_rows:,} rows"
        events = f"{math.ceil(self.bound):,} events, {rounded_up(self.rate, 3)} of {of}"
        stated = f"{self.when} {self.quantity} is at most {events}, on every sequence."
        return "\n  ".join(part for part in (stated, self.note, f"Basis: {self.theorem}.", *self.assumed) if part)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain JSON."""
        return {**super().to_dict(), "rate": self.rate}


@dataclass(frozen=True)
class Guaranteed:
    """Guarantees of a regression with this many test functions in use, of which the first is the forecast."""

    regression: CalibratedRegression
    functions: int

    def everywhere(self, rows: int, spend: float) -> OnlineCertificate | NoCertificate:
        r"""Certificate for all rows, every feature and every test function: :math:`\sqrt{(T + 1) \cdot \text{spend}}`.

        The bound holds for the constant, whose squares add up to T, and for values in [-1, 1]. The forecast itself has
        1 more (docs/certificates/regression.md), which is added if test functions are listed. Without the constant
        nothing is stated of all rows together.
        """
        parts, note, features = ["on all rows"] * self.regression.constant, "", self.regression.n_features
        if features:
            parts.append(f"in {self._groups}")
            note = (
                "A group is a feature that is 1 inside and 0 outside; a row with another value counts with that value. "
                "For smaller groups pass group_rows, which gives a smaller bound. "
            )
        weighted = self.functions > 1 or not parts
        if weighted:
            parts.append(f"on all rows weighted by {self._weights}")
        if self.regression.each_feature and features:
            each = "each of these functions" if self.functions > 1 else self._weights
            parts.append(f"in each group with its rows weighted by {each}")
        where = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
        bound = math.sqrt((rows + 1) * spend) + (1.0 if weighted else 0.0)
        return self._certificate(where, bound, rows, rows, note, "pass a larger n_rows")

    def in_groups(self, rows: int, group_rows: int, spend: float) -> OnlineCertificate | NoCertificate:
        r"""Certificate for groups of g rows that are features: :math:`\sqrt{(g + 1) \cdot \text{spend}}`.

        Test functions on all rows are not listed, since the sum of their squares is not smaller for a group.
        """
        if not self.regression.n_features:
            raise InputError("group_rows", "must be left out", "there are no features, and groups are features")
        if not is_whole(group_rows) or not 0 <= group_rows <= rows:
            raise InputError("group_rows", f"must be an integer of at most n_rows ({rows:,}), not {group_rows!r}")
        inside = int(group_rows)
        where = f"in {self._groups} if it has up to {inside:,} rows"
        if self.regression.each_feature:
            where += f", also with its rows weighted by {self._weights},"
        note = (
            f"In a group of fewer than {inside:,} rows the bound in events holds too, but is a larger share of the "
            "group; in a larger group it does not apply: pass the rows of that group as group_rows. "
        )
        enough = math.ceil(spend) + 1  # for g >= spend + 1, g^2 exceeds (g + 1) * spend
        fix = f"pass a group_rows of {enough:,} or more"
        if enough > rows:
            fix = f"pass a larger n_rows and group_rows, since no group within {rows:,} rows is large enough"
        return self._certificate(where, math.sqrt((inside + 1) * spend), rows, inside, note, fix)

    @property
    def _weights(self) -> str:
        if self.functions == 1:
            return "the forecast"
        since = ", from the row at which it came into use" if self.regression.growing else ""
        return f"each of the {self.functions} functions of the forecast{since}"

    @property
    def _groups(self) -> str:
        features, names = self.regression.n_features, self.regression.feature_names
        if features == 1:
            return f"the group {names[0]!r}" if names else "the group"
        return f"each of the {features} groups" + (f" ({first_names(names)})" if names else "")

    def _certificate(
        self, where: str, bound: float, rows: int, inside: int, note: str, fix: str
    ) -> OnlineCertificate | NoCertificate:
        if bound >= inside:
            return NoCertificate(
                NoCertificateCode.VACUOUS,
                f"the bound of {math.ceil(bound):,} events is vacuous for {inside:,} rows: {fix}",
            )
        assumptions = [OnlineAssumption.IN_ORDER]
        if self.regression.n_features:
            assumptions.append(OnlineAssumption.FEATURES_BEFORE)
        if inside < rows:
            assumptions.append(OnlineAssumption.GROUP_FEATURES)
        if callable(self.regression.test_functions):
            assumptions.append(OnlineAssumption.CONTINUOUS_TESTS)
        return EventsCertificate(
            f"the difference between forecast and observed events {where}",
            bound,
            rows,
            False,
            tuple(assumptions),
            "Foster and Kakade 2006, Theorem 3.3, with the constants of docs/certificates/regression.md",
            inside,
            note + LATE,
            learned=self.regression.n_rows,
        )
