"""Split rows into a training, a calibration and a test set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import is_whole
from calibrant.arrays.sides import check_time, side_column
from calibrant.messages import Argument, InputError, Phrase
from calibrant.selection.folds import cut_time

SIZES = (0.6, 0.2, 0.2)


class Split(NamedTuple):
    """Ascending row numbers of a training, a calibration and a test set.

    The sets have no row in common, and no group or timestamp where they were split by those. Split by both, rows of a
    group that occurs again in a later set are in no set.
    """

    train: NDArray[np.intp]
    calibrate: NDArray[np.intp]
    test: NDArray[np.intp]


def split_rows(
    n: int,
    sizes: tuple[float, float, float] = SIZES,
    *,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    random_state: int | None = None,
) -> Split:
    """Split row numbers into a training, a calibration and a test set.

    The split is random; by whole ``groups``, in random order; or by ``time``, the oldest rows first, where rows with
    the same timestamp stay together. With ``time`` and ``groups`` the sets follow each other in time, and rows whose
    group occurs in a later set are left out of the earlier ones. Fit the model on the first set and the calibrator on
    the second, and evaluate on the third. The scores may be of one column or of several classes.

    Parameters
    ----------
    n
        Number of rows.
    sizes
        Shares of the rows, in any unit. Groups and timestamps are never cut, so a set may be slightly larger or
        smaller.
    groups
        Group of each row, such as a customer; rows of one group stay together.
    time
        Timestamp of each row.
    random_state
        None draws anew at every call: keep the row numbers for as long as the sets must stay separate. A seed gives
        the same row numbers again; use it only if the order of the rows does not depend on their labels. In rows
        sorted by label, the number of events at fixed places follows from the total, and a certificate of the
        calibration set can be false nearly always. A new draw is valid for rows in any order.

    Returns
    -------
    Split
        Row numbers ``train``, ``calibrate`` and ``test``.

    Notes
    -----
    Guarantee: the sets have no row in common. Whether a certificate of the calibration set holds depends on
    ``random_state``, see there.
    Cost: one sort.

    Examples
    --------
    >>> parts = split_rows(10, time=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    >>> parts.train.tolist(), parts.calibrate.tolist(), parts.test.tolist()
    ([4, 5, 6, 7, 8, 9], [2, 3], [0, 1])
    """
    if isinstance(n, bool) or not is_whole(n) or n < 3:
        raise InputError("n", f"must be a number of rows, at least 3 for three sets, got {n!r}")
    if len(sizes) != 3 or not all(np.isfinite(size) and size > 0 for size in sizes):
        raise InputError("sizes", f"must be three positive shares of the rows, got {sizes!r}")
    if time is not None:
        made = _named(_places(np.unique(check_time(time, n)[0], return_inverse=True)[1]), sizes)
        return made if groups is None else _apart(made, side_column(groups, "groups", n))
    rng = np.random.default_rng(random_state)
    if groups is None:
        return _named(rng.permutation(n), sizes)
    names, index = np.unique(side_column(groups, "groups", n), return_inverse=True)
    return _named(_places(rng.permutation(len(names))[index]), sizes)


def walk_forward(time: ArrayLike, steps: int = 5) -> Iterator[Split]:
    """Yield splits forward in time: train on the past, calibrate on the next period, test on the one after it.

    Time is cut into ``steps`` + 2 periods of about equally many rows; rows with the same timestamp stay together.

    Parameters
    ----------
    time
        Timestamp of each row.
    steps
        Number of splits.

    Returns
    -------
    iterator of Split
        Row numbers ``train``, ``calibrate`` and ``test`` of each split.

    Notes
    -----
    No finite-sample guarantee: rows ordered by time are not assumed to be independent.

    Examples
    --------
    >>> for parts in walk_forward([1, 2, 3, 4], steps=2):
    ...     print(parts.train.tolist(), parts.calibrate.tolist(), parts.test.tolist())
    [0] [1] [2]
    [0, 1] [2] [3]
    """
    if isinstance(steps, bool) or not is_whole(steps) or steps < 1:
        raise InputError("steps", f"must be an integer of at least 1, got {steps!r}")
    when: NDArray[Any] = check_time(time, len(np.asarray(time)))[0]
    moments, index = np.unique(when, return_inverse=True)
    if len(moments) < steps + 2:
        raise InputError("steps", f"asks for {steps + 2} periods of {len(moments)} distinct times", "pass fewer steps")
    stretch = cut_time(moments, np.bincount(index), steps + 2)[2][index]
    if stretch.max() < 2:
        raise InputError(
            "steps", f"asks for {steps + 2} periods, and one timestamp has too many of the rows", "pass fewer steps"
        )
    for last in range(2, int(stretch.max()) + 1):
        yield Split(*(np.flatnonzero(part) for part in (stretch < last - 1, stretch == last - 1, stretch == last)))


def _places(keys: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many rows have a smaller key: the same for rows that must stay together."""
    return np.asarray(np.searchsorted(np.sort(keys), keys), dtype=np.intp)


def _apart(made: Split, groups: NDArray[Any]) -> Split:
    """The sets without rows whose group occurs in a later set."""
    train, calibrate, test = made
    calibrate = calibrate[~np.isin(groups[calibrate], groups[test])]
    train = train[~np.isin(groups[train], groups[np.concatenate([calibrate, test])])]
    if not len(train) or not len(calibrate):
        both = {"groups": Argument("groups"), "time": Argument("time")}
        raise InputError(
            "groups",
            f"leave the {'training' if not len(train) else 'calibration'} set empty: all its groups occur again later",
            Phrase("pass {groups} alone for new groups, or {time} alone for the future of known groups", **both),
        )
    return Split(train, calibrate, test)


def _named(places: NDArray[np.intp], sizes: tuple[float, float, float]) -> Split:
    ends = len(places) * np.cumsum(sizes)[:2] / sum(sizes)
    part = np.searchsorted(ends, places + 1e-9, side="right")
    found = Split(*(np.flatnonzero(part == number) for number in range(3)))
    if not all(len(rows) for rows in found):
        raise InputError(
            "sizes", "would leave a set empty", "there are too few rows, groups or timestamps for three sets"
        )
    return found
