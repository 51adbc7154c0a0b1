"""Where bins come from, what a certificate about them assumes, and which theorem it rests on."""

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


class Assumption(StrEnum):
    """What a certificate assumes and no row can show."""

    INDEPENDENT = "independent-rows"
    NOT_TUNED = "fit-not-tuned-on-labels"
    SAMPLED_BY_CLASS = "sampled-by-class"
    BINS_BEFORE = "bins-chosen-before"
    DIRECTIONS_BEFORE = "directions-chosen-before"
    OTHER_ROWS = "bins-of-independent-rows"
    ONE_DRAW = "one-draw"
    FIRST_LOOK = "first-look"
    LATER_LOOK = "later-look"

    def words(self, look: int = 1) -> str:
        """The assumption as a phrase; ``look`` is how often a guarantee was asked for on growing rows.

        Examples
        --------
        >>> Assumption.LATER_LOOK.words(3)
        'there are 4 times as many rows as when a guarantee was first asked for'
        """
        return _ASSUMED[self].format(times=2 ** (look - 1))


_ASSUMED = {
    Assumption.INDEPENDENT: (
        "the rows are independent draws from the population that the map will serve, and new to the model"
    ),
    Assumption.NOT_TUNED: "no argument of the fit was chosen by their labels",
    Assumption.SAMPLED_BY_CLASS: (
        "which of them were kept depended on their class alone, at the rates that sample_weight states"
    ),
    Assumption.BINS_BEFORE: "the bins were chosen before these rows were seen",
    Assumption.DIRECTIONS_BEFORE: "the directions were chosen before these rows were seen",
    Assumption.OTHER_ROWS: "the tally that chose the bins is independent of these rows",
    Assumption.ONE_DRAW: "the part was drawn once, and neither the draw nor its seed was picked by its result",
    Assumption.FIRST_LOOK: "this is the first time that a guarantee is asked for on these rows",
    Assumption.LATER_LOOK: "there are {times:,} times as many rows as when a guarantee was first asked for",
}


@dataclass(frozen=True)
class Source:
    """Where something is proved: the work, and the place in it."""

    work: str
    place: str

    def __str__(self) -> str:
        return f"{self.work}, {self.place}"
