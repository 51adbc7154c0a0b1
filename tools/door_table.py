"""Write the table of doors: which function takes which kind of data, by calling it on small data.

python tools/door_table.py docs/reference/doors.md           # as the site shows it
python tools/door_table.py --full doors.md                   # every argument in every library, Spark included
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import calibrant as cb

ROWS, CLASSES = 160, ("ant", "bee", "cat")

HEAD = """# Which function takes which data

Written by `tools/door_table.py`, which makes every call of these tables on small data when the site is built: "yes"
means that it worked, a number that it was refused with the message below, and "-" that the function has no such
argument, or that it is not tried for this library.

"""
LONG = ("calibrate", "report", "CalibratedClassifier")
"""Functions that take long: further arguments are tried in two libraries only."""


class Foreign(Exception):
    """An error that is not one of Calibrant's own: never acceptable."""


@dataclass(frozen=True)
class Rows:
    """Scores and labels of one kind, with further columns of the rows."""

    kind: str
    scores: np.ndarray
    y: np.ndarray
    sides: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the columns of scores."""
        return ["p"] if self.scores.ndim == 1 else list(CLASSES)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All columns by name, as a frame holds them."""
        scores = self.scores.reshape(len(self.scores), -1)
        made = {name: scores[:, place] for place, name in enumerate(self.names)}
        if self.y.ndim == 1:
            return {**made, "y": self.y, **self.sides}
        return {**made, **{f"y_{name}": self.y[:, j] for j, name in enumerate(CLASSES)}, **self.sides}


def samples() -> dict[str, Rows]:
    """One set of rows of each kind."""
    rng = np.random.default_rng(0)
    sides = {
        "weight": rng.gamma(2.0, size=ROWS),
        "segment": np.array(["north", "south"])[np.arange(ROWS) % 2],
        "group": np.arange(ROWS) % 20,
        "day": np.datetime64("2026-01-01") + np.arange(ROWS) % 12,
    }
    scores = rng.beta(2, 3, ROWS)
    p = rng.dirichlet([2.0, 2.0, 2.0], ROWS)
    drawn = (p.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1).clip(0, 2)
    several = rng.beta(2, 3, (ROWS, 3))
    return {
        "binary": Rows("binary", scores, (rng.random(ROWS) < scores).astype(int), sides),
        "matrix": Rows("matrix", p, np.array(CLASSES)[drawn], sides),
        "multi-label": Rows("multi-label", several, (rng.random((ROWS, 3)) < several).astype(int), sides),
    }


# ------------------------------------------------------------------------------------------------------------ libraries


@dataclass(frozen=True)
class Library:
    """How rows are passed: as arrays of a library, or as a frame with names."""

    name: str
    array: Callable[[np.ndarray, list[str]], Any] | None = None
    frame: Callable[[dict[str, np.ndarray]], Any] | None = None


def libraries(*, spark: bool = False) -> Iterator[Library]:
    """Those that are installed; Spark, which starts a Java process, only if it is asked for."""
    yield Library("array", lambda a, names: a)
    yield Library("list", lambda a, names: a.tolist())
    with suppress(ImportError):
        pd = import_module("pandas")
        yield Library("pandas", lambda a, names: pd.Series(a) if a.ndim == 1 else pd.DataFrame(a, columns=names))
        yield Library("pandas frame", frame=pd.DataFrame)
    with suppress(ImportError):
        pl = import_module("polars")
        yield Library("polars", lambda a, names: pl.Series(a) if a.ndim == 1 else pl.DataFrame(a, schema=names))
        yield Library("polars frame", frame=pl.DataFrame)
        yield Library("polars lazy", frame=lambda columns: pl.DataFrame(columns).lazy())
    with suppress(ImportError):
        pa = import_module("pyarrow")

        def array(a: np.ndarray, names: list[str]) -> Any:
            return pa.array(a) if a.ndim == 1 else pa.table({name: a[:, j] for j, name in enumerate(names)})

        yield Library("pyarrow", array)
        yield Library("pyarrow frame", frame=pa.table)
        with suppress(ImportError):
            duckdb = import_module("duckdb")
            yield Library("DuckDB", frame=lambda columns: duckdb.from_arrow(pa.table(columns)))
    if spark:
        with suppress(ImportError):
            session = _session()
            yield Library(
                "Spark", frame=lambda columns: session.createDataFrame(import_module("pandas").DataFrame(columns))
            )
    with suppress(ImportError):
        torch = import_module("torch")
        yield Library("torch", lambda a, names: torch.tensor(a) if a.dtype.kind in "biuf" else a)


def _session() -> Any:
    builder = import_module("pyspark.sql").SparkSession.builder.master("local[1]")
    for option in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(option, "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


# ---------------------------------------------------------------------------------------------------------------- doors

Call = Callable[..., Any]


@dataclass(frozen=True)
class Door:
    """A function of scores and labels, and the names of its further arguments."""

    name: str
    call: Call
    takes: Callable[..., Any]
    labels: bool = True

    def has(self, argument: str) -> bool:
        """Whether it has this argument."""
        taken = signature(self.takes).parameters
        return argument in taken


def _fit(scores: Any, y: Any = None, sample_weight: Any = None, **sides: Any) -> Any:
    method = cb.TemperatureScaling() if _width(scores) > 1 else cb.PlattScaling()
    return method.fit(scores, y, sample_weight, **sides)


def _width(scores: Any) -> int:
    if isinstance(scores, list):
        return len(scores[0]) if scores and isinstance(scores[0], list) else 1
    shape = getattr(scores, "shape", None)
    return shape[1] if isinstance(shape, tuple) and len(shape) == 2 else 1


def _transform(scores: Any, **named: Any) -> Any:
    data = samples()
    one = isinstance(named["score"], str) if "score" in named else _width(scores) == 1
    rows = data["binary" if one else "matrix"]
    return _fit(rows.scores, rows.y).transform(scores, **named)


def _crossfit(scores: Any, y: Any, sample_weight: Any = None, **sides: Any) -> Any:
    method = cb.TemperatureScaling() if _width(scores) > 1 else cb.PlattScaling()
    return cb.crossfit(method, scores, y, sample_weight, **sides)


def _wrapped(scores: Any, y: Any, sample_weight: Any = None, **sides: Any) -> Any:
    """The scores stand for features here."""
    features = np.asarray(scores).reshape(len(np.asarray(y)), -1) if not hasattr(scores, "columns") else scores
    model = cb.CalibratedClassifier(LogisticRegression(), cb.PlattScaling(), cv=2)
    return model.fit(features, y, sample_weight, **sides)


def doors(*, quick: bool = False) -> list[Door]:
    """The doors; ``quick`` leaves out those that take long."""
    metrics = cb.metrics
    few = [
        Door("check", cb.check, cb.check),
        Door("compare", lambda scores, y, *a, **k: cb.compare(scores, scores, y, *a, **k), cb.compare),
        Door("PlattScaling, TemperatureScaling: fit", _fit, cb.PlattScaling.fit),
        Door("transform", _transform, cb.PlattScaling.transform, labels=False),
        Door("crossfit", _crossfit, cb.crossfit),
        Door("Tally.from_arrays", cb.Tally.from_arrays, cb.Tally.from_arrays),
        Door("metrics.ece", metrics.ece, metrics.ece),
        Door("metrics.log_loss", metrics.log_loss, metrics.log_loss),
        Door("metrics.auc", metrics.auc, metrics.auc),
        Door("metrics.recalibration", metrics.recalibration, metrics.recalibration),
        Door("metrics.spiegelhalter", metrics.spiegelhalter, metrics.spiegelhalter),
        Door(
            "metrics.interval",
            lambda *a, **k: metrics.interval("log_loss", *a, repetitions=20, **k),
            metrics.interval,
        ),
        Door("ReliabilityDisplay", cb.ReliabilityDisplay.from_predictions, cb.ReliabilityDisplay.from_predictions),
    ]
    if quick:
        return few
    return [
        *few,
        Door("calibrate", cb.calibrate, cb.calibrate),
        Door("report", cb.report, cb.report),
        Door("CalibratedClassifier", _wrapped, cb.CalibratedClassifier.fit),
    ]


# ---------------------------------------------------------------------------------------------------------------- trial

SIDES = {"weights": ("sample_weight", "weight"), "by": ("by", "segment"), "groups": ("groups", "group")}
SIDES["time"] = ("time", "day")


@dataclass(frozen=True)
class Outcome:
    """What a call gave: ``refusal`` is None where it worked, and ``absent`` where there is no such argument."""

    refusal: str | None = None
    absent: bool = False


def attempt(call: Callable[[], Any]) -> Outcome:
    """Make a call; an error of another library raises :class:`Foreign`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            if type(error).__module__.split(".")[0] != "calibrant":
                raise Foreign(f"{type(error).__module__}.{type(error).__name__}: {error}") from error
            return Outcome(str(error))
    return Outcome()


def trial(door: Door, library: Library, rows: Rows, side: str | None = None) -> Outcome:
    """One call: a door, a library, a kind of rows, and one further argument."""
    sides = {}
    if side is not None:
        argument, column = SIDES[side]
        if not door.has(argument):
            return Outcome(absent=True)
        sides = {argument: column}
    if library.frame is not None:
        if not door.has("score") and not door.has("name"):
            return Outcome(absent=True)
        frame = library.frame(rows.columns)
        names: Any = rows.names[0] if len(rows.names) == 1 else rows.names
        if not door.labels:
            return attempt(lambda: door.call(frame, score=names, name="calibrated"))
        label = "y" if rows.y.ndim == 1 else [f"y_{name}" for name in CLASSES]
        return attempt(lambda: door.call(frame, score=names, label=label, **sides))
    assert library.array is not None
    scores = library.array(rows.scores, list(CLASSES))
    if not door.labels:
        return attempt(lambda: door.call(scores))
    labels = library.array(rows.y, list(CLASSES)) if rows.y.dtype.kind != "U" or library.name != "torch" else rows.y
    given = {name: library.array(rows.sides[column], []) for name, column in sides.items()}
    return attempt(lambda: door.call(scores, labels, **given))


# ---------------------------------------------------------------------------------------------------------------- table


@dataclass
class Cells:
    """All calls that were made, and what they gave."""

    works: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    foreign: list[str] = field(default_factory=list)

    def cell(self, door: Door, library: Library, rows: Rows, side: str | None = None) -> str:
        """Make one call, and what the table says about it."""
        try:
            found = trial(door, library, rows, side)
        except Foreign as error:
            self.foreign.append(f"{door.name}, {library.name}, {rows.kind}, {side or 'scores and labels'}: {error}")
            return "**error**"
        if found.absent:
            return "-"
        if found.refusal is None:
            self.works += 1
            return "yes"
        self.refused += 1
        return f"[{self.reasons.setdefault(found.refusal, len(self.reasons) + 1)}]"

    def __str__(self) -> str:
        """The numbers of calls."""
        return (
            f"{self.works + self.refused + len(self.foreign):,} calls: {self.works:,} work, {self.refused:,} are "
            f"refused with one of {len(self.reasons):,} messages, {len(self.foreign):,} end in another error."
        )


def table(*, quick: bool = False, full: bool = False, known: Sequence[Library] = ()) -> tuple[str, Cells]:
    """The page, and what the calls gave; of the ``known`` libraries only, if these are given."""
    known = known or list(libraries(spark=full))
    cells, parts = Cells(), []
    two = [known[0], *(each for each in known if each.name == "pandas frame")]
    for kind, rows in samples().items():
        parts.append(f"## {kind.capitalize()}\n")
        for side in (None, *SIDES):
            shown = known if side is None or full else two
            titles = ["" if side is None else f"with {side}", *(each.name for each in shown)]
            parts += [_row(titles), _row(["---"] * len(titles))]
            for door in doors(quick=quick):
                tried = known if side is None or door.name not in LONG else two
                line = [cells.cell(door, each, rows, side) if each in tried else "-" for each in shown]
                parts.append(_row([door.name, *line]))
            parts.append("")
    parts += ["## Messages\n", *(f"{number}. {text}" for text, number in cells.reasons.items()), ""]
    return "\n".join([HEAD, f"{cells}\n", *parts]), cells


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(path: Path, *, quick: bool = False, full: bool = False) -> Cells:
    """Write the page; returns what the calls gave, of which none may be an error of another library."""
    text, cells = table(quick=quick, full=full)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return cells


if __name__ == "__main__":
    options = {name: f"--{name}" in sys.argv for name in ("quick", "full")}
    found = write(Path(sys.argv[-1]), **options)
    sys.stdout.write("\n".join([*found.foreign, str(found)]) + "\n")
    sys.exit(bool(found.foreign))
