"""A broken or hostile document raises DocumentError and nothing else, and reaches no code (invariant 10)."""

from __future__ import annotations

import copy
import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrant.calibration import Calibration
from calibrant.export.errors import DocumentError

GOLDEN = Path(__file__).parent / "golden"
TEXTS = [path.read_bytes() for path in sorted(GOLDEN.glob("v*/*.json")) if path.name != "images.json"]
MUTATIONS = 3_000
"""With `--full` ten times as many."""

# ---------------------------------------------------------------------------------------------------------------------
# The watch: an audit hook cannot be taken away again, so it listens only while a document is read
# ---------------------------------------------------------------------------------------------------------------------

FORBIDDEN = ("import", "exec", "compile", "open", "code.__new__", "function.__new__", "builtins.breakpoint")
FORBIDDEN_FAMILIES = ("os.", "subprocess.", "socket.", "pickle.", "marshal.", "ctypes.", "shutil.", "tempfile.", "sys.")
HEARD: list[str] = []
LISTENING = [False]


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if LISTENING[0] and (event in FORBIDDEN or event.startswith(FORBIDDEN_FAMILIES)):
        HEARD.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_hear)


def read(document: str | bytes) -> Calibration | None:
    """The calibration, or None when it was refused; anything else is a failure."""
    HEARD.clear()
    LISTENING[0] = True
    try:
        return Calibration.from_json(document)
    except DocumentError:
        return None
    finally:
        LISTENING[0] = False
        assert not HEARD, f"{HEARD[0]} while reading {document[:2000]!r}"


# ---------------------------------------------------------------------------------------------------------------------
# Mutations of bytes
# ---------------------------------------------------------------------------------------------------------------------

Mutation = Callable[[bytes, random.Random], bytes]


def flip_bits(text: bytes, rng: random.Random) -> bytes:
    out = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def change_bytes(text: bytes, rng: random.Random) -> bytes:
    out = bytearray(text)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] = rng.choice(b'0123456789eE+-.,:[]{}"\\/ \x00\xff\xc3abnut')
    return bytes(out)


def truncate(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text))]


def delete_a_stretch(text: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(text))
    return text[:start] + text[start + rng.randint(1, 60) :]


def repeat_a_stretch(text: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(text))
    stop = start + rng.randint(1, 200)
    return text[:stop] + text[start:]


def splice_two(text: bytes, rng: random.Random) -> bytes:
    other = rng.choice(TEXTS)
    return text[: rng.randrange(len(text))] + other[rng.randrange(len(other)) :]


def encode_otherwise(text: bytes, rng: random.Random) -> bytes:
    way = rng.choice(
        ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig", "utf-7", "cp500"]
    )
    return text.decode().encode(way)[rng.randint(0, 3) :]


def break_utf8(text: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(text))
    return (
        text[:place]
        + rng.choice([b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80", b"\x00\x00"])
        + text[place:]
    )


def not_a_document(text: bytes, rng: random.Random) -> bytes:
    return rng.choice(
        [b"", b" ", b"null", b"[]", b"1", b'"x"', b"{}", b"\x80\x04K\x01.", b"cos\nsystem\n(S'id'\ntR.", text * 2]
    )


# ---------------------------------------------------------------------------------------------------------------------
# Mutations of the JSON tree
# ---------------------------------------------------------------------------------------------------------------------

NAMES = [
    "os.system",
    "__class__",
    "__import__('os')",
    "builtins.eval",
    "Map",
    "ScoreMap",
    "__reduce__",
    "step\x00",
    "../x",
]
HUGE = [10**400, 2**53 + 1, 2**63, 2**70, -(2**64), 1e308, -1e308, 1.7e308, 5e-324, -0.0, 10**30]
STRANGE = [
    None,
    True,
    False,
    "",
    "1",
    "NaN",
    [],
    [[]],
    {},
    {"is": "step"},
    0,
    -1,
    1,
    0.5,
    "é\ud800",
    ["a"],
    [None],
    [True],
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of the tree."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((value, key), *places(item))]


def tree(change: Callable[[Any, Any, random.Random], None]) -> Mutation:
    """A mutation of one to three random places of the tree."""

    def mutate(text: bytes, rng: random.Random) -> bytes:
        body = json.loads(text)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            here = places(body)
            if here:
                change(*rng.choice(here), rng)
        return json.dumps(body).encode("utf-8", "surrogatepass")

    mutate.__name__ = change.__name__
    return mutate


@tree
def swap_the_type(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = copy.deepcopy(rng.choice(STRANGE))


@tree
def put_a_huge_number(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = rng.choice(HUGE)


@tree
def nudge_a_number(container: Any, key: Any, rng: random.Random) -> None:
    if type(container[key]) in (int, float):
        container[key] = rng.choice(
            [-container[key], container[key] + 1, container[key] * 1.5, 0, 1, float(container[key])]
        )


@tree
def remove_a_field(container: Any, key: Any, rng: random.Random) -> None:
    del container[key]


@tree
def add_a_field(container: Any, key: Any, rng: random.Random) -> None:
    if isinstance(container, dict):
        container[rng.choice([*NAMES, "apply", "score_type", "_guide", "n", "maps", "format"])] = rng.choice(
            [*NAMES, 1, None]
        )
    else:
        container.insert(key, rng.choice([*NAMES, 0.5, 2.0, None]))


@tree
def name_something_else(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = rng.choice(NAMES)


@tree
def claim_another_kind(container: Any, key: Any, rng: random.Random) -> None:
    if isinstance(container, dict) and "is" in container:
        container["is"] = rng.choice(
            [*NAMES, "identity", "step", "beta", "compose", "certificate", "provenance", "no-certificate"]
        )


@tree
def exchange_parts(container: Any, key: Any, rng: random.Random) -> None:
    other = json.loads(rng.choice(TEXTS))
    container[key] = other[rng.choice(sorted(other))]


@tree
def nest_deeply(container: Any, key: Any, rng: random.Random) -> None:
    value = copy.deepcopy(container[key])
    for _ in range(rng.choice([3, 15, 16, 17, 40])):
        value = rng.choice([[value], {"is": "compose", "maps": [value]}])
    container[key] = value


def repeat_a_key(text: bytes, rng: random.Random) -> bytes:
    starts = [i for i in range(len(text)) if text[i : i + 1] == b"{"]
    place = rng.choice(starts) + 1
    return (
        text[:place] + rng.choice([b'"is": "step", ', b'"map": null, ', b'"format": 1, ', b'"n": 1, ']) + text[place:]
    )


def write_a_constant(text: bytes, rng: random.Random) -> bytes:
    body = json.loads(text)
    here = places(body)
    container, key = rng.choice(here)
    container[key] = "@@"
    literal = rng.choice(
        ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000, "nan", "0x10", "1e-999", "01", "--1"]
    )
    return json.dumps(body).replace('"@@"', literal).encode()


def nest_without_end(text: bytes, rng: random.Random) -> bytes:
    depth = rng.choice([100, 5_000, 100_000])
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'{"is":"compose","maps":[', b"]}")])
    inner = opening * depth + (closing * depth if rng.random() < 0.5 else b"")
    return (
        inner
        if rng.random() < 0.3
        else b'{"format": 1, "certificate": null, "provenance": null, "map": ' + inner + b"}"
    )


def change_the_format(text: bytes, rng: random.Random) -> bytes:
    body = json.loads(text)
    body["format"] = rng.choice([0, 2, -1, 1.0, "1", True, None, [1], 10**20, {}])
    return json.dumps(body).encode()


# ---------------------------------------------------------------------------------------------------------------------
# Forgeries: a document that is still whole, with a better promise than the rows gave
# ---------------------------------------------------------------------------------------------------------------------

CERTIFIED = [text for text in TEXTS if b'"is": "certificate"' in text]
OF_TREES = [text for text in CERTIFIED if b'"tree-leaves"' in text]
OF_BINS = [text for text in CERTIFIED if text not in OF_TREES]


def forgery(change: Callable[[dict[str, Any], random.Random], None]) -> Mutation:
    """A mutation of the certificate of some document that has one; every fourth time it is that of a tree."""

    def mutate(text: bytes, rng: random.Random) -> bytes:
        others = OF_BINS if change.__name__ == "edit_knots" or rng.random() < 0.75 else OF_TREES
        body = json.loads(text if text in others else rng.choice(others))
        before = copy.deepcopy(body["certificate"])
        change(body["certificate"], rng)
        assert body["certificate"] != before, change.__name__
        return json.dumps(body).encode()

    mutate.__name__ = change.__name__
    return mutate


def promised(certificate: dict[str, Any]) -> list[int]:
    return [place for place, rows in enumerate(certificate["rows"]) if rows]


def widest(certificate: dict[str, Any]) -> tuple[str, int]:
    """The one end of an interval that epsilon is the distance of."""
    ends = [
        (abs(certificate[side][place] - certificate["outputs"][place]), side, place)
        for place in promised(certificate)
        for side in ("lower", "upper")
    ]
    return max(ends)[1:]


@forgery
def edit_epsilon(certificate: dict[str, Any], rng: random.Random) -> None:
    old = certificate["epsilon"]
    certificate["epsilon"] = rng.choice([old / 2, old * 2, math.nextafter(old, 0), math.nextafter(old, 1), 0, 1, -old])


@forgery
def edit_knots(certificate: dict[str, Any], rng: random.Random) -> None:
    """Move, swap, repeat, drop or add the knots at which the map changes its value."""
    outputs, knots = certificate["outputs"], certificate["about"]["knots"]
    changing = [place for place in range(len(knots)) if outputs[place] != outputs[place + 1]]
    place, way = rng.choice(changing), rng.choice(["move", "nudge", "swap", "repeat", "drop", "add", "reverse"])
    if way == "move":
        knots[place] += rng.choice([-1e-3, 1e-3, 1.0, -1.0])
    elif way == "nudge":
        knots[place] = math.nextafter(knots[place], rng.choice([-math.inf, math.inf]))
    elif way in ("swap", "repeat") and len(knots) > 1:
        other = (place + 1) % len(knots)
        old, knots[place] = knots[place], knots[other]
        knots[other] = old if way == "swap" else knots[other]
    elif way == "reverse" and len(knots) > 1:
        knots.reverse()
    elif way == "add":
        knots.append(knots[-1] + 1.0)
    else:
        del knots[place]


@forgery
def edit_intervals(certificate: dict[str, Any], rng: random.Random) -> None:
    """Narrow or widen the interval that epsilon comes from, turn one around, or leave [0, 1]."""
    side, place = widest(certificate)
    way = rng.choice(["narrow", "widen", "turn", "below", "above", "shorten", "lengthen"])
    if way == "narrow":
        certificate[side][place] += (certificate["outputs"][place] - certificate[side][place]) * rng.uniform(0.01, 1)
        other = {"lower": "upper", "upper": "lower"}[side]
        certificate[other][place] = certificate["outputs"][place]
        for bin in promised(certificate):
            certificate["lower"][bin] = max(certificate["lower"][bin], certificate["outputs"][bin])
    elif way == "widen":
        output, least = certificate["outputs"][place], certificate["epsilon"]
        roomier = "lower" if output > 0.5 else "upper"
        end = 0.0 if roomier == "lower" else 1.0
        certificate[roomier][place] = end if abs(end - output) > least else 2.0
    elif way == "turn":
        certificate["lower"][place], certificate["upper"][place] = 0.9, 0.1
    elif way in ("below", "above"):
        any_bin = rng.randrange(len(certificate["rows"]))
        side, end = ("lower", -1e-9) if way == "below" else ("upper", 1.0 + 1e-9)
        certificate[side][any_bin] = end
    elif way == "shorten":
        certificate[rng.choice(["lower", "upper"])].pop()
    else:
        certificate[rng.choice(["lower", "upper"])].append(1.0)


@forgery
def edit_counts(certificate: dict[str, Any], rng: random.Random) -> None:
    """More rows than were counted, more events than rows, rows on an edge that nothing is said about."""
    place = rng.choice(promised(certificate))
    of_bins = ["uncovered", "uncovered length"] if "uncovered" in certificate["about"] else []
    way = rng.choice(["n", "rows", "events", "negative", "none", *of_bins])
    if way == "n":
        certificate["n"] = rng.choice([0, certificate["n"] + 1, 10 * certificate["n"]])
    elif way == "rows":
        certificate["rows"][place] += rng.choice([-1, 1, 1000])
    elif way == "events":
        certificate["events"][place] = certificate["rows"][place] + 1
    elif way == "negative":
        certificate["events"][place] = -1
    elif way == "uncovered":
        certificate["about"]["uncovered"][place] = True
    elif way == "uncovered length":
        certificate["about"]["uncovered"].append(False)
    else:
        certificate["rows"] = [0] * len(certificate["rows"])
        certificate["events"], certificate["n"] = list(certificate["rows"]), 0


@forgery
def edit_outputs(certificate: dict[str, Any], rng: random.Random) -> None:
    place = rng.randrange(len(certificate["outputs"]))
    certificate["outputs"][place] = rng.choice([math.nextafter(certificate["outputs"][place], 2.0), 0.123, 2.0, -1.0])


@forgery
def edit_alpha(certificate: dict[str, Any], rng: random.Random) -> None:
    certificate["alpha"] = rng.choice([0, 0.0, 1, 1.0, -0.1, 1.5, "0.1", None, True])


@forgery
def edit_words(certificate: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(["coverage", "interval", "score_type"])
    certificate[name] = rng.choice(["", "joint", "wilson", "clopper-pearson ", None, 1, *NAMES])


@forgery
def strike_an_assumption(certificate: dict[str, Any], rng: random.Random) -> None:
    """The rows need not be independent any more."""
    certificate["assumptions"] = rng.choice([[], ["bins-chosen-before"], ["one-draw"], certificate["assumptions"][1:]])


FORGERIES = [
    edit_epsilon,
    edit_knots,
    edit_intervals,
    edit_counts,
    edit_outputs,
    edit_alpha,
    edit_words,
    strike_an_assumption,
]

MUTATORS: list[Mutation] = [
    *FORGERIES,
    flip_bits,
    change_bytes,
    truncate,
    delete_a_stretch,
    repeat_a_stretch,
    splice_two,
    encode_otherwise,
    break_utf8,
    not_a_document,
    swap_the_type,
    put_a_huge_number,
    nudge_a_number,
    remove_a_field,
    add_a_field,
    name_something_else,
    claim_another_kind,
    exchange_parts,
    nest_deeply,
    repeat_a_key,
    write_a_constant,
    nest_without_end,
    change_the_format,
]
ALWAYS_REFUSED = {break_utf8, not_a_document, change_the_format, repeat_a_key, nest_without_end, *FORGERIES}


def test_a_mutated_document_is_read_or_refused(subtests, full_size):
    count = (10 if full_size else 1) * MUTATIONS // len(MUTATORS)
    for mutate in MUTATORS:
        with subtests.test(mutate.__name__):
            rng = random.Random(mutate.__name__)
            for _ in range(count):
                document = mutate(rng.choice(TEXTS), rng)
                calibration = read(document)
                if calibration is not None:
                    assert mutate not in ALWAYS_REFUSED, document[:3000]
                    assert_usable(calibration, document)
                    assert read(document.decode()) is not None


def assert_usable(calibration: Calibration, document: bytes) -> None:
    """What was accepted applies, prints and stores itself: nothing half-read comes through."""
    try:
        map_ = calibration.map
        groups = {name: [1.5 if name in map_.numbers else "a", None] for name in map_.columns}
        assert len(calibration.transform([0.25, 0.75], groups)) == 2
        assert str(calibration)
        again = calibration.to_json()
        assert Calibration.from_json(again).to_json() == again
    except Exception as problem:
        raise AssertionError(f"{problem!r} from the accepted document {document[:3000]!r}") from problem


def test_there_are_enough_certificates_to_forge():
    assert len(OF_BINS) >= 8
    assert OF_TREES


def test_the_map_of_a_certified_document_is_not_exchanged(subtests):
    for text in CERTIFIED:
        with subtests.test(text[:80].decode()):
            body = json.loads(text)
            for other in ({"is": "identity"}, {"is": "step", "knots": [], "values": [0.5]}):
                assert read(json.dumps(body | {"map": other})) is None
            values = body["map"]["maps"][0]["values"] if text in OF_TREES else body["map"]["values"]
            values[0] = values[0] / 2 + 0.25
            assert read(json.dumps(body)) is None


def test_golden_documents_pass_the_watch():
    assert all(read(text) is not None and read(text.decode()) is not None for text in TEXTS)


def test_the_watch_sees_it(subtests):
    for code in [
        "import colorsys",
        "eval('1')",
        "compile('1', '', 'eval')",
        "open('/dev/null').close()",
        "import os; os.listdir('/')",
    ]:
        with subtests.test(code=code):
            HEARD.clear()
            sys.modules.pop("colorsys", None)
            LISTENING[0] = True
            try:
                exec(code)
            finally:
                LISTENING[0] = False
            assert len(HEARD) > 1 or code.startswith("eval")


def test_what_is_no_text_is_refused(subtests):
    for thing in [None, 1, 1.5, [], {}, object()]:
        with subtests.test(type(thing).__name__), pytest.raises((DocumentError, TypeError)):
            Calibration.from_json(thing)
