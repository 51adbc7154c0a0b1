"""Write the pages of the reference: one for each public namespace, from its ``__all__``.

python tools/reference_pages.py docs/reference

Each object has one page, under the shortest of its public names; other namespaces that have it too link to that page.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import calibrant

# Words above each namespace that its own docstring does not begin with; "" is the top level.
INTRODUCTIONS = {
    "": "What most people need: `import calibrant as cb`.",
}

# Namespaces that list names of others too: an object that has another home is documented there.
LAST = ("calibrators", "engine", "maps")


def namespaces() -> list[str]:
    """Public modules: the top level, ``""``, and what it lists as modules."""
    return ["", *(name for name in calibrant.__all__ if inspect.ismodule(getattr(calibrant, name)))]


def members(namespace: str) -> dict[str, Any]:
    """Public objects of a namespace by name; modules are namespaces themselves."""
    module = _module(namespace)
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
    found = {}
    for name in sorted(listed, key=lambda name: (name.lower(), name)):
        try:
            value = getattr(module, name)
        except ImportError:  # an adapter to a package that is not installed
            continue
        if not inspect.ismodule(value):
            found[name] = value
    return found


@functools.cache
def homes() -> dict[int, str]:
    """The public name under which each object is documented, by its identity."""
    found: dict[int, str] = {}
    for namespace in sorted(namespaces(), key=LAST.__contains__):  # stable: the top level comes first
        for name, value in members(namespace).items():
            if inspect.isclass(value) or inspect.isroutine(value):
                found.setdefault(id(value), _full(namespace, name))
    return found


@functools.cache
def _by_private_name() -> dict[str, str]:
    found = {}
    for namespace in namespaces():
        for name, value in members(namespace).items():
            public = homes().get(id(value))
            if public is not None:
                found[f"{value.__module__}.{value.__qualname__}"] = public
                found[_full(namespace, name)] = public
                found.setdefault(value.__qualname__, public)
    return found


def public_name(target: str, module: str | None = None) -> str | None:
    """The public name of what a docstring refers to by any of its names, with a method if there is one."""
    known = _by_private_name()
    head, _, tail = target.rpartition(".")
    for name in (target, f"{module}.{target}"):
        if name in known:
            return known[name]
    return f"{known[head]}.{tail}" if head in known else None


def page(namespace: str) -> str:
    """The page of a namespace, in reStructuredText."""
    module = _module(namespace)
    title = module.__name__
    lines = [title, "=" * len(title), "", INTRODUCTIONS.get(namespace) or _summary(module), ""]
    lines[3] = lines[3].replace("`", "``").replace("````", "``")
    lines += [f".. currentmodule:: {module.__name__}", ""]
    values: dict[str, Any] = {}
    for heading, names in _groups(namespace):
        lines += [heading, "-" * len(heading), ""]
        own = [name for name in names if homes().get(id(members(namespace)[name])) == _full(namespace, name)]
        elsewhere = [name for name in names if name not in own]
        for options, chosen in (
            (["   :toctree: generated", "   :nosignatures:"], own),
            (["   :nosignatures:"], elsewhere),
        ):
            if chosen:
                shown = [name if chosen is own else f"~{homes()[id(members(namespace)[name])]}" for name in chosen]
                lines += [".. autosummary::", *options, "", *(f"   {name}" for name in shown), ""]
    values = {
        name: value
        for name, value in members(namespace).items()
        if not inspect.isclass(value) and not inspect.isroutine(value)
    }
    if values:
        lines += ["Constants", "---------", ""]
        for name, value in values.items():
            lines += [f".. py:data:: {name}", "", f"   {_constant(value)}", ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write every page and the page that lists them, where they changed."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for namespace in namespaces():
        names.append(namespace or "calibrant")
        _write(folder / f"{names[-1]}.rst", page(namespace))
    lines = [
        "Reference",
        "=========",
        "",
        "Every public name, from its docstring. Names that are not listed here may change without notice.",
        "The :doc:`table of methods <support>` shows what each calibrator can do, and the :doc:`table of data <doors>` "
        "which function takes which data. The :doc:`table of documents <documents>` lists methods and theorems by "
        "source.",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        "   support",
        "   doors",
        "   documents",
        *(f"   {name}" for name in names),
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 25 75",
        "",
        "   * - namespace",
        "     - what it holds",
    ]
    for namespace in namespaces():
        about = (INTRODUCTIONS.get(namespace) or _summary(_module(namespace))).replace("`", "``").replace("````", "``")
        lines += [f"   * - :doc:`{_module(namespace).__name__} <{namespace or 'calibrant'}>`", f"     - {about}"]
    _write(folder / "index.rst", "\n".join(lines) + "\n")
    _remove_old(folder, {*names, "index"})


def _remove_old(folder: Path, names: set[str]) -> None:
    """Remove pages of names that are no longer public."""
    objects = set(homes().values())
    for path in folder.glob("*.rst"):
        if path.stem not in names:
            path.unlink()
    for path in (folder / "generated").glob("*.rst"):
        if path.stem not in objects:
            path.unlink()


def _groups(namespace: str) -> Iterator[tuple[str, list[str]]]:
    """Headings with the names under them."""
    groups: dict[str, list[str]] = {
        "Functions": [],
        "Calibrators": [],
        "Forecasters": [],
        "Pictures": [],
        "Classes": [],
        "Errors and warnings": [],
    }
    for name, value in members(namespace).items():
        if inspect.isclass(value):
            groups[_group(value)].append(name)
        elif inspect.isroutine(value):
            groups["Functions"].append(name)
    yield from ((heading, names) for heading, names in groups.items() if names)


def _group(value: type) -> str:
    if issubclass(value, BaseException):
        return "Errors and warnings"
    bases = {base.__name__ for base in value.__mro__}
    for base, heading in (("BaseEstimator", "Calibrators"), ("Forecaster", "Forecasters"), ("Display", "Pictures")):
        if base in bases:
            return heading
    return "Classes"


def _constant(value: Any) -> str:
    if isinstance(value, dict | frozenset | set | list | tuple):
        return f"{type(value).__name__} of {len(value)}: " + ", ".join(f"``{one}``" for one in sorted(map(str, value)))
    return f"``{value!r}``" if len(repr(value)) < 200 else f"A type alias: ``{type(value).__name__}``."


def _module(namespace: str) -> Any:
    return importlib.import_module(_full(namespace).rstrip("."))


def _full(namespace: str, name: str = "") -> str:
    return ".".join(part for part in ("calibrant", namespace, name) if part)


def _summary(module: Any) -> str:
    return (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
