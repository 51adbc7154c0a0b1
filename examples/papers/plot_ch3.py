"""
Gupta (2023), section 3.D: calibration under a covariate shift
==============================================================

The mean calibration error on the target population over 20 draws. Binning that ignores the shift has a large error, and
weights by uLSIF correct it. The estimator (3.47), which also estimates the masses of the bins, is worse than weighted
rates, but by less than printed.
"""

import matplotlib.pyplot as plt
from table import draw_pair, explain, values

found = values("ch3")
methods = {
    "the forest\nitself": "uncalibrated",
    "binning, shift\nignored": "ignoring the shift",
    "binning, weights\nby uLSIF": "uLSIF",
    "estimator\n(3.47)": "masses estimated",
}

# %%
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for place, key in enumerate(methods.values()):
    draw_pair(ax, place, found[f"covariate_shift/{key}"])
ax.set_xticks(range(len(methods)), list(methods))
ax.set(ylabel="calibration error on the target", ylim=(0, 0.07))
explain(ax, loc="upper right")
plt.show()
