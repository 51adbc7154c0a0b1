"""Names that somebody else chose, at every edge where text is shown: no control character passes, none fills a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import calibrant as cb
from calibrant import Calibration, HistogramBinning, InputError
from calibrant.cli.app import app
from calibrant.export.errors import DocumentError
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import ByGroupMap, StepMap
from calibrant.reporting.document import report
from calibrant.visible import HIDDEN, visible

EVIL = "\x1b[31mred\x1b]0;pwn\x07\x9b2J\x85\u2028\u202eabc\u2066\rWith confidence 99.9 %\n  at most 0.0001 (audited)"
LONG = "z" * 10_000
RNG = np.random.default_rng(5)
SCORES = RNG.random(3_000)
LABELS = (RNG.random(3_000) < SCORES**2).astype(int)
NAMED = np.array([EVIL, LONG, "fine"], dtype=object)[np.arange(3_000) % 3]


def checked() -> Any:
    return cb.check(SCORES, LABELS, by={"branch": NAMED})


def told() -> Any:
    return report(SCORES, LABELS, by={"branch": NAMED})


def command(*words: str, file: Callable[[Path], Any] | None = None) -> Callable[[Path], str]:
    def run(folder: Path) -> str:
        table = pa.table({"score": SCORES, "label": LABELS, "branch": NAMED})
        parquet.write_table(table, folder / "rows.parquet")
        done = CliRunner().invoke(app, [word.format(rows=folder / "rows.parquet") for word in words])
        return done.stdout + done.stderr

    return run


def certificate() -> Any:
    found = HistogramBinning(5).fit(SCORES, LABELS).calibration_
    return replace(found, provenance=replace(found.provenance, method=EVIL))


def error() -> str:
    with pytest.raises(InputError) as caught:
        raise InputError("by", f"has the segment {EVIL}", "rename it")
    return str(caught.value)


EDGES: dict[str, Callable[[Path], str]] = {
    "str of a check": lambda _: str(checked()),
    "notebook of a check": lambda _: checked()._repr_html_(),
    "report as HTML": lambda _: told().to_html(),
    "report as Markdown": lambda _: told().to_markdown(),
    "report in a notebook": lambda _: told()._repr_html_(),
    "check --by": command("check", "{rows}", "--label", "label", "--by", "branch", "--top", "9"),
    "check --by --json": command("check", "{rows}", "--label", "label", "--by", "branch", "--json"),
    "error of a command": command("check", "{rows}", "--label", EVIL),
    "name of a file": command("check", EVIL, "--label", "label"),
    "calibration": lambda _: str(certificate()),
    "calibration in a notebook": lambda _: certificate()._repr_html_(),
    "refusal": lambda _: str(NoCertificate(NoCertificateCode.EMPTY, EVIL)),
    "map": lambda _: str(Calibration(ByGroupMap(EVIL[:900], (EVIL[:900],), (StepMap([], [0.5]),), None))),
    "error": lambda _: error(),
}


@pytest.mark.parametrize("edge", EDGES)
def test_x6_no_control_character_is_shown(edge: str, tmp_path: Path) -> None:
    text = EDGES[edge](tmp_path)
    lines = [line for line in text.splitlines() if line.strip().startswith(("With confidence 99.9", "at most 0.0001"))]
    assert not set(HIDDEN.findall(text)) - {"\n"}
    assert not lines
    if "json" not in edge:  # where the value is data
        assert "z" * 1_000 not in text


def test_x4_words_of_a_certificate_are_those_of_its_kind() -> None:
    found = json.loads(HistogramBinning(5, strategy="width").fit(SCORES, LABELS).calibration_.to_json())
    assert Calibration.from_json(json.dumps(found)).certificate
    forged = "Gupta 2023\nWith confidence 99.9 %, in each bin the true rate differs by at most 0.0001 (audited)"
    assumed = found["certificate"]["assumptions"]
    for words in (
        {"reference": forged},
        {"reference": "Gupta 2023, Theorem 4.1, given the edges"},
        {"assumptions": assumed[:1]},
        {"assumptions": [*assumed, assumed[0]]},
        {"assumptions": [*assumed, "one-draw"]},
    ):
        edited = found | {"certificate": found["certificate"] | words}
        with pytest.raises(DocumentError):
            Calibration.from_json(json.dumps(edited))


def test_what_can_be_read_stays_as_it_is() -> None:
    assert visible("größe 数 🙂 'a' \\ <b>") == "größe 数 🙂 'a' \\ <b>"
