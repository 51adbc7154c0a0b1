"""``calibrant check``: test whether scores are calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit

if TYPE_CHECKING:
    from calibrant.verdict import Verdict
    from calibrant.verdict.segments import Order, Segment

MOST_SEGMENTS = 12
EXITS = {
    "calibrated": Exit.CALIBRATED,
    "miscalibrated": Exit.MISCALIBRATED,
    "off": Exit.OFF,
    "cannot tell": Exit.CANNOT_TELL,
}
STYLES = {"#009E73": "bold green", "#D55E00": "bold red", "#E69F00": "bold yellow"}
"""Style of the headline, by the color of the verdict in plots."""


class FailOn(StrEnum):
    """Parts of the data that can make the command fail."""

    segments = "segments"
    periods = "periods"
    classes = "classes"
    ranges = "ranges"


class SortBy(StrEnum):
    """Order of the segments."""

    effect = "effect"
    events = "events"
    rows = "rows"
    stake = "stake"


def check(
    files: options.Inputs,
    *,
    columns: options.Columns,
    days: options.DayRange,
    tolerance: options.Tolerance = "0.2",
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    map_: Annotated[
        str | None, options.path("--map", "-m", metavar="MAP.json", help_="Check the scores after applying this map.")
    ] = None,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            "--fail-on", help="Exit with 13 if one of these is beyond the limit (segments: --by, periods: --time)."
        ),
    ] = None,
    sort: Annotated[
        SortBy, typer.Option("--sort", help="Order of the segments; stake: least number of events they are off by.")
    ] = SortBy.effect,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="Number of segments and periods to print.")
    ] = MOST_SEGMENTS,
    notion: options.Notion = None,
    event: options.Event = None,
) -> None:
    """Test whether scores are calibrated, by verdict and exit code.

    There are four verdicts: calibrated (the error of the curve is shown to be within the limit: keep), miscalibrated
    (shown to be beyond it: recalibrate), off (more than chance explains: recalibrate), and cannot tell yet, with an
    estimate of how many more labels would probably show that it is within. With --map the verdict is about the scores
    after the map; if the map was fitted to these rows, this is reported first, and the scores are not called
    calibrated.

    For several classes, pass a column of probabilities for each class, and the class of each row as --label. By default
    the verdict is about the confidence, the probability of the predicted class. A table shows which classes are off.

    Exit code for all rows together: 0 calibrated, 10 miscalibrated, 12 off, 11 cannot tell, 1 input error, 2 usage
    error. With --fail-on segments, periods, classes or ranges, 0 and 11 become 13 if one of them is shown to be beyond
    the limit, after correction for multiple testing.

    Example:
      calibrant check rows.parquet --label bad --by country --fail-on segments
      calibrant check rows.csv --score 'p_*' --label species
    """
    from calibrant.cli.input.files import load_map
    from calibrant.cli.input.source import open_source
    from calibrant.verdict import check as judge
    from calibrant.verdict.segments import sort_segments

    _check_fail_on(fail_on or (), columns, files)
    limits = options.tolerance_of(tolerance)
    calibration = None if map_ is None else load_map(map_)
    needed = () if calibration is None else calibration.map.numbers
    source = open_source(files, replace(columns, features=needed), days, quiet=quiet or as_json)
    asked: dict[str, Any] = {"tolerance": limits, "random_state": seed, "calibration": calibration, "event": event}
    asked["notion"] = None if notion is None else str(notion)
    verdict = source.run(lambda: judge(source.data, **source.options, **source.by, **asked))
    if as_json:
        console.show_json(replace(verdict, segments=tuple(sort_segments(verdict.segments, sort.value))).to_dict())
    else:
        show(verdict, sort.value, top)
    raise typer.Exit(_exit(verdict, fail_on or ()))


def _check_fail_on(fail_on: Sequence[FailOn], columns: options.Columns, files: Sequence[str]) -> None:
    """Reject ``--fail-on`` without the columns it needs, since it could never fail."""
    from calibrant.cli.input.files import is_store
    from calibrant.cli.voice import Mistake

    stored = any(is_store(path) for path in files)
    if FailOn.segments in fail_on and not columns.by and not stored:
        raise Mistake("--fail-on segments", "needs segments", "pass their columns with --by")
    if FailOn.periods in fail_on and columns.time is None:
        raise Mistake("--fail-on periods", "needs periods", "pass the time column with --time")
    if FailOn.classes in fail_on and (stored or not _may_be_several(columns)):
        raise Mistake("--fail-on classes", "needs several classes", "pass a column for each with --score")


def _may_be_several(columns: options.Columns) -> bool:
    return columns.several or any(mark in str(columns.score) for mark in "*?[")


def _exit(verdict: Verdict, fail_on: Sequence[FailOn]) -> Exit:
    """The exit code of the verdict, or that of a part that is off if the verdict itself does not fail."""
    code = EXITS[verdict.status]
    off: dict[FailOn, Sequence[Any]] = {
        FailOn.segments: verdict.off_segments,
        FailOn.periods: verdict.off_periods,
        FailOn.classes: verdict.classes_beyond,
        FailOn.ranges: [each for each in (verdict.beyond.shape,) if each is not None],
    }
    closed = code in (Exit.MISCALIBRATED, Exit.OFF)
    return Exit.PART_OFF if not closed and any(off[part] for part in fail_on) else code


def show(verdict: Verdict, sort: Order = "effect", top: int = MOST_SEGMENTS) -> None:
    """Print the verdict: the headline, the facts, tables of segments and periods, hints and notes."""
    from calibrant.cli.voice import CommandLine
    from calibrant.verdict.segments import ORDERS, sort_segments

    words = verdict.in_words(CommandLine())
    if words.caution:
        console.say(words.caution)
    console.say(words.headline, STYLES[verdict.color])
    console.say("\n".join(f"  {sentence}" for sentence in words.sentences))
    _show_classes(verdict)
    segments = tuple(sort_segments(verdict.segments, sort))
    order = f", {ORDERS[sort]}" if sort != "effect" or sum(each.off for each in segments) > 1 else ""
    _show_parts("Segments", [f"{each.column} = {each.value}" for each in segments], segments, top, order)
    _show_parts("Periods", [str(each.value) for each in verdict.periods], verdict.periods, top)
    lines = [""] if verdict.segments or verdict.periods or verdict.classes else []
    lines += [f"  Hint: {hint}" for hint in words.hints]
    console.say("\n".join(lines + [f"  Note: {note}" for note in words.notes]))


def _show_classes(verdict: Verdict) -> None:
    from calibrant.verdict.figures import amount, p_text
    from calibrant.verdict.multiclass.by_class import unit_of

    if not verdict.classes:
        return
    off, unit = verdict.off_classes, unit_of(verdict)
    rest = [name for name in verdict.classes if name not in off]
    shown = [*off, *rest][:MOST_SEGMENTS]
    rows = []
    for name in shown:
        part = verdict.classes[name]
        expected = " to ".join(map(amount, part.expected))
        slope = "" if part.slope is None else f"{part.slope.value:.2f}"
        side = " and ".join(part.direction) if name in off else ""
        counts = [amount(part.predicted), amount(part.events), expected, slope]
        rows.append([name, side, *counts, p_text(1.0 if part.p_value is None else part.p_value, "")])
    head = [unit.removesuffix("es" if unit == "classes" else "s"), "", "predicted", "observed", "expected", "slope"]
    title = f"{unit.capitalize()}: {len(off) or 'none'} of {len(verdict.classes):,} significantly off"
    styles = ["yellow" if name in off else "" for name in shown]
    console.table(title, [*head, "adj. p"], rows, text=2, styles=styles)
    more, more_off = len(verdict.classes) - len(shown), max(len(off) - len(shown), 0)
    if more:
        console.say(f"  and {more:,} more" + (f", {more_off:,} of them significantly off" if more_off else ""))


def _show_parts(title: str, names: list[str], parts: tuple[Segment, ...], most: int, order: str = "") -> None:
    from calibrant.verdict.figures import amount, p_text

    if not parts:
        return
    rows, styles = [], []
    for name, part in zip(names[:most], parts, strict=False):
        side = part.direction if part.side else "off" * part.off  # of a direction that is not established
        p_value, expected = p_text(part.p_value, ""), f"{amount(part.low)} to {amount(part.high)}"
        if not part.judged:
            side, p_value, expected = "not testable", "", ""
        counts = [amount(part.rows), amount(part.predicted), amount(part.events), expected, p_value]
        rows.append([name, side, *counts])
        styles.append("yellow" if part.off else "")
    head = [title.lower()[:-1], "", "rows", "predicted", "observed", "expected", "adj. p"]
    off, unknown = sum(part.off for part in parts), sum(not part.judged for part in parts)
    words = f"{off or 'none'} of {len(parts) - unknown:,} significantly off"
    if unknown == len(parts):
        words = f"none of {unknown:,} testable (too few groups)"
    elif unknown:
        words += f"; {unknown:,} not testable (too few groups)"
    console.table(f"{title}: {words}{order}", head, rows, text=2, styles=styles)
    more, more_off = len(parts) - len(rows), sum(part.off for part in parts[len(rows) :])
    if more:
        console.say(f"  and {more:,} more" + (f", {more_off:,} of them significantly off" if more_off else ""))
