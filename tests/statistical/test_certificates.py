"""Certificates are broken at most alpha of the time, in worlds whose truth is known; and the check would notice."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibrant.calibrators.binning import HistogramBinning
from calibrant.guarantees.certificates import Certificate
from calibrant.numerics import Grid
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical


def _load_benchmark() -> ModuleType:
    """Import benchmarks/certificates.py by path, with its folder in sight as when it runs as a script."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    spec = importlib.util.spec_from_file_location("benchmark_certificates", folder / "certificates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


benchmark = _load_benchmark()
WORLDS = {world.name: world for world in benchmark.WORLDS}


def broken(world: Any, promise: Certificate) -> bool:
    """Whether a promised bin's true rate is further than epsilon from its output; all bins closed on the left."""
    assert not promise.edge_open.any()
    rate = world.rate(np.append(-np.inf, promise.knots), np.append(promise.knots, np.inf))
    return bool((promise.promised & (np.abs(rate - promise.outputs) > promise.epsilon + 1e-12)).any())


@pytest.mark.parametrize("world", WORLDS)
def test_no_certificate_is_broken_more_often_than_alpha(world: str, full_size: bool) -> None:
    settings = benchmark.FULL.settings if full_size else (benchmark.Setting(21, 10), benchmark.Setting(600, 5))
    size = benchmark.Size(1_000 if full_size else 120, settings, ("exact", "grid10", "grid4"), ())
    rows = benchmark.run(size, [world], seed=1)
    assert len(rows) == len(settings) * 3 * 3 * 2, "settings, forms, bounds, modes"
    assert not [str(row) for row in rows if row.failures]


def test_the_script_prints_its_tables_and_ends_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--quick", "--repetitions", "20", "--worlds", "constant,heaped", "--processes", "1"]
    assert benchmark.main([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr()
    assert "Broken certificates, in %" in printed.out
    assert "rows fail" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 120
    assert "2/4 constant 1000/5" in printed.err
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {row["world"] for row in document["rows"]} == {"constant", "heaped"}


def test_a_broken_certificate_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ALPHA", 0.6)  # a certificate at 0.6 that is held to 0.1
    monkeypatch.setattr(benchmark, "binomial_p", lambda k, n: stats.binomtest(k, n, 0.1, alternative="greater").pvalue)
    assert benchmark.main(["--quick", "--repetitions", "40", "--worlds", "constant", "--processes", "1"]) == 1


def test_the_exact_interval_is_the_tightest_and_near_the_truth() -> None:
    """Where all bins are alike, epsilon is what the largest error reaches, within the discreteness of counts."""
    size = benchmark.Size(200, (benchmark.Setting(1_000, 5),), ("exact",), ("exact",))
    rows = benchmark.run(size, ["sawtooth_fine"], seed=2)
    tight = {row.bound: row.tightness for row in rows if row.mode == "simultaneous"}
    assert 0.9 < tight["clopper-pearson"] < 1.3
    assert tight["clopper-pearson"] < tight["hoeffding"] < tight["bernstein"]
    assert tight["clopper-pearson"] < tight["always-valid"]


def test_the_check_catches_readings_of_the_source_that_are_wrong() -> None:
    for flaw in benchmark.flaws(200, seed=3):
        assert flaw.caught, flaw


def test_algorithm_41_to_the_letter_is_right_without_ties() -> None:
    """It is the ties that break it: on continuous scores the same code keeps the promise."""
    rng = np.random.default_rng(4)
    setting = benchmark.Setting(500, 5)
    count = sum(benchmark.literal_algorithm_41(WORLDS["smooth"], setting, rng) for _ in range(300))
    assert benchmark.binomial_p(count, 300) > benchmark.LEVEL


def test_the_largest_bernstein_width_keeps_corollary_33() -> None:
    repetitions = 3_000
    rng = np.random.default_rng(5)
    assert benchmark.corollary_33(rng, repetitions, literal=True) > 0.15 * repetitions
    assert benchmark.corollary_33(rng, repetitions, literal=False) < 0.01 * repetitions


def test_the_truth_of_an_open_bin_leaves_its_edge_out() -> None:
    """Two digits, an edge at 0.5 (rate 0.15): [0.5, 0.52) holds 0.5 and 0.51, (0.5, 0.52) holds 0.51 alone."""
    world = WORLDS["two_digit"]
    whole = benchmark.Truth.of(world, np.array([0.5, 0.52]))
    open_bin = whole.without_edges(world, np.array([0.5, 0.52]), np.array([False, True, False]))
    assert whole.mass[1] == pytest.approx(2 / 101)
    assert whole.rate[1] == pytest.approx(0.5)
    assert open_bin.mass[1] == pytest.approx(1 / 101)
    assert open_bin.rate[1] == pytest.approx(0.85)
    assert open_bin.rate[[0, 2]].tolist() == whole.rate[[0, 2]].tolist()


@pytest.mark.parametrize("seed", [0, 8, 22])
def test_the_promise_holds_for_every_seed_and_not_only_on_average_over_seeds(seed: int) -> None:
    """A generator seeded alike for all data sets takes too many events into every part: seed 8 then breaks 20 %."""
    world, repetitions = WORLDS["constant"], 600
    count = 0
    for repetition in range(repetitions):
        tally = Tally.from_arrays(*world.sample(np.random.default_rng([6, repetition]), 100), grid=Grid(bits=4))
        promise = HistogramBinning(5, random_state=seed).fit_tally(tally).certificate(0.1)
        assert isinstance(promise, Certificate)
        count += broken(world, promise)
    assert benchmark.binomial_p(count, repetitions) > 1e-3


# ----------------------------------------------------------------------------------------------------------------------
# Certificate.check
# ----------------------------------------------------------------------------------------------------------------------


def fresh(promise: Certificate, rates: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows with uniform scores and the given event rate in each bin."""
    scores = rng.random(n)
    index = np.searchsorted(promise.knots, scores, side="right")
    return scores, (rng.random(n) < rates[index]).astype(int)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_fresh_rows_at_the_end_of_every_interval_raise_few_alarms(end: str) -> None:
    """The worst case that the promise allows: true rates exactly on the ends."""
    rng = np.random.default_rng(7)
    promise = HistogramBinning(5).fit(*WORLDS["smooth"].sample(rng, 1_000)).certificate(0.1)
    assert isinstance(promise, Certificate)
    repetitions, level = 400, 0.1
    alarms = sum(
        not promise.check(*fresh(promise, getattr(promise, end), 500, rng), level=level) for _ in range(repetitions)
    )
    assert stats.binomtest(alarms, repetitions, level, alternative="greater").pvalue > 1e-3


def test_a_narrow_promise_raises_few_alarms_on_either_side() -> None:
    """An interval much narrower than the noise of the fresh rows: both tails are at stake."""
    rng = np.random.default_rng(8)
    tally = Tally.from_table([10**9, 10**9], [5 * 10**8, 5 * 10**8], edges=[0.5])
    promise = HistogramBinning().fit_tally(tally).certificate(0.1)
    assert isinstance(promise, Certificate)
    repetitions, level = 400, 0.2
    alarms = sum(
        not promise.check(*fresh(promise, np.array([0.5, 0.5]), 2_000, rng), level=level) for _ in range(repetitions)
    )
    assert stats.binomtest(alarms, repetitions, level, alternative="greater").pvalue > 1e-3


def test_another_population_is_found_out() -> None:
    world = WORLDS["smooth"]
    rng = np.random.default_rng(9)
    promise = HistogramBinning(5).fit(*world.sample(rng, 2_000)).certificate(0.1)
    assert isinstance(promise, Certificate)
    assert promise.check(*world.sample(rng, 5_000))
    scores, labels = world.sample(rng, 5_000)
    verdict = promise.check(scores, np.where(rng.random(5_000) < 0.3, 1 - labels, labels))
    assert not verdict
    assert "Contradicted in" in str(verdict)
    assert verdict.p_values[verdict.broken].max() < 0.01
