"""Export of each kind of map: its text or nodes in every language, the rows it is tried on, the tolerance allowed.

The functions below dispatch on the kind; importing this package registers every kind.
"""

from calibrant.export.kinds import regions as regions
from calibrant.export.kinds import trees as trees
from calibrant.export.kinds.classes import row_nodes
from calibrant.export.kinds.samples import Rows, proof_rows
from calibrant.export.kinds.scores import as_table, nodes_of, varies_outside
from calibrant.export.kinds.stages import lower
from calibrant.export.kinds.tolerance import allowed, only_copies

__all__ = [
    "Rows",
    "allowed",
    "as_table",
    "lower",
    "nodes_of",
    "only_copies",
    "proof_rows",
    "row_nodes",
    "varies_outside",
]
