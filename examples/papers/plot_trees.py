"""
Torabian (2023), chapter 4: data sets won by each method
========================================================

Table 4.2: the share of the data sets on which each method is not significantly worse than the best, by measure. Trees
with Platt leaves (PCT) lead in root-mean-square error and log loss, as printed. Platt scaling (PS), isotonic regression
(IR) and plain trees (DT) differ in the area under the validity curve in the thesis, but not here. We had 32 of the 36
data sets.
"""

import matplotlib.pyplot as plt
from table import draw_pair, explain, values

found = values("trees")
measures = {"RMSE": "RMSE", "loss": "log loss", "AUC": "AUC", "ECE": "ECE", "AUC_V": "validity area"}
methods = ["PS", "IR", "PCT", "DT"]

# %%
figure, axes = plt.subplots(1, 5, figsize=(11, 4), sharey=True, layout="constrained")
for ax, (measure, title) in zip(axes, measures.items(), strict=True):
    for place, method in enumerate(methods):
        draw_pair(ax, place, found[f"trees/won/{method}/{measure}"])
    ax.set_xticks(range(len(methods)), methods)
    ax.set(title=title, xlim=(-0.5, 3.5), ylim=(0, 1.05))
axes[0].set_ylabel("share of data sets won")
explain(axes[0], loc="lower left")
plt.show()
