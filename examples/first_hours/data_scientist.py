"""The first hour of a data scientist: a boosted tree on tabular rows, checked, calibrated, compared and saved.

    python examples/first_hours/data_scientist.py

Rows, columns and labels are synthetic. The steps: check held-out scores, make the usual mistakes and read the answers,
calibrate, compare, look at segments, undo a rebalanced training set, wrap a pipeline, save and load.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import calibrant as cb


def rows(n: int = 5000) -> tuple[pd.DataFrame, pd.Series]:
    """Applications with an income, a missing age here and there, and a country."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(size=n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "country": rng.choice(["DE", "FR", "IT"], n),
        }
    )
    risk = -1.0 - frame["income"] + 0.5 * frame["age"].fillna(0.0) + 0.4 * (frame["country"] == "IT")
    return frame, pd.Series((rng.random(n) < 1.0 / (1.0 + np.exp(-risk))).astype(int), index=frame.index, name="bad")


def refused(call: Any) -> str:
    """The answer to a mistake."""
    try:
        call()
    except cb.InputError as problem:
        return str(problem)
    raise AssertionError("the mistake was not noticed")


def main() -> None:
    """Run the hour from the first check to the saved map."""
    frame, bad = rows()
    train, fit, test = slice(0, 2000), slice(2000, 3500), slice(3500, None)
    numbers = frame[["income", "age"]]
    model = HistGradientBoostingClassifier(max_iter=30, learning_rate=0.5, random_state=0)
    model.fit(numbers[train], bad[train])
    scores = pd.Series(model.predict_proba(numbers)[:, 1], index=frame.index)

    print("1. Is it calibrated?")
    print(cb.check(scores[test], bad[test]))

    print("\n2. Mistakes, and their answers")
    print("  swapped:    ", refused(lambda: cb.check(bad[test], scores[test])))
    print("  percentages:", refused(lambda: cb.check(100 * scores[test], bad[test])))
    print("  missing:    ", refused(lambda: cb.check(scores[test], bad[test].astype(float).where(frame["age"] < 1))))
    print("  unsorted:   ", refused(lambda: cb.check(scores[test].sort_values(), bad[test])))

    print("\n3. Calibrate and compare")
    cal = cb.calibrate(scores[fit], bad[fit])
    print(cal)
    change = cb.compare(scores[test], cal.transform(scores[test]), bad[test])
    print(change)
    assert change.differences[0].new < change.differences[0].old

    print("\n4. Segments, as a frame")
    verdict = cb.check(scores[test], bad[test], by={"country": frame["country"][test]})
    print(verdict.segment_frame()[["value", "rows", "predicted", "events", "p_value", "off"]])

    print("\n5. Trained on rebalanced classes")
    fitted = LogisticRegression(class_weight="balanced").fit(frame[["income"]][train], bad[train])
    balanced = fitted.predict_proba(frame[["income"]])[:, 1]
    correction = cb.SamplingCorrection(train_rate=0.5, true_rate=float(bad[train].mean()))
    corrected = correction.transform(balanced[test])
    print(f"  predicted {balanced[test].sum():,.0f}, corrected {corrected.sum():,.0f}, observed {bad[test].sum():,}")
    assert abs(corrected.sum() - bad[test].sum()) < 0.1 * bad[test].sum()

    print("\n6. One estimator: a pipeline with categories")
    columns = make_column_transformer((OneHotEncoder(), ["country"]), ("passthrough", ["income"]))
    pipe = make_pipeline(columns, LogisticRegression())
    wrapped = cb.CalibratedClassifier(pipe, cb.PlattScaling(), cv=3).fit(frame[fit], bad[fit])
    print(f"  mean probability {wrapped.predict_proba(frame[test])[:, 1].mean():.3f}, observed {bad[test].mean():.3f}")
    # To extend: no calibrator given, cv=TimeSeriesSplit, ensemble=True, set_output, Series out, several classes.

    print("\n7. Save, and load without the model")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bad.json")
        cal.save(path)
        again = cb.load(path)
        assert np.array_equal(np.asarray(again.transform(scores[test])), np.asarray(cal.transform(scores[test])))
        print(f"  {path.stat().st_size:,} bytes, the same probabilities")


if __name__ == "__main__":
    main()
