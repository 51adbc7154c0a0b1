"""
Gupta (2023), chapter 6: online Platt scaling under drift
=========================================================

Figures 6.3, 6.10 and 6.11: the calibration error of the base model (circles) rises as the stream drifts; that of online
Platt scaling (squares) stays far lower. Most values agree to the printed digit. In the first panel online Platt scaling
lags while the covariates turn, and then catches up.
"""

import matplotlib.pyplot as plt
from table import explain, values

found = values("ch6")
windows = ["1-1000", "1501-2000", "3501-4000", "5501-6000"]
panels = {
    "covariate drift": ("6.3", "OPS"),
    "label drift": ("6.10", "OPS, b held"),
    "drift of the regression function": ("6.11", "OPS, b held"),
}

# %%
figure, axes = plt.subplots(1, 3, figsize=(10.5, 4), sharey=True, layout="constrained")
for ax, (title, (name, online)) in zip(axes, panels.items(), strict=True):
    for method, mark in (("base", "o"), (online, "s")):
        for place, window in enumerate(windows):
            value = found.get(f"ch6/drift/{name}/{window} {method}/error")
            if value is None:  # the online method starts after the first window
                continue
            ax.errorbar(place, value.ours, value.spread, fmt=mark, color=value.color, markersize=6, capsize=3)
            ax.plot(place, value.printed, "kx", markersize=7)
    ax.set_xticks(range(len(windows)), windows, fontsize=8)
    ax.set(title=title, xlabel="rows")
axes[0].set(ylabel="calibration error", ylim=(0, None))
axes[0].plot([], [], "o", color="grey", label="base model")
axes[0].plot([], [], "s", color="grey", label="online Platt scaling")
explain(axes[0], loc="upper left")
plt.show()
