"""``calibrant check``: whether it is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit

if TYPE_CHECKING:
    from calibrant.verdict import Verdict
    from calibrant.verdict.segments import Segment

MOST_SEGMENTS = 12
EXITS = {
    "calibrated": Exit.CALIBRATED,
    "miscalibrated": Exit.MISCALIBRATED,
    "cannot tell": Exit.CANNOT_TELL,
}
STYLES = {"#009E73": "bold green", "#D55E00": "bold red", "#E69F00": "bold yellow"}
"""Of the headline, by the colour that the verdict has in pictures."""


def check(
    files: options.Inputs,
    score: options.Score = None,
    label: options.Label = None,
    weight: options.Weight = None,
    counts: options.Counts = False,
    by: options.By = None,
    time: options.Time = None,
    groups: options.Groups = None,
    positive: options.Positive = None,
    kind: options.Kind = None,
    where: options.Where = None,
    first: options.First = None,
    last: options.Last = None,
    tolerance: options.Tolerance = "0.2",
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    map_: Annotated[
        str | None,
        typer.Option("--map", "-m", metavar="MAP.json", help="Judge what this map makes of the scores."),
    ] = None,
) -> None:
    """Is it calibrated? In words, and in the exit code.

    There are three answers: calibrated (shown to be within the tolerance), miscalibrated (shown to be outside), and
    cannot tell yet, with the number of labels that would probably settle it. With --map the answer is about calibrated
    scores; if the map was fitted to these rows, that is told first, and they are not called calibrated.

    Exit code: 0 calibrated, 10 miscalibrated, 11 cannot tell, 1 a mistake in the input, 2 a mistake in the usage. It is
    about all rows: segments and periods that are off are told, and do not change it.

    Example:
      calibrant check predictions.parquet --score p --label bad --by country
    """
    from calibrant.cli.files import load_map
    from calibrant.cli.source import Columns, Days, open_source
    from calibrant.verdict import check as judge

    limits = options.tolerance_of(tolerance)
    calibration = None if map_ is None else load_map(map_)
    columns = Columns(score, label, weight, counts, by, time, groups, positive, kind, where)
    source = open_source(files, columns, first, last, quiet=quiet or as_json)
    asked: dict[str, Any] = {"tolerance": limits, "random_state": seed, "calibration": calibration}
    verdict = source.run(lambda: judge(source.data, **source.options, **source.by, **asked))
    if isinstance(source, Days):
        verdict = source.named(verdict)
    if as_json:
        console.show_json(verdict.to_dict())
    else:
        show(verdict)
    raise typer.Exit(EXITS[verdict.state])


def show(verdict: Verdict) -> None:
    """Print the verdict: the headline, the facts, tables of segments and periods, hints and notes."""
    from calibrant.cli.wording import in_options

    if verdict.caution:
        console.say(verdict.caution)
    console.say(verdict.headline, STYLES[verdict.colour])
    console.say("\n".join(f"  {sentence}" for sentence in verdict.sentences))
    _show_parts("Segments", [f"{each.column} = {each.value}" for each in verdict.segments], verdict.segments)
    _show_parts("Periods", [str(each.value) for each in verdict.periods], verdict.periods)
    told = [""] if verdict.segments or verdict.periods else []
    told += [f"  Hint: {in_options(hint)}" for hint in verdict.hints]
    console.say("\n".join(told + [f"  Note: {in_options(text)}" for text in verdict.notes]))


def _show_parts(title: str, names: list[str], parts: tuple[Segment, ...]) -> None:
    from calibrant.verdict.segments import tell_p

    if not parts:
        return
    rows, styles = [], []
    for name, part in zip(names[:MOST_SEGMENTS], parts, strict=False):
        off = part.p_value <= 0.05
        side = "chance" if not off else "too low" if part.events > part.predicted else "too high"
        p_value = tell_p(part.p_value).removeprefix("= ")
        chance = f"{part.low:,.0f} to {part.high:,.0f}"
        rows.append([name, side, f"{part.rows:,.0f}", f"{part.predicted:,.0f}", f"{part.events:,.0f}", chance, p_value])
        styles.append("yellow" if off else "")
    head = [title.lower()[:-1], "", "rows", "predicted", "happened", "by chance", "adj. p"]
    more = len(parts) - len(rows)
    off_all = sum(part.p_value <= 0.05 for part in parts)
    words = f"{off_all} of {len(parts)} that chance does not explain" if off_all else "chance explains all of them"
    console.table(f"{title}: {words}", head, rows, text=2, styles=styles)
    if more:
        console.say(f"  and {more:,} more")
