"""Thresholds, curves and routes by hand, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from calibrant import InputError, Tally
from calibrant.abstention import Acceptance, accept, accept_models, overconfidence, risk_coverage, route
from calibrant.abstention.chain import (
    Ladder,
    certified,
    fewest_rows,
    mean_passes,
    most_wrong,
    reach,
    start_ranks,
    strictly_above,
)
from calibrant.displays import RiskCoverageDisplay
from calibrant.engine import Grid


def test_the_fewest_rows_are_those_of_the_zero_error_test():
    assert fewest_rows(0.1, 0.05) == 29  # 0.9^29 = 0.0471, 0.9^28 = 0.0523
    assert fewest_rows(0.01, 0.05) == 299
    assert accept([0.9] * 29, [1] * 29).threshold == 0.0
    none = accept([0.9] * 28, [1] * 28)
    assert none.threshold is None
    assert not none.found
    assert none.coverage == 0.0
    assert "At least 29 graded answers are needed" in str(none)


def test_starts_are_halves_as_long_as_a_test_can_pass():
    assert start_ranks(300, 0.1, 0.05) == (300, 150, 75)
    assert start_ranks(1000, 0.1, 0.05) == (1000, 500, 250, 125, 62)
    for n in (1, 28, 29, 100, 5_000):
        ranks = start_ranks(n, 0.1, 0.05)
        assert all(0.9**k <= 0.05 / len(ranks) or k != ranks[-1] for k in ranks)


def test_a_chain_ends_at_its_first_failure():
    passed = np.array([False, True, True, False, True])
    assert [reach(passed, start) for start in (1, 0, 4)] == [2, -1, 4]
    assert certified(passed[None], [np.array([place]) for place in (1, 0, 4, -1)]).nonzero()[0].tolist() == [3, 4, 9]


def test_a_threshold_by_hand():
    """100 rows at 0.95 with 1 wrong, 100 at 0.9 with 4, 100 at 0.5 with 60: starts at 300, 150, 75 rows, level 1/60."""
    scores = np.repeat([0.95, 0.9, 0.5], 100)
    right = np.concatenate([np.arange(100) >= wrong for wrong in (1, 4, 60)])
    level = 0.05 / 3
    assert stats.binom.cdf(1, 100, 0.1) < level
    assert stats.binom.cdf(5, 200, 0.1) < level
    assert stats.binom.cdf(65, 300, 0.1) > level
    found = accept(scores, right)
    # from rank 150 (score 0.9): the 100 rows above 0.9 pass, then 0.9 passes, then 0.5 fails
    assert (found.threshold, found.rows, found.wrong, found.total, found.total_wrong) == (0.9, 200, 5, 300, 65)
    assert found.starts == (300, 150, 75)
    assert found.level == pytest.approx(level)
    assert found.decide([0.95, 0.9, 0.89, np.nan]).tolist() == [True, True, False, False]
    assert found.policy.decide([0.5, 0.9]).tolist() == ["abstain", "answer"]


def test_an_end_at_a_start_answers_what_is_strictly_above_the_next_score():
    scores = np.repeat([0.95, 0.9, 0.5], 100)
    right = np.concatenate([np.arange(100) >= wrong for wrong in (1, 60, 60)])
    found = accept(scores, right)
    assert found.rows == 100
    assert found.threshold == np.nextafter(0.9, 1.0)
    assert "if the score is above 0.9:" in str(found)
    assert found.decide([0.9, 0.95]).tolist() == [False, True]


def test_an_early_failure_does_not_end_the_chains_that_start_lower():
    """The 40 top rows are half wrong, the 960 below are right: accepted from a lower start."""
    scores = np.linspace(1.0, 0.0, 1000)
    right = np.concatenate([np.arange(40) % 2, np.ones(960)])
    found = accept(scores, right)
    assert found.coverage == 1.0


def test_a_fixed_start_has_one_chain():
    scores = np.repeat([0.95, 0.9, 0.5], 30)
    right = np.concatenate([np.arange(30) >= wrong for wrong in (0, 0, 20)])
    found = accept(scores, right, start=0.93)
    assert found.level == 0.05
    assert found.threshold == 0.9
    assert found.rows == 60
    only = accept(scores[[*range(30), *range(60, 90)]], right[[*range(30), *range(60, 90)]], start=0.93)
    assert only.threshold == 0.93
    assert only.rows == 30
    assert accept(scores, right, start=0.99).threshold is None


def test_rows_order_and_tally_give_the_same():
    rng = np.random.default_rng(0)
    s = rng.choice([0.6, 0.8, 0.9], 400)
    y = rng.random(400) < np.where(s > 0.7, 0.97, 0.5)
    order = rng.permutation(400)
    first = accept(s, y)
    assert first == accept(s[order], y[order]) == accept(Tally.from_arrays(s, y))
    assert first.found
    on_grid = accept(Tally.from_arrays(s, y, grid=Grid()))
    assert on_grid.rows == first.rows
    assert on_grid.threshold <= first.threshold + 1e-9


def test_logits_and_any_numbers_are_scores():
    s = np.concatenate([np.full(100, 7.5), np.full(100, -3.0)])
    y = np.concatenate([np.ones(100), np.zeros(100)])
    found = accept(s, y)
    assert found.rows == 100
    assert -3.0 < found.threshold <= 7.5
    assert found.decide([8.0, -4.0]).tolist() == [True, False]
    with pytest.raises(InputError, match="are not probabilities"):
        _ = found.policy
    assert accept(s, np.ones(200)).threshold == -1e300


@pytest.mark.parametrize("n", [1, 2])
def test_few_rows_have_no_threshold(n):
    assert not accept([0.9] * n, [1] * n).found
    assert not accept([0.9] * n, [0] * n).found
    assert risk_coverage([0.9] * n, [1] * n).high[-1] < 1.0 or n < 4
    assert not route([0.9] * n, [1] * n, [1] * n).shown


def test_groups_count_once_whatever_their_size():
    question = np.repeat(np.arange(50), 4)
    found = accept(np.full(200, 0.9), np.ones(200), groups=question)
    assert (found.everything, found.rows, found.total, found.groups, found.seed) == (True, 200, 200, 50, None)
    assert found.notes[-1].code == "groups-count-once"
    assert (found.notes[-1].values, found.share) == ({"groups": 50}, 0.0)
    size = np.array([1, 9] * 20)  # the large groups are wrong in one row of nine, the small ones are right
    right = np.concatenate([np.arange(n) < n - (n > 1) for n in size])
    found = accept(np.full(200, 0.9), right, groups=np.repeat(np.arange(40), size))
    assert found.share == pytest.approx(1 / 18)
    routed = route(np.full(200, 0.9), right, right, groups=np.repeat(np.arange(40), size), error=0.3)
    assert routed.share == pytest.approx(1 / 18)
    assert (routed.wrong, routed.total) == (20, 200)


@pytest.mark.parametrize("repeat", [False, True])
def test_groups_of_one_row_change_nothing(repeat):
    """Numbers of rows are groups; if each row stands twice, means are 0 and 1 and the test of means is stricter."""
    rng = np.random.default_rng(3)
    s = rng.choice([0.6, 0.8, 0.9], 400)
    y, other = rng.random(400) < np.where(s > 0.7, 0.97, 0.5), rng.random(400) < 0.97
    plain, times = accept(s, y), 2 if repeat else 1
    group = np.repeat(rng.permutation(400), times)
    found = accept(np.repeat(s, times), np.repeat(y, times), groups=group)
    assert (found.threshold, found.rows, found.starts) == (plain.threshold, times * plain.rows, plain.starts)
    assert found.groups == (400 if repeat else None)
    routed = [route(*(np.repeat(each, k) for each in (s, y, other)), groups=g) for k, g in ((1, None), (times, group))]
    assert routed[0].threshold == routed[1].threshold
    assert routed[0].kept == pytest.approx(routed[1].kept)


def test_the_bound_for_means_by_enumeration():
    """At its integer j the bound is E(j - B)+ / (j - x), and j has the smallest such ratio of all integers."""
    for n, error, level in ((29, 0.1, 0.05), (60, 0.1, 0.0125), (300, 0.02, 0.05), (40, 0.4, 0.2)):
        law = stats.binom.pmf(np.arange(n + 1), n, error)
        most = int(most_wrong(np.array([n]), error, level)[0])
        assert stats.binom.cdf(most, n, error) <= level < stats.binom.cdf(most + 1, n, error)
        for x in np.linspace(0.0, most + 1.0, 40):
            ratio = min(law @ np.maximum(j - np.arange(n + 1), 0) / (j - x) for j in range(1, n + 1) if j > x)
            assert mean_passes(np.array([x]), np.array([n]), error, level)[0] == (ratio <= level), (n, x)
    assert most_wrong(np.array([0, 1]), 0.1, 0.05).tolist() == [-1, -1]
    assert not mean_passes(np.zeros(2), np.array([0, 28]), 0.1, 0.05).any()


def test_a_draw_of_groups_keeps_its_seed():
    """Rows of a group with several scores are drawn: the seed of the result gives the result again."""
    rng = np.random.default_rng(4)
    s, group = rng.random(1200), np.repeat(np.arange(300), 4)
    y = rng.random(1200) < 0.85 + 0.15 * s
    found, curve = accept(s, y, groups=group), risk_coverage(s, y, groups=group)
    assert found.found
    assert found == accept(s, y, groups=group, random_state=found.seed)
    assert curve.high.tolist() == risk_coverage(s, y, groups=group, random_state=curve.seed).high.tolist()
    assert curve.notes[-1].values == {"seed": curve.seed, "groups": 300, "rows": 1200}
    assert curve.total == 300
    assert risk_coverage(s, y).seed is None


def test_few_distinct_scores_are_pointed_to_a_start():
    """67 answers with confidence 1 and none wrong show 5 % from a start, and not from four of them."""
    s = np.repeat([1.0, 0.9, 0.8], [67, 300, 433])
    right = np.concatenate([np.ones(347), np.zeros(20), np.ones(350), np.zeros(83)])
    found = accept(s, right, error=0.05)
    assert (found.found, len(found.starts)) == (False, 4)
    assert "start=" in str(found)
    assert accept(s, right, error=0.05, start=1.0).rows == 67


def test_a_result_survives_json():
    found = accept(np.full(100, 0.9), np.ones(100))
    plain = json.loads(json.dumps(found.to_dict()))
    assert Acceptance.from_dict(plain) == found
    del plain["groups"], plain["share"], plain["seed"]  # as written before groups counted once
    assert Acceptance.from_dict(plain) == found
    with pytest.raises(InputError, match="has no 'error'"):
        Acceptance.from_dict({"threshold": 0.5})


def test_bad_arguments_are_refused():
    s, y = [0.9, 0.8], [1, 0]
    weighted = Tally.from_arrays(s, y, [0.5, 1.7])
    for call, words in (
        (lambda: accept(s, y, error=0.0), "error must be strictly between 0 and 1"),
        (lambda: accept(s, y, alpha=1.0), "alpha must be strictly between 0 and 1"),
        (lambda: accept(s), "correct is missing"),
        (lambda: accept([], []), "scores is empty"),
        (lambda: accept([0.9, np.nan], y), "scores"),
        (lambda: accept([0.9, np.inf], y), "scores"),
        (lambda: accept(s, [1, 0, 1]), "correct"),
        (lambda: accept(s, [1, 2]), "correct"),
        (lambda: accept(weighted), "importance weights"),
        (lambda: accept(Tally.from_arrays(s, y), y), "is a tally"),
        (lambda: accept(Tally.from_arrays(s, y, grid=Grid()), start=0.5), "start needs exact scores"),
        (lambda: risk_coverage(s, y, points=0), "points must be an integer"),
        (lambda: accept_models({}, {}), "has no models"),
        (lambda: accept_models({"a": s}, {"b": y}), "the same names"),
        (lambda: route(s, y, [1, 2]), "expensive"),
        (lambda: route(s, y, y, cost_cheap=-1), "cost_cheap must be a finite cost"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_several_models_share_alpha():
    s, y = np.full(200, 0.9), np.ones(200)
    choice = accept_models({"a": s, "b": s, "c": s}, {"a": y, "b": np.zeros(200), "c": y})
    assert choice.models["a"].alpha == pytest.approx(0.05 / 3)
    assert choice.best == "a"
    assert not choice.models["b"].found
    assert json.loads(json.dumps(choice.to_dict()))["best"] == "a"
    assert accept_models({"b": s}, {"b": np.zeros(200)}).best is None


def test_the_curve_by_hand():
    scores = np.repeat([0.9, 0.8, 0.7], [50, 30, 20])
    right = np.concatenate([np.arange(m) >= w for m, w in ((50, 2), (30, 6), (20, 10))])
    curve = risk_coverage(scores, right, points=4)
    assert curve.rows.tolist() == [50, 100]  # ranks 25, 50, 75, 100; ties are answered together
    assert curve.threshold.tolist() == [np.nextafter(0.8, 1.0), 0.0]
    ends = stats.binomtest(2, 50).proportion_ci(1 - 0.05 / 4, method="exact")
    assert [curve.low[0], curve.high[0]] == pytest.approx([ends.low, ends.high])
    assert curve.area == pytest.approx(0.5 * 2 / 50 + 0.3 * 8 / 80 + 0.2 * 18 / 100)
    assert "18.0 %" in str(curve)
    assert json.loads(json.dumps(curve.to_dict()))["rows"] == [50, 100]


def test_a_ladder_counts_from_the_top():
    ladder = Ladder.of([0.2, 0.9, 0.9, 0.5], [0, 1, 0, 1])
    assert ladder.at.tolist() == [0.9, 0.5, 0.2]
    assert ladder.rows.tolist() == [2, 3, 4]
    assert ladder.wrong.tolist() == [1, 1, 2]
    assert [strictly_above(ladder.rows, k) for k in (1, 2, 3, 4)] == [-1, 0, 1, 2]


def test_a_route_by_hand():
    """100 rows at 0.9 and 100 at 0.5: the cheap model is right above and wrong in 40 below; the other in 2 of each."""
    s = np.repeat([0.9, 0.5], 100)
    cheap = np.concatenate([np.ones(100), np.arange(100) >= 40])
    expensive = np.tile(np.arange(100) >= 2, 2)
    found = route(s, cheap, expensive, error=0.1, cost_cheap=1, cost_expensive=10)
    assert (found.threshold, found.wrong, found.kept, found.cost) == (0.9, 2, 0.5, 6.0)
    radius = np.sqrt(np.log(40) / 400)
    assert (found.cost_low, found.cost_high) == pytest.approx((6 - 10 * radius, 6 + 10 * radius))
    assert found.decide([0.9, 0.4, np.nan]).tolist() == [True, False, False]
    assert json.loads(json.dumps(found.to_dict()))["wrong_cheap"] == 40
    never = route(s, np.zeros(200), expensive)
    assert never.shown
    assert never.threshold is None
    assert never.cost == 11.0
    assert "Always ask" in str(never)
    none = route(s, cheap, np.zeros(200))
    assert not none.shown
    assert "No routing" in str(none)


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_a_bad_seed_is_named(seed):
    scores, right, groups = [0.2, 0.7, 0.9, 0.4], [1, 0, 1, 1], ["a", "a", "b", "c"]
    for call in (accept, risk_coverage):
        with pytest.raises(InputError, match="random_state must be an integer"):
            call(scores, right, groups=groups, random_state=seed)


def test_a_start_that_is_missing_is_refused():
    with pytest.raises(InputError, match="start"):
        accept([0.9] * 30, [1] * 30, start=float("nan"))


def test_models_need_names():
    for scores, right in (([0.9], [1]), ({"a": [0.9]}, [1])):
        with pytest.raises(InputError, match="must be a mapping"):
            accept_models(scores, right)


def test_a_threshold_below_all_scores_answers_everything():
    scores = np.linspace(-3.0, 3.0, 60)
    found = accept(scores, np.ones(60, dtype=int))
    assert found.everything
    assert str(found).startswith("Answer everything: with confidence 95 %, at most 10 % of the answers are wrong.")
    for text in (accept_models({"a": scores}, {"a": np.ones(60)}), risk_coverage(scores, np.ones(60))):
        assert "1e+300" not in str(text)


def test_the_caption_of_the_curve_states_the_confidence():
    scores, right = np.linspace(0.01, 0.99, 60), np.ones(60, dtype=int)
    display = RiskCoverageDisplay.from_predictions(scores, right, acceptance=accept(scores, right))
    assert display.caption.endswith("with confidence 95 %, at most 10 % are wrong.")


def test_gaps_by_hand() -> None:
    """Two cells with equal gaps, one of them small: nothing to shrink, and the standard error of a mean."""
    stated, right = np.full(200, 0.9), np.tile([1, 1, 1, 1, 0], 40)
    found = overconfidence(stated, right, np.repeat(["a", "b"], 100))
    for each in found.cells:
        assert (each.rows, each.confidence, each.accuracy) == (100, pytest.approx(0.9), pytest.approx(0.8))
        assert each.gap == pytest.approx(0.1)
        assert each.shrunken == pytest.approx(0.1)
        assert each.se == pytest.approx(np.sqrt((16 + 2 * 0.2**2 + 2 * 0.8**2) / 103 / 100), rel=1e-2)
        assert each.finding == "overconfident"
    assert found.mean == pytest.approx(0.1)
    assert (found.spread, found.chance) == (None, None)
    assert json.loads(json.dumps(found.to_dict()))["cells"][0]["finding"] == "overconfident"


def test_one_cell_is_not_shrunken_and_few_rows_are_drawn_to_the_others() -> None:
    alone = overconfidence([0.9] * 50, [1, 0] * 25, ["a"] * 50).cells[0]
    assert alone.shrunken == pytest.approx(alone.gap) == pytest.approx(0.4)
    cells = np.repeat(["a", "b", "c", "d", "few"], [200, 200, 200, 200, 5])
    right = np.concatenate([np.tile([1, 1, 1, 1, 0], 160), [0, 0, 0, 0, 1]])
    found = {each.name: each for each in overconfidence(np.full(805, 0.8), right, cells).cells}
    assert found["few"].gap == pytest.approx(0.6)
    assert found["few"].shrunken < 0.2
    assert abs(found["a"].shrunken) < 0.01
    assert "1 cell with fewer than 20 rows" in str(overconfidence(np.full(805, 0.8), right, cells))


def test_gaps_of_answers_that_are_all_right_have_an_error_and_repeated_questions_a_larger_one() -> None:
    certain = overconfidence([0.9] * 30, [1] * 30, ["a"] * 30).cells[0]
    assert certain.se == pytest.approx(np.sqrt(2 / 33 / 30))  # two of four added rows are wrong
    question = np.repeat(np.arange(60), 5)
    right = np.repeat(np.arange(60) % 3 > 0, 5)
    cells = ["a"] * 300
    alone, together = (overconfidence(np.full(300, 0.8), right, cells, groups=g).cells[0].se for g in (None, question))
    assert together == pytest.approx(np.sqrt(5) * alone, rel=0.1)
    found = overconfidence(np.full(300, 0.8), right, np.repeat(["a", "b"], [295, 5]), groups=question)
    assert "1 cell with one group" in str(found)
    assert {each.name: each.se for each in found.cells}["b"] > 0.4


def test_what_gaps_refuse() -> None:
    with pytest.raises(InputError, match=r"^by 'model' is missing in 1 row"):
        overconfidence([0.9, 0.8], [1, 0], {"model": ["a", None]})
    with pytest.raises(InputError, match="has no columns"):
        overconfidence([0.9, 0.8], [1, 0], {})
    with pytest.raises(InputError, match="alpha must be"):
        overconfidence([0.9, 0.8], [1, 0], ["a", "b"], alpha=1.0)
    with pytest.raises(InputError, match="has one group in each cell"):
        overconfidence([0.9, 0.8], [1, 0], ["a", "a"], groups=["q", "q"])
    with pytest.raises(InputError, match="correct"):
        overconfidence([0.9, 0.8], [1, 5], ["a", "b"])


def test_errors_name_the_argument_that_was_given_and_advise_what_exists(subtests):
    rng = np.random.default_rng(0)
    scores, right = rng.random(40), np.resize([1, 1, 1, 0], 40)
    calls = {
        "accept": ("correct", accept),
        "accept_models": ("correct", lambda a, b: accept_models({"m": a}, {"m": b})),
        "risk_coverage": ("correct", risk_coverage),
        "overconfidence": ("correct", lambda a, b: overconfidence(a, b, ["x", "y"] * 20)),
        "cheap": ("cheap", lambda a, b: route(a, b, right)),
        "expensive": ("expensive", lambda a, b: route(a, right, b)),
    }
    words = np.where(right == 1, "yes", "no")
    for name, (argument, call) in calls.items():
        with subtests.test(name):
            with pytest.raises(InputError, match=f"^scores and {argument} look swapped: pass scores first, then"):
                call(right, scores)
            with pytest.raises(InputError, match=f"^{argument} holds 'no' and 'yes', not 1 and 0") as refused:
                call(scores, words)
            assert "== 'no'" not in str(refused.value)
            with pytest.raises(InputError, match=f"^{argument} has more than two distinct values .*: pass 1 for each"):
                call(scores, np.arange(40))
            with pytest.raises(InputError, match=f"^{argument} is missing: pass 1"):
                call(scores, None)
            with pytest.raises(InputError, match=f"^{argument} has 30 rows but scores has 40"):
                call(scores, right[:30])
            call(scores, right == 1)


def test_curves_and_routes_take_a_score_type():
    rng = np.random.default_rng(0)
    percent, right = 100.0 * rng.random(400), rng.random(400) < 0.9
    for call in (lambda **given: risk_coverage(percent, right, **given), lambda **g: route(percent, right, right, **g)):
        with pytest.raises(InputError, match="look like percentages"):
            call()
        assert call(score_type="real").score_type == "real"


def test_a_model_without_a_threshold_says_why() -> None:
    """Two models at alpha 0.05 have 0.025 each: log(0.025) / log(0.9) is 35.01, so 36 rows are needed."""
    scores = {"few": np.full(35, 0.9), "poor": np.full(100, 0.9)}
    right = {"few": np.ones(35, dtype=int), "poor": np.repeat([0, 1], [50, 50])}
    printed = str(accept_models(scores, right))
    assert "few: no threshold (35 answers; at least 36 are needed)" in printed
    assert "poor: no threshold (50 of 100 answers are wrong)" in printed
    more = accept_models(scores | {"few": np.full(36, 0.9)}, right | {"few": np.ones(36, dtype=int)})
    assert more.best == "few"
