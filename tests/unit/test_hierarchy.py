"""Taxonomies, path maps, path calibration and its metrics."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import CalibrantWarning, InputError
from calibrant.calibration import Calibration
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.path_bins import STRENGTHS
from calibrant.export.errors import DocumentError
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import PathMap
from calibrant.maps.taxonomy import as_taxonomy
from calibrant.metrics.multiclass.paths import hierarchical_accuracy, mean_depth, path_calibration_error, path_log_loss
from calibrant.multiclass import PathCalibrator, Taxonomy

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

# The taxonomy of 000 Figure 4.1, with the two top classes that Table 4.3 does not speak of cut short.
NEWS = {
    "sports": None,
    "football": "sports",
    "tennis": "sports",
    "economy": None,
    "stocks": "economy",
    "energy": "economy",
    "solar": "energy",
    "coal": "energy",
    "politics": None,
}
LEAVES = ("football", "tennis", "stocks", "solar", "coal", "politics")


@pytest.fixture(scope="module")
def news() -> Taxonomy:
    return Taxonomy(NEWS)


def drawn(rows: int, seed: int = 0, inner: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Leaf probabilities that are right, and labels, some of them at the parent of the leaf."""
    rng = np.random.default_rng(seed)
    tree = Taxonomy(NEWS)
    p = rng.dirichlet([0.5] * 6, rows)
    leaf = (p.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=5)
    codes = np.array([tree.code(name) for name in LEAVES])[leaf]
    codes = np.where(rng.random(rows) < inner, tree.parents[codes], codes)
    return p, np.array([*tree.nodes, tree.root])[codes]


# ------------------------------------------------------------------------------------------------------------ taxonomy


def test_the_events_of_table_4_3(news: Taxonomy) -> None:
    assert news.ancestors("solar") == ("solar", "energy", "economy")
    assert news.path("stocks") == ("economy", "stocks")
    assert news.leaves == LEAVES
    labels = news.codes(["solar", "coal", "energy", "stocks", "economy", "tennis", "root"])
    expected = {
        "solar": [True, False, False, False, False, False, False],
        "energy": [True, True, True, False, False, False, False],
        "economy": [True, True, True, True, True, False, False],
        "root": [True] * 7,
    }
    for node, belongs in expected.items():
        code = np.full(7, news.code(node))
        assert news.belongs(labels, code).tolist() == belongs


def test_membership_says_which_nodes_a_leaf_belongs_to(news: Taxonomy) -> None:
    for i, leaf in enumerate(news.leaves):
        there = {node for node, flag in zip(news.nodes, news.membership[i], strict=True) if flag}
        assert there == set(news.ancestors(leaf))
    assert news.beneath("economy") == ("stocks", "solar", "coal")
    assert news.beneath("root") == news.leaves
    assert (news.depth, news.depths[news.code("solar")]) == (3, 3)


def test_the_root_may_be_implicit(subtests) -> None:
    for parents, root in [
        ({"a": None, "b": None}, "root"),
        ({"all": None, "a": "all", "b": "all"}, "all"),
        ({"a": "all", "b": "all"}, "all"),
        ({1: 0, 2: 0}, "0"),
    ]:
        with subtests.test(parents=parents, root=root):
            tree = Taxonomy(parents)
            assert tree.root == root
            assert len(tree.nodes) == 2
            assert Taxonomy(tree.to_dict(), tree.root) == tree
            assert hash(copy.deepcopy(tree)) == hash(tree)


def test_a_bad_tree_is_refused_with_its_node(subtests) -> None:
    for parents, sentence in [
        (
            {"a": "b", "b": "a", "c": None, "d": None},
            "parents has the node 'a', which never reaches the root because its ancestors form a cycle: correct one",
        ),
        ({"a": "a", "b": None, "c": None}, "'a', which never reaches the root"),
        ({"a": None, "b": "x", "c": "y"}, "gives the node 'b' the parent 'x', which is not a node: add 'x'"),
        ({"a": None, "b": None, "c": "x"}, "'c' the parent 'x', which is not a node"),
        ({"a": None}, "fewer than two leaves"),
        ({}, "parents is empty: pass a mapping"),
        ({"a": None, "b": ["x", "y"]}, "gives the node 'b' several parents"),
        ({"1": None, 1: None}, "has the node '1' twice"),
        ({"": None, "b": None}, "cannot name a node"),
        ({"root": None, "b": None}, "root='root' is the name of one of the nodes: pass another name"),
        ({str(i): str(i - 1) for i in range(1, 70)} | {"b": "3"}, "more than 64 levels"),
        ({"a": 0.5, "b": None}, "0.5"),
    ]:
        with (
            subtests.test(parents=parents, sentence=sentence),
            pytest.raises(InputError, match=sentence.replace("(", r"\(")),
        ):
            Taxonomy(parents)


def test_a_bad_mapping_is_called_as_the_argument_that_it_came_in() -> None:
    with pytest.raises(InputError, match="taxonomy has fewer than two leaves") as caught:
        as_taxonomy({"a": None})
    assert caught.value.argument == "taxonomy"
    with pytest.raises(InputError, match="root='root' is the name of one of the nodes"):
        as_taxonomy({"root": None, "b": None})


def test_labels_of_several_branches_are_refused(news: Taxonomy, subtests) -> None:
    for y in [
        [["coal", "politics"], ["solar", "energy"]],
        [("coal", "politics"), "solar"],
        np.array([["coal", "politics"]]),
        pd.Series([["coal"], ["solar", "politics"]]),
        pl.Series([["coal"], ["solar", "politics"]]),
        [{"coal", "politics"}, "solar"],
    ]:
        with subtests.test(y=y):
            with pytest.raises(
                InputError, match=r"y names several nodes at row [01] counted from 0, but a path ends in one"
            ):
                news.codes(y)
            with pytest.raises(InputError, match="y names several nodes"):
                PathCalibrator(NEWS).fit(np.full((2, 6), 1 / 6), y, classes=LEAVES)


def test_labels_that_are_no_node_are_refused(news: Taxonomy) -> None:
    with pytest.raises(InputError, match="the label 'golf', which is not a node"):
        news.codes(["golf"])
    with pytest.raises(InputError, match="node='golf' is not a node of the taxonomy"):
        news.path("golf")


# ------------------------------------------------------------------------------------------------------ worked by hand


def solar_rows() -> tuple[np.ndarray, list[str]]:
    """Ten rows predicted as solar, and two predicted as tennis."""
    score = [0.40, 0.41, 0.42, 0.43, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9]
    p = np.zeros((12, 6))
    p[:10, 3] = score
    p[:10, 4] = (1 - p[:10, 3]) / 2
    p[:10, 5] = (1 - p[:10, 3]) / 2
    p[10:, 1] = 1.0
    y = [
        "solar",
        "coal",
        "tennis",
        "stocks",
        "energy",
        "solar",
        "solar",
        "solar",
        "coal",
        "economy",
        "tennis",
        "sports",
    ]
    return p, y


def test_counts_along_the_path_worked_by_hand() -> None:
    # One bin: of the 10 rows predicted as solar, 4 are solar (rows 0, 5, 6, 7); energy has these and coal, coal and
    # energy: 7; economy has these, stocks and economy: 9. Of the 2 rows predicted as tennis 1 is tennis and 2 are
    # sports, so sports puts out (2 + 1) / (2 + 2).
    p, y = solar_rows()
    cal = PathCalibrator(NEWS, n_bins=1, min_rows=1).fit(p, y, classes=LEAVES)
    told = cal.forecast(p)
    assert told.leaf_names.tolist() == ["solar"] * 10 + ["tennis"] * 2
    assert told.probabilities[0].tolist() == [0.9, 0.7, 0.4]
    assert told.probability("sports")[10:].tolist() == [0.75, 0.75]
    assert told.probability("tennis")[10:].tolist() == [0.5, 0.5]
    assert np.isnan(told.probability("stocks")).all()
    assert np.isnan(told.probabilities[10, 2])
    assert told.probability("root").tolist() == [1.0] * 12
    assert cal.predict(p).tolist() == ["solar"] * 10 + ["tennis"] * 2


def test_bins_and_their_edge_worked_by_hand() -> None:
    # Two bins of 10 rows: the edge is the row of rank ceil(11 / 2) = 6, 0.6. Below it are rows 0 to 4: 1 solar, with
    # coal and energy 3 energy, with stocks 4 economy, of 5. Above it rows 6 to 9: 2 solar, 3 energy, 4 economy of
    # 4, which puts out 5/6; the edge follows the bin above. Tennis has one bin, before these.
    p, y = solar_rows()
    cal = PathCalibrator(NEWS, n_bins=2, min_rows=1).fit(p, y, classes=LEAVES)
    told = cal.forecast(p).probabilities
    assert told[0].tolist() == [0.8, 0.6, 0.2]
    assert told[9].tolist() == told[5].tolist() == [5 / 6, 0.75, 0.5]
    evidence = cal.bins_
    assert evidence.n[1:4].tolist() == [5, 0, 4]
    assert evidence.uncovered[1:4].tolist() == [False, True, False]
    assert evidence.hits[2:11].tolist() == [4, 3, 1, 0, 0, 0, 4, 3, 2]


def test_a_list_of_cuts_on_leaf_and_ancestors_worked_by_hand() -> None:
    # Three bins of 8 rows of leaf a1. First cut on the leaf at rank ceil(9 / 3) = 3: 0.3. Of the 5 rows above it, cut
    # on the parent at rank ceil(6 / 2) = 3 of 0.7, 0.9, 0.95, 0.96, 0.97: 0.95. Two rows remain.
    leaf = np.array([0.26, 0.27, 0.30, 0.6, 0.5, 0.55, 0.45, 0.4])
    parent = np.array([0.5, 0.5, 0.5, 0.7, 0.9, 0.95, 0.96, 0.97])
    rest = (1 - parent)[:, None] / 4 * np.ones(4)  # four other leaves, so that a1 is the largest
    p = np.column_stack([leaf, parent - leaf, rest])
    p = np.where(p > leaf[:, None], leaf[:, None] - 1e-4, p)
    extra = 1 - p.sum(axis=1)  # what was cut off goes to the leaves that are not beneath the parent
    p[:, 2:] += extra[:, None] / 4
    tree = {"a": None, "a1": "a", "a2": "a", "b": None, "c": None, "d": None, "e": None}
    cal = PathCalibrator(tree, n_bins=3, bins_on="path", min_rows=1).fit(
        p, ["a1"] * 7 + ["a2"], classes=Taxonomy(tree).leaves
    )
    assert cal.map_.levels[:4].tolist() == [1, 1, 0, 0]
    assert cal.map_.cuts[:4] == pytest.approx([0.3, 0.3, np.sort(p[3:, 0] + p[3:, 1])[2]] * 1 + [cal.map_.cuts[3]])
    assert cal.bins_.n[:5].tolist() == [2, 0, 2, 0, 2]
    assert "Algorithm 5.10" in str(cal.certificate())


def test_leaves_come_out_as_histogram_binning_has_them() -> None:
    p, y = drawn(3_000)
    p = p.round(2)
    p[np.arange(len(p)), p.argmax(axis=1)] += 1 - p.sum(axis=1)
    cal = PathCalibrator(NEWS, 60).fit(p, y, classes=LEAVES)
    told = cal.forecast(p)
    for j, leaf in enumerate(LEAVES):
        rows = np.flatnonzero(p.argmax(axis=1) == j)
        alone = HistogramBinning(points_per_bin=60).fit(p[rows, j], (y[rows] == leaf).astype(int))
        assert told.probability(leaf)[rows].tolist() == alone.transform(p[rows, j]).tolist()


@given(
    bins_on=st.sampled_from(["leaf", "path"]),
    borrow=st.booleans(),
    rows=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
    least=st.integers(1, 30),
)
def test_probabilities_never_rise_towards_the_leaf(
    bins_on: str, borrow: bool, rows: int, seed: int, weighted: bool, least: int
) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 9, (rows, 6)).astype(float)  # many ties
    p[p.sum(axis=1) == 0, 0] = 1.0
    p /= p.sum(axis=1, keepdims=True)
    y = rng.choice([*NEWS, "root"], rows)
    weight = rng.choice([1e-6, 0.3, 1.0, 50.0], rows) if weighted else None
    cal = PathCalibrator(NEWS, 5, bins_on=bins_on, borrow=borrow, min_rows=least)
    told = cal.fit(p, y, weight, classes=LEAVES).forecast(p)
    values = told.probabilities
    assert (np.isnan(values) == (told.nodes < 0)).all()
    assert not (values[:, 1:] > values[:, :-1]).any()
    assert ((values > 0) & (values < 1) | np.isnan(values)).all()


# ---------------------------------------------------------------------------------------------------------- rare leaves


def test_rare_leaves_share_bins_with_their_siblings() -> None:
    p, y = drawn(900)
    keep = p.argmax(axis=1) != 3
    some = np.flatnonzero(p.argmax(axis=1) == 3)[:15]
    few = np.concatenate([np.flatnonzero(keep), some])
    few = few[~((p[few].argmax(axis=1) == 4) & (np.arange(len(few)) % 8 > 0))]
    cal = PathCalibrator(NEWS, 50).fit(p[few], y[few], classes=LEAVES)
    solar, coal = (int((p[few].argmax(axis=1) == j).sum()) for j in (3, 4))
    assert solar == 15
    assert coal < 25
    groups = dict(zip(cal.map_.classes, cal.map_.groups.tolist(), strict=True))
    if coal < 20:
        assert groups["solar"] == groups["coal"]
        assert len(set(groups.values())) == 5
    told = {note.code: str(note) for note in cal.notes_}
    assert f"share bins, without a guarantee: 'solar' ({solar})" in told["pooled-leaves"]
    told = cal.certificate()
    assert f"Not covered: pooled leaves ({solar + coal} of {len(few)} rows): 'solar' ({solar}), 'coal'" in str(told)


def test_pooled_leaves_are_promised_nothing() -> None:
    # Ten rows of solar, two of tennis, none of the other four: with least=3 tennis and its siblings, and stocks, are
    # too few together, so all leaves of two levels share a list, the rest of depth three is coal alone.
    p, y = solar_rows()
    cal = PathCalibrator(NEWS, n_bins=1, min_rows=3).fit(p, y, classes=LEAVES)
    told = cal.certificate()
    assert isinstance(told, Certificate)
    assert told.about.leaf_rows.tolist() == [0, 2, 0, 10, 0, 0]
    assert told.about.per_bin(told.rows).tolist() == [10, 0, 0, 0]
    assert told.about.map.shared.tolist() == [False, True, False, False]
    assert (told.n, told.uncovered_rows, int(told.covered.sum())) == (10, 0, 3)
    assert "Not covered: pooled leaves (2 of 12 rows): 'football' (0), 'tennis' (2), 'stocks' (0)." in str(told)
    assert "Not covered: 2 bins without a row." in str(told)
    nothing = PathCalibrator(NEWS, n_bins=1, min_rows=50).fit(p[10:], y[10:], classes=LEAVES).certificate()
    assert isinstance(nothing, NoCertificate)
    assert "pooled, 'tennis' (2): use more rows or a smaller min_rows" in str(nothing)


def test_a_rare_leaf_alone_in_its_list_keeps_its_promise() -> None:
    p, y = solar_rows()
    tree = {**NEWS, "stocks": None, "coal": "economy"}  # solar is the only leaf of three levels
    cal = PathCalibrator(tree, n_bins=1, min_rows=15).fit(p, y, classes=Taxonomy(tree).leaves)
    assert cal.certificate().n == 10
    assert not any("solar" in note.values["leaves"] for note in cal.notes_ if note.code == "pooled-leaves")


def test_a_leaf_that_is_never_predicted_has_probabilities() -> None:
    p, y = drawn(600)
    seen = p.argmax(axis=1) < 3
    cal = PathCalibrator(NEWS, 50).fit(p[seen], y[seen], classes=LEAVES)
    told = cal.forecast(np.eye(6))
    assert np.isfinite(told.probabilities[told.nodes >= 0]).all()
    certificate = cal.certificate()
    assert isinstance(certificate, Certificate)
    assert "without a row" in str(certificate)


def test_rare_leaves_can_be_refused() -> None:
    p, y = drawn(600)
    seen = p.argmax(axis=1) < 5
    with pytest.raises(InputError, match="needs 20 rows of each leaf, but 'politics' is predicted in 0: pass more"):
        PathCalibrator(NEWS, rare="refuse").fit(p[seen], y[seen], classes=LEAVES)


# ------------------------------------------------------------------------------------------------------------ borrowing


def test_borrowed_rates_lie_between_a_bin_and_what_others_say() -> None:
    p, y = drawn(2_000)
    plain = PathCalibrator(NEWS, 50).fit(p, y, classes=LEAVES)
    little = PathCalibrator(NEWS, 50, borrow=True, strength=1e-9).fit(p, y, classes=LEAVES)
    much = PathCalibrator(NEWS, 50, borrow=True, strength=1e9).fit(p, y, classes=LEAVES)
    some = PathCalibrator(NEWS, 50, borrow=True, strength=50.0).fit(p, y, classes=LEAVES)
    inner = (plain.bins_.hits > 0) & (plain.bins_.hits < np.repeat(plain.bins_.n, np.repeat(*depths(plain))))
    assert little.map_.rates[inner] == pytest.approx(plain.map_.rates[inner])
    low, high = np.minimum(little.map_.rates, much.map_.rates), np.maximum(little.map_.rates, much.map_.rates)
    assert ((some.map_.rates >= low - 1e-12) & (some.map_.rates <= high + 1e-12)).all()
    assert PathCalibrator(NEWS, 50, borrow=True).fit(p, y, classes=LEAVES).strength_ in STRENGTHS
    assert "with the weight of 50 rows; the intervals use only each bin's own rows" in str(some.certificate())
    assert np.array_equal(some.certificate().lower, plain.certificate().lower)


def depths(cal: PathCalibrator) -> tuple[np.ndarray, np.ndarray]:
    return cal.map_.list_depths, cal.map_.sizes + 1


def test_other_leaves_are_worth_more_where_leaves_agree() -> None:
    p, y = drawn(6_000, inner=0.0)
    agree = PathCalibrator(NEWS, 100, borrow=True).fit(p, y, classes=LEAVES)
    odd = np.where(p.argmax(axis=1) == 3, "coal", y)  # whatever is called solar is coal
    differ = PathCalibrator(NEWS, 100, borrow=True).fit(p, odd, classes=LEAVES)
    assert agree.strength_ > 10 * differ.strength_


# ---------------------------------------------------------------------------------------------------------- certificate


def test_the_certificate_is_exact_binomial_over_all_bins_and_nodes() -> None:
    from scipy.stats import beta

    p, y = solar_rows()
    cal = PathCalibrator(NEWS, n_bins=2, min_rows=1).fit(p, y, classes=LEAVES)
    told = cal.certificate(0.1)
    # Promised: the bin of tennis with two nodes, two bins of solar with three.
    assert told.covered.sum() == 8
    share = 0.1 / 8 / 2
    assert told.upper[2] == pytest.approx(beta.ppf(1 - share, 5, 1))  # 4 of 5
    assert told.lower[2] == pytest.approx(beta.ppf(share, 4, 2))
    assert told.epsilon == told.half_widths[told.covered].max() == told.about.by_depth(told).max()
    marginal = cal.certificate(0.1, coverage="marginal")
    assert marginal.upper[2] == pytest.approx(beta.ppf(1 - 0.1 / 3 / 2, 5, 1))
    assert marginal.epsilon < told.epsilon
    assert str(marginal).startswith("For a new row, with probability at least 90 %, for every node on the path")
    assert "in the bin that it falls in" in str(marginal)


def test_what_carries_no_certificate() -> None:
    p, y = drawn(400)
    weights = np.linspace(0.5, 2.0, 400)
    assert isinstance(PathCalibrator(NEWS).fit(p, y, weights, classes=LEAVES).certificate(), NoCertificate)
    assert isinstance(
        PathCalibrator(NEWS).fit(p, y, groups=np.arange(400) // 4, classes=LEAVES).certificate(), NoCertificate
    )
    assert isinstance(
        PathCalibrator(NEWS).fit(p, y, classes=LEAVES).certificate(interval="always-valid"), NoCertificate
    )
    with pytest.raises(InputError, match="alpha"):
        PathCalibrator(NEWS).fit(p, y, classes=LEAVES).certificate(1.5)


def test_hoeffding_is_never_narrower() -> None:
    p, y = drawn(1_000)
    cal = PathCalibrator(NEWS).fit(p, y, classes=LEAVES)
    exact, wide = cal.certificate(), cal.certificate(interval="hoeffding")
    assert (wide.lower <= exact.lower + 1e-12).all()
    assert (wide.upper >= exact.upper - 1e-12).all()


def test_fresh_rows_are_held_against_the_promise(subtests) -> None:
    for options in [{}, {"bins_on": "path"}, {"min_rows": 150}]:
        with subtests.test(options=options):
            cal = PathCalibrator(NEWS, 100, **options).fit(*drawn(2_000), classes=LEAVES)
            told = cal.certificate()
            p, y = drawn(4_000, seed=7)
            for by_bin in (False, True):
                held = told.check(p, y, by_bin=by_bin)
                assert held
                assert held.telling
                assert "no contradiction" in str(held)
            found = cal.map_.bins(p)[1]
            filled = np.flatnonzero(told.about.per_bin(told.covered))
            assert held.n == np.isin(found, filled).sum()
            first = int(filled[0])  # counts of one statement, the broadest node of this bin
            at, node = found == first, cal.forecast(p).nodes[found == first][0, 0]
            depths = told.about.depths
            entry = int(np.repeat(np.arange(len(depths)), depths).searchsorted(first))
            right = cal.map_.taxonomy.belongs(cal.map_.taxonomy.codes(y[at]), np.full(at.sum(), node))
            assert (held.rows[entry], held.events[entry]) == (at.sum(), right.sum())
            wrong = told.check(p, np.where(y == "coal", "tennis", y))
            assert not wrong
            assert re.search(
                r"contradicted in \d+ statements?; the worst, '\w+' in bin \d+ of '\w+', guaranteed rate", str(wrong)
            )
            few = told.check(p[:2], y[:2])
            assert few
            assert not few.telling
            assert "too few" in str(few)
            with pytest.raises(InputError, match="marginal"):
                cal.certificate(coverage="marginal").check(p, y)


def test_the_check_finds_columns_by_name() -> None:
    cal = PathCalibrator(NEWS, 100).fit(*drawn(2_000), classes=LEAVES)
    p, y = drawn(1_000, seed=7)
    frame = pd.DataFrame(p, columns=LEAVES)[list(reversed(LEAVES))]
    one, two = cal.certificate().check(p, y), cal.certificate().check(frame, y)
    assert one.p_values.tolist() == two.p_values.tolist()
    with pytest.raises(InputError, match="several nodes"):
        cal.certificate().check(p[:2], [["coal", "politics"], ["solar"]])


# -------------------------------------------------------------------------------------------------- rows, frames, files


def test_counts_are_repetition_and_order_does_not_matter(subtests) -> None:
    for options in [{}, {"bins_on": "path"}, {"borrow": True}]:
        with subtests.test(options=options):
            p, y = drawn(500)
            rng = np.random.default_rng(5)
            times = rng.integers(0, 4, 500)
            counted = PathCalibrator(NEWS, 40, **options).fit(p, y, times, weight_type="frequency", classes=LEAVES)
            again = rng.permutation(np.repeat(np.arange(500), times))
            repeated = PathCalibrator(NEWS, 40, **options).fit(p[again], y[again], classes=LEAVES)
            assert counted.map_.cuts.tolist() == repeated.map_.cuts.tolist()
            assert counted.map_.rates == pytest.approx(repeated.map_.rates, abs=1e-9)
            if not options:
                assert counted.map_ == repeated.map_
                assert str(counted.certificate()) == str(repeated.certificate())
            weighted = PathCalibrator(NEWS, 40, **options).fit(p, y, np.where(times > 0, 2.5, 0.0), classes=LEAVES)
            kept = times > 0
            assert weighted.map_.rates == pytest.approx(
                PathCalibrator(NEWS, 40, **options)
                .fit(p[kept], y[kept], np.ones(kept.sum()), classes=LEAVES)
                .map_.rates,
                abs=1e-9,
            )


@pytest.mark.parametrize("options", [{}, {"bins_on": "path", "borrow": True}])
def test_logits_and_float32_and_missing_rows(options: dict[str, object]) -> None:
    p, y = drawn(800)
    z = np.log(p).astype(np.float32)
    cal = PathCalibrator(NEWS, 50, **options).fit(z, y, score_type="logit", classes=LEAVES)
    out = cal.transform(z)
    assert out.dtype == np.float32
    assert out.shape == (800, 9)
    assert (np.isfinite(out).sum(axis=1) == (cal.forecast(z).nodes >= 0).sum(axis=1)).all()
    z[3] = np.nan
    told = cal.forecast(z)
    assert told.leaves[3] == -1
    assert np.isnan(told.probabilities[3]).all()
    assert np.array_equal(cal.transform(z)[4:], out[4:], equal_nan=True)
    halves = np.concatenate([cal.transform(z[:401]), cal.transform(z[401:])])
    assert np.array_equal(halves, cal.transform(z), equal_nan=True), "sums must not depend on the block"


def test_frames_find_the_leaves_by_name() -> None:
    p, y = drawn(800)
    cal = PathCalibrator(NEWS, 50).fit(pd.DataFrame(p, columns=LEAVES), y)
    other = list(reversed(LEAVES))
    frame = cal.transform(pd.DataFrame(p, columns=LEAVES)[other])
    assert list(frame.columns) == list(NEWS)
    assert np.array_equal(frame.to_numpy(), cal.transform(p), equal_nan=True)
    polars = cal.transform(pl.DataFrame(p, schema=list(LEAVES)).select(other))
    assert polars.columns == list(NEWS)
    assert np.array_equal(polars.to_numpy(), cal.transform(p), equal_nan=True)
    turned = PathCalibrator(NEWS, 50).fit(p[:, ::-1], y, classes=other)
    assert np.array_equal(turned.transform(p[:, ::-1]), cal.transform(p), equal_nan=True)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["football", "tennis", "stocks", "solar", "coal", "golf"], "no column for the leaf 'politics'"),
        (["football", "tennis", "stocks", "solar", "coal", "energy"], "no column for the leaf 'politics'"),
    ],
)
def test_columns_that_are_not_the_leaves_are_refused(columns: list[str], sentence: str) -> None:
    p, y = drawn(50)
    seen = y != "politics"
    with pytest.raises(InputError, match=sentence):
        PathCalibrator(NEWS).fit(pd.DataFrame(p, columns=columns)[seen], y[seen])


def test_bad_options_are_refused(subtests) -> None:
    for options, kind, sentence in [
        ({"bins_on": "root"}, None, "bins_on"),
        ({"points_per_bin": 0}, None, "points_per_bin"),
        ({"n_bins": 1.5}, None, "n_bins"),
        ({"strength": 3.0}, None, "borrow=True"),
        ({"borrow": True, "strength": -1.0}, None, "above 0"),
        ({"bins_on": "path"}, "independent", "score_type='independent' is not supported"),
        ({"taxonomy": ["a", "b"]}, None, "taxonomy must be a Taxonomy or a mapping"),
    ]:
        with subtests.test(options=options, kind=kind, sentence=sentence):
            p, y = drawn(100)
            with pytest.raises(InputError, match=sentence):
                PathCalibrator(**{"taxonomy": NEWS, **options}).fit(p, y, score_type=kind, classes=LEAVES)


def test_columns_of_an_array_must_be_named() -> None:
    p, y = drawn(300)
    for scores in (p, p.tolist()):
        with pytest.raises(InputError, match="pass classes=, the leaves in the order of the columns"):
            PathCalibrator(NEWS).fit(scores, y)
    named = pa.table({name: p[:, j] for j, name in enumerate(LEAVES)})
    for scores in (named, pd.DataFrame(p, columns=LEAVES), pl.DataFrame(p, schema=list(LEAVES))):
        assert PathCalibrator(NEWS).fit(scores, y).map_ == PathCalibrator(NEWS).fit(p, y, classes=LEAVES).map_


def test_labels_at_inner_nodes_are_no_wrong_largest_scores() -> None:
    p, y = drawn(2_000, inner=1.0)  # not one row is labeled by a leaf but those beneath no node
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PathCalibrator(NEWS, 200).fit(p, y, classes=LEAVES)
    p, y = drawn(2_000)
    with pytest.warns(CalibrantWarning, match="do the columns match `classes`"):
        PathCalibrator(NEWS, 200).fit(p, y, classes=(*LEAVES[1:], LEAVES[0]))


def test_whole_numbers_as_nodes() -> None:
    p, y = drawn(300, inner=0.0)
    tree = {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 7: 2, 8: 2}
    labels = np.array([3, 4, 5, 6, 7, 8])[[LEAVES.index(name) for name in y]]
    cal = PathCalibrator(tree, 50).fit(p, labels, classes=Taxonomy(tree).leaves)
    assert cal.predict(p).tolist() == np.array([3, 4, 5, 6, 7, 8])[p.argmax(axis=1)].tolist()


def test_a_stored_calibration_is_the_same(tmp_path: object, subtests) -> None:
    for options in [{}, {"bins_on": "path"}, {"borrow": True}]:
        with subtests.test(options=options):
            p, y = drawn(700)
            cal = PathCalibrator(NEWS, 50, **options).fit(p, y, classes=LEAVES)
            cal.save(tmp_path / "paths.json")
            back = calibrant.load(tmp_path / "paths.json")
            assert back.map == cal.map_
            assert np.array_equal(back.transform(p), cal.transform(p), equal_nan=True)
            assert back.predict(p).tolist() == cal.predict(p).tolist()
            assert str(back.certificate) == str(cal.certificate())
            assert back.to_json() == cal.calibration_.to_json()
            assert pickle.loads(pickle.dumps(cal.map_)) == cal.map_
            assert hash(copy.deepcopy(cal.map_)) == hash(cal.map_)
            with pytest.raises(InputError, match="stored certificate"):
                back.certificate(0.5)


def test_a_document_that_contradicts_itself_is_refused(subtests) -> None:
    for before, after in [
        ('"parents": [-1, 0', '"parents": [-1, 1'),
        ('"parents": [-1, 0', '"parents": [-1, 99'),
        ('"groups": [0', '"groups": [7'),
        ('"root": "root"', '"root": "energy"'),
        ('"epsilon": 0', '"epsilon": 1'),
        ('"levels": [1', '"levels": [2'),
    ]:
        with subtests.test(before=before, after=after):
            p, y = drawn(700)
            text = PathCalibrator(NEWS, 50).fit(p, y, classes=LEAVES).calibration_.to_json()
            assert before in text
            with pytest.raises(DocumentError):
                Calibration.from_json(text.replace(before, after))


def test_a_certificate_is_not_carried_by_another_map() -> None:
    p, y = drawn(700)
    one, two = (PathCalibrator(NEWS, points).fit(p, y, classes=LEAVES) for points in (50, 70))
    with pytest.raises(ValueError, match="not about this map"):
        calibrant.Calibration(one.map_, one.provenance_, two.certificate())


def test_a_changed_document_loses_its_promise(subtests) -> None:
    for part, name, change in [
        ("map", "cuts", lambda cuts: [cut / 2 for cut in cuts]),
        ("map", "levels", lambda levels: [0 for _ in levels]),
        ("map", "on", lambda on: "logit"),
        ("map", "nodes", lambda nodes: [{"energy": "power"}.get(node, node) for node in nodes]),
        ("map", "root", lambda root: "all"),
        ("certificate", "score_type", lambda kind: "logit"),
        ("certificate", "n", lambda n: 10 * n),
        ("about", "leaf_rows", lambda rows: [10 * n for n in rows]),
        ("about", "leaf_rows", lambda rows: rows[:-1]),
        ("about", "borrowed", lambda rows: rows - 1.0),
        ("about", "leaf_rows", lambda rows: [0 for _ in rows]),
        ("provenance", "n", lambda n: n + 1),
        ("provenance", "score_type", lambda kind: "independent"),
        ("about", "uncovered", lambda flags: [False for _ in flags]),
        ("certificate", "events", lambda hits: [0 for _ in hits]),
        ("certificate", "events", lambda hits: sorted(hits)),
    ]:
        for least in [20, 120]:
            with subtests.test(part=part, name=name, change=change, least=least):
                p, y = drawn(700)
                body = json.loads(
                    PathCalibrator(NEWS, 50, min_rows=least).fit(p, y, classes=LEAVES).calibration_.to_json()
                )
                assert Calibration.from_json(json.dumps(body)).certificate
                held = body["certificate"]["about"] if part == "about" else body[part]
                held[name] = change(held[name])
                with pytest.raises(DocumentError):
                    Calibration.from_json(json.dumps(body))


def test_a_document_cannot_promise_pooled_leaves() -> None:
    p, y = drawn(700)
    cal = PathCalibrator(NEWS, 50, min_rows=120).fit(p, y, classes=LEAVES)
    body = json.loads(cal.calibration_.to_json())
    place = int(np.flatnonzero(cal.map_.shared)[0])
    told, n = body["certificate"], int(cal.bins_.n[place])
    assert n > 0
    depths = cal.certificate().about.depths
    for entry in np.flatnonzero(np.repeat(np.arange(len(depths)), depths) == place):
        told["rows"][entry] = n
    told["n"] += n
    with pytest.raises(DocumentError, match="share bins"):
        Calibration.from_json(json.dumps(body))


def test_a_map_whose_rates_rise_is_refused() -> None:
    tree = Taxonomy({"a": None, "b": None, "a1": "a", "a2": "a"})
    shape = {"groups": [0, 1, 2], "sizes": [0, 0, 0], "levels": [], "cuts": [], "on": "probability"}
    good = {"classes": tree.leaves, "nodes": tree.nodes, "parents": tree.parents, "root": tree.root, **shape}
    assert PathMap(**good, rates=[0.5, 0.9, 0.4, 0.9, 0.4]).outputs == tree.nodes
    for rates in ([0.5, 0.4, 0.9, 0.9, 0.4], [0.5, 0.9], [0.5, 1.9, 0.4, 0.9, 0.4], [np.nan, 0.9, 0.4, 0.9, 0.4]):
        with pytest.raises(ValueError):  # noqa: PT011
            PathMap(**good, rates=rates)


def test_many_leaves_are_quick() -> None:
    rng = np.random.default_rng(0)
    tree = {f"g{i}": None for i in range(40)} | {f"l{i}": f"g{i % 40}" for i in range(1_000)}
    p = rng.dirichlet(np.full(1_000, 0.02), 2_000).astype(np.float32)
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([f"l{i}" for i in p.argmax(axis=1)])
    cal = PathCalibrator(tree, bins_on="path", borrow=True).fit(p, y, classes=Taxonomy(tree).leaves)
    assert cal.transform(p).shape == (2_000, 1_040)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    p, y = drawn(700)
    text = str(PathCalibrator(NEWS, 50).fit(p, y, classes=LEAVES))
    assert "fitted to 700 rows of 6 classes" in text
    assert "Taxonomy(9 nodes beneath 'root', 6 leaves, 3 levels)" in text
    assert "every node on its path" in text


# -------------------------------------------------------------------------------------------------------------- metrics


def test_the_path_calibration_error_by_hand(news: Taxonomy) -> None:
    # Four rows predicted as solar at (0.9, 0.6, 0.5); economy 4 of 4, energy 3, solar 2: gaps 0.1, 0.15, 0, mean 1/12.
    # Two rows predicted as politics at 0.8, one right: gap 0.3. Error (4 / 12 + 2 * 0.3) / 6.
    told = np.full((6, 9), np.nan)
    order = [news.code(name) for name in ("economy", "energy", "solar")]
    told[:4, order] = [0.9, 0.6, 0.5]
    told[4:, news.code("politics")] = 0.8
    y = ["solar", "solar", "coal", "stocks", "politics", "tennis"]
    expected = (4 * 0.25 / 3 + 2 * 0.3) / 6
    for n_bins in (None, 15):
        error = path_calibration_error(told, y, taxonomy=news, n_bins=n_bins)
        assert error.value == pytest.approx(expected)
    weights = np.array([1.0, 1, 1, 1, 3, 0])
    # politics is right in all that counts: gap 0.2, weight 3
    weighted = path_calibration_error(told, y, weights, taxonomy=news)
    assert weighted.value == pytest.approx((4 * 0.25 / 3 + 3 * 0.2) / 7)
    loss = -(np.log(0.9) * 4 + np.log(0.6) * 3 + np.log(0.4) + np.log(0.5) * 4) / 3 - np.log(0.8) - np.log(0.2)
    assert path_log_loss(told, y, taxonomy=news).value == pytest.approx(loss / 6)


def test_a_calibrated_forecast_shows_what_chance_would(news: Taxonomy) -> None:
    p, y = drawn(4_000)
    cal = PathCalibrator(NEWS, 50).fit(*drawn(4_000, seed=1), classes=LEAVES)
    error = path_calibration_error(cal.forecast(p), y)
    assert error.value < 2 * error.null
    wrong = path_calibration_error(cal.forecast(p), np.roll(y, 1))
    assert wrong.value > 4 * wrong.null
    assert path_calibration_error(cal.transform(p), y, taxonomy=NEWS).value == pytest.approx(error.value)
    frame = pd.DataFrame(cal.transform(p), columns=list(NEWS))
    assert path_calibration_error(frame[frame.columns[::-1]], y, taxonomy=NEWS).value == pytest.approx(error.value)


def test_hierarchical_accuracy_and_depth(news: Taxonomy) -> None:
    predicted = ["solar", "energy", "economy", "root", "solar"]
    y = ["solar", "coal", "energy", "tennis", "energy"]
    # solar in a(solar), energy in a(coal), economy in a(energy), the root always; solar is not in a(energy)
    assert hierarchical_accuracy(predicted, y, taxonomy=news).value == pytest.approx(0.8)
    assert hierarchical_accuracy(predicted, y, [1, 1, 1, 1, 4], taxonomy=news).value == pytest.approx(0.5)
    assert mean_depth(predicted, taxonomy=news).value == pytest.approx((3 + 2 + 1 + 0 + 3) / 5)


def test_rows_of_weight_0_are_no_rows(news: Taxonomy) -> None:
    told = np.full((3, 9), np.nan)
    told[:, [news.code("economy"), news.code("stocks")]] = [[1.0, 0.5], [0.8, 0.4], [0.9, 0.5]]
    y = ["tennis", "stocks", "economy"]  # the first is impossible, since economy had probability 1
    assert path_log_loss(told, y, taxonomy=news).value == np.inf
    weighted, without = (
        path_log_loss(told, y, [0, 1, 2], taxonomy=news),
        path_log_loss(told[1:], y[1:], [1, 2], taxonomy=news),
    )
    assert weighted == without
    assert weighted.value == pytest.approx(-(np.log(0.8 * 0.4) + 2 * np.log(0.9 * 0.5)) / 6)
    error = path_calibration_error(told, y, [0, 1, 2], taxonomy=news, n_bins=2)
    assert error == path_calibration_error(told[1:], y[1:], [1, 2], taxonomy=news, n_bins=2)
    depth = mean_depth(["solar", "economy", "root"], [0, 1, 2], taxonomy=news)
    assert depth == mean_depth(["economy", "root"], [1, 2], taxonomy=news)


def test_one_row_has_no_normal_interval(news: Taxonomy) -> None:
    told = np.full((3, 9), np.nan)
    told[:, news.code("politics")] = [0.5, 0.5, 0.75]
    y = ["politics", "tennis", "politics"]
    for weights in ([1, 0, 0], [1, 1e-100, 0]):
        for found in (
            path_log_loss(told, y, weights, taxonomy=news),
            mean_depth(["solar", "coal", "root"], weights, taxonomy=news),
        ):
            assert np.isfinite(found.value)
            assert found.se is None
            assert found.low is None
    same = path_log_loss(told[:2], y[:2], taxonomy=news)  # both lose log 2
    assert (same.se, same.low) == (0.0, None)
    assert "no interval" in str(same)
    differ = path_log_loss(told, y, taxonomy=news)
    assert 0.0 <= differ.low < differ.value < differ.high
    sure = mean_depth(["solar", "solar", "root"], taxonomy=news)
    assert sure.high == 3.0
    exact = hierarchical_accuracy(["solar"], ["solar"], taxonomy=news)  # exact, and honest about one row
    assert (exact.low, exact.high) == (pytest.approx(0.025), 1.0)


def test_the_narrowest_node_that_is_sure_enough() -> None:
    p, y = drawn(3_000)
    told = PathCalibrator(NEWS, 50).fit(p, y, classes=LEAVES).forecast(p)
    sure, leaves = told.narrowest(0.8), told.narrowest(0.0)
    assert leaves.tolist() == told.leaf_names.tolist()
    right = hierarchical_accuracy(sure, y, taxonomy=NEWS)
    assert right.value > 0.8
    assert right.value > hierarchical_accuracy(leaves, y, taxonomy=NEWS).value
    assert mean_depth(sure, taxonomy=NEWS).value < mean_depth(leaves, taxonomy=NEWS).value
    assert set(told.narrowest(1.0)) == {"root"}
    with pytest.raises(InputError, match="least"):
        told.narrowest(2.0)


def test_metrics_refuse_what_is_no_path(news: Taxonomy) -> None:
    told = np.full((2, 9), np.nan)
    told[:, news.code("solar")] = 0.5
    with pytest.raises(InputError, match="forecast has no valid path at row 0 counted from 0"):
        path_calibration_error(told, ["solar", "coal"], taxonomy=news)
    with pytest.raises(InputError, match="needs its tree"):
        path_calibration_error(told, ["solar", "coal"])
    with pytest.raises(InputError, match="one column for each of the 9 nodes"):
        path_calibration_error(told[:, :5], ["solar", "coal"], taxonomy=news)
    with pytest.raises(InputError, match="forecast is missing at row 0 counted from 0"):
        path_calibration_error(np.full((2, 9), np.nan), ["solar", "coal"], taxonomy=news)
    with pytest.raises(InputError, match="'golf', which is not a node"):
        hierarchical_accuracy(["golf"], ["solar"], taxonomy=news)
