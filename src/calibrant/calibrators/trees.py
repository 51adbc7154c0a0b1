"""Calibration by decision trees on features: a rate in each leaf, or a logistic curve of the score."""

from __future__ import annotations

import numbers
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import check_option, check_whole, read_numbers, refuse_names, score_and_label
from calibrant.calibrators.base import (
    BinaryCalibrator,
    both_classes,
    classes_as_written,
    labels_missing,
    refuse_places,
)
from calibrant.calibrators.rules import Rules
from calibrant.fits.bins import rates
from calibrant.fits.features import (
    Features,
    Table,
    as_objects,
    booleans,
    feature_columns,
    incomplete,
    matching,
    read_features,
    take_columns,
)
from calibrant.fits.leaves import Curves, LeafCounts, LeafModel, Means, rate_map
from calibrant.fits.ranking import Ranking
from calibrant.fits.segments import frame_columns
from calibrant.fits.trees import Grown, cross_validated, node_fits, to_map
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import issue_leaves
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.provenance import Provenance, Sampling
from calibrant.guarantees.seeds import seed_refusal
from calibrant.maps import Map, TreeMap
from calibrant.messages import InputError, Note, Phrase, Setting, Voice, listed, note
from calibrant.numerics import Floats, Ints
from calibrant.selection.folds import FOLDS, dependent_folds, shuffled, take_rows
from calibrant.tallies import Tally, repeat_notes

MAX_REPEATED = 50_000_000
"""Rows that frequency weights may stand for: a tree reads them one by one."""

MOST_SHOWN = 12
"""Rules that a printed calibrator shows."""

NOT_HONEST = NoCertificate(
    NoCertificateCode.COMMON_ROWS,
    Phrase(
        "the same rows chose the splits and fill the leaves, which the theorems do not cover: fit with {honest}",
        honest=Setting("honest", True),
    ),
)
CURVES = NoCertificate(
    NoCertificateCode.INJECTIVE,
    Phrase(
        "no distribution-free guarantee is possible for an injective map, whatever the number of rows (Gupta 2023, "
        "Theorem 3.3): use a CalibrationTree with {honest} if you need a certificate",
        honest=Setting("honest", True),
    ),
)

SCORE_FEATURE = ""
"""Name of the score among the features, which no column can have."""

leaf_without_rows = note(
    "leaf-without-rows",
    "{count} of the leaves have none of the {nouns.rows} that fill leaves: their rates come from the {nouns.rows} that "
    "chose the splits",
)
no_split = note("no-split", "no split lowers the error on held-out {nouns.rows}: the tree is one leaf")


few_rows_to_split = note(
    "few-rows-to-split",
    "{rows:,} {nouns.rows} choose the splits, and each leaf needs {min_rows:,}: the tree is one leaf; pass a smaller "
    "min_rows",
)


class TreeCalibrator(BinaryCalibrator):
    """What both calibrators by trees do: read features, grow, prune, and fill the leaves."""

    _monotone = False
    _beside = "features"

    map_: TreeMap
    min_rows: int
    max_leaves: int
    pruning_alpha: float | None
    split_on_score: bool
    honest: bool
    random_state: int | None
    leaves_: LeafCounts
    grown_: Grown

    def fit(  # type: ignore[override]
        self,
        scores: Any,
        y: ArrayLike | None = None,
        features: Any = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        score: str | None = None,
        label: str | None = None,
        weight_type: Literal["importance", "frequency"] = "importance",
        groups: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
        positive: Any = None,
        score_type: ScoreType | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to scores, labels and features.

        Parameters
        ----------
        scores, y, sample_weight, score, label, weight_type, positive, score_type, sampling
            As in :meth:`BinaryCalibrator.fit`. With a frame, ``score=``, ``label=``, ``features=`` (names),
            ``sample_weight=``, ``groups=`` and ``time=`` name its columns, which are read into memory.
        features
            Columns that may split rows: a frame, a mapping from names to columns, or a matrix, whose columns are then
            called ``x0``, ``x1`` and so on. Numbers are split at thresholds; text and booleans by level. Missing values
            go where they fit best.
        groups, time
            Group and timestamp of each row, for dependent rows: the folds that choose ``pruning_alpha`` are then by
            group or forward in time, and no certificate is issued.

        Returns
        -------
        self
            The fitted calibrator.
        """
        self._check()
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        named = score_and_label(y, score, label)
        if named is not None:
            sides = {"sample_weight": sample_weight, "groups": groups, "time": time}
            chosen = [features] if isinstance(features, str) else features
            if not isinstance(chosen, list | tuple) or not chosen or not all(isinstance(each, str) for each in chosen):
                raise InputError(
                    "features", "must name columns of the frame, as score and label do", "pass a list of names"
                )
            for what, taken in zip(("label", "weight", "group", "time"), (label, *sides.values()), strict=True):
                if isinstance(taken, str) and taken in chosen:
                    raise InputError("features", f"contains {taken!r}, which is the {what} of the rows", "leave it out")
            scores, y, features, (sample_weight, groups, time) = frame_columns(scores, *named, chosen, sides)
            score_type = "probability" if score_type is None else score_type
        refuse_places("fit", scores, y, features)
        refuse_names("fit", y=y, sample_weight=sample_weight, groups=groups, time=time)
        if y is None:
            raise labels_missing()
        rows = check_rows(
            scores,
            y,
            sample_weight,
            weight_type=weight_type,
            groups=groups,
            time=time,
            positive=positive,
            score_type=score_type,
        )
        weights = None if sample_weight is None else read_numbers(sample_weight, "sample_weight")
        size = len(rows.scores) if weights is None else len(weights)
        names = isinstance(features, list | tuple) and all(isinstance(each, str) for each in features)
        if names and features and len(features) != size:  # else it is one column of text
            raise InputError("features", "holds names, but there is no frame", f"pass frame[{[*features]!r}]")
        table = matching(self._table(features), weights, len(rows.scores))
        self._fit_rows(rows, table, sampling)
        self.classes_ = classes_as_written(rows, y)
        return self

    def fit_tally(self, tally: Any, *, sampling: Sampling = "independent") -> Self:
        """Not available: a tally has no features."""
        raise InputError("tally", "has no features, which a tree splits", "use fit(scores, y, features=...)")

    def _table(self, features: Any) -> Table:
        """The feature columns by name."""
        if features is None and not self.split_on_score:
            raise InputError("features", "are missing", "pass the columns that may split rows, or split_on_score=True")
        return {} if features is None else read_features(features)

    def _check(self) -> None:
        check_whole("min_rows", self.min_rows, 1)
        check_whole("max_leaves", self.max_leaves, 1)
        if self.max_leaves > 1_000:
            raise InputError("max_leaves", f"must be at most 1,000, got {self.max_leaves:,}", "pass a smaller number")
        alpha = self.pruning_alpha
        if alpha is not None and not (isinstance(alpha, numbers.Real) and 0.0 <= alpha < np.inf):
            raise InputError("pruning_alpha", f"must be a number from 0 on, got {alpha!r}")
        check_option("honest", self.honest, (True, False))
        check_option("split_on_score", self.split_on_score, (True, False))
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)

    def _fit_rows(self, rows: Rows, table: Table, sampling: Sampling) -> None:
        tally = Tally.from_rows(rows)
        repeats = () if sampling == "grouped" else repeat_notes(tally)
        rows, table = _repeated(rows, table)
        chose, fills = self._parts(rows, tally)
        inside, notes = take_rows(rows, chose), (*rows.notes, *repeats)
        features = Features.of(self._split_columns(inside.scores, take_columns(table, chose)))
        weights = _floats(inside.weights)
        model, found = self._model(inside)
        self.grown_ = cross_validated(
            features,
            self._targets(inside),
            weights,
            folds=self._folds(inside),
            min_rows=self.min_rows,
            max_leaves=self.max_leaves,
            alpha=self.pruning_alpha,
            model=model,
        )
        tree = self.grown_.tree
        skeleton = to_map(tree, features, [rate_map(0.5)] * len(tree.leaves))
        used = {name: table[name] for name in skeleton.columns}
        leaf = skeleton.route(rows.scores[fills], take_columns(used, fills))
        counts = LeafCounts.of(leaf, len(skeleton.maps), take_rows(rows, fills), len(chose) * self.honest)
        chosen = counts
        if self.honest:
            first = skeleton.route(rows.scores[chose], take_columns(used, chose))
            chosen = LeafCounts.of(first, len(skeleton.maps), inside, 0)
        maps, more = self._leaf_maps(rows, fills, skeleton, leaf, counts, chosen)
        self.map_, self.leaves_ = replace(skeleton, maps=tuple(maps)), counts
        self.notes_ = (*notes, *found, *more, *self._why_single(len(maps), len(chose)))
        self.pruning_alpha_ = self.grown_.alpha
        self.feature_names_, self._missing, self._booleans = tuple(table), incomplete(table), booleans(table)
        self._refusal = seed_refusal(tally, self.random_state) if tally.counts else None
        self.provenance_ = Provenance.of(type(self).__name__, tally, sampling, self._status())
        self.ranking_ = Ranking.of_rows(
            rows.scores, self.map_.apply(rows.scores, used), rows.labels, _floats(rows.weights)
        )
        self.n_features_in_ = 1

    def _why_single(self, leaves: int, rows: int) -> tuple[Note, ...]:
        """Why the tree is one leaf, if it is."""
        if leaves > 1 or self.max_leaves == 1:
            return ()
        few = rows < 2 * self.min_rows
        return (few_rows_to_split(rows=rows, min_rows=self.min_rows) if few else no_split(),)

    def _split_columns(self, scores: Floats, table: Table) -> dict[str, Any]:
        """What may split rows: the score, if asked for, and the features."""
        given = {SCORE_FEATURE: scores} if self.split_on_score or not table else {}
        return given | as_objects(table)

    def _parts(self, rows: Rows, tally: Tally) -> tuple[Ints, Ints]:
        """The rows that choose the splits, and those that fill the leaves: the same ones unless the fit is honest."""
        every = np.arange(len(rows.scores))
        if not self.honest:
            return every, every
        if len(every) < 2:
            raise InputError("honest", "needs at least 2 rows, one for each half", "pass more rows, or honest=False")
        seed = None if self.random_state is None else [self.random_state, int(tally.fingerprint, 16)]
        rng = np.random.default_rng(seed)
        if rows.groups is None:
            chosen = np.zeros(len(every), dtype=bool)
            chosen[rng.permutation(len(every))[: len(every) // 2]] = True
        else:
            names, codes = np.unique(rows.groups, return_inverse=True)
            chosen = (rng.permutation(len(names)) < (len(names) + 1) // 2)[codes.reshape(-1)]
            if chosen.all():
                raise InputError("groups", "has one group, which cannot be halved", "pass honest=False")
        return every[chosen], every[~chosen]

    def _folds(self, rows: Rows) -> list[tuple[Ints, Ints]]:
        """Rows to fit and rows held out, to choose the alpha of pruning."""
        if self.pruning_alpha is not None or len(rows.scores) < 2:
            return []
        seed = 0 if self.random_state is None else self.random_state
        if rows.groups is not None or rows.time is not None:
            return list(dependent_folds(rows, FOLDS, seed))
        fold = shuffled(rows, min(FOLDS, len(rows.scores)), seed)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]

    def _model(self, rows: Rows) -> tuple[LeafModel, tuple[Note, ...]]:
        """What nodes predict, and notes on it."""
        raise NotImplementedError

    def _targets(self, rows: Rows) -> Floats:
        """What the splits separate, one column."""
        return rows.labels.astype(np.float64)[:, None]

    def _leaf_maps(
        self, rows: Rows, fills: Ints, tree: TreeMap, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        """The map of each leaf, and notes; ``chosen`` are the counts of the rows that chose the splits."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------- in words

    def rules(self, *, confidence: float = 0.95, unit: str = "rows") -> Rules:
        """The leaves as rules in words.

        Parameters
        ----------
        confidence
            Confidence level of the interval of each rate, for one rule on its own; ``certificate`` has intervals that
            hold for all leaves together. They are exact (Clopper-Pearson) if the fit is honest and the rows are
            independent, else too narrow.
        unit
            Noun for the rows, such as ``"people"``.

        Returns
        -------
        Rules
            Prints one line for each leaf; ``to_frame()`` is a table.
        """
        check_is_fitted(self, "map_")
        weighted = self.provenance_.weight_type != "frequency"
        kinds = self._missing, self._booleans
        sampling = self.provenance_.sampling
        return Rules.of(self.map_, self.leaves_, *kinds, confidence, unit, weighted=weighted, sampling=sampling)

    def _describe(self, voice: Voice) -> str:
        shown = self.rules(unit=voice.nouns.rows)
        lines = [rule.said(shown.unit, shown.weighted) for rule in shown.rules[:MOST_SHOWN]]
        more = [f"and {len(shown) - MOST_SHOWN:,} more: see rules()"] if len(shown) > MOST_SHOWN else []
        return "\n    ".join([str(self.map_.words), *lines, *more, *map(voice.say, shown.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the rules as a table, below the fit in words."""
        from calibrant.notebook import stacked  # not needed to fit and apply

        return stacked(super()._repr_html_(), self.rules()._repr_html_()) if hasattr(self, "map_") else repr(self)

    # ---------------------------------------------------------------------------------------------------- using the map

    def transform(
        self, scores: Any, score: str | None = None, features: Any = None, *, name: str = "calibrated"
    ) -> Any:
        """Calibrated probabilities of scores with their features, as in :meth:`fit`.

        Parameters
        ----------
        scores
            Scores, or a frame that also has the feature columns.
        score
            Column of scores, if ``scores`` is a frame.
        features
            Features of the rows, by the names of the fit; only those that split some node are needed
            (``map_.columns``). In a frame, ``{"age": "age_years"}`` renames them.
        name
            Name of the new column of a frame.

        Returns
        -------
        array, or frame
            Probabilities; for a frame, the same kind of frame with the column ``name`` added.
        """
        by = self._given(features, in_frame=score is not None)
        p = self._applicable().transform(scores, score, by, name=name)
        return p if score is not None else self._contained(p, scores)

    def _given(self, features: Any, *, in_frame: bool) -> Any:
        needed = self._applicable().map.columns
        if in_frame:
            return features
        if features is None and needed:
            raise InputError(
                "features", f"are missing: the tree splits {', '.join(map(repr, needed))}", "pass features=..."
            )
        if features is None or not needed:
            return None
        found = feature_columns(features)
        missing = [name for name in needed if name not in found]
        if missing:
            raise InputError(
                "features",
                f"has no column {missing[0]!r}, which the tree splits: it has {listed([*map(repr, found)])}",
                f"pass a frame with the {'columns' if len(needed) > 1 else 'column'} {listed([*map(repr, needed)])}",
            )
        return found

    def predict_proba(self, scores: ArrayLike, features: Any = None) -> NDArray[Any]:
        """Columns ``1 - p`` and ``p``."""
        return both_classes(
            np.asarray(self._applicable().transform(scores, None, self._given(features, in_frame=False)))
        )

    def fit_transform(self, scores: Any, y: ArrayLike | None = None, features: Any = None, **fit_params: Any) -> Any:
        """Fit, then transform the same rows; to evaluate the result use other rows.

        Parameters
        ----------
        scores, y, features, **fit_params
            As in :meth:`fit`.

        Returns
        -------
        array, or frame
            Probabilities, as in :meth:`transform`.
        """
        self.fit(scores, y, features, **fit_params)
        column = fit_params.get("score")
        return self.transform(scores, column, None if column is not None else features)


@dataclass(eq=False, repr=False)
class CalibrationTree(TreeCalibrator):
    r"""A decision tree on features and the score, with the event rate of each leaf as the probability.

    .. math:: m(s, x) = \hat\pi_\ell \quad\text{for } (s, x) \text{ in leaf } \ell, \qquad
              \hat\pi_\ell = \frac{\text{events in } \ell}{\text{rows in } \ell}.

    The tree is grown best first by squared error, and pruned to the least :math:`\text{RMSE} + \alpha |T|`, with
    :math:`|T|` nodes.

    Parameters
    ----------
    min_rows : int
        Rows that each leaf has at least, among the rows that choose the splits.
    max_leaves : int
        Leaves at most.
    pruning_alpha : float, optional
        The penalty :math:`\alpha` of a node; by default chosen by five-fold cross-validation.
    split_on_score : bool
        Whether the score may split too. Without it the probability depends on the features alone, as in Torabian
        (2023).
    honest : bool
        Whether one half of the rows, at random, chooses splits and pruning, and the other half fills the leaves. Then
        the rates are unbiased and ``certificate`` is available; the tree is coarser, since each half has half the rows.
    random_state : int, optional
        Seed of the folds and of the halves. By default folds are the same at every fit, and halves are drawn anew.

    Attributes
    ----------
    map_ : TreeMap
        The fitted tree.
    leaves_ : LeafCounts
        Rows, events and scores by leaf.
    pruning_alpha_ : float
        The penalty that was used.
    grown_ : Grown
        How the penalty was chosen: the RMSE on held-out rows, by penalty.
    feature_names_ : tuple of str
        Names of the features given; ``map_.columns`` are those that the tree needs.

    Notes
    -----
    Edge cases: a leaf of n rows with no event, or only events, gets (k + 1) / (n + 2). A missing value goes to the side
    where it fits better, and to the larger side if none was missing in the fit; a level that was not in the fit goes
    with all others.
    Guarantee: with ``honest=True`` the rate of every leaf has an interval that holds in finite samples
    (``certificate(alpha)``); else no finite-sample guarantee, since the same rows choose splits and fill the leaves.
    Cost: six trees (five folds), each one pass over the rows for each level and feature.
    Reference: Torabian (2023), section 3.1.6; Breiman et al. (1984).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, scores = rng.integers(20, 80, 4000), rng.beta(2, 6, 4000)
    >>> y = rng.random(4000) < np.where(age > 41, 0.45, 0.1)
    >>> cal = CalibrationTree().fit(scores, y, features={"age": age})
    >>> cal.transform([0.3, 0.3], features={"age": [30, 60]}).round(2).tolist()
    [0.1, 0.43]
    """

    min_rows: int = 50
    max_leaves: int = 12
    _: KW_ONLY
    pruning_alpha: float | None = None
    split_on_score: bool = True
    honest: bool = False
    random_state: int | None = None

    def _model(self, rows: Rows) -> tuple[LeafModel, tuple[Note, ...]]:
        return Means(rows.labels.astype(np.float64)[:, None], _floats(rows.weights)), ()

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if not self.leaves_.chose:
            return NOT_HONEST
        if self._refusal is not None:
            return self._refusal
        counts = self.leaves_.rows.astype(np.int64), self.leaves_.events.astype(np.int64)
        return issue_leaves(self.map_, counts, self.leaves_.chose, self.provenance_, alpha, interval, coverage)

    def _leaf_maps(
        self, rows: Rows, fills: Ints, tree: TreeMap, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        empty = counts.rows <= 0.0
        values = rates(np.where(empty, 1.0, counts.rows), counts.events)
        if empty.any():
            values = np.where(empty, rates(chosen.rows, chosen.events), values)
        notes = (leaf_without_rows(int(empty.sum())),) if empty.any() else ()
        return [rate_map(float(value)) for value in values], notes


@dataclass(eq=False, repr=False)
class ProbabilityCalibrationTree(TreeCalibrator):
    r"""A decision tree on features, with a logistic curve of the score in each leaf.

    .. math:: m(s, x) = \operatorname{expit}(a_\ell + b_\ell \operatorname{logit} s)
              \quad\text{for } x \text{ in leaf } \ell, \qquad b_\ell \ge 0.

    The curve of a node leans on that of the node above, as if that were worth 10 further rows
    (:mod:`calibrant.fits.leaves`), so a leaf of one class keeps close to its parent. The tree is pruned to the least
    :math:`\text{RMSE} + \alpha |T|` of these curves.

    Parameters
    ----------
    min_rows, max_leaves, pruning_alpha, honest, random_state
        As in :class:`CalibrationTree`. The default of ``min_rows`` is larger, since a curve has two parameters.
    split_by : {"labels", "residuals"}
        What the splits separate: rows with many events from others, as in Leathart et al. (2017), or rows where one
        curve for all is too low from those where it is too high.
    split_on_score : bool
        Whether the score may split too.

    Attributes
    ----------
    map_, leaves_, pruning_alpha_, grown_, feature_names_
        As in :class:`CalibrationTree`.

    Notes
    -----
    Guarantee: no finite-sample guarantee, also with ``honest=True``: the curves are injective.
    Cost: that of :class:`CalibrationTree`, and a logistic regression for each node of each tree.
    Reference: Leathart et al. (2017); Torabian (2023), section 3.1.5.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, scores = rng.integers(20, 80, 4000), rng.beta(2, 6, 4000)
    >>> odds = scores / (1 - scores) * np.where(age > 41, 3.0, 1.0)
    >>> cal = ProbabilityCalibrationTree().fit(scores, rng.random(4000) < odds / (1 + odds), features={"age": age})
    >>> cal.transform([0.3, 0.3], features={"age": [30, 60]}).round(2).tolist()
    [0.3, 0.54]
    """

    min_rows: int = 100
    max_leaves: int = 12
    _: KW_ONLY
    pruning_alpha: float | None = None
    split_by: Literal["labels", "residuals"] = "labels"
    split_on_score: bool = False
    honest: bool = False
    random_state: int | None = None

    def _check(self) -> None:
        super()._check()
        check_option("split_by", self.split_by, ("labels", "residuals"))

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return CURVES

    def _model(self, rows: Rows) -> tuple[LeafModel, tuple[Note, ...]]:
        return Curves.of(rows)

    def _targets(self, rows: Rows) -> Floats:
        labels = rows.labels.astype(np.float64)
        if self.split_by == "residuals":
            labels = labels - Curves.of(rows)[0].root.apply(rows.scores)
        return labels[:, None]

    def _leaf_maps(
        self, rows: Rows, fills: Ints, tree: TreeMap, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        model, _ = Curves.of(take_rows(rows, fills))
        grown = self.grown_.tree
        reached: list[Ints] = [np.empty(0, dtype=np.int64)] * len(grown.left)
        for place, node in enumerate(tree.leaves.tolist()):
            reached[node] = np.flatnonzero(leaf == place)
        for node in range(len(grown.left) - 1, -1, -1):
            if grown.left[node] >= 0:
                reached[node] = np.sort(np.concatenate([reached[grown.left[node]], reached[grown.right[node]]]))
        fits = node_fits(model, grown, reached)
        return [model.map(fits[node]) for node in tree.leaves.tolist()], ()


def _repeated(rows: Rows, table: Table) -> tuple[Rows, Table]:
    """Rows of frequency weights, each as often as it counts; others unchanged."""
    if rows.weights is None or not rows.counts:
        return rows, table
    total = int(rows.weights.sum())
    if total > MAX_REPEATED:
        raise InputError(
            "sample_weight", f"stands for {total:,} rows, and a tree reads at most {MAX_REPEATED:,}", "pass a sample"
        )
    places = np.repeat(np.arange(len(rows.scores)), rows.weights.astype(np.int64))
    return replace(take_rows(rows, places), weights=None), take_columns(table, places)


def _floats(weights: NDArray[Any] | None) -> Floats | None:
    return None if weights is None else weights.astype(np.float64)
