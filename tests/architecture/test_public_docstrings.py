"""Every public object explains itself: summary, parameters, result, guarantee, reference and an example.

Run as a script, it prints what is missing. A filter is a namespace, a folder or module of the package, or a name::

    PYTHONPATH=src python tests/architecture/test_public_docstrings.py metrics tallies

That examples run is checked by pytest, which collects the doctests of the package.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import calibrant

NAMESPACES = (
    *("metrics", "displays", "multiclass", "online", "shift", "engine", "maps", "notions", "calibrators", "decisions"),
    *("abstention", "clinical", "conformal", "credit"),
)
"""Public namespaces; ``calibrant`` stands for the names of the top level that are in none of them."""

METHODS = {"abstention", "metrics", "calibrators", "multiclass", "online", "shift", "clinical", "conformal", "credit"}
"""Namespaces of statistical methods, whose objects state their guarantee and cite their source."""

LONGEST, FEWEST_WORDS, MANY_PARAMETERS = 120, 4, 3
"""Characters and words of a summary; parameters from which a method of a class lists them in a section."""

CITATION = re.compile(r"\bReferences?\b|[A-Z][\w'-]+,? \(?(1[89]|20)\d\d\b")
"""The word Reference, or an author and a year."""

EXCEPTIONS: dict[str, tuple[set[str], str]] = {
    "accuracy": ({"reference"}, "the share of correct rows needs no source"),
    "rmse": ({"reference"}, "the root of a mean square needs no source"),
    "Map": ({"example"}, "base class: the kinds of maps have examples"),
    "ScoreMap": ({"example"}, "base class: the kinds of maps have examples"),
    "MulticlassMap": ({"example"}, "base class: the kinds of maps have examples"),
    "Family": ({"guarantees", "reference"}, "base class: each family states its own"),
    "Nested": ({"guarantees", "reference"}, "a protocol for nested sets"),
    "Forecaster": ({"example", "guarantees", "reference"}, "base class: each forecaster states its own"),
    "KernelForecaster": ({"example", "guarantees", "reference"}, "base class: each forecaster states its own"),
    "RowByRow": ({"guarantees", "reference"}, "base class: each forecaster states its own"),
    "Predictive": ({"example", "guarantees", "reference"}, "a protocol for predictive distributions"),
    "read_only": ({"guarantees", "reference"}, "a tool for those who write forecasters"),
    "register": ({"guarantees", "reference"}, "a tool for those who write forecasters"),
    "resume": ({"guarantees", "reference"}, "reads a stored state"),
    "calibrate": ({"reference"}, "the calibrators that it compares cite their sources"),
}
"""Object -> what it may lack, and why."""


class Section(NamedTuple):
    """A section of a docstring in numpy's format: its title and its lines without their indent."""

    title: str
    lines: list[str]

    def names(self) -> set[str]:
        """Entries such as ``low, high : float``, ``*args`` or ``y``."""
        heads = [line.split(" : ")[0] for line in self.lines if line and not line.startswith(" ")]
        return {name.strip().lstrip("*") for head in heads for name in head.rstrip(":").split(",")}


def sections(text: str) -> dict[str, Section]:
    """Sections by title: a line, then a line of dashes."""
    lines = inspect.cleandoc(text).split("\n")
    starts = [at for at, line in enumerate(lines) if at and re.fullmatch(r"-{3,}", line) and lines[at - 1].strip()]
    ends = [at - 1 for at in starts[1:]] + [len(lines)]
    found = [
        Section(lines[start - 1].strip(), lines[start + 1 : end]) for start, end in zip(starts, ends, strict=False)
    ]
    return {section.title: section for section in found}


def is_record(value: Any) -> bool:
    """Whether this is a class of plain results: a dataclass or a named tuple."""
    return inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))


def is_abstract(value: Any) -> bool:
    """Whether this is a class that only its subclasses make objects of."""
    return inspect.isabstract(value) or getattr(value, "_is_protocol", False)


def parameters(value: Any) -> list[str]:
    """Public names of a call's parameters, without ``self`` and catch-alls."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    given = [name for name, each in signature.parameters.items() if each.kind not in kinds]
    return [name for name in given if name not in {"self", "cls"} and not name.startswith("_")]


def returns_something(function: Any) -> bool:
    return getattr(function, "__annotations__", {}).get("return") not in {None, "None", "NoReturn", "Never"}


def check_summary(text: str) -> Iterator[str]:
    """What is wrong with the first line."""
    first = inspect.cleandoc(text).split("\n")[0]
    if not first:
        yield "no docstring"
        return
    if not first.endswith("."):
        yield f"summary does not end with a period: {first!r}"
    if len(first) > LONGEST:
        yield f"summary has {len(first)} characters"
    if len(re.findall(r"\w+", first)) < FEWEST_WORDS:
        yield f"summary has fewer than {FEWEST_WORDS} words: {first!r}"


def check_parameters(value: Any, text: str) -> Iterator[str]:
    """Parameters that no section lists."""
    parts = sections(text)
    titles = ("Parameters", "Other Parameters", "Attributes") if inspect.isclass(value) else ("Parameters",)
    listed = {name for title in titles if title in parts for name in parts[title].names()}
    if inspect.isclass(value) and "__init__" in vars(value):
        inner = sections(value.__init__.__doc__ or "")
        listed |= inner["Parameters"].names() if "Parameters" in inner else set()
    if missing := [name for name in parameters(value) if name not in listed]:
        yield f"parameters not described: {', '.join(missing)}"


def check_methods(value: type) -> Iterator[str]:
    """Methods and properties that the class itself defines."""
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if not isinstance(function, FunctionType):
            continue
        text = inspect.getdoc(getattr(value, name)) or ""
        found = [each for each in check_summary(text) if "words" not in each]
        bound = function if isinstance(member, staticmethod) else getattr(value, name)
        if not isinstance(member, property) and len(parameters(bound)) >= MANY_PARAMETERS:
            found += check_parameters(bound, text)
        yield from (f".{name}: {each}" for each in found)


def missing_from(name: str, value: Any, namespace: str) -> list[str]:
    """What the docstring of a public object lacks."""
    text = vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or ""
    found = list(check_summary(text))
    simple = inspect.isclass(value) and issubclass(value, (BaseException, enum.Enum))
    if not simple:
        found += check_parameters(value, text)
    if not inspect.isclass(value) and returns_something(value) and "Returns" not in sections(text):
        found.append("no Returns section")
    result = is_record(value) and namespace in {*METHODS, "engine"}
    if not (simple or result or is_abstract(value)) and ">>>" not in text:
        found.append("no example")
    if namespace in METHODS and not simple and not is_record(value):
        if "guarantee" not in text.lower():
            found.append("no statement about guarantees")
        if not CITATION.search(text):
            found.append("no reference")
    if inspect.isclass(value):
        found += check_methods(value)
    allowed, _ = EXCEPTIONS.get(name, (set(), ""))
    return [each for each in found if each.split()[-1] not in allowed]


def members(namespace: str) -> dict[str, Any]:
    """Public functions and classes of a namespace; the homes of top-level names where it lists none itself."""
    try:
        module = getattr(calibrant, namespace)
    except AttributeError:
        try:
            module = import_module(f"calibrant.{namespace}")
        except ModuleNotFoundError:
            module = ModuleType(namespace)
    names = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    if not names and namespace in {"calibrators", "multiclass"}:
        homes = {name: home for name, home in calibrant._HOMES.items() if home.startswith("calibrators")}
        wanted = namespace == "multiclass"
        names = {name: getattr(calibrant, name) for name, home in homes.items() if ("multiclass" in home) == wanted}
    elif not names:
        names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        names = {name: value for name, value in names.items() if getattr(value, "__module__", "") == module.__name__}
    return {name: value for name, value in names.items() if inspect.isclass(value) or isinstance(value, FunctionType)}


def public() -> Iterator[tuple[str, str, Any]]:
    """Namespace, name and object of everything public, once each."""
    seen: set[int] = set()
    top = {name: getattr(calibrant, name) for name in calibrant.__all__}
    top = {name: value for name, value in top.items() if inspect.isclass(value) or isinstance(value, FunctionType)}
    for namespace, found in [*((each, members(each)) for each in NAMESPACES), ("calibrant", top)]:
        for name, value in found.items():
            if id(value) not in seen:
                seen.add(id(value))
                yield namespace, name, value


def missing(*filters: str) -> list[str]:
    """One line for each object with something missing."""
    lines = []
    for namespace, name, value in public():
        if filters and not {namespace, value.__module__.split(".")[1], name} & set(filters):
            continue
        if found := missing_from(name, value, namespace):
            lines.append(f"{namespace}.{name} ({value.__module__}):\n" + "\n".join(f"    {each}" for each in found))
    return lines


def test_public_objects_are_documented():
    found = missing()
    assert not found, f"{len(found)} public objects are not fully documented:\n" + "\n".join(found)


def test_exceptions_name_public_objects():
    assert EXCEPTIONS.keys() <= {name for _, name, _ in public()}


if __name__ == "__main__":
    lines = missing(*(each.strip("/").split("/")[-1].removesuffix(".py") for each in sys.argv[1:]))
    sys.stdout.write("\n".join([*lines, f"{len(lines)} objects with something missing\n"]))
    sys.exit(bool(lines))
