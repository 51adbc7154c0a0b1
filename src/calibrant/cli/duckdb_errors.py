"""What DuckDB says about a file over many lines, in one sentence with the fix."""

from __future__ import annotations

import re

NO_PARQUET = re.compile(r"[Ff]ile '(.+?)' too small to be a Parquet|(?:No magic bytes found|Footer length).* '(.+?)'")
CSV_VALUE = re.compile(
    r"CSV Error on Line: (\d+).*?converting column \"(.+?)\"\. Could not convert string \"(.*?)\" to '(\w+)'.*?"
    r"file = ([^\n]+)",
    re.DOTALL,
)
NO_GZIP = re.compile(r"not a GZIP stream: (.+)")
CSV_BYTES = re.compile(r"not utf-8 encoded.*?file = ([^\n]+)", re.DOTALL | re.IGNORECASE)
CSV_SHAPE = re.compile(r"Error when sniffing file \"(.+?)\"")


def of_duckdb(text: str) -> str:
    """The sentence."""
    if found := NO_PARQUET.search(text):
        return f"{found[1] or found[2]} is not a Parquet file: write it again, or rename it if it is CSV"
    if found := CSV_VALUE.search(text):
        line, column, value, kind, path = found.groups()
        what = {"DOUBLE": "numbers", "BIGINT": "integers", "BOOLEAN": "true and false"}.get(kind, kind)
        where = f"{path}, line {line}: the column {column!r} holds {value!r}"
        return f"{where} where {what} are expected: repair it, or name another column"
    if found := CSV_BYTES.search(text):
        return f"{found[1]} is not written in UTF-8: save it as UTF-8"
    if found := CSV_SHAPE.search(text):
        return f"{found[1]} does not read as CSV: are separators and quotes the same on every line?"
    if found := NO_GZIP.search(text):
        return f"{found[1]} is not compressed by gzip: rename it to end in .csv, or compress it"
    first = text.strip().splitlines()[0]
    return re.sub(r"^[\w ]+? Error: ", "", first)


def of_csv(problem: Exception) -> bool:
    """Whether DuckDB could not read a line of a CSV file."""
    return "CSV Error" in str(problem)
