"""Softmax maps of many classes: the same optimum as Newton's method, no leaks between folds, and little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.fits.multiclass import ridge as softmax_ridge
from calibrant.fits.multiclass.penalty import Ridge
from calibrant.fits.multiclass.ridge import fit_affine
from calibrant.fits.multiclass.softmax import LogRows, fit_slope
from calibrant.multiclass import DirichletScaling, MulticlassAutoCalibrator
from calibrant.selection.multiclass.cross_validation import Setting, Trials
from calibrant.selection.multiclass.folds import MulticlassFolds


def sample(rows: int, classes: int, absent: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(1 if absent else 0, classes, size=rows)
    z = rng.normal(size=(rows, classes))
    z[np.arange(rows), y] += 2.0
    z[np.arange(rows), (y + 1) % classes] += 1.0
    return 2.0 * z, y


@pytest.mark.parametrize("others", [None, 5.0, 50.0])
@pytest.mark.parametrize("absent", [False, True])
def test_the_fit_of_many_classes_is_that_of_newton(others, absent, monkeypatch):
    z, y = sample(400, 17, absent)
    rows = LogRows.of(check_class_rows(z, y, classes=range(17), score_type="logit"))
    ridge, slope = Ridge(1.0, others, 0.5), fit_slope(rows).slope
    fast, near = fit_affine(rows, ridge, slope), 2.0 * softmax_ridge.LBFGS_DECREMENT
    monkeypatch.setattr(softmax_ridge, "LBFGS_TOLERANCE", 1e-12)
    monkeypatch.setattr(softmax_ridge, "LBFGS_DECREMENT", 0.0)
    exact = fit_affine(rows, ridge, slope)
    monkeypatch.setattr(softmax_ridge, "MAX_DENSE_CLASSES", 17)
    newton = fit_affine(rows, ridge, slope)
    problem = softmax_ridge._Regression(rows, ridge, slope)
    lowest = problem.evaluate(newton.numbers).loss
    assert problem.evaluate(fast.numbers).loss - lowest < near  # of the sum: 0.045 standard errors from the solution
    assert problem.evaluate(exact.numbers).loss - lowest < 1e-9 * problem.total
    np.testing.assert_allclose(exact.numbers, newton.numbers, atol=2e-4)


def test_other_labels_in_a_fold_leave_the_map_that_judges_it_as_it_was():
    z, y = sample(300, 33)
    folds = MulticlassFolds.of(check_class_rows(z, y, classes=range(33), score_type="logit"))
    part = np.flatnonzero(folds.shares[0])
    other = y.copy()
    other[part] = (y[part] + 1) % 33
    setting = Setting("matrix", 1e-300, 100.0)
    found = []
    for labels in (y, other):
        trials = Trials(check_class_rows(z, labels, classes=range(33), score_type="logit"), folds, "log")
        for also in (1, None):
            trials.prepare(setting, (0,), also)
        found.append(trials._fits[frozenset({0})][setting].numbers)
    np.testing.assert_array_equal(*found)


def test_order_of_the_rows_does_not_matter_with_many_classes():
    z, y = sample(300, 40)
    order = np.random.default_rng(1).permutation(300)
    one = MulticlassAutoCalibrator().fit(z, y, classes=range(40), score_type="logit")
    two = MulticlassAutoCalibrator().fit(z[order], y[order], classes=range(40), score_type="logit")
    assert one.choice_ == two.choice_
    np.testing.assert_allclose(one.transform(z), two.transform(z), atol=1e-5)


@pytest.mark.slow
def test_peak_memory_is_about_twice_the_scores():
    z, y = sample(4000, 80)
    DirichletScaling().fit(z[:400], y[:400], classes=range(80), score_type="logit")
    tracemalloc.start()
    DirichletScaling().fit(z, y, classes=range(80), score_type="logit")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.2 * z.nbytes
