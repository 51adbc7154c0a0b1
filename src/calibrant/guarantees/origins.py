"""How bins were chosen, what a certificate assumes, and the reference of its theorem."""

from __future__ import annotations

from enum import StrEnum


class BinRule(StrEnum):
    """How the bin edges were chosen."""

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
        """Whether each row lies in a bin or on an edge; otherwise some rows were set aside to choose the bins."""
        return self in (BinRule.OWN_MASSES, BinRule.WIDTHS)

    @property
    def draws(self) -> bool:
        """Whether a random split of the rows chose the bins."""
        return self in (BinRule.PART_BLOCKS, BinRule.PART_MASSES, BinRule.SCALED_WIDTHS)

    def words(self, part_rows: int = 0) -> str:
        """How the bin edges were chosen, in words; ``part_rows`` is the number of rows that chose them.

        Examples
        --------
        >>> BinRule.PART_MASSES.words(1200)
        'equal masses of a random split of 1,200 rows'
        """
        return _WORDS[self].format(part_rows=part_rows)


_WORDS = {
    BinRule.OTHER_MASSES: "equal masses of another tally",
    BinRule.OWN_MASSES: "equal masses of the rows themselves",
    BinRule.PART_BLOCKS: "isotonic blocks of a random split of {part_rows:,} rows",
    BinRule.PART_MASSES: "equal masses of a random split of {part_rows:,} rows",
    BinRule.SCALED_WIDTHS: "equal widths after scaling fitted on a random split",
    BinRule.TABLE: "your own table",
    BinRule.WEIGHTS: "equal weights",
    BinRule.WIDTHS: "equal widths",
}


class Assumption(StrEnum):
    """Assumptions of a certificate that cannot be checked on the rows."""

    INDEPENDENT = "independent-rows"
    INDEPENDENT_SOURCE = "independent-rows-of-source"
    NOT_TUNED = "fit-not-tuned-on-labels"
    SAMPLED_BY_CLASS = "sampled-by-class"
    COVARIATE_SHIFT = "covariate-shift"
    KNOWN_RATIO = "known-ratio"
    BINS_BEFORE = "bins-chosen-before"
    DIRECTIONS_BEFORE = "directions-chosen-before"
    OTHER_ROWS = "bins-of-independent-rows"
    ONE_DRAW = "one-draw"
    FIRST_LOOK = "first-look"
    LATER_LOOK = "later-look"

    def words(self, look: int = 1) -> str:
        """The assumption in words; ``look`` is how many times a guarantee was requested on growing rows.

        Examples
        --------
        >>> Assumption.LATER_LOOK.words(3)
        'there are 4 times as many rows as when a guarantee was first requested'
        """
        return _ASSUMED[self].format(times=2 ** (look - 1))


_ASSUMED = {
    Assumption.INDEPENDENT: (
        "the rows are independent draws from the population that the map will be applied to, and were not used to "
        "train or tune the model"
    ),
    Assumption.INDEPENDENT_SOURCE: (
        "the rows are independent draws from one source population, and were not used to train or tune the model"
    ),
    Assumption.COVARIATE_SHIFT: (
        "only the mix of cases differs between the source and the target population, not the event rate given the "
        "features"
    ),
    Assumption.KNOWN_RATIO: "the weights are the exact density ratio, not an estimate, and never exceed their bound",
    Assumption.NOT_TUNED: "no argument of the fit was chosen using their labels",
    Assumption.SAMPLED_BY_CLASS: (
        "whether a row was kept depended on its class alone, at the rates given by sample_weight"
    ),
    Assumption.BINS_BEFORE: "the bins were chosen before these rows were seen",
    Assumption.DIRECTIONS_BEFORE: "the directions were chosen before these rows were seen",
    Assumption.OTHER_ROWS: "the tally that chose the bins is independent of these rows",
    Assumption.ONE_DRAW: "the random split was drawn once, and neither it nor its seed was chosen by its result",
    Assumption.FIRST_LOOK: (
        "no guarantee was requested before on fewer of these rows or at another confidence (other values of epsilon "
        "may have been tried)"
    ),
    Assumption.LATER_LOOK: "there are {times:,} times as many rows as when a guarantee was first requested",
}


OWN_ROWS = "Gupta 2023, Theorem 4.1, given the edges"
FIXED_BINS = "Gupta 2023, section 3.4.1, bins fixed beforehand"
HONEST_TREE = "Gupta 2023, section 3.4.1"
PATH_LISTS = "Gupta 2023, Theorem 4.1 and Algorithm 5.10, given the cuts"
SETS_OF_CLASSES = "Gupta 2023, Appendix 5.G, with an interval for every set of classes"
KNOWN_WEIGHTS = "; weights as in section 3.4.4, with a sharper interval"
"""What follows the reference of bins whose weights are a known ratio."""

MAY_BE_ADDED = frozenset({Assumption.SAMPLED_BY_CLASS, Assumption.DIRECTIONS_BEFORE})
"""Assumptions that a certificate may state where they cannot be derived from it: they only weaken it."""
