"""Input and output files: read files and globs as one relation, write results, report errors."""

from __future__ import annotations

import atexit
import glob
import gzip
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli import console
from calibrant.cli.input.decimals import read_localized, shows_numbers
from calibrant.cli.input.duckdb_errors import of_csv, of_duckdb
from calibrant.cli.input.numbers import with_numbers
from calibrant.cli.input.sheets import read_sheet
from calibrant.cli.options import EXCEL
from calibrant.cli.shell import in_shell
from calibrant.cli.voice import Mistake

if TYPE_CHECKING:
    from calibrant.calibration import Calibration

KINDS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".csv.gz": "CSV",
    ".tsv.gz": "TSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
}
"""File formats by file extension."""

READ_KINDS = KINDS | {".xlsx": "Excel"}
"""File formats that can be read."""

MOST_DECODED = 1 << 26
"""A CSV up to this many bytes that is not in UTF-8 is read as Windows-1252, or as UTF-16 by its first bytes."""

MOST_COLUMNS, LONGEST_LINE = 4_000, 1 << 20
"""Columns of a text file: the time to guess their types grows with the square. Bytes in which they are counted."""

WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
SHOWN_COLUMNS = 12
ALIKE = 0.7
"""Smallest similarity of file names, without extension, for a "did you mean" suggestion."""


def connect() -> Any:
    """A DuckDB connection that reports the progress of its queries."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = true").fetchall()
    connection.execute("SET enable_progress_bar_print = false").fetchall()
    return connection


# ------------------------------------------------------------------------------------------------------------ names


def find_files(patterns: Sequence[str]) -> list[str]:
    """The files that names and globs match, each once, all of one format."""
    found = [path for pattern in patterns for path in _matches(pattern)]
    files = list({os.path.realpath(path): path for path in found}.values())
    first = {kind_of(path): path for path in reversed(files)}
    if len(first) > 1:
        (kind, path), (other_kind, other) = sorted(first.items())[:2]
        raise Mistake(path, f"is {kind} and {other} is {other_kind}", "pass files of one format")
    for path in files:
        if os.path.getsize(path) == 0:
            raise Mistake(path, "is empty (0 bytes)", "write it again, or leave it out")
        if kind_of(path) in ("CSV", "TSV") and _is_wide(path):
            fix = "write the columns that are needed, or use Parquet"
            raise Mistake(path, f"has more than {MOST_COLUMNS:,} columns, which take minutes to read", fix)
    return files


def _is_wide(path: str) -> bool:
    """Whether the first line of a text file has more columns than are read in seconds."""
    with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
        try:
            head = file.readline(LONGEST_LINE)
        except (OSError, EOFError):  # a damaged file is reported when it is read
            return False
    return max(map(head.count, (b",", b";", b"\t", b"|"))) >= MOST_COLUMNS


def kind_of(path: str) -> str:
    """Format of a file, by its extension: CSV, TSV, Parquet or Excel."""
    for suffix, kind in READ_KINDS.items():
        if path.lower().endswith(suffix):
            return kind
    raise Mistake(path, "has an unknown file extension", f"use one of {' '.join(READ_KINDS)}")


def is_store(path: str) -> bool:
    """Whether a path is the folder of a tally store."""
    return os.path.isfile(os.path.join(path, "store.json"))


def _matches(pattern: str) -> list[str]:
    if is_store(pattern):
        raise Mistake(pattern, "is a tally store, and this command needs rows", "pass files of rows")
    if os.path.isdir(pattern):
        raise Mistake(pattern, "is a folder, not a tally store", f"pass the files in it, as in {_inside(pattern)}")
    if pattern == "-" or (os.path.exists(pattern) and not os.path.isfile(pattern)):
        what = "standard input" if pattern == "-" else f"{pattern} is not a regular file and"
        raise Mistake(what, "cannot be read", "write the rows to a file first")
    if os.path.exists(pattern):
        return [pattern]
    if not glob.has_magic(pattern):
        beside = {_stem(name): name for name in sorted(_names_beside(pattern), reverse=True)}
        near = get_close_matches(_stem(os.path.basename(pattern)), beside, 1, ALIKE)
        meant = f"did you mean {os.path.join(os.path.dirname(pattern), beside[near[0]])}?" if near else "check the path"
        raise Mistake(pattern, "does not exist", meant)
    found = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    if not found:
        raise Mistake(pattern, "matches no file", "check the folder and the pattern")
    return found


def _inside(folder: str) -> str:
    """A glob that matches the data files in a folder."""
    for deep in ("*", "**/*"):
        for suffix in READ_KINDS:
            pattern = os.path.join(folder, deep + suffix)
            if next(glob.iglob(pattern, recursive=True), None):
                return repr(pattern)
    return repr(os.path.join(folder, "*.parquet"))


def _stem(name: str) -> str:
    """A file name without its extension."""
    suffix = next((suffix for suffix in sorted(READ_KINDS, key=len, reverse=True) if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


def _names_beside(path: str) -> list[str]:
    folder = os.path.dirname(path) or "."
    return os.listdir(folder) if os.path.isdir(folder) else []


# ---------------------------------------------------------------------------------------------------------- reading


def read_rows(
    connection: Any,
    files: Sequence[str],
    columns: dict[str, str | None],
    *,
    numbers: Iterable[str | None] = (),
    whole: Iterable[str] = (),
    where: str | None = None,
    as_text: bool = False,
    decimal: str | None = None,
) -> Any:
    """The rows of files as one relation, with columns matched by name.

    Parameters
    ----------
    columns
        Required columns, by option.
    numbers
        Columns of a CSV to read as doubles even if they look like integers: types are guessed from the first 20,480
        rows, and a later 0.5 would be rounded silently. Columns that look like text are also read as doubles if all
        rows selected by ``where`` are numbers.
    whole
        Columns of a CSV to read as doubles if they look like integers, and else as they are: features.
    as_text
        Keep all values of a CSV as text.
    decimal
        Decimal mark of ``numbers``, if it is known.
    """
    reader = _reader(connection, files, as_text)
    rows = reader({})
    _check_columns(reader, files, rows, columns)
    wanted = [name for name in numbers if name is not None] if kind_of(files[0]) != "Parquet" else []
    types = dict(zip(rows.columns, map(str, rows.types), strict=True))
    beside = [name for name in whole if name in types] if kind_of(files[0]) != "Parquet" and not as_text else []
    doubles = {name: "DOUBLE" for name in (*wanted, *beside) if types[name] in WHOLE_NUMBERS}
    rows = reader(doubles) if doubles else rows
    found = with_numbers(_chosen(rows, files, where), wanted)
    if as_text or not wanted or not (decimal or shows_numbers(found, wanted)):
        return found
    # with a decimal comma, 1.234 in another column can mean 1234: read all of them as text
    texts = dict.fromkeys(wanted, "VARCHAR") if kind_of(files[0]) != "Excel" else {}
    kept = {name: kind for name, kind in doubles.items() if name not in wanted}
    return read_localized(_chosen(reader(kept | texts), files, where), wanted, decimal=decimal)


def matching_columns(connection: Any, files: Sequence[str], names: Sequence[str], but: str | None) -> list[str]:
    """Column names, with globs such as ``p_*`` replaced by the columns that they match, except ``but``."""
    if not any(glob.has_magic(name) for name in names):
        return list(names)
    there = _reader(connection, files, False)({}).columns
    found: list[str] = []
    for name in names:
        if name in there or not glob.has_magic(name):
            found.append(name)
            continue
        matched = [column for column in there if fnmatchcase(column, name) and column != but]
        if not matched:
            listed = ", ".join(map(repr, there[:SHOWN_COLUMNS]))
            raise Mistake(f"--score {in_shell(name)}", "matches no column", f"columns: {listed}")
        found += matched
    return list(dict.fromkeys(found))


def _chosen(rows: Any, files: Sequence[str], where: str | None) -> Any:
    """The rows that satisfy a condition; there must be at least one."""
    import duckdb

    try:
        chosen = rows if where is None else rows.filter(where)
        ((found,),) = (
            chosen.limit(1).aggregate("count(*)").fetchall()
        )  # a count, not values: timestamps with time zones would need pytz
    except duckdb.Error as problem:
        if where is None or isinstance(problem, duckdb.IOException) or of_csv(problem):
            raise
        why = of_duckdb(str(problem))
        raise Mistake(f"--where {in_shell(where)}", "is not a valid condition on these columns", why) from None
    if not found and where is not None:
        raise Mistake(_listed(files), f"has no row that satisfies --where {in_shell(where)}", "relax the condition")
    if not found:
        raise Mistake(_listed(files), "has a header but no rows", "check how it was written")
    return chosen


def _reader(connection: Any, files: Sequence[str], as_text: bool) -> Callable[..., Any]:
    """A function from column types, and files, to a relation."""
    if kind_of(files[0]) != "Excel" and EXCEL.get() != (None, None):
        raise Mistake("--sheet and --header-row", f"are for Excel files, and {files[0]} is none", "leave them out")

    def read(types: dict[str, str], some: Sequence[str] = files) -> Any:
        if kind_of(files[0]) == "Excel":
            tables = [read_sheet(connection, path) for path in some]
            return tables[0] if len(tables) == 1 else _stacked(connection, tables)
        kind = kind_of(files[0])
        # absolute, since DuckDB takes a folder named ~ for the home folder
        names = [glob.escape(os.path.abspath(path if kind == "Parquet" else _in_utf8(path))) for path in some]
        # a folder named label=1 must not become a column
        how: dict[str, Any] = {"union_by_name": len(some) > 1, "hive_partitioning": False}
        if kind == "Parquet":
            return connection.read_parquet(names, **how)
        tabs = {"sep": "\t"} if kind == "TSV" else _separator(some[0])
        return connection.read_csv(names, dtype=types or None, all_varchar=as_text, **how, **tabs)

    return read


def _stacked(connection: Any, tables: Sequence[Any]) -> Any:
    """Relations of several sheets as one, with columns matched by name."""
    import pyarrow as pa

    return connection.from_arrow(
        pa.concat_tables([table.to_arrow_table() for table in tables], promote_options="permissive")
    )


def _separator(path: str) -> dict[str, str]:
    """The separator if the header shows one that numbers do not contain: with decimal commas, guesses go wrong."""
    if path.lower().endswith(".gz"):
        return {}
    with open(_in_utf8(path), "rb") as file:
        head = file.readline(1 << 16).decode("utf-8", "replace")
    if "," in head or '"' in head:
        return {}
    counts = {mark: head.count(mark) for mark in ";\t"}
    best = max(counts, key=lambda mark: counts[mark])
    return {"sep": best} if counts[best] else {}


def _in_utf8(path: str) -> str:
    """The file itself if it is in UTF-8, otherwise a temporary copy: of UTF-16, or of Windows-1252."""
    state = os.stat(path)
    if path.lower().endswith(".gz") or state.st_size > MOST_DECODED:
        return path
    return _decoded(path, os.getcwd(), state.st_size, state.st_mtime_ns)


@cache
def _decoded(path: str, folder: str, size: int, changed: int) -> str:
    """The file, or its copy in UTF-8; once for each state of the file."""
    data = Path(path).read_bytes()
    try:
        data.decode("utf-8")
        return path
    except UnicodeDecodeError:
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise Mistake(path, "is encoded neither in UTF-8 nor in Windows-1252", "save it as UTF-8") from None
    console.note(f"{path} is not encoded in UTF-8: read as {'UTF-16' if encoding == 'utf-16' else 'Windows-1252'}")
    copy = Path(tempfile.mkdtemp(prefix="calibrant-")) / Path(path).name
    copy.write_text(text, encoding="utf-8", newline="")
    atexit.register(shutil.rmtree, str(copy.parent), ignore_errors=True)
    return str(copy)


def _check_columns(reader: Callable[..., Any], files: Sequence[str], rows: Any, columns: dict[str, str | None]) -> None:
    """Reject a column that is missing in all files or in one; note other differences between files."""
    for option, name in columns.items():
        if name is not None and name not in rows.columns:
            raise Mistake(_listed(files), f"has no column {name!r} ({option})", _advice(name, rows.columns, option))
    if len(files) == 1:
        return
    lacking = {path: [name for name in rows.columns if name not in reader({}, [path]).columns] for path in files}
    for option, name in columns.items():
        without = [path for path in files if name in lacking[path]]
        if without:
            raise Mistake(
                without[0],
                f"has no column {name!r} ({option}), which other files have",
                "leave this file out or rename its column",
            )
    differing = [path for path in files if lacking[path]]
    if differing:
        console.note(f"{differing[0]} has no column {lacking[differing[0]][0]!r}, which other files have")


INSTEAD = {"--n": "; or, if each line is one borrower, pass --score and --label instead"}
"""What else to pass where the column of an option is missing."""


def _advice(name: str, there: Sequence[str], option: str) -> str:
    if len(there) == 1 and any(mark in there[0] for mark in ",;\t"):
        return f"its lines have different numbers of columns; the first line is {there[0]!r}"
    if all(name == f"column{place}" for place, name in enumerate(there)):
        return "it has no header line: add the column names as the first line"
    from calibrant.arrays.columns import nearest  # here, as numpy is loaded late

    near = nearest(name, there)
    listed = ", ".join(map(repr, there[:SHOWN_COLUMNS])) + (", ..." if len(there) > SHOWN_COLUMNS else "")
    meant = f"did you mean {near!r}? Columns:" if near else f"pass {option} with one of"
    return f"{meant} {listed}{INSTEAD.get(option, '')}"


def _listed(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def load_map(path: str, *, several: bool = False) -> Calibration:
    """Load a saved map; one of several classes only if the command supports it."""
    from calibrant.calibration import load
    from calibrant.export.errors import DocumentError

    try:
        found = load(path)
        if found.classes and not several:
            raise Mistake(
                path,
                f"is a map of {len(found.classes)} classes, which this command does not take",
                "use calibrant apply first, then pass its columns",
            )
        return found
    except FileNotFoundError:
        raise Mistake(f"the map {path}", "does not exist", f"create it with calibrant fit ... --out {path}") from None
    except IsADirectoryError:
        raise Mistake(f"the map {path}", "is a folder", "pass the file that calibrant fit saved") from None
    except DocumentError as problem:
        raise Mistake(
            path, f"is damaged or is not a map saved by calibrant ({problem.sentence})", "fit it again"
        ) from None


# ---------------------------------------------------------------------------------------------------------- writing


def check_output(
    path: str, suffixes: Sequence[str], *, inputs: Sequence[str] = (), force: bool, option: str = "--out"
) -> None:
    """Reject, before any work, an output that cannot or should not be written."""
    name = f"{option} {path}"
    if path.lower().endswith(".pdf") and ".html" in suffixes:
        page = f"{path[:-4]}.html"
        fix = f"write {page}, and print it from a browser, or by chromium --headless --print-to-pdf={path} {page}"
        raise Mistake(name, "cannot be written", fix)
    if not path.lower().endswith(tuple(suffixes)):
        raise Mistake(name, "has an unknown file extension", f"use one of {' '.join(suffixes)}")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise Mistake(name, f"is in the folder {folder}, which does not exist", f"create it with mkdir -p {folder}")
    if os.path.isdir(path):
        raise Mistake(name, "is a folder", "pass the name of a file")
    if not os.access(folder, os.W_OK):
        raise Mistake(name, f"is in the folder {folder}, which is read-only", "pass a file in another folder")
    if any(os.path.realpath(path) == os.path.realpath(file) for file in inputs):
        raise Mistake(name, "is one of the inputs", "write to another file")
    if os.path.exists(path) and not force:
        raise Mistake(name, "exists", "pass --force to overwrite it, or another file name")


@contextmanager
def written(rows: Any, path: str) -> Iterator[str]:
    """Write a relation in the format of the extension; it has a temporary name until the block has checked it."""
    import duckdb

    suffix = next(end for end in KINDS if path.lower().endswith(end))
    temporary = Path(os.path.abspath(path)).with_name(f".{secrets.token_hex(8)}{suffix}")
    try:
        try:
            _write_rows(rows, temporary, suffix)
        except duckdb.IOException as problem:
            raise Mistake(f"--out {path}", "was not written or changed", of_duckdb(str(problem))) from None
        yield str(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_rows(rows: Any, path: Path, suffix: str) -> None:
    if kind_of(str(path)) == "Parquet":
        rows.write_parquet(str(path), compression="zstd")
        return
    zipped = {"compression": "gzip"} if suffix.endswith(".gz") else {}
    rows.write_csv(str(path), sep="\t" if kind_of(str(path)) == "TSV" else ",", header=True, **zipped)
