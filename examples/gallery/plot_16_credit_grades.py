"""
Rating grades
=============

Each point is the default rate of one grade with its 95 % interval, and each cross is the probability of default that
the grade was given. Grades D and E have more defaults than their probabilities of default allow: their crosses lie
below the intervals, and the table marks them.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

names = ["A", "B", "C", "D", "E", "F"]
rows = [3200, 2900, 2100, 1300, 600, 200]
pd = [0.001, 0.004, 0.012, 0.030, 0.080, 0.200]
defaults = [3, 14, 27, 58, 75, 44]

table = cb.credit.grade_table(rows, defaults, pd, names=names)
print(table)

# %%
rate = np.divide(defaults, rows)
low, high = np.asarray(table.low), np.asarray(table.high)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.errorbar(names, rate, yerr=[rate - low, high - rate], fmt="o", capsize=4, label="observed, 95 % interval")
ax.plot(names, pd, "x", color="tab:orange", markersize=9, markeredgewidth=2, label="assigned PD")
ax.set(yscale="log", xlabel="grade", ylabel="default rate")
ax.legend()
plt.show()
