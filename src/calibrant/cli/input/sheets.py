"""Excel files: the first sheet as a relation, and tables written as sheets."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.cli import console
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


def read_sheet(connection: Any, path: str) -> Any:
    """The first sheet of an Excel file as a relation; its first filled line has the names of the columns."""
    import pyarrow as pa

    excel = _openpyxl()
    try:
        book = excel.load_workbook(path, read_only=True, data_only=True)
    except Exception as problem:
        why = f"cannot be read as an Excel file ({problem})"
        raise Mistake(path, why, "save it again as .xlsx, or as CSV") from None
    try:
        sheet, *others = book.worksheets
        lines = [list(line) for line in sheet.iter_rows(values_only=True)]
        name = sheet.title
    finally:
        book.close()
    if others:
        console.note(f"{path}: the sheet {name!r} is read, and {len(others)} more are not")
    filled = [line for line in lines if any(value is not None for value in line)]
    if not filled:
        raise Mistake(path, f"has no cells in the sheet {name!r}", "put the table on the first sheet")
    head, body = filled[0], filled[1:]
    places = [place for place, title in enumerate(head) if title is not None]
    names = [str(head[place]).strip() for place in places]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise Mistake(path, f"has two columns named {twice!r}", "rename one of them")
    columns = [_column([line[place] if place < len(line) else None for line in body]) for place in places]
    return connection.from_arrow(pa.table(dict(zip(names, columns, strict=True))))


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
