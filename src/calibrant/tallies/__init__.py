"""Tally: mergeable counts of rows and events by score, from which binary metrics and fits are computed.

Rows are read once. The cost of fitting, assessing and plotting then depends on the number of cells and not on the
number of rows. Tallies of days, shards and workers add up to the tally of all rows, bit for bit for integer weights.
"""

from calibrant.tallies.cells import Cells, Counts
from calibrant.tallies.effective import effective_size, in_effective_rows
from calibrant.tallies.ends import NO_INTERIOR, end_notes, end_text, ends_at, ends_of_rows
from calibrant.tallies.grouped import CLUSTER_BUCKETS, SEGMENT_GRID, Clusters, GroupedTally, cluster_buckets, scores_of
from calibrant.tallies.repeats import repeat_notes, repeat_notes_of_rows
from calibrant.tallies.tally import Resolution, Tally

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
