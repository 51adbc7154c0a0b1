"""From evidence to certificate: which rows may carry one, and what it then says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.kinds import ClassKind
from calibrant.guarantees.about.classes import ClassBins, certified, few_rows, part_name
from calibrant.guarantees.about.paths import PathNodes, with_rows
from calibrant.guarantees.about.regions import MOST_CLASSES, Regions, by_one_bound, class_sets
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.bounds import BOUNDS, Bound, Flags, Interval, Mode
from calibrant.guarantees.certificate import (
    About,
    Certificate,
    Terms,
    round_up,
)
from calibrant.guarantees.origins import Assumption, BinRule, Source
from calibrant.guarantees.provenance import ClassProvenance, Provenance
from calibrant.guarantees.refusal import Refusal, RefusalCode, gate
from calibrant.maps import StepMap
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap
from calibrant.messages import Argument, InputError, Phrase, Setting
from calibrant.notions import Notion
from calibrant.numerics import Floats, Ints, multiply_odds

ASSUMED = (Assumption.INDEPENDENT, Assumption.NOT_TUNED)
"""What every certificate assumes: the best of several numbers of bins, or of several fits, would look as good."""

NOTHING = 0.999
"""Share of the largest deviation that there can be, from which on a promise says nothing."""


# ------------------------------------------------------------------------------------------------------------- Evidence


@dataclass(frozen=True, eq=False)
class Bins:
    """The evidence behind a binned map: for each bin its output and the rows that speak for it.

    Bin j holds ``knots[j-1] <= score < knots[j]``. Where ``uncovered[j]`` is set the bin is an edge that the rows
    themselves chose and that has too few of them to be promised anything; ``n`` and ``events`` are then 0, and the rows
    on such edges are counted in ``uncovered_rows``.
    """

    knots: Floats
    outputs: Floats
    n: Ints
    events: Ints
    rule: BinRule
    source: Source
    uncovered: Flags
    uncovered_rows: int = 0
    fixed: bool = True
    """Whether the bins owe nothing to any row, so that they would be the same after more rows."""
    assumption: Assumption | None = None
    share: float = 1.0
    """Share of alpha that the intervals of these bins may spend."""
    look: int = 1
    """How often a certificate was asked for on growing rows, this time included."""
    refusal: Refusal | None = None
    """Why the bins carry no certificate, where that does not show in the provenance of their rows."""
    odds: float = 1.0
    """Weight of an event relative to a negative row, where rows were sampled by class; ``outputs`` are as sampled."""
    part_rows: int = 0
    """Rows that chose the bins and do not fill them."""

    @property
    def origin(self) -> str:
        """What decided where the bins end, in words."""
        return self.rule.words(self.part_rows)

    @property
    def about(self) -> ScoreBins:
        """The bins as what statements are about."""
        return ScoreBins(self.knots, self.uncovered, self.uncovered_rows, self.rule, self.share, self.look, self.odds)

    def restored(self, rates: Floats) -> Floats:
        """Rates of the rows as sampled, moved to the population that the class weights restore."""
        return multiply_odds(rates, self.odds)

    def to_map(self) -> StepMap:
        """The output of each bin for its scores, in the population that the class weights restore."""
        return StepMap(self.knots, self.restored(self.outputs)).merged()


@dataclass(frozen=True)
class Evidence:
    """One binary problem of several classes and the bins that speak for it.

    ``rank`` is the rank of the class that it is about, 0 where rank plays no part; ``column`` is that class, -1 where
    rows of all classes are together.
    """

    rank: int
    column: int
    bins: Bins


@dataclass(frozen=True, eq=False)
class RegionCounts:
    """The evidence behind a map of simplex bins: the rows of each class that speak for each region.

    ``light`` are the rules of a projection whose threshold holds rows, ``uncovered_rows`` of them, that speak for no
    region. ``fixed`` says whether the regions owe nothing to any row, nor to how many there are.
    """

    map: SimplexBinsMap
    counts: Ints
    light: Ints
    uncovered_rows: int
    fixed: bool
    source: Source
    assumption: Assumption | None = None


@dataclass(frozen=True, eq=False)
class PathBins:
    """The evidence behind a path map: the rows of each bin, and how many of them belong to each node of the path.

    ``n`` and ``uncovered`` are by bin, ``hits`` is ordered as the map's ``rates``. Bins on an edge that the rows chose
    and too few of them lie on are uncovered, with 0 rows. ``leaf_rows`` are the rows predicted as each class.
    ``borrowed`` is how many rows the other leaves count as in the outputs, 0 where these are of a bin's own rows.
    """

    map: PathMap
    kind: ClassKind
    n: Ints
    hits: Ints
    uncovered: Flags
    leaf_rows: Ints
    source: Source
    borrowed: float = 0.0


# --------------------------------------------------------------------------------------------------------- Who gets one


NO_BIN = Refusal(RefusalCode.EMPTY, "no bin holds a row besides those on the edges: use fewer bins or more rows")
MOVING_BINS = Refusal(
    RefusalCode.MOVING_BINS,
    Phrase(
        "an always-valid promise needs bins that no row has chosen, nor their number, or they would move at every "
        "look: pass {n_bins} with {width} or with {bins_from}= another tally, or your own table",
        n_bins=Argument("n_bins"),
        width=Setting("strategy", "width"),
        bins_from=Argument("bins_from"),
    ),
)
MOVING_CLASSES = Refusal(
    RefusalCode.MOVING_BINS,
    "an always-valid promise needs classes and bins that stay the same at every look, and here the rows decide which "
    "classes have bins of their own: ask for another bound",
)
MOVING_REGIONS = Refusal(
    RefusalCode.MOVING_BINS,
    "an always-valid promise needs regions that no row has chosen, nor their number, or they would move at every look: "
    'use scheme="sierpinski" with depth=, or scheme="grid" with cells=',
)
MOVING_PATHS = Refusal(
    RefusalCode.MOVING_BINS,
    "an always-valid promise needs bins that no row has chosen, or they would move at every look",
)


def checked_terms(alpha: float, bound: Bound, mode: Mode) -> Terms:
    """The terms of a certificate, refused where none can have them."""
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie strictly between 0 and 1, got {alpha}")
    check_option("bound", bound, tuple(BOUNDS))
    check_option("mode", mode, get_args(Mode))
    return Terms(alpha, mode, bound)


# --------------------------------------------------------------------------------------------------------- What it says


def _intervals(about: About, events: Ints, rows: Ints, terms: Terms) -> Interval:
    """The interval of each statement at its share of alpha."""
    lower, upper = np.zeros(len(rows)), np.ones(len(rows))
    levels = about.levels(rows, terms)
    for level in np.unique(levels).tolist():
        at = levels == level
        lower[at], upper[at] = BOUNDS[terms.bound](events[at], rows[at], level)
    return lower, upper


def _unless_empty(promise: Certificate, most: float, what: str) -> Certificate | Refusal:
    """The promise, or a refusal where every map would keep it: ``most`` is as far as anything can be off."""
    if promise.epsilon <= NOTHING * most:
        return promise
    return Refusal(
        RefusalCode.VACUOUS,
        f"the rows promise no more than a deviation of at most {round_up(most)} in the worst {what}, which is always "
        f"so: use more rows or fewer {what}s",
    )


def issue(bins: Bins, provenance: Provenance, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
    """The certificate of binned evidence, or the reason why there is none."""
    terms = checked_terms(alpha, bound, mode)
    for refusal in (gate(provenance), bins.refusal):
        if refusal is not None:
            return refusal
    if not (bins.n > 0).any():
        return NO_BIN
    if BOUNDS[bound].any_time and not bins.fixed:
        return MOVING_BINS
    lower, upper = map(bins.restored, _intervals(bins.about, bins.events, bins.n, terms))
    table = bins.restored(bins.outputs), lower, upper, bins.n, bins.events
    sampled = Assumption.SAMPLED_BY_CLASS if provenance.weights == "by-class" else None
    assumed = (*ASSUMED, *(each for each in (sampled, bins.assumption) if each))
    return Certificate.of(bins.about, table, terms, provenance.kind, int(bins.n.sum()), assumed, str(bins.source))


def issue_classes(
    notion: Notion,
    classes: tuple[str, ...],
    evidence: Sequence[Evidence],
    provenance: ClassProvenance,
    named: Mapping[int, Mapping[str, float]],
    least: int,
    alpha: float,
    bound: Bound,
    mode: Mode,
) -> Certificate | Refusal:
    """The certificate of binned evidence about several classes, or the reason why there is none.

    ``named`` are the rows that name each class, by rank, where the notion asks for each named class separately; those
    that fewer than ``least`` rows name share a map.
    """
    terms = checked_terms(alpha, bound, mode)
    words = certified(notion.name)
    if words is None:
        return Refusal(RefusalCode.NO_THEOREM, f"no theorem here covers the notion {notion.name!r}")
    if BOUNDS[bound].any_time:
        return MOVING_CLASSES
    for each in evidence:
        if each.bins.refusal is not None:
            name, refused = part_name(each.rank, each.column, classes), each.bins.refusal
            return Refusal(refused.code, Phrase("{name}: {reason}", name=name, reason=refused.reason))
    pooled = [few_rows(rank, least, rows) for rank, rows in named.items() if min(rows.values()) < least]
    if not evidence and pooled:
        return Refusal(
            RefusalCode.POOLED,
            f"{'; '.join(pooled)}: nothing is promised about classes that share a map, so use more rows",
        )
    kept = [each for each in evidence if (each.bins.n > 0).any()]
    if not kept:
        return Refusal(
            RefusalCode.EMPTY,
            "no bin of any class holds a row besides those on the edges: use fewer bins or more rows",
        )
    about = ClassBins(
        notion=notion.name,
        k=int(getattr(notion, "k", 0)),
        classes=classes,
        ranks=np.array([each.rank for each in kept], dtype=np.int64),
        columns=np.array([each.column for each in kept], dtype=np.int64),
        parts=tuple(each.bins.about for each in kept),
        named_rows=np.rint([size for rows in named.values() for size in rows.values()]).astype(np.int64),
        least=least,
        frame_columns=provenance.columns,
    )
    rows = np.concatenate([each.bins.n for each in kept])
    events = np.concatenate([each.bins.events for each in kept])
    outputs = np.concatenate([each.bins.outputs for each in kept])
    table = outputs, *_intervals(about, events, rows, terms), rows, events
    bins_by = Counter(each.bins.source for each in kept).most_common(1)[0][0]
    theorem = Source("Gupta 2023", words.theorem)
    source = f"{theorem}; bins by {bins_by.place if bins_by.work == theorem.work else bins_by}"
    assumed = (*ASSUMED, *dict.fromkeys(each.bins.assumption for each in kept if each.bins.assumption))
    promise = Certificate.of(about, table, terms, provenance.kind, int(provenance.n), assumed, source)
    return _unless_empty(promise, 1.0, "bin")


def issue_regions(
    evidence: RegionCounts, alpha: float, bound: Bound, mode: Mode, frame_columns: tuple[str, ...] = ()
) -> Certificate | Refusal:
    r"""The certificate of counted regions, or the reason why there is none.

    The distance of two distributions is twice the largest difference that a set A of classes shows,
    :math:`\|p - o\|_1 = 2 \max_A |p(A) - o(A)|`, and the rows of a region with a class in A are binomial. So each of
    the :math:`2^{L-1} - 1` pairs of a set and its complement gets an interval at level
    :math:`\alpha / (M (2^{L-1} - 1))`, with M the promised regions. With ``bound="hoeffding"`` that is the bound of
    Weissman et al. (2003), :math:`P(\|\hat p - p\|_1 \ge e) \le (2^L - 2) e^{-n e^2 / 2}`, plus the shift of the
    output; exact intervals are never wider. Above 10 classes it is used in that form.
    """
    terms = checked_terms(alpha, bound, mode)
    counts, classes = evidence.counts, len(evidence.map.classes)
    rows = counts.sum(axis=1)
    promised = rows > 0
    if not promised.any():
        return Refusal(
            RefusalCode.EMPTY, "no region holds a row besides those on the thresholds: use fewer bins or more rows"
        )
    if BOUNDS[bound].any_time and not evidence.fixed:
        return MOVING_REGIONS
    if BOUNDS[bound].any_time and classes > MOST_CLASSES:
        return Refusal(
            RefusalCode.TOO_MANY_CLASSES, f"an always-valid promise is made for at most {MOST_CLASSES} classes here"
        )
    level = alpha / terms.union(promised)
    if classes > MOST_CLASSES:
        terms = Terms(alpha, mode, "hoeffding")
        distances, lower, upper = by_one_bound(evidence.map, counts, level)
    else:
        distances, lower, upper = _by_sets(evidence, level, bound)
    about = Regions(
        evidence.map, np.where(promised, distances, 2.0), evidence.light, evidence.uncovered_rows, frame_columns
    )
    ends = np.where(promised[:, None], lower, 0.0).ravel(), np.where(promised[:, None], upper, 1.0).ravel()
    table = evidence.map.table, *ends, np.repeat(rows, classes), counts.ravel()
    assumed = (*ASSUMED, evidence.assumption) if evidence.assumption else ASSUMED
    promise = Certificate.of(about, table, terms, evidence.map.on, int(rows.sum()), assumed, str(evidence.source))
    return _unless_empty(promise, 2.0, "region")


def _by_sets(evidence: RegionCounts, alpha: float, bound: Bound) -> tuple[Floats, Floats, Floats]:
    """Distances, and the ends of the intervals of single classes, from an interval for every set of classes."""
    sets = class_sets(len(evidence.map.classes))
    rows = evidence.counts.sum(axis=1)[:, None]
    low, high = BOUNDS[bound](evidence.counts @ sets.T, rows, alpha / len(sets))
    said = np.einsum("rk,sk->rs", evidence.map.outputs_by_region, sets)
    distances = 2.0 * np.maximum(said - low, high - said).max(axis=1)
    single = 2 ** np.arange(sets.shape[1] - 1) - 1  # places of the sets of one class; the last set lacks the last class
    lower = np.column_stack([low[:, single], 1.0 - high[:, -1]])
    upper = np.column_stack([high[:, single], 1.0 - low[:, -1]])
    return np.minimum(distances, 2.0), lower, upper


def issue_paths(bins: PathBins, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
    """The certificate of binned paths, or the reason why there is none."""
    terms = checked_terms(alpha, bound, mode)
    if BOUNDS[bound].any_time:
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
    promise = Certificate.of(about, table, terms, bins.kind, int(rows_by_bin.sum()), ASSUMED, str(bins.source))
    return _unless_empty(promise, 1.0, "bin")


def _nothing_left(about: PathNodes) -> Refusal:
    """Why no bin can be promised anything."""
    predicted = about.pooled & (about.leaf_rows > 0)
    if not predicted.any():
        return NO_BIN
    shown = with_rows(about.classes, about.leaf_rows, predicted)
    return Refusal(
        RefusalCode.POOLED,
        f"the leaves that rows are predicted as are pooled, {shown}: use more rows or a smaller least",
    )
