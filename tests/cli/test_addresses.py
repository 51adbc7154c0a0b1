"""Paths on the command line: every option and argument that names a file or folder refuses addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from calibrant.cli.app import app

PATHS = {"FILES", "FILE", "DIR", "MAP.json"}
"""How parameters that are paths call their values."""

REQUIRED = {
    "fit": ["rows.csv", "--out", "new.json"],
    "check": ["rows.csv"],
    "apply": ["rows.csv", "--map", "m.json", "--out", "new.csv"],
    "export": ["m.json"],
    "verify": ["m.sql"],
    "report": ["rows.csv", "--out", "new.md"],
    "compare": ["rows.csv", "--old", "score", "--new", "new"],
    "grades": ["rows.csv"],
    "anchor": ["rows.csv", "--mean", "0.1", "--out", "new.json"],
    "accept": ["rows.csv"],
    "plan": ["--epsilon", "0.1", "--n-bins", "5"],
    "tally": ["rows.csv", "--day", "2026-03-01"],
    "watch": ["kept"],
    "backtest": ["rows.csv", "--time", "day"],
}


def doors() -> list[tuple[str, str]]:
    """Every (command, parameter) that takes a path; an argument is given by its name, without dashes."""
    commands: Any = typer.main.get_command(app)
    return [
        (name, param.opts[0])
        for name, command in commands.commands.items()
        for param in command.params
        if param.metavar in PATHS
    ]


def words_with(command: str, door: str, path: str) -> list[str]:
    """The command with a path in one place, and what else it needs."""
    words = list(REQUIRED[command])
    if not door.startswith("--"):
        return [command, path, *words[1:]]
    if door in words:
        words[words.index(door) + 1] = path
        return [command, *words]
    return [command, *words, door, path]


def test_the_doors_are_found():
    assert len(doors()) == 31
    assert {command for command, _ in doors()} == set(REQUIRED)


def test_no_parameter_takes_an_address(subtests, run, here):
    for command, door in doors():
        for address in ["s3://bucket/x.csv", "s3:/bucket/x.csv"]:
            with subtests.test(command=command, door=door, address=address):
                before = sorted(path.name for path in here.rglob("*"))
                done = run(*words_with(command, door, address))
                assert done.exit_code == 1
                named = door if door.startswith("--") else ""
                assert (
                    f"{named} {address} is a URL, and only local files are supported: pass a local path" in done.stderr
                )
                assert done.stdout == ""
                assert sorted(path.name for path in here.rglob("*")) == before


def test_a_folder_called_like_an_address_changes_nothing(run, here):
    (here / "s3:" / "bucket").mkdir(parents=True)
    (here / "s3:" / "bucket" / "rows.csv").write_bytes((here / "rows.csv").read_bytes())
    assert "is a URL" in run("check", "s3://bucket/rows.csv").stderr


def test_file_addresses_are_decoded_everywhere(run, here):
    folder = here / "a folder, 100 %"
    folder.mkdir()

    def at(name: str) -> str:
        return (folder / name).as_uri()

    for name in ("rows.csv", "rows.parquet"):
        (folder / name).write_bytes((here / name).read_bytes())
    commands = [
        ["fit", at("rows.csv"), "--label", "bad", "--method", "platt", "--out", at("m.json")],
        ["check", at("rows.csv"), "--map", at("m.json"), "--label", "bad"],
        ["apply", at("rows.parquet"), "--map", at("m.json"), "--out", at("new.parquet")],
        ["export", at("m.json"), "--out", at("m.sql")],
        ["verify", at("m.sql")],
        ["tally", at("rows.csv"), "--by", "land", "--time", "day", "--store", at("kept"), "--out", at("cells.csv")],
        ["check", at("kept")],
        ["report", at("kept"), "--out", at("r.md")],
        ["plan", "--epsilon", "0.1", "--n-bins", "5", "--scores", at("rows.csv")],
        ["compare", at("rows.csv"), "--old", "score", "--new", "new"],
    ]
    for words in commands:
        done = run(*words)
        assert done.exit_code in ((0, 10, 11) if words[0] == "check" else (0,)), (words, done.stderr)
    made = {"m.json", "m.sql", "new.parquet", "kept", "cells.csv", "r.md"}
    assert {path.name for path in folder.iterdir()} == made | {"rows.csv", "rows.parquet"}
    assert not any("%" in path.name for path in Path.cwd().iterdir() if path != folder)


def test_globs_in_a_file_address(run, here):
    rows = json.loads(run("tally", f"{here.as_uri()}/r*.csv", "--json").stdout)["rows"]
    assert rows == 4000


def test_an_empty_path_is_refused(run):
    """The text of a variable that the shell does not have, which for a store would be the current folder."""
    done = run("tally", "rows.csv", "--day", "2026-03-01", "--store", "")
    assert done.exit_code == 2
    assert "value is empty" in done.stderr
