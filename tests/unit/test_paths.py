"""Path arguments: local paths and file addresses work in every function, other addresses are refused in every one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant import engine
from calibrant.arrays.paths import local_path, of_file_url
from calibrant.maps import SoftmaxMap, StepMap
from calibrant.messages import InputError
from calibrant.tallies import Tally

ADDRESSES = [
    "s3://bucket/x",
    "S3A://bucket/x",
    "s3:/bucket/x",
    Path("s3://bucket/x"),
    PureWindowsPath("s3://bucket/x"),
    "gs://bucket/x",
    "abfss://box@account.dfs.core.windows.net/x",
    "dbfs:/mnt/x",
    "https://x.org/x",
    "memory://x",
    " s3://bucket/x",
    "file://server/share/x",
    "file:///tmp/x?version=1",
    "file:///tmp/x#1",
    "file://",
    "file:///a%00b",
]

BINARY = cb.Calibration(StepMap([0.5], [0.1, 0.8]))
SCORES = np.linspace(0.05, 0.95, 40)
LABELS = (SCORES > 0.5).astype(int)


def several() -> Any:
    return cb.Calibration(SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9))


@cache
def report() -> Any:
    return cb.report(np.tile(SCORES, 10), np.tile(LABELS, 10), random_state=0)


def frame() -> Any:
    return pytest.importorskip("pyarrow").table({"s": [0.5]})


def read_back(save: Callable[[str], Any], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Read what was saved under a plain path, by the path that is tried."""

    def run(path: Any) -> Any:
        plain = local_path(path)  # of what is refused nothing is written
        save(str(plain))
        return read(path)

    return run


def of_sql(path: str) -> Any:
    pytest.importorskip("duckdb")
    return BINARY.export_sql(path, "s")


def needing(*packages: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(path: Any) -> Any:
        for package in packages:
            pytest.importorskip(package)
        return call(path)

    return run


def in_store(path: Any) -> Any:
    store = cb.TallyStore(path)
    pytest.importorskip("pyarrow")
    store.add("2026-03-01", Tally.from_arrays(SCORES, LABELS, grid=store.grid))


DOORS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Calibration.save": (".json", BINARY.save),
    "Calibration of classes.save": (".json", lambda path: several().save(path)),
    "calibrator.save": (".json", lambda path: cb.PlattScaling().fit(SCORES, LABELS[::-1]).save(path)),
    "load": (".json", read_back(BINARY.save, cb.load)),
    "Calibration.export_sql": (".sql", needing("duckdb", call=lambda path: BINARY.export_sql(path, "s"))),
    "Calibration of classes.export_sql": (".sql", needing("duckdb", call=lambda path: several().export_sql(path))),
    "Calibration.export_onnx": (".onnx", needing("onnx", "onnxruntime", call=BINARY.export_onnx)),
    "Calibration of classes.export_onnx": (
        ".onnx",
        needing("onnx", "onnxruntime", call=lambda path: several().export_onnx(path)),
    ),
    "verify": (".sql", read_back(of_sql, cb.verify)),
    "Report.save": (".md", lambda path: report().save(path)),
    "report": (".md", lambda path: cb.report(np.tile(SCORES, 10), np.tile(LABELS, 10), path=path)),
    "TallyStore": ("", in_store),
    "engine.write": (".parquet", lambda path: engine.write(frame(), path)),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_addresses_are_refused(subtests):
    for address in ADDRESSES:
        with subtests.test(address=address), pytest.raises(InputError, match=r"^where="):
            local_path(address, "where")


def test_no_function_takes_an_address(here, monkeypatch, subtests):
    for name, (suffix, call) in DOORS.items():
        for given in [f"s3://bucket/x{suffix}", Path("s3://bucket/x").with_suffix(suffix)]:
            with subtests.test(name, given=given):
                folder = here / f"{name} {type(given).__name__}"
                folder.mkdir()
                monkeypatch.chdir(folder)
                with pytest.raises(
                    InputError, match=r"^(path|export)='s3:.* is a URL, and only local files are supported"
                ):
                    call(given)
                assert list(folder.iterdir()) == []
                (folder / "s3:" / "bucket").mkdir(parents=True)  # as an earlier version left it behind
                with pytest.raises(InputError, match="is a URL"):
                    call(given)
                assert list((folder / "s3:" / "bucket").iterdir()) == []


def test_every_function_takes_file_addresses_and_drive_letters(here, monkeypatch, subtests):
    for name, (suffix, call) in DOORS.items():
        with subtests.test(name):
            folder = here / name / "a folder, 100 % é"
            folder.mkdir(parents=True)
            monkeypatch.chdir(here / name)
            call((folder / f"x#1{suffix}").as_uri())
            assert [path.name for path in folder.iterdir()] == [f"x#1{suffix}"]
            if os.name != "nt":  # where these are names of files like any other
                call(f"C:\\x{suffix}")
                assert (here / name / f"C:\\x{suffix}").exists()


def test_local_paths(subtests):
    for given, expected in [
        ("x.json", "x.json"),
        ("C:\\maps\\x.json", "C:\\maps\\x.json"),
        ("c:/maps/x.json", "c:/maps/x.json"),
        ("./s3:/x.json", "s3:/x.json"),
        ("at 10:30/x.json", "at 10:30/x.json"),
        ("v:1/x.json", "v:1/x.json"),
        ("file:///tmp/x.json", "/tmp/x.json"),
        ("file:/tmp/x.json", "/tmp/x.json"),
        ("FILE://localhost/tmp/x.json", "/tmp/x.json"),
        (Path("file:///tmp/x.json"), "/tmp/x.json"),
        ("file:///tmp/a%20b%25%23%3F.json", "/tmp/a b%#?.json"),
    ]:
        with subtests.test(given=given, expected=expected):
            assert local_path(given) == Path(expected)


def test_names_that_are_not_utf8_survive_a_file_address(here):
    path = here / os.fsdecode(b"caf\xe9.json")
    assert local_path(path.as_uri()) == path


def test_file_addresses_on_windows(subtests):
    for url, expected in [
        ("file:///C:/maps/a%20b.json", "C:/maps/a b.json"),
        ("file://server/share/x.json", "//server/share/x.json"),
        ("file:\\C:\\maps\\x.json", "C:/maps/x.json"),
    ]:
        with subtests.test(url=url, expected=expected):
            assert of_file_url(url, "path", windows=True) == expected


def test_what_is_not_a_path_is_refused(subtests):
    for given in [None, 3, b"x.json", ""]:
        with subtests.test(given=given), pytest.raises(InputError, match=r"^path is "):
            local_path(given)
