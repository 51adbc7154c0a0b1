"""
ECE depends on the sample size
==============================

The same model is judged with more and more rows. Its true calibration error is the dashed line. With few rows the
usual ECE is far too large, because noise in each bin counts as error. Subtracting the expected noise removes most of
this bias. The shaded area shows the middle 80 % of 60 samples: with few rows no estimate is precise.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(17)
sizes = [100, 200, 500, 1000, 2000, 5000, 10_000]


def errors(n):
    """Plug-in and debiased root-mean-square calibration error of one sample."""
    score = rng.random(n)
    event = rng.random(n) < 0.9 * score
    plug_in = cb.metrics.ece(score, event, p=2, strategy="mass")
    return float(plug_in), float(cb.metrics.debiased_ece(score, event))


samples = np.array([[errors(n) for _ in range(60)] for n in sizes])

# %%
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for place, name in enumerate(["ECE (root mean square)", "debiased ECE"]):
    values = samples[:, :, place]
    low, high = np.quantile(values, [0.1, 0.9], axis=1)
    ax.fill_between(sizes, low, high, alpha=0.2)
    ax.plot(sizes, values.mean(axis=1), marker="o", label=name)
ax.axhline(np.sqrt(0.01 / 3), color="k", linestyle="--", label="true error")
ax.set(xscale="log", xlabel="rows", ylabel="calibration error", ylim=(0, None))
ax.legend()
plt.show()
