"""Calibration from few labels and a judge: the formula, edges and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from calibrant import InputError
from calibrant.shift import estimate_calibration

RNG = np.random.default_rng(3)
P = RNG.beta(2, 2, 1_200)
Y = RNG.random(1_200) < P**1.3
JUDGE = np.where(RNG.random(1_200) < 0.85, Y, ~Y).astype(float)
FEW, MANY = slice(0, 200), slice(200, None)


def test_the_ratio_is_the_formula():
    found = estimate_calibration(P[MANY], JUDGE[MANY], P[FEW], JUDGE[FEW], Y[FEW]).ratio
    y, p = Y[FEW].astype(float), P[FEW]
    psi = y / y.mean() - p / p.mean()
    near, far = (np.column_stack([P[rows], JUDGE[rows]]) for rows in (FEW, MANY))
    centered = near - near.mean(axis=0)
    weights = np.linalg.solve(centered.T @ centered, centered.T @ psi) / (1 + 200 / 1000)
    value = y.mean() / p.mean() * np.exp(weights @ (far.mean(axis=0) - near.mean(axis=0)))
    residual = psi - centered @ weights
    added = stats.norm.ppf(0.975) ** 2 / 2 / y.mean() ** 2 / 200**2  # a wrong grade changes psi by 1 / mean(y)
    variance = (residual**2).sum() / 197 / 200 + added + (far @ weights).var() / 1000
    assert found.value == pytest.approx(value)
    assert found.se == pytest.approx(value * np.sqrt(variance))
    assert found.worth == pytest.approx(psi.var(ddof=1) / 200 / variance * 200)
    assert found.mistakes == pytest.approx((residual**2).sum() * y.mean() ** 2)


def test_a_perfect_judge_is_worth_many_labels_and_a_constant_one_none():
    perfect = estimate_calibration(P[MANY], Y[MANY], P[FEW], Y[FEW], Y[FEW])
    assert perfect.ratio.worth > 800
    assert [note.code for note in perfect.notes] == ["few-disagreements"]
    assert perfect.to_dict()["notes"][0]["code"] == "few-disagreements"
    constant = estimate_calibration(P[MANY], np.full(1000, 0.5), P[FEW], np.full(200, 0.5), Y[FEW])
    assert constant.ratio.worth < 400
    assert constant.notes == ()
    two = estimate_calibration(
        P[MANY], np.column_stack([JUDGE, 1 - JUDGE])[MANY], P[FEW], np.column_stack([JUDGE, 1 - JUDGE])[FEW], Y[FEW]
    )
    one = estimate_calibration(P[MANY], JUDGE[MANY], P[FEW], JUDGE[FEW], Y[FEW])
    assert two.ratio.value == pytest.approx(one.ratio.value)  # the second judge says nothing new


def test_heaped_scores_have_fewer_bins_and_thin_bins_no_interval():
    heaped = np.where(P < 0.5, 0.3, 0.8)
    found = estimate_calibration(heaped[MANY], JUDGE[MANY], heaped[FEW], JUDGE[FEW], Y[FEW], n_bins=10)
    assert len(found.bins) == 2
    flat = np.full(1_200, 0.6)
    same = estimate_calibration(flat[MANY], JUDGE[MANY], flat[FEW], JUDGE[FEW], Y[FEW])
    assert "slope: not known from 200 labels" in str(same)
    thin = estimate_calibration(P[MANY], JUDGE[MANY], P[FEW], JUDGE[FEW], Y[FEW], n_bins=60)
    assert any(not np.isfinite(each.low) for each in thin.bins)
    json.loads(json.dumps(thin.to_dict(), allow_nan=False))


def test_bad_arguments_are_refused():
    few, many = (P[FEW], JUDGE[FEW], Y[FEW]), (P[MANY], JUDGE[MANY])
    for call, words in (
        (lambda: estimate_calibration(*many, *few, alpha=0), "alpha must be inside"),
        (lambda: estimate_calibration(*many, *few, n_bins=0), "n_bins must be an integer"),
        (lambda: estimate_calibration(many[0], many[1][:5], *few), "judge must have one grade for each"),
        (lambda: estimate_calibration(many[0], 2 * many[1], *few), "judge must be grades from 0"),
        (lambda: estimate_calibration(many[0], many[1] * np.nan, *few), "judge"),
        (lambda: estimate_calibration(*many, few[0], np.column_stack([few[1]] * 2), few[2]), "as many judges"),
        (lambda: estimate_calibration(*many, *(each[:30] for each in few)), "20 of each are needed"),
        (lambda: estimate_calibration([], [], *few), "scores is empty"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_grades_of_text_are_refused():
    p, y = np.linspace(0.1, 0.9, 60), np.arange(60) % 2
    with pytest.raises(InputError, match="judge_labeled must hold numbers only"):
        estimate_calibration(p, y, p, ["good"] * 60, y)
