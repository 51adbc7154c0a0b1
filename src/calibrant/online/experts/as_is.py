"""The model's own score as a forecaster, to use as an expert."""

from __future__ import annotations

from typing import Any, ClassVar

from calibrant.maps import IdentityMap, Map
from calibrant.online.compiled import KernelForecaster
from calibrant.online.kernels import SEEN, Factory, Jit, Step
from calibrant.online.stored import register


def as_is_steps(jit: Jit) -> tuple[Step, Step]:
    """Steps that return the score and learn nothing."""

    @jit
    def predict(state: Any, x: float) -> float:
        return x

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        state[0][SEEN] += 1.0
        return x

    return predict, learn


@register("Identity")
class Identity(KernelForecaster):
    """The score unchanged, as an expert for calibeating a model.

    Notes
    -----
    Guarantee: none; ``Tracking(Identity())`` and ``Hedging(Identity())`` have those of their kind against the model
    itself.
    Cost: a counter.
    Reference: Gupta (2023), section 6.3; Kuleshov and Ermon 2017, whose method is ``Hedging(Identity())``.

    Examples
    --------
    >>> from calibrant.online import Tracking
    >>> model = Identity().learn_many([0.81, 0.83], [1, 0])
    >>> model.predict_one(0.85), model.n_rows, isinstance(Tracking(model).expert, Identity)
    (0.85, 2, True)
    """

    bounded_outcomes = True

    _factory: ClassVar[Factory] = as_is_steps

    def __init__(self) -> None:
        super().__init__()  # without an expert

    def _begin(self) -> list[float]:
        return [0.0]

    def _freeze(self) -> Map:
        """The identity."""
        return IdentityMap()
