"""What every kind of map of several classes keeps: generated over `maps.CLASS_KINDS` and a table of samples."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
from tests.cases import in_subtests
from tests.contracts.test_maps import tree_values

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export.errors import DocumentError
from calibrant.export.kinds import samples, trees
from calibrant.export.kinds.tolerance import only_copies
from calibrant.export.kinds.trees import proof_rows
from calibrant.export.languages.sql.dialects import engine_of
from calibrant.export.onnx.model import prove_model, session_of, to_onnx
from calibrant.export.sql.expressions import to_sql
from calibrant.export.sql.file import BETWEEN, prove_sql
from calibrant.maps import (
    CLASS_KINDS,
    BetaMap,
    ClassTreeMap,
    ComposeMap,
    GroupedSoftmaxMap,
    IdentityMap,
    LogitAffineMap,
    MulticlassMap,
    PerClassMap,
    PiecewiseLinearMap,
    SimplexBinsMap,
    SoftmaxMap,
    StepMap,
    TopMap,
)
from calibrant.maps.classes import LARGEST_LOGIT
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import region_count
from calibrant.maps.taxonomy import Taxonomy

RNG, RAW = np.random.default_rng(21), np.random.default_rng(22)
AB, ABC = ("a", "b"), ("größe 数", "it's", "x 3")
ODD = ("it's", 'a "quote"', "back\\slash", "größe 数 🙂", " padded ", "${x} $1 {x} %s", "a;b`c", "-- no")
TREE = Taxonomy({"animal": None, "cat": "animal", "dog": "animal", "ship": None, "bird": "animal", "owl": "bird"})


def steps(knots: int) -> StepMap:
    return StepMap(np.unique(RNG.random(knots)), RNG.random(knots + 1).round(3))


def mixed() -> tuple[Any, ...]:
    return (
        StepMap([0.1, 0.4], [0.05, 0.2, 0.9]),
        LogitAffineMap(1.3, -0.4),
        BetaMap(0.7, 1.4, 0.2),
        PiecewiseLinearMap([0.1, 0.4, 0.9], [0.2, 0.3, 0.8]),
        ComposeMap((LogitAffineMap(0.8, 0.1), StepMap([0.3, 0.6], [0.1, 0.4, 0.7]))),
        IdentityMap(),
        LogitAffineMap(3.0, -1.5, "score"),
        ComposeMap((LogitAffineMap(1.8, 0.1), StepMap([0.3], [0.1, 0.7]))),
    )


def simplex(scheme: str, size: int, classes: tuple[str, ...], on: str = "probability") -> SimplexBinsMap:
    table = RNG.dirichlet(np.ones(len(classes)), region_count(scheme, len(classes), size))
    wanted = size if scheme == "projection" else 0
    directions = RNG.normal(size=(wanted, len(classes)))
    if wanted > 1:
        directions[::2] = -np.eye(len(classes))[np.arange(len(directions[::2])) % len(classes)]
    thresholds = np.where(np.arange(wanted) % 2, 0.1, -0.6) * RNG.random(wanted).round(2)
    return SimplexBinsMap(classes, scheme, size, directions.reshape(-1), thresholds, table.reshape(-1), on)


def path(on: str = "probability") -> PathMap:
    """Leaves cat, dog (which share cuts on the leaf), ship (no cut) and owl (cuts on the node and on its ancestors)."""
    return PathMap(
        TREE.leaves,
        TREE.nodes,
        TREE.parents,
        TREE.root,
        groups=[0, 0, 1, 2],
        sizes=[2, 0, 3],
        levels=[1, 1, 0, 2, 1],
        cuts=[0.4, 0.7, 0.5, 0.35, 0.6],
        rates=[0.6, 0.3, 0.7, 0.5, 0.9, 0.8, 0.95, 0.9, 0.5, 0.2, 0.9, 0.8, 0.3, 0.9, 0.85, 0.4, 0.97, 0.9, 0.88],
        on=on,
    )


def flat_path() -> PathMap:
    tree = Taxonomy({"a": None, "b": None})
    return PathMap(
        tree.leaves, tree.nodes, tree.parents, tree.root, [1, 0], [1, 0], [0], [0.6], [0.2, 0.7, 0.5], "logit"
    )


def leaf(*p: float, classes: tuple[str, ...] = ABC, on: str = "probability") -> PerClassMap:
    return PerClassMap(classes, tuple(StepMap([], [each]) for each in p), on, False)


def tree_of_shares(on: str = "probability") -> ClassTreeMap:
    """Splits of a number, a text and the score of the last class."""
    return ClassTreeMap(
        ("age", "job"),
        [False, True],
        [3, 4, 2, -1, -1, -1, -1],
        [41.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0],
        ("", "student", "", "", "", "", ""),
        [1, 3, 5, -1, -1, -1, -1],
        [2, 4, 6, -1, -1, -1, -1],
        [True, *[False] * 6],
        (
            leaf(0.5, 0.3, 0.2, on=on),
            leaf(0.125, 0.25, 0.625, on=on),
            leaf(0.1, 0.2, 0.7, on=on),
            leaf(1.0, 0.0, 0.0, on=on),
        ),
        ABC,
        on,
    )


def tree_of_curves(on: str = "probability") -> ClassTreeMap:
    """One split by a flag, and one by the score of the first class; a softmax map or maps by class in the leaves."""
    return ClassTreeMap(
        ("it's",),
        [True],
        [3, 0, -1, -1, -1],
        [0.0, 0.5, 0.0, 0.0, 0.0],
        ('a "quote"', "", "", "", ""),
        [1, 3, -1, -1, -1],
        [2, 4, -1, -1, -1],
        [False] * 5,
        (
            SoftmaxMap(ABC, [0.7], [0.1, -2.0, 0.0], on, 2.0**-32),
            PerClassMap(ABC, (steps(4), LogitAffineMap(1.3, -0.4), BetaMap(0.7, 1.4, 0.2)), on, True),
            SoftmaxMap(ABC, [0.7, 1.4, -0.2], [], on, 1e-6),
        ),
        ABC,
        on,
    )


SAMPLES: dict[str, list[MulticlassMap]] = {
    "softmax": [
        SoftmaxMap(AB, [2.0], [], "probability", 1e-9),
        SoftmaxMap(ABC, [0.7], [], "logit", 0.5),
        SoftmaxMap(ABC, [0.7, 1.4, -0.2], [0.1, -2.0, 0.0], "probability", 2.0**-32),
        SoftmaxMap(ODD, RNG.normal(size=64), RNG.normal(size=8), "probability", 1e-6),
        SoftmaxMap(ODD, RNG.normal(size=64), [], "logit", 1e-6),
        SoftmaxMap(AB, [0.0], [], "logit", 0.1),
        SoftmaxMap(ABC, [LARGEST_LOGIT, -LARGEST_LOGIT, 1e-300], [0.0, LARGEST_LOGIT, -1.0], "logit", 0.1),
        SoftmaxMap(ABC, [30.0], [1e5, 0.0, -1e5], "probability", 1e-300),
        SoftmaxMap(ABC, [0.7, 1.4, -0.2], [0.1, -2.0, 0.0], "logit", 1e-300, True),
        SoftmaxMap(ODD, RAW.normal(size=64), RAW.normal(size=8), "logit", 1e-300, True),
        SoftmaxMap(ABC, [LARGEST_LOGIT, -LARGEST_LOGIT, 1e-300], [0.0, LARGEST_LOGIT, -1.0], "logit", 0.1, True),
        SoftmaxMap(ABC, np.ones(9) + np.eye(3).reshape(-1), [], "logit", 1e-300, True),
    ],
    "per-class": [
        PerClassMap(AB, (StepMap([0.5], [0.2, 0.6]), StepMap([], [0.3])), "probability", False),
        PerClassMap(ABC, (steps(15), steps(3), steps(40)), "probability", False),
        PerClassMap(ABC, (steps(15), steps(3), steps(40)), "probability", True),
        PerClassMap(ODD, mixed(), "probability", True),
        PerClassMap(ODD, mixed(), "logit", False),
        PerClassMap(ODD, mixed(), "logit", True),
        PerClassMap(AB, (StepMap([0.3], [0.0, 0.6]), StepMap([0.5], [0.0, 5e-324])), "probability", True),
    ],
    "top": [
        TopMap(AB, 1, (StepMap([0.7], [0.6, 0.9]),), "probability"),
        TopMap(ABC, 2, (steps(10), steps(20)), "probability"),
        TopMap(ODD, 1, tuple(steps(j) for j in range(1, 9)), "probability"),
        TopMap(ODD, 3, (mixed() * 3)[:24], "logit"),
        TopMap(ABC, 3, (LogitAffineMap(1.1, 0.2), BetaMap(1.0, 1.2, 0.1), IdentityMap()), "logit"),
    ],
    "simplex-bins": [
        simplex("projection", 6, ABC),
        simplex("projection", 0, AB),
        simplex("projection", 5, ODD, "logit"),
        simplex("sierpinski", 3, ABC),
        simplex("sierpinski", 1, ODD, "logit"),
        simplex("grid", 4, ABC),
        simplex("grid", 5, AB, "logit"),
    ],
    "path": [path(), path("logit"), flat_path()],
    "class-tree": [
        tree_of_shares(),
        tree_of_shares("logit"),
        tree_of_curves(),
        tree_of_curves("logit"),
        ClassTreeMap((), [], [-1], [0.0], ("",), [-1], [-1], [False], (leaf(0.2, 0.3, 0.5),), ABC, "probability"),
    ],
    "grouped-softmax": [
        GroupedSoftmaxMap(AB, [2.0], [], "probability", 1e-9, "it's", ("x",), [0.5], [0.0, 1.0]),
        GroupedSoftmaxMap(ABC, [0.7], [], "logit", 0.1, "site", ("1", "true"), [0.8, 1.3], RNG.normal(size=6)),
        GroupedSoftmaxMap(
            ABC,
            RNG.normal(size=9),
            [0.1, 0.2, 0.3],
            "probability",
            1e-6,
            "site",
            ("a", "größe 数", ""),
            [1.0, 0.9, 2.0],
            RNG.normal(size=9),
        ),
        GroupedSoftmaxMap(
            ODD, RNG.normal(size=8), RNG.normal(size=8), "logit", 1e-6, "g", ("a", "b"), [1.0, 0.0], RNG.normal(size=16)
        ),
    ],
}

EVERY = [pytest.param(m, id=f"{kind}-{j}") for kind in sorted(SAMPLES) for j, m in enumerate(SAMPLES[kind])]
BY_KIND = {kind: {f"{kind}-{j}": m for j, m in enumerate(SAMPLES[kind])} for kind in SAMPLES}
every_map = in_subtests("map_", BY_KIND)


@functools.cache
def rows_for(map_: MulticlassMap) -> Any:
    """Rows of every sort, without missing scores."""
    rows = proof_rows(map_).scores
    kept = rows[~np.isnan(rows).any(axis=1)]
    kept.flags.writeable = False
    return kept


def applied(map_: MulticlassMap, rows: Any) -> Any:
    """The images of rows; for a tree with columns that depend on the row alone."""
    given = np.asarray(rows)
    if not isinstance(map_, ClassTreeMap) or given.ndim != 2 or given.shape[1] != len(map_.classes):
        return map_.apply(rows)
    first = np.nan_to_num(given[:, 0], nan=0.0, posinf=0.0, neginf=0.0).clip(-1e6, 1e6)
    place = np.floor(997.0 * first).astype(np.int64)
    values = {name: tree_values(map_, name) for name in map_.columns}
    return map_.apply(rows, {name: each[place % len(each)] for name, each in values.items()})


def some_rows(map_: MulticlassMap, count: int = 50) -> Any:
    return rows_for(map_)[-count:]


def test_every_kind_has_a_sample_of_its_own_class():
    assert set(SAMPLES) == set(CLASS_KINDS)
    for kind, maps in SAMPLES.items():
        assert maps
        assert all(type(sample) is CLASS_KINDS[kind] and sample.kind == kind for sample in maps)


# ------------------------------------------------------------------------------------------------------------ documents


@every_map
def test_json_keeps_every_bit(map_):
    text = Calibration(map_).to_json()
    back = Calibration.from_json(text)
    assert back.map == map_
    assert back.to_json() == text
    rows = some_rows(map_)
    assert applied(back.map, rows).tobytes() == applied(map_, rows).tobytes()
    for field in fields(map_):
        value = getattr(map_, field.name)
        if isinstance(value, np.ndarray):
            assert getattr(back.map, field.name).tobytes() == value.tobytes()


@every_map
def test_a_document_with_a_field_that_is_wrong_is_refused_or_read(map_):
    body = json.loads(Calibration(map_).to_json())
    for name, later in [(field.name, "optional" in field.metadata) for field in fields(map_)]:
        for wrong in (None, [], "x", -1, 10**400, {"is": "step"}, [None], ["a", "a"], [1e300] * 3, True, [[1.0]]):
            broken = copy.deepcopy(body)
            broken["map"][name] = wrong
            with_wrong = json.dumps(broken)
            try:
                found = Calibration.from_json(with_wrong)
            except DocumentError:
                continue
            assert applied(found.map, some_rows(found.map, 3)).shape == (3, len(found.map.outputs))
        if later:  # documents without it have its default
            continue
        lost = {**body, "map": {k: v for k, v in body["map"].items() if k != name}}
        with pytest.raises(DocumentError):
            Calibration.from_json(json.dumps(lost))


# ----------------------------------------------------------------------------------------------------------- arithmetic


@every_map
def test_nan_in_a_row_gives_nan_in_that_row_and_in_no_other(map_):
    rows = some_rows(map_, 40)
    clean = applied(map_, rows)
    for column in range(rows.shape[1]):
        dirty = rows.copy()
        dirty[::3, column] = np.nan
        for given in (dirty, dirty.astype(np.float32)):
            found = applied(map_, given)
            assert np.isnan(found[::3]).all()
            if map_.kind != "path":  # there NaN says that it abstains
                assert not np.isnan(np.delete(found, np.s_[::3], axis=0)).any()
        np.testing.assert_array_equal(
            np.delete(applied(map_, dirty), np.s_[::3], axis=0), np.delete(clean, np.s_[::3], 0)
        )


@every_map
def test_finite_rows_have_images_in_the_unit_interval(map_):
    rows = rows_for(map_)
    if map_.on == "probability":
        rows = rows[(rows >= 0).all(axis=1) & (rows <= 1).all(axis=1)]
    found = applied(map_, rows)
    if map_.kind == "path":
        assert (np.isfinite(found).sum(axis=1) >= 1).all()
        found = found[np.isfinite(found)]
    assert ((found >= 0) & (found <= 1)).all()


@in_subtests("map_", {kind: {j: m for j, m in maps.items() if m.on == "logit"} for kind, maps in BY_KIND.items()})
def test_huge_logits_give_probabilities_without_a_warning(map_):
    size = len(map_.classes)
    rows = np.where(np.eye(size), 1.7e308, -1.7e308)
    found = applied(map_, np.concatenate([rows, -rows, np.full((1, size), 1.7e308), rows / 1e9]))
    assert ((found >= 0) & (found <= 1)).sum() >= len(found)
    assert map_.kind == "path" or not np.isnan(found).any()


@every_map
def test_float32_is_the_rounded_double(map_):
    single = some_rows(map_, 300).astype(np.float32)
    out = applied(map_, single)
    assert out.dtype == np.float32
    double = applied(map_, single.astype(np.float64))
    assert double.dtype == np.float64
    rounded = double.astype(np.float32)
    kept = ((rounded == 0) & (double > 0)) | ((rounded == 1) & (double < 1))
    np.testing.assert_array_equal(out[~kept], rounded[~kept])
    assert ((out[kept] > 0) & (out[kept] < 1)).all()


@every_map
def test_rows_are_independent_of_their_neighbors(map_):
    rows = np.resize(some_rows(map_, 300), (40_000, len(map_.classes)))
    whole = applied(map_, rows)
    assert whole.shape == (40_000, len(map_.outputs))
    for part in (slice(0, 1), slice(7, 13), slice(39_000, 40_000)):
        np.testing.assert_allclose(applied(map_, rows[part]), whole[part], rtol=1e-14)
    assert applied(map_, rows[:0]).shape == (0, len(map_.outputs))
    with pytest.raises(ValueError, match="shape"):
        applied(map_, rows[:, :1])
    with pytest.raises(ValueError, match="shape"):
        applied(map_, rows[0])


# --------------------------------------------------------------------------------------------------------------- values


def assert_frozen(map_: MulticlassMap) -> None:
    for field in fields(map_):
        with pytest.raises(FrozenInstanceError):
            setattr(map_, field.name, 0.5)
        value = getattr(map_, field.name)
        if isinstance(value, np.ndarray) and len(value):
            with pytest.raises(ValueError, match="read-only"):
                value[0] = 0.5


@every_map
def test_the_callers_array_is_never_written_to(map_):
    rows = some_rows(map_).copy()
    rows.flags.writeable = False
    assert not np.shares_memory(applied(map_, rows), rows)
    assert rows.tobytes() == some_rows(map_).tobytes()


COPIES: dict[str, Callable[[MulticlassMap], MulticlassMap]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda map_: pickle.loads(pickle.dumps(map_)),
    "rebuild": replace,
}


@every_map
def test_it_and_its_copies_are_equal_and_frozen(map_):
    image = applied(map_, some_rows(map_)).tobytes()
    assert_frozen(map_)
    for way, copied in COPIES.items():
        twin = copied(map_)
        assert twin == map_, way
        assert hash(twin) == hash(map_), way
        assert applied(twin, some_rows(map_)).tobytes() == image, way
        assert_frozen(twin)


def test_different_maps_are_different_and_print_one_line():
    every = [sample for samples in SAMPLES.values() for sample in samples]
    assert len(set(every)) == len(every)
    for i, a in enumerate(every):
        assert [j for j, b in enumerate(every) if a == b] == [i]
        assert repr(a).startswith(type(a).__name__)
        assert "\n" not in repr(a)
        assert len(repr(a)) < 200


def one_leaf(**wrong: Any) -> tuple[Any, ...]:
    """The parts of a tree of one leaf, some of them wrong."""
    tree = SAMPLES["class-tree"][-1]
    return tuple(wrong.get(each.name, getattr(tree, each.name)) for each in fields(tree))


INVALID: list[tuple[type[MulticlassMap], tuple[Any, ...]]] = [
    (SoftmaxMap, (("a",), [1.0], [], "logit", 0.1)),
    (SoftmaxMap, (("a", "a"), [1.0], [], "logit", 0.1)),
    (SoftmaxMap, (("a", ""), [1.0], [], "logit", 0.1)),
    (SoftmaxMap, (("a", "b\0"), [1.0], [], "logit", 0.1)),
    (SoftmaxMap, (("a", 3), [1.0], [], "logit", 0.1)),
    (SoftmaxMap, (AB, [1.0], [], "odds", 0.1)),
    (SoftmaxMap, (AB, [1.0], [], "logit", 0.0)),
    (SoftmaxMap, (AB, [1.0], [], "logit", np.nan)),
    (SoftmaxMap, (AB, [1.0, 2.0, 3.0], [], "logit", 0.1)),
    (SoftmaxMap, (AB, [1.0], [0.0], "logit", 0.1)),
    (SoftmaxMap, (AB, [np.nan], [], "logit", 0.1)),
    (SoftmaxMap, (AB, [2 * LARGEST_LOGIT], [], "logit", 0.1)),
    (SoftmaxMap, (AB, [1.0], [], "probability", 0.1, True)),
    (SoftmaxMap, (AB, [1.0], [], "logit", 0.1, 1)),
    (PerClassMap, (AB, (IdentityMap(),), "probability", False)),
    (PerClassMap, (AB, (IdentityMap(), 0.5), "probability", False)),
    (PerClassMap, (AB, (IdentityMap(), IdentityMap()), "probability", 1)),
    (PerClassMap, (AB, (IdentityMap(), SAMPLES["softmax"][0]), "probability", False)),
    (TopMap, (AB, 0, (), "probability")),
    (TopMap, (AB, 3, (IdentityMap(),) * 3, "probability")),
    (TopMap, (AB, 1, (IdentityMap(),) * 3, "probability")),
    *(
        (ClassTreeMap, one_leaf(**wrong))
        for wrong in (
            {"maps": (IdentityMap(),)},
            {"maps": ()},
            {"maps": (leaf(0.5, 0.5, classes=AB),)},
            {"on": "logit"},
            {"on": "odds"},
            {"classes": AB},
            {"columns_split": [0]},
            {"columns_split": [3]},
            {"names": ("age",), "text": [False]},
            {"maps": (TopMap(ABC, 1, (IdentityMap(),), "probability"),)},
        )
    ),
]


def test_numbers_that_make_no_map_are_refused(subtests):
    for cls, arguments in INVALID:
        with subtests.test(cls.__name__, arguments=arguments), pytest.raises(ValueError, match=r"\w"):
            cls(*arguments)


# -------------------------------------------------------------------------------------------------------------- exports


@pytest.fixture
def fewer_rows(monkeypatch, full_size):
    if not full_size:
        monkeypatch.setattr(samples, "RANDOM_ROWS", 1_000)
        monkeypatch.setattr(trees, "RANDOM_CLASS_ROWS", 1_500)


def proves(map_: MulticlassMap, connection: Any, dialect: str) -> None:
    columns = [f"s{j}" for j in range(len(map_.classes))]
    bounded = map_.on == "probability"
    text = BETWEEN.join(to_sql(map_, columns, dialect, bounded=bounded).values())
    proof = prove_sql(map_, text, columns, engine_of(connection), bounded=bounded)
    assert proof.scores > 1_000
    if only_copies(map_):
        assert proof.equal == proof.scores


@every_map
@pytest.mark.usefixtures("fewer_rows")
def test_sqlite_gives_what_apply_gives(map_):
    with closing(sqlite3.connect(":memory:")) as connection:
        proves(map_, connection, "sqlite")


@pytest.mark.engine
@every_map
@pytest.mark.usefixtures("fewer_rows")
def test_duckdb_gives_what_apply_gives(map_):
    with closing(pytest.importorskip("duckdb").connect()) as connection:
        proves(map_, connection, "duckdb")


@every_map
@pytest.mark.usefixtures("fewer_rows")
def test_onnx_gives_what_apply_gives(map_):
    onnx = pytest.importorskip("onnx")
    for dtype in ("float32", "float64"):
        bounded = map_.on == "probability"
        model = to_onnx(map_, dtype, bounded=bounded)
        onnx.checker.check_model(model, full_check=True)
        proof = prove_model(map_, session_of(model.SerializeToString()), bounded=bounded)
        assert proof.scores > 1_000
        if only_copies(map_):
            assert proof.equal == proof.scores
        again = to_onnx(map_, dtype, bounded=bounded)
        assert again.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_exports_are_the_same_objects_on_calibration_and_facade():
    assert set(cb.Calibration(SAMPLES["top"][0]).to_sql()) == {"top 1", "top 1 label"}
