"""Tables of records as CSV text and pandas frames; numbers as they are, missing ones empty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from calibrant.arrays.paths import local_path
from calibrant.export.files import write_whole
from calibrant.messages import MissingPackage

Record = Mapping[str, Any]


def csv_text(records: Sequence[Record], *, sep: str = ",", decimal: str = ".") -> str:
    r"""Records as CSV with a header; a number that is not finite is an empty field.

    Examples
    --------
    >>> csv_text([{"grade": "A", "pd": 0.02}, {"grade": "B", "pd": math.nan}])
    'grade,pd\nA,0.02\nB,\n'
    >>> csv_text([{"grade": "A", "pd": 0.02}], sep=";", decimal=",")
    'grade;pd\nA;0,02\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=sep, lineterminator="\n")
    if records:
        writer.writerow(list(records[0]))
        writer.writerows([_field(value, decimal) for value in record.values()] for record in records)
    return text.getvalue()


def _field(value: Any, decimal: str) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return repr(float(value)).replace(".", decimal) if isinstance(value, float) else str(value)


class Recorded:
    """A result that is a list of records, and so a pandas frame and a CSV file."""

    def records(self) -> list[dict[str, Any]]:
        """The records, in the order of the table; unknown numbers are NaN."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The records as a pandas frame, one row each."""
        try:
            import pandas as pd
        except ImportError:
            fix = "to_dict() and to_csv() do without it"
            raise MissingPackage("a frame", "pandas", "pandas", fix) from None
        return pd.DataFrame(self.records())

    def to_csv(self, path: str | PathLike[str] | None = None, *, sep: str = ",", decimal: str = ".") -> str:
        """The records as CSV text, also written to ``path`` if given.

        Parameters
        ----------
        path
            File to write.
        sep, decimal
            Separator of fields, and decimal mark; ``";"`` and ``","`` for a German or French Excel.
        """
        text = csv_text(self.records(), sep=sep, decimal=decimal)
        if path is not None:
            write_whole(local_path(path), text)
        return text
