"""
Bins with a certificate
=======================

The steps are the calibrated probabilities of ten bins. The gray bands are intervals that contain the true event rates
of all bins together with confidence 90 %, for any distribution of scores and labels, if the rows are independent. The
dotted line is the true rate of this simulation, averaged over each bin: it lies inside every band.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant as cb

rng = np.random.default_rng(1)
score = rng.beta(2, 5, size=5000)
event = rng.random(5000) < score**1.5

cal = cb.HistogramBinning(n_bins=10).fit(score, event)
certificate = cal.certificate(alpha=0.1)
print(certificate)

# %%
display = cb.displays.MapDisplay.from_map(cal).plot()

many = np.sort(rng.beta(2, 5, size=400_000))  # to average the true rate over each bin
output = cal.transform(many)
for value in np.unique(output):
    inside = many[output == value]
    display.ax_.plot(inside[[0, -1]], [np.mean(inside**1.5)] * 2, "k:", linewidth=1.5)
plt.show()
