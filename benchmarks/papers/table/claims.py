"""The claims of the source documents: the printed ones with their tolerances, the table, and the rules of agreement.

- equals: ours is within the tolerance of the printed value;
- at most, at least: ours keeps the printed bound, up to the tolerance;
- sign: ours has the printed sign, and is larger than the tolerance in size;
- same: ours is within the tolerance, and would be with two spreads more or less.

A sign within two spreads of zero, and a sameness that two spreads can make or break, is not distinguishable.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent
CLAIMS = HERE.parent / "claims.csv"
ROUNDING = 1e-9
"""Slack for the last digit of a difference of decimal numbers."""
WIDE = 0.2
"""Share of the printed value above which a tolerance needs a basis, unless it is a slack for rounding."""
SMALL = 1e-6
NEAR = "not distinguishable"
VERDICTS = ("agrees", NEAR, "differs", "no data")


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    page: str
    document: str
    place: str
    what: str
    printed: str
    rule: str
    tolerance: str
    basis: str
    ours: str
    spread: str
    verdict: str
    why: str
    key: str
    command: str
    date: str


def verdict(printed: str, rule: str, tolerance: str, ours: float | None, spread: float | None = None) -> str:
    """Whether a value agrees with what is printed: one of `VERDICTS`."""
    if ours is None:
        return "no data"
    slack, reach = float(tolerance) + ROUNDING, 2.0 * (spread or 0.0)
    if rule == "sign":
        if reach and abs(ours) <= reach:
            return NEAR
        sign = {"+": 1.0, "-": -1.0}.get(printed) or float(printed)
        holds = ours * sign > 0 and abs(ours) > float(tolerance)
    elif rule == "equals":
        holds = abs(ours - float(printed)) <= slack
    elif rule == "at most":
        holds = ours <= float(printed) + slack
    elif rule == "at least":
        holds = ours >= float(printed) - slack
    elif rule == "same":
        off = abs(ours - float(printed))
        if off - reach <= slack < off + reach:
            return NEAR
        holds = off <= slack
    else:
        raise ValueError(f"no rule {rule!r}: write equals, at most, at least, sign or same")
    return "agrees" if holds else "differs"


def printed_rows() -> list[dict[str, str]]:
    with (HERE / "printed.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def needs_basis(row: Mapping[str, str]) -> bool:
    """Whether the tolerance of a printed row is wide."""
    if row["rule"] not in {"equals", "same"} or float(row["tolerance"]) <= SMALL:
        return False
    return float(row["tolerance"]) > WIDE * abs(float(row["printed"]))


def source(key: str) -> str:
    return key.partition("/")[0]


def stored() -> list[Claim]:
    """The table as it is in the repository."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        return [Claim(**row) for row in csv.DictReader(file)]


def write(claims: Iterable[Claim]) -> None:
    with CLAIMS.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, [each.name for each in fields(Claim)], lineterminator="\n")
        lines.writeheader()
        lines.writerows(asdict(claim) for claim in claims)
