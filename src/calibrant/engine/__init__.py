"""Count and apply maps inside dataframes and databases (pandas, polars, DuckDB, Spark), and store tallies by day."""

from calibrant.engine.columns import apply
from calibrant.engine.frames import Capabilities, capabilities, collect, tally, write
from calibrant.engine.store.store import TallyStore
from calibrant.messages import public_names
from calibrant.numerics import Grid
from calibrant.tallies import GroupedTally

__all__ = ["Capabilities", "Grid", "GroupedTally", "TallyStore", "apply", "capabilities", "collect", "tally", "write"]

__dir__ = public_names(__all__)
