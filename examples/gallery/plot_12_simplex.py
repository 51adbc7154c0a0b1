"""
Whole rows of three classes
===========================

Each point of the triangle is a row of three probabilities. ``SimplexBinning`` cuts the triangle into regions and
gives all rows of a region the observed shares of the classes. Arrows lead from the mean prediction of a region to its
calibrated row: an overconfident model is corrected toward the middle of the triangle.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(12)
names = np.array(["flu", "cold", "covid"])
logits = rng.normal(0, 2, size=(6000, 3))
truth = np.exp(0.5 * logits)
truth /= truth.sum(axis=1, keepdims=True)
illness = names[(truth.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1)]
p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

cal = cb.multiclass.SimplexBinning().fit(p[:3000], illness[:3000], classes=names)
print(cal.certificate())

# %%
# New rows, in the regions that the other half of the rows chose.

cb.displays.SimplexDisplay.from_predictions(p[3000:], illness[3000:], binning=cal, classes=names).plot()
plt.show()
