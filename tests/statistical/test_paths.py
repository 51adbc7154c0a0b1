"""The certificate of path calibration, by simulation where every true share is known.

A world is a finite set of score rows, each with its probability and its own law of labels over the nodes of a tree of
three levels, so that the true share of any bin is a sum. Some leaves are predicted in one row of a hundred or never,
labels lie at inner nodes and at the root, and with few distinct rows every edge is an atom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibrant.guarantees.certificate import Certificate
from calibrant.maps import PathMap
from calibrant.multiclass import PathCalibrator, Taxonomy

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3
ALPHA = 0.1

TREE = Taxonomy(
    {"a": None, "b": None, "c": None, "a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    | {"a11": "a1", "a12": "a1", "b11": "b1", "b12": "b1", "b13": "b1"}
)
LEAVES = np.array([TREE.code(name) for name in TREE.leaves])
OPTIONS: dict[str, dict[str, Any]] = {
    "leaf": {"points_per_bin": 30},
    "path": {"points_per_bin": 30, "bins_on": "path"},
    "path, borrow": {"points_per_bin": 30, "bins_on": "path", "borrow": True},
}


@dataclass(frozen=True)
class World:
    """Kinds of rows: their scores, how frequent they are, and how often they belong to each node of their path."""

    scores: np.ndarray
    share: np.ndarray
    labels: np.ndarray
    """Probability of each node, the root last, by kind."""
    right: np.ndarray

    @classmethod
    def of(cls, kinds: int, seed: int) -> World:
        rng = np.random.default_rng([71, seed])
        level = np.array([2.0, 0.5, 1.5, -2.5, 0.8, 0.0, 0.3, -0.4])[: len(LEAVES)]
        z = level[: len(LEAVES)] + rng.normal(size=(kinds, len(LEAVES))) * 1.2
        truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        scores = truth**1.5 / (truth**1.5).sum(axis=1, keepdims=True)
        if kinds < 100:
            scores = np.maximum(scores.round(2), 0.01)
            scores /= scores.sum(axis=1, keepdims=True)
        labels = np.zeros((kinds, len(TREE.nodes) + 1))
        labels[:, LEAVES] = 0.85 * truth
        for j, leaf in enumerate(LEAVES):  # a part of every leaf's rows is labeled more broadly
            labels[:, TREE.parents[leaf]] += 0.12 * truth[:, j]
        labels[:, -1] += 0.03
        paths = TREE.paths[LEAVES[scores.argmax(axis=1)]]
        belongs = TREE.belongs(np.append(np.arange(len(TREE.nodes)), -1)[:, None, None], paths[None]) & (paths >= 0)
        right = np.einsum("kn,nkl->kl", labels, belongs.astype(float))
        return cls(scores, rng.dirichlet(np.full(kinds, 2.0)), labels, right)

    def draw(self, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
        kind = rng.choice(len(self.share), rows, p=self.share)
        node = (self.labels[kind].cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=len(TREE.nodes))
        return self.scores[kind], np.array([*TREE.nodes, TREE.root])[node]

    def true_rates(self, map_: PathMap) -> tuple[np.ndarray, np.ndarray]:
        """Share of rows that belong to each node, by bin and level as the map's rates are; and the bin of each kind."""
        _, found = map_.bins(self.scores)
        bins = int(map_.first_bins[-1])
        mass = np.bincount(found, self.share, minlength=bins)
        hits = [np.bincount(found, self.share * self.right[:, j], minlength=bins) for j in range(TREE.depth)]
        rates = np.stack(hits, axis=1) / np.where(mass > 0, mass, 1.0)[:, None]
        return rates[np.isfinite(map_.bin_rates)], found


def entry_bins(told: Certificate) -> np.ndarray:
    return np.repeat(np.arange(len(told.about.depths)), told.about.depths)


@pytest.fixture(scope="module", params=[(40, 250), (4_000, 400)], ids=["atoms, 250 rows", "4,000 values, 400 rows"])
def world_and_rows(request: pytest.FixtureRequest) -> tuple[World, int]:
    kinds, rows = request.param
    return World.of(kinds, kinds), rows


@pytest.mark.parametrize("name", OPTIONS)
def test_promises_are_broken_at_most_as_often_as_they_say(
    name: str, world_and_rows: tuple[World, int], full_size: bool
) -> None:
    world, rows = world_and_rows
    repetitions = 2_000 if full_size else 80
    rng = np.random.default_rng([72, rows, len(name)])
    broken = {"simultaneous": 0, "marginal": 0, "no union": 0, "half as wide": 0}
    for _ in range(repetitions):
        scores, y = world.draw(rng, rows)
        cal = PathCalibrator(TREE, **OPTIONS[name]).fit(scores, y, classes=TREE.leaves, score_type="probability")
        truth, found = world.true_rates(cal.map_)
        told, marginal = cal.certificate(ALPHA), cal.certificate(ALPHA, coverage="marginal")
        outside = told.covered & ((truth < told.lower - 1e-12) | (truth > told.upper + 1e-12))
        broken["simultaneous"] += bool(outside.any())
        assert outside.any() or np.abs(truth - told.outputs)[told.covered].max() <= told.epsilon + 1e-12
        missed = marginal.covered & ((truth < marginal.lower - 1e-12) | (truth > marginal.upper + 1e-12))
        new = found[rng.choice(len(world.share), p=world.share)]
        broken["marginal"] += bool(missed[entry_bins(marginal) == new].any())
        broken["no union"] += bool(missed.any())
        width = (told.upper - told.lower) / 4
        middle = (told.upper + told.lower) / 2
        broken["half as wide"] += bool((told.covered & (np.abs(truth - middle) > width)).any())
    for mode in ("simultaneous", "marginal"):
        assert stats.binomtest(broken[mode], repetitions, ALPHA, alternative="greater").pvalue > LEVEL, broken
    assert broken["no union"] > 1.5 * ALPHA * repetitions, "without the union over bins it breaks: the test has power"
    assert broken["half as wide"] > 2.0 * ALPHA * repetitions, "half the width would not do"


@pytest.mark.parametrize("size", [50, 200])
def test_pooled_leaves_are_promised_nothing_and_single_ones_hold(size: int, full_size: bool) -> None:
    """Half of the leaves are predicted 22 times on average and right in 90 %, half 5 times and right in 10 %.

    With a limit of 20 rows, leaves of the first half are in the pool when they drew few rows. A 90 % interval
    from the pool's own rows misses the rate of its leaves far too often.
    """
    repetitions = (400 if size == 50 else 100) if full_size else (60 if size == 50 else 15)
    names = [f"l{j:03d}" for j in range(2 * size)]
    tree = {"all of them": None, "other": None, **dict.fromkeys(names, "all of them")}
    mass = np.repeat([22.0, 5.0], size) / (27 * size)
    right = np.append(np.repeat([0.9, 0.1], size), 0.0)
    rng = np.random.default_rng([73, size])
    broken = pool_missed = 0
    for _ in range(repetitions):
        scores, y = _flat_draw(rng, mass, right, names)
        cal = PathCalibrator(tree, n_bins=1).fit(scores, y, classes=[*names, "other"], score_type="probability")
        told, map_ = cal.certificate(ALPHA), cal.map_
        pooled = map_.shared[map_.first_bins[map_.groups]]
        assert pooled[:-1].any()
        assert not told.about.per_bin(told.rows)[map_.shared].any()
        assert not told.covered[np.repeat(map_.shared, told.about.depths)].any()
        assert told.n == told.about.leaf_rows[~pooled].sum()
        entry = np.cumsum(told.about.depths)[map_.groups] - 1  # of the leaf itself, in the one bin of its list
        own = told.covered[entry] & ((right < told.lower[entry]) | (right > told.upper[entry]))
        broken += bool(own.any())
        group = map_.groups[np.flatnonzero(pooled)[0]]
        members = np.flatnonzero(map_.groups[:-1] == group)
        true = (mass[members] * right[members]).sum() / mass[members].sum()
        k, n = int(cal.bins_.hits[entry[members[0]]]), int(cal.bins_.n[group])
        low, high = stats.binomtest(k, n).proportion_ci(1.0 - ALPHA)
        pool_missed += not low <= true <= high
    assert stats.binomtest(broken, repetitions, ALPHA, alternative="greater").pvalue > LEVEL
    assert pool_missed > 0.5 * repetitions, "the promise that is not made would be broken"


def _flat_draw(
    rng: np.random.Generator, mass: np.ndarray, right: np.ndarray, names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are predicted as one of the leaves by the same score, and are of it or of the next one."""
    leaves, rows = len(mass), 27 * len(mass) // 2
    named = rng.choice(leaves, rows, p=mass)
    scores = np.full((rows, leaves + 1), 0.4 / leaves)
    scores[np.arange(rows), named] = 0.6
    label = np.where(rng.random(rows) < right[named], named, (named + 1) % leaves)
    return scores, np.array(names)[label]


def test_a_promise_that_holds_is_seldom_called_broken_by_fresh_rows(full_size: bool) -> None:
    world, repetitions = World.of(4_000, 11), 400 if full_size else 100
    rng = np.random.default_rng(74)
    false = missed = 0
    for _ in range(repetitions):
        cal = PathCalibrator(TREE, 100).fit(*world.draw(rng, 1_000), classes=TREE.leaves, score_type="probability")
        told = cal.certificate(ALPHA)
        scores, y = world.draw(rng, 2_000)
        truth, _ = world.true_rates(cal.map_)
        if not (told.covered & ((truth < told.lower) | (truth > told.upper))).any():
            false += not told.check(scores, y, significance=0.05, by_bin=True)
        missed += bool(told.check(scores, np.roll(y, 1), significance=0.05, by_bin=True))
    assert stats.binomtest(false, repetitions, 0.05, alternative="greater").pvalue > LEVEL
    assert missed == 0, "labels of other rows contradict it"
