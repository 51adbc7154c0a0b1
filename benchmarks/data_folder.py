"""Where the public data sets lie: `CALIBRANT_DATA`, by default `../shared/data`."""

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """The folder of the data, whether it is there or not."""
    return Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


def need_data(*names: str) -> Path:
    """The folder of the data, or an end before any work, with what to do, if one of the sets is not in it."""
    folder = data_folder()
    for name in names:
        if not (folder / name).is_dir():
            raise SystemExit(
                f"no data {name!r} in {folder}: name the folder that has them, as in\n"
                f"    CALIBRANT_DATA=folder python {sys.argv[0]}"
            )
    return folder
