"""From evidence about several classes to one certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.guarantees.certificates import Bound, Certificate, Mode, Refusal
from calibrant.guarantees.class_certificates import THEOREMS, ClassCertificate, empty_promise, listed, part_name
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.provenance import ClassProvenance, Provenance
from calibrant.notions import Notion

AT_EVERY_LOOK = (
    "an always-valid promise needs classes and bins that stay the same at every look, and here the rows decide which "
    "classes have bins of their own: ask for another bound"
)


@dataclass(frozen=True)
class Evidence:
    """One binary problem and the bins that speak for it.

    ``rank`` is the rank of the class that it is about, 0 where rank plays no part; ``column`` is that class, -1 where
    rows of all classes are together.
    """

    rank: int
    column: int
    bins: Bins

    @property
    def claim(self) -> tuple[int, int]:
        """What its claim is known by: the rank, or the class where there is none."""
        return (self.rank, -1) if self.rank else (0, self.column)


def issue_classes(
    notion: Notion,
    classes: tuple[str, ...],
    evidence: Sequence[Evidence],
    provenance: ClassProvenance,
    left_out: tuple[str, ...],
    alpha: float,
    bound: Bound,
    mode: Mode,
) -> ClassCertificate | Refusal:
    """The certificate of binned evidence about several classes, or the reason why there is none.

    Every claim of the notion has the same share of alpha, and within a claim every bin: claims share rows, so that what
    one of them costs must not depend on the counts of another (docs/certificates/classes.md).
    """
    if bound == "always-valid":
        return Refusal(AT_EVERY_LOOK)
    refused = next((each for each in evidence if each.bins.refusal), None)
    if refused is not None:
        return Refusal(f"{part_name(refused.rank, refused.column, classes)}: {refused.bins.refusal}")
    claims = len(notion.claims(len(classes)))
    bins = [int((each.bins.n > 0).sum()) for each in evidence]
    by_claim: Counter[tuple[int, int]] = Counter()
    for each, size in zip(evidence, bins, strict=True):
        by_claim[each.claim] += size
    kept, parts, silent = [], [], []
    for each, size in zip(evidence, bins, strict=True):
        share = size / by_claim[each.claim] if size and mode == "simultaneous" else 1.0
        part = issue(each.bins, _binary(provenance, each.bins), alpha * share / claims, bound, mode)
        if isinstance(part, Certificate):
            kept.append(each)
            parts.append(part)
        else:
            silent.append(part_name(each.rank, each.column, classes))
    if not evidence and left_out:
        return Refusal(f"{'; '.join(left_out)}: nothing is promised about classes that share a map, so use more rows")
    if not parts:
        return Refusal("no bin of any class holds a row besides those on the edges: use fewer bins or more rows")
    if silent:
        left_out = (*left_out, f"{listed(silent)}: no bin holds a row besides those on the edges")
    epsilon = max(part.epsilon for part in parts)
    refusal = empty_promise(epsilon, 1.0, "bin")
    if refusal is not None:
        return refusal
    sources = Counter(part.source for part in parts).most_common(1)[0][0].removeprefix("Gupta 2023, ")
    return ClassCertificate(
        epsilon=epsilon,
        alpha=alpha,
        mode=mode,
        bound=bound,
        notion=notion.name,
        kind=provenance.kind,
        classes=classes,
        ranks=np.array([each.rank for each in kept], dtype=np.int64),
        columns=np.array([each.column for each in kept], dtype=np.int64),
        parts=tuple(parts),
        n=int(provenance.n),
        left_out=left_out,
        assumptions=tuple(dict.fromkeys(told for part in parts for told in part.assumptions)),
        source=f"Gupta 2023, {THEOREMS[notion.name]}; bins by {sources}",
        frame_columns=provenance.columns,
    )


def _binary(provenance: ClassProvenance, bins: Bins) -> Provenance:
    """The rows of one binary problem, as far as a certificate asks."""
    return Provenance(
        provenance.method, "probability", float(bins.n.sum()), float(bins.events.sum()), provenance.weights,
        provenance.sampling, "exact", provenance.fingerprint, provenance.library,
    )  # fmt: skip
