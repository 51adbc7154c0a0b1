"""Write the description of the HTTP interface of the live service.

    python tools/openapi.py [--check]

Writes ``docs/service/openapi.json``. With ``--check`` nothing is written, and the exit code is 1 if the file is not
up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from calibrant.service.api.app import create_app
from calibrant.service.config import Config

PLACE = Path(__file__).resolve().parents[1] / "docs" / "service" / "openapi.json"


def text() -> str:
    """The description as the application gives it."""
    return json.dumps(create_app(Config(database="dbname=calibrant")).openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PLACE.write_text(text())
    elif PLACE.read_text() != text():
        sys.exit("docs/service/openapi.json is not up to date: run python tools/openapi.py")
