"""Documents of every earlier format load for ever, to the same numbers (invariant 3)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from tests.documents.make_golden import GOLDEN, hexes, images

from calibrant.calibration import Calibration, load
from calibrant.export.documents import FORMAT
from calibrant.export.errors import DocumentError
from calibrant.guarantees.certificate import Certificate, Coverage
from calibrant.guarantees.provenance import Sampling, WeightType
from calibrant.maps import KINDS, IdentityMap, StepMap, TreeMap

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
DOCUMENTS = sorted(path for path in GOLDEN.glob("v*/*.json") if path.name != "images.json")
EXACT_KINDS = {"identity", "step", "piecewise-linear"}  # the others use exp and log, whose last bit is the platform's


def without_document(kinds: Iterable[str], bodies: list[Any]) -> set[tuple[str, str]]:
    """Kinds without a document of the current format; a kind that no version was released with may still have none."""
    held = {(body["map"]["is"], (body["certificate"] or {"is": "none"})["is"]) for body in bodies}
    heading = next(line for line in CHANGELOG.read_text().splitlines() if line.startswith("## "))
    wanted = {(kind, certificate) for kind in kinds for certificate in ("none", "no-certificate")}
    started = {kind for kind, _ in held} if "unreleased" in heading.lower() else set(kinds)
    return {(kind, certificate) for kind, certificate in wanted - held if kind in started}


def test_every_kind_and_every_promise_has_a_document():
    bodies = [json.loads(path.read_text()) for path in DOCUMENTS if path.parent.name == f"v{FORMAT}"]
    assert not without_document(KINDS, bodies), "run tests/documents/make_golden.py"
    assert {body["map"]["is"] for body in bodies if body["certificate"] and "about" in body["certificate"]} == {
        "step",
        "tree",
    }
    promises = [
        body["certificate"] for body in bodies if (body["certificate"] or {"is": "none"})["is"] == "certificate"
    ]
    assert {promise["coverage"] for promise in promises} == set(get_args(Coverage))
    assert {promise["score_type"] for promise in promises} >= {"probability", "logit"}
    assert any(any(promise["about"].get("uncovered", ())) for promise in promises)
    assert any(any(not n for n in promise["rows"]) for promise in promises)
    origins = [body["provenance"] for body in bodies if body["provenance"]]
    assert {origin["sampling"] for origin in origins} == set(get_args(Sampling))
    assert {origin["weight_type"] for origin in origins} == set(get_args(WeightType))
    assert {origin["resolution"] for origin in origins} == {"exact", "grid", "bins"}


def test_a_certificate_goes_with_its_own_map_alone(subtests):
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            calibration = load(path)
            if not isinstance(calibration.certificate, Certificate):
                continue
            if isinstance(calibration.map, TreeMap):
                with pytest.raises(ValueError, match="not about this map"):
                    Calibration(IdentityMap(), calibration.provenance, calibration.certificate)
                continue
            assert isinstance(calibration.map, StepMap)
            for other in (
                IdentityMap(),
                StepMap(calibration.map.knots, 1.0 - calibration.map.values),
                StepMap([], [0.5]),
            ):
                with pytest.raises(ValueError, match="not about this map"):
                    Calibration(other, calibration.provenance, calibration.certificate)


def test_it_loads_and_is_written_again_with_the_same_numbers(subtests):
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            text = path.read_text(encoding="utf-8")
            calibration = load(path)
            again = calibration.to_json()
            assert numbers(json.loads(again)) == numbers(json.loads(text) | {"format": FORMAT})
            assert Calibration.from_json(again).to_json() == again
            assert Calibration.from_json(again).map == calibration.map
            if path.parent.name == f"v{FORMAT}":
                assert again.strip() == text.strip()


def numbers(value: Any) -> Any:
    """The same structure with every number by its bits, so that 0.1 + 0.2 is not 0.3 and -0.0 is not 0.0."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return float(value).hex() if type(value) in (int, float) else value


def test_it_maps_to_the_same_probabilities(subtests):
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            stored = json.loads((path.parent / "images.json").read_text())
            calibration = load(path)
            expected = [float.fromhex(image) for image in stored[path.stem]]
            if calibration.map.kind in EXACT_KINDS:
                assert hexes(calibration) == stored[path.stem]
            else:
                np.testing.assert_allclose(images(calibration), expected, rtol=1e-14)


def test_it_prints_itself(subtests):
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            calibration = load(path)
            assert calibration.map.words in str(calibration)
            if calibration.certificate is not None:
                assert str(calibration.certificate) in str(calibration)


def test_the_script_leaves_golden_documents_alone(tmp_path, monkeypatch):
    from tests.documents import make_golden

    monkeypatch.setattr(make_golden, "GOLDEN", tmp_path)
    make_golden.main()
    first = {path.name: path.read_bytes() for path in Path(tmp_path).rglob("*.json")}
    victim = tmp_path / f"v{FORMAT}" / "identity.none.json"
    victim.write_text("mine")
    make_golden.main()
    assert victim.read_text() == "mine"
    assert {path.name for path in Path(tmp_path).rglob("*.json")} == set(first)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the document is empty"),
        ('{"a": 1}', "the document is JSON, but not a calibration saved by Calibrant"),
        ("p,y", "the text is not a JSON document"),
        ('{"format": 99}', "format 99 is not supported"),
    ],
)
def test_another_file_is_refused_with_its_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(DocumentError, match=f"^other.json: {problem}") as caught:
        load(tmp_path / "other.json")
    assert caught.value.file == "other.json"
