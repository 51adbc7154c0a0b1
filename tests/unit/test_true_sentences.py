"""What a result or an error says must be true of the numbers beside it, in every function that says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant import abstention, clinical, conformal, live, metrics, online
from calibrant.displays import ReliabilityDisplay
from calibrant.messages import InputError

every = pytest.mark.parametrize

# ------------------------------------------------------------------------------------------------------ Two text labels


def graded(rows: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    s = rng.random(rows)
    return s, np.where(rng.random(rows) < s, "right", "wrong")


TAKE_LABELS: dict[str, Callable[[Any, Any], object]] = {
    "accept": lambda s, y: abstention.accept(s, y, error=0.1),
    "risk_coverage": abstention.risk_coverage,
    "overconfidence": lambda s, y: abstention.overconfidence(s, y, by=["a"] * len(s)),
    "cascade": lambda s, y: abstention.route(s, y, y, error=0.1),
    "check": cb.check,
    "calibrate": cb.calibrate,
    "compare": lambda s, y: cb.compare(s, s, y),
    "fit": lambda s, y: cb.PlattScaling().fit(s, y),
    "tally": cb.Tally.from_arrays,
    "class sets": lambda s, y: conformal.LeastAmbiguousSets().fit(s, y),
    "reliability": ReliabilityDisplay.from_predictions,
    "validate": clinical.validate,
    "decision_curve": clinical.decision_curve,
    "learn_many": lambda s, y: online.OnlinePlatt().learn_many(s, y),
    "learn_one": lambda s, y: online.OnlinePlatt().learn_one(s[0], y[0]),
    "Monitor": lambda s, y: live.Monitor().update(s, y),
    **{name: getattr(metrics, name) for name in ("ece", "brier", "log_loss", "auc", "recalibration", "ici")},
}


@every("door", TAKE_LABELS)
def test_no_function_proposes_one_of_two_text_labels_as_the_event(door: str) -> None:
    s, y = graded()
    with pytest.raises(InputError) as told:
        TAKE_LABELS[door](s, y)
    fix = str(told.value).partition(": ")[2]
    assert fix.count("'right'") == fix.count("'wrong'"), fix
