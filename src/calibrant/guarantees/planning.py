"""Plan a certificate before labeling: from two of labels, bins and error bound, compute the third."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import check_scores
from calibrant.arrays.columns import check_option, check_whole, width
from calibrant.arrays.multiclass.rows import read_matrix, settled_classes
from calibrant.guarantees.bounds import clopper_pearson, expected_ece_bound, umd_epsilon
from calibrant.guarantees.certificate import Coverage
from calibrant.messages import Argument, Drawn, InputError, Phrase, Setting, Shown, plural
from calibrant.numerics import Floats

Scheme = Literal["umd", "umd-original", "ums"]

PlanNotion = Literal["confidence", "class-wise", "top-label"]
"""What has bins, for several classes."""

MOST_LABELS = 10**15


class TooFewLabels(InputError):
    """There are too few labels for a guarantee, or for one this tight.

    ``wider`` is the argument with the smallest epsilon that these labels allow. About ``labels`` are needed, for the
    request with this ``look``.
    """

    wider: Setting | None = None
    labels: int | None = None
    look: int = 1


@dataclass(frozen=True)
class BinOutlook:
    """Expected values for one bin: mean score, rows, and the average width of its exact interval."""

    mean_score: float
    rows: int
    expected_width: float


@dataclass(frozen=True)
class Plan(Drawn, Shown):
    """Result of :func:`plan`; ``outlook`` has one entry for each bin if scores were given.

    ``ties`` says that these scores have values of so many rows that bins of equal size would cut through them. The
    bins of ``outlook`` then hold whole values, and can be fewer.

    ``points_per_bin`` is 0 unless the plan was made for a number of labels in each bin; ``n`` and ``n_bins`` are then
    totals over the predicted classes, or those of each class for the notion ``"class-wise"``.
    """

    n: int
    n_bins: int
    epsilon: float
    alpha: float
    coverage: Coverage
    scheme: Scheme
    outlook: tuple[BinOutlook, ...] = ()
    notion: PlanNotion | None = None
    classes: int = 0
    points_per_bin: int = 0
    ties: bool = False

    @property
    def smallest_bin(self) -> int:
        """Labels in the smallest bin that count toward its rate: bin edges take one label for each bin."""
        return (self.points_per_bin or self.n // self.n_bins) - 1

    @property
    def expected_error(self) -> float | None:
        r"""Bound on the expected calibration error, on average over calibration sets; None with ``"ums"``.

        .. math:: \mathbb{E}[\ell_p\text{-ECE}] \le \frac{1}{2 \sqrt{m}}, \qquad 1 \le p \le 2,

        with m the labels in the smallest bin, plus :math:`1 / (m + 1)` for boundary rows that are averaged in (Gupta
        2023, Theorems 4.2 (b), 5.1 and 5.2 (b), which bound this by :math:`\sqrt{1 / 2k}`, k = m + 1). Under ``"ums"``
        the number of labels in a bin is random.
        """
        if self.scheme == "ums":
            return None
        return expected_ece_bound(self.smallest_bin) + (1.0 / (self.smallest_bin + 1) if self.averages_edges else 0.0)

    @property
    def averages_edges(self) -> bool:
        """Whether rows on the edge of a bin are averaged in."""
        return self.scheme == "umd-original"

    def validity(self, epsilon: ArrayLike) -> Floats:
        r"""The guaranteed validity: the confidence with which the error is at most each ``epsilon``.

        .. math:: V(\epsilon) \ge 1 - 2 U e^{-2 m \epsilon^2}

        with m the labels in the smallest bin and U = 1 for the bin of a new row (marginal coverage), or the number of
        bins that hold simultaneously. This is the curve of Theorem 4.2 in Gupta (2023), Figure 4.3. With boundary rows
        averaged in, epsilon is less :math:`1 / (m + 1)`.

        Parameters
        ----------
        epsilon
            Calibration errors.

        Returns
        -------
        array
            Confidence levels, 0 where nothing is guaranteed.

        Examples
        --------
        >>> plan(n=3000, n_bins=10, coverage="marginal").validity([0.02, 0.05, 0.1]).round(3).tolist()
        [0.0, 0.552, 0.995]
        """
        if self.scheme == "ums":
            fix = 'use scheme="umd", or plan again for each alpha'
            raise InputError(Setting("scheme", self.scheme), "has no formula for its validity", fix)
        reach = np.asarray(epsilon, dtype=np.float64) - (1.0 / (self.smallest_bin + 1) if self.averages_edges else 0.0)
        failing = 2.0 * self.union * np.exp(-2.0 * self.smallest_bin * np.maximum(reach, 0.0) ** 2)
        return np.asarray(np.clip(1.0 - failing, 0.0, 1.0))

    @property
    def union(self) -> int:
        """How many intervals share alpha."""
        bins = self.n_bins if self.coverage == "simultaneous" else 1
        if self.points_per_bin:
            return bins * (self.classes if self.notion == "class-wise" else 1)
        return bins * (self.classes if self.notion in ("class-wise", "top-label") else 1)

    def __str__(self) -> str:
        what = "every bin" if self.coverage == "simultaneous" else "the bin of a new row"
        how = {
            "umd": "uniform-mass binning on all rows (Gupta 2023, eq. 4.8 and 4.11)",
            "umd-original": "uniform-mass binning that averages boundary rows in (Gupta 2023, eq. 4.10)",
            "ums": f"bins from a random split of {split_size(self.n, self.n_bins):,} rows, rates from the others "
            "(exact distribution of spacings and Hoeffding's inequality)",
        }[self.scheme]
        within = np.ceil(self.epsilon * 1e4) / 1e4
        where = {
            None: "",
            "confidence": " of the confidence (the largest probability of a row)",
            "class-wise": f" of each of {self.classes} classes",
            "top-label": f" of each of {self.classes} predicted classes",
        }[self.notion]
        labels = "labels for each predicted class" if self.notion == "top-label" else "labels"
        start = f"{self.n:,} {labels} in {plural(self.n_bins, 'bin')}{where}"
        if self.points_per_bin:
            start = f"{self.n:,} labels, at least {self.points_per_bin:,} in each bin{where},"
            how = _BY_POINTS[self.notion]
        lines = [
            f"{start} guarantee that {what} is within {within:.4f} "
            f"of its true rate, with confidence {100 * (1 - self.alpha):.6g} %, for any score without ties: {how}."
        ]
        if self.expected_error is not None:
            error = np.ceil(self.expected_error * 1e4) / 1e4
            lines.append(f"  On average over calibration sets, the calibration error (ECE) is at most {error:.4f}.")
        if self.ties:
            lines.append(
                "  The scores given have ties that bins of equal size would cut through, so the above is not for them. "
                "With whole values in a bin:"
            )
        lines += [
            f"  mean score {bin.mean_score:.4g}: about {bin.rows:,} rows, interval width about {bin.expected_width:.4f}"
            for bin in self.outlook
        ]
        return "\n".join(lines)


_BY_POINTS: dict[PlanNotion | None, str] = {
    None: "uniform-mass binning on all rows (Gupta 2023, eq. 4.8 and 4.11)",
    "confidence": "uniform-mass binning on all rows (Gupta 2023, eq. 4.8 and 4.11)",
    "top-label": "uniform-mass binning of each predicted class (Gupta 2023, eq. 5.10)",
    "class-wise": "uniform-mass binning of each class, on all rows (Gupta 2023, eq. 5.15)",
}


def plan(
    n: int | None = None,
    n_bins: int | None = None,
    epsilon: float | None = None,
    alpha: float = 0.1,
    *,
    coverage: Coverage = "simultaneous",
    scheme: Scheme = "umd",
    scores: ArrayLike | None = None,
    n_classes: int | None = None,
    notion: PlanNotion = "confidence",
    points_per_bin: int | Literal["fewest"] | None = None,
) -> Plan:
    r"""Plan how many labels a certificate needs: pass two of ``n``, ``n_bins`` and ``epsilon`` to get the third.

    Parameters
    ----------
    n
        Number of labels.
    n_bins
        Number of bins.
    epsilon
        Guaranteed largest difference between the output of a bin and its true event rate, between 0 and 1.
    alpha
        1 - confidence.
    coverage : {"simultaneous", "marginal"}
        Guarantee for every bin at once, or for the bin of one new row.
    scheme : {"umd", "umd-original", "ums"}
        ``"umd"``: uniform-mass binning on all rows. ``"umd-original"``: the same with boundary rows averaged in, as
        first published. ``"ums"``: a random split of the rows chooses the bins, the others estimate the rates.
    scores
        A sample of scores, without labels. Each bin then gets the expected width of its exact interval, if events occur
        at the rates that the scores state. A matrix of class probabilities is read by its largest probabilities, and
        sets ``n_classes``; expected widths are for the notion ``"confidence"`` only.
    n_classes
        Number of classes, if there are several.
    notion : {"confidence", "class-wise", "top-label"}
        For several classes, what has bins: the largest probability of each row; every class, each with all rows; or
        every predicted class, with the rows that predict it, and ``n`` is then the number of labels for each of them.
        Class-wise and top-label plans spend an equal share of alpha on each class, so that all hold simultaneously.
    points_per_bin
        Labels in each bin, in place of ``n_bins``: ``n`` is then the number of all labels, of whatever predicted class,
        and classes with more of them have more bins. Top-label plans then share alpha among all bins, not by class.
        Pass it with ``n`` to get ``epsilon``; or pass ``"fewest"`` with ``n`` and ``epsilon`` to get the fewest labels
        per bin.

    Returns
    -------
    Plan
        With ``n``, ``n_bins`` and ``epsilon``; prints as a sentence.

    Notes
    -----
    Guarantee: for any score without ties and independent rows, before any label is seen. For several classes by the
    union bound over classes.
    With ``"ums"`` the number of rows in a bin is negative hypergeometric, exactly and for any continuous score. Half of
    alpha is spent on bins with fewer rows than planned, half on Hoeffding's inequality. Gupta (2023, section 4.B)
    splits alpha the same way, with an assumed constant in place of the exact distribution.
    With ``points_per_bin`` every predicted class (``"top-label"``) must have at least that many labels, so ``n`` is at
    least this times the number of classes. A bound of 1 or more guarantees nothing and is refused.
    Reference: Gupta (2023), eq. 4.8 (``"umd"``), 4.11 (marginal), 4.10 (``"umd-original"``), 5.10 and 5.15
    (``points_per_bin``).

    Examples
    --------
    >>> plan(n_bins=10, epsilon=0.1, coverage="marginal").n
    1510
    >>> plan(n=5000, epsilon=0.08).n_bins
    11
    >>> plan(n_bins=10, epsilon=0.1, n_classes=5, notion="class-wise").n
    3470
    >>> plan(n=10_000, n_classes=10, notion="top-label", points_per_bin=100).n_bins
    100
    >>> print(plan(n=5000, n_bins=10))
    5,000 labels in 10 bins guarantee that every bin is within 0.0729 of its true rate, with confidence 90 %, for any
    score without ties: uniform-mass binning on all rows (Gupta 2023, eq. 4.8 and 4.11).
      On average over calibration sets, the calibration error (ECE) is at most 0.0224.
    >>> stated = [0.5] * 60 + [0.8] * 100 + [0.9] * 140
    >>> [bin.rows for bin in plan(n=300, n_bins=5, scores=stated).outlook]
    [60, 100, 140]
    """
    check_option("coverage", coverage, get_args(Coverage))
    check_option("scheme", scheme, get_args(Scheme))
    check_option("notion", notion, get_args(PlanNotion))
    if width(scores) > 2:
        matrix = settled_classes(read_matrix(scores)[0], "probability")[0]
        if n_classes is not None and n_classes != matrix.shape[1]:
            problem = f"differs from the {plural(matrix.shape[1], 'column')} of scores"
            raise InputError(Setting("n_classes", n_classes), problem, "leave it out: the columns are the classes")
        n_classes, scores = matrix.shape[1], matrix.max(axis=1) if notion == "confidence" else None
    if n_classes is None and notion != "confidence":
        needs = Phrase("is missing, which {notion} needs", notion=Setting("notion", notion))
        raise InputError("n_classes", needs, "pass the number of classes")
    if points_per_bin is not None:
        return _by_points(n, n_bins, epsilon, alpha, coverage, scheme, scores, n_classes, notion, points_per_bin)
    if n_classes is not None:
        check_whole("n_classes", n_classes, 2)
        share = 1 if notion == "confidence" else n_classes
        made = plan(n, n_bins, epsilon, alpha / share, coverage=coverage, scheme=scheme, scores=scores)
        return replace(made, alpha=alpha, notion=notion, classes=int(n_classes))
    absent = [name for name, value in {"n": n, "n_bins": n_bins, "epsilon": epsilon}.items() if value is None]
    if len(absent) != 1:
        raise InputError(
            absent[0] if absent else "epsilon",
            "is missing" if absent else "must be left out, since the other two are given",
            Phrase(
                "pass exactly two of {n}, {n_bins} and {epsilon}; the third is computed",
                n=Argument("n"),
                n_bins=Argument("n_bins"),
                epsilon=Argument("epsilon"),
            ),
        )
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}", "pass 0.1 for confidence 90 %")
    if epsilon is not None and not 0.0 < epsilon < 1.0:
        raise InputError(
            "epsilon", f"must lie strictly between 0 and 1, got {epsilon}", "pass 0.05 for 5 percentage points"
        )
    for name, value in {"n": n, "n_bins": n_bins}.items():
        if value is not None:
            check_whole(name, value)
    reach = _REACH[scheme]
    rows = int(n) if n is not None else _smallest_n(reach, cast(int, n_bins), cast(float, epsilon), alpha, coverage)
    bins = int(n_bins) if n_bins is not None else _largest_bins(reach, rows, cast(float, epsilon), alpha, coverage)
    achieved = reach(rows, bins, alpha, coverage)
    if not achieved < 1.0:  # rates differ by at most 1, so this guarantees nothing
        raise _nothing_guaranteed(rows, f"with {plural(bins, 'bin')}", "use fewer bins or more labels")
    used = rows - split_size(rows, bins) if scheme == "ums" else rows
    if scores is None:
        return Plan(rows, bins, achieved, alpha, coverage, scheme)
    outlook, ties = _outlook(check_scores(scores, "probability"), used, bins, alpha, coverage)
    return Plan(rows, bins, achieved, alpha, coverage, scheme, outlook, ties=ties)


def _nothing_guaranteed(rows: int, where: str, fix: str) -> TooFewLabels:
    return TooFewLabels(Setting("n", rows), f"is too few labels for a guarantee {where}", fix)


def _by_points(
    n: int | None,
    n_bins: int | None,
    epsilon: float | None,
    alpha: float,
    coverage: Coverage,
    scheme: Scheme,
    scores: ArrayLike | None,
    n_classes: int | None,
    notion: PlanNotion,
    points: int | Literal["fewest"],
) -> Plan:
    """The plan for a number of labels in each bin, or for the fewest that reach epsilon."""
    if scheme != "umd":
        raise InputError(Setting("scheme", scheme), "cannot be combined with points_per_bin", 'use scheme="umd"')
    for name, value in {"n_bins": n_bins, "scores": scores}.items():
        if value is not None:
            raise InputError(name, "cannot be combined with points_per_bin", "leave one of them out")
    if n is None:
        raise InputError("n", "is missing", "pass the number of all labels with points_per_bin")
    if (epsilon is None) != (points != "fewest"):
        fix = "pass points_per_bin='fewest' with epsilon, or a number of labels without it"
        raise InputError("epsilon", "and points_per_bin determine each other", fix)
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}", "pass 0.1 for confidence 90 %")
    check_whole("n", n)
    classes = 0
    if n_classes is not None:
        check_whole("n_classes", n_classes, 2)
        classes = int(n_classes)
    rows, about = int(n), notion if classes else None
    most = rows // classes if about == "top-label" else rows  # every predicted class needs the labels of one bin

    def made(k: int) -> Plan:
        draft = Plan(rows, rows // k, 0.0, alpha, coverage, scheme, (), about, classes, k)
        return replace(draft, epsilon=float(np.sqrt(np.log(2 * draft.union / alpha) / (2 * draft.smallest_bin))))

    if epsilon is None:
        check_whole("points_per_bin", points, 2)
        given = int(points)
        if given > most:
            each, where = (classes, f"each of {classes:,} predicted classes") if most < rows else (1, "one bin")
            wanted = f"is too few for {given:,} labels in {where}"
            raise TooFewLabels(Setting("n", rows), wanted, f"use at least {given * each:,} labels")
        found = made(given)
        if found.epsilon >= 1.0:
            raise _nothing_guaranteed(rows, f"with {given:,} in each bin", "use more labels per bin")
        return found
    if not 0.0 < epsilon < 1.0:
        raise InputError(
            "epsilon", f"must lie strictly between 0 and 1, got {epsilon}", "pass 0.05 for 5 percentage points"
        )
    if most < 2 or made(most).epsilon > epsilon:
        problem = Phrase("is too few labels for {epsilon}", epsilon=Setting("epsilon", epsilon))
        raise TooFewLabels(Setting("n", rows), problem, "pass a larger epsilon or use more labels")
    low, high = 1, most  # epsilon decreases as bins get larger and fewer
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if made(middle).epsilon <= epsilon else (middle, high)
    return made(high)


def split_size(n: int, n_bins: int) -> int:
    r"""Number of rows to set aside for choosing the bins: :math:`\lceil n^{2/3} B^{1/3} \rceil`, at most half.

    With a share r of the rows, the mass of the smallest bin falls short of 1/B by about :math:`2/\sqrt{r n / B}` of
    itself, and the share r is lost for estimating rates. The sum of the two losses is smallest at
    :math:`r = (B/n)^{1/3}`: 22 % with 100 rows per bin, 10 % with 1,000 and 1 % with a million.

    Examples
    --------
    >>> split_size(10_000_000, 10)
    100000
    """
    return min(n // 2, int(np.ceil(np.cbrt(float(n) ** 2 * n_bins) - 1e-9)))


def _ums_reach(n: int, n_bins: int, alpha: float, coverage: Coverage) -> float:
    part = split_size(n, n_bins)
    rest, gap = n - part, (part + 1) // n_bins
    if gap < 1 or rest < 1:
        return float("inf")
    union = n_bins if coverage == "simultaneous" else 1
    smallest = _smallest_bin(rest, part, gap, alpha / 2 / union)
    return float(np.sqrt(np.log(4 * union / alpha) / (2 * smallest))) if smallest > 0 else float("inf")


def _smallest_bin(rest: int, part: int, gap: int, alpha: float) -> int:
    """Largest m such that P(fewer than m of ``rest`` rows in a bin of ``part``'s order statistics) <= alpha.

    The bin lies between two order statistics of ``part`` that are ``gap`` apart. At most m - 1 of the other rows fall
    into it exactly if, in the joint order of all rows counted from the lower edge, the first m - 1 + gap contain at
    least ``gap`` rows of ``part``.
    """
    from scipy import stats  # imported here: slow, and only this scheme needs it

    low, high = 0, rest
    while low < high:
        middle = (low + high + 1) // 2
        if stats.hypergeom.sf(gap - 1, rest + part, part, middle - 1 + gap) <= alpha:
            low = middle
        else:
            high = middle - 1
    return low


_Reach = Callable[[int, int, float, Coverage], float]
_REACH: dict[Scheme, _Reach] = {
    "umd": umd_epsilon,
    "umd-original": partial(umd_epsilon, original=True),
    "ums": _ums_reach,
}


def _smallest_n(reach: _Reach, n_bins: int, epsilon: float, alpha: float, coverage: Coverage) -> int:
    low, high = 2 * n_bins - 1, 2 * n_bins
    while not reach(high, n_bins, alpha, coverage) <= epsilon:
        low, high = high, 2 * high
        if high > MOST_LABELS:
            raise InputError(
                Setting("epsilon", epsilon), "needs more than 10^15 labels", "pass a larger epsilon or fewer bins"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle, n_bins, alpha, coverage) <= epsilon else (middle, high)
    return high


def _largest_bins(reach: _Reach, n: int, epsilon: float, alpha: float, coverage: Coverage) -> int:
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reach(n, middle, alpha, coverage) <= epsilon else (low, middle)
    if low == 0:
        needed = _smallest_n(reach, 1, epsilon, alpha, coverage)
        raise TooFewLabels(
            Setting("n", n),
            Phrase("is too few labels for {epsilon}", epsilon=Setting("epsilon", epsilon)),
            f"even one bin needs {needed:,} labels",
        )
    return low


def _outlook(
    scores: NDArray[Any], n: int, n_bins: int, alpha: float, coverage: Coverage
) -> tuple[tuple[BinOutlook, ...], bool]:
    """What to expect of each bin, and whether ties forbid bins of equal size."""
    ordered = np.sort(scores)
    parts = [part for part in np.array_split(ordered, n_bins) if len(part)]
    ties = any(low[-1] == high[0] for low, high in itertools.pairwise(parts))
    sizes = [max(n // n_bins - 1, 1)] * len(parts)
    if ties:  # each value goes to the bin of its middle row
        values, counts = np.unique(ordered, return_counts=True)
        place = ((np.cumsum(counts) - counts / 2.0) * n_bins / len(ordered)).astype(int)
        parts = [np.repeat(values[place == bin], counts[place == bin]) for bin in np.unique(place)]
        sizes = [max(round(n * len(part) / len(ordered)), 1) for part in parts]
    share = alpha / len(parts) if coverage == "simultaneous" else alpha
    means = [float(part.mean()) for part in parts]
    outlook = [
        BinOutlook(mean, size, _expected_width(mean, size, share)) for mean, size in zip(means, sizes, strict=True)
    ]
    return tuple(outlook), ties


def _expected_width(rate: float, rows: int, alpha: float) -> float:
    from scipy import stats  # imported here: slow, and most plans are made without scores

    low, high = (float(stats.binom.ppf(q, rows, rate)) for q in (1e-9, 1.0 - 1e-9))
    k = np.unique(np.linspace(low, high, 2001).round())
    weight = stats.binom.pmf(k, rows, rate)
    bottom, top = clopper_pearson(k, np.full_like(k, rows), alpha)
    return float(np.dot(weight, top - bottom) / weight.sum())
