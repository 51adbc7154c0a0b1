"""The text of a verdict on several classes or labels: what is judged, which classes are off, which map would help."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING

from calibrant.messages import Nouns, Voice, listed, plural
from calibrant.tallies.ends import clipped
from calibrant.verdict.event_names import with_event
from calibrant.verdict.figures import amount, p_text, percent

if TYPE_CHECKING:
    from calibrant.verdict.gain import Gain
    from calibrant.verdict.verdict import Verdict

SHOWN_CLASSES = 5
"""Classes listed below the headline."""
NAMED_CLASSES = 3
"""Classes named in the headline."""

NOTIONS = {
    "confidence": "confidence, the probability of the predicted class, against how often that class is right",
    "top-label": "top-label calibration, the confidence among the {rows} of each predicted class",
    "class-wise": "class-wise calibration, the probability of every class against its frequency",
    "multi-label": "every label by itself, its probability against its frequency",
}
"""What is judged, by notion."""


def confidence_nouns(nouns: Nouns) -> Nouns:
    """Nouns for the confidence of the predicted class: an event is a class that is right."""
    return replace(
        nouns,
        event="correct prediction",
        events="correct predictions",
        non_events="wrong predictions",
        score="confidence",
        scores="confidences",
        rate="accuracy",
        probabilities="confidences",
    )


def voice_of(verdict: Verdict, voice: Voice) -> Voice:
    """The voice with the nouns of what is judged and the name of the event, if it has one."""
    made = copy(voice)
    if verdict.notion not in (None, "multi-label"):
        made.nouns = confidence_nouns(voice.nouns)
    if verdict.event is not None:
        made.nouns = with_event(made.nouns, verdict.event)
    return made


def _part_voice(verdict: Verdict, voice: Voice) -> Voice:
    """The voice for one class or label: the scores of a class against the rest are probabilities, not confidences."""
    if verdict.notion == "class-wise" or (verdict.notion == "confidence" and _against_the_rest(verdict)):
        made, plain = copy(voice), Nouns(score="probability", scores="probabilities")
        made.nouns = replace(plain, row=voice.nouns.row, rows=voice.nouns.rows)
        return made
    return voice


def _against_the_rest(verdict: Verdict) -> bool:
    """Whether every class was judged on all rows; a map of the predicted class judges it on the rows that have it."""
    return all(isclose(part.row_count, verdict.row_count) for part in verdict.classes.values())


def unit_of(verdict: Verdict) -> str:
    """What the parts of the verdict are called."""
    return "labels" if verdict.notion == "multi-label" else "classes"


def row_text(verdict: Verdict, nouns: Nouns) -> str:
    """The number of rows; of a multi-label target that of its labels and rows."""
    if verdict.notion != "multi-label":
        return plural(verdict.row_count, nouns.row, nouns.rows, shown=amount(verdict.row_count))
    return f"{amount(verdict.row_count)} labels of {amount(verdict.row_count / len(verdict.classes))} {nouns.rows}"


def joint_headline(verdict: Verdict, voice: Voice) -> str:
    """The status of all classes or labels together, and which of them are off."""
    unit, total, never = unit_of(verdict), f"{len(verdict.classes):,}", len(verdict.never_predicted)
    if verdict.status == "calibrated":
        which = f"the {total} predicted of {len(verdict.classes) + never:,}" if never else f"all {total}"
        return f"CALIBRATED within the limit in {which} {unit}."
    unit = f"predicted {unit}" if never else unit
    if verdict.in_sample and not verdict.crossfitted and verdict.status == "cannot tell":
        rows = voice.nouns.rows
        return f"CANNOT TELL YET: the map was fitted to these {rows}; evaluate it on held-out {rows}."
    found = [name for name in verdict.off_classes if verdict.classes[name].status == verdict.status]
    if found:
        where = f"in {len(found):,} of {total} {unit}: {_named(verdict, found, voice)}"
        if verdict.status == "miscalibrated":
            return f"MISCALIBRATED beyond the limit {where}. Recalibrate."
        return f"OFF {where}, more than chance explains. Recalibrate."
    unknown = [name for name, each in verdict.classes.items() if each.status == "cannot tell"]
    rest = len(verdict.classes) - len(unknown)
    others = f"; {rest:,} {'is' if rest == 1 else 'are'} calibrated within the limit" if rest else ""
    return f"CANNOT TELL YET for {len(unknown):,} of {total} {unit}: {_few(unknown)}{others}."


def judged(verdict: Verdict, voice: Voice) -> list[str]:
    """What the verdict is about; empty for one score that no map was applied to."""
    if verdict.notion is None:
        mapped = verdict.in_sample is not None or any(note.code == "overlap-unknown" for note in verdict.notes)
        return [f"Judged: the probabilities that the map gives for these {voice.nouns.scores}."] if mapped else []
    what = NOTIONS[verdict.notion].format(rows=voice.nouns.rows)
    if verdict.notion == "multi-label":
        return [f"Judged: {what} ({len(verdict.classes):,} labels). The next numbers are about all labels together."]
    right, mean = (percent(part / verdict.rows) for part in (verdict.events, verdict.predicted))
    numbers = f"accuracy {right}, mean confidence {mean}"
    if verdict.notion == "confidence":
        return [f"Judged: {what} ({numbers})."]
    return [f"Judged: {what}. The next numbers are about the confidence of all predicted classes ({numbers})."]


def class_lines(verdict: Verdict, voice: Voice) -> list[str]:
    """How many classes or labels are off, and the first of them."""
    if not verdict.classes:
        return []
    unit, off = unit_of(verdict).capitalize(), verdict.off_classes
    among = "against the rest" if verdict.notion in ("confidence", "class-wise") else "one by one"
    head = f"{unit}, {among}: {f'{len(off):,}' if off else 'none'} of {len(verdict.classes):,} significantly off"
    never = verdict.never_predicted
    head += f"; never predicted, so not judged: {_few(list(never))}" if never else ""
    lines = [f"{head}{':' if off else '.'}"]
    spoken = _part_voice(verdict, voice)
    lines += [f"  {name}: {class_line(verdict.classes[name], spoken)}" for name in off[:SHOWN_CLASSES]]
    return lines + ([f"  and {len(off) - SHOWN_CLASSES:,} more"] if len(off) > SHOWN_CLASSES else [])


def class_line(part: Verdict, voice: Voice) -> str:
    """One class: how it is off, and its counts."""
    slope = "" if part.slope is None else f"; slope {part.slope.value:.2f}"
    expected = " to ".join(map(amount, part.expected))
    counts = (
        f"predicted {amount(part.predicted)}, observed {amount(part.events)}, 95 % expected range {expected}{slope}"
    )
    p = "" if part.p_value is None else f"; adjusted p {p_text(part.p_value)}"
    return f"{' and '.join(part.in_words(voice).direction)} ({counts}{p})"


def gain_sentence(gains: tuple[Gain, ...], how: str) -> str:
    """The map to use and what the others would do, by the log loss and the ECE of the confidences."""
    first, *others = gains
    if not first.clear:
        best = min(gains, key=lambda gain: gain.after)
        return f"No map improves the confidences significantly ({how}; best: {best.method}, {_effect(best)})."
    said = f"Recalibration with {first.method} would cut the log loss of the confidences by {percent(first.share)}"
    rest = "; ".join(f"{gain.method}: {_effect(gain)}" for gain in others)
    only = "" if first.method == "TemperatureScaling()" else " It gives the probability of the predicted class only."
    return f"{said} ({how}; {_effect(first)}).{only} Other maps: {rest}."


def _effect(gain: Gain) -> str:
    log_loss = f"log loss{clipped(gain.ends)} {gain.before:.4f} to {gain.after:.4f}"
    return log_loss if gain.ece_before is None else f"{log_loss}, ECE {gain.ece_before:.3f} to {gain.ece_after:.3f}"


def _named(verdict: Verdict, names: list[str], voice: Voice) -> str:
    spoken = _part_voice(verdict, voice)
    shown = [
        f"{name} ({' and '.join(verdict.classes[name].in_words(spoken).direction)})" for name in names[:NAMED_CLASSES]
    ]
    return _more(shown, len(names))


def _few(names: list[str]) -> str:
    return _more(names[:NAMED_CLASSES], len(names))


def _more(shown: list[str], total: int) -> str:
    more = total - len(shown)
    return f"{', '.join(shown)} and {more:,} more" if more > 0 else listed(shown)
