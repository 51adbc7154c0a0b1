"""Read the table of printed claims, and draw a printed value beside ours in the same way everywhere."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

CLAIMS = Path(__file__).parents[2] / "benchmarks" / "papers" / "claims.csv"
AGREES, NEAR, DIFFERS = "tab:blue", "tab:gray", "tab:orange"
COLORS = {"agrees": AGREES, "not distinguishable": NEAR}


@dataclass(frozen=True)
class Value:
    """One printed value beside ours; without a printed number, `printed` is NaN."""

    printed: float
    ours: float
    spread: float
    verdict: str

    @property
    def agrees(self) -> bool:
        return self.verdict == "agrees"

    @property
    def color(self) -> str:
        return COLORS.get(self.verdict, DIFFERS)


def values(page: str) -> dict[str, Value]:
    """The values of a page that we have, by their keys; of two claims about one value, the first."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["page"] == page and row["ours"]]
    return {row["key"]: _value(row) for row in reversed(rows)}


def _value(row: dict[str, str]) -> Value:
    printed = float("nan") if row["printed"] in {"+", "-"} else float(row["printed"])
    return Value(printed, float(row["ours"]), float(row["spread"] or 0), row["verdict"])


def draw_pair(ax: Axes, place: float, value: Value) -> None:
    """Draw the printed value as a cross and ours as a dot, with its spread, at a place of the horizontal axis."""
    ax.errorbar(place, value.ours, value.spread, fmt="o", color=value.color, markersize=5, capsize=3, zorder=2)
    ax.plot(place, value.printed, "x", color="black", markersize=7, zorder=3)


def explain(ax: Axes, **options: object) -> None:
    """Add a legend of the three marks, and of what else has a label."""
    ax.plot([], [], "kx", label="printed")
    ax.plot([], [], "o", color=AGREES, label="ours, agrees")
    ax.plot([], [], "o", color=DIFFERS, label="ours, differs")
    if any(line.get_color() == NEAR for line in ax.lines):
        ax.plot([], [], "o", color=NEAR, label="ours, not distinguishable")
    ax.legend(**{"fontsize": 9, "frameon": False, **options})
