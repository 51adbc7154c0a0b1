"""``calibrant plan``: how many labels, before they are bought."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from calibrant.cli import console, options


class Mode(StrEnum):
    """What the promise is about."""

    simultaneous = "simultaneous"
    marginal = "marginal"


class Scheme(StrEnum):
    """How the bins will be made."""

    umd = "umd"
    umd_original = "umd-original"
    ums = "ums"


def plan(
    labels: Annotated[int | None, typer.Option("--labels", "-n", metavar="N", help="Number of labels.")] = None,
    n_bins: Annotated[int | None, typer.Option("--n-bins", metavar="N", help="Number of bins.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", metavar="E", help="How far off a bin may be.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", metavar="A", help="1 - confidence.")] = 0.1,
    mode: Annotated[
        Mode, typer.Option("--mode", help="Every bin at once, or the bin of a new row.")
    ] = Mode.simultaneous,
    scheme: Annotated[
        Scheme, typer.Option("--scheme", help="Bins from all rows, as first published, or from a part of the rows.")
    ] = Scheme.umd,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            callback=options.local,
            metavar="FILE",
            show_default=False,
            help="Scores, no labels needed: widths by bin.",
        ),
    ] = None,
    score: options.Score = None,
    where: options.Where = None,
    as_json: options.Json = False,
) -> None:
    """Plan a promise: of labels, bins and error, two give the third.

    With a file of scores each bin also gets the width that its interval will have, if events come as the scores say.

    Example:
      calibrant plan --epsilon 0.05 --n-bins 10
    """
    from calibrant.guarantees.planning import plan as answer

    made = answer(
        labels,
        n_bins,
        epsilon,
        alpha,
        mode=mode.value,
        scheme=scheme.value,
        scores=_read(scores, score, where),
    )
    if as_json:
        console.show_json(asdict(made))
        return
    console.say(str(made).splitlines()[0])
    if made.outlook:
        rows = [[f"{bin.mean_score:.4g}", f"{bin.rows:,}", f"{bin.expected_width:.4f}"] for bin in made.outlook]
        console.table("Bins of these scores", ["mean score", "about rows", "interval width"], rows, text=0)


def _read(inputs: list[str] | None, score: str | None, where: str | None) -> Any:
    """The scores of a file in memory."""
    from calibrant.cli.voice import Mistake

    if not inputs:
        for option, value in (("--score", score), ("--where", where)):
            if value is not None:
                raise Mistake(option, "is about a file of scores", f"name it with --scores, or leave {option} out")
        return None
    from calibrant.cli.files import connect, find_files, read_rows
    from calibrant.cli.numbers import refuse_text
    from calibrant.engine import collect
    from calibrant.export.sql.dialects import quote

    score = "score" if score is None else score
    rows = read_rows(connect(), find_files(inputs), {"--score": score}, numbers=[score], where=where)
    refuse_text(rows, score, "--score")
    values = collect(rows.project(f"{quote(score, 'duckdb')} AS score"))["score"]
    missing = int((values != values).sum()) if values.dtype.kind == "f" else 0
    if missing:
        raise Mistake(
            f"the column {score!r}", f"lacks {missing:,} of {len(values):,} scores", "leave these rows out with --where"
        )
    return values
