"""Tests of calibration: hand-worked statistics, impossible labels, refusals, and what must not matter."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant.messages import CalibrantWarning, InputError, Voice, note
from calibrant.metrics.binary import significance
from calibrant.metrics.binary.significance import (
    Finding,
    always_valid_test,
    debiased_l2_test,
    ecce_test,
    hosmer_lemeshow,
    spiegelhalter,
)
from calibrant.numerics import Grid, logit
from calibrant.tallies import Tally

Test = Callable[..., Finding]
TESTS = [spiegelhalter, hosmer_lemeshow, debiased_l2_test, ecce_test, always_valid_test]
COUNTING = [debiased_l2_test, always_valid_test]
every_test = pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)


@note("remark")
def remark(voice: Voice, words: str) -> str:
    return words


def tally(scores: object, y: object, sample_weight: object = None, **options: object) -> Tally:
    """A tally that may hold one class only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return Tally.from_arrays(scores, y, sample_weight, positive=1, score_type="probability", **options)


def codes(found: Finding) -> list[str]:
    return [note.code for note in found.notes]


def sample(n: int, seed: int = 0, digits: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    scores = rng.random(n) if digits is None else np.round(0.01 + 0.98 * rng.random(n), digits)
    return scores, (rng.random(n) < scores).astype(int)


# ----------------------------------------------------------------------------------------------------------------------
# Findings
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "words"), [(0.31, "no evidence against"), (0.002, ": evidence against")])
def test_a_finding_never_calls_a_model_calibrated(p: float, words: str) -> None:
    text = str(Finding("some test", 1.0, p, (remark("a note"),)))
    assert words in text
    assert f"(p = {p})" in text
    assert "calibrated" not in text
    assert text.endswith("a note")


def test_a_finding_without_a_p_value_says_so_and_is_plain_data() -> None:
    finding = Finding("some test", math.nan, math.nan, (remark("why"),))
    assert str(finding).splitlines() == ["some test: no p-value", "  why"]
    notes = [{"code": "remark", "text": "why", "words": "why"}]
    assert finding.to_dict() == {"name": "some test", "statistic": None, "p_value": None, "notes": notes}


# ----------------------------------------------------------------------------------------------------------------------
# Hand-worked numbers
# ----------------------------------------------------------------------------------------------------------------------


def test_spiegelhalter_by_hand() -> None:
    # s = 0.2 and 0.9, y = 1 and 1: (0.8)(0.6) + (0.1)(-0.8) = 0.40; variance 0.36 * 0.16 + 0.64 * 0.09 = 0.1152.
    found = spiegelhalter(tally([0.2, 0.9], [1, 1]))
    assert found.statistic == pytest.approx(0.40 / math.sqrt(0.1152))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(0.40 / math.sqrt(0.1152)))


def test_spiegelhalter_with_importance_weights_uses_their_squares() -> None:
    # weights 2 and 1: 2 * 0.48 - 0.08 = 0.88; variance 4 * 0.0576 + 0.0576 = 0.288.
    assert spiegelhalter(tally([0.2, 0.9], [1, 1], [2.0, 1.0])).statistic == pytest.approx(0.88 / math.sqrt(0.288))


def test_hosmer_lemeshow_by_hand() -> None:
    # two bins of four: s = 0.25 with 2 events, s = 0.5 with 1: 4 * 0.0625 / 0.1875 + 4 * 0.0625 / 0.25 = 7 / 3.
    scores, y = [0.25] * 4 + [0.5] * 4, [1, 1, 0, 0, 1, 0, 0, 0]
    found = hosmer_lemeshow(scores, y, n_bins=2)
    assert found.statistic == pytest.approx(7 / 3)
    assert found.p_value == pytest.approx(stats.chi2.sf(7 / 3, 2))
    assert codes(found) == ["not-a-proof"]
    assert "p > 0.05 is not a proof of calibration: this p-value depends on the bins" in str(found)
    three = hosmer_lemeshow([*scores, 0.75, 0.75], [*y, 1, 0], n_bins=3, fitted=True)
    assert three.p_value == pytest.approx(stats.chi2.sf(three.statistic, 1))
    assert math.isnan(hosmer_lemeshow(scores, y, n_bins=2, fitted=True).p_value)


def test_the_debiased_statistic_by_hand() -> None:
    # One bin, s = 0.5, y = 1, 1, 0: ordered pairs of (1/2, 1/2, -1/2): 2 (1/4 - 1/4 - 1/4) = -1/2, divided by n = 3.
    # Its null variance is 2 / 9 * sum over ordered pairs of 1/16 = 2 / 9 * 6 / 16 = 1 / 12.
    found = debiased_l2_test([0.5] * 3, [1, 1, 0], n_bins=1)
    assert found.statistic == pytest.approx((-1 / 6) / math.sqrt(1 / 12))
    assert found.p_value == 1.0, "two labels of three agree in every sample, or all three: no value is smaller"


def test_the_debiased_statistic_equals_its_double_sum(subtests) -> None:
    for n_bins in [1, 2, 4]:
        with subtests.test(n_bins=n_bins):
            scores, y = sample(23, digits=1)
            cells = tally(scores, y)
            index = significance._by_mass(cells.n, n_bins)[np.searchsorted(cells.scores, scores)]
            value = variance = 0.0
            for b in range(n_bins):
                inside = np.flatnonzero(index == b)
                for i, j in itertools.permutations(inside, 2):
                    value += (y[i] - scores[i]) * (y[j] - scores[j]) / len(inside)
                    spread = scores[i] * (1 - scores[i]) * scores[j] * (1 - scores[j])
                    variance += 2 * spread / len(inside) ** 2
            assert debiased_l2_test(cells, n_bins=n_bins).statistic == pytest.approx(value / math.sqrt(variance))


def test_a_simulated_p_value_is_near_the_exact_one() -> None:
    # Five rows at 0.3 and five at 0.6: the null law of the range has 36 points, all enumerated here.
    n, s, events = 5, np.array([0.3, 0.6]), np.array([4, 1])

    def spread(counts: np.ndarray) -> float:
        path = np.append(0.0, np.cumsum(counts - n * s))
        return float(path.max() - path.min())

    law = [
        (spread(np.array(k)), stats.binom.pmf(k[0], n, 0.3) * stats.binom.pmf(k[1], n, 0.6))
        for k in itertools.product(range(n + 1), repeat=2)
    ]
    exact = sum(p for value, p in law if value >= spread(events) - 1e-9)
    rows = tally(np.repeat(s, n), [1, 1, 1, 1, 0, 1, 0, 0, 0, 0])
    found = ecce_test(rows, repetitions=20_000)
    assert found.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
    assert 0.01 < exact < 0.2


@pytest.mark.parametrize("kind", ["range", "max"])
def test_the_two_ways_of_ecce_agree_on_many_rows(kind: str) -> None:
    scores, y = sample(4_000, seed=3)
    limit, drawn = (ecce_test(scores, y, statistic=kind, method=way) for way in ("asymptotic", "simulation"))
    assert drawn.statistic == pytest.approx(limit.statistic, rel=1e-9)
    assert drawn.p_value == pytest.approx(limit.p_value, abs=0.06)
    assert codes(ecce_test(scores, y, statistic=kind)) == ["brownian-p-value"]
    assert str(limit).endswith("asymptotic p-value, from Brownian motion")
    assert codes(ecce_test(scores[:200], y[:200], statistic=kind)) == ["simulated-p-value"]
    assert str(drawn).endswith("p-value from 999 simulations")


def test_the_always_valid_evidence_is_an_average_of_likelihood_ratios() -> None:
    scores, y = np.array([0.1, 0.4, 0.8]), np.array([1, 0, 1])

    def ratio(tilt: np.ndarray, rows: np.ndarray) -> float:
        q = 1 / (1 + np.exp(-(logit(scores) + tilt)))
        each = np.where(y == 1, q / scores, (1 - q) / (1 - scores))
        return float(np.prod(each[rows]))

    everyone, bins = np.ones(3, dtype=bool), [scores < 0.5, scores >= 0.5]
    shifts = significance.SHIFTS
    lines = [ratio(a + (b - 1) * logit(scores), everyone) for a, b in significance.LINES]
    everywhere = np.mean([ratio(np.full(3, d), everyone) for d in shifts] + lines)
    by_bin = [np.mean([ratio(np.full(3, d), rows) for d in shifts]) for rows in bins]
    expected = everywhere / 2 + np.mean(by_bin) / 4 + np.prod([(1 + e) / 2 for e in by_bin]) / 4
    assert always_valid_test(tally(scores, y), n_bins=2).statistic == pytest.approx(expected)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3), st.sampled_from([1, 3, 10]))
def test_the_always_valid_evidence_has_mean_one(scores: list[float], n_bins: int) -> None:
    """Summed over all labels, each with its probability under the null."""
    mean = 0.0
    for labels in itertools.product((0, 1), repeat=len(scores)):
        chance = math.prod(s if y else 1 - s for s, y in zip(scores, labels, strict=True))
        if chance > 0.0:
            mean += chance * always_valid_test(tally(scores, labels), n_bins=n_bins).statistic
    assert mean == pytest.approx(1.0, rel=1e-6)


def test_cells_that_pool_scores_only_lose_evidence() -> None:
    """The mean over the null of rows at 0.1 and 0.5, known as one cell at 0.3, is below 1."""
    mean = 0.0
    for labels in itertools.product((0, 1), repeat=2):
        chance = math.prod(s if y else 1 - s for s, y in zip((0.1, 0.5), labels, strict=True))
        pooled = Tally.from_table([2, 0], [sum(labels), 0], edges=[0.6], scores=[0.3, 0.8])
        mean += chance * always_valid_test(pooled).statistic
    assert 0.9 < mean < 1.0


# ----------------------------------------------------------------------------------------------------------------------
# Edges
# ----------------------------------------------------------------------------------------------------------------------


def test_labels_that_contradict_a_sure_score_have_p_zero(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            scores, y = sample(200)
            for sure, label in ((0.0, 1), (1.0, 0)):
                found = test(np.append(scores, sure), np.append(y, label))
                assert found.p_value == 0.0
                assert "labels-contradict-scores" in codes(found)
                contradicted = "1 row with a score of exactly 1 was not an event" if sure else "1 event had a score of"
                assert f"p is exactly 0: {contradicted}" in str(found)
                assert test(np.append(scores, sure), np.append(y, 1 - label)).p_value > 0.01
            assert test(tally([0.0, 1.0, 1.0], [1, 1, 1])).p_value == 0.0


def test_scores_that_cannot_vary_have_no_evidence(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            found = test(tally([0.0, 1.0, 1.0], [0, 1, 1]))
            assert math.isnan(found.p_value) or found.p_value == pytest.approx(1.0)
            assert math.isnan(found.p_value) == bool(found.notes)


def test_spiegelhalter_has_no_variance_at_one_half() -> None:
    assert math.isnan(spiegelhalter([0.5, 0.5, 0.0], [0, 1, 0]).p_value)
    assert math.isfinite(hosmer_lemeshow([0.5, 0.5, 0.0], [0, 1, 0]).p_value)


def test_one_row_or_two_of_one_class_are_no_evidence(subtests) -> None:
    for test in TESTS:
        for rows in [1, 2]:
            for label in [0, 1]:
                with subtests.test(test=test.__name__, rows=rows, label=label):
                    found = test(tally([0.4] * rows, [label] * rows))
                    assert math.isnan(found.p_value) or found.p_value > 0.05


def test_constant_scores_that_are_wrong_are_found(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            found = test([0.3] * 400, [1] * 200 + [0] * 200)
            assert found.p_value < 0.01
            assert test([0.5001] * 400, [1] * 200 + [0] * 200).p_value > 0.5


def test_the_order_of_rows_and_of_merging_does_not_matter(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            scores, y = sample(300, digits=2)
            order = np.random.default_rng(1).permutation(300)
            whole = test(scores, y)
            for again in (
                test(scores[order], y[order]),
                test(tally(scores[:90], y[:90]) + tally(scores[90:], y[90:])),
                test(tally(scores, y, np.ones(300), weight_type="frequency")),
            ):
                assert (again.statistic, again.p_value) == pytest.approx((whole.statistic, whole.p_value), rel=1e-12)
                assert again.notes == whole.notes


def test_counts_mean_repetition_and_zero_means_no_row(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            scores, y = sample(60, digits=2)
            counts = np.arange(60) % 4
            weighted = test(tally(scores, y, counts, weight_type="frequency"))
            repeated = test(np.repeat(scores, counts), np.repeat(y, counts))
            assert weighted.statistic == pytest.approx(repeated.statistic, rel=1e-12)
            assert weighted.p_value == pytest.approx(repeated.p_value, rel=1e-12)


def test_a_grid_gives_nearly_the_same(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            scores, y = sample(500)
            exact, gridded = test(scores, y), test(tally(scores, y, grid=Grid()))
            # A row in a cell on the edge of a bin may change sides, which moves the bins of Hosmer and Lemeshow.
            assert gridded.statistic == pytest.approx(
                exact.statistic, rel=0.1 if test is hosmer_lemeshow else 0.02, abs=0.02
            )
            assert gridded.p_value == pytest.approx(exact.p_value, abs=0.06)


def test_a_table_of_bins_is_tested_by_its_mean_scores(subtests) -> None:
    for test in TESTS:
        with subtests.test(test=test.__name__):
            good = Tally.from_table([500, 500], [50, 400], edges=[0.5], scores=[0.1, 0.8])
            bad = Tally.from_table([500, 500], [80, 400], edges=[0.5], scores=[0.1, 0.8])
            assert test(good).p_value > 0.5
            assert test(bad).p_value < 0.05
            with pytest.raises(InputError, match="mean scores"):
                test(Tally.from_table([500, 500], [50, 400], edges=[0.5]))


def test_the_unit_of_importance_weights_does_not_matter(subtests) -> None:
    for test in [spiegelhalter, hosmer_lemeshow, ecce_test]:
        for unit in [1e-9, 1.0, 1e9]:
            with subtests.test(test=test, unit=unit):
                scores, y = sample(200)
                weights = np.random.default_rng(2).exponential(size=200)
                weights[::7] = 0.0
                found = test(scores, y, unit * weights)
                kept = weights > 0
                same = test(scores[kept], y[kept], weights[kept])
                assert found.statistic == pytest.approx(same.statistic)
                assert found.p_value == pytest.approx(same.p_value)
                equal = test(scores, y, np.full(200, unit))
                plain = test(scores, y, method="asymptotic") if test is ecce_test else test(scores, y)
                assert equal.p_value == pytest.approx(plain.p_value), (
                    "equal weights are no weights, however many rows they sum to"
                )


@pytest.mark.parametrize("test", COUNTING)
def test_importance_weights_are_refused_where_rows_are_simulated_or_bet_on(
    test: Test,
) -> None:
    with pytest.raises(InputError, match="counts"):
        test(*sample(20), np.full(20, 0.5))
    with pytest.raises(InputError, match="asymptotic"):
        ecce_test(*sample(20), np.full(20, 0.5), method="simulation")


def test_bad_options_are_refused() -> None:
    rows = sample(20)
    for call in (
        lambda: debiased_l2_test(*rows, n_bins=0),
        lambda: debiased_l2_test(*rows, repetitions=0),
        lambda: ecce_test(*rows, statistic="mean"),
        lambda: ecce_test(*rows, method="bootstrap"),
        lambda: always_valid_test(*rows, edges=[0.5, 0.2]),
        lambda: hosmer_lemeshow(*rows, n_bins=1.5),
    ):
        with pytest.raises(InputError):
            call()


def test_the_seed_changes_the_simulation_and_nothing_else() -> None:
    rows = sample(150)
    first, again, other = (debiased_l2_test(*rows, random_state=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.statistic == other.statistic
    assert first.p_value != other.p_value


def test_many_distinct_scores_are_joined_without_moving_the_statistic(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, y = sample(6_000)
    exact = [debiased_l2_test(scores, y), ecce_test(scores, y, method="simulation")]
    monkeypatch.setattr(significance, "EXACT_CELLS", 5_000)
    for before, after in zip(
        exact, [debiased_l2_test(scores, y), ecce_test(scores, y, method="simulation")], strict=True
    ):
        assert after.statistic == pytest.approx(before.statistic, rel=0.02, abs=0.01)
        assert after.statistic != before.statistic, "cells were joined"
        assert after.p_value == pytest.approx(before.p_value, abs=0.06)


def test_millions_of_rows_on_a_grid_are_tested_in_seconds() -> None:
    codes = np.arange(1, 2_000)
    n = np.full(1_999, 10**9)
    scores = codes / 2_000
    big = Tally.from_table(n, np.rint(n * scores).astype(int), edges=(scores[1:] + scores[:-1]) / 2, scores=scores)
    for test in TESTS:
        assert test(big).p_value > 0.5
