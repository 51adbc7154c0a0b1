"""Write the page of documents: every method, theorem and measure of five documents, and where it is in the package.

python tools/document_pages.py docs/reference/documents.md

The rows are in `docs/documents.csv`. A row without a place needs a reason.
"""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "documents.csv"
COLUMNS = ["document", "section", "item", "where", "shown by", "reason if absent"]

DOCUMENTS = {
    "Gupta (2022)": "Thesis proposal: post-hoc calibration without distributional assumptions",
    "Foster and Kakade (2006)": "Calibration via regression",
    "Gupta (2023)": "Thesis: post-hoc calibration without distributional assumptions",
    "Torabian (2023)": "Thesis: calibrated scores through the lens of interpretability",
    "Rosenberg (2021)": "Slides: probability calibration",
}
"""Every document, in the order of the page."""

HEAD = """\
# Where the documents are

Calibrant began with five documents. These tables list their methods, theorems and measures, section by section, with
the name in the package and the file that shows it. Corrections to the documents are in [errata](../errata.md).

Written by `tools/document_pages.py` from `docs/documents.csv`; a test imports every name and looks for every file.
"""


@dataclass(frozen=True)
class Row:
    """One item of a document."""

    document: str
    section: str
    item: str
    where: tuple[str, ...]
    shown: tuple[str, ...]
    reason: str

    @property
    def missing(self) -> list[str]:
        """Names that do not import, and files that are not there."""
        names = [name for name in self.where if not imports(name)]
        return names + [path for path in self.shown if not (ROOT / path).exists()]


def rows() -> Iterator[Row]:
    """The rows of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        read = csv.reader(file, delimiter=";")
        heading = next(read)
        if heading != COLUMNS:
            raise ValueError(f"{TABLE.name} must have the columns {COLUMNS}, not {heading}")
        for number, cells in enumerate(read, 2):
            if len(cells) != len(COLUMNS):
                raise ValueError(f"line {number} of {TABLE.name} has {len(cells)} cells, not {len(COLUMNS)}")
            document, section, item, where, shown, reason = (cell.strip() for cell in cells)
            yield Row(document, section, item, tuple(where.split()), tuple(shown.split()), reason)


def imports(name: str) -> bool:
    """Whether a dotted name leads to a module, or to an attribute of one."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def text() -> str:
    """The page."""
    lines, every = [HEAD], list(rows())
    for document, title in DOCUMENTS.items():
        own = [row for row in every if row.document == document]
        if not own:
            continue
        lines += [
            f"## {document}: {title}",
            "",
            "| section | item | in Calibrant | shown by |",
            "| --- | --- | --- | --- |",
        ]
        lines += [f"| {row.section} | {row.item} | {_place(row)} | {_code(row.shown)} |" for row in own]
        lines.append("")
    absent = [row for row in every if not row.where]
    lines += ["## Left out on purpose", ""]
    lines += [f"- **{row.item}** ({row.document}, {row.section}): {row.reason}." for row in absent]
    return "\n".join(lines) + "\n"


def _place(row: Row) -> str:
    if not row.where:
        return "left out, see the end of this page"
    return _code(row.where)


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name.removeprefix('calibrant.')}`" for name in names)


def write(path: Path) -> None:
    """Write the page where it changed."""
    page = text()
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
