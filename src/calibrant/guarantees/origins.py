"""Where bins come from, and which theorem speaks about such bins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BinRule(StrEnum):
    """What decided where bins end."""

    OTHER_MASSES = "equal-masses-of-another-tally"
    OWN_MASSES = "equal-masses"
    PART_BLOCKS = "isotonic-blocks-of-a-part"
    PART_MASSES = "equal-masses-of-a-part"
    SCALED_WIDTHS = "equal-widths-after-scaling"
    TABLE = "table"
    WEIGHTS = "equal-weights"
    WIDTHS = "equal-widths"

    @property
    def takes_every_row(self) -> bool:
        """Whether each row lies in a bin or on an edge; otherwise some were set aside to choose the bins."""
        return self in (BinRule.OWN_MASSES, BinRule.WIDTHS)

    def words(self, part_rows: int = 0) -> str:
        """What the bins are made of; ``part_rows`` of them chose the bins.

        Examples
        --------
        >>> BinRule.PART_MASSES.words(1200)
        'equal masses of a random part of 1,200 rows'
        """
        return _WORDS[self].format(part_rows=part_rows)


_WORDS = {
    BinRule.OTHER_MASSES: "equal masses of another tally",
    BinRule.OWN_MASSES: "equal masses of the rows themselves",
    BinRule.PART_BLOCKS: "isotonic blocks of a random part of {part_rows:,} rows",
    BinRule.PART_MASSES: "equal masses of a random part of {part_rows:,} rows",
    BinRule.SCALED_WIDTHS: "equal widths after a scaling of a random part of the rows",
    BinRule.TABLE: "your own table",
    BinRule.WEIGHTS: "equal weights",
    BinRule.WIDTHS: "equal widths",
}


@dataclass(frozen=True)
class Source:
    """Where something is proved: the work, and the place in it."""

    work: str
    place: str

    def __str__(self) -> str:
        return f"{self.work}, {self.place}"
