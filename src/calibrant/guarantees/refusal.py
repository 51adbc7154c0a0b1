"""Why no certificate is issued: a code, which programs read, and the reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from calibrant.guarantees.provenance import ClassProvenance, Provenance, Sampling
from calibrant.messages import PYTHON, Advice, Argument, Phrase, Setting, Voice


class RefusalCode(StrEnum):
    """What stands in the way of a certificate."""

    COMMON_ROWS = "common-rows"
    """Rows that fill the bins also chose them."""
    EMPTY = "empty"
    """No bin or region holds a row that can speak for it."""
    FIXED_DRAW = "fixed-draw"
    """A seed fixes a draw that has few outcomes."""
    GROUPED = "grouped"
    IMPORTANCE_WEIGHTS = "importance-weights"
    INJECTIVE = "injective"
    """The map is injective, or a curve: nothing distribution-free can be said about it."""
    MOVED = "moved"
    """The map was moved to another base rate after the fit."""
    MOVING_BINS = "moving-bins"
    """Bins that would be others after more rows carry no always-valid promise."""
    NOT_FITTED = "not-fitted"
    """No rows were fitted."""
    NO_THEOREM = "no-theorem"
    """No theorem here covers the method, or its settings."""
    OUT_OF_FOLD = "out-of-fold"
    POOLED = "pooled"
    """Only classes that share a map have rows."""
    SAMPLED_BY_CLASS = "sampled-by-class"
    SELECTED = "selected"
    SEVERAL_MAPS = "several-maps"
    """There is one map for each segment or class, and a certificate is about one of them."""
    TIME_ORDERED = "time-ordered"
    TOO_MANY_CLASSES = "too-many-classes"
    VACUOUS = "vacuous"
    """What could be promised is always so."""


@dataclass(frozen=True, eq=False)
class Refusal:
    """Why no certificate is issued; false in a condition, a sentence when printed.

    Examples
    --------
    >>> print(Refusal(RefusalCode.GROUPED, "the rows are grouped"))
    No certificate: the rows are grouped.
    """

    code: RefusalCode
    reason: str | Phrase

    def __bool__(self) -> bool:
        """A refusal is no certificate."""
        return False

    def __call__(self, alpha: float | None = None, *, bound: str | None = None, mode: str | None = None) -> Refusal:
        """The refusal itself, so that ``certificate()`` reads alike on a calibrator and on what was loaded."""
        return self

    def __eq__(self, other: object) -> bool:
        """Whether code and words are the same; what was stored has its words as text."""
        return isinstance(other, Refusal) and (self.code, str(self)) == (other.code, str(other))

    def __hash__(self) -> int:
        return hash((self.code, str(self)))

    def say(self, voice: Voice) -> str:
        """One sentence, in the words of an edge."""
        return f"No certificate: {voice.say(self.reason)}."

    def __str__(self) -> str:
        return self.say(PYTHON)


IMPOSSIBLE = Refusal(
    RefusalCode.INJECTIVE,
    Phrase(
        "no distribution-free guarantee is possible for an injective map, however many rows it is fitted on "
        "(Gupta 2023, Theorem 3.3): {use}",
        use=Advice.USE_BINNING,
    ),
)


IMPOSSIBLE_OF_CLASSES = Refusal(
    RefusalCode.INJECTIVE,
    "no distribution-free guarantee is possible for an injective map, however many rows it is fitted on "
    "(Gupta 2023, Theorem 3.3): use TopLabelHistogramBinning or ClassWiseHistogramBinning if you need a certificate",
)


def gate(provenance: Provenance | ClassProvenance) -> Refusal | None:
    """The reason, if any, why rows like these can carry no certificate."""
    if provenance.weights == "importance":
        return Refusal(
            RefusalCode.IMPORTANCE_WEIGHTS,
            Phrase(
                "the rows carry importance weights, and the theorems count rows; if the weights are repetition counts, "
                "fit with {counts}; if rows were sampled by class alone, fit with {by_class}",
                counts=Setting("weights", "counts"),
                by_class=Setting("weights", "by-class"),
            ),
        )
    if provenance.weights == "by-class" and isinstance(provenance, ClassProvenance):
        return Refusal(
            RefusalCode.SAMPLED_BY_CLASS,
            "rows of several classes were sampled by class, which is undone for two classes only",
        )
    return _REFUSALS.get(provenance.sampling)


_DECLARED: dict[Sampling, str | Phrase] = {
    "grouped": Phrase(
        "{groups} says that rows depend on each other, and the theorems need independent rows",
        groups=Argument("groups"),
    ),
    "time-ordered": Phrase(
        "{time} says that rows are ordered in time, and the theorems need independent rows", time=Argument("time")
    ),
    "out-of-fold": "the scores are out-of-fold: they come from several models, none of which is the one in use",
    "selected": "the map was chosen among several on the same rows, which the theorems do not cover",
}
_REFUSALS: dict[Sampling, Refusal] = {
    sampling: Refusal(RefusalCode(sampling), reason) for sampling, reason in _DECLARED.items()
}
