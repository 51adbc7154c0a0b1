"""
Which threshold?
================

A missed event costs 19 times as much as a false alarm, so acting pays from a probability of 5 %. This holds if the
probabilities are calibrated. The upper curve is the net benefit of the calibrated scores. The original scores are too
high, so at most thresholds they raise alarms that do not pay.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(15)
score = rng.beta(2, 5, size=20_000)
event = rng.random(20_000) < score**3
cal = cb.calibrate(score[:10_000], event[:10_000])
new_score, new_event = score[10_000:], event[10_000:]

# %%
# The threshold on the probability, and the raw score at which the map reaches it.

print(cb.decisions.choose_threshold(cost_fp=1, cost_fn=19, calibration=cal))

# %%
thresholds = np.linspace(0.01, 0.4, 60)
original = cb.metrics.net_benefit(new_score, new_event, thresholds=thresholds)
calibrated = cb.metrics.net_benefit(cal.transform(new_score), new_event, thresholds=thresholds)

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(thresholds, calibrated.model, label="calibrated")
ax.plot(thresholds, original.model, label="original")
ax.plot(thresholds, calibrated.treat_all, color="0.5", linestyle="--", label="act on every row")
ax.axhline(0, color="0.5", linewidth=1, label="act on no row")
ax.axvline(0.05, color="0.7", linestyle=":")
ax.set(xlabel="threshold", ylabel="net benefit, events found per row", ylim=(-0.05, None))
ax.legend()
plt.show()
