"""The same numbers as R's glm and isoreg, which are the standard; the R script and its output lie in ``r/``."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from calibrant import BetaScaling, IsotonicCalibrator, PlattScaling, Tally
from calibrant.engine import Grid

FOLDER = Path(__file__).parent / "r"


def _read(name: str) -> dict[str, np.ndarray]:
    """Columns of a CSV file, as numbers where they are numbers."""
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    return {key: x if key in ("on", "variant") else x.astype(np.float64) for key, x in columns.items()}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = _read("input.csv")
    return columns["score"], columns["y"], columns["weight"]


def test_platt_is_glm(subtests: pytest.Subtests, rows: tuple[np.ndarray, ...]) -> None:
    for line in [0, 1]:
        with subtests.test(line=line):
            reference = _read("platt.csv")
            map_ = PlattScaling(on=str(reference["on"][line])).fit(*rows[:2]).map_
            assert map_.slope == pytest.approx(reference["slope"][line], rel=1e-10)
            assert map_.intercept == pytest.approx(reference["intercept"][line], rel=1e-10)


def test_weighted_platt_is_weighted_glm(rows: tuple[np.ndarray, ...]) -> None:
    reference = _read("platt_weighted.csv")
    map_ = PlattScaling().fit(*rows).map_
    assert map_.slope == pytest.approx(reference["slope"][0], rel=1e-10)
    assert map_.intercept == pytest.approx(reference["intercept"][0], rel=1e-10)


def test_beta_is_glm_where_no_constraint_acts(subtests: pytest.Subtests, rows: tuple[np.ndarray, ...]) -> None:
    for line in [0, 1, 2]:
        with subtests.test(line=line):
            reference = _read("beta.csv")
            map_ = BetaScaling(str(reference["variant"][line])).fit(*rows[:2]).map_
            for name in "abc":
                assert getattr(map_, name) == pytest.approx(reference[name][line], rel=1e-9)


def test_fitted_probabilities(rows: tuple[np.ndarray, ...]) -> None:
    reference = _read("fitted.csv")
    scores, y, _ = rows
    np.testing.assert_allclose(PlattScaling().fit_transform(scores, y), reference["platt"], rtol=1e-10)
    np.testing.assert_allclose(BetaScaling().fit_transform(scores, y), reference["beta"], rtol=1e-9)


def test_the_grid_costs_next_to_nothing(rows: tuple[np.ndarray, ...]) -> None:
    reference = _read("platt.csv")
    map_ = PlattScaling().fit_tally(Tally.from_arrays(*rows[:2], grid=Grid())).map_
    assert map_.slope == pytest.approx(reference["slope"][0], rel=1e-6)
    assert map_.intercept == pytest.approx(reference["intercept"][0], rel=1e-6)


def test_isotonic_steps_are_isoreg() -> None:
    reference = _read("isotonic.csv")
    steps = IsotonicCalibrator(step=True, shrink_ends=False).fit(reference["score"], reference["y"])
    np.testing.assert_allclose(steps.transform(reference["score"]), reference["fitted"], rtol=1e-12, atol=1e-15)
