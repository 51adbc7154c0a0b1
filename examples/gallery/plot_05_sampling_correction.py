"""
Rebalanced training data
========================

The model was trained on all events and on one in ten negatives, so it predicts far too many events.
``SamplingCorrection`` undoes this in closed form, without any labels and without a refit. The corrected curve follows
the diagonal.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import calibrant as cb

rng = np.random.default_rng(5)
X = rng.normal(size=(60_000, 2))
y = rng.random(60_000) < 1 / (1 + np.exp(3.5 - X @ [1.0, 0.7]))
train = np.arange(60_000) < 30_000

# %%
# Train on all events and 10 % of the negatives.

kept = train & (y | (rng.random(60_000) < 0.1))
model = LogisticRegression().fit(X[kept], y[kept])
score = model.predict_proba(X[~train])[:, 1]

# %%
correction = cb.SamplingCorrection(kept_negatives=0.1)
print(correction)
cb.ReliabilityDisplay.from_predictions(score, y[~train], after=correction.transform(score)).plot()
plt.show()
