"""The five wanted properties in one report, closeness to the truth, and the trade-off of calibration and loss."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.messages import InputError
from calibrant.metrics import (
    classification_loss,
    closeness,
    desiderata,
    ece,
    kendall_tau,
    pde,
    probabilistic_count,
    trade_off,
)
from calibrant.tallies import Tally

Y = [0] * 52 + [1] * 8 + [0] * 20 + [1] * 40
S = [0.1] * 60 + [0.7] * 60
TRUE = [0.1] * 60 + [0.65] * 30 + [0.8] * 30

points = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=12)


def test_the_report_holds_what_its_metrics_give() -> None:
    found = desiderata(S, Y, truth=TRUE, epsilon=0.06)
    assert found.calibration.value == ece(S, Y, strategy="distinct").value
    assert found.loss.value == classification_loss(S, Y).value
    assert (found.threshold, found.least_loss) == (0.7, pytest.approx(28 / 120))
    assert found.close == closeness(S, TRUE, epsilon=0.06)
    assert (found.distinct, found.count.value) == (2, probabilistic_count(S).value)
    assert found.tau == kendall_tau(S, TRUE)
    assert json.loads(json.dumps(found.to_dict()))["close"]["delta"] == pytest.approx(0.25)
    assert "75.00 % of the rows are within 0.06" in str(found)
    assert found._repr_html_().count("<tr") == 6


def test_the_least_loss_is_that_of_the_best_threshold() -> None:
    """Five scores, and thresholds below, between and above them; ties take the lowest threshold."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        s, y = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], 20), rng.integers(0, 2, 20)
        if len(set(y.tolist())) < 2:
            continue
        found = desiderata(s, y)
        losses = {t: float(((s >= t) != y).mean()) for t in (*np.unique(s).tolist(), 1.5)}
        assert found.least_loss == pytest.approx(min(losses.values()))
        assert float(((s >= found.threshold) != y).mean()) == pytest.approx(found.least_loss)


def test_the_printed_threshold_has_the_printed_loss() -> None:
    """Rounded down to few digits, but above the next lower score; above every score if class 0 is best for all."""
    rare = [0] * 9 + [1] + [0] * 9 + [1]
    for s, y, text in [
        ([0.1] * 10 + [0.3] * 10, rare, "least 0.1000 above 0.3;"),
        ([0.1] * 10 + [0.300001] * 10, rare, "least 0.1000 above 0.3001;"),
        ([0.1] * 10 + [2 / 3] * 10, [0] * 10 + [1] * 10, "least 0.0000 at 0.6666;"),
        ([0.66666] * 10 + [2 / 3] * 10, [0] * 10 + [1] * 10, "least 0.0000 at 0.666666;"),
        ([0.3] * 10 + [float(np.nextafter(0.3, 1))] * 10, [0] * 10 + [1] * 10, "least 0.0000 above 0.3;"),
        ([0.0] * 10 + [1.0] * 10, [1] * 9 + [0] + [1] * 10, "least 0.0500 at 0.0;"),
    ]:
        found = desiderata(s, y)
        assert text in str(found)
        assert float(((np.array(s) >= found.threshold) != y).mean()) == pytest.approx(found.least_loss)


def test_the_report_counts_rows_and_weights_in_words() -> None:
    assert "on 120 rows" in str(desiderata(S, Y))
    assert "on rows with a total weight of 1,500\n" in str(desiderata(S, Y, np.full(120, 12.501)))
    assert "1 distinct score," in str(desiderata([0.4] * 120, Y))
    far = closeness(np.zeros(7), np.ones(7), [0.1, 0.2, 0.3, 0.7, 1.1, 1.3, 1.7], epsilon=0.05)
    assert (far.delta <= 1.0, far.short()[:7]) == (True, "0.00 % ")


def test_without_the_truth_two_properties_are_not_known() -> None:
    found = desiderata(Tally.from_arrays(S, Y))
    assert (found.close, found.tau) == (None, None)
    assert str(found).count("not known: needs the true probabilities") == 2
    assert found.calibration == desiderata(S, Y).calibration
    with pytest.raises(InputError, match=r"truth cannot be combined with a tally"):
        desiderata(Tally.from_arrays(S, Y), truth=TRUE)


@given(points, st.integers(0, 10), st.integers(0, 20))
def test_closeness_by_definition_and_its_bounds_hold(rows: list[tuple[int, int, int]], k: int, more: int) -> None:
    f, eta, w = np.array([*rows, (3, 4, 1)], dtype=float).T
    f, eta, w = f / 20, eta / 20, w / w.sum()
    gap, epsilon = np.abs(f - eta), k / 20
    found = closeness(f, eta, w, epsilon=epsilon)
    assert found.delta == pytest.approx(w[gap > epsilon + 1e-9].sum(), abs=1e-12)
    assert found.largest == pytest.approx(gap[w > 0].max())
    rate = np.array([(w * eta)[f == each].sum() / max(w[f == each].sum(), 1e-300) for each in f])
    assert (w * np.abs(f - rate)).sum() <= found.calibration_bound + 1e-12  # Theorem 16, p = 1
    loss = (w * np.where(f >= 0.5, 1 - eta, eta)).sum() - (w * np.minimum(eta, 1 - eta)).sum()
    assert found.loss_bound is not None
    assert loss <= found.loss_bound + 1e-12  # Theorem 18
    least = closeness(f, eta, w, delta=more / 20)
    assert least.delta <= more / 20 + 1e-9
    below = gap < least.epsilon - 1e-9
    assert w[below].sum() < 1 - more / 20 + 1e-9  # no smaller epsilon will do


def test_closeness_refuses_what_it_cannot_read() -> None:
    for options, match in [({}, "epsilon"), ({"epsilon": 0.1, "delta": 0.1}, "not both"), ({"epsilon": -1.0}, "0, 1")]:
        with pytest.raises(InputError, match=match):
            closeness([0.5], [0.5], **options)
    with pytest.raises(InputError, match=r"probabilities in \[0, 1\]"):
        closeness([1.5], [0.5], epsilon=0.1)
    assert closeness([0.2], [0.9], epsilon=0.8).loss_bound is None
    assert closeness([0.2], [0.2], delta=0.0).epsilon == 0.0


def test_the_trade_off_is_a_line_for_each_model() -> None:
    leaves = np.repeat([0, 1, 2], 40)
    found = trade_off({1: [0.4] * 120, "two": S}, Y, regions={1: np.zeros(120, dtype=int), "two": leaves})
    first, second = found.lines
    assert [each.name for each in found.lines] == ["1", "two"]
    assert (first.cells, first.error, first.loss) == (1, pytest.approx(0.0), pytest.approx(0.4))
    assert (second.cells, second.error) == (3, pde(S, Y, regions=leaves).value)
    assert second.loss == pytest.approx(classification_loss(S, Y).value)
    assert first.name in found.by_chance
    assert "Least loss: two" in str(found)
    own = "Each model has its own regions, so the error does not rank the models."
    assert own in str(found)
    same = trade_off({1: [0.4] * 120, "two": S}, Y, regions={1: leaves, "two": 2 - leaves})
    assert own not in str(same) + str(trade_off({1: [0.4] * 120, "two": S}, Y))
    assert found._repr_html_().count("<tr") == 3
    assert json.loads(json.dumps(found.to_dict()))["lines"][1]["cells"] == 3


def test_the_trade_off_of_classes_is_class_wise() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 300)
    y = (rng.random(300)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    region = rng.integers(0, 5, 300)
    line = trade_off({"model": p}, y, regions={"model": region}).lines[0]
    assert line.error == pde(p, y, notion="class-wise", regions=region).value
    assert line.loss == pytest.approx((p.argmax(axis=1) != y).mean())


def test_what_is_no_set_of_models_is_refused() -> None:
    given: Any
    for given, regions, match in [(S, None, "dict"), ({}, None, "one model"), ({"a": S}, {"b": Y}, "other names")]:
        with pytest.raises(InputError, match=match):
            trade_off(given, Y, regions=regions)
    with pytest.raises(InputError, match=r"^scores\['two'\] has 3 rows but y has 120"):
        trade_off({"one": S, "two": [0.1, 0.2, 0.3]}, Y)
    with pytest.raises(InputError, match=r"^regions\['two'\] has 1 row but y has 120"):
        trade_off({"one": S, "two": S}, Y, regions={"one": Y, "two": [0]})
