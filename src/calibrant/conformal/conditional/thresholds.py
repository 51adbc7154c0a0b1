"""Thresholds on conformity scores: one for all rows, one by group or by class, or one for each weighted row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_length, check_option, read_floats
from calibrant.arrays.keys import Keys, read_keys
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.sides import RatioWeights, check_weights
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.quantiles import check_ratios, conformal_quantile, fewest_rows, rank
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.messages import InputError, Voice, note, warn
from calibrant.numerics import Floats, Ints


@note("too-few-rows-for-sets")
def too_few_rows_for_sets(voice: Voice, few: int, parts: int, alpha: float, needed: int) -> str:
    """Thresholds, one of each group or class, that are infinite since too few rows calibrate them."""
    needs = f"alpha = {alpha:g} needs at least {needed:,} {voice.nouns.rows} to calibrate"
    if parts == 1:
        return f"{needs}, and there are fewer: every set holds everything"
    return f"{needs} in each group or class, and {few:,} of {parts:,} have fewer: their sets hold everything"


weighted_sets_hold_everything = note(
    "weighted-sets-hold-everything",
    "{rows:,} of {n:,} sets hold everything: the weights of these rows are too large beside those of the calibration "
    "rows for alpha = {alpha:g}; use more calibration rows, or a larger alpha",
)

Unseen = Literal["refuse", "everything"]


class Calibrated(NamedTuple):
    """Scores of calibration rows with what describes them: groups, weights, and labels with the names of classes."""

    scores: Floats
    groups: Any = None
    weights: Any = None
    classes: tuple[NDArray[np.intp], tuple[str, ...]] | None = None

    @property
    def alike(self) -> bool:
        """Whether all rows share one threshold."""
        return self.groups is None and self.weights is None and self.classes is None

    def taken(self, groups: Any, weights: Any, n: int, rows: NDArray[np.int64]) -> Calibrated:
        """These scores with groups and weights, of which there are n, at the rows that calibrate."""
        if groups is not None:
            keys = _group_keys(groups, n)
            groups = Keys(keys.codes[rows], keys.names)
        if weights is not None:
            read, _ = check_weights(weights, "importance", n)
            weights = weights[rows] if isinstance(weights, RatioWeights) else read[rows]
        return self._replace(groups=groups, weights=weights)

    def at(self, alpha: float) -> Thresholds:
        """Their thresholds."""
        return Thresholds.of(self.scores, alpha, groups=self.groups, weights=self.weights, classes=self.classes)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds that scores of new rows must not exceed, from the scores of calibration rows.

    Attributes
    ----------
    alpha
        Probability that a score may exceed its threshold.
    table
        One row per group (or one row) and one column per class (or one column); infinite where there are too few rows.
        Empty with weights, since each new row then has a threshold of its own.
    rows
        Calibration rows behind each entry.
    groups, classes
        Names of the groups and classes; None if all rows share a row or a column.
    scores, weights
        With weights: those of the calibration rows.
    known
        With weights: whether they are declared to be the exact density ratio.
    """

    alpha: float
    table: Floats
    rows: Ints
    groups: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    scores: Floats | None = None
    weights: Floats | None = None
    known: bool = False

    @classmethod
    def of(
        cls,
        scores: Floats,
        alpha: float,
        *,
        groups: ArrayLike | None = None,
        weights: Any = None,
        classes: tuple[NDArray[np.intp], tuple[str, ...]] | None = None,
    ) -> Thresholds:
        """Thresholds from the scores of calibration rows, and their groups, weights, or labels with class names.

        Examples
        --------
        >>> scores = np.arange(1.0, 20.0)
        >>> Thresholds.of(scores, 0.1).single
        18.0
        >>> by_group = Thresholds.of(scores, 0.2, groups=["a"] * 10 + ["b"] * 9)
        >>> by_group.at(2, groups=["b", "a"]).tolist()
        [[18.0], [9.0]]
        >>> Thresholds.of(scores, 0.1, weights=np.ones(19)).at(1, weights=[1.0]).tolist()
        [[18.0]]
        """
        if weights is not None:
            if groups is not None or classes is not None:
                raise InputError("sample_weight", "cannot be combined with groups or classes", "leave out one of them")
            return cls._weighted(scores, alpha, weights)
        keys = None if groups is None else _group_keys(groups, len(scores))
        labels, names = (None, None) if classes is None else classes
        shape = (1 if keys is None else len(keys.names), 1 if names is None else len(names))
        cell = np.zeros(len(scores), dtype=np.intp)
        if keys is not None:
            cell = cell + keys.codes * shape[1]
        if labels is not None:
            cell = cell + labels
        order = np.lexsort((scores, cell))
        rows = np.bincount(cell, minlength=shape[0] * shape[1])
        starts = np.concatenate([[0], np.cumsum(rows)])
        table = np.full(len(rows), np.inf)
        for j, n in enumerate(rows.tolist()):
            k = rank(n, alpha)
            if k <= n:
                table[j] = scores[order[starts[j] + k - 1]]
        return cls(alpha, table.reshape(shape), rows.reshape(shape), None if keys is None else keys.names, names)

    @classmethod
    def _weighted(cls, scores: Floats, alpha: float, weights: Any) -> Thresholds:
        w, _ = check_weights(weights, "importance", len(scores))
        known = isinstance(weights, RatioWeights) and weights.known
        none = np.empty((0, 0))
        return cls(alpha, none, none.astype(np.int64), scores=scores, weights=np.asarray(w, np.float64), known=known)

    @property
    def single(self) -> float:
        """The threshold, if there is one for all rows."""
        if self.weights is not None or self.table.size != 1:
            raise InputError("threshold", "differs between rows", "use thresholds_.table, or thresholds_.at")
        return float(self.table[0, 0])

    def at(self, n: int, *, groups: ArrayLike | None = None, weights: Any = None, unseen: Unseen = "refuse") -> Floats:
        """Thresholds of n new rows: a matrix with one row, or n rows, and one column, or one per class."""
        check_option("unseen", unseen, get_args(Unseen))
        _need("groups", groups, self.groups is not None)
        _need("sample_weight", weights, self.weights is not None)
        if self.scores is not None:
            new = read_floats(weights, "sample_weight")
            check_length(new, "sample_weight", n)
            check_ratios(new, "sample_weight")
            found = np.asarray(conformal_quantile(self.scores, self.alpha, self.weights, new))
            if np.isinf(found).any():
                warn(weighted_sets_hold_everything(rows=int(np.isinf(found).sum()), n=n, alpha=self.alpha))
            return found[:, None]
        few = self.rows < fewest_rows(self.alpha)
        if few.any():
            warn(too_few_rows_for_sets(int(few.sum()), few.size, self.alpha, fewest_rows(self.alpha)))
        if self.groups is None:
            return self.table
        keys = read_keys(groups)
        check_length(keys.codes, "groups", n)
        places = keys.among(self.groups)
        if unseen == "refuse" and (places < 0).any():
            strange = [name for name in keys.names if name not in self.groups]
            what = f"has {first_names(strange)}, which fit did not see" if strange else "has missing values"
            raise InputError(
                "groups",
                what,
                "fit again with rows of these groups, or pass unseen='everything' for sets that hold everything",
            )
        return np.vstack([self.table, np.full((1, self.table.shape[1]), np.inf)])[places]

    def certificate(self, tight: bool = True) -> Coverage | NoCertificate:
        """What is guaranteed about scores of new rows.

        Parameters
        ----------
        tight
            Whether sets are exactly those at the thresholds; if some are larger, there is no upper bound on the
            coverage.
        """
        level = 1.0 - self.alpha
        if self.weights is not None:
            if not self.known:
                return NoCertificate(
                    NoCertificateCode.ESTIMATED_WEIGHTS,
                    "the weights are not declared to be a known density ratio: pass them as "
                    "calibrant.shift.known_weights(...) if they are known, for example from a sampling plan",
                )
            return Coverage(
                level, self.alpha, "Tibshirani et al. (2019)", "known-ratio", target="for rows of the new population"
            )
        if self.groups is None and self.classes is None:
            upper = min(level + 1.0 / (int(self.rows[0, 0]) + 1), 1.0) if tight else None
            return Coverage(level, self.alpha, "Gupta (2023), Proposition 9.1", upper=upper)
        parts = [name for name, there in (("group", self.groups), ("class", self.classes)) if there is not None]
        return Coverage(level, self.alpha, "Vovk et al. (2005)", target=f"for the rows of each {' and '.join(parts)}")


def _group_keys(groups: ArrayLike, n: int) -> Keys:
    keys = read_keys(groups)
    check_length(keys.codes, "groups", n)
    if (keys.codes < 0).any():
        raise InputError("groups", "has missing values", "drop these rows or give them a separate value")
    return keys


def _need(name: str, given: Any, wanted: bool) -> None:
    if wanted and given is None:
        raise InputError(name, "is missing, and fit had it", "pass one value per new row")
    if given is not None and not wanted:
        raise InputError(name, "was not passed to fit", "leave it out, or fit with it")
