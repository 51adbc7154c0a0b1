"""One table says what each random draw is for, and what needs a fresh draw has one by default."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import calibrant

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "certificate.md"
NEEDS = {"a fresh draw", "nothing", "simulation error"}


def defaults() -> dict[str, Any]:
    """The default of ``random_state`` of every public function, class and method that has it, by qualified name."""
    found: dict[str, Any] = {}
    names = [
        f"calibrant.{each.name}" for each in pkgutil.iter_modules(calibrant.__path__) if each.name != "integrations"
    ]
    for module in [calibrant, *map(importlib.import_module, names)]:
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if not callable(thing):
                continue
            parts = [thing]
            if inspect.isclass(thing):
                parts += [f for key, f in inspect.getmembers(thing, inspect.isfunction) if not key.startswith("_")]
            for part in parts:
                try:
                    given = inspect.signature(part).parameters.get("random_state")
                except ValueError:  # a built-in without a signature
                    continue
                if given is not None:
                    found[part.__qualname__] = given.default
    return found


def table() -> dict[str, str]:
    """What each function of the table needs."""
    section = PAGE.read_text(encoding="utf-8").split("## What a random draw is for")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[2])
    return found


def test_every_function_with_a_seed_is_in_the_table() -> None:
    assert set(table()) == set(defaults())
    assert set(table().values()) == NEEDS


def test_what_needs_a_fresh_draw_has_one_by_default() -> None:
    """accept, OutOfBagConformal and others had the seed 0, which made their draw a function of the number of rows."""
    given = defaults()
    wrong = {name for name, need in table().items() if (need == "a fresh draw") != (given[name] is None)}
    assert wrong == set()
