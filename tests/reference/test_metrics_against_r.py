"""Metrics beside R (rms, pROC, glm, isoreg, binom.test); the script, its output and the data lie in ``metrics/``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import Tally
from calibrant.credit import grade_table, pluto_tasche
from calibrant.metrics.binary.curves.recalibration import calibration_curve, ici, recalibration
from calibrant.metrics.binary.decompositions import decompose
from calibrant.metrics.binary.scores import auc, brier, log_loss
from calibrant.metrics.binary.significance import hosmer_lemeshow, spiegelhalter

FOLDER = Path(__file__).parent / "metrics"
NUMBERS = json.loads((FOLDER / "reference.json").read_text(encoding="utf-8"))
NAMES = ["smooth", "calibrated", "rare", "heaped", "weighted"]


def _columns(name: str) -> dict[str, np.ndarray]:
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


def _case(name: str) -> tuple[Tally, dict[str, Any]]:
    """A tally whose weights are counts, as R's repeated rows are, and R's numbers about it."""
    columns = _columns(name)
    tally = Tally.from_arrays(columns["score"], columns["y"], columns["weight"].astype(int), weight_type="frequency")
    return tally, NUMBERS["data"][name]


def close(value: Any, relative: float = 1e-10) -> Any:
    return pytest.approx(value, rel=relative, abs=1e-14)


# ----------------------------------------------------------------------------------------------------------------------
# Scores
# ----------------------------------------------------------------------------------------------------------------------


def test_the_brier_score_is_that_of_val_prob(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found = brier(tally)
            assert found.value == close(numbers["val_prob"]["Brier"])
            assert found.se == close(numbers["brier_se"])


def test_the_log_loss_is_minus_the_mean_log_likelihood(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found = log_loss(tally)
            assert found.value == close(numbers["corp_log"]["score"])
            assert found.se == close(numbers["log_se"])


def test_auc_and_its_standard_error_are_those_of_proc(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found = auc(tally)
            assert found.value == close(numbers["delong"]["auc"])
            assert found.se == close(numbers["delong"]["se"])
            # rms rounds predictions before it counts pairs (to 0.0002, says its manual of lrm): right to three digits
            # only.
            assert found.value == pytest.approx(numbers["val_prob"]["C (ROC)"], abs=1e-3)


def test_brier_and_log_loss_do_not_ask_what_a_weight_is() -> None:
    columns, numbers = _columns("weighted"), NUMBERS["data"]["weighted"]
    rows = columns["score"], columns["y"], columns["weight"]
    assert float(brier(*rows)) == close(numbers["val_prob"]["Brier"])
    assert float(log_loss(*rows)) == close(numbers["corp_log"]["score"])
    assert float(auc(*rows)) == close(numbers["delong"]["auc"])


def test_isotonic_decompositions_are_those_of_isoreg(subtests: pytest.Subtests) -> None:
    for loss in ["brier", "log"]:
        for name in NAMES:
            with subtests.test(loss=loss, name=name):
                tally, numbers = _case(name)
                found, reference = decompose(tally, loss=loss), numbers[f"corp_{loss}"]
                assert found.loss == close(reference["score"])
                for part in ("miscalibration", "discrimination", "uncertainty"):
                    assert getattr(found, part) == close(reference[part], 1e-9)


def test_binned_decompositions_are_murphys(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found, reference = decompose(tally, method="bins", edges=np.arange(1, 10) / 10), numbers["murphy"]
            assert found.miscalibration == close(reference["reliability"])
            assert found.discrimination == close(reference["resolution"])
            assert found.uncertainty == close(reference["uncertainty"])
            assert found.miscalibration - found.discrimination + found.uncertainty + found.within == close(
                reference["score"]
            )


# ----------------------------------------------------------------------------------------------------------------------
# Recalibration and curves
# ----------------------------------------------------------------------------------------------------------------------


def sandwich(tally: Tally, design: np.ndarray, p: np.ndarray, power: int) -> np.ndarray:
    """R's sandwich::vcovHC of a logistic regression from its definition: HC0 for a power of 0, HC3 for a power of 2."""
    bread = np.linalg.inv((design * (tally.n * p * (1 - p))) @ design.T)
    left = 1 - p * (1 - p) * np.einsum("jc,jk,kc->c", design, bread, design)
    squares = (tally.events * (1 - p) ** 2 + (tally.n - tally.events) * p**2) / left**power
    return bread @ ((design * squares) @ design.T) @ bread


def test_intercept_and_slope_are_those_of_glm(subtests: pytest.Subtests) -> None:
    """Standard errors are the larger of R's, which are those of a calibrated model, and of the sandwich."""
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found, reference = recalibration(tally), numbers["glm"]
            for ours, theirs in [("intercept", "intercept_only"), ("slope", "slope"), ("slope_intercept", "intercept")]:
                estimate = getattr(found, ours)
                assert estimate.value == close(reference[theirs], 1e-8)
            x, ones = np.log(tally.scores / (1 - tally.scores)), np.ones(len(tally))
            level = sandwich(tally, ones[None], 1 / (1 + np.exp(-x - found.intercept.value)), 0)[0, 0]
            assert found.intercept.se == close(max(reference["intercept_only_se"], level**0.5), 1e-8)
            both = np.stack([ones, x])
            line = np.array([found.slope_intercept.value, found.slope.value]) @ both
            robust = np.diag(sandwich(tally, both, 1 / (1 + np.exp(-line)), 2))
            for estimate, key, variance in zip(
                (found.slope_intercept, found.slope), ("intercept_se", "slope_se"), robust, strict=True
            ):
                assert estimate.se == close(max(reference[key], variance**0.5), 1e-7)
            assert np.linalg.eigvalsh(found.covariance).min() > 0.0


def test_intercept_and_slope_are_those_of_val_prob(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found = recalibration(tally)
            assert found.slope.value == pytest.approx(numbers["val_prob"]["Slope"], rel=1e-6)
            assert found.slope_intercept.value == pytest.approx(numbers["val_prob"]["Intercept"], rel=1e-6)


def test_the_curve_by_local_lines_is_lowess_and_its_errors_are_those_of_val_prob(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            reference = numbers["lowess"]
            curve = calibration_curve(tally, method="lowess", at=reference["at"])
            np.testing.assert_allclose(curve.rates, reference["default"], rtol=1e-10, atol=1e-12)
            # The lines of lowess(delta = 0) are fitted at each score, ours and R's default at about two in a hundredth
            # of the range.
            np.testing.assert_allclose(curve.rates, reference["exact"], atol=1e-3)
            found = ici(tally, method="lowess", repetitions=0)
            val_prob = numbers["val_prob"]
            assert (found.ici, found.e90, found.emax) == close((val_prob["Eavg"], val_prob["E90"], val_prob["Emax"]))
            assert found.e50 == close(reference["errors_default"]["median"])


def test_the_curve_by_splines_is_glm_on_rcs_with_harrells_knots(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            reference = numbers["spline"]
            if reference is None:  # ten events carry no knots: what is left is the line of the recalibration
                line = numbers["glm"]
                at = np.array(numbers["lowess"]["at"])
                rates = 1.0 / (1.0 + np.exp(-line["intercept"]) * (1.0 / at - 1.0) ** line["slope"])
                np.testing.assert_allclose(calibration_curve(tally, at=at).rates, rates, rtol=1e-8)
                return
            np.testing.assert_allclose(
                calibration_curve(tally, at=reference["at"]).rates, reference["fitted"], rtol=1e-8
            )
            found, errors = ici(tally, repetitions=0), reference["errors"]
            assert (found.ici, found.e50) == close((errors["mean"], errors["median"]), 1e-8)
            assert (found.e90, found.emax) == close((errors["q90"], errors["max"]), 1e-8)


def test_ici_is_near_that_of_austin_and_steyerberg_who_smooth_by_local_quadratics(subtests: pytest.Subtests) -> None:
    for name in ["smooth", "calibrated", "rare", "weighted"]:
        for method in ["spline", "lowess"]:
            with subtests.test(name=name, method=method):
                columns, reference = _columns(name), NUMBERS["data"][name]["loess"]
                found = ici(columns["score"], columns["y"], columns["weight"], method=method, repetitions=0)
                assert found.ici == pytest.approx(reference["mean"], abs=0.01)


def test_the_curve_by_local_quadratics_is_loess_computed_directly(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            reference = numbers["loess"]
            if reference is None:
                continue
            found = ici(tally, method="loess", repetitions=0)
            errors = (reference["mean"], reference["median"], reference["q90"], reference["max"])
            assert (found.ici, found.e50, found.e90, found.emax) == pytest.approx(errors, rel=1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# Tests of calibration
# ----------------------------------------------------------------------------------------------------------------------


def test_spiegelhalters_z_is_that_of_val_prob(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            found = spiegelhalter(tally)
            assert found.statistic == close(numbers["val_prob"]["S:z"])
            assert found.p_value == close(numbers["val_prob"]["S:p"])


def test_hosmer_lemeshow_is_the_chi_square_of_the_same_groups(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, numbers = _case(name)
            reference = numbers["hosmer_lemeshow_ours"]
            assert hosmer_lemeshow(tally).statistic == close(reference["statistic"])
            assert hosmer_lemeshow(tally).p_value == close(reference["p_external"])
            assert hosmer_lemeshow(tally, fitted=True).p_value == close(reference["p_internal"])


def test_without_ties_hosmer_lemeshow_is_that_of_resource_selection(subtests: pytest.Subtests) -> None:
    for name in ["smooth", "calibrated", "rare"]:
        with subtests.test(name=name):
            columns, reference = _columns(name), NUMBERS["data"][name]["hosmer_lemeshow"]
            found = hosmer_lemeshow(columns["score"], columns["y"])
            assert found.statistic == close(reference["statistic"])


# ----------------------------------------------------------------------------------------------------------------------
# Grades
# ----------------------------------------------------------------------------------------------------------------------


def _grades(key: str) -> list[float]:
    return [grade[key] for grade in NUMBERS["grades"]]


def test_grades_have_the_p_values_and_intervals_of_binom_test_and_pbeta() -> None:
    columns = _columns("grades")
    table = grade_table(columns["n"], columns["events"], columns["pd"])
    for ours, theirs in [("binomial_p", "greater"), ("jeffreys_p", "jeffreys"), ("low", "low"), ("high", "high")]:
        np.testing.assert_allclose(getattr(table, ours), _grades(theirs), rtol=1e-10, err_msg=ours)
    np.testing.assert_allclose(table.holm_p, NUMBERS["holm"], rtol=1e-10)
    np.testing.assert_allclose(table.jeffreys_high, _grades("jeffreys_high"), rtol=1e-10)
    # Brown, Cai and DasGupta (2001) let the Jeffreys interval begin at 0 where nothing was seen; qbeta does not.
    seen = columns["events"] > 0
    np.testing.assert_allclose(table.jeffreys_low[seen], np.array(_grades("jeffreys_low"))[seen], rtol=1e-10)
    np.testing.assert_array_equal(table.jeffreys_low[~seen], 0.0)


def test_two_sided_grades_double_the_smaller_tail() -> None:
    # binom.test adds up all outcomes that are no likelier than the one seen: another two-sided p-value, never compared.
    columns = _columns("grades")
    table = grade_table(columns["n"], columns["events"], columns["pd"], sides="two")
    smaller = np.minimum(_grades("greater"), _grades("less"))
    np.testing.assert_allclose(table.binomial_p, np.minimum(1.0, 2.0 * smaller), rtol=1e-10)


def test_the_portfolio_is_the_convolution_of_its_grades() -> None:
    columns, reference = _columns("grades"), NUMBERS["portfolio"]
    table = grade_table(columns["n"], columns["events"], columns["pd"])
    assert table.portfolio_p == close(reference["greater"], 1e-9)  # R convolves by Fourier transform
    assert table.portfolio_jeffreys_p == close(reference["jeffreys"])


def test_most_prudent_bounds_are_those_of_qbeta(subtests: pytest.Subtests) -> None:
    for confidence in ["0.5", "0.75", "0.9", "0.95", "0.99"]:
        with subtests.test(confidence=confidence):
            columns = _columns("grades")
            bounds = pluto_tasche(columns["n"], columns["events"], confidence=float(confidence))
            np.testing.assert_allclose(bounds, NUMBERS["pluto_tasche"][confidence], rtol=1e-10)
