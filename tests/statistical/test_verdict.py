"""Error rates that `check` states, on the worlds of benchmarks/verdict.py, and that clusters are not new evidence."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.verdict import BASE_RATES, OFFSETS, World, summary
from scipy import special, stats

from calibrant.verdict import check, compare

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


@pytest.mark.parametrize(("base_rate", "offset"), list(product(BASE_RATES, OFFSETS)))
def test_wrong_statements_are_as_rare_as_stated(base_rate: float, offset: str, full_size: bool) -> None:
    runs, sizes = (300, (100, 1_000, 10_000)) if full_size else (16, (100, 1_000))
    for n in sizes:
        row = summary(World(base_rate, 1.0, False, offset), n, runs)
        assert not list(row.failures()), str(row)


def test_tied_scores_do_not_raise_false_alarms(full_size: bool) -> None:
    row = summary(World(0.3, 0.7, True, "calibrated"), 400, 400 if full_size else 40)
    assert not list(row.failures()), str(row)


@pytest.mark.parametrize(
    ("world", "n"),
    [(World(0.005, 2.0, False, "low at limit"), 100), (World(0.005, 0.7, True, "extreme at limit"), 10_000)],
    ids=["one event or two", "events at the lowest score alone"],
)
def test_separated_classes_are_not_called_beyond_the_tolerance(world: World, n: int, full_size: bool) -> None:
    """Likelihood ratios called 15 % of them beyond it, where 2 % were stated."""
    row = summary(world, n, 600 if full_size else 25)
    assert not list(row.failures()), str(row)


def test_intervals_cover_with_few_unequal_groups(subtests: pytest.Subtests, full_size: bool) -> None:
    for count in [10, 20, 50]:
        with subtests.test(count=count):
            row = summary(World(0.3, 1.0, False, "calibrated"), count, 600 if full_size else 25, groups=True)
            assert not list(row.failures()), str(row)


def test_dependent_rows_raise_false_alarms_unless_their_groups_are_given(full_size: bool) -> None:
    """200 patients of 25 rows, labels of a patient drawn from one number: calibrated, but worth far fewer rows."""
    runs, alarms, naive = (400 if full_size else 30), 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(200), 25)
        scores = special.expit(-1.0 + 0.8 * rng.standard_normal(5_000))
        own = rng.random(5_000)
        shared = np.where(rng.random(5_000) < 0.7, rng.random(200)[patient], own)
        labels = shared < scores
        alarms += check(scores, labels, groups=patient).status in ("off", "miscalibrated")
        naive += check(scores, labels).status in ("off", "miscalibrated")
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3
    assert naive > 0.1 * runs, "without groups the same rows raise alarms: the test has power"


def clustered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """60 groups of 20 rows, labels of a group drawn mostly from one number; calibrated."""
    group = np.repeat(np.arange(60), 20)
    scores = special.expit(-0.5 + 0.8 * rng.standard_normal(1_200))
    own = rng.random(1_200)
    return scores, np.where(rng.random(1_200) < 0.8, rng.random(60)[group], own) < scores, group


def test_segments_and_periods_of_dependent_rows_are_not_called_off(full_size: bool) -> None:
    runs, wrong = (400 if full_size else 30), {"segment": 0, "period": 0}
    for seed in range(runs):
        scores, labels, group = clustered(np.random.default_rng([1, seed]))
        verdict = check(scores, labels, groups=group, by=group % 3, time=group // 8)
        wrong["segment"] += any(each.p_value <= 0.05 for each in verdict.segments)
        wrong["period"] += any(each.p_value <= 0.05 for each in verdict.periods)
    for kind, count in wrong.items():
        assert stats.binomtest(count, runs, 0.05, alternative="greater").pvalue > 1e-3, (kind, count)


def test_clusters_in_the_tail_alone_are_seen_there(full_size: bool) -> None:
    """4,000 independent rows and four groups of 60 rows at the top of the scores, each drawn from one number."""
    runs, alarms = (300 if full_size else 30), 0
    for seed in range(runs):
        rng = np.random.default_rng([2, seed])
        scores = np.append(special.expit(-2.0 + 0.8 * rng.standard_normal(4_000)), np.full(240, 0.7))
        draws = np.append(rng.random(4_000), np.repeat(rng.random(4), 60))
        group = np.append(np.arange(4_000), 5_000 + np.arange(240) // 60)
        alarms += check(scores, draws < scores, groups=group).status in ("off", "miscalibrated")
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3, alarms


@pytest.mark.parametrize("rows", ["independent", "weighted"])
def test_segments_of_a_calibrated_model_are_seldom_called_off(rows: str, full_size: bool) -> None:
    runs, wrong = (400 if full_size else 40), 0
    for seed in range(runs):
        rng = np.random.default_rng([3, seed])
        scores = rng.beta(1, 15, 1_000)
        weight = None if rows == "independent" else rng.lognormal(0.0, 0.7, 1_000)
        verdict = check(scores, rng.random(1_000) < scores, weight, by=rng.integers(0, 10, 1_000))
        wrong += any(each.p_value <= 0.05 for each in verdict.segments)
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 1e-3, wrong  # with weights approximate


def test_intervals_of_a_comparison_cover_with_and_without_groups(full_size: bool) -> None:
    """Two models that differ by noise alone: the true differences are 0."""
    runs, missed = (400 if full_size else 40), np.zeros((2, 3), dtype=int)
    for seed in range(runs):
        rng = np.random.default_rng([4, seed])
        group = np.repeat(np.arange(60), 15)
        truth = rng.standard_normal(60)[group] + 0.5 * rng.standard_normal(900)
        labels = rng.random(900) < special.expit(truth)
        models = [special.expit(truth + rng.standard_normal(60)[group]) for _ in range(2)]
        for place, groups in enumerate((None, group)):
            for which, each in enumerate(compare(*models, labels, groups=groups).differences):
                missed[place, which] += not each.low <= 0.0 <= each.high
    for count in missed[1]:
        assert stats.binomtest(int(count), runs, 0.07, alternative="greater").pvalue > 1e-3, missed
    assert missed[0].min() > 0.1 * runs, "without groups the same rows mislead: the test has power"


FRACTIONS = {
    "three values": lambda rng, p: rng.binomial(2, p) / 2.0,
    "five judges": lambda rng, p: rng.binomial(5, p) / 5.0,
    "continuous": lambda rng, p: rng.beta(4.0 * p, 4.0 * (1.0 - p)),
    "mostly whole": lambda rng, p: np.where(rng.random(len(p)) < 0.9, rng.random(len(p)) < p, rng.binomial(2, p) / 2.0),
}
"""Labels in [0, 1] whose mean is the score."""


@pytest.mark.parametrize("kind", FRACTIONS)
def test_fractions_raise_no_more_false_alarms_than_classes(kind: str, full_size: bool) -> None:
    """Ranges of the scores compared events in units of another size: 18 % false alarms with rare events."""
    runs = 500 if full_size else 40
    for base, n in (((2.0, 2.0), 150), ((1.0, 30.0), 300)):
        alarms, covered = 0, 0
        for seed in range(runs):
            rng = np.random.default_rng([seed, n])
            p = rng.beta(*base, n).clip(1e-6, 1.0 - 1e-6)
            verdict = check(p, FRACTIONS[kind](rng, p), label_type="fraction")
            alarms += verdict.status in ("off", "miscalibrated")
            covered += verdict.intercept is not None and verdict.intercept.low <= 0.0 <= verdict.intercept.high
        assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > 1e-3, (base, alarms)
        assert stats.binomtest(covered, runs, 0.95, alternative="less").pvalue > 1e-3, (base, covered)


def test_fractions_far_off_are_found() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2.0, 2.0, 1500)
    q = rng.binomial(2, special.expit(special.logit(p) - 0.6)) / 2.0
    assert check(p, q, label_type="fraction").status == "miscalibrated"
