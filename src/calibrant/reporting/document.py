"""The report: one call, three styles, three forms."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

from calibrant.arrays import Kind
from calibrant.arrays.columns import check_option
from calibrant.arrays.paths import local_path
from calibrant.displays import ReliabilityDisplay
from calibrant.export.files import write_whole
from calibrant.messages import InputError
from calibrant.reporting.blocks import Picture, Section
from calibrant.reporting.contents import Contents, gather
from calibrant.reporting.figures import count, share
from calibrant.reporting.markdown import write_markdown
from calibrant.reporting.page import write_html
from calibrant.reporting.picture import draw_svg
from calibrant.reporting.sections import sections
from calibrant.reporting.styles import STYLES, Style, StyleName
from calibrant.verdict.check import judge
from calibrant.verdict.decision import TOLERANCE
from calibrant.verdict.reading import read_evidence
from calibrant.verdict.verdict import Verdict

ROWS_OF_A_SITE = 20
"""Groups with this many rows (median) are sites, whose rows are patients or borrowers; smaller ones are these."""

FORMS = {".html": "to_html", ".md": "to_markdown", ".json": "to_json"}


@dataclass(frozen=True, eq=False)
class Report:
    """What :func:`report` computed; ``to_html``, ``to_markdown`` and ``to_json`` write it, ``save`` into a file.

    Attributes
    ----------
    title, style
        Its title, and how it is told: ``"general"``, ``"credit"`` or ``"clinical"``.
    contents
        The verdict, every number and the notes on them; the same in all styles.
    display
        The reliability diagram.
    """

    title: str
    style: StyleName
    contents: Contents = field(repr=False)
    display: ReliabilityDisplay = field(repr=False)

    @property
    def numbers(self) -> dict[str, Any]:
        """Every number, as plain data."""
        return self.contents.numbers

    @property
    def verdict(self) -> Verdict:
        """Whether it is calibrated."""
        return self.contents.verdict

    def to_dict(self) -> dict[str, Any]:
        """Title, style and all numbers as plain data, a copy."""
        numbers: dict[str, Any] = json.loads(json.dumps(self.numbers))
        return {"title": self.title, "style": self.style, **numbers}

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """One page with its picture inside; it loads nothing. Needs matplotlib."""

        def draw(picture: Picture) -> str:
            return draw_svg(self.display, picture.name, html.escape(picture.label))

        return write_html(self.title, self.subtitle, self._sections(), draw)

    def to_markdown(self) -> str:
        """The same sections as Markdown, without the picture."""
        return write_markdown(self.title, self.subtitle, self._sections())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report; the end of the name says how: ``.html``, ``.md`` or ``.json``."""
        target, form = _target(path)
        text = getattr(self, form)()
        write_whole(target, text)

    @property
    def subtitle(self) -> str:
        """How much data there is, and what made the report."""
        nouns, software = self._style.nouns, self.numbers["software"]
        rows, events = self.numbers["rows"], self.numbers["events"]
        if not self.numbers["counts"]:
            seen = count(self.verdict.row_count)
            weighted = f"{share(events / rows)} by importance weight"
            told = f"{seen} {nouns.rows}, {count(events)} {nouns.events} ({weighted})"
            return f"{told}. {software['name']} {software['version']}."
        told = f"{count(rows)} {nouns.rows}, {count(events)} {nouns.events}"
        return f"{told} ({share(events / rows)}). {software['name']} {software['version']}."

    def _sections(self) -> tuple[Section, ...]:
        return sections(self.contents, self._style)

    @property
    def _style(self) -> Style:
        chosen, size = STYLES[self.style], self.numbers["rows_in_group"]
        return chosen if size is None or size >= ROWS_OF_A_SITE else chosen.of_groups()

    def __str__(self) -> str:
        """The verdict in a line, and how to see the rest."""
        head = self.verdict.in_words(self._style.voice).headline
        return f"{self.title}: {head}\n  {self.subtitle}\n  .save('report.html') writes it."


def report(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    score: str | None = None,
    label: str | None = None,
    by: Any = None,
    time: Any = None,
    groups: Any = None,
    weights: Literal["importance", "counts"] = "importance",
    positive: Any = None,
    kind: Kind | None = None,
    tolerance: tuple[float, float] = TOLERANCE,
    random_state: int = 0,
    style: StyleName = "general",
    title: str | None = None,
    path: str | PathLike[str] | None = None,
) -> Report:
    """Everything about the calibration of some probabilities, ready to be handed on.

    Verdict, reliability diagram, tables by score, segment and period, losses and their decomposition, calibration
    errors beside what a perfect model would show, recalibration numbers, tests, decision curve, methods with sources,
    and what all this does not show.

    Parameters
    ----------
    scores, y, sample_weight, score, label, by, time, groups, weights, positive, kind, tolerance, random_state
        As in :func:`calibrant.check`.
    style
        ``"general"``, ``"credit"`` (defaults, PDs, traffic lights first) or ``"clinical"`` (intercept, slope, E/O and
        ICI first; risks, outcomes, patients). The numbers are the same in all three.
    title
        Of the report; each style has one of its own.
    path
        Where to save it, as with :meth:`Report.save`.

    Notes
    -----
    The same rows give the same bytes; there is no date in it. HTML needs matplotlib, the extra
    ``calibrant[plot]``; Markdown and JSON do not. Guarantees are those of the parts.
    Cost: as :func:`calibrant.check`, plus two to four seconds of simulation and bootstrap on cells.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.beta(2, 8, size=2000)
    >>> made = report(p, rng.random(2000) < 0.6 * p, style="credit")
    >>> print(made.verdict.headline)
    MISCALIBRATED beyond the tolerance: the probabilities are too high.
    >>> made.to_markdown().splitlines()[0]
    '# Calibration of the probability of default (PD)'
    """
    check_option("style", style, get_args(StyleName))
    if path is not None:
        _target(path)
    evidence = read_evidence(
        scores,
        y,
        sample_weight,
        score=score,
        label=label,
        by=by,
        time=time,
        groups=groups,
        weights=weights,
        positive=positive,
        kind=kind,
        random_state=random_state,
    )
    display = ReliabilityDisplay.from_predictions(evidence.tally, random_state=random_state)
    contents = gather(evidence.clusters or evidence.tally, judge(evidence, tolerance), display, random_state)
    made = Report(STYLES[style].title if title is None else str(title), style, contents, display)
    if path is not None:
        made.save(path)
    return made


def _target(path: str | PathLike[str]) -> tuple[Path, str]:
    """Where to write, and the method that makes what the end of the name asks for."""
    target = local_path(path)
    form = FORMS.get(target.suffix.lower())
    if form is None:
        raise InputError(
            "path", f"must end in .html, .md or .json, which says how to write the report, got {str(path)!r}"
        )
    return target, form
