"""
Foster and Kakade (2006): calibration on adversarial subsequences
=================================================================

Corollary 4.1 bounds the sum of errors on each of 20 overlapping subsequences, whoever picks the outcomes. Half of that
bound is proved as well, in ``docs/certificates/regression.md``. A dot is the largest error of any subsequence in
100,000 rows, as a share of half of the bound. Regression on its own forecasts stays below a third.
"""

import matplotlib.pyplot as plt
from table import draw_pair, explain, values

found = values("subsequences")
outcomes = ["random", "drift", "halves", "doubling", "contrary", "push", "one", "all"]

# %%
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for place, name in enumerate(outcomes):
    draw_pair(ax, place, found[f"groups/of bound/{name}"])
ax.set_xticks(range(len(outcomes)), outcomes)
ax.set(xlabel="how outcomes are picked", ylabel="share of half of the bound", ylim=(0, 1.1))
explain(ax, loc="center right")
plt.show()
