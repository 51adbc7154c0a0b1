"""Misfit that a shift and a stretch cannot show: events in the tails and in stretches of the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from calibrant.numerics import Floats
from calibrant.verdict.likelihood import Box, Likelihood

TAILS = (0.01, 0.05, 0.20)
STRETCHES = ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8))


@dataclass(frozen=True)
class Misfit:
    """One stretch of the scores, and how surely its events are beyond what the tolerance allows."""

    where: str
    tail: bool
    rows: float
    events: float
    predicted: float
    p_value: float
    """Adjusted for the number of stretches and sides looked at."""

    @property
    def too_low(self) -> bool:
        """Whether more happened than was predicted."""
        return self.events > self.predicted


def worst_misfit(likelihood: Likelihood, box: Box, inflation: float = 1.0) -> Misfit | None:
    r"""The stretch of scores whose events are hardest to explain by any tolerated shift and stretch.

    A tolerated model moves the log-odds of a score at distance :math:`|x - c|` from the centre by at most
    :math:`\tau_a + \tau_d |x - c|`. With every row moved that far, the number of events in a stretch is a sum of
    independent Bernoulli variables; beyond its mean by one, its tail is at most that of the binomial distribution with
    the same mean (Hoeffding 1956, Theorem 5). So each p-value is valid in finite samples, for every tolerated model;
    Bonferroni pays for looking at tails of 1, 5 and 20 % on either side, three stretches between, and both directions.
    The stretches are chosen from the scores alone.
    """
    ranges = _ranges(likelihood.n)
    if not ranges:
        return None
    reach = box.shift + np.where(likelihood.distance == 0.0, 0.0, box.stretch * np.abs(likelihood.distance))
    high, low = (_moved(likelihood.log_odds, sign * reach) for sign in (1.0, -1.0))
    score = _moved(likelihood.log_odds, np.zeros(1))
    found = []
    for where, tail, start, stop in ranges:
        part = slice(start, stop)
        n, events = likelihood.n[part], float(likelihood.events[part].sum())
        rows = float(n.sum())
        m, k = rows / inflation, events / inflation
        p = min(
            _at_least(k, m, float((n * high[part]).sum()) / rows),
            _at_least(m - k, m, 1.0 - float((n * low[part]).sum()) / rows),
        )
        adjusted = min(1.0, p * 2 * len(ranges))
        found.append(Misfit(where, tail, rows, events, float((n * score[part]).sum()), adjusted))
    return min(found, key=lambda misfit: misfit.p_value)


def _at_least(k: float, m: float, p: float) -> float:
    """Bound on the probability of ``k`` or more events among ``m`` rows of mean probability ``p``."""
    if k < m * p + 1.0:
        return 1.0
    return float(special.betainc(k, m - k + 1.0, p))


def _moved(log_odds: Floats, by: Floats) -> Floats:
    return np.asarray(special.expit(log_odds + by))


def _ranges(n: Floats) -> list[tuple[str, bool, int, int]]:
    """Name, whether a tail, first cell and the cell after the last; whole cells, each range once."""
    share = np.cumsum(n) / n.sum()
    found: dict[tuple[int, int], tuple[str, bool, int, int]] = {}
    for tail in TAILS:
        stop = int(np.searchsorted(share, tail - 1e-12)) + 1
        start = int(np.searchsorted(share, 1.0 - tail + 1e-12))
        found.setdefault((start, len(n)), (f"highest {tail:.0%} of the scores".replace("%", " %"), True, start, len(n)))
        found.setdefault((0, stop), (f"lowest {tail:.0%} of the scores".replace("%", " %"), True, 0, stop))
    for low, high in STRETCHES:
        start, stop = (int(np.searchsorted(share, end)) for end in (low, high))
        if stop > start:
            name = f"scores between the {low:.0%} and the {high:.0%} mark".replace("%", " %")
            found.setdefault((start, stop), (name, False, start, stop))
    return [entry for key, entry in found.items() if key != (0, len(n))]
