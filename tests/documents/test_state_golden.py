"""States of every earlier format go on: forecasters, the ledger of late labels, and stores of tallies."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.documents.make_state_golden import (
    DAYS,
    FORECASTERS,
    LEDGER,
    PROBES,
    STORE,
    features_of,
    forecasts,
    ledger,
    tallies,
)
from tests.documents.test_golden import CHANGELOG

from calibrant import TallyStore
from calibrant.live import Ledger
from calibrant.online.base import resume
from calibrant.online.stored import KINDS

STATES: dict[str, Any] = json.loads(FORECASTERS.read_text(encoding="utf-8"))


def released() -> bool:
    """Whether the version of this checkout is released: then what it writes is kept for ever."""
    heading = next(line for line in CHANGELOG.read_text(encoding="utf-8").splitlines() if line.startswith("## "))
    return "unreleased" not in heading.lower()


def test_what_was_released_has_a_state() -> None:
    names = {name for name, kind in KINDS.items() if kind.__module__.startswith("calibrant.") and not kind.takes_rows}
    lacking = names - {name.partition(" ")[0] for name in STATES}
    assert not released() or (LEDGER.exists() and not lacking), "run tests/documents/make_state_golden.py"


def test_a_forecaster_goes_on_with_the_same_forecasts(subtests: pytest.Subtests) -> None:
    for name, stored in STATES.items():
        with subtests.test(name):
            forecaster = resume(json.dumps(stored["state"]))
            np.testing.assert_allclose(forecasts(forecaster), stored["forecasts"], rtol=1e-9, atol=1e-12)
            forecaster.learn_many(np.array(PROBES), np.ones(len(PROBES)), features_of(forecaster, len(PROBES)))
            assert forecaster.n_rows == 60 + len(PROBES)


def test_a_store_of_tallies_is_read_and_takes_another_day(tmp_path) -> None:
    for path in STORE.rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(STORE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    store, wanted = TallyStore(tmp_path), tallies()
    found, both = store.window(*DAYS), wanted[DAYS[0]] + wanted[DAYS[1]]
    assert found.n.tolist() == both.n.tolist()
    assert found.events.tolist() == both.events.tolist()
    assert store.add("2026-01-03", wanted[DAYS[0]])
    assert not store.add(DAYS[1], wanted[DAYS[1]])


def test_a_ledger_releases_the_same_rows() -> None:
    state = LEDGER.read_bytes() if LEDGER.exists() else ledger().to_bytes()
    stored, made = Ledger.from_bytes(state), ledger()
    assert stored.counts == made.counts
    for time in (14.0, 20.0):
        first, second = stored.advance(time), made.advance(time)
        assert first.ids.tolist() == second.ids.tolist()
        assert first.scores.tolist() == second.scores.tolist()
