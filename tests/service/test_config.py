"""The configuration of a process: environment, files, arguments."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from calibrant.messages import InputError
from calibrant.service.config import READERS, Config, key_id

OLD, NEW = bytes(32), bytes(range(32))


def test_the_environment_is_read_and_arguments_win() -> None:
    found = Config.from_environment(
        {
            "CALIBRANT_DATABASE": "dbname=a",
            "CALIBRANT_RECEIPT_KEYS": f"{NEW.hex()}, {OLD.hex()}",
            "CALIBRANT_PORT": "1",
        },
        port=2,
    )
    assert (found.database, found.receipt_keys, found.port) == ("dbname=a", (NEW, OLD), 2)
    assert set(READERS) == {each.name for each in fields(Config)}


def test_secrets_come_from_files_and_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{NEW.hex()}\n{OLD.hex()}\n")
    (tmp_path / "database").write_text("password=hidden\n")
    names = {"RECEIPT_KEYS": "keys", "DATABASE": "database"}
    found = Config.from_environment({f"CALIBRANT_{name}_FILE": str(tmp_path / file) for name, file in names.items()})
    assert (found.database, found.receipt_keys) == ("password=hidden", (NEW, OLD))
    assert "hidden" not in repr(found)
    assert NEW.hex() not in repr(found)


@pytest.mark.parametrize(
    ("environment", "argument"),
    [
        ({}, "database"),
        ({"CALIBRANT_DATABASE": ""}, "database"),
        ({"CALIBRANT_DATABASE_FILE": "/missing/file"}, "CALIBRANT_DATABASE_FILE"),
        ({"CALIBRANT_DATABASE": "a", "CALIBRANT_PORT": "x"}, "CALIBRANT_PORT"),
        ({"CALIBRANT_DATABASE": "a", "CALIBRANT_RATE": "nan"}, "rate"),
        ({"CALIBRANT_DATABASE": "a", "CALIBRANT_RECEIPT_KEYS": "00ff"}, "receipt_keys"),
        ({"CALIBRANT_DATABASE": "a", "CALIBRANT_RECEIPT_KEYS": "no hex"}, "CALIBRANT_RECEIPT_KEYS"),
        ({"CALIBRANT_DATABASE": "a", "CALIBRANT_RECEIPT_KEYS": f"{OLD.hex()} {OLD.hex()}"}, "receipt_keys"),
    ],
)
def test_a_wrong_configuration_is_refused(environment: dict[str, str], argument: str) -> None:
    with pytest.raises(InputError) as refused:
        Config.from_environment(environment)
    assert refused.value.argument == argument


def test_keys_have_short_names() -> None:
    assert key_id(OLD) != key_id(NEW)
    assert len(key_id(NEW)) == 4
