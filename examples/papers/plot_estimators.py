"""
Rosenberg (2021): the debiased calibration error
================================================

The mean squared error of the plug-in estimate divided by that of the debiased one. Above 1 the debiased estimate is
better. With few rows it is far better, and more so with more bins, as printed. With 4,000 rows the bias of the plug-in
estimate is small, and the ratio falls below 1 here.
"""

import matplotlib.pyplot as plt
from table import DIFFERS, values

found = values("estimators")
sizes = [500, 1000, 2000, 4000]

# %%
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for bins, mark, color in ((10, "o", "tab:blue"), (100, "s", "tab:green")):
    ratios = [found[f"estimators/ratio/{bins}/{size}"] for size in sizes]
    ax.plot(sizes, [ratio.ours for ratio in ratios], f"{mark}-", color=color, label=f"{bins} bins per class")
    for size, ratio in zip(sizes, ratios, strict=True):
        if not ratio.agrees:
            ax.plot(size, ratio.ours, mark, color=DIFFERS)
ax.plot([], [], "o", color=DIFFERS, label="differs from what is printed")
ax.axhline(1, color="black", linestyle="--", label="printed: above this line")
ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="mean squared error, plug-in / debiased")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
ax.set_xticks([], minor=True)
ax.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
ax.legend(frameon=False)
plt.show()
