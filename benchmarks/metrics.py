"""Cost of metrics and of the verdict, as ratios to the least pass over the rows that a binned error needs.

    python benchmarks/metrics.py --rows 1e7           # the published table
    python benchmarks/metrics.py --quick --gate       # what CI runs
    python benchmarks/metrics.py --peers              # against other packages, those that are installed

The baseline casts scores to bins and sums scores and labels by bin (two weighted bincounts). All jobs run in one
process, in turn, round after round, so that a slow spell of the machine hits everything alike. A cost is the median CPU
time over the rounds, on one thread; a ratio is a job's cost divided by its baseline's. Under ``--gate`` a ratio above
1.3 times its limit ends the run with exit code 1. Every number comes with what our function returns by default:
standard errors, intervals, null values. These cost the same at any number of rows, so ratios fall with the rows.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from measure import Job, run
from numpy.typing import NDArray

from calibrant import Tally, metrics
from calibrant.engine import Grid
from calibrant.metrics.binary.resampling import Resampled, bootstrap
from calibrant.verdict import check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Metric = Callable[..., object]

GATE = 1.3
"""CI stops at this many times the limit."""

BASELINE = "cast + two weighted bincounts"
BOOTSTRAP_BASELINE = f"{BASELINE}, 10^6 rows"
BOOTSTRAP_ROWS = 1_000_000
QUICK_ROWS = 4_000_000
PEER_ROWS = (100_000, 1_000_000)

LIMITED: Mapping[str, tuple[Metric, float]] = {
    "ece, 15 bins of equal width": (metrics.ece, 1.5),
    "debiased_ece, equal width": (partial(metrics.debiased_ece, strategy="width"), 2.0),
    "check, the verdict with its intervals": (check, 8.0),
}
OTHERS: Mapping[str, Metric] = {
    "debiased_ece, equal mass": metrics.debiased_ece,
    "validity_curve": metrics.validity_curve,
    "brier": metrics.brier,
    "log_loss": metrics.log_loss,
    "auc": metrics.auc,
    "decompose": metrics.decompose,
    "smooth_ece": metrics.smooth_ece,
    "smooth_ece, null=False": partial(metrics.smooth_ece, null=False),
    "skce": metrics.skce,
    "ecce": metrics.ecce,
    "spiegelhalter": metrics.spiegelhalter,
    "recalibration": metrics.recalibration,
    "ici, repetitions=0": partial(metrics.ici, repetitions=0),
}


# --- the data and the jobs --------------------------------------------------------------------------------------------


def make_rows(rows: int, seed: int = 1) -> tuple[Floats, Ints]:
    """Normal log-odds (mean -0.3, sd 1.3); the truth has slope 0.6 on them, so the model is miscalibrated."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.3, 1.3, rows)
    return 1.0 / (1.0 + np.exp(-z)), (rng.random(rows) < 1.0 / (1.0 + np.exp(0.3 - 0.6 * z))).astype(np.int64)


def two_bincounts(scores: Floats, labels: Ints) -> tuple[object, object]:
    i = (scores * 15).astype(np.int64)
    return np.bincount(i, weights=scores, minlength=16), np.bincount(i, weights=labels, minlength=16)


def plug_in(sample: Resampled) -> Floats:
    return np.asarray(np.abs(sample.events - sample.score_sum).sum(axis=-1) / sample.n.sum(axis=-1))


def jobs_on(scores: Floats, labels: Ints, every: bool) -> tuple[list[Job], list[Job]]:
    """Jobs on rows, and the same on a gridded tally that is ready."""
    few = slice(0, BOOTSTRAP_ROWS)
    bins = metrics.Bins.of(scores[few], labels[few])
    on_rows = [
        Job(BASELINE, partial(two_bincounts, scores, labels)),
        Job(BOOTSTRAP_BASELINE, partial(two_bincounts, scores[few], labels[few])),
        Job("1,000 bootstraps of a 15-bin ECE", partial(bootstrap, bins, plug_in), BOOTSTRAP_BASELINE, 1.0),
    ]
    tally = Tally.from_arrays(scores, labels, grid=Grid())
    on_tally = []
    table = {name: (metric, None) for name, metric in OTHERS.items()} if every else {}
    for name, (metric, limit) in {**LIMITED, **table}.items():
        on_rows.append(Job(name, partial(metric, scores, labels), BASELINE, limit))
        on_tally.append(Job(name, partial(metric, tally)))
    if every:
        on_rows.append(Job("a gridded tally", partial(Tally.from_arrays, scores, labels, grid=Grid()), BASELINE))
        on_rows.append(Job("np.sort", partial(np.sort, scores), BASELINE))
    return on_rows, on_tally if every else []


def report(on_rows: Iterable[Job], on_tally: Iterable[Job]) -> bool:
    """Print the table; true when no ratio is beyond its gate."""
    jobs = {job.name: job for job in on_rows}
    ready = {job.name: job for job in on_tally}
    within = True
    head = f"{'CPU time':<42}{'ms':>9}{'wall ms':>9}{'ratio':>8}{'limit':>7}{'gate':>7}"
    print(f"\n{head}{'':<4}{'from a tally, ms' if ready else ''}".rstrip())
    for job in jobs.values():
        text = f"{job.name:<42}{1e3 * job.cost:>9.1f}{1e3 * statistics.median(job.wall):>9.1f}"
        verdict = ""
        if job.against is not None:
            ratio = job.cost / jobs[job.against].cost
            text += f"{ratio:>8.2f}"
            if job.limit is not None:
                verdict = "ok" if ratio <= job.limit else "MISS" if ratio <= GATE * job.limit else "FAIL"
                within &= verdict != "FAIL"
                text += f"{job.limit:>7.1f}{GATE * job.limit:>7.2f}"
        late = f"{1e3 * ready[job.name].cost:>12.1f}" if job.name in ready else ""
        print(f"{text:<84}{verdict:<6}{late}".rstrip())
    print(f"\nratio: to {BASELINE} on the same rows; the bootstraps' to the one on 10^6 rows")
    return within


# --- peers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peer:
    """Another package's function for the same quantity; ``differs`` says where it is not quite the same."""

    package: str
    module: str
    function: str
    call: Callable[[Callable[..., Any], Floats, Ints], object]
    differs: str = ""


def _truth_first(f: Callable[..., Any], s: Floats, y: Ints) -> object:
    return f(y, s)


def _scores_first(f: Callable[..., Any], s: Floats, y: Ints) -> object:
    return f(s, y)


def _scored(name: str) -> Callable[[Callable[..., Any], Floats, Ints], object]:
    def call(f: Callable[..., Any], s: Floats, y: Ints) -> object:
        loss = getattr(importlib.import_module("model_diagnostics.scoring"), name)()
        return f(y, s, scoring_function=loss)

    return call


PEERS: Mapping[str, tuple[Metric, Sequence[Peer]]] = {
    "ECE, 15 bins of equal width": (
        metrics.ece,
        (
            Peer("relplot", "relplot.metrics", "binnedECE", lambda f, s, y: f(s, y, nbins=15), "value only"),
            Peer("probcal", "probcal.metrics", "ece", lambda f, s, y: f(y, s, strategy="width"), "value only"),
            Peer(
                "MAPIE",
                "mapie.metrics.calibration",
                "expected_calibration_error",
                lambda f, s, y: f(y, s, num_bins=16, split_strategy="uniform"),
                "value only; 16 edges",
            ),
            Peer("netcal", "netcal.metrics", "ECE", lambda f, s, y: f(15).measure(s, y), "value only"),
            Peer(
                "calibre",
                "calibre.metrics",
                "expected_calibration_error",
                lambda f, s, y: f(y, s, n_bins=15),
                "value only",
            ),
            Peer(
                "mcgrad", "mcgrad.metrics", "expected_calibration_error", lambda f, s, y: f(y, s, num_bins=15), "value"
            ),
            Peer("uncertainty-calibration", "calibration", "get_ece", _scores_first, "value only"),
        ),
    ),
    "ECE, the same, value only": (
        partial(metrics.validity_curve, n_bins=15),
        (Peer("relplot", "relplot.metrics", "binnedECE", lambda f, s, y: f(s, y, nbins=15), "checks no input"),),
    ),
    "debiased error, 15 bins of equal mass": (
        metrics.debiased_ece,
        (
            Peer("probcal", "probcal.metrics", "ece_debiased", _truth_first, "value only"),
            Peer("uncertainty-calibration", "calibration", "get_calibration_error", _scores_first, "value only"),
        ),
    ),
    "smooth ECE, null=False": (
        partial(metrics.smooth_ece, null=False),
        (
            Peer("relplot", "relplot.metrics", "smECE", _scores_first),
            Peer("probcal", "probcal.metrics", "smooth_ece", _truth_first, "another number: smoothed in log-odds"),
        ),
    ),
    "smooth ECE with its null value": (
        metrics.smooth_ece,
        (Peer("relplot", "relplot.metrics", "smECE", _scores_first, "no null value"),),
    ),
    "cumulative difference with p-value (KS)": (
        partial(metrics.ecce_test, statistic="max", method="asymptotic"),
        (Peer("MAPIE", "mapie.metrics.calibration", "kolmogorov_smirnov_p_value", _truth_first),),
    ),
    "its range with p-value (Kuiper)": (
        partial(metrics.ecce_test, statistic="range", method="asymptotic"),
        (
            Peer("MAPIE", "mapie.metrics.calibration", "kuiper_p_value", _truth_first),
            Peer("mcgrad", "mcgrad.metrics", "ecce_pvalue", _truth_first),
        ),
    ),
    "cumulative difference": (
        metrics.ecce,
        (Peer("probcal", "probcal.metrics", "ecce", _truth_first),),
    ),
    "CORP decomposition, Brier score": (
        metrics.decompose,
        (
            Peer("model-diagnostics", "model_diagnostics.scoring", "decompose", _scored("SquaredError")),
            Peer("probcal", "probcal.metrics", "murphy_decomposition", _truth_first, "bins, not isotonic"),
        ),
    ),
    "CORP decomposition, log loss": (
        partial(metrics.decompose, loss="log"),
        (Peer("model-diagnostics", "model_diagnostics.scoring", "decompose", _scored("LogLoss")),),
    ),
    "decomposition by bins, Brier score": (
        partial(metrics.decompose, method="bins", n_bins=10),
        (Peer("probcal", "probcal.metrics", "murphy_decomposition", _truth_first),),
    ),
    "Spiegelhalter's z": (
        metrics.spiegelhalter,
        (
            Peer("MAPIE", "mapie.metrics.calibration", "spiegelhalter_p_value", _truth_first),
            Peer("probcal", "probcal.metrics", "spiegelhalter_z", _truth_first),
        ),
    ),
    "SKCE": (
        metrics.skce,
        (
            Peer(
                "probcal",
                "probcal.metrics",
                "skce",
                lambda f, s, y: f(y, s, estimator="ul"),
                "n/2 pairs instead of all",
            ),
        ),
    ),
    "reliability curve, 15 bins": (
        metrics.Bins.of,
        (Peer("scikit-learn", "sklearn.calibration", "calibration_curve", lambda f, s, y: f(y, s, n_bins=15)),),
    ),
    "Brier score": (
        metrics.brier,
        (
            Peer("scikit-learn", "sklearn.metrics", "brier_score_loss", _truth_first, "value only"),
            Peer("probcal", "probcal.metrics", "brier_score", _truth_first, "value only"),
        ),
    ),
    "log loss": (
        metrics.log_loss,
        (
            Peer("scikit-learn", "sklearn.metrics", "log_loss", _truth_first, "value only"),
            Peer("probcal", "probcal.metrics", "log_loss", _truth_first, "value only, clipped"),
        ),
    ),
    "AUC": (
        metrics.auc,
        (Peer("scikit-learn", "sklearn.metrics", "roc_auc_score", _truth_first, "value only"),),
    ),
    "slope and intercept": (
        metrics.recalibration,
        (Peer("probcal", "probcal.metrics", "calibration_slope", _truth_first, "slope only"),),
    ),
}


def installed(peer: Peer) -> Callable[..., Any] | None:
    try:
        return getattr(importlib.import_module(peer.module), peer.function)  # type: ignore[no-any-return]
    except ImportError:
        return None


def peer_jobs(metric: Metric, peers: Iterable[Peer], scores: Floats, labels: Ints) -> list[tuple[Job, str]]:
    """Ours first, then each peer that is installed."""
    jobs = [(Job("calibrant", partial(metric, scores, labels)), "")]
    for peer in peers:
        function = installed(peer)
        if function is not None:
            name = f"{peer.package} {peer.function}"
            jobs.append((Job(name, partial(peer.call, function, scores, labels)), peer.differs))
    return jobs


def compare_with_peers(rounds: int) -> None:
    print("versions:", ", ".join(peer_versions()))
    print("slower: how many times the CPU time of ours the peer takes; below 1 the peer is faster")
    print(f"\n{'':<46}{'10^5 rows':^27}{'10^6 rows':^27}")
    print(f"{'quantity / package and function':<46}" + 2 * f"{'CPU ms':>9}{'wall ms':>9}{'slower':>9}")
    for quantity, (metric, peers) in PEERS.items():
        columns = []
        for rows in PEER_ROWS:
            jobs = peer_jobs(metric, peers, *make_rows(rows))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what peers warn of is not ours to show
                run([job for job, _ in jobs], rounds)
            columns.append(jobs)
        print(quantity)
        for small, large in zip(*columns, strict=True):
            cells = "".join(
                _peer_cell(job, column[0][0]) for (job, _), column in zip((small, large), columns, strict=True)
            )
            print(f"  {small[0].name:<44}{cells}  {small[1]}".rstrip(), flush=True)


def _peer_cell(job: Job, ours: Job) -> str:
    times = "" if job is ours else f"{job.cost / ours.cost:.2f}"
    return f"{1e3 * job.cost:>9.2f}{1e3 * statistics.median(job.wall):>9.2f}{times:>9}"


def peer_versions() -> list[str]:
    packages = dict.fromkeys(peer.package for _, peers in PEERS.values() for peer in peers)
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of metrics and of the verdict, as ratios to plain numpy.")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7, help="at least 5; default 7")
    parser.add_argument("--quick", action="store_true", help="4 million rows, and only what has a limit")
    parser.add_argument("--gate", action="store_true", help="exit code 1 when a ratio exceeds 1.3 x its limit")
    parser.add_argument("--peers", action="store_true", help="time other packages instead, at 10^5 and 10^6 rows")
    options = parser.parse_args()
    if options.rounds < 5:
        parser.error("a median needs at least 5 rounds")
    rows = QUICK_ROWS if options.quick else options.rows
    about = f"{options.rounds} rounds, Python {platform.python_version()}, numpy {np.__version__}"
    if options.peers:
        print(about, flush=True)
        compare_with_peers(options.rounds)
        return 0
    print(f"{rows:,} rows, {about}", flush=True)
    on_rows, on_tally = jobs_on(*make_rows(rows), every=not options.quick)
    run([*on_rows, *on_tally], options.rounds)
    within = report(on_rows, on_tally)
    if options.gate and not within:
        print(f"\nFAIL: a ratio is more than {GATE} times its limit")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
