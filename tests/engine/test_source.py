"""Every kind of map of one score as Python and as C source, run and compiled, against `apply`."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_maps import FIFTY, ODD_NAMES, SAMPLES

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export import source as source_proof
from calibrant.export.errors import ExportMismatchError
from calibrant.export.kinds import samples
from calibrant.export.kinds.tolerance import only_copies
from calibrant.export.languages.printers import arguments
from calibrant.export.source import LANGUAGES, proven_source, source_of
from calibrant.maps import ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, PiecewiseLinearMap, SoftmaxMap, StepMap
from calibrant.messages import InputError
from calibrant.numerics import logit

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def few_scores(monkeypatch: pytest.MonkeyPatch, full_size: bool) -> None:
    """Edges and both sides of every knot as ever, but fewer random scores; the export in the docs has them all."""
    if not full_size:
        monkeypatch.setattr(samples, "RANDOM_SCORES", 2_000)
        monkeypatch.setattr(samples, "AROUND", 1_000)


def namespace(text: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    exec(text, out)
    return out


def test_a_compiler_is_at_hand() -> None:
    assert shutil.which("gcc"), "the C sources are compiled with gcc: install it"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", sorted(SAMPLES.keys() - {"tree"}))  # trees have no source
def test_every_map_is_proven(language: Any, kind: str, subtests: pytest.Subtests) -> None:
    for j, map_ in enumerate(SAMPLES[kind]):
        with subtests.test(f"{kind} {j}"):
            text, proof = proven_source(map_, language)
            assert str(proof) in text
            if only_copies(map_) or kind == "piecewise-linear":
                assert proof.equal == proof.scores


@pytest.mark.parametrize("language", LANGUAGES)
def test_columns_may_be_called_anything(language: Any) -> None:
    for column in ("int", "def", "größe", "a b", "x", "score", "group_1", "knots_1", "_x", "text", "Region"):
        map_ = ByGroupMap(
            column, ODD_NAMES, tuple(StepMap([], [j / 10]) for j in range(10)), StepMap([0.5], [0.3, 0.4])
        )
        text = source_of(map_, language)
        assert ("Region" in text) == (column == "Region")
        if column in ("def", "score", "Region"):
            proven_source(map_, language)


def test_two_columns_are_arguments_in_the_order_of_the_map() -> None:
    by_product = ByGroupMap("product", ("car",), (LogitAffineMap(0.8, 0.2),), None)
    risk = Calibration(ComposeMap((FIFTY, by_product, LogitAffineMap(1.1, 0.0))))
    calibrate = namespace(risk.to_python())["calibrate"]
    expected = risk.transform([0.3], {"region": ["region 7"], "product": ["car"]})[0]
    assert calibrate(0.3, "region 7", "car") == pytest.approx(expected, rel=1e-14)
    assert math.isnan(calibrate(0.3, "region 7", "bike"))


def test_arguments_differ_from_each_other_and_from_functions() -> None:
    assert arguments(["by_2", "my col", "bisect_right"]) == ["by_2", "by_2_", "by_3"]


def test_python_source_reads_scores_and_groups_as_transform_does() -> None:
    map_ = ByGroupMap("branch", (3, 12, "true"), tuple(StepMap([], [j / 10]) for j in range(3)), IdentityMap())
    calibrate = namespace(Calibration(map_).to_python())["calibrate"]
    assert [calibrate(0.7, group) for group in ("3", 3, 3.0, np.int64(12), True)] == [0.0, 0.0, 0.0, 0.1, 0.2]
    assert [calibrate(0.7, group) for group in (None, math.nan, "east")] == [0.7] * 3
    assert math.isnan(calibrate(None, "3"))
    assert math.isnan(calibrate(math.nan, "3"))
    assert calibrate(0.7, np.bool_(True)) == Calibration(map_).scorer()(0.7, np.bool_(True)) == 0.2
    missing = type("NAType", (), {"__ne__": lambda self, other: {}["no truth value"]})()
    assert calibrate(0.7, missing) == 0.7
    assert math.isnan(calibrate(missing, "3"))
    for group in (3.5, math.inf, -math.inf):
        with pytest.raises(ValueError, match="groups are text or integers"):
            calibrate(0.7, group)


def test_a_source_gives_nan_where_transform_refuses(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200)
    y = rng.random(200) < scores
    by_type = {
        "probability": (cb.PlattScaling().fit(scores, y), (-1e-5, 1.0 + 1e-5, 40.0, -math.inf, math.nan)),
        "logit": (cb.PlattScaling().fit(logit(scores), y, score_type="logit"), (math.inf, -math.inf, math.nan)),
    }
    for name, (cal, refused) in by_type.items():
        proof = cal.export_source(tmp_path / f"{name}.c")
        cal.export_source(tmp_path / f"{name}.py")
        calibrate = namespace((tmp_path / f"{name}.py").read_text())["calibrate"]
        assert all(math.isnan(calibrate(score)) for score in refused)
        assert calibrate(0.25) == pytest.approx(cal.transform([0.25])[0])
        assert proof.scores > 1_000


def test_a_source_that_reads_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = source_proof.source_of
    monkeypatch.setattr(source_proof, "source_of", lambda map_, language, *_: right(map_, language))
    with pytest.raises(ExportMismatchError, match="but the map gives nan"):
        proven_source(StepMap([0.5], [0.1, 0.8]), ".py", True)


def test_the_sources_are_small(tmp_path: Path) -> None:
    """Short, ASCII, and in Python without a package."""
    platt = Calibration(LogitAffineMap(0.8, -0.1))
    assert max(len(platt.to_python().splitlines()), len(platt.to_c().splitlines())) <= 16
    for text in (Calibration(FIFTY).to_python(), Calibration(FIFTY).to_c(), platt.to_c()):
        assert text.isascii()
    (tmp_path / "risk.py").write_text(platt.to_python())
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import risk; print(risk.calibrate(0.5))"]  # noqa: E501  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(found) == pytest.approx(platt.transform([0.5])[0])


def test_a_c_program_links_it(tmp_path: Path) -> None:
    cal = cb.IsotonicCalibrator().fit(np.linspace(0.01, 0.99, 200), np.resize([0, 0, 1], 200))
    cal.export_source(tmp_path / "risk.c")
    main = '#include <stdio.h>\ndouble calibrate(double);\nint main(void) { printf("%a", calibrate(0.4)); return 0; }\n'
    (tmp_path / "main.c").write_text(main)
    subprocess.run(
        ["gcc", "-std=c99", "-Wall", "-Werror", "-o", "risk", "risk.c", "main.c", "-lm"], cwd=tmp_path, check=True
    )
    found = subprocess.run([tmp_path / "risk"], capture_output=True, text=True, check=True).stdout
    assert float.fromhex(found) == cal.transform([0.4])[0]


@pytest.mark.parametrize(
    ("suffix", "old", "new"), [("py", "0.8", "0.7"), ("c", "0.8", "0.7"), ("c", "return x;", "return;")]
)
def test_a_source_that_is_off_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, old: str, new: str
) -> None:
    right = source_proof.source_of
    monkeypatch.setattr(source_proof, "source_of", lambda *given: right(*given).replace(old, new))
    with pytest.raises(ExportMismatchError):
        Calibration(StepMap([0.5], [0.1, 0.8])).export_source(tmp_path / f"risk.{suffix}")
    assert not [*tmp_path.iterdir()]


def test_what_has_no_source_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="to_onnx"):
        Calibration(SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9)).to_python()
    line = Calibration(PiecewiseLinearMap([0.0, 1.0], [0.2, 0.6]))
    with pytest.raises(InputError, match=r"path must end in .py or .c, got 'risk.java'"):
        line.export_source(tmp_path / "risk.java")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="install gcc, or use to_c"):
        line.export_source(tmp_path / "risk.c")
