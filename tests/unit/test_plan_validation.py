"""Sample size for external validation: published numbers, closed forms, edges and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from calibrant import InputError
from calibrant.clinical import plan_validation

Z = 1.959963984540054


def sizes(*args: float, **options: object) -> list[int]:
    return [each.n for each in plan_validation(*args, **options).criteria]


def test_the_published_example() -> None:
    """Riley et al. (2021), section 4: event rate 0.018, C 0.8, log-odds with given moments.

    They report 9,835 participants for the slope, from a million random draws with mean -5.8, variance 5, skewness -0.5
    and kurtosis 4. Several distributions have these moments. The lambda distribution of Ramberg et al. (1979), which
    Stata's ``sknor`` draws from, gives their number; the shapes below solve for its skewness and kurtosis.
    """
    left, right = 0.0447025356, 0.0258673039
    u = (np.arange(50_000) + 0.5) / 50_000
    x = u**left - (1 - u) ** right
    x = (x - x.mean()) / x.std()
    assert ((x**3).mean(), (x**4).mean()) == pytest.approx((-0.5, 4.0), abs=0.01)
    z = -5.8 + math.sqrt(5) * x
    _, slope, area = sizes(0.018, 0.8, scores=1 / (1 + np.exp(-z)))
    v = np.exp(z) / (1 + np.exp(z)) ** 2
    i0, i1, i2 = v.mean(), (z * v).mean(), (z * z * v).mean()
    assert slope == math.ceil(i0 / (i0 * i2 - i1**2) / (0.1 / Z) ** 2)  # the formula, solved for n, on these log-odds
    assert slope == pytest.approx(9835, rel=2e-3)
    assert area == 4252


def test_each_criterion_is_its_formula_solved_for_n() -> None:
    """Derived: the published formulas with exact quantiles, at the size found and one row less."""
    plan = plan_validation(0.1, 0.75, normal=(-2.6, 1.1), threshold=0.2, sensitivity=0.5, specificity=0.9)
    ratio, slope, area, benefit = plan.criteria
    assert ratio.n == math.ceil(0.9 / 0.1 / (math.asinh(0.1) / Z) ** 2)
    z = stats.norm(-2.6, 1.1).ppf((np.arange(200_000) + 0.5) / 200_000)
    v = np.exp(z) / (1 + np.exp(z)) ** 2
    i0, i1, i2 = v.mean(), (z * v).mean(), (z * z * v).mean()
    assert slope.n == pytest.approx(i0 / (i0 * i2 - i1**2) / (0.1 / Z) ** 2, rel=1e-3)

    def se(n: float) -> float:
        inner = 1 + (n / 2 - 1) * 0.25 / 1.25 + (n / 2 - 1) * 0.75 / 1.75
        return math.sqrt(0.75 * 0.25 * inner / (n * n * 0.1 * 0.9))

    assert 2 * Z * se(area.n) <= 0.1 < 2 * Z * se(area.n - 1)
    w = 9 * 0.25
    assert benefit.n == math.ceil((0.25 / 0.1 + w**2 * 0.09 / 0.9 + w**2 * 0.01 / 0.09) / (0.1 / Z) ** 2)
    assert benefit.value == pytest.approx(0.5 - w * 0.1)
    assert plan.needed == max(ratio.n, slope.n, area.n, benefit.n)


def test_distributions_agree_where_they_coincide() -> None:
    normal = sizes(normal=(-1.75, 1.47))
    assert sizes(skew_normal=(-1.75, 1.47, 0.0)) == normal
    q = (np.arange(100_000) + 0.5) / 100_000
    scores = 1 / (1 + np.exp(-stats.norm(-1.75, 1.47).ppf(q)))
    np.testing.assert_allclose(sizes(scores=scores), normal, rtol=2e-3)
    np.testing.assert_allclose(sizes(beta=(1.33, 1.75)), sizes(scores=stats.beta(1.33, 1.75).ppf(q)), rtol=2e-3)
    shape = stats.skewnorm(-3)
    mean, variance, skew = (float(m) for m in shape.stats("mvs"))
    scores = 1 / (1 + np.exp(-shape.ppf((np.arange(5_000) + 0.5) / 5_000)))
    np.testing.assert_allclose(sizes(skew_normal=(mean, variance**0.5, skew)), sizes(scores=scores), rtol=1e-2)


def test_the_plan_from_prevalence_and_c_statistic_alone_has_both() -> None:
    plan = plan_validation(0.02, 0.8)
    own = plan_validation(0.02, 0.8, threshold=0.05)
    assert plan.prevalence == 0.02
    assert not plan.notes  # the distribution has the event rate that was given
    assert own.criteria[:3] == tuple(each for each in plan.criteria) or own.needed >= plan.needed


def test_a_given_size_is_judged_by_the_widths_to_expect() -> None:
    plan = plan_validation(0.1, 0.75, normal=(-2.6, 1.1), n=700)
    assert plan.n == 700 < plan.needed
    assert all(each.expected_width > each.width for each in plan.criteria if each.n > 700)
    assert "too few" in str(plan)
    assert "enough" in str(plan_validation(0.1, 0.75, normal=(-2.6, 1.1), n=10**6))
    assert plan.to_dict()["criteria"][0]["n"] == plan.criteria[0].n
    assert "<table" in plan._repr_html_()


def test_an_event_rate_that_does_not_fit_the_distribution_is_noted() -> None:
    assert [each.code for each in plan_validation(0.3, 0.75, normal=(-2.6, 1.1)).notes] == ["other-event-rate"]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"prevalence": 0.0, "c_statistic": 0.7}, "prevalence"),
        ({"prevalence": 0.1}, "c_statistic"),
        ({"prevalence": 0.1, "c_statistic": 0.4}, "c_statistic"),
        ({"prevalence": 0.1, "c_statistic": 0.7, "oe_width": 0.0}, "oe_width"),
        ({"normal": (0.0, 1.0), "beta": (1.0, 1.0)}, "beta"),
        ({"normal": (0.0, -1.0)}, "normal"),
        ({"normal": 3}, "normal"),
        ({"skew_normal": (0.0, 1.0, 2.0)}, "skew_normal"),
        ({"beta": (0.0, 1.0)}, "beta"),
        ({"scores": []}, "scores"),
        ({"scores": [0.2, 0.2]}, "scores"),
        ({"scores": [0.2, np.nan]}, "scores"),
        ({"normal": (0.0, 1.0), "threshold": 1.0}, "threshold"),
        ({"normal": (0.0, 1.0), "n": 1}, "n"),
    ],
)
def test_errors_name_the_argument(options: dict, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_validation(**options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["sensitivity", "specificity"])
def test_shares_at_no_threshold_are_refused(name):
    with pytest.raises(InputError, match=f"{name} is used only with a threshold"):
        plan_validation(0.1, 0.8, **{name: 0.8})
