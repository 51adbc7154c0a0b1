"""Cost and accuracy of tallies in DuckDB, Polars and Spark, next to the same jobs written by hand in each engine.

    python benchmarks/engine.py --rows 1e8            # the published tables: times, memory, accuracy, growth
    python benchmarks/engine.py --quick --gate        # what CI runs on 10^6 rows: what has a limit
    python benchmarks/engine.py --rows 1e8 --growth   # one part alone: --times, --memory, --accuracy or --growth

Rows are Parquet, eight files a data set, made once by a seeded generator in ``--data`` (else ``CALIBRANT_BENCH_DATA``,
else the system's temporary directory) and used again when the recipe there is the same. Every engine has two threads.

Times: jobs run in one process, in turn, round after round; a cost is the median wall time, since Spark works in another
process, and a ratio divides medians. By hand is benchmarks/by_hand.py, which checks nothing; the tallies of both sides
are compared cell by cell before the clock starts. The uniform grid counts rows and labels by ``floor(score * 65536)``
(1,024 cells for each of the 1,000 segments); fits take each cell at its middle, and the audit's check is that of the
library's cells, since its cost goes by them. Below 0.3 s by hand (Spark: 2 s)
fixed costs rule, and there is no verdict. Under
``--gate`` a ratio to the work by hand above 1.5 times its limit, or a map from a tally that lies farther from the truth
than the exact one, ends the run with exit code 1.

Memory: each job in a fresh process, high-water mark of resident memory (Linux), for Spark that of Python and the JVM
together, whose heap is fixed and fills up before it is collected; live is what a collection leaves of it. DuckDB's
cache of file contents is off on both sides.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from by_hand import ENGINES, THREADS, Counts, Engine, grouped, tally, uniform_grouped, uniform_tally
from measure import Job, run
from numpy.typing import NDArray

from calibrant import BetaScaling, HistogramBinning, IsotonicCalibrator, PlattScaling, Tally, Verdict, check
from calibrant import engine as library
from calibrant.engine import Grid
from calibrant.maps import LogitAffineMap, StepMap
from calibrant.selection.folds import Folds
from calibrant.tallies import SEGMENT_GRID, GroupedTally
from calibrant.verdict.check import judge
from calibrant.verdict.input.evidence import Evidence

Floats = NDArray[np.float64]
Columns = tuple[Floats, NDArray[np.int8]]
Found = dict[str, float]

LIMIT, UNIFORM_TARGET, MEMORY_LIMIT, GATE = 1.25, 2.0, 1.3, 1.5
LEAST_SECONDS = {"duckdb": 0.3, "polars": 0.3, "spark": 2.0}
"""Below this by hand fixed costs rule, planning above all, and a ratio has no verdict."""
DIFFERENCE_LIMIT, NO_WORSE = 1e-4, (1e-5, 0.01)
RACE_TARGET, RACE_MEMORY = 8.0, 2_000.0
QUICK_ROWS, ACCURACY_ROWS = 1_000_000, 10_000_000
BITS, FINER = Grid().bits, (12, 14)
FILES, CHUNK = 8, 1 << 20
CELLS, SEGMENT_CELLS, SEGMENTS = 1 << 16, 1 << 10, 1_000
SEGMENT_NAMES = np.array([f"s{place:03}" for place in range(SEGMENTS)])
"""Text, since `check` cuts a column of many numbers into ranges."""
SIDES = ("library", "by hand")
QUICK_TASKS = ("audit, 1,000 segments",)
"""What takes so long on 10^6 rows that its ratio has a verdict."""


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


# --- the data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Scores drawn from a beta distribution, and the true rate at each."""

    seed: int
    shape: tuple[float, float]
    truth: Callable[[Floats], Floats]

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, NDArray[Any]]:
        scores = rng.beta(*self.shape, rows)
        labels = (rng.random(rows) < self.truth(scores)).astype(np.int8)
        place = (SEGMENTS * rng.random(rows) ** 2).astype(np.int32)  # the first holds 60 times what the last does
        return {"score": scores, "label": labels, "segment": SEGMENT_NAMES[place]}


SOURCES: Mapping[str, Source] = {
    "ordinary": Source(1, (1.2, 4.0), lambda s: s * s * (3.0 - 2.0 * s)),
    "clicks": Source(2, (0.5, 250.0), lambda s: np.minimum(0.6 * s**0.9, 1.0)),
}


def rows_of(name: str, rows: int, data: Path) -> Path:
    """Folder that holds the rows of one source, made unless it is there."""
    folder = data / f"{name}-{rows}"
    source = SOURCES[name]
    recipe = {"recipe": 2, "seed": source.seed, "shape": list(source.shape), "rows": rows, "chunk": CHUNK}
    with suppress(OSError, ValueError):
        if json.loads((data / f"{folder.name}.json").read_text(encoding="utf-8")) == recipe:
            return folder
    say(f"making {rows:,} rows of {name} scores")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part in range(FILES):
        write_part(source, part, rows * (part + 1) // FILES - rows * part // FILES, folder)
    (data / f"{folder.name}.json").write_text(json.dumps(recipe), encoding="utf-8")
    return folder


def write_part(source: Source, part: int, rows: int, folder: Path) -> None:
    """One file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng([source.seed, part])
    types = {"score": pa.float64(), "label": pa.int8(), "segment": pa.string()}
    path = folder / f"part-{part}.parquet"
    with pq.ParquetWriter(path, pa.schema(list(types.items())), use_dictionary=["label", "segment"]) as writer:
        for start in range(0, rows, CHUNK):
            writer.write_table(pa.table(source.draw(rng, min(CHUNK, rows - start))))


def load(folder: Path) -> Columns:
    """Scores and labels of all rows, in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(THREADS)
    table = pq.read_table(folder, columns=["score", "label"])
    return table["score"].to_numpy(), table["label"].to_numpy()


# --- the tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An engine, the rows and where to write."""

    engine: Engine
    rows: int
    data: Path

    def folder(self, source: str = "ordinary") -> Path:
        return rows_of(source, self.rows, self.data)

    def frame(self, source: str = "ordinary") -> Any:
        return self.engine.frame(self.folder(source))

    def counts(self, source: str = "ordinary") -> Counts:
        return self.engine.counts(self.folder(source), Grid())

    def out(self) -> Path:
        path = self.data / f"out-{self.engine.name}.parquet"
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return path


@dataclass(frozen=True)
class Task:
    """One job in three forms."""

    library: Callable[[Place], object]
    by_hand: Callable[[Place], object]
    uniform: Callable[[Place], object] | None = None


def four_fits(counted: Tally) -> list[object]:
    makes = (PlattScaling, BetaScaling, IsotonicCalibrator, HistogramBinning)
    return [make().fit_tally(counted) for make in makes]


def library_tally(place: Place, source: str = "ordinary") -> Tally:
    return library.tally(place.frame(source), "score", "label", grid=Grid())


def segments_by_hand(place: Place) -> GroupedTally:
    return grouped(place.engine.counts(place.folder(), SEGMENT_GRID, "segment"), SEGMENT_GRID, "segment")


def verdict_of(whole: Tally, segments: GroupedTally) -> Verdict:
    """What `check` says of these tallies."""
    return judge(Evidence(whole, Folds.at_random(whole), segments={"segment": segments}))


@cache
def ready(place: Place) -> tuple[Tally, GroupedTally]:
    """Counted once: a verdict's cost goes by the cells, so the uniform grid's audit judges the same ones."""
    return tally(place.counts(), Grid()), segments_by_hand(place)


def uniform_segments(place: Place) -> GroupedTally:
    counts = place.engine.uniform(place.folder(), SEGMENT_CELLS, "segment")
    return uniform_grouped(counts, SEGMENT_CELLS, "segment")


def tally_of(source: str) -> Task:
    return Task(
        partial(library_tally, source=source),
        lambda place: tally(place.counts(source), Grid()),
        lambda place: place.engine.uniform(place.folder(source), CELLS),
    )


def application_of(map_: LogitAffineMap | StepMap) -> Task:
    return Task(
        lambda place: library.write(library.apply(map_, place.frame(), "score"), place.out()),
        lambda place: place.engine.apply(place.folder(), map_, place.out()),
    )


def hundred_steps() -> StepMap:
    """Steps at the percentiles of ordinary scores."""
    source = SOURCES["ordinary"]
    knots = np.quantile(np.random.default_rng(0).beta(*source.shape, 100_000), np.arange(1, 100) / 100)
    return StepMap(knots, source.truth(np.append(0.01, knots)))


TASKS: Mapping[str, Task] = {
    "tally": tally_of("ordinary"),
    "tally, clicks": tally_of("clicks"),
    "four fits": Task(
        lambda place: four_fits(library_tally(place)),
        lambda place: four_fits(tally(place.counts(), Grid())),
        lambda place: four_fits(uniform_tally(place.engine.uniform(place.folder(), CELLS), CELLS)),
    ),
    "audit, 1,000 segments": Task(
        lambda place: check(place.frame(), score="score", label="label", by="segment"),
        lambda place: verdict_of(tally(place.counts(), Grid()), segments_by_hand(place)),
        lambda place: (place.engine.uniform(place.folder(), CELLS), uniform_segments(place), verdict_of(*ready(place))),
    ),
    "apply Platt, write": application_of(LogitAffineMap(0.8, -0.3)),
    "apply steps, write": application_of(hundred_steps()),
}


def assert_same(place: Place) -> None:
    """Both sides count the same: every cell, by score and by score and segment."""
    for source in SOURCES:
        assert_equal(library_tally(place, source), tally(place.counts(source), Grid()))
    ours = library.tally(place.frame(), "score", "label", by="segment")
    theirs = segments_by_hand(place)
    assert list(ours) == list(theirs)
    for key in ours:
        assert_equal(ours[key], theirs[key])
    audit = TASKS["audit, 1,000 segments"]
    assert audit.library(place) == audit.by_hand(place)


def assert_equal(a: Tally, b: Tally) -> None:
    for column in ("keys", "n", "events", "offset"):
        np.testing.assert_array_equal(getattr(a.cells, column), getattr(b.cells, column))


# --- times ------------------------------------------------------------------------------------------------------------


@dataclass
class Timed(Job):
    """A job whose CPU time counts the process that works for this one."""

    other: int | None = None

    def measure(self) -> None:
        before = cpu_of(self.other)
        super().measure()
        self.cpu[-1] += cpu_of(self.other) - before
        say(f"{self.name}: {self.wall[-1]:.2f} s")


def cpu_of(process: int | None) -> float:
    """CPU seconds of another process so far; 0 where that cannot be had."""
    if process is None or not Path("/proc").is_dir():
        return 0.0
    numbers = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def verdict(ratio: float, limit: float) -> str:
    return "ok" if ratio <= limit else "MISS" if ratio <= GATE * limit else "FAIL"


def times(places: Iterable[Place], rounds: int, quick: bool) -> bool:
    """The table of times; true when no ratio to the work by hand is beyond its gate."""
    jobs: dict[tuple[str, str, str], Timed] = {}
    for place in places:
        assert_same(place)
        for name in QUICK_TASKS if quick else TASKS:
            task = TASKS[name]
            for side, work in zip((*SIDES, "uniform"), (task.library, task.by_hand, task.uniform), strict=True):
                if work is not None and not (quick and side == "uniform"):
                    key = place.engine.name, name, side
                    jobs[key] = Timed(", ".join(key), partial(work, place), other=place.engine.other_process())
    run(list(jobs.values()), rounds, warm_up=not quick)  # whose jobs have run once to be compared
    print(
        f"\nWall seconds, medians of {rounds} rounds; ratio limit {LIMIT}, target on a uniform grid {UNIFORM_TARGET:g}"
    )
    head = f"{'':<31}{'library':>8}{'by hand':>9}{'ratio':>7}{'':<6}{'uniform':>9}{'ratio':>7}"
    print(f"{head:<83}{'CPU: ours':>9}{'hand':>8}")
    within = True
    for pair in dict.fromkeys(key[:2] for key in jobs):
        within &= time_line(pair, {key[2]: job for key, job in jobs.items() if key[:2] == pair})
    return within


def time_line(pair: tuple[str, str], jobs: Mapping[str, Timed]) -> bool:
    """Print one line; false beyond the gate."""
    wall = {side: statistics.median(job.wall) for side, job in jobs.items()}
    ours, hand = (wall[side] for side in SIDES)
    judged = hand >= LEAST_SECONDS[pair[0]]
    word = verdict(ours / hand, LIMIT) if judged else ""
    text = f"{pair[0]:<8}{pair[1]:<23}{ours:>8.2f}{hand:>9.2f}{ours / hand:>7.2f} {word:<5}"
    if "uniform" in wall:
        ratio = ours / wall["uniform"]
        text += (
            f"{wall['uniform']:>9.2f}{ratio:>7.2f} {('ok' if ratio <= UNIFORM_TARGET else 'MISS') if judged else '':<5}"
        )
    print(f"{text:<84}{jobs[SIDES[0]].cost:>8.2f}{jobs[SIDES[1]].cost:>8.2f}", flush=True)
    return word != "FAIL"


# --- fresh processes --------------------------------------------------------------------------------------------------


def high_water(process: int | str = "self") -> float:
    """Largest resident size of a process so far, in MB of 10^6 bytes; NaN where that cannot be had."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def alone(name: str, task: str, side: str, rows: int, data: Path) -> Found:
    """Run one job in this process, which is meant to be fresh; seconds, peak and, for Spark, live heap."""
    if task == RACE:
        return RACERS[name](rows, data)
    place = Place(ENGINES[name](), rows, data)
    work = TASKS[task].library if side == SIDES[0] else TASKS[task].by_hand
    start = time.perf_counter()
    work(place)
    found = {"seconds": time.perf_counter() - start, "peak": high_water()}
    other = place.engine.other_process()
    if other is not None:
        found |= {"peak": found["peak"] + high_water(other), "live": place.engine.heap() / 1e6}  # type: ignore[attr-defined]
    return found


def in_fresh_process(name: str, task: str, side: str, rows: int, data: Path) -> Found:
    command = [sys.executable, __file__, "--alone", name, task, side, "--rows", str(rows), "--data", str(data)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    say(f"alone: {name}, {task}, {side}, {rows:,} rows: {found['seconds']:.2f} s, {found['peak']:.0f} MB")
    return found


def memory(engines: Sequence[str], rows: int, data: Path) -> None:
    """The table of peak memory."""
    print(f"\nPeak resident memory, MB, fresh processes; ratio limit {MEMORY_LIMIT}; growth from rows / 10")
    print(f"{'':<31}{'library':>8}{'by hand':>9}{'ratio':>7}{'':<6}{'growth: library, hand':>24}", end="")
    print("    live" if "spark" in engines else "")
    for name in engines:
        for task in TASKS:
            ours, hand = (in_fresh_process(name, task, side, rows, data) for side in SIDES)
            less = [in_fresh_process(name, task, side, rows // 10, data) for side in SIDES]
            print(memory_line(f"{name:<8}{task:<23}", ours, hand, less), flush=True)


def memory_line(name: str, ours: Found, hand: Found, less: Sequence[Found]) -> str:
    ratio = ours["peak"] / hand["peak"]
    growth = [much["peak"] / little["peak"] for much, little in zip((ours, hand), less, strict=True)]
    text = f"{name}{ours['peak']:>8.0f}{hand['peak']:>9.0f}{ratio:>7.2f} {verdict(ratio, MEMORY_LIMIT):<5}"
    live = f"{ours['live']:>8.0f}" if "live" in ours else ""
    return f"{text}{growth[0]:>16.2f}{growth[1]:>8.2f}{live}"


# --- accuracy ---------------------------------------------------------------------------------------------------------

CALIBRATORS: Mapping[str, Callable[[], Any]] = {
    "isotonic": IsotonicCalibrator,
    "isotonic, steps": partial(IsotonicCalibrator, step=True),
    "Platt": PlattScaling,
    "beta": BetaScaling,
    "equal-mass binning": HistogramBinning,
}


def accuracy(engines: Sequence[str], rows: int, data: Path) -> bool:
    """Maps from the engines' tallies against maps from all rows; true when none lies farther from the truth."""
    print(f"\nMaps from tallies against maps from all {rows:,} rows; mean absolute differences over the rows;")
    print(
        f"limits: {DIFFERENCE_LIMIT:g} between the two, and from the truth at most 1 % or 1e-5 farther; {BITS} bits are"
    )
    print(f"the default grid of 2^16 cells; finer ones for information: {', '.join(map(str, FINER))} bits")
    print(f"{'':<31}{f'{BITS} bits':>9}{'':<5}" + "".join(f"{f'{bits} bits':>9}" for bits in FINER), end="")
    print(f"{'truth: exact':>14}{'tally':>11}")
    within = True
    for source in SOURCES:
        scores, labels = load(rows_of(source, rows, data))
        places = [Place(ENGINES[name](), rows, data) for name in engines]
        fine = library.tally(places[0].frame(source), "score", "label", grid=Grid(max(FINER)))
        for place in places:
            assert_equal(fine.coarsen(BITS), library_tally(place, source))
        counted = {bits: fine.coarsen(bits) for bits in (BITS, *FINER)}
        rates = SOURCES[source].truth(scores)
        for name, make in CALIBRATORS.items():
            say(f"accuracy of {name}, {source}")
            exact = make().fit(scores, labels).map_.apply(scores)
            maps = {bits: make().fit_tally(each).map_.apply(scores) for bits, each in counted.items()}
            within &= accuracy_line(f"{source:<10}{name:<21}", exact, maps, rates)
    print(f"the tallies of {', '.join(engines)} are equal, cell by cell")
    return within


def accuracy_line(name: str, exact: Floats, maps: Mapping[int, Floats], rates: Floats) -> bool:
    """Print one line; false when the map from the tally lies farther from the truth."""
    apart = {bits: distance(exact, gridded) for bits, gridded in maps.items()}
    far, gridded_far = distance(exact, rates), distance(maps[BITS], rates)
    no_worse = gridded_far <= far + max(NO_WORSE[0], NO_WORSE[1] * far)
    words = ["ok" if good else "MISS" for good in (apart[BITS] <= DIFFERENCE_LIMIT, no_worse)]
    finer = "".join(f"{apart[bits]:>9.1e}" for bits in FINER)
    print(f"{name}{apart[BITS]:>9.1e} {words[0]:<4}{finer}{far:>14.3e}{gridded_far:>11.3e} {words[1]}", flush=True)
    return no_worse


def distance(a: Floats, b: Floats) -> float:
    return float(np.mean(np.abs(a - b)))


# --- argsort and PAVA -------------------------------------------------------------------------------------------------

RACE = "isotonic"


def sort_and_pool(rows: int, data: Path) -> Found:
    """What isotonic regression takes without tallies: all rows in memory, sorted and pooled."""
    from scipy.optimize import isotonic_regression

    start = time.perf_counter()
    scores, labels = load(rows_of("ordinary", rows, data))
    loaded = time.perf_counter()
    order = np.argsort(scores)
    isotonic_regression(labels[order].astype(np.float64))
    end = time.perf_counter()
    return {"seconds": end - start, "in memory": end - loaded, "peak": high_water()}


def arrays_and_fit(rows: int, data: Path) -> Found:
    start = time.perf_counter()
    scores, labels = load(rows_of("ordinary", rows, data))
    loaded = time.perf_counter()
    IsotonicCalibrator().fit_tally(Tally.from_arrays(scores, labels, grid=Grid()))
    end = time.perf_counter()
    return {"seconds": end - start, "in memory": end - loaded, "peak": high_water()}


def engine_and_fit(name: str, rows: int, data: Path) -> Found:
    place = Place(ENGINES[name](), rows, data)
    importlib.import_module(name)  # before the clock starts
    start = time.perf_counter()
    IsotonicCalibrator().fit_tally(library_tally(place))
    return {"seconds": time.perf_counter() - start, "peak": high_water()}


RACERS: Mapping[str, Callable[[int, Path], Found]] = {
    "argsort + PAVA": sort_and_pool,
    "library, arrays": arrays_and_fit,
    "library, duckdb": partial(engine_and_fit, "duckdb"),
    "library, polars": partial(engine_and_fit, "polars"),
}


def race(engines: Sequence[str], rows: int, rounds: int, data: Path) -> None:
    """Isotonic regression from Parquet: all rows sorted and pooled, against a tally and its fit."""
    racers = [name for name in RACERS if name.rsplit(maxsplit=1)[-1] in (*engines, "PAVA", "arrays")]
    found: dict[str, list[Found]] = {name: [] for name in racers}
    for _ in range(rounds):
        for name in racers:
            found[name].append(in_fresh_process(name, RACE, "", rows, data))
    print(
        f"\nIsotonic regression of {rows:,} rows, fresh processes, medians of {rounds}; reading counts on both sides;"
    )
    print(f"target {RACE_TARGET:g} times as fast, memory limit {RACE_MEMORY:g} MB")
    print(f"{'':<26}{'seconds':>10}{'times as fast':>15}{'':<6}{'without reading':>17}{'peak MB':>10}")
    middle = {
        name: {key: statistics.median(each[key] for each in all_) for key in all_[0]} for name, all_ in found.items()
    }
    for name, one in middle.items():
        print(race_line(name, one, middle[racers[0]]["seconds"] / one["seconds"]).rstrip(), flush=True)


def race_line(name: str, one: Found, faster: float) -> str:
    judged = name.endswith(("duckdb", "polars"))
    kept = (faster >= RACE_TARGET, one["peak"] <= RACE_MEMORY)
    words = [("ok" if good else "MISS") if judged else "" for good in kept]
    inside = f"{one['in memory']:.2f}" if "in memory" in one else ""
    return f"{name:<26}{one['seconds']:>10.2f}{faster:>15.1f} {words[0]:<5}{inside:>17}{one['peak']:>10.0f} {words[1]}"


# --- growth -----------------------------------------------------------------------------------------------------------


def growth(engines: Mapping[str, Engine], most: int, rounds: int, data: Path) -> None:
    """Seconds and rows a second by the number of rows, of the library's tally and its audit by segment."""
    sizes = [size for size in (10**power for power in range(5, 12)) if size <= most]
    jobs = {
        (name, task, size): Timed(
            f"{name}, {task}, {size:,} rows", partial(TASKS[task].library, Place(engine, size, data))
        )
        for name, engine in engines.items()
        for task in ("tally", "audit, 1,000 segments")
        for size in sizes
    }
    for size in sizes:
        rows_of("ordinary", size, data)
    run(list(jobs.values()), rounds)
    print(f"\nGrowth with the rows: wall seconds, medians of {rounds} rounds, and million rows a second")
    print(f"{'':<31}" + "".join(f"{size:>16,}" for size in sizes))
    for name, task in dict.fromkeys(key[:2] for key in jobs):
        seconds = {size: statistics.median(jobs[name, task, size].wall) for size in sizes}
        print(f"{name:<8}{task:<23}" + "".join(f"{s:>9.2f} {size / s / 1e6:>6.1f}" for size, s in seconds.items()))


# --- all of it --------------------------------------------------------------------------------------------------------


def heading(engines: Iterable[str], rows: int) -> str:
    packages = {"duckdb": "duckdb", "polars": "polars", "spark": "pyspark"}
    names = ["calibrant", "numpy", "pyarrow", "narwhals", *(packages[name] for name in engines)]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = f"{os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}"
    versions = [f"{name} {version(name)}" for name in names]
    return f"{rows:,} rows, {THREADS} threads; {machine}\n{', '.join(versions[:4])}\n{', '.join(versions[4:])}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=100_000_000)
    parser.add_argument("--quick", action="store_true", help="a million rows; times and accuracy that have a limit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="duckdb,polars,spark", help="some of duckdb,polars,spark")
    parser.add_argument("--data", type=Path, help="where the rows are kept")
    parser.add_argument("--gate", action="store_true", help="exit code 1 beyond 1.5 times a limit of times")
    for part in ("times", "memory", "accuracy", "growth"):
        parser.add_argument(f"--{part}", dest="parts", action="append_const", const=part, help=f"{part} alone")
    parser.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    if unknown := set(options.engines) - set(ENGINES):
        parser.error(f"no engine {', '.join(sorted(unknown))}: there are {', '.join(ENGINES)}")
    options.rows = QUICK_ROWS if options.quick else options.rows
    options.parts = options.parts or ["times", "accuracy", *([] if options.quick else ["memory", "growth"])]
    folder = os.environ.get("CALIBRANT_BENCH_DATA") or Path(tempfile.gettempdir()) / "calibrant-benchmarks"
    options.data = Path(options.data or folder).resolve()
    return options


def main() -> int:
    options = parse()
    rows, data, rounds = options.rows, options.data, options.rounds
    if options.alone:
        print(json.dumps(alone(*options.alone, rows=rows, data=data)))
        return 0
    print(heading(options.engines, rows), flush=True)
    for source in SOURCES:
        rows_of(source, rows, data)
    within = True
    if "memory" in options.parts:
        for source in SOURCES:
            rows_of(source, rows // 10, data)
        memory(options.engines, rows, data)
    if "accuracy" in options.parts:
        local = [name for name in options.engines if name != "spark"]
        if not options.quick:
            race(local, rows, min(rounds, 3), data)
        within &= accuracy(local, min(rows, ACCURACY_ROWS), data)
    if {"times", "growth"} & set(options.parts):
        engines = {name: ENGINES[name]() for name in options.engines}
        if "times" in options.parts:
            within &= times([Place(engine, rows, data) for engine in engines.values()], rounds, options.quick)
        if "growth" in options.parts:
            growth(engines, rows, min(rounds, 3), data)
    if options.gate and not within:
        print(f"\nFAIL: a ratio is more than {GATE} times its limit, or a map from a tally is farther from the truth")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
