"""Rating grades by year and segment: a table of each, a light for each grade and year, and all of them in one file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    of_borrowers,
    read_names,
)
from calibrant.credit.factor import YELLOW
from calibrant.credit.grades import GradeTable, Light, Sides, grade_table
from calibrant.credit.low_default import pluto_tasche
from calibrant.credit.records import Recorded
from calibrant.messages import Drawn, InputError, Shown
from calibrant.metrics.estimates import plain
from calibrant.metrics.multiplicity import holm
from calibrant.notebook import GRAY, SHAPES, TRAFFIC_LIGHTS, escape, stacked, text_block
from calibrant.numerics import Floats, Ints

ALL = "all"
"""Name of all years, or of all segments."""

MOST_PARTS = 10
"""Parts that are printed; a file has all of them."""

_PAGE = (
    "@page{size:A4;margin:12mm}body{font:1rem/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:64rem;"
    "padding:0 1rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1em}dd{margin:0}"
    "strong{display:inline-block;margin-top:0.6em}th,td{white-space:nowrap}"
    "@media print{body{font-size:8pt;margin:0;padding:0;max-width:none}h1{font-size:14pt;margin:0}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}body>div>div{break-inside:avoid}"
    "th,td{padding:0.1em 0.4em!important}div{overflow:visible!important;max-width:none!important}}"
)
"""Style of the page; tables begin small enough for A4."""

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
    def p_value(self) -> float:
        """P-value of its portfolio test, for correlated defaults if these were asked for; NaN without rows."""
        table = self.table
        return table.portfolio_p if table.portfolio_correlated_p is None else table.portfolio_correlated_p

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

    def to_html(self, title: str = "Rating grades", meta: Mapping[str, str] | None = None) -> str:
        """One self-contained HTML page to print on A4: the result, all tables, and the lights by grade and year.

        Parameters
        ----------
        title
            Title and heading of the page.
        meta
            What the page is about, as text by name: model, date, file.
        """
        years = (
            f", {self.years[0]} to {self.years[-1]}" if len(self.years) > 1 else "".join(f", {y}" for y in self.years)
        )
        facts = {**(meta or {}), "data": f"{int(self.whole.n.sum()):,} borrowers in {len(self.grades)} grades{years}"}
        about = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
        head = f"<title>{escape(title)}</title><style>{_PAGE}</style>"
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{head}</head>\n<body>'
            f"<h1>{escape(title)}</h1>\n<dl>{about}</dl>\n{self._repr_html_()}\n</body></html>\n"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the result, all grades, lights by grade and year, the parts, and one legend."""
        maps = [self._heat_map(name) for name in (ALL, *self.segments)] if self.years else []
        parts = [part.table.block(part.name, legend=False) for part in self.parts]
        result = text_block(self.whole.sentence, TRAFFIC_LIGHTS.get(self.whole.light, GRAY))
        legend = " ".join([*self.whole.footnotes(), "G green, Y yellow, R red; empty: no rows."])
        return stacked(result, self.whole.block("All grades", legend=False), *maps, *parts, text_block(f"\n{legend}"))

    def _heat_map(self, segment: str) -> str:
        """Lights by grade and year as an HTML table, with a letter in each cell."""
        cell = "padding:0.25em 0.8em;border:1px solid rgba(128,128,128,0.5);text-align:center"
        top = "".join(f'<th style="{cell}">{escape(year)}</th>' for year in self.years)
        rows = ""
        for name, lights in zip((*self.grades, "portfolio"), self.lights(segment), strict=True):
            cells = "".join(f'<td style="{cell}">{_mark(light)}</td>' for light in lights)
            rows += f'<tr><th style="{cell}">{escape(name)}</th>{cells}</tr>'
        title = "Lights by grade and year" + ("" if segment == ALL else f": {segment}")
        table = f'<table style="border-collapse:collapse;margin:0.3em 0"><tr><th style="{cell}">grade</th>{top}</tr>'
        return f"<div><strong>{escape(title)}</strong>{table}{rows}</table></div>"

    def __str__(self) -> str:
        """The table of all rows, a line for each part (of many, the ten with the least p), and lights by year."""
        lines = [str(self.whole)]
        if self.parts:
            width = max(len(part.name) for part in self.parts) + 2
            lines += ["", f"{'part':<{width}}{'rows':>9}{'def.':>7}{'expected':>10}{'p':>8}{'Holm':>8} light"]
            more = len(self.parts) - MOST_PARTS
            worst = (
                sorted(self.parts, key=lambda part: (math.isnan(part.p_value), part.p_value))
                if more > 0
                else self.parts
            )
            lines += [part_line(part, width) for part in worst[:MOST_PARTS]]
            lines += [f"and {more:,} more with larger p: a file (to_html, --out) has all parts"] if more > 0 else []
        if self.years:
            wide = max(10, *(len(name) + 2 for name in self.grades))
            lines += ["", "lights by grade and year (G green, Y yellow, R red)"]
            lines.append(" " * wide + "".join(f"{year:>{max(len(year), 4) + 2}}" for year in self.years))
            for name, lights in zip((*self.grades, "portfolio"), self.lights(), strict=True):
                letters = zip(lights, self.years, strict=True)
                cells = "".join(f"{letter(light):>{max(len(year), 4) + 2}}" for light, year in letters)
                lines.append(f"{name:<{wide}}{cells}")
            lines += ["a file (to_html, --out) has the lights of each segment too"] if self.segments else []
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
    n: Any,
    events: Any = None,
    pd: Any = None,
    *,
    grade: Any,
    year: Any = None,
    segment: Any = None,
    score: str | None = None,
    label: str | None = None,
    alpha: float = 0.05,
    sides: Sides = "one",
    correlation: float | None = None,
    year_correlation: float = 0.0,
) -> GradePanel:
    """Compare the defaults of grades with their PDs overall, by segment, by year, and by both.

    Each line of the input is one cell: its rows, defaults and PD, with the names of its grade, year and segment. Lines
    of the same cell are added; the PD of a table's grade is the mean over its rows.

    Parameters
    ----------
    n, events, pd
        Rows, defaults and PD of each line. Or ``n`` is a frame with a line for each borrower.
    grade, year, segment
        Names of grade, year and segment of each line; of a frame, the names of their columns.
    score, label
        Names of the columns of PDs and of defaults, if ``n`` is a frame.
    alpha, sides, correlation
        As in :func:`grade_table`.
    year_correlation
        With ``correlation``, in tables of several years: each year has its own factor, and this is the correlation of
        those of neighboring years, as in :func:`vasicek_test`. By default they are independent.

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
    as independent rows; years that share a bad economy are not independent evidence: pass ``year_correlation``. Tests
    of several years are simulated with 20,000 paths and a fixed seed.
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
    counted = of_borrowers(n, events, pd, score, label, grade=grade, year=year, segment=segment)
    if counted is not None:
        (n, events, pd), keys = counted
        grade, year, segment = keys["grade"], keys["year"], keys["segment"]
    m, k = check_counts(n, "n", unit="line"), check_counts(events, "events", unit="line")
    check_shapes(m, unit="line", events=k, pd=pd)
    p = check_pd(pd)
    check_events(m, k, "line")
    if correlation is not None:
        check_correlation(correlation)
    names = read_names(grade, "grade", len(m))
    years = None if year is None else _part_names(year, "year", len(m))
    segments = None if segment is None else _part_names(segment, "segment", len(m))
    theta = check_correlation(year_correlation, "year_correlation")
    cells = _Cells(m, k, p, names, years, theta, {"alpha": alpha, "sides": sides, "correlation": correlation})
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
    year: NDArray[Any] | None
    year_correlation: float
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
        found = grade_table(*self._sums(mask, order), names=order, **self.settings)
        years = _sorted(None if self.year is None else self.year[mask & (self.n > 0)])
        if found.correlation is None or len(years) < 2:
            return found
        lines = zip(*(self._sums(mask & (self.year == year), order) for year in years), strict=True)
        n, events, pd = map(np.array, lines)
        return found.over_years(n, events, pd, self.year_correlation)

    def _sums(self, mask: NDArray[np.bool_], order: Sequence[str]) -> tuple[list[int], list[int], list[float]]:
        """Rows, defaults and PD of each grade among the lines in ``mask``."""
        masks = [mask & (self.grade == name) for name in order]
        n, events = ([int(column[each].sum()) for each in masks] for column in (self.n, self.events))
        pd = [
            min(self._mean(each if each.any() else self.grade == name), 1.0)
            for each, name in zip(masks, order, strict=True)
        ]
        return n, events, pd


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
    table, p = part.table, part.p_value
    expected = float((table.n * table.pd).sum())
    texts = ["" if math.isnan(each) else "<.001" if each < 0.001 else f"{each:.3f}" for each in (p, part.holm_p)]
    head = f"{part.name:<{width}}{table.n.sum():>9}{table.events.sum():>7}{expected:>10.2f}"
    return f"{head}{texts[0]:>8}{texts[1]:>8} {table.light}"
