"""Sets of classes hold the true class as often as they promise: ties, atoms, few rows, groups, a known shift."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from tests.cases import exported_methods

from calibrant.conformal import CumulativeSets, LeastAmbiguousSets
from calibrant.conformal.classes.base import ClassConformal
from calibrant.shift import known_weights

pytestmark = pytest.mark.statistical
LEVEL, ALPHA = 1e-3, 0.1

Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def labels(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((len(truth), 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)


def smooth(size: int, concentration: float, tilt: float = 0.0) -> Draw:
    """Probabilities without ties; with a tilt the model is too sure."""

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        p = rng.dirichlet(np.full(size, concentration), n)
        return p, labels((1.0 - tilt) * p + tilt / size, rng)

    return draw


def atoms(rows: list[list[float]], truth: list[list[float]], shares: list[float]) -> Draw:
    """Few distinct rows of probabilities, so that scores have many ties."""
    p, q = np.array(rows), np.array(truth)

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        kind = rng.choice(len(p), n, p=shares)
        return p[kind], labels(q[kind], rng)

    return draw


WORLDS: dict[str, tuple[Draw, int]] = {
    "three classes, calibrated": (smooth(3, 0.5), 25),
    "40 classes, too sure": (smooth(40, 0.2, 0.6), 60),
    "two classes, nine rows": (smooth(2, 1.0), 9),
    "two classes, ten rows": (smooth(2, 1.0, 0.3), 10),
    "one row for all": (atoms([[0.6, 0.3, 0.1]], [[0.2, 0.3, 0.5]], [1.0]), 19),
    "probabilities 0 and 1": (
        atoms(
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]],
            [[0.9, 0.1, 0.0], [0.1, 0.85, 0.05], [0.4, 0.4, 0.2]],
            [0.6, 0.3, 0.1],
        ),
        30,
    ),
}  # fmt: skip
METHODS: dict[str, Callable[[], ClassConformal]] = {
    "least ambiguous": lambda: LeastAmbiguousSets(ALPHA, empty="keep"),
    "cumulative": lambda: CumulativeSets(ALPHA, empty="keep"),
    "cumulative, whole and penalized": lambda: CumulativeSets(ALPHA, last="whole", penalty=0.02, free=2, empty="keep"),
}
LISTED = {type(make()) for make in METHODS.values()}
METHODS |= {
    kind.__name__: lambda kind=kind: kind(ALPHA, empty="keep") for kind in exported_methods() if kind not in LISTED
}


def held(method: ClassConformal, p: np.ndarray, y: np.ndarray, **more: np.ndarray) -> bool:
    """Whether the set of the last row, by the rows before it, holds its class."""
    before = {name: each[:-1] for name, each in more.items()}
    after = {name: each[-1:] for name, each in more.items()}
    method.fit(p[:-1], y[:-1], classes=range(p.shape[1]), score_type="probability", **before)
    return bool(method.predict_sets(p[-1:], **after).members[0, y[-1]])


def not_below(hits: int, runs: int, level: float) -> bool:
    return bool(stats.binomtest(hits, runs, level, alternative="less").pvalue > LEVEL)


def not_above(hits: int, runs: int, level: float) -> bool:
    return bool(stats.binomtest(hits, runs, min(level, 1.0), alternative="greater").pvalue > LEVEL)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", METHODS)
def test_sets_hold_the_true_class(world: str, name: str, full_size: bool) -> None:
    draw, n = WORLDS[world]
    rng = np.random.default_rng([1, list(WORLDS).index(world), list(METHODS).index(name)])
    runs = 10_000 if full_size else 150
    hits = sum(held(METHODS[name](), *draw(n + 1, rng)) for _ in range(runs))
    assert not_below(hits, runs, 1 - ALPHA)
    if "calibrated" in world:  # no ties
        assert not_above(hits, runs, 1 - ALPHA + 1 / (n + 1))


def test_a_quantile_without_the_new_row_would_not_hold() -> None:
    """The test has power: the third of four scores, their 0.75 quantile, holds a fifth in 60 % of the cases."""
    rng, runs = np.random.default_rng(2), 2_000
    p, y = smooth(2, 1.0)(5 * runs, rng)
    own = -p[np.arange(5 * runs), y].reshape(runs, 5)
    hits = int((own[:, 4] <= np.sort(own[:, :4], axis=1)[:, 2]).sum())
    assert not not_below(hits, runs, 0.75)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("kind", ["group", "class"])
def test_each_group_or_class_is_covered(kind: str, full_size: bool) -> None:
    """One group is rare and hard: it is covered by its own threshold, and not by a common one."""
    rng, runs, n = np.random.default_rng(3), 10_000 if full_size else 250, 60
    hits = {"own": 0, "common": 0}
    for _ in range(runs):
        groups = (rng.random(n + 1) < 0.25).astype(int)
        groups[-1] = 1  # given that the new row is of the rare kind
        p = rng.dirichlet([0.5, 0.5, 0.5], n + 1)
        if kind == "group":
            y = labels(np.where(groups[:, None] == 1, 1 / 3, p), rng)
            hits["own"] += held(LeastAmbiguousSets(ALPHA), p, y, groups=groups)
        else:
            y = np.where(groups == 1, 2, labels(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), rng))
            hits["own"] += held(LeastAmbiguousSets(ALPHA, by_class=True), p, y)
        hits["common"] += held(LeastAmbiguousSets(ALPHA), p, y)
    assert not_below(hits["own"], runs, 1 - ALPHA)
    assert not not_below(hits["common"], runs, 1 - ALPHA)


@pytest.mark.parametrize("name", ["least ambiguous", "cumulative"])
def test_a_known_shift_is_corrected(name: str, full_size: bool) -> None:
    """New rows are of a hard kind four times as often as old ones; weights in any unit are the ratio of the shares."""
    rng, runs, n = np.random.default_rng(4), 10_000 if full_size else 250, 80
    source, target = np.array([0.8, 0.2]), np.array([0.2, 0.8])
    ratio = 3.0 * target / source
    hits = {"weighted": 0, "plain": 0}
    for _ in range(runs):
        kind = np.append(rng.choice(2, n, p=source), rng.choice(2, p=target))
        p = rng.dirichlet([0.3, 0.3, 0.3], n + 1)
        y = labels(np.where(kind[:, None] == 1, 1 / 3, p), rng)
        old = known_weights(ratio[kind[:-1]], upper=12.0)
        method = METHODS[name]().fit(p[:-1], y[:-1], sample_weight=old, classes=range(3))
        hits["weighted"] += method.predict_sets(p[-1:], sample_weight=ratio[kind[-1:]]).members[0, y[-1]]
        hits["plain"] += held(METHODS[name](), p, y)
    assert not_below(hits["weighted"], runs, 1 - ALPHA)
    assert not not_below(hits["plain"], runs, 1 - ALPHA)
