"""Documents of maps of several classes load for ever, to the same numbers; broken ones are refused."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest
from tests.documents import test_mutations as mutations
from tests.documents.make_class_golden import GOLDEN, hexes, images, probes
from tests.documents.test_golden import numbers, without_document

from calibrant.calibration import Calibration, as_calibration, load
from calibrant.export.documents import FORMAT
from calibrant.export.errors import DocumentError
from calibrant.export.kinds.tolerance import only_copies
from calibrant.guarantees.about import ABOUT, ScoreBins, TreeLeaves, WeightedBins
from calibrant.guarantees.certificate import Certificate
from calibrant.maps import CLASS_KINDS
from calibrant.messages import InputError

DOCUMENTS = sorted(path for path in GOLDEN.glob("v*/*.json") if path.name != "images.json")
TEXTS = [path.read_bytes() for path in DOCUMENTS]
MUTATIONS = 1_500


def test_every_kind_and_every_promise_has_a_document() -> None:
    bodies = [json.loads(path.read_text()) for path in DOCUMENTS if path.parent.name == f"v{FORMAT}"]
    held = {(body["map"]["is"], (body["certificate"] or {"is": "none"})["is"]) for body in bodies}
    assert not without_document(CLASS_KINDS, bodies), "run tests/documents/make_class_golden.py"
    assert {promise for _, promise in held} == {"none", "no-certificate", "certificate"}
    promises = [body["certificate"] for body in bodies if "about" in (body["certificate"] or {})]
    assert {promise["about"]["is"] for promise in promises} == set(ABOUT) - {
        ScoreBins.key,
        WeightedBins.key,
        TreeLeaves.key,
    }


def test_it_loads_and_is_written_again_with_the_same_numbers(subtests: pytest.Subtests) -> None:
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            text = path.read_text(encoding="utf-8")
            calibration = load(path)
            assert isinstance(calibration, Calibration)
            again = calibration.to_json()
            assert numbers(json.loads(again)) == numbers(json.loads(text) | {"format": FORMAT})
            assert Calibration.from_json(again).map == calibration.map
            if path.parent.name == f"v{FORMAT}":
                assert again.strip() == text.strip()
            assert calibration.map.words in str(calibration)


def test_it_maps_to_the_same_probabilities(subtests: pytest.Subtests) -> None:
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            stored = json.loads((path.parent / "images.json").read_text())[path.stem]
            calibration = load(path)
            if only_copies(calibration.map):
                assert hexes(calibration) == stored
            expected = np.array([float.fromhex(each) for each in stored]).reshape(len(probes()), -1)
            np.testing.assert_allclose(images(calibration), expected, rtol=1e-13)


def test_a_promise_goes_with_its_own_map_alone(subtests: pytest.Subtests) -> None:
    for path in DOCUMENTS:
        with subtests.test(path.stem):
            calibration = load(path)
            if not isinstance(calibration.certificate, Certificate):
                continue
            for other in (load(each).map for each in DOCUMENTS):
                if other != calibration.map and len(other.classes) == len(calibration.map.classes):
                    with pytest.raises(ValueError, match="not about this map"):
                        Calibration(other, None, calibration.certificate)


def test_an_output_that_was_changed_no_longer_has_its_promise(subtests: pytest.Subtests) -> None:
    for text in [text for text in TEXTS if b'"certificate",' in text]:
        with subtests.test(text[:80].decode()):
            body = json.loads(text)
            table = next(each for each in _lists(body["map"]) if each and all(type(value) is float for value in each))
            assert table
            changed = 0
            for values in _lists(body["map"]):
                for place, value in enumerate(values):
                    if type(value) is float:
                        values[place] = value / 2 + 0.25
                        changed += _refused(body)
                        values[place] = value
            assert changed > 0
            assert not _refused(body)


def _lists(value: Any) -> list[list[Any]]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in _lists(item)]
    if isinstance(value, list):
        return [value, *(found for item in value for found in _lists(item))]
    return []


def _refused(body: Any) -> bool:
    try:
        Calibration.from_json(json.dumps(body))
    except DocumentError:
        return True
    return False


def test_a_map_of_classes_is_no_map_of_one_score_and_the_other_way_round() -> None:
    assert Calibration.from_json(TEXTS[0]).classes
    with pytest.raises(InputError, match="must be for one score"):
        as_calibration(Calibration.from_json(TEXTS[0]))
    body = json.loads(TEXTS[0])
    inside = {"is": "compose", "maps": [body["map"]]}
    with pytest.raises(DocumentError):
        Calibration.from_json(json.dumps(body | {"map": inside}))
    score = json.loads(mutations.TEXTS[0])
    for part in ("provenance", "certificate"):
        origins = [json.loads(text)[part] for text in mutations.TEXTS]
        origin = next((each for each in origins if each and each["is"] == part), None)
        with pytest.raises(DocumentError):
            Calibration.from_json(json.dumps(body | {part: origin}))
        own = [json.loads(text)[part] for text in TEXTS if json.loads(text)[part]]
        for each in own:
            if each["is"] != "no-certificate":
                with pytest.raises(DocumentError):
                    Calibration.from_json(json.dumps(score | {part: each}))


# ------------------------------------------------------------------------------------------------------------ mutations

MUTATORS = [mutate for mutate in mutations.MUTATORS if mutate not in mutations.FORGERIES]


def test_a_mutated_document_is_read_or_refused(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, full_size: bool
) -> None:
    monkeypatch.setattr(mutations, "TEXTS", TEXTS)
    count = (10 if full_size else 1) * MUTATIONS // len(MUTATORS)
    for mutate in MUTATORS:
        with subtests.test(mutate.__name__):
            rng = random.Random(mutate.__name__)
            for _ in range(count):
                document = mutate(rng.choice(TEXTS), rng)
                calibration = mutations.read(document)
                if calibration is not None:
                    assert mutate not in mutations.ALWAYS_REFUSED, document[:3000]
                    _assert_usable(calibration, document)


def _assert_usable(calibration: Any, document: bytes) -> None:
    """What was accepted applies, prints and stores itself: nothing half-read comes through."""
    try:
        if calibration.classes:
            rows = np.full((2, len(calibration.classes)), 1.0 / len(calibration.classes))
            texts, numbers = np.array(["a", None], dtype=object), np.array([1.0, np.nan])
            held = calibration.map
            groups = {name: numbers if name in held.numbers else texts for name in held.columns}
            assert calibration.map.apply(rows, groups or None).shape == (2, len(calibration.map.outputs))
        assert str(calibration)
        assert Calibration.from_json(calibration.to_json()).to_json() == calibration.to_json()
    except Exception as problem:
        raise AssertionError(f"{problem!r} from the accepted document {document[:3000]!r}") from problem


def test_golden_documents_pass_the_watch() -> None:
    for text in TEXTS:
        assert mutations.read(copy.copy(text)) is not None
