"""What a file claims about its size is checked before memory is taken, and what runs from a file is bounded."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import calibrant as cb
from calibrant import Calibration, DocumentError, InputError
from calibrant.cli.app import app
from calibrant.engine.store.sealed import BLANK, KEY, MARK
from calibrant.export import documents
from calibrant.export.sql.file import SqlFile
from calibrant.export.verify import verify
from calibrant.live import Ledger
from calibrant.maps import IdentityMap, StepMap
from calibrant.tallies import Tally


def bomb(path: Path, groups: int) -> None:
    """A file of a store that says ``groups`` million constant rows, with a correct hash."""
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    about = json.loads(schema.metadata[KEY]) | {"sha256": BLANK.decode()}
    schema = schema.with_metadata({KEY: json.dumps(about)})
    size = 1_000_000
    table = pa.table([pa.array(np.zeros(size, field.type.to_pandas_dtype())) for field in schema], schema=schema)
    with parquet.ParquetWriter(path, schema, compression="zstd") as out:
        for _ in range(groups):
            out.write_table(table)
    data = path.read_bytes()
    start = data.rfind(MARK) + len(MARK)
    digest = hashlib.sha256(data).hexdigest().encode()
    path.write_bytes(data[:start] + digest + data[start + len(BLANK) :])


def test_x3_a_bomb_in_a_store_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    store = cb.TallyStore(tmp_path / "store")
    store.add("2026-01-01", Tally.from_arrays([0.1, 0.7], [0, 1], grid=store.grid))
    (path,) = tmp_path.glob("store/days/*/*.parquet")
    bomb(path, 11)
    before, start = pa.total_allocated_bytes(), time.perf_counter()
    with pytest.raises(DocumentError, match="cells"):
        store.window()
    assert pa.total_allocated_bytes() - before < 1 << 28
    assert time.perf_counter() - start < 5.0


def test_x3_a_document_and_an_endless_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_bytes(b"[" + b"{}," * (documents.LARGEST // 3) + b"{}]")
    for path in (tmp_path / "map.json", Path("/dev/zero")):
        with pytest.raises(DocumentError, match="bytes"):
            cb.load(path)
    with pytest.raises(DocumentError, match="bytes"):
        verify("/dev/zero")


def sql(tmp_path: Path, text: str) -> Path:
    made = SqlFile.proven(IdentityMap(), Calibration(IdentityMap()).to_json(), "s", "duckdb", bounded=True)
    path = tmp_path / "map.sql"
    path.write_text(f"{str(made).rpartition(chr(10) + 'CASE')[0]}\n{text}\n")
    return path


def constant(tmp_path: Path, nodes: list[Any], initializers: list[Any], inputs: list[Any] | None = None) -> Path:
    """A model with the document of a map, and other nodes."""
    model = Calibration(StepMap([0.5], [0.1, 0.8])).to_onnx()
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(initializers)
    path = tmp_path / "map.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def huge_tensor(tmp_path: Path) -> Path:
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [1], [1_550_000_000])
    node = onnx.helper.make_node
    nodes = [
        node("ConstantOfShape", ["shape"], ["many"]),
        node("ReduceSum", ["many"], ["sum"], keepdims=0),
        node("Add", ["score", "sum"], ["calibrated"]),
    ]
    return constant(tmp_path, nodes, [shape])


def external(tmp_path: Path) -> Path:
    (tmp_path / "weights.bin").write_bytes(np.zeros(1, np.float32).tobytes())
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": "0", "length": "4"}.items():
        tensor.external_data.add(key=key, value=value)
    return constant(tmp_path, [onnx.helper.make_node("Add", ["score", "w"], ["calibrated"])], [tensor])


LOOP = "list_sum(list_transform(range(30000), lambda x: list_sum(list_transform(range(30000), lambda y: x + y))))"
HUNGRY: dict[str, Callable[[Path], Path]] = {
    "a list of 3e9": lambda folder: sql(folder, "CAST(len(range(3000000000)) AS DOUBLE)"),
    "nested loops": lambda folder: sql(folder, f"CAST({LOOP} AS DOUBLE)"),
    "ConstantOfShape": huge_tensor,
    "external data": external,
}


@pytest.mark.parametrize("case", HUNGRY)
def test_x9_verify_is_bounded(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start = time.perf_counter()
    with pytest.raises((InputError, DocumentError)):
        verify(HUNGRY[case](tmp_path), seconds=2)
    assert time.perf_counter() - start < 30.0


def test_x9_a_state_claims_no_more_columns_of_keys_than_can_be() -> None:
    with pytest.raises(InputError):
        Ledger(60.0, key_columns=10**9)


def test_x9_removing_a_linked_day_leaves_nothing_behind(tmp_path: Path) -> None:
    store = cb.TallyStore(tmp_path / "store")
    store.add("2026-01-01", Tally.from_arrays([0.1, 0.7], [0, 1], grid=store.grid))
    (day,) = tmp_path.glob("store/days/*")
    day.rename(tmp_path / "elsewhere")
    day.symlink_to(tmp_path / "elsewhere")
    store.remove("2026-01-01")
    assert not list(tmp_path.glob("store/.removed-*"))
    assert list((tmp_path / "elsewhere").iterdir())


def test_x9_a_text_file_of_many_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{place}" for place in range(8_000)) + "\n" + ",".join("1" * 8_000) + "\n")
    done = CliRunner().invoke(app, ["check", str(path), "--score", "c1", "--label", "c2"])
    assert done.exit_code == 1
    assert "4,000 columns" in done.stderr


def test_x5_a_folder_called_tilde_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    (here / "~").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    (home / "d.csv").write_text("score,label\n" + "0.9,1\n" * 900)
    (here / "~" / "d.csv").write_text("score,label\n0.1,0\n0.2,1\n")
    Calibration(IdentityMap()).save("map.json")
    done = CliRunner().invoke(app, ["apply", "~/d.csv", "--map", "map.json", "--out", "~/out.csv"])
    assert done.exit_code == 0, done.stderr
    assert len((here / "~" / "out.csv").read_text().splitlines()) == 3
    assert cb.check("~/d.csv", score="score", label="label").rows == 2
