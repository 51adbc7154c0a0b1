"""Tally: mergeable counts of (score, label), the one thing that binary one-score work needs of its data.

Rows are scanned once. Fitting, auditing and plotting then cost the number of cells, whatever the number of rows, and
tallies of days, shards and workers add up to the tally of the whole, bit for bit on integer weights.
"""

from calibrant.tallies.cells import Cells, Counts
from calibrant.tallies.ends import NO_INTERIOR, end_notes, end_text, ends_at, ends_of_rows
from calibrant.tallies.grouped import CLUSTER_BUCKETS, SEGMENT_GRID, Clusters, GroupedTally, cluster_buckets
from calibrant.tallies.repeats import repeat_notes, repeat_notes_of_rows
from calibrant.tallies.tally import Resolution, Tally, effective_size, in_effective_rows

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
]
