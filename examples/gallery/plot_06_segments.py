"""
Segments that differ
====================

Each bar is the difference between predicted and observed event rate in one country. One map for all countries leaves
large errors of both signs, which cancel in the total. The segment calibrator also fits an intercept and a slope for
each country, shrunk toward the global map unless the country's own rows support a difference.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(6)
countries = np.array(["AT", "BE", "DE", "DK", "ES", "FR"])
shift = dict(zip(countries, [0.0, 0.1, -0.6, 0.7, 0.0, 0.3], strict=True))
country = rng.choice(countries, size=20_000, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
logit = rng.normal(-1.5, 1.0, size=20_000)
score = 1 / (1 + np.exp(-logit))
event = rng.random(20_000) < 1 / (1 + np.exp(-logit - np.vectorize(shift.get)(country)))
fit, new = slice(0, 10_000), slice(10_000, None)

# %%
one_map = cb.calibrate(score[fit], event[fit])
by_country = cb.calibrate(score[fit], event[fit], by=country[fit])
print(by_country.segments_)

# %%
predictions = {
    "one map": one_map.transform(score[new]),
    "a map by country": by_country.transform(score[new], by=country[new]),
}
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for place, (name, p) in enumerate(predictions.items()):
    error = [np.mean(p[country[new] == one] - event[new][country[new] == one]) for one in countries]
    ax.bar(np.arange(len(countries)) + 0.4 * place - 0.2, np.multiply(error, 100), width=0.38, label=name)
ax.axhline(0, color="0.4", linewidth=1)
ax.set(xticks=range(len(countries)), xticklabels=countries, ylabel="predicted less observed rate, points")
ax.legend()
plt.show()
