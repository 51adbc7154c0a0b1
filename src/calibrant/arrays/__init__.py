"""Anything into checked arrays: scores, labels, weights, groups and time.

Every way into Calibrant that takes rows passes through :func:`check_rows` (fitting, auditing) or
:func:`check_scores` (applying). Columns of pandas, polars and pyarrow are read by what they can do (``__array__``,
``to_numpy``), so that no dataframe library is imported here. Each error is one sentence that names the argument, the
problem and the fix.
"""

from calibrant.arrays.kinds import Kind, sniff_kind
from calibrant.arrays.labels import check_labels
from calibrant.arrays.rows import Rows, check_rows, check_scores

__all__ = [
    "Kind",
    "Rows",
    "check_labels",
    "check_rows",
    "check_scores",
    "sniff_kind",
]
