"""Random-effects summaries beside metafor in R; the script and its output lie in ``clinical/``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrant.clinical import random_effects

NUMBERS = json.loads((Path(__file__).parent / "clinical" / "pooling.json").read_text(encoding="utf-8"))
NAMES = (*("value", "se", "low", "high", "prediction_low", "prediction_high", "tau2", "i2", "q", "p_value"),)


def test_the_pooled_value_and_its_intervals_are_those_of_metafor(subtests: pytest.Subtests) -> None:
    for name, case in NUMBERS.items():
        with subtests.test(name=name):
            found = random_effects(case["values"], case["se"])
            assert [getattr(found, key) for key in NAMES] == pytest.approx(case["metafor"], rel=1e-9, abs=1e-12)


def test_a_hartung_knapp_interval_that_is_too_narrow_has_a_note() -> None:
    found = random_effects(NUMBERS["alike"]["values"], NUMBERS["alike"]["se"])
    assert [each.code for each in found.notes] == ["narrow-interval"]
    assert found.fixed_low < found.low < found.high < found.fixed_high
    assert not random_effects(NUMBERS["apart"]["values"], NUMBERS["apart"]["se"]).notes
