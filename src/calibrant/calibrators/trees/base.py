"""What calibrators by decision trees share: they read features, grow and prune a tree, and fill its leaves."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import check_option, check_whole, read_numbers, width
from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibration import both_classes
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.trees.rules import Rules
from calibrant.calibrators.trees.samples import ClassScores, OneScore, Sample
from calibrant.fits.ranking import Ranking
from calibrant.fits.trees.features import (
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
from calibrant.fits.trees.growth import Grown, cross_validated
from calibrant.fits.trees.leaves import LeafCounts, LeafModel
from calibrant.guarantees.provenance import Sampling
from calibrant.maps import ClassTreeMap, Map, TreeMap
from calibrant.maps.trees import TreeNodes
from calibrant.messages import InputError, Note, Voice, listed, note, warn
from calibrant.metrics.multiclass.scores import order_notes
from calibrant.numerics import Floats, Ints
from calibrant.reading import read

MOST_SHOWN = 12
"""Rules that a printed calibrator shows."""

no_split = note("no-split", "no split lowers the error on held-out {nouns.rows}: the tree is one leaf")


few_rows_to_split = note(
    "few-rows-to-split",
    "{rows:,} {nouns.rows} choose the splits, and each leaf needs {min_rows:,}: the tree is one leaf; pass a smaller "
    "min_rows",
)


class TreeCalibrator(BinaryCalibrator, MulticlassCalibrator):
    """What both calibrators by trees do: read features, grow, prune, and fill the leaves."""

    _monotone = False
    _beside = "features"

    map_: TreeMap | ClassTreeMap
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
        classes: Sequence[Any] | None = None,
        score_type: ScoreType | MulticlassScoreType | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to scores, labels and features.

        Parameters
        ----------
        scores, y, sample_weight, score, label, weight_type, positive, score_type, sampling
            As in :meth:`BinaryCalibrator.fit`. With a frame, ``score=``, ``label=``, ``features=`` (names),
            ``sample_weight=``, ``groups=`` and ``time=`` name its columns, which are read into memory. For several
            classes, ``scores`` is a matrix or a frame with a column for each, as in :meth:`MulticlassCalibrator.fit`.
        classes
            For several classes, the labels in the order of the columns.
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
        if isinstance(y, str) and score is None:  # names of a frame by position: scores, labels, features
            score, label, y, features, sample_weight = y, features, None, sample_weight, None
        chosen: list[str] = []
        if score is not None or label is not None:
            chosen = [features] if isinstance(features, str) else list(features or ())
            if not chosen or not all(isinstance(each, str) for each in chosen):
                raise InputError(
                    "features", "must name columns of the frame, as score and label do", "pass a list of names"
                )
            roles = {"label": label, "weight": sample_weight, "group": groups, "time": time}
            for what, taken in roles.items():
                if isinstance(taken, str) and taken in chosen:
                    raise InputError("features", f"contains {taken!r}, which is the {what} of the rows", "leave it out")
        sides: dict[str, Any] = {"score": score, "label": label, "groups": groups, "time": time}
        settings = {"weight_type": weight_type, "positive": positive, "classes": classes, "score_type": score_type}
        given = read(scores, y, sample_weight, call="fit", more=chosen, most=None, **sides, **settings)
        if given.names:
            features = dict(given.more)
            given = replace(given, score_type=score_type or "probability")
        sample: Sample
        if given.kind == "classes":
            if positive is not None:
                raise InputError("positive", "is for one score only", "pass classes=, the labels of the columns")
            sample = ClassScores(check_class_rows(given.scores, given.y, given.sample_weight, **given.described))
        else:
            if classes is not None and width(given.scores) < 2:
                raise InputError("classes", "is for a matrix of scores", "pass positive=, the label of the event")
            sample = OneScore.of(given.rows())
        weights = None if given.sample_weight is None else read_numbers(given.sample_weight, "sample_weight")
        size = len(sample) if weights is None else len(weights)
        names = isinstance(features, list | tuple) and all(isinstance(each, str) for each in features)
        if names and features and len(features) != size:  # else it is one column of text
            raise InputError("features", "holds names, but there is no frame", f"pass frame[{[*features]!r}]")
        table = matching(self._table(features), weights, len(sample))
        self._fit_sample(sample, table, sampling)
        if isinstance(sample, ClassScores):
            self.classes_ = sample.rows.values
            for each in order_notes(sample.rows):
                warn(each)
        else:
            self._as_written(sample.rows, given.y)
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
            raise InputError("pruning_alpha", f"must be a number of at least 0, got {alpha!r}")
        check_option("honest", self.honest, (True, False))
        check_option("split_on_score", self.split_on_score, (True, False))
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)

    def _fit_sample(self, whole: Sample, table: Table, sampling: Sampling) -> None:
        self.provenance_ = whole.provenance(type(self).__name__, sampling, self._status())
        self._refusal = whole.seed_refusal(self.random_state)
        notes = whole.notes(sampling)
        sample, table = whole.repeated(table)
        chose, fills = self._parts(sample, whole.fingerprint)
        inside = sample.take(chose)
        features = Features.of(self._split_columns(inside, take_columns(table, chose)))
        model, found = self._model(inside)
        self.grown_ = cross_validated(
            features,
            self._targets(inside),
            inside.weights,
            folds=[] if self.pruning_alpha is not None or len(inside) < 2 else inside.folds(self.random_state or 0),
            min_rows=self.min_rows,
            max_leaves=self.max_leaves,
            alpha=self.pruning_alpha,
            model=model,
        )
        skeleton = inside.skeleton(self.grown_.tree, features)
        used = {name: table[name] for name in skeleton.columns}
        filling, scores = sample.take(fills), sample.rows.scores
        leaf = skeleton.route(scores[fills], take_columns(used, fills))
        counts = chosen = filling.counted(leaf, len(skeleton.maps), len(chose) * self.honest)
        if self.honest:
            first = skeleton.route(scores[chose], take_columns(used, chose))
            chosen = inside.counted(first, len(skeleton.maps), 0)
        maps, more = self._leaf_maps(filling, skeleton, leaf, counts, chosen)
        self.map_, self.leaves_ = replace(skeleton, maps=tuple(maps)), counts
        self.notes_ = (*notes, *found, *more, *self._why_single(len(maps), len(chose)))
        self.pruning_alpha_ = self.grown_.alpha
        self.feature_names_, self._missing, self._booleans = tuple(table), incomplete(table), booleans(table)
        if isinstance(sample, OneScore):
            labels = sample.rows.labels
            self.ranking_ = Ranking.of_rows(scores, self.map_.apply(scores, used), labels, sample.weights)
        self.n_features_in_ = 1 if scores.ndim == 1 else scores.shape[1]

    def _why_single(self, leaves: int, rows: int) -> tuple[Note, ...]:
        """Why the tree is one leaf, if it is."""
        if leaves > 1 or self.max_leaves == 1:
            return ()
        few = rows < 2 * self.min_rows
        return (few_rows_to_split(rows=rows, min_rows=self.min_rows) if few else no_split(),)

    def _split_columns(self, sample: Sample, table: Table) -> dict[str, Any]:
        """What may split rows: the scores, if asked for, and the features."""
        given = sample.score_columns if self.split_on_score or not table else {}
        return given | as_objects(table)

    def _parts(self, sample: Sample, fingerprint: int) -> tuple[Ints, Ints]:
        """The rows that choose the splits, and those that fill the leaves: the same ones unless the fit is honest."""
        every, groups = np.arange(len(sample)), sample.rows.groups
        if not self.honest:
            return every, every
        if len(every) < 2:
            raise InputError("honest", "needs at least 2 rows, one for each half", "pass more rows, or honest=False")
        rng = np.random.default_rng(None if self.random_state is None else [self.random_state, fingerprint])
        if groups is None:
            chosen = np.zeros(len(every), dtype=bool)
            chosen[rng.permutation(len(every))[: len(every) // 2]] = True
        else:
            names, codes = np.unique(groups, return_inverse=True)
            chosen = (rng.permutation(len(names)) < (len(names) + 1) // 2)[codes.reshape(-1)]
            if chosen.all():
                raise InputError("groups", "has one group, which cannot be halved", "pass honest=False")
        return every[chosen], every[~chosen]

    def _model(self, sample: Sample) -> tuple[LeafModel, tuple[Note, ...]]:
        """What nodes predict, and notes on it."""
        raise NotImplementedError

    def _targets(self, sample: Sample) -> Floats:
        """What the splits separate, a column for the event or for each class."""
        return sample.targets

    def _leaf_maps(
        self, sample: Sample, tree: TreeNodes, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        """The map of each leaf from the rows that fill it, and notes; ``chosen`` counts the rows that chose splits."""
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
        """Columns ``1 - p`` and ``p``, or one column per class."""
        p = np.asarray(self._applicable().transform(scores, None, self._given(features, in_frame=False)))
        return p if self._of_classes else both_classes(p)

    def predict(self, scores: Any, features: Any = None) -> NDArray[Any]:  # type: ignore[override]
        """The most likely class after calibration, as written in ``y``."""
        return np.asarray(self.classes_[self.predict_proba(scores, features).argmax(axis=1)])

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
