"""Input of a command: the rows of files, or the days of a tally store."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from calibrant.arrays import check_rows
from calibrant.arrays.labels import labels_minus_one
from calibrant.cli import console
from calibrant.cli.input.due import matured
from calibrant.cli.input.files import connect, find_files, is_store, matching_columns, read_rows
from calibrant.cli.input.numbers import MISSING, leave_out, refuse_text, type_of, uncounted, with_type
from calibrant.cli.options import Columns, DayRange
from calibrant.cli.voice import CommandLine, Mistake
from calibrant.engine import TallyStore, collect
from calibrant.engine.store.days import MissingDays, span
from calibrant.engine.unusable import UnusableRows
from calibrant.export.languages.sql.dialects import quote
from calibrant.messages import CalibrantWarning, InputError, Note, Phrase, Setting
from calibrant.numerics import Grid
from calibrant.tallies import GroupedTally, Tally

Result = TypeVar("Result")

LOOKED_AT = 10_000
"""Number of rows inspected to explain an error."""

MOST_DISTINCT = 1 << 16
"""Log-odds and other real-valued scores are counted on a grid if there are more rows than this."""


class Rows:
    """Rows of files, in DuckDB."""

    def __init__(
        self,
        inputs: Sequence[str],
        columns: Columns,
        more_scores: Mapping[str, str | None] | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        of = columns.with_defaults()
        if of.frequency and of.weight is None:
            raise Mistake("--frequency", "needs weights", "pass their column with --weight, or leave --frequency out")
        self.quiet = quiet
        self.connection = connect()
        more = dict(more_scores or {})
        files = find_files(inputs)
        of = replace(of, scores=matching_columns(self.connection, files, of.scores or (), of.label))
        # labels of several classes are names, not numbers
        numbers = (*(of.scores or ()), None if of.several else of.label, of.weight, *more.values())

        def read() -> Any:
            named = more | of.named
            rows = read_rows(self.connection, files, named, numbers=numbers, whole=of.features, where=of.where)
            scored = list(more.items()) or [("--score", name) for name in of.scores or ()]
            for option, name in (*scored, ("--weight", of.weight)):
                if name is not None:
                    refuse_text(rows, name, option.split(" (")[0])
            zoned = [name for name in rows.columns if type_of(rows, name) == "TIMESTAMPTZ_NS"]
            return matured(with_type(rows, zoned, "TIMESTAMPTZ"), of, self.connection)  # not known to narwhals

        self.data, self.columns = console.work(read, self.connection, words="Opening files", quiet=quiet)

    def _type(self, name: str | None) -> str:
        return type_of(self.data, str(name))

    @cached_property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``fit``; with ``by``, those of ``check`` and ``report``."""
        of = self.columns
        return {
            "score": of.scores if of.several else of.score,
            "label": of.label,
            "sample_weight": of.weight,
            "weight_type": "frequency" if of.frequency else "importance",
            "time": of.time,
            "groups": of.groups,
            "positive": self._positive(),
            "score_type": None if of.score_type is None else str(of.score_type),
        }

    @property
    def by(self) -> dict[str, Any]:
        """The segments as a keyword argument."""
        return {"by": list(self.columns.by)} if self.columns.by else {}

    def collect(self, names: Iterable[str | None]) -> dict[str, Any]:
        """Load columns into memory."""
        wanted = dict.fromkeys(name for name in names if name is not None)
        return collect(self.data.project(", ".join(quote(name, "duckdb") for name in wanted)))

    def grid(self, *, always: bool = False) -> Grid | None:
        """A grid over the range of real-valued scores, if they are many or ``always``; None for probabilities."""
        if self.columns.score_type in (None, "probability"):
            return None
        s = quote(str(self.columns.score), "duckdb")
        finite = self.data.filter(f"isfinite(CAST({s} AS DOUBLE))")
        ((rows, low, high),) = finite.aggregate(f"count(*), min({s})::DOUBLE, max({s})::DOUBLE").fetchall()
        return Grid(low=low, high=high) if (always or rows > MOST_DISTINCT) and low < high else None

    def run(self, job: Callable[[], Result]) -> Result:
        """Run a job on the rows with a progress bar; its errors refer to columns and options."""
        try:
            return console.work(job, self.connection, words="Counting rows", quiet=self.quiet)
        except Mistake:
            raise
        except InputError as problem:
            if self.columns.several:
                raise self._mistake(problem) from None
            closer = self._look_closely()
            if not isinstance(closer, Note):
                raise self._mistake(closer or problem) from None
        console.note(str(closer))
        self.options["positive"] = 1  # engines need this, arrays do not
        return self.run(job)

    def _mistake(self, error: InputError) -> Mistake:
        """An error of the library in terms of columns and options."""
        if isinstance(error, UnusableRows):
            return uncounted(error.found)
        of = self.columns
        return Mistake.of(error, CommandLine(None if of.several else of.score, of.label))

    def _look_closely(self) -> InputError | Note | None:
        """Run the array checks on some rows: they detect percentages, swapped columns, labels 1 and 2.

        A returned note says that labels are -1 and 1, which engines need to know.
        """
        names = [quote(str(name), "duckdb") for name in (self.columns.score, self.columns.label)]
        whole = " AND ".join(f"{name} IS NOT NULL" for name in names)
        if self._type(self.columns.score) in ("DOUBLE", "FLOAT"):
            whole += f" AND isfinite({names[0]})"
        some = collect(self.data.filter(whole).limit(LOOKED_AT).project(f"{names[0]} AS s, {names[1]} AS y"))
        if not len(some["s"]):
            return None
        kind: Any = self.columns.score_type
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            try:
                found = check_rows(some["s"], some["y"], positive=self._positive(), score_type=kind)
            except InputError as problem:
                return self._missing_label(some["y"].tolist()) or problem
        converted = next((each for each in found.notes if each.code == labels_minus_one.code), None)
        if converted is not None and self.options["positive"] is None:
            return converted
        if found.score_type == "probability" or kind is not None:
            return None
        low, high = float(found.scores.min()), float(found.scores.max())
        are = "log-odds" if found.score_type == "logit" else "scores of another type"
        fix = Phrase(
            "if they are {are}, pass {score_type}", are=are, score_type=Setting("score_type", found.score_type)
        )
        return InputError("scores", f"has values from {low:.6g} to {high:.6g}, outside [0, 1]", fix)

    def _missing_label(self, values: list[Any]) -> Mistake | None:
        """The error about a marker of missing labels that looks like a third label."""
        label, found = str(self.columns.label), set(values)
        words = sorted(value for value in found if isinstance(value, str) and value.strip().lower() in MISSING)
        if not words or len(found) < 3:
            return None
        return Mistake(
            f"the column {label!r} (--label)", f"contains {words[0]!r} among labels", leave_out(label, words[0])
        )

    def _positive(self) -> Any:
        """The value of ``--positive``, in the type of the labels."""
        text, kind = self.columns.positive, self._type(self.columns.label)
        if text is None or kind == "VARCHAR":
            return text
        kind = "DOUBLE" if kind.startswith("DECIMAL") else kind
        ((value,),) = self.connection.execute(f"SELECT TRY_CAST(? AS {kind})", [text]).fetchall()
        if value is None:
            raise Mistake(
                f"--positive {text}", "cannot be a label", f"the column {self.columns.label!r} has the type {kind}"
            )
        return value


class Days:
    """Days of a tally store; its columns are fixed."""

    def __init__(self, path: str, columns: Columns, days: DayRange, *, quiet: bool = False) -> None:
        taken = columns.given
        if taken:
            raise Mistake(path, "is a tally store, whose columns are fixed", f"leave {taken[0]} out")
        self.quiet = quiet
        self.store = TallyStore(path)
        try:
            window = self.store.window(days.first, days.last, require_all_days=days.require_all_days)
        except MissingDays as problem:
            raise Mistake("--require-all-days", problem.problem, "add the missing days, or leave it out") from None
        self.data: Tally | GroupedTally = window
        low, high = span(self.store.days, days.first, days.last)
        stored = [str(day) for day in self.store.days if low <= day <= high]
        self.days: tuple[str, str] = (stored[0], stored[-1])
        """First and last stored day of the window."""
        self.options: dict[str, Any] = {}
        self.by: dict[str, Any] = {}

    def run(self, job: Callable[[], Result]) -> Result:
        """Run a job on the tallies."""
        return console.work(job, words="Working", quiet=self.quiet)

    def total(self) -> Tally:
        """All segments together."""
        return self.data.total() if isinstance(self.data, GroupedTally) else self.data


def open_source(inputs: Sequence[str], columns: Columns, days: DayRange, *, quiet: bool = False) -> Rows | Days:
    """The rows of files, or the days of a tally store."""
    store = next((path for path in inputs if is_store(path)), None)
    if store is not None:
        if len(inputs) > 1:
            raise Mistake(store, "is a tally store", "pass it alone")
        return Days(store, columns, days, quiet=quiet)
    if days.first is not None or days.last is not None:
        raise Mistake("--from and --to", "apply to a tally store, and these are files", "use --where")
    if days.require_all_days:
        raise Mistake("--require-all-days", "applies to a tally store, and these are files", "leave it out")
    return Rows(inputs, columns, quiet=quiet)
