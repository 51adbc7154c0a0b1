"""Cuts from costs, and the raw scores that reach them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import InputError, IsotonicCalibrator, PlattScaling, Tally
from calibrant.decisions import choose_action, choose_threshold, expected_cost, least_score, rescale_contributions
from calibrant.engine import Grid
from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap

RNG = np.random.default_rng(31)
SCORES = RNG.random(2_000)
LABELS = (RNG.random(2_000) < SCORES**2).astype(int)

RISING: list[Map] = [
    IdentityMap(),
    StepMap([0.25, 0.5, 0.75], [0.0, 0.2, 0.2, 1.0]),
    PiecewiseLinearMap([0.1, 0.4, 0.9], [0.05, 0.3, 0.8]),
    LogitAffineMap(0.7, -1.0),
    BetaMap(1.5, 0.5, -0.2),
    ComposeMap((LogitAffineMap(2.0, 1.0), StepMap([0.3, 0.6], [0.1, 0.5, 0.7]))),
    LogitAffineMap(0.0, 0.4),
]


def test_costs_by_hand() -> None:
    # A missed event costs 20, a false alarm 1: act when 20 p >= 1 (1 - p), p >= 1/21.
    assert float(choose_threshold(1, 20)) == pytest.approx(1 / 21, abs=1e-16)
    assert float(choose_threshold(3, 3)) == 0.5
    assert float(choose_threshold(0, 1)) == 0.0
    assert float(choose_threshold(1, 0)) == 1.0
    assert float(choose_threshold(1e-300, 1e300)) == 0.0
    assert str(choose_threshold(1, 1)) == "Act if the probability is at least 0.5."


def test_the_raw_cut_of_a_step_map_is_its_knot() -> None:
    steps = StepMap([0.25, 0.5], [0.1, 0.3, 0.9])
    assert choose_threshold(1, 4, steps).score == 0.25  # 0.2 is first reached by the step of 0.3
    assert choose_threshold(7, 3, steps).score == 0.5
    assert choose_threshold(1, 99, steps).score == 0.0  # 0.01 is reached everywhere
    never = choose_threshold(19, 1, steps)
    assert never.score is None
    assert "no score reaches" in str(never)


def test_the_raw_cut_of_a_shift_by_hand() -> None:
    # p' = 0.5 where odds * e^-1 = 1: odds e, score e / (1 + e).
    cut = choose_threshold(1, 1, LogitAffineMap(1.0, -1.0))
    assert cut.score == pytest.approx(math.e / (1 + math.e), abs=1e-15)
    assert "raw score at least 0.731" in str(cut)


def test_the_cut_reaches_the_probability_and_the_double_below_does_not(subtests) -> None:
    for mapping in RISING:
        for probability in [0.0, 1e-12, 0.05, 0.2, 0.3, 0.55, 0.7, 1 - 1e-12, 1.0]:
            with subtests.test(mapping=mapping.kind, probability=probability):
                cut = least_score(mapping, probability)
                if mapping.apply(np.array([1.0]))[0] < probability:
                    assert cut is None
                else:
                    assert mapping.apply(np.array([cut]))[0] >= probability
                    assert cut == 0.0 or mapping.apply(np.array([np.nextafter(cut, -1.0)]))[0] < probability


@given(st.floats(0.01, 0.99), st.floats(0.1, 4.0), st.floats(-3.0, 3.0))
def test_cutting_raw_scores_decides_as_cutting_probabilities(probability: float, slope: float, shift: float) -> None:
    mapping = LogitAffineMap(slope, shift)
    cut = least_score(mapping, probability)
    images = mapping.apply(SCORES)
    clear = np.abs(images - probability) > 1e-14
    lowest = math.inf if cut is None else cut
    acts = np.array([score >= lowest for score in SCORES])
    assert (acts == (images >= probability))[clear].all()


def test_logits_and_real_scores_have_negative_cuts() -> None:
    # expit(2 x) = 0.2 at x = log(1/4) / 2.
    cut = least_score(LogitAffineMap(2.0, 0.0, "score"), 0.2, "logit")
    assert cut == pytest.approx(math.log(0.25) / 2, abs=1e-14)
    z = np.log(SCORES[SCORES > 0] / (1 - SCORES[SCORES > 0]))
    fitted = PlattScaling().fit(z, LABELS[SCORES > 0], score_type="logit")
    score = choose_threshold(1, 9, fitted).score
    assert score is not None
    assert fitted.transform([score])[0] == pytest.approx(0.1, abs=1e-12)


def test_a_fitted_calibrator_serves() -> None:
    fitted = IsotonicCalibrator().fit(SCORES, LABELS)
    cut = choose_threshold(1, 2, fitted)
    assert cut.score is not None
    assert fitted.transform([cut.score])[0] >= 1 / 3


def test_a_map_that_falls_has_no_single_cut(subtests) -> None:
    for mapping in [
        LogitAffineMap(-1.0, 0.0),
        StepMap([0.5], [0.8, 0.1]),
        BetaMap(-1.0, 1.0, 0.0),
        ComposeMap((IdentityMap(), LogitAffineMap(-1.0, 0.0))),
    ]:
        with subtests.test(mapping=mapping), pytest.raises(InputError, match="decreases somewhere"):
            choose_threshold(1, 1, mapping)


def test_two_actions_are_a_threshold() -> None:
    policy = choose_action([[0, 20], [1, 0]], actions=["wait", "act"])
    assert policy.actions == ("wait", "act")
    assert policy.cuts[0].probability == pytest.approx(float(choose_threshold(1, 20)))


def test_three_actions_by_hand() -> None:
    # pass 20 p; look 1 + 4 p; block 4 - 4 p. pass = look at 1/16, look = block at 3/8.
    policy = choose_action([[0, 20], [1, 5], [4, 0]])
    assert policy.actions == (0, 1, 2)
    assert [cut.probability for cut in policy.cuts] == pytest.approx([1 / 16, 3 / 8])
    assert policy.decide([0.0, 1 / 16, 0.374, 0.376, 1.0]).tolist() == [0, 1, 1, 2, 2]
    json.dumps(policy.to_dict())


def test_an_action_that_is_never_best_is_left_out() -> None:
    assert choose_action([[0, 10], [6, 6], [5, 0]]).actions == (0, 2)
    assert choose_action([[0, 0], [0, 0]]).actions == (0,)
    assert choose_action([[1, 1], [0, 0]]).actions == (1,)
    assert choose_action([[3, 3]]).decide([0.2]).tolist() == [0]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=6))
def test_the_policy_is_the_least_expected_loss_everywhere(losses: list[tuple[int, int]]) -> None:
    p = np.linspace(0, 1, 101)
    table = np.array(losses, dtype=float)
    expected = table[:, :1] * (1 - p) + table[:, 1:] * p
    chosen = choose_action(losses).decide(p)
    assert expected[chosen, np.arange(101)] == pytest.approx(expected.min(axis=0), abs=1e-12)


def test_a_policy_acts_on_raw_scores_through_a_map() -> None:
    mapping = LogitAffineMap(1.0, -2.0)
    policy = choose_action([[0, 20], [1, 5], [4, 0]], calibration=mapping)
    direct = choose_action([[0, 20], [1, 5], [4, 0]]).decide(mapping.apply(SCORES))
    assert policy.decide(SCORES).tolist() == direct.tolist()
    low = choose_action([[0, 20], [4, 0]], calibration=StepMap([0.5], [0.01, 0.02]))
    assert low.decide([0.0, 1.0]).tolist() == [0, 0]
    assert "not reached by any raw score" in str(low)


def test_wrong_input_is_refused() -> None:
    for costs in ((0, 0), (-1, 1), (1, math.nan), (1, math.inf), ("1", 2)):
        with pytest.raises(InputError, match="cost_f"):
            choose_threshold(*costs)
    for losses in ([], [1, 2], [[1, 2, 3]], [[1, math.nan]]):
        with pytest.raises(InputError, match="loss_matrix"):
            choose_action(losses)
    with pytest.raises(InputError, match="name every row"):
        choose_action([[0, 1], [1, 0]], actions=["a"])
    with pytest.raises(InputError, match="missing"):
        choose_action([[0, 1], [1, 0]]).decide([0.5, np.nan])


# ----------------------------------------------------------------------------------------------------------------------
# Costs at thresholds, and contributions
# ----------------------------------------------------------------------------------------------------------------------


def test_the_cost_of_thresholds_by_hand() -> None:
    p = np.array([0.1, 0.2, 0.2, 0.6, 0.9])
    y = np.array([0, 1, 0, 0, 1])
    found = expected_cost(p, y, cost_fp=1, cost_fn=5, thresholds=[0.0, 0.2, 0.5, np.inf])
    assert found.false_positives.tolist() == [3, 2, 1, 0]
    assert found.false_negatives.tolist() == [0, 0, 1, 2]
    assert found.cost == pytest.approx([0.6, 0.4, 1.2, 2.0])
    assert found.best == 0.2
    share = 0.05 / 8
    ends = [stats.binomtest(k, 5).proportion_ci(1 - share, method="exact") for k in (1, 1)]
    assert (found.low[2], found.high[2]) == pytest.approx((6 * ends[0].low, 6 * ends[0].high))
    assert len(found.to_dict()["cost"]) == 4
    assert expected_cost(p, y, cost_fp=1, cost_fn=4).thresholds.tolist() == [0.0, 0.2, np.inf]


def test_costs_are_refused_where_they_mean_nothing() -> None:
    p, y = [0.1, 0.9], [0, 1]
    for call, words in (
        (lambda: expected_cost(p, y, cost_fp=-1, cost_fn=1), "cost_fp must be a finite cost"),
        (lambda: expected_cost(p, y, cost_fp=1, cost_fn=1, thresholds=[]), "thresholds must be probabilities"),
        (lambda: expected_cost(p, y, cost_fp=1, cost_fn=1, thresholds=[np.nan]), "thresholds must be probabilities"),
        (lambda: expected_cost(p, y, cost_fp=1, cost_fn=1, alpha=0), "alpha must be inside"),
        (lambda: expected_cost(Tally.from_arrays(p, y, [0.3, 1.2]), cost_fp=1, cost_fn=1), "importance weights"),
        (lambda: expected_cost(Tally.from_arrays(p, y, grid=Grid()), cost_fp=1, cost_fn=1), "tally on a grid"),
        (lambda: rescale_contributions([1.0], 0.0, LogitAffineMap(1, 0)), "values must be finite numbers"),
        (lambda: rescale_contributions([[1.0]], np.nan, LogitAffineMap(1, 0)), "base must be a finite number"),
        (lambda: rescale_contributions([[1.0]], 0.0, StepMap([0.6], [0.5, 1.0])), "a probability of 0 or 1"),
        (lambda: rescale_contributions([[1.0]], 0.0, LogitAffineMap(1, 0), output="odds"), "output must be"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_rescaled_contributions_add_up_to_the_calibrated_output() -> None:
    rng = np.random.default_rng(0)
    phi, base = rng.normal(0, 0.7, (50, 6)), -0.8
    phi[0] = 0.0
    phi[1, :2], phi[1, 2:] = [1.0, -1.0], 0.0
    for mapping in (LogitAffineMap(0.7, -1.0), BetaMap(1.5, 0.5, -0.2), PiecewiseLinearMap([0.1, 0.9], [0.2, 0.7])):
        p = mapping.apply(1 / (1 + np.exp(-(base + phi.sum(axis=1)))))
        psi, start = rescale_contributions(phi, base, mapping)
        assert start + psi.sum(axis=1) == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
        assert (np.sign(psi) == np.sign(phi)).all()
        psi, start = rescale_contributions(phi, base, mapping, output="probability")
        assert start + psi.sum(axis=1) == pytest.approx(p, abs=1e-12)
    same, start = rescale_contributions(phi, base, IdentityMap())
    assert same == pytest.approx(phi, abs=1e-6)
    assert start == pytest.approx(base)


@pytest.mark.parametrize("thresholds", [[20], [0.5, 1.01], ["a"], ["0.5"], [math.nan], [-0.1], [[0.5]], []])
def test_thresholds_that_are_no_probabilities_are_refused(thresholds):
    with pytest.raises(InputError, match="thresholds must"):
        expected_cost([0.1, 0.6], [0, 1], cost_fp=1, cost_fn=5, thresholds=thresholds)


def test_never_acting_is_said_in_words():
    assert "never act: " in str(expected_cost([0.1, 0.6], [0, 1], cost_fp=1, cost_fn=5))


def test_contributions_of_text_are_refused():
    with pytest.raises(InputError, match="values must hold numbers only"):
        rescale_contributions([["a"]], 0.0, LogitAffineMap(1.0, 0.0))
