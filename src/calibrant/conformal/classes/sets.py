"""Prediction sets of classes, one for each row: which classes each set holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length
from calibrant.arrays.keys import read_keys
from calibrant.arrays.labels import label_column
from calibrant.conformal.coverage import Coverage
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import Shown, listed, plural

SHOWN = 5
"""Number of sizes that are listed when sets are printed."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassSets(Shown):
    """Prediction sets of classes, one for each row, as the methods of :mod:`calibrant.conformal` return them.

    Attributes
    ----------
    members
        Matrix of booleans, one row per set and one column per class: whether the set holds the class.
    classes
        Names of the classes, in the order of the columns.
    values
        The classes as the labels are written.
    filled
        Whether the set would be empty and holds the most probable class instead, for each row.
    certificate
        Which coverage is guaranteed: a :class:`~calibrant.conformal.Coverage`, or the reason why there is none.

    Notes
    -----
    Guarantee: that of ``certificate``; the sets themselves have none.

    Examples
    --------
    >>> import numpy as np
    >>> sets = ClassSets(np.array([[True, False], [True, True]]), ("cat", "dog"), np.array(["cat", "dog"]))
    >>> sets.lists()
    [['cat'], ['cat', 'dog']]
    >>> sets.sizes.tolist(), sets.covers(["dog", "dog"]).tolist()
    ([1, 2], [False, True])
    """

    members: NDArray[np.bool_]
    classes: tuple[str, ...]
    values: NDArray[Any]
    filled: NDArray[np.bool_] | None = None
    certificate: Coverage | NoCertificate | None = None

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.members)

    def __iter__(self) -> Iterator[list[Any]]:
        """The classes of each set."""
        return iter(self.lists())

    def __getitem__(self, rows: Any) -> ClassSets:
        """Some of the sets, by index, slice or boolean mask."""
        at = np.atleast_1d(np.arange(len(self))[rows])
        filled = None if self.filled is None else self.filled[at]
        return ClassSets(self.members[at], self.classes, self.values, filled, self.certificate)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of classes of each set."""
        return np.asarray(self.members.sum(axis=1))

    @property
    def mean_size(self) -> float:
        """Mean number of classes of a set; NaN without sets."""
        return float(self.sizes.mean()) if len(self) else float("nan")

    def lists(self) -> list[list[Any]]:
        """The classes of each set as a list, as the labels are written."""
        return [self.values[row].tolist() for row in self.members]

    def covers(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each set holds the true class; a label that is none of the classes is in no set.

        Parameters
        ----------
        y
            The true class of each row.

        Returns
        -------
        ndarray of bool
            Its mean is the observed coverage.
        """
        target = label_column(y, "y")
        check_length(target, "y", len(self))
        codes = read_keys(target, "y").among(self.classes)
        return np.asarray((codes >= 0) & self.members[np.arange(len(self)), codes])

    def coverage(self, y: ArrayLike, groups: ArrayLike | None = None) -> float | dict[str, float]:
        """Observed share of sets that hold the true class, over all rows or in each group.

        Parameters
        ----------
        y
            The true class of each row; may also be passed as ``groups``, for the coverage of each class.
        groups
            Group of each row.

        Returns
        -------
        float or dict
            The share, or the share by group.
        """
        hit = self.covers(y)
        if groups is None:
            return float(hit.mean()) if len(hit) else float("nan")
        keys = read_keys(groups)
        check_length(keys.codes, "groups", len(self))
        return {name: float(hit[keys.codes == j].mean()) for j, name in enumerate(keys.names)}

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """One line for each set: a column of booleans for each class, and its size.

        Parameters
        ----------
        backend
            Library of the frame.

        Returns
        -------
        frame
            The column of sizes is named ``size``, or ``set size`` if a class has that name.
        """
        import narwhals.stable.v2 as nw  # imported here because it is slow to load

        columns: dict[str, Any] = {name: self.members[:, j] for j, name in enumerate(self.classes)}
        columns["set size" if "size" in self.classes else "size"] = self.sizes
        return nw.from_dict(columns, backend=backend).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: the names of the classes, and the places of those in each set."""
        return {
            "classes": list(self.classes),
            "sets": [np.flatnonzero(row).tolist() for row in self.members],
            "filled": [] if self.filled is None else np.flatnonzero(self.filled).tolist(),
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    def __repr__(self) -> str:
        """Number of sets and classes."""
        return f"ClassSets({plural(len(self), 'set')} of {plural(len(self.classes), 'class', 'classes')})"

    def __str__(self) -> str:
        """How many sets there are, how large they are, and what is guaranteed."""
        head = f"{plural(len(self), 'prediction set')} from {plural(len(self.classes), 'class', 'classes')}"
        lines = [f"{head}: {self._size_words()}." if len(self) else f"{head}."]
        if self.certificate is not None:
            lines.append(str(self.certificate))
        if self.filled is not None and self.filled.any():
            lines.append(
                f"{plural(int(self.filled.sum()), 'set')} would be empty, since no class is likely enough, and "
                f"{'holds' if self.filled.sum() == 1 else 'hold'} the most probable class instead."
            )
        empty = int((self.sizes == 0).sum())
        if empty:
            lines.append(f"{plural(empty, 'set')} {'is' if empty == 1 else 'are'} empty: no class is likely enough.")
        return "\n  ".join(lines)

    def _size_words(self) -> str:
        sizes, counts = np.unique(self.sizes, return_counts=True)
        shares = [
            f"{percent(count / len(self))} hold {plural(size, 'class', 'classes')}"
            for size, count in zip(sizes[:SHOWN].tolist(), counts[:SHOWN].tolist(), strict=True)
        ]
        rest = int(counts[SHOWN:].sum())
        if rest:
            shares.append(f"{percent(rest / len(self))} hold more")
        return f"{listed(shares)}; mean {self.mean_size:.3g}, largest {sizes[-1]:,}"


def percent(share: float) -> str:
    """A share in percent with up to three digits; never 100 % or 0 % by rounding.

    Examples
    --------
    >>> percent(0.9), percent(0.99999), percent(1.0), percent(0.00001)
    ('90 %', 'above 99.9 %', '100 %', 'below 0.1 %')
    """
    if 0.999 < share < 1.0:
        return "above 99.9 %"
    if 0.0 < share < 0.001:
        return "below 0.1 %"
    return f"{100.0 * share:.3g} %"
