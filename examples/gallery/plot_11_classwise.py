"""
Several classes: each class by itself
=====================================

One reliability picture for each class: how often is the true class *cold* among rows that give *cold* a probability of
0.3? Classes are ordered by how far their error exceeds what is expected by chance. All three curves are flatter than
the diagonal: the model is overconfident in each class, and most in *covid*.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(11)
names = np.array(["flu", "cold", "covid"])
logits = rng.normal(0, 2, size=(8000, 3))
truth = np.exp(logits * [0.7, 0.8, 0.3])
truth /= truth.sum(axis=1, keepdims=True)
illness = names[(truth.cumsum(axis=1) < rng.random((8000, 1))).sum(axis=1)]
p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

cb.displays.ClasswiseDisplay.from_predictions(p, illness, classes=names).plot()
plt.show()

# %%
# The same as numbers, with what a calibrated model of this size would show.

print(cb.metrics.errors_by_class(p, illness, classes=names, notion="class-wise"))
