"""
How many labels?
================

Each curve is one number of labels. It shows the guaranteed distance between calibrated probability and true event
rate for each number of bins, with confidence 90 %. More bins need more labels: the marks show the largest number of
bins whose guarantee is at most 0.05.
"""

import matplotlib.pyplot as plt

import calibrant as cb

cb.displays.PlanDisplay.from_sizes([2_000, 5_000, 20_000, 100_000], epsilon=0.05).plot()
plt.show()

# %%
# The same as numbers: labels for ten bins, and bins for a thousand labels.

print(cb.plan(epsilon=0.05, n_bins=10))
print(cb.plan(n=1000, epsilon=0.1))
