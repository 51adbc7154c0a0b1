"""Sets of classes: hand-worked thresholds, ties, groups, weights, input forms, and errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from tests.cases import exported_methods
from tests.worlds import classes as class_world

from calibrant import CalibrantWarning, InputError
from calibrant.conformal import ClassSets, CumulativeSets, LeastAmbiguousSets, conformal_quantile
from calibrant.conformal.classes.cumulative import uniform
from calibrant.conformal.conditional.thresholds import Thresholds
from calibrant.guarantees.no_certificate import NoCertificateCode
from calibrant.shift import RatioWeights, known_weights

P = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
Y = [0, 1, 1, 2]
METHODS = {
    "least ambiguous": LeastAmbiguousSets,
    "cumulative": CumulativeSets,
    "whole": lambda *a, **k: CumulativeSets(*a, last="whole", **k),
    "regularized": lambda *a, **k: CumulativeSets(*a, penalty=0.1, free=2, **k),
}
METHODS |= {kind.__name__: kind for kind in exported_methods() if kind not in METHODS.values()}


def test_the_threshold_on_the_probability_by_hand() -> None:
    """True classes have 0.7, 0.3, 0.6, 0.8; rank ceil(0.6 x 5) = 3 from the top is 0.6."""
    method = LeastAmbiguousSets(0.4, empty="keep").fit(P, Y, classes=[0, 1, 2])
    assert method.threshold_ == 0.6
    sets = method.predict_sets([[0.6, 0.4, 0.0], [0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])
    assert sets.lists() == [[0], [], [2]]
    assert sets.filled is None
    assert sets.certificate.level == 0.6
    assert sets.certificate.upper == pytest.approx(0.8)
    filled = LeastAmbiguousSets(0.4).fit(P, Y).predict_sets([[0.5, 0.3, 0.2]])
    assert filled.lists() == [[0]]
    assert filled.filled.tolist() == [True]
    assert filled.certificate.upper is None
    assert "1 set would be empty" in str(filled)


def test_cumulative_scores_by_hand() -> None:
    """Sums up to the true class are 0.7, 0.8, 0.6, 0.8; the third smallest is 0.8."""
    method = CumulativeSets(0.4, last="whole", empty="keep").fit(P, Y)
    assert method.thresholds_.single == 0.8
    sets = method.predict_sets([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.9, 0.05, 0.05]])
    assert sets.lists() == [[0, 1], [0], []]
    tied = CumulativeSets(0.1, last="whole")._scores(np.array([[0.25, 0.5, 0.25]]))
    assert tied.tolist() == [[0.75, 0.5, 1.0]]
    cut = CumulativeSets(0.1, last="whole", penalty=0.5, free=1)._scores(np.array([[0.25, 0.5, 0.25]]))
    assert cut.tolist() == [[1.25, 0.5, 2.0]]
    random = CumulativeSets(0.1)._scores(np.array([[0.25, 0.5, 0.25]]))
    u = uniform(np.array([[0.25, 0.5, 0.25]]), 0)[0]
    assert np.allclose(random, [[0.5 + 0.25 * u, 0.5 * u, 0.75 + 0.25 * u]])


def test_random_shares_are_uniform_and_belong_to_the_row() -> None:
    p, _ = class_world(20_000, 5, 1)
    u = uniform(p, 3)
    assert ((u > 0) & (u <= 1)).all()
    counts = np.histogram(u, 20, (0, 1))[0]
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 45  # chi-squared with 19 degrees of freedom: 1e-3 is 43.8
    assert abs(np.corrcoef(u, uniform(p, 4))[0, 1]) < 0.03
    assert abs(np.corrcoef(u, p[:, 0])[0, 1]) < 0.03
    assert np.array_equal(uniform(p[::-1], 3), u[::-1])


@pytest.mark.parametrize("name", METHODS)
def test_sets_are_those_of_the_definition(name: str) -> None:
    p, y = class_world(300, 4, 2)
    p = np.round(p, 1) + 0.0  # many ties
    p[:, 0] += 1.0 - p.sum(axis=1)
    p = np.clip(p, 0, 1)
    p /= p.sum(axis=1, keepdims=True)
    method = METHODS[name](0.15, empty="keep").fit(p[:100], y[:100], classes=range(4))
    own = method._scores(p[:100])[np.arange(100), y[:100]]
    limit = conformal_quantile(own, 0.15)
    assert np.array_equal(method.predict_sets(p[100:]).members, method._scores(p[100:]) <= limit)
    one = np.vstack([method.predict_sets(p[i : i + 1]).members for i in range(100, 160)])
    assert np.array_equal(one, method.predict_sets(p[100:160]).members)


@pytest.mark.parametrize("name", METHODS)
def test_few_rows_give_sets_of_every_class(name: str) -> None:
    method = METHODS[name](0.1).fit(P, Y)
    with pytest.warns(CalibrantWarning, match="needs at least 9 rows to calibrate, and there are fewer"):
        assert method.predict_sets(P).sizes.tolist() == [3, 3, 3, 3]
    alone = METHODS[name](0.4).fit(P[:1], Y[:1], classes=[0, 1, 2])
    with pytest.warns(CalibrantWarning):
        assert alone.predict_sets(P).members.all()
    half = METHODS[name](0.5).fit(P[:1], Y[:1], classes=[0, 1, 2])
    assert half.predict_sets(P[:1]).covers([0]).all()


def test_one_threshold_per_class_and_group() -> None:
    p, y = class_world(900, 3, 4, tilt=0.5)
    groups = np.array(["north", "south"])[np.arange(900) % 2]
    by_class = LeastAmbiguousSets(0.1, by_class=True, empty="keep").fit(p, y)
    for k in range(3):
        assert by_class.thresholds_.table[0, k] == conformal_quantile(-p[y == k, k], 0.1)
    assert "for the rows of each class" in str(by_class.certificate())
    both = LeastAmbiguousSets(0.1, by_class=True).fit(p, y, groups=groups)
    there = (groups == "south") & (y == 2)
    assert both.thresholds_.table.shape == (2, 3)
    assert both.thresholds_.table[1, 2] == conformal_quantile(-p[there, 2], 0.1)
    assert both.thresholds_.rows.sum() == 900
    assert "each group and class" in str(both.certificate())
    by_group = LeastAmbiguousSets(0.1).fit(p, y, groups=groups)
    alone = LeastAmbiguousSets(0.1).fit(p[groups == "north"], y[groups == "north"])
    assert np.array_equal(by_group.predict_sets(p, groups=["north"] * 900).members, alone.predict_sets(p).members)
    with pytest.raises(InputError, match="differs between rows"):
        _ = by_group.threshold_


def test_a_class_with_few_rows_is_in_every_set() -> None:
    p, y = class_world(100, 3, 11)
    y[y == 2] = np.where(np.arange((y == 2).sum()) < 5, 2, 1)
    method = LeastAmbiguousSets(0.1, by_class=True).fit(p, y)
    with pytest.warns(CalibrantWarning, match="in each group or class, and 1 of 3 have fewer") as told:
        assert method.predict_sets(p).members[:, 2].all()
    assert told[0].message.note.values["needed"] == 9


def test_unseen_groups_are_refused_with_a_way_out() -> None:
    p, y = class_world(200, 3, 5)
    method = LeastAmbiguousSets(0.2).fit(p, y, groups=[1] * 100 + [2] * 100)
    with pytest.raises(InputError, match=r"groups has '3', which fit did not see: fit again .* unseen='everything'"):
        method.predict_sets(p[:2], groups=[1, 3])
    with pytest.raises(InputError, match="missing values"):
        method.predict_sets(p[:2], groups=[1, None])
    sets = method.predict_sets(p[:3], groups=[1, 3, None], unseen="everything")
    assert sets.sizes[1:].tolist() == [3, 3]
    with pytest.raises(InputError, match="groups is missing, and fit had it"):
        method.predict_sets(p[:2])
    with pytest.raises(InputError, match="groups has missing values"):
        LeastAmbiguousSets().fit(p, y, groups=[None, *[1] * 199])
    with pytest.raises(InputError, match="groups was not passed to fit"):
        LeastAmbiguousSets().fit(p, y).predict_sets(p, groups=[1] * 200)


def test_equal_weights_are_no_weights_and_known_ones_are_certified() -> None:
    p, y = class_world(99, 3, 6)
    plain = LeastAmbiguousSets(0.1).fit(p, y)
    known = LeastAmbiguousSets(0.1).fit(p, y, sample_weight=known_weights(np.full(99, 0.5), upper=2.0))
    assert np.array_equal(known.predict_sets(p, sample_weight=np.full(99, 0.5)).members, plain.predict_sets(p).members)
    assert "exact density ratio" in str(known.certificate())
    guessed = LeastAmbiguousSets(0.1).fit(p, y, sample_weight=np.full(99, 0.5))
    assert guessed.certificate().code == NoCertificateCode.ESTIMATED_WEIGHTS
    estimated = LeastAmbiguousSets(0.1).fit(p, y, sample_weight=RatioWeights(np.ones(99), 2.0, known=False))
    assert not estimated.certificate()
    assert "No certificate" in str(estimated.predict_sets(p[:2], sample_weight=[1, 1]))
    with pytest.warns(UserWarning, match="1 of 2 sets hold everything"):
        heavy = known.predict_sets(p[:2], sample_weight=[0.5, 1e6])
    assert heavy.sizes[1] == 3
    with pytest.raises(InputError, match="sample_weight is missing"):
        known.predict_sets(p)
    with pytest.raises(InputError, match="must be finite and not negative"):
        known.predict_sets(p[:1], sample_weight=[-1.0])
    with pytest.raises(InputError, match="cannot be combined"):
        LeastAmbiguousSets(by_class=True).fit(p, y, sample_weight=np.ones(99))


@pytest.mark.filterwarnings("ignore:1 of 1 sets hold everything")
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.floats(0.02, 0.9))
def test_weighted_thresholds_are_those_of_repeated_rows(scores: list[int], alpha: float) -> None:
    values = np.array(scores, dtype=float)
    counts = 1 + np.arange(len(values)) % 3
    found = Thresholds.of(values, alpha, weights=counts).at(1, weights=[1.0])
    assert found[0, 0] == conformal_quantile(np.repeat(values, counts), alpha)


def test_frames_names_logits_and_one_column_give_the_same_sets() -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    p, y = class_world(400, 3, 7)
    names = np.array(["ant", "bee", "cat"])
    plain = CumulativeSets(0.1).fit(p[:200], y[:200]).predict_sets(p[200:])
    frame = pd.DataFrame(p, columns=names, index=np.arange(400) + 5)
    method = CumulativeSets(0.1).fit(frame[:200], names[y[:200]])
    sets = method.predict_sets(frame[200:][["cat", "ant", "bee"]])
    assert np.array_equal(sets.members, plain.members)
    assert sets.lists()[0] == names[plain.members[0]].tolist()
    assert list(sets.to_frame().columns) == ["ant", "bee", "cat", "size"]
    assert sets.to_frame("polars")["size"].to_list() == plain.sizes.tolist()
    assert np.array_equal(
        CumulativeSets(0.1)
        .fit(pl.DataFrame(p[:200], schema=list(names)), names[y[:200]])
        .predict_sets(pl.DataFrame(p[200:], schema=list(names)))
        .members,
        plain.members,
    )
    logits = LeastAmbiguousSets(0.1).fit(np.log(p[:200]), y[:200], score_type="logit")
    assert logits.threshold_ == pytest.approx(LeastAmbiguousSets(0.1).fit(p[:200], y[:200]).threshold_)
    two, second = class_world(300, 2, 8)
    one = LeastAmbiguousSets(0.2).fit(two[:150, 1], second[:150])
    both = LeastAmbiguousSets(0.2).fit(two[:150], second[:150])
    assert np.array_equal(one.predict_sets(two[150:, 1]).members, both.predict_sets(two[150:]).members)


def test_an_estimator_takes_features() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(600, 2))
    y = np.array(["a", "b", "c"])[(x[:, :1] + rng.logistic(size=(600, 1)) > [-1, 1]).sum(axis=1)]
    model = LogisticRegression().fit(x[:200], y[:200])
    sets = LeastAmbiguousSets(0.1, model).fit(x[200:400], y[200:400]).predict_sets(x[400:])
    by_hand = LeastAmbiguousSets(0.1).fit(model.predict_proba(x[200:400]), y[200:400], classes=model.classes_)
    assert np.array_equal(sets.members, by_hand.predict_sets(model.predict_proba(x[400:])).members)
    assert sets.coverage(y[400:]) > 0.8
    with pytest.raises(InputError, match="estimator has no predict_proba"):
        LeastAmbiguousSets(0.1, object()).fit(x, y)


def test_missing_scores_give_every_class() -> None:
    method = CumulativeSets(0.4).fit(P, Y)
    sets = method.predict_sets([[np.nan, 0.5, 0.5], [0.9, 0.05, 0.05]])
    assert sets.sizes[0] == 3
    assert sets.sizes[1] < 3
    assert len(method.predict_sets(np.empty((0, 3)))) == 0
    assert str(method.predict_sets(np.empty((0, 3)))).startswith("0 prediction sets from 3 classes.")


def test_results_print_index_and_store() -> None:
    sets = LeastAmbiguousSets(0.4).fit(P, Y).predict_sets(P)
    assert sets[0].lists() == sets.lists()[:1] == list(sets)[:1]
    assert len(sets[1:3]) == 2
    assert sets[[True, False, False, True]].sizes.tolist() == sets.sizes[[0, 3]].tolist()
    plain = json.loads(json.dumps(sets.to_dict()))
    assert plain["classes"] == ["0", "1", "2"]
    assert plain["sets"][0] == [0]
    assert plain["certificate"]["level"] == 0.6
    assert sets.covers([0, 2, 7, 2]).tolist() == [True, False, False, True]  # 7 is none of the classes
    assert sets.coverage([0, 0, 1, 2], groups=["x", "x", "z", "z"]) == {"x": 1.0, "z": 1.0}
    assert "sets" in sets._repr_html_()
    empty = ClassSets(np.zeros((1, 2), dtype=bool), ("a", "b"), np.array(["a", "b"]))
    assert "1 set is empty" in str(empty)
    assert np.isnan(empty[:0].mean_size)


def test_errors_name_the_argument() -> None:
    for call, words in (
        (lambda: LeastAmbiguousSets(1.0).fit(P, Y), "alpha must be strictly between 0 and 1"),
        (lambda: LeastAmbiguousSets(empty="no").fit(P, Y), "empty is 'no'"),
        (lambda: LeastAmbiguousSets().predict_sets(P), "LeastAmbiguousSets is not fitted: call fit"),
        (lambda: CumulativeSets(last="half").fit(P, Y), "last is 'half'"),
        (lambda: CumulativeSets(penalty=-1.0).fit(P, Y), "penalty must be a number of at least 0"),
        (lambda: CumulativeSets(free=-1).fit(P, Y), "free must be an integer"),
        (lambda: CumulativeSets().fit(P * 0.9, Y), "scores"),
        (lambda: LeastAmbiguousSets().fit(P, [0, 1, 1, 5], classes=[0, 1, 2]), "y"),
        (lambda: LeastAmbiguousSets().fit(P[:0], []), "scores is empty"),
        (lambda: LeastAmbiguousSets().fit(P, Y).predict_sets(P[:, :2]), "scores has 2 columns"),
        (lambda: LeastAmbiguousSets(0.4).fit(P, Y).predict_sets(P).covers([0]), "y has 1 row"),
        (lambda: LeastAmbiguousSets().fit(P, Y).predict_sets(P, unseen="drop"), "unseen is 'drop'"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_independent_columns_are_for_the_threshold_only() -> None:
    method = LeastAmbiguousSets(0.4).fit(P * 0.9, Y, score_type="independent")
    assert method.score_type_ == "independent"
    assert method.threshold_ == 0.6 * 0.9


def test_another_alpha_needs_no_new_fit() -> None:
    p, y = class_world(300, 3, 10)
    groups = y % 2
    method = CumulativeSets(0.1).fit(p, y, groups=groups)
    other = CumulativeSets(0.3).fit(p, y, groups=groups)
    sets = method.predict_sets(p, 0.3, groups=groups)
    assert np.array_equal(sets.members, other.predict_sets(p, groups=groups).members)
    assert sets.certificate == other.certificate()
