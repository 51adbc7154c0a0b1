"""A PD validator's year: grades by year, correlated defaults, a portfolio without defaults, anchoring, a master scale.

Run it with ``python examples/desks/credit.py``. The data are made up: defaults run at the PD in 2023 and at 1.6 times
the PD in 2025.
"""

import numpy as np

import calibrant as cb

rng = np.random.default_rng(1)
GRADES = {"A": 0.001, "B": 0.004, "C": 0.012, "D": 0.04}
FACTOR = {2023: 1.0, 2024: 1.2, 2025: 1.6}

lines = [(grade, year, 1500, pd) for year in FACTOR for grade, pd in GRADES.items()]
grade, year, n, pd = (np.array(column) for column in zip(*lines, strict=True))
defaults = rng.binomial(n, pd * np.array([FACTOR[each] for each in year]))

# Lights by grade and year, for independent defaults and for an asset correlation of 5 %.
panel = cb.credit.grade_panel(n, defaults, pd, grade=grade, year=year)
print(panel)
print()
print(cb.credit.vasicek_test(panel.whole.n, panel.whole.events, panel.whole.pd, names=panel.grades, correlation=0.05))

# No default at all: upper bounds in place of an error.
bounds = cb.credit.pluto_tasche([100, 400, 300], [0, 0, 0], confidence=[0.5, 0.75, 0.9], correlation=0.12)
print("\nUpper bounds of the PDs in %, at 50, 75 and 90 % confidence:")
print((100 * bounds).round(2))

# Anchor the PDs to the long-run average, with its upper bound as margin of conservatism.
by_year = [(n[year == each].sum(), defaults[year == each].sum()) for each in FACTOR]
average = cb.credit.long_run_average(*zip(*by_year, strict=True))
print(f"\n{average}")
anchored = cb.credit.anchor(np.repeat(pd, n), mean=average, margin="upper")
print(anchored)

# The grades of the bank's scale, as bands of the raw PD.
print()
print(cb.credit.master_scale(anchored.calibration, [0.002, 0.01, 0.03], names=["1", "2", "3", "4"]))

# What else a validation asks for.
print()
print(cb.credit.psi(n[year == 2023], np.array([1400, 1500, 1500, 1600]), names=list(GRADES)))
print(cb.credit.concentration(panel.whole.n, names=panel.grades))
