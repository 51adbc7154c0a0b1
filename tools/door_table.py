"""Write the table of doors: which function takes which kind of data, by calling it on small data.

    python tools/door_table.py docs/reference/doors.md       # as the site shows it
    python tools/door_table.py --full --store                # every argument in every library, Spark included
    python tools/door_table.py --full --only torch --store   # in an environment with torch (make torch)

The site is built without Spark and torch: it shows what the last full run stored in `docs/doors.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import calibrant as cb

ROWS, CLASSES = 160, ("ant", "bee", "cat")

STORE = Path(__file__).parents[1] / "docs" / "doors.json"

HEAD = """# Which function takes which data

Written by `tools/door_table.py`, which makes the calls of these tables on small data when the site is built; those of
libraries that are too large for that were made before, on the day that is named below. "yes" means that the call
worked, a number that it was refused with the message below, and "-" that the function has no such argument, or that it
is not tried for this library.

"""
LONG, TWO = ("calibrate", "report", "CalibratedClassifier"), ("array", "pandas frame")
"""Functions that take long: further arguments are tried in two libraries only."""

PACKAGES = {
    "array": "numpy",
    "pandas": "pandas",
    "pandas frame": "pandas",
    "polars": "polars",
    "polars frame": "polars",
}
PACKAGES |= {"polars lazy": "polars", "pyarrow": "pyarrow", "pyarrow frame": "pyarrow", "DuckDB": "duckdb"}
PACKAGES |= {"Spark": "pyspark", "torch": "torch"}
ORDER = ("array", "list", *list(PACKAGES)[1:])
"""The package of each library, and the order of the columns."""


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


def _compare(scores: Any, y: Any = None, sample_weight: Any = None, *, score: Any = None, **sides: Any) -> Any:
    """A model beside itself."""
    if score is not None:
        return cb.compare(scores, score={"one": score, "other": score}, sample_weight=sample_weight, **sides)
    return cb.compare(scores, scores, y, sample_weight, **sides)


def doors(*, quick: bool = False) -> list[Door]:
    """The doors; ``quick`` leaves out those that take long."""
    metrics = cb.metrics
    few = [
        Door("check", cb.check, cb.check),
        Door("compare", _compare, cb.compare),
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

Key = tuple[str, str, str, str]
"""The kind of rows, the further argument or "", the door and the library."""

YES, ABSENT, FOREIGN = "yes", "-", "**error** "


@dataclass
class Cells:
    """What each call gave: ``yes``, ``-`` without a call, or the message of the refusal."""

    given: dict[Key, str] = field(default_factory=dict)

    def make(self, door: Door, library: Library, rows: Rows, side: str | None = None) -> None:
        """Make one call."""
        try:
            found = trial(door, library, rows, side)
            told = ABSENT if found.absent else YES if found.refusal is None else found.refusal
        except Foreign as error:
            told = f"{FOREIGN}{error}"
        self.given[rows.kind, side or "", door.name, library.name] = told

    @property
    def works(self) -> int:
        """How many calls work."""
        return sum(told == YES for told in self.given.values())

    @property
    def reasons(self) -> dict[str, int]:
        """The messages of refusals, with their numbers."""
        told = [each for each in self.given.values() if each not in (YES, ABSENT) and not each.startswith(FOREIGN)]
        return {text: number for number, text in enumerate(dict.fromkeys(told), 1)}

    @property
    def refused(self) -> int:
        """How many calls are refused with a message of Calibrant's own."""
        reasons = self.reasons
        return sum(told in reasons for told in self.given.values())

    @property
    def foreign(self) -> list[str]:
        """The calls that end in an error of another library, with the error."""
        return [f"{', '.join(key)}: {told}" for key, told in self.given.items() if told.startswith(FOREIGN)]

    def __str__(self) -> str:
        """The numbers of calls."""
        return (
            f"{self.works + self.refused + len(self.foreign):,} calls: {self.works:,} work, {self.refused:,} are "
            f"refused with one of {len(self.reasons):,} messages, {len(self.foreign):,} end in another error."
        )


def run(*, quick: bool = False, full: bool = False, known: Sequence[Library] = ()) -> Cells:
    """Make the calls; of the ``known`` libraries only, if these are given."""
    known = known or list(libraries(spark=full))
    cells = Cells()
    for rows in samples().values():
        for side in (None, *SIDES):
            for door in doors(quick=quick):
                every = side is None or (full and door.name not in LONG)
                for library in known:
                    if every or library.name in TWO:
                        cells.make(door, library, rows, side)
    return cells


def page(cells: Cells, stored: Stored | None = None) -> str:
    """The text of the page: calls that were made now, and stored ones of other libraries."""
    given = dict(cells.given)
    own = list(dict.fromkeys(key[3] for key in given))
    others = {} if stored is None else {key: told for key, told in stored.cells.given.items() if key[3] not in own}
    every = Cells({**given, **others})
    numbers = every.reasons
    parts = [HEAD, f"{every}\n"]
    if stored is not None and others:
        shown = list(dict.fromkeys(key[3] for key in others))
        parts.append(f"Calls of {', '.join(shown)} were made on {stored.made} with {stored.told(shown)}.\n")
    for kind in dict.fromkeys(key[0] for key in every.given):
        parts.append(f"## {kind.capitalize()}\n")
        for side in ("", *SIDES):
            part = {key[2:]: told for key, told in every.given.items() if key[:2] == (kind, side)}
            if not part:
                continue
            shown = [each for each in ORDER if any(library == each for _, library in part)]
            titles = [f"with {side}" if side else "", *shown]
            parts += [_row(titles), _row(["---"] * len(titles))]
            for door in dict.fromkeys(door for door, _ in part):
                parts.append(_row([door, *(_shown(part.get((door, each), ABSENT), numbers) for each in shown)]))
            parts.append("")
    parts += ["## Messages\n", *(f"{number}. {text}" for text, number in numbers.items()), ""]
    return "\n".join(parts)


def _shown(told: str, numbers: dict[str, int]) -> str:
    return f"[{numbers[told]}]" if told in numbers else told.split(" ", 1)[0]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --------------------------------------------------------------------------------------------------------------- stored


@dataclass(frozen=True)
class Stored:
    """What a full run gave, as a file keeps it: with its day, and the versions of the libraries."""

    made: str
    versions: dict[str, str]
    cells: Cells

    @classmethod
    def read(cls, path: Path = STORE) -> Stored:
        """From the file."""
        found = json.loads(path.read_text(encoding="utf-8"))
        texts = [YES, ABSENT, *found["messages"]]
        cells = {
            (kind, side, door, library): texts[number]
            for kind, sides in found["calls"].items()
            for side, named in sides.items()
            for door, line in named.items()
            for library, number in line.items()
        }
        return cls(found["made"], found["versions"], Cells(cells))

    def write(self, path: Path = STORE) -> None:
        """To the file, one line for each door."""
        texts = {text: number + 1 for text, number in self.cells.reasons.items()} | {YES: 0, ABSENT: 1}
        calls: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        for (kind, side, door, library), told in self.cells.given.items():
            calls.setdefault(kind, {}).setdefault(side, {}).setdefault(door, {})[library] = texts[told]
        messages = list(self.cells.reasons)
        whole = {"made": self.made, "versions": self.versions, "messages": messages, "calls": calls}
        text = json.dumps(whole, indent=1, ensure_ascii=False)
        text = re.sub(r"\{\s+((?:\"[^\"]+\": \d+,?\s+)+)\}", lambda found: "{" + " ".join(found[1].split()) + "}", text)
        path.write_text(text + "\n", encoding="utf-8")

    def told(self, libraries: Sequence[str]) -> str:
        """The versions of some libraries, and of Calibrant's own dependencies."""
        packages = dict.fromkeys(PACKAGES[each] for each in libraries if each in PACKAGES)
        return ", ".join(f"{each} {self.versions[each]}" for each in packages if each in self.versions)


def store(cells: Cells, path: Path = STORE) -> None:
    """Add what a full run gave to the file; calls of libraries that were not run stay."""
    old = Stored.read(path) if path.exists() else Stored("", {}, Cells())
    run_now = {key[3] for key in cells.given}
    kept = {key: told for key, told in old.cells.given.items() if key[3] not in run_now}
    versions = dict(old.versions)
    for package in {PACKAGES[each] for each in run_now if each in PACKAGES}:
        versions[package] = version(package)
    ordered = sorted({**kept, **cells.given}.items(), key=_place)
    Stored(date.today().isoformat(), dict(sorted(versions.items())), Cells(dict(ordered))).write(path)


def _place(item: tuple[Key, str]) -> tuple[int, int, int, int]:
    """Where a call stands in the file: the order does not depend on which library was run last."""
    kind, side, door, library = item[0]
    names = [each.name for each in doors()]
    return list(samples()).index(kind), ["", *SIDES].index(side), names.index(door), ORDER.index(library)


def write(path: Path, *, quick: bool = False, full: bool = False) -> Cells:
    """Write the page; returns what the calls gave, of which none may be an error of another library."""
    cells = run(quick=quick, full=full)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(cells, Stored.read()), encoding="utf-8")
    return cells


def main() -> int:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="?", help="file to which the page is written")
    parser.add_argument("--quick", action="store_true", help="without the functions that take long")
    parser.add_argument("--full", action="store_true", help="every argument in every library, Spark included")
    parser.add_argument("--only", nargs="+", choices=ORDER, help="some libraries")
    parser.add_argument("--store", action="store_true", help=f"add the calls to {STORE.name}, which the site shows")
    given = parser.parse_args()
    known = [each for each in libraries(spark=given.full) if given.only is None or each.name in given.only]
    cells = run(quick=given.quick, full=given.full, known=known)
    if given.page is not None:
        given.page.write_text(page(cells, Stored.read() if STORE.exists() else None), encoding="utf-8")
    if given.store and not cells.foreign:
        store(cells)
    sys.stdout.write("\n".join([*cells.foreign, str(cells)]) + "\n")
    return int(bool(cells.foreign))


if __name__ == "__main__":
    sys.exit(main())
