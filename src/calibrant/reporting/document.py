"""Reports on the calibration of a model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option
from calibrant.arrays.labels import LabelType
from calibrant.arrays.paths import local_path
from calibrant.arrays.score_types import MulticlassScoreType, ScoreType
from calibrant.calibration import as_calibration
from calibrant.displays import ReliabilityDisplay
from calibrant.displays.base import Display
from calibrant.displays.multiclass.error import MulticlassErrorDisplay
from calibrant.displays.segments import SegmentsDisplay
from calibrant.export.files import write_whole
from calibrant.maps.base import by_name
from calibrant.messages import CalibrantWarning, InputError, MissingPackage
from calibrant.metrics.tolerance import LIMIT
from calibrant.notebook import escape, page, text_block
from calibrant.reading import by_keyword
from calibrant.reporting.blocks import Picture, Section
from calibrant.reporting.contents import Contents, gather
from calibrant.reporting.credit import headline
from calibrant.reporting.earlier import migration
from calibrant.reporting.figures import count, share
from calibrant.reporting.markdown import write_markdown
from calibrant.reporting.page import write_html
from calibrant.reporting.picture import DEFAULT_NOUNS, draw_svg
from calibrant.reporting.sections import sections
from calibrant.reporting.styles import STYLES, Style, StyleName, StyleVoice
from calibrant.tallies import Tally
from calibrant.verdict.check import judge_problems
from calibrant.verdict.event_names import EventName, event_names
from calibrant.verdict.multiclass.by_class import row_text, voice_of
from calibrant.verdict.multiclass.classes import AskedNotion, Problems, read_problems
from calibrant.verdict.verdict import Verdict

MIN_ROWS_OF_A_SITE = 20
"""Groups with at least this many rows (median) are taken as sites, such as hospitals; smaller ones as patients."""

FORMS = {".html": "to_html", ".md": "to_markdown", ".json": "to_json"}


@dataclass(frozen=True, eq=False)
class Report:
    """The result of :func:`report`: save it, or convert it with ``to_html``, ``to_markdown`` or ``to_json``.

    Attributes
    ----------
    title, style
        Title, and style: ``"general"``, ``"credit"``, ``"clinical"`` or ``"llm"``.
    contents
        The verdict, all numbers and notes; the same in all styles.
    display
        The reliability diagram; of several classes, that of the confidence.
    class_display
        Of several classes: the calibration error of each class.
    """

    title: str
    style: StyleName
    contents: Contents = field(repr=False)
    display: ReliabilityDisplay = field(repr=False)
    class_display: Display | None = field(default=None, repr=False)

    @property
    def numbers(self) -> dict[str, Any]:
        """All numbers, as plain data."""
        return self.contents.numbers

    @property
    def verdict(self) -> Verdict:
        """The verdict, as returned by :func:`calibrant.check`."""
        return self.contents.verdict

    def to_dict(self) -> dict[str, Any]:
        """A copy of title, style and all numbers as plain data."""
        numbers: dict[str, Any] = json.loads(json.dumps(self.numbers))
        return {"title": self.title, "style": self.style, **numbers}

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """One self-contained HTML page with the figure embedded; it loads nothing. Needs matplotlib."""
        drawn_by = {"classes": self.class_display, "segments": SegmentsDisplay(self.verdict.segments)}

        def draw(picture: Picture) -> str:
            drawn = drawn_by.get(picture.name, self.display)
            assert drawn is not None
            nouns = DEFAULT_NOUNS if picture.name == "classes" else self._style.nouns
            return draw_svg(drawn, picture.name, escape(picture.label), nouns)

        return write_html(self.title, self.subtitle, self._sections(), draw)

    def to_markdown(self) -> str:
        """The same sections as Markdown, without the figure."""
        return write_markdown(self.title, self.subtitle, self._sections())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report to a file; the suffix sets the format: ``.html``, ``.md`` or ``.json``."""
        target, form = _target(path)
        text = getattr(self, form)()
        write_whole(target, text)

    @property
    def subtitle(self) -> str:
        """Size of the data, and version of the software."""
        nouns, software = self._style.nouns, self.numbers["software"]
        rows, events = self.numbers["rows"], self.numbers["events"]
        if not self.numbers["counts"] and not self.verdict.fractional:
            seen = count(self.verdict.row_count)
            weighted = f"{share(events / rows)} by importance weight"
            data = f"{self._labels or f'{seen} {nouns.rows}'}, {count(events)} {nouns.events} ({weighted})"
            return f"{data}. {software['name']} {software['version']}."
        data = f"{self._labels or f'{count(rows)} {nouns.rows}'}, {count(events)} {nouns.events}"
        return f"{data} ({share(events / rows)}). {software['name']} {software['version']}."

    @property
    def _labels(self) -> str:
        """The numbers of labels and rows of a multi-label target; otherwise empty."""
        return row_text(self.verdict, self._style.nouns) if self.verdict.notion == "multi-label" else ""

    def _sections(self) -> tuple[Section, ...]:
        return sections(self.contents, self._style)

    @property
    def _style(self) -> Style:
        chosen, size = STYLES[self.style], self.numbers["rows_in_group"]
        small = size is not None and size < MIN_ROWS_OF_A_SITE and self.verdict.notion != "multi-label"
        chosen = chosen.of_groups() if small else chosen
        return replace(chosen, voice=StyleVoice(voice_of(self.verdict, chosen.voice).nouns))

    def _repr_html_(self) -> str:
        """For notebooks: the whole report in a frame; its first lines if matplotlib is not installed."""
        try:
            return page(self.to_html(), self.title)
        except MissingPackage as error:
            return text_block(f"{self}\n  {error}", self.verdict.color)

    @property
    def headline(self) -> str:
        """The verdict in one line; in the credit style the light of the portfolio comes first."""
        return headline(self.contents, self._style).text

    def __str__(self) -> str:
        """The verdict in one line, and how to save the report."""
        return f"{self.title}: {self.headline}\n  {self.subtitle}\n  .save('report.html') writes it."


def report(
    scores: Any,
    y: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    score: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    notion: AskedNotion | None = None,
    by: Any = None,
    time: Any = None,
    groups: Any = None,
    weight_type: Literal["importance", "frequency"] = "importance",
    positive: Any = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    label_type: LabelType = "class",
    tolerance: float | tuple[float, float] = LIMIT,
    event: EventName | None = None,
    random_state: int = 0,
    calibration: Any = None,
    grade: Any = None,
    meta: Mapping[str, Any] | None = None,
    reference: Any = None,
    borrower: str | None = None,
    style: StyleName = "general",
    title: str | None = None,
    path: str | PathLike[str] | None = None,
) -> Report:
    """Write a calibration report: verdict, diagram, tables, tests, methods and limitations.

    It begins with the answer, the next step, a reliability diagram and a picture of the segments. Tables by score,
    segment and period follow, losses and their decomposition, calibration errors with their expected values for a
    calibrated model, recalibration parameters,
    tests, a decision curve, methods with sources, and limitations. Of several classes these are about the confidence of
    the predicted class, with a table and a figure of the classes, their losses and the maps that were tried.

    Parameters
    ----------
    scores, y, sample_weight, score, label, classes, notion, by, time, groups, weight_type, positive
        As in :func:`calibrant.check`.
    score_type, label_type
        As in :func:`calibrant.check`.
    tolerance, event, random_state, calibration
        As in :func:`calibrant.check`; with a calibration the report is about the scores after it, and also states the
        predicted events before it.
    grade
        Rating grade of each row, or the name of its column: the traffic lights are then by grade, with the names.
    meta
        What the report is about, as text by name: model, period, definition of default, author. It is shown as stated.
    reference
        An earlier sample, such as that of development: a frame with the same columns. The report then has the
        population stability index over the grades (or groups of scores), and the change of the accuracy ratio.
    borrower
        With ``reference`` and ``grade``: the column that names the borrower in both frames, for the migration between
        grades.
    style
        ``"general"``, ``"credit"`` (defaults, PDs, traffic lights first; the headline is the light of the portfolio),
        ``"clinical"`` (intercept, slope, E/O and ICI first; risks, outcomes, patients) or ``"llm"`` (answers, stated
        confidence, accuracy). The numbers are the same in all.
    title
        Title of the report; each style has a default.
    path
        File to save the report to, as with :meth:`Report.save`.

    Returns
    -------
    Report
        With ``save``, ``to_html``, ``to_markdown``, ``to_json`` and ``to_dict``.

    Notes
    -----
    The same rows give the same bytes; the report contains no date. HTML needs matplotlib (``calibrant[plot]``);
    Markdown and JSON do not. Guarantee: as stated for each metric and test.
    Cost: that of :func:`calibrant.check`, plus two to four seconds of simulation and bootstrap on cells.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.beta(2, 8, size=2000)
    >>> made = report(p, rng.random(2000) < 0.6 * p, style="credit")
    >>> made.verdict.status
    'miscalibrated'
    >>> made.to_markdown().splitlines()[0]
    '# Calibration of the probability of default (PD)'
    """
    check_option("style", style, get_args(StyleName))
    names = event_names(event)
    if path is not None:
        _target(path)
    if meta is not None and not isinstance(meta, Mapping):
        raise InputError("meta", "must be texts by name", "such as {'model': 'PD retail', 'period': '2025'}")
    y, sample_weight, score, label = by_keyword(scores, y, sample_weight, score, label, "report")
    _check_reference(reference, borrower, score, grade)
    by, column = _with_grade(by, grade)
    given: dict[str, Any] = {
        "score": score,
        "label": label,
        "classes": classes,
        "notion": notion,
        "by": by,
        "time": time,
        "groups": groups,
        "weight_type": weight_type,
        "positive": positive,
        "score_type": score_type,
        "label_type": label_type,
        "random_state": random_state,
    }
    problems = read_problems(scores, y, sample_weight, calibration=calibration, **given)
    before = None
    if calibration is not None and as_calibration(calibration).score_type == "probability":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            first = read_problems(scores, y, sample_weight, **(given | {"by": None, "time": None})).main.tally
        before = {"rows": float(first.total), "predicted": float((first.n * first.scores).sum())}
    evidence = problems.main
    display = ReliabilityDisplay.from_predictions(evidence.tally, random_state=random_state)
    verdict = replace(judge_problems(problems, tolerance, random_state=random_state), event=names)
    of_classes = _class_display(problems)
    data = evidence.clusters or evidence.tally
    stated: dict[str, Any] = {"grade": column, "meta": meta, "before": before}
    if reference is not None:
        stated["reference"] = _reference(reference, sample_weight, calibration, column, given, tolerance)
    contents = gather(data, verdict, display, random_state, problems.classes, of_classes, **stated)
    if borrower is not None:
        named = contents.numbers["grades"]
        order = () if named is None else tuple(each["name"] for each in named["grades"])
        contents.numbers["reference"]["migration"] = migration(scores, reference, borrower, grade, order)
    made = Report(STYLES[style].title if title is None else str(title), style, contents, display, of_classes)
    if path is not None:
        made.save(path)
    return made


def _with_grade(by: Any, grade: Any) -> tuple[Any, str | None]:
    """The segments with the grades among them, and the name of their column; arrays of grades are named "grade"."""
    if grade is None:
        return by, None
    if isinstance(grade, str):
        names = [] if by is None else [by] if isinstance(by, str) else list(by)
        return {name: name for name in [*names, grade]}, grade
    if by is None:
        return {"grade": grade}, "grade"
    if isinstance(by, Mapping):
        return {**by, "grade": grade}, "grade"
    columns = by_name(by)
    if isinstance(columns, Mapping):
        return {**columns, "grade": grade}, "grade"
    return {str(getattr(by, "name", None) or "segment"): by, "grade": grade}, "grade"


def _check_reference(reference: Any, borrower: str | None, score: Any, grade: Any) -> None:
    if reference is not None and not isinstance(score, str):
        fix = "pass frames for both, and the names of their columns in score and label"
        raise InputError("reference", "needs column names", fix)
    if borrower is not None and (reference is None or not isinstance(grade, str)):
        missing = "reference" if reference is None else "grade"
        raise InputError("borrower", f"needs {missing}", f"pass {missing}, or leave it out")


def _reference(
    reference: Any, sample_weight: Any, calibration: Any, grade: str | None, given: dict[str, Any], tolerance: Any
) -> tuple[Tally, dict[str, int]]:
    """Counts of the earlier sample, and its rows by grade."""
    asked = given | {"by": None if grade is None else [grade], "time": None, "groups": None}
    try:
        found = read_problems(reference, None, sample_weight, calibration=calibration, **asked)
    except InputError as error:
        raise error.about("reference") if error.argument == "frame" else error from None
    if grade is None or not found.main.tally.counts:
        return found.main.tally, {}
    parts = judge_problems(found, tolerance, random_state=given["random_state"]).segments
    return found.main.tally, {str(part.value): round(part.rows) for part in parts if part.column == grade}


def _target(path: str | PathLike[str]) -> tuple[Path, str]:
    """The file to write, and the method for its format."""
    target = local_path(path)
    form = FORMS.get(target.suffix.lower())
    if form is None:
        problem = f"must end in .html, .md or .json, which sets the format, got {str(path)!r}"
        raise InputError("path", problem, "for a PDF, write the .html and print it from a browser")
    return target, form


def _class_display(problems: Problems) -> Display | None:
    """The error of each class, in the sense in which the verdict tests classes; None for one score and for labels."""
    rows = problems.classes
    if rows is None:
        return None
    notion = "top-label" if problems.notion == "top-label" else "class-wise"
    weight = None if rows.weights is None else rows.weights.astype(float)
    labels = np.array(rows.classes, dtype=object)[rows.labels]
    return MulticlassErrorDisplay.from_predictions(
        rows.scores, labels, weight, classes=rows.classes, score_type=rows.score_type, notion=notion
    )
