"""Sections of a credit report: headline by the portfolio test, upper bounds without defaults, model data, sign-off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.credit.factor import YELLOW
from calibrant.reporting.blocks import Block, Bullets, Headline, Table, Tone
from calibrant.reporting.contents import Contents
from calibrant.reporting.earlier import comparison
from calibrant.reporting.figures import amount, count, number, p_value, percent, share, span
from calibrant.reporting.marks import LIGHTS, TONES
from calibrant.reporting.styles import Style

Numbers = Mapping[str, Any]

SIGN_OFF = ("Prepared by", "Reviewed by", "Approved by")


STEPS = {
    "recalibrate": "Next: recalibrate.",
    "collect": "Next: collect more labeled {rows}.",
    "keep": "Next: keep the {scores}.",
}
"""What to do, by name."""


def headline(contents: Contents, style: Style) -> Headline:
    """The first line of a report; in the credit style the light of the portfolio comes first."""
    verdict, words = contents.verdict, contents.verdict.in_words(style.voice)
    step = style.say(STEPS[verdict.next_step]) if verdict.next_step else ""
    if style.by_light and contents.numbers["grades"] is not None and verdict.notion is None:
        text, tone = light_text(contents, style), _tone(contents)
    else:
        text, tone = words.finding if style.by_light else words.headline, TONES[verdict.color]
    return Headline(text.removesuffix(" Recalibrate.").removesuffix(" Recalibrate by segment."), tone, step)


def light_text(contents: Contents, style: Style) -> str:
    """The headline of a credit report: light, counts, and what the verdict adds."""
    whole = contents.numbers["grades"]["portfolio"]
    predicted, light = whole["n"] * (whole["pd"] or 0.0), whole["light"]
    counts = f"{count(whole['events'])} observed, {amount(predicted)} predicted, p {_p(whole['binomial_p'])}"
    if _too_few(contents):
        chance = _p(contents.numbers["upper_bounds"]["no_event_p"])
        return style.say(
            f"{light.upper()}: no {{event}} was observed, far fewer than predicted ({amount(predicted)} predicted, "
            f"p {chance}): the {{scores}} look too high."
        )
    if whole["events"] == 0:
        return style.say(
            f"{light.upper()}: no {{event}} was observed ({amount(predicted)} predicted). This does not show that the "
            "{scores} are right; it bounds them from above."
        )
    said = {
        "green": "the test of the portfolio finds no excess of {events}",
        "yellow": "more {events} than the {scores} predict, at 95 % confidence",
        "red": "more {events} than the {scores} predict, at 99.9 % confidence",
    }[light]
    verdict = contents.verdict.in_words(style.voice).finding
    return f"{light.upper()}: {style.say(said)} ({counts}). {verdict}"


def _p(value: float | None) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"


def _too_few(contents: Contents) -> bool:
    """Whether no event was observed though the scores make that improbable."""
    found = contents.numbers["upper_bounds"]
    return found is not None and bool(found["no_event_p"] < YELLOW)


def _tone(contents: Contents) -> Tone:
    light = contents.numbers["grades"]["portfolio"]["light"]
    off = contents.verdict.next_step == "recalibrate"
    if _too_few(contents):
        return "warn"
    return "warn" if light == "green" and off and contents.numbers["events"] > 0 else LIGHTS[light]


def about(contents: Contents, style: Style) -> list[Block]:
    """What the report is about, as given by its author, and lines for signatures."""
    given = contents.numbers["meta"]
    if not given:
        return []
    rows = tuple((str(key), str(value)) for key, value in given.items())
    blocks: list[Block] = [Table("Model and data, as stated by the author", ("item", "value"), rows, words=True)]
    if style.by_light:
        lines = tuple((role, " ", " ", " ") for role in SIGN_OFF)
        blocks.append(Table("Sign-off", ("", "name", "date", "signature"), lines, words=True))
    return blocks


def bounds(contents: Contents, style: Style) -> list[Block]:
    """Upper bounds of the rates by grade if no event was observed."""
    found = contents.numbers["upper_bounds"]
    if found is None:
        return []
    head = ("grade", "{rows}", "mean {score}", *(f"bound at {share(level)}" for level in found["levels"]))
    rows = [
        (name, count(n), percent(pd), *(percent(each[place]) for each in found["bounds"]))
        for place, (name, n, pd) in enumerate(zip(found["names"], found["n"], found["pd"], strict=True))
    ]
    likely = "No {event} is not an error: with low {scores} it is the likely result. "
    notes = (
        f"{'' if _too_few(contents) else likely}"
        "The bounds are those of Pluto and "
        "Tasche (2005), most prudent estimation: each is at least the {rate} of its grade with the stated confidence, "
        "if the order of the grades is right and {events} are independent. With correlated {events} the bounds are "
        "higher: calibrant.credit.pluto_tasche with correlation=.",
    )
    caption = "Upper bounds of the {rate} by grade, at several confidence levels"
    return [
        Table(style.say(caption), tuple(map(style.say, head)), tuple(rows), tuple(map(style.say, notes))),
    ]


def change(contents: Contents, style: Style) -> list[Block]:
    """Before and after the map that was applied."""
    found = contents.numbers["before"]
    if found is None:
        return []
    now = contents.numbers["verdict"]
    lines = (
        f"Before the map: {amount(found['predicted'])} {{events}} predicted, "
        f"{count(contents.numbers['events'])} observed; mean {{score}} {share(found['predicted'] / found['rows'])}.",
        f"After the map: {amount(now['predicted'])} predicted; mean {{score}} {share(now['predicted'] / now['rows'])}.",
        "All other numbers of this report are about the {scores} after the map.",
    )
    return [Bullets(tuple(map(style.say, lines)))]


def context(contents: Contents, style: Style) -> list[Block]:
    """Ranking and concentration, which belong to every validation, though not to calibration; and an earlier sample."""
    found, earlier = contents.numbers["context"], contents.numbers["reference"]
    compared = [] if earlier is None else comparison(earlier, style)
    if not style.by_light or found is None:
        return compared
    ratio, spread = found["accuracy_ratio"], found["concentration"]
    lines = []
    if ratio.get("value") is not None:
        interval = f" (95 % interval {span(ratio['low'], ratio['high'])})" if ratio.get("low") is not None else ""
        lines.append(f"Accuracy ratio (Gini): {number(ratio['value'])}{interval}.")
    if spread is not None:
        lines.append(
            f"Concentration over grades (HHI): {number(spread['value'])}, that of {spread['effective']:.1f} equally "
            f"large grades; the largest, {spread['largest']}, has {share(spread['share'])} of the {{rows}}."
        )
    if earlier is None:
        lines.append(
            "Stability against development (PSI), migration between grades and the change of the accuracy ratio need "
            "an earlier sample: pass it as reference, and for migration the column of borrowers."
        )
    return [Bullets(tuple(map(style.say, lines))), *compared]
