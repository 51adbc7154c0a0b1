"""
How many rows are close to right?
=================================

For each tolerance on the horizontal axis, the curve shows the share of rows whose probability is within this
tolerance of the event rate among similar rows. The higher the curve, the better. A single number such as the ECE
cannot show whether all rows are a little off or a few rows are far off.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(13)
score = rng.beta(2, 5, size=20_000)
event = rng.random(20_000) < score**1.5
cal = cb.calibrate(score[:10_000], event[:10_000])

# %%
curves = {
    "original": cb.metrics.validity_curve(score[10_000:], event[10_000:]),
    "calibrated": cb.metrics.validity_curve(cal.transform(score[10_000:]), event[10_000:]),
}
cb.displays.ValidityDisplay.from_curves(curves).plot()
plt.show()

# %%
for name, curve in curves.items():
    print(f"{name}: {curve.at([0.03])[0]:.0%} of the rows are within 0.03")
