"""Comparison of a report's rows with an earlier sample: stability, migration between grades, and ranking."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays.frames import columns_of
from calibrant.arrays.keys import read_keys
from calibrant.credit.grades import GradeTable
from calibrant.credit.ranking import accuracy_ratio, accuracy_ratio_change
from calibrant.credit.stability import Migration, migration_matrix, psi
from calibrant.messages import InputError
from calibrant.reporting.blocks import Block, Bullets, Table
from calibrant.reporting.figures import amount, count, number, share, span
from calibrant.reporting.styles import Style
from calibrant.tallies import Tally

MOST_GRADES = 20
"""Grades of a migration matrix that is shown."""


def compare_with(
    now: Tally, grades: GradeTable | None, groups: list[dict[str, Any]], before: Tally, rows_before: dict[str, int]
) -> dict[str, Any]:
    """Numbers of the comparison; ``rows_before`` are the earlier rows by grade, empty if there is no column of grades.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.1] * 50 + [0.3] * 50, [0] * 45 + [1] * 5 + [0] * 35 + [1] * 15)
    >>> groups = [{"to": 0.1, "rows": 50.0, "label": "10 %"}, {"to": 0.3, "rows": 50.0, "label": "30 %"}]
    >>> found = compare_with(tally, None, groups, tally, {})
    >>> found["psi"]["value"], found["accuracy_ratio_change"]["value"]
    (0.0, 0.0)
    """
    ratio = accuracy_ratio(before)
    predicted = float((before.n * before.scores).sum())
    found = None
    if now.counts and before.counts:
        if rows_before and grades is not None:
            names = list(dict.fromkeys([*grades.names, *rows_before]))
            here = dict(zip(grades.names, grades.n.tolist(), strict=True))
            found = psi(*([rows.get(name, 0) for name in names] for rows in (rows_before, here)), names=names)
        elif len(groups) > 1:
            ends = np.array([group["to"] for group in groups])[:-1]
            place = np.searchsorted(ends, before.scores, side="left")
            counted = np.bincount(place, np.asarray(before.n, dtype=np.float64), len(groups)).astype(np.int64)
            after = [round(group["rows"]) for group in groups]
            found = psi(counted, after, names=[group["label"] for group in groups])
    return {
        "rows": float(before.total),
        "events": float(before.positives),
        "predicted": predicted,
        "accuracy_ratio": ratio.to_dict(),
        "accuracy_ratio_change": accuracy_ratio_change(accuracy_ratio(now), ratio).to_dict(),
        "psi": None if found is None else found.to_dict(),
        "psi_by": "grades" if rows_before and grades is not None else "groups",
    }


def migration(now: Any, before: Any, borrower: str, grade: str, order: tuple[str, ...]) -> dict[str, Any]:
    """Grades of the borrowers that are in both frames, before and now; ``order`` are the grades, best first."""
    sides = []
    for frame, name in ((before, "reference"), (now, "scores")):
        columns = columns_of(frame, [borrower, grade])
        who, at = (read_keys(columns[each].to_numpy(), name) for each in (borrower, grade))
        keep = (who.codes >= 0) & (at.codes >= 0)
        if len(np.unique(who.codes[keep])) < int(keep.sum()):
            raise InputError("borrower", f"{borrower!r} has a borrower twice in {name}", "pass one row per borrower")
        sides.append({who.names[w]: at.names[g] for w, g in zip(who.codes[keep], at.codes[keep], strict=True)})
    common = sorted(sides[0].keys() & sides[1].keys())
    made: Migration | None = None
    if common:
        pairs = [[side[name] for name in common] for side in sides]
        others = sorted({*pairs[0], *pairs[1]} - set(order))
        made = migration_matrix(*pairs, names=[*order, *others])
    numbers = {"left": len(sides[0]) - len(common), "joined": len(sides[1]) - len(common)}
    return numbers | {"matrix": None if made is None else made.to_dict()}


def comparison(found: dict[str, Any], style: Style) -> list[Block]:
    """Sentences and the migration matrix."""
    change, before = found["accuracy_ratio_change"], found["accuracy_ratio"]
    lines = [
        f"Earlier sample: {count(found['rows'])} {{rows}}, {count(found['events'])} {{events}}, "
        f"{amount(found['predicted'])} predicted (mean {{score}} {share(found['predicted'] / found['rows'])})."
    ]
    index = found["psi"]
    if index is not None:
        size = "stable" if index["value"] < 0.1 else "some shift" if index["value"] < 0.25 else "a large shift"
        chance = "more than" if index["value"] > index["quantile"] else "not more than"
        lines.append(
            f"Population stability index over the {found['psi_by']}: {number(index['value'])}, {size} by the usual "
            f"limits of 0.1 and 0.25, and {chance} chance explains (95 % of samples without a shift are below "
            f"{number(index['quantile'])})."
        )
    if change.get("value") is not None:
        ends = f" (95 % interval {span(change['low'], change['high'])})" if change.get("low") is not None else ""
        told = "" if not ends else " It is a change" if change["low"] * change["high"] > 0 else " It may be chance"
        lines.append(
            f"Accuracy ratio (Gini): {number(before['value'])} then, a change of {number(change['value'])}{ends}."
            + (f"{told}; the interval takes the two samples as independent." if told else "")
        )
    blocks: list[Block] = [Bullets(tuple(map(style.say, lines)))]
    moved = found.get("migration")
    if moved is not None and moved["matrix"] is not None and len(moved["matrix"]["names"]) <= MOST_GRADES:
        blocks.append(_matrix(moved, style))
    return blocks


def _matrix(moved: dict[str, Any], style: Style) -> Table:
    matrix = moved["matrix"]
    rows = tuple(
        (name, *("" if each is None else share(each) for each in line), count(sum(counts)))
        for name, line, counts in zip(matrix["names"], matrix["shares"], matrix["counts"], strict=True)
    )
    note = (
        f"{share(matrix['stayed'])} stayed, {share(matrix['better'])} moved to a better grade and "
        f"{share(matrix['worse'])} to a worse one. {count(moved['left'])} {{rows}} of the earlier sample are gone, and "
        f"{count(moved['joined'])} are new; they are not in the table."
    )
    head = ("from / to", *matrix["names"], style.say("{rows}"))
    return Table("Migration between grades, in shares of each line", head, rows, (style.say(note),))
