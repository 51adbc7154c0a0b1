"""Every public function reads rows alike, whatever they come in: dtype, library, two columns, frames, mistakes.

The functions are found in the public namespaces: a new one that takes ``scores`` is called here, or is listed with the
reason why not.
"""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.messages import CalibrantWarning, InputError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMESPACES = ("", "metrics", "abstention", "clinical", "credit", "conformal", "displays", "shift", "decisions",
              "tallies", "calibrators", "multiclass", "verdict")  # fmt: skip
"""Public namespaces; streams (``online`` and ``live``) have contracts of their own."""

ROWS, CLASSES = 160, 3
TAKES_ROWS = ("scores", "scores_old")
METHODS = ("fit", "from_arrays", "from_predictions", "of")

LEFT_OUT = {
    "metrics.Bins.of": "called through every binned metric",
    "metrics.trade_off": "takes scores by the name of the model",
    "metrics.tree_regions": "takes features; its scores are optional",
    "metrics.kendall_tau": "takes true probabilities, not labels",
    "metrics.closeness": "takes true probabilities, not labels",
    "metrics.theoretical_error": "takes true probabilities, not labels",
    "abstention.accept_models": "takes rows by the name of the model, each as in accept",
    "conformal.conformal_quantile": "takes conformity scores, which are any numbers",
    "conformal.p_values": "takes conformity scores, which are any numbers",
    "displays.TradeOffDisplay.from_predictions": "takes scores by the name of the model",
    "displays.SimplexDisplay.from_predictions": "needs a binning of three classes, whose own fit is here",
    "displays.CanonicalValidityDisplay.from_predictions": "needs a binning of three classes, whose own fit is here",
    "shift.estimate_calibration": "needs judges of every row",
    "shift.estimate_label_shift": "needs a calibration and two samples",
    "shift.match_mean": "takes scores alone, as transform does",
    "shift.estimate_rate": "takes unlabeled scores first",
    "clinical.plan_validation": "takes scores alone, for planning",
    "plan": "takes scores alone, for planning",
    "credit.anchor": "takes scores alone",
    "clinical.validate_horizons": "takes a column for each horizon",
    "calibrators.PathCalibrator.fit": "needs a taxonomy",
    "calibrators.MultilabelCalibrator.fit": "takes a column of labels for each column of scores",
    "metrics.probabilistic_count": "takes scores alone",
}
"""Functions with ``scores`` that are not called here, and why."""


def rows() -> tuple[np.ndarray, np.ndarray]:
    """One score, with ties and exact ends out of reach, and its labels."""
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 2, ROWS).round(3).clip(0.01, 0.99)
    return scores, (rng.random(ROWS) < scores).astype(np.int64)


def matrix() -> tuple[np.ndarray, np.ndarray]:
    """Scores of three classes, and the class of each row."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([2.0, 2.0, 2.0], ROWS)
    return p, (p.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1).clip(0, CLASSES - 1)


# ---------------------------------------------------------------------------------------------------------------- doors

Call = Callable[[Any, Any], Any]

segment = np.arange(ROWS) % 2
QUICK: dict[str, dict[str, Any]] = {
    "clinical.validate": {"repetitions": 20},
    "clinical.decision_curve": {"repetitions": 100, "thresholds": [0.3]},
    "clinical.validate_clusters": {"groups": np.arange(ROWS) % 12},
    "clinical.validate_survival": {"horizon": 0.5},
    "metrics.ici": {"repetitions": 20},
    "metrics.debiased_l2_test": {"repetitions": 20},
    "metrics.weak_error": {"function": np.sqrt},
    "displays.ForestDisplay.from_predictions": {"groups": np.arange(ROWS) % 12},
    "calibrate": {"candidates": ["platt"], "cv": 2},
    "abstention.accept": {"error": 0.6},
    "decisions.expected_cost": {"cost_fp": 1.0, "cost_fn": 2.0},
    "tallies.GroupedTally.from_arrays": {"groups": segment},
    "verdict.discover": {"features": {"x": np.linspace(0.0, 1.0, ROWS)}},
}
"""Options that make a call quick, or that it needs."""

ORDERS: dict[str, Callable[..., Call]] = {
    "abstention.overconfidence": lambda f, **k: lambda s, y: f(s, y, {"segment": segment}),
    "abstention.route": lambda f, **k: lambda s, y: f(s, y, y, error=0.6),
    "clinical.validate_survival": lambda f, **k: lambda s, y: f(s, np.linspace(0.1, 1.0, ROWS), y, **k),
    "compare": lambda f, **k: lambda s, y: f(s, s, y),
    "crossfit": lambda f, **k: lambda s, y: f(cb.PlattScaling(), s, y, cv=2),
    "metrics.interval": lambda f, **k: lambda s, y: f("auc", s, y, repetitions=20),
    "shift.select_mature": lambda f, **k: lambda s, y: f(s, y, score_time=np.arange(ROWS), as_of=ROWS, horizon=10),
}
"""How a function with other arguments is called with scores and labels."""

ALIKE = ("accuracy", "adaptive_ece", "brier", "debiased_ece", "ece", "log_loss", "pde", "skce")
BOTH = (
    *("check", "compare", "report", "TemperatureScaling.fit", "displays.ValidityDisplay.from_predictions"),
    *(f"metrics.{name}" for name in ALIKE),
)
"""Doors that take one score, and also a matrix of several classes."""

SLOW = (
    "report",
    "calibrate",
    "calibrators.MulticlassAutoCalibrator.fit",
    "calibrators.MulticlassSegmentCalibrator.fit",
)


def public() -> Iterator[tuple[str, Any]]:
    """Every public function, classmethod and fit with ``scores``, by its name below ``calibrant``."""
    seen = set()
    for space in NAMESPACES:
        module = importlib.import_module(f"calibrant.{space}" if space else "calibrant")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in seen:
                continue
            seen.add(id(value))
            members = [(method, getattr(value, method, None)) for method in METHODS] if inspect.isclass(value) else []
            for method, function in members or [("", value)]:
                if not callable(function) or not takes_rows(function):
                    continue
                yield ".".join(filter(None, (space, name, method))), value if method == "fit" else function


def takes_rows(function: Any) -> bool:
    """Whether a function has an argument for scores."""
    try:
        return bool(set(TAKES_ROWS) & set(inspect.signature(function).parameters))
    except (TypeError, ValueError):
        return False


DOORS = dict(public())


def call_of(name: str) -> Call:
    """A function of scores and labels that calls a door with quick options."""
    door, options = DOORS[name], QUICK.get(name, {})
    if name.endswith(".fit"):
        kind = name.split(".")[-2]
        needs: dict[str, Any] = {"by": segment} if "Segment" in kind else {}
        if kind in ("CalibrationTree", "ProbabilityCalibrationTree"):
            needs = {"features": {"x": np.linspace(0.0, 1.0, ROWS)}}
        return lambda s, y: made(door).fit(s, y, **needs)
    if name in ORDERS:
        return ORDERS[name](door, **options)
    return lambda s, y: door(s, y, **options)


def made(kind: Any) -> Any:
    """A calibrator, or a method of prediction sets, with its defaults."""
    if kind.__name__ == "AutoCalibrator":
        return kind(["platt"], cv=2)
    if kind.__name__ == "MulticlassAutoCalibrator":
        return kind(["temperature"], cv=2)
    return kind(random_state=0) if kind.__name__ == "IsotonicBinning" else kind()


def of_classes(name: str) -> bool:
    """Whether a door takes several classes only."""
    last = DOORS[name]
    module = getattr(inspect.unwrap(last), "__module__", "") if not inspect.ismethod(last) else last.__self__.__module__
    module = last.__module__ if inspect.isclass(last) else module
    wrapped = getattr(inspect.unwrap(last), "__wrapped__", last)
    several = ".multiclass." in module or ".classes." in module or "multiclass" in getattr(wrapped, "__module__", "")
    return several and "verdict" not in module


def facts(found: Any) -> Any:
    """The numbers and codes of notes of any result."""
    if isinstance(found, InputError):
        return type(found).__name__, found.argument
    if isinstance(found, float | int | str | bool | type(None)):
        return found
    if isinstance(found, np.ndarray | np.generic):
        return facts(found.tolist())
    if isinstance(found, Mapping):
        return {key: facts(each) for key, each in found.items() if key != "text" and each != "classes-from-labels"}
    if isinstance(found, list | tuple):
        return [facts(each) for each in found]
    if isinstance(found, cb.Tally):
        return [facts(each) for each in (found.scores, found.n, found.events)]
    # the columns of a frame name the classes, so that nothing is guessed
    notes = [each.code for each in getattr(found, "notes_", ()) if each.code != "classes-from-labels"]
    if hasattr(found, "map_"):
        scores = np.array(probe(found))
        beside = {name: np.ones(len(scores), dtype=int) for name in getattr(found.map_, "columns", ())}
        return [facts(found._applicable().transform(scores, by=beside or None)), notes]
    for name in ("thresholds_", "data"):
        if hasattr(found, name):
            value = getattr(found, name)
            return [facts(value if name == "data" else vars(value)), notes]
    if hasattr(found, "to_dict"):
        return facts(found.to_dict())
    return facts({key: each for key, each in vars(found).items() if not key.startswith("_")})


def probe(fitted: Any) -> Any:
    """Scores on which two fitted maps are compared."""
    if fitted._of_classes:
        return [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
    return [0.1, 0.3, 0.5, 0.8] if fitted.provenance_.score_type == "probability" else [-2.0, 0.3, 3.0]


def answer(call: Call, scores: Any, y: Any) -> Any:
    """The facts of a result or of a refusal, with the codes of warnings; no error of another library may escape."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        try:
            found: Any = call(scores, y)
        except InputError as error:
            found = error
    codes = sorted({each.message.note.code for each in caught if isinstance(each.message, CalibrantWarning)})
    return [facts(found), codes]


def same(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two answers agree, numbers up to a tolerance."""
    if isinstance(one, bool | str | type(None)) or isinstance(other, bool | str | type(None)):
        return bool(one == other)
    if isinstance(one, float | int) and isinstance(other, float | int):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and repr(one) == repr(other)


# ---------------------------------------------------------------------------------------------------------------- forms

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "object": lambda a: a.astype(object),
    "nullable": lambda a: pd.array(a, dtype="Float64" if a.dtype.kind == "f" else "Int64"),
    "pandas": lambda a: pd.Series(a, index=np.arange(7, 7 + len(a))),
    "polars": pl.Series,
    "pyarrow": lambda a: pa.chunked_array([a]),
    "column of a frame": lambda a: pd.DataFrame({"other": "text", "p": a})["p"],
    "frame of one column": lambda a: pl.DataFrame({"p": a}),
}
"""One column in another dtype or library."""

TABLES: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "object": lambda a: a.astype(object),
    "nullable": lambda a: pd.DataFrame({str(j): pd.array(a[:, j], dtype="Float64") for j in range(a.shape[1])}),
    "pandas": lambda a: pd.DataFrame(a, columns=[str(j) for j in range(a.shape[1])]),
    "polars": lambda a: pl.DataFrame(a, schema=[str(j) for j in range(a.shape[1])]),
    "list": lambda a: a.tolist(),
}
"""A matrix of class scores in another dtype or library."""


def test_every_function_of_rows_is_called_or_listed_with_a_reason() -> None:
    assert set(LEFT_OUT) <= DOORS.keys()
    assert len(DOORS) - len(LEFT_OUT) > 90
    assert {"check", "compare", "report", "calibrate", "crossfit"} <= DOORS.keys()


ASKED = [(name, of_classes(name)) for name in DOORS if name not in LEFT_OUT] + [(name, True) for name in BOTH]
FEW = ("float32", "nullable")
"""Forms of the doors that take seconds."""


@pytest.mark.parametrize(("name", "several"), ASKED)
def test_every_form_gives_the_answer_of_its_values_in_float64(name: str, several: bool, full_size: bool) -> None:
    scores, y = matrix() if several else rows()
    call = call_of(name)
    forms = TABLES if several else FORMS
    wrong = []
    for form in forms if full_size or name not in SLOW else FEW:
        given = forms[form](scores)
        values = scores.astype(form).astype(np.float64) if form.startswith("float") else scores
        labels = y if several or form.startswith("float") else FORMS[form](y)
        plain, found = answer(call, values, y), answer(call, given, labels)
        if not same(plain, found, 1e-6 if "overage" in name else 1e-9):  # their thresholds are one step above a float32
            wrong.append(f"{form}: {str(found)[:300]} instead of {str(plain)[:300]}")
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------------------------------------------------- mistakes

NO_FRAME = {
    "Tally.from_arrays": "calibrant.tally counts frames",
    "tallies.GroupedTally.from_arrays": "calibrant.tally counts frames",
    "calibrators.MulticlassSegmentCalibrator.fit": "takes a column of segments, not its name",
    "metrics.desiderata": "takes true probabilities in place of labels too",
    "shift.select_mature": "its own test has frames",
}
"""Functions that take no names of columns here, and why."""

CONSTANT_IS_REFUSED = {"metrics.desiderata", "clinical.update_model"}
"""Doors whose question has no answer for a constant score."""


def both(name: str, several: bool) -> tuple[np.ndarray, np.ndarray]:
    return matrix() if several else rows()


def refused(found: Any) -> bool:
    """Whether an answer is a refusal."""
    return isinstance(found[0], tuple) and found[0][0] == "InputError"


def without(found: Any, *codes: str) -> Any:
    """An answer without notes of these codes."""
    if isinstance(found, dict):
        return {key: without(each, *codes) for key, each in found.items()}
    if not isinstance(found, list | tuple):
        return found
    return [
        without(each, *codes) for each in found if (each.get("code") if isinstance(each, dict) else each) not in codes
    ]


@pytest.mark.parametrize("name", [name for name, several in ASKED if not several])
def test_two_columns_are_the_score_of_the_event(name: str) -> None:
    scores, y = rows()
    call = call_of(name)
    told = ("second-column-read", "score-type-guessed", "event-class", "labels-read")
    one = without(answer(call, scores, y), *told)
    pairs = [np.column_stack([1.0 - scores, scores]), pd.DataFrame({"0": 1.0 - scores, "1": scores})]
    for pair in (*pairs, pairs[0].tolist(), pd.DataFrame({"1": scores, "0": 1.0 - scores})):
        assert same(without(answer(call, pair, y), *told), one, 1e-9)


@pytest.mark.parametrize(("name", "several"), ASKED)
def test_one_boundary_for_every_door(name: str, several: bool) -> None:
    scores, y = both(name, several)
    call = call_of(name)

    def changed(value: float) -> np.ndarray:
        moved = scores.copy()
        moved[(3, 0) if several else 3] = value
        if several:
            moved[3, 1:] = 0.0 if value > 0.5 else [0.5, 0.5]
        return moved

    assert refused(answer(call, changed(1.0001), y))
    assert same(answer(call, changed(-1e-12), y), answer(call, changed(0.0), y), 1e-9)
    assert same(answer(call, changed(1.0 + 1e-9), y), answer(call, changed(1.0), y), 1e-9)
    assert refused(answer(call, 100.0 * scores, y))
    scale = np.round(10.0 * scores).clip(1.0, 10.0)
    if several:
        scale[0, 0] = 9.0
    assert refused(answer(call, scale, y))


@pytest.mark.parametrize(("name", "several"), ASKED)
def test_mistakes_are_refused_and_a_constant_is_not(name: str, several: bool) -> None:
    from sklearn.linear_model import LogisticRegression

    scores, y = both(name, several)
    call = call_of(name)
    constant = np.tile([0.5, 0.3, 0.2], (ROWS, 1)) if several else np.full(ROWS, 0.7)
    found = answer(call, constant, y)
    assert name in CONSTANT_IS_REFUSED or not refused(found), found
    assert refused(answer(call, y, scores)), "swapped"
    with pytest.raises(InputError) as told:
        call(LogisticRegression(), y)
    assert told.value.argument in TAKES_ROWS
    assert "CalibratedClassifier" in str(told.value.fix)


@pytest.mark.parametrize(("name", "several"), [each for each in ASKED if each[0] not in NO_FRAME])
def test_frames_by_names_give_the_answer_of_their_columns(name: str, several: bool) -> None:
    scores, y = both(name, several)
    columns = {f"p{j}": scores[:, j] for j in range(CLASSES)} if several else {"p": scores}
    frame = pd.DataFrame({**columns, "y": y, "t": np.linspace(0.1, 1.0, ROWS), "segment": segment})
    names: Any = list(columns) if several else "p"
    told = ("counted-exactly", "score-type-guessed", "classes-from-labels")

    def call(score: Any, label: str) -> Any:
        options = {key: value for key, value in QUICK.get(name, {}).items() if not isinstance(value, np.ndarray)}
        if "groups" in QUICK.get(name, {}):
            options["groups"] = QUICK[name]["groups"]
        door = made(DOORS[name]).fit if name.endswith(".fit") else DOORS[name]
        if name == "compare":
            return door(frame, {"old": score, "new": score}, label)
        if name == "crossfit":
            return door(cb.PlattScaling(), frame, score, label, cv=2)
        if name == "metrics.interval":
            return door("auc", frame, score, label, repetitions=20)
        if name == "clinical.validate_survival":
            return door(frame, score=score, time="t", event=label, **options)
        if name == "abstention.route":
            return door(frame, score=score, cheap=label, expensive=label, error=0.6)
        if name == "abstention.overconfidence":
            return door(frame, score=score, label=label, by="segment")
        if "Segment" in name:
            return door(frame, score, label, "segment")
        if "Tree" in name:
            return door(frame, score, label, ["t"])
        if "score" in inspect.signature(door).parameters:
            return door(frame, score=score, label=label, **options)
        return door(frame, score, label, **options)

    arrays = call_of(name)
    if "Tree" in name:
        arrays = lambda s, y: made(DOORS[name]).fit(s, y, features={"t": frame["t"].to_numpy()})  # noqa: E731
    one, other = answer(arrays, scores, y), answer(lambda s, y: call(names, "y"), scores, y)
    assert same(without(other, *told), without(one, *told), 1e-9), (str(other)[:300], str(one)[:300])
    with pytest.raises(InputError) as wrong:
        call(names, "yy")
    assert wrong.value.argument == "frame"
    assert "'y'" in str(wrong.value.fix)


# ------------------------------------------------------------------------------- what users found in their first hours


def problem(call: Callable[[], Any], part: str = "fix") -> tuple[str, str]:
    """The argument and the fix of a refusal, or its problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError) as caught:
            call()
    return caught.value.argument, str(getattr(caught.value, part))


def test_numbers_above_one_are_named_by_what_they_look_like() -> None:
    rng = np.random.default_rng(0)
    stars, y = rng.integers(1, 6, 300), rng.integers(0, 2, 300)
    assert problem(lambda: cb.check(2 * stars, y))[1].startswith("divide by 10")  # W5
    assert problem(lambda: cb.check(stars, y))[1].startswith("divide by 5")
    assert problem(lambda: cb.check(rng.random(300) * 80, y))[1].startswith("divide by 100")
    assert problem(lambda: cb.check(rng.random(300) * 1.2, y))[0] == "scores"
    with pytest.warns(CalibrantWarning, match="real numbers"):
        assert cb.PlattScaling().fit(rng.normal(600, 80, 300), y).provenance_.score_type == "real"
    p = rng.dirichlet([1, 1, 1], 300)
    for wrong in (p * 1.02, p * 0.9, 100 * p):  # W9
        assert problem(lambda wrong=wrong: cb.check(wrong, rng.integers(0, 3, 300)))[0] == "scores"
    for digits in (1, 2):
        verdict = cb.check(p.round(digits), rng.integers(0, 3, 300))
        assert "independent-columns-guessed" not in {each.code for each in verdict.notes}
    ten = rng.dirichlet(np.ones(10), 500)
    argument, fix = problem(lambda: cb.check(ten[:, :9], np.arange(500) % 10))  # W10
    assert (argument, "range(9)" in fix) == ("y", False)


def test_two_columns_are_one_event_from_the_fit_to_the_database() -> None:
    duckdb = pytest.importorskip("duckdb")
    scores, y = rows()
    both = np.column_stack([1.0 - scores, scores])
    fitted = cb.calibrate(both, y, candidates=["platt"], cv=2)  # tabular 2
    np.testing.assert_array_equal(fitted.transform(both)[:, 1], fitted.transform(both[:, 1]))
    np.testing.assert_array_equal(fitted.predict_proba(both)[:, 1], fitted.transform(scores))
    with pytest.warns(CalibrantWarning, match="logits"):
        logits = cb.PlattScaling().fit(np.log(both), y)
    assert logits.map_.slope == pytest.approx(cb.PlattScaling().fit(scores, y).map_.slope)
    text = fitted.to_sql("p", "duckdb")
    found = duckdb.sql(f"SELECT {text} FROM (SELECT 0.3::DOUBLE AS p)").fetchall()
    assert found[0][0] == pytest.approx(fitted.transform([0.3])[0])
    words = np.where(y == 1, "bad", "good")
    first = cb.PlattScaling().fit(both[:, ::-1], words, positive="bad")
    assert (first.provenance_.column, list(first.classes_)) == (0, ["good", "bad"])
    kept = first.calibration_
    again = type(kept).from_json(kept.to_json())
    np.testing.assert_array_equal(again.transform(both[:, ::-1])[:, 0], first.transform(scores))
    named = pd.DataFrame({"p_good": 1.0 - scores, "p_bad": scores})
    fitted = cb.PlattScaling().fit(named, words)
    np.testing.assert_array_equal(
        fitted.transform(named[["p_bad", "p_good"]])["p_bad"], fitted.transform(named)["p_bad"]
    )
    assert problem(lambda: cb.PlattScaling().fit(both * 0.7, y))[0] == "scores"
    assert cb.check(both * [0.7, 1.0], np.column_stack([y, 1 - y])).notion == "multi-label"


def test_files_and_misspelled_names(tmp_path: Any) -> None:
    scores, y = rows()
    frame = pd.DataFrame({"score": scores, "bad": y})
    frame[:80].to_parquet(tmp_path / "a.parquet")
    frame[80:].to_parquet(tmp_path / "b.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    plain = cb.check(scores, y)  # ads 1
    for path in (str(tmp_path / "*.parquet"), tmp_path / "rows.csv"):
        assert cb.check(path, "score", "bad") == plain
        assert cb.metrics.brier(path, score="score", label="bad").value == pytest.approx(
            cb.metrics.brier(scores, y).value
        )
        assert cb.PlattScaling().fit(path, score="score", label="bad").map_ == cb.PlattScaling().fit(scores, y).map_
    assert "a.parquet" in problem(lambda: cb.check(tmp_path / "aa.parquet", "score", "bad"))[1]
    assert "'score'" in problem(lambda: cb.check(frame, "scroe", "bad"))[1]  # ads 2
    assert "'postgres'" in problem(lambda: cb.PlattScaling().fit(scores, y).to_sql("p", "pg"), "problem")[1]
    for wrong in (lambda: cb.SamplingCorrection(0.01), lambda: cb.SamplingCorrection(negative_rate=0.01)):
        assert "kept_negatives=" in problem(wrong)[1]


def test_a_constant_score_is_a_finding() -> None:
    y = np.arange(400) < 301
    for value in (1.0, 0.9, 0.0):  # language models 5: all confidences 1.0
        verdict = cb.check(np.full(400, value), y)
        assert (verdict.status, verdict.only_ends, verdict.events) == ("miscalibrated", False, 301.0)
        assert "70.7 to 79.4 %" in str(verdict)
    assert cb.check([0.0, 1.0] * 20, [0, 1] * 20).only_ends


def test_fractions_are_judged_by_their_mean() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 2000)
    q = rng.binomial(2, p) / 2.0  # language models 6: partial credit
    verdict = cb.check(p, q, label_type="fraction")
    assert (verdict.rows, verdict.row_count, verdict.n_groups, verdict.events) == (2000.0, 2000.0, None, q.sum())
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    level = brentq(lambda a: float((q - expit(a + logit(p))).sum()), -1.0, 1.0)
    assert verdict.intercept.value == pytest.approx(level, abs=1e-6)
    error = np.sqrt(((q - expit(level + logit(p))) ** 2).sum()) / (p * (1 - p)).sum()
    assert verdict.intercept.se == pytest.approx(error, rel=0.05)
    change = cb.compare(p**2, p, q, label_type="fraction")
    assert change.differences[2].new == pytest.approx(np.mean(q * (1 - p) ** 2 + (1 - q) * p**2))
    assert cb.report(p, q, label_type="fraction").numbers["rows"] == 2000
    assert problem(lambda: cb.check(*matrix(), label_type="fraction"))[0] in ("label_type", "y", "scores")
    for refusal in (cb.metrics.hosmer_lemeshow, cb.metrics.spiegelhalter):
        assert problem(lambda refusal=refusal: refusal(p, q, label_type="fraction"))[0] == "label_type"


def test_log_odds_of_a_model_are_validated_as_its_risks() -> None:
    scores, y = rows()
    logits = np.log(scores / (1.0 - scores))
    with pytest.warns(CalibrantWarning) as caught:  # clinical 6
        found = cb.clinical.validate(logits, y, repetitions=20)
    assert [each.message.note.code for each in caught] == ["score-type-guessed"]
    assert same(facts(found), facts(cb.clinical.validate(scores, y, repetitions=20)), 1e-9)


def test_names_of_files_are_taken_as_they_are(tmp_path: Any) -> None:
    """A name with brackets is no pattern while there is such a file; threads share no connection."""
    from concurrent.futures import ThreadPoolExecutor

    (tmp_path / "x[1].csv").write_text("p,y\n0.2,0\n0.7,1\n0.4,0\n", encoding="utf-8")
    (tmp_path / "x1.csv").write_text("p,y\n0.9,0\n", encoding="utf-8")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cb.metrics.brier(str(tmp_path / "x[1].csv"), "p", "y").value, range(16)))
    assert set(found) == {cb.metrics.brier([0.2, 0.7, 0.4], [0, 1, 0]).value}
