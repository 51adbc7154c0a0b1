"""``calibrant plan``: how many labels a certificate needs."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from calibrant.cli import console, options


class Coverage(StrEnum):
    """What the guarantee covers."""

    simultaneous = "simultaneous"
    marginal = "marginal"


class Scheme(StrEnum):
    """How bins are chosen."""

    umd = "umd"
    umd_original = "umd-original"
    ums = "ums"


def plan(
    labels: Annotated[int | None, typer.Option("--labels", "-n", metavar="N", help="Number of labels.")] = None,
    n_bins: Annotated[int | None, typer.Option("--n-bins", metavar="N", help="Number of bins.")] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", metavar="E", help="Error bound: how far a bin may be off.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", metavar="A", help="1 - confidence.")] = 0.1,
    mode: Annotated[
        Coverage, typer.Option("--coverage", help="Guarantee for every bin at once, or for the bin of a new row.")
    ] = Coverage.simultaneous,
    scheme: Annotated[
        Scheme, typer.Option("--scheme", help="Bins from all rows, as first published, or from a random split.")
    ] = Scheme.umd,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            callback=options.local,
            metavar="FILE",
            show_default=False,
            help="Files with scores, no labels needed: adds expected interval widths by bin.",
        ),
    ] = None,
    score: options.Scores = None,
    classes: Annotated[
        int | None, typer.Option("--classes", metavar="K", show_default=False, help="Number of classes, if several.")
    ] = None,
    notion: options.Notion = None,
    where: options.Where = None,
    as_json: options.Json = False,
) -> None:
    """Plan the labels, bins and error bound of a certificate.

    Pass two of --labels, --n-bins and --epsilon to compute the third.

    With a file of scores, each bin also gets the expected width of its interval, if events occur at the rates that the
    scores state. For several classes pass their number with --classes, or a column of scores for each.

    Example:
      calibrant plan --epsilon 0.05 --n-bins 10
    """
    from calibrant.guarantees.planning import plan as answer

    made = answer(
        labels,
        n_bins,
        epsilon,
        alpha,
        coverage=mode.value,
        scheme=scheme.value,
        scores=_read(scores, score, where),
        n_classes=classes,
        notion="confidence" if notion is None else notion.value,
    )
    if as_json:
        console.show_json(asdict(made))
        return
    for line in str(replace(made, outlook=())).splitlines():  # bins are a table below
        console.say(line)
    if made.outlook:
        rows = [[f"{bin.mean_score:.4g}", f"{bin.rows:,}", f"{bin.expected_width:.4f}"] for bin in made.outlook]
        console.table("Bins of these scores", ["mean score", "expected rows", "interval width"], rows, text=0)


def _read(inputs: list[str] | None, score: list[str] | None, where: str | None) -> Any:
    """The scores of a file in memory; a matrix for several columns."""
    from calibrant.cli.voice import Mistake

    if not inputs:
        for option, value in (("--score", score), ("--where", where)):
            if value is not None:
                raise Mistake(option, "needs a file of scores", f"pass it with --scores, or leave {option} out")
        return None
    import numpy as np

    from calibrant.cli.input.files import connect, find_files, matching_columns, read_rows
    from calibrant.cli.input.numbers import refuse_text
    from calibrant.engine import collect
    from calibrant.export.languages.sql.dialects import quote

    connection, files = connect(), find_files(inputs)
    names = matching_columns(connection, files, score or ["score"], None)
    named: dict[str, str | None] = {"--score" if j == 0 else f"--score ({each})": each for j, each in enumerate(names)}
    rows = read_rows(connection, files, named, numbers=names, where=where)
    for name in names:
        refuse_text(rows, name, "--score")
    found = collect(rows.project(", ".join(quote(name, "duckdb") for name in names)))
    for name in names:
        values = found[name]
        missing = int((values != values).sum()) if values.dtype.kind == "f" else 0
        if missing:
            raise Mistake(
                f"the column {name!r}",
                f"lacks {missing:,} of {len(values):,} scores",
                "exclude these rows with --where",
            )
    return found[names[0]] if len(names) == 1 else np.column_stack([found[name] for name in names])
