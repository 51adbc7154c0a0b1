"""
A stream that drifts
====================

Events become rarer while the model stays the same. Each line is the mean forecast minus the event rate over the last
1,000 rows. The original score is too high from the start, and a map fitted once to the first rows is right only
there; both drift away. Online Platt scaling learns each outcome after its forecast, and stays near zero.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb
from calibrant import online

rng = np.random.default_rng(14)
n = 20_000
score = rng.beta(2, 5, size=n)
odds = np.exp(-0.5 - 1.5 * np.arange(n) / n) * score / (1 - score)
event = rng.random(n) < odds / (1 + odds)

# %%
# Each row is forecast before its outcome is learned.

forecasts = {
    "original": score,
    "fitted once, to the first 2,000 rows": cb.PlattScaling().fit(score[:2000], event[:2000]).transform(score),
    "online": online.OnlinePlatt(half_life=3_000).forecast_many(score, event),
}

# %%
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
window = np.ones(1000) / 1000
for name, forecast in forecasts.items():
    ax.plot(np.arange(1000, n + 1), np.convolve(forecast - event, window, mode="valid"), label=name)
ax.axhline(0, color="0.4", linewidth=1)
ax.set(xlabel="row", ylabel="mean forecast less event rate")
ax.legend()
plt.show()
