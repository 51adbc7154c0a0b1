"""The desk of an epidemiologist: plan a validation, correct a model for optimism, validate it on censored follow-up.

    python examples/desks/survival.py

Patients are synthetic. A model of death within five years is built at one hospital and validated at others, where some
patients leave early and some die of other causes.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from calibrant import clinical

HORIZON = 5.0


def patients(n: int, seed: int, harm: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Four standardized predictors and the time to death."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    hazard = harm * 0.05 * np.exp(0.8 * X[:, 0] - 0.5 * X[:, 1])
    return X, rng.exponential(1 / hazard)


def main() -> None:
    X, death = patients(400, 1)
    died = death <= HORIZON  # complete follow-up at the hospital that built the model
    model = LogisticRegression(C=1e6).fit(X, died)
    print(clinical.internal_validation(LogisticRegression(C=1e6), X, died, n_boot=30))

    print()
    print(clinical.plan_validation(scores=model.predict_proba(X)[:, 1], oe_width=0.3, slope_width=0.4))

    new, death = patients(2500, 2, harm=1.3)
    rng = np.random.default_rng(3)
    hospital = rng.integers(0, 25, len(new))
    left, other = rng.uniform(1, 12, len(new)), rng.exponential(60, len(new))
    ends = np.stack([left, death, other])
    risk = model.predict_proba(new)[:, 1]
    found = clinical.validate_survival(risk, ends.min(axis=0), ends.argmin(axis=0), horizon=HORIZON, groups=hospital)
    print()
    print(found)
    print()
    print("tenth  predicted  observed      low     high")
    for tenth, each in enumerate(found.bins, 1):
        low, high = ("" if end is None else f"{end:.3f}" for end in (each.low, each.high))
        print(f"{tenth:>5}{each.predicted:>11.3f}{each.observed:>10.3f}{low:>9}{high:>9}")


if __name__ == "__main__":
    main()
