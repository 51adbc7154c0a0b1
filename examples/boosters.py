"""Calibrate gradient boosting with out-of-fold scores: scikit-learn, and LightGBM and XGBoost where installed.

    python examples/boosters.py

Explained in docs/howto/boosters.md. The classifiers differ in one line each; everything after it is the same.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

import calibrant as cb


def boosters() -> dict[str, Any]:
    """An overfitted classifier of each package that is installed."""
    models: dict[str, Any] = {
        "scikit-learn": HistGradientBoostingClassifier(max_iter=60, learning_rate=0.3, random_state=0)
    }
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        models["LightGBM"] = LGBMClassifier(n_estimators=60, learning_rate=0.3, n_jobs=1, random_state=0, verbose=-1)
    if find_spec("xgboost"):
        from xgboost import XGBClassifier

        models["XGBoost"] = XGBClassifier(n_estimators=60, learning_rate=0.3, n_jobs=1, random_state=0)
    return models


def main() -> None:
    """Print the log loss on unseen rows before and after calibration, and both verdicts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = (rng.random(4000) < 1 / (1 + np.exp(1 - X[:, 0] - 0.5 * X[:, 1] * X[:, 2]))).astype(int)
    X_train, y_train, X_test, y_test = X[:2500], y[:2500], X[2500:], y[2500:]
    for name, model in boosters().items():
        out_of_fold = cross_val_predict(model, X_train, y_train, cv=5, method="predict_proba")[:, 1]
        cal = cb.calibrate(out_of_fold, y_train)
        before = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
        after = cal.transform(before)
        losses = [cb.metrics.log_loss(p, y_test).value for p in (before, after)]
        print(f"{name}: log loss {losses[0]:.3f} before, {losses[1]:.3f} after")
        print(f"  before: {cb.check(before, y_test).headline}")
        print(f"  after:  {cb.check(after, y_test).headline}")


if __name__ == "__main__":
    main()
