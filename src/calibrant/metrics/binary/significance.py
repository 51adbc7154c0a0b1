"""Tests of calibration: p-values for the hypothesis that every score is the true probability.

Given the scores, the null hypothesis is simple: each label is 1 with the probability given by its score, independently
of the others. So the null distribution can be simulated for any sample size. A label that contradicts a score of
exactly 0 or 1 has probability zero: every test then returns p = 0 and a note.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_option, check_whole, is_whole
from calibrant.messages import InputError, Note, Nouns, Phrase, Setting, Voice, count_text, note, plural
from calibrant.metrics.binary.bins import Bins, Scores, rows_or_tally, tally_of
from calibrant.metrics.binary.cumulative import Statistic, brownian_max_sf, brownian_range_sf, ecce
from calibrant.metrics.binary.means import parts_of
from calibrant.metrics.binary.outcomes import all_outcomes
from calibrant.metrics.chance import expected_squares
from calibrant.metrics.draws import generator
from calibrant.metrics.estimates import Result
from calibrant.numerics import Column, Floats, chunks, logit
from calibrant.tallies import Tally
from calibrant.tallies.cells import mass_below

LEVEL = 0.05
"""Significance level below which the text of a finding says "evidence"."""

EXACT_CELLS, COARSE_CELLS = 20_000, 2_048
"""Above the first number of distinct scores, a simulation merges neighbors into at most the second number of cells."""

BINS_LIMIT = 1_024
"""Maximum bins of the adaptive test; a divisor of ``COARSE_CELLS``, so that merged cells never span two bins."""

ENOUGH_VARIANCE = 100.0
r"""Minimum :math:`\sum s (1 - s)` for which :func:`ecce_test` uses the Brownian approximation by default."""

SHIFTS = tuple(sign * size for size in (0.1, 0.2, 0.4, 0.8, 1.6) for sign in (-1.0, 1.0))
LINES = tuple((a, b) for b in (0.5, 0.7, 0.85, 1.2, 1.5, 2.0) for a in (-0.4, 0.0, 0.4))
"""Alternatives of :func:`always_valid_test` in log-odds: shifts of each bin or of all, and lines a + b logit(s)."""


@dataclass(frozen=True)
class Finding(Result):
    """Result of a calibration test: statistic and p-value; a large p-value is never reported as proof.

    Attributes
    ----------
    name
        The test, with the settings that change its result.
    statistic
        The test statistic.
    p_value
        Probability of a statistic at least as extreme if every score is right; NaN where it is not defined.
    notes
        Notes for the reader.

    Examples
    --------
    >>> print(Finding("Spiegelhalter's test", 1.02, 0.31))
    Spiegelhalter's test, statistic 1.02: no evidence against calibration (p = 0.31)
    """

    name: str
    statistic: float
    p_value: float
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        if math.isnan(self.p_value):
            verdict = ": no p-value"
        else:
            found = "evidence" if self.p_value < LEVEL else "no evidence"
            verdict = f", statistic {self.statistic:.3g}: {found} against calibration (p = {self.p_value:.2g})"
        return "\n".join([f"{self.name}{verdict}", *(f"  {note}" for note in self.notes)])


def spiegelhalter(scores: Scores, y: Column = None, sample_weight: Column = None) -> Finding:
    r"""Spiegelhalter's z test: whether the Brier score is as expected if the scores are right.

    .. math:: z = \frac{\sum_i w_i (y_i - s_i)(1 - 2 s_i)}{\sqrt{\sum_i w_i^2 (1 - 2 s_i)^2 s_i (1 - s_i)}},

    with scores s, labels y and weights w (1 without weights); the p-value is two-sided, from the standard normal
    distribution.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.

    Returns
    -------
    Finding
        Statistic z and its two-sided p-value.

    Notes
    -----
    Edges: scores of 0, 0.5 and 1 have no variance here; if there are no others the p-value is NaN.
    Guarantee: no finite-sample guarantee. At level 5 % it rejected 4.1 to 5.8 % of calibrated models, for n of at least
    100 and at least one expected event (``docs/benchmarks/significance.txt``). It has little power against errors that
    do not change the mean Brier score, such as a common shift where scores are symmetric about 0.5.
    Cost: O(cells).
    References: Spiegelhalter (1986), Probabilistic prediction in patient management and clinical trials, section 5.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500)
    >>> y = (rng.random(500) < scores).astype(int)
    >>> print(spiegelhalter(scores, y))
    Spiegelhalter's test, statistic -0.393: no evidence against calibration (p = 0.69)
    """
    data = rows_or_tally(scores, y, sample_weight)
    variance = excess = 0.0
    for part in parts_of(data):
        s = part.scores
        lever = 1.0 - 2.0 * s
        excess += float((lever * (part.events - part.n * s)).sum())
        lever *= lever
        variance += float((part.w2_null * (lever * (s * (1.0 - s)))).sum())
    if not variance > 0.0:
        return _finding("Spiegelhalter's test", math.nan, math.nan, data, no_variance())
    z = excess / math.sqrt(variance)
    return _finding("Spiegelhalter's test", z, float(2.0 * special.ndtr(-abs(z))), data)


def hosmer_lemeshow(
    scores: Scores, y: Column = None, sample_weight: Column = None, *, n_bins: int = 10, fitted: bool = False
) -> Finding:
    r"""Hosmer-Lemeshow chi-square test over bins of equal mass; provided because it is often requested.

    .. math:: H = \sum_{b=1}^{B} \frac{n_b (r_b - \bar s_b)^2}{\bar s_b (1 - \bar s_b)},

    where bin b holds :math:`n_b` rows (effective rows under importance weights) with event rate :math:`r_b` and mean
    score :math:`\bar s_b`. The p-value is from a chi-square distribution with B degrees of freedom for a model that was
    fitted on other rows, and with B - 2 for a model that was fitted on these rows.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    n_bins
        Number of bins; ties can reduce it.
    fitted
        Whether the model was fitted on these rows by logistic regression.

    Returns
    -------
    Finding
        Statistic H and its p-value.

    Notes
    -----
    A p-value above 0.05 is not a proof of calibration. The result depends on the number of bins, which is arbitrary;
    the test has little power in small samples and rejects nearly every model in large ones.
    Edges: bins whose mean score is 0 or 1 are ignored, also in the degrees of freedom; NaN where none is left.
    Guarantee: no finite-sample guarantee; the approximation needs five expected events in every bin. At level 5 % it
    rejected 15.5 % and 11.7 % of calibrated models at n = 100 and 1,000 with events in 1 % of rows, 6.5 % at n = 100
    with scores near 0 and 1, and 4.0 to 6.2 % elsewhere (``docs/benchmarks/significance.txt``).
    Cost: one sort, or O(cells).
    References: Hosmer and Lemeshow (1980), Goodness of fit tests for the multiple logistic regression model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500)
    >>> y = (rng.random(500) < scores).astype(int)
    >>> print(hosmer_lemeshow(scores, y))
    Hosmer-Lemeshow test, 10 bins of equal mass, statistic 6.1: no evidence against calibration (p = 0.81)
      p > 0.05 is not a proof of calibration: this p-value depends on the bins and on the sample size
    """
    tally = tally_of(scores, y, sample_weight)
    bins = Bins.of(tally, n_bins=n_bins, strategy="mass")
    variance = bins.mean_score * (1.0 - bins.mean_score)
    used = (bins.n > 0) & (variance > 0.0)
    freedom = int(used.sum()) - (2 if fitted else 0)
    name = f"Hosmer-Lemeshow test, {len(bins)} bins of equal mass"
    if freedom < 1:
        return _finding(name, math.nan, math.nan, tally, no_degree_of_freedom())
    with np.errstate(over="ignore"):  # an event at a score near 0: the statistic may be infinite
        squares = (bins.effective_n * (bins.rate - bins.mean_score) ** 2)[used] / variance[used]
    value = float(squares.sum())
    return _finding(name, value, float(special.chdtrc(freedom, value)), tally, not_a_proof())


def debiased_l2_test(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    n_bins: int | None = None,
    repetitions: int = 999,
    random_state: int = 0,
) -> Finding:
    r"""T-Cal test: the debiased squared calibration error, over several numbers of bins.

    .. math:: T_m = \sum_{b=1}^{m} \frac{1}{n_b} \sum_{i \ne j \in b} (y_i - s_i)(y_j - s_j), \qquad
              T = \max_m \frac{T_m}{\operatorname{sd}_0(T_m)}

    over bins b of equal mass with :math:`n_b` rows, and m = 1, 2, 4, ... up to :math:`n^{2/3}` or 1,024; omitting
    i = j removes the bias of the plug-in error, and the exact standard deviation under the null hypothesis,
    :math:`\operatorname{sd}_0^2 = \sum_b \frac{2}{n_b^2} \sum_{i \ne j \in b} v_i v_j`, :math:`v = s (1 - s)`, makes
    the :math:`T_m` comparable. Labels drawn from the scores give R further values :math:`T^*`, and

    .. math:: p = \frac{1 + \#\{T^* \ge T\}}{1 + R}.

    With few scores, where all outcomes can be listed (up to two million numbers), p is the exact probability of
    :math:`T^* \ge T` instead, and nothing is simulated.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Not supported: for repetition counts pass a tally built with ``weight_type="frequency"``.
    n_bins
        One number of bins instead of the adaptive set.
    repetitions
        Number of simulations R; a simulated p-value is never below 1 / (1 + R).
    random_state
        Seed, combined with a hash of the data, so that the order of rows does not matter.

    Returns
    -------
    Finding
        Statistic T and its p-value.

    Notes
    -----
    The paper uses bins of equal width, and a Bonferroni correction instead of the maximum. Equal mass suits rare events
    better, and the null distribution is simulated given the scores, so bins may depend on them; the maximum is less
    conservative than the correction.
    Edges: a tied score is never split; NaN when no bin has two rows with scores inside (0, 1). Importance weights are
    refused, since the null hypothesis is about counts.
    Guarantee: valid at every n, P(p <= a) <= a; where it is simulated, on average over ``random_state``. For one fixed
    seed the deviation averages out over the possible outcomes of the labels: with many distinct scores it is
    negligible, and with few of them p is exact. With more than 20,000 distinct scores (merged into 2,048 cells), on a
    grid or in a table of bins, the rows of a cell share its mean score; the variance of their number of events is then
    slightly too large, never too small, and the size is close to a.
    Cost: O(R cells), at most 20,000 cells.
    References: Lee, Huang, Hassani and Dobriban (2023), T-Cal: An optimal test for the calibration of predictive
    models, sections 3 and 4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500)
    >>> y = (rng.random(500) < scores**2).astype(int)
    >>> print(debiased_l2_test(scores, y))
    debiased L2 test (T-Cal), 1 to 32 bins, statistic 55.8: evidence against calibration (p = 0.001)
    """
    tally = _counted(tally_of(scores, y, sample_weight), "debiased_l2_test", "spiegelhalter")
    s, n, events = _null_cells(tally)
    levels = _levels(float(n.sum()), n_bins)
    largest = _DebiasedL2(s, n, levels)
    name = f"debiased L2 test (T-Cal), {'1 to ' if n_bins is None else ''}{levels[-1]} bins"
    if not largest.levels:
        return _finding(name, math.nan, math.nan, tally, no_pair_in_a_bin())
    value, p_value, _ = _null_p(largest, s, n, events, repetitions, _rng(tally, random_state))
    return _finding(name, value, p_value, tally)


def ecce_test(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    statistic: Statistic = "range",
    method: Literal["auto", "asymptotic", "simulation"] = "auto",
    repetitions: int = 999,
    random_state: int = 0,
) -> Finding:
    r"""Test of calibration by cumulative differences (ECCE), without bins or kernels.

    .. math:: G = \frac{\operatorname{ECCE}}{\sigma}, \qquad
              \sigma^2 = \frac{\sum_i w_i^2 s_i (1 - s_i)}{\bigl(\sum_i w_i\bigr)^2},

    with :func:`calibrant.metrics.ecce`, scores s and weights w (1 without weights). If the scores are right, G
    converges to the largest deviation (``statistic="max"``) or the range (``"range"``) of a Brownian motion on [0, 1].

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    statistic
        ``"range"`` (Kuiper) detects an error at any score, ``"max"`` (Kolmogorov-Smirnov) best at low scores.
    method
        ``"asymptotic"``: the Brownian limit. ``"simulation"``: labels drawn from the scores, as in
        :func:`debiased_l2_test`. ``"auto"``: simulation when :math:`\sum s (1 - s) < 100`, unless rows have importance
        weights.
    repetitions, random_state
        As in :func:`debiased_l2_test`.

    Returns
    -------
    Finding
        Statistic G and its p-value.

    Notes
    -----
    Edges: NaN when every score is 0 or 1. Importance weights are refused by the simulation.
    Guarantee: ``"simulation"`` is valid at every n, with the same exception for merged cells. ``"asymptotic"`` has no
    finite-sample guarantee. It is conservative with few distinct scores, since the cumulative sum is evaluated only at
    these: at level 5 % it rejected 1.4 to 3.3 % of calibrated models with five distinct scores, and 3.2 to 6.0 %
    elsewhere (``docs/benchmarks/significance.txt``).
    Cost: O(cells), or O(R cells) with at most 20,000 cells.
    References: Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), Metrics of calibration for probabilistic
    predictions, section 2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500)
    >>> y = (rng.random(500) < scores).astype(int)
    >>> print(ecce_test(scores, y))
    ECCE test, range, statistic 1.21: no evidence against calibration (p = 0.7...)
      p-value from 999 simulations
    """
    check_option("statistic", statistic, get_args(Statistic))
    check_option("method", method, ("auto", "asymptotic", "simulation"))
    tally = tally_of(scores, y, sample_weight)
    variance = float((expected_squares(tally) * (tally.scores * (1.0 - tally.scores))).sum())
    name = f"ECCE test, {statistic}"
    if not variance > 0.0:
        return _finding(name, math.nan, math.nan, tally, nothing_varies())
    if method == "auto":
        method = "simulation" if tally.counts and variance < ENOUGH_VARIANCE else "asymptotic"
    if method == "asymptotic":
        value = ecce(tally, statistic=statistic).value * float(tally.total) / math.sqrt(variance)
        law = brownian_max_sf if statistic == "max" else brownian_range_sf
        return _finding(name, value, float(law(value)), tally, brownian_p_value())
    s, n, events = _null_cells(_counted(tally, "the simulation", Setting("method", "asymptotic")))

    def reach(drawn: Floats) -> Floats:
        path = np.cumsum(drawn - n * s, axis=1)
        high, low = np.maximum(path.max(axis=1), 0.0), np.minimum(path.min(axis=1), 0.0)
        return np.asarray((np.maximum(high, -low) if statistic == "max" else high - low) / math.sqrt(variance))

    value, p_value, how = _null_p(reach, s, n, events, repetitions, _rng(tally, random_state))
    return _finding(name, value, p_value, tally, how)


def always_valid_test(
    scores: Scores, y: Column = None, sample_weight: Column = None, *, n_bins: int = 10, edges: Column = None
) -> Finding:
    r"""Anytime-valid test of calibration, which may be repeated after every row.

    .. math:: E = \sum_k \pi_k \prod_i \frac{q_k(s_i)^{y_i} (1 - q_k(s_i))^{1 - y_i}}{s_i^{y_i} (1 - s_i)^{1 - y_i}},
              \qquad p = \min(1, 1 / E),

    where s are the scores, y the labels, and each alternative changes the scores,
    :math:`\operatorname{logit} q_k(s) = \operatorname{logit} s + \delta_k(s)`. Half of the prior :math:`\pi` is on 28
    changes of all scores (10 shifts; 18 lines a + b logit s), a quarter on a shift of a single bin, a quarter on
    independent shifts of bins, each with probability 1/2. ``statistic`` is the e-value E.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Not supported: for repetition counts pass a tally built with ``weight_type="frequency"``.
    n_bins, edges
        Bins of equal width, or inner edges; fix them before the first look at the data.

    Returns
    -------
    Finding
        Evidence E and its p-value.

    Notes
    -----
    Edges: alternatives do not change scores of exactly 0 and 1 (a label that contradicts one gives p = 0). Importance
    weights are refused.
    Guarantee: if each label, given its score and everything before it, is 1 with the probability given by the score,
    then P(p <= a at any look) <= a, by Ville's inequality: for every alternative the ratio is a martingale that starts
    at 1. E depends on the tally only; rows may come in any order that does not depend on the labels. On a grid or in a
    table of bins the cell's mean score makes each ratio smaller, never larger (the logarithm is concave), and the
    guarantee holds.
    Cost: O(cells) for each of 28 alternatives.
    References: Ville (1939); Henzi, Puke, Dimitriadis and Ziegel (2023), A safe Hosmer-Lemeshow test, for e-values of
    this hypothesis that depend on the order of rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.3).astype(int)
    >>> print(always_valid_test(scores, y))
    always-valid test, 10 bins, statistic 9.78e+10: evidence against calibration (p = 1e-11)
    """
    tally = _counted(tally_of(scores, y, sample_weight), "always_valid_test", "spiegelhalter")
    inner = Bins.of(tally, n_bins=n_bins, edges=edges).edges
    # An alternative may depend on the cell but not on its current rows: it must not change between two looks.
    place = (np.clip(tally.lower_edges, 0.0, 1.0) + np.clip(tally.upper_edges, 0.0, 1.0)) / 2.0
    index, size = np.searchsorted(inner, place, side="right"), len(inner) + 1
    local = np.array([np.bincount(index, _log_ratio(tally, tilt), minlength=size) for tilt in SHIFTS])
    lines = [float(_log_ratio(tally, a + (b - 1.0) * logit(place)).sum()) for a, b in LINES]
    one_bin = local - math.log(local.size)
    mixed = special.logsumexp(local, axis=0) - math.log(len(SHIFTS))
    all_bins = np.logaddexp(mixed, 0.0).sum() - size * math.log(2.0)
    everywhere = np.append(local.sum(axis=1), lines) - math.log(len(SHIFTS) + len(LINES))
    terms = [special.logsumexp(everywhere) - math.log(2.0), special.logsumexp(one_bin) - math.log(4.0)]
    log_e = float(special.logsumexp([*terms, all_bins - math.log(4.0)]))
    value = math.exp(min(log_e, 700.0))
    return _finding(f"always-valid test, {size} bins", value, math.exp(-max(log_e, 0.0)), tally)


# ------------------------------------------------------------------------------------------------- What the tests share


def _finding(name: str, statistic: float, p_value: float, data: Tally | Rows, *notes: Note) -> Finding:
    """The finding; p = 0 if a label contradicts a score of exactly 0 or 1, regardless of the statistic."""
    at_zero = at_one = 0.0
    for s, n, events, *_ in parts_of(data):
        at_zero += float(events[s == 0.0].sum())
        at_one += float((n[s == 1.0] - events[s == 1.0]).sum())
    if at_zero > 0.0 or at_one > 0.0:
        return Finding(name, statistic, 0.0, (_contradicted(at_zero, at_one, data.counts), *notes))
    return Finding(name, statistic, p_value, notes)


def _counted(tally: Tally, test: str, instead: str | Setting) -> Tally:
    if not tally.counts:
        fix = "build the tally with {counts} if weights are repetition counts, or use {instead} for importance weights"
        raise InputError(
            "sample_weight",
            f"holds importance weights, and {test} needs counts",
            Phrase(fix, counts=Setting("weight_type", "frequency"), instead=instead),
        )
    return tally


def _log_ratio(tally: Tally, tilt: float | Floats) -> Floats:
    """Log-likelihood ratio of each cell when its log-odds change by ``tilt``."""
    return np.asarray(tally.events * tilt - tally.n * np.log1p(tally.scores * np.expm1(tilt)))


def _by_mass(n: NDArray[Any], size: int) -> NDArray[np.intp]:
    """Bin of each cell's middle row, of ``size`` bins of equal mass; halving the size merges neighbors."""
    middle = mass_below(n)
    return np.asarray((middle / float(n.sum()) * size).astype(np.intp))


def _null_cells(tally: Tally) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Scores, rows and events to simulate; neighbors are merged if there are too many for a simulation."""
    s, n, events = tally.scores, tally.n, tally.events
    if len(s) > EXACT_CELLS:
        group = _by_mass(n, COARSE_CELLS)
        rows, hits, mass = (np.bincount(group, x) for x in (n, events, s * n))
        kept = rows > 0
        s, n, events = np.clip(mass[kept] / rows[kept], 0.0, 1.0), rows[kept], hits[kept]
    return s, n.astype(np.int64), events.astype(np.int64)


def _levels(rows: float, n_bins: int | None) -> list[int]:
    if n_bins is None:
        return [2**k for k in range(int(math.log2(min(max(rows ** (2 / 3), 1.0), BINS_LIMIT))) + 1)]
    if not is_whole(n_bins) or n_bins < 1:
        raise InputError("n_bins", f"must be an integer of at least 1, or None for the adaptive test, got {n_bins!r}")
    return [int(n_bins)]


class _DebiasedL2:
    """The largest standardized statistic over the numbers of bins; sums over the finest bins are merged."""

    def __init__(self, s: Floats, n: NDArray[np.int64], levels: list[int]) -> None:
        index = _by_mass(n, levels[-1])
        self.fine = np.flatnonzero(np.diff(index, prepend=-1))
        self.expected, self.squares, self.lever = self._sums(n * s), self._sums(n * s * s), 1.0 - 2.0 * s
        v = s * (1.0 - s)
        rows, spread, own = self._sums(n), self._sums(n * v), self._sums(n * v * v)
        self.levels: list[tuple[NDArray[np.intp], Floats, float]] = []
        for size in levels:
            starts = np.flatnonzero(np.diff(index[self.fine] * size // levels[-1], prepend=-1))
            held, total, less = (np.add.reduceat(x, starts) for x in (rows, spread, own))
            pairs = np.where(held > 1, total * total - less, 0.0).clip(0.0)  # one row has no pairs, rounding or not
            sd = math.sqrt(float((2.0 * pairs / (held * held)).sum()))
            if sd > 0.0:
                self.levels.append((starts, held, sd))

    def _sums(self, x: NDArray[Any]) -> Floats:
        return np.asarray(np.add.reduceat(x, self.fine, axis=-1), dtype=np.float64)

    def __call__(self, drawn: Floats) -> Floats:
        gap, own = self._sums(drawn) - self.expected, self._sums(drawn * self.lever) + self.squares
        values = []
        for starts, held, sd in self.levels:
            wide, less = np.add.reduceat(gap, starts, axis=1), np.add.reduceat(own, starts, axis=1)
            values.append(((wide * wide - less) / held).sum(axis=1) / sd)
        return np.asarray(np.max(values, axis=0))


def _rng(tally: Tally, random_state: int) -> np.random.Generator:
    return generator(random_state, int(tally.fingerprint, 16))


def _null_p(
    statistic: Callable[[Floats], Floats],
    s: Floats,
    n: NDArray[np.int64],
    events: NDArray[np.int64],
    repetitions: int,
    rng: np.random.Generator,
) -> tuple[float, float, Note]:
    """The statistic of the observed labels, its p-value if the scores are right, and how that was computed."""
    check_whole("repetitions", repetitions)
    value = float(statistic(events[None, :].astype(np.float64))[0])
    least = value - 1e-9 * max(1.0, abs(value))  # equal labels count as equal, despite rounding in their sums
    listed = all_outcomes(s, n)
    if listed is not None:
        return value, _exact(statistic, *listed, least), exact_p_value()
    single, reached = bool((n == 1).all()), 0
    for part in chunks(int(repetitions), max(1, 2**21 // len(s))):
        shape = (part.stop - part.start, len(s))
        drawn = (rng.random(shape) < s) if single else rng.binomial(n, s, size=shape)
        reached += int((statistic(drawn.astype(np.float64)) >= least).sum())
    return value, (1 + reached) / (1 + int(repetitions)), simulated_p_value(int(repetitions))


def _exact(statistic: Callable[[Floats], Floats], outcomes: Floats, chance: Floats, least: float) -> float:
    """Probability of a statistic of at least ``least``; omitted outcomes count as reaching it."""
    reached = sum(
        float(chance[part][statistic(outcomes[part]) >= least].sum())
        for part in chunks(len(chance), max(1, 2**18 // outcomes.shape[1]))
    )
    return min(reached + max(1.0 - float(chance.sum()), 0.0), 1.0)


# ---------------------------------------------------------------------------------------------------------------- Notes


@note("labels-contradict-scores")
def _contradicted(voice: Voice, events_at_zero: float, others_at_one: float, counts: bool) -> str:
    scores, unit = voice.nouns.scores, "" if counts else " (sums of weights)"
    return (
        f"p is exactly 0: {contradictions(voice.nouns, events_at_zero, others_at_one)}{unit}, which calibration rules "
        f"out. Were the {scores} rounded? Then clip them first: np.clip(scores, 0.005, 0.995) for two decimals"
    )


def contradictions(nouns: Nouns, events_at_zero: float, others_at_one: float) -> str:
    """The events at a score of exactly 0 and the other rows at exactly 1, in words.

    Examples
    --------
    >>> contradictions(Nouns(), 1, 3)
    '1 event had a score of exactly 0 and 3 rows with a score of exactly 1 were not events'
    """
    zero = plural(events_at_zero, nouns.event, nouns.events, shown=count_text(events_at_zero))
    one = plural(others_at_one, nouns.row, nouns.rows, shown=count_text(others_at_one))
    were = f"was not {nouns.an_event()}" if others_at_one == 1 else f"were not {nouns.events}"
    said = [f"{zero} had a {nouns.score} of exactly 0"] * bool(events_at_zero)
    return " and ".join([*said, *[f"{one} with a {nouns.score} of exactly 1 {were}"] * bool(others_at_one)])


no_variance = note("no-variance", "not defined: every {nouns.score} is 0, 0.5 or 1, so the statistic has no variance")
no_degree_of_freedom = note(
    "no-degree-of-freedom", "too few bins with {nouns.scores} inside (0, 1): no degree of freedom"
)
not_a_proof = note(
    "not-a-proof", "p > 0.05 is not a proof of calibration: this p-value depends on the bins and on the sample size"
)
no_pair_in_a_bin = note("no-pair-in-a-bin", "not defined: no bin has two {nouns.rows} with {nouns.scores} in (0, 1)")
nothing_varies = note("nothing-varies", "not defined: every {nouns.score} is 0 or 1, so the statistic has no variance")
brownian_p_value = note("brownian-p-value", "asymptotic p-value, from Brownian motion")
exact_p_value = note("exact-p-value", "exact p-value, over all outcomes")
simulated_p_value = note("simulated-p-value", "p-value from {repetitions:,} simulations")
