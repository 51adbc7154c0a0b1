"""Issuing certificates: from the counts of bins or regions to a certificate, or to the reason for none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.about.classes import MulticlassBins, certified, few_rows, part_name
from calibrant.guarantees.about.paths import PathNodes, with_rows
from calibrant.guarantees.about.regions import MOST_CLASSES, Regions, by_one_bound, class_sets
from calibrant.guarantees.about.scores import ScoreBins, WeightedBins
from calibrant.guarantees.about.trees import ClassLeaves, TreeLeaves
from calibrant.guarantees.bounds import BOUNDS, Coverage, Flags, Interval, IntervalName, any_time
from calibrant.guarantees.certificate import (
    About,
    Certificate,
    Terms,
    round_up,
)
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode, gate
from calibrant.guarantees.origins import HONEST_TREE, KNOWN_WEIGHTS, Assumption, BinRule
from calibrant.guarantees.provenance import MulticlassProvenance, Provenance
from calibrant.guarantees.weighted import WEIGHTED_BOUNDS, WEIGHTED_NAMES, WeightTable
from calibrant.maps import ClassTreeMap, StepMap, TreeMap
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.notions import Notion
from calibrant.numerics import Floats, Ints, multiply_odds

ASSUMED = (Assumption.INDEPENDENT, Assumption.NOT_TUNED)
"""What every certificate assumes; with arguments tuned on the labels, the best of several fits would look too good."""

ASSUMED_OF_RATIO = (
    Assumption.INDEPENDENT_SOURCE,
    Assumption.NOT_TUNED,
    Assumption.COVARIATE_SHIFT,
    Assumption.KNOWN_RATIO,
)
"""What a certificate about a target population assumes."""

LEAST_EFFECTIVE_SIZE = 30.0
"""A certificate of weighted rows needs this effective sample size: below it, a few rows decide the outputs."""

NOTHING = 0.999
"""A certificate is vacuous if its epsilon is at least this share of the largest possible deviation."""


# ------------------------------------------------------------------------------------------------------------- Evidence


@dataclass(frozen=True, eq=False)
class Bins:
    """Counts behind a binned map: for each bin its output, rows and events.

    Bin j holds ``knots[j-1] <= score < knots[j]``. If ``uncovered[j]`` is set, the bin is an edge that the rows
    themselves chose and that has too few rows for a guarantee; ``n`` and ``events`` are then 0, and the rows on such
    edges are counted in ``uncovered_rows``.
    """

    knots: Floats
    outputs: Floats
    n: Ints
    events: Ints
    rule: BinRule
    source: str
    uncovered: Flags
    uncovered_rows: int = 0
    fixed: bool = True
    """Whether the bins are independent of the rows, so that they would be the same after more rows."""
    assumption: Assumption | None = None
    share: float = 1.0
    """Share of alpha that the intervals of these bins may use."""
    look: int = 1
    """How many times a certificate was requested on growing rows, including this time."""
    refusal: NoCertificate | None = None
    """Why the bins have no certificate, if the provenance of their rows does not show it."""
    odds: float = 1.0
    """Weight of an event relative to a negative if rows were sampled by class; ``outputs`` are as sampled."""
    part_rows: int = 0
    """Rows that were used only to choose the bins."""
    weights: WeightTable | None = None
    """Rows by level of the weight, if weights are a known density ratio; ``outputs`` are then of the target."""

    @property
    def origin(self) -> str:
        """How the bin edges were chosen, in words."""
        return self.rule.words(self.part_rows)

    @property
    def about(self) -> ScoreBins:
        """The bins, as the subject of a certificate's statements."""
        stated = self.knots, self.uncovered, self.uncovered_rows, self.rule, self.share, self.look, self.odds
        if self.weights is None:
            return ScoreBins(*stated)
        events, others = self.weights.events.ravel(), self.weights.others.ravel()
        return WeightedBins(*stated, upper=self.weights.upper, event_levels=events, other_levels=others)

    def restored(self, rates: Floats) -> Floats:
        """Rates of the rows as sampled, converted to the population that the class weights restore."""
        return multiply_odds(rates, self.odds)

    def to_map(self) -> StepMap:
        """The step map of the bins' outputs, in the population that the class weights restore."""
        return StepMap(self.knots, self.restored(self.outputs)).merged()


@dataclass(frozen=True)
class Evidence:
    """One binary problem of a multiclass map, and its bins.

    ``rank`` is the rank of its class, 0 if ranks do not matter; ``column`` is that class, -1 if rows of all classes are
    pooled.
    """

    rank: int
    column: int
    bins: Bins


@dataclass(frozen=True, eq=False)
class RegionCounts:
    """Counts behind a map of simplex bins: rows by region and class.

    ``light`` are the rules of a projection with rows exactly on the threshold, ``uncovered_rows`` in all, which count
    for no region. ``fixed`` says whether the regions are independent of the rows and of their number.
    """

    map: SimplexBinsMap
    counts: Ints
    light: Ints
    uncovered_rows: int
    fixed: bool
    source: str
    assumption: Assumption | None = None


@dataclass(frozen=True, eq=False)
class PathBins:
    """Counts behind a path map: the rows of each bin, and how many of them belong to each node of the path.

    ``n`` and ``uncovered`` are by bin, ``hits`` is ordered as the map's ``rates``. Bins that are an edge chosen by the
    rows, with too few rows on it, are uncovered and have 0 rows. ``leaf_rows`` are the rows predicted as each class.
    ``borrowed`` is the number of rows that the other leaves count for in the outputs (shrinkage), 0 if outputs are
    based on a bin's own rows only.
    """

    map: PathMap
    score_type: MulticlassScoreType
    n: Ints
    hits: Ints
    uncovered: Flags
    leaf_rows: Ints
    source: str
    borrowed: float = 0.0


# --------------------------------------------------------------------------------------------------------- Who gets one


NO_BIN = NoCertificate(
    NoCertificateCode.EMPTY, "no bin has rows other than those on its edges: use fewer bins or more rows"
)
MOVING_BINS = NoCertificate(
    NoCertificateCode.MOVING_BINS,
    Phrase(
        "an always-valid interval needs bins, and a number of bins, that do not depend on the rows: pass {n_bins} with "
        "{width}, or with {bins_from}= another tally, or your own table",
        n_bins=Argument("n_bins"),
        width=Setting("strategy", "width"),
        bins_from=Argument("bins_from"),
    ),
)
MOVING_CLASSES = NoCertificate(
    NoCertificateCode.MOVING_BINS,
    "an always-valid interval needs classes and bins that do not depend on the rows, and here the rows decide which "
    "classes have separate bins: choose another interval",
)
MOVING_REGIONS = NoCertificate(
    NoCertificateCode.MOVING_BINS,
    "an always-valid interval needs regions, and a number of regions, that do not depend on the rows: "
    'use scheme="sierpinski" with depth=, or scheme="grid" with cells=',
)
MOVING_PATHS = NoCertificate(
    NoCertificateCode.MOVING_BINS,
    "an always-valid interval needs bins that do not depend on the rows: choose another interval",
)


MOVING_LEAVES = NoCertificate(
    NoCertificateCode.MOVING_BINS,
    "an always-valid interval needs leaves that do not depend on the rows, and more rows would grow another tree: "
    "choose another interval",
)


def checked_terms(
    alpha: float, interval: IntervalName, coverage: Coverage, allowed: Collection[str] = BOUNDS.keys()
) -> Terms:
    """The terms of a certificate; invalid ones raise an error."""
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}", "pass 0.1 for confidence 90 %")
    check_option("interval", interval, tuple(allowed))
    check_option("coverage", coverage, get_args(Coverage))
    return Terms(alpha, coverage, interval)


# --------------------------------------------------------------------------------------------------------- What it says


def _intervals(about: About, events: Ints, rows: Ints, terms: Terms) -> Interval:
    """The interval of each statement at its share of alpha."""
    lower, upper = np.zeros(len(rows)), np.ones(len(rows))
    levels = about.levels(rows, terms)
    for level in np.unique(levels).tolist():
        at = levels == level
        lower[at], upper[at] = BOUNDS[terms.interval](events[at], rows[at], level)
    return lower, upper


def _unless_empty(certificate: Certificate, most: float, what: str) -> Certificate | NoCertificate:
    """The certificate, or a refusal if it is vacuous: ``most`` is the largest deviation possible."""
    if certificate.epsilon <= NOTHING * most:
        return certificate
    return NoCertificate(
        NoCertificateCode.VACUOUS,
        f"the bound is vacuous: in the worst {what} these rows guarantee only a deviation of at most {round_up(most)}, "
        f"which always holds; use more rows or fewer {'leaves' if what == 'leaf' else what + 's'}",
    )


def issue(
    bins: Bins, provenance: Provenance, alpha: float, interval: IntervalName, coverage: Coverage
) -> Certificate | NoCertificate:
    """The certificate of a binned map, or the reason why there is none."""
    terms = checked_terms(alpha, interval, coverage, (*BOUNDS, *(() if bins.weights is None else WEIGHTED_BOUNDS)))
    for refusal in (gate(provenance), bins.refusal):
        if refusal is not None:
            return refusal
    if not (bins.n > 0).any():
        return NO_BIN
    if bins.weights is not None:
        return _issue_weighted(bins, bins.weights, provenance, terms)
    if any_time(interval) and not bins.fixed:
        return MOVING_BINS
    lower, upper = map(bins.restored, _intervals(bins.about, bins.events, bins.n, terms))
    table = bins.restored(bins.outputs), lower, upper, bins.n, bins.events
    sampled = Assumption.SAMPLED_BY_CLASS if provenance.weight_type == "by-class" else None
    assumed = (*ASSUMED, *(each for each in (sampled, bins.assumption) if each))
    return Certificate.of(bins.about, table, terms, provenance.score_type, int(bins.n.sum()), assumed, bins.source)


def _issue_weighted(
    bins: Bins, weights: WeightTable, provenance: Provenance, terms: Terms
) -> Certificate | NoCertificate:
    """The certificate of bins in the target population, from rows whose weights are a known density ratio."""
    name = WEIGHTED_NAMES.get(terms.interval)
    if name is None:
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            f"no {terms.interval} interval is known for weighted rows: use interval='betting' or 'weighted-hoeffding'",
        )
    if weights.effective_size < LEAST_EFFECTIVE_SIZE:
        return NoCertificate(
            NoCertificateCode.FEW_EFFECTIVE_ROWS,
            f"the weighted rows have an effective sample size of {weights.effective_size:.1f}, and "
            f"{LEAST_EFFECTIVE_SIZE:g} are needed: use more rows, or label rows of the target population",
        )
    terms = terms._replace(interval=name)
    lower, upper = WEIGHTED_BOUNDS[name](weights, bins.about.levels(bins.n, terms))
    assumed = (*ASSUMED_OF_RATIO, *(each for each in (bins.assumption,) if each))
    table, source = (bins.outputs, lower, upper, bins.n, bins.events), f"{bins.source}{KNOWN_WEIGHTS}"
    return Certificate.of(bins.about, table, terms, provenance.score_type, int(bins.n.sum()), assumed, source)


def issue_classes(
    notion: Notion,
    classes: tuple[str, ...],
    evidence: Sequence[Evidence],
    provenance: MulticlassProvenance,
    named: Mapping[int, Mapping[str, float]],
    min_rows: int,
    alpha: float,
    interval: IntervalName,
    coverage: Coverage,
) -> Certificate | NoCertificate:
    """The certificate of a binned map of several classes, or the reason why there is none.

    ``named`` are the rows that predict each class, by rank, if the notion treats each predicted class separately;
    classes predicted in fewer than ``min_rows`` rows share a map.
    """
    terms = checked_terms(alpha, interval, coverage)
    words = certified(notion.name)
    if words is None:
        return NoCertificate(NoCertificateCode.NO_THEOREM, f"no known theorem covers the notion {notion.name!r}")
    if any_time(interval):
        return MOVING_CLASSES
    for each in evidence:
        if each.bins.refusal is not None:
            name, refused = part_name(each.rank, each.column, classes), each.bins.refusal
            return NoCertificate(refused.code, Phrase("{name}: {reason}", name=name, reason=refused.reason))
    pooled = [few_rows(rank, min_rows, rows) for rank, rows in named.items() if min(rows.values()) < min_rows]
    if not evidence and pooled:
        return NoCertificate(
            NoCertificateCode.POOLED,
            f"{'; '.join(pooled)}: classes that share a map are not covered, so use more rows, or "
            "Reduction('confidence', HistogramBinning()), which has one certificate for all classes together",
        )
    kept = [each for each in evidence if (each.bins.n > 0).any()]
    if not kept:
        return NoCertificate(
            NoCertificateCode.EMPTY,
            "no bin of any class has rows other than those on its edges: use fewer bins or more rows",
        )
    about = MulticlassBins(
        notion=notion.name,
        k=int(getattr(notion, "k", 0)),
        classes=classes,
        ranks=np.array([each.rank for each in kept], dtype=np.int64),
        columns=np.array([each.column for each in kept], dtype=np.int64),
        parts=tuple(each.bins.about for each in kept),
        named_rows=np.rint([size for rows in named.values() for size in rows.values()]).astype(np.int64),
        min_rows=min_rows,
        frame_columns=provenance.columns,
    )
    rows = np.concatenate([each.bins.n for each in kept])
    events = np.concatenate([each.bins.events for each in kept])
    outputs = np.concatenate([each.bins.outputs for each in kept])
    table = outputs, *_intervals(about, events, rows, terms), rows, events
    assumed = (*ASSUMED, *dict.fromkeys(each.bins.assumption for each in kept if each.bins.assumption))
    found = Certificate.of(about, table, terms, provenance.score_type, int(provenance.n), assumed, *about.references)
    return _unless_empty(found, 1.0, "bin")


def issue_regions(
    evidence: RegionCounts,
    alpha: float,
    interval: IntervalName,
    coverage: Coverage,
    frame_columns: tuple[str, ...] = (),
) -> Certificate | NoCertificate:
    r"""The certificate of a map of simplex regions, or the reason why there is none.

    The l1 distance of two distributions is twice the largest difference on a set A of classes,
    :math:`\|p - o\|_1 = 2 \max_A |p(A) - o(A)|`, and the number of rows of a region with a class in A is binomial. So
    each of the :math:`2^{L-1} - 1` pairs of a set and its complement gets an interval with
    :math:`\alpha / (M (2^{L-1} - 1))`, with M covered regions. With ``interval="hoeffding"`` that is the bound of
    Weissman et al. (2003), :math:`P(\|\hat p - p\|_1 \ge e) \le (2^L - 2) e^{-n e^2 / 2}`, plus the distance between
    output and observed share; exact intervals are never wider. Above 10 classes the bound is used in that form.
    """
    terms = checked_terms(alpha, interval, coverage)
    counts, classes = evidence.counts, len(evidence.map.classes)
    rows = counts.sum(axis=1)
    covered = rows > 0
    if not covered.any():
        return NoCertificate(
            NoCertificateCode.EMPTY,
            "no region has rows other than those on its thresholds: use fewer bins or more rows",
        )
    if any_time(interval) and not evidence.fixed:
        return MOVING_REGIONS
    if any_time(interval) and classes > MOST_CLASSES:
        return NoCertificate(
            NoCertificateCode.TOO_MANY_CLASSES,
            f"always-valid intervals are available for at most {MOST_CLASSES} classes: choose another interval",
        )
    level = alpha / terms.union(covered)
    if classes > MOST_CLASSES:
        terms = Terms(alpha, coverage, "hoeffding")
        distances, lower, upper = by_one_bound(evidence.map, counts, level)
    else:
        distances, lower, upper = _by_sets(evidence, level, interval)
    about = Regions(
        evidence.map, np.where(covered, distances, 2.0), evidence.light, evidence.uncovered_rows, frame_columns
    )
    ends = np.where(covered[:, None], lower, 0.0).ravel(), np.where(covered[:, None], upper, 1.0).ravel()
    table = evidence.map.table, *ends, np.repeat(rows, classes), counts.ravel()
    assumed = (*ASSUMED, evidence.assumption) if evidence.assumption else ASSUMED
    certificate = Certificate.of(about, table, terms, evidence.map.on, int(rows.sum()), assumed, evidence.source)
    return _unless_empty(certificate, 2.0, "region")


def _by_sets(evidence: RegionCounts, alpha: float, interval: IntervalName) -> tuple[Floats, Floats, Floats]:
    """l1 distances, and intervals of single classes, from an interval for every set of classes."""
    sets = class_sets(len(evidence.map.classes))
    rows = evidence.counts.sum(axis=1)[:, None]
    low, high = BOUNDS[interval](evidence.counts @ sets.T, rows, alpha / len(sets))
    said = np.einsum("rk,sk->rs", evidence.map.outputs_by_region, sets)
    distances = 2.0 * np.maximum(said - low, high - said).max(axis=1)
    single = (
        2 ** np.arange(sets.shape[1] - 1) - 1
    )  # indices of the one-class sets; the last class is the complement of the last set
    lower = np.column_stack([low[:, single], 1.0 - high[:, -1]])
    upper = np.column_stack([high[:, single], 1.0 - low[:, -1]])
    return np.minimum(distances, 2.0), lower, upper


def issue_leaves(
    tree: TreeMap | ClassTreeMap,
    counts: tuple[Ints, Ints],
    chose: int,
    provenance: Provenance | MulticlassProvenance,
    alpha: float,
    interval: IntervalName,
    coverage: Coverage,
) -> Certificate | NoCertificate:
    """The certificate of a tree of rates, or the reason why there is none.

    ``counts`` are rows by leaf, and events by leaf or by leaf and class, of rows other than the ``chose`` rows that
    chose the splits (docs/certificates/trees.md).
    """
    terms = checked_terms(alpha, interval, coverage)
    refusal = gate(provenance)
    if refusal is not None:
        return refusal
    rows, events = counts
    if any_time(interval):
        return MOVING_LEAVES
    if tree.constants is None or not (rows > 0).any():
        return NO_BIN
    about: TreeLeaves
    if isinstance(tree, ClassTreeMap):
        about = ClassLeaves(tree, chose, tuple(getattr(provenance, "columns", ())))
    else:
        about = TreeLeaves(tree, chose)
    rows, events = np.repeat(rows, about.size), events.ravel()
    table = tree.constants.ravel(), *_intervals(about, events, rows, terms), rows, events
    assumed = (*ASSUMED, Assumption.ONE_DRAW)
    n = int(rows.sum()) // about.size
    found = Certificate.of(about, table, terms, provenance.score_type, n, assumed, HONEST_TREE)
    return _unless_empty(found, 1.0, "leaf")


def issue_paths(
    bins: PathBins, alpha: float, interval: IntervalName, coverage: Coverage
) -> Certificate | NoCertificate:
    """The certificate of a binned path map, or the reason why there is none."""
    terms = checked_terms(alpha, interval, coverage)
    if any_time(interval):
        return MOVING_PATHS
    rows_by_bin, uncovered = np.where(bins.map.shared, 0, bins.n), bins.uncovered & ~bins.map.shared
    alone = ~bins.map.shared[bins.map.first_bins[bins.map.groups]]
    aside = int(bins.leaf_rows[alone].sum() - rows_by_bin.sum())
    about = PathNodes(bins.map, uncovered, aside, bins.leaf_rows, bins.borrowed)
    if not (rows_by_bin > 0).any():
        return _nothing_left(about)
    rows = np.repeat(rows_by_bin, about.depths)
    events = np.where(rows > 0, bins.hits, 0)
    table = bins.map.rates, *_intervals(about, events, rows, terms), rows, events
    certificate = Certificate.of(about, table, terms, bins.score_type, int(rows_by_bin.sum()), ASSUMED, bins.source)
    return _unless_empty(certificate, 1.0, "bin")


def _nothing_left(about: PathNodes) -> NoCertificate:
    """Why no bin is covered."""
    predicted = about.pooled & (about.leaf_rows > 0)
    if not predicted.any():
        return NO_BIN
    shown = with_rows(about.classes, about.leaf_rows, predicted)
    return NoCertificate(
        NoCertificateCode.POOLED,
        f"all predicted leaves are pooled, {shown}: use more rows or a smaller min_rows",
    )
