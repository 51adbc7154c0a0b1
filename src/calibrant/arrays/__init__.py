"""Input validation: scores, labels, weights, groups and time become checked arrays.

Everything that takes rows calls :func:`check_rows` (to fit or assess) or :func:`check_scores` (to apply a map). Columns
of pandas, polars and pyarrow are read through ``__array__`` and ``to_numpy``, so no dataframe library is imported here.
Each error is one sentence that names the argument, the problem and the fix.
"""

from calibrant.arrays.labels import check_labels
from calibrant.arrays.rows import Rows, check_rows, check_scores
from calibrant.arrays.score_types import ScoreType, sniff_kind

__all__ = [
    "Rows",
    "ScoreType",
    "check_labels",
    "check_rows",
    "check_scores",
    "sniff_kind",
]
