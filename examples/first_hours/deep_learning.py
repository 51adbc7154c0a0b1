"""The first hour of a deep-learning engineer: logits of a network with 20 classes, measured, calibrated and shipped.

    python examples/first_hours/deep_learning.py

The logits are synthetic and too large, as those of an overconfident network. The steps: the calibration error beside
that of a calibrated model, a temperature, a map of the confidence, a certificate, superclasses, and ONNX.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import calibrant as cb
from calibrant import metrics, multiclass

CLASSES, SUPERCLASSES = 20, 4


def network(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of float32, 1.8 times too large, and the true classes."""
    rng = np.random.default_rng(seed)
    true = rng.normal(scale=1.8, size=(n, CLASSES))
    shares = np.exp(true - true.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=CLASSES - 1)
    return (1.8 * true).astype(np.float32), labels


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of float64."""
    shares = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def main() -> None:
    """Run the hour from the first error to the exported map."""
    logits, labels = network()
    fit, test = slice(0, 3000), slice(3000, None)
    names = range(CLASSES)
    p = softmax(logits)

    print("1. How far off? Each error stands beside that of a calibrated model.")
    before = metrics.ece(p[test], labels[test], classes=names)
    print(" ", before)
    print(" ", metrics.accuracy(p[test], labels[test], classes=names))
    # To extend: check(p, labels), report(p, labels) and compare() of matrices.

    print("\n2. The verdict on the confidence, one column")
    print(cb.check(p[test].max(axis=1), (p[test].argmax(axis=1) == labels[test]).astype(int)))

    print("\n3. A temperature from the logits, and a map of the confidence")
    cooled = cb.TemperatureScaling().fit(logits[fit], labels[fit], classes=names, score_type="logit")
    print(cooled)
    after = metrics.ece(cooled.transform(logits[test]), labels[test], classes=names)
    print(" ", after)
    assert after.value < before.value
    confident = multiclass.Reduction("confidence", cb.BetaScaling()).fit(p[fit], labels[fit], classes=names)
    print(confident)

    print("\n4. A guarantee for the confidence")
    binned = multiclass.Reduction("confidence", cb.HistogramBinning(n_bins=8)).fit(p[fit], labels[fit], classes=names)
    print(binned.certificate())

    print("\n5. Superclasses")
    parents = {name: f"group {name % SUPERCLASSES}" for name in names}
    parents |= {f"group {each}": "all" for each in range(SUPERCLASSES)}
    paths = multiclass.PathCalibrator(multiclass.Taxonomy(parents)).fit(p[fit], labels[fit], classes=names)
    print(paths)

    print("\n6. Ship it")
    with tempfile.TemporaryDirectory() as folder:
        cooled.save(Path(folder, "temperature.json"))
        loaded = cb.load(Path(folder, "temperature.json"))
        same = np.array_equal(np.asarray(loaded.transform(logits[test])), np.asarray(cooled.transform(logits[test])))
        print(f"  the same probabilities after loading: {same}")
        if find_spec("onnx") and find_spec("onnxruntime"):
            print(" ", cooled.export_onnx(Path(folder, "temperature.onnx")))
    # To extend: tensors in and out, to_torch(), and an ONNX opset that matches the network's.


if __name__ == "__main__":
    main()
