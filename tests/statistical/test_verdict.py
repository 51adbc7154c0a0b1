"""Error rates that `check` states, on the worlds of benchmarks/verdict.py, and that clusters are not new evidence."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.verdict import World, counted, design, direction, name_of, run, true_error, worlds
from scipy import special, stats

from calibrant.metrics.curve import CurveError
from calibrant.verdict import check, compare

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


@pytest.mark.parametrize("world", list(worlds(quick=True)), ids=name_of)
def test_a_model_at_the_limit_is_seldom_called_within_or_beyond_it(world: World, full_size: bool) -> None:
    """In both cases the answer would be wrong, and an end of the interval would miss the truth."""
    found = run(world, 4_000 if full_size else 1_000)
    assert found is not None
    assert not found.failures(), (name_of(world), found)


@pytest.mark.parametrize(
    ("world", "name"),
    [
        (World("uniform", "shift +", 3_000, size=0.0), "within"),
        (World("1 % events", "shift +", 60_000, size=0.0), "within"),
        (World("uniform", "wave 5", 3_000, size=2.0), "beyond"),
        (World("uniform", "shift +", 1_300, size=2.0), "beyond"),
    ],
    ids=lambda each: name_of(each) if isinstance(each, World) else each,
)
def test_the_answer_does_not_cost_more_than_stated(world: World, name: str) -> None:
    """Rows at which four of five samples are to be settled (docs/benchmarks/verdict.txt)."""
    found = run(world, 400)
    assert found is not None
    assert stats.binomtest(round(400 * getattr(found, name)), 400, 0.8, alternative="less").pvalue > 1e-3, found


def test_the_error_is_that_of_the_ranges() -> None:
    """From the true rates the statistic without noise is the true error, whatever its shape."""
    p, rows = design("beta(2, 5)", 100_000)
    q = special.expit(special.logit(p) + 0.4 * direction("wave 5", p, rows))
    many = 10_000 * rows
    curve = CurveError.of(counted(p, many, np.rint(many * q).astype(np.int64)), 0.2)
    assert len(curve) == 50
    assert curve.value == pytest.approx(true_error(curve, p, many, q), rel=1e-3)
    assert curve.interval[0] < curve.value < curve.interval[1] < 1.01 * curve.value


def test_calibrated_data_with_segments_and_features_seldom_have_a_finding(full_size: bool) -> None:
    runs, found = 1_000 if full_size else 60, 0
    for seed in range(runs):
        rng = np.random.default_rng([7, seed])
        p, x = rng.beta(2, 5, 800), rng.normal(size=(2, 800))
        verdict = check(p, rng.random(800) < p, by=rng.integers(0, 8, 800), discover={"x": x[0], "z": x[1]})
        found += bool(verdict.findings)
    assert stats.binomtest(found, runs, 0.05, alternative="greater").pvalue > 1e-3, found


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
            for which, each in enumerate(compare(*models, labels, groups=groups).differences[1:]):
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
