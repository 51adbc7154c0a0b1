"""Why no certificate is issued: a code for programs, and the reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from calibrant.guarantees.provenance import MulticlassProvenance, Provenance, Sampling
from calibrant.messages import PYTHON, Advice, Argument, Phrase, Setting, Shown, Voice
from calibrant.visible import visible


class NoCertificateCode(StrEnum):
    """Reason for not issuing a certificate."""

    BY_SEGMENT = "by-segment"
    """There is a certificate for each segment, and all hold simultaneously; so there is none for one map of all."""
    COMMON_ROWS = "common-rows"
    """The same rows chose the bins and estimate their rates."""
    EMPTY = "empty"
    """No bin or region has rows inside."""
    ESTIMATED_WEIGHTS = "estimated-weights"
    """The weights are an estimated density ratio."""
    FEW_EFFECTIVE_ROWS = "few-effective-rows"
    """A few rows carry most of the weight."""
    FIXED_DRAW = "fixed-draw"
    """A seed fixes a random split that has few possible outcomes."""
    FRACTIONAL_LABELS = "fractional-labels"
    """Labels are fractions, not outcomes."""
    GROUPED = "grouped"
    IMPORTANCE_WEIGHTS = "importance-weights"
    INJECTIVE = "injective"
    """The map is injective, such as a curve: no distribution-free guarantee is possible."""
    MOVED = "moved"
    """The map was adjusted to another base rate after the fit."""
    MOVING_BINS = "moving-bins"
    """The bins would change with more rows, so an always-valid interval is not available."""
    NOT_FITTED = "not-fitted"
    """The calibrator is not fitted."""
    NO_THEOREM = "no-theorem"
    """No known theorem covers the method, or its settings."""
    OUT_OF_FOLD = "out-of-fold"
    POOLED = "pooled"
    """All classes with rows share a map."""
    SAMPLED_BY_CLASS = "sampled-by-class"
    SELECTED = "selected"
    SEVERAL_MAPS = "several-maps"
    """There is one map for each segment or class; a certificate is about one of them."""
    TIME_ORDERED = "time-ordered"
    TOO_MANY_CLASSES = "too-many-classes"
    VACUOUS = "vacuous"
    """The bound is vacuous: it always holds."""


@dataclass(frozen=True, eq=False)
class NoCertificate(Shown):
    """Why no certificate is issued; false in a condition, a sentence when printed.

    Attributes
    ----------
    code
        The reason as a value that programs can compare.
    reason
        The reason as a sentence, without its period.

    Examples
    --------
    >>> print(NoCertificate(NoCertificateCode.GROUPED, "the rows are grouped"))
    No certificate: the rows are grouped.
    """

    code: NoCertificateCode
    reason: str | Phrase

    def __bool__(self) -> bool:
        """False: there is no certificate."""
        return False

    def __call__(
        self, alpha: float | None = None, *, interval: str | None = None, coverage: str | None = None
    ) -> NoCertificate:
        """The refusal itself, so that ``certificate()`` works the same on a calibrator and on a loaded calibration."""
        return self

    def __eq__(self, other: object) -> bool:
        """Whether code and text are the same; a stored refusal has its reason as plain text."""
        return isinstance(other, NoCertificate) and (self.code, str(self)) == (other.code, str(other))

    def __hash__(self) -> int:
        return hash((self.code, str(self)))

    def say(self, voice: Voice) -> str:
        """One sentence, in the terms of Python, the command line or a report."""
        head = "Certificates by segment" if self.code == NoCertificateCode.BY_SEGMENT else "No certificate"
        return visible(f"{head}: {voice.say(self.reason)}.", None)

    def to_dict(self) -> dict[str, str]:
        """Plain data, ready for JSON: the code, and the reason in words.

        Examples
        --------
        >>> NoCertificate(NoCertificateCode.GROUPED, "the rows are grouped").to_dict()
        {'code': 'grouped', 'reason': 'the rows are grouped'}
        """
        return {"code": str(self.code), "reason": PYTHON.say(self.reason)}

    def __str__(self) -> str:
        return self.say(PYTHON)

    def _repr_html_(self) -> str:
        """For notebooks: the printed text, with an amber bar."""
        from calibrant.notebook import AMBER, text_block

        return text_block(str(self), AMBER)


IMPOSSIBLE = NoCertificate(
    NoCertificateCode.INJECTIVE,
    Phrase(
        "no distribution-free guarantee is possible for an injective map, whatever the number of rows "
        "(Gupta 2023, Theorem 3.3): {use}",
        use=Advice.USE_BINNING,
    ),
)


IMPOSSIBLE_OF_CLASSES = NoCertificate(
    NoCertificateCode.INJECTIVE,
    "no distribution-free guarantee is possible for an injective map, whatever the number of rows "
    "(Gupta 2023, Theorem 3.3): use TopLabelHistogramBinning or ClasswiseHistogramBinning if you need a certificate",
)


def gate(provenance: Provenance | MulticlassProvenance) -> NoCertificate | None:
    """Why rows with this provenance cannot support a certificate, or None if they can."""
    if provenance.weight_type == "importance":
        return _weighted(provenance)
    if provenance.weight_type == "fractional-labels":
        return NoCertificate(
            NoCertificateCode.FRACTIONAL_LABELS,
            "labels are fractions, and the theorems are for outcomes that are 0 or 1: fit to such outcomes",
        )
    if provenance.weight_type == "estimated-ratio":
        return NoCertificate(
            NoCertificateCode.ESTIMATED_WEIGHTS,
            "the weights are an estimated density ratio, so the map is calibrated only in the limit of many rows "
            "(Gupta 2023, Proposition 3.2); a certificate needs a ratio that is known by design, such as that of a "
            "sampling plan",
        )
    if provenance.weight_type == "by-class" and isinstance(provenance, MulticlassProvenance):
        return NoCertificate(
            NoCertificateCode.SAMPLED_BY_CLASS,
            "the rows were sampled by class, which can be corrected for two classes only",
        )
    if provenance.weight_type == "known-ratio" and isinstance(provenance, MulticlassProvenance):
        return NoCertificate(
            NoCertificateCode.IMPORTANCE_WEIGHTS,
            "the weights are a known density ratio, for which there are certificates of one score alone "
            "(HistogramBinning)",
        )
    return _REFUSALS.get(provenance.sampling)


def _weighted(provenance: Provenance | MulticlassProvenance) -> NoCertificate:
    """What to do about importance weights: two kinds of them have certificates of one score."""
    said = (
        "the rows have importance weights, and the theorems are for unweighted rows; if the weights are counts of "
        "repeated rows, fit with {counts}"
    )
    if not isinstance(provenance, MulticlassProvenance):
        said += (
            "; if rows were sampled by class alone, fit HistogramBinning with {by_class}; if the weights are a known "
            "density ratio, fit HistogramBinning in Python with shift.known_weights"
        )
    settings = {"counts": Setting("weight_type", "frequency"), "by_class": Setting("weight_type", "by-class")}
    return NoCertificate(NoCertificateCode.IMPORTANCE_WEIGHTS, Phrase(said, **settings))


_DECLARED: dict[Sampling, str | Phrase] = {
    "grouped": Phrase(
        "rows of the same group ({groups}) may depend on each other, and the theorems need independent rows",
        groups=Argument("groups"),
    ),
    "time-ordered": Phrase(
        "rows ordered in time ({time}) may depend on each other, and the theorems need independent rows",
        time=Argument("time"),
    ),
    "out-of-fold": "the scores are out-of-fold: they come from several models, none of which is the deployed one",
    "selected": "the map was selected among several candidates on the same rows, which the theorems do not cover",
}
_REFUSALS: dict[Sampling, NoCertificate] = {
    sampling: NoCertificate(NoCertificateCode(sampling), reason) for sampling, reason in _DECLARED.items()
}
