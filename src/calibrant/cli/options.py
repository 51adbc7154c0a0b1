"""Options shared by several commands, declared once.

A command may take a dataclass of options, such as :class:`Columns`: :func:`spread` makes an option of each field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints

import typer

from calibrant.cli import console
from calibrant.cli.exits import Exit


def not_empty(given: Any) -> Any:
    """Reject an empty text, such as that of an undefined shell variable."""
    if given == "" or (isinstance(given, list) and "" in given):
        raise typer.BadParameter("value is empty: pass a value, or leave the option out")
    return given


def local(param: typer.CallbackParam, given: Any) -> Any:
    """Paths as given, decoded if they are ``file://`` URLs; other URLs are rejected."""
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
    """Types of scores."""

    probability = "probability"
    logit = "logit"
    real = "real"


class NotionName(StrEnum):
    """What is judged of several classes."""

    confidence = "confidence"
    class_wise = "class-wise"
    top_label = "top-label"


class YoungRows(StrEnum):
    """What to do with rows whose horizon is not over."""

    drop = "drop"
    weight = "weight"


def path(*names: str, metavar: str = "FILE", help_: str) -> Any:
    """An option for the path of a file or folder."""
    return typer.Option(*names, callback=local, metavar=metavar, help=help_)


def out(help_: str, metavar: str = "FILE") -> Any:
    """The option for the output file."""
    return path("--out", "-o", metavar=metavar, help_=help_)


def text(name: str, metavar: str, help_: str) -> Any:
    """An option for a nonempty text, or a list of such."""
    return typer.Option(name, callback=not_empty, metavar=metavar, show_default=False, help=help_)


def _files(help_: str) -> Any:
    return typer.Argument(callback=local, metavar="FILES", show_default=False, help=help_)


FORMATS = "CSV, Parquet or Excel files"
READABLE = f"{FORMATS} (.csv .tsv .csv.gz .tsv.gz .parquet .pq .xlsx) or globs"
Inputs = Annotated[list[str], _files(f"{READABLE}; or the folder of a tally store.")]
Files = Annotated[list[str], _files(f"{READABLE}.")]
Where = Annotated[
    str | None, text("--where", "SQL", "Use only rows that satisfy this condition, such as 'label IS NOT NULL'.")
]
First = Annotated[str | None, text("--from", "DAY", "First day of a tally store, such as 2026-03-01.")]
Last = Annotated[str | None, text("--to", "DAY", "Last day of a tally store, inclusive.")]
RequireAllDays = Annotated[
    bool, typer.Option("--require-all-days", help="Fail if days of a tally store are missing; otherwise, print a note.")
]

# The defaults of --score and --label are filled in later: None means that they were not given.
Score = Annotated[str | None, text("--score", "COL", "Column of scores. [default: score]")]
Scores = Annotated[
    list[str] | None,
    text("--score", "COL", "Column of scores; for several classes, repeat it or use a glob: 'p_*'. [default: score]"),
]
Label = Annotated[str | None, text("--label", "COL", "Column of observed labels. [default: label]")]
Weight = Annotated[str | None, text("--weight", "COL", "Column of weights.")]
Frequency = Annotated[bool, typer.Option("--frequency", help="Weights are counts: weight 3 stands for 3 rows.")]
By = Annotated[list[str] | None, text("--by", "COL", "Column of segments; repeat for several.")]
Time = Annotated[str | None, text("--time", "COL", "Column with the date or time of each row.")]
Groups = Annotated[
    str | None, text("--groups", "COL", "Column of groups of dependent rows, such as patient or customer.")
]
Notion = Annotated[
    NotionName | None,
    typer.Option("--notion", show_default=False, help="Several classes: what is judged. [default: confidence]"),
]
Event = Annotated[
    str | None, text("--event", "NAME", "What the event is called in the text, such as 'correct answer'.")
]
Positive = Annotated[str | None, text("--positive", "VALUE", "Label of the event, if labels are not 0 and 1.")]
AsOf = Annotated[
    str | None, text("--as-of", "DAY", "Day of the evaluation; rows whose --horizon ends later are left out.")
]
Horizon = Annotated[
    str | None,
    text("--horizon", "12mo", "How long events are counted after --time: 12mo, a number of days, or a column of days."),
]
LabelTime = Annotated[
    str | None,
    text("--label-time", "COL", "Column with the date of the event; those after --horizon do not count."),
]
Young = Annotated[
    YoungRows | None,
    typer.Option(
        "--young",
        show_default=False,
        help="Rows whose --horizon is not over: drop them, or weight them for events still to come, as estimated from "
        "the delays in --label-time (in memory). [default: drop]",
    ),
]
ScoreType = Annotated[KindName | None, typer.Option("--score-type", show_default=False, help="Type of the scores.")]

Tolerance = Annotated[
    str,
    typer.Option(
        "--tolerance",
        metavar="A[,B]",
        help="Tolerated error of log-odds (A) and slope (B); one number applies to both.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]


@dataclass(frozen=True)
class Columns:
    """Options that assign columns to roles and select rows; ``source`` and ``features`` are set by single commands."""

    scores: Scores = None
    label: Label = None
    weight: Weight = None
    frequency: Frequency = False
    by: By = None
    time: Time = None
    groups: Groups = None
    positive: Positive = None
    score_type: ScoreType = None
    where: Where = None
    source: str | None = None
    features: tuple[str, ...] = ()
    as_of: AsOf = None
    horizon: Horizon = None
    label_time: LabelTime = None
    young: Young = None

    def with_defaults(self) -> Columns:
        """With the default columns score and label where none are given."""
        return replace(self, scores=self.scores or ["score"], label="label" if self.label is None else self.label)

    @property
    def score(self) -> str | None:
        """The column of scores; the first of them, of several classes."""
        return self.scores[0] if self.scores else None

    @property
    def several(self) -> bool:
        """Whether there is more than one column of scores."""
        return self.scores is not None and len(self.scores) > 1

    @property
    def given(self) -> list[str]:
        """Options that were given."""
        names = {"scores": "score"}
        return [f"--{names.get(name, name).replace('_', '-')}" for name, value in vars(self).items() if value]

    @property
    def named(self) -> dict[str, str | None]:
        """Columns by option."""
        named = {f"--{role}": getattr(self, role) for role in ("score", "label", "weight", "time", "groups", "source")}
        named["--label-time"] = self.label_time
        named |= {f"--score ({name})": name for name in (self.scores or ())[1:]}
        named |= {f"--features {name}": name for name in self.features}
        return named | {"--by" if place == 0 else f"--by ({name})": name for place, name in enumerate(self.by or ())}


@dataclass(frozen=True)
class DayRange:
    """Selected days of a tally store."""

    first: First = None
    last: Last = None
    require_all_days: RequireAllDays = False


Meta = Annotated[
    list[str] | None,
    text("--meta", "KEY=VALUE", "Entry to record or show with the result, such as model='PD retail'; may be repeated."),
]


def pairs(given: list[str] | None) -> dict[str, str]:
    """The entries of ``--meta`` by key."""
    split = [entry.partition("=") for entry in given or ()]
    odd = next((entry for entry, (key, sign, _) in zip(given or (), split, strict=True) if not (key and sign)), None)
    if odd is not None:
        raise typer.BadParameter(f"{odd!r} has no key: pass KEY=VALUE, such as ticket=17", param_hint="--meta")
    keys = [key.strip() for key, _, _ in split]
    twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if twice is not None:
        raise typer.BadParameter(f"{twice!r} is given twice: pass each key once", param_hint="--meta")
    return {key: value.strip() for key, (_, _, value) in zip(keys, split, strict=True)}


@dataclass(frozen=True)
class Origin:
    """Where a map comes from, as recorded in its document."""

    model_name: Annotated[str | None, text("--model-name", "NAME", "Name of the model, to record.")] = None
    model_version: Annotated[str | None, text("--model-version", "V", "Version of the model, to record.")] = None
    parent: Annotated[
        str | None, path("--parent", metavar="MAP.json", help_="Map that this one replaces, to record its fingerprint.")
    ] = None
    fitted_at: Annotated[
        str | None,
        text("--fitted-at", "TIME", "Time of the fit, with its time zone, to record. [default: now, in UTC]"),
    ] = None
    meta: Meta = None

    @property
    def entries(self) -> dict[str, str]:
        """The entries of ``--meta`` by key."""
        return pairs(self.meta)


EXCEL: ContextVar[tuple[str | None, int | None]] = ContextVar("excel", default=(None, None))
"""The sheet, and the line of the names of its columns, of every command that reads files."""

SHEET = Annotated[str | None, text("--sheet", "NAME", "Sheet of an Excel file. [default: the first]")]
HEADER_ROW = Annotated[
    int | None,
    typer.Option(
        "--header-row", metavar="N", min=1, show_default=False,
        help="Excel: line with the names of the columns. [default: found]",
    ),
]  # fmt: skip


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its dataclass parameters that is declared as an option."""
    types = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    inside: dict[str, list[str]] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = types[parameter.name]
        if is_dataclass(kind):
            declared = get_type_hints(kind, include_extras=True)
            options = [field for field in fields(kind) if hasattr(declared[field.name], "__metadata__")]
            inside[parameter.name] = [field.name for field in options]
            given = [(field.name, field.default, declared[field.name]) for field in options]
        else:
            given = [(parameter.name, parameter.default, kind)]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_parsed(annotation))
            for name, default, annotation in given
        ]

    if "files" in types:
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in (("sheet", SHEET), ("header_row", HEADER_ROW))
        ]

    def run(**options: Any) -> None:
        EXCEL.set((options.pop("sheet", None), options.pop("header_row", None)))
        built = {
            name: types[name](**{field: options.pop(field) for field in fields}) for name, fields in inside.items()
        }
        command(**options, **built)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _parsed(annotation: Any) -> Any:
    """The annotation of an option; if its values are an enum, it is read by :func:`one_of`."""
    kinds = [kind for kind in _leaves(annotation) if isinstance(kind, type) and issubclass(kind, StrEnum)]
    for option in getattr(annotation, "__metadata__", ()) if kinds else ():
        option.parser = one_of(kinds[0])
        option.metavar = option.metavar or f"[{'|'.join(kinds[0])}]"
    return annotation


def _leaves(annotation: Any) -> list[Any]:
    """The types inside ``Annotated``, ``list`` and ``| None``."""
    inside = get_args(annotation)[:1] if hasattr(annotation, "__metadata__") else get_args(annotation)
    return [leaf for each in inside for leaf in _leaves(each)] if inside else [annotation]


def one_of(names: type[StrEnum]) -> Callable[[str], StrEnum]:
    """A reader of the names of an enum that suggests the nearest name.

    Examples
    --------
    >>> try:
    ...     one_of(KindName)("logits")
    ... except typer.BadParameter as problem:
    ...     print(problem.message)
    unknown value 'logits': did you mean 'logit'? Values: probability, logit, real
    """

    def read(text: str) -> StrEnum:
        values = [name.value for name in names]
        if text in values:
            return names(text)
        from calibrant.arrays.columns import nearest  # here, so that the help loads no numpy

        near = nearest(text.replace("_", "-"), values)
        meant = f"did you mean {near!r}? Values:" if near else "pass one of"
        raise typer.BadParameter(f"unknown value {text!r}: {meant} {', '.join(values)}")

    return read


def tolerance_of(text: str) -> float | tuple[float, float]:
    """Parse ``--tolerance``.

    Examples
    --------
    >>> tolerance_of("0.2"), tolerance_of("0.2,0.1")
    (0.2, (0.2, 0.1))
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or not all(0.0 < number < float("inf") for number in numbers):
        raise typer.BadParameter(
            f"{text!r} is not one or two positive numbers, such as 0.2 or 0.2,0.1", param_hint="--tolerance"
        )
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
