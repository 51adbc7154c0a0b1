"""Base class of online forecasters: one row or many, forecast before learning, and a frozen map."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import is_whole
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.guards import RACES, learning, reading
from calibrant.online.inputs import many_features, many_labels, many_scores, one_label, one_score
from calibrant.online.kernels import Factory, object_steps
from calibrant.online.limits import MAX_ROWS
from calibrant.online.states import parsed
from calibrant.online.stored import Stored, from_parameters

GUARDED = ("predict_one", "learn_one", "predict_many", "learn_many", "forecast_many", "freeze")
"""Methods that enter the guard and call the method of the same name with an underscore, which subclasses define."""

BY_ROWS = (
    *("predict_one", "learn_one", "_step", "_predict_many", "_learn_many", "_forecast_many", "_replay"),
    *("_recipe", "_state"),
)
"""Methods of :class:`Forecaster` based on ``_predict_one`` and ``_learn_one`` that subclasses may replace."""

MANY = 50
"""Rows from which a call for all of them is faster than one for each."""


class Forecaster(Stored):
    """Base class of online forecasters, which learn from each outcome as it arrives.

    :meth:`predict_one` changes nothing, so calling it twice gives the same forecast. :meth:`learn_one` learns one
    outcome. :meth:`predict_many` and :meth:`learn_many` are equivalent to loops over these, bit for bit. :attr:`state`
    is small, plain JSON, from which :meth:`restore` continues without a difference. Memory does not grow with the
    stream.

    Notes
    -----
    Guarantee: that of each subclass; see :meth:`certificate`.
    Threads may share a forecaster: each call sees it before or after a call of another thread that learns, never in
    between. A forked process may read it; to learn there, resume or copy it first.
    A forecaster with experts owns copies of them, so that nothing else changes them. Its settings are declared by
    :func:`~calibrant.online.read_only` and set once, in ``__init__``.

    A subclass defines ``_predict_one``, ``_learn_one`` (which counts rows in ``_seen``), ``_numbers`` (what it learned,
    the number of rows first) and ``_resume``, and extends ``_check`` with what its numbers must satisfy. It defines
    ``_parameters`` if not all of its settings are keyword arguments, and ``_freeze``, ``_predict_many``,
    ``_learn_many`` and ``_forecast_many`` if it has better ones. :class:`KernelForecaster` does most of this for
    kernels. On its experts it calls methods whose names begin with an underscore, since they are inside its guard.
    :func:`~calibrant.online.register` sets the name stored in its states.
    """

    #: Forecasters that it uses as experts, in the order of its positional arguments.
    experts: tuple[Forecaster, ...] = ()
    #: Whether outcomes may be any number in [0, 1] rather than 0 or 1.
    bounded_outcomes: bool = False
    #: Whether it needs features besides the score.
    takes_features: bool = False
    #: Whether it passes features on to its experts.
    passes_features: ClassVar[bool] = False
    #: Whether its scores are rows of class probabilities.
    takes_rows: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reject methods that would bypass the guard, and row steps that inherited methods would not call."""
        super().__init_subclass__(**kwargs)
        for name in GUARDED:
            given = getattr(Forecaster, name)
            if cls.__dict__.get(name, given) is not given and f"_{name}" not in cls.__dict__:
                raise InputError(cls.__name__, f"defines {name}", f"define _{name} instead, which {name} calls")
        steps = [name for name in ("_predict_one", "_learn_one") if name in cls.__dict__]
        faster = [name for name in BY_ROWS if getattr(cls, name) is not getattr(Forecaster, name)]
        if steps and not cls.__dict__.keys() >= set(faster):
            problem = f"defines {steps[0]}, which its inherited methods do not call"
            raise InputError(cls.__name__, problem, "put calibrant.online.RowByRow first among its bases")

    @property
    def expert(self) -> Forecaster:
        """The first expert."""
        if not self.experts:
            raise AttributeError(f"{type(self).__name__} has no expert")
        return self.experts[0]

    # ----------------------------------------------------------------------------------------------------- one row

    def predict_one(self, score: float, features: Any = None) -> float:
        """Probability of an event, given what was learned so far; does not change the forecaster.

        Parameters
        ----------
        score
            Probability in [0, 1]; for several classes, a row of probabilities.
        features
            Features of the row, for forecasters that use them.
        """
        watched = self._guard
        try:
            before = watched.free
            p = self._predict_one(score, features)
            if watched.free is before:
                return p
        except RACES:  # raised again below unless another thread was learning
            pass
        return self._predict_alone(score, features)

    @reading
    def _predict_alone(self, score: Any, features: Any) -> float:
        """The same, inside the guard."""
        return self._predict_one(score, features)

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome.

        Parameters
        ----------
        score
            Probability in [0, 1]; for several classes, a row of probabilities.
        label
            The outcome: 0 or 1, any number in [0, 1] if ``bounded_outcomes`` is true, or the class.
        features
            Features of the row, for forecasters that use them.

        Returns
        -------
        Forecaster
            The forecaster itself.
        """
        guard = self._guard
        if guard.wanted:
            guard.give_way()
        try:
            del guard.free
        except AttributeError:
            guard.wait()
        try:
            if guard.forked:
                guard.refuse_forked()
            self._learn_one(score, label, features)
        finally:
            guard.free = []
        return self

    def _predict_one(self, score: float, features: Any = None) -> float:
        """The forecast of one row that is not validated yet.

        Only this method may run while another thread learns; its result or error is then discarded.
        """
        raise NotImplementedError

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        """Learn one outcome that is not validated yet."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------- many rows

    @reading
    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Probabilities of many rows, all given what was learned so far.

        Parameters
        ----------
        scores
            Probabilities in [0, 1]; for several classes, a matrix.
        features
            One row of features for each score, for forecasters that use them.
        """
        return self._predict_many(scores, features)

    @learning
    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn outcomes in order; other threads wait until all are learned.

        Parameters
        ----------
        scores, labels
            One of each per row.
        features
            One row of features for each score, for forecasters that use them.

        Returns
        -------
        Forecaster
            The forecaster itself.
        """
        self._learn_many(scores, labels, features)
        return self

    @learning
    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its outcome, as a live run would have done.

        Parameters
        ----------
        scores, labels
            One of each per row.
        features
            One row of features for each score, for forecasters that use them.
        """
        return self._forecast_many(scores, labels, features)

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        xs = self._scores(scores)
        fs = self._all(features, len(xs), scores)
        return np.array([self._predict_one(x, f) for x, f in zip(xs.tolist(), fs, strict=True)], dtype=np.float64)

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        for x, y, f in self._rows(scores, labels, features):
            self._learn_one(x, y, f)

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        rows = self._rows(scores, labels, features)
        return np.array([self._step(x, y, f) for x, y, f in rows], dtype=np.float64)

    def _replay(self, scores: Floats, labels: Floats) -> Floats:
        """Learn rows that have a label and forecast the others, in order; forecasts of the former are NaN."""
        xs, unknown, out = self._scores(scores), np.isnan(labels), np.full(len(scores), np.nan)
        cuts = np.flatnonzero(np.diff(unknown)) + 1
        for a, b in pairwise([0, *cuts.tolist(), len(xs)]):
            if not unknown[a:b].any():
                for x, y in zip(xs[a:b].tolist(), labels[a:b].tolist(), strict=True):
                    self._learn_one(x, y)
            elif b - a < MANY:
                out[a:b] = [self._predict_one(x) for x in xs[a:b].tolist()]
            else:
                out[a:b] = self._predict_many(xs[a:b], None)
        return out

    def _step(self, score: float, label: float, features: Any = None) -> float:
        """Learn a validated row, and return its forecast."""
        told = self._predict_one(score, features)
        self._learn_one(score, label, features)
        return told

    def _rows(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Iterator[tuple[Any, Any, Any]]:
        xs = self._scores(scores)
        ys = self._labels(labels, scores)
        return zip(xs.tolist(), ys.tolist(), self._all(features, len(xs), scores), strict=True)

    # ------------------------------------------------------------------------------------------- copies and maps

    def redrawn(self) -> Self:
        """A copy that continues with new random draws, under new keys from the system, if it draws.

        After a crash the rows since the last saved state are repeated, and their draws have been seen. A guarantee that
        needs secret draws holds again for ``resume(text).redrawn()``.
        """
        found = copy.deepcopy(self)
        found._redraw(seeded=True)
        return found

    def compile(self) -> Self:
        """Compile the experts that can be compiled; a :class:`KernelForecaster` compiles itself."""
        compiled = [expert.compile() for expert in self.experts if expert._compiles]
        if not compiled:
            raise InputError(
                type(self).__name__,
                "runs in plain Python and has no expert that can be compiled",
                "leave compile() out",
            )
        return self

    @property
    def _never_refuses(self) -> bool:
        """Whether it learns every row whose score and label are valid."""
        return False

    @property
    def _compiles(self) -> bool:
        return any(expert._compiles for expert in self.experts)

    @reading
    def freeze(self) -> Map:
        """The current map, if there is one; ``calibrant.Calibration(map)`` saves and exports it.

        Returns
        -------
        Map
            A fixed map, which does not learn. A forecaster without a fixed map raises an InputError.
        """
        return self._freeze()

    def _freeze(self) -> Map:
        raise InputError(
            type(self).__name__,
            "has no fixed map, since its forecasts depend on more than the score",
            "ship its state, or the frozen map of an OnlinePlatt that learned the same rows",
        )

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        """The guarantee for its first ``n_rows`` forecasts since it was created, or the reason for none.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.

        Returns
        -------
        OnlineCertificate or NoCertificate
            Prints as a sentence.
        """
        return NoCertificate(NoCertificateCode.NO_THEOREM, f"no known theorem covers {type(self).__name__}")

    def certificates(self, n_rows: int | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees after ``n_rows`` rows (default: those learned so far) that are not vacuous."""
        found = self.certificate(n_rows)
        return () if isinstance(found, NoCertificate) else (found,)

    # ---------------------------------------------------------------------------------------------- for subclasses

    def _branch(self, place: int) -> None:
        """Give its draws, and those of its experts, a separate random stream, as copy number ``place``."""
        for expert in self.experts:
            expert._branch(place)

    def _redraw(self, *, seeded: bool) -> None:
        """Take new keys for its draws and those of its experts; with ``seeded`` also if ``random_state`` set them."""
        for expert in self.experts:
            expert._redraw(seeded=seeded)
        if seeded or getattr(self, "random_state", None) is None:
            self._new_key()

    def _new_key(self) -> None:
        """Take a new key from the system, if it draws; the state stores it."""

    def _own(self, *experts: Forecaster) -> None:
        """Use copies of these as experts, so that nothing else changes them."""
        for expert in experts:
            one_score_forecaster(expert, "expert", features=self.passes_features)
        self._stand_on(copy.deepcopy(expert) for expert in experts)
        for place, expert in enumerate(self.experts, start=1):
            expert._branch(place)

    def _score(self, score: Any) -> float:
        return score if score.__class__ is float and 0.0 <= score <= 1.0 else one_score(score)

    def _label(self, label: Any) -> float:
        plain = label.__class__ is float and (label == 1.0 or label == 0.0)
        return label if plain else one_label(label, self.bounded_outcomes)

    def _scores(self, scores: ArrayLike) -> Floats:
        return many_scores(scores)

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> Floats:
        return many_labels(labels, scores, self.bounded_outcomes)

    def _all(self, features: Any, n: int, scores: ArrayLike) -> Sequence[Any]:
        """Features of n rows, all validated, also by the experts that use them, before any row is learned.

        Columns of a frame are put in the order of the experts' feature names, if they have names.
        """
        taken = [expert._all(features, n, scores) for expert in self.experts if expert.takes_features]
        if not taken:
            return many_features(features, scores, n)
        numbers = [np.array(rows, dtype=np.float64) for rows in taken]
        if not all(np.array_equal(each, numbers[0], equal_nan=True) for each in numbers):
            raise InputError("features", "must be in the same order for all experts", "use the same names in each")
        return taken[0]

    def _check_rows(self, n_rows: int | None) -> int:
        """Validated number of rows of a guarantee: at least the rows learned."""
        learned = self.n_rows
        found = learned if n_rows is None else n_rows
        if not is_whole(found) or not 0 <= found <= MAX_ROWS:
            raise InputError("n_rows", f"must be an integer, not {n_rows!r}")
        if found < learned:
            raise InputError(
                "n_rows",
                f"counts all rows since the forecaster was created, so it must be at least {learned:,}, not {n_rows!r}",
                f"pass {learned + int(found)} for {int(found)} more rows, or use a new forecaster for new rows alone",
            )
        return int(found)

    # The steps of a kernel, for a forecaster that uses this one as its expert.

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        return (object_steps,)

    @property
    def _state(self) -> Any:
        return self

    def __repr__(self) -> str:
        """The constructor call."""
        given = [repr(expert) for expert in self.experts]
        given += [f"{name}={value!r}" for name, value in self._parameters().items()]
        return f"{type(self).__name__}({', '.join(given)})"


class RowByRow(Forecaster):
    """Mixin for subclasses that change ``_predict_one`` or ``_learn_one`` of a forecaster with faster stream methods.

    List it first among the bases. Whole streams, and forecasters that use it as an expert, then call its
    ``_predict_one`` and ``_learn_one`` row by row.

    Examples
    --------
    >>> from calibrant.online import Identity, RowByRow
    >>> class Contrary(RowByRow, Identity):
    ...     def _predict_one(self, score, features=None):
    ...         return 1.0 - super()._predict_one(score)
    >>> Contrary().predict_many([0.25, 1.0]).tolist()
    [0.75, 0.0]
    """

    predict_one = Forecaster.predict_one
    learn_one = Forecaster.learn_one
    _step = Forecaster._step
    _predict_many = Forecaster._predict_many
    _learn_many = Forecaster._learn_many
    _forecast_many = Forecaster._forecast_many
    _replay = Forecaster._replay
    _recipe = Forecaster._recipe
    _state = Forecaster._state


def one_score_forecaster(forecaster: Any, name: str = "forecaster", *, features: bool = False) -> Forecaster:
    """The forecaster, if it needs only a score, or also features if ``features`` is set.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> one_score_forecaster(OnlinePlatt)
    Traceback (most recent call last):
        ...
    calibrant.messages.InputError: forecaster must be an instance, not the class OnlinePlatt: pass OnlinePlatt()
    """
    if isinstance(forecaster, type):
        kind = forecaster.__name__
        raise InputError(name, f"must be an instance, not the class {kind}", f"pass {kind}()")
    if not isinstance(forecaster, Forecaster):
        raise InputError(name, f"must be a forecaster of calibrant.online, not {forecaster!r}")
    if forecaster.takes_rows:
        raise InputError(name, f"must take one score, but {type(forecaster).__name__} takes class probabilities")
    if forecaster.takes_features and not features:
        raise InputError(name, f"must need only a score, but {type(forecaster).__name__} needs features")
    return forecaster


def replayed(forecaster: Forecaster, scores: Floats, labels: Floats) -> Floats:
    """Forecasts of a copy of a forecaster that learns rows with a label and forecasts the others, in order.

    Parameters
    ----------
    forecaster
        A forecaster for one score; it is not changed.
    scores
        Probabilities in [0, 1].
    labels
        Outcomes; NaN for rows that are forecast.

    Returns
    -------
    array
        The forecasts; NaN for rows that are learned.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> replayed(OnlinePlatt(), np.array([0.3, 0.5, 0.3]), np.array([np.nan, 1.0, np.nan])).round(3).tolist()
    [0.3, nan, 0.311]
    """
    return copy.deepcopy(forecaster)._replay(scores, labels)


def own_copy(forecaster: Forecaster) -> Forecaster:
    """A copy with its own random draws: under a new key, unless ``random_state`` sets it.

    Examples
    --------
    >>> from calibrant.online import Foster99
    >>> secret, seeded = Foster99(), Foster99(random_state=1)
    >>> own_copy(secret).state == secret.state, own_copy(seeded).state == seeded.state
    (False, True)
    """
    found = copy.deepcopy(forecaster)
    found._redraw(seeded=False)
    return found


def resume(state: dict[str, Any] | str | bytes | bytearray | memoryview) -> Forecaster:
    """Restore a forecaster from its state, to continue where it stopped.

    Parameters
    ----------
    state
        What ``forecaster.state`` or ``forecaster.to_json()`` returned.

    Returns
    -------
    Forecaster
        A forecaster of the same class and settings.

    Notes
    -----
    The class is looked up by name among those of this package and your own registered ones; no code in a state is run.
    A randomized forecaster continues with the same draws. After a crash, if draws were shown since the state was
    written, use :meth:`Forecaster.redrawn` of the result.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt, resume
    >>> ops = OnlinePlatt().learn_many([0.2, 0.7, 0.6], [0, 1, 0])
    >>> resume(ops.to_json()).predict_one(0.6) == ops.predict_one(0.6)
    True
    """
    found = parsed(state)
    return cast(Forecaster, from_parameters(found))._go_on(found, "was it edited by hand?")
