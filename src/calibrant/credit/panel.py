"""Rating grades by year and segment: a table of each, a light for each grade and year, and all of them in one file."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.credit.counts import (
    check_correlation,
    check_counts,
    check_events,
    check_pd,
    check_shapes,
    name_key,
    read_names,
)
from calibrant.credit.factor import YELLOW
from calibrant.credit.grades import GradeTable, Light, Sides, grade_table
from calibrant.credit.low_default import pluto_tasche
from calibrant.credit.records import Recorded
from calibrant.messages import Drawn, InputError, Shown
from calibrant.metrics.estimates import plain
from calibrant.metrics.multiplicity import holm
from calibrant.notebook import SHAPES, TRAFFIC_LIGHTS, stacked
from calibrant.numerics import Floats, Ints

ALL = "all"
"""Name of all years, or of all segments."""

LEVELS = (0.5, 0.75, 0.9, 0.95)
"""Confidence levels of the upper bounds that are shown without defaults."""


@dataclass(frozen=True, eq=False)
class GradePart(Shown):
    """Grades of one segment, one year, or both.

    Attributes
    ----------
    segment, year
        Which; ``"all"`` for all of them.
    table
        The table of its grades.
    holm_p
        P-value of its portfolio test after Holm's correction for the parts of the same kind: segments, years, or both.
    """

    segment: str
    year: str
    table: GradeTable
    holm_p: float

    @property
    def name(self) -> str:
        """Segment and year in words."""
        named = [each for each in (self.segment, self.year) if each != ALL]
        return ", ".join(named) or "all"

    def __str__(self) -> str:
        """Its name and its table."""
        return f"{self.name}\n{self.table}"


@dataclass(frozen=True, eq=False)
class GradePanel(Drawn, Recorded, Shown):
    """The result of :func:`grade_panel`: tables of grades overall, by segment, by year, and by both.

    Attributes
    ----------
    whole
        The table of all rows; the PD of a grade is the mean over its rows.
    parts
        Segments, then years, then segments by year, in order.
    grades, years, segments
        Names; years and segments are empty if none were given.
    """

    whole: GradeTable
    parts: tuple[GradePart, ...]
    grades: tuple[str, ...]
    years: tuple[str, ...]
    segments: tuple[str, ...]

    def part(self, segment: str = ALL, year: str = ALL) -> GradeTable:
        """The table of one segment, one year, or both.

        Parameters
        ----------
        segment, year
            Names; ``"all"`` for all of them.
        """
        if (segment, year) == (ALL, ALL):
            return self.whole
        for part in self.parts:
            if (part.segment, part.year) == (str(segment), str(year)):
                return part.table
        raise InputError(
            "segment" if year == ALL else "year",
            f"is not in the panel: it has no segment {segment!r} with year {year!r}",
            "see .parts",
        )

    @property
    def off_parts(self) -> tuple[GradePart, ...]:
        """Parts with more defaults than their PDs allow, at 5 % after Holm's correction."""
        return tuple(part for part in self.parts if part.holm_p <= YELLOW)

    def lights(self, segment: str = ALL) -> list[list[Light]]:
        """Lights by grade (rows) and year (columns), with a last row for the portfolio.

        Parameters
        ----------
        segment
            Name of a segment; ``"all"`` for all of them.
        """
        found: list[list[Light]] = [["none"] * len(self.years) for _ in (*self.grades, ALL)]
        for column, year in enumerate(self.years):
            table = self.part(segment, year)
            shown = table.lights if table.correlated_lights is None else table.correlated_lights
            for name, light in zip(table.names, shown, strict=True):
                found[self.grades.index(name)][column] = light
            found[-1][column] = table.light
        return found

    @property
    def upper_bounds(self) -> dict[float, Floats] | None:
        """Without any default: upper bounds of the PDs by grade, at several confidence levels; otherwise None."""
        if self.whole.events.any() or not self.whole.n.any():
            return None
        order = np.argsort(self.whole.pd, kind="stable")
        rho = self.whole.correlation or 0.0
        found = pluto_tasche(self.whole.n[order], self.whole.events[order], confidence=LEVELS, correlation=rho)
        back = np.argsort(order, kind="stable")
        return {level: bounds[back] for level, bounds in zip(LEVELS, found, strict=True)}

    def records(self) -> list[dict[str, Any]]:
        """A record for each grade of each part, with segment and year; ``"all"`` for all of them."""
        every = [(ALL, ALL, self.whole, math.nan), *((p.segment, p.year, p.table, p.holm_p) for p in self.parts)]
        found = []
        for segment, year, table, adjusted in every:
            rows = table.records()
            rows[-1]["holm_p"] = adjusted
            found += [{"segment": segment, "year": year} | row for row in rows]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that are not finite are None."""
        bounds = self.upper_bounds
        return {
            "portfolio": self.whole.to_dict(),
            "parts": [
                {"segment": part.segment, "year": part.year, "holm_p": plain(part.holm_p)} | part.table.to_dict()
                for part in self.parts
            ],
            "lights": {name: self.lights(name) for name in (ALL, *self.segments)} if self.years else None,
            "grades": list(self.grades),
            "years": list(self.years),
            "segments": list(self.segments),
            "upper_bounds": None if bounds is None else {f"{level:g}": plain(each) for level, each in bounds.items()},
        }

    def to_html(self, title: str = "Rating grades") -> str:
        """One self-contained HTML page with all tables and the lights by grade and year.

        Parameters
        ----------
        title
            Title and heading of the page.
        """
        style = "body{font:1rem/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:64rem;padding:0 1rem}"
        style += "@media print{*{-webkit-print-color-adjust:exact;print-color-adjust:exact}div{break-inside:avoid}}"
        head = f"<title>{html.escape(title)}</title><style>{style}</style>"
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{head}</head>\n<body>'
            f"<h1>{html.escape(title)}</h1>\n{self._repr_html_()}\n</body></html>\n"
        )

    def _repr_html_(self) -> str:
        """For notebooks: lights by grade and year, then all tables."""
        maps = [self._heat_map(name) for name in (ALL, *self.segments)] if self.years else []
        parts = [part.table.block(part.name) for part in self.parts]
        return stacked(self.whole.block("All grades"), *maps, *parts)

    def _heat_map(self, segment: str) -> str:
        """Lights by grade and year as an HTML table, with a letter in each cell."""
        cell = "padding:0.25em 0.8em;border:1px solid rgba(128,128,128,0.5);text-align:center"
        top = "".join(f'<th style="{cell}">{html.escape(year)}</th>' for year in self.years)
        rows = ""
        for name, lights in zip((*self.grades, "portfolio"), self.lights(segment), strict=True):
            cells = "".join(f'<td style="{cell}">{_mark(light)}</td>' for light in lights)
            rows += f'<tr><th style="{cell}">{html.escape(name)}</th>{cells}</tr>'
        title = "Lights by grade and year" + ("" if segment == ALL else f": {segment}")
        table = f'<table style="border-collapse:collapse;margin:0.3em 0"><tr><th style="{cell}">grade</th>{top}</tr>'
        legend = "G green, Y yellow, R red; empty: no rows"
        return f"<div><strong>{html.escape(title)}</strong>{table}{rows}</table><div>{legend}</div></div>"

    def __str__(self) -> str:
        """The table of all rows, a line for each part, and a letter for each grade and year."""
        lines = [str(self.whole)]
        if self.parts:
            width = max(len(part.name) for part in self.parts) + 2
            lines += ["", f"{'part':<{width}}{'rows':>9}{'def.':>7}{'expected':>10}{'p':>8}{'Holm':>8} light"]
            lines += [part_line(part, width) for part in self.parts]
        for segment in (ALL, *self.segments) if self.years else ():
            wide = max(10, *(len(name) + 2 for name in self.grades))
            title = "lights by grade and year" + ("" if segment == ALL else f": {segment}")
            lines += ["", f"{title} (G green, Y yellow, R red)"]
            lines.append(" " * wide + "".join(f"{year:>{max(len(year), 4) + 2}}" for year in self.years))
            for name, lights in zip((*self.grades, "portfolio"), self.lights(segment), strict=True):
                letters = zip(lights, self.years, strict=True)
                cells = "".join(f"{letter(light):>{max(len(year), 4) + 2}}" for light, year in letters)
                lines.append(f"{name:<{wide}}{cells}")
        return "\n".join([*lines, *self.bound_lines()])

    def bound_lines(self) -> list[str]:
        """Without any default: the upper bounds of the PDs in words; otherwise nothing."""
        bounds = self.upper_bounds
        if bounds is None:
            return []
        rho = self.whole.correlation
        how = "independent defaults" if not rho else f"asset correlation {rho:g}"
        how += "; all years pooled" if len(self.years) > 1 else ""
        width = max(10, *(len(name) + 2 for name in self.grades))
        chance = self.whole.at_most_p
        said = "That does not show that the PDs are right: it bounds them."
        if chance < YELLOW:
            p = "p < 0.001" if chance < 0.001 else f"p = {chance:.3f}"
            said = f"That is far fewer than predicted ({p}): the PDs look too high."
        lines = [
            "",
            f"No default was observed. {said}",
            f"Upper bounds of the PDs in %, by confidence (Pluto and Tasche 2005; {how}; grades ordered by PD):",
            f"{'grade':<{width}}{'PD %':>9}" + "".join(f"{100 * level:>8g} %" for level in bounds),
        ]
        for place, name in enumerate(self.whole.names):
            row = "".join(f"{100 * each[place]:>10.3g}" for each in bounds.values())
            lines.append(f"{name:<{width}}{100 * self.whole.pd[place]:>9.3g}{row}")
        return lines


def grade_panel(
    n: ArrayLike,
    events: ArrayLike,
    pd: ArrayLike,
    *,
    grade: ArrayLike,
    year: ArrayLike | None = None,
    segment: ArrayLike | None = None,
    alpha: float = 0.05,
    sides: Sides = "one",
    correlation: float | None = None,
) -> GradePanel:
    """Compare the defaults of grades with their PDs overall, by segment, by year, and by both.

    Each line of the input is one cell: its rows, defaults and PD, with the names of its grade, year and segment. Lines
    of the same cell are added; the PD of a table's grade is the mean over its rows.

    Parameters
    ----------
    n, events, pd
        Rows, defaults and PD of each line.
    grade, year, segment
        Names of grade, year and segment of each line.
    alpha, sides, correlation
        As in :func:`grade_table`.

    Returns
    -------
    GradePanel
        Tables, lights by grade and year; prints itself, and writes CSV and HTML.

    Notes
    -----
    Edges: a grade without rows in a year has no light there. Grades are in the order of their mean PD over all rows.
    Guarantee: as in :func:`grade_table` for each table, for independent defaults or under the one-factor model. Where
    PDs differ within a pooled grade, its test uses their mean and is conservative. Holm's correction covers the grades
    of one table, and the portfolio tests of parts of one kind. Borrowers who are counted in several years are treated
    as independent rows; years that share a bad economy are not independent evidence.
    Cost: that of :func:`grade_table` for each part.
    References: as in :func:`grade_table`: OeNB and FMA (2004), ECB (2019), Holm (1979).

    Examples
    --------
    >>> panel = grade_panel(
    ...     [800, 500, 820, 480], [1, 4, 2, 16], [0.002, 0.01, 0.002, 0.01],
    ...     grade=["A", "B", "A", "B"], year=[2024, 2024, 2025, 2025],
    ... )
    >>> panel.years, panel.lights()
    (('2024', '2025'), [['green', 'green'], ['green', 'red'], ['green', 'red']])
    >>> panel.whole.events.tolist()
    [3, 20]
    """
    m, k = check_counts(n, "n", unit="line"), check_counts(events, "events", unit="line")
    check_shapes(m, unit="line", events=k, pd=pd)
    p = check_pd(pd)
    check_events(m, k, "line")
    if correlation is not None:
        check_correlation(correlation)
    names = read_names(grade, "grade", len(m))
    years = None if year is None else _part_names(year, "year", len(m))
    segments = None if segment is None else _part_names(segment, "segment", len(m))
    cells = _Cells(m, k, p, names, {"alpha": alpha, "sides": sides, "correlation": correlation})
    order = cells.order()
    every = np.ones(len(m), dtype=bool)
    in_years, in_segments = _sorted(years), _sorted(segments)
    parts: list[GradePart] = []
    if segments is not None:
        parts += _adjusted([(one, ALL, cells.table(segments == one, order)) for one in in_segments])
    if years is not None:
        parts += _adjusted([(ALL, one, cells.table(years == one, order)) for one in in_years])
    if segments is not None and years is not None:
        both = [
            (one, when, cells.table((segments == one) & (years == when), order))
            for one in in_segments
            for when in in_years
            if ((segments == one) & (years == when)).any()
        ]
        parts += _adjusted(both)
        missing = [
            GradePart(one, when, cells.table(every & False, order), math.nan)
            for one in in_segments
            for when in in_years
            if not ((segments == one) & (years == when)).any()
        ]
        parts += missing
    return GradePanel(cells.table(every, order), tuple(parts), tuple(order), tuple(in_years), tuple(in_segments))


@dataclass(frozen=True, eq=False)
class _Cells:
    """Lines of a panel."""

    n: Ints
    events: Ints
    pd: Floats
    grade: NDArray[Any]
    settings: dict[str, Any]

    def order(self) -> list[str]:
        """Names of the grades by their mean PD, ties by first appearance."""
        names = list(dict.fromkeys(self.grade.tolist()))
        means = [self._mean(self.grade == name) for name in names]
        return [names[place] for place in np.argsort(means, kind="stable")]

    def _mean(self, mask: NDArray[np.bool_]) -> float:
        rows = float(self.n[mask].sum())
        if rows:
            return float((self.n[mask] * self.pd[mask]).sum()) / rows
        return float(self.pd[mask].mean()) if mask.any() else 0.0

    def table(self, mask: NDArray[np.bool_], order: Sequence[str]) -> GradeTable:
        """The table of the lines in ``mask``."""
        masks = [mask & (self.grade == name) for name in order]
        n, events = ([int(column[each].sum()) for each in masks] for column in (self.n, self.events))
        pd = [
            min(self._mean(each if each.any() else self.grade == name), 1.0)
            for each, name in zip(masks, order, strict=True)
        ]
        return grade_table(n, events, pd, names=order, **self.settings)


def _part_names(values: ArrayLike, name: str, n: int) -> NDArray[Any]:
    """Names of years or segments; the name of all of them is not free."""
    found = read_names(values, name, n)
    if (found == ALL).any():
        line = int(np.argmax(found == ALL)) + 1
        fix = f"leave totals out, or rename the {name}"
        raise InputError(name, f"is {ALL!r} in line {line}, which is the name of all {name}s together", fix)
    return found


def _sorted(names: NDArray[Any] | None) -> list[str]:
    return [] if names is None else sorted(set(names.tolist()), key=name_key)


def _adjusted(found: list[tuple[str, str, GradeTable]]) -> list[GradePart]:
    """Parts with their portfolio p-values after Holm's correction; for correlated defaults if these were asked for."""
    tails = [t.portfolio_p if t.portfolio_correlated_p is None else t.portfolio_correlated_p for *_, t in found]
    adjusted = holm(np.array(tails, dtype=np.float64))
    return [GradePart(*each, float(p)) for each, p in zip(found, adjusted, strict=True)]


def letter(light: Light) -> str:
    """The first letter of a light in upper case; nothing without a light."""
    return "" if light == "none" else light[0].upper()


def _mark(light: Light) -> str:
    if light == "none":
        return ""
    return f'<span style="color:{TRAFFIC_LIGHTS[light]}">{SHAPES[light]}</span> {letter(light)}'


def part_line(part: GradePart, width: int) -> str:
    """A line of the portfolio test of a part."""
    table = part.table
    p = table.portfolio_p if table.portfolio_correlated_p is None else table.portfolio_correlated_p
    expected = float((table.n * table.pd).sum())
    texts = ["" if math.isnan(each) else "<.001" if each < 0.001 else f"{each:.3f}" for each in (p, part.holm_p)]
    head = f"{part.name:<{width}}{table.n.sum():>9}{table.events.sum():>7}{expected:>10.2f}"
    return f"{head}{texts[0]:>8}{texts[1]:>8} {table.light}"
