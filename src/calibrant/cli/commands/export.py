"""``calibrant export``: write a saved map as SQL or ONNX, verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

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
    out: Annotated[str | None, options.out("Output file: .sql or .onnx. Default: print SQL.")] = None,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", metavar="NAME", help="SQL: duckdb, postgres, spark, sqlite, ... [default: duckdb]"),
    ] = None,
    score: options.Score = None,
    by: Renamed = None,
    dtype: Annotated[
        Precision | None,
        typer.Option("--dtype", show_default=False, help="ONNX: type of the scores. [default: float32]"),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a map as one SQL expression or as an ONNX model.

    The result is first run on edge values, next to every knot and on 100,000 random scores, and is not written if it
    differs from the map. DuckDB and SQLite run it in memory. For other dialects the text is parsed and evaluated in
    Python; calibrant.verify repeats the comparison on your own server. docs/guide/ship.md lists the dialects. SQL for
    dialects that are not tested on a real engine begins with a comment that says so.

    Example:
      calibrant export map.json --dialect postgres --score p --out map.sql
      calibrant export map.json --score p --by region=area --out map.sql
    """
    from calibrant.cli.files import check_output, load_map
    from calibrant.cli.renaming import group_names

    calibration = load_map(map_)
    groups = group_names(calibration.map.columns, by)
    if out is not None:
        check_output(out, [".sql", ".onnx"], inputs=[map_], force=force)
    model = out is not None and out.lower().endswith(".onnx")
    _refuse_ignored(
        model, {"--dialect": dialect, "--score": score, "--by": by} if model else {"--dtype": dtype}, force, out
    )

    def run() -> tuple[Proof, str | None]:
        if out is not None and model:
            return calibration.export_onnx(out, "float32" if dtype is None else dtype.value), None
        return _sql(calibration, out, "score" if score is None else score, dialect or "duckdb", groups)

    proof, expression = console.work(run, words="Proving", quiet=quiet or as_json)
    if as_json:
        console.show_json({"out": out, "expression": expression, "proof": asdict(proof)})
    elif out is None:
        console.put(f"{expression}\n")
        console.note(str(proof))
    else:
        console.say(f"Wrote {out}. {proof}")


def _refuse_ignored(model: bool, given: Mapping[str, object], force: bool, out: str | None) -> None:
    """Reject options that do not apply to the output."""
    from calibrant.cli.voice import Mistake

    for option, value in given.items():
        if value is not None:
            there, other = ("ONNX", ".sql") if model else ("SQL", ".onnx")
            raise Mistake(
                option, f"does not apply to {there}", f"leave it out, or pass --out with a name that ends in {other}"
            )
    if force and out is None:
        raise Mistake("--force", "needs --out", "pass the file to overwrite")


def _sql(calibration: Calibration, out: str | None, column: str, dialect: str, by: dict[str, str]) -> tuple[Proof, str]:
    from calibrant.export.sql.file import SqlFile

    if out is not None:
        return calibration.export_sql(out, column, dialect, by=by), calibration.to_sql(column, dialect, by=by)
    file = SqlFile.proven(calibration.map, calibration.to_json(), column, dialect, by)
    return file.proof, file.text
