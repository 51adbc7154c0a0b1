"""Path calibration: probabilities for a predicted leaf of a taxonomy and for each of its ancestors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import MulticlassRows, check_class_rows, read_matrix
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.multiclass.path_bins import (
    CutList,
    PathList,
    PathRows,
    best_strength,
    leaf_cuts,
    path_cuts,
    pooled_lists,
    rates_of_all,
    rates_of_others,
)
from calibrant.fits.bins import ROUNDING, check_bins
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName, first_few
from calibrant.guarantees.issuing import PathBins, issue_paths
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.origins import OWN_ROWS, PATH_LISTS
from calibrant.maps.classes import ClassAxis
from calibrant.maps.paths import PathForecast, PathMap, path_scores
from calibrant.maps.taxonomy import Taxonomy, as_taxonomy, refuse_several
from calibrant.messages import InputError, Note, Setting, Voice, count_text, note


@note("pooled-leaves")
def pooled_leaves(voice: Voice, min_rows: int, leaves: tuple[str, ...], rows: tuple[float, ...]) -> str:
    """Note on leaves that share bins."""
    names = [f"{name!r} ({size:.6g})" for name, size in zip(leaves, rows, strict=True)]
    few = f"leaves predicted in fewer than {min_rows} {voice.nouns.rows}"
    return f"{few} share bins, without a guarantee: {first_few(names)}"


@dataclass(eq=False, repr=False)
class PathCalibrator(MulticlassCalibrator):
    r"""Calibrated probabilities for the predicted leaf of a taxonomy and for each of its ancestors.

    .. math:: h_v(x) = \hat\pi_{v, b, l} = \frac{\#\{i : c(x_i) = l,\ x_i \in b,\ v \in a(y_i)\}}
                                                {\#\{i : c(x_i) = l,\ x_i \in b\}}, \qquad v \in a(l)

    with :math:`c(x) = l` the leaf of the largest score, b the bin of x among those of l, and :math:`a(y)` the nodes
    that the label y belongs to, itself included. Other nodes get no probability. Counts along a path are nested, so
    probabilities never increase toward the leaf.

    Parameters
    ----------
    taxonomy : Taxonomy or mapping from node to parent
        Its leaves are the columns of scores, by the names of a frame, or as listed in ``classes`` for an array. Labels
        may be inner nodes, or the root.
    points_per_bin : int
        Approximate number of rows in a bin; 50 to 150 are recommended.
    n_bins : int, optional
        Number of bins of each leaf instead; at most one for every two rows.
    bins_on : {"leaf", "path"}
        ``"leaf"``: bins by the score of the predicted leaf, as in top-label histogram binning. ``"path"``: bins by a
        list of cuts on the scores of the leaf and of its ancestors in turn, where a node's score is the sum over the
        leaves beneath it. The number of bins is the same, and they also reflect the model's confidence in the broad
        class.
    borrow : bool
        Shrink the rates toward those of all leaves beneath the same node at similar scores, with a prior weight of
        ``strength`` rows. Probabilities still never increase toward the leaf.
    strength : float, optional
        By default estimated from the likelihood of the bins' counts.
    rare : {"pool", "refuse"}
        Leaves that are predicted in fewer than ``min_rows`` rows share bins with rare siblings (or, if these are too
        few, with all rare leaves of that depth), or raise an error.
    min_rows : int
        See ``rare``. With few rows per leaf, a larger number lets siblings share finer bins, which helped most in
        ``docs/benchmarks/paths.txt``; shared bins have no guarantee.
    alpha : float
        Default ``alpha`` of ``certificate``; the confidence level is 1 - alpha.

    Attributes
    ----------
    bins_ : PathBins
        Rows of each bin, and how many belong to each node of the path.
    strength_ : float or None
        Prior weight of other leaves with ``borrow``, in rows.

    Notes
    -----
    Edge cases: of tied scores the first column is the predicted leaf. If none or all of the n rows of a bin belong to a
    node, the output is (k + 1) / (n + 2). A leaf that is never predicted, alone at its depth, gets the rates of all
    rows.
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, for all leaves, bins and nodes
    simultaneously; see ``docs/certificates/paths.md``. It refers to the bins, so it also holds with
    ``bins_on="path"``. With ``borrow`` it holds around the shrunken outputs, with the width from the bin's own rows.
    Pooled leaves have no guarantee: which leaves are pooled depends on their numbers of rows, so their rows are not
    independent draws from the pool.
    Cost: O(rows x classes), and a sort of the rows of each leaf; ``borrow`` adds a Platt fit for each inner node.
    Reference: Gupta (2022), section 4.3.2 and Definition 8; Gupta (2023), Theorem 4.1, for the bins.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> news = {"sports": None, "energy": None, "tennis": "sports", "football": "sports", "solar": "energy",
    ...         "coal": "energy"}
    >>> p = rng.dirichlet([0.6] * 4, 4000)
    >>> leaves = np.array(["tennis", "football", "solar", "coal"])
    >>> y = leaves[(p.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)]
    >>> cal = PathCalibrator(news, n_bins=4).fit(p, y, classes=leaves)
    >>> print(cal.forecast([[0.1, 0.2, 0.6, 0.1], [0.97, 0.01, 0.01, 0.01]]))
    solar: energy 0.769, solar 0.649
    tennis: sports 0.877, tennis 0.789
    >>> print(cal.certificate())
    With confidence 90 %, for each predicted leaf, each of its bins and every node on its path, the true share of rows
    that belong to the node differs from the calibrated probability by at most 0.098.
      By depth, the broadest first: 0.097, 0.098.
      Basis: 3,988 rows in 16 bins, 32 statements, clopper-pearson intervals; Gupta 2023, Theorem 4.1, given the edges.
      Not covered: scores on a bin edge (12 edges, 12 of 4,000 rows).
      Assumes: the rows are independent draws from the population that the map will be applied to, and were not used to
    train or tune the model; no argument of the fit was chosen using their labels.
    """

    map_: PathMap = field(init=False)

    strength_: float | None = field(init=False)
    bins_: PathBins = field(init=False)

    taxonomy: Taxonomy | Mapping[Any, Any]
    points_per_bin: int = 100
    _: KW_ONLY
    n_bins: int | None = None
    bins_on: Literal["leaf", "path"] = "leaf"
    borrow: bool = False
    strength: float | None = None
    rare: Literal["pool", "refuse"] = "pool"
    min_rows: int = 20
    alpha: float = 0.1

    _for_classifiers: ClassVar[bool] = False

    def forecast(self, scores: Any) -> PathForecast:
        """Probabilities along the path of the predicted leaf, for each row."""
        check_is_fitted(self, "map_")
        return self._applicable().forecast(scores)

    # ------------------------------------------------------------------------------------------------- what comes in

    def _checked_rows(self, scores: Any, y: Any, sample_weight: Any, **options: Any) -> MulticlassRows:
        tree = as_taxonomy(self.taxonomy)
        refuse_several(y)
        if options["classes"] is None and not read_matrix(scores)[1]:
            raise InputError("scores", "has no column names", "pass classes=, the leaves in the order of the columns")
        others = [node for node in (*tree.nodes, tree.root) if node not in set(tree.leaves)]
        rows = check_class_rows(scores, y, sample_weight, **options, others=others)
        absent = [leaf for leaf in tree.leaves if leaf not in set(rows.classes)]
        extra = [name for name in rows.classes if name not in set(tree.leaves)]
        if absent or extra:
            what = f"no column for the leaf {absent[0]!r}" if absent else f"a column {extra[0]!r}, which is not a leaf"
            raise InputError("scores", f"has {what} of the taxonomy", "pass one column for each leaf and no other")
        return rows

    def _check_parameters(self, rows: MulticlassRows) -> None:
        check_option("bins_on", self.bins_on, ("leaf", "path"))
        check_option("rare", self.rare, ("pool", "refuse"))
        for name in ("points_per_bin", "n_bins", "min_rows"):
            if name != "n_bins" or self.n_bins is not None:
                check_bins(getattr(self, name), name)
        if self.strength is not None and not (self.borrow and self.strength > 0.0):
            raise InputError("strength", f"must be a number of rows above 0, with borrow=True, got {self.strength!r}")
        if rows.score_type == "independent" and (self.borrow or self.bins_on == "path"):
            raise InputError(
                Setting("score_type", "independent"),
                "is not supported where scores are summed for an ancestor",
                "use bins_on='leaf' without borrow, or scores whose rows sum to 1",
            )

    def _path_rows(
        self, rows: MulticlassRows, tree: Taxonomy, leaves: NDArray[Any]
    ) -> tuple[NDArray[np.intp], PathRows]:
        """Predicted class of each row, and the rows along their paths."""
        top, scores = path_scores(tree.paths[leaves], rows.scores, np.arange(tree.depth), _axis(rows))
        inner = [code for code in range(len(tree.nodes)) if code not in set(leaves.tolist())]
        labels = np.array([*leaves, *inner, -1])[rows.labels]
        paths = tree.paths[leaves[top]]
        right = tree.belongs(labels[:, None], paths) & (paths >= 0)
        mass: NDArray[Any] = rows.mass
        if not rows.counts:
            mass = mass * (mass.sum() / np.square(mass).sum())  # so that they add up to the effective sample size
        return top, PathRows(tree, paths, scores, right, mass, rows.counts)

    # ------------------------------------------------------------------------------------------------------- the fit

    def _fit_classes(self, rows: MulticlassRows) -> Fit[PathMap]:
        self._check_parameters(rows)
        tree = as_taxonomy(self.taxonomy)
        leaves = np.array([tree.code(name) for name in rows.classes])
        top, paths = self._path_rows(rows, tree, leaves)
        mass = np.bincount(top, paths.mass, minlength=len(leaves))
        groups, notes = self._groups(tree, leaves, rows.classes, mass)
        others = rates_of_others(paths, self.min_rows) if self.borrow else None
        order = np.argsort(groups[top], kind="stable")
        ends = np.searchsorted(groups[top][order], np.arange(groups.max() + 2))
        lists = []
        for group in range(groups.max() + 1):
            depth, at = int(tree.depths[leaves[groups == group][0]]), order[ends[group] : ends[group + 1]]
            part = paths.take(at)
            lists.append(PathList.of(self._cut(part, depth), part, depth, None if others is None else others[at]))
        strength = None if not self.borrow else self.strength or best_strength(lists)
        otherwise = rates_of_all(paths)
        fitted = PathMap(
            classes=rows.classes,
            nodes=tree.nodes,
            parents=tree.parents,
            root=tree.root,
            groups=groups,
            sizes=np.array([len(each.cuts.cuts) for each in lists]),
            levels=np.concatenate([each.cuts.levels for each in lists]),
            cuts=np.concatenate([each.cuts.cuts for each in lists]),
            rates=np.concatenate([each.rates(strength, otherwise).ravel() for each in lists]),
            on=_axis(rows),
        )
        bins = self._evidence(fitted, lists, rows.score_type, mass, strength)
        return Fit(fitted, notes, {"strength_": strength, "bins_": bins})

    def _groups(
        self, tree: Taxonomy, leaves: NDArray[Any], names: tuple[str, ...], mass: NDArray[Any]
    ) -> tuple[NDArray[np.int64], tuple[Note, ...]]:
        """The list of cuts of each class, its own or shared; and a note on classes that share one."""
        least = self.min_rows * (1.0 - ROUNDING)
        rare = np.flatnonzero(mass < least).tolist()
        if rare and self.rare == "refuse":
            raise InputError(
                Setting("rare", "refuse"),
                f"needs {self.min_rows} rows of each leaf, but {names[rare[0]]!r} is predicted in {mass[rare[0]]:.6g}",
                "pass more rows, a smaller min_rows, or rare='pool'",
            )
        groups = np.empty(len(leaves), dtype=np.int64)
        for place, members in enumerate(pooled_lists(tree, leaves, mass, least)):
            groups[members] = place
        pooled = [j for j in rare if np.bincount(groups)[groups[j]] > 1]
        if not pooled:
            return groups, ()
        rows = tuple(float(mass[j]) for j in pooled)
        return groups, (pooled_leaves(self.min_rows, tuple(names[j] for j in pooled), rows),)

    def _cut(self, rows: PathRows, depth: int) -> CutList:
        if not len(rows.mass):
            return CutList(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(1, dtype=bool))
        total, squares = rows.mass.sum(), np.square(rows.mass).sum()
        size = int(total if rows.counts else total**2 / squares * (1.0 + ROUNDING))
        asked = max(size // self.points_per_bin, 1) if self.n_bins is None else self.n_bins
        cut = leaf_cuts if self.bins_on == "leaf" else path_cuts
        return cut(rows, depth, min(asked, max(size // 2, 1)))

    # ---------------------------------------------------------------------------------------------------- guarantees

    def _evidence(
        self,
        fitted: PathMap,
        lists: list[PathList],
        score_type: MulticlassScoreType,
        mass: NDArray[Any],
        strength: float | None,
    ) -> PathBins:
        light = np.concatenate([each.cuts.light for each in lists])
        n = np.concatenate([each.n for each in lists])
        hits = [np.where(each.cuts.light[:, None], 0, each.hits).ravel() for each in lists]
        return PathBins(
            map=fitted,
            score_type=score_type,
            n=np.where(light, 0, n),
            hits=np.concatenate(hits),
            uncovered=light,
            leaf_rows=np.rint(mass).astype(np.int64),
            source=OWN_ROWS if self.bins_on == "leaf" else PATH_LISTS,
            borrowed=strength or 0.0,
        )

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return issue_paths(self.bins_, alpha, interval, coverage)

    def _title(self) -> str:
        """With the size of the taxonomy, not all of its nodes."""
        return repr(clone(self).set_params(taxonomy=self.map_.taxonomy))

    def _describe(self, voice: Voice) -> str:
        n = self.bins_.n[self.bins_.n > 0]
        spread = f"{count_text(n.min())} to {count_text(n.max())} rows each" if len(n) else "all on an edge"
        return f"{len(n):,} bins by the scores of the {self.bins_on}, {spread}"


def _axis(rows: MulticlassRows) -> ClassAxis:
    return "logit" if rows.score_type == "logit" else "probability"
