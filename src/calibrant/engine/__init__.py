"""Tallies where the data lives: any frame that narwhals reads, DuckDB and Spark included; and a store of them."""

from calibrant.engine.columns import apply
from calibrant.engine.frames import Capabilities, capabilities, collect, tally, write
from calibrant.engine.store.store import TallyStore

__all__ = ["Capabilities", "TallyStore", "apply", "capabilities", "collect", "tally", "write"]
