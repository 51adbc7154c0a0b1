"""Damaged files of a store: refused with the store's error, whatever was damaged and whatever is asked for.

The reading runs in a process of its own, because the decoder that these tests guard against ends the process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.engine.store.store import TallyStore
from calibrant.export.errors import DocumentError
from calibrant.tallies import GroupedTally

pytest.importorskip("pyarrow")

DAY, NEXT = date(2026, 3, 1), date(2026, 3, 2)


def tallies(seed: int = 0, rows: int = 600, weighted: bool = False) -> GroupedTally:
    rng = np.random.default_rng(seed)
    scores = rng.random(rows)
    return GroupedTally.from_arrays(
        scores,
        (rng.random(rows) < scores).astype(int),
        rng.random(rows) + 0.5 if weighted else None,
        groups=rng.choice(["de", "fr", "it"], rows),
    )


def damaged(whole: bytes, thorough: bool) -> Iterator[tuple[str, bytes]]:
    """The file with one bit flipped, cut short, continued, or with a run of zeros or of bytes from another place."""
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    bits = range(8 * len(whole)) if thorough else [*range(0, 8 * footer, 31), *range(8 * footer, 8 * len(whole), 3)]
    for place, bit in (divmod(each, 8) for each in bits):
        data = bytearray(whole)
        data[place] ^= 1 << bit
        yield f"bit {bit} of byte {place}", bytes(data)
    for length in range(0, len(whole), 1 if thorough else 37):
        yield f"the first {length} bytes", whole[:length]
    yield "a byte more", whole + b"\0"
    yield "the end twice", whole + whole[footer:]
    rng = np.random.default_rng(0)
    for _ in range(5_000 if thorough else 100):
        start, other, size = (int(each) for each in rng.integers(1, len(whole), 3))
        for what, filling in (("zeros", bytes(size)), ("bytes of another place", whole[other : other + size])):
            changed = whole[:start] + filling[: len(whole) - start] + whole[start + size :]
            if changed != whole:
                yield f"{what} in {size} bytes from {start} on", changed


def _read_damaged(folder: Path, wanted: Any, thorough: bool) -> None:
    """Read every damaged version of a day; the file ``at`` says what is being read, ``wrong`` what was not refused."""
    store = TallyStore(folder)
    file = folder / "days" / f"day={DAY}" / "tally.parquet"
    with (folder / "at").open("w", buffering=1) as at, (folder / "wrong").open("w") as wrong:
        count = 0
        for what, data in damaged(file.read_bytes(), thorough):
            at.seek(0)
            at.write(f"{what:<80}")
            file.write_bytes(data)
            count += 1
            try:
                store.window(DAY, DAY, segments=wanted)
            except DocumentError:
                continue
            except Exception as problem:
                wrong.write(f"{what}: {problem!r}\n")
            else:
                wrong.write(f"{what}: read\n")
        at.seek(0)
        at.write(f"{count:<80}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "weighted"),
    [pytest.param(["de"], False, id="segments"), pytest.param(None, True, id="weights", marks=pytest.mark.full)],
)
def test_every_damaged_file_is_refused(tmp_path, wanted, weighted, full_size):
    TallyStore(tmp_path, by="land").add(DAY, tallies(weighted=weighted))
    reader = multiprocessing.get_context("spawn").Process(target=_read_damaged, args=(tmp_path, wanted, full_size))
    reader.start()
    reader.join(3600 if full_size else 600)
    at = (tmp_path / "at").read_text().strip()
    assert reader.exitcode == 0, f"the reader ended with {reader.exitcode} at {at}"
    assert (tmp_path / "wrong").read_text() == ""
    assert int(at) > 4_000


def test_adding_beside_a_damaged_day_does_not_decode_it(tmp_path):
    """A day's types are compared with those of another day, which may be the damaged one."""
    store = TallyStore(tmp_path, by="land")
    store.add(DAY, tallies())
    file = tmp_path / "days" / f"day={DAY}" / "tally.parquet"
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    assert store.add(NEXT, tallies(1))
    assert list(store.window(NEXT, NEXT)) == ["de", "fr", "it"]


def test_other_readers_find_plain_parquet(tmp_path):
    """The hash stands in the metadata, where nothing else reads it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    TallyStore(tmp_path, by="land").add(DAY, tallies())
    table = parquet.read_table(tmp_path / "days" / f"day={DAY}" / "tally.parquet", page_checksum_verification=True)
    assert sum(table.column("n").to_pylist()) == 600
