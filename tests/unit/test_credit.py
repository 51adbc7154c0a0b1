"""Credit: correlated defaults, low-default bounds, panels of grades, anchoring, master scales, stability."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from calibrant import Tally, credit
from calibrant.credit.factor import tail
from calibrant.maps import LogitAffineMap, StepMap
from calibrant.messages import InputError

# ---------------------------------------------------------------------------------------------------- one-factor model


def by_quadrature(k: int, n: int, pd: float, rho: float) -> float:
    """P(X >= k) by an integral that shares no code with the package."""

    def inside(z: float) -> float:
        p = special.ndtr((special.ndtri(pd) - math.sqrt(rho) * z) / math.sqrt(1 - rho))
        return float(stats.binom.sf(k - 1, n, p) * stats.norm.pdf(z))

    return float(integrate.quad(inside, -10, 10, limit=2000, epsabs=1e-13, points=[-4, -2, 0, 2])[0])


def test_correlated_tails_agree_with_an_independent_integral(subtests) -> None:
    for k, n, pd, rho in [(1, 1, 0.03, 0.2), (3, 50, 0.01, 0.12), (12, 500, 0.01, 0.12), (40, 900, 0.03, 0.5)]:
        with subtests.test(k=k, n=n):
            assert tail(k, np.array([n]), np.array([pd]), rho) == pytest.approx(by_quadrature(k, n, pd, rho), abs=1e-9)


def test_one_and_two_borrowers_by_hand() -> None:
    # E[p(Z)] is the PD; two defaults of two have the probability of a bivariate normal quadrant.
    assert tail(1, np.array([1]), np.array([0.03]), 0.3) == pytest.approx(0.03, abs=1e-10)
    point = [special.ndtri(0.05)] * 2
    both = stats.multivariate_normal.cdf(point, cov=[[1, 0.3], [0.3, 1]])
    assert tail(2, np.array([2]), np.array([0.05]), 0.3) == pytest.approx(both, abs=1e-7)


def test_grades_with_one_pd_are_one_grade() -> None:
    whole = tail(9, np.array([300]), np.array([0.01]), 0.15)
    assert tail(9, np.array([100, 0, 200]), np.array([0.01, 0.5, 0.01]), 0.15) == pytest.approx(whole, abs=1e-10)
    free = credit.vasicek_test([300], [9], [0.01], correlation=0.0)
    assert free.p_values[0] == pytest.approx(stats.binom.sf(8, 300, 0.01), rel=1e-9)
    assert free.portfolio_p == pytest.approx(free.independent_p, rel=1e-9)


def test_large_grades_approach_the_closed_form() -> None:
    gaps = []
    for n in (100, 10_000, 1_000_000):
        found = credit.vasicek_test([n], [int(0.03 * n)], [0.01], correlation=0.12)
        gaps.append(abs(found.p_values[0] - found.limit_p[0]))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5


def test_an_example_of_a_correlated_tail_published_elsewhere() -> None:
    # Windridge's Excel plugin for Pluto and Tasche: 9,810 obligors, 35 defaults, correlation 0.15: 3.34 % at 95 %.
    bound = credit.pluto_tasche([9810], [35], confidence=0.95, correlation=0.15)
    assert bound[0] == pytest.approx(0.0334, abs=5e-5)


def test_several_years_are_simulated_and_less_severe_than_independence() -> None:
    n, k, pd = [[900, 100]] * 3, [[12, 8], [14, 9], [13, 9]], [[0.01, 0.05]] * 3
    found = credit.vasicek_test(n, k, pd, correlation=0.12, year_correlation=0.3, paths=2_000)
    assert (found.method, found.years) == ("simulation", 3)
    assert found.independent_p < 0.01 < found.portfolio_p < 0.5
    assert np.isnan(found.limit_p).all()
    assert (
        found.portfolio_p
        == credit.vasicek_test(n, k, pd, correlation=0.12, year_correlation=0.3, paths=2_000).portfolio_p
    )


def test_edges_of_the_correlated_test() -> None:
    found = credit.vasicek_test([0, 5, 5], [0, 0, 5], [0.1, 0.1, 0.0], correlation=0.2)
    assert np.isnan(found.p_values[0])
    assert found.p_values[1:].tolist() == [1.0, 0.0]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["p_values"][0] is None
    assert "asset correlation 0.2" in str(found)


# -------------------------------------------------------------------------------------------------- Pluto and Tasche


LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
PUBLISHED = {
    # Pluto and Tasche (2005): 100, 400 and 300 borrowers without a default, in percent; independent defaults.
    0.0: [
        [0.09, 0.17, 0.29, 0.37, 0.57, 0.86],
        [0.10, 0.20, 0.33, 0.43, 0.66, 0.98],
        [0.23, 0.46, 0.76, 0.99, 1.52, 2.28],
    ],
    # the same with asset correlation 0.12: the first line
    0.12: [[0.15, 0.40, 0.86, 1.31, 2.65, 5.29]],
}


def test_published_tables_of_pluto_and_tasche(subtests) -> None:
    for rho, lines in PUBLISHED.items():
        with subtests.test(correlation=rho):
            found = 100 * credit.pluto_tasche([100, 400, 300], [0, 0, 0], confidence=LEVELS, correlation=rho)
            assert found.shape == (6, 3)
            assert found.T[: len(lines)] == pytest.approx(np.array(lines), abs=0.0075)


def test_bounds_of_another_package() -> None:
    # PTOnePeriodPD of the R package LDPD 1.1.2, from its manual, worst grade first there.
    found = credit.pluto_tasche([10, 40, 30, 20, 10], [0, 0, 0, 2, 1], confidence=0.5)
    assert found == pytest.approx([0.03330381, 0.03659702, 0.06086968, 0.12106991, 0.16226172], abs=5e-5)


def no_default(pd: float, n: int, rho: float, theta: float, years: int) -> float:
    """Probability of no default in several years, by repeated integration over the next year's factor."""
    u, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    grid = np.linspace(-10, 10, 4001)
    stay = n * np.log1p(-special.ndtr((special.ndtri(pd) - math.sqrt(rho) * grid) / math.sqrt(1 - rho)))
    value = np.exp(stay)
    for _ in range(years - 1):
        ahead = np.interp(theta * grid[:, None] + math.sqrt(1 - theta**2) * u, grid, value) @ w
        value = np.exp(stay) * ahead
    return float(np.interp(u, grid, value) @ w)


def test_bounds_of_several_years_agree_with_repeated_integration() -> None:
    bounds = credit.pluto_tasche(
        [800], [0], confidence=[0.5, 0.9, 0.99], correlation=0.12, years=5, year_correlation=0.3
    )
    for level, bound in zip((0.5, 0.9, 0.99), bounds[:, 0], strict=True):
        assert no_default(bound, 800, 0.12, 0.3, 5) == pytest.approx(1 - level, rel=0.03)


def test_a_bound_of_one_stays_one_over_several_years() -> None:
    assert credit.pluto_tasche([100, 5], [0, 5], years=10)[1] == 1.0
    assert credit.pluto_tasche([100, 0], [0, 0], years=50)[1] == 1.0
    assert (credit.pluto_tasche([3, 2], [3, 2], years=2) == 1.0).all()


def test_years_without_correlation_have_a_closed_form() -> None:
    one, five = (credit.pluto_tasche([500], [2], years=years)[0] for years in (1, 5))
    assert 1 - (1 - five) ** 5 == pytest.approx(one)
    almost = credit.pluto_tasche([500], [2], years=5, correlation=1e-6)[0]
    assert almost == pytest.approx(five, rel=1e-3)


# -------------------------------------------------------------------------------------------------------------- panels


@pytest.fixture(scope="module")
def panel() -> credit.GradePanel:
    return credit.grade_panel(
        [100, 200, 120, 210, 90],
        [1, 9, 0, 30, 2],
        [0.01, 0.05, 0.01, 0.05, 0.01],
        grade=["A", "B", "A", "B", "A"],
        year=[2024, 2024, 2025, 2025, 2025.0],
        segment=["x", "x", "x", "x", "y"],
        correlation=0.1,
    )


def test_a_panel_adds_lines_and_keeps_every_cell(panel) -> None:
    assert panel.grades == ("A", "B")
    assert panel.years == ("2024", "2025")
    assert panel.whole.n.tolist() == [310, 410]
    assert panel.part(year="2025").events.tolist() == [2, 30]
    assert panel.part("y", "2025").n.tolist() == [90, 0]
    assert panel.part("y", "2025").lights[1] == "none"
    assert len(panel.parts) == 2 + 2 + 4
    with pytest.raises(InputError, match="is not in the panel"):
        panel.part("z")


def test_a_panel_in_every_form(panel) -> None:
    assert json.loads(json.dumps(panel.to_dict(), allow_nan=False))["years"] == ["2024", "2025"]
    lines = panel.to_csv().splitlines()
    assert lines[0].startswith("segment,year,grade,n,defaults,pd,rate")
    assert len(lines) == 1 + 9 * 3
    assert panel.to_csv(sep=";", decimal=",").splitlines()[1].split(";")[5] == "0,01"
    assert "lights by grade and year" in str(panel)
    page = panel.to_html("<b>")
    assert "<h1>&lt;b&gt;</h1>" in page
    assert "<script" not in page
    assert panel.upper_bounds is None


def test_frames_of_grades(panel) -> None:
    pytest.importorskip("pandas")
    frame = panel.to_frame()
    assert frame.loc[0, "grade"] == "A"
    assert len(credit.grade_table([10, 20], [0, 1], [0.1, 0.2]).to_frame()) == 3


def test_no_default_leads_to_upper_bounds() -> None:
    found = credit.grade_panel([300, 100, 400], [0, 0, 0], [0.02, 0.001, 0.005], grade=["C", "A", "B"])
    assert found.grades == ("A", "B", "C")
    assert found.upper_bounds[0.75] == pytest.approx(credit.pluto_tasche([100, 400, 300], [0, 0, 0]))
    assert "No default was observed" in str(found)


def test_as_few_defaults_have_the_probability_of_their_sum() -> None:
    def at_most(k: int, pd: np.ndarray) -> float:
        a, b = stats.binom.pmf(np.arange(251), 250, pd[0]), stats.binom.pmf(np.arange(471), 470, pd[1])
        return float(np.convolve(a, b)[: k + 1].sum())

    pd = np.array([0.05, 0.2])
    assert credit.grade_table([250, 470], [12, 60], pd).at_most_p == pytest.approx(at_most(72, pd), rel=1e-6)
    assert credit.grade_table([250, 470], [0, 0], pd / 100).at_most_p == pytest.approx(at_most(0, pd / 100))

    def given(z: float) -> float:
        moved = (special.ndtri(pd) - math.sqrt(0.1) * z) / math.sqrt(0.9)
        return at_most(72, special.ndtr(moved)) * float(stats.norm.pdf(z))

    found = credit.grade_table([250, 470], [12, 60], pd, correlation=0.1).at_most_p
    assert found == pytest.approx(integrate.quad(given, -8, 8, limit=200)[0], abs=1e-5)


def test_lights_of_correlated_defaults_are_milder() -> None:
    table = credit.grade_table([500, 500], [14, 12], [0.01, 0.01], correlation=0.2)
    assert (table.portfolio_light, table.light) == ("red", "green")
    assert (table.correlated_p > table.binomial_p).all()
    assert "corr." in str(table)
    assert table.to_dict()["portfolio"]["correlated_light"] == "green"


def test_a_simulated_p_value_near_a_limit_is_named() -> None:
    """Five years whose p-value is 0.0646 by 20,000 paths, and the same with so few paths that 0.05 is not far."""
    n, pd = [[1000]] * 5, [[0.01]] * 5
    found = [credit.vasicek_test(n, [[20]] * 5, pd, correlation=0.1, paths=paths) for paths in (20_000, 200)]
    assert found[0].portfolio_p == pytest.approx(0.034, abs=0.02)
    limit = [abs(each.portfolio_p - 0.05) <= 2 * math.sqrt(0.05 * 0.95 / each.paths) for each in found]
    assert [each.unsettled == ("1", "portfolio") for each in found] == limit
    assert credit.vasicek_test([1000], [20], [0.01], correlation=0.1).unsettled == ()


# ---------------------------------------------------------------------------------------- anchoring and master scales


def test_the_long_run_average_gives_each_year_the_same_weight() -> None:
    found = credit.long_run_average([1_000, 1_000, 10_000, 1_000], [40, 10, 200, 30])
    rates = np.array([0.04, 0.01, 0.02, 0.03])
    assert found.rate == pytest.approx(0.025)
    c = math.sqrt(rates.var(ddof=1) / 4) / 0.025
    between = rates.var(ddof=1) - np.mean(rates * (1 - rates) / [1_000, 1_000, 10_000, 1_000])
    v = math.log(1 + between / 0.025**2)
    for alpha, end in ((0.025, found.high), (0.05, found.upper)):
        t, most = stats.t.ppf(1 - alpha, 3), min(3 * v / stats.chi2.ppf(alpha, 3), 1.0)
        assert end == pytest.approx(0.025 * math.exp(math.hypot(t * c, (most - v) / 2)))
    assert found.low == pytest.approx(0.025 * math.exp(-stats.t.ppf(0.975, 3) * c))
    wide = credit.long_run_average([1_000, 1_000, 10_000, 1_000], [40, 10, 200, 30], year_correlation=0.5)
    assert wide.low == pytest.approx(0.025 * math.exp(-stats.t.ppf(0.975, 3) * c * math.sqrt(3)))
    one = credit.long_run_average([100], [0])
    assert (one.rate, one.low) == (0.0, 0.0)
    assert one.upper == pytest.approx(1 - 0.05 ** (1 / 100))


def test_anchoring_meets_target_and_margin() -> None:
    pd = np.array([0.0, 0.001, 0.01, 0.05])
    average = credit.long_run_average([1000, 1100, 900], [20, 30, 15])
    for mean, margin, target in [(0.03, 0.0, 0.03), (0.03, 0.01, 0.04), (average, "upper", average.upper)]:
        found = credit.anchor(pd, mean=mean, margin=margin)
        assert found.transform(pd).mean() == pytest.approx(target)
        assert found.target == pytest.approx(target)
    odds = found.transform(pd) / (1 - found.transform(pd))
    assert odds[2] / (0.01 / 0.99) == pytest.approx(found.odds_factor)
    tally = Tally.from_arrays(pd, [0, 0, 0, 1])
    assert credit.anchor(tally, mean=0.03).odds_factor == pytest.approx(credit.anchor(pd, mean=0.03).odds_factor)


def test_a_score_is_in_the_band_of_its_pd() -> None:
    mapping = LogitAffineMap(0.7, -1.0)
    edges = np.array([0.005, 0.02, 0.1])
    scale = credit.master_scale(mapping, edges)
    scores = np.random.default_rng(0).random(2_000)
    place = np.searchsorted(edges, mapping.apply(scores), side="right")
    assert scale.assign(scores).tolist() == [str(each + 1) for each in place]
    near = np.concatenate([scale.score_low[1:], np.nextafter(scale.score_low[1:], 0.0)])
    assert scale.assign(near).tolist() == ["2", "3", "4", "1", "2", "3"]
    assert len(str(scale).splitlines()) == 5


def test_bands_that_a_step_map_skips_are_empty() -> None:
    scale = credit.master_scale(StepMap([0.5], [0.001, 0.2]), [0.01, 0.1, 0.5])
    assert scale.score_low.tolist()[1] == scale.score_low.tolist()[2]
    assert scale.score_low[3] == np.inf
    assert scale.assign([0.1, 0.9]).tolist() == ["1", "3"]


# --------------------------------------------------------------------------------------------- ranking and stability


def test_accuracy_ratio_and_its_change() -> None:
    now = credit.accuracy_ratio([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    assert now.value == pytest.approx(0.5)
    change = credit.accuracy_ratio_change(now, 0.6, 0.1)
    assert change.value == pytest.approx(-0.1)
    assert change.se == pytest.approx(math.hypot(now.se, 0.1))


def test_stability_by_hand() -> None:
    found = credit.psi([50, 50], [25, 75])
    assert found.value == pytest.approx(-0.25 * math.log(0.5) + 0.25 * math.log(1.5))
    assert credit.psi([5, 0, 0], [5, 0, 0]).value == 0.0
    assert math.isfinite(credit.psi([10, 0], [0, 10]).value)
    moved = credit.migration_matrix(["a", "b", "b"], ["b", "b", "a"], names=["b", "a"])
    assert moved.counts.tolist() == [[1, 1], [1, 0]]
    assert (moved.better, moved.worse) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert credit.concentration([1, 1, 1, 1]).value == pytest.approx(0.25)
    assert credit.concentration([5]).normalized == 1.0


def test_grades_that_are_numbers_migrate_in_order_of_their_value() -> None:
    moved = credit.migration_matrix([2, 9, 10], [2.0, 10.0, 9.0])
    assert moved.names == ("2", "9", "10")
    assert (moved.better, moved.worse) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert credit.migration_matrix(["10", "2"], ["nan", "2"]).names == ("2", "10", "nan")


def test_wrong_input_is_refused_in_one_sentence(subtests) -> None:
    cases = [
        (lambda: credit.vasicek_test([10], [1], [0.1], correlation=1.0), "correlation must be at least 0"),
        (lambda: credit.vasicek_test([10], [11], [0.1], correlation=0.1), "events exceed n"),
        (lambda: credit.vasicek_test([10], [1], [5.0], correlation=0.1), "divide percentages by 100"),
        (lambda: credit.pluto_tasche([10], [1], confidence=[]), "empty list"),
        (lambda: credit.pluto_tasche([10], [1], confidence=[0.5, 2]), "confidence must lie between 0 and 1"),
        (lambda: credit.pluto_tasche([10], [1], years=0), "years must be an integer"),
        (lambda: credit.grade_panel([1], [0], [0.1], grade=[None]), "grade is missing in line 1"),
        (lambda: credit.grade_panel([5, 5], [1, 1], [0.1, 0.1], grade=["A"]), "grade has 1 row but n has 2"),
        (lambda: credit.grade_panel([5, 5], [1, 1], [0.1], grade=["A", "B"]), "pd has 1 value but n has 2"),
        (lambda: credit.grade_panel([5, 5], [1, 6], [0.1] * 2, grade=["A", "B"]), "events exceed n in line 2"),
        (lambda: credit.migration_matrix(["A", "B"], ["A"]), "after has 1 row but before has 2"),
        (lambda: credit.psi([5, 5], [5, 5, 5]), "after has 3 values but before has 2"),
        (lambda: credit.psi([5, 5], [5, 5], names=["A"]), "names has 1 value but before has 2"),
        (lambda: credit.concentration([5, 5], names=["A"]), "names has 1 value but amounts has 2"),
        (
            lambda: credit.long_run_average([50, 50], [1]),
            "events has 1 value but n has 2: pass one value for each year",
        ),
        (lambda: credit.long_run_average([50, 50], [1, 60]), "events exceed n in year 2"),
        (lambda: credit.long_run_average([50, -1], [1, 1]), "one for each year"),
        (
            lambda: credit.vasicek_test([[9, 9], [9, 9]], [[1, 1], [1, 10]], [[0.1] * 2] * 2, correlation=0.1),
            "events exceed n in grade 2 of year 2",
        ),
        (lambda: credit.long_run_average([0, 1], [0, 0]), "n is 0 in year 1"),
        (lambda: credit.anchor([0.1], mean=0.1, margin="upper"), "long-run average"),
        (lambda: credit.anchor([0.1], mean=0.1, margin=-0.1), "margin must be at least 0"),
        (lambda: credit.anchor([0.1], mean=0.1, margin=None), "margin must be at least 0"),
        (lambda: credit.anchor([0.0, 0.0], mean=0.2), "scores give only PDs of exactly 0 or 1"),
        (lambda: credit.anchor([0.1], mean=2.5), "mean must lie between 0 and 1"),
        (lambda: credit.master_scale(LogitAffineMap(-1.0, 0.0), [0.1]), "may fall"),
        (lambda: credit.master_scale(LogitAffineMap(1.0, 0.0), [0.2, 0.1]), "rising"),
        (lambda: credit.psi([0], [1]), "before has no rows"),
        (lambda: credit.migration_matrix(["a"], ["b"], names=["a"]), "lacks the grade 'b'"),
        (lambda: credit.migration_matrix(["a", math.nan], ["a", "b"]), "before is missing in line 2"),
        (lambda: credit.migration_matrix(["a", "b"], ["a", "b"], names=["a", "b", "a"]), "the grade 'a' twice"),
        (lambda: credit.grade_panel([1], [0], [0.1], grade=["A"], segment=["all"]), "segment is 'all' in line 1"),
        (lambda: credit.grade_panel([1], [0], [0.1], grade=["A"], year=["all"]), "year is 'all' in line 1"),
        (lambda: credit.concentration([0, 0]), "sum above 0"),
        (lambda: credit.concentration(["a"]), "amounts must be non-negative numbers"),
    ]
    for call, words in cases:
        with subtests.test(words), pytest.raises(InputError, match=words):
            call()
