"""What other Python packages compute on the data sets of this folder, for test_metrics_against_peers.py.

Run in an environment of its own, never in the tests'; the versions used are in ``peers.json``:
    pip install relplot uncertainty-calibration MAPIE netcal model-diagnostics probcal calibre MCGrad scikit-learn
    python tests/reference/metrics/peers.py
Weighted data are passed as repeated rows. Conventions of each peer are noted where it is called.
"""

from __future__ import annotations

import csv
import json
import math
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
NAMES = ("smooth", "calibrated", "rare", "heaped", "weighted")
PACKAGES = (
    *("relplot", "uncertainty-calibration", "MAPIE", "netcal", "model-diagnostics", "probcal", "calibre", "MCGrad"),
    *("scikit-learn", "numpy", "scipy"),
)


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels, each row as often as its weight says."""
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [int(row["weight"]) for row in rows]
    return np.repeat([float(row["score"]) for row in rows], times), np.repeat([int(row["y"]) for row in rows], times)


def relplot(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """SmoothECE on a mesh of 200 points or more, the fixed point by ten halvings: right to about 0.002."""
    import relplot

    value, width = relplot.smECE(p, y, return_width=True)
    return {
        "smooth_ece": value,
        "bandwidth": width,
        "smooth_ece_at_0.05": relplot.metrics.smECE_sigma(p, y, sigma=0.05),
        "smooth_ece_at_0.2": relplot.metrics.smECE_sigma(p, y, sigma=0.2),
        "ece_10_width": relplot.metrics.binnedECE(p, y, nbins=10),
    }


def uncertainty_calibration(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Bins closed on the right; mass bins cut half-way between neighbors, a cut inside a tie sends it all down.

    debias=True: the root of the sum of squared gaps less rate (1 - rate) / (n_b - 1), floored at 0 after the sum; a bin
    with one row counts as 0. ``debiased`` lets the package choose: each distinct score by itself when those are fewer
    than a quarter of the rows, else 15 mass bins. For the power 1 its correction is random: not stored.
    """
    import calibration

    return {
        "ece_15_width": calibration.get_ece(p, y, num_bins=15),
        "ece_10_width": calibration.get_ece(p, y, num_bins=10),
        "ece_10_mass": calibration.get_ece_em(p, y, num_bins=10),
        "rms_15_mass": calibration.lower_bound_scaling_ce(p, y, p=2, debias=False, num_bins=15),
        "debiased": calibration.get_calibration_error(p, y, p=2, debias=True),
        "debiased_15_width": calibration.lower_bound_scaling_ce(
            p, y, p=2, debias=True, num_bins=15, binning_scheme=calibration.utils.get_equal_prob_bins
        ),
        "debiased_15_mass": calibration.lower_bound_scaling_ce(p, y, p=2, debias=True, num_bins=15),
        "debiased_10_mass": calibration.lower_bound_scaling_ce(p, y, p=2, debias=True, num_bins=10),
    }


def mapie(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Bins closed on the right, and ``num_bins`` edges make one bin fewer: 15 bins are asked for as 16.

    Its lowest bin of equal mass holds the lowest score alone. Scores get a relative jitter of 1e-8, so that ties are
    broken at random and the statistics move by as much. The walk of Kuiper's statistic does not start at 0, as the
    definition (Arrieta-Ibarra et al. 2022) has it do. Spiegelhalter's p-value is of one side. The law of the largest
    deviation is summed from too few terms for large statistics, so p-values can be negative, of the order 1e-11.
    """
    from mapie.metrics import calibration as m

    return {
        "ece_15_width": m.expected_calibration_error(y, p, num_bins=16, split_strategy="uniform"),
        "ece_10_mass": m.expected_calibration_error(y, p, num_bins=11, split_strategy="quantile"),
        "ks": m.kolmogorov_smirnov_statistic(y, p),
        "ks_p": m.kolmogorov_smirnov_p_value(y, p),
        "kuiper": m.kuiper_statistic(y, p),
        "kuiper_p": m.kuiper_p_value(y, p),
        "spiegelhalter": m.spiegelhalter_statistic(y, p),
        "spiegelhalter_p_one_sided": m.spiegelhalter_p_value(y, p),
        "length_scale": m.length_scale(p),
        "cdf_ks": [m.kolmogorov_smirnov_cdf(x) for x in (0.5, 1.0, 2.0, 3.0)],
        "cdf_kuiper": [m.kuiper_cdf(x) for x in (0.8, 1.5, 2.5, 4.0)],
    }


def netcal(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Bins closed on the left, the last on both sides; ACE is the plain mean over bins that are not empty.

    Bins of equal mass are not stored: with ties its quantiles coincide and it stops with an error.
    """
    from netcal.metrics import ACE, ECE, MCE

    return {
        "ece_15_width": ECE(15).measure(p, y),
        "ece_10_width": ECE(10).measure(p, y),
        "mce_15_width": MCE(15).measure(p, y),
        "ace_15_width": ACE(15).measure(p, y),
    }


def model_diagnostics(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from model_diagnostics.scoring import LogLoss, SquaredError, decompose

    return {
        "brier": decompose(y, p, scoring_function=SquaredError()).to_dicts()[0],
        "log": decompose(y, p, scoring_function=LogLoss()).to_dicts()[0],
    }


def probcal(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Bins closed on the left; mass bins cut at numpy's quantiles, a cut on a tie sends it all up.

    ``debiased_*`` is the sum of the roots of each bin's own corrected gap, floored bin by bin: another number than
    Kumar, Liang and Ma's, and biased upwards. Its SmoothECE smooths on the log-odds scale: another number too. SKCE
    carries the factor 2 of the two-class vector form (both classes' residuals).
    """
    from probcal import metrics as m

    murphy, walk, hl = m.murphy_decomposition(y, p, n_bins=10, strategy="width"), m.ecce(y, p), m.hosmer_lemeshow(y, p)
    spiegelhalter = m.spiegelhalter_z(y, p)
    return {
        "ece_15_width": m.ece(y, p, n_bins=15, strategy="width"),
        "ece_10_mass": m.ece(y, p, n_bins=10, strategy="mass"),
        "mce_15_width": m.ece(y, p, n_bins=15, strategy="width", norm="max"),
        "rms_15_width": m.ece(y, p, n_bins=15, strategy="width", norm="l2"),
        "debiased_15_width_by_bin": m.ece_debiased(y, p, n_bins=15, strategy="width"),
        "sweep": m.ece_sweep(y, p, max_bins=len(p)),
        "murphy_10_width": {key: getattr(murphy, key) for key in ("reliability", "resolution", "uncertainty")},
        "ecce_max": walk.stat_max,
        "ecce_mean": walk.stat_mean,
        "hosmer_lemeshow": [hl.statistic, hl.df, hl.p_value],
        "spiegelhalter": [spiegelhalter.z, spiegelhalter.p_value],
        "skce_laplace_0.2": m.skce(y, p, estimator="uq", kernel="laplace", bandwidth=0.2),
        "skce_laplace_1": m.skce(y, p, estimator="uq", kernel="laplace", bandwidth=1.0),
        "skce_gaussian_0.2": m.skce(y, p, estimator="uq", kernel="gaussian", bandwidth=0.2),
        "skce_median": m.skce(y, p, estimator="uq", kernel="laplace"),
        "skce_biased_laplace_0.2": m.skce(y, p, estimator="biased", kernel="laplace", bandwidth=0.2),
        "smooth_ece_log_odds": m.smooth_ece(y, p),
        "intercept": m.calibration_intercept(y, p),
        "slope": m.calibration_slope(y, p),
        "brier": m.brier_score(y, p),
        "log_loss": m.log_loss(y, p),
    }


def calibre(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Bins closed on the left. Its ``binned_calibration_error`` weighs every bin alike: not stored."""
    from calibre import metrics as m

    return {
        "ece_15_width": m.expected_calibration_error(y, p, n_bins=15),
        "ece_10_width": m.expected_calibration_error(y, p, n_bins=10),
        "mce_15_width": m.maximum_calibration_error(y, p, n_bins=15),
    }


def mcgrad(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Kuiper's statistic, with a walk that starts at 0; tied rows in the order in which sorting leaves them."""
    from mcgrad import metrics as m

    return {"ecce": m.ecce(y, p), "ecce_sigma": m.ecce_sigma(y, p), "ecce_p": m.ecce_pvalue(y, p)}


def walk_above_zero() -> dict[str, float]:
    """Kuiper's statistic of a walk that never comes back to where it starts: 0.9, 1.7, 2.4, 2.0."""
    from mapie.metrics.calibration import kuiper_statistic
    from mcgrad.metrics import ecce_sigma

    p, y = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 1, 1, 0])
    return {"mapie": kuiper_statistic(y, p), "mcgrad": ecce_sigma(y, p)}


def scikit_learn(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    rate, mean = calibration_curve(y, p, n_bins=15, strategy="uniform")
    return {
        "brier": brier_score_loss(y, p),
        "log_loss": log_loss(y, p),
        "auc": roc_auc_score(y, p),
        "curve_15_width": {"rate": rate.tolist(), "mean": mean.tolist()},
    }


def plain(x: Any) -> Any:
    """Numbers that JSON knows."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(value) for value in x]
    return None if not math.isfinite(x) else float(x)


def main() -> None:
    warnings.simplefilter("ignore")
    peers = [relplot, uncertainty_calibration, mapie, netcal, model_diagnostics, probcal, calibre, mcgrad, scikit_learn]
    numbers = {
        "versions": {package: version(package) for package in PACKAGES},
        "data": {name: {peer.__name__: plain(peer(*read(name))) for peer in peers} for name in NAMES},
        "walk_above_zero": plain(walk_above_zero()),
    }
    (FOLDER / "peers.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
