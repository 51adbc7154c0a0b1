"""Coverage of the 95 % intervals of a validation with censored follow-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from calibrant.clinical import SurvivalValidation, validate_survival

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3
HORIZON = 5.0


@dataclass(frozen=True)
class World:
    """Rounded risks (ties), a line on the log-odds as truth, censoring, and perhaps competing events."""

    n: int
    center: float
    slope: float = 1.0
    shift: float = 0.0
    follow_up: float = 9.0
    """Censoring is uniform up to this time."""
    competing: bool = False
    hospitals: int = 0
    """Hospitals of unequal size that differ by 0.5 (standard deviation) on the log-odds; 0 for independent rows."""

    def sample(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
        """Risk, time and end of n rows, and their hospitals."""
        z = np.round(rng.normal(self.center, 1.0, n), 1)
        count = max(self.hospitals * n // self.n, 1)
        hospital = rng.choice(count, n, p=np.arange(1, count + 1) / (count * (count + 1) / 2))
        level = rng.normal(0.0, 0.5 if self.hospitals else 0.0, count)[hospital]
        risk, truth = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-(self.shift + level + self.slope * z)))
        happens = rng.random(n) < truth  # whether the event comes by the horizon; it then does at a uniform time
        event = np.where(happens, HORIZON * rng.random(n), np.inf)
        other = np.where(~happens & (rng.random(n) < 0.2), 2 * HORIZON * rng.random(n), np.inf)
        ends = [self.follow_up * rng.random(n) + 0.2, event, *([other] if self.competing else [])]
        time, cause = np.min(ends, axis=0), np.argmin(ends, axis=0)
        return (risk, np.ceil(time * 20) / 20, cause), hospital if self.hospitals else None

    def truths(self) -> dict[str, float]:
        rng = np.random.default_rng(99)
        rows, _ = replace(self, follow_up=1e9).sample(rng, 200_000)
        big = validate_survival(*rows, horizon=HORIZON, n_bins=1)
        found = {name: getattr(big, name).value for name in NAMES}
        return found if self.hospitals else found | {"slope": self.slope, "slope_intercept": self.shift}


NAMES = (
    *("observed", "observed_over_expected", "intercept", "slope", "slope_intercept", "auc", "brier", "scaled_brier"),
)

WORLDS = {
    "calibrated": World(500, -1.0),
    "too extreme": World(500, -1.0, slope=0.7, shift=-0.3),
    "rare": World(1500, -3.0, follow_up=12.0),
    "competing": World(500, -1.0, competing=True),
    "hospitals": World(900, -1.0, hospitals=30),
}

LEAST = 0.93
"""Least coverage of the 95 % intervals, which are asymptotic: in 2,000 runs of the rare world, with 84 events, they
covered in 94.6 to 95.7 %, by figure."""


def covered(found: SurvivalValidation, truths: dict[str, float]) -> dict[str, bool]:
    return {name: getattr(found, name).low <= truth <= getattr(found, name).high for name, truth in truths.items()}


@pytest.mark.parametrize("method", ["pseudo", "ipcw"])
def test_intervals_cover_as_often_as_they_say(method: str, subtests: pytest.Subtests, full_size: bool) -> None:
    for name, world in WORLDS.items():
        if method == "ipcw" and not full_size and name != "too extreme":
            continue
        with subtests.test(name=name):
            runs, truths = 2_000 if full_size else 50, world.truths()
            rng = np.random.default_rng([50, len(name)])
            hits = dict.fromkeys(NAMES, 0)
            for _ in range(runs):
                rows, groups = world.sample(rng, world.n)
                found = validate_survival(*rows, horizon=HORIZON, method=method, n_bins=1, groups=groups)
                for key, inside in covered(found, truths).items():
                    hits[key] += inside
            for key, count in hits.items():
                test = stats.binomtest(count, runs, LEAST, alternative="less")
                assert test.pvalue > LEVEL, f"{key} is covered in {count / runs:.3f} of samples"


def test_the_band_of_the_curve_covers_pointwise(full_size: bool) -> None:
    world, runs = WORLDS["too extreme"], 1_000 if full_size else 40
    rng, hits = np.random.default_rng(51), np.zeros(3)
    at = 1 / (1 + np.exp(-np.array([-2.0, -1.0, 0.0])))
    truth = 1 / (1 + np.exp(-(world.shift + world.slope * np.array([-2.0, -1.0, 0.0]))))
    for _ in range(runs):
        curve = validate_survival(*world.sample(rng, world.n)[0], horizon=HORIZON, n_bins=1).curve
        low, high = (np.interp(at, curve.scores, ends) for ends in (curve.low, curve.high))
        hits += (low <= truth) & (truth <= high)
    for count in hits:
        assert stats.binomtest(int(count), runs, 0.92, alternative="less").pvalue > LEVEL
