"""Certificates are broken at most alpha of the time, in worlds whose truth is known; and the check would notice."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.origins import Assumption
from calibrant.messages import CalibrantWarning
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


def broken(world: Any, promise: Certificate | NoCertificate) -> bool:
    """Whether a promised bin's true rate is further than epsilon from its output; all bins closed on the left."""
    assert isinstance(promise, Certificate)
    rate = world.rate(np.append(-np.inf, promise.about.knots), np.append(promise.about.knots, np.inf))
    return bool((promise.covered & (np.abs(rate - promise.outputs) > promise.epsilon + 1e-12)).any())


def test_no_certificate_is_broken_more_often_than_alpha(subtests: pytest.Subtests, full_size: bool) -> None:
    for world in WORLDS:
        with subtests.test(world=world):
            settings = benchmark.FULL.settings if full_size else (benchmark.Setting(21, 10), benchmark.Setting(600, 5))
            forms = tuple(benchmark.FORMS) if full_size else ("own", "own-g4", "part-g4")
            rows = benchmark.run(benchmark.Size(1_000 if full_size else 25, settings, forms), [world], seed=1)
            bounds = sum(len(benchmark.FORMS[form].bounds) for form in forms)
            assert len(rows) == len(settings) * bounds * 2, "settings, forms and bounds, modes"
            assert not [str(row) for row in rows if row.failures]


def test_the_seven_ways_to_choose_bins_are_all_there() -> None:
    always_valid = [name for name, form in benchmark.FORMS.items() if "always-valid" in form.bounds]
    assert list(benchmark.FORMS) == ["own", "own-g10", "own-g4", "part", "part-g4", "yesterday", "width"]
    assert always_valid == ["yesterday", "width"]


def test_the_script_prints_its_tables_and_ends_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--quick", "--repetitions", "20", "--worlds", "constant,heaped", "--processes", "1"]
    assert benchmark.main([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr()
    assert "Broken marginal certificates, in %" in printed.out
    assert "rows fail" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 120
    assert "2/4 constant 1000/5" in printed.err
    assert all(f"  {form:<10} " in printed.out for form in benchmark.FORMS)
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {row["world"] for row in document["rows"]} == {"constant", "heaped"}


def test_a_broken_certificate_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ALPHA", 0.6)  # a certificate at 0.6 that is held to 0.1
    monkeypatch.setattr(benchmark, "binomial_p", lambda k, n: stats.binomtest(k, n, 0.1, alternative="greater").pvalue)
    assert benchmark.main(["--quick", "--repetitions", "40", "--worlds", "constant", "--processes", "1"]) == 1


def test_the_exact_interval_is_the_tightest_and_near_the_truth() -> None:
    """Where all bins are alike, epsilon is what the largest error reaches, within the discreteness of counts."""
    size = benchmark.Size(200, (benchmark.Setting(1_000, 5),), ("own", "yesterday"))
    rows = benchmark.run(size, ["sawtooth_fine"], seed=2)
    tight = {(row.form, row.bound): row.tightness for row in rows if row.mode == "simultaneous"}
    for form in size.forms:
        assert 0.9 < tight[form, "clopper-pearson"] < 1.3
        assert tight[form, "clopper-pearson"] < tight[form, "hoeffding"] < tight[form, "bernstein"]
    assert tight["yesterday", "clopper-pearson"] < tight["yesterday", "always-valid"]


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


def test_the_truth_with_an_uncovered_edge_and_without() -> None:
    """Two digits, an edge at 0.5 (rate 0.15): the bin above it holds 0.51 (rate 0.85) alone, or both."""
    world = WORLDS["two_digit"]
    knots = np.array([0.5, np.nextafter(0.5, 1.0), 0.52])
    truth = benchmark.Truth.of(world, knots)
    assert truth.mass[1:3] == pytest.approx([1 / 101, 1 / 101])
    assert truth.rate[1:3] == pytest.approx([0.15, 0.85])
    whole = benchmark.Truth.with_edges(world, knots, np.array([False, True, False, False]))
    assert whole.mass[2] == pytest.approx(2 / 101)
    assert whole.rate[2] == pytest.approx(0.5)
    assert whole.rate[[0, 3]].tolist() == truth.rate[[0, 3]].tolist()


# ----------------------------------------------------------------------------------------------------------------------
# No chance involved: scores of one or two values, every outcome enumerated
# ----------------------------------------------------------------------------------------------------------------------

SIZES = [(100, 5), (21, 10), (300, 5)]
GRIDS = [pytest.param(None, id="exact"), pytest.param(Grid(bits=4), id="grid4")]
AT_ONE_TIME = [name for name, bound in BOUNDS.items() if not bound.any_time]
CLAIMS = list(product(AT_ONE_TIME, benchmark.MODES))


def of_counts(values: Sequence[float], n: Sequence[int], events: Sequence[int], grid: Grid | None) -> Tally:
    """Tally of ``n[i]`` rows with score ``values[i]``, of which ``events[i]`` are events."""
    labels = np.concatenate([np.arange(size) < hits for size, hits in zip(n, events, strict=True)]).astype(int)
    return Tally.from_arrays(np.repeat(values, n), labels, grid=grid)


def ends(promise: Certificate | NoCertificate, value: float, by_bin: bool) -> tuple[float, float]:
    """Where the promise puts the true rate of the bin of ``value``; anywhere if it is silent."""
    if not isinstance(promise, Certificate):
        return 0.0, 1.0
    j = int(np.searchsorted(promise.about.knots, value, side="right"))
    if not promise.covered[j]:
        return 0.0, 1.0
    if by_bin:
        return promise.lower[j], promise.upper[j]
    return promise.outputs[j] - promise.epsilon, promise.outputs[j] + promise.epsilon


def worst_case(low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """The largest chance, over all true rates, that [low[k], high[k]] misses the rate, and where it is reached.

    It jumps up just outside an end and is smooth in between; a fine net takes care of what is in between.
    """
    rates = np.concatenate([np.linspace(0, 1, 1_001), low - 1e-9, low + 1e-9, high - 1e-9, high + 1e-9])
    rates = np.unique(np.clip(rates, 0, 1))[:, None]
    missed = (rates < low - 1e-12) | (rates > high + 1e-12)
    n = len(low) - 1
    chance = (stats.binom.pmf(np.arange(n + 1), n, rates) * missed).sum(axis=1)
    return float(chance.max()), float(rates[chance.argmax(), 0])


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("n", "n_bins"), SIZES)
@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")  # k = 0 and k = n hold one class
def test_a_constant_score_at_every_rate_and_count(n: int, n_bins: int, grid: Grid | None) -> None:
    fits = [HistogramBinning(n_bins).fit_tally(of_counts([0.3], [n], [k], grid)) for k in range(n + 1)]
    for (bound, mode), by_bin in product(CLAIMS, (False, True)):
        promises = [fit.certificate(0.1, interval=bound, coverage=mode) for fit in fits]
        low, high = np.array([ends(promise, 0.3, by_bin) for promise in promises]).T
        worst, rate = worst_case(low, high)
        assert worst <= 0.1, (bound, mode, by_bin, rate)
        if bound == "clopper-pearson":
            assert worst > 0.08, "near alpha: the enumeration would notice a promise that is a little too narrow"


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("n", "n_bins"), [((30, 30), 2), ((12, 40), 3)])
@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
def test_two_values_at_every_pair_of_rates_and_counts(n: tuple[int, int], n_bins: int, grid: Grid | None) -> None:
    """Given how many rows fall on each value, their events are independent binomials."""
    values = (0.2, 0.7)
    counts = list(product(range(n[0] + 1), range(n[1] + 1)))
    fits = [HistogramBinning(n_bins).fit_tally(of_counts(values, n, events, grid)) for events in counts]
    promises = [fit.certificate(0.1) for fit in fits]
    assert all(isinstance(promise, Certificate) and promise.covered.sum() == 2 for promise in promises)
    rates = np.linspace(0, 1, 501)[:, None]
    for by_bin in (False, True):
        kept = []
        for i, value in enumerate(values):
            low, high = np.array([ends(promise, value, by_bin) for promise in promises]).T
            weight = stats.binom.pmf(np.arange(n[i] + 1), n[i], rates)[:, [events[i] for events in counts]]
            kept.append(weight * (rates >= low - 1e-12) * (rates <= high + 1e-12))
        worst = float((1 - kept[0] @ kept[1].T).max())
        assert 0.03 < worst <= 0.1


# ----------------------------------------------------------------------------------------------------------------------
# Random parts: the confidence counts the draw
# ----------------------------------------------------------------------------------------------------------------------


def unrefused(cal: HistogramBinning) -> HistogramBinning:
    """The fit with its certificate: the seed of the draw is either random here, or shown to be its weakness."""
    cal.bins_ = replace(cal.bins_, refusal=None)
    return cal


@pytest.mark.parametrize("rate", [0.37, 0.606])
@pytest.mark.parametrize("seeds", ["drawn", "fresh"])
def test_a_part_keeps_its_promise_on_a_constant_score_when_its_draw_is_fresh(rate: float, seeds: str) -> None:
    """Where few tallies are possible, a fixed seed has few draws: see the next test."""
    repetitions, count = 600, 0
    rng = np.random.default_rng([6, int(1_000 * rate)])
    for _ in range(repetitions):
        tally = of_counts([0.3], [100], [rng.binomial(100, rate)], Grid(bits=4))
        seed = int(rng.integers(2**63)) if seeds == "drawn" else None
        promise = unrefused(HistogramBinning(5, bins_from="split", random_state=seed).fit_tally(tally)).certificate(0.1)
        low, high = ends(promise, 0.3, by_bin=False)
        count += not low <= rate <= high
    assert benchmark.binomial_p(count, repetitions) > (1e-3 if seeds == "drawn" else 1e-6)


@pytest.mark.parametrize("form", ["part", "part-g4"])
def test_a_part_keeps_its_promise_in_a_world_of_ties(form: str) -> None:
    world, repetitions, count = WORLDS["heaped"], 300, 0
    rng = np.random.default_rng(7)
    for _ in range(repetitions):
        sample = world.sample(rng, 300)
        count += broken(world, benchmark.FORMS[form].fit(sample, sample, 5, int(rng.integers(2**63))).certificate(0.1))
    assert benchmark.binomial_p(count, repetitions) > 1e-3


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
def test_a_seed_that_is_fixed_before_all_data_does_not_keep_it_at_every_rate() -> None:
    """101 possible tallies meet 101 draws: 23.8 % at a rate of 0.606 for seed 0. So such fits carry no certificate."""
    worst = []
    for seed in range(3):
        cal = HistogramBinning(5, bins_from="split", random_state=seed)
        tallies = [of_counts([0.3], [100], [k], Grid(bits=4)) for k in range(101)]
        assert not any(cal.fit_tally(tally).certificate(0.1) for tally in tallies)
        found = [ends(unrefused(cal.fit_tally(tally)).certificate(0.1), 0.3, by_bin=False) for tally in tallies]
        worst.append(worst_case(*np.array(found).T)[0])
    assert max(worst) > 0.15


def test_a_draw_puts_its_assumption_into_the_certificate(subtests: pytest.Subtests) -> None:
    for seed in [None, 0, 8]:
        with subtests.test(seed=seed):
            rng = np.random.default_rng(8)
            cal = HistogramBinning(5, bins_from="split", random_state=seed).fit(*WORLDS["smooth"].sample(rng, 400))
            promise = cal.certificate()
            assert isinstance(promise, Certificate)
            sentence = "the random split was drawn once, and neither it nor its seed was chosen by its result"
            assert promise.assumptions[-1] is Assumption.ONE_DRAW
            assert sentence in str(promise)


# ----------------------------------------------------------------------------------------------------------------------
# Always valid: one may look as often as one likes
# ----------------------------------------------------------------------------------------------------------------------


def test_an_always_valid_certificate_is_seldom_broken_at_any_look() -> None:
    """Rows arrive and every look asks for a certificate; bins that are empty at first fill later."""
    world, looks, streams = WORLDS["smooth"], np.unique(np.geomspace(5, 1_500, 12).astype(int)), 100
    found = dict.fromkeys(("always-valid", "clopper-pearson"), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        for stream in range(streams):
            scores, labels = world.sample(np.random.default_rng([9, stream]), int(looks[-1]))
            fits = [HistogramBinning(2, strategy="width").fit(scores[:n], labels[:n]) for n in looks]
            for bound in found:
                found[bound] += any(outside(world, fit.certificate(0.1, interval=bound)) for fit in fits)
    assert benchmark.binomial_p(found["always-valid"], streams) > 1e-3
    assert benchmark.binomial_p(found["clopper-pearson"], streams) < 1e-3, "a promise for one look: the test has power"


def outside(world: Any, promise: Certificate | NoCertificate) -> bool:
    """Whether a promised bin's true rate is outside its own interval."""
    assert isinstance(promise, Certificate)
    return bool(
        benchmark.Truth.of(world, promise.about.knots).outside(promise.lower, promise.upper, promise.covered).any()
    )


# ----------------------------------------------------------------------------------------------------------------------
# Certificate.check
# ----------------------------------------------------------------------------------------------------------------------


def fresh(promise: Certificate, rates: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows with uniform scores and the given event rate in each bin."""
    scores = rng.random(n)
    index = np.searchsorted(promise.about.knots, scores, side="right")
    return scores, (rng.random(n) < rates[index]).astype(int)


@pytest.mark.parametrize("by_bin", [False, True])
@pytest.mark.parametrize("side", [-1, 1])
def test_fresh_rows_at_the_end_of_every_interval_raise_few_alarms(side: int, by_bin: bool) -> None:
    """The worst case that the promise allows: true rates exactly on the ends."""
    rng = np.random.default_rng(7)
    promise = HistogramBinning(5).fit(*WORLDS["smooth"].sample(rng, 1_000)).certificate(0.1)
    assert isinstance(promise, Certificate)
    rates = np.clip(promise.outputs + side * promise.epsilon, 0, 1)
    if by_bin:
        rates = promise.lower if side < 0 else promise.upper
    repetitions, level = 400, 0.1
    alarms = sum(
        not promise.check(*fresh(promise, rates, 500, rng), significance=level, by_bin=by_bin)
        for _ in range(repetitions)
    )
    assert stats.binomtest(alarms, repetitions, level, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("by_bin", [False, True])
def test_a_narrow_promise_raises_few_alarms_on_either_side(by_bin: bool) -> None:
    """An interval much narrower than the noise of the fresh rows: both tails are at stake."""
    rng = np.random.default_rng(8)
    tally = Tally.from_table([10**9, 10**9], [5 * 10**8, 5 * 10**8], edges=[0.5])
    promise = HistogramBinning().fit_tally(tally).certificate(0.1)
    assert isinstance(promise, Certificate)
    repetitions, level, rates = 400, 0.2, np.array([0.5, 0.5])
    alarms = sum(
        not promise.check(*fresh(promise, rates, 2_000, rng), significance=level, by_bin=by_bin)
        for _ in range(repetitions)
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
    assert verdict.telling
    assert "5,000 rows: contradicted in" in str(verdict)
    assert verdict.p_values[verdict.broken].max() < 0.01


def test_the_check_by_bin_sees_what_the_common_epsilon_hides() -> None:
    """A bin of rate 0.01 has a short interval of its own; a rate of 0.04 breaks it and not output +- epsilon."""
    tally = Tally.from_table([10_000, 1_000], [100, 500], edges=[0.5])
    promise = HistogramBinning().fit_tally(tally).certificate(0.1)
    assert isinstance(promise, Certificate)
    assert promise.upper[0] < 0.04 < promise.outputs[0] + promise.epsilon
    rows = fresh(promise, np.array([0.04, 0.5]), 8_000, np.random.default_rng(10))
    assert promise.check(*rows)
    assert promise.check(*rows, by_bin=True).broken.tolist() == [0]


def test_rows_on_an_uncovered_edge_do_not_count_and_few_rows_tell_nothing() -> None:
    promise = HistogramBinning(5).fit(*WORLDS["smooth"].sample(np.random.default_rng(11), 1_000)).certificate(0.1)
    assert isinstance(promise, Certificate)
    edge = float(promise.about.knots[np.flatnonzero(promise.about.uncovered)[0] - 1])
    verdict = promise.check([edge] * 500 + [0.1, 0.2, 0.9], [0, 1] * 250 + [1, 1, 0])
    assert (verdict.n, verdict.telling, verdict.holds) == (3, False, True)
    assert str(verdict).startswith("3 rows: too few")
