"""Every map kind as an ONNX model, run by onnxruntime and by ONNX's own evaluator, against `apply`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_maps import FIFTY, SAMPLES, groups_of

from calibrant.export.kinds.scores import cut, nodes, rounded_up
from calibrant.export.onnx.model import to_onnx
from calibrant.guarantees.provenance import library_version
from calibrant.maps import (
    KINDS,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    ScoreMap,
    StepMap,
)
from calibrant.numerics import FLOAT32_ABOVE_ZERO, FLOAT32_BELOW_ONE

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

TYPES = ("float32", "float64")
EXACT = ("identity", "step", "piecewise-linear")
"""Kinds made of comparisons and of single IEEE operations, which every engine rounds alike."""

MAPS = [map_ for kind in sorted(SAMPLES.keys() - {"tree"}) for map_ in SAMPLES[kind]]  # trees: test_trees.py
every_type = pytest.mark.parametrize("dtype", TYPES)

MARKS = [
    *(0.0, 1.0, 0.5, -7.5, 40.0, 2.0**-52, 1e-3, 1 - 1e-3),
    *(2.0**-32, 1 - 2.0**-32, 2.0**-20, 1 - 2.0**-20, 1 - 2.0**-24, 1 - 2.0**-25),  # clamps, rounding to 1
    *(5e-324, 1e-310, 2.2250738585072014e-308, 2.0**-150, 2.0**-149, 1e-40, 2.0**-126),  # denormals of both types
    *(3.4028234e38, 3.5e38, 1e300, 1e301, 1.7e308),
]


def texts(map_: Map, shape: Any) -> dict[str, Any]:
    """Groups as a tensor holds them: for a missing one, any text that is not listed."""
    groups = groups_of(map_, shape) or {}
    return {name: np.where(values == None, "none", values).astype(object) for name, values in groups.items()}  # noqa: E711


@cache
def model_of(map_: Map, dtype: str) -> Any:
    """Of the samples, exported once for all tests."""
    return to_onnx(map_, dtype)


def run(model: Any, scores: Any, optimized: bool = True, groups: dict[str, Any] | None = None) -> Any:
    return answer(session_of(model, optimized), scores, groups)


def session_of(model: Any, optimized: bool = True) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def answer(session: Any, scores: Any, groups: dict[str, Any] | None = None) -> Any:
    return session.run(["calibrated"], {"score": scores, **(groups or {})})[0]


def leaves(map_: Map) -> list[Map]:
    return [leaf for part in getattr(map_, "maps", ()) for leaf in leaves(part)] or [map_]


def edges(map_: Map, dtype: str) -> Any:
    """Marks of either sign and knots of every part with both neighbors, infinities, zeros and NaN."""
    knots = [knot for part in leaves(map_) for knot in getattr(part, "knots", ())]
    with np.errstate(over="ignore", under="ignore"):
        marks = np.array([*MARKS, *(-mark for mark in MARKS), *knots]).astype(dtype)
        up, down = (np.nextafter(marks, np.array(end, dtype)) for end in (np.inf, -np.inf))
    return np.concatenate([marks, up, down, np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0], dtype)])


def crowd(dtype: str) -> Any:
    """10^5 scores: spread evenly, crowded at 0 and at 1, and outside the unit interval."""
    rng = np.random.default_rng(11)
    parts = rng.random(60_000), rng.random(15_000) ** 9, 1 - rng.random(15_000) ** 9, rng.normal(0, 20, 10_000)
    return np.concatenate(parts).astype(dtype)


def assert_equals_apply(found: Any, map_: Map, scores: Any) -> None:
    expected = map_.apply(scores, groups_of(map_, scores.shape))
    assert found.dtype == scores.dtype
    assert found.shape == scores.shape
    if map_.kind in EXACT:
        np.testing.assert_array_equal(found, expected)  # NaN at the same places; -0.0 equals 0.0
    elif scores.dtype == np.float64:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)
    else:
        # log and exp may differ in the last bit of a double: about one rounding to float32 in 10^9 falls otherwise
        np.testing.assert_array_max_ulp(found, expected, maxulp=1)
        assert np.count_nonzero((found != expected) & ~np.isnan(expected)) <= 1
    known = ~np.isnan(map_.apply(np.full(scores.shape, 0.5), groups_of(map_, scores.shape)))
    assert np.array_equal(np.isnan(found), np.isnan(scores) | ~known)


def test_the_model_gives_what_apply_gives(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for map_ in MAPS:
            with subtests.test(dtype=dtype, map_=map_):
                scores = np.concatenate([edges(map_, dtype), crowd(dtype)])
                assert_equals_apply(run(model_of(map_, dtype), scores, groups=texts(map_, scores.shape)), map_, scores)


def test_the_evaluator_of_onnx_agrees_and_so_does_a_runtime_that_optimizes_nothing(subtests: pytest.Subtests) -> None:
    from onnx.reference import ReferenceEvaluator

    for dtype in TYPES:
        for map_ in MAPS:
            with subtests.test(dtype=dtype, map_=map_):
                scores, model = edges(map_, dtype), model_of(map_, dtype)
                groups = texts(map_, scores.shape)
                assert_equals_apply(run(model, scores, optimized=False, groups=groups), map_, scores)
                with np.errstate(all="ignore"):  # NaN and infinities pass through numpy there
                    assert_equals_apply(
                        ReferenceEvaluator(model).run(None, {"score": scores, **groups})[0], map_, scores
                    )


def test_the_model_is_valid_and_made_of_core_operators(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for map_ in MAPS:
            with subtests.test(dtype=dtype, map_=map_):
                model = model_of(map_, dtype)
                onnx.checker.check_model(model, full_check=True)
                others = {(node.domain, node.op_type) for node in model.graph.node if node.domain}
                assert others == ({("ai.onnx.ml", "LabelEncoder")} if map_.columns else set())
                opsets = [("", 17), ("ai.onnx.ml", 2)][: 2 if map_.columns else 1]
                assert [(opset.domain, opset.version) for opset in model.opset_import] == opsets
                assert model.ir_version == 8
                assert (model.producer_name, model.producer_version) == ("calibrant", library_version())
                assert model.doc_string.endswith(f"kind {map_.kind}.")
                assert not model.metadata_props
                element = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE}[dtype]
                groups = [(name, onnx.TensorProto.STRING) for name in map_.columns]
                for end, values in (
                    (model.graph.input, [("score", element), *groups]),
                    (model.graph.output, [("calibrated", element)]),
                ):
                    assert [(value.name, value.type.tensor_type.elem_type) for value in end] == values


def test_the_rank_may_be_left_open_and_nothing_else_is_different(subtests: pytest.Subtests) -> None:
    for map_ in MAPS:
        with subtests.test(map_=map_):
            free, declared = to_onnx(map_, shape=None), to_onnx(map_, shape=("n", 1))
            for end in (*free.graph.input, *free.graph.output):
                assert not end.type.tensor_type.HasField("shape")
            sizes = [size.dim_param or size.dim_value for size in declared.graph.output[0].type.tensor_type.shape.dim]
            assert sizes == ["n", 1]
            assert free.graph.node == declared.graph.node
            assert free.graph.initializer == declared.graph.initializer


def test_any_shape_runs(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for map_ in MAPS:
            with subtests.test(dtype=dtype, map_=map_):
                scores = np.random.default_rng(12).random(24).astype(dtype)
                session = session_of(to_onnx(map_, dtype, shape=None))
                for shaped in (scores, scores[:, None], scores[:1].reshape(()), scores[:0], scores.reshape(2, 3, 4)):
                    assert_equals_apply(answer(session, shaped, texts(map_, shaped.shape)), map_, shaped)


def test_the_same_map_gives_the_same_bytes(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for map_ in MAPS:
            with subtests.test(dtype=dtype, map_=map_):
                twin = type(map_)(*map_.__reduce__()[1])
                first, again = (
                    model.SerializeToString(deterministic=True)
                    for model in (model_of(map_, dtype), to_onnx(twin, dtype))
                )
                assert first == again


def test_another_process_gives_the_same_bytes() -> None:
    code = """
import hashlib
from calibrant.export.onnx.model import to_onnx
from calibrant.maps import BetaMap, ComposeMap, StepMap
model = to_onnx(ComposeMap((BetaMap(1.1, 0.9, 0.2), StepMap([0.25, 0.5], [0.1, 0.3, 0.7]))))
print(hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest())
"""
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    model = to_onnx(ComposeMap((BetaMap(1.1, 0.9, 0.2), StepMap([0.25, 0.5], [0.1, 0.3, 0.7]))))
    assert there == hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


# --- tables -----------------------------------------------------------------------------------------------------------


def test_tables_of_any_length_are_searched_to_the_end(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for size in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100]:
            with subtests.test(dtype=dtype, size=size):
                rng = np.random.default_rng(size)
                knots = np.sort(rng.normal(0, 1, size))
                for map_ in (StepMap(knots, rng.random(size + 1)), PiecewiseLinearMap(knots, rng.random(size))):
                    scores = np.concatenate([edges(map_, dtype), rng.normal(0, 1.5, 500).astype(dtype)])
                    assert_equals_apply(run(to_onnx(map_, dtype), scores), map_, scores)


@every_type
def test_nodes_grow_with_the_logarithm_of_the_steps(dtype: str) -> None:
    counts = {}
    for size in (63, 127, 5_000, 5_001):
        rng = np.random.default_rng(size)
        knots = np.unique(rng.random(size))
        for map_ in (StepMap(knots, rng.random(size + 1)), PiecewiseLinearMap(knots, np.sort(rng.random(size)))):
            model = to_onnx(map_, dtype)
            counts[map_.kind, size] = len(model.graph.node)
            assert len(model.SerializeToString()) < 300_000
            if size == 5_000:
                scores = np.concatenate([edges(map_, dtype), rng.random(20_000).astype(dtype)])
                assert_equals_apply(run(model, scores), map_, scores)
    for kind in ("step", "piecewise-linear"):
        assert counts[kind, 127] == counts[kind, 63] + 4  # a level: add, gather, compare, choose
        assert counts[kind, 5_000] == counts[kind, 5_001] == counts[kind, 63] + 4 * 7  # 2^13 - 1 entries, not 2^6 - 1
    assert counts["step", 5_000] == 4 * 13 + 3


HOSTILE = {
    "knots that are one float32": StepMap([0.3 + k * 2.0**-54 for k in range(40)], np.linspace(0, 1, 41)),
    "knots beyond float32": StepMap([-1e301, -1e300, -3.5e38, 3.5e38, 1e300, 1e301], np.linspace(0, 1, 7)),
    "knots at the end of float32": StepMap([-3.4028234663852886e38, 3.4028234663852886e38], [0.1, 0.2, 0.3]),
    "negative knots": StepMap([-5.1, -0.3, -0.1, -1e-40], np.linspace(0, 1, 5)),
    "denormal knots": StepMap([-1e-40, -1e-46, -5e-324, 5e-324, 1e-46, 1e-45, 1e-40, 1e-310 + 1e-39], np.arange(9) / 8),
    "values that float32 would lose": StepMap([0.25, 0.5, 0.75], [0.0, 1e-60, 1 - 1e-12, 1.0]),
    "a line that float32 would lose": PiecewiseLinearMap([0.0, 0.5, 1.0], [1e-60, 1e-50, 1 - 1e-12]),
    "a line from 0 to 1": PiecewiseLinearMap([0.0, 1.0], [0.0, 1.0]),
    "a line that falls": PiecewiseLinearMap([0.1, 0.1 + 2.0**-56, 0.9], [1.0, 0.1, 0.3]),
    # just below the knot 0.001 the fraction is 1 already, and (0.416 - 0.0441) + 0.0441 is above 0.416
    "a line that rounding lifts": PiecewiseLinearMap([-3.0, 0.001, 1.0], [0.0441, 0.416, 0.5]),
    "a line that rounding lowers": PiecewiseLinearMap([-3.0, 0.001, 1.0], [0.8904, 0.219, 0.1]),
    "a line over nearly all floats": PiecewiseLinearMap([-1e300, 1e300], [0.0, 1.0]),
    "steps in a composition": ComposeMap((IdentityMap(), StepMap([0.3, 0.3 + 2.0**-54], [0.0, 1e-60, 1 - 1e-12]))),
    "identities in a composition": ComposeMap((IdentityMap(), IdentityMap())),
    "a constant in a composition": ComposeMap((StepMap([], [0.3]), LogitAffineMap(2.0, 0.1))),
    "a steep rise of log(1 - s)": BetaMap(1.0, 1e6, 0.0, low=1e-300, high=1 - 2.0**-53),
}


def test_hostile_maps(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        for name in HOSTILE:
            with subtests.test(dtype=dtype, name=name):
                map_ = HOSTILE[name]
                scores = np.concatenate([edges(map_, dtype), crowd(dtype)[::10]])
                assert_equals_apply(run(to_onnx(map_, dtype), scores), map_, scores)


def test_a_float32_reaches_a_knot_where_it_reaches_the_rounded_knot() -> None:
    # the nearest float32 of 0.1 is above it (0.100000001), that of 0.7 below (0.699999988): the next one is taken
    knots = np.array([-1e300, -0.7, -5e-324, 5e-324, 0.1, 0.7, 0.75, 1e300])
    rounded = rounded_up(knots)
    assert rounded.dtype == np.float32
    assert (rounded.astype(np.float64) >= knots).all()
    with np.errstate(over="ignore", under="ignore"):
        assert (np.nextafter(rounded, np.float32(-np.inf)).astype(np.float64) < knots).all()
    assert not np.signbit(rounded[2])
    assert rounded.tolist()[2:4] == [0.0, 2.0**-149]
    assert rounded[-1] == np.inf


def test_no_probability_inside_the_unit_interval_becomes_0_or_1_in_float32() -> None:
    line = PiecewiseLinearMap([0.0, 1.0, 2.0, 3.0], [0.0, 1e-60, 1 - 1e-12, 1.0])
    found = run(to_onnx(line), np.arange(4, dtype=np.float32))
    assert found.tolist() == [0.0, FLOAT32_ABOVE_ZERO, FLOAT32_BELOW_ONE, 1.0]
    steep = run(to_onnx(LogitAffineMap(50.0, 0.0)), np.array([0.0, 1.0], dtype=np.float32))
    assert 0.0 < steep[0] < steep[1] == FLOAT32_BELOW_ONE


def test_constants_are_stored_once() -> None:
    model = to_onnx(ComposeMap((LogitAffineMap(1.3, -0.4), LogitAffineMap(1.3, -0.4))))
    stored = [(array.data_type, tuple(array.dims), array.raw_data) for array in model.graph.initializer]
    assert len(set(stored)) == len(stored)


def test_a_model_with_a_shape_joins_the_model_before_it() -> None:
    first = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        before (float[n] x) => (float[n] p) { p = Sigmoid(x) }
    """)
    map_ = StepMap([0.5, 0.8], [0.1, 0.4, 0.9])
    whole = onnx.compose.merge_models(first, to_onnx(map_, shape=("n",)), io_map=[("p", "score")])
    session = ort.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.array([-1.0, 0.5, 3.0], np.float32)})  # sigmoid: 0.27, 0.62, 0.95
    assert found.tolist() == np.array([0.1, 0.4, 0.9], np.float32).tolist()


# --- groups -----------------------------------------------------------------------------------------------------------


def test_maps_of_groups_that_differ_in_two_numbers_share_their_nodes() -> None:
    few = ByGroupMap("region", FIFTY.groups[:2], FIFTY.maps[:2], IdentityMap())
    assert len(to_onnx(FIFTY).graph.node) == len(to_onnx(few).graph.node)


def test_columns_of_groups_may_be_called_nearly_anything(subtests: pytest.Subtests) -> None:
    for column in ["Add_0", "LabelEncoder_1", "constant_0", "constant_1", "größe 数", "a b"]:
        with subtests.test(column=column):
            map_ = ByGroupMap(column, ("a", "b"), (StepMap([0.5], [0.1, 0.8]), LogitAffineMap(1.2, 0.3)), None)
            scores, groups = np.array([0.2, 0.2, 0.2]), np.array(["a", "b", "c"], dtype=object)
            found = run(to_onnx(map_, "float64"), scores, groups={column: groups})
            np.testing.assert_allclose(found, map_.apply(scores, groups), rtol=1e-12)


def test_a_column_of_groups_with_the_name_of_another_end_is_refused() -> None:
    for column in ("score", "calibrated"):
        with pytest.raises(ValueError, match="which the model uses for scores: rename the column"):
            to_onnx(ByGroupMap(column, ("a",), (IdentityMap(),), None))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_every_kind_has_a_form() -> None:
    assert set(SAMPLES) == set(KINDS)
    assert set(KINDS.values()) <= set(nodes.registry)
    assert set(KINDS.values()) - {ByGroupMap, KINDS["tree"]} <= set(cut.registry)


@dataclass(frozen=True, eq=False)
class OddMap(ScoreMap):
    """A kind of nobody."""

    kind = "odd"


def test_an_unknown_kind_is_refused() -> None:
    for map_ in (OddMap(), ComposeMap((IdentityMap(), OddMap()))):
        with pytest.raises(ValueError, match="a map of kind 'odd' has no ONNX form"):
            to_onnx(map_)


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="dtype must be one of float32, float64, got 'float16'"):
        to_onnx(IdentityMap(), "float16")  # type: ignore[arg-type]


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'^an ONNX model needs the package onnx: pip install "calibrant\[onnx\]"$'):
        to_onnx(IdentityMap())
