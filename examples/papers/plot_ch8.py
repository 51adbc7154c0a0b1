"""
Gupta (2023), chapter 8: forecasts with two choices
===================================================

Theorem 8.1 bounds T times the calibration error beyond half a bin, whoever picks the outcomes. Each dot is the largest
value against one strategy, over all T up to 100,000. The black cross is the bound, the number of bins: no strategy
reached 60 % of it. A simulation cannot prove a bound; the proof is in the chapter.
"""

import matplotlib.pyplot as plt
from table import draw_pair, explain, values

found = values("ch8")
strategies = ["oppose", "greedy", "hoard", "against_the_draw", "coin", "alternate", "phases", "sweep"]
bins = {2: "0.5", 10: "0.1", 20: "0.05"}

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 4.4), layout="constrained")
for ax, (count, width) in zip(axes, bins.items(), strict=True):
    for place, strategy in enumerate(strategies):
        draw_pair(ax, place, found[f"adversaries/two/{width}/{strategy}"])
    ax.set_xticks(range(len(strategies)), [name.replace("_", " ") for name in strategies], rotation=60, ha="right")
    ax.set(title=f"{count} bins", ylim=(0, 1.1 * count))
axes[0].set_ylabel("T (calibration error - half a bin)")
explain(axes[0], loc="upper left", bbox_to_anchor=(0, 0.9))
plt.show()
