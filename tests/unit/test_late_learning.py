"""What remains of the guarantees of forecasters when labels come late."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import calibrant as cb
from calibrant import online
from calibrant.live import LateLearner, Ledger
from calibrant.online.stored import KINDS

PAGE = Path(__file__).parents[2] / "docs/guide/late-labels.md"
ROWS = re.findall(r"^\| `(.+)` \| (bound at release|no bound, late or not|refused) \|$", PAGE.read_text(), re.MULTILINE)


def test_the_page_says_of_every_forecaster_what_remains(subtests) -> None:
    one_score = {name for name, kind in KINDS.items() if not kind.takes_rows and kind.takes_features is False}
    public = {name for name in one_score if hasattr(online, name)}
    assert {text.partition("(")[0] for text, _ in ROWS} == public
    for text, stated in ROWS:
        with subtests.test(text):
            forecaster = eval(text, vars(online))
            if stated == "refused":
                with pytest.raises(cb.InputError, match="forecaster draws"):
                    LateLearner(forecaster, Ledger(1.0))
                continue
            learner = LateLearner(forecaster, Ledger(1.0))
            bounded = bool(forecaster.certificates(1_000_000))
            assert bounded == (stated == "bound at release")
            assert not learner.certificate()


def test_a_learner_says_why_it_has_no_certificate() -> None:
    learner = LateLearner(online.Tracking(online.OnlinePlatt()), Ledger(1.0))
    learner.predict(range(3_000), [0.3, 0.6, 0.9] * 1_000, at=0.0)
    learner.observe(range(0, 3_000, 2), [1] * 1_500, at=0.5)
    learner.advance(1.0)
    assert learner.forecaster.certificate()
    assert "learned one horizon late, and the bound of Tracking" in str(learner.certificate())
    plain = LateLearner(online.OnlinePlatt(), Ledger(1.0))
    assert plain.certificate() == plain.forecaster.certificate()
