"""The promise about probabilities along the paths of a taxonomy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from calibrant.arrays import InputError
from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import ClassKind, check_class_rows, check_class_scores
from calibrant.guarantees.certificates import (
    MUCH_UNCOVERED,
    UNEVEN,
    Bound,
    CertificateCheck,
    Flags,
    Mode,
    Refusal,
    _count,
    _outside_p_values,
    _round_up,
)
from calibrant.guarantees.class_certificates import IF_FRESH, empty_promise, listed, short, unbroken
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps import ClassMap
from calibrant.maps.paths import PathMap
from calibrant.maps.taxonomy import refuse_several
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True, eq=False)
class PathBins:
    """The evidence behind a path map: the rows of each bin, and how many of them belong to each node of the path.

    ``n`` and ``uncovered`` are by bin, ``hits`` is ordered as the map's ``rates``. Bins on an edge that the rows chose
    and too few of them lie on are uncovered, with 0 rows. ``leaf_rows`` are the rows predicted as each class.
    ``remarks`` are sentences about how the outputs were made that a reader of the promise must know.
    """

    map: PathMap
    kind: ClassKind
    n: Ints
    hits: Ints
    uncovered: Flags
    leaf_rows: Ints
    source: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PathCertificate(ClassPromise):
    r"""A promise about every node on the path of a predicted leaf.

    Simultaneous: with probability at least :math:`1 - \alpha` over the calibration rows, for every predicted leaf l,
    each of its promised bins b and every node v of its path,

    .. math:: |P(v \in a(Y) \mid c(X) = l, X \in \text{bin } b) - h_v| \le \epsilon .

    Marginal: for one new row, the same for all nodes of its path in the bin that it falls in, with that probability
    over the calibration rows and the new one. Leaves that share bins are promised nothing: which leaves do depends on
    how many rows each has drawn, so their rows are no draws of the pool. See ``docs/certificates/paths.md``.

    Attributes
    ----------
    map
        The map that it speaks of.
    rows, uncovered
        By bin: the rows that speak for it, 0 where nothing is promised; whether it is an edge without a promise.
    leaf_rows
        Rows predicted as each class, also those without a promise.
    lower, upper, hits
        Bin by bin and node by node, the broadest first, as ``outputs``: interval of the true probability, which is
        [0, 1] where nothing is promised; rows that belong to the node.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound
    kind: ClassKind
    n: int
    map: PathMap
    rows: Ints
    uncovered: Flags
    leaf_rows: Ints
    lower: Floats
    upper: Floats
    hits: Ints
    remarks: tuple[str, ...]
    assumptions: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other; a document may hold anything."""
        bins = int(self.map.first_bins[-1])
        if len(self.rows) != bins or len(self.uncovered) != bins or len(self.leaf_rows) != len(self.classes):
            raise ValueError(f"{bins} bins need as many numbers of rows and flags, and each leaf a number of rows")
        if any(len(each) != len(self.outputs) for each in (self.lower, self.upper, self.hits)):
            raise ValueError("every bin needs an entry for each node of its path")
        if self.mode not in get_args(Mode) or self.bound not in get_args(Bound) or not 0.0 < self.alpha < 1.0:
            raise ValueError("mode, bound or alpha is not one that a certificate can have")
        if (self.kind == "logit") != (self.map.on == "logit"):
            raise ValueError("the map takes another kind of scores")
        self._check_rows()
        self._check_entries()

    def _check_rows(self) -> None:
        """Every row of a leaf with bins of its own lies in one of these, or on an edge without a promise."""
        if (self.rows < 0).any() or (self.leaf_rows < 0).any() or self.n != self.rows.sum():
            raise ValueError("rows must not be below 0, and n be their sum")
        if (self.rows > 0)[self.uncovered | self.map.shared].any() or (self.uncovered & self.map.shared).any():
            raise ValueError("edges without a promise and leaves that share bins have no rows that speak for them")
        firsts, alone = self.map.first_bins[:-1], ~self.map.shared[self.map.first_bins[:-1]]
        on_edges = np.bincount(self.map.groups, self.leaf_rows) - np.add.reduceat(self.rows, firsts)
        may = np.logical_or.reduceat(self.uncovered, firsts)
        if (on_edges < 0)[alone].any() or (on_edges > 0)[alone & ~may].any():
            raise ValueError("the rows of the bins must be those of their leaf")

    def _check_entries(self) -> None:
        if not ((self.lower >= 0.0) & (self.lower <= self.upper) & (self.upper <= 1.0)).all():
            raise ValueError("intervals must lie in [0, 1] and not be turned around")
        rows = np.repeat(self.rows, self.depths)
        broader = np.where(self._levels() > 0, np.roll(self.hits, 1), rows)
        if (self.hits < 0).any() or (self.hits > broader).any():
            raise ValueError("hits must lie between 0 and the rows of the bin, and not rise along a path")
        if not self.promised.any() or self.epsilon != self.half_widths[self.promised].max():
            raise ValueError("epsilon must be that of the widest promise")
        share = self.hits / np.maximum(rows, 1)
        if ((share < self.lower - 1e-9) | (share > self.upper + 1e-9))[self.promised].any():
            raise ValueError("intervals must hold the share that the rows show")
        if ((self.lower > 0.0) | (self.upper < 1.0))[~self.promised].any():
            raise ValueError("where no rows speak for a bin its interval is [0, 1]")

    @property
    def classes(self) -> tuple[str, ...]:
        """The leaves, in the order of the columns."""
        return self.map.classes

    @property
    def depths(self) -> Ints:
        """How many nodes the paths of each bin have."""
        return np.repeat(self.map.list_depths, self.map.sizes + 1)

    @property
    def outputs(self) -> Floats:
        """The probabilities, bin by bin and node by node."""
        return self.map.rates

    @property
    def uncovered_rows(self) -> int:
        """Rows on edges without a promise."""
        return int(self.leaf_rows[~self._pooled()].sum()) - self.n

    @property
    def promised(self) -> Flags:
        """Entries, by bin and node, that the certificate speaks about."""
        return np.repeat(self.rows > 0, self.depths)

    @property
    def half_widths(self) -> Floats:
        """By how much each output can be off."""
        return np.maximum(self.outputs - self.lower, self.upper - self.outputs)

    @property
    def by_level(self) -> Floats:
        """The widest promise at each level of the tree, the broadest first."""
        widths, levels = self.half_widths[self.promised], self._levels()[self.promised]
        return np.array([widths[levels == each].max() for each in np.unique(levels)])

    def _levels(self) -> Ints:
        """Level of each entry, 0 for the broadest."""
        return np.arange(len(self.outputs)) - np.repeat(np.cumsum(self.depths) - self.depths, self.depths)

    def _pooled(self) -> Flags:
        """Leaves that share bins with others."""
        return self.map.shared[self.map.first_bins[self.map.groups]]

    def about(self, map_: ClassMap) -> bool:
        """Whether the promise speaks of this very map."""
        return bool(self.map == map_)

    def rests_on(self, provenance: ClassProvenance) -> bool:
        """Whether these are the rows of the fit, by their kind and number."""
        return provenance.kind == self.kind and provenance.n == self.leaf_rows.sum()

    def check(self, scores: Any, y: Any, *, level: float = 0.01, by_bin: bool = False) -> PathCheck:
        """Hold the promise against fresh rows that played no part in the fit; as :meth:`Certificate.check`.

        Every node of every promised bin is tested, by exact binomial tails and at ``level`` divided by their number,
        for a true share within epsilon of its output, or, with ``by_bin``, inside its own interval. A promise that
        holds is called broken with probability at most ``level``.
        """
        if self.mode == "marginal":
            raise InputError("a marginal certificate speaks of one new row: ask for mode='simultaneous' to check bins")
        n, hits = self._counts(scores, y)
        rows = np.where(self.promised, np.repeat(n, self.depths), 0)
        lower = self.lower if by_bin else np.maximum(self.outputs - self.epsilon, 0.0)
        upper = self.upper if by_bin else np.minimum(self.outputs + self.epsilon, 1.0)
        needed = level / int(self.promised.sum())
        p_values = _outside_p_values(np.minimum(hits, rows), rows, lower, upper)
        best = np.minimum(*(_outside_p_values(all_or_none, rows, lower, upper) for all_or_none in (0 * rows, rows)))
        return PathCheck(
            holds=not (p_values < needed).any(),
            telling=bool((best < needed).any()),
            n=int(n[self.rows > 0].sum()),
            p_values=p_values,
            rows=rows,
            events=np.minimum(hits, rows),
            lower=lower,
            upper=upper,
            broken=np.flatnonzero(p_values < needed),
            names=tuple(self._names()),
        )

    def _counts(self, scores: Any, y: Any) -> tuple[Ints, Ints]:
        """Fresh rows by bin, and those that belong to each node of its path, ordered as the outputs."""
        tree = self.map.taxonomy
        refuse_several(y)
        matrix, _ = check_class_scores(scores, self.classes, self.kind)
        inner = [name for name in (*tree.nodes, tree.root) if name not in set(self.classes)]
        rows = check_class_rows(matrix, y, classes=self.classes, kind=self.kind, others=inner)
        labels = np.array([tree.code(name) for name in (*self.classes, *inner)])[rows.labels]
        top, found = self.map.bins(rows.scores)
        paths = tree.paths[self.map.leaf_codes[top]]
        right = tree.belongs(labels[:, None], paths) & (paths >= 0)
        bins = len(self.rows)
        hits = np.stack([np.bincount(found[each], minlength=bins) for each in right.T], axis=1)
        return np.bincount(found, minlength=bins), hits[np.arange(tree.depth) < self.depths[:, None]]

    def _names(self) -> Iterator[str]:
        """What each entry is about, in words; promised bins are counted from 1, pooled leaves named by their first."""
        leaf = np.unique(self.map.groups, return_index=True)[1]
        for group, (start, size) in enumerate(zip(self.map.first_bins.tolist(), self.map.sizes.tolist(), strict=False)):
            name = self.classes[leaf[group]]
            promised = self.rows[start : start + size + 1] > 0
            for has, place in zip(promised.tolist(), np.cumsum(promised).tolist(), strict=True):
                where = f"in bin {place} of" if has else "where nothing is promised of"
                yield from (f"{node!r} {where} {name!r}" for node in self.map.taxonomy.path(name))

    def __repr__(self) -> str:
        """One short line; ``print`` tells the whole promise."""
        return short(self, "path", self.n, len(self.classes))

    def __str__(self) -> str:
        """The promise in one sentence; then what it rests on, what it leaves out and what it assumes."""
        percent, bins = f"{100 * (1 - self.alpha):.6g} %", int((self.rows > 0).sum())
        if self.mode == "marginal":
            head = (
                f"For a new row, with probability at least {percent}, for every node on the path of its predicted leaf "
                "and in the bin that it falls in"
            )
        else:
            head = f"With confidence {percent}, for each predicted leaf, each of its bins and every node on its path"
        widths = self.half_widths[self.promised]
        lines = [
            f"{head}, the true share of rows that belong to the node differs from the calibrated probability by at "
            f"most {_round_up(self.epsilon)}.",
            f"  By level, the broadest first: {', '.join(map(_round_up, self.by_level.tolist()))}.",
            f"  Basis: {_count(self.n, 'row')} in {_count(bins, 'bin')}, {_count(len(widths), 'statement')}, "
            f"{self.bound} intervals; {self.source}.",
        ]
        if self.epsilon > UNEVEN * np.median(widths):
            half = _round_up(float(np.sort(widths)[(len(widths) - 1) // 2]))
            lines.append(f"  Half of the statements hold within {half}.")
        lines += [*self._not_covered(), *(f"  {remark}" for remark in self.remarks)]
        return "\n".join([*lines, "  Assumes: " + "; ".join(self.assumptions) + "."])

    def _not_covered(self) -> list[str]:
        edges, lines = int(self.uncovered.sum()), []
        if edges:
            share = f"{self.uncovered_rows:,} of {self.n + self.uncovered_rows:,} rows"
            lines.append(f"  Not covered: scores on a bin edge ({_count(edges, 'edge')}, {share}).")
            if self.uncovered_rows > MUCH_UNCOVERED * self.n:
                lines[-1] += " Use fewer bins to cover them."
        empty = int(((self.rows == 0) & ~self.uncovered & ~self.map.shared).sum())
        if empty:
            lines.append(f"  Not covered: {_count(empty, 'bin')} without a row.")
        pooled = self._pooled()
        if pooled.any():
            share = f"{int(self.leaf_rows[pooled].sum()):,} of {int(self.leaf_rows.sum()):,} rows"
            lines.append(f"  Not covered: pooled leaves ({share}): {_with_rows(self.classes, self.leaf_rows, pooled)}.")
        return lines


@dataclass(frozen=True, eq=False)
class PathCheck(CertificateCheck):
    """Result of holding a certificate of paths against fresh rows, by statement; true when nothing contradicts it.

    ``names`` say which node, bin and leaf each statement is about.
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        """The verdict, with the worst statement when the promise is contradicted."""
        if self.holds or not self.telling:
            return unbroken(self.n, self.telling)
        worst = int(np.argmin(self.p_values))
        return (
            f"{_count(self.n, 'row')}: contradicted in {_count(len(self.broken), 'statement')}; the worst, "
            f"{self.names[worst]}, promised a share between {self.lower[worst]:.4g} and {self.upper[worst]:.4g}, shows "
            f"{self.events[worst]:,} of {_count(int(self.rows[worst]), 'row')} (p = {self.p_values[worst]:.2g})."
            f"{IF_FRESH}"
        )


def issue_paths(bins: PathBins, alpha: float, bound: Bound, mode: Mode) -> PathCertificate | Refusal:
    """The certificate of binned paths, or the reason why there is none."""
    from calibrant.guarantees.bounds import BOUNDS  # here, since reading a certificate needs no scipy
    from calibrant.guarantees.issuing import ASSUMED

    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    check_option("bound", bound, get_args(Bound))
    check_option("mode", mode, get_args(Mode))
    if bound == "always-valid":
        return Refusal("an always-valid promise needs bins that no row has chosen, or they would move at every look")
    n = np.where(bins.map.shared, 0, bins.n)
    if not (n > 0).any():
        return Refusal(_nothing_left(bins))
    depths = np.repeat(bins.map.list_depths, bins.map.sizes + 1)
    rows = np.repeat(n, depths)
    hits = np.where(rows > 0, bins.hits, 0)
    lower, upper = np.zeros(len(rows)), np.ones(len(rows))
    # at once for all bins and nodes, or for the nodes of the one bin that a new row falls in
    union = np.full(len(rows), (rows > 0).sum()) if mode == "simultaneous" else np.repeat(depths, depths)
    for size in np.unique(union).tolist():
        at = (union == size) & (rows > 0)
        lower[at], upper[at] = BOUNDS[bound](hits[at], rows[at], alpha / size)
    outputs = bins.map.rates
    epsilon = float(np.maximum(outputs - lower, upper - outputs)[rows > 0].max())
    refusal = empty_promise(epsilon, 1.0, "bin")
    if refusal is not None:
        return refusal
    return PathCertificate(
        epsilon=epsilon,
        alpha=alpha,
        mode=mode,
        bound=bound,
        kind=bins.kind,
        n=int(n.sum()),
        map=bins.map,
        rows=n,
        uncovered=bins.uncovered & ~bins.map.shared,
        leaf_rows=bins.leaf_rows,
        lower=lower,
        upper=upper,
        hits=hits,
        remarks=bins.remarks,
        assumptions=ASSUMED,
        source=bins.source,
    )


def _nothing_left(bins: PathBins) -> str:
    """Why no bin can be promised anything."""
    pooled = bins.map.shared[bins.map.first_bins[bins.map.groups]]
    if not (pooled & (bins.leaf_rows > 0)).any():
        return "no bin holds a row besides those on the edges: use fewer bins or more rows"
    shown = _with_rows(bins.map.classes, bins.leaf_rows, pooled & (bins.leaf_rows > 0))
    return f"the leaves that rows are predicted as are pooled, {shown}: use more rows or a smaller least"


def _with_rows(names: tuple[str, ...], rows: Ints, which: Flags) -> str:
    return listed([f"{names[j]!r} ({rows[j]:,})" for j in np.flatnonzero(which).tolist()])
