"""Dataclasses to JSON and back: numbers and words, from which nothing but known dataclasses can be built.

Reading never imports, looks up an attribute by a name from the document or evaluates text: kinds are keys of a closed
dict, fields are checked one by one against the dataclass, and whatever is wrong ends in one :class:`DocumentError`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args

import numpy as np

from calibrant.arrays import Kind
from calibrant.arrays.multiclass.rows import ClassKind
from calibrant.export.errors import DocumentError
from calibrant.guarantees.certificates import Bound, Certificate, Mode, Refusal
from calibrant.guarantees.class_certificates import ClassCertificate
from calibrant.guarantees.path_certificate import PathCertificate
from calibrant.guarantees.provenance import ClassProvenance, Provenance, Sampling, Weighting
from calibrant.guarantees.simplex_certificate import SimplexCertificate
from calibrant.maps import KINDS, Axis, ClassAxis, Map, PathMap, SimplexBinsMap, SimplexScheme

FORMAT = 1
"""Version of the document. Readers for every earlier number stay for ever."""

MAX_DEPTH = 16

OTHERS: dict[str, type[Any]] = {
    "certificate": Certificate,
    "refusal": Refusal,
    "provenance": Provenance,
    "class-provenance": ClassProvenance,
    "class-certificate": ClassCertificate,
    "simplex-certificate": SimplexCertificate,
    "path-certificate": PathCertificate,
}
"""What a document may hold beside maps, by the name that it goes by there."""


def written(map_: Map, certificate: Any, provenance: Any) -> str:
    """The document as text; numbers survive bit for bit."""
    body = {"format": FORMAT, "map": map_, "certificate": certificate, "provenance": provenance}
    return lines({name: encode(part) for name, part in body.items()})


def encode(value: Any) -> Any:
    """A known dataclass as an object with its kind; arrays as lists."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    kind = value.kind if isinstance(value, Map) else next(name for name, cls in OTHERS.items() if type(value) is cls)
    told = {field.name: getattr(value, field.name) for field in fields(value) if not _left_out(field, value)}
    return {"is": kind} | {name: encode(item) for name, item in told.items()}


def _left_out(field: Field[Any], value: Any) -> bool:
    """Whether a field that came later holds what documents without it mean."""
    return bool(field.metadata.get("optional")) and getattr(value, field.name) == field.default


def lines(value: Any, indent: str = "") -> str:
    """JSON with one field per line and lists of numbers on one line."""
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {lines(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(inner + lines(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def decode(value: Any, allowed: Mapping[str, type[Any]], depth: int = 0) -> Any:
    """Build one dataclass of ``allowed`` from an object, each field by its declared type."""
    if depth > MAX_DEPTH:
        raise DocumentError("maps are nested too deeply")
    if not isinstance(value, dict):
        raise DocumentError(f"expected an object, found {_name(value)}")
    content = dict(value)
    kind = content.pop("is", None)
    cls = allowed.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise DocumentError(f"kind {kind!r} is not one of {', '.join(allowed)}")
    declared = {field.name: field for field in fields(cls)}
    unknown, missing = (
        set(content) - set(declared),
        {n for n, f in declared.items() if f.default is MISSING} - set(content),
    )
    if unknown or missing:
        raise DocumentError(f"{kind}: unknown or missing fields {sorted(unknown | missing)}")
    return cls(**{name: _TYPES[str(declared[name].type)](item, depth) for name, item in content.items()})


def _number(value: Any, depth: int) -> float:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise DocumentError(f"expected a finite number, found {_name(value)}")
    return value  # type: ignore[no-any-return]


def _whole(value: Any, depth: int) -> int:
    if type(value) is not int or abs(value) > 2**53:
        raise DocumentError(f"expected a whole number, found {_name(value)}")
    return value


def _word(value: Any, depth: int) -> str:
    if type(value) is not str or len(value) > 10_000:
        raise DocumentError(f"expected text, found {_name(value)}")
    return value


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise DocumentError(f"expected a list, found {_name(value)}")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise DocumentError(f"expected true or false, found {_name(value)}")
    return value


def _one_of(allowed: tuple[str, ...]) -> Callable[[Any, int], str]:
    def read(value: Any, depth: int) -> str:
        if type(value) is not str or value not in allowed:
            raise DocumentError(f"expected one of {', '.join(allowed)}, found {_name(value)}")
        return value

    return read


#: How each declared type of a field is read, by the text of its annotation.
_TYPES: dict[str, Callable[[Any, int], Any]] = {
    "float": _number,
    "int": _whole,
    "str": _word,
    "Kind": _one_of(get_args(Kind)),
    "Mode": _one_of(get_args(Mode)),
    "Bound": _one_of(get_args(Bound)),
    "Sampling": _one_of(get_args(Sampling)),
    "Weighting": _one_of(get_args(Weighting)),
    "Axis": _one_of(get_args(Axis)),
    "ClassKind": _one_of(get_args(ClassKind)),
    "ClassAxis": _one_of(get_args(ClassAxis)),
    "SimplexScheme": _one_of(get_args(SimplexScheme)),
    "PathMap": lambda value, depth: decode(value, {PathMap.kind: PathMap}, depth + 1),
    "SimplexBinsMap": lambda value, depth: decode(value, {SimplexBinsMap.kind: SimplexBinsMap}, depth + 1),
    "bool": lambda value, depth: _flag(value),
    "Floats": lambda value, depth: np.array([_number(item, depth) for item in _listed(value)], dtype=np.float64),
    "Ints": lambda value, depth: np.array([_whole(item, depth) for item in _listed(value)], dtype=np.int64),
    "Flags": lambda value, depth: np.array([_flag(item) for item in _listed(value)], dtype=bool),
    "tuple[str, ...]": lambda value, depth: tuple(_word(item, depth) for item in _listed(value)),
    "Map | None": lambda value, depth: None if value is None else decode(value, KINDS, depth + 1),
    "tuple[Certificate, ...]": lambda value, depth: tuple(
        decode(item, {"certificate": Certificate}, depth + 1) for item in _listed(value)
    ),
    "tuple[Map, ...]": lambda value, depth: tuple(decode(item, KINDS, depth + 1) for item in _listed(value)),
}


def parse(text: str | bytes) -> dict[str, Any]:
    """The object that a text holds, without its meaning."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        body = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as problem:
        raise DocumentError(f"not a JSON document: {problem}") from None
    if not isinstance(body, dict):
        raise DocumentError(f"expected an object, found {_name(body)}")
    return body


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise DocumentError("a key occurs twice in one object")
    return content


def _no_constant(name: str) -> float:
    raise DocumentError(f"{name} is not a number that a calibration can hold")


def _name(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "null"}.get(
        type(value), repr(value)[:40]
    )
