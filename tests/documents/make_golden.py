"""Write golden documents of the current format, and what they map to. Run once per format; never overwrites a file.

    PYTHONPATH=src:. python tests/documents/make_golden.py

Every map kind appears without a certificate and with a NoCertificate, the step map, which alone can carry one, with
certificates too, and every calibrator once as fitted. A kind that is not in `MAPS` appears with its first sample in
`tests/contracts/test_maps.py`. Maps of several classes have a folder of their own, `make_class_golden.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.contracts.test_maps import SAMPLES

from calibrant.calibration import Calibration
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.calibrators.binary.scaling import BetaScaling, PlattScaling
from calibrant.calibrators.trees import CalibrationTree, ProbabilityCalibrationTree
from calibrant.export.documents import FORMAT
from calibrant.guarantees.about import ScoreBins
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.origins import FIXED_BINS, Assumption, BinRule
from calibrant.maps import (
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.numerics import Grid
from calibrant.shift import estimate_density_ratio, known_weights
from calibrant.tallies import Tally

GOLDEN = Path(__file__).parent / "golden"
PROBES = (0.0, 5e-324, 2.0**-32, 1e-3, 0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1 - 2.0**-24, 1 - 2.0**-53, 1.0)

MAPS: dict[str, Map] = {
    "identity": IdentityMap(),
    "step": StepMap([5e-324, 0.2, 1 / 3, 0.75], [0.0, 0.1 + 0.2, 0.25, 0.7, 1.0]),
    "piecewise-linear": PiecewiseLinearMap([-1e300, 0.1, 0.7, 2.0], [0.01, 0.1, 2 / 3, 0.99]),
    "logit-affine": LogitAffineMap(0.8, -0.1),
    "logit-affine-score": LogitAffineMap(3.7, -1.9, "score"),
    "beta": BetaMap(0.7, 1.3, 0.2, low=2.0**-20, high=0.975),
    "compose": ComposeMap(
        (BetaMap(1.1, 0.9, 0.1), ComposeMap((IdentityMap(), PiecewiseLinearMap([0.1, 0.9], [0.1, 0.9]))))
    ),
    "by-group": ByGroupMap(
        "region",
        ("größe 数", "it's", 3, True, ""),
        (StepMap([0.5], [0.1, 0.7]), LogitAffineMap(0.9, 0.1), BetaMap(0.8, 1.2, 0.0), IdentityMap(), IdentityMap()),
        None,
    ),
    "by-group-lines": ByGroupMap(
        "region", ("a", "b"), (LogitAffineMap(1.1, 0.3), LogitAffineMap(0.9, -0.2)), IdentityMap()
    ),
    "compose-by-group": ComposeMap(
        (
            PiecewiseLinearMap([0.1, 0.5, 0.9], [0.2, 0.4, 0.8]),
            ByGroupMap("region", ("a", "b"), (LogitAffineMap(1.1, 0.3), LogitAffineMap(0.9, -0.2)), IdentityMap()),
            ByGroupMap(
                "branch", (7,), (ComposeMap((IdentityMap(), BetaMap(1.0, 1.1, 0.1))),), LogitAffineMap(1.0, 0.1)
            ),
        )
    ),
}


MAPS |= {kind: samples[0] for kind, samples in SAMPLES.items() if kind not in MAPS}


def certificate() -> Certificate:
    """About the step map above, with what fits seldom leave: an uncovered edge, an empty bin, rates of 0 and 1."""
    outputs = np.array([0.0, 0.1 + 0.2, 0.1 + 0.2, 0.25, 0.7, 1.0])
    rows, events = np.array([30, 900, 0, 0, 2**40, 25]), np.array([0, 270, 0, 0, 7 * 2**36, 25])
    lower, upper = BOUNDS["clopper-pearson"](events, rows, 0.1 / 4)
    return Certificate(
        epsilon=float(np.maximum(outputs - lower, upper - outputs)[rows > 0].max()),
        alpha=0.1,
        coverage="simultaneous",
        interval="clopper-pearson",
        score_type="probability",
        n=int(rows.sum()),
        about=ScoreBins(
            knots=np.array([5e-324, 0.1, 0.2, 1 / 3, 0.75]),
            uncovered=np.array([False, False, True, False, False, False]),
            uncovered_rows=7,
            rule=BinRule.TABLE,
        ),
        outputs=outputs,
        lower=lower,
        upper=upper,
        rows=rows,
        events=events,
        assumptions=(Assumption.INDEPENDENT, Assumption.NOT_TUNED, Assumption.BINS_BEFORE),
        reference=FIXED_BINS,
    )


def _estimated(scores: np.ndarray) -> Any:
    """Weights that turn the scores into those of a target population, estimated."""
    target = np.random.default_rng(21).beta(2, 1, (400, 1))
    return estimate_density_ratio(scores[:, None], target, method="logistic").weights()


def documents() -> dict[str, Calibration]:
    rng = np.random.default_rng(20)
    scores = np.append(rng.random(700), np.repeat([0.8, 0.9], 150)).round(3)
    y = (rng.random(1000) < scores**2).astype(int)
    exact, grid = Tally.from_arrays(scores, y), Tally.from_arrays(scores, y, grid=Grid())
    binned, refused = HistogramBinning(5).fit(scores, y), PlattScaling().fit(scores, y)
    out = {}
    for name, map_ in MAPS.items():
        out[f"{name}.none"] = Calibration(map_)
        out[f"{name}.no-certificate"] = Calibration(map_, refused.provenance_, refused.certificate())
    promise = certificate()
    origin = replace(binned.provenance_, n=promise.n + promise.uncovered_rows, events=int(promise.events.sum()) + 2)
    out["step.certificate"] = Calibration(MAPS["step"], origin, promise)
    table = Tally.from_table([100, 0, 300], [0, 0, 200], edges=[0.3, 0.6])
    fitted = {
        "platt": PlattScaling(limits=True).fit(scores, y),
        "beta": BetaScaling().fit(scores, y, rng.random(1000)),
        "isotonic": IsotonicCalibrator().fit(scores, y),
        "isotonic-step-grouped": IsotonicCalibrator(step=True).fit(scores, y, groups=np.arange(1000) % 50),
        "binning-own-rows": binned,
        "binning-own-rows-99": HistogramBinning(5, alpha=0.01).fit(scores, y),
        "binning-grid": HistogramBinning().fit_tally(grid),
        "binning-split-grid": HistogramBinning(bins_from="split", random_state=3).fit_tally(grid),
        "binning-width": HistogramBinning(7, strategy="width").fit_tally(exact),
        "binning-table": HistogramBinning().fit_tally(table),
        "binning-logit": HistogramBinning(4).fit(np.round(8 * scores - 4, 2), y, score_type="logit"),
        "binning-selected": HistogramBinning(5).fit(scores, y, sampling="selected"),
        "binning-out-of-fold": HistogramBinning(5).fit_tally(exact, sampling="out-of-fold"),
        "binning-by-class": HistogramBinning(5).fit(scores, y, np.where(y, 0.25, 1.5), weight_type="by-class"),
        "binning-time": HistogramBinning(5).fit(scores, y, time=np.arange(1000)),
        "binning-known-ratio": HistogramBinning(3).fit(scores, y, known_weights(0.6 + 0.7 * scores, upper=1.5)),
        "platt-estimated-ratio": PlattScaling().fit(scores, y, _estimated(scores)),
        "platt-fractions": PlattScaling().fit(scores, scores**2, label_type="fraction"),
    }
    out |= {f"fitted.{name}": cal.calibration_ for name, cal in fitted.items()}
    beside = {"age": rng.integers(18, 90, 1000), "job": rng.choice(["student", "nurse"], 1000)}
    trees = {
        "tree": CalibrationTree(20).fit(scores, y, beside),
        "tree-honest": CalibrationTree(20, honest=True, random_state=0).fit(scores, y, beside),
        "tree-curves": ProbabilityCalibrationTree(20, pruning_alpha=0.0).fit(scores, y, beside),
    }
    out |= {f"fitted.{name}": cal.calibration_ for name, cal in trees.items()}
    marginal = binned.certificate(0.05, interval="hoeffding", coverage="marginal")
    out["fitted.binning-marginal"] = Calibration(binned.map_, binned.provenance_, marginal)
    fixed = fitted["binning-width"]
    always = fixed.certificate(interval="always-valid")
    out["fitted.binning-always-valid"] = Calibration(fixed.map_, fixed.provenance_, always)
    return out


def hexes(calibration: Calibration) -> list[str]:
    """Images of the probes, by their bits."""
    return [float(p).hex() for p in images(calibration)]


def images(calibration: Calibration) -> np.ndarray:
    """Images of the probes, in every group of a map by group in turn."""
    if not calibration.map.columns:
        return calibration.transform(np.array(PROBES))
    groups = np.array(["größe 数", "it's", "3", "true", "", "a", "b", "7", None, "never"], dtype=object)
    scores, names = np.repeat(PROBES, len(groups)), np.tile(groups, len(PROBES))
    ages = np.resize([20.0, 41.0, np.nextafter(41.0, 50.0), np.nan, 65.5, 66.0, np.inf], len(names))
    jobs = np.resize(np.array(["student", None, "never"], dtype=object), len(names))
    return calibration.transform(
        scores, {"region": names, "branch": np.roll(names, 1), "age": ages, "job": np.repeat(jobs, 2)[: len(names)]}
    )


def write(folder: Path, documents: dict[str, Any], hexes: Callable[[Any], list[str]]) -> None:
    """Documents that are not there yet, and the bits of what they map to."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: calibration for name, calibration in documents.items() if not (folder / f"{name}.json").exists()}
    for name, calibration in written.items():
        calibration.save(folder / f"{name}.json")
    known = folder / "images.json"
    stored = json.loads(known.read_text()) if known.exists() else {}
    stored |= {name: hexes(calibration) for name, calibration in written.items()}
    lines = (f" {json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored))  # a document a line
    known.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    write(GOLDEN / f"v{FORMAT}", documents(), hexes)


if __name__ == "__main__":
    main()
