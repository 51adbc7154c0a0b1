"""
Several classes: the predicted class
====================================

For each row the model names the class with the largest probability. A calibrated model is right as often as this
probability says, for each class that it names. The overconfident model lies below the diagonal. After ``calibrate``
the points move to it.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(10)
names = np.array(["flu", "cold", "covid"])
logits = rng.normal(0, 2, size=(8000, 3))
truth = np.exp(logits * [0.5, 0.6, 0.4])
truth /= truth.sum(axis=1, keepdims=True)
illness = names[(truth.cumsum(axis=1) < rng.random((8000, 1))).sum(axis=1)]
p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

# %%
cal = cb.calibrate(p[:4000], illness[:4000], classes=names)
print(cal)

# %%
# Before calibration, on rows that the map has not seen.

cb.displays.TopLabelDisplay.from_predictions(p[4000:], illness[4000:], classes=names).plot()
plt.show()

# %%
# After calibration, on the same rows.

cb.displays.TopLabelDisplay.from_predictions(cal.transform(p[4000:]), illness[4000:], classes=names).plot()
plt.show()
