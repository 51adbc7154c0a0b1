"""What every calibrator keeps, whatever its method: generated over all classes and a table of their options."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.cases import in_subtests

import calibrant.calibrators
from calibrant.calibration import Calibration, load
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.binary.scaling import BetaScaling
from calibrant.calibrators.segments import SegmentCalibrator
from calibrant.calibrators.trees import TreeCalibrator
from calibrant.guarantees.certificate import About, Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import Sampling
from calibrant.maps import BetaMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid, expit
from calibrant.tallies import Tally

# ---------------------------------------------------------------------------------------------------------------------
# The list of members, and the table of their options
# ---------------------------------------------------------------------------------------------------------------------


# Fitted to segments or features beside scores and labels, so with tests of their own: tests/unit/test_segments.py and
# tests/unit/test_tree_calibrators.py.
NEED_COLUMNS = (SegmentCalibrator, TreeCalibrator)


def _calibrators() -> list[type[BinaryCalibrator]]:
    package = calibrant.calibrators
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    found, waiting = [], [BinaryCalibrator]
    while waiting:
        below = [cls for cls in waiting.pop().__subclasses__() if cls.__module__.startswith(package.__name__)]
        found += below
        waiting += below
    return sorted({cls for cls in found if not issubclass(cls, NEED_COLUMNS)}, key=lambda cls: cls.__name__)


def sample(n: int = 400, seed: int = 0, *, decimals: int | None = 2) -> tuple[np.ndarray, np.ndarray]:
    """Scores, tied when rounded, and labels that follow their square."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    if decimals is not None:
        scores = scores.round(decimals)
    return scores, (rng.random(n) < scores**2).astype(np.int64)


YESTERDAY = Tally.from_arrays(*sample(500, seed=99, decimals=None), grid=Grid())

# Every option away from its default at least once, which `test_the_table_is_complete` checks. A calibrator that is not
# listed is tested with its default options.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "AutoCalibrator": [
        {},
        {"candidates": ["platt", "isotonic"], "loss": "brier", "cv": 3, "random_state": 1, "clamp": 0.03},
        {"guarantee": (0.5, 0.1), "look": 2},
    ],
    "BayesianBinning": [{}, {"spread": 3.0}, {"prior_rows": 20}],
    "BetaScaling": [
        {},
        {"variant": "am"},
        {"variant": "ab"},
        {"soft_targets": True},
        {"limits": True},
        {"clamp": 0.03},
    ],
    "BinwiseShift": [{}, {"n_bins": 4}],
    "HistogramBinning": [
        {},
        {"n_bins": 7},
        {"points_per_bin": 40},
        {"epsilon": 0.3, "alpha": 0.2},
        {"n_bins": 6, "strategy": "width"},
        {"points_per_bin": 60, "bins_from": "all"},
        {"bins_from": "split", "random_state": 0},
        {"bins_from": "split", "split_size": 0.3, "random_state": 5},
        {"bins_from": "split", "split_size": 100, "n_bins": 3, "random_state": 1},
        {"bins_from": YESTERDAY, "n_bins": 8},
        {"n_bins": 5, "estimate": "all"},
        {"n_bins": 20, "extremes": "mean"},
    ],
    "IsotonicBinning": [{"random_state": 0}, {"min_rows": 20, "split_size": 0.3, "random_state": 1}],
    "IsotonicCalibrator": [
        {},
        {"step": True},
        {"centered": True},
        {"shrink_ends": False},
        {"step": True, "shrink_ends": False},
    ],
    "LogitShift": [{}, {"soft_targets": True}, {"limits": True}, {"clamp": 0.03}],
    "PlattScaling": [
        {},
        {"on": "score"},
        {"soft_targets": True},
        {"increasing": False},
        {"limits": True},
        {"loss": "square"},
        {"clamp": 0.03},
    ],
    "ScalingBinning": [
        {},
        {"n_bins": 4},
        {"scaling": BetaScaling()},
        {"split_size": 0.5, "random_state": 0},
        {"outcomes": True, "random_state": 0},
        {"outcomes": True, "n_bins": 3, "split_size": 100, "random_state": 1},
    ],
    "SplineCalibrator": [
        {},
        {"n_knots": 8},
        {"penalty": 0.5},
        {"penalty": float("inf")},
        {"soft_targets": True},
        {"limits": True},
        {"clamp": 0.03},
    ],
    "TemperatureScaling": [{}, {"soft_targets": True}, {"limits": True}, {"clamp": 0.03}],
    "VennAbers": [{}],
}


@dataclass(frozen=True, eq=False)
class Case:
    """One class with one set of options."""

    cls: type[BinaryCalibrator]
    options: dict[str, Any]

    def new(self) -> BinaryCalibrator:
        return self.cls(**self.options)

    def fit(self, *args: Any, **kwargs: Any) -> BinaryCalibrator:
        """A new fit; what it warns about is another test's matter."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return self.new().fit(*args, **kwargs)

    def fit_tally(self, tally: Tally) -> BinaryCalibrator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return self.new().fit_tally(tally)

    def __str__(self) -> str:
        words = (f"{k}={'tally' if isinstance(v, Tally) else v}" for k, v in self.options.items())
        return f"{self.cls.__name__}({','.join(words)})"


CLASSES = _calibrators()
CASES = [Case(cls, options) for cls in CLASSES for options in OPTIONS.get(cls.__name__, [{}])]

# Where a contract does not hold, and why: contract -> case -> reason. Each entry is run and must really fail.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "inside (0, 1)": {
        "HistogramBinning(n_bins=20,extremes=mean)": "asked for plain means",
        "IsotonicCalibrator(shrink_ends=False)": "asked for plain means",
        "IsotonicCalibrator(step=True,shrink_ends=False)": "asked for plain means",
    },
    "never inverts": {"PlattScaling(increasing=False)": "asked for a slope of any sign"},
}

# Cases that refuse few rows with an InputError: what was asked for cannot be had.
NEED_ROWS = {
    "AutoCalibrator(guarantee=(0.5, 0.1),look=2)": 50,
    "HistogramBinning(epsilon=0.3,alpha=0.2)": 40,
    "HistogramBinning(bins_from=split,split_size=0.3,random_state=5)": 2,
    "HistogramBinning(bins_from=split,split_size=100,n_bins=3,random_state=1)": 101,
    "IsotonicBinning(random_state=0)": 2,
    "IsotonicBinning(min_rows=20,split_size=0.3,random_state=1)": 2,
    "ScalingBinning(split_size=0.5,random_state=0)": 2,
    "ScalingBinning(outcomes=True,random_state=0)": 2,
    "ScalingBinning(outcomes=True,n_bins=3,split_size=100,random_state=1)": 101,
}

# Cases that refuse logits and other real scores with an InputError, and why.
ONLY_PROBABILITIES = (
    {str(case): "the beta map is one of (0, 1)" for case in CASES if case.cls.__name__ == "BetaScaling"}
    | {
        "HistogramBinning(n_bins=6,strategy=width)": "equal widths cut [0, 1]",
        "BinwiseShift()": "errors are added to probabilities",
        "BinwiseShift(n_bins=4)": "errors are added to probabilities",
        "BayesianBinning()": "the prior of a bin is centered on its middle in [0, 1]",
        "BayesianBinning(spread=3.0)": "the prior of a bin is centered on its middle in [0, 1]",
        "BayesianBinning(prior_rows=20)": "the prior of a bin is centered on its middle in [0, 1]",
        "HistogramBinning(bins_from=tally,n_bins=8)": "yesterday's tally holds probabilities",
        "ScalingBinning(scaling=BetaScaling(), not fitted)": "the beta map is one of (0, 1)",
    }
    | {str(case): "log-odds are clipped at probabilities" for case in CASES if "clamp" in case.options}
)


BASE = ("HistogramBinning(n_bins=7)", "IsotonicCalibrator()", "PlattScaling()")
"""Calibrators that prove what the base class does for all: one with bins, one with a table, one with parameters."""


SMALL_CHOICE = "AutoCalibrator(candidates=['platt', 'isotonic'],loss=brier,cv=3,random_state=1,clamp=0.03)"
WHOLE_CHOICE, GUARANTEE = "AutoCalibrator()", "AutoCalibrator(guarantee=(0.5, 0.1),look=2)"
"""The automatic choice with few candidates; and with all, which fits a dozen maps at each fit."""


def cases(
    contract: str | None = None, *, where: Callable[[Case], bool] = lambda case: True, guarantee: bool = False
) -> Any:
    """One test for each class, with the options to which it applies and that ``contract`` does not except as subtests.

    The automatic choice with all candidates is tested with `--full`, and otherwise on what has a name in ``contract``;
    so is the one with a guarantee, unless the test is about a ``guarantee`` too.
    """
    excepted = EXCEPTIONS[contract] if contract else {}
    variants: dict[str, dict[str, Case]] = {}
    for case in CASES:
        if where(case) and str(case) not in excepted:
            member = str(case) if str(case) in (WHOLE_CHOICE, GUARANTEE) else case.cls.__name__
            variants.setdefault(member, {})[str(case)] = case
    often = {WHOLE_CHOICE: contract is not None, GUARANTEE: contract is not None or guarantee}
    marks = {name: [pytest.mark.slow, *([] if quick else [pytest.mark.full])] for name, quick in often.items()}
    return in_subtests("case", variants, marks)


def of_the_base() -> Any:
    """Three cases, for what the base class does whatever the method."""
    return pytest.mark.parametrize("case", [case for case in CASES if str(case) in BASE], ids=str)


def one_each(*, guarantee: bool = False) -> Any:
    """One case of each class, and those with a part of the rows for the bins or a guarantee of their own."""
    first = {case.cls: case for case in reversed(CASES)}
    chosen = [case for case in CASES if first[case.cls] is case or is_split(case) or str(case) == SMALL_CHOICE]
    return cases(where=lambda case: case in chosen, guarantee=guarantee)


@functools.cache
def fitted(case: Case, decimals: int | None = 2) -> BinaryCalibrator:
    """Fitted to `sample()`, once for all tests that only read it."""
    return case.fit(*sample(decimals=decimals))


def test_the_table_is_complete():
    assert {cls.__name__ for cls in CLASSES} >= set(OPTIONS)
    for cls in (cls for cls in CLASSES if cls.__name__ in OPTIONS):
        away = {name for options in OPTIONS[cls.__name__] for name in options}
        assert away == set(inspect.signature(cls).parameters), cls
    named = {str(case) for case in CASES}
    assert len(named) == len(CASES)
    assert named >= {name for table in (*EXCEPTIONS.values(), NEED_ROWS, ONLY_PROBABILITIES) for name in table}
    assert named >= {*BASE, SMALL_CHOICE, WHOLE_CHOICE, GUARANTEE}


def is_split(case: Case) -> bool:
    """Whether some rows choose the bins or the scaling and others fill the bins; importance weights cannot be drawn."""
    options, name = case.options, case.cls.__name__
    scaled = name == "ScalingBinning" and ("split_size" in options or bool(options.get("outcomes")))
    return scaled or name == "IsotonicBinning" or "guarantee" in options


def is_certified(case: Case) -> bool:
    """Whether independent rows carry a certificate."""
    named = case.cls.__name__ in ("HistogramBinning", "IsotonicBinning")
    return named or bool(case.options.get("outcomes")) or "guarantee" in case.options


def by_own_rule(case: Case) -> bool:
    """Without counts there is no theorem to serve: equal-mass bins then follow the weights and not the ranks."""
    options = case.options
    if is_split(case):
        return True
    fixed = options.get("strategy") == "width" or isinstance(options.get("bins_from"), Tally)
    return case.cls.__name__ == "HistogramBinning" and not fixed


def same(a: BinaryCalibrator, b: BinaryCalibrator) -> None:
    """Bit-equal maps from data with equal fingerprints."""
    assert a.map_ == b.map_
    assert a.provenance_ == b.provenance_


# ---------------------------------------------------------------------------------------------------------------------
# Invariants 1 and 2: repetition, order, merging
# ---------------------------------------------------------------------------------------------------------------------


@cases(guarantee=True)
def test_weights_mean_repetition(case):
    for decimals in (2, None):  # with and without ties
        scores, y = sample(decimals=decimals)
        counts = np.random.default_rng(1).integers(0, 4, len(y))
        weighted = case.fit(scores, y, counts, weight_type="frequency")
        same(weighted, case.fit(np.repeat(scores, counts), np.repeat(y, counts)))


@one_each()
def test_weight_zero_is_no_row(case):
    scores, y = sample()
    w = np.random.default_rng(2).integers(0, 3, len(y))
    keep = w > 0
    for weights in ("frequency", "importance"):
        same(case.fit(scores, y, w, weight_type=weights), case.fit(scores[keep], y[keep], w[keep], weight_type=weights))


@cases()
def test_the_order_of_rows_does_not_matter(case):
    for decimals in (2, None):
        scores, y = sample(decimals=decimals)
        order = np.random.default_rng(3).permutation(len(y))
        same(fitted(case, decimals), case.fit(scores[order], y[order]))


GRIDS = {"exact": None, "grid": Grid(), "coarse grid": Grid(4)}


def cuts_cells(case: Case, grid: Grid | None) -> bool:
    """Whether yesterday's edges cut today's cells, which is refused: see tests/unit/test_binning.py."""
    return case.options.get("bins_from") is YESTERDAY and grid not in (None, YESTERDAY.grid)


@cases(guarantee=True)
def test_merged_parts_equal_the_whole(case, full_size):
    coarse = "grid" if cuts_cells(case, GRIDS["coarse grid"]) else "coarse grid"
    every = [(grid, weighted) for grid in GRIDS if not cuts_cells(case, GRIDS[grid]) for weighted in (False, True)]
    for grid, weighted in every if full_size else [("exact", False), (coarse, True)]:
        merged_parts_equal_the_whole(case, GRIDS[grid], weighted)


def merged_parts_equal_the_whole(case: Case, grid: Grid | None, weighted: bool) -> None:
    scores, y = sample()
    counts = np.random.default_rng(4).integers(1, 4, len(y)) if weighted else np.ones(len(y), dtype=np.int64)

    def tally(rows: slice) -> Tally:
        weight = {"sample_weight": counts[rows], "weight_type": "frequency"} if weighted else {}
        return Tally.from_arrays(scores[rows], y[rows], grid=grid, **weight)

    parts = tally(slice(0, 100)) + tally(slice(100, 250)) + tally(slice(250, None))
    same(case.fit_tally(parts), case.fit_tally(tally(slice(None))))


@of_the_base()
def test_a_fit_to_rows_is_the_fit_to_their_tally(case):
    scores, y = sample()
    same(fitted(case), case.fit_tally(Tally.from_arrays(scores, y)))


@cases()
def test_the_scale_of_importance_weights_does_not_matter(case, full_size):
    scores, y = sample()
    rng = np.random.default_rng(5)
    probes = np.linspace(0.0, 1.0, 201)
    for weights, factor in (
        (rng.random(len(y)) + 0.1, 1e3),
        (rng.integers(1, 25, len(y)) / 4096.3, 1 / 3e6),
    ):
        once = case.fit(scores, y, weights).transform(probes)
        for scale in (1e3, 1 / 3e6) if full_size else (factor,):
            scaled = case.fit(scores, y, weights * scale).transform(probes)
            atol = 1e-7 if case.cls.__name__ == "AutoCalibrator" else 1e-9
            np.testing.assert_allclose(once, scaled, rtol=0.0, atol=atol)


EQUAL_WEIGHTS = [(0.5, 2, "exact"), (0.5, 1, "grid"), (0.7, None, "grid")]
MORE_EQUAL_WEIGHTS = [
    (weight, decimals, grid)
    for weight, decimals in ((0.7, 2), (0.5, 2), (0.5, 1), (0.7, None))
    for grid in ("exact", "grid")
]


@cases(where=lambda case: not by_own_rule(case))
def test_equal_importance_weights_are_no_weights(case, full_size):
    """Two rows of weight 0.5 on one score weigh 1, which must not be taken for a whole row."""
    for weight, decimals, grid in MORE_EQUAL_WEIGHTS if full_size else EQUAL_WEIGHTS:
        scores, y = sample(decimals=decimals)
        probes = np.concatenate([np.linspace(0.0, 1.0, 201), scores])
        plain, weighted = (
            case.fit_tally(Tally.from_arrays(scores, y, w, grid=GRIDS[grid])).transform(probes)
            for w in (None, np.full(len(y), weight))
        )
        np.testing.assert_allclose(plain, weighted, rtol=0.0, atol=last_bits(case), err_msg=f"{weight}, {grid}")


def last_bits(case: Case) -> float:
    """What the last bits of weights may change: in the parts of a choice, whether blocks of equal rates are pooled."""
    return 5e-4 if case.cls.__name__ == "AutoCalibrator" else 1e-9


@cases(where=lambda case: case.cls.__name__ != "AutoCalibrator")  # which weighs a row of weight 3 as one row
def test_whole_importance_weights_are_repetition(case):
    for decimals in (2, None):
        scores, y = sample(decimals=decimals)
        w = np.random.default_rng(6).integers(1, 4, len(y))
        counted, weighted = case.fit(scores, y, w, weight_type="frequency"), case.fit(scores, y, w.astype(float))
        assert counted.map_ == weighted.map_
        assert isinstance(weighted.certificate(), NoCertificate)


@one_each()
def test_half_weights_on_tied_scores_are_not_cut_off(case):
    """Each score holds rows of weight 0.5 and 1.5: whole sums with fractional events, which are no counts."""
    scores, y = sample(200, decimals=None)
    scores, y = np.repeat(scores, 2), np.column_stack([y, np.random.default_rng(7).permutation(y)]).ravel()
    w, probes = np.tile([0.5, 1.5], 200), np.linspace(0.0, 1.0, 201)
    for grid in ("exact", "grid"):
        tallies = [Tally.from_arrays(scores, y, weight, grid=GRIDS[grid]) for weight in (w, 1.1 * w, 0.5 * w)]
        assert (tallies[0].n == np.floor(tallies[0].n)).all()
        assert not any(tally.whole for tally in tallies)
        once, *scaled = (case.fit_tally(tally).transform(probes) for tally in tallies)
        for other in scaled:
            np.testing.assert_allclose(other, once, rtol=0.0, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Invariant 6: inside (0, 1), never inverting
# ---------------------------------------------------------------------------------------------------------------------

TINY = np.finfo(np.float64).tiny
EDGE_SCORES = np.array(
    [0.0, 5e-324, TINY, 1e-30, 2.0**-33, 2.0**-32, 0.5, 1 - 2.0**-24, 1 - 2.0**-32, 1 - 2.0**-53, 1.0]
)


def extreme_sample() -> tuple[np.ndarray, np.ndarray]:
    """Scores at the very ends whose labels agree with them, which drives every method to its extremes."""
    scores = np.concatenate([np.repeat(EDGE_SCORES, 40), np.linspace(0, 1, 200)])
    return scores, (scores > 0.5).astype(np.int64)


@cases("inside (0, 1)")
def test_output_is_never_zero_or_one(case):
    assert_inside(case, (np.float64, np.float32))


def assert_inside(case: Case, dtypes: Iterable[type[np.floating]]) -> None:
    cal = case.fit(*extreme_sample())
    for dtype in dtypes:
        out = cal.transform(EDGE_SCORES.astype(dtype))
        assert out.dtype == dtype
        assert ((out > 0) & (out < 1)).all()


def neighbors(centers: np.ndarray, count: int = 3) -> np.ndarray:
    """The floats next to each center, in the centers' own precision."""
    out, down, up = [centers], centers, centers
    for _ in range(count):
        down, up = np.nextafter(down, centers.dtype.type(-1)), np.nextafter(up, centers.dtype.type(2))
        out += [down, up]
    return np.concatenate(out)


def knots_of(map_: Map) -> np.ndarray:
    return map_.knots if isinstance(map_, StepMap | PiecewiseLinearMap) else np.zeros(0)


def is_smooth(map_: Map) -> bool:
    """Made of logarithms and exponentials, which numpy rounds to within a few ulp and not monotonically."""
    return isinstance(map_, LogitAffineMap | BetaMap) or (
        isinstance(map_, ComposeMap) and any(is_smooth(part) for part in map_.maps)
    )


def assert_never_inverts(cal: BinaryCalibrator, scores: np.ndarray) -> None:
    scores = np.unique(scores)
    out = cal.transform(scores)
    allowed = 4 * np.spacing(out[1:]) if is_smooth(cal.map_) else 0.0
    assert (np.diff(out) >= -allowed).all()


DATA = {
    "square": lambda: sample(600, 6),
    "falling": lambda: (lambda s, y: (s, 1 - y))(*sample(600, 7)),
    "extreme": extreme_sample,
    "rare": lambda: (sample(5000, 8, decimals=None)[0] * 1e-3, (np.arange(5000) % 1000 == 17).astype(int)),
}


@cases("never inverts", where=lambda case: case.cls._monotone)
def test_a_ranking_is_never_inverted(case):
    for make in DATA.values():
        assert_ranking(case, make, (np.float64, np.float32))


def assert_ranking(case: Case, make: Callable[[], Any], dtypes: Iterable[type[np.floating]]) -> None:
    cal, rng = case.fit(*make()), np.random.default_rng(9)
    for dtype in dtypes:
        near = np.concatenate([EDGE_SCORES, knots_of(cal.map_)[::7], rng.random(50)]).astype(dtype)
        for scores in (
            rng.random(2000).astype(dtype),
            neighbors(near),
            (10.0 ** -rng.uniform(0, 40, 500)).astype(dtype),
        ):
            assert_never_inverts(cal, np.clip(scores, 0, 1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exceptions_are_real(dtype, subtests):
    by_name = {str(case): case for case in CASES}
    contracts: dict[str, Callable[[Case], None]] = {
        "inside (0, 1)": lambda case: assert_inside(case, [dtype]),
        "never inverts": lambda case: assert_ranking(case, DATA["falling"], [dtype]),
    }
    assert set(contracts) == set(EXCEPTIONS)
    for contract, reasons in EXCEPTIONS.items():
        for name in reasons:
            with subtests.test(f"{name}: {contract}"), pytest.raises(AssertionError):
                contracts[contract](by_name[name])


@of_the_base()
def test_only_float32_gives_float32_and_nan_stays(case):
    cal = fitted(case)
    for dtype in (np.float64, np.float32, np.float16, np.int64):
        out = cal.transform(np.array([0, 1, 1], dtype=dtype))
        assert out.dtype == (np.float32 if dtype is np.float32 else np.float64)
    for dtype in (np.float64, np.float32, np.float16):
        out = cal.transform(np.array([0.25, np.nan, 0.75], dtype=dtype))
        assert np.isnan(out).tolist() == [False, True, False]
    assert cal.transform([]).shape == (0,)


@one_each(guarantee=True)
def test_float32_output_is_the_rounded_output(case):
    cal = fitted(case)
    scores = np.random.default_rng(10).random(500).astype(np.float32)
    double = cal.transform(scores.astype(np.float64))
    np.testing.assert_array_equal(cal.transform(scores), double.astype(np.float32))


@of_the_base()
def test_predict_proba_has_two_columns_that_add_up(case):
    cal = fitted(case)
    both = cal.predict_proba([0.1, 0.6])
    np.testing.assert_array_equal(both[:, 1], cal.transform([0.1, 0.6]))
    np.testing.assert_allclose(both.sum(axis=1), 1.0, rtol=1e-15)


# ---------------------------------------------------------------------------------------------------------------------
# Degenerate data
# ---------------------------------------------------------------------------------------------------------------------

DEGENERATE = {
    "n = 1": ([0.3], [1]),
    "n = 1 at 0": ([0.0], [0]),
    "n = 2": ([0.3, 0.6], [0, 1]),
    "n = 2 inverted": ([0.3, 0.6], [1, 0]),
    "n = 2 tied": ([0.3, 0.3], [0, 1]),
    "n = 3": ([0.2, 0.3, 0.6], [0, 1, 1]),
    "only events": (np.linspace(0.1, 0.9, 60), np.ones(60, dtype=int)),
    "no event": (np.linspace(0.1, 0.9, 60), np.zeros(60, dtype=int)),
    "constant score": (np.full(200, 0.3), np.arange(200) % 4 == 0),
    "constant score 0": (np.zeros(50), np.arange(50) % 4 == 0),
    "constant score 1": (np.ones(50), np.arange(50) % 4 == 0),
    "two values": (np.repeat([0.2, 0.8], 100), np.arange(200) % 3 == 0),
    "0 and 1": (np.repeat([0.0, 1.0], 60), np.arange(120) % 5 == 0),
    "equal to labels": (np.repeat([0.0, 1.0], 60), np.repeat([0, 1], 60)),
    "separated": (np.linspace(0, 1, 100), np.linspace(0, 1, 100) > 0.5),
    "separated, inverted": (np.linspace(0, 1, 100), np.linspace(0, 1, 100) < 0.5),
    "nearly separated": (np.linspace(0, 1, 100), (np.arange(100) >= 50) ^ np.isin(np.arange(100), [49, 50])),
    "three heaps": (np.repeat([0.8, 0.9, 0.95], 200), np.arange(600) % 10 < 8),
    "adjacent floats": (neighbors(np.full(1, 0.7), 30), np.arange(61) % 2),
    "denormal": (np.arange(100) * 5e-324, np.arange(100) % 3 == 0),
    "0.1 % events": (np.linspace(0, 0.01, 5000), np.arange(5000) % 1000 == 500),
    "99.9 % events": (1 - np.linspace(0, 0.01, 5000), np.arange(5000) % 1000 != 500),
}


ON_A_GRID = ("n = 1", "n = 2 tied", "constant score", "0 and 1", "separated", "adjacent floats", "denormal")
"""Of these, the cells of a grid are not the scores, or few."""

NO_GUARANTEE = {("denormal", "grid")}
"""Two cells, one of them with a single row: the interval of that bin is wider than the guarantee allows."""


@cases(guarantee=True)
def test_degenerate_data(case, subtests, full_size):
    names = {"exact": tuple(DEGENERATE), "grid": tuple(DEGENERATE) if full_size else ON_A_GRID}
    if str(case) == GUARANTEE and not full_size:
        names["exact"] = ON_A_GRID
    for name, grid in [(name, grid) for grid, listed in names.items() for name in listed]:
        with subtests.test(f"{case}: {name}, {grid}"):
            scores, y = (np.asarray(column) for column in DEGENERATE[name])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                tally = Tally.from_arrays(scores, y, grid=GRIDS[grid])
            too_few = len(y) < NEED_ROWS.get(str(case), 0)
            if too_few or (str(case) == GUARANTEE and (name, grid) in NO_GUARANTEE):
                with pytest.raises(InputError):
                    case.fit_tally(tally)
            else:
                assert_keeps_contracts(case, tally, scores)


def assert_keeps_contracts(case: Case, tally: Tally, scores: np.ndarray) -> None:
    cal = case.fit_tally(tally)
    probes = np.concatenate([EDGE_SCORES, scores, np.linspace(0, 1, 50)])
    out = cal.transform(probes)
    assert ((out >= 0) & (out <= 1)).all()
    if str(case) not in EXCEPTIONS["inside (0, 1)"]:
        assert ((out > 0) & (out < 1)).all()
    if case.cls._monotone and str(case) not in EXCEPTIONS["never inverts"]:
        assert_never_inverts(cal, probes)
    assert str(cal)
    assert Calibration.from_json(cal.calibration_.to_json()).map == cal.map_


@of_the_base()
def test_one_class_is_warned_about(case):
    scores, _ = sample(150)
    for label in (0, 1):
        with pytest.warns(CalibrantWarning, match="only one class"):
            case.new().fit(scores, np.full(150, label))


WEIGHTS = {
    "huge": lambda n: np.full(n, 1e90),
    "tiny": lambda n: np.full(n, 1e-90),
    "huge and tiny": lambda n: np.where(np.arange(n) % 7 == 0, 1e60, 1e-60),
    "one row weighs all": lambda n: np.where(np.arange(n) == n // 2, 1e18, 1.0),
}


@of_the_base()
def test_weights_beyond_arithmetic_are_refused(case):
    scores, y = sample()
    for weights in ((1e300, 1e300), (1e-300, 1e-300), (1e90, 1e-90)):
        with pytest.raises(InputError, match="sample_weight"):
            case.new().fit(scores, y, np.resize(weights, len(y)))


def has_rows(case: Case, weights: np.ndarray) -> bool:
    """Whether the effective rows are as many as this case needs; see NEED_ROWS."""
    share = weights / weights.max()
    return bool(share.sum() ** 2 / (share**2).sum() >= min(NEED_ROWS.get(str(case), 0), 40))


@cases()
def test_huge_and_tiny_weights(case):
    scores, y = sample()
    for name, weigh in WEIGHTS.items():
        if has_rows(case, weigh(len(y))):
            cal = case.fit(scores, y, weigh(len(y)))
            out = cal.transform(np.linspace(0, 1, 101))
            assert ((out >= 0) & (out <= 1)).all(), name
            assert str(cal)
            assert not cal.certificate(), name


# ---------------------------------------------------------------------------------------------------------------------
# Input that cannot be used
# ---------------------------------------------------------------------------------------------------------------------


@of_the_base()
def test_missing_and_infinite_scores_are_refused_at_fit(case):
    scores, y = sample()
    for bad in (np.nan, np.inf, -np.inf):
        scores[7] = bad
        with pytest.raises(InputError, match="scores"):
            case.new().fit(scores, y)


@of_the_base()
def test_what_cannot_be_fitted_is_refused(case):
    scores, y = sample()
    for args in (([], []), (scores, y[:-1]), (scores,), (scores, y, -np.ones(len(y))), (scores, y, np.zeros(len(y)))):
        with pytest.raises(InputError):
            case.new().fit(*args)
    with pytest.raises(InputError, match="empty"):
        case.new().fit_tally(Tally.from_table([0, 0], [0, 0], edges=[0.5], scores=[0.2, 0.7]))


@of_the_base()
def test_scores_outside_the_kind_are_refused_at_transform(case):
    cal = fitted(case)
    for bad in (-0.1, 1.1, np.inf):
        with pytest.raises(InputError, match="scores"):
            cal.transform([0.5, bad])


@of_the_base()
def test_unfitted_says_so(case):
    for ask in (
        lambda cal: cal.transform([0.5]),
        lambda cal: cal.predict_proba([0.5]),
        lambda cal: cal.certificate(),
        lambda cal: cal.calibration_,
    ):
        with pytest.raises(NotFittedError):
            ask(case.new())


# ---------------------------------------------------------------------------------------------------------------------
# Manners: parameters, state, randomness, print
# ---------------------------------------------------------------------------------------------------------------------


@cases()
def test_parameters_are_kept_cloned_and_set(case):
    cal = case.new()
    given = cal.get_params()
    assert {name: given[name] for name in case.options} == case.options
    assert str(clone(cal)) == str(cal)
    assert case.cls().set_params(**given).get_params() == given
    assert cal.fit(*sample()) is cal
    assert cal.get_params() == given
    twin = clone(cal)
    assert not hasattr(twin, "map_")
    assert str(twin) == str(case.new())
    same(cal, fitted(case))


@one_each(guarantee=True)
def test_random_state_is_the_only_randomness(case):
    scores, y = sample()
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what must not change
    same(fitted(case), case.fit(scores, y))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@of_the_base()
def test_arrays_of_the_caller_stay_as_they_are(case):
    scores, y = sample()
    scores[3] = -0.0
    w = np.random.default_rng(11).integers(0, 3, len(y))
    copies = scores.copy(), y.copy(), w.copy()
    case.fit(scores, y, w).transform(scores)
    for array, copy in zip((scores, y, w), copies, strict=True):
        assert array.tobytes() == copy.tobytes()
    for array in (scores, y, w):
        array.flags.writeable = False
    case.fit(scores, y, w).transform(scores)


@one_each()
def test_a_second_fit_forgets_the_first(case):
    first = np.linspace(0, 1, 200)  # separated classes: this fit leaves notes
    again, fresh = case.fit(first, first > 0.5).fit(*sample()), fitted(case)
    same(again, fresh)
    assert again.notes_ == fresh.notes_
    assert str(again) == str(fresh)
    assert set(vars(again)) == set(vars(fresh))


@of_the_base()
def test_transform_changes_nothing(case):
    cal = fitted(case)
    text, state = str(cal), set(vars(cal))
    first = cal.transform([0.2, 0.9])
    np.testing.assert_array_equal(cal.transform([0.9, 0.2]), first[::-1])
    assert (str(cal), set(vars(cal))) == (text, state)


@one_each()
def test_it_prints_itself(case):
    assert str(case.new()).endswith("not fitted")
    assert repr(case.new()).startswith(case.cls.__name__)
    cal = fitted(case)
    text = str(cal)
    assert case.cls.__name__ in text
    assert "fitted to 400 probability scores with 145 events\n" in text
    assert all(f"\n  {line}" in text for line in str(cal.certificate()).splitlines())
    assert all(f"\n  Note: {note}" in text for note in cal.notes_)
    weighted = case.fit(*sample(), np.full(400, 0.5))
    assert "fitted to probability scores with a total weight of 200, 72.5 of it events" in str(weighted)
    assert "fitted to probability scores with a total weight of 200, 72.5 of it events" in str(weighted.calibration_)


# ---------------------------------------------------------------------------------------------------------------------
# Certificates and documents: invariants 3, 5 and 10
# ---------------------------------------------------------------------------------------------------------------------


def assert_equal_values(a: Any, b: Any) -> None:
    """Two frozen values, number by number and bit by bit."""
    assert type(a) is type(b)
    if not is_dataclass(a) or isinstance(a, NoCertificate):  # what was stored has its words as text
        assert a == b
        return
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes(), field.name
        elif isinstance(left, About):
            assert_equal_values(left, right)
        else:
            assert left == right, field.name


@one_each()
def test_json_round_trip_is_bit_equal(case, tmp_path):
    scores, y = sample(decimals=None)
    probes = np.concatenate([EDGE_SCORES, scores, [np.nan]])
    weighted = case.fit(scores, y, np.random.default_rng(14).random(len(y)) + 0.1)
    for cal in (fitted(case, decimals=None), weighted):
        stored = cal.calibration_
        cal.save(tmp_path / "map.json")
        for back in (Calibration.from_json(stored.to_json()), load(tmp_path / "map.json")):
            assert back.map == cal.map_
            assert_equal_values(back.certificate, stored.certificate)
            assert back.provenance == cal.provenance_
            assert back.to_json() == stored.to_json()
            assert str(back) == str(stored)
            assert back.transform(probes).tobytes() == cal.transform(probes).tobytes()


@one_each(guarantee=True)
def test_a_certificate_or_the_reason_why_not(case):
    answer = fitted(case).certificate(alpha=0.2)
    assert isinstance(answer, Certificate if is_certified(case) else NoCertificate)
    assert str(answer).endswith(".")
    assert bool(answer) == is_certified(case)


@cases(where=is_certified, guarantee=True)
def test_a_certificate_holds_together(case):
    answer = fitted(case).certificate(alpha=0.2)
    assert answer.alpha == 0.2
    assert (answer.lower <= answer.upper).all()
    assert answer.epsilon == answer.half_widths[answer.covered].max()
    assert answer.n + answer.uncovered_rows <= 400
    assert 0 < answer.epsilon <= 1
    assert "80 %" in str(answer)


@of_the_base()
def test_no_certificate_for_rows_that_no_theorem_covers(case, subtests):
    for declared, code in (
        ({"groups": np.arange(400) % 20}, "grouped"),
        ({"time": np.arange(400)}, "time-ordered"),
        ({"sample_weight": np.full(400, 2)}, "importance-weights"),
    ):
        with subtests.test(code):
            cal = case.fit(*sample(), **declared)
            answer = cal.certificate()
            assert isinstance(answer, NoCertificate)
            assert answer.code == code
            assert isinstance(cal.calibration_.certificate, NoCertificate)


@of_the_base()
def test_sampling_is_kept_and_gates_the_certificate(case, subtests):
    scores, y = sample()
    for sampling in get_args(Sampling):
        for name, cal in {
            "rows": case.fit(scores, y, sampling=sampling),
            "tally": case.new().fit_tally(Tally.from_arrays(scores, y), sampling=sampling),
        }.items():
            with subtests.test(sampling, of=name):
                assert cal.provenance_.sampling == sampling
                assert Calibration.from_json(cal.calibration_.to_json()).provenance.sampling == sampling
                assert cal.map_ == fitted(case).map_
                if sampling == "independent":
                    assert isinstance(cal.certificate(), Certificate) == is_certified(case)
                else:
                    assert_refused_by_sampling(cal, fitted(case))


@one_each()
def test_rows_that_are_not_independent_carry_no_certificate(case):
    cal = case.fit(*sample(), sampling="out-of-fold")
    assert cal.provenance_.sampling == "out-of-fold"
    assert cal.map_ == fitted(case).map_
    assert_refused_by_sampling(cal, fitted(case))


def assert_refused_by_sampling(cal: BinaryCalibrator, independent: BinaryCalibrator) -> None:
    assert isinstance(cal.certificate(), NoCertificate)
    assert cal.certificate() != independent.certificate()
    assert isinstance(cal.calibration_.certificate, NoCertificate)


@of_the_base()
def test_unknown_sampling_is_refused(case):
    scores, y = sample()
    for word in ("iid", "", None, "Independent", 1, ["independent"]):
        with pytest.raises(InputError, match="sampling"):
            case.new().fit(scores, y, sampling=word)
        with pytest.raises(InputError, match="sampling"):
            case.new().fit_tally(Tally.from_arrays(scores, y), sampling=word)


@of_the_base()
def test_what_groups_say_is_not_overruled(case):
    scores, y = sample()
    grouped = case.fit(scores, y, groups=np.arange(400) % 20, sampling="independent")
    assert grouped.provenance_.sampling == "grouped"
    both = case.fit(scores, y, time=np.arange(400), sampling="selected")
    assert isinstance(both.certificate(), NoCertificate)


@cases(where=lambda case: not is_certified(case))
def test_the_reason_for_no_certificate_does_not_depend_on_alpha(case):
    answer = fitted(case).certificate()
    assert isinstance(answer, NoCertificate)
    assert answer == fitted(case).certificate(0.3)


@cases(where=is_certified, guarantee=True)
def test_the_certificate_is_the_calibrators_own(case):
    """Without alpha=, the parameter of the calibrator decides; what is stored is what is printed."""
    cal = fitted(case)
    answer = cal.certificate()
    assert answer.alpha == case.options.get("alpha", 0.1)
    assert_equal_values(answer, cal.calibration_.certificate)
    first, *rest = str(answer).splitlines()
    assert first.startswith("With confidence ")
    assert rest[0].startswith("  Basis: ")
    assert {line.split(":")[0] for line in rest[1:-1]} <= {"  Alpha", "  Not covered"}
    assert rest[-1].startswith("  Assumes: ")
    assert StepMap(answer.about.knots, answer.outputs).merged() == cal.map_
    with pytest.raises(ValueError, match="not about this map"):
        Calibration(LogitAffineMap(1.0, 0.0), cal.provenance_, answer)


# ---------------------------------------------------------------------------------------------------------------------
# Other kinds of scores
# ---------------------------------------------------------------------------------------------------------------------


def other_kind(kind: str, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(15)
    z = rng.normal(size=n).round(2) * (2 if kind == "logit" else 500)
    return z, (rng.random(n) < expit(z / (1 if kind == "logit" else 250))).astype(np.int64)


KINDS_AND_GRIDS = [
    ("logit", None),
    ("logit", Grid(10, -12.3, 11.1)),
    ("real", None),
    ("real", Grid(10, -3100.0, 2900.0)),
]


def takes_other_kinds(case: Case) -> bool:
    return str(case) not in ONLY_PROBABILITIES


@cases(where=takes_other_kinds)
def test_logits_and_real_scores(case):
    for kind, grid in KINDS_AND_GRIDS:
        scores, y = other_kind(kind)
        cal = case.fit_tally(Tally.from_arrays(scores, y, score_type=kind, grid=grid))
        assert cal.provenance_.score_type == kind
        probes = np.concatenate([scores, [-1e6, -1e-300, -0.0, 0.0, 1e6]])
        out = cal.transform(probes)
        assert ((out >= 0) & (out <= 1)).all()
        if case.cls._monotone:
            assert_never_inverts(cal, probes)
        assert np.corrcoef(out[: len(scores)], scores)[0, 1] > 0.5


@cases(where=lambda case: not takes_other_kinds(case))
def test_other_kinds_are_refused_by_methods_of_probabilities(case):
    for kind, grid in KINDS_AND_GRIDS:
        with pytest.raises(InputError):
            case.fit_tally(Tally.from_arrays(*other_kind(kind), score_type=kind, grid=grid))


@of_the_base()
def test_a_fit_to_rows_of_another_kind_is_the_fit_to_their_tally(case):
    for kind in ("logit", "real"):
        scores, y = other_kind(kind)
        same(case.fit(scores, y, score_type=kind), case.fit_tally(Tally.from_arrays(scores, y, score_type=kind)))


HUGE = np.array([-1e300, 1e300, 1e299, 0.0, 1.0, 5e299] * 30), np.arange(180) % 3 == 0


@cases(where=lambda case: takes_other_kinds(case) and case.cls.__name__ != "LogitShift")
def test_real_scores_at_the_end_of_arithmetic(case):
    assert np.isfinite(case.fit(*HUGE, score_type="real").transform(HUGE[0])).all()


@cases(where=lambda case: takes_other_kinds(case) and case.cls.__name__ == "LogitShift")
def test_scores_that_are_no_log_odds_are_refused_in_words(case):
    with pytest.raises(InputError, match="log-odds"):
        case.fit(*HUGE, score_type="real")
