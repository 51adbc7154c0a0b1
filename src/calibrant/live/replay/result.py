"""Result of a back-test: a table by policy, what differs from the reference, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from calibrant.live.replay.policies import Policy
from calibrant.live.replay.scoring import Difference
from calibrant.live.replay.sentence import Status, policies_compared
from calibrant.maps import Map
from calibrant.messages import Drawn, Note, Shown, Voice, note, plural
from calibrant.metrics.estimates import plain
from calibrant.numerics import Floats
from calibrant.tallies.ends import end_text

NUMBERS = ("log_loss", "brier", "calibration_error", "sharpness")

intervals_assume = note(
    "backtest-intervals",
    "intervals: 95 %, each on its own, paired; they take {blocks:,} blocks of {days} as independent "
    "(dependence over longer times is ignored)",
)
too_few_days = note("backtest-too-few-days", "no intervals: there are fewer than 5 days with labels to judge")
not_refitted = note(
    "backtest-not-refitted", "{policy}: labels were too few for a fit, so the scores were served as they are"
)


@note("loss-clipped")
def loss_clipped(voice: Voice, low: float, high: float) -> str:
    """Where the forecasts of all policies are clipped, since the log loss of one is infinite."""
    ends = f"[{end_text(low)}, {end_text(high)}]"
    return f"in the log loss, the forecasts of all policies are clipped to {ends}, since it is infinite otherwise"


@dataclass(frozen=True, eq=False)
class PolicyResult(Shown):
    """What one policy would have served, and how good it was.

    Attributes
    ----------
    policy
        The policy.
    log_loss, brier
        Mean over the rows that count. If the log loss of a policy is infinite, the forecasts of all policies are
        clipped in it, and a note says where.
    calibration_error
        :func:`calibrant.metrics.debiased_ece` of all rows together: errors of different signs at different times
        cancel in it; ``predicted`` has the sums by day.
    sharpness
        :func:`calibrant.metrics.sharpness`.
    refits
        Number of maps that were fitted; None for a policy without maps, which learns by row or by day.
    largest_step
        Largest change of the log-odds at an observed score quantile from one map to the next (after the first), or from
        day to day; NaN if there was none.
    log_loss_change, brier_change
        Difference from the reference, per row: positive if this policy is worse.
    status
        Compared with the reference in log loss: ``"better"`` if the interval is below 0, ``"as good"`` if it is below
        the margin, ``"worse"`` if it is above 0, else ``"cannot tell"``.
    served
        Probability of each row, in the order of the input; None for a store.
    refit_days
        First day of each map.
    maps
        The maps.
    predicted, losses
        Sums of probabilities and of log losses by day.

    Notes
    -----
    Guarantee: none in finite samples. Reference: Gneiting and Raftery (2007), Strictly proper scoring rules.

    Examples
    --------
    >>> from calibrant import live
    >>> found = live.backtest([0.2, 0.7, 0.6], [0, 1, 1], [0, 1, 2], policies=["never"])["never"]
    >>> found.refits, found.served.tolist()
    (0, [0.2, 0.7, 0.6])
    """

    policy: Policy
    log_loss: float
    brier: float
    calibration_error: float
    sharpness: float
    refits: int | None
    largest_step: float
    log_loss_change: Difference
    brier_change: Difference
    status: Status
    served: Floats | None
    refit_days: tuple[str, ...]
    maps: tuple[Map, ...]
    predicted: Floats
    losses: Floats

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy.name

    def record(self) -> dict[str, Any]:
        """The numbers of its line in the table; unknown ones are NaN."""
        change = self.log_loss_change
        return {
            "policy": self.name,
            **{name: getattr(self, name) for name in NUMBERS},
            "refits": math.nan if self.refits is None else self.refits,
            "largest_step": self.largest_step,
            "log_loss_change": change.value,
            "low": change.low,
            "high": change.high,
            "status": self.status,
        }

    def cells(self) -> list[str]:
        """Its line as text."""
        refits = f"each {self.policy.learns_each}" if self.refits is None else f"{self.refits:,}"
        step = "-" if math.isnan(self.largest_step) else f"{self.largest_step:.2f}"
        change = self.log_loss_change
        ends = "" if math.isnan(change.low) else f" ({change.low:+.4f} to {change.high:+.4f})"
        words = [f"{getattr(self, name):.4f}" for name in NUMBERS]
        return [self.name, *words, refits, step, f"{change.value:+.4f}{ends}", self.status]

    def __str__(self) -> str:
        """Name and losses."""
        return f"{self.name}: log loss {self.log_loss:.4f}, Brier score {self.brier:.4f}, status: {self.status}"


HEAD = ("policy", "log loss", "Brier", "cal. error", "sharpness", "refits", "largest step", "change in log loss", "")
"""Columns of the table."""


@dataclass(frozen=True, eq=False)
class Backtest(Drawn, Shown, Mapping[str, PolicyResult]):
    """Policies by name, as :func:`calibrant.live.backtest` replayed them; prints as a table and one sentence.

    Attributes
    ----------
    results
        One :class:`PolicyResult` for each policy, in the order in which they were passed.
    reference
        Name of the policy that the others are compared with.
    margin
        Largest loss, as a share of the reference's log loss, at which a policy is as good as the reference.
    rows, events
        Rows that count, and events among them.
    days
        First day, last day.
    day_names
        Every day.
    n, observed
        Rows that count and events by day.
    input_notes
        What to know about the input.

    Notes
    -----
    Guarantee: none in finite samples; see :func:`calibrant.live.backtest`. Reference: as there.

    Examples
    --------
    >>> from calibrant import live
    >>> found = live.backtest([0.2, 0.7, 0.6], [0, 1, 1], [0, 1, 2], policies=["never", "online-platt"])
    >>> list(found), found.sentence.code
    (['never', 'online Platt'], 'policies-compared')
    """

    results: tuple[PolicyResult, ...]
    reference: str
    margin: float
    rows: int
    events: int
    day_names: tuple[str, ...]
    n: Floats
    observed: Floats
    input_notes: tuple[Note, ...] = ()

    def __getitem__(self, name: str) -> PolicyResult:
        for each in self.results:
            if each.name == name:
                return each
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter([each.name for each in self.results])

    def __len__(self) -> int:
        return len(self.results)

    @property
    def days(self) -> tuple[str, str]:
        """First and last day."""
        return self.day_names[0], self.day_names[-1]

    @property
    def sentence(self) -> Note:
        """What was found, as a note with a code and numbers; its text is one sentence."""
        base = self[self.reference]
        others = [
            {
                "name": each.name,
                "status": each.status,
                "refits": each.refits,
                "fewer_refits": _fewer(each.refits, base.refits),
                "change": each.log_loss_change.value,
                "low": each.log_loss_change.low,
                "high": each.log_loss_change.high,
            }
            for each in self.results
            if each.name != self.reference
        ]
        return policies_compared(self.reference, others)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What to know about the intervals and the input."""
        base = self[self.reference].log_loss_change
        about = (
            too_few_days() if math.isnan(base.low) else intervals_assume(base.blocks, plural(base.block_days, "day"))
        )
        idle = tuple(not_refitted(each.name) for each in self.results if each.refits == 0 and each.name != "never")
        return (*(() if len(self) == 1 else (about,)), *idle, *self.input_notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that are not known are None."""
        return {
            "rows": self.rows,
            "events": self.events,
            "first_day": self.days[0],
            "last_day": self.days[1],
            "reference": self.reference,
            "margin": self.margin,
            "policies": [
                {key: plain(value) for key, value in each.record().items()} | {"refit_days": list(each.refit_days)}
                for each in self.results
            ],
            "sentence": str(self.sentence),
            "notes": [str(each) for each in self.notes],
        }

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """The table as a data frame, one row per policy.

        Parameters
        ----------
        backend
            Library of the frame: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
        """
        import narwhals.stable.v2 as nw  # imported here because it is slow to load

        records = [each.record() for each in self.results]
        columns = {name: [record[name] for record in records] for name in records[0]}
        return nw.from_dict(columns, backend=backend).to_native()

    @property
    def headline(self) -> str:
        """The size of the history."""
        first, last = self.days
        return (
            f"Back-test of {plural(self.rows, 'row')} with {plural(self.events, 'event')}, "
            f"{plural(len(self.day_names), 'day')} from {first} to {last}."
        )

    def __str__(self) -> str:
        """The table, the sentence and the notes."""
        lines = [HEAD, *(each.cells() for each in self.results)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(HEAD))]
        shown = [
            "  ".join(
                cell.ljust(w) if place in (0, 8) else cell.rjust(w)
                for place, (cell, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        text = str(self.sentence)
        return "\n".join(
            [
                self.headline,
                *(f"  {line}" for line in shown),
                text[0].upper() + text[1:] + ".",
                *(f"Note: {each}." for each in self.notes),
            ]
        )

    def _repr_html_(self) -> str:
        """For notebooks: the table."""
        from calibrant.notebook import table_block  # not needed without a notebook

        text = str(self.sentence)
        notes = [text[0].upper() + text[1:] + ".", *(f"Note: {each}." for each in self.notes)]
        rows = [each.cells() for each in self.results]
        return table_block(HEAD, rows, title=self.headline, notes=notes, left=(0, len(HEAD) - 1))


def _fewer(refits: int | None, base: int | None) -> bool:
    """Whether a policy fits maps, and fewer than the reference."""
    return refits is not None and (base is None or refits < base)
