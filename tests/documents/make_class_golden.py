"""Write golden documents of maps of several classes, and what they map to. Never overwrites a file.

    PYTHONPATH=src:. python tests/documents/make_class_golden.py

Every kind of map appears without a certificate and with a refusal, and every kind of certificate once as fitted. A kind
that is not in `MAPS` appears with its first sample of three classes in `tests/contracts/test_class_maps.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.contracts.test_class_maps import SAMPLES
from tests.contracts.test_maps import tree_values
from tests.documents.make_golden import write

from calibrant.calibration import Calibration
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.hierarchy import PathCalibrator
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.calibrators.trees import CalibrationTree
from calibrant.export.documents import FORMAT
from calibrant.guarantees.no_certificate import IMPOSSIBLE
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import (
    BetaMap,
    ClassTreeMap,
    GroupedSoftmaxMap,
    IdentityMap,
    LogitAffineMap,
    MulticlassMap,
    PathMap,
    PerClassMap,
    PiecewiseLinearMap,
    SimplexBinsMap,
    SoftmaxMap,
    StepMap,
    Taxonomy,
    TopMap,
)

GOLDEN = Path(__file__).parent / "golden" / "classes"
NAMES = ("größe 数", "it's", "3")
TREE = Taxonomy({"animal": None, "cat": "animal", "dog": "animal", "ship": None})
LISTS: dict[str, Any] = {"groups": [0, 0, 1], "sizes": [2, 0], "levels": [0, 1], "cuts": [0.1 + 0.2, 0.7]}
RATES = [0.6, 1 / 3, 0.7, 0.5, 0.9, 0.8, 0.95]
STEPS = StepMap([5e-324, 0.2, 1 / 3, 0.75], [0.0, 0.1 + 0.2, 0.25, 0.7, 1.0])
PARTS = (STEPS, LogitAffineMap(0.9, 0.1), PiecewiseLinearMap([0.1, 0.9], [0.2, 0.8]))

MAPS: dict[str, MulticlassMap] = {
    "softmax": SoftmaxMap(NAMES, [1 / 1.7], [], "logit", 1e-9),
    "softmax-diagonal": SoftmaxMap(NAMES, [0.7, 1.4, -0.2], [0.1 + 0.2, -2.0, 0.0], "probability", 2.0**-32),
    "softmax-matrix": SoftmaxMap(NAMES, np.arange(9) / 7, [], "logit", 1e-300),
    "per-class": PerClassMap(NAMES, PARTS, "probability", False),
    "per-class-normalized": PerClassMap(NAMES, (STEPS, BetaMap(0.7, 1.3, 0.2), IdentityMap()), "logit", True),
    "top": TopMap(NAMES, 2, (STEPS, LogitAffineMap(0.9, 0.1)), "probability"),
    "top-by-label": TopMap(NAMES, 1, PARTS, "logit"),
    "simplex-bins-projection": SimplexBinsMap(
        NAMES, "projection", 2, [-1, 0, 0, 0.1, 0.2, -0.3], [-0.5, 1 / 30], np.tile([0.25, 0.1, 0.65], 3), "probability"
    ),
    "simplex-bins-sierpinski": SimplexBinsMap(
        NAMES, "sierpinski", 1, [], [], np.eye(3)[[0, 1, 2, 0]].ravel() * 0.7 + 0.1, "logit"
    ),
    "simplex-bins-grid": SimplexBinsMap(
        NAMES, "grid", 2, [], [], np.eye(3)[[0, 1, 2, 0]].ravel() * 0.7 + 0.1, "probability"
    ),
    "grouped-softmax": GroupedSoftmaxMap(
        NAMES,
        [1 / 1.7],
        [],
        "logit",
        1e-9,
        "größe",
        ("1", "true"),
        [0.8, 1.3],
        [0.1 + 0.2, -2.0, 0.0, 1 / 3, 0.5, -1.0],
    ),
    "grouped-softmax-matrix": GroupedSoftmaxMap(
        NAMES, np.arange(9) / 7, [0.1, -0.2, 0.0], "probability", 2.0**-32, "site", ("it's",), [1.7], [0.25, -0.5, 0.0]
    ),
    "path": PathMap(TREE.leaves, TREE.nodes, TREE.parents, TREE.root, **LISTS, rates=RATES, on="probability"),
}
for kind in SAMPLES.keys() - {map_.kind for map_ in MAPS.values()}:
    MAPS[kind] = next(map_ for map_ in SAMPLES[kind] if len(map_.classes) == 3)


def documents() -> dict[str, Calibration]:
    rng = np.random.default_rng(21)
    p = rng.dirichlet([1.0, 2.0, 3.0], 900).round(3)
    p[:, 2] = 1.0 - p[:, 0] - p[:, 1]
    y = (rng.random(900)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    origin = MulticlassProvenance(
        "by hand", "probability", 1000.5, np.array([300.5, 0.0, 700.0]), "importance", "grouped", "0" * 16, "0.1"
    )
    out = {}
    for name, map_ in MAPS.items():
        out[f"{name}.none"] = Calibration(map_)
        out[f"{name}.no-certificate"] = Calibration(map_, origin, IMPOSSIBLE)
    leaves = np.array(TREE.leaves)
    fitted = {
        "top-label": TopLabelHistogramBinning(50).fit(p, y),
        "class-wise": ClasswiseHistogramBinning(100).fit(p, y, weight_type="frequency"),
        "simplex": SimplexBinning(n_bins=5).fit(p, y, classes=range(3)),
        "tree-honest": CalibrationTree(20, honest=True, random_state=0).fit(
            p, y, {"age": 20.0 + 60.0 * p[:, 0], "job": np.where(np.arange(900) % 7 == 0, "a", "b")}, classes=range(3)
        ),
        "paths": PathCalibrator(TREE, 60).fit(p, leaves[y], classes=leaves),
    }
    return out | {f"fitted.{name}": each.calibration_ for name, each in fitted.items()}


def probes() -> np.ndarray:
    """Rows whose numbers are short in binary, corners and ties; they are rows of probabilities."""
    whole = [[a, b, 16 - a - b] for a in range(17) for b in range(17 - a)]
    return np.array(whole, dtype=np.float64) / 16.0


def images(calibration: Calibration) -> np.ndarray:
    """Images of the probes; by group those of each group in turn, of a missing one and of one that is not listed.

    Of a tree they are those of values at every split, and missing ones, in turn.
    """
    rows, map_ = probes(), calibration.map
    if isinstance(map_, ClassTreeMap):
        return np.asarray(
            map_.apply(rows, {name: np.resize(tree_values(map_, name), len(rows)) for name in map_.columns})
        )
    if not isinstance(map_, GroupedSoftmaxMap):
        return np.asarray(map_.apply(rows))
    groups = np.resize(np.array([*map_.groups, None, "another"], dtype=object), len(rows))
    return np.asarray(map_.apply(rows, {map_.by: groups}))


def hexes(calibration: Calibration) -> list[str]:
    """Images of the probes, by their bits."""
    return [float(value).hex() for value in images(calibration).ravel()]


def main() -> None:
    write(GOLDEN / f"v{FORMAT}", documents(), hexes)


if __name__ == "__main__":
    main()
