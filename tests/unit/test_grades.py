"""Rating grades: exact tails, lights, corrections, the portfolio, and Pluto and Tasche's bounds."""

from __future__ import annotations

import itertools
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from calibrant.credit import GradeTable, grade_table, long_run_average, pluto_tasche
from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics import chance
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.multiplicity import holm
from calibrant.numerics import Grid
from calibrant.tallies import Tally


def test_one_grade_by_hand() -> None:
    # P(X >= 2) for two rows at PD 0.1 is 0.01; the exact interval starts where p^2 = 0.025 and ends at 1.
    table = grade_table([2], [2], [0.1])
    assert table.binomial_p[0] == pytest.approx(0.01)
    assert table.low[0] == pytest.approx(math.sqrt(0.025))
    assert table.high[0] == 1.0
    assert table.jeffreys_p[0] == pytest.approx(stats.beta.cdf(0.1, 2.5, 0.5))
    assert table.lights == ("yellow",)
    assert table.portfolio_p == pytest.approx(0.01)


def test_a_grade_without_rows_has_no_light() -> None:
    table = grade_table([0], [0], [0.1])
    assert math.isnan(table.binomial_p[0])
    assert table.lights == ("none",)


@given(st.integers(0, 60), st.integers(0, 60), st.just(0.0) | st.floats(1e-12, 1.0))
def test_p_values_and_intervals_agree_with_scipy(events: int, others: int, pd: float) -> None:
    n = events + others
    assume(n > 0)
    one, two = (grade_table([n], [events], [pd], sides=sides) for sides in ("one", "two"))
    upper, lower = stats.binom.sf(events - 1, n, pd), stats.binom.cdf(events, n, pd)
    assert one.binomial_p[0] == pytest.approx(upper, abs=1e-12)
    assert two.binomial_p[0] == pytest.approx(min(1.0, 2 * min(upper, lower)), abs=1e-12)
    assert one.portfolio_p == pytest.approx(upper, abs=1e-12)
    assert two.portfolio_p == pytest.approx(two.binomial_p[0], abs=1e-12)
    assert one.jeffreys_p[0] == pytest.approx(stats.beta.cdf(pd, events + 0.5, others + 0.5), abs=1e-12)
    if 0 < events < n:
        ends = stats.beta.ppf([0.025, 0.975], events + 0.5, others + 0.5)
        assert [one.jeffreys_low[0], one.jeffreys_high[0]] == pytest.approx(ends.tolist())
        assert one.low[0] < one.jeffreys_low[0] < one.jeffreys_high[0] < one.high[0]


def test_lights_turn_at_95_and_999_per_mille() -> None:
    # 1,000 rows at 1 %: P(X >= 15), P(X >= 16), P(X >= 21), P(X >= 22) straddle 0.05 and 0.001.
    tails = stats.binom.sf(np.array([14, 15, 20, 21]), 1_000, 0.01)
    assert tails[0] > 0.05 > tails[1] > tails[2] > 0.001 > tails[3]
    table = grade_table([1_000] * 4, [15, 16, 21, 22], [0.01] * 4)
    assert table.lights == ("green", "yellow", "yellow", "red")
    few = grade_table([1_000], [0], [0.05], sides="two")
    assert few.binomial_p[0] < 1e-6
    assert few.lights == ("green",), "too few defaults are no light matter"


def test_holm_by_hand() -> None:
    # 0.01, 0.02, 0.03 of three: 0.03, max(0.03, 0.04), max(0.04, 0.03); an empty grade is no hypothesis.
    assert holm(np.array([0.03, np.nan, 0.01, 0.02]))[[2, 3, 0]] == pytest.approx([0.03, 0.04, 0.04])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_the_portfolio_is_the_sum_of_its_grades() -> None:
    n, p = [3, 2], [0.2, 0.7]
    for events in itertools.product(range(4), range(3)):
        exact = sum(
            stats.binom.pmf(a, 3, 0.2) * stats.binom.pmf(b, 2, 0.7)
            for a, b in itertools.product(range(4), range(3))
            if a + b >= sum(events)
        )
        assert grade_table(n, events, p).portfolio_p == pytest.approx(exact, abs=1e-14)


def test_the_convolution_of_equal_grades_is_one_binomial(subtests) -> None:
    for hits in [0, 900, 1_000, 1_100, 20_000]:
        with subtests.test(hits=hits):
            split = grade_table([10_000] * 10, [hits // 10] * 10, [0.01] * 10)
            assert split.portfolio_p == pytest.approx(
                float(stats.binom.sf(hits - 1, 100_000, 0.01)), rel=1e-9, abs=1e-11
            )


def test_a_very_large_portfolio_is_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [10**5, 10**5], [30_200, 50_100], [0.3, 0.5]
    exact = grade_table(*columns, sides="two").portfolio_p
    monkeypatch.setattr(chance, "MOST_WORK", 0)
    normal = grade_table(*columns, sides="two").portfolio_p
    assert normal == pytest.approx(exact, abs=1e-4)
    assert normal != exact
    assert 0.05 < normal < 0.5


def test_a_pd_of_zero_without_defaults_is_not_rejected() -> None:
    table = grade_table([100, 100], [0, 1], [0.0, 0.0])
    assert table.jeffreys_p.tolist() == [1.0, 0.0]
    assert grade_table([100], [0], [0.0]).portfolio_jeffreys_p == 1.0
    assert "<.001" not in str(grade_table([100], [0], [0.0]))


def test_sure_grades_and_empty_grades() -> None:
    table = grade_table([10, 10, 0, 5], [1, 0, 0, 5], [0.0, 0.0, 0.1, 1.0])
    assert table.binomial_p[[0, 1, 3]].tolist() == [0.0, 1.0, 1.0]
    assert table.lights == ("red", "green", "none", "green")
    assert math.isnan(table.rate[2])
    assert math.isnan(table.holm_p[2])
    assert table.portfolio_p == pytest.approx(0.0, abs=1e-300)
    empty = grade_table([0], [0], [0.1])
    assert math.isnan(empty.portfolio_p)
    assert empty.portfolio_light == "none"
    assert "none" in str(empty)


def test_the_table_is_80_columns_wide_and_explains_itself() -> None:
    table = grade_table([10**7, 500, 0], [3_000, 21, 0], [0.0003, 0.04, 1.0], names=["Aaa", "B-", "C"])
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[0] == "grade"
    assert [line.split()[0] for line in lines[1:5]] == ["Aaa", "B-", "C", "portfolio"]
    assert "0.0300" in lines[1]
    for word in ("Clopper-Pearson", "ECB", "Holm", "OeNB", "independent"):
        assert word in str(table)
    assert "two-sided" in str(grade_table([5], [1], [0.1], sides="two"))
    assert "a name of thirty characters ..." in str(
        grade_table([5], [1], [0.1], names=["a name of thirty characters ..."])
    )


def test_plain_data_hold_no_nan() -> None:
    data = json.loads(json.dumps(grade_table([10, 0], [1, 0], [0.1, 0.2]).to_dict(), allow_nan=False))
    assert data["grades"][0]["name"] == "1"
    assert data["grades"][0]["n"] == 10
    assert data["grades"][1]["rate"] is None
    assert data["portfolio"]["events"] == 1
    assert data["portfolio"]["light"] == "green"


def test_grades_from_scores_tallies_and_bins_are_the_same() -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(1, 30, 2_000)
    y = (rng.random(2_000) < scores).astype(int)
    tally = Tally.from_arrays(scores, y)
    first = GradeTable.from_scores(scores, y, n_bins=4, strategy="mass")
    for other in (
        GradeTable.from_scores(tally, n_bins=4, strategy="mass"),
        GradeTable.from_scores(Bins.of(tally, n_bins=4, strategy="mass")),
    ):
        assert other.to_dict() == first.to_dict()
    assert first.n.tolist() == [500] * 4
    assert first.pd @ first.n == pytest.approx(scores.sum())
    assert first.names[-1] == "the rest"
    gridded = GradeTable.from_scores(Tally.from_arrays(scores, y, grid=Grid()), edges=[0.01, 0.05])
    assert gridded.pd == pytest.approx(GradeTable.from_scores(scores, y, edges=[0.01, 0.05]).pd, rel=1e-3)
    assert len(GradeTable.from_scores(tally, n_bins=100, strategy="width").n) < 100, "empty bins are no grades"


def test_a_table_of_bins_and_one_class_are_graded() -> None:
    table = Tally.from_table([50, 60], [0, 0], edges=[0.1], scores=[0.02, 0.2])
    assert GradeTable.from_scores(table).pd.tolist() == pytest.approx([0.02, 0.2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        single = Tally.from_arrays([0.3], [0], positive=1, score_type="probability")
    assert GradeTable.from_scores(single).binomial_p.tolist() == [1.0]


def test_bad_columns_are_refused() -> None:
    for call, words in (
        (lambda: grade_table([10], [11], [0.1]), "exceed"),
        (lambda: grade_table([10, 10], [1, 1], [0.1]), "pd has 1 value but n has 2"),
        (lambda: grade_table([10], [1], [5.0]), "percentages"),
        (lambda: grade_table([10], [1], [math.nan]), "probabilities"),
        (lambda: grade_table([10.5], [1], [0.1]), "non-negative integers"),
        (lambda: grade_table([], [], []), "one for each grade"),
        (lambda: grade_table([10], [1], [0.1], alpha=0.0), "alpha"),
        (lambda: grade_table([10], [1], [0.1], names=["A", "B"]), "names has 2 values but n has 1"),
        (lambda: grade_table([10], [1], [0.1], sides="three"), "sides"),
        (lambda: pluto_tasche([10], [1], confidence=1.0), "confidence"),
        (lambda: pluto_tasche([10], [1], method="bold"), "method"),
        (lambda: GradeTable.from_scores([0.1, 0.2], [0, 1], [0.5, 0.5]), "importance"),
    ):
        with pytest.raises(InputError, match=words):
            call()


# ----------------------------------------------------------------------------------------------------------------------
# Pluto and Tasche
# ----------------------------------------------------------------------------------------------------------------------


def test_without_defaults_the_bound_is_a_power() -> None:
    # (1 - p)^N = 1 - gamma with N = 800, 700 and 300 rows in grade A and worse, B and worse, C.
    for confidence in (0.5, 0.75, 0.999):
        expected = [1 - (1 - confidence) ** (1 / rows) for rows in (800, 700, 300)]
        assert pluto_tasche([100, 400, 300], [0, 0, 0], confidence=confidence) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), min_size=1, max_size=6), st.floats(0.01, 0.999))
def test_bounds_are_ordered_and_hold_the_pooled_tail(grades_: list[tuple[int, int]], confidence: float) -> None:
    n, k = [others + hits for others, hits in grades_], [hits for _, hits in grades_]
    bounds = pluto_tasche(n, k, confidence=confidence)
    assert ((bounds > 0) & (bounds <= 1)).all()
    assert (np.diff(bounds) >= 0).all()
    for i in range(len(n)):
        rows, hits = sum(n[i:]), sum(k[i:])
        assert stats.binom.cdf(hits, rows, bounds[i]) <= 1 - confidence + 1e-9 or bounds[i] == 1.0


def test_scaled_bounds_average_to_the_bound_of_the_portfolio() -> None:
    n, k = np.array([100, 400, 300]), [0, 2, 1]
    whole = pluto_tasche([800], [3])[0]
    scaled, prudent = pluto_tasche(n, k, method="scaled"), pluto_tasche(n, k)
    assert (n * scaled).sum() / 800 == pytest.approx(whole)
    assert scaled / prudent == pytest.approx(np.full(3, scaled[0] / prudent[0]))
    assert (scaled < prudent).all()


def test_nothing_is_known_of_empty_worst_grades() -> None:
    assert pluto_tasche([10, 0], [0, 0])[1] == 1.0
    assert pluto_tasche([0], [0]).tolist() == [1.0]
    assert pluto_tasche([0], [0], method="scaled").tolist() == [1.0]
    assert pluto_tasche([3], [3]).tolist() == [1.0]


def test_a_missing_grade_of_a_borrower_is_refused() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"pd": [0.01, 0.02], "d": [0, 1], "g": ["A", None]})
    with pytest.raises(InputError) as refused:
        grade_table(frame, "pd", "d", grade="g")
    assert refused.value.argument == "grade"


def test_a_bound_of_two_years_at_a_high_level_is_at_most_one() -> None:
    assert long_run_average([100, 100], [0, 5], alpha=0.0005).upper == 1.0
