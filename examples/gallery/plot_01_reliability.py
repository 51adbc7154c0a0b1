"""
A first reliability picture
===========================

The curve shows the observed event rate at each score, estimated by isotonic regression. If the scores were
calibrated, the curve would lie in the gray band around the diagonal. Here it lies far below: the model predicts more
events than occur.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(2026)
score = rng.beta(2, 5, size=6000)  # predicted probabilities
default = rng.random(6000) < score**1.5  # outcomes, less frequent than predicted

# %%
# ``from_predictions`` computes, ``plot`` draws, and ``data`` holds every number of the picture.

display = cb.ReliabilityDisplay.from_predictions(score, default)
display.plot()
plt.show()

# %%
# The same question in words.

print(cb.check(score, default))
