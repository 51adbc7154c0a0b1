"""
Gupta (2023), chapter 4: binning without a split sample
=======================================================

Left: the share of 0.05-calibrated rows, V(0.05), with 1,000 rows. Binning on all rows (UMD) does better than binning
with a split sample (UMS), by as much as printed. Right: the mean calibration error of UMD stays below the bound of
Theorem 4.2 at every size, as the theorem says.
"""

import matplotlib.pyplot as plt
from table import draw_pair, explain, values

found = values("ch4")
sizes = [500, 1000, 3000, 5000, 7000]
errors = [found[f"ch4/ECE/UMD/{size}"] for size in sizes]

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained", width_ratios=(2, 3))
methods = ["UMS", "UMD"]
for place, method in enumerate(methods):
    draw_pair(left, place, found[f"ch4/V/{method}/1000/0.05"])
left.set_xticks(range(2), methods)
left.set(ylabel="V(0.05), 1,000 rows", xlim=(-0.6, 1.6), ylim=(0, 1))
explain(left, loc="lower right")
right.plot(sizes, [error.printed for error in errors], "k--", label="bound of Theorem 4.2")
right.errorbar(sizes, [error.ours for error in errors], [error.spread for error in errors], fmt="o-", label="UMD, ours")
right.set(xlabel="rows", ylabel="mean calibration error", ylim=(0, None))
right.legend(frameon=False)
plt.show()
