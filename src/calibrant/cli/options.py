"""Every option that more than one command has, declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from calibrant.cli import console
from calibrant.cli.exits import Exit


def not_empty(given: Any) -> Any:
    """Refuse the text of a variable that the shell does not have."""
    if given == "" or (isinstance(given, list) and "" in given):
        raise typer.BadParameter("it is empty: give it a value, or leave the option out")
    return given


def local(param: typer.CallbackParam, given: Any) -> Any:
    """Paths as they were given, or decoded where they are ``file://`` addresses; other addresses are refused."""
    if isinstance(given, list):
        return [local(param, each) for each in given]
    if given is None:
        return None
    from calibrant.arrays.paths import local_text
    from calibrant.messages import InputError

    name = param.opts[0] if param.param_type_name == "option" else param.metavar
    try:
        return local_text(not_empty(given), f"{name} {given}")
    except InputError as problem:
        console.complain(str(problem))
        raise typer.Exit(Exit.MISTAKE) from None


class KindName(StrEnum):
    """What scores are."""

    probability = "probability"
    logit = "logit"
    real = "real"


Inputs = Annotated[
    list[str],
    typer.Argument(
        callback=local,
        metavar="FILES",
        show_default=False,
        help="CSV or Parquet files (.csv .tsv .csv.gz .parquet .pq) or globs; or the folder of a tally store.",
    ),
]
Files = Annotated[
    list[str],
    typer.Argument(
        callback=local,
        metavar="FILES",
        show_default=False,
        help="CSV or Parquet files (.csv .tsv .csv.gz .parquet .pq) or globs.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", callback=not_empty, metavar="SQL", help="Only rows for which this holds: 'label IS NOT NULL'."
    ),
]
First = Annotated[
    str | None,
    typer.Option("--from", callback=not_empty, metavar="DAY", help="First day of a tally store, as 2026-03-01."),
]
Last = Annotated[
    str | None, typer.Option("--to", callback=not_empty, metavar="DAY", help="Last day of a tally store, included.")
]
RequireAllDays = Annotated[
    bool, typer.Option("--require-all-days", help="Stop if days of a tally store are missing, instead of a note.")
]

# The defaults of --score and --label are put in later: None tells that they were not given.
Score = Annotated[
    str | None,
    typer.Option("--score", callback=not_empty, metavar="COL", help="Column of scores. [default: score]"),
]
Label = Annotated[
    str | None,
    typer.Option("--label", callback=not_empty, metavar="COL", help="Column of what happened. [default: label]"),
]
Weight = Annotated[str | None, typer.Option("--weight", callback=not_empty, metavar="COL", help="Column of weights.")]
Counts = Annotated[bool, typer.Option("--counts", help="Weights are counts: a row of weight 3 is three rows.")]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", callback=not_empty, metavar="COL", show_default=False, help="Segments; may be given several times."
    ),
]
Time = Annotated[
    str | None, typer.Option("--time", callback=not_empty, metavar="COL", help="When each row was: date or time.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups", callback=not_empty, metavar="COL", help="Rows that depend on each other: patient, customer."
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive", callback=not_empty, metavar="VALUE", help="The label that is the event, when not 0 and 1."
    ),
]
Kind = Annotated[KindName | None, typer.Option("--kind", show_default=False, help="What the scores are.")]

Tolerance = Annotated[
    str,
    typer.Option(
        "--tolerance",
        metavar="A[,B]",
        help="What log-odds (A) and slope (B) may be off by; one number is for both.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


def tolerance_of(text: str) -> tuple[float, float]:
    """What ``--tolerance`` says.

    Examples
    --------
    >>> tolerance_of("0.2"), tolerance_of("0.2,0.1")
    ((0.2, 0.2), (0.2, 0.1))
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(0.0 < number < float("inf") for number in numbers):
        raise typer.BadParameter(
            f"{text!r} is not one or two numbers above 0, as in 0.2 or 0.2,0.1", param_hint="--tolerance"
        )
    return numbers[0], numbers[-1]
