"""How often the hints of `check` speak where they should, and where they should not.

    python benchmarks/hints.py                # 100 samples of each case: about 10 minutes of processor time
    python benchmarks/hints.py --samples 10   # a first look

The hints ask whether classes were rebalanced for training (`REBALANCED_RATIO`, `BALANCED_RATES` and `BALANCED_ODDS` of
`verdict/hints.py`), and whether the rows were used for training (`TRAINING_SLOPE` of `selection/original_model.py`). A
line gives the share of samples in which each spoke; the last column says what would be right. Log-odds have a standard
deviation of 1 about those of the base rate; models of the last cases are fitted to rows with ten features. A logistic
regression with ten coefficients is nearly as good on other rows, so nothing shows which rows those were.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import calibrant as cb

Sample = tuple[NDArray[np.float64], NDArray[np.bool_]]
ROWS = 5_000
HINTS = {
    "rebalanced": ("mean-above-base-rate", "mean-below-base-rate"),
    "training rows": ("trained-on-these-rows",),
}


def shifted(rate: float, shift: float = 0.0, slope: float = 1.0) -> Callable[[np.random.Generator], Sample]:
    """Scores whose log-odds are `slope` times the true ones about those of the rate, and moved by `shift`."""

    def draw(rng: np.random.Generator) -> Sample:
        middle = special.logit(rate)
        true = rng.normal(middle, 1.0, ROWS)
        return special.expit(middle + slope * (true - middle) + shift), rng.random(ROWS) < special.expit(true)

    return draw


def rebalanced(rate: float, train_rate: float) -> Callable[[np.random.Generator], Sample]:
    """Scores that are right for a population whose event rate was raised to `train_rate` by dropping others."""
    return shifted(rate, special.logit(train_rate) - special.logit(rate))


def fitted(model: Callable[[], object], on_training_rows: bool) -> Callable[[np.random.Generator], Sample]:
    """Predictions of a model for the rows that it was trained on, or for others."""

    def draw(rng: np.random.Generator) -> Sample:
        x = rng.normal(size=(2 * ROWS, 10))
        true = special.expit(x[:, :3].sum(axis=1) / 2 - 1.0)
        y = rng.random(2 * ROWS) < true
        grown = model().fit(x[:ROWS], y[:ROWS])  # type: ignore[attr-defined]
        rows = slice(0, ROWS) if on_training_rows else slice(ROWS, None)
        return np.clip(grown.predict_proba(x[rows])[:, 1], 1e-3, 1 - 1e-3), y[rows]

    return draw


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(100, min_samples_leaf=5, n_jobs=1, random_state=0)


def cases() -> Iterator[tuple[str, Callable[[np.random.Generator], Sample], str]]:
    """A name, a draw of rows, and the hint that is right."""
    for rate in (0.3, 0.05, 0.01):
        yield f"calibrated, {rate:.0%} events", shifted(rate), "none"
    for rate in (0.3, 0.05, 0.01):
        yield f"balanced for training, {rate:.0%} events", rebalanced(rate, 0.5), "rebalanced"
    for train_rate in (0.2, 0.1, 0.05):
        yield f"1 % events, {train_rate:.0%} in training", rebalanced(0.01, train_rate), "rebalanced"
    for shift in (0.3, 0.6, 1.0):
        yield f"log-odds moved by {shift}, 5 % events", shifted(0.05, shift), "none"
    for slope in (0.7, 1.5):
        yield f"log-odds times {slope}, 30 % events", shifted(0.3, slope=slope), "none"
    models = {"random forest": forest, "boosted trees": HistGradientBoostingClassifier, "logistic": LogisticRegression}
    for name, model in models.items():
        yield f"{name}, training rows", fitted(model, True), "none" if name == "logistic" else "training rows"
        yield f"{name}, other rows", fitted(model, False), "none"


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    samples = parser.parse_args().samples
    warnings.simplefilter("ignore")
    print(f"{samples} samples of {ROWS:,} rows")
    print(f"{'case':<42}" + "".join(f"{name:>15}" for name in HINTS) + f"{'miscalibrated':>15}  right")
    for place, (name, draw, right) in enumerate(cases()):
        found: Counter[str] = Counter()
        for sample in range(samples):
            verdict = cb.check(*draw(np.random.default_rng((place, sample))))
            codes = {hint.code for hint in verdict.hints}
            found.update(hint for hint, meant in HINTS.items() if codes & set(meant))
            found["miscalibrated"] += verdict.status == "miscalibrated"
        shares = "".join(f"{found[each] / samples:>15.0%}" for each in (*HINTS, "miscalibrated"))
        print(f"{name:<42}{shares}  {right}", flush=True)


if __name__ == "__main__":
    main()
