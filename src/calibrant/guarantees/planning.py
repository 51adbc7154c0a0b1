"""How many labels, how many bins, how close: any two give the third, before a single label is bought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import check_scores
from calibrant.arrays.columns import check_option, check_whole
from calibrant.guarantees.bounds import clopper_pearson, umd_epsilon
from calibrant.guarantees.certificate import Mode
from calibrant.messages import Argument, InputError, Phrase, Setting, plural

Scheme = Literal["umd", "umd-original", "ums"]

MOST_LABELS = 10**15


class TooFewLabels(InputError):
    """So few labels promise nothing, or nothing as close."""


@dataclass(frozen=True)
class BinOutlook:
    """What one bin can expect: mean score, rows, and the width its exact interval will have on average."""

    mean_score: float
    rows: int
    expected_width: float


@dataclass(frozen=True)
class Plan:
    """An answer of :func:`plan`; ``outlook`` is filled when scores were given."""

    n: int
    n_bins: int
    epsilon: float
    alpha: float
    mode: Mode
    scheme: Scheme
    outlook: tuple[BinOutlook, ...] = ()

    def __str__(self) -> str:
        what = "every bin" if self.mode == "simultaneous" else "the bin of a new row"
        how = {
            "umd": "uniform-mass binning that uses all rows (Gupta 2023, eq. 4.8 and 4.11)",
            "umd-original": "uniform-mass binning that averages edge rows in (Gupta 2023, eq. 4.10)",
            "ums": f"bins from a random part of {split_size(self.n, self.n_bins):,} rows, rates from the rest "
            "(exact law of spacings and Hoeffding's inequality)",
        }[self.scheme]
        within = np.ceil(self.epsilon * 1e4) / 1e4
        lines = [
            f"{self.n:,} labels in {self.n_bins} bins hold {what} within {within:.4f} of its true rate, "
            f"with confidence {100 * (1 - self.alpha):.6g} %, for any score without ties: {how}."
        ]
        lines += [
            f"  mean score {bin.mean_score:.4g}: about {bin.rows:,} rows, interval about {bin.expected_width:.4f} wide"
            for bin in self.outlook
        ]
        return "\n".join(lines)


def plan(
    n: int | None = None,
    n_bins: int | None = None,
    epsilon: float | None = None,
    alpha: float = 0.1,
    *,
    mode: Mode = "simultaneous",
    scheme: Scheme = "umd",
    scores: ArrayLike | None = None,
) -> Plan:
    r"""From any two of ``n`` (labels), ``n_bins`` and ``epsilon``, the third.

    ``scheme="umd"``: 002 eq. 4.8, or 4.11 when marginal; ``"umd-original"``: eq. 4.10. ``"ums"``: the bins come from a
    random part of the rows, so the number of the other rows in a bin is negative hypergeometric, exactly and for any
    continuous score. Half of alpha pays for a bin to hold fewer rows than planned, half for Hoeffding's inequality; 002
    4.B spends its budget likewise, with a supposed constant in place of the exact law.

    With a sample of ``scores`` (no labels needed) each bin also gets the average width of its exact interval, supposing
    that events come at the rate the scores say.

    Examples
    --------
    >>> plan(n_bins=10, epsilon=0.1, mode="marginal").n
    1510
    >>> plan(n=5000, epsilon=0.08).n_bins
    11
    >>> print(plan(n=5000, n_bins=10))
    5,000 labels in 10 bins hold every bin within 0.0729 of its true rate, with confidence 90 %, for any score
    without ties: uniform-mass binning that uses all rows (Gupta 2023, eq. 4.8 and 4.11).
    """
    check_option("mode", mode, get_args(Mode))
    check_option("scheme", scheme, get_args(Scheme))
    absent = [name for name, value in {"n": n, "n_bins": n_bins, "epsilon": epsilon}.items() if value is None]
    if len(absent) != 1:
        raise InputError(
            absent[0] if absent else "epsilon",
            "is missing" if absent else "is one too many",
            Phrase(
                "pass exactly two of {n}, {n_bins} and {epsilon}; the answer is the third",
                n=Argument("n"),
                n_bins=Argument("n_bins"),
                epsilon=Argument("epsilon"),
            ),
        )
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}")
    if epsilon is not None and not 0.0 < epsilon < 1.0:
        raise InputError("epsilon", f"must lie strictly between 0 and 1, got {epsilon}")
    for name, value in {"n": n, "n_bins": n_bins}.items():
        if value is not None:
            check_whole(name, value)
    reach = _REACH[scheme]
    rows = int(n) if n is not None else _smallest_n(reach, cast(int, n_bins), cast(float, epsilon), alpha, mode)
    bins = int(n_bins) if n_bins is not None else _largest_bins(reach, rows, cast(float, epsilon), alpha, mode)
    achieved = reach(rows, bins, alpha, mode)
    if not np.isfinite(achieved):
        raise TooFewLabels(
            Setting("n", rows),
            f"is too few labels to promise anything for {plural(bins, 'bin')}",
            "use fewer bins or more labels",
        )
    used = rows - split_size(rows, bins) if scheme == "ums" else rows
    outlook = () if scores is None else _outlook(check_scores(scores, "probability"), used, bins, alpha, mode)
    return Plan(rows, bins, achieved, alpha, mode, scheme, outlook)


def split_size(n: int, n_bins: int) -> int:
    r"""Rows to set aside for choosing the bins: :math:`\lceil n^{2/3} B^{1/3} \rceil`, at most half of them.

    With a share r of the rows the smallest bin's mass falls short of 1/B by about :math:`2/\sqrt{r n / B}` of itself,
    while the rates lose the share r; the sum of the two losses is least at :math:`r = (B/n)^{1/3}`. That is 22 % at 100
    rows a bin, 10 % at 1,000 and 1 % at a million.

    Examples
    --------
    >>> split_size(10_000_000, 10)
    100000
    """
    return min(n // 2, int(np.ceil(np.cbrt(float(n) ** 2 * n_bins) - 1e-9)))


def _ums_reach(n: int, n_bins: int, alpha: float, mode: Mode) -> float:
    part = split_size(n, n_bins)
    rest, gap = n - part, (part + 1) // n_bins
    if gap < 1 or rest < 1:
        return float("inf")
    union = n_bins if mode == "simultaneous" else 1
    smallest = _smallest_bin(rest, part, gap, alpha / 2 / union)
    return float(np.sqrt(np.log(4 * union / alpha) / (2 * smallest))) if smallest > 0 else float("inf")


def _smallest_bin(rest: int, part: int, gap: int, alpha: float) -> int:
    """Largest m with P(fewer than m of ``rest`` rows fall between order statistics ``gap`` apart of ``part``) <= alpha.

    At most m - 1 fall there exactly when, in the joint order of all rows counted from the lower edge, the first
    m - 1 + gap hold at least ``gap`` of the part's.
    """
    from scipy import stats  # here: slow to import, and the other schemes need no law of spacings

    low, high = 0, rest
    while low < high:
        middle = (low + high + 1) // 2
        if stats.hypergeom.sf(gap - 1, rest + part, part, middle - 1 + gap) <= alpha:
            low = middle
        else:
            high = middle - 1
    return low


_Reach = Callable[[int, int, float, Mode], float]
_REACH: dict[Scheme, _Reach] = {
    "umd": umd_epsilon,
    "umd-original": partial(umd_epsilon, original=True),
    "ums": _ums_reach,
}


def _smallest_n(reach: _Reach, n_bins: int, epsilon: float, alpha: float, mode: Mode) -> int:
    low, high = 2 * n_bins - 1, 2 * n_bins
    while not reach(high, n_bins, alpha, mode) <= epsilon:
        low, high = high, 2 * high
        if high > MOST_LABELS:
            raise InputError(
                Setting("epsilon", epsilon), "needs more than 10^15 labels", "allow a larger one, or use fewer bins"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle, n_bins, alpha, mode) <= epsilon else (middle, high)
    return high


def _largest_bins(reach: _Reach, n: int, epsilon: float, alpha: float, mode: Mode) -> int:
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reach(n, middle, alpha, mode) <= epsilon else (low, middle)
    if low == 0:
        needed = _smallest_n(reach, 1, epsilon, alpha, mode)
        raise TooFewLabels(
            Setting("n", n),
            Phrase("is too few labels for {epsilon}", epsilon=Setting("epsilon", epsilon)),
            f"one bin alone needs {needed:,}",
        )
    return low


def _outlook(scores: NDArray[Any], n: int, n_bins: int, alpha: float, mode: Mode) -> tuple[BinOutlook, ...]:
    share = alpha / n_bins if mode == "simultaneous" else alpha
    rows = max(n // n_bins - 1, 1)
    return tuple(
        BinOutlook(float(part.mean()), rows, _expected_width(float(part.mean()), rows, share))
        for part in np.array_split(np.sort(scores), n_bins)
        if len(part)
    )


def _expected_width(rate: float, rows: int, alpha: float) -> float:
    from scipy import stats  # here: slow to import, and most plans are made without scores

    low, high = (float(stats.binom.ppf(q, rows, rate)) for q in (1e-9, 1.0 - 1e-9))
    k = np.unique(np.linspace(low, high, 2001).round())
    weight = stats.binom.pmf(k, rows, rate)
    bottom, top = clopper_pearson(k, np.full_like(k, rows), alpha)
    return float(np.dot(weight, top - bottom) / weight.sum())
