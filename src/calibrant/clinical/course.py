"""Calibration over time: predicted risks by several horizons, each validated with the follow-up up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.clinical.horizon import Link, Method, SurvivalValidation
from calibrant.clinical.survival import validate_survival
from calibrant.messages import InputError, Note
from calibrant.metrics.estimates import Estimate, Result
from calibrant.notebook import table_block
from calibrant.reading import from_columns


@dataclass(frozen=True, eq=False)
class SurvivalCourse(Result):
    """Result of :func:`validate_horizons`: calibration and discrimination at each horizon.

    Attributes
    ----------
    horizons
        One :class:`SurvivalValidation` for each horizon, in order of time.
    """

    horizons: tuple[SurvivalValidation, ...]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on the last horizon, before which most rows are censored."""
        return self.horizons[-1].notes

    def __str__(self) -> str:
        layout = "{:>8}{:>8}{:>10}{:>11}{:>26}{:>26}{:>26}{:>9}"
        lines = [layout.format(*row) for row in [_HEAD, *self._rows()]]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        return table_block(_HEAD, self._rows(), notes=[f"  {note}" for note in self.notes])

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{each.horizon:g}",
                f"{each.events:,}",
                f"{each.lost:,}",
                f"{each.expected:.4f}",
                *(_shown(value) for value in (each.observed_over_expected, each.slope, each.auc)),
                f"{each.brier.value:.4f}",
            )
            for each in self.horizons
        ]


_HEAD = ("horizon", "events", "censored", "predicted", "O/E", "slope", "AUC", "Brier")


def _shown(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def validate_horizons(
    scores: Any,
    time: Any = None,
    event: Any = None,
    *,
    horizons: Sequence[float],
    score: Sequence[str] | None = None,
    censoring_by: Any = None,
    groups: Any = None,
    link: Link = "logit",
    method: Method = "pseudo",
) -> SurvivalCourse:
    r"""Validate predicted risks at several horizons, such as one, three and five years.

    Parameters
    ----------
    scores : array-like of shape (n, k)
        Predicted risk by each horizon, one column for each, such as :math:`1 - \hat S(t_k \mid x)`.
    time, event, censoring_by, groups, link, method
        As in :func:`validate_survival`.
    horizons : sequence of float
        The k horizons, in the order of the columns, increasing.
    score : sequence of str, optional
        Names of the columns of risks, one for each horizon, if ``scores`` is a frame, as in :func:`validate_survival`.

    Returns
    -------
    SurvivalCourse
        One line for each horizon; prints as a table.

    Notes
    -----
    The lines share patients, so they are not independent, and their intervals hold each by itself, not jointly.
    Guarantee: no finite-sample guarantee; see :func:`validate_survival`.
    Reference: McLernon et al. (2023), Assessing performance and clinical usefulness in prediction models with survival
    outcomes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rate = rng.uniform(0.01, 0.2, 800)
    >>> death, end = rng.exponential(1 / rate), rng.uniform(0, 12, 800)
    >>> risks = 1 - np.exp(-np.outer(rate, [1, 3, 5]))
    >>> found = validate_horizons(risks, np.minimum(death, end), death <= end, horizons=[1, 3, 5])
    >>> [each.horizon for each in found.horizons]
    [1.0, 3.0, 5.0]
    """
    if score is not None:
        named = {"time": time, "event": event, "censoring_by": censoring_by, "groups": groups}
        if isinstance(score, str) or len(score) != len(horizons):
            problem = f"must name one column for each of the {len(horizons)} horizons, got {score!r}"
            raise InputError("score", problem, "pass a list of names in the order of the horizons")
        risks = {f"risk {place}": column for place, column in enumerate(score)}
        found = from_columns(scores, **named, **risks)
        time, event, censoring_by, groups = found[:4]
        scores = np.column_stack(found[4:])
    matrix = np.asarray(scores.to_numpy() if hasattr(scores, "to_numpy") else scores)
    times = [float(each) for each in horizons]
    if not times or sorted(set(times)) != times:
        raise InputError("horizons", f"must increase, got {list(horizons)!r}", "pass at least one, in order of time")
    if matrix.ndim != 2 or matrix.shape[1] != len(times):
        raise InputError(
            "scores", f"has shape {matrix.shape}", f"pass one column for each of the {len(times)} horizons"
        )
    options: dict[str, Any] = {"censoring_by": censoring_by, "groups": groups, "link": link, "method": method}
    return SurvivalCourse(
        tuple(
            validate_survival(matrix[:, place], time, event, horizon=horizon, **options)
            for place, horizon in enumerate(times)
        )
    )
