"""What every kind of map keeps: generated over `maps.KINDS` and a table of samples."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from tests.cases import in_subtests

from calibrant.calibration import Calibration
from calibrant.export.documents import MAX_DEPTH
from calibrant.maps import (
    CLASS_KINDS,
    KINDS,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
    TreeMap,
)
from calibrant.maps.trees import TreeNodes

LADDER = np.cumsum(np.random.default_rng(0).random(1000)) / 600  # a thousand knots, some above 1

LONG = np.unique(np.random.default_rng(7).random(5000) ** 3)  # crowded at 0, as the scores of rare events are
NARROW = PiecewiseLinearMap([0.1, 0.1 + 1e-12, *np.linspace(0.2, 1.0, 40)], np.linspace(0.05, 0.95, 42))

ODD_NAMES = (
    "it's",
    'a "quote"',
    "back\\slash",
    "größe 数 🙂",
    "",
    "${env:HOME} $1 {x} %s",
    "a;b`c",
    " padded ",
    "A",
    "a",
)
BY_NUMBER = ByGroupMap(
    "branch", (3, 12.0, -7, np.int64(0)), tuple(LogitAffineMap(1.0, j / 4) for j in range(4)), BetaMap(0.8, 1.1, 0.0)
)
FIFTY = ByGroupMap(
    "region",
    tuple(f"region {j}" for j in range(50)),
    tuple(LogitAffineMap(0.5 + j / 50, (j - 25) / 20) for j in range(50)),
    IdentityMap(),
)

SHARP = ByGroupMap("p", ("a", "b"), (StepMap([0.4], [0.2, 0.6]), IdentityMap()), None)

SAMPLES: dict[str, list[Map]] = {
    "identity": [IdentityMap()],
    "step": [
        StepMap([0.5], [0.1, 0.8]),
        StepMap([], [0.3]),
        StepMap([-1e300, -5e-324, 0.0, 5e-324, 1e300], [0.0, 0.2, 0.1, 0.5, 1.0, 0.9]),
        StepMap([0.25 + k * 2.0**-54 for k in range(9)], np.linspace(0, 1, 10)),
        StepMap(LADDER, np.random.default_rng(1).random(1001)),
        StepMap(LONG, np.random.default_rng(6).random(5001)),
    ],
    "piecewise-linear": [
        PiecewiseLinearMap([0.0, 1.0], [0.2, 0.6]),
        PiecewiseLinearMap([0.3], [0.4]),
        PiecewiseLinearMap([-3.0, 0.0, 5e-324, 2.0], [0.9, 0.1, 0.2, 0.0]),
        PiecewiseLinearMap(LADDER, np.sort(np.random.default_rng(2).random(1000))),
        PiecewiseLinearMap([0.0, 0.5, 1.0], [0.0, 1e-5, 0.9]),
        PiecewiseLinearMap([-1e300, 0.0, 1e-310, 1e300], [0.0, 1e-5, 2e-5, 0.9]),
        PiecewiseLinearMap([0.1, 0.2, 0.3], [0.5, 0.5, 0.5 + 2.0**-53]),
    ],
    "logit-affine": [
        LogitAffineMap(1.0, 0.0),
        LogitAffineMap(0.1 + 0.2, -1e-300, "score"),
        LogitAffineMap(-2.5, 3.0, low=2.0**-20, high=0.975),
        LogitAffineMap(0.05, -0.5, low=1e-300, high=1 - 2.0**-53),
        LogitAffineMap(0.0, 1.0, "score"),
        LogitAffineMap(1e300, -1e300),
        LogitAffineMap(1e300, 7.0, "score"),
        LogitAffineMap(-1e300, 1e300, "score"),
        LogitAffineMap(5e-324, 0.5, "score"),
        LogitAffineMap(-900.0, 1e6),
    ],
    "beta": [
        BetaMap(1.0, 1.0, 0.0),
        BetaMap(0.3, 2.0, -0.7, low=1e-3, high=0.975),
        BetaMap(0.05, 0.4, 0.1, low=1e-300, high=1 - 2.0**-53),
        BetaMap(0.02, 1e6, 3.0, low=1e-300, high=1 - 2.0**-53),
        BetaMap(0.0, 0.0, 5.0),
        BetaMap(1e300, 0.0, 0.0),
        BetaMap(2.0, -3.0, 4.1),
        BetaMap(1e6, 1e6, 3.0),
        BetaMap(1e-300, -1e-305, 0.5),
    ],
    "by-group": [
        ByGroupMap("group", ("a",), (StepMap([0.5], [0.1, 0.8]),), IdentityMap()),
        ByGroupMap("g", ODD_NAMES, tuple(LogitAffineMap(1.0 + j / 10, -j / 5) for j in range(len(ODD_NAMES))), None),
        BY_NUMBER,
        ByGroupMap(
            "no default", ("x", "y"), (BetaMap(2.0, -3.0, 4.1), PiecewiseLinearMap([0.0, 0.3], [0.1, 0.9])), None
        ),
        ByGroupMap(
            "source",
            ("curve then step", "long", "lines"),
            (
                ComposeMap((LogitAffineMap(-1.3, 0.4), StepMap([0.2, 0.6], [0.3, 0.1, 0.9]))),
                StepMap(LADDER[:400], np.random.default_rng(10).random(401)),
                PiecewiseLinearMap(LADDER[:150], np.sort(np.random.default_rng(11).random(150))),
            ),
            LogitAffineMap(0.7, 0.1),
        ),
        ByGroupMap(
            "on the score", ("1", "2"), (LogitAffineMap(3.0, -1.0, "score"), LogitAffineMap(0.0, 1.0, "score")), None
        ),
        ByGroupMap(
            "slopes",
            ("0", "1", "2"),
            (LogitAffineMap(0.0, 0.3), LogitAffineMap(1e300, 0.0), LogitAffineMap(1e-300, 5.0)),
            LogitAffineMap(1.0, 0.1),
        ),
        ByGroupMap(
            "own ends each",
            ("0", "1"),
            (LogitAffineMap(1.1, 0.3), LogitAffineMap(1.2, 0.0, low=1e-3, high=0.975)),
            IdentityMap(),
        ),
    ],
    "compose": [
        ComposeMap((PiecewiseLinearMap(np.linspace(0.01, 0.99, 40), np.linspace(0.1, 0.95, 40) ** 2), FIFTY)),
        ComposeMap((BetaMap(0.9, 1.2, 0.1), FIFTY, BY_NUMBER)),
        ComposeMap((SHARP, LogitAffineMap(0.8, 0.2), SHARP)),
        ComposeMap((LogitAffineMap(0.5, 0.1), StepMap([0.5], [0.25, 0.75]))),
        ComposeMap((ComposeMap((ComposeMap((BetaMap(1.1, 0.9, 0.2),)), IdentityMap())), LogitAffineMap(2.0, 0.0))),
        ComposeMap((LogitAffineMap(-1.3, 0.4), StepMap(LADDER[:300], np.random.default_rng(8).random(301)))),
        ComposeMap((BetaMap(2.0, -3.0, 4.1), StepMap([0.2, 0.4, 0.6], [0.1, 0.5, 0.3, 0.9]))),
        ComposeMap((StepMap([0.5], [0.2, 0.7]), BetaMap(1.0, 2.0, 0.3))),
        ComposeMap((LogitAffineMap(1.3, -0.4), PiecewiseLinearMap([0.01, 0.4, 0.99], [0.01, 0.5, 0.98]))),
        ComposeMap((PiecewiseLinearMap(LADDER[:500], np.sort(np.random.default_rng(9).random(500))),) * 2),
        ComposeMap((IdentityMap(), StepMap([0.5], [0.1, 0.8]))),
        ComposeMap((PiecewiseLinearMap(LADDER[:450], np.linspace(0.0, 1.0, 450)), LogitAffineMap(1.3, -0.4))),
        ComposeMap((BetaMap(-1.0, 1.0, 0.0), IdentityMap(), StepMap([0.9], [0.1, 0.8]))),
        ComposeMap((BetaMap(-1.0, 1.0, 0.0), LogitAffineMap(1.5, 0.1), StepMap([0.9], [0.1, 0.8]))),
        ComposeMap((NARROW, PiecewiseLinearMap(np.linspace(0, 1, 50), np.linspace(0.1, 0.9, 50) ** 2))),
    ],
    "tree": [
        TreeMap(
            ("age", "job"),
            [False, True],
            [1, 2, -1, 1, -1, -1, -1],
            [41.0, 0.0, 0.0, 65.5, 0.0, 0.0, 0.0],
            ("", "student", "", "", "", "", ""),
            [1, 3, -1, 5, -1, -1, -1],
            [2, 4, -1, 6, -1, -1, -1],
            [True, False, False, False, False, False, False],
            tuple(StepMap([], [rate]) for rate in (0.45, 0.3, 0.05, 0.125)),
        ),
        TreeMap(
            ("level", "x"),
            [True, False],
            [0, 1, 1, -1, 2, -1, -1, -1, -1],
            [0.25, 0.0, 0.0, 0.0, -1e-300, 0.0, 0.0, 0.0, 0.0],
            ("", "it's", 'a "quote"', *[""] * 6),
            [1, 3, 5, -1, 7, -1, -1, -1, -1],
            [2, 4, 6, -1, 8, -1, -1, -1, -1],
            [False, True, False, False, True, False, False, False, False],
            (
                LogitAffineMap(0.8, 0.1),
                StepMap([0.5], [0.2, 0.6]),
                BetaMap(1.1, 0.9, 0.2),
                ComposeMap((LogitAffineMap(1.3, -0.4), PiecewiseLinearMap([0.01, 0.99], [0.01, 0.98]))),
                PiecewiseLinearMap([0.0, 1.0], [0.2, 0.6]),
            ),
        ),
        TreeMap((), [], [-1], [0.0], ("",), [-1], [-1], [False], (LogitAffineMap(0.9, 0.1),)),
    ],
}

EVERY = [pytest.param(m, id=f"{kind}-{j}") for kind in sorted(SAMPLES) for j, m in enumerate(SAMPLES[kind])]
every_map = in_subtests("map_", {kind: {f"{kind}-{j}": m for j, m in enumerate(SAMPLES[kind])} for kind in SAMPLES})

SCORES = np.concatenate(
    [
        np.random.default_rng(3).random(200),
        [0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.0**-32, 0.5, 1 - 2.0**-53, 1.0, -7.5, 40.0, 1e300, -1e300],
    ]
)


def groups_of(map_: Map, size: int | tuple[int, ...]) -> dict[str, Any] | None:
    """Rows in every group of every column in turn, in groups that are not listed, and without a group."""
    if not map_.columns:
        return None
    by_column: dict[str, Any] = {}
    for place, name in enumerate(map_.columns):
        if isinstance(map_, TreeMap):
            by_column[name] = np.resize(np.roll(tree_values(map_, name), place), size)
            continue
        stages = [part for part in getattr(map_, "maps", ()) if getattr(part, "by", None) == name] or [map_]
        listed = [group for stage in stages for group in stage.groups]
        names = np.array([*dict.fromkeys(listed), None, "never listed"], dtype=object)
        by_column[name] = np.resize(np.roll(names, place), size)
    return by_column


def tree_values(tree: TreeNodes, name: str) -> np.ndarray:
    """Values of a column at and beside every threshold, or at every level, and missing ones."""
    split = tree.splits(name)
    if name in tree.numbers:
        cuts = tree.thresholds[split]
        return np.concatenate([cuts, np.nextafter(cuts, np.inf), [np.nan, -np.inf, np.inf]])
    levels = [tree.levels[node] for node in split]
    return np.array([*levels, None, "never listed"], dtype=object)


def applied(map_: Map, scores: Any) -> Any:
    return map_.apply(scores, groups_of(map_, np.shape(scores)))


def known(map_: Map, size: int) -> Any:
    """Rows for which the map knows a probability."""
    return ~np.isnan(applied(map_, np.full(size, 0.3)))


def test_every_kind_has_a_sample_of_its_own_class():
    assert set(SAMPLES) == set(KINDS)
    for kind, samples in SAMPLES.items():
        assert samples
        assert all(type(sample) is KINDS[kind] and sample.kind == kind for sample in samples)


def test_every_kind_of_the_package_is_listed():
    def below(cls: type) -> set[type]:
        return {cls}.union(*(below(sub) for sub in cls.__subclasses__()))

    concrete = {cls for cls in below(Map) if "kind" in vars(cls) and cls.__module__.startswith("calibrant.maps.")}
    assert concrete == {*KINDS.values(), *CLASS_KINDS.values()}


def bits(map_: Map) -> list[Any]:
    return [
        bits(p) if isinstance(p, Map) else np.asarray(p).tobytes() for f in fields(map_) for p in parts(map_, f.name)
    ]


def parts(map_: Map, name: str) -> tuple[Any, ...]:
    value = getattr(map_, name)
    return value if isinstance(value, tuple) else (value,)


@every_map
def test_json_keeps_every_bit(map_):
    text = Calibration(map_).to_json()
    back = Calibration.from_json(text)
    assert back.map == map_
    assert bits(back.map) == bits(map_)
    assert back.to_json() == text
    assert applied(back.map, SCORES).tobytes() == applied(map_, SCORES).tobytes()
    assert Calibration.from_json(text.encode()).map == map_


def some(groups: dict[str, Any] | None, rows: Any) -> dict[str, Any] | None:
    return None if groups is None else {name: rows(values) for name, values in groups.items()}


@every_map
def test_shape_in_is_shape_out(map_):
    scores, groups = SCORES[:12], groups_of(map_, 12)
    flat = map_.apply(scores, groups)
    assert flat.dtype == np.float64
    for shape in (
        lambda a: a.reshape(3, 4),
        lambda a: a.reshape(3, 4).T,
        lambda a: a[::2],
        lambda a: a.tolist(),
        lambda a: a[0],
        lambda a: np.array(a[0]),
        lambda a: a[:0].reshape(0, 3),
    ):
        found = map_.apply(shape(scores), some(groups, shape))
        assert found.shape == np.shape(shape(scores))
        np.testing.assert_array_equal(found, shape(flat))
    for empty in ([], np.zeros((0, 3)), np.zeros(0, dtype=np.float32)):
        assert applied(map_, empty).shape == np.shape(empty)
    np.testing.assert_array_equal(applied(map_, [0, 1]), applied(map_, [0.0, 1.0]))
    np.testing.assert_array_equal(applied(map_, [False, True]), applied(map_, [0.0, 1.0]))


@every_map
def test_long_arrays_are_cut_into_chunks_without_a_seam(map_):
    scores = np.random.default_rng(4).random((1 << 15) + 3)
    groups = groups_of(map_, len(scores))
    whole = map_.apply(scores, groups)
    for part in (slice(0, 7), slice((1 << 15) - 2, (1 << 15) + 3)):
        np.testing.assert_array_equal(whole[part], map_.apply(scores[part], some(groups, lambda a, p=part: a[p])))


@every_map
def test_nan_gives_nan_and_nothing_else_does(map_):
    dirty = np.resize([np.nan, 0.3, -np.nan, 0.7, np.nan], 65)
    missing = np.isnan(dirty) | ~known(map_, 65)
    assert (~missing).any()
    for scores in (dirty, dirty.astype(np.float32)):
        np.testing.assert_array_equal(np.isnan(applied(map_, scores)), missing)
    clean = np.where(np.isnan(dirty), 0.5, dirty)
    np.testing.assert_array_equal(applied(map_, dirty)[~missing], applied(map_, clean)[~missing])
    assert np.isnan(applied(map_, np.nan))


EXTREME = np.concatenate([SCORES, [np.inf, -np.inf, 1.7e308, -1.7e308]])


def test_the_identity_keeps_every_score():
    np.testing.assert_array_equal(IdentityMap().apply(EXTREME), EXTREME)


@every_map
def test_every_other_score_has_an_image_in_the_unit_interval(map_):
    out = applied(map_, EXTREME)
    # through an identity a score keeps its value
    inside = known(map_, len(EXTREME)) & (((EXTREME >= 0) & (EXTREME <= 1)) | ("IdentityMap" not in repr(map_)))
    assert ((out >= 0) & (out <= 1))[inside].all()
    np.testing.assert_array_equal(applied(map_, [0.0]), applied(map_, [-0.0]))


@every_map
def test_float32_is_the_rounded_double(map_):
    single = np.random.default_rng(5).random(300).astype(np.float32)
    out = applied(map_, single)
    assert out.dtype == np.float32
    double = applied(map_, single.astype(np.float64))
    rounded = double.astype(np.float32)
    kept = ((rounded == 0) & (double > 0)) | ((rounded == 1) & (double < 1))
    np.testing.assert_array_equal(out[~kept], rounded[~kept])
    assert ((out[kept] > 0) & (out[kept] < 1)).all()


@every_map
def test_the_callers_array_is_never_written_to(map_):
    scores, groups = SCORES.copy(), groups_of(map_, SCORES.shape)
    scores.flags.writeable = False
    map_.apply(scores, groups)
    assert not np.shares_memory(map_.apply(scores, groups), scores)
    assert scores.tobytes() == SCORES.tobytes()


def assert_frozen(map_: Map) -> None:
    for field in fields(map_):
        with pytest.raises(FrozenInstanceError):
            setattr(map_, field.name, 0.5)
        value = getattr(map_, field.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0.5
    with pytest.raises((FrozenInstanceError, TypeError)):
        map_.kind = "other"


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda map_: pickle.loads(pickle.dumps(map_)),
    "rebuild": lambda map_: type(map_)(*(getattr(map_, field.name) for field in fields(map_))),
    "from lists": lambda map_: type(map_)(
        *(v.tolist() if isinstance(v := getattr(map_, f.name), np.ndarray) else v for f in fields(map_))
    ),
}


@every_map
def test_it_and_its_copies_are_equal_and_frozen(map_):
    image = applied(map_, SCORES).tobytes()  # fills whatever is cached
    assert_frozen(map_)
    for way, copied in COPIES.items():
        twin = copied(map_)
        assert twin == map_, way
        assert hash(twin) == hash(map_), way
        assert applied(twin, SCORES).tobytes() == image, way
        assert_frozen(twin)


def test_different_maps_are_different():
    every = [sample for samples in SAMPLES.values() for sample in samples]
    assert len(set(every)) == len(every)
    for i, a in enumerate(every):
        assert [j for j, b in enumerate(every) if a == b] == [i]
        assert a != applied(a, [0.5])[0]
    assert StepMap([0.5], [0.1, 0.8]) != StepMap([np.nextafter(0.5, 1)], [0.1, 0.8])


def test_arrays_given_to_a_map_are_copied():
    knots, values = np.array([0.5]), np.array([0.1, 0.8])
    map_ = StepMap(knots, values)
    knots[0] = values[0] = 0.9
    assert map_ == StepMap([0.5], [0.1, 0.8])
    assert knots.flags.writeable


@every_map
def test_it_prints_itself_on_one_line(map_):
    text = repr(map_)
    assert text.startswith(type(map_).__name__)
    assert "\n" not in text
    assert len(text) < 400


INVALID: list[tuple[type[Map], tuple[Any, ...]]] = [
    (StepMap, ([0.5], [0.1])),
    (StepMap, ([0.5], [0.1, 0.2, 0.3])),
    (StepMap, ([], [])),
    (StepMap, ([0.5, 0.5], [0.1, 0.2, 0.3])),
    (StepMap, ([0.6, 0.5], [0.1, 0.2, 0.3])),
    (StepMap, ([-0.0, 0.0], [0.1, 0.2, 0.3])),
    (StepMap, ([np.nan], [0.1, 0.2])),
    (StepMap, ([np.inf], [0.1, 0.2])),
    (StepMap, ([0.5], [0.1, 1.1])),
    (StepMap, ([0.5], [-0.1, 0.9])),
    (StepMap, ([0.5], [0.1, np.nan])),
    (StepMap, ([[0.5]], [0.1, 0.2])),
    (StepMap, (["a"], [0.1, 0.2])),
    (StepMap, (None, [0.1, 0.2])),
    (PiecewiseLinearMap, ([], [])),
    (PiecewiseLinearMap, ([0.1, 0.2], [0.3])),
    (PiecewiseLinearMap, ([0.2, 0.1], [0.3, 0.4])),
    (PiecewiseLinearMap, ([0.1, 0.2], [0.3, 1.4])),
    (PiecewiseLinearMap, ([0.1, np.inf], [0.3, 0.4])),
    (LogitAffineMap, (np.nan, 0.0)),
    (LogitAffineMap, (1.0, np.inf)),
    (LogitAffineMap, ("a", 0.0)),
    (LogitAffineMap, (1.0, 0.0, "odds")),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 0.0)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 1.0)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 1e-310)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", np.nan)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 1e-3, 1.0)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 0.5, 0.5)),
    (LogitAffineMap, (1.0, 0.0, "log-odds", 1e-3, np.nan)),
    (BetaMap, (np.inf, 1.0, 0.0)),
    (BetaMap, (1.0, np.nan, 0.0)),
    (BetaMap, (1.0, 1.0, 0.0, -1.0)),
    (BetaMap, (1.0, 1.0, 0.0, 1e-3, 1.5)),
    (ByGroupMap, ("g", (), (), None)),
    (ByGroupMap, ("g", ("a", "a"), (IdentityMap(), IdentityMap()), None)),
    (ByGroupMap, ("g", (1, "1"), (IdentityMap(), IdentityMap()), None)),
    (ByGroupMap, ("g", ("a", "b"), (IdentityMap(),), None)),
    (ByGroupMap, ("g", ("a",), (0.5,), None)),
    (ByGroupMap, ("g", ("a",), (IdentityMap(),), 0.5)),
    (ByGroupMap, ("g", ("a",), (FIFTY,), None)),
    (ByGroupMap, ("g", ("a",), (ComposeMap((IdentityMap(), FIFTY)),), None)),
    (ByGroupMap, ("g", ("a",), (IdentityMap(),), FIFTY)),
    (ByGroupMap, ("g", (None,), (IdentityMap(),), None)),
    (ByGroupMap, ("g", (0.5,), (IdentityMap(),), None)),
    (ByGroupMap, ("g", (b"a",), (IdentityMap(),), None)),
    (ByGroupMap, ("g", ("a\0b",), (IdentityMap(),), None)),
    (ByGroupMap, ("g", ("a\ud800",), (IdentityMap(),), None)),
    (ByGroupMap, ("g", ("a" * 1_001,), (IdentityMap(),), None)),
    (ByGroupMap, ("", ("a",), (IdentityMap(),), None)),
    (ByGroupMap, (3, ("a",), (IdentityMap(),), None)),
    (ComposeMap, ((),)),
    (ComposeMap, ((0.5,),)),
    (ComposeMap, (("identity",),)),
]


def test_numbers_that_make_no_map_are_refused(subtests):
    for cls, arguments in INVALID:
        with subtests.test(cls.__name__, arguments=arguments), pytest.raises(ValueError, match=r"\w"):
            cls(*arguments)


def test_what_is_saved_can_be_loaded_however_deep():
    inner = LogitAffineMap(0.9, 0.1)
    map_: Map = inner
    for _ in range(MAX_DEPTH + 5):
        map_ = ComposeMap((map_,))
        assert Calibration.from_json(Calibration(map_).to_json()).map == map_
    assert map_.apply(SCORES).tobytes() == inner.apply(SCORES).tobytes()


@pytest.mark.parametrize("cls", [StepMap, PiecewiseLinearMap])
def test_knots_may_span_nearly_all_floats(cls):
    values = [0.0, 0.5, 1.0][: 3 if cls is StepMap else 2]
    out = cls([-1e300, 1e300], values).apply([-np.inf, -1.7e308, -1e300, 0.0, 1e300, 1.7e308, np.inf])
    assert (np.diff(out) >= 0).all()
    assert ((out >= 0) & (out <= 1)).all()
    with pytest.raises(ValueError, match="knots"):
        cls([-1.7e308, 1.7e308], values)
