"""Write golden documents of the current format, and what they map to. Run once per format; never overwrites a file.

    PYTHONPATH=src python tests/documents/make_golden.py

Every map kind appears without a promise, with a refusal and with a certificate, and every calibrator once as fitted.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from calibrant.calibrators.binning import HistogramBinning
from calibrant.calibrators.isotonic import IsotonicCalibrator
from calibrant.calibrators.parametric import BetaScaling, PlattScaling
from calibrant.export.document import FORMAT, Calibration
from calibrant.maps import BetaMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, StepMap
from calibrant.numerics import Grid
from calibrant.tallies import Tally

GOLDEN = Path(__file__).parent / "golden"
PROBES = (0.0, 5e-324, 2.0**-32, 1e-3, 0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1 - 2.0**-24, 1 - 2.0**-53, 1.0)

MAPS = {
    "identity": IdentityMap(),
    "step": StepMap([5e-324, 0.1, 1 / 3, 0.75], [0.0, 0.1 + 0.2, 0.25, 0.7, 1.0]),
    "piecewise-linear": PiecewiseLinearMap([-1e300, 0.1, 0.7, 2.0], [0.01, 0.1, 2 / 3, 0.99]),
    "logit-affine": LogitAffineMap(0.8, -0.1),
    "logit-affine-score": LogitAffineMap(3.7, -1.9, "score"),
    "beta": BetaMap(0.7, 1.3, 0.2, clamp=2.0**-20),
    "compose": ComposeMap(
        (BetaMap(1.1, 0.9, 0.1), ComposeMap((IdentityMap(), PiecewiseLinearMap([0.1, 0.9], [0.1, 0.9]))))
    ),
}


def documents() -> dict[str, Calibration]:
    rng = np.random.default_rng(20)
    scores = np.append(rng.random(700), np.repeat([0.8, 0.9], 150)).round(3)
    y = (rng.random(1000) < scores**2).astype(int)
    binned = HistogramBinning(5).fit(scores, y)
    refused = PlattScaling().fit(scores, y)
    out = {}
    for name, map_ in MAPS.items():
        out[f"{name}.none"] = Calibration(map_)
        out[f"{name}.refusal"] = Calibration(map_, refused.provenance_, refused.certificate())
        out[f"{name}.certificate"] = Calibration(map_, binned.provenance_, binned.certificate())
    fitted = {
        "platt": PlattScaling(limits=True).fit(scores, y),
        "beta": BetaScaling().fit(scores, y, rng.random(1000)),
        "isotonic": IsotonicCalibrator().fit(scores, y),
        "isotonic-step-grouped": IsotonicCalibrator(step=True).fit(scores, y, groups=np.arange(1000) % 50),
        "binning-own-rows": binned,
        "binning-part-grid": HistogramBinning().fit_tally(Tally.from_arrays(scores, y, grid=Grid())),
        "binning-logit": HistogramBinning(4).fit(np.round(8 * scores - 4, 2), y, kind="logit"),
    }
    out |= {f"fitted.{name}": cal.calibration_ for name, cal in fitted.items()}
    marginal = binned.certificate(0.05, bound="hoeffding", mode="marginal")
    out["fitted.binning-marginal"] = Calibration(binned.map_, binned.provenance_, marginal)
    return out


def hexes(calibration: Calibration) -> list[str]:
    """Images of the probes, by their bits."""
    return [float(p).hex() for p in calibration.transform(np.array(PROBES))]


def main() -> None:
    folder = GOLDEN / f"v{FORMAT}"
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: calibration for name, calibration in documents().items() if not (folder / f"{name}.json").exists()}
    for name, calibration in written.items():
        calibration.save(folder / f"{name}.json")
    known = folder / "images.json"
    images = json.loads(known.read_text()) if known.exists() else {}
    images |= {name: hexes(calibration) for name, calibration in written.items()}
    known.write_text(json.dumps(images, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
