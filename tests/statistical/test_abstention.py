"""Thresholds, bands and routes keep what they guarantee, on distributions that are hard for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.abstention import gap_coverage
from scipy import stats

from calibrant.abstention import accept, accept_models, risk_coverage, route
from calibrant.abstention.chain import Ladder, p_values

pytestmark = pytest.mark.statistical
LEVEL, ALPHA, ERROR = 1e-3, 0.05, 0.1

Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
Risk = Callable[[float], float]


def heaps(shares: list[float], errors: list[float]) -> tuple[Draw, Risk]:
    """Few stated confidences, the highest last."""
    p, wrong = np.array(shares) / np.sum(shares), np.array(errors)
    values = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])[-len(p) :]

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        kind = rng.choice(len(p), n, p=p)
        return values[kind], rng.random(n) >= wrong[kind]

    def risk(t: float) -> float:
        above = values >= t
        return float((p * wrong)[above].sum() / p[above].sum()) if above.any() else 0.0

    return draw, risk


def saw(teeth: int, wrong: float) -> tuple[Draw, Risk]:
    """Labels that are a function of the score: a stretch of wrong ones at the top of each tooth."""
    fine = np.linspace(0.0, 1.0, 200_001)
    below = np.cumsum((1.0 - fine) * teeth % 1.0 < wrong)
    running = (below[-1] - below + 1) / np.arange(len(fine), 0, -1)

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        s = rng.random(n)
        return s, (1.0 - s) * teeth % 1.0 >= wrong

    return draw, lambda t: float(running[min(int(t * 200_000), 200_000)])


OVER = ERROR + 1e-9
WORLDS: dict[str, tuple[Draw, Risk]] = {
    "error at the bound everywhere": heaps([1] * 7, [OVER] * 7),
    "few rows at the top, and they are bad": heaps([0.4, 0.35, 0.1], [0.5, 0.09, 0.14]),
    "the bound is passed at the second value": heaps([0.3, 0.3, 0.4], [0.3, 0.15 + 1e-9, 0.0625]),
    "better below than above": heaps([0.2, 0.5, 0.1, 0.1], [0.31, 0.05, 0.15, 0.2]),
    "all wrong": heaps([1, 1], [1.0, 1.0]),
    "all right": heaps([1, 1], [0.0, 0.0]),
    "without ties, labels given by the score": saw(40, ERROR + 0.002),
    "without ties, long stretches": saw(4, ERROR + 0.002),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_error_above_the_threshold_is_seldom_too_large(name: str, full_size: bool) -> None:
    draw, risk = WORLDS[name]
    rng = np.random.default_rng([3, list(WORLDS).index(name)])
    for n in (29, 150) if not full_size else (29, 60, 150, 600):
        runs, wrong = 2_000 if full_size else 250, 0
        for _ in range(runs):
            found = accept(*draw(n, rng), error=ERROR, alpha=ALPHA)
            wrong += found.threshold is not None and risk(found.threshold) > ERROR
        assert stats.binomtest(wrong, runs, ALPHA, alternative="greater").pvalue > LEVEL, (name, n)
        if name == "all right" and n > 60:
            assert found.coverage == 1.0


def test_a_threshold_that_looks_best_would_not_keep_it() -> None:
    """The test has power: the lowest threshold whose own test passes is too often bad."""
    draw, _ = saw(40, OVER)
    rng, wrong = np.random.default_rng(4), 0
    for _ in range(200):
        ladder = Ladder.of(*draw(150, rng))
        wrong += bool((p_values(ladder.wrong, ladder.rows, ERROR) <= ALPHA).any())
    assert wrong > 2 * ALPHA * 200


def test_a_fixed_start_keeps_the_whole_alpha(full_size: bool) -> None:
    draw, risk = WORLDS["without ties, labels given by the score"]
    rng, runs, wrong = np.random.default_rng(5), 2_000 if full_size else 250, 0
    for _ in range(runs):
        found = accept(*draw(150, rng), error=ERROR, alpha=ALPHA, start=0.7)
        wrong += found.threshold is not None and risk(found.threshold) > ERROR
    assert stats.binomtest(wrong, runs, ALPHA, alternative="greater").pvalue > LEVEL


def test_the_best_of_several_models_keeps_it(full_size: bool) -> None:
    names = ["error at the bound everywhere", "few rows at the top, and they are bad", "better below than above"]
    rng, runs, wrong = np.random.default_rng(6), 2_000 if full_size else 120, 0
    for _ in range(runs):
        drawn = {name: WORLDS[name][0](120, rng) for name in names}
        found = accept_models({k: v[0] for k, v in drawn.items()}, {k: v[1] for k, v in drawn.items()}, alpha=ALPHA)
        wrong += any(m.found and WORLDS[name][1](m.threshold) > ERROR for name, m in found.models.items())
    assert stats.binomtest(wrong, runs, ALPHA, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("name", ["better below than above", "without ties, long stretches"])
def test_the_band_of_the_curve_holds_at_all_points_at_once(name: str, full_size: bool) -> None:
    draw, risk = WORLDS[name]
    rng, runs, missed = np.random.default_rng(7), 2_000 if full_size else 250, 0
    for _ in range(runs):
        curve = risk_coverage(*draw(100, rng), alpha=0.1, points=8)
        true = np.array([risk(t) for t in curve.threshold])
        missed += bool(((true < curve.low - 1e-4) | (true > curve.high + 1e-4)).any())  # the saw is known to 1e-5
    assert stats.binomtest(missed, runs, 0.1, alternative="greater").pvalue > LEVEL


def test_a_route_keeps_its_error_and_its_cost(full_size: bool) -> None:
    """The error of the routing is at the bound at t = 0.5: cheap answers are wrong with 1 - s, others with 0.02."""
    rng, runs, wrong, dear = np.random.default_rng(8), 2_000 if full_size else 250, 0, 0
    bound = 0.02 * 0.5 + 0.5**2 / 2
    for _ in range(runs):
        s = rng.random(200)
        found = route(s, rng.random(200) < s, rng.random(200) < 0.98, error=bound, alpha=ALPHA)
        t = 1.0 if found.threshold is None else found.threshold
        wrong += found.shown and 0.02 * t + (1.0 - t) ** 2 / 2 > bound
        dear += found.shown and not found.cost_low <= 1.0 + 10.0 * t <= found.cost_high
    assert stats.binomtest(wrong, runs, ALPHA, alternative="greater").pvalue > LEVEL
    assert stats.binomtest(dear, runs, ALPHA, alternative="greater").pvalue > LEVEL


def repeated(name: str, times: int) -> Callable[[int, np.random.Generator], tuple[np.ndarray, ...]]:
    """Groups whose rows all are one row of another world."""
    return lambda n, rng: tuple(np.repeat(each, times) for each in (*WORLDS[name][0](n, rng), np.arange(n)))


def together(name: str, times: int) -> Callable[[int, np.random.Generator], tuple[np.ndarray, ...]]:
    """Groups of independent rows of another world, with a score each."""
    return lambda n, rng: (*WORLDS[name][0](n * times, rng), np.repeat(np.arange(n), times))


def last_wrong(n: int, rng: np.random.Generator, own: bool = False) -> tuple[np.ndarray, ...]:
    """Nine rows of each question, the last of which is always wrong: 11.1 % of random rows are."""
    scores = rng.choice([0.8, 0.9], 9 * n) if own else np.full(9 * n, 0.9)
    return scores, np.tile(np.arange(9) < 8, n), np.repeat(np.arange(n), 9)


def sized(n: int, rng: np.random.Generator, own: bool = False) -> tuple[np.ndarray, ...]:
    """Groups that are wrong with a probability at the bound, of one row if they are and of eight if they are not."""
    wrong = rng.random(n) < OVER
    size = np.where(wrong, 1, 8)
    group = np.repeat(np.arange(n), size)
    return rng.choice([0.7, 0.9], len(group)) if own else np.full(len(group), 0.9), ~wrong[group], group


def half_wrong(n: int, rng: np.random.Generator, own: bool = False) -> tuple[np.ndarray, ...]:
    """Groups of two rows, one of them wrong with twice the probability of the bound; the wrong one stands first."""
    bad = np.repeat(rng.random(n) < 2 * OVER, 2)
    scores = rng.random(2 * n) if own else np.repeat(rng.random(n), 2)
    return scores, ~(bad & (np.arange(2 * n) % 2 == 0)), np.repeat(np.arange(n), 2)


def always_over(_: float) -> float:
    return OVER


GROUPS: dict[str, tuple[Callable[[int, np.random.Generator], tuple[np.ndarray, ...]], Risk]] = {
    "the last of nine is wrong": (last_wrong, always_over),
    "the last of nine is wrong, own scores": (lambda n, rng: last_wrong(n, rng, True), always_over),
    "sizes follow labels": (sized, always_over),
    "sizes follow labels, own scores": (lambda n, rng: sized(n, rng, True), always_over),
    "half of a group is wrong": (half_wrong, always_over),
    "half of a group is wrong, own scores": (lambda n, rng: half_wrong(n, rng, True), always_over),
    "all or none of ten, own scores": (
        lambda n, rng: (
            rng.choice([0.8, 0.9], 10 * n),
            np.repeat(rng.random(n) >= OVER, 10),
            np.repeat(np.arange(n), 10),
        ),
        always_over,
    ),
    **{f"{name}, repeated": (repeated(name, 4), WORLDS[name][1]) for name in list(WORLDS)[1:4]},
    **{f"{name}, in groups": (together(name, 3), WORLDS[name][1]) for name in list(WORLDS)[3::4]},
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_count_once_and_keep_the_error(name: str, full_size: bool) -> None:
    """With 52 questions of nine rows one draw under seed 0 gave the false certificate with probability 1."""
    draw, risk = GROUPS[name]
    rng = np.random.default_rng([9, list(GROUPS).index(name)])
    for n in (30, 52, 202) if full_size else (52,):
        runs, wrong = 2_000 if full_size else 40, 0
        for _ in range(runs):
            scores, right, group = draw(n, rng)
            found = accept(scores, right, error=ERROR, alpha=ALPHA, groups=group)
            wrong += found.threshold is not None and risk(found.threshold) > ERROR
        assert stats.binomtest(wrong, runs, ALPHA, alternative="greater").pvalue > LEVEL, (name, n)


def test_dependent_rows_break_it_and_every_door_with_groups_keeps_it(full_size: bool) -> None:
    """Ten samples of each question, all right or all wrong; questions are wrong with a probability at the bound."""
    rng, runs = np.random.default_rng(10), 2_000 if full_size else 40
    question, failed = np.repeat(np.arange(60), 10), dict.fromkeys(["rows", "models", "start", "route", "curve"], 0)
    for _ in range(runs):
        right = np.repeat(rng.random(60) >= OVER, 10)
        stated, group = rng.choice([0.8, 0.9], 600), {"groups": question}
        failed["rows"] += accept(stated, right, alpha=ALPHA).found
        failed["models"] += accept_models({"a": stated}, {"a": right}, alpha=ALPHA, groups={"a": question}).found
        failed["start"] += accept(stated, right, alpha=ALPHA, start=0.9, **group).found
        failed["route"] += route(stated, right, right, alpha=ALPHA, **group).shown
        curve = risk_coverage(stated, right, alpha=ALPHA, points=4, **group)
        failed["curve"] += bool(((curve.low > OVER) | (curve.high < OVER)).any())
    assert failed.pop("rows") > 2 * ALPHA * runs
    for door, times in failed.items():
        assert stats.binomtest(times, runs, ALPHA, alternative="greater").pvalue > LEVEL, door


def test_the_cost_of_a_route_by_group_holds_at_its_threshold(full_size: bool) -> None:
    """Groups of one to five rows with a common part of the score; the cost counts each group once."""
    rng, runs, missed = np.random.default_rng(11), 2_000 if full_size else 100, 0
    for _ in range(runs):
        size = rng.integers(1, 6, 80)
        group = np.repeat(np.arange(80), size)
        s = (rng.random(80)[group] + rng.random(len(group))) / 2  # sums of two uniform numbers: triangular
        found = route(s, rng.random(len(s)) < 0.9 + 0.1 * s, np.ones(len(s)), groups=group, alpha=0.2, error=0.05)
        t = found.threshold
        below = 1.0 if t is None else 2 * t * t if t < 0.5 else 1 - 2 * (1 - t) ** 2
        missed += not found.cost_low <= 1.0 + 10.0 * below <= found.cost_high
    assert stats.binomtest(missed, runs, 0.2, alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("kind", ["all equal", "normal, sd 0.1", "two kinds"])
def test_intervals_of_gaps_hold_for_most_cells(kind: str, full_size: bool) -> None:
    runs = 400 if full_size else 25
    held, _, ratio = gap_coverage(kind, 8, 100, runs)
    assert stats.binomtest(round(held * runs * 8), runs * 8, 0.92, alternative="less").pvalue > LEVEL
    assert ratio < 1.05  # shrunken gaps are not worse
