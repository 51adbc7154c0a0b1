"""
Gupta (2023), chapter 1: histogram binning and Platt scaling
============================================================

Table 1.1 and the Platt curve of the credit data. The edges and the event rates of the ten bins agree with the printed
ones, and so do the two numbers of the curve. Look at the third and fourth bin: the rate falls where the score rises, in
the thesis and here.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from table import draw_pair, explain, values

found = values("ch1")
edges = [found[f"ch1/edge/{number}"] for number in range(1, 10)]
rates = [found[f"ch1/rate/{number}"] for number in range(1, 11)]
printed = np.array([0.0, *(edge.printed for edge in edges), 1.0])
ours = np.array([0.0, *(edge.ours for edge in edges), 1.0])

# %%
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
ax.stairs([rate.printed for rate in rates], printed, color="black", linewidth=0.8, baseline=None)
ax.stairs([rate.ours for rate in rates], ours, color="tab:blue", linewidth=0.8, baseline=None)
for place, rate in zip((ours[1:] + ours[:-1]) / 2, rates, strict=True):
    draw_pair(ax, place, rate)
score = np.linspace(0, 1, 200)
slope, intercept = found["ch1/a"], found["ch1/b"]
ax.plot(score, expit(slope.printed * score + intercept.printed), "k--", linewidth=1, label="Platt scaling, printed")
ax.plot(score, expit(slope.ours * score + intercept.ours), "--", color="tab:blue", label="Platt scaling, ours")
ax.set(xlabel="score of the logistic regression", ylabel="event rate", xlim=(0, 1), ylim=(0, 1))
explain(ax, loc="upper left")
plt.show()
