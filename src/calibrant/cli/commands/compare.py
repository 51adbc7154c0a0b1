"""``calibrant compare``: compare two models' scores on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.verdict.change import Change

THRESHOLD = "Decision threshold; repeat for several. [default: 0.5; none for several classes]"
REPEAT = "for several classes, one column each"


def compare(
    files: options.Files,
    old: Annotated[list[str], typer.Option("--old", metavar="COL", help=f"Scores of the current model; {REPEAT}.")],
    new: Annotated[list[str], typer.Option("--new", metavar="COL", help=f"Scores of the new model; {REPEAT}.")],
    label: options.Label = None,
    threshold: Annotated[
        list[float] | None, typer.Option("--threshold", metavar="P", show_default=False, help=THRESHOLD)
    ] = None,
    weight: options.Weight = None,
    frequency: options.Frequency = False,
    groups: options.Groups = None,
    positive: options.Positive = None,
    event: options.Event = None,
    where: options.Where = None,
    tolerance: options.Tolerance = "0.2",
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare the scores of two models on the same rows.

    Reports the verdict on each, differences in losses and ranking with paired 95 % confidence intervals, and the rows
    that would cross a decision threshold. The columns are read into memory. For several classes, repeat --old and
    --new, with the columns of both models in the same order.

    Example:
      calibrant compare rows.parquet --old p --new q --label bad --threshold 0.2
    """
    from calibrant.cli.input.source import Rows
    from calibrant.reading import Table
    from calibrant.verdict import compare as judge

    limits = options.tolerance_of(tolerance)
    columns = options.Columns(old, label, weight, frequency, None, None, groups, positive, None, where)
    more = {
        option if place == 0 else f"{option} ({name})": name
        for option, names in (("--old", old), ("--new", new))
        for place, name in enumerate(names)
    }
    rows = Rows(files, columns, more, quiet=quiet or as_json)

    def run() -> Change:
        values = rows.collect([*old, *new, rows.options["label"], weight, groups])
        given: dict[str, Any] = {name: rows.options[name] for name in ("weight_type", "positive")}
        return judge(
            Table.of(values, old),
            Table.of(values, new),
            values[rows.options["label"]],
            None if weight is None else values[weight],
            thresholds=threshold or None,
            groups=None if groups is None else values[groups],
            tolerance=limits,
            random_state=seed,
            event=event,
            **given,
        )

    change = rows.run(run)
    if as_json:
        console.show_json(change.to_dict())
    else:
        _show(change)


def _show(change: Change) -> None:
    console.say(f"Old: {change.old.headline}")
    console.say(f"New: {change.new.headline}")
    rows = []
    for each in change.differences:
        change_words = f"{each.change:+.4g}"
        rows.append([each.title, each.words, f"{each.old:.4f}", f"{each.new:.4f}", change_words, _interval(each)])
    head = ["", "", "old", "new", "change", "95 % CI"]
    console.table("New vs. old", head, rows, text=2)
    crossed = [
        [f"{each.threshold:g}"]
        + [
            f"{value:,.0f}"
            for value in (each.above_old, each.above_new, each.up, each.up_events, each.down, each.down_events)
        ]
        for each in change.crossings
    ]
    if not crossed:
        return
    events = "correct" if change.old.notion is not None else change.old.event[1] if change.old.event else "events"
    head = ["threshold", "above: old", "new", "move up", events, "move down", events]
    console.table("Rows that cross a threshold", head, crossed, text=0)


def _interval(each: Any) -> str:
    return f"{each.low:+.2g} to {each.high:+.2g}" if abs(each.low) < float("inf") else "too few rows"
