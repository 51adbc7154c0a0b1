"""``calibrant export``: write a saved map as SQL, ONNX, Python or C, verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.renaming import Renamed

if TYPE_CHECKING:
    from calibrant.calibration import Calibration
    from calibrant.export.proof import Proof


class Precision(StrEnum):
    """Floating-point type of an ONNX model."""

    float32 = "float32"
    float64 = "float64"


def export(
    map_: Annotated[
        str, typer.Argument(callback=options.local, metavar="MAP.json", help="Map saved by calibrant fit.")
    ],
    out: Annotated[str | None, options.out("Output file: .sql, .onnx, .py or .c. Default: print SQL.")] = None,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", metavar="NAME", help="SQL: duckdb, postgres, spark, sqlite, ... [default: duckdb]"),
    ] = None,
    score: options.Scores = None,
    by: Renamed = None,
    table: Annotated[
        str | None,
        options.path("--table", help_="SQL: parameters by segment as .csv, .parquet or .sql; --out then joins them."),
    ] = None,
    rows: Annotated[
        str | None, options.text("--rows", "NAME", "--table: table of rows in the database. [default: scored]")
    ] = None,
    dbt: Annotated[bool, typer.Option("--dbt", help="--table: write a model and a seed of dbt.")] = False,
    dtype: Annotated[
        Precision | None,
        typer.Option("--dtype", show_default=False, help="ONNX: type of the scores. [default: float32]"),
    ] = None,
    opset: Annotated[
        int | None,
        typer.Option("--opset", metavar="N", show_default=False, help="ONNX: operator set version. [default: 17]"),
    ] = None,
    ir_version: Annotated[
        int | None,
        typer.Option("--ir-version", metavar="N", show_default=False, help="ONNX: format version. [default: 8]"),
    ] = None,
    network: Annotated[
        str | None, options.path("--network", metavar="MODEL.onnx", help_="ONNX: put the map behind this model.")
    ] = None,
    output: Annotated[
        str | None, options.text("--network-output", "NAME", "ONNX: output of the network that the map reads.")
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a map as SQL, as an ONNX model, or as Python or C source.

    SQL is one expression, or one for each class. The result is first run on edge values, next to every knot and on
    100,000 random scores, and is not written if it differs from the map. DuckDB and SQLite run it in memory. For other
    dialects the text is parsed and evaluated in Python; calibrant.verify repeats the comparison on your own server.
    docs/guide/ship.md lists the dialects. SQL for dialects that are not tested on a real engine begins with a comment
    that says so.

    Example:
      calibrant export map.json --dialect postgres --score p --out map.sql
      calibrant export map.json --score p --by region=area --out map.sql
      calibrant export map.json --score p --table segments.csv --out map.sql
      calibrant export map.json --network model.onnx --out calibrated.onnx
      calibrant export map.json --out map.c
    """
    from calibrant.cli.commands.apply import score_columns
    from calibrant.cli.input.files import check_output, load_map
    from calibrant.cli.renaming import groups_of
    from calibrant.export.source import LANGUAGES

    calibration = load_map(map_, several=True)
    groups = groups_of(calibration, by)
    if out is not None:
        check_output(out, [".sql", ".onnx", *LANGUAGES], inputs=[map_, *([network] if network else [])], force=force)
    suffix = ".sql" if out is None else f".{out.lower().rpartition('.')[2]}"
    of_sql: dict[str, object] = {
        "--dialect": dialect,
        "--score": score,
        "--by": by,
        "--table": table,
        "--rows": rows,
        "--dbt": dbt or None,
    }
    of_onnx = {
        "--dtype": dtype,
        "--opset": opset,
        "--ir-version": ir_version,
        "--network": network,
        "--network-output": output,
    }
    _refuse_ignored(suffix, {} if suffix == ".sql" else of_sql, {} if suffix == ".onnx" else of_onnx, force, out)

    joined = _joined(out, table, rows, dbt, [map_], force)

    def run() -> tuple[Proof, Any]:
        if out is not None and suffix in LANGUAGES:
            return calibration.export_source(out), None
        if out is not None and suffix == ".onnx":
            return calibration.export_onnx(
                out,
                None if dtype is None else dtype.value,
                opset=opset,
                ir_version=ir_version,
                network=network,
                output=output,
            ), None
        names = score_columns(calibration, score)
        columns: Any = names if calibration.classes else names[0]
        if out is not None and joined:
            return calibration.export_sql(out, columns, dialect or "duckdb", by=groups, **joined), None
        return _sql(calibration, out, columns, dialect or "duckdb", groups)

    proof, expression = console.work(run, words="Proving", quiet=quiet or as_json)
    if as_json:
        console.show_json({"out": out, "expression": expression, "proof": asdict(proof)})
    elif out is None:
        console.put(f"{expression}\n")
        console.note(str(proof))
    else:
        console.say(f"Wrote {out if table is None else f'{out} and {table}'}. {proof}")


def _refuse_ignored(
    suffix: str, of_sql: Mapping[str, object], of_onnx: Mapping[str, object], force: bool, out: str | None
) -> None:
    """Reject options that apply to other outputs than this one."""
    from calibrant.cli.voice import Mistake
    from calibrant.export.source import LANGUAGES

    sources = {end: language.name for end, language in LANGUAGES.items()}
    there = {".onnx": "ONNX", ".sql": "SQL", **sources}.get(suffix, suffix)
    for other, given in ((".sql", of_sql), (".onnx", of_onnx)):
        for option, value in given.items():
            if value is not None:
                fix = f"leave it out, or pass --out with a name that ends in {other}"
                raise Mistake(option, f"does not apply to {there}", fix)
    if force and out is None:
        raise Mistake("--force", "needs --out", "pass the file to overwrite")


def _joined(
    out: str | None, table: str | None, rows: str | None, dbt: bool, inputs: list[str], force: bool
) -> dict[str, Any]:
    """Options of a query that joins a table of parameters; empty without one."""
    from calibrant.cli.input.files import check_output
    from calibrant.cli.voice import Mistake

    if table is None:
        for option, given in (("--rows", rows), ("--dbt", dbt)):
            if given:
                raise Mistake(option, "needs --table", "add the file of parameters, or leave it out")
        return {}
    if out is None:
        raise Mistake("--table", "needs --out", "pass the file of the query")
    check_output(table, [".csv", ".parquet", ".sql"], inputs=inputs, force=force, option="--table")
    return {"table": table, "rows": rows or "scored", "dbt": dbt}


def _sql(calibration: Calibration, out: str | None, column: Any, dialect: str, by: dict[str, str]) -> tuple[Proof, Any]:
    from calibrant.export.sql.file import SqlFile
    from calibrant.guarantees.content import Content

    if out is not None:
        return calibration.export_sql(out, column, dialect, by=by), calibration.to_sql(column, dialect, by=by)
    content = Content(calibration.map, calibration.provenance, calibration.certificate)
    file = SqlFile.proven(calibration.map, calibration.to_json(), column, dialect, by, bounded=content.bounded)
    return file.proof, file.text
