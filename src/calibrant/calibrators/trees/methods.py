"""Calibration by decision trees on features: rates in each leaf, or curves of the scores."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.calibrators.trees.base import TreeCalibrator
from calibrant.calibrators.trees.samples import Sample
from calibrant.fits.trees.growth import node_fits
from calibrant.fits.trees.leaves import LeafCounts, LeafModel, Means
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import issue_leaves
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import Map
from calibrant.maps.trees import TreeNodes
from calibrant.messages import Note, Phrase, Setting, note
from calibrant.numerics import Floats, Ints

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

leaf_without_rows = note(
    "leaf-without-rows",
    "{count} of the leaves have none of the {nouns.rows} that fill leaves: their rates come from the {nouns.rows} that "
    "chose the splits",
)


@dataclass(eq=False, repr=False)
class CalibrationTree(TreeCalibrator):
    r"""A decision tree on features and the score, with the event rate of each leaf as the probability.

    .. math:: m(s, x) = \hat\pi_\ell \quad\text{for } (s, x) \text{ in leaf } \ell, \qquad
              \hat\pi_\ell = \frac{\text{events in } \ell}{\text{rows in } \ell}.

    The tree is grown best first by squared error, and pruned to the least :math:`\text{RMSE} + \alpha |T|`, with
    :math:`|T|` nodes. With a matrix of scores of several classes, the probabilities of a leaf are the shares of the
    classes there, and the errors of all classes add up.

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
    map_ : TreeMap or ClassTreeMap
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
    Edge cases: a leaf of n rows with no event, or only events, gets (k + 1) / (n + 2); a leaf that lacks one of K
    classes gets (k + 2 / K) / (n + 2) for each. A missing value goes to the side where it fits better, and to the
    larger side if none was missing in the fit; a level that was not in the fit goes with all others.
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

    Of several classes:

    >>> p = rng.dirichlet([2, 2, 2], 4000)
    >>> answer = np.where(age > 41, rng.choice(["no", "maybe", "yes"], 4000, p=[0.2, 0.6, 0.2]), "no")
    >>> cal = CalibrationTree().fit(p, answer, features={"age": age}, classes=["no", "maybe", "yes"])
    >>> cal.transform(p[:2], features={"age": [30, 60]}).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.2, 0.58, 0.22]]
    """

    min_rows: int = 50
    max_leaves: int = 12
    _: KW_ONLY
    pruning_alpha: float | None = None
    split_on_score: bool = True
    honest: bool = False
    random_state: int | None = None

    def _model(self, sample: Sample) -> tuple[LeafModel, tuple[Note, ...]]:
        return Means(sample.targets, sample.weights), ()

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if not self.leaves_.chose:
            return NOT_HONEST
        if self._refusal is not None:
            return self._refusal
        counts = self.leaves_.rows.astype(np.int64), self.leaves_.events.astype(np.int64)
        return issue_leaves(self.map_, counts, self.leaves_.chose, self.provenance_, alpha, interval, coverage)

    def _leaf_maps(
        self, sample: Sample, tree: TreeNodes, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        empty = counts.rows <= 0.0
        values = sample.rates(replace(counts, rows=np.where(empty, 1.0, counts.rows)))
        if empty.any():
            values[empty] = sample.rates(chosen)[empty]
        notes = (leaf_without_rows(int(empty.sum())),) if empty.any() else ()
        return [sample.constant(value) for value in values], notes


@dataclass(eq=False, repr=False)
class ProbabilityCalibrationTree(TreeCalibrator):
    r"""A decision tree on features, with a logistic curve of the score in each leaf.

    .. math:: m(s, x) = \operatorname{expit}(a_\ell + b_\ell \operatorname{logit} s)
              \quad\text{for } x \text{ in leaf } \ell, \qquad b_\ell \ge 0.

    The curve of a node leans on that of the node above, as if that were worth 10 further rows
    (:mod:`calibrant.fits.trees.curves`), so a leaf of one class keeps close to its parent. The tree is pruned to the
    least :math:`\text{RMSE} + \alpha |T|` of these curves. With a matrix of scores of several classes, each leaf has a
    map :math:`\operatorname{softmax}(t_\ell z + b_\ell)` of the log-probabilities z instead, with :math:`t_\ell \ge 0`.

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

    def _model(self, sample: Sample) -> tuple[LeafModel, tuple[Note, ...]]:
        return sample.curves()

    def _targets(self, sample: Sample) -> Floats:
        if self.split_by == "labels":
            return sample.targets
        return np.asarray(sample.targets - sample.curves()[0].root_probabilities())

    def _leaf_maps(
        self, sample: Sample, tree: TreeNodes, leaf: Ints, counts: LeafCounts, chosen: LeafCounts
    ) -> tuple[list[Map], tuple[Note, ...]]:
        model, _ = sample.curves()
        grown = self.grown_.tree
        reached: list[Ints] = [np.empty(0, dtype=np.int64)] * len(grown.left)
        for place, node in enumerate(tree.leaves.tolist()):
            reached[node] = np.flatnonzero(leaf == place)
        for node in range(len(grown.left) - 1, -1, -1):
            if grown.left[node] >= 0:
                reached[node] = np.sort(np.concatenate([reached[grown.left[node]], reached[grown.right[node]]]))
        fits = node_fits(model, grown, reached)
        return [model.map(fits[node]) for node in tree.leaves.tolist()], ()
