"""Stability of a portfolio: population stability index, migration matrix and concentration over grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.credit.counts import check_counts, check_names, check_numbers, check_shapes, name_key, read_names
from calibrant.messages import InputError, Shown
from calibrant.metrics.estimates import plain
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class Stability(Shown):
    """The result of :func:`psi`; ``float(stability)`` is the index.

    Attributes
    ----------
    value
        Population stability index.
    expected, quantile
        Mean and 95 % quantile of the index if both samples come from one population.
    names, before, after, parts
        Grades, rows in each sample, and the share of each grade in the index.
    """

    value: float
    expected: float
    quantile: float
    names: tuple[str, ...]
    before: Ints
    after: Ints
    parts: Floats

    def __float__(self) -> float:
        """The index."""
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {key: plain(value) for key, value in vars(self).items()}

    def __str__(self) -> str:
        """The index, what sampling alone would give, and the usual limits."""
        size = "stable" if self.value < 0.1 else "some shift" if self.value < 0.25 else "a large shift"
        chance = "more than sampling explains" if self.value > self.quantile else "as sampling alone would give"
        return (
            f"PSI {self.value:.3f}: {size} by the usual limits of 0.1 and 0.25; {chance} (mean {self.expected:.3f}, "
            f"95 % quantile {self.quantile:.3f})"
        )


def psi(before: ArrayLike, after: ArrayLike, *, names: Sequence[Any] | None = None) -> Stability:
    r"""Population stability index: how far the distribution over grades has moved.

    .. math:: \mathrm{PSI} = \sum_g (a_g - b_g) \ln\frac{a_g}{b_g},

    where :math:`b_g` and :math:`a_g` are the shares of grade g before and after.

    Parameters
    ----------
    before, after
        Rows of each grade in the two samples.
    names
        Names of the grades; 1, 2, ... when left out.

    Returns
    -------
    Stability
        The index, its mean and 95 % quantile without a shift, and the part of each grade.

    Notes
    -----
    Edges: half a row is added to each grade if one of them is empty in one sample, where the index would be infinite.
    Guarantee: no finite-sample guarantee. Without a shift, PSI / (1/N + 1/M) is about chi-square with one degree of
    freedom less than grades, for N and M independent rows; a borrower in both samples makes the index smaller.
    The limits 0.1 and 0.25 are a convention without a theory.
    Cost: O(grades). Reference: Yurdakul (2018), Statistical properties of population stability index.

    Examples
    --------
    >>> print(psi([300, 500, 200], [250, 500, 250]))
    PSI 0.020: stable by the usual limits of 0.1 and 0.25; more than sampling explains (mean 0.004, 95 % quantile 0.012)
    """
    b, a = check_counts(before, "before"), check_counts(after, "after")
    check_shapes(b, "before", after=a)
    if not b.sum() or not a.sum():
        raise InputError("before" if not b.sum() else "after", "has no rows", "pass the rows of each grade")
    labels, half = check_names(names, b, "before"), 0.5 if (b == 0).any() or (a == 0).any() else 0.0
    used = (b > 0) | (a > 0)
    shares = [np.where(used, column + half, 0.0) for column in (b, a)]
    p, q = (column / column.sum() for column in shares)
    parts = np.zeros(len(b))
    parts[used] = (q[used] - p[used]) * np.log(q[used] / p[used])
    scale, free = 1.0 / float(b.sum()) + 1.0 / float(a.sum()), max(int(used.sum()) - 1, 0)
    quantile = scale * float(special.chdtri(free, 0.05)) if free else 0.0
    return Stability(float(parts.sum()), scale * free, quantile, labels, b, a, parts)


@dataclass(frozen=True, eq=False)
class Migration(Shown):
    """The result of :func:`migration_matrix`.

    Attributes
    ----------
    names
        Grades, best first.
    counts
        Borrowers by grade before (rows) and after (columns).
    shares
        Shares of each row; NaN for a grade without borrowers before.
    stayed, better, worse
        Shares of all borrowers.
    """

    names: tuple[str, ...]
    counts: Ints
    shares: Floats
    stayed: float
    better: float
    worse: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {key: plain(value) for key, value in vars(self).items()}

    def __str__(self) -> str:
        """The matrix in percent, and how many moved."""
        width = max(8, *(len(name) + 2 for name in self.names))
        lines = [f"{'from / to':<{width + 2}}" + "".join(f"{name:>{width}}" for name in self.names) + f"{'rows':>9}"]
        for name, row, total in zip(self.names, self.shares, self.counts.sum(axis=1), strict=True):
            cells = "".join(f"{'' if np.isnan(each) else f'{100 * each:.1f}':>{width}}" for each in row)
            lines.append(f"{name:<{width + 2}}{cells}{total:>9}")
        moved = f"{100 * self.stayed:.1f} % stayed, {100 * self.better:.1f} % moved to a better grade, "
        return "\n".join([*lines, f"{moved}{100 * self.worse:.1f} % to a worse one."])


def migration_matrix(before: ArrayLike, after: ArrayLike, *, names: Sequence[Any] | None = None) -> Migration:
    """Count the borrowers that moved from one grade to another.

    Parameters
    ----------
    before, after
        Grade of each borrower at two dates, in the same order of borrowers.
    names
        Grades from best to worst; when left out, numbers in order of their value, then texts by name.

    Returns
    -------
    Migration
        Counts, shares by row, and the shares that stayed, improved and got worse.

    Notes
    -----
    Guarantee: no finite-sample guarantee is needed: these are counts, not estimates. Borrowers who left or joined are
    not in it.
    Cost: O(borrowers). Reference: ECB (2019), Instructions for reporting the validation results of internal models.

    Examples
    --------
    >>> print(migration_matrix(["A", "A", "B", "B"], ["A", "B", "B", "A"]))
    from / to        A       B     rows
    A             50.0    50.0        2
    B             50.0    50.0        2
    50.0 % stayed, 25.0 % moved to a better grade, 25.0 % to a worse one.
    """
    first = read_names(before, "before")
    a, b = first.tolist(), read_names(after, "after", len(first), "before").tolist()
    if not a:
        raise InputError("before", "is empty", "pass at least one borrower")
    labels = sorted({*a, *b}, key=name_key) if names is None else read_names(list(names), "names").tolist()
    twice = next((each for each in labels if labels.count(each) > 1), None)
    if twice is not None:
        raise InputError("names", f"lists the grade {twice!r} twice", "list each grade once, best first")
    unknown = sorted({*a, *b} - set(labels), key=name_key)
    if unknown:
        raise InputError("names", f"lacks the grade {unknown[0]!r}", "list all grades, best first")
    place = {name: at for at, name in enumerate(labels)}
    rows, columns = np.array([place[each] for each in a]), np.array([place[each] for each in b])
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, counts / np.maximum(total, 1), np.nan)
    moved: NDArray[Any] = columns - rows
    return Migration(
        tuple(labels), counts, shares, *(float(each.mean()) for each in (moved == 0, moved < 0, moved > 0))
    )


@dataclass(frozen=True, eq=False)
class Concentration(Shown):
    """The result of :func:`concentration`; ``float(result)`` is the index.

    Attributes
    ----------
    value
        Herfindahl-Hirschman index: the sum of squared shares.
    effective
        Number of equally large grades with the same index.
    normalized
        The index on a scale from 0 (all grades equal) to 1 (all in one grade).
    largest, share
        The largest grade and its share.
    """

    value: float
    effective: float
    normalized: float
    largest: str
    share: float

    def __float__(self) -> float:
        """The index."""
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {key: plain(value) for key, value in vars(self).items()}

    def __str__(self) -> str:
        """The index in a sentence."""
        return (
            f"HHI {self.value:.3f}, that of {self.effective:.1f} equally large grades; the largest, {self.largest}, "
            f"has {100 * self.share:.0f} %"
        )


def concentration(amounts: ArrayLike, *, names: Sequence[Any] | None = None) -> Concentration:
    r"""Herfindahl-Hirschman index of the distribution over grades.

    .. math:: \mathrm{HHI} = \sum_g a_g^2,

    where :math:`a_g` is the share of grade g in borrowers or in exposure.

    Parameters
    ----------
    amounts
        Borrowers or exposure of each grade.
    names
        Names of the grades; 1, 2, ... when left out.

    Returns
    -------
    Concentration
        Index, effective number of grades, and the largest grade.

    Notes
    -----
    Guarantee: no finite-sample guarantee is needed: this describes the portfolio, it estimates nothing.
    Cost: O(grades). Reference: ECB (2019), Instructions for reporting the validation results of internal models.

    Examples
    --------
    >>> print(concentration([100, 300, 100], names=["A", "B", "C"]))
    HHI 0.440, that of 2.3 equally large grades; the largest, B, has 60 %
    """
    values = check_numbers(amounts, "amounts", "must be non-negative numbers")
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values >= 0.0)).all() or not values.sum() > 0:
        raise InputError("amounts", "must be non-negative numbers with a sum above 0, one for each grade")
    labels = check_names(names, values.astype(np.int64), "amounts")
    shares = values / values.sum()
    index, size, top = float((shares**2).sum()), len(values), int(np.argmax(shares))
    normalized = (index - 1.0 / size) / (1.0 - 1.0 / size) if size > 1 else 1.0
    return Concentration(index, 1.0 / index, normalized, labels[top], float(shares[top]))
