"""CalibratedClassifier around boosters, in one line, beside scikit-learn's CalibratedClassifierCV.

    python benchmarks/boosters.py                    # 12 data sets x LightGBM, XGBoost, HistGradientBoosting
    python benchmarks/boosters.py --quick            # 2 small data sets, for CI

Every booster gets a data frame with missing values and columns of type category, as they are. The data sets are real.
Six have missing values of their own: in bank-marketing the value "unknown" is read as missing. In the others 5 % of the
cells are removed at random. fetal-health and cervical-cancer have no categories; the indicator columns of covtype are
read as two categories. Columns with more than 200 categories, and identifiers, are dropped, and so are classes with
fewer than 50 rows. At most 4,000 rows are used, half of them to train and calibrate and half to test.

The lines are, with `model` the booster:

    model                                            as it is
    auto          CalibratedClassifier(model, cv=5)
    auto, mean    CalibratedClassifier(model, cv=5, ensemble=True)
    sigmoid       CalibratedClassifierCV(model, cv=5, method="sigmoid"), and so on

The defaults of CalibratedClassifierCV are a mean of five models too. The log loss reads 0 as the smallest float64 step;
the Brier score is summed over classes. Seconds are of CPU time of the fit, on one core, in the mean over the cases;
"times" is the median over the cases of the seconds divided by those of the bare model, in the same run. "below" counts
in how many cases the log loss is below that of the bare model, and "first" in how many it is the lowest. A refusal is
an error of the wrapper: none is allowed in the first two lines, and the script ends with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from data_folder import need_data
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import calibrant as cb

MOST_ROWS, MIN_CLASS_ROWS, MOST_CATEGORIES = 4_000, 50, 200

UCI = "uci_classification"
SETS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # file, label, columns that are dropped
    "bank-marketing": (f"{UCI}/bank-marketing", "y", ("duration",)),
    "credit-default": ("credit_default/credit_default", "default payment next month", ("ID",)),
    "cylinder-bands": (f"{UCI}/cylinder-bands", "band_type", ("timestamp", "job_number")),
    "sick": (f"{UCI}/sick", "Class", ()),
    "credit-rating": (f"{UCI}/credit-rating", "class", ()),
    "german-credit": (f"{UCI}/german-credit", "class", ()),
    "churn": ("customer_churn/customer_churn", "Exited", ("RowNumber", "CustomerId", "Surname")),
    "cervical-cancer": (f"{UCI}/cervical-cancer", "Biopsy", ("Hinselmann", "Schiller", "Citology", "Cytology")),
    "vote": (f"{UCI}/vote", "Class", ()),
    "fetal-health": ("fetal_health/fetal_health", "fetal_health", ()),
    "nursery": (f"{UCI}/nursery", "class", ()),
    "covtype": ("covtype/covtype", "Cover_Type", ()),
}
QUICK = ("german-credit", "fetal-health")
CODED = ("SEX", "EDUCATION", "MARRIAGE")  # numbers that stand for categories, in credit-default


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features with missing values and categories, and labels 0, 1, ... (which XGBoost asks for)."""
    file, label, dropped = SETS[name]
    frame = pd.read_parquet(need_data(file.split("/")[0]) / f"{file}.parquet").dropna(subset=[label])
    frame = frame[frame[label].map(frame[label].value_counts()) >= MIN_CLASS_ROWS]
    if len(frame) > MOST_ROWS:
        frame = train_test_split(frame, train_size=MOST_ROWS, stratify=frame[label], random_state=0)[0]
    y = pd.factorize(frame[label], sort=True)[0]
    X = frame.drop(columns=[label, *dropped], errors="ignore").reset_index(drop=True)
    X = _gathered(X, "Soil_Type") if name == "covtype" else X.replace("unknown", np.nan)
    X = X.dropna(axis=1, how="all")  # HistGradientBoosting refuses a column without any value
    for column in X.columns:
        if X[column].dtype == object or column in CODED:
            X[column] = X[column].astype("category")
    X = X[[each for each in X if X[each].nunique() <= MOST_CATEGORIES or X[each].dtype != "category"]]
    if not X.isna().to_numpy().any():
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.05)
    X.columns = [str(each).translate(str.maketrans(' []<>,:{}"', "__________")) for each in X.columns]
    return X, y


def _gathered(X: pd.DataFrame, *_: str) -> pd.DataFrame:
    """Indicator columns of soil and wilderness as two categories."""
    for start in ("Soil", "Wilderness"):
        indicators = [each for each in X if str(each).startswith(start)]
        kind = pd.Series(X[indicators].to_numpy().argmax(axis=1), index=X.index).astype("category")
        X = X.drop(columns=indicators).assign(**{start: kind})
    return X


def boosters() -> dict[str, Callable[[], Any]]:
    """Each booster with its defaults, at 50 trees and on one thread."""
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    return {
        "LightGBM": lambda: LGBMClassifier(n_estimators=50, n_jobs=1, random_state=0, verbose=-1),
        "XGBoost": lambda: XGBClassifier(n_estimators=50, n_jobs=1, random_state=0, enable_categorical=True),
        "HistGradient": lambda: HistGradientBoostingClassifier(
            max_iter=50, categorical_features="from_dtype", random_state=0
        ),
    }


LINES: dict[str, Callable[[Any], Any]] = {
    "model": lambda model: model,
    "auto": lambda model: cb.CalibratedClassifier(model, cv=5),
    "auto, mean": lambda model: cb.CalibratedClassifier(model, cv=5, ensemble=True),
    "sigmoid": lambda model: CalibratedClassifierCV(model, cv=5, method="sigmoid"),
    "isotonic": lambda model: CalibratedClassifierCV(model, cv=5, method="isotonic"),
    "temperature": lambda model: CalibratedClassifierCV(model, cv=5, method="temperature"),
}


def measured(classifier: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> tuple[float, float, float]:
    """Log loss, Brier score and seconds."""
    start = time.process_time()
    fitted = classifier.fit(*train)
    seconds = time.process_time() - start
    p = np.asarray(fitted.predict_proba(test[0]), dtype=np.float64)
    p = p / p.sum(axis=1, keepdims=True)
    return log_loss(test[1], p), float(((p - np.eye(p.shape[1])[test[1]]) ** 2).sum(axis=1).mean()), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small data sets")
    sets = QUICK if parser.parse_args().quick else tuple(SETS)
    results: dict[str, list[tuple[float, float, float]]] = {line: [] for line in LINES}
    refused = 0
    print(f"{'':<16}{'':<14}" + "".join(f"{line:>13}" for line in LINES) + "     log loss on test rows")
    for name in sets:
        X, y = read(name)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
        for booster, make in boosters().items():
            row = []
            for line, wrap in LINES.items():
                try:
                    found = measured(wrap(make()), (X_train, y_train), (X_test, y_test))
                except Exception as error:
                    refused += line.startswith("auto")
                    print(f"  {name}, {booster}, {line}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
                    found = (float("nan"),) * 3
                results[line].append(found)
                row.append(found[0])
            print(f"{name:<16}{booster:<14}" + "".join(f"{each:13.4f}" for each in row), flush=True)
    table = np.array([results[line] for line in LINES])  # lines x cases x (log loss, Brier, seconds)
    bare = table[0]
    print(
        f"\n{len(bare)} cases{'log loss':>20}{'Brier':>9}{'below':>8}{'worst':>9}{'first':>7}{'seconds':>9}{'times':>8}"
    )
    first = np.where(np.isnan(table[:, :, 0]), np.inf, table[:, :, 0]).argmin(axis=0)
    for at, line in enumerate(LINES):
        loss, brier, seconds = np.nanmean(table[at], axis=0)
        better = int((table[at, :, 0] < bare[:, 0]).sum())
        worst = float(np.nanmax(table[at, :, 0] - bare[:, 0]))
        wins = int((first == at).sum())
        times = float(np.nanmedian(table[at, :, 2] / bare[:, 2]))
        print(f"{line:<16}{loss:16.4f}{brier:9.4f}{better:8}{worst:+9.4f}{wins:7}{seconds:9.2f}{times:8.1f}")
    print(f"refusals of CalibratedClassifier: {refused}")
    return int(refused > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        raise SystemExit(main())
