"""The how-to page on Spark runs block by block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.engine
@pytest.mark.slow
def test_the_page_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```{code-block} python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, names)
    before, after = names["rows"].count(), names["scored"].count()
    assert before == after == 20_000
    assert set(names["maps"]) == {"DE", "FR"}
    ours, theirs = (frame.agg({"calibrated": "avg"}).first()[0] for frame in (names["scored"], names["same"]))
    assert ours == pytest.approx(theirs, rel=1e-12)
