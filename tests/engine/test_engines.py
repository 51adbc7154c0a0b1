"""One file for every engine: the same rows give the same tallies, maps and verdicts as numpy gives.

A test sends a job, a function of this file, to the engine: to Spark's two workers it travels by name.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.clusters import Read, reads
from tests.engine.conftest import ABILITIES

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.calibrators.binary.scaling import BetaScaling, PlattScaling
from calibrant.engine import apply, capabilities, collect, tally, write
from calibrant.maps import LogitAffineMap, Map, StepMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally, cluster_buckets
from calibrant.verdict import check

pytestmark = pytest.mark.engine

ROWS = 200_000
CLUSTERS = ("patient", "name")
LOGITS = Grid(low=-8.0, high=8.0)
CALIBRATORS = [PlattScaling(), BetaScaling(), IsotonicCalibrator(), HistogramBinning(20)]
FROM_FRAMES = (CALIBRATORS[0], CALIBRATORS[2])


# ---------------------------------------------------------------------------------------------------------- the rows


@cache
def columns() -> dict[str, NDArray[Any]]:
    """Rows with scores of several kinds, two kinds of weights, segments, moments and clusters."""
    rng = np.random.default_rng(70)
    scores = rng.beta(0.7, 1.6, ROWS)
    scores[:6] = [0.0, 1.0, 0.5, 5e-324, 2.0**-32, 1.0 - 2.0**-53]
    odds = np.log(np.clip(scores, 1e-6, 1.0 - 1e-6) / (1.0 - np.clip(scores, 1e-6, 1.0 - 1e-6)))
    heaped = np.round(scores, 2)
    heaped[(heaped == 0.0) & (rng.random(ROWS) < 0.5)] = -0.0
    at = np.datetime64("2024-02-27T00:00:00", "us") + rng.integers(0, 5 * 86_400_000_000, ROWS)
    return {
        "id": np.arange(ROWS),
        "s": scores,
        "z": np.clip(odds, -8.0, 8.0),
        "heaped": heaped,
        "y": (rng.random(ROWS) < 1.0 / (1.0 + np.exp(0.4 - 0.6 * odds))).astype(np.int64),
        "times": rng.integers(0, 4, ROWS),
        "w": rng.exponential(size=ROWS) * (rng.random(ROWS) < 0.9),
        "land": np.array(["de", "fr", "Österreich", "it's"])[rng.integers(0, 4, ROWS)],
        "grade": rng.integers(1, 4, ROWS),
        "at": at,
        "day": at.astype("datetime64[D]"),
        "week": rng.integers(1, 9, ROWS),
        "patient": rng.integers(0, 20_000, ROWS),
        "name": np.char.add("größe-", rng.integers(0, 3_000, ROWS).astype(str)),
    }


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """The rows in 1, 3 and 8 Parquet files, each time in another order."""
    folder = tmp_path_factory.mktemp("rows")
    pa = pytest.importorskip("pyarrow")
    table = pa.table(columns())
    moments = table["at"].cast(pa.timestamp("us", tz="UTC"))
    table = table.append_column("instant", moments)
    rng = np.random.default_rng(71)
    return {
        files: _write(table.take(rng.permutation(ROWS)), folder, f"{files}-files", files, rng) for files in (1, 3, 8)
    }


def _write(table: Any, folder: Path, name: str, files: int = 1, rng: np.random.Generator | None = None) -> list[str]:
    """The table in files of unequal sizes."""
    pq = pytest.importorskip("pyarrow.parquet")
    cuts = [] if rng is None else sorted(rng.integers(0, len(table), files - 1).tolist())
    out = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        out.append(str(folder / f"{name}-{number}.parquet"))
        pq.write_table(table.slice(start, stop - start), out[-1])
    return out


# --------------------------------------------------------------------------------------------------------- the jobs


def tallied(read: Read, paths: Sequence[str], score: str = "s", *, shuffled: int = 0, **options: Any) -> Any:
    frame = read(paths)
    return tally(frame.repartition(shuffled) if shuffled else frame, score, "y", **options)


def tallied_each_way(read: Read, paths: Sequence[str], ways: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: tallied(read, paths, **options) for name, options in ways.items()}


def refused(read: Read, paths: Sequence[str], **options: Any) -> str:
    try:
        tallied(read, paths, **options)
    except InputError as error:
        return str(error)
    return "nothing was refused"


def left_out(read: Read, paths: Sequence[str], **options: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        got = tallied(read, paths, unusable="leave out", **options)
    return got, [str(each.message) for each in caught if each.category is CalibrantWarning]


def fitted(read: Read, paths: Sequence[str]) -> list[Map]:
    frame = read(paths)
    return [type(each)(**each.get_params()).fit(frame, score="s", label="y").map_ for each in FROM_FRAMES]


def applied(read: Read, paths: Sequence[str], map_: Map, score: str) -> dict[str, NDArray[Any]]:
    got = collect(apply(map_, read(paths), score))
    order = np.argsort(got["id"])
    return {name: got[name][order] for name in ("id", score, "calibrated")}


def written(read: Read, paths: Sequence[str], map_: Map, path: str) -> None:
    write(apply(map_, read(paths), "s", name="p"), path)


def able(read: Read, paths: Sequence[str]) -> Any:
    return capabilities(read(paths))


def checked(read: Read, paths: Sequence[str], **options: Any) -> dict[str, Any]:
    return check(read(paths), score="s", label="y", **options).to_dict()


# ------------------------------------------------------------------------------------------------------ comparisons


def assert_same(there: Tally, here: Tally) -> None:
    """Bit for bit."""
    kinds = [(t.score_type, t.grid, t.resolution, t.counts, t.whole) for t in (there, here)]
    assert kinds[0] == kinds[1]
    for column in ("keys", "n", "events", "offset"):
        ours, theirs = getattr(here.cells, column), getattr(there.cells, column)
        assert (ours is None) == (theirs is None), column
        if ours is not None:
            assert ours.dtype == theirs.dtype, column
            np.testing.assert_array_equal(theirs, ours, err_msg=column)
    if here.resolution == "exact":
        assert not np.signbit(there.scores).any()
    assert there.fingerprint == here.fingerprint


def assert_same_groups(there: GroupedTally, here: Mapping[Any, Tally]) -> None:
    assert list(there) == list(here)
    assert [type(key) for key in there] == [type(key) for key in here]
    for key in here:
        assert_same(there[key], here[key])


@cache
def by_keys(*keyed: str, weight: str | None = None, grid: Grid = SEGMENT_GRID) -> dict[Any, Tally]:
    """What numpy makes of each distinct key, in order; clusters are hashed first."""
    data = columns()
    keys = [cluster_buckets(data[name]) if name in CLUSTERS else data[name] for name in keyed]
    distinct = [np.unique(key, return_inverse=True) for key in keys]
    code = np.zeros(ROWS, dtype=np.int64)
    for names, index in distinct:
        code = code * len(names) + index
    options: dict[str, Any] = {} if weight is None else {"weight_type": "frequency", "sample_weight": data[weight]}
    found = GroupedTally.from_arrays(data["s"], data["y"], groups=code, grid=grid, **options)
    out = {}
    for number, part in found.items():
        places = np.unravel_index(number, [len(names) for names, _ in distinct])
        name = tuple(names[place].item() for (names, _), place in zip(distinct, places, strict=True))
        out[name if len(keys) > 1 else name[0]] = part
    return out


def assert_close(there: Any, here: Any, where: str = "") -> None:
    """The same words and counts, and floats to 1e-9."""
    if isinstance(here, dict):
        assert list(there) == list(here), where
        for key in here:
            assert_close(there[key], here[key], f"{where}.{key}")
    elif isinstance(here, list | tuple):
        assert len(there) == len(here), where
        for number, (a, b) in enumerate(zip(there, here, strict=True)):
            assert_close(a, b, f"{where}[{number}]")
    elif isinstance(here, float) and isinstance(there, float):
        assert math.isclose(there, here, rel_tol=1e-9, abs_tol=1e-9), (where, there, here)
    else:
        assert there == here, where


# ----------------------------------------------------------------------------------------------------------- tallies


@pytest.mark.parametrize("files", [3, *(pytest.param(files, marks=pytest.mark.full) for files in (1, 8))])
def test_the_tally_is_numpys_bit_for_bit_however_the_rows_are_cut(
    engine: Any, paths: dict[int, list[str]], files: int
) -> None:
    data = columns()
    here = Tally.from_arrays(data["s"], data["y"], grid=Grid())
    assert_same(engine.run(tallied, paths[files]), here)
    if engine.name.startswith("spark") and files == 3:
        assert_same(engine.run(tallied, paths[files], shuffled=7, grid=Grid()), here)


def test_on_any_grid_and_kind(engine: Any, paths: dict[int, list[str]]) -> None:
    data = columns()
    there = engine.run(
        tallied_each_way,
        paths[3],
        {
            "segment": {"grid": SEGMENT_GRID},
            "logit": {"score": "z", "score_type": "logit", "grid": LOGITS},
            "real": {"score": "z", "score_type": "real", "grid": replace(LOGITS, bits=4)},
        },
    )
    assert_same(there["segment"], Tally.from_arrays(data["s"], data["y"], grid=SEGMENT_GRID))
    assert_same(there["logit"], Tally.from_arrays(data["z"], data["y"], score_type="logit", grid=LOGITS))
    assert_same(there["real"], Tally.from_arrays(data["z"], data["y"], score_type="real", grid=replace(LOGITS, bits=4)))


def test_heaped_scores_are_kept_as_they_are(engine: Any, paths: dict[int, list[str]]) -> None:
    data = columns()
    assert np.signbit(data["heaped"]).any()
    here = Tally.from_arrays(data["heaped"], data["y"])
    assert len(here) == 101
    assert_same(engine.run(tallied, paths[3], "heaped"), here)


@pytest.mark.parametrize("distinct", [65_536, 65_537])
def test_scores_are_kept_up_to_65_536_of_them(engine: Any, tmp_path: Path, distinct: int) -> None:
    """Minus zero is a zero; and the last new score may be the very last row, when most rows have been seen."""
    pa = pytest.importorskip("pyarrow")
    scores = (np.arange(140_000) % 65_536) / 65_537.0
    scores[65_536] = -0.0
    scores[-1] = (distinct - 1) / 65_537.0
    labels = np.arange(140_000) % 3 // 2
    here = Tally.from_arrays(scores, labels, grid=None if distinct == 65_536 else Grid())
    assert here.resolution == "grid" or len(here) == distinct
    assert_same(engine.run(tallied, _write(pa.table({"s": scores, "y": labels}), tmp_path, "many")), here)


def test_weights_that_are_counts_repeat_rows(engine: Any, paths: dict[int, list[str]]) -> None:
    data = columns()
    there = engine.run(
        tallied_each_way,
        paths[8],
        {
            "grid": {"sample_weight": "times", "weight_type": "frequency"},
            "heaped": {"score": "heaped", "sample_weight": "times", "weight_type": "frequency"},
        },
    )
    repeated = np.repeat(np.arange(ROWS), data["times"])
    assert_same(there["grid"], Tally.from_arrays(data["s"][repeated], data["y"][repeated], grid=Grid()))
    assert_same(there["heaped"], Tally.from_arrays(data["heaped"][repeated], data["y"][repeated]))


def test_weights_of_importance_agree_to_the_last_digits(engine: Any, paths: dict[int, list[str]]) -> None:
    data = columns()
    there = engine.run(
        tallied_each_way,
        paths[8],
        {"w": {"sample_weight": "w"}, "whole": {"sample_weight": "times", "score": "heaped"}},
    )
    here = Tally.from_arrays(data["s"], data["y"], data["w"], grid=Grid())
    whole = Tally.from_arrays(data["heaped"], data["y"], data["times"])
    for got, expected in ((there["w"], here), (there["whole"], whole)):
        assert (got.counts, got.whole) == (expected.counts, expected.whole)
        for column in ("keys", "rows"):
            np.testing.assert_array_equal(getattr(got.cells, column), getattr(expected.cells, column))
        for column in ("n", "events", "w2", "w2_events"):
            np.testing.assert_allclose(
                getattr(got.cells, column), getattr(expected.cells, column), rtol=1e-12, atol=0.0
            )
        np.testing.assert_allclose(got.scores, expected.scores, rtol=1e-12, atol=0.0)
    assert here.cells.rows.sum() == (data["w"] > 0.0).sum() < ROWS


def test_tallies_side_by_side(engine: Any, paths: dict[int, list[str]]) -> None:
    there = engine.run(
        tallied_each_way,
        paths[8],
        {
            "land": {"by": "land"},
            "both": {"by": ["land", "grade"], "sample_weight": "times", "weight_type": "frequency"},
            "at": {"time": "at"},
            "day": {"time": "day"},
            "instant": {"time": "instant"},
            "patient": {"groups": "patient"},
            "all": {"by": "grade", "time": "at", "groups": "name", "grid": Grid(2)},
        },
    )
    assert_same_groups(there["land"], by_keys("land"))
    assert_same_groups(there["both"], by_keys("land", "grade", weight="times"))
    for name in ("at", "day", "instant"):
        assert_same_groups(there[name], by_keys("day"))
    assert_same_groups(there["patient"], by_keys("patient"))
    assert_same_groups(there["all"], by_keys("grade", "day", "name", grid=Grid(2)))


# ---------------------------------------------------------------------------------------------------------- the maps


@cache
def maps() -> dict[str, Map]:
    """What each method makes of numpy's tally."""
    return fit_all(Tally.from_arrays(columns()["s"], columns()["y"], grid=Grid()))


def fit_all(given: Tally) -> dict[str, Map]:
    return {type(each).__name__: type(each)(**each.get_params()).fit_tally(given).map_ for each in CALIBRATORS}


def test_maps_are_equal(engine: Any, paths: dict[int, list[str]]) -> None:
    assert fit_all(engine.run(tallied, paths[3])) == maps()
    assert engine.run(fitted, paths[8]) == [maps()[type(each).__name__] for each in FROM_FRAMES]


# ----------------------------------------------------------------------------------------------------- unusable rows

BAD: list[tuple[str, Any]] = [
    *(("s", bad) for bad in (None, None, math.nan, 1.5, -0.25, math.inf)),
    *(("y", bad) for bad in (None, 2)),
    *(("w", bad) for bad in (None, math.nan, -1.0, math.inf, -math.inf)),
    ("land", None),
]
WHY = (
    "score 's' missing in 3, score 's' outside [0, 1] in 3, label 'y' missing in 1, label 'y' neither 0 nor 1 in 1, "
    "weight 'w' missing in 2, weight 'w' negative or infinite in 3, 'land' missing in 1"
)


def test_unusable_rows_are_counted_by_reason_and_refused_or_left_out(engine: Any, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    data = columns()
    good = [{name: data[name][i].item() for name in ("s", "y", "w", "land", "at")} for i in range(1_000)]
    bad = [good[i] | {name: value} for i, (name, value) in enumerate(BAD)]
    types = {"s": pa.float64(), "y": pa.int64(), "w": pa.float64(), "land": pa.string(), "at": pa.timestamp("us")}
    mixed = [row for i, each in enumerate(good) for row in (each, *bad[i : i + 1])]
    path = _write(pa.Table.from_pylist(mixed, schema=pa.schema(types)), tmp_path, "bad")
    clean = _write(pa.Table.from_pylist(good, schema=pa.schema(types)), tmp_path, "clean")
    options = {"sample_weight": "w", "by": "land"}
    of = f"{len(BAD):,} of {len(mixed):,} rows"
    assert engine.run(refused, path, **options).startswith(f"frame has {of} that cannot be counted ({WHY})")
    got, messages = engine.run(left_out, path, **options)
    assert messages == [f"left out {of} that cannot be counted ({WHY})"]
    expected = engine.run(tallied, clean, **options)
    assert list(got) == list(expected)
    for key in expected:
        np.testing.assert_allclose(got[key].n, expected[key].n, rtol=1e-12, atol=0.0)
        np.testing.assert_array_equal(got[key].cells.rows, expected[key].cells.rows)
    plain, _ = engine.run(left_out, path)
    kept = [row for row in mixed if row not in bad[:8]]
    assert_same(plain, Tally.from_arrays([row["s"] for row in kept], [row["y"] for row in kept]))


# --------------------------------------------------------------------------------------------- apply, write, and say

KNOTS = np.unique(np.random.default_rng(72).random(100))
STEPS = StepMap(KNOTS, np.random.default_rng(73).random(len(KNOTS) + 1))
PLATT = LogitAffineMap(1.3, -0.4)


def test_maps_are_applied(engine: Any, paths: dict[int, list[str]]) -> None:
    data = columns()
    for map_, tolerance in ((STEPS, 0.0), (PLATT, 1e-12)):
        got = engine.run(applied, paths[3], map_, "s")
        np.testing.assert_array_equal(got["id"], data["id"])
        np.testing.assert_array_equal(got["s"], data["s"])
        np.testing.assert_allclose(got["calibrated"], map_.apply(data["s"]), rtol=tolerance, atol=0.0)


def test_spark_connect_counts_and_applies_the_same(connect: Any, paths: dict[int, list[str]]) -> None:
    """Without `--full` all that is asked of Spark Connect here."""
    read, data = reads(connect), columns()
    assert_same(tallied(read, paths[3]), Tally.from_arrays(data["s"], data["y"], grid=Grid()))
    np.testing.assert_array_equal(applied(read, paths[3], STEPS, "s")["calibrated"], STEPS.apply(data["s"]))


def test_missing_scores_have_no_probability_and_knots_fall_on_their_side(engine: Any, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    scores = [None, math.nan, *KNOTS, *np.nextafter(KNOTS, 0.0), *np.nextafter(KNOTS, 1.0)]
    table = pa.table({"id": np.arange(len(scores)), "s": pa.array(scores, pa.float64())})
    got = engine.run(applied, _write(table, tmp_path, "knots"), STEPS, "s")["calibrated"]
    assert np.isnan(np.asarray(got[:2], dtype=np.float64)).all()
    np.testing.assert_array_equal(np.asarray(got[2:], dtype=np.float64), STEPS.apply(np.array(scores[2:])))


@pytest.mark.parametrize("map_", [STEPS, PLATT], ids=["steps", "curve"])
def test_nan_that_statistics_of_a_file_leave_out_has_no_probability(engine: Any, tmp_path: Path, map_: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    scores = [math.nan, 0.25, 0.5]
    table = pa.table({"id": np.arange(len(scores)), "s": pa.array(scores, pa.float64())})
    got = np.asarray(engine.run(applied, _write(table, tmp_path, "nan"), map_, "s")["calibrated"], dtype=np.float64)
    np.testing.assert_array_equal(np.isnan(got), [True, False, False])


@pytest.mark.parametrize("address", [False, pytest.param(True, marks=pytest.mark.full)])
def test_frames_are_written_as_parquet(engine: Any, paths: dict[int, list[str]], tmp_path: Path, address: bool) -> None:
    pads = pytest.importorskip("pyarrow.dataset")
    path = tmp_path / "out.parquet"
    engine.run(written, paths[3], STEPS, path.as_uri() if address else str(path))
    back = pads.dataset(str(path)).to_table(["id", "p"]).sort_by("id")
    np.testing.assert_array_equal(back["id"].to_numpy(), columns()["id"])
    np.testing.assert_array_equal(back["p"].to_numpy(), STEPS.apply(columns()["s"]))


def test_an_engine_says_what_it_can(engine: Any, paths: dict[int, list[str]]) -> None:
    got = engine.run(able, paths[1])
    expected = ABILITIES.get(engine.name) or ABILITIES[engine.name.split("-")[0]]
    assert (got.engine, got.lazy, got.dialect, got.distributed) == expected


# -------------------------------------------------------------------------------------------------------- the verdict


@cache
def verdict_on_arrays() -> dict[str, Any]:
    data = columns()
    by = {name: data[name] for name in ("land", "grade")}
    cells = [f"{land}, {grade}" for land, grade in zip(*(column.tolist() for column in by.values()), strict=True)]
    by = {"land, grade": np.array(cells), **by}
    buckets = cluster_buckets(data["patient"])  # a frame of this size is counted in these
    found = check(data["s"], data["y"], by=by, time=data["week"], groups=buckets)
    return replace(found, n_groups=len(np.unique(data["patient"]))).to_dict()


def test_the_verdict_is_that_on_arrays(engine: Any, paths: dict[int, list[str]]) -> None:
    there = engine.run(checked, paths[1], by=["land", "grade"], time="week", groups="patient")
    assert there["status"] == verdict_on_arrays()["status"] == "miscalibrated"
    assert_close(there, verdict_on_arrays())
