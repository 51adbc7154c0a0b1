"""Growth and pruning of trees on features."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from calibrant.fits.trees.features import MISSING, Features
from calibrant.fits.trees.growth import cross_validated, grow, pruning_path

sklearn_tree = pytest.importorskip("sklearn.tree")


def drawn(n: int = 400, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (n, 3)).astype(float)
    rate = 0.2 + 0.5 * ((x[:, 0] > 6) & (x[:, 1] < 5))
    return {f"x{j}": x[:, j] for j in range(3)}, (rng.random(n) < rate).astype(float)[:, None]


def test_a_grown_tree_has_the_leaves_of_scikit_learns():
    columns, y = drawn()
    for leaves, least in product((2, 5, 9), (1, 20)):
        features = Features.of(columns)
        tree, _ = grow(features, y, min_rows=least, max_leaves=leaves)
        theirs = sklearn_tree.DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0)
        theirs.fit(np.column_stack(list(columns.values())), y)
        ours = tree.value[tree.route(features)].ravel()
        error = ((y.ravel() - theirs.predict(np.column_stack(list(columns.values())))) ** 2).sum()
        assert ((y.ravel() - ours) ** 2).sum() == pytest.approx(error, rel=1e-9)


def test_the_pruning_path_holds_every_best_tree():
    """All prunings of a small tree are tried: RMSE + alpha |T| is never lower than on the path."""
    columns, y = drawn(150, seed=3)
    tree, rows = grow(Features.of(columns), y, min_rows=10, max_leaves=6)
    costs = np.array([((y[each] - y[each].mean(axis=0)) ** 2).sum() for each in rows])
    path = pruning_path(tree, costs)
    assert [each.nodes for each in path] == sorted((each.nodes for each in path), reverse=True)
    assert path[-1].nodes == 1
    inner = np.flatnonzero(tree.left >= 0)
    every = set()
    for closed in product((False, True), repeat=len(inner)):
        leaf = tree.left < 0
        leaf[inner[list(closed)]] = True
        cropped = tree.cropped(leaf)
        every.add((len(cropped.left), round(float(_error(cropped, columns, y)), 9)))
    for alpha in np.geomspace(1e-5, 1.0, 60):
        best = min(np.sqrt(error / len(y)) + alpha * nodes for nodes, error in every)
        assert min(each.penalized(alpha, len(y)) for each in path) == pytest.approx(best, abs=1e-9)


def _error(tree, columns, y):
    return ((y - tree.value[tree.route(Features.of(columns))]) ** 2).sum()


def test_missing_values_go_where_they_fit():
    x = np.array([1.0, 2.0, 3.0, 4.0, np.nan, np.nan] * 20)
    y = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0] * 20)[:, None]
    features = Features.of({"x": x})
    tree, _ = grow(features, y, min_rows=5, max_leaves=4)
    assert tree.value[tree.route(features)].ravel().tolist() == y.ravel().tolist()
    assert not tree.missing_left[0]
    assert (features.codes[np.isnan(x), 0] == MISSING).all()


def test_weights_count_as_repeated_rows():
    columns, y = drawn(120)
    counts = np.random.default_rng(1).integers(1, 4, 120)
    repeated = {name: np.repeat(values, counts) for name, values in columns.items()}
    one, _ = grow(Features.of(columns), y, counts.astype(float), min_rows=1, max_leaves=5)
    two, _ = grow(Features.of(repeated), np.repeat(y, counts, axis=0), min_rows=1, max_leaves=5)
    assert one.value == pytest.approx(two.value)
    assert one.feature.tolist() == two.feature.tolist()


def test_cross_validation_prunes_noise_to_the_root_and_keeps_signal():
    rng = np.random.default_rng(0)
    columns, y = drawn(3000, seed=5)
    dealt = rng.integers(0, 5, 3000)
    folds = [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(5)]
    found = cross_validated(Features.of(columns), y, folds=folds, min_rows=20, max_leaves=30)
    assert 3 <= len(found.tree.leaves) <= 5
    noise = (rng.random(3000) < 0.3).astype(float)[:, None]
    assert len(cross_validated(Features.of(columns), noise, folds=folds, min_rows=20, max_leaves=30).tree.leaves) <= 3


def test_many_distinct_values_are_binned_and_text_is_split_by_level():
    rng = np.random.default_rng(0)
    features = Features.of({"x": rng.normal(size=5000), "t": rng.choice(list("abcd"), 5000)})
    counts = np.bincount(features.codes[:, 0])
    assert len(features.cuts[0]) <= 254
    assert counts.max() <= 60
    y = (features.codes[:, 1] == 2).astype(float)[:, None]
    tree, _ = grow(features, y, min_rows=10, max_leaves=8)
    assert len(tree.leaves) == 2
    assert features.cuts[1][tree.cut[0]] == "c"
