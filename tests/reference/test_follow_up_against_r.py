"""Censored follow-up beside R (survival, prodlim, riskRegression), and optimism beside ``rms::validate``.

Scripts, data and output lie in ``survival/`` and ``internal/``.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant.clinical import internal_validation, validate_survival
from calibrant.clinical.follow_up import read_follow_up

FOLDER = Path(__file__).parent
NAMES = ["censored", "competing"]


def _columns(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


def _case(name: str) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], dict[str, Any]]:
    columns = _columns(FOLDER / "survival" / f"{name}.csv")
    numbers = json.loads((FOLDER / "survival" / "reference.json").read_text(encoding="utf-8"))
    return (columns["risk"], columns["time"], columns["event"]), numbers[name]


def close(value: Any, absolute: float = 1e-8) -> Any:
    return pytest.approx(value, rel=1e-8, abs=absolute)


def test_observed_risk_and_its_standard_error_are_those_of_survfit(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            rows, numbers = _case(name)
            found = validate_survival(*rows, horizon=5.0).observed
            assert found.value == close(numbers["risk"][0])
            assert found.se == close(numbers["risk_se"][0])
            if "risk_interval" in numbers:  # conf.type = "log-log"
                assert (found.low, found.high) == close(tuple(numbers["risk_interval"]))


def test_weights_are_those_of_prodlim_and_pseudo_observations_those_of_leaving_out(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            (risk, time, event), numbers = _case(name)
            data = read_follow_up(time, event, 5.0, None, len(risk))
            np.testing.assert_allclose(data.weight, numbers["weight"], rtol=1e-9)
            np.testing.assert_allclose(data.pseudo(), numbers["pseudo"], atol=1e-9)


def test_intercept_and_slope_are_the_solutions_of_their_equations(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        for link in ("logit", "cloglog"):
            with subtests.test(name=name, link=link):
                rows, numbers = _case(name)
                found = validate_survival(*rows, horizon=5.0, link=link)
                three = [found.intercept, found.slope, found.slope_intercept]
                assert [each.value for each in three] == close(numbers[f"{link}_pseudo"])
                assert [each.se for each in three] == close(numbers[f"{link}_pseudo_se"])
                weighted = validate_survival(*rows, horizon=5.0, link=link, method="ipcw")
                assert [weighted.slope.value, weighted.slope_intercept.value] == close(numbers[f"{link}_ipcw"])


def test_brier_auc_and_ipa_are_those_of_risk_regression(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            rows, numbers = _case(name)
            found = validate_survival(*rows, horizon=4.9)  # no row is censored at 4.9
            area, area_se = numbers["auc"]
            loss, loss_se, accuracy = numbers["brier"]
            assert found.auc.value == close(area)
            assert found.brier.value == close(loss)
            assert found.scaled_brier.value == close(accuracy)
            assert found.auc.se == pytest.approx(area_se, rel=0.01)  # R divides by n - 1 in places
            assert found.brier.se == pytest.approx(loss_se, rel=0.01)


def test_optimism_is_that_of_rms_on_the_same_samples() -> None:
    folder = FOLDER / "internal"
    columns, numbers = _columns(folder / "data.csv"), json.loads((folder / "reference.json").read_text("utf-8"))
    samples = np.loadtxt(folder / "samples.csv", delimiter=",", dtype=int)
    X = np.stack([columns[f"x{j}"] for j in range(1, 6)], axis=1)
    model = LogisticRegression(C=1e12, solver="newton-cholesky", tol=1e-10, max_iter=200)
    found = internal_validation(model, X, columns["y"].astype(int), resamples=samples)

    def five(each: Any) -> list[float]:
        return [each.apparent, each.training, each.test, each.optimism, each.corrected]

    assert five(found.slope) == pytest.approx(numbers["Slope"], abs=1e-5)
    assert five(found.intercept) == pytest.approx(numbers["Intercept"], abs=1e-5)
    assert five(found.brier) == pytest.approx(numbers["B"], abs=1e-6)
    # lrm counts pairs on predictions rounded to 0.0002, so Dxy is right to three digits only.
    area = found.c_statistic
    assert [2 * area.apparent - 1, 2 * area.training - 1, 2 * area.test - 1] == pytest.approx(
        numbers["Dxy"][:3], abs=2e-3
    )
