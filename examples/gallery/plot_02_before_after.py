"""
Before and after calibration
============================

One half of the rows fits the map, and the other half judges it. Before calibration the curve lies below the gray
band. Afterward it follows the diagonal and stays mostly inside the band.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(2026)
score = rng.beta(2, 5, size=20_000)
default = rng.random(20_000) < score**1.5

# %%
# Fit on the first half.

cal = cb.calibrate(score[:10_000], default[:10_000])
print(cal)

# %%
# Judge on the second half, which the map has not seen.

new_score, new_default = score[10_000:], default[10_000:]
after = cal.transform(new_score)
cb.ReliabilityDisplay.from_predictions(new_score, new_default, after=after).plot()
plt.show()

# %%
print(cb.check(after, new_default))
