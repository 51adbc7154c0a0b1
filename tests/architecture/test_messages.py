"""Messages are values: no code reads a sentence, and errors and notes have the parts that edges need."""

from __future__ import annotations

import ast
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibrant.fits.scaling import one_class
from calibrant.selection.comparison import needs_rows

SOURCE = Path(__file__).parents[2] / "src" / "calibrant"
FILES = sorted(SOURCE.rglob("*.py"))

TEXTS = {"fix", "hint", "hints", "message", "note", "notes", "notes_", "problem", "sentence", "sentences", "warning"}
"""Names of messages and of their parts."""

FIELDS = {"outcome", "reason", "rule"}
"""Fields that say how something ended or why; the same names alone may be labels or settings."""

READERS = {
    *("endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rpartition", "rsplit"),
    *("split", "startswith"),
}
"""Methods of text that take it apart."""

OF_OTHERS = {
    "cli/input/duckdb_errors.py": "what DuckDB says about a file",
    "engine/overflow.py": "what an engine says about a sum beyond 64 bits",
}
"""Modules that read the texts of other programs, which have no codes."""


def _name(node: ast.expr) -> str:
    """The name that an expression ends in; that of ``str(x)`` is the name of x."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return f"str({_name(inner)})"
        case ast.Subscript(value=inner):
            return _name(inner)
    return ""


def _is_text(node: ast.expr) -> bool:
    name = _name(node)
    if isinstance(node, ast.Attribute) and name in FIELDS:
        return True
    return name in TEXTS or name in {f"str({each})" for each in (*TEXTS, "error", "exception", "wrong")}


def _reads(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in READERS and _is_text(value):
                yield node.lineno, f".{method}() of {_name(value)}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=args) if any(map(_is_text, args)):
                yield node.lineno, "a regular expression on a message"
            case ast.Subscript(value=value) if _is_text(value) and not isinstance(value, ast.Subscript):
                yield node.lineno, f"an item or slice of {_name(value)}"
            case ast.Compare(ops=ops, comparators=against):
                for operator, other in zip(ops, against, strict=True):
                    if isinstance(operator, ast.In | ast.NotIn) and _is_text(other):
                        yield node.lineno, f"`in {_name(other)}`"


def test_no_code_reads_a_sentence(subtests: pytest.Subtests) -> None:
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        if name in OF_OTHERS:
            continue
        with subtests.test(name):
            found = [f"line {line}: {what}" for line, what in _reads(ast.parse(path.read_text(encoding="utf-8")))]
            assert not found, "carry what is needed as a value: " + "; ".join(found)


def test_what_is_forbidden_is_found(subtests: pytest.Subtests) -> None:
    for code in [
        "re.sub('[0-9]', '', note)",
        "self.after_.notes[0]",
        "rows.notes[:1]",
        "line.outcome.startswith('from ')",
        "MINUS_ONE in found.notes",
        "str(problem).removeprefix('time')",
        "'out of range' in str(error)",
        "self.rule.split(' ')[0]",
    ]:
        with subtests.test(code=code):
            assert list(_reads(ast.parse(code)))


def _calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_an_error_has_an_argument_and_a_problem(subtests: pytest.Subtests) -> None:
    for error in ["InputError", "Mistake"]:
        with subtests.test(error=error):
            wrong = [
                where
                for where, call in _calls(error)
                if len(call.args) < 2
                or (isinstance(call.args[0], ast.Constant) and not call.args[0].value)
                or (isinstance(call.args[1], ast.Constant) and not call.args[1].value)
            ]
            assert not wrong


def test_codes_of_notes_are_plain_and_say_one_thing() -> None:
    made = [call.args[0] for _, call in _calls("note")]
    codes = Counter(str(code.value) for code in made if isinstance(code, ast.Constant))
    assert codes
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in codes), codes
    assert not [code for code, count in codes.items() if count > 1]


def test_notes_are_never_text() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.AnnAssign) and _name(node.target) in {"notes", "notes_"}:
                wrong += [f"{path.relative_to(SOURCE)}:{node.lineno}"] * ("tuple[str" in ast.unparse(node.annotation))
    assert not wrong


def test_notes_are_pickled_by_name() -> None:
    for kind in (one_class, needs_rows):
        assert pickle.loads(pickle.dumps(kind)) is kind
    assert str(pickle.loads(pickle.dumps(needs_rows(200.0)))) == str(needs_rows(200.0))
