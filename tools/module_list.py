"""Write the generated lists of modules: layers into ARCHITECTURE.md, every module into docs/modules.md.

python tools/module_list.py            # write both
python tools/module_list.py --check    # exit with 1 where they are not up to date
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
BEGIN, END = "<!-- layers: written by tools/module_list.py -->", "<!-- end of layers -->"


def layers() -> list[str]:
    """Layers of the contract that are built, top first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    listed = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    names = (name.strip() for line in listed for name in line.replace(":", "|").split("|"))
    return [name for name in names if not name.startswith("(")]


def summary(path: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].removesuffix(".")


def home(name: str) -> Path:
    """The file that describes a layer."""
    module = SOURCE / f"{name}.py"
    return module if module.exists() else SOURCE / name / "__init__.py"


def layer_list() -> str:
    """Layers with their summaries, as a Markdown list."""
    return "\n".join(f"- `calibrant.{name}`: {summary(home(name))}" for name in layers())


def module_list() -> str:
    """Every module with its summary, by layer."""
    lines = ["# Modules", "", "Top layer first. Written by `tools/module_list.py` from the modules' docstrings."]
    for layer in layers():
        lines += ["", f"## `calibrant.{layer}`", "", f"{summary(home(layer))}.", ""]
        files = sorted((SOURCE / layer).rglob("*.py")) if (SOURCE / layer).is_dir() else []
        for path in files:
            name = path.relative_to(SOURCE / layer).as_posix()
            if name != "__init__.py":
                lines.append(
                    f"- `{name.removesuffix('/__init__.py') + '/' * name.endswith('__init__.py')}`: {summary(path)}"
                )
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def documents() -> dict[Path, str]:
    """What the two files must hold."""
    architecture = ROOT / "ARCHITECTURE.md"
    text = architecture.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return {
        architecture: f"{head}{BEGIN}\n{layer_list()}\n{END}{tail}",
        ROOT / "docs" / "modules.md": module_list(),
    }


def _held(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main() -> int:
    """Write the lists, or compare them."""
    stale = [
        path for path, text in documents().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" not in sys.argv[1:]:
        for path, text in documents().items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path in stale:
        sys.stdout.write(f"{path.name} is not up to date: python tools/module_list.py\n")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
