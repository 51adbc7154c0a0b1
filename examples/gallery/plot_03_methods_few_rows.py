"""
Three methods, few rows and many
================================

Each thin line is a map fitted to another sample; the dashed line is the true event rate, known because the data are
simulated. With 200 rows, isotonic regression follows the noise of each sample and is farthest from the truth. With
5,000 rows it is close, and Platt scaling keeps an error that no number of rows removes, because its curve has the
wrong shape. The spline does well with both sizes.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(3)


def true_rate(score):
    """Rates that are right for low scores, and at most 0.8 for high ones."""
    return score - 0.2 * score**2


methods = [cb.IsotonicCalibrator(), cb.PlattScaling(), cb.SplineCalibrator()]
grid = np.linspace(0.02, 0.98, 200)
figure, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for n, row in zip([200, 5000], axes, strict=True):
    for method, ax in zip(methods, row, strict=True):
        distances = []
        for _ in range(15):
            score = rng.random(n)
            event = rng.random(n) < true_rate(score)
            fitted = method.fit(score, event).transform(grid)
            ax.plot(grid, fitted, color="tab:blue", alpha=0.35, linewidth=1)
            distances.append(np.mean(np.abs(fitted - true_rate(grid))))
        ax.plot(grid, true_rate(grid), "k--")
        ax.set_title(f"{type(method).__name__}, {n:,} rows\nmean distance {np.mean(distances):.3f}", fontsize=10)
figure.supxlabel("score")
figure.supylabel("calibrated probability")
plt.show()
