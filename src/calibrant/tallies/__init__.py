"""Tally: mergeable counts of rows and events by score, from which binary metrics and fits are computed.

Rows are read once. The cost of fitting, assessing and plotting then depends on the number of cells and not on the
number of rows. Tallies of days, shards and workers add up to the tally of all rows, bit for bit for integer weights.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant.tallies.cells import Cells, Counts, effective_size, in_effective_rows
from calibrant.tallies.ends import NO_INTERIOR, end_notes, end_text, ends_at, ends_of_rows
from calibrant.tallies.repeats import repeat_notes, repeat_notes_of_rows
from calibrant.tallies.tally import Resolution, Tally

if TYPE_CHECKING:
    from calibrant.tallies.grouped import (
        CLUSTER_BUCKETS,
        SEGMENT_GRID,
        Clusters,
        GroupedTally,
        cluster_buckets,
        scores_of,
    )

_BY_GROUP = ("CLUSTER_BUCKETS", "SEGMENT_GRID", "Clusters", "GroupedTally", "cluster_buckets", "scores_of")

__all__ = [
    "CLUSTER_BUCKETS",
    "NO_INTERIOR",
    "SEGMENT_GRID",
    "Cells",
    "Clusters",
    "Counts",
    "GroupedTally",
    "Resolution",
    "Tally",
    "cluster_buckets",
    "effective_size",
    "end_notes",
    "end_text",
    "ends_at",
    "ends_of_rows",
    "in_effective_rows",
    "repeat_notes",
    "repeat_notes_of_rows",
    "scores_of",
]


def __getattr__(name: str) -> Any:
    """Load tallies by group when they are first used."""
    if name not in _BY_GROUP:
        raise AttributeError(f"module 'calibrant.tallies' has no attribute {name!r}")
    value = getattr(import_module("calibrant.tallies.grouped"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every name, loaded or not."""
    return __all__
