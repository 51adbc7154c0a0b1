"""ARCHITECTURE.md, the layer contract and the source tree tell one story."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "calibrant"
TOPS = ("src", "tests", "benchmarks", "docs/service")
QUOTED = re.compile(r"`([^`\s]+)`")
FILE = re.compile(r"/|\.(py|md|toml|csv|json|html)$")
MODULE_LINE = re.compile(r"- `calibrant\.(\w+)`")
INVARIANT = re.compile(r"^\d+\. ")
TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)(?:\[[^`]*\])?`")


def section(title: str) -> str:
    """Text of the second-level section of ARCHITECTURE.md whose heading starts with `title`."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        if part.startswith(title):
            return part
    pytest.fail(f"ARCHITECTURE.md has no section '## {title}'")


def contract_layers() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [name.strip() for layer in layers for name in re.split(r"[|:]", layer)]


def source_modules() -> set[str]:
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def invariants() -> list[str]:
    """One string per numbered item, continuation lines joined."""
    items: list[str] = []
    for line in (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8").splitlines():
        if INVARIANT.match(line):
            items.append(line)
        elif items and line.startswith((" ", "\t")):
            items[-1] += " " + line.strip()
    return items


def defined_names(path: Path) -> set[str]:
    """Functions and classes of a test file, methods as `Class::method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
    return names


def test_architecture_lists_the_built_layers_in_order():
    listed = MODULE_LINE.findall(section("Modules, top layer first"))
    assert listed == contract_layers()


def test_built_layers_are_the_modules_in_src():
    assert sorted(contract_layers()) == sorted(source_modules())


def test_files_to_change_exist():
    """`NEW` and `NAME` stand for files of a folder that exists; a name without a folder is that of a file somewhere."""
    named = {word for word in QUOTED.findall(section("How to add")) if FILE.search(word)}
    known = {path.name for top in TOPS for path in (ROOT / top).rglob("*")} | {path.name for path in ROOT.iterdir()}
    paths = {re.sub(r"/(NEW|NAME)\.\w+$", "", word) for word in named}
    missing = [
        path
        for path in sorted(paths)
        if not (any((base / path).exists() for base in (PACKAGE, ROOT)) if "/" in path else path in known)
    ]
    assert len(paths) > 80
    assert not missing


def test_invariants_are_listed():
    assert invariants()


def test_every_invariant_names_a_test_that_exists():
    problems = []
    for item in invariants():
        named = TEST_NAME.findall(item)
        if not named:
            problems.append(f"names no test: {item}")
        for file, name in named:
            if not (ROOT / file).is_file() or name.removeprefix("::") not in defined_names(ROOT / file):
                problems.append(f"{file}{name} does not exist: {item}")
    assert not problems, "\n".join(problems)
