"""Sections of a report: tables and sentences with the nouns of a style."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from calibrant.displays.segments import SegmentsDisplay
from calibrant.messages import Note
from calibrant.reporting.blocks import Block, Bullets, Mark, Picture, Section, Table
from calibrant.reporting.contents import Contents, GroupedBy
from calibrant.reporting.credit import about, bounds, change, context, headline
from calibrant.reporting.figures import UNKNOWN, amount, count, number, p_value, percent, share, span
from calibrant.reporting.marks import (
    LIGHTS,
    above_null,
    against_chance,
    best_action,
    class_mark,
    evidence,
    significance,
)
from calibrant.reporting.prose import definitions, limits, methods
from calibrant.reporting.styles import Style
from calibrant.verdict.figures import capitalized
from calibrant.verdict.gain import TEMPERATURE
from calibrant.verdict.multiclass.by_class import unit_of

Numbers = Mapping[str, Any]

MAX_SEGMENTS = 50
"""Segments shown in a table; all of them are in the data."""


def sections(contents: Contents, style: Style) -> tuple[Section, ...]:
    """All sections with contents, in the order of the style."""
    found = []
    earlier = [key for key in dict.fromkeys((*style.first, *PARTS)) if key not in style.last]
    for key in (*earlier, *style.last):
        heading, part = PARTS[key]
        blocks = part(contents, style)
        if blocks:
            title = style.headings.get(key, heading)
            title = f"Appendix: {title[0].lower()}{title[1:]}" if key in style.last else title
            found.append(Section(key, title, tuple(blocks)))
    return tuple(found)


def _verdict(contents: Contents, style: Style) -> list[Block]:
    """Answer, next step, picture and segments, then the findings behind them."""
    first, words = headline(contents, style), contents.verdict.in_words(style.voice)
    remarks, said = len(words.hints) + len(words.notes), len(words.sentences)
    parts = words.facts[said : len(words.facts) - remarks]
    no_default = style.by_light and contents.numbers["events"] == 0
    hints = () if no_default else words.hints  # a portfolio without defaults is not a mistake
    remarked = (*(f"Hint: {hint}" for hint in hints), *(f"Note: {note}" for note in words.notes))
    facts = (*([words.caution] if words.caution else []), *parts, *words.sentences, *remarked)
    return [first, _reliability(contents, style), *_forest(contents, style), Bullets(facts)]


def _forest(contents: Contents, style: Style) -> list[Block]:
    segments = contents.verdict.segments
    if not segments:
        return []
    label = style.say("Observed over predicted {events} by segment, those that are off first.")
    return [Picture("segments", label, f"{label} {SegmentsDisplay(segments).caption}")]


def _reliability(contents: Contents, style: Style) -> Picture:
    numbers = contents.numbers
    picture = numbers["reliability"]
    series = picture["series"][0]
    drawn = "points are" if series["tied"] else "line is"
    level, beyond = share(picture["confidence"]), share(1.0 - picture["confidence"], 2)
    outside = f"{share(series['outside'], 2)} of the {{rows}}"
    hedge = ", or fewer" if numbers["counts"] else " (approximate under weights)"
    if numbers["verdict"]["n_groups"] is not None:
        hedge = " if {rows} are independent, and more if {rows} of a group are similar"
    label = f"Reliability diagram: {{rate}} against {{score}}. {outside} lie outside the gray band."
    found = f"Outside it lie {outside}; for a calibrated model about {beyond} do{hedge}."
    if series["rate_bound"] is not None and not series["outside"]:
        bound = f"{{rate}} up to {share(series['rate_bound'], 2)} (95 % confidence)"
        found = f"No {{event}} was seen. That agrees with these predictions, and with any {bound}."
    how = "at each {score}" if series["tied"] else "by isotonic regression"
    caption = (
        f"The {drawn} the {{rate}} {how}; the dotted diagonal is perfect calibration. At each {{score}}, {level} of "
        f"calibrated models lie within the gray band (pointwise). {found} Below: number of {{rows}} by {{score}}, "
        "those with the {event} upward."
    )
    if picture["axes"] == "log-odds":
        caption += " Both axes have a log-odds scale, to show rare {events}."
    return Picture("reliability", style.say(label), style.say(caption), aside=True)


def _classes(contents: Contents, style: Style) -> list[Block]:
    verdict, numbers = contents.verdict, contents.numbers
    if not verdict.classes:
        return []
    names = [*verdict.off_classes, *(name for name in verdict.classes if name not in verdict.off_classes)]
    rows = []
    for name in names[:MAX_SEGMENTS]:
        part = verdict.classes[name]
        slope, level = part.slope, part.intercept
        rows.append(
            (
                name,
                amount(part.predicted),
                count(part.events),
                span(*part.expected, "count"),
                "–" if level is None else number(level.value, sign=True),
                "–" if slope is None else number(slope.value),
                "–" if slope is None else span(slope.low, slope.high),
                UNKNOWN if part.p_value is None else p_value(part.p_value),
                class_mark(part),
            )
        )
    unit = "label" if verdict.notion == "multi-label" else "class"
    head = (
        unit,
        "predicted",
        "observed",
        "95 % expected range",
        "intercept",
        "slope",
        "95 % interval",
        "adjusted p",
        "result",
    )
    more = len(names) - len(rows)
    among = {
        "top-label": "Each class: the confidence among the {rows} predicted as this class.",
        "multi-label": "Each label by itself.",
    }.get(str(verdict.notion), "Each class against the rest.")
    notes = [
        f"{among} p-values are those of intercept, slope and ranges of the probabilities together, adjusted by Holm's "
        f"method for the number of {unit_of(verdict)}.",
        *[f"{more:,} more are in the JSON version of this report."] * (more > 0),
    ]
    blocks: list[Block] = [_table(style, f"{unit_of(verdict)}, significant deviations first", head, rows, notes)]
    drawn = numbers["class_errors"]
    if drawn is not None:
        label = "Calibration error of each class, with the mean error of a calibrated model on these {rows} as a tick."
        blocks.append(
            Picture("classes", style.say(label), style.say(f"{label} The panel shows the {{rows}} of a class."))
        )
    return [*blocks, *_class_losses(contents, style), *_maps(contents, style)]


def _class_losses(contents: Contents, style: Style) -> list[Block]:
    found = contents.numbers["class_losses"]
    if not found:
        return []
    note = "Over all classes, not only the predicted one. Lower is better for losses, higher for accuracy."
    return [_table(style, "Losses of all classes", LOSSES, [_loss_row(score) for score in found], [note])]


def _maps(contents: Contents, style: Style) -> list[Block]:
    """The maps that were tried on the confidences."""
    gains = contents.verdict.gains
    if not gains:
        return []
    rows = [
        (
            gain.method,
            number(gain.after),
            f"{100.0 * gain.share:.1f}",
            number(gain.ece_after),
            "yes" if gain.method == TEMPERATURE else "no",
        )
        for gain in gains
    ]
    none = ("no map", number(gains[0].before), "0.0", number(gains[0].ece_before), "–")
    head = ("map", "log loss", "gain, %", "ECE", "all classes")
    notes = [
        "Log loss and ECE (15 bins of equal width) of the {scores}, on folds that the map was not fitted to. The map "
        "to use is the first: temperature scaling, unless another is better by two standard errors. Maps of the "
        "confidence alone give no probabilities of the other classes."
    ]
    return [_table(style, "Maps that would help", head, [*rows, none], notes)]


def _groups(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    rows = [
        (
            group["label"],
            count(group["rows"]),
            count(group["events"]),
            amount(group["predicted"]),
            UNKNOWN if group["chance"] is None else span(group["chance"][0], group["chance"][1], "count"),
            percent(group["mean_score"], unit=""),
            percent(group["rate"], unit=""),
            UNKNOWN if group["low"] is None else span(group["low"], group["high"], "percent").removesuffix(" %"),
            "–" if group["ratio"] is None else f"{group['ratio']:.2f}",
            against_chance(group["events"], group["chance"]),
        )
        for group in numbers["groups"]
    ]
    head = (
        "{score}", "{rows}", "{events}", "predicted", "expected range", "mean {score}, %", "{rate}, %",
        "95 % interval, %", "ratio", "observed",
    )  # fmt: skip
    plain = numbers["counts"] and numbers["verdict"]["n_groups"] is None
    exact = "exact (Clopper-Pearson)" if plain else "approximate (Clopper-Pearson at the effective sample size)"
    notes = (
        f"95 % interval: of the rate, {exact}. Ratio: observed over predicted. Expected range: the central 95 % of the "
        "number of {events} if the model is calibrated. "
        f"Among {len(rows)} groups, one outside the range is not unusual.",
    )
    by_score = numbers["groups_are"] == GroupedBy.DISTINCT_SCORES
    whole = "distinct {score}" if by_score else "groups of about equal size"
    return [_table(style, f"By {whole}", head, rows, notes)]


def _recalibration(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    found, curve = numbers["recalibration"], numbers["curve"]
    lines: tuple[tuple[str, str, str, bool], ...] = (
        ("intercept", "Intercept, slope fixed at 1 (calibration in the large)", "0", True),
        ("slope", "Slope", "1", False),
        ("slope_intercept", "Intercept, slope estimated", "0", True),
        ("expected_over_observed", "Expected over observed (E/O)", "1", False),
        ("observed_over_expected", "Observed over expected (O/E)", "1", False),
    )
    rows = [
        (
            name,
            number(found[key].get("value"), sign=signed),
            span(found[key].get("low"), found[key].get("high")),
            ideal,
        )
        for key, name, ideal, signed in lines
    ]
    names = {"ici": "ICI: mean distance of the curve", "e50": "E50: median distance", "e90": "E90: 90 % quantile",
             "emax": "Emax: largest distance"}  # fmt: skip
    ends = zip(curve["low"] or [None] * 4, curve["high"] or [None] * 4, strict=True)
    rows += [
        (name, number(curve[key]), span(low, high), "0")
        for (key, name), (low, high) in zip(names.items(), ends, strict=True)
    ]
    notes = [
        "Intercepts and slope are on the log-odds. The first line is the intercept of the verdict: if it is positive, "
        "{scores} are too low on the whole. A slope below 1 means that they are too extreme; the intercept with it is "
        "that of a {score} of 50 %. Distances are biased upward; their intervals begin at 0 where a calibrated model "
        "could show the same distance."
    ]
    said = _said(dict.fromkeys(chain.from_iterable(contents.notes_of["recalibration"])), style)
    head = ("measure", "estimate", "95 % interval", "ideal")
    return [_table(style, "Recalibration parameters", head, rows, notes, said)]


def _errors(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    rows = [
        (
            error["name"],
            number(error.get("value")),
            number(error["se"]) if "se" in error else "–",
            number(error.get("null")),
            number(error.get("null_high")),
            above_null(error),
        )
        for error in numbers["errors"]
    ]
    head = ("error", "estimate", "standard error", "expected", "95 % limit", "vs. expected")
    notes = (
        "A calibration error is above 0 in a sample even for a calibrated model. Expected: its mean for a calibrated "
        "model with these {scores} and this many {rows}. 95 % limit: a calibrated model stays below it in 19 of 20 "
        "samples."
        if numbers["rows_in_group"] is None
        else "Expected values are not known for groups of dependent {rows} and are left out.",
    )
    caption, said = "Distance from calibration, in units of probability", _named_notes(contents, "errors", style)
    return [_table(style, caption, head, rows, notes, said)]


LOSSES = ("measure", "estimate", "95 % interval")


def _losses(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    rows = [_loss_row(score) for score in numbers["scores"]]
    notes, said = ["Lower is better for losses, higher for AUC."], _named_notes(contents, "scores", style)
    parts = zip(numbers["decompositions"], contents.notes_of["decompositions"], strict=True)
    return [
        _table(style, "Losses and AUC", LOSSES, rows, notes, said),
        *(_decomposition(*each, style) for each in parts),
    ]


def _loss_row(score: Numbers) -> tuple[str, ...]:
    return (
        capitalized(score["name"]),
        "infinite" if score["infinite"] else number(score.get("value")),
        "–" if score["infinite"] else span(score.get("low"), score.get("high")),
    )


def _named_notes(contents: Contents, key: str, style: Style) -> list[str]:
    """Notes on each number, preceded by its name."""
    return [
        f"{entry['name']}: {text}"
        for entry, notes in zip(contents.numbers[key], contents.notes_of[key], strict=True)
        for text in _said(notes, style)
    ]


def _said(notes: Iterable[Note], style: Style) -> list[str]:
    """Notes as sentences with the nouns of the style."""
    return [f"{note.say(style.voice).rstrip('.')}." for note in notes]


def _decomposition(parts: Numbers, found: Iterable[Note], style: Style) -> Table:
    lines = (
        ("miscalibration", "Miscalibration", "could be removed by recalibration"),
        ("discrimination", "Discrimination", "gained by distinguishing {rows}"),
        ("uncertainty", "Uncertainty", "loss of predicting the base rate"),
        ("loss", "Loss", "miscalibration - discrimination + uncertainty"),
    )
    whole = parts["uncertainty"]
    rows = [
        (
            name,
            "infinite" if key in parts["infinite"] else number(parts[key]),
            percent(parts[key] / whole) if whole and parts[key] is not None else "–",
            style.say(what),
        )
        for key, name, what in lines
    ]
    fixable = parts.get("fixable")
    notes = [f"At most {percent(fixable)} of the loss could be removed by recalibration (in-sample, so optimistic)."]
    notes = notes if fixable is not None else []
    return _table(
        style,
        f"{capitalized(parts['name'])} recalibration (CORP)",
        ("part", "value", "of uncertainty", "meaning"),
        rows,
        notes,
        _said(found, style),
    )


def _tests(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    if not numbers["tests"]:
        return [
            style.say(
                "No tests are shown, because they assume independent {rows}. The verdict accounts for the groups."
            )
        ]
    rows = [
        (
            capitalized(test["name"]),
            number(test["statistic"]),
            p_value(test["p_value"]),
            evidence(test["p_value"]),
            "; ".join(note.say(style.voice) for note in notes) or "–",
        )
        for test, notes in zip(numbers["tests"], contents.notes_of["tests"], strict=True)
    ]
    below = (
        "A large p-value does not prove calibration: with few {rows} almost every model passes, with very many almost "
        "none does. Read the tests together with the size of the errors.",
    )
    return [
        _table(
            style,
            "Tests of the hypothesis that the model is calibrated",
            ("test", "statistic", "p", "result", "note"),
            rows,
            below,
        )
    ]


def _segments(contents: Contents, style: Style) -> list[Block]:
    grade = contents.numbers["grade_column"] if style.by_light else None  # which has the lights of the grades
    found = [part for part in contents.numbers["verdict"]["segments"] if part["column"] != grade]
    if not found:
        return []
    more = len(found) - MAX_SEGMENTS
    notes = [f"{more:,} more segments are in the JSON version of this report."] * (more > 0)
    caption = "Segments, significant deviations first"
    return [_scan(found[:MAX_SEGMENTS], "segments", caption, style, notes)]


def _periods(contents: Contents, style: Style) -> list[Block]:
    found = contents.numbers["verdict"]["periods"]
    if not found:
        return []
    return [_scan(found, "periods", "Periods in order of time, with about equal numbers of {rows}", style, ())]


def _scan(found: Iterable[Numbers], key: str, caption: str, style: Style, notes: Iterable[str]) -> Table:
    rows = [
        (
            _name_of(part, key),
            count(part["rows"]),
            amount(part["predicted"]),
            count(part["events"]),
            span(part["low"], part["high"], "count") if part["judged"] else UNKNOWN,
            f"{part['events'] / part['predicted']:.2f}" if part["predicted"] else "–",
            _ratio_interval(part),
            p_value(part["p_value"]) if part["judged"] else UNKNOWN,
            significance(part),
        )
        for part in found
    ]
    head = (
        key.removesuffix("s"), "{rows}", "predicted", "observed", "expected range", "ratio", "95 % interval",
        "adjusted p", "result",
    )  # fmt: skip
    below = [
        "Ratio: observed over predicted, with its own 95 % interval. p-values are adjusted by Holm's method for the "
        f"number of {key}."
    ]
    if any(not part["judged"] for part in found):
        below.append(f"{capitalized(key)} with rows of fewer than 10 groups cannot be tested.")
    return _table(style, caption, head, rows, (*notes, *below))


def _ratio_interval(part: Numbers) -> str:
    known = part["judged"] and part["ratio_high"] is not None and part["predicted"]
    return f"{part['ratio_low']:.2f} to {part['ratio_high']:.2f}" if known else "–"


def _decisions(contents: Contents, style: Style) -> list[Block]:
    if contents.verdict.notion is not None:
        return []
    curve = contents.numbers["decisions"]
    rows = [
        (share(at), amount(1000.0 * model), UNKNOWN if se is None else amount(1000.0 * se), amount(1000.0 * everyone),
         best_action(model, everyone))
        for at, model, se, everyone in zip(
            *(curve[key] for key in ("thresholds", "model", "se", "treat_all")), strict=True
        )
    ]  # fmt: skip
    head = ("threshold", "model", "standard error", "act on all", "best")
    notes = (
        "Net benefit: {events} found minus weighted false alarms, when acting on {rows} whose {score} is at least the "
        "threshold t; a false alarm has weight t / (1 - t). Acting on none has net benefit 0.",
    )
    return [_table(style, "Net benefit per 1,000 {rows}", head, rows, notes)]


def _grades(contents: Contents, style: Style) -> list[Block]:
    if contents.verdict.notion is not None or not style.by_light:
        return []
    found = contents.numbers["grades"]
    if found is None:
        return [
            style.say(
                "No traffic lights are shown: they need counts of {rows}, and these {rows} have importance weights."
            )
        ]
    whole = {"name": "all", "holm_p": None, "rate": found["portfolio"]["events"] / found["portfolio"]["n"]}
    rows = [
        (
            grade["name"],
            count(grade["n"]),
            count(grade["events"]),
            percent(grade["pd"]),
            percent(grade["rate"]),
            p_value(grade["binomial_p"]),
            p_value(grade["jeffreys_p"]),
            "–" if grade["holm_p"] is None else p_value(grade["holm_p"]),
            Mark(grade["light"], LIGHTS[grade["light"]]),
        )
        for grade in (*found["grades"], found["portfolio"] | whole)
    ]
    first = "{score}" if contents.numbers["grade_column"] is None else "grade"
    head = (first, "{rows}", "{events}", "mean {score}", "{rate}", "binomial p", "Jeffreys p", "Holm p", "light")
    notes = (
        "One-sided tests: a small p-value means more {events} than the {scores} predict; too few are not flagged. The "
        "light is yellow from 95 % and red from 99.9 % confidence, by the exact binomial test. Holm: the binomial "
        "p-value adjusted for the number of groups. The tests assume independent {events}; correlated ones turn lights "
        "red more often.",
    )
    return [_table(style, "More {events} than the {scores} predict?", head, rows, notes)]


PARTS: dict[str, tuple[str, Callable[[Contents, Style], list[Block]]]] = {
    "verdict": ("Verdict", _verdict),
    "about": ("Model and data", about),
    "change": ("Before and after the map", change),
    "classes": ("By class", _classes),
    "groups": ("By score", _groups),
    "recalibration": ("Intercept and slope", _recalibration),
    "errors": ("Calibration errors", _errors),
    "losses": ("Losses and ranking", _losses),
    "tests": ("Tests of calibration", _tests),
    "segments": ("By segment", _segments),
    "periods": ("By period", _periods),
    "decisions": ("Decision curve", _decisions),
    "grades": ("Traffic lights by grade", _grades),
    "bounds": ("No events: upper bounds", bounds),
    "context": ("Ranking and concentration", context),
    "limits": ("Limitations", limits),
    "methods": ("Methods", methods),
    "definitions": ("Glossary", definitions),
}
"""All sections of a report, with heading and function; every style shows all that apply."""


# ----------------------------------------------------------------------------------------------------------------------
# Helpers
# ----------------------------------------------------------------------------------------------------------------------


def _table(
    style: Style,
    caption: str,
    head: tuple[str, ...],
    rows: Iterable[tuple[Any, ...]],
    texts: Iterable[str],
    said: Iterable[str] = (),
) -> Table:
    """A table with caption, head and footnotes in the nouns of the style; ``said`` are finished footnotes."""
    footnotes = (*map(style.say, texts), *said)
    return Table(
        capitalized(style.say(caption)), tuple(map(style.say, head)), tuple(rows), tuple(map(capitalized, footnotes))
    )


def _name_of(part: Numbers, key: str) -> str:
    """Name of a segment, or first and last timestamp of a period."""
    return f"{part['value']}" if key == "periods" else f"{part['column']} = {part['value']}"
