"""Coverage: what is guaranteed about prediction sets, by which theorem, and under which assumption."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import rounded_down, without
from calibrant.messages import Shown

Assumption = Literal["exchangeable", "independent", "known-ratio"]

ASSUMED: dict[str, str] = {
    "exchangeable": "old and new rows are exchangeable, such as independent draws from one population",
    "independent": "old and new rows are independent draws from one population",
    "known-ratio": "rows are independent draws, and the weights are the exact density ratio of new and old rows",
}


@dataclass(frozen=True)
class Coverage(Shown):
    """The guaranteed coverage of prediction sets: a level, its theorem and what it assumes.

    Attributes
    ----------
    level
        A new outcome is in its set with at least this probability, over old and new rows.
    alpha
        Miscoverage level that was asked for.
    theorem
        Where it is proven.
    assumption
        ``"exchangeable"`` or ``"independent"`` rows, or ``"known-ratio"`` of two populations.
    upper
        A new outcome is in its set with at most this probability if scores have no ties; None if nothing is known.
    target
        What the probability is about: new rows of all kinds (``""``), or, for example, of each group.

    Notes
    -----
    Guarantee: marginal. The probability is over the rows of the fit and the new row together: it is not a statement
    about one kind of row, nor about one fitted model. docs/certificates/conformal.md has the proofs.
    Reference: Gupta (2023), chapter 9.

    Examples
    --------
    >>> print(Coverage(0.9, 0.1, "Gupta (2023), Proposition 9.1"))
    A new outcome is in its set with probability at least 90 % (Gupta (2023), Proposition 9.1), if old and new rows
    are exchangeable, such as independent draws from one population.
    """

    level: float
    alpha: float
    theorem: str
    assumption: Assumption = "exchangeable"
    upper: float | None = None
    target: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    @property
    def percent(self) -> str:
        """The level in percent, rounded down."""
        for times in (1, 2):  # the decimal that alpha means, without the rounding of 1 - alpha
            if self.level == 1.0 - times * self.alpha:
                return rounded_down(without(self.alpha, times))
        return rounded_down(self.level)

    def __str__(self) -> str:
        about = f" {self.target}" if self.target else ""
        return (
            f"A new outcome is in its set with probability at least {self.percent}{about} ({self.theorem}), "
            f"if {ASSUMED[self.assumption]}."
        )


def or_none(certificate: Coverage) -> Coverage | NoCertificate:
    """The certificate, or the reason why there is none if its level is not above 0.

    Examples
    --------
    >>> bool(or_none(Coverage(-0.2, 0.6, "Gupta (2023), Theorem 9.1")))
    False
    """
    if certificate.level > 0.0:
        return certificate
    return NoCertificate(
        NoCertificateCode.VACUOUS,
        f"with alpha = {certificate.alpha:.4g} {certificate.theorem} guarantees nothing: pass a smaller alpha",
    )
