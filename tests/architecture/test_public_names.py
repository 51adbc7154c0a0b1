"""A public name is what it says, also after every module was imported, and completion lists nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import types

import calibrant

SPACES = ["", *(name for name in calibrant.__all__ if isinstance(getattr(calibrant, name), types.ModuleType))]

FRESH = """
import importlib, pkgutil, types
import calibrant

spaces = [name for name in calibrant.__all__ if isinstance(getattr(calibrant, name), types.ModuleType)]
for module in pkgutil.walk_packages(calibrant.__path__, "calibrant."):
    if not module.name.endswith(("__main__", "adapters.river")) and ".service." not in module.name:
        importlib.import_module(module.name)
for space in spaces:
    module = importlib.import_module(f"calibrant.{space}")
    for name in module.__all__:
        if not name.startswith("River"):
            assert not isinstance(getattr(module, name), types.ModuleType), f"calibrant.{space}.{name} is a module"
for name in set(calibrant.__all__) - set(spaces):
    assert not isinstance(getattr(calibrant, name), types.ModuleType), f"calibrant.{name} is a module"
"""


def space(name: str) -> types.ModuleType:
    return importlib.import_module(f"calibrant.{name}".rstrip("."))


def test_the_namespaces_are_found() -> None:
    assert {"metrics", "credit", "clinical", "live", "online", "multiclass", "decisions"} <= {*SPACES}


def test_no_public_name_is_that_of_a_module() -> None:
    """Importing the module would put it in place of the name."""
    for each in SPACES:
        module = space(each)
        inside = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
        assert not inside & (set(module.__all__) - set(SPACES)), each


def test_public_names_are_no_modules_after_every_import() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FRESH], check=True)


def test_completion_lists_the_public_names_alone() -> None:
    for each in SPACES:
        module = space(each)
        assert dir(module) == sorted(module.__all__ + ([] if each else ["__version__"])), each


def test_a_guessed_name_is_no_module() -> None:
    """`decision_curve` is a function of `calibrant.clinical`."""
    assert callable(calibrant.clinical.decision_curve)
    assert not hasattr(calibrant.metrics, "decision_curve")
    assert all(callable(getattr(calibrant.metrics, name)) for name in calibrant.metrics.__all__ if name.islower())
