"""Intervals of any metric, and what metrics take beside arrays: frames, segments, groups, fractional labels."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant.messages import InputError
from calibrant.metrics.draws import Draws, accelerated, widened
from calibrant.metrics.estimates import BINARY
from calibrant.tallies import GroupedTally, Tally


def rows(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 3, n).round(2)
    return scores, (rng.random(n) < scores**1.3).astype(int)


CLASSES = ["a", "b", "c"]


def matrix(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    return p, np.array(CLASSES)[(p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 2)]


@pytest.mark.parametrize("name", sorted(BINARY))
def test_every_name_has_an_interval_around_its_value_or_a_reason(name: str) -> None:
    found = metrics.interval(name, *rows(), repetitions=20)
    if found.low is None:
        assert found.notes
    else:
        assert found.low <= found.value + 1e-9
        assert found.high >= found.value - 1e-9
        assert found.se > 0


def test_bca_of_a_mean_is_near_the_textbook_interval() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    samples = np.array([values[rng.integers(0, 400, 400)].mean() for _ in range(2000)])
    left = (values.sum() - values) / 399
    ends = accelerated(samples, float(values.mean()), left, widened(0.95, 400.0))
    half = 1.966 * values.std(ddof=1) / 20
    assert ends.low == pytest.approx(values.mean() - half, abs=0.012)
    assert ends.high == pytest.approx(values.mean() + half, abs=0.012)


def test_groups_of_one_row_change_little_and_copies_widen() -> None:
    scores, y = rows(400)
    alone = metrics.interval("brier", scores, y)
    single = metrics.interval("brier", scores, y, groups=np.arange(400))
    copied = metrics.interval("brier", np.repeat(scores, 4), np.repeat(y, 4), groups=np.repeat(np.arange(400), 4))
    naive = metrics.interval("brier", np.repeat(scores, 4), np.repeat(y, 4))
    assert single.se == pytest.approx(alone.se, rel=0.1)
    assert copied.se == pytest.approx(alone.se, rel=0.1)
    assert naive.se == pytest.approx(alone.se / 2, rel=0.1)


@pytest.mark.parametrize("name", ["auc", "ece", "slope"])
def test_few_groups_have_no_interval(name: str) -> None:
    scores, y = rows()
    found = metrics.interval(name, scores, y, groups=np.arange(300) % 9)
    assert found.low is None
    assert "few-groups" in {note.code for note in found.notes}


def test_a_calibrated_model_may_have_no_error_at_all() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(1000)
    y = rng.random(1000) < scores
    for name in ("ece", "ici", "debiased_ece", "ecce"):
        assert metrics.interval(name, scores, y, repetitions=40).low <= 1e-6, name


def test_weights_of_any_unit_give_the_same_interval() -> None:
    scores, y = rows()
    weights = np.random.default_rng(1).gamma(2.0, size=300)
    for name in ("auc", "ece"):
        one, other = (metrics.interval(name, scores, y, scale * weights, repetitions=50) for scale in (1.0, 1e6))
        assert one.low == pytest.approx(other.low, rel=1e-6), name
        assert one.high == pytest.approx(other.high, rel=1e-6), name


def test_edges_have_no_interval_and_say_why() -> None:
    for scores, y in (([0.3], [1]), ([0.3, 0.6], [0, 1]), ([0.2, 0.4, 0.9], [0, 0, 0])):
        for name in ("auc", "ece", "log_loss", "slope", "ici"):
            with pytest.warns() if len(set(y)) == 1 else _nothing():
                found = metrics.interval(name, scores, y, repetitions=20)
            assert found.low is None, (scores, name)
            assert str(found)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...


def test_confidence_is_kept_and_printed() -> None:
    wide, narrow = (metrics.interval("auc", *rows(), confidence=level) for level in (0.99, 0.8))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert "80 % CI" in str(narrow)
    assert narrow.to_dict()["confidence"] == 0.8
    assert "confidence" not in metrics.auc(*rows()).to_dict()


def test_a_function_of_ones_own() -> None:
    scores, y = rows()
    own = metrics.interval(lambda s, labels: ((s - labels) ** 2).mean(), scores, y, random_state=3)
    known = metrics.interval("brier", scores, y)
    assert own.value == pytest.approx(known.value)
    assert own.low == pytest.approx(known.low, abs=0.004)
    assert own.high == pytest.approx(known.high, abs=0.004)
    grouped = metrics.interval(lambda s, labels: (s - labels).mean(), scores, y, groups=np.arange(300) % 20)
    assert grouped.low < grouped.value < grouped.high


def test_a_biased_function_of_ones_own_is_refused() -> None:
    found = metrics.interval(lambda s, y: abs(np.corrcoef(s, y)[0, 1]) * 0 + len(np.unique(s)), *rows())
    assert found.low is None
    assert "biased-samples" in {note.code for note in found.notes}


def test_matrices() -> None:
    p, y = matrix()
    for name in ("log_loss", "brier", "accuracy"):
        found, plain = metrics.interval(name, p, y, classes=CLASSES), getattr(metrics, name)(p, y, classes=CLASSES)
        assert found.value == pytest.approx(plain.value)
        assert found.low == pytest.approx(plain.low, abs=0.02)
    assert metrics.interval("ece", p, y, classes=CLASSES, repetitions=30).low >= 0.0
    with pytest.raises(InputError, match="debiased_ece"):
        metrics.interval("ece", p, y, classes=CLASSES, notion="top-label")
    grouped = metrics.log_loss(p, y, classes=CLASSES, groups=np.arange(200) % 20)
    assert grouped.low < grouped.value < grouped.high


def test_mistakes_are_answered_in_a_sentence() -> None:
    with pytest.raises(InputError, match="'slope'"):
        metrics.interval(metrics.recalibration, *rows())
    with pytest.raises(InputError, match="not the name"):
        metrics.interval("auroc", *rows())
    with pytest.raises(InputError, match="confidence"):
        metrics.interval("auc", *rows(), confidence=95)
    with pytest.raises(InputError, match="not a number"):
        metrics.interval(lambda s, y: "x", *rows())
    with pytest.raises(InputError, match=r"check\(scores, y, groups"):
        metrics.spiegelhalter(*rows(), groups=np.arange(300))
    with pytest.raises(InputError, match="looks like the name of a column"):
        metrics.ece(*rows(), groups="patient")


def test_draws_keep_the_totals() -> None:
    draws = Draws.of(Tally.from_arrays(*rows()), 30, 0)
    assert (draws.drawn_n.sum(axis=1) == 300).all()
    assert draws.drawn_events.sum(axis=1).mean() == pytest.approx(draws.events.sum(), rel=0.05)


# --------------------------------------------------------------------------------- frames, segments, fractional labels


def frames() -> dict[str, Any]:
    duckdb, pd, pl, pa = map(pytest.importorskip, ("duckdb", "pandas", "polars", "pyarrow"))
    scores, y = rows()
    table = pa.table({"p": scores, "died": y, "site": np.arange(300) % 3, "who": np.arange(300) % 30, "w": scores + 1})
    return {
        "pandas": table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(table),
        "lazy polars": pl.from_arrow(table).lazy(),
        "pyarrow": table,
        "duckdb": duckdb.from_arrow(table),
    }


def test_metrics_of_frames_equal_those_of_arrays(subtests: pytest.Subtests) -> None:
    scores, y = rows()
    for library, frame in frames().items():
        with subtests.test(library):
            named = {"score": "p", "label": "died"}
            assert metrics.ece(frame, **named).value == metrics.ece(scores, y).value
            assert metrics.brier(frame, sample_weight="w", **named) == metrics.brier(scores, y, scores + 1)
            table = metrics.auc(frame, by="site", groups="who", **named)
            first = np.arange(300) % 3 == 0
            assert table["0"] == metrics.auc(scores[first], y[first], groups=(np.arange(300) % 30)[first])
            assert [row["rows"] for row in table.rows] == [100, 100, 100]
            assert metrics.recalibration(frame, groups="who", **named).slope.low is not None


def test_frames_of_classes_name_their_columns() -> None:
    pl = pytest.importorskip("polars")
    p, y = matrix()
    frame = pl.DataFrame({**{name: p[:, j] for j, name in enumerate(CLASSES)}, "y": y, "half": np.arange(200) % 2})
    found = metrics.log_loss(frame, score=CLASSES, label="y", by="half")
    assert found["1"].value == metrics.log_loss(p[1::2], y[1::2], classes=CLASSES).value


def test_a_segment_without_a_class_keeps_the_classes_of_all_rows() -> None:
    p, y = matrix()
    found = metrics.accuracy(p, y, by=np.where(y == "c", "only c", "others"))
    assert found["only c"].value == metrics.accuracy(p[y == "c"], y[y == "c"], classes=CLASSES).value


def test_tallies_by_group_are_segments() -> None:
    scores, y = rows()
    grouped = GroupedTally.from_arrays(scores, y, groups=np.arange(300) % 2, grid=None)
    assert metrics.ece(grouped)[0].value == pytest.approx(metrics.ece(scores[::2], y[::2]).value, abs=1e-15)


def test_several_columns_of_segments() -> None:
    scores, y = rows()
    half, third = np.arange(300) % 2, np.arange(300) % 3
    table = metrics.brier(scores, y, by={"half": half, "third": third})
    thirds = [("third", str(k)) for k in range(3)]
    assert [(each.by, each.segment) for each in table] == [("half", "0"), ("half", "1"), *thirds]
    assert table["half", "0"].value == metrics.brier(scores[::2], y[::2]).value
    with pytest.raises(KeyError):
        table["0"]


def test_fractions_equal_weighted_halves() -> None:
    scores, _ = rows()
    q = np.random.default_rng(2).random(300)
    split = np.r_[scores, scores], np.repeat([1, 0], 300), np.r_[q, 1 - q]
    for name in ("log_loss", "brier", "ece", "auc", "ecce"):
        metric = getattr(metrics, name)
        found = metric(scores, q, label_type="fraction")
        assert found.value == pytest.approx(metric(*split).value, rel=1e-12), name
        assert found.null_high is None
    whole = metrics.brier(scores, rows()[1], label_type="fraction")
    assert whole.value == pytest.approx(metrics.brier(*rows()).value)
    assert whole.se == pytest.approx(metrics.brier(*rows()).se, rel=0.02)
    with pytest.raises(InputError, match="fractions in"):
        metrics.brier(scores, 3 * q, label_type="fraction")
    with pytest.raises(InputError, match="labels that are 0 or 1"):
        metrics.spiegelhalter(scores, q, label_type="fraction")


def test_public_metrics_can_be_pickled_and_describe_their_arguments() -> None:
    for name, metric in {**metrics.METRICS, **metrics.TESTS}.items():
        assert pickle.loads(pickle.dumps(metric)) is getattr(metrics, name)
        assert "label_type" in metric.__doc__
    assert BINARY.keys() >= metrics.METRICS.keys()


def test_two_columns_are_one_score_with_groups_segments_and_options() -> None:
    rng = np.random.default_rng(3)
    s = rng.random(300)
    y = (rng.random(300) < s).astype(int)
    two, g, half = np.column_stack([1.0 - s, s]), np.arange(300) // 10, np.repeat(["a", "b"], 150)
    assert metrics.auc(two, y, groups=g) == metrics.auc(s, y, groups=g)
    assert metrics.recalibration(two, y, groups=g) == metrics.recalibration(s, y, groups=g)
    options: dict[str, Any] = {"by": half, "thresholds": [0.3]}
    assert str(metrics.net_benefit(two, y, **options)) == str(metrics.net_benefit(s, y, **options))
    for name in ("auc", "slope"):
        assert metrics.interval(name, two, y, repetitions=50) == metrics.interval(name, s, y, repetitions=50)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"p_1": s, "p_0": 1.0 - s, "y": y})
    for names in (["p_0", "p_1"], ["p_1", "p_0"]):
        assert metrics.auc(frame, score=names, label="y") == metrics.auc(s, y)


def test_classes_are_read_from_columns_with_a_shared_beginning() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), 90)
    y, half = np.arange(90) % 3, np.repeat(["a", "b"], 45)
    names = ["p_0", "p_1", "p_2"]
    frame = pd.DataFrame(p, columns=names)
    expected = metrics.log_loss(p, y).value
    assert metrics.log_loss(frame.assign(y=y), score=names, label="y").value == expected
    by = metrics.log_loss(frame, y, by=half)
    assert by["a"].value == metrics.log_loss(p[:45], y[:45]).value


def test_a_function_of_ones_own_gets_no_options_that_the_caller_did_not_pass() -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3

    def right(scores: Any, labels: Any) -> float:
        return float((scores.argmax(axis=1) == labels).mean())

    assert metrics.interval(right, p, y, repetitions=50).value == right(p, y)


def test_a_level_that_the_samples_cannot_resolve_has_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    s = rng.random(200)
    y = (rng.random(200) < s).astype(int)
    found = metrics.interval("ece", s, y, confidence=0.999, repetitions=50)
    assert found.low is None
    assert found.high is None
    assert found.se is not None
    assert "bootstrap samples" in str(found.notes[-1])
    monkeypatch.setattr(sys.modules["calibrant.metrics.intervals"], "DISTANCE_REPETITIONS", 20)
    assert metrics.interval("ece", s, y, confidence=0.97).high is not None  # more samples by default


def test_a_level_beyond_the_samples_has_a_note_that_says_how_many_it_needs():
    rng = np.random.default_rng(0)
    s = rng.random(400)
    y = (rng.random(400) < s).astype(int)
    found = metrics.interval("brier", s, y, confidence=0.9999, repetitions=50)
    (told,) = [each for each in found.notes if each.code == "ends-of-the-samples"]
    assert 2_000 < told.values["needed"] < 50_000
    assert "samples (repetitions)" in str(told)
    assert found.low < found.value < found.high
    enough = metrics.interval("brier", s, y, confidence=0.9, repetitions=200)
    assert "ends-of-the-samples" not in {each.code for each in enough.notes}
