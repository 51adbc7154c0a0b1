"""``calibrant compare``: compare the scores of two to twenty models on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.verdict.change import Change

THRESHOLD = "Decision threshold; repeat for several. [default: 0.5 for --old and --new; none for several classes]"
REPEAT = "for several classes, one column each"


def compare(
    files: options.Files,
    old: Annotated[
        list[str] | None, typer.Option("--old", metavar="COL", help=f"Scores of the current model; {REPEAT}.")
    ] = None,
    new: Annotated[
        list[str] | None, typer.Option("--new", metavar="COL", help=f"Scores of the new model; {REPEAT}.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="COL", help="Scores of a model, instead of --old and --new; two to twenty."),
    ] = None,
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
    """Compare the scores of two to twenty models on the same rows.

    Reports the verdict on each, differences in calibration, losses and ranking with paired 95 % confidence intervals,
    and the rows that would cross a decision threshold. The columns are read into memory. For several classes, repeat
    --old and --new, with the columns of both models in the same order.

    Example:
      calibrant compare rows.parquet --old p --new q --label bad --threshold 0.2
      calibrant compare rows.parquet --model p --model q --model r --label bad
    """
    from calibrant.cli.input.source import Rows
    from calibrant.cli.voice import Mistake
    from calibrant.reading import Table
    from calibrant.verdict import compare as judge

    limits = options.tolerance_of(tolerance)
    if bool(model) == bool(old or new):
        raise Mistake("--model", "is for any number of models", "pass either --old and --new, or --model for each")
    if not model and not (old and new):
        raise Mistake("--new" if old else "--old", "is missing", "pass both models")
    models = {name: [name] for name in model} if model else {"old": old or [], "new": new or []}
    first, *_ = models.values()
    columns = options.Columns(first, label, weight, frequency, None, None, groups, positive, None, where)
    more = {
        option if place == 0 and not model else f"{option} ({name})": name
        for option, names in ([("--model", model)] if model else [("--old", old or []), ("--new", new or [])])
        for place, name in enumerate(names)
    }
    rows = Rows(files, columns, more, quiet=quiet or as_json)

    def run() -> Change:
        values = rows.collect([*more.values(), rows.options["label"], weight, groups])
        given: dict[str, Any] = {name: rows.options[name] for name in ("weight_type", "positive")}
        return judge(
            {name: Table.of(values, each) for name, each in models.items()},
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
    from calibrant.cli.voice import CommandLine

    voice = CommandLine()
    for line in change.heads(voice):
        console.say(line)
    head, rows = change.table(voice)
    console.table("Differences", head, rows, text=len(head) - 4)
    for line in change.below(voice):
        console.say(line)
