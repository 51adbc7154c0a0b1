"""`check`: states, words, counts and edges."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

from calibrant.messages import Advice, InputError, Note, Nouns, Voice
from calibrant.metrics.binary.curves.likelihood import Likelihood
from calibrant.metrics.binary.curves.recalibration import recalibration
from calibrant.metrics.chance import Chance
from calibrant.metrics.multiplicity import holm
from calibrant.metrics.tolerance import Limits
from calibrant.numerics import Grid
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict import Verdict, check, compare, hints, judge
from calibrant.verdict.check import log_odds_predict
from calibrant.verdict.decision import Direction
from calibrant.verdict.gain import Gain
from calibrant.verdict.input.evidence import Evidence, Unseen, overlap_unknown
from calibrant.verdict.input.frames import gain_not_measured
from calibrant.verdict.input.through import rows_without_probability, segments_not_crossfitted
from calibrant.verdict.sentences import _score
from calibrant.verdict.shape import Misfit, Range, Tolerance, worst_misfit


def world(n: int, seed: int = 0, shift: float = 0.0, stretch: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = -1.0 + rng.standard_normal(n)
    return special.expit(x), rng.random(n) < special.expit(x + shift + stretch * (x + 0.8))


@cache
def judged(n: int, seed: int = 0, shift: float = 0.0, stretch: float = 0.0) -> Verdict:
    return check(*world(n, seed, shift, stretch))


class Bank(Voice):
    """An edge that speaks of loans and names options."""

    nouns = Nouns("loan", "loans", "default", "defaults", "PD", "PDs", "default rate", "PDs", "more loans")

    def argument(self, name: str) -> str:
        return f"--{name}"

    def advice(self, advice: Advice) -> str:
        return f"see {advice.name.lower()}"


def codes(notes: tuple[Note, ...]) -> list[str]:
    return [note.code for note in notes]


# ----------------------------------------------------------------------------------------------------------------------
# States and directions
# ----------------------------------------------------------------------------------------------------------------------


def test_the_direction_is_named(subtests: pytest.Subtests) -> None:
    for shift, stretch, words in (
        (0.6, 0.0, ("too low",)),
        (-0.6, 0.0, ("too high",)),
        (0.0, -0.6, ("too extreme",)),
        (0.0, 0.8, ("not extreme enough",)),
        (0.8, -0.6, ("too low", "too extreme")),
    ):
        with subtests.test(" and ".join(words)):
            verdict = judged(20_000, shift=shift, stretch=stretch)
            assert verdict.status == "miscalibrated"
            assert set(words) <= set(verdict.direction)
            assert all(word in verdict.headline for word in words)


def test_a_calibrated_model_is_called_so_with_enough_rows_and_not_with_few() -> None:
    assert judged(20_000).status == "calibrated"
    few = judged(150)
    assert few.status == "cannot tell"
    assert few.more_labels is not None
    assert f"{few.more_labels:,} more labels" in str(few)


def test_misfit_in_the_tail_alone_is_found_and_named() -> None:
    scores, labels = world(40_000, seed=3)
    top = scores > np.quantile(scores, 0.99)
    labels[top] = np.random.default_rng(1).random(top.sum()) < 0.25 * scores[top]
    verdict = check(scores, labels)
    assert (verdict.findings[0], verdict.next_step) == ("range", "recalibrate")
    assert verdict.direction[0] == "too high in the highest 1 % of the scores"


def misfit_of(tally: Tally, tolerance: Tolerance) -> Misfit | None:
    return worst_misfit(Likelihood(tally), tolerance, Evidence(tally))


def test_a_stretch_in_the_middle_is_named_by_its_scores() -> None:
    """Scores 0.0004, 0.0014, ...: those above 60 % and up to 80 % of the rows are 0.5994 to 0.7984."""
    scores = np.repeat((np.arange(1000) + 0.4) / 1000, 40)
    off = (scores > 0.6) & (scores < 0.8)
    labels = np.random.default_rng(3).random(40_000) < np.where(off, scores - 0.2, scores)
    found = misfit_of(Tally.from_arrays(scores, labels), Tolerance(0.2, 0.2))
    assert found is not None
    assert found.where == Range("between", pytest.approx(0.5994), pytest.approx(0.7984), pytest.approx(0.2))


def test_a_heap_is_named_by_its_score() -> None:
    """Four stretches of scores, of which 2/3 reaches from 45 to 65 % of the rows."""
    scores = np.repeat([0.1, 0.2, 2 / 3, 0.8, 0.9], [3000, 1500, 2000, 2000, 1500])
    labels = np.random.default_rng(0).random(10_000) < np.where(scores == 2 / 3, 0.9, scores)
    found = misfit_of(Tally.from_arrays(scores, labels), Tolerance(0.2, 0.2))
    assert found is not None
    assert (found.where, found.too_low) == (Range("single", 2 / 3, 2 / 3, pytest.approx(0.2)), True)


def test_a_range_of_the_scores_has_words_in_each_voice(subtests: pytest.Subtests) -> None:
    verdict = judged(500)
    for where, said, theirs in (
        (Range("highest", 0.9, 0.95, 0.01), "highest 1 % of the scores", "highest 1 % of the PDs"),
        (Range("lowest", 0.1, 0.2, 0.004), "lowest 0.4 % of the scores", "lowest 0.4 % of the PDs"),
        (
            Range("between", 0.5994, 0.7984, 0.2),
            "scores from 0.599 to 0.798 (20 % of the rows)",
            "PDs from 0.599 to 0.798 (20 % of the loans)",
        ),
        (Range("single", 2 / 3, 2 / 3, 0.2), "rows with score 0.667", "loans with PD 0.667"),
    ):
        with subtests.test(where.kind):
            off = Misfit(where, 100.0, 50.0, 20.0, 0.001)
            found = replace(
                verdict, status="off", against=replace(verdict.against, intercept=1.0, slope=1.0, shape=off)
            )
            assert found.deviations == (off,)
            assert found.direction == (f"too low in the {said}",)
            assert found.to_dict()["against"]["shape"]["where"] == said
            assert f"too low in the {theirs}" in found.in_words(Bank()).headline


def test_scores_are_told_to_three_digits_from_the_nearer_end() -> None:
    said = {0.65: "0.65", 2 / 3: "0.667", 0.001234: "0.00123", 0.99995: "0.99995", 0.0: "0", 1.0: "1"}
    assert {score: _score(score) for score in said} == said


def test_one_class_is_cannot_tell_and_no_error(subtests: pytest.Subtests) -> None:
    for labels in (np.zeros(50), np.ones(50)):
        with subtests.test(f"all {labels[0]:g}"), warnings.catch_warnings():
            warnings.simplefilter("error")
            verdict = check(np.linspace(0.1, 0.9, 50), labels)
            assert verdict.status == "cannot tell"
            assert "only one class" in verdict.headline
            assert verdict.hints == (hints.labels_incomplete(events=bool(labels[0]), beyond_chance=True),)
            assert not verdict.notes
            assert json.dumps(verdict.to_dict())


def test_a_few_rows_are_cannot_tell() -> None:
    for n in (1, 2, 3):
        assert check(np.linspace(0.2, 0.8, n), np.arange(n) % 2).status == "cannot tell"


def test_a_constant_score_is_judged_by_its_level_alone() -> None:
    rng = np.random.default_rng(0)
    assert check(np.full(4_000, 0.3), rng.random(4_000) < 0.3).status == "calibrated"
    off = check(np.full(4_000, 0.3), rng.random(4_000) < 0.5)
    assert (off.status, off.slope, off.direction) == ("miscalibrated", None, ("too low",))


def test_nearly_equal_scores_do_not_need_a_slope() -> None:
    """The less they spread, the less a slope moves them: then only the level matters, and it can be told."""
    rng = np.random.default_rng(0)
    for spread in (0.2, 0.04, 1e-4):
        scores = special.expit(-1.0 + spread * rng.standard_normal(6_000))
        verdict = check(scores, rng.random(6_000) < scores)
        assert verdict.status == "calibrated", spread
        assert (verdict.slope is None) == (spread < 0.05)


def test_scores_of_exactly_0_and_1_are_counted_when_labels_contradict_them() -> None:
    scores, labels = world(2_000)
    verdict = check(np.append(scores, [0.0, 0.0, 1.0]), np.append(labels, [1, 0, 0]))
    assert verdict.at_ends == (1.0, 1.0)
    assert verdict.hints == (hints.impossible_scores(1.0, 1.0),)


def test_rebalanced_training_is_suspected_with_a_fix() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 40, 20_000)
    verdict = check(special.expit(special.logit(p) + 2.5), rng.random(20_000) < p)
    assert verdict.direction[0] == "too high"
    (hint,) = verdict.hints
    assert hint.code == "mean-above-base-rate"
    assert hint.values["true_rate"] == verdict.events / verdict.rows
    p = rng.beta(2, 6, 10_000)  # a mean of less than three times the rate, but the intercept of balanced classes
    odds = special.logit(p) + special.logit(0.5) - special.logit(0.25)
    y = rng.random(10_000) < p
    (hint,) = check(special.expit(odds), y).hints
    assert 0.45 < hint.values["train_rate"] < 0.55
    assert check(special.expit(special.logit(p) + 0.3), y).hints == ()


def test_swapped_classes_are_suspected() -> None:
    scores, labels = world(5_000)
    verdict = check(scores, ~labels)
    assert hints.classes_swapped(verdict.ranking) in verdict.hints


def test_a_tighter_tolerance_asks_for_more() -> None:
    scores, labels = world(20_000)
    assert check(scores, labels, tolerance=(0.02, 0.02)).status == "cannot tell"
    assert check(scores, labels, tolerance=0.02).status == "cannot tell"
    assert check(*world(20_000, shift=0.6), tolerance=1.0).status == "calibrated"


def test_a_limit_is_taken_literally() -> None:
    """A slope of 0.60 of scores that are nearly alike passed a limit of 0.2, which their spread widened."""
    rng = np.random.default_rng(1)
    x = 0.357 * rng.normal(size=300_000)
    scores, labels = special.expit(x), rng.random(300_000) < special.expit(0.6 * x)
    assert check(scores, labels).status == "calibrated", "odds are typically off by a factor of 1.15"
    strict = check(scores, labels, tolerance=(0.2, 0.2))
    assert (strict.status, strict.beyond.slope, strict.beyond.curve) == ("miscalibrated", True, False)
    assert strict.limits == Limits(0.2, 0.2, 0.2)


# ----------------------------------------------------------------------------------------------------------------------
# Numbers
# ----------------------------------------------------------------------------------------------------------------------


def test_level_and_slope_are_those_of_the_metric() -> None:
    scores, labels = world(3_000, shift=0.3, stretch=-0.2)
    verdict, fitted = check(scores, labels), recalibration(scores, labels)
    for mine, yours in ((verdict.intercept, fitted.intercept), (verdict.slope, fitted.slope)):
        assert mine is not None
        assert (mine.value, mine.low, mine.high) == pytest.approx((yours.value, yours.low, yours.high), abs=1e-5)
        assert mine.se == pytest.approx(yours.se, rel=1e-4)


def test_profile_intervals_end_where_the_deviance_says() -> None:
    scores, labels = world(400)
    likelihood = Likelihood(Tally.from_arrays(scores, labels))
    verdict = check(scores, labels)
    assert verdict.slope is not None
    for end in (verdict.slope.low, verdict.slope.high):
        rise = likelihood.best(slope_change=end - 1.0).deviance - likelihood.best().deviance
        assert rise == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-3)


def test_separable_data_end_the_search() -> None:
    verdict = check([0.1, 0.2, 0.3, 0.7, 0.8, 0.9] * 10, [0, 0, 0, 1, 1, 1] * 10)
    assert (verdict.status, verdict.curve.ranges if verdict.curve else 0) == ("off", 1)
    many = check([0.1, 0.2, 0.3, 0.7, 0.8, 0.9] * 100, [0, 0, 0, 1, 1, 1] * 100)
    assert many.status == "miscalibrated"
    assert verdict.slope is not None
    assert (verdict.slope.value, verdict.slope.high) == (np.inf, np.inf)
    assert verdict.slope.low > 1.2
    assert "separate the classes" in str(verdict)


def test_a_headline_always_names_a_direction() -> None:
    """It once read "the probabilities are ." where the scores separate the classes."""
    separated = [0.2, 0.7, 0.9, 0.4] * 50, [0, 1, 1, 0] * 50
    for scores, labels in (separated, ([0.8, 0.9, 0.95, 0.9] * 5, [1, 1, 0, 1] * 5)):
        verdict = check(scores, labels)
        assert (verdict.status, verdict.next_step) == ("off", "recalibrate")
        assert verdict.direction
        assert verdict.direction[0] in verdict.headline


def test_chance_is_the_poisson_binomial_distribution() -> None:
    """Against convolution row by row."""
    rng = np.random.default_rng(0)
    scores = rng.beta(0.5, 3, 60)
    pmf = np.ones(1)
    for p in scores:
        pmf = np.convolve(pmf, [1 - p, p])
    chance = Chance(scores, np.ones(60))
    for k in range(61):
        assert chance.cdf(k) == pytest.approx(pmf[: k + 1].sum(), abs=1e-12)
    low, high = chance.interval(0.95)
    assert pmf[: int(low)].sum() <= 0.025 < pmf[: int(low) + 1].sum()
    assert pmf[: int(high) + 1].sum() >= 0.975 > pmf[: int(high)].sum()


def test_the_probability_of_as_many_events_as_expected() -> None:
    """Against the binomial distribution, and of sums of weights, which are not inverted, to 1 %."""
    n = 400
    for variance in (1.0, 3.0, 10.0):
        k = round(variance / (1.0 - variance / n))
        exact = stats.binom.pmf(k, n, k / n)
        assert Chance(np.full(n, k / n), np.ones(n)).at_mean() == pytest.approx(exact, rel=1e-12)
        assert Chance(np.full(n, k / n), np.full(n, 1.0 + 1e-12)).at_mean() == pytest.approx(exact, rel=0.01)


def test_chance_of_equal_scores_is_binomial() -> None:
    for n, p in ((10_000, 0.005), (400, 0.5), (100_000, 0.4)):
        chance, exact = Chance(np.array([p]), np.array([float(n)])), stats.binom(n, p)
        assert chance.interval(0.95) == pytest.approx(exact.interval(0.95), abs=1)
        for k in exact.ppf([0.001, 0.1, 0.9]):
            assert chance.cdf(k) == pytest.approx(exact.cdf(k), rel=0.02)


def test_the_shape_test_is_within_the_binomial_bound_of_hoeffding() -> None:
    """All scores equal: the envelope is the score moved by the tolerance, and the bound is exact."""
    tally = Tally.from_arrays(np.repeat([0.1, 0.2], 500), np.tile([1, 0, 0, 0, 0], 200))
    misfit = misfit_of(tally, Tolerance(0.1, 0.0))
    assert misfit is not None
    high = special.expit(special.logit(0.1) + 0.1)
    assert misfit.rows == 500
    assert misfit.p_value == pytest.approx(min(1.0, 4 * stats.binom.sf(99, 500, high)), rel=1e-9)


# ----------------------------------------------------------------------------------------------------------------------
# Weights, order, grids, frames
# ----------------------------------------------------------------------------------------------------------------------


def same(one: Verdict, other: Verdict) -> None:
    assert one.status == other.status
    assert (one.rows, one.events) == (other.rows, other.events)
    assert one.predicted == pytest.approx(other.predicted, rel=1e-9)
    for name in ("intercept", "slope"):
        mine, yours = getattr(one, name), getattr(other, name)
        assert (mine.value, mine.low, mine.high) == pytest.approx((yours.value, yours.low, yours.high), abs=1e-6)
    assert one.more_labels == other.more_labels


def test_counts_mean_repetition() -> None:
    scores, labels = world(500)
    times = np.random.default_rng(1).integers(0, 4, 500)
    same(
        check(scores, labels, times, weight_type="frequency"), check(np.repeat(scores, times), np.repeat(labels, times))
    )


def test_the_order_of_rows_does_not_matter() -> None:
    scores, labels = world(700)
    order = np.random.default_rng(1).permutation(700)
    weight = np.random.default_rng(2).random(700)
    assert check(scores, labels) == check(scores[order], labels[order])
    one, other = check(scores, labels, weight), check(scores[order], labels[order], weight[order])
    assert one.gain is not None
    assert other.gain is not None
    assert one.gain.after == pytest.approx(other.gain.after, rel=1e-9)


def test_the_unit_of_importance_weights_does_not_matter() -> None:
    scores, labels = world(900)
    weight = np.random.default_rng(2).gamma(2.0, size=900)
    one, *others = (check(scores, labels, u * weight, by={"half": np.arange(900) % 2}) for u in (1.0, 1e-9, 1e9))
    assert one.gain is not None
    for scaled in others:
        assert (one.status, one.more_labels) == (scaled.status, scaled.more_labels)
        assert (one.rows, one.events, *one.expected) == pytest.approx((scaled.rows, scaled.events, *scaled.expected))
        assert scaled.gain is not None
        assert one.gain.after == pytest.approx(scaled.gain.after)
        for mine, yours in zip(one.segments, scaled.segments, strict=True):
            assert (mine.value, mine.p_value) == (yours.value, pytest.approx(yours.p_value))
        same(one, replace(scaled, rows=one.rows, events=one.events))


def test_equal_weights_change_nothing() -> None:
    scores, labels = world(900)
    plain, doubled = check(scores, labels), check(scores, labels, np.full(900, 2.0))
    same(plain, replace(doubled, rows=plain.rows, events=plain.events))


def test_counts_mean_repetition_in_periods_and_segments_too() -> None:
    scores, labels = world(400)
    times, month, half = np.random.default_rng(1).integers(0, 4, 400), np.arange(400) // 20, np.arange(400) % 2
    one = check(scores, labels, times, weight_type="frequency", time=month, by=half)
    other = check(*(np.repeat(column, times) for column in (scores, labels)), time=np.repeat(month, times),
                  by=np.repeat(half, times))  # fmt: skip
    for mine, yours in zip((*one.periods, *one.segments), (*other.periods, *other.segments), strict=True):
        assert (mine.value, mine.rows, mine.events) == (yours.value, yours.rows, yours.events)
        assert mine.p_value == pytest.approx(yours.p_value, abs=1e-9)
    assert one.gain is not None
    assert other.gain is not None
    assert one.gain.after == pytest.approx(other.gain.after)


def test_a_grid_gives_the_same_verdict() -> None:
    scores, labels = world(5_000, shift=0.5)
    exact, gridded = (check(Tally.from_arrays(scores, labels, grid=grid)) for grid in (None, Grid()))
    assert exact.slope is not None
    assert gridded.slope is not None
    assert (exact.status, exact.events) == (gridded.status, gridded.events)
    assert exact.slope.value == pytest.approx(gridded.slope.value, abs=1e-4)


def test_ones_own_bins_are_enough() -> None:
    verdict = check(Tally.from_table([900, 600], [88, 175], edges=[0.2], scores=[0.1, 0.3]))
    assert (verdict.rows, verdict.events, round(verdict.predicted)) == (1500, 263, 270)


def test_log_odds_are_taken_as_such() -> None:
    scores, labels = world(800)
    one = check(special.logit(scores), labels, score_type="logit")
    assert one.slope is not None
    assert one.slope.value == pytest.approx(check(scores, labels).slope.value, abs=1e-6)  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------------------------
# Segments, time, clusters, gain
# ----------------------------------------------------------------------------------------------------------------------


def test_the_worst_segment_is_found_and_luck_is_not() -> None:
    scores, labels = world(20_000, seed=5)
    rng = np.random.default_rng(0)
    device, country = rng.choice(["ios", "android", "web"], 20_000), rng.choice(list("abcdefghij"), 20_000)
    assert not check(scores, labels, by={"device": device, "country": country}).worst_segments
    off = device == "android"
    labels[off] = rng.random(off.sum()) < np.minimum(1.4 * scores[off], 1.0)
    verdict = check(scores, labels, by={"device": device})
    assert [(segment.column, segment.value) for segment in verdict.worst_segments] == [("device", "android")]
    assert "device = android" in str(verdict)
    assert "too low" in str(verdict.worst_segments[0])


def test_groups_of_tallies_are_segments() -> None:
    scores, labels = world(2_000)
    given = GroupedTally.from_arrays(scores, labels, groups=np.arange(2_000) % 2, grid=None)
    assert {segment.value for segment in check(given).segments} == {0, 1}


def test_periods_stand_in_order_and_equal_moments_stay_together() -> None:
    scores, labels = world(1_000)
    days = np.repeat(np.arange("2026-01-01", "2026-01-11", dtype="datetime64[D]"), 100)
    verdict = check(scores, labels, time=days)
    assert verdict.forward
    assert sum(period.rows for period in verdict.periods) == 1_000
    assert all(period.rows % 100 == 0 for period in verdict.periods)
    assert "walk-forward" in str(verdict)


def test_repeated_rows_of_a_patient_are_not_new_evidence() -> None:
    scores, labels = world(300, shift=0.35)
    patient = np.arange(300)
    alone = check(scores, labels, groups=patient)
    copied = check(np.tile(scores, 20), np.tile(labels, 20), groups=np.tile(patient, 20))
    naive = check(np.tile(scores, 20), np.tile(labels, 20))
    assert naive.status == "miscalibrated"
    assert copied.status == alone.status
    assert copied.status != "miscalibrated"
    assert copied.effective_rows == pytest.approx(300, rel=0.1)
    assert copied.intercept is not None
    assert alone.intercept is not None
    assert copied.intercept.se == pytest.approx(alone.intercept.se, rel=0.05)


def test_few_groups_cannot_be_judged() -> None:
    scores, labels = world(3_000, shift=2.0)
    for count in (2, 9):
        verdict = check(scores, labels, groups=np.arange(3_000) % count, by={"half": np.arange(3_000) % 2})
        assert verdict.status == "cannot tell"
        assert f"{count} groups are too few" in verdict.headline
        assert (verdict.intercept, verdict.slope) == (None, None)
        assert not any(segment.judged or segment.off for segment in verdict.segments)


def test_groups_of_one_row_each_change_nothing() -> None:
    scores, labels = world(2_000, shift=0.2)
    alone = check(scores, labels, groups=np.random.default_rng(0).permutation(2_000))
    assert alone == check(scores, labels)
    times = np.random.default_rng(1).integers(1, 4, 2_000)
    counted = check(scores, labels, times, weight_type="frequency", groups=np.arange(2_000))
    assert counted.n_groups == 2_000, "a row that counts three times is three rows of one group"


def test_nine_in_ten_rows_alone_leave_intervals_as_wide_as_they_are() -> None:
    ratios = []
    for seed in range(12):
        scores, labels = world(1_000, seed=seed)
        group = np.append(np.arange(900), 900 + np.arange(100) // 5)
        plain, grouped = check(scores, labels), check(scores, labels, groups=group)
        for one, other in ((plain.intercept, grouped.intercept), (plain.slope, grouped.slope)):
            assert one is not None
            assert other is not None
            ratios.append((other.high - other.low) / (one.high - one.low))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.02)


def test_a_segment_that_is_one_group_cannot_be_judged() -> None:
    """Hospital B has no event where 25 were predicted: other hospitals do not show how much one may differ."""
    rng = np.random.default_rng(5)
    hospital = np.repeat(list("ABCDEFGHIJ"), 100)
    scores = special.expit(rng.normal(-1.5, 1.2, 1_000))
    labels = rng.random(1_000) < scores
    labels[hospital == "B"] = False
    verdict = check(scores, labels, by=hospital, groups=hospital)
    assert not any(segment.judged for segment in verdict.segments)
    assert "none of 10 testable" in str(verdict)
    assert "significantly off" not in str(verdict)
    assert "not testable with 1 group" in str(verdict.segments[0])
    assert [segment.value for segment in check(scores, labels, by=hospital).segments if segment.off] == ["B"]


def test_each_number_has_the_variance_that_groups_give_it() -> None:
    """A level that differs by group and a slope that does not: one factor for both would be wrong for one."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 100)
    x = rng.normal(-1.0, 1.0, 6_000)
    labels = rng.random(6_000) < special.expit(x + rng.normal(0.0, 0.7, 60)[group])
    plain, grouped = check(special.expit(x), labels), check(special.expit(x), labels, groups=group)
    level, slope = (getattr(grouped, name).se / getattr(plain, name).se for name in ("intercept", "slope"))
    assert level > 2.0
    assert slope < 1.3


def test_the_gain_is_what_a_second_sample_would_show() -> None:
    """The cross-fitted loss is near the loss of the fitted map on fresh rows, and an overfit would not be."""
    verdict = judged(3_000, seed=1, shift=0.7)
    assert verdict.gain is not None
    assert verdict.gain.clear
    scores, labels = world(200_000, seed=2, shift=0.7)
    truth = special.expit(special.logit(scores) + 0.7)
    before = -np.where(labels, np.log(scores), np.log1p(-scores)).mean()
    after = -np.where(labels, np.log(truth), np.log1p(-truth)).mean()
    assert verdict.gain.before == pytest.approx(before, rel=0.05)
    assert verdict.gain.share == pytest.approx((before - after) / before, abs=0.02)


def test_no_gain_is_said_so() -> None:
    verdict = judged(5_000)
    assert verdict.gain is not None
    assert not verdict.gain.clear
    assert "would change the log loss by less than 1 %" in str(verdict)


def test_holm_controls_any_family() -> None:
    assert holm(np.array([0.5])).tolist() == [0.5]
    assert holm(np.array([0.04, 0.01, 0.03])).round(3).tolist() == [0.06, 0.03, 0.06]


# ----------------------------------------------------------------------------------------------------------------------
# Forms and refusals
# ----------------------------------------------------------------------------------------------------------------------


def test_the_forms_say_the_same() -> None:
    verdict = check(*world(5_000, shift=0.6), by=np.tile(["<b>", "y"], 2_500))
    plain, data, page, rich = str(verdict), verdict.to_dict(), verdict._repr_html_(), verdict.__rich__()
    assert data["status"] == "miscalibrated"
    assert json.loads(json.dumps(data))["events"] == verdict.events
    assert plain.splitlines()[0] in rich
    assert "MISCALIBRATED" in page
    assert "<b>" not in page
    assert len(max(plain.splitlines(), key=len)) < 250


def test_the_sentence_of_counts_reads_as_promised() -> None:
    tally = Tally.from_table([5_000], [1_034], edges=[], scores=[0.1824])
    text = str(judge(Evidence(tally)))
    assert "Predicted 912 events, 1,034 observed (13 % more); 95 % expected range 859 to 966 (5,000 rows)." in text


def test_mistakes_are_answered_in_a_sentence(subtests: pytest.Subtests) -> None:
    rows, tally = ([0.2, 0.4], [0, 1]), Tally.from_arrays([0.2, 0.4], [0, 1])
    for arguments, keywords, problem in (
        (([0.2, 0.4],), {}, "y is missing"),
        (rows, {"tolerance": (0.2, -1)}, "tolerance"),
        (rows, {"tolerance": 0.0}, "tolerance must be a positive number"),
        (rows, {"tolerance": (20, 20)}, "tolerance is 20, but it is a difference of log-odds"),
        (([10.0, 400.0], [0, 1]), {"score_type": "real"}, "not probabilities"),
        ((tally, [0, 1]), {}, "y cannot be combined with a tally"),
        ((tally,), {"by": [0, 1]}, "by cannot be combined with a tally"),
        (
            (Tally.from_arrays([2.0, 4.0], [0, 1], score_type="logit"),),
            {},
            "a tally of logit scores, not of probabilities",
        ),
        (([0.2, 0.4],), {"score": "p"}, "label is missing: pass the name of its column too"),
        (([0.2, 0.4],), {"score": "p", "label": "bad"}, "frame is of type list"),
        (rows, {"by": ["a"]}, "by has 1 "),
        (rows, {"by": {"land": ["a"]}}, "by='land' has 1 "),
        (rows, {"by": np.array([1, "a"], dtype=object)}, "by mixes values of several types"),
    ):
        with subtests.test(problem), pytest.raises(InputError, match=problem):
            check(*arguments, **keywords)


def test_events_at_a_score_of_0_are_miscalibration_and_not_explained_away() -> None:
    verdict = check([0.0] * 5 + [1.0] * 5 + [0.5] * 10, [1] * 5 + [0] * 5 + [0, 1] * 5)
    assert verdict.status == "off"
    assert check([0.0] * 999 + [0.3], [0] * 998 + [1, 0]).status == "miscalibrated"


def test_open_intervals_are_said_in_words() -> None:
    text = str(check([0.2, 0.5, 0.8] * 3, [0, 0, 1] * 3))
    assert "no upper limit" in text or "separate the classes" in text
    assert "inf" not in text


def test_a_platt_map_is_found_useful_where_isotonic_is_too_rich() -> None:
    """5,000 rows and a slope of 0.8: two numbers mend it, and the sentence names the map."""
    verdict = judged(5_000, seed=7, stretch=-0.25)
    assert verdict.gain is not None
    assert (verdict.gain.method, verdict.gain.clear) == ("PlattScaling", True)


def test_a_shape_that_two_numbers_cannot_mend_is_left_to_isotonic_regression() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(40_000)
    verdict = check(scores, rng.random(40_000) < 0.25 + 0.5 * (scores > 0.5))
    assert verdict.gain is not None
    assert verdict.gain.method == "IsotonicCalibrator"


def test_harm_and_luck_are_told_apart() -> None:
    verdict = judged(500)

    def said(*numbers: float) -> str:
        return replace(verdict, gain=Gain("PlattScaling", *numbers)).sentences[-1]

    assert "would increase the log loss by 4 %" in said(0.5, 0.52, 0.002)
    assert "95 % CI -16 % to +8 %), which is not significant" in said(0.5, 0.48, 0.03)
    assert "less than 1 %" in said(0.5, 0.5, 0.0002)


def test_a_calibrated_model_that_is_off_in_a_segment_says_so_in_its_first_line() -> None:
    scores, labels = world(60_000, seed=2)
    segment = np.arange(60_000) % 20
    off = segment == 3
    labels[off] = np.random.default_rng(1).random(off.sum()) < np.minimum(2.0 * scores[off], 1.0)
    verdict = check(scores, labels, by=segment, time=np.arange(60_000) // 2_000)
    assert verdict.status == "calibrated"
    assert (verdict.findings[0], verdict.next_step) == ("segments", "recalibrate")
    assert [each.value for each in verdict.off_segments] == [3]
    assert "segment = 3" in verdict.headline
    assert verdict.color == judged(100).color


def test_off_by_about_the_limit_asks_for_no_labels() -> None:
    verdict = judged(60_000, seed=3, shift=0.2)
    assert (verdict.status, verdict.against.found, verdict.more_labels) == ("off", True, None)
    assert (verdict.next_step, verdict.findings[0]) == ("recalibrate", "bias")


def test_classes_in_place_of_probabilities_are_named() -> None:
    scores, labels = world(500)
    classes = check((scores > 0.3).astype(int), labels)
    assert (
        classes.headline == "MISCALIBRATED: the probabilities are only 0 and 1: predicted classes, not probabilities."
    )
    assert "predict_proba" in str(classes)
    leak = check(labels.astype(float), labels)
    assert (leak.status, "leakage?" in str(leak)) == ("cannot tell", True)


def test_names_without_a_frame_are_recognized() -> None:
    scores, labels = world(50)
    for keywords in ({"by": "country"}, {"groups": "patient"}, {"time": "month"}):
        with pytest.raises(InputError, match="looks like the name of a column"):
            check(scores, labels, **keywords)


def test_a_segment_column_may_be_called_time() -> None:
    scores, labels = world(600)
    half, month = np.arange(600) % 2, np.arange(600) // 60
    verdict = check(scores, labels, by={"time": half}, time=month, groups=np.arange(600) // 3)
    assert {segment.value for segment in verdict.segments} == {0, 1}
    assert len(verdict.periods) == 8


# ----------------------------------------------------------------------------------------------------------------------
# Evidence and size
# ----------------------------------------------------------------------------------------------------------------------


def portfolio() -> tuple[np.ndarray, np.ndarray]:
    """27,500 borrowers in six grades with 437 predicted defaults, of whom 560 default: 28 % more."""
    grades = np.repeat([0.002, 0.005, 0.01, 0.02, 0.04, 0.08], [5_500, 6_500, 6_295, 5_200, 2_345, 1_660])
    labels = np.zeros(len(grades), dtype=int)
    predicted = float(grades.sum())
    for grade in np.unique(grades):
        mine = np.flatnonzero(grades == grade)
        labels[mine[: round(len(mine) * grade * 559 / predicted)]] = 1
    return grades, labels


def test_evidence_is_separate_from_size() -> None:
    """A portfolio whose defaults chance does not explain is never "cannot tell", whatever the tolerance."""
    verdict = check(*portfolio())
    assert (round(verdict.predicted), verdict.events) == (437, 560)
    assert verdict.against.intercept < 1e-4
    assert (verdict.status, verdict.size) == ("off", "unsettled")
    assert "28 % more events than predicted" in verdict.headline
    assert [check(*portfolio(), tolerance=limit).status for limit in (0.1, 0.5)] == ["miscalibrated", "calibrated"]
    data = verdict.to_dict()
    assert (data["status"], data["size"], data["against"]["found"], data["beyond"]["found"]) == (
        "off",
        "unsettled",
        True,
        False,
    )


def test_a_difference_within_the_tolerance_is_still_told() -> None:
    verdict = judged(60_000, seed=1, shift=0.1)
    assert (verdict.status, verdict.direction) == ("calibrated", ("too low",))
    assert (verdict.findings, verdict.next_step) == (("bias",), "keep")
    assert "more events than predicted" in verdict.headline


def test_groups_with_one_rate_in_every_range_have_a_verdict() -> None:
    """Their covariance is 0, by which the error was divided."""
    groups = np.repeat(np.arange(50), 40)
    labels = np.tile(np.r_[[1] * 5, [0] * 15, [1] * 15, [0] * 5], 50)
    for near in (0.25, 0.4):
        scores = np.tile(np.repeat([near, 1.0 - near], 20), 50)
        assert check(scores, labels, groups=groups).status in ("calibrated", "cannot tell", "off", "miscalibrated")


def test_one_segment_that_is_right_is_not_off_everywhere() -> None:
    labels = np.zeros(6_000)
    labels[:1_800], labels[3_000:3_901] = 1, 1
    verdict = check(np.full(6_000, 0.3), labels, by=np.repeat(["a", "b"], 3_000))
    assert (verdict.everywhere, [each.value for each in verdict.off_segments]) == (False, ["a"])


@pytest.mark.parametrize("values", [1_700_000_000 + np.arange(2_000), 1.0 + 2e-9 * np.arange(2_000)])
def test_ranges_of_close_numbers_have_names_of_their_own(values: np.ndarray) -> None:
    scores, labels = world(2_000)
    assert len(check(scores, labels, by=values).segments) == 8


def test_wrong_ends_alone_have_a_headline() -> None:
    for score in (0.0, 1.0):
        verdict = check(np.full(100, score), np.repeat([0, 1], 50))
        assert (verdict.status, "50" in str(verdict)) == ("miscalibrated", True)
        assert ": . " not in verdict.headline


def test_the_level_is_read_from_the_sums() -> None:
    """Equal sums and a slope of 4.5: "too high" would contradict the line below it."""
    rng = np.random.default_rng(1)
    x = rng.normal(0.0, 0.3, 8_000)
    labels = rng.random(8_000) < special.expit(4.5 * x)
    verdict = check(special.expit(x), labels)
    assert abs(verdict.events / verdict.predicted - 1.0) < 0.02
    assert verdict.direction[0] == "not extreme enough"


def test_a_slope_far_above_one_asks_about_training_rows() -> None:
    verdict = judged(4_000, stretch=1.5)
    assert verdict.slope is not None
    assert hints.trained_on_these_rows(verdict.slope.value) in verdict.hints
    assert "trained-on-these-rows" not in codes(judged(4_000).hints)


def test_a_verdict_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"verdict\.status == "):
        bool(judged(100))


def test_numbers_at_a_limit_are_told_apart_from_it() -> None:
    """A slope of 0.7966 is not "0.80 (tolerance 0.80 to 1.20)"."""
    verdict = replace(judged(20_000), limits=Limits(0.2, 0.2, 0.2))
    assert verdict.slope is not None
    for value, said in ((0.798, "0.798"), (0.7985, "0.798"), (0.7995, "0.799")):
        slope = replace(verdict.slope, value=value)
        assert any(f"Slope: {said} (95 % CI " in line for line in replace(verdict, slope=slope).sentences)
    slope = replace(
        verdict.slope, value=0.79, low=0.777, high=0.8026
    )  # an end that is within, and would look like 0.80
    text = str(replace(verdict, slope=slope))
    assert "Slope: 0.790 (95 % CI 0.777 to 0.803; limit 0.80 to 1.20)" in text


def test_small_sums_are_not_rounded_to_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = str(check(np.repeat([0.0001, 0.0003, 0.0008, 0.002], [237, 322, 172, 69]), np.zeros(800, dtype=int)))
    assert "Predicted 0.4 events, 0 observed; 95 % expected range 0 to 2 (800 rows)." in text


def test_classes_have_no_expected_range() -> None:
    scores, labels = world(500)
    text = str(check((scores > 0.3).astype(int), labels))
    assert "expected range" not in text


def test_a_note_about_the_rows_is_kept_whether_the_kind_is_given_or_guessed() -> None:
    scores, labels = world(300)
    weight = np.ones(300)
    weight[:10] = 0.0
    for kind in (None, "probability", "logit"):
        given = special.logit(scores) if kind == "logit" else scores
        verdict = check(given, np.where(labels, 1, -1), weight, weight_type="frequency", score_type=kind)
        assert codes(verdict.notes) == ["labels-minus-one", "rows-without-weight"], kind
        assert [note["code"] for note in verdict.to_dict()["notes"]] == codes(verdict.notes)


def test_guessed_log_odds_are_noted() -> None:
    scores, labels = world(300)
    assert codes(check(special.logit(scores), labels).notes) == ["score-type-guessed"]


# ----------------------------------------------------------------------------------------------------------------------
# Segments: far tails and order
# ----------------------------------------------------------------------------------------------------------------------


def test_segments_are_ranked_by_the_surest_effect_and_not_by_rounding() -> None:
    """3,630 predicted and 4,804 observed once got p = 4.8e-14 by rounding, behind smaller differences at exactly 0."""
    rng = np.random.default_rng(0)
    names, factors = ["big", "sure", "small"], (1.32, 1.6, 1.05)
    segment = np.repeat(names, (400_000, 20_000, 400_000))
    scores = rng.beta(2, 220, len(segment))
    labels = rng.random(len(segment)) < scores * np.select([segment == name for name in names], factors)
    verdict = check(scores, labels, by=segment)
    assert [each.value for each in verdict.segments] == ["sure", "big", "small"]
    assert verdict.segments[1].p_value < 1e-40
    bounds = [each.bound for each in verdict.segments]
    assert bounds == sorted(bounds, reverse=True)
    assert verdict.segments[0].ratio_low > 1.3


def test_the_list_counts_what_it_leaves_out() -> None:
    rng = np.random.default_rng(0)
    segment = np.arange(80_000) % 20
    scores = rng.beta(2, 20, 80_000)
    labels = rng.random(80_000) < np.minimum(scores * np.where(segment < 9, 1.6, 1.0), 1.0)
    text = str(check(scores, labels, by=segment))
    assert "Segments: 9 of 20 significantly off, largest effect first (the least in its 95 % CI):" in text
    assert "and 4 more" in text


# ----------------------------------------------------------------------------------------------------------------------
# Down-sampled logs
# ----------------------------------------------------------------------------------------------------------------------


def test_a_down_sampled_log_keeps_its_events() -> None:
    """All events, 5 % of the others with weight 20: the level is nearly as precise as on the whole log."""
    rng = np.random.default_rng(3)
    x = rng.normal(-5.5, 1.0, 400_000)
    scores, labels = special.expit(x), rng.random(400_000) < special.expit(x)
    kept = labels | (rng.random(400_000) < 0.05)
    whole = check(scores, labels)
    sampled = check(scores[kept], labels[kept], np.where(labels[kept], 1.0, 20.0))
    moved = check(special.expit(x[kept] + np.log(20.0)), labels[kept])  # the exact likelihood of that sampling
    assert sampled.events == labels.sum()
    assert f"{labels.sum():,} observed" in str(sampled)
    assert f"({kept.sum():,} rows, weighted)" in str(sampled)
    for verdict in (whole, sampled, moved):
        assert verdict.intercept is not None
    assert whole.intercept.se < sampled.intercept.se < 1.2 * whole.intercept.se
    assert sampled.intercept.se == pytest.approx(moved.intercept.se, rel=0.05)
    assert sampled.intercept.value == pytest.approx(moved.intercept.value, abs=0.02)


def test_groups_that_differ_by_chance_alone_are_not_said_to_be_worth_more_rows() -> None:
    rng = np.random.default_rng(5)
    scores, groups = rng.beta(1, 20, 6_000), rng.integers(0, 30, 6_000)
    seen = [check(scores, rng.random(6_000) < scores, groups=groups) for _ in range(5)]
    assert any(verdict.effective_rows > verdict.row_count for verdict in seen)
    for verdict in seen:
        more = verdict.effective_rows >= verdict.row_count
        assert ("vary no more than groups of independent rows would" in verdict.sentences[-1]) == more


def test_a_count_outside_the_expected_range_is_explained_where_it_is_no_evidence_yet() -> None:
    """The range is of 95 %, the test of the level is at 2 %: 67 events of ten groups lie between the two."""
    rng = np.random.default_rng(0)
    scores = rng.beta(1, 8, 400)
    labels = rng.random(400) < scores * 1.3
    verdict = check(scores, labels, groups=np.arange(400) // 40)
    assert not verdict.against.found
    assert verdict.events > verdict.expected[1]
    assert "outside the range" in str(verdict)
    assert "outside the range" not in str(check(scores, labels))


# ----------------------------------------------------------------------------------------------------------------------
# Scores of exactly 0 and 1
# ----------------------------------------------------------------------------------------------------------------------


def test_a_few_scores_of_one_do_not_pull_the_slope() -> None:
    """51 of 2,400 confidences are exactly 1: read at log-odds of 22 they would take the slope to a fifth."""
    rng = np.random.default_rng(0)
    scores = rng.choice([0.5, 0.6, 0.7, 0.8, 0.9, 0.95], 2_400)
    labels = rng.random(2_400) < special.expit(0.4 * special.logit(scores))
    without = check(scores, labels)
    scores[:51], labels[:51] = 1.0, np.arange(51) < 39
    verdict, clipped = check(scores, labels), check(scores, labels, clamp=0.02)
    assert verdict.slope.value == pytest.approx(without.slope.value, abs=0.08)
    assert recalibration(scores, labels).slope.value == pytest.approx(verdict.slope.value, abs=1e-4)
    assert "51 scores of exactly 1 are read as 0.975 in log-odds" in str(verdict)
    assert "51 scores are clipped to [0.02, 0.98] in log-odds" in str(clipped)
    with pytest.raises(InputError, match=r"clamp must be a number between 1e-300 and 0.5"):
        check(scores, labels, clamp=0.5)


def test_level_and_sum_say_of_which_scores_they_speak() -> None:
    """Scores rounded to 0 count as half of the next one in log-odds, and as 0 in the sum of predicted events."""
    rng = np.random.default_rng(1)
    truth = rng.beta(0.2, 8, 20_000)
    scores = np.round(truth, 2)
    verdict = check(scores, rng.random(20_000) < truth)
    read = np.where(scores == 0.0, 0.005, scores).sum()
    assert f"intercept and slope use these log-odds, which predict {read:,.0f} events in total" in str(verdict)
    assert "0.005" not in str(verdict.beyond.shape)


# ----------------------------------------------------------------------------------------------------------------------
# Words of hints and notes, once for each code
# ----------------------------------------------------------------------------------------------------------------------

CALL = "calibrant.SamplingCorrection(train_rate=0.22, true_rate=0.034)"
SAID = {
    hints.only_zero_and_one(equal_labels=True): (
        "all scores are 0 or 1. They equal the labels: is this label leakage? Pass probabilities, such as "
        "model.predict_proba(X)[:, 1].",
        "all PDs are 0 or 1. They equal the labels: is this label leakage? See pass_probabilities.",
    ),
    hints.labels_incomplete(events=False, beyond_chance=False): (
        "no row is an event: have all labels arrived? Was a class filtered out?",
        "no loan is a default: have all labels arrived? Was a class filtered out?",
    ),
    hints.no_events_bound(at_most=0.00374): (
        "if the labels are complete, the event rate is at most 0.37 % (95 % confidence, independent rows); "
        "calibrant.credit.pluto_tasche gives a bound for each rating grade.",
        "if the labels are complete, the default rate is at most 0.37 % (95 % confidence, independent loans); "
        "calibrant.credit.pluto_tasche gives a bound for each rating grade.",
    ),
    hints.labels_incomplete(events=True, beyond_chance=True): (
        "every row is an event: have all labels arrived? Was a class filtered out? If the labels are complete, the "
        "scores are too low: chance does not explain it.",
        "every loan is a default: have all labels arrived? Was a class filtered out? If the labels are complete, the "
        "PDs are too low: chance does not explain it.",
    ),
    hints.mean_above_base_rate(5.94, 0.2191, 0.034): (
        "the mean prediction is 5.9 times the base rate. Did you rebalance the classes for training? "
        f"SamplingCorrection undoes it, with the event rate in training: {CALL} (0.22 fits these labels; if classes "
        "were balanced, it is 0.5). Or fit to these labels: cal = "
        "calibrant.PlattScaling().fit(scores, y).",
        "the mean prediction is 5.9 times the base rate. Did you rebalance the classes for training? See "
        f"correct_sampling: {CALL} (0.22 fits these labels; if classes were balanced, it is 0.5). Or fit to these "
        "labels: see fit_platt.",
    ),
    hints.mean_below_base_rate(4.97, None, 0.2361): (
        "the base rate is 5.0 times the mean prediction. Do the labels describe the event that the model was trained "
        "on? Did you rebalance the classes for training? SamplingCorrection undoes it, with the event rate in "
        "training: calibrant.SamplingCorrection(train_rate=..., true_rate=0.236).",
        "the base rate is 5.0 times the mean prediction. Do the labels describe the default that the model was "
        "trained on? Did you rebalance the classes for training? See correct_sampling: "
        "calibrant.SamplingCorrection(train_rate=..., true_rate=0.236).",
    ),
    hints.classes_swapped(0.288): (
        "higher scores go with fewer events (AUC 0.29): are the classes swapped? Try 1 - scores.",
        "higher PDs go with fewer defaults (AUC 0.29): are the classes swapped? Try 1 - PDs.",
    ),
    hints.trained_on_these_rows(1.92): (
        "a slope of 1.9 is typical of rows that the model was trained on, and of averages of models, such as random "
        "forests, on any rows. If the model was trained on these, evaluate it on held-out rows.",
        "a slope of 1.9 is typical of loans that the model was trained on, and of averages of models, such as random "
        "forests, on any loans. If the model was trained on these, evaluate it on held-out loans.",
    ),
    hints.impossible_scores(1.0, 12.0): (
        "1 event had a score of exactly 0 and 12 rows with a score of exactly 1 were not events, which makes the "
        "log loss infinite. Were the scores rounded? Pass clamp= with half a rounding unit, such as clamp=0.005 for "
        "two decimals.",
        "1 default had a PD of exactly 0 and 12 loans with a PD of exactly 1 were not defaults, which makes the log "
        "loss infinite. Were the PDs rounded? See pass_clamp.",
    ),
    log_odds_predict(1234.4): (
        "intercept and slope use these log-odds, which predict 1,234 events in total",
        "intercept and slope use these log-odds, which predict 1,234 defaults in total",
    ),
    overlap_unknown(Unseen.TIES): (
        "cannot check whether the map was fitted to these rows (the scores are few or have many ties): evaluate it on "
        "held-out rows",
        "cannot check whether the map was fitted to these loans (the PDs are few or have many ties): evaluate it on "
        "held-out loans",
    ),
    gain_not_measured(): (
        "the gain from recalibration was not measured: in a frame of this size only sums of importance weights are "
        "available; pass time or groups to define folds",
        "the gain from recalibration was not measured: in a frame of this size only sums of importance weights are "
        "available; pass --time or --groups to define folds",
    ),
    segments_not_crossfitted(): (
        "maps by segment are not cross-validated here, because each fold would need its own choice of segments: see "
        "the calibrator's before_ and after_, which are losses on held-out rows",
        "maps by segment are not cross-validated here, because each fold would need its own choice of segments: see "
        "the calibrator's before_ and after_, which are losses on held-out loans",
    ),
    rows_without_probability(12, 3400): (
        "12 of 3,400 rows get no probability from the map and are left out",
        "12 of 3,400 loans get no probability from the map and are left out",
    ),
}


def test_hints_and_notes_have_words_in_each_voice(subtests: pytest.Subtests) -> None:
    for note, said in SAID.items():
        with subtests.test(note.code):
            assert (str(note), note.say(Bank())) == said
            assert json.dumps(note.as_dict())


def test_a_slope_that_is_not_finite_is_a_number_that_json_knows() -> None:
    note = hints.trained_on_these_rows(None)
    assert str(note).startswith("a slope that is not finite is typical of rows")
    assert json.dumps(note.as_dict(), allow_nan=False)


def test_a_verdict_speaks_in_the_voice_that_it_is_asked_in() -> None:
    scores, labels = world(6_000, shift=-0.9)
    scores[:3] = 1.0
    verdict = check(scores, labels, np.ones(6_000) + labels, groups=np.arange(6_000) // 3)
    assert verdict.deviations[0] is Direction.TOO_HIGH
    said = verdict.say(Bank())
    assert not {"event", "events", "score", "scores", "row", "rows", "probabilities"} & set(
        said.replace("(", " ").replace(":", " ").replace(",", " ").replace(".", " ").split()
    )
    assert said != str(verdict) == str(verdict.in_words())
    assert verdict.in_words().hints == tuple(map(str, verdict.hints))


def test_the_event_has_the_name_that_it_is_given() -> None:
    """In headline, sentences, hints, notes and JSON; nothing is called an event or a non-correct answer."""
    scores, labels = world(400, shift=0.2)
    scores[:20] = 1.0
    labels[:19], labels[19] = 1, 0
    verdict = check(scores, labels, event="correct answer")
    for said in (str(verdict), verdict.say(Bank()), json.dumps(verdict.to_dict()["hints"])):
        assert "correct answer" in said
        assert "event" not in said.replace("events_at_zero", "")
        assert "non-" not in said
    assert verdict.to_dict()["event"] == ["correct answer", "correct answers"]
    assert check(scores, labels, event=["child", "children"]).event == ("child", "children")
    change = compare(scores, scores**1.1, labels, event="correct answer")
    assert "event" not in str(change)
    assert "Note, old: 20 scores of exactly 1" in str(change)
    for bad in ("", 3, ("a",), ("a", 1)):
        with pytest.raises(InputError, match="event must be the name of the event"):
            check(scores, labels, event=bad)


def test_a_reversed_ranking_is_not_taken_for_rebalanced_classes() -> None:
    scores, labels = world(3_000)
    assert codes(check(1.0 - scores, labels).hints) == ["classes-swapped"]


def test_an_interval_shows_on_which_side_of_0_it_ends() -> None:
    verdict = judged(500)
    assert verdict.intercept is not None
    near = replace(verdict, intercept=replace(verdict.intercept, value=-0.43, low=-0.89, high=-0.0037))
    assert "log-odds -0.43, 95 % CI -0.89 to -0.00)" in near.sentences[2]
