"""
Gupta (2023), chapter 7: parity calibration
===========================================

Differences between online Platt scaling and another method, printed and ours. The forecasts behind the printed tables
were not available, so we used other forecasts, and only signs are compared: a blue dot, in a shaded quadrant, agrees.
The sign of a gray dot may be chance. A lower calibration error is better; for the other three numbers, a
higher value is better.
"""

import matplotlib.pyplot as plt
from table import values

found = values("ch7")
names = {"PCE": "calibration error", "Sharp": "sharpness", "Acc": "accuracy", "AUROC": "AUROC"}

# %%
figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
for ax, (measure, name) in zip(axes.flat, names.items(), strict=True):
    chosen = [value for key, value in found.items() if key.split("/")[-1] == measure and "7.10" not in key]
    reach = 1.15 * max(max(abs(value.printed), abs(value.ours)) for value in chosen)
    for low in (-reach, 0):
        ax.fill_between([low, low + reach], low, low + reach, color="0.93", zorder=0)
    for value in chosen:
        ax.plot(value.printed, value.ours, "o", color=value.color, markersize=5, alpha=0.8)
    ax.set_xscale("symlog", linthresh=0.01)
    ax.set_yscale("symlog", linthresh=0.01)
    same = sum(value.agrees for value in chosen)
    ax.set(title=f"{name}: {same} of {len(chosen)} agree", xlim=(-reach, reach), ylim=(-reach, reach))
figure.supxlabel("printed: change by online Platt scaling")
figure.supylabel("ours")
plt.show()
