"""What a back-test found, as one note: which policies are as good as the reference, and at how many refits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from calibrant.messages import Voice, listed, note, plural

Status = Literal["better", "as good", "worse", "cannot tell"]
"""How a policy compares with the reference; see :class:`~calibrant.live.PolicyResult`."""


@note("policies-compared")
def policies_compared(voice: Voice, reference: str, others: Sequence[dict[str, Any]]) -> str:
    """Each policy with its status, refits, and difference in log loss, as one sentence."""
    groups = {status: [each for each in others if each["status"] == status] for status in STATUS_TEXT}
    clauses = [
        words for status, write in STATUS_TEXT.items() if groups[status] for words in write(reference, groups[status])
    ]
    if not clauses:
        return f"only {reference} was replayed, so there is nothing to compare it with"
    return "; ".join(clauses)


def _better(reference: str, those: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{each['name']} is better than {reference} by {_amount(each, -1)}" for each in those]


def _as_good(reference: str, those: Sequence[dict[str, Any]]) -> list[str]:
    fewer = [each for each in those if each["fewer_refits"]]
    rest = [each["name"] for each in those if not each["fewer_refits"]]
    clauses = []
    if rest:
        clauses.append(f"{listed(rest)} {'is' if len(rest) == 1 else 'are'} as good as {reference}")
    return clauses + [f"{each['name']} {_refits(each['refits'])} and is as good as {reference}" for each in fewer]


def _worse(reference: str, those: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{each['name']} loses {_amount(each, 1)} to {reference}" for each in those]


def _cannot_tell(reference: str, those: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"this history does not show whether {listed([each['name'] for each in those], 'or')} differs from {reference}"
    ]


def _refits(count: int) -> str:
    times = {0: "does not refit", 1: "refits once", 2: "refits twice"}
    return times.get(count, f"refits {plural(count, 'time')}")


def _amount(each: dict[str, Any], sign: int) -> str:
    """The difference in log loss and its interval, as positive numbers."""
    low, high = sorted((sign * each["low"], sign * each["high"]))
    return f"{sign * each['change']:.2g} nats per row ({low:.2g} to {high:.2g})"


STATUS_TEXT = {"as good": _as_good, "better": _better, "worse": _worse, "cannot tell": _cannot_tell}
"""How the policies of each status are worded, in the order of the sentence."""
