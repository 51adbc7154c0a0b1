"""
Rare events
===========

When fewer than 5 % of the rows are events, the picture changes to log-odds axes by itself, so that 0.1 % and 1 % are
well apart. On linear axes all rows would be in one corner. The low scores are too low here: among rows scored near
0.1 %, about four times as many events are observed.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(4)
score = 1 / (1 + np.exp(-rng.normal(-5.0, 1.5, size=60_000)))
event = rng.random(60_000) < 1 / (1 + (1 / score - 1) ** 0.8)  # true log-odds are 0.8 times the model's
print(f"{event.mean():.2%} of the rows are events")

# %%
cb.ReliabilityDisplay.from_predictions(score, event).plot()
plt.show()

# %%
# A binned metric averages over all rows, most of which have tiny probabilities, so it is small. The verdict reads the
# intercept and the slope on the log-odds instead.

print(cb.metrics.ece(score, event))
print(cb.check(score, event))
