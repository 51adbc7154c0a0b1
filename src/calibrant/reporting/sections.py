"""From numbers to sections: tables and sentences in the words of a style."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from calibrant.messages import Note
from calibrant.reporting.blocks import Block, Bullets, Headline, Mark, Picture, Section, Table
from calibrant.reporting.contents import Contents, GroupedBy
from calibrant.reporting.figures import UNKNOWN, amount, count, number, p_value, percent, share, span
from calibrant.reporting.marks import LIGHTS, STATES, above_null, against_chance, best_action, evidence, luck
from calibrant.reporting.prose import definitions, limits, methods
from calibrant.reporting.styles import Style
from calibrant.verdict.figures import capitalized

Numbers = Mapping[str, Any]

MOST_SEGMENTS = 50
"""Segments shown in a table; all of them are in the data."""
NAMED = 3
"""Segments named in the verdict."""


def sections(contents: Contents, style: Style) -> tuple[Section, ...]:
    """The parts that have something to say, in the order of the style."""
    found = []
    for key in dict.fromkeys((*style.first, *PARTS)):
        heading, part = PARTS[key]
        blocks = part(contents, style)
        if blocks:
            found.append(Section(key, style.headings.get(key, heading), tuple(blocks)))
    return tuple(found)


def _verdict(contents: Contents, style: Style) -> list[Block]:
    verdict, words = contents.numbers["verdict"], contents.verdict.in_words(style.voice)
    facts = [*words.sentences, *(_told_off(verdict, key) for key in ("segments", "periods") if verdict[key])]
    facts += [*(f"Hint: {hint}" for hint in words.hints), *(f"Note: {note}" for note in words.notes)]
    partly = verdict["state"] == "calibrated" and any(verdict["off_parts"].values())
    return [Headline(words.headline, "warn" if partly else STATES[verdict["state"]]), Bullets(tuple(facts))]


def _reliability(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    picture = numbers["reliability"]
    series = picture["series"][0]
    drawn = "points are" if series["heaped"] else "line is"
    level, beyond = share(picture["level"]), share(1.0 - picture["level"], 2)
    outside = f"{share(series['outside'], 2)} of the {{rows}}"
    hedge = ", or fewer" if numbers["counts"] else " (approximate under weights)"
    if numbers["verdict"]["groups"] is not None:
        hedge = " when {rows} are independent, and more when those of one group are alike"
    label = f"Reliability diagram: {{rate}} against {{score}}. {outside} lie outside the grey band."
    how = "at each {score}" if series["heaped"] else "by isotonic regression"
    caption = (
        f"The {drawn} {{rate}}s {how}; on the dotted diagonal every {{score}} is right. The grey is where {level} of "
        f"perfectly calibrated models stay, at each place by itself. Outside it lie {outside}; a perfect model has "
        f"about {beyond} there{hedge}. Below: how many {{rows}} have each {{score}}, those with the {{event}} outlined."
    )
    if picture["axes"] == "log-odds":
        caption += " Both axes are in log-odds, so that rare {events} can be seen."
    return [Picture("reliability", style.say(label), style.say(caption))]


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
        "95 % interval, %", "ratio", "against expected",
    )  # fmt: skip
    plain = numbers["counts"] and numbers["verdict"]["groups"] is None
    exact = "exact (Clopper-Pearson)" if plain else "approximate (Clopper-Pearson at the effective number of {rows})"
    notes = (
        f"The interval is that of the rate, {exact}. Ratio: observed over predicted. Expected range: the middle 95 % "
        "of the {events} of a calibrated model. "
        f"With {len(rows)} lines, one outside is not a surprise by itself.",
    )
    by_score = numbers["groups_are"] == GroupedBy.DISTINCT_SCORES
    whole = "distinct {score}" if by_score else "groups of about equally many {rows}"
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
    errors = curve["se"] or [None] * 4
    rows += [
        (name, number(curve[key]), UNKNOWN if se is None else f"s.e. {number(se)}", "0")
        for (key, name), se in zip(names.items(), errors, strict=True)
    ]
    notes = [
        "Intercepts and slope are on the log-odds: a positive intercept means that {scores} are too low, a slope below "
        "1 that they are too extreme. The first line is the level of the verdict. Distances are biased upwards, so "
        "they have a standard error (s.e.) and no interval."
    ]
    said = _said(dict.fromkeys(chain.from_iterable(contents.notes_of["recalibration"])), style)
    head = ("measure", "estimate", "95 % interval", "ideal")
    return [_table(style, "What a recalibration would change", head, rows, notes, said)]


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
    head = ("error", "estimate", "standard error", "a perfect model shows", "at most, 19 times in 20", "in words")
    notes = (
        "No calibration error is 0 in a sample, not even for a perfect model: compare each with what a perfectly "
        "calibrated model with these {scores} and this many {rows} would show."
        if numbers["rows_in_group"] is None
        else "What a perfect model would show is not known for groups of dependent {rows}, and left out.",
    )
    caption, said = "Distance from calibration, in units of probability", _named_notes(contents, "errors", style)
    return [_table(style, caption, head, rows, notes, said)]


def _losses(contents: Contents, style: Style) -> list[Block]:
    numbers = contents.numbers
    rows = [
        (
            capitalized(score["name"]),
            "infinite" if score["infinite"] else number(score.get("value")),
            "–" if score["infinite"] else span(score.get("low"), score.get("high")),
            number(score["null"]) if "null" in score else "–",
        )
        for score in numbers["scores"]
    ]
    head = ("measure", "estimate", "95 % interval", "if every {score} were right")
    notes, said = ["Of losses less is better, of AUC more."], _named_notes(contents, "scores", style)
    parts = zip(numbers["decompositions"], contents.notes_of["decompositions"], strict=True)
    return [_table(style, "Losses and AUC", head, rows, notes, said), *(_decomposition(*each, style) for each in parts)]


def _named_notes(contents: Contents, key: str, style: Style) -> list[str]:
    """Notes on each of several numbers, with its name."""
    return [
        f"{entry['name']}: {text}"
        for entry, notes in zip(contents.numbers[key], contents.notes_of[key], strict=True)
        for text in _said(notes, style)
    ]


def _said(notes: Iterable[Note], style: Style) -> list[str]:
    """Notes as sentences in the style's words."""
    return [f"{note.say(style.voice).rstrip('.')}." for note in notes]


def _decomposition(parts: Numbers, found: Iterable[Note], style: Style) -> Table:
    lines = (
        ("miscalibration", "Miscalibration", "what recalibration could take off"),
        ("discrimination", "Discrimination", "what telling {rows} apart takes off"),
        ("uncertainty", "Uncertainty", "the loss of the base rate alone"),
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
    notes = [f"At most {percent(fixable)} of the loss could be mended by recalibration (in-sample, so optimistic)."]
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
        return [style.say("No tests are shown: they take {rows} as independent. The verdict allows for the groups.")]
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
        "A large p-value does not prove calibration: with few {rows} every model passes, with very many none does. "
        "Read these beside the size of the errors.",
    )
    return [
        _table(
            style,
            "Could a calibrated model have done this?",
            ("test", "statistic", "p", "in words", "note"),
            rows,
            below,
        )
    ]


def _segments(contents: Contents, style: Style) -> list[Block]:
    found = contents.numbers["verdict"]["segments"]
    if not found:
        return []
    more = len(found) - MOST_SEGMENTS
    notes = [f"{more:,} more segments are in the JSON form of this report."] * (more > 0)
    caption = "Segments that chance does not explain first, the surest large difference leading"
    return [_scan(found[:MOST_SEGMENTS], "segments", caption, style, notes)]


def _periods(contents: Contents, style: Style) -> list[Block]:
    found = contents.numbers["verdict"]["periods"]
    if not found:
        return []
    return [_scan(found, "periods", "In the order of time, about equally many {rows} in each", style, ())]


def _scan(found: Iterable[Numbers], key: str, caption: str, style: Style, notes: Iterable[str]) -> Table:
    rows = [
        (
            _called(part, key),
            count(part["rows"]),
            amount(part["predicted"]),
            count(part["events"]),
            span(part["low"], part["high"], "count") if part["judged"] else UNKNOWN,
            f"{part['events'] / part['predicted']:.2f}" if part["predicted"] else "–",
            _ratio_interval(part),
            p_value(part["p_value"]) if part["judged"] else UNKNOWN,
            luck(part),
        )
        for part in found
    ]
    head = (
        key.removesuffix("s"), "{rows}", "predicted", "observed", "expected range", "ratio", "95 % interval",
        "adjusted p", "in words",
    )  # fmt: skip
    told = [
        "Ratio: observed over predicted, with its own 95 % interval. p-values are adjusted by Holm's method for the "
        f"number of {key} looked at."
    ]
    if any(not part["judged"] for part in found):
        told.append(f"With rows of fewer than 10 groups, {key} cannot be judged.")
    return _table(style, caption, head, rows, (*notes, *told))


def _ratio_interval(part: Numbers) -> str:
    known = part["judged"] and part["ratio_high"] is not None and part["predicted"]
    return f"{part['ratio_low']:.2f} to {part['ratio_high']:.2f}" if known else "–"


def _decisions(contents: Contents, style: Style) -> list[Block]:
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
        "Net benefit: {events} found, less false alarms, when acting on {rows} whose {score} is at least the threshold "
        "t; a false alarm is taken to cost t / (1 - t) of what finding one gains. Acting on none gains 0.",
    )
    return [_table(style, "Net benefit for 1,000 {rows}", head, rows, notes)]


def _grades(contents: Contents, style: Style) -> list[Block]:
    found = contents.numbers["grades"]
    if found is None:
        return [style.say("No lights are shown: they need counts of {rows}, and these {rows} have importance weights.")]
    whole = {"name": "all together", "holm_p": None, "rate": found["portfolio"]["events"] / found["portfolio"]["n"]}
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
    head = ("{score}", "{rows}", "{events}", "mean {score}", "{rate}", "binomial p", "Jeffreys p", "Holm p", "light")
    notes = (
        "One-sided: small p-values mean more {events} than the {scores} allow; too few are no alarm here. The light is "
        "yellow from 95 % and red from 99.9 % confidence on, by the exact binomial test. Holm: the binomial p-value "
        "adjusted for the number of groups. The {events} are taken to be independent; correlated ones turn lights red "
        "more often.",
    )
    return [_table(style, "More {events} than the {scores} allow?", head, rows, notes)]


PARTS: dict[str, tuple[str, Callable[[Contents, Style], list[Block]]]] = {
    "verdict": ("Verdict", _verdict),
    "reliability": ("What was predicted and what happened", _reliability),
    "groups": ("By score", _groups),
    "recalibration": ("Level and spread", _recalibration),
    "errors": ("Calibration errors", _errors),
    "losses": ("Losses and ranking", _losses),
    "tests": ("Tests of calibration", _tests),
    "segments": ("By segment", _segments),
    "periods": ("By period", _periods),
    "decisions": ("What decisions gain", _decisions),
    "grades": ("Too many events? Each group of scores tested by itself", _grades),
    "limits": ("What this does not show", limits),
    "methods": ("Methods", methods),
    "definitions": ("Words used", definitions),
}
"""Every part of a report, with its heading and what makes its blocks; each style shows all of them."""


# ----------------------------------------------------------------------------------------------------------------------
# Words for numbers
# ----------------------------------------------------------------------------------------------------------------------


def _table(
    style: Style,
    caption: str,
    head: tuple[str, ...],
    rows: Iterable[tuple[Any, ...]],
    texts: Iterable[str],
    said: Iterable[str] = (),
) -> Table:
    """A table with caption, head and texts in the style's words; rows, and what is said already, stay as they are."""
    told = (*map(style.say, texts), *said)
    return Table(
        capitalized(style.say(caption)), tuple(map(style.say, head)), tuple(rows), tuple(map(capitalized, told))
    )


def _told_off(verdict: Numbers, key: str) -> str:
    """How many segments or periods chance does not explain, and which: the worst segments, or the last period."""
    parts, noun = verdict[key], key.removesuffix("s")
    off, unknown = [part for part in parts if part["off"]], sum(not part["judged"] for part in parts)
    few = f" {unknown:,} cannot be judged, with fewer than 10 groups." if unknown else ""
    if not off:
        all_of = "no difference is shown." if unknown else f"chance explains all {len(parts):,} that were looked at."
        return f"By {noun}: {all_of}{few}"
    beyond = [parts[place] for place in verdict["off_parts"][key]] or off
    named, which = (beyond[:NAMED], "worst") if key == "segments" else (beyond[-1:], "last")
    said = "; ".join(
        f"{_called(part, key)}, predicted {amount(part['predicted'])}, observed {count(part['events'])}"
        for part in named
    )
    are = "is" if len(off) == 1 else "are"
    return f"By {noun}: {len(off):,} of {len(parts):,} {are} off by more than chance explains ({which}: {said}).{few}"


def _called(part: Numbers, key: str) -> str:
    """The user's name of one of the segments, or the first and last moment of one of the periods."""
    return f"{part['value']}" if key == "periods" else f"{part['column']} = {part['value']}"
