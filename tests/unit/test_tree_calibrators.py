"""Calibrators by trees: fits, edges, honest halves, certificates, rules and documents."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from calibrant import Calibration, CalibrationTree, DocumentError, InputError, ProbabilityCalibrationTree, check, load
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificateCode
from calibrant.maps import LogitAffineMap, StepMap, TreeMap
from calibrant.messages import CalibrantWarning
from calibrant.metrics import brier
from calibrant.numerics import USUAL_ENDS
from calibrant.shift.stages import then_shift
from calibrant.tallies import Tally

BOTH = (CalibrationTree, ProbabilityCalibrationTree)
both = pytest.mark.parametrize("method", BOTH)


def people(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Rows in which older people with a low balance have more events than their score says, students fewer."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "balance": rng.normal(1500.0, 800.0, n).round(),
            "job": rng.choice(["admin", "student", "retired"], n),
            "loan": rng.random(n) < 0.3,
        }
    )
    scores = rng.beta(2, 5, n)
    off = np.where((frame.age > 41) & (frame.balance < 1200), 1.5, 0.0) + np.where(frame.job == "student", -1.5, 0.0)
    y = rng.random(n) < 1 / (1 + np.exp(-(np.log(scores / (1 - scores)) + off)))
    frame.loc[::17, "balance"] = np.nan
    return scores, y.astype(int), frame


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    scores, y, frame = people()
    return {method.__name__: method(max_leaves=6).fit(scores, y, frame) for method in BOTH}


@both
def test_a_tree_finds_where_the_score_is_off(method: Any, fitted: dict[str, Any]) -> None:
    cal, (scores, y, frame) = fitted[method.__name__], people(3000, seed=1)
    assert {"balance", "job"} <= set(cal.map_.columns)
    assert brier(cal.transform(scores, features=frame), y).value < brier(scores, y).value


def test_leaf_rates_by_hand() -> None:
    age, y = np.repeat([30, 50], [40, 60]), np.repeat([0, 1, 0, 1], [36, 4, 30, 30])
    cal = CalibrationTree(10, pruning_alpha=0.0, split_on_score=False).fit(np.full(100, 0.3), y, {"age": age})
    assert cal.map_.thresholds[0] == 40.0
    assert cal.transform([0.1, 0.9, 0.5], features={"age": [30, 50, None]}).tolist() == [0.1, 0.5, 0.5]
    assert [str(rule) for rule in cal.rules()] == [
        "age > 40: 50 % (95 % CI 37 to 63), 60 rows",
        "age <= 40: 10 % (95 % CI 2.8 to 24), 40 rows",
    ]


def test_a_leaf_without_events_gets_a_share_inside() -> None:
    age, y = np.repeat([30, 50], [40, 60]), np.repeat([0, 1], [40, 60])
    cal = CalibrationTree(10, pruning_alpha=0.0, split_on_score=False).fit(np.full(100, 0.3), y, {"age": age})
    assert cal.map_.constants == pytest.approx([1 / 42, 61 / 62])


def test_a_curve_leans_on_that_of_its_parent() -> None:
    """A leaf of one class keeps a finite curve between its parent's and the observed rate."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.2, 0.8, 400)
    part = np.repeat(["a", "b"], [370, 30])
    y = np.where(part == "b", 0, rng.random(400) < scores).astype(int)
    cal = ProbabilityCalibrationTree(20, pruning_alpha=0.0).fit(scores, y, {"part": part})
    p = cal.transform([0.5, 0.5], features={"part": ["a", "b"]})
    assert 0.4 < p[0] < 0.6
    assert 0.01 < p[1] < 0.3
    assert all(isinstance(leaf, LogitAffineMap) and leaf.slope >= 0.0 for leaf in cal.map_.maps)


def test_curves_of_many_rows_are_those_of_platt_in_each_leaf() -> None:
    from calibrant import PlattScaling

    rng = np.random.default_rng(1)
    scores, part = rng.uniform(0.05, 0.95, 40_000), rng.choice(["a", "b"], 40_000)
    odds = scores / (1 - scores) * np.where(part == "a", 3.0, 0.5)
    y = rng.random(40_000) < odds / (1 + odds)
    cal = ProbabilityCalibrationTree(pruning_alpha=0.0, max_leaves=2).fit(scores, y, {"part": part})
    for name in ("a", "b"):
        own = PlattScaling().fit(scores[part == name], y[part == name]).map_
        leaf = cal.map_.maps[int(cal.map_.route([0.5], {"part": [name]})[0])]
        assert leaf.slope == pytest.approx(own.slope, abs=0.01)
        assert leaf.intercept == pytest.approx(own.intercept, abs=0.01)


def test_residuals_split_where_the_score_is_off() -> None:
    rng = np.random.default_rng(2)
    scores, off = rng.uniform(0.05, 0.95, 4000), rng.choice(["yes", "no"], 4000)
    y = rng.random(4000) < np.where(off == "yes", 1 - scores, scores)
    high = (scores > 0.5).astype(float)
    cal = ProbabilityCalibrationTree(max_leaves=2, split_by="residuals", pruning_alpha=0.0)
    assert cal.fit(scores, y, {"high": high, "off": off}).map_.columns in (("off",), ("high",))
    with pytest.raises(InputError, match="split_by"):
        ProbabilityCalibrationTree(split_by="rows").fit(scores, y, {"off": off})


@both
def test_frames_mappings_and_matrices_give_the_same_tree(method: Any) -> None:
    pl = pytest.importorskip("polars")
    scores, y, frame = people(600)
    whole = method(20, pruning_alpha=1e-3).fit(scores, y, frame)
    for given in (frame.to_dict("list"), pl.from_pandas(frame)):
        assert method(20, pruning_alpha=1e-3).fit(scores, y, given).map_ == whole.map_
    table = frame.assign(s=scores, y=y)
    named = method(20, pruning_alpha=1e-3).fit(table, score="s", label="y", features=list(frame))
    assert named.map_ == whole.map_
    p = whole.transform(scores, features=frame)
    np.testing.assert_array_equal(named.transform(table, "s")["calibrated"], p)
    np.testing.assert_array_equal(named.transform(pl.from_pandas(table), "s")["calibrated"].to_numpy(), p)
    numbers = frame[["age", "balance"]].to_numpy()
    by_place = method(20, pruning_alpha=1e-3).fit(scores, y, numbers)
    assert set(by_place.map_.columns) <= {"x0", "x1"}
    assert by_place.transform(scores, features=numbers).shape == (600,)


@both
def test_frequency_weights_are_repetitions(method: Any) -> None:
    scores, y, frame = people(300)
    counts = np.random.default_rng(1).integers(0, 4, 300)
    weighted = method(20, pruning_alpha=0.001).fit(scores, y, frame, counts, weight_type="frequency")
    again = np.repeat(np.arange(300), counts)
    repeated = method(20, pruning_alpha=0.001).fit(scores[again], y[again], frame.iloc[again])
    assert weighted.map_ == repeated.map_
    assert weighted.leaves_.rows.tolist() == repeated.leaves_.rows.tolist()


@both
def test_importance_weights_count_and_leave_no_certificate_and_no_intervals(method: Any) -> None:
    scores, y, frame = people(600)
    cal = method(20, honest=True, random_state=0).fit(scores, y, frame, np.where(y == 1, 3.0, 0.5))
    assert cal.transform(scores, features=frame).mean() > y.mean()
    assert cal.certificate().code == NoCertificateCode.IMPORTANCE_WEIGHTS
    assert all(np.isnan(rule.low) for rule in cal.rules())
    assert "no intervals" in str(cal.rules())


@both
def test_edges_of_few_rows_and_one_class(method: Any, subtests: pytest.Subtests) -> None:
    scores, y, frame = people(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        for n in (1, 2, 3, 10):
            with subtests.test(n=n):
                cal = method(1).fit(scores[:n], y[:n], frame[:n])
                p = cal.transform(scores[:n], features=frame[:n])
                assert ((p > 0) & (p < 1)).all()
        one = method(5).fit(scores, np.zeros(40), frame)
        assert len(one.map_.maps) == 1
        assert one.transform(scores, features=frame).max() < 0.2
        with pytest.raises(InputError, match="scores"):
            method(1).fit([], [], frame[:0])
        with pytest.raises(InputError, match="honest"):
            method(1, honest=True).fit(scores[:1], y[:1], frame[:1])
    assert np.isnan(cal.transform([np.nan], features=frame[:1])[0])


@both
def test_errors_name_the_argument_and_the_fix(method: Any, fitted: dict[str, Any]) -> None:
    scores, y, frame = people(200)
    cal = fitted[method.__name__]
    for problem, call in {
        "features": lambda: cal.transform(scores),
        "has no column": lambda: cal.transform(scores, features={"age": frame.age}),
        "has 5 values": lambda: cal.transform(scores, features=frame[:5]),
        "min_rows": lambda: method(0).fit(scores, y, frame),
        "max_leaves": lambda: method(max_leaves=10_000).fit(scores, y, frame),
        "pruning_alpha": lambda: method(pruning_alpha=-1.0).fit(scores, y, frame),
        "has 199 rows": lambda: method().fit(scores, y, frame[:199]),
        "y is missing": lambda: method().fit(scores, features=frame),
        "must name columns": lambda: method().fit(frame.assign(s=scores, y=y), score="s", label="y"),
        "infinite|datetime|holds": lambda: method().fit(scores, y, {"day": np.full(200, np.datetime64("2026-01-01"))}),
    }.items():
        with pytest.raises(InputError, match=problem):
            call()
    with pytest.raises(InputError, match="features"):
        ProbabilityCalibrationTree().fit(scores, y)
    with pytest.raises(InputError, match="needs the columns 'age', 'balance' and 'job' besides the scores"):
        check(scores, y, calibration=cal)
    with pytest.raises(InputError, match="no features"):
        method().fit_tally(Tally.from_arrays(scores, y))
    with pytest.raises(InputError, match="is a tree"):
        then_shift(cal.calibration_, 0.1, "shifted", USUAL_ENDS)
    with pytest.raises(InputError, match="CalibrationTree"):
        ProbabilityCalibrationTree().fit((scores > 0.3).astype(float), y, frame, score_type="probability")


def test_without_features_the_score_alone_splits() -> None:
    scores, y, _ = people(2000)
    cal = CalibrationTree().fit(scores, y)
    assert cal.map_.columns == ()
    assert len(cal.map_.maps) > 1
    assert cal.transform(scores, features={"age": np.ones(2000)}).shape == (2000,)


@both
def test_scikit_learn_can_clone_and_predict(method: Any, fitted: dict[str, Any]) -> None:
    scores, _, frame = people(50)
    cal = fitted[method.__name__]
    assert clone(cal).get_params() == cal.get_params()
    assert set(cal.predict(scores, features=frame)) <= {0, 1}
    assert cal.predict_proba(scores, features=frame).sum(axis=1) == pytest.approx(np.ones(50))


def test_groups_and_time_define_folds_and_leave_no_certificate() -> None:
    scores, y, frame = people(400)
    who = np.arange(400) // 4
    grouped = CalibrationTree(20, honest=True, random_state=0).fit(scores, y, frame, groups=who)
    assert grouped.certificate().code == NoCertificateCode.GROUPED
    later = CalibrationTree(20, honest=True, random_state=0).fit(scores, y, frame, time=np.arange(400))
    assert later.certificate().code == NoCertificateCode.TIME_ORDERED
    with pytest.raises(InputError, match="one group"):
        CalibrationTree(20, honest=True).fit(scores, y, frame, groups=np.zeros(400))


# ------------------------------------------------------------------------------------------------------------- honest


def test_honest_leaves_are_filled_by_rows_that_chose_nothing() -> None:
    scores, y, frame = people(2000)
    cal = CalibrationTree(honest=True, random_state=3).fit(scores, y, frame)
    assert cal.leaves_.chose == 1000
    assert cal.leaves_.rows.sum() == 1000
    again = CalibrationTree(honest=True, random_state=3).fit(scores, y, frame)
    assert again.map_ == cal.map_
    assert CalibrationTree(honest=True, random_state=4).fit(scores, y, frame).map_ != cal.map_


def test_the_labels_of_the_other_half_do_not_move_a_split() -> None:
    """Labels of the half that fills the leaves are turned around: splits stay, rates do not."""
    rng = np.random.default_rng(0)
    n = 400
    scores, x = rng.random(n), rng.integers(0, 8, n)
    y = (rng.random(n) < np.where(x > 3, 0.7, 0.2)).astype(int)

    class Fixed(CalibrationTree):
        def _parts(self, rows: Any, tally: Any) -> Any:
            return np.arange(0, n, 2), np.arange(1, n, 2)

    turned = np.where(np.arange(n) % 2, 1 - y, y)
    one, two = (Fixed(20, honest=True).fit(scores, labels, {"x": x}).map_ for labels in (y, turned))
    assert one.thresholds.tolist() == two.thresholds.tolist()
    assert one.constants.tolist() != two.constants.tolist()


def test_the_certificate_is_that_of_the_counts() -> None:
    from calibrant.guarantees.bounds import BOUNDS

    scores, y, frame = people(2000)
    cal = CalibrationTree(honest=True, random_state=3).fit(scores, y, frame)
    promise = cal.certificate(alpha=0.05)
    assert isinstance(promise, Certificate)
    leaves = len(cal.map_.maps)
    low, high = BOUNDS["clopper-pearson"](promise.events, promise.rows, 0.05 / leaves)
    assert promise.lower.tolist() == low.tolist()
    assert promise.upper.tolist() == high.tolist()
    assert promise.n == 1000
    assert f"in each of the {leaves} leaves" in str(promise)
    fresh = people(4000, seed=9)
    assert promise.check(fresh[0], fresh[1], by=fresh[2])
    wrong = promise.check(fresh[0], 1 - fresh[1], by=fresh[2])
    assert not wrong
    assert "leaves" in str(wrong)


def test_who_gets_no_certificate_and_why() -> None:
    scores, y, frame = people(2000)
    same = CalibrationTree().fit(scores, y, frame).certificate()
    assert same.code == NoCertificateCode.COMMON_ROWS
    assert "honest=True" in str(same)
    curves = ProbabilityCalibrationTree(honest=True).fit(scores, y, frame).certificate()
    assert curves.code == NoCertificateCode.INJECTIVE
    honest = CalibrationTree(honest=True).fit(scores, y, frame)
    assert honest.certificate(interval="always-valid").code == NoCertificateCode.MOVING_BINS
    tied = CalibrationTree(honest=True, random_state=0).fit(np.full(200, 0.3), y[:200], frame[:200])
    assert tied.certificate().code == NoCertificateCode.FIXED_DRAW


# -------------------------------------------------------------------------------------------------------------- words


@both
def test_rules_print_a_line_for_each_leaf(method: Any, fitted: dict[str, Any]) -> None:
    cal = fitted[method.__name__]
    rules = cal.rules(unit="people", confidence=0.9)
    text = str(rules)
    assert len(rules) == len(cal.map_.maps)
    assert text.count("people") == len(rules)
    assert "90 % CI" in text
    assert "honest=True" in text
    assert all(rule.name in str(cal) for rule in rules)
    table = rules.to_frame()
    assert len(table) == len(rules)
    assert {"rule", "rate", "rows", "events"} <= set(table)
    assert rules._repr_html_().count("<tr") == len(rules) + 1
    assert cal._repr_html_().startswith("<div")
    assert json.dumps(rules.to_dict())
    with pytest.raises(InputError, match="confidence"):
        cal.rules(confidence=95)


def test_a_rule_has_one_range_for_each_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, 4000)
    y = rng.random(4000) < np.where((x > 30) & (x <= 60), 0.8, 0.1)
    cal = CalibrationTree(split_on_score=False).fit(np.full(4000, 0.5), y, {"x": x})
    assert "30 < x <= 60" in [rule.name for rule in cal.rules()]


# ---------------------------------------------------------------------------------------------------------- documents


def hostile() -> dict[str, dict[str, Any]]:
    """Changes to the document of a tree, each of which must be refused."""
    return {
        "a cycle": {"left": [0, -1, 3, -1, -1]},
        "a child before its parent": {"left": [2, -1, 1, -1, -1], "right": [1, -1, 4, -1, -1]},
        "a node with two parents": {"right": [1, -1, 4, -1, -1]},
        "a child that is not there": {"right": [9, -1, 4, -1, -1]},
        "one child": {"right": [2, -1, -1, -1, -1]},
        "a threshold that is no number": {"thresholds": [float("nan"), 0, 0, 0, 0]},
        "an infinite threshold": {"thresholds": [float("inf"), 0, 0, 0, 0]},
        "a threshold in a leaf": {"thresholds": [1, 5, 0, 0, 0]},
        "a column that is not named": {"columns_split": [1, -1, 7, -1, -1]},
        "a name twice": {"names": ["age", "age"]},
        "a name that splits nothing": {"names": ["age", "job", "more"], "text": [False, True, False]},
        "a level of a number": {"levels": ["x", "", "student", "", ""]},
        "too few maps": {"maps": [{"is": "step", "knots": [], "values": [0.1]}]},
        "a map of groups in a leaf": {
            "maps": [
                {"is": "by-group", "by": "g", "groups": ["a"], "maps": [{"is": "identity"}], "default": None},
                {"is": "identity"},
                {"is": "identity"},
            ]
        },
        "a tree of too many nodes": {"columns_split": [-1] * 5000},
        "text where flags belong": {"missing_left": ["no"] * 5},
    }


def small() -> TreeMap:
    leaves = tuple(StepMap([], [rate]) for rate in (0.1, 0.2, 0.3))
    return TreeMap(
        ("age", "job"), [False, True], [1, -1, 2, -1, -1], [41.0, 0, 0, 0, 0], ("", "", "student", "", ""),
        [1, -1, 3, -1, -1], [2, -1, 4, -1, -1], [True, False, False, False, False], leaves,
    )  # fmt: skip


@pytest.mark.parametrize("what", hostile())
def test_a_hostile_document_is_refused(what: str) -> None:
    body = json.loads(Calibration(small()).to_json())
    body["map"] |= hostile()[what]
    with pytest.raises(DocumentError):
        Calibration.from_json(json.dumps(body))


def test_a_certificate_of_another_tree_is_refused(tmp_path: Any) -> None:
    scores, y, frame = people(1000)
    CalibrationTree(honest=True, random_state=0).fit(scores, y, frame).save(tmp_path / "map.json")
    text = (tmp_path / "map.json").read_text()
    assert load(tmp_path / "map.json").certificate

    def chosen_by_none(certificate: Any) -> None:
        certificate["about"]["chose"] = 0

    def another_tree(certificate: Any) -> None:
        certificate["about"]["map"]["thresholds"][0] = 0.123

    def more_rows(certificate: Any) -> None:
        certificate["rows"][0] = 10_000

    for change in (chosen_by_none, another_tree, more_rows):
        body = json.loads(text)
        change(body["certificate"])
        with pytest.raises(DocumentError):
            Calibration.from_json(json.dumps(body))


def test_missing_values_and_new_levels_go_where_the_tree_says() -> None:
    p = small().apply([0.5] * 5, {"age": [30, 50, None, 50, 50], "job": ["student", "student", "student", "new", None]})
    assert p.tolist() == [0.1, 0.2, 0.1, 0.3, 0.3]


FLAGS = {
    "booleans": lambda flag: flag,
    "integers": lambda flag: flag.astype(int),
    "floats": lambda flag: flag.astype(float),
    "words": lambda flag: np.where(flag, "true", "false"),
    "words of Python": lambda flag: np.where(flag, "True", "False"),
    "capitals": lambda flag: np.where(flag, "TRUE", "FALSE"),
    "text of integers": lambda flag: np.where(flag, "1", "0"),
    "text of floats": lambda flag: np.where(flag, "1.0", "0.0"),
}


def flagged(n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    flag = rng.random(n) < 0.4
    return rng.beta(2, 5, n), (rng.random(n) < np.where(flag, 0.6, 0.1)).astype(int), flag


@both
def test_a_column_of_booleans_may_be_written_in_any_way(method: Any, subtests: pytest.Subtests) -> None:
    scores, y, flag = flagged()
    for fit in ("booleans", "words", "words of Python", "capitals", "integers"):
        cal = method(split_on_score=False).fit(scores, y, {"flag": FLAGS[fit](flag)})
        expected = cal.transform(scores, features={"flag": flag})
        score = cal.calibration_.scorer()
        assert len(cal.leaves_.rows) == 2
        assert len(set(expected[flag]) & set(expected[~flag])) == 0
        for way, written in FLAGS.items():
            with subtests.test(fit=fit, way=way):
                if fit == "integers" and written(flag).dtype.kind == "U":
                    with pytest.raises(InputError, match="flag"):
                        cal.transform(scores, features={"flag": written(flag)})
                    continue
                column = written(flag)
                np.testing.assert_array_equal(cal.transform(scores, features={"flag": column}), expected)
                one_by_one = [score(s, each) for s, each in zip(scores.tolist(), column.tolist(), strict=True)]
                np.testing.assert_allclose(one_by_one, expected, rtol=1e-12)


def test_a_rule_of_booleans_says_true_or_false() -> None:
    scores, y, flag = flagged()
    names = [rule.name for rule in CalibrationTree(split_on_score=False).fit(scores, y, {"flag": flag}).rules()]
    assert names == ["flag = true", "flag = false"]
    column = np.where(flag, None, "false")
    column[np.flatnonzero(flag)[::2]] = "true"
    rules = CalibrationTree(split_on_score=False, pruning_alpha=0.0).fit(scores, y, {"flag": column}).rules()
    assert not any("not" in rule.name for rule in rules)
    three = np.where(flag, np.where(scores < 0.2, "true", "unknown"), "false")
    names = [
        rule.name
        for rule in CalibrationTree(split_on_score=False, max_leaves=2).fit(scores, y, {"flag": three}).rules()
    ]
    assert names == ["flag not false", "flag = false"]


def test_the_label_is_no_feature() -> None:
    scores, y, frame = people(200)
    given = frame.assign(s=scores, default=y, w=1, who=np.arange(200), day=np.arange(200))
    for name, sides in {
        "default": {},
        "w": {"sample_weight": "w"},
        "who": {"groups": "who"},
        "day": {"time": "day"},
    }.items():
        with pytest.raises(InputError, match=f"features contains '{name}', which is the"):
            CalibrationTree().fit(given, score="s", label="default", features=["age", name], **sides)


def test_intervals_of_dependent_rows_are_said_to_be_too_narrow() -> None:
    scores, y, frame = people(400)
    for sides, word in (({"groups": np.arange(400) // 4}, "of a group"), ({"time": np.arange(400)}, "close in time")):
        cal = CalibrationTree(20, honest=True, random_state=0).fit(scores, y, frame, **sides)
        assert len(cal.rules().notes) == 1
        assert word in str(cal.rules())
        assert "too narrow" in str(cal)
    alone = CalibrationTree(20, honest=True, random_state=0).fit(scores, y, frame)
    assert alone.rules().notes == ()


@both
def test_one_leaf_says_why(method: Any) -> None:
    scores, y, frame = people(90)
    few = method(50).fit(scores, y, frame)
    assert [note.code for note in few.notes_ if "split" in note.code] == ["few-rows-to-split"]
    assert "90 rows choose the splits, and each leaf needs 50" in str(few.notes_[-1])
    assert few.rules().notes == ()
    none = method(10, pruning_alpha=10.0).fit(scores, y, frame)
    assert [note.code for note in none.notes_ if "split" in note.code] == ["no-split"]


@both
def test_one_leaf_takes_features_that_it_does_not_need(method: Any) -> None:
    scores, y, frame = people(90)
    calibration = method(50).fit(scores, y, frame).calibration_
    assert calibration.map.columns == ()
    assert calibration.scorer()(0.3, {"age": 30}) == calibration.scorer()(0.3)


def test_a_leaf_that_no_row_fills() -> None:
    """Its rate comes from the rows that chose the splits, and it has no interval and no guarantee."""
    n = 200
    x = np.r_[np.repeat([0, 1], [60, 40]), np.zeros(100, dtype=int)]
    y = np.r_[np.zeros(60), np.ones(40), np.zeros(90), np.ones(10)].astype(int)

    class Fixed(CalibrationTree):
        def _parts(self, rows: Any, tally: Any) -> Any:
            return np.arange(100), np.arange(100, n)

    scores = np.linspace(0.1, 0.9, n)
    cal = Fixed(10, honest=True, pruning_alpha=0.0, split_on_score=False).fit(scores, y, {"x": x})
    assert cal.map_.constants == pytest.approx([0.1, 41 / 42])
    assert str(cal.rules().rules[0]) == "x > 0: 97.6 % (no interval), 0 rows"
    promise = cal.certificate()
    assert "in 1 of the 2 leaves the true event rate" in str(promise)
    assert "1 leaf without a row" in str(promise)


def test_importance_weights_are_not_called_rows() -> None:
    scores, y, frame = people(600)
    cal = CalibrationTree(20).fit(scores, y, frame, np.where(y == 1, 3.0, 0.5))
    assert "rows" not in str(cal.rules().rules[0].said(weighted=True))
    assert ", weight " in str(cal)


def test_missing_features_are_named() -> None:
    scores, y, frame = people(400)
    cal = CalibrationTree(20, max_leaves=3, split_on_score=False, pruning_alpha=0.0).fit(scores, y, frame)
    column = cal.map_.columns[0]
    for call in (
        lambda: cal.transform(scores, features=frame[["age"]].to_numpy()),
        lambda: cal.predict_proba(scores, frame[["age", "balance"]].to_numpy()),
        lambda: cal.transform(scores, features={"other": y}),
    ):
        with pytest.raises(InputError, match=rf"features has no column '{column}'.*pass a frame with the column"):
            call()
    with pytest.raises(InputError, match=r"features holds names, but there is no frame: pass frame\[\['age'\]\]"):
        CalibrationTree().fit(scores, y, ["age"])
    with pytest.raises(InputError) as caught:
        cal.calibration_.transform(scores)
    assert "one group" not in str(caught.value)
    assert ("columns" in str(caught.value)) == (len(cal.map_.columns) > 1)


@both
def test_settings_of_the_wrong_type_are_refused(method: Any) -> None:
    scores, y, frame = people(60)
    for name, value in (("random_state", "a"), ("pruning_alpha", "a"), ("honest", "yes"), ("split_on_score", "no")):
        with pytest.raises(InputError, match=name):
            method(**{"honest": True, name: value}).fit(scores, y, frame)


@both
def test_the_advice_on_weights_is_one_that_the_fit_takes(method: Any) -> None:
    scores, y, frame = people(300)
    cal = method(20, honest=True).fit(scores, y, frame, np.where(y == 1, 3.0, 0.5))
    assert "fit HistogramBinning with weight_type='by-class'" in str(cal.certificate())
