"""Regions of rows as bins: leaves of trees, breadth-first parts of them, and errors within them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from calibrant import CalibrationTree, ProbabilityCalibrationTree, load, metrics
from calibrant.fits.trees.features import Features
from calibrant.fits.trees.growth import grow
from calibrant.messages import InputError
from calibrant.metrics import debiased_ece, ece, pde, tree_regions
from calibrant.metrics.draws import values_only
from calibrant.tallies import Tally

rows = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25
)


def columns(given_rows: list[tuple[int, int, int, int]]) -> tuple[Any, ...]:
    """Scores, labels, regions and weights; one row of weight 1 is added so that the weights are not all zero."""
    s, y, region, weight = np.array([*given_rows, (4, 1, 0, 1)]).T
    return s / 10, y, region, weight


def by_definition(s: Any, y: Any, region: Any, p: float) -> tuple[float, float]:
    """ECE and PDE, by the text of the definitions."""
    parts = [region == each for each in np.unique(region)]
    share = np.array([part.mean() for part in parts])
    gaps = np.array([abs(s[part].mean() - y[part].mean()) for part in parts])
    spreads = np.array([np.abs(s[part] - y[part].mean()).mean() for part in parts])
    if np.isinf(p):
        return float(gaps.max()), float(spreads.max())
    return float((share * gaps**p).sum() ** (1 / p)), float((share * spreads**p).sum() ** (1 / p))


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
@given(rows, st.sampled_from([1, 2, np.inf]))
def test_errors_in_regions_equal_their_definitions_and_weights_are_repetition(
    given_rows: list[tuple[int, int, int, int]], p: float
) -> None:
    s, y, region, weight = columns(given_rows)
    for w in (None, weight.astype(float)):
        times = np.ones(len(s), dtype=int) if w is None else weight
        expected = by_definition(*(np.repeat(each, times) for each in (s, y, region)), p)
        with values_only():
            found = [metric(s, y, w, regions=region, p=p).value for metric in (ece, pde)]
        assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
@given(rows)
def test_errors_of_a_matrix_in_regions_are_means_over_classes(given_rows: list[tuple[int, int, int, int]]) -> None:
    s, y, region, weight = columns(given_rows)
    p = np.column_stack([s, 0.5 * (1 - s), 0.5 * (1 - s)])
    label = np.where(y == 1, 0, 1 + region % 2)
    options: dict[str, Any] = {"regions": region, "notion": "class-wise", "classes": [0, 1, 2], "uncertainty": False}
    for w in (None, weight.astype(float)):
        times = np.ones(len(s), dtype=int) if w is None else weight
        each = [
            by_definition(*(np.repeat(a, times) for a in (p[:, k], (label == k).astype(int), region)), 1)
            for k in range(3)
        ]
        assert ece(p, label, w, **options).value == pytest.approx(np.mean([gap for gap, _ in each]), abs=1e-10)
        assert pde(p, label, w, **options).value == pytest.approx(np.mean([spread for _, spread in each]), abs=1e-10)


def test_bins_of_the_score_given_as_regions_are_the_same_bins() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(400)
    y = rng.random(400) < s**2
    bins = (s * 10).astype(int)
    for metric in (ece, pde, debiased_ece):
        mine, by_edges = metric(s, y, regions=bins), metric(s, y, n_bins=10, strategy="width")
        assert mine.value == pytest.approx(by_edges.value, abs=1e-12)
        assert (mine.se, mine.null) == pytest.approx((by_edges.se, by_edges.null), abs=1e-12)
    p = np.column_stack([1 - s, s])
    for notion in ("class-wise", "top-label", "confidence"):
        options: dict[str, Any] = {"notion": notion, "n_bins": 7, "strategy": "width", "uncertainty": False}
        assert pde(p, y.astype(int), **options).value >= ece(p, y.astype(int), **options).value - 1e-12


def test_a_perfect_model_has_a_deviation_that_its_null_value_predicts() -> None:
    """Three classes, probabilities that vary inside the regions: far above 0, and as the draws say."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 1_500)
    y = (rng.random(1_500)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    found = pde(p, y, notion="class-wise", regions=rng.integers(0, 4, 1_500))
    assert found.null is not None
    assert found.value > 0.15
    assert abs(found.value - found.null) < 0.02
    assert found.name == "class-wise PDE, 4 regions"


def test_the_upper_part_of_a_tree_is_breadth_first() -> None:
    """Nodes by depth; 1 is split before 2, and a leaf of the whole tree stays one."""
    rng = np.random.default_rng(2)
    x = rng.random((800, 3))
    y = (rng.random(800) < (x**2).mean(axis=1)).astype(int)
    tree = DecisionTreeClassifier(max_leaf_nodes=40, min_samples_leaf=5, random_state=0).fit(x, y)
    leaves = tree_regions(tree, x)
    depth = {0: 0}
    for node in range(tree.tree_.node_count):
        for child in (tree.tree_.children_left[node], tree.tree_.children_right[node]):
            depth[int(child)] = depth[node] + 1
    for count in (1, 2, 5, 12, 40, 99):
        found = tree_regions(tree, x, n_bins=count)
        tops = np.unique(found)
        assert len(tops) == min(count, 40)
        assert all(len(np.unique(found[leaves == leaf])) == 1 for leaf in np.unique(leaves))
        inner = [depth[int(top)] for top in tops if tree.tree_.children_left[top] >= 0]
        if inner:  # what could still be split lies at the two lowest levels that were reached
            assert max(depth[int(top)] for top in tops) <= min(inner) + 1
    own, _ = grow(Features.of({"a": x[:, 0], "b": x[:, 1]}), y[:, None].astype(float), min_rows=20, max_leaves=9)
    features = Features.of({"a": x[:, 0], "b": x[:, 1]})
    assert set(tree_regions(own, features).tolist()) == set(own.leaves.tolist())
    assert len(np.unique(tree_regions(own, features, n_bins=4))) == 4


def test_leaves_of_calibration_trees_are_regions() -> None:
    """Of leaf rates, the score is constant in a region, so that PDE is ECE; the upper part is coarser."""
    rng = np.random.default_rng(4)
    x, s = {"age": rng.integers(20, 80, 1_500), "city": rng.choice(["a", "b", "c"], 1_500)}, rng.random(1_500)
    y = (rng.random(1_500) < np.where(x["age"] > 45, 0.6 * s, 0.2 + 0.5 * (x["city"] == "a"))).astype(int)
    for kind in (CalibrationTree, ProbabilityCalibrationTree):
        tree = kind().fit(s, y, features=x)
        p, regions = tree.transform(s, features=x), tree_regions(tree, x, scores=s)
        assert set(regions.tolist()) == set(tree.map_.leaves.tolist())
        upper = tree_regions(tree.map_, x, scores=s, n_bins=3)
        assert len(np.unique(upper)) == 3
        assert len(np.unique(np.column_stack([upper, regions]), axis=0)) == len(np.unique(regions))
        same = pde(p, y, regions=regions).value == pytest.approx(ece(p, y, regions=regions).value, abs=1e-12)
        assert same == (kind is CalibrationTree)
    with pytest.raises(InputError, match=r"scores are missing"):
        tree_regions(tree, x)


def test_segments_take_the_regions_of_their_rows() -> None:
    rng = np.random.default_rng(3)
    s, region, segment = rng.random(200).round(1), rng.integers(0, 3, 200), np.repeat(["n", "s"], 100)
    y = (rng.random(200) < s).astype(int)
    table = ece(s, y, regions=region, by=segment)
    assert table["s"].value == pytest.approx(ece(s[100:], y[100:], regions=region[100:]).value)


def test_what_cannot_be_a_region_is_refused_in_a_sentence() -> None:
    s, y = [0.2, 0.4, 0.9], [0, 1, 1]
    tree = DecisionTreeClassifier(random_state=0).fit([[0], [1], [2]], y)
    forest = RandomForestClassifier(2, random_state=0).fit([[0], [1], [2]], y)
    for call, match in [
        (lambda: ece(s, y, regions=[1, 2]), "regions.*2 rows"),
        (lambda: ece(s, y, regions=[1, None, 2]), "missing value.*row 1"),
        (lambda: ece(s, y, regions=[0, 1, 1], edges=[0.5]), "edges"),
        (lambda: ece(s, y, regions=[0, 1, 1], against="midpoint"), "needs bins"),
        (lambda: pde(s, y, regions="leaf"), "each row"),
        (lambda: pde(Tally.from_arrays(s, y), regions=[0, 1, 1]), "tally"),
        (lambda: ece(s, y, regions=[0, 1, 1], groups=[1, 2, 3]), "groups of rows"),
        (lambda: ece(s, y, regions=[0, 1, 1], label_type="fraction"), "fractional labels"),
        (lambda: metrics.interval("ece", s, y, regions=[0, 1, 1]), "interval by resampling"),
        (lambda: tree_regions(forest, [[0]]), "single tree"),
        (lambda: tree_regions(object(), [[0]]), "no apply"),
        (lambda: tree_regions(tree, [[0]], n_bins=0), "n_bins"),
    ]:
        with pytest.raises(InputError, match=match):
            call()


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
def test_one_row_is_one_region() -> None:
    assert pde([0.3], [1], regions=["one"]).value == pytest.approx(0.7)


def test_a_tree_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x, s = {"age": rng.integers(20, 80, 300)}, rng.random(300)
    y = (rng.random(300) < np.where(x["age"] > 45, 0.7, 0.2)).astype(int)
    tree = CalibrationTree(split_on_score=False).fit(s, y, features=x)
    tree.save(tmp_path / "tree.json")
    again = tree_regions(load(tmp_path / "tree.json"), x, scores=s)
    assert again.tolist() == tree_regions(tree, x, scores=s).tolist()
    for call, match in [
        (lambda: tree_regions(x, tree, scores=s), "wrong way round"),
        (lambda: tree_regions(CalibrationTree(), x, scores=s), "tree is not fitted"),
        (lambda: tree_regions(tree, np.c_[x["age"]], scores=s), "X has no column 'age'.*pass a frame with 'age'"),
        (lambda: tree_regions(tree, None, scores=s), "X is missing"),
        (lambda: metrics.desiderata(s, y, truth=s, epsilon="a"), "epsilon"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(InputError, match=match):
            call()
