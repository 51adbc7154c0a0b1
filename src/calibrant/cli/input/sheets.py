"""Excel files: a sheet as a relation, and tables written as sheets."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from calibrant.cli import console
from calibrant.cli.options import EXCEL
from calibrant.cli.voice import Mistake
from calibrant.messages import MissingPackage

FORBIDDEN = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
LONGEST = 31
"""Characters that Excel allows in the name of a sheet, at most."""


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise MissingPackage("an Excel file", "openpyxl", "calibrant[excel]", "or save it as CSV") from None
    return openpyxl


TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt"}
"""What the last line of a table is called that adds up the others, in lower case."""


def is_total(values: Iterable[Any]) -> bool:
    """Whether a line adds up the others, by its name."""
    return any(isinstance(value, str) and value.strip().strip(":").lower() in TOTALS for value in values)


def read_sheet(connection: Any, path: str) -> Any:
    """A sheet of an Excel file as a relation: that of ``--sheet``, or the first."""
    return connection.from_arrow(_table(path, os.path.realpath(path), os.stat(path).st_mtime_ns, *EXCEL.get()))


@lru_cache(maxsize=8)  # a command reads its files several times
def _table(path: str, place: str, changed: int, asked: str | None, row: int | None) -> Any:
    """The sheet as an Arrow table; the first line of names is found, and a line of totals at the end is left out."""
    import pyarrow as pa

    excel = _openpyxl()
    try:
        book = excel.load_workbook(path, read_only=True, data_only=True)
    except Exception as problem:
        why = f"cannot be read as an Excel file ({problem})"
        raise Mistake(path, why, "save it again as .xlsx, or as CSV") from None
    try:
        names = [sheet.title for sheet in book.worksheets]
        if asked is not None and asked not in names:
            raise Mistake(f"--sheet {asked}", f"is not in {path}", f"use one of {', '.join(names)}")
        name = names[0] if asked is None else asked
        lines = [list(line) for line in book[name].iter_rows(values_only=True)]
    finally:
        book.close()
    if asked is None and len(names) > 1:
        console.note(f"{path}: the sheet {name!r} is read; --sheet reads another ({', '.join(names[1:])})")
    filled = [at for at, line in enumerate(lines) if any(value is not None for value in line)]
    if not filled:
        raise Mistake(path, f"has no cells in the sheet {name!r}", "put the table there, or pass --sheet")
    at = _head(lines, filled) if row is None else row - 1
    if at not in filled:
        raise Mistake(f"--header-row {row}", f"is an empty line of the sheet {name!r}", "pass that with the names")
    if row is None and at != filled[0]:
        console.note(f"{path}: line {at + 1} has the names of the columns (--header-row)")
    rows = [each for each in filled if each > at]
    if rows and is_total(lines[rows[-1]]):
        console.note(f"{path}: line {rows.pop() + 1} is a total, and is left out")
    head, body = lines[at], lines[at + 1 : rows[-1] + 1] if rows else []
    places = [place for place, title in enumerate(head) if title is not None]
    columns = [str(head[place]).strip() for place in places]
    twice = next((each for each in columns if columns.count(each) > 1), None)
    if twice is not None:
        raise Mistake(path, f"has two columns named {twice!r}", "rename one of them")
    cells = [_column([line[place] if place < len(line) else None for line in body]) for place in places]
    return pa.table(dict(zip(columns, cells, strict=True)))


def _head(lines: list[list[Any]], filled: list[int]) -> int:
    """The first line that is filled like most others, if possible with text alone: titles above it are shorter."""
    counts = {at: sum(value is not None for value in lines[at]) for at in filled}
    usual = sorted(counts.values())[len(filled) // 2]
    wide = [at for at in filled if counts[at] > usual / 2]
    texts = (at for at in wide if all(isinstance(value, str | None) for value in lines[at]))
    return next(texts, wide[0])


def _column(values: list[Any]) -> Any:
    """Cells as an Arrow array: numbers, dates or booleans if all are, otherwise text."""
    import pyarrow as pa

    there = [value for value in values if value is not None]
    if there and all(isinstance(value, bool) for value in there):
        return pa.array(values, pa.bool_())
    if there and all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        return pa.array(values, pa.int64())
    if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if there and all(isinstance(value, dt.datetime) for value in there):
        return pa.array(values, pa.timestamp("us"))
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def write_sheets(path: str, sheets: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write records as an Excel file, with a sheet for each name; numbers stay numbers."""
    from io import BytesIO

    from calibrant.export.files import write_whole

    book = _openpyxl().Workbook()
    book.remove(book.active)
    for name, records in zip(_titles(sheets), sheets.values(), strict=True):
        sheet = book.create_sheet(name)
        for place, record in enumerate(records):
            if place == 0:
                sheet.append(list(record))
            sheet.append([_cell(value) for value in record.values()])
        sheet.freeze_panes = "A2"
    file = BytesIO()
    book.save(file)
    write_whole(path, file.getvalue())


def _titles(names: Iterable[str]) -> list[str]:
    """Names as Excel allows them: without some marks, at most 31 characters, and different in any case."""
    found: list[str] = []
    for name in names:
        title = plain = FORBIDDEN.sub("_", name).strip("'")[:LONGEST] or "_"
        number = 1
        while title.lower() in {each.lower() for each in found}:
            number += 1
            title = f"{plain[: LONGEST - len(str(number)) - 1]} {number}"
        found.append(title)
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # a text that begins with = would be a formula
    return f" {value}" if isinstance(value, str) and value.startswith("=") else value
