"""A disk that is full leaves what was there: no file is cut off, and the error names it.

A limit on the size of files, which a process sets for itself, stands in for the disk: writing beyond it fails in the
same place and the same way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import worlds

import calibrant
from calibrant.export.files import write_whole
from calibrant.tallies import Tally

resource = pytest.importorskip("resource", reason="limits on the size of files need POSIX")

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

ROOM = 1_500
"""Bytes that fit into a file."""


@contextmanager
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def scored(n: int = 3_000) -> worlds.Rows:
    return worlds.calibrated(n)


def binned() -> Any:
    return calibrant.HistogramBinning(100).fit(*scored())


def classes() -> Any:
    p, y = worlds.classes(2_000, seed=1)
    return calibrant.multiclass.TopLabelHistogramBinning(50).fit(p, np.array(list("abc"))[y])


def sql(path: Path) -> Callable[[], Any]:
    pytest.importorskip("duckdb")
    made = binned().calibration_
    return lambda: made.export_sql(path, "p")


def class_sql(path: Path) -> Callable[[], Any]:
    pytest.importorskip("duckdb")
    made = classes().calibration_
    return lambda: made.export_sql(path, ["a", "b", "c"])


def onnx(path: Path) -> Callable[[], Any]:
    pytest.importorskip("onnxruntime")
    made = binned().calibration_
    return lambda: made.export_onnx(path)


def report(path: Path) -> Callable[[], Any]:
    pytest.importorskip("matplotlib")
    made = calibrant.report(*scored())
    made.to_html()  # fonts are looked up, and their list stored, the first time
    return lambda: made.save(path)


SAVED: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "map.json": lambda path: (lambda made: lambda: made.save(path))(binned()),
    "classes.json": lambda path: (lambda made: lambda: made.save(path))(classes()),
    "map.sql": sql,
    "classes.sql": class_sql,
    "map.onnx": onnx,
    "report.json": report,
    "report.md": report,
    "report.html": report,
}


def test_what_was_there_stays_and_the_error_names_the_file(tmp_path: Path, subtests) -> None:
    for name in SAVED:
        with subtests.test(name=name):
            path = tmp_path / name / name
            path.parent.mkdir()
            path.write_text("what was there")
            save = SAVED[name](path)
            with full_disk(), pytest.raises(OSError, match=f"nothing was written.*{name}"):
                save()
            assert path.read_text() == "what was there"
            assert [each.name for each in path.parent.iterdir()] == [name], "nothing is left over"
            save()
            assert path.stat().st_size > ROOM, "the limit is what stopped it"


def test_a_new_file_is_not_begun(tmp_path: Path) -> None:
    made = binned()
    with full_disk(), pytest.raises(OSError, match="nothing was written"):
        made.save(tmp_path / "map.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("day", ["2026-01-01", "2026-01-02"])
def test_a_store_keeps_the_day_that_it_had_and_begins_no_other(day: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    scores, y = scored()
    store = calibrant.TallyStore(tmp_path / "store")
    store.add("2026-01-01", Tally.from_arrays(scores[:5], y[:5]))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with full_disk(), pytest.raises(OSError, match=f"nothing was written.*day={day}"):
        store.add(day, Tally.from_arrays(scores, y), replace=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert store.window("2026-01-01", "2026-01-02").total == 5


# ----------------------------------------------------------------------------------------------------------------------
# A file that is replaced as a whole is otherwise as it was
# ----------------------------------------------------------------------------------------------------------------------


def test_rights_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "map.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_new_file_has_the_rights_that_any_file_would(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"bytes")
    (tmp_path / "b").write_bytes(b"bytes")
    assert (tmp_path / "a").read_bytes() == b"bytes"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_what_is_no_plain_file_is_written_as_it_is(tmp_path: Path) -> None:
    """A pipe, or /dev/stdout, cannot be replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing was written.*map\.json"):
        write_whole(tmp_path / "nowhere" / "map.json", "text")
    with pytest.raises(IsADirectoryError, match="nothing was written"):
        write_whole(tmp_path, "text")
