"""Which multiclass calibrator is best on real data: losses on test rows of ours, next to those of other packages.

    python benchmarks/multiclass.py --quick --gate                       # data that ship with scikit-learn, a minute
    python benchmarks/multiclass.py --cache folder --store ours.csv      # every case; scores of base models are kept
    python benchmarks/multiclass.py --read ours.csv docs/benchmarks/multiclass_peers.csv      # the tables
    python benchmarks/multiclass.py --read ... --without "dirichletcal full" MatrixScaling    # with more cases
    python benchmarks/multiclass.py --speed --gate                       # passes, time and memory with 100 classes
    python benchmarks/multiclass.py --speed --quick --gate               # the same with 2,000 rows, without memory
    python benchmarks/multiclass.py --beside                             # CIFAR-100, beside probmetrics and netcal

Cases and data: `multiclass_pools.py`. Losses and the peers: `multiclass_peers.py`. A table gives, over the cases that
every method has, the mean log loss, its mean rank with a standard error over cases, and the same of the Brier score;
"behind" is the share of cases in which a method's log loss is above that of the first method in rank;
then the errors of the predicted class (TL-ECE) and of every class (CW-ECE) with 15 bins of equal width. Top-label
binning tells the predicted class alone, and class-wise binning has rows that do not sum to 1: they have their own error
and no loss.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data_folder import data_folder
from measure import Job
from measure import run as measure
from multiclass_peers import LOSSES, class_wise_error, losses, top_label_error, warm_up
from multiclass_peers import one_line as peer_line
from multiclass_pools import Case, cases, shipped_cases
from threadpoolctl import threadpool_limits

from calibrant import BetaScaling, IsotonicCalibrator, TemperatureScaling, metrics
from calibrant.fits.multiclass.softmax import LogRows
from calibrant.multiclass import (
    ClasswiseHistogramBinning,
    DirichletScaling,
    MatrixScaling,
    MulticlassAutoCalibrator,
    Reduction,
    StructuredScaling,
    TopLabelHistogramBinning,
    VectorScaling,
)

MOST_HARM = 0.002
"""Nats by which `calibrate` may be worse than the original model, in the mean over cases."""

FAR, ENOUGH_CASES = 0.02, 30
"""Nats by which it may be behind the best method, in the mean; and cases from which on ranks tell something."""

MOST_FREE = 20
"""Largest number of classes with which the matrix and the Dirichlet map are run: they have K (K + 1) parameters."""

MOST_PASSES = {"VectorScaling": 20.0, "DirichletScaling": 60.0, "calibrate": 150.0}
"""Passes over the rows, as a count and, on an idle machine, in time."""

MOST_MADE_UP_PASSES = {"VectorScaling": 30.0, "DirichletScaling": 260.0, "calibrate": 260.0}
"""The same for 2,000 rows of made-up logits, which are harder: they are larger, and less alike, than a network's."""

FEW_CLASSES, MOST_PASSES_OF_FEW = 10, 2_000.0
"""Limit on the time of `calibrate` with 5,000 rows of this many made-up logits, in passes: about 1.4 s, of which small
steps are the most. With exact Newton steps in every comparison it was 4,100."""

MOST_MEMORY, NOISE, QUICK_NOISE = 2.0, 1.25, 4.0
"""Peak memory beyond the scores, in units of them; and by how much a limit on time may be missed, as machines are
noisy: with 5,000 rows, and with 2,000, where work that does not grow with the rows counts for more."""

OURS: Mapping[str, Callable[[], Any]] = {
    "calibrate": MulticlassAutoCalibrator,
    "TemperatureScaling": TemperatureScaling,
    "VectorScaling": VectorScaling,
    "MatrixScaling": MatrixScaling,
    "DirichletScaling": DirichletScaling,
    "StructuredScaling": StructuredScaling,
    "beta, normalized": lambda: Reduction("class-wise", BetaScaling(), normalized=True),
    "isotonic, normalized": lambda: Reduction("class-wise", IsotonicCalibrator(), normalized=True),
    "top-label binning": TopLabelHistogramBinning,
    "class-wise binning": ClasswiseHistogramBinning,
}
KEY = ["case", "seed", "peer"]


def one_line(case: Case, name: str) -> dict[str, Any]:
    """Losses and seconds of one method on one case."""
    line: dict[str, Any] = {"source": case.source, "case": case.name, "seed": case.seed, "classes": case.classes}
    line |= {"rows": len(case.cal_labels), "peer": name, "version": "calibrant", "note": ""}
    if case.classes > MOST_FREE and name in ("MatrixScaling", "DirichletScaling"):
        return line | {"note": f"more than {MOST_FREE} classes"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        fitted = OURS[name]().fit(case.cal, case.cal_labels, classes=range(case.classes), score_type=case.kind)
        line["seconds"] = time.process_time() - start
        p = np.asarray(fitted.transform(case.test), dtype=np.float64)
    if name == "top-label binning":
        return line | {"tl ece": top_label_error(_named(fitted, case, p), case.test_labels)}
    if name == "class-wise binning":
        return line | {"cw ece": class_wise_error(p, case.test_labels)}
    return line | dict(zip(LOSSES, losses(p, case.test_labels), strict=True))


def _named(fitted: Any, case: Case, p: np.ndarray) -> np.ndarray:
    """The probability of the predicted class in its column, NaN in the others."""
    told = np.full((len(p), case.classes), np.nan)
    told[np.arange(len(p)), fitted.map_.labels(case.test)[:, 0]] = p[:, 0]
    return told


def run(found: Iterable[Case], names: Sequence[str], store: Path | None) -> pd.DataFrame:
    """Lines of every case and method; those that the file has already are not run again."""
    old = pd.read_csv(store) if store is not None and store.exists() else pd.DataFrame(columns=KEY)
    done = {tuple(key) for key in old[KEY].itertuples(index=False)}
    lines: list[dict[str, Any]] = []
    for case in found:
        lines += [one_line(case, name) for name in names if (case.name, case.seed, name) not in done]
        if store is not None and lines:
            pd.concat([old, pd.DataFrame(lines)]).to_csv(store, index=False, float_format="%.6g")
        print(case, file=sys.stderr, flush=True)
    return pd.concat([old, pd.DataFrame(lines)])


# ---------------------------------------------------------------------------------------------------------- the tables


def table(title: str, found: pd.DataFrame) -> str:
    """Mean losses and mean ranks by method, over the cases that every method of the table has."""
    wide = found.pivot(index=["case", "seed"], columns="peer", values=list(LOSSES))
    kept = [name for name in wide["log loss"].columns if wide["log loss"][name].notna().mean() > 0.5]
    wide = wide.loc[wide["log loss"][kept].notna().all(axis=1)]
    rows = pd.DataFrame(index=kept)
    for loss, short in (("log loss", "rank"), ("brier", "Brier rank")):
        ranked = wide[loss][kept].rank(axis=1)
        rows[loss], rows[short], rows[f"{short} se"] = wide[loss][kept].mean(), ranked.mean(), ranked.sem()
    for error in ("tl ece", "cw ece"):
        rows[error] = wide[error][kept].mean()
    first = wide["log loss"][kept].rank(axis=1).mean().idxmin()
    rows["behind"] = wide["log loss"][kept].gt(wide["log loss"][first], axis=0).mean()
    rows["seconds"] = found.groupby("peer")["seconds"].median()
    shown = rows.sort_values("rank").to_string(float_format=lambda value: f"{value:.4f}")
    return f"{title}: {len(wide)} cases; seconds are medians\n{shown}"


def binned(found: pd.DataFrame) -> str:
    """Errors of the methods that have no loss, next to the others, over the cases that all of them have."""
    told = []
    for error, name in (("tl ece", "top-label binning"), ("cw ece", "class-wise binning")):
        wide = found.pivot(index=["case", "seed"], columns="peer", values=error)
        kept = [each for each in wide.columns if wide[each].notna().mean() > 0.5]
        if name in kept:
            wide = wide[kept].dropna()
            rows = pd.DataFrame({error: wide.mean(), "rank": wide.rank(axis=1).mean()}).sort_values("rank")
            shown = rows.rename_axis(None).to_string(float_format=lambda value: f"{value:.4f}")
            told.append(f"{error}, {len(wide)} cases\n{shown}")
    return "\n\n".join(told)


def failures(found: pd.DataFrame) -> list[str]:
    """Where `calibrate` is far from the best, does harm or, with many cases, is not first in rank within its error."""
    wide = found.pivot(index=["case", "seed"], columns="peer", values="log loss")
    wide = wide[[name for name in wide.columns if wide[name].notna().mean() > 0.5]].dropna()
    places = wide.rank(axis=1)
    first = places.mean().idxmin()
    behind = places["calibrate"] - places[first]
    told = []
    best = wide.mean().idxmin()
    if wide["calibrate"].mean() > wide[best].mean() + FAR:
        told.append(f"mean log loss {wide['calibrate'].mean():.4f}, far above that of {best}")
    if len(wide) >= ENOUGH_CASES and behind.mean() > behind.sem():
        told.append(f"rank {places['calibrate'].mean():.2f}, behind {first} with {places[first].mean():.2f}")
    if "keep the model" in wide and (wide["calibrate"] - wide["keep the model"]).mean() > MOST_HARM:
        told.append("worse than the model in the mean")
    return told


def kept_lines(found: Iterable[Case]) -> list[dict[str, Any]]:
    """Losses of the models as they are, where no file of peers has them."""
    lines = []
    for case in found:
        scores = np.log(np.maximum(case.test, 2.0**-52)) if case.kind == "probability" else case.test
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        told = losses(e / e.sum(axis=1, keepdims=True), case.test_labels)
        line = {"source": case.source, "case": case.name, "seed": case.seed, "peer": "keep the model", "seconds": 0.0}
        lines.append(line | dict(zip(LOSSES, told, strict=True)))
    return lines


# ----------------------------------------------------------------------------------------------- time with many classes


def hard_rows(rows: int = 5_000, classes: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Logits like those of a network that is too sure of itself, and confuses some classes more than others."""
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=rows)
    alike = rng.normal(size=(classes, 12))
    alike = 3.0 * (alike @ alike.T) / 12
    z = alike[y] + 2.0 * rng.normal(size=(rows, classes))
    z[np.arange(rows), y] += 4.0
    return 1.5 * z, y


def one_pass(z: np.ndarray, y: np.ndarray, slopes: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Log loss and gradient of a matrix of slopes, as anyone would write them: the unit of time."""
    places = np.arange(len(y)), y
    a = z @ slopes.T + intercepts
    a -= a.max(axis=1, keepdims=True)
    e = np.exp(a)
    sums = e.sum(axis=1)
    e /= sums[:, None]
    e[places] -= 1.0
    return np.append((e.T @ z).ravel(), (np.log(sums) - a[places]).sum())


def network_rows(rows: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Logits of a CIFAR-100 network if the data folder has them, else those of :func:`hard_rows`; and their name."""
    file = data_folder() / "cifar_logits" / "cifar100_repvgg_a2_test.npz"
    if not file.exists():
        return *hard_rows(rows), "made-up logits"
    with np.load(file) as found:
        z, y = found["logits"].astype(np.float64), found["labels"].astype(np.int64)
    kept = np.random.default_rng(0).permutation(len(y))[:rows]
    return z[kept], y[kept], "CIFAR-100, RepVGG-A2"


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many rows fits and comparisons read in the meantime: losses, gradients, Hessians, held-out losses."""
    read, found = LogRows.at, [0]

    def at(self: LogRows, places: Any) -> Any:
        z = read(self, places)
        found[0] += len(z)
        return z

    LogRows.at = at  # type: ignore[method-assign]
    try:
        yield found
    finally:
        LogRows.at = read  # type: ignore[method-assign]


def speed(quick: bool) -> list[str]:
    """Passes and peak memory of each fit, printed; what is above its limit is returned.

    The number of passes, rows read by rows given, does not depend on the machine. Time does: its limit is generous.
    """
    z, y, called = (*hard_rows(2_000), "made-up logits") if quick else network_rows(5_000)
    most_passes = MOST_PASSES if called.startswith("CIFAR") else MOST_MADE_UP_PASSES
    z -= np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) + z.max(axis=1, keepdims=True)
    p = np.exp(z)
    size = z.shape[1]
    slopes, none = np.eye(size), np.zeros(size)
    print(f"{called}: {len(z):,} rows of {size} classes")

    def fit(name: str) -> Callable[[], object]:
        return lambda: OURS[name]().fit(z, y, classes=range(size), score_type="logit")

    def error(uncertainty: bool | None) -> Callable[[], object]:
        return lambda: metrics.ece(p, y, notion="class-wise", classes=range(size), uncertainty=uncertainty)

    missed = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name, most in most_passes.items():
            with counted() as found:
                fit(name)()
            passes = found[0] / len(z)
            print(f"{name:<40}{passes:8.1f} passes over the rows (limit {most:g})")
            if passes > most:
                missed.append(f"{name} reads the rows {passes:.0f} times")
        unit = Job("a pass", lambda: [one_pass(z, y, slopes, none) for _ in range(10)])
        value = Job("class-wise ECE, the value", error(False))
        null = Job("class-wise ECE, with its null value", error(None), value.name, 3.0)
        jobs = [Job(name, fit(name), "a pass", most) for name, most in most_passes.items()]
        few, of_few = hard_rows(5_000, FEW_CLASSES)
        start = np.eye(FEW_CLASSES), np.zeros(FEW_CLASSES)
        small = Job("a pass of few classes", lambda: [one_pass(few, of_few, *start) for _ in range(100)])
        named = f"calibrate, {FEW_CLASSES} classes"
        choice = Job(named, lambda: OURS["calibrate"]().fit(few, of_few), small.name, MOST_PASSES_OF_FEW)
        measure([unit, value, null, *jobs, small, choice], 1 if quick else 2, warm_up=False)
        units = {unit.name: unit.cost / 10.0, value.name: value.cost, small.name: small.cost / 100.0}
        for job in (*jobs, null, choice):
            ratio = job.cost / units[str(job.against)]
            print(f"{job.name:<40}{job.cost:8.3f} s {ratio:8.1f} x {job.against} (limit {job.limit:g})")
            if ratio > (job.limit or np.inf) * (QUICK_NOISE if quick else NOISE):
                missed.append(f"{job.name} takes {ratio:.0f} times {job.against}")
        for job in () if quick else jobs:
            tracemalloc.start()
            job.run()
            peak = tracemalloc.get_traced_memory()[1] / z.nbytes
            tracemalloc.stop()
            print(f"{job.name:<40}{peak:8.2f} x the scores at the peak of memory (limit {MOST_MEMORY:g})")
            if peak > MOST_MEMORY:
                missed.append(f"{job.name} takes {peak:.2f} times the memory of the scores")
    return missed


BESIDE = ("TemperatureScaling", "VectorScaling", "StructuredScaling", "calibrate")
BESIDE_PEERS = ("keep the model", "sklearn temperature", "probmetrics temperature", "probmetrics ts-mix")
BESIDE_PEERS += ("probmetrics svs", "probmetrics sms", "netcal temperature", "netcal logistic")


def beside(nets: Sequence[str]) -> None:
    """Losses and time of CIFAR-100 networks by our methods and those of other packages, which must be installed.

    Time is CPU time of the fit on one thread, in units of :func:`one_pass`, timed in the same process.
    """
    import torch  # both packages need it

    torch.set_num_threads(1)
    print(f"{'network':<20}{'method':<25}" + "".join(f"{each:>10}" for each in (*LOSSES, "passes")))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        warm_up(BESIDE_PEERS)
        for case in cases(False):
            if case.source != "deep net":
                break
            for name in (*BESIDE, *BESIDE_PEERS) if case.name in nets else ():
                unit = _seconds_of_a_pass(case)
                line = one_line(case, name) if name in OURS else peer_line(case, name)
                passes = line.get("seconds", np.nan) / unit
                told = "".join(f"{line.get(each, np.nan):10.4f}" for each in LOSSES) + f"{passes:10.1f}"
                print(f"{case.name:<20}{name:<25}{told}  {line['version']} {line['note']}", flush=True)


def _seconds_of_a_pass(case: Case) -> float:
    """CPU time of one pass over the calibration rows: the median of seven."""
    found = []
    for _ in range(7):
        start = time.process_time()
        one_pass(case.cal, case.cal_labels, np.eye(case.classes), np.zeros(case.classes))
        found.append(time.process_time() - start)
    return float(np.median(found))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="data that ship with scikit-learn; with --speed fewer rows"
    )
    parser.add_argument("--cache", type=Path, help="folder that keeps the scores of base models")
    parser.add_argument("--store", type=Path, help="CSV file that the lines are added to")
    parser.add_argument("--read", nargs="+", type=Path, help="CSV files of lines; nothing is run")
    parser.add_argument("--gate", action="store_true", help="exit code 1 unless `calibrate` is first and does no harm")
    parser.add_argument("--without", nargs="+", default=[], help="methods that are left out, which were not run on all")
    parser.add_argument("--sources", nargs="+", choices=["deep net", "cover type", "uci"])
    parser.add_argument("--methods", nargs="+", choices=list(OURS), default=list(OURS))
    parser.add_argument("--speed", action="store_true", help="only time and memory with 100 classes")
    parser.add_argument("--beside", action="store_true", help="only CIFAR-100, beside probmetrics and netcal")
    parser.add_argument("--nets", nargs="+", default=["cifar100_repvgg_a2", "cifar100_resnet20"], help="of --beside")
    given = parser.parse_args()
    if given.beside:
        return beside(given.nets)
    slow = speed(given.quick) if given.speed else []
    if slow:
        print("\n".join(slow))
    if given.gate and slow:
        sys.exit(1)
    if given.speed:
        return
    if given.read:
        found = pd.concat([pd.read_csv(file) for file in given.read]).drop_duplicates(KEY)
    else:
        pool = list(shipped_cases(given.cache) if given.quick else cases(True, given.cache))
        pool = [case for case in pool if given.sources is None or case.source in given.sources]
        found = pd.concat([run(pool, given.methods, given.store), pd.DataFrame(kept_lines(pool))])
    found = found[~found["peer"].isin(given.without)]
    for source, part in found.groupby("source"):
        print(f"\n{table(source, part)}")
    print(f"\n{table('all', found)}\n\n{binned(found)}")
    if "calibrate" not in set(found["peer"]):
        return
    harm = (wide := found.pivot(index=["case", "seed"], columns="peer", values="log loss"))["calibrate"]
    harm = (harm - wide["keep the model"]).dropna()
    print(
        f"\ncalibrate is worse than the model in {(harm > 0).sum()} of {len(harm)} cases, by {harm.max():.4f} at most"
    )
    missed = failures(found)
    fine = "calibrate does no harm and is as good as the best"
    print("\n" + "\n".join(missed or [fine]))
    if given.gate and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
