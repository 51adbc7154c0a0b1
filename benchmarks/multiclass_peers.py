"""What other packages make of the multiclass pools: losses on test rows and seconds to fit, by case and peer.

    python benchmarks/multiclass_peers.py --cache folder --store peers.csv    # runs what the file does not have yet
    python benchmarks/multiclass_peers.py --read peers.csv                    # the table, from stored losses
    python benchmarks/multiclass_peers.py --netcal                            # seconds of netcal's class-wise errors

The peers are scikit-learn (sigmoid and isotonic one-versus-rest, temperature), probmetrics (temperature, structured
vector and matrix scaling), dirichletcal (vector and full Dirichlet scaling, the defaults, as in Gupta 2023) and MAPIE
(top-label). They are not dependencies of this package: install those that are to be run. dirichletcal 0.3.dev4 lacks
commas in its `setup.py`, so it is installed from its source with the commas put in, and it asks for names that jax and
scipy no longer have: it was run with Python 3.10, jax 0.4.13, scipy 1.8.1 and numpy 1.23.5, and with `classes=` written
in its call of `label_binarize`. It then gives the errors of Gupta 2023, Tables 5.4 and 5.5, for the ResNet-50.

scikit-learn gets the scores as the model gives them, the others probabilities. The log loss reads probabilities below
2**-52 as 2**-52; the Brier score is summed over classes; the errors have 15 bins of equal width (Gupta 2023, section
5.E.2). MAPIE gives the probability of the predicted class alone, so it has a top-label error and nothing else. A fit
that takes longer than the limit, or fails, leaves a note in place of losses. Seconds are of CPU time, on one core.
A table is over the cases that all its peers have; peers that were not run on every case are in a second one.

In `docs/benchmarks/multiclass_peers.csv` dirichletcal has seeds 0 and 1, and of 100 classes seed 0: vector scaling, and
full scaling of one net, which was stopped. Its seconds of seed 0 below 100 classes are of the wall clock on an idle
core; those that were taken while the machine was busy, in seed 1, are left out.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import logging
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from multiclass_pools import FLOOR, Case, Floats, Labels, cases, probabilities
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV

BINS = 15
MOST_SECONDS = 60
"""A fit, with its predictions, is stopped after this many seconds of CPU time."""

LOSSES = ("log loss", "brier", "tl ece", "cw ece")
KEY = ["case", "seed", "peer"]
COLUMNS = ["source", "case", "seed", "classes", "rows", "peer", "version", *LOSSES, "seconds", "note"]


# -------------------------------------------------------------------------------------------------------- the measures


def losses(p: Floats, labels: Labels) -> tuple[float, float, float, float]:
    """Log loss, Brier score summed over classes, top-label and class-wise calibration error."""
    rows = np.arange(len(labels))
    log_loss = -np.mean(np.log(np.maximum(p[rows, labels], FLOOR)))
    brier = np.mean(np.sum(p**2, axis=1) - 2.0 * p[rows, labels] + 1.0)
    return float(log_loss), float(brier), top_label_error(p, labels), class_wise_error(p, labels)


def top_label_error(p: Floats, labels: Labels) -> float:
    """Sum over predicted classes of their share times the error of the top probability; NaN marks missing classes."""
    top = np.nanargmax(p, axis=1)
    confidence = p[np.arange(len(labels)), top]
    return _error(confidence, (top == labels).astype(np.float64), top, p.shape[1])


def class_wise_error(p: Floats, labels: Labels) -> float:
    """Mean over classes of the error of the class's probability."""
    rows, classes = p.shape
    hit = (labels[:, None] == np.arange(classes)).astype(np.float64)
    return _error(p.ravel(), hit.ravel(), np.tile(np.arange(classes), rows), classes)


def _error(predicted: Floats, observed: Floats, group: Labels, groups: int) -> float:
    bins = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(group * BINS + bins, weights=observed - predicted, minlength=groups * BINS)
    return float(np.abs(gaps).sum() / len(predicted))


# ----------------------------------------------------------------------------------------------------------- the peers


class _Probabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted model whose features are the probabilities of the classes."""

    def __init__(self, classes: int = 2) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)
        self.n_features_in_ = classes

    def fit(self, X: Floats, y: Labels) -> _Probabilities:
        return self

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> Labels:
        return np.asarray(X.argmax(axis=1), dtype=np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Logits(_Probabilities):
    """A fitted model whose features are the logits of the classes."""

    def decision_function(self, X: Floats) -> Floats:
        return X


@dataclass(frozen=True)
class Peer:
    """A package, a calibrator of it for a case, and whether it takes the scores as they are or probabilities."""

    package: str
    make: Callable[[Case], Any]
    takes_scores: bool = False

    def inputs(self, case: Case) -> tuple[Floats, Floats]:
        """Calibration and test features."""
        if self.takes_scores:
            return case.cal, case.test
        return probabilities(case.cal, case.kind), probabilities(case.test, case.kind)


def sklearn_peer(method: str) -> Peer:
    """scikit-learn's calibrator of this name, on a model that is fitted already."""

    def make(case: Case) -> Any:
        from sklearn.frozen import FrozenEstimator  # the scikit-learn of dirichletcal's day has none

        model = (_Logits if case.kind == "logit" else _Probabilities)(case.classes)
        return CalibratedClassifierCV(FrozenEstimator(model), method=method)

    return Peer("scikit-learn", make, takes_scores=True)


def probmetrics_peer(name: str) -> Peer:
    """A calibrator of probmetrics, by the name of its method."""

    def make(case: Case) -> Any:
        from probmetrics.calibrators import get_calibrator

        return get_calibrator(name)

    return Peer("probmetrics", make)


def dirichletcal_peer(module: str, name: str) -> Peer:
    """A calibrator of dirichletcal with its defaults."""

    def make(case: Case) -> Any:
        logging.getLogger().setLevel(logging.CRITICAL)  # it logs every step that does not go down
        return getattr(importlib.import_module(f"dirichletcal.calib.{module}"), name)()

    return Peer("dirichletcal", make)


def mapie_peer(calibrator: str) -> Peer:
    """MAPIE's top-label calibrator."""

    def make(case: Case) -> Any:
        from mapie.calibration import TopLabelCalibrator

        return TopLabelCalibrator(_Probabilities(case.classes), calibrator=calibrator, cv="prefit")

    return Peer("mapie", make)


class _Netcal:
    """A calibrator of netcal, which transforms probabilities, as a model."""

    def __init__(self, calibrator: Any) -> None:
        self.calibrator = calibrator

    def fit(self, X: Floats, y: Labels) -> None:
        self.calibrator.fit(X, y)

    def predict_proba(self, X: Floats) -> Floats:
        return np.asarray(self.calibrator.transform(X), dtype=np.float64)


def netcal_peer(name: str) -> Peer:
    """A calibrator of netcal with its defaults, which is fitted by maximum likelihood."""

    def make(case: Case) -> Any:
        return _Netcal(getattr(importlib.import_module("netcal.scaling"), name)())

    return Peer("netcal", make)


PEERS: Mapping[str, Peer] = {
    "keep the model": Peer("scikit-learn", lambda case: _Probabilities(case.classes)),
    "sklearn sigmoid": sklearn_peer("sigmoid"),
    "sklearn isotonic": sklearn_peer("isotonic"),
    "sklearn temperature": sklearn_peer("temperature"),
    "probmetrics temperature": probmetrics_peer("temp-scaling"),
    "probmetrics ts-mix": probmetrics_peer("ts-mix"),
    "probmetrics svs": probmetrics_peer("svs"),
    "probmetrics sms": probmetrics_peer("sms"),
    "dirichletcal vector": dirichletcal_peer("vectorscaling", "VectorScaling"),
    "dirichletcal full": dirichletcal_peer("fulldirichlet", "FullDirichletCalibrator"),
    "mapie top-label sigmoid": mapie_peer("sigmoid"),
    "mapie top-label isotonic": mapie_peer("isotonic"),
}
NETCAL: Mapping[str, Peer] = {
    "netcal temperature": netcal_peer("TemperatureScaling"),
    "netcal logistic": netcal_peer("LogisticCalibration"),
}
"""Only of `multiclass.py --beside`."""


# ------------------------------------------------------------------------------------------------------------- the run


def one_line(case: Case, name: str) -> dict[str, Any]:
    """Losses and seconds of one peer on one case, or a note that says why there are none."""
    peer = PEERS[name] if name in PEERS else NETCAL[name]
    line: dict[str, Any] = {"source": case.source, "case": case.name, "seed": case.seed, "classes": case.classes}
    line |= {"rows": len(case.cal_labels), "peer": name, "note": ""}
    line["version"] = f"{peer.package} {importlib.metadata.version(peer.package)}"
    start = time.process_time()
    try:
        with warnings.catch_warnings(), _at_most(MOST_SECONDS):
            warnings.simplefilter("ignore")
            p, line["seconds"] = _fitted(peer, case)
    except Exception as error:  # any peer may fail in any way, and the others go on
        if time.process_time() - start > 0.95 * MOST_SECONDS:  # whatever the peer made of being stopped
            return line | {"note": f"more than {MOST_SECONDS} s"}
        return line | {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"}
    if peer.package == "mapie":
        return line | {"tl ece": top_label_error(p, case.test_labels)}
    if not np.isfinite(p).all():
        return line | {"note": "some probabilities are not finite"}
    return line | dict(zip(LOSSES, losses(p, case.test_labels), strict=True))


def _fitted(peer: Peer, case: Case) -> tuple[Floats, float]:
    model = peer.make(case)
    features, new = peer.inputs(case)
    start = time.process_time()
    model.fit(features, case.cal_labels)
    seconds = time.process_time() - start
    return np.asarray(model.predict_proba(new), dtype=np.float64), seconds


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def warm_up(names: Sequence[str]) -> None:
    """Fit each peer once to a few rows, so that no first fit pays for imports."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    tiny = Case("", "", 0, "logit", rng.normal(size=(60, 3)), labels, rng.normal(size=(60, 3)), labels, 3)
    for name in names:
        one_line(tiny, name)


def run(store: Path, cache: Path | None, full: bool, names: Sequence[str], sources: Sequence[str] | None) -> None:
    """Append to the file the lines that it does not have."""
    done = set() if not store.exists() else {tuple(key) for key in pd.read_csv(store)[KEY].itertuples(index=False)}
    warm_up(names)
    with store.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for case in cases(full, cache):
            if sources and case.source not in sources:
                continue
            for name in names:
                if (case.name, case.seed, name) not in done:
                    writer.writerow({key: _short(value) for key, value in one_line(case, name).items()})
            file.flush()
            print(case, file=sys.stderr, flush=True)


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def table(found: pd.DataFrame) -> str:
    """Means and mean ranks by peer, over the cases on which every peer with losses has them; failures beside them."""
    shown = found[found["peer"].map(lambda name: not name.startswith("mapie"))]
    wide = shown.pivot(index=["case", "seed"], columns="peer", values=list(LOSSES)).dropna()
    rows = pd.DataFrame({name: wide[name].mean() for name in LOSSES})
    rows["rank"] = wide["log loss"].rank(axis=1).mean()
    rows["brier rank"] = wide["brier"].rank(axis=1).mean()
    rows["seconds"] = found.groupby("peer")["seconds"].median()
    rows["failed"] = found["note"].notna().groupby(found["peer"]).sum()
    shown = rows.sort_values("rank").rename_axis(None)
    return f"{len(wide)} cases; seconds are medians\n{shown.to_string(float_format=lambda value: f'{value:.4f}')}"


def top_label_table(found: pd.DataFrame) -> str:
    """Mean top-label error and its mean rank by peer, over the cases on which every peer has it."""
    wide = found.pivot(index=["case", "seed"], columns="peer", values="tl ece").dropna()
    rows = pd.DataFrame({"tl ece": wide.mean(), "rank": wide.rank(axis=1).mean()}).sort_values("rank")
    return (
        f"top label, {len(wide)} cases\n{rows.rename_axis(None).to_string(float_format=lambda value: f'{value:.4f}')}"
    )


def time_netcal(rows: int = 50_000, classes: int = 1_000) -> None:
    """Seconds of netcal's calibration errors on random probabilities in single precision.

    netcal has the error of the top label; the class-wise one is a loop of its binary error over the classes.
    """
    from netcal.metrics import ACE, ECE

    rng = np.random.default_rng(0)
    p = rng.standard_gamma(0.1, size=(rows, classes)).astype(np.float32) + np.float32(1e-9)
    p /= p.sum(axis=1, keepdims=True)
    labels = rng.integers(classes, size=rows)
    for name, measure in {"ECE": ECE(BINS), "ACE": ACE(BINS)}.items():
        start = time.process_time()
        top = measure.measure(p, labels)
        middle = time.process_time()
        by_class = np.mean([measure.measure(p[:, k], (labels == k).astype(np.int64)) for k in range(classes)])
        end = time.process_time()
        print(f"netcal {name}: top label {top:.6f} in {middle - start:.2f} s")
        print(f"netcal {name}: class-wise {by_class:.6f} in {end - middle:.2f} s")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first seed of each, and the small cover types")
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of base models")
    parser.add_argument("--store", type=Path, help="CSV file that the lines are appended to")
    parser.add_argument("--read", type=Path, help="CSV file of losses; nothing is run")
    parser.add_argument("--netcal", action="store_true", help="time netcal's calibration errors and nothing else")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--sources", nargs="+", choices=["deep net", "cover type", "uci"])
    given = parser.parse_args()
    if given.netcal:
        time_netcal()
        return
    if given.read is None and given.store is None:
        parser.error("one of --store, --read and --netcal is needed")
    if given.read is None:
        run(given.store, given.cache, not given.quick, given.peers, given.sources)
    found = pd.read_csv(given.read or given.store)
    ran = found.groupby("peer").size()
    everywhere = found[found["peer"].map(ran) == ran.max()]
    for part in (everywhere, found) if len(everywhere) < len(found) else (found,):
        print(table(part) + "\n\n" + top_label_table(part) + "\n")


if __name__ == "__main__":
    main()
