"""
The base rate changes
=====================

The map was fitted where 20 % of the rows were events. In the new data it is 5 %, and no labels have arrived yet. The
new base rate is estimated from the scores alone, and the map is moved to it. Before, the curve lies below the band;
after, it follows the diagonal. This assumes that the scores of each class are distributed as before; the printed text
reports a test of that.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(7)


def rows(n, rate):
    """Scores of a model that was trained where half of the rows were events, and labels."""
    y = rng.random(n) < rate
    x = np.where(y, rng.normal(1.0, 1.0, n), rng.normal(-1.0, 1.0, n))
    return 1 / (1 + np.exp(-2 * x)), y


old_score, old_y = rows(20_000, rate=0.20)
new_score, new_y = rows(20_000, rate=0.05)

# %%
# Labels of the old rows only.

cal = cb.PlattScaling().fit(old_score[:10_000], old_y[:10_000])
found = cb.shift.estimate_label_shift(cal, new_score, old_score[10_000:], old_y[10_000:])
print(found)

# %%
# The new labels serve the picture alone.

before, after = cal.transform(new_score), found.calibration.transform(new_score)
cb.ReliabilityDisplay.from_predictions(before, new_y, after=after).plot()
plt.show()
