"""One reading of what is passed: arrays, frames, files and tallies become one value for every function."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows, check_rows
from calibrant.arrays.columns import (
    check_length,
    is_missing,
    is_tensor,
    meant,
    read_column,
    read_floats,
    refuse_model,
    refuse_names,
    refuse_numbers,
    refuse_other_order,
    refuse_store,
    value_range,
    width,
)
from calibrant.arrays.labels import LabelType
from calibrant.arrays.rows import event_of
from calibrant.arrays.score_types import ROUNDING, settled
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, note
from calibrant.numerics import expit
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from calibrant.arrays.multiclass.rows import MulticlassRows

Kind = Literal["score", "classes", "labels", "tally", "frame"]
"""One score; a matrix of classes; a matrix of several labels; a tally; a frame with too many rows for memory."""

MAX_ROWS_IN_MEMORY = 1 << 16
"""A frame with more rows than this is counted by its own engine, where a function can work from counts."""

FILES = {".parquet": "read_parquet", ".csv": "read_csv", ".csv.gz": "read_csv", ".tsv": "read_csv"}
"""How DuckDB reads a file, by the end of its name."""

PATHS = (str, os.PathLike)

SIDES = ("sample_weight", "groups", "time")
"""Arguments with one value for each row: an array, or the name of a column of the frame."""

ONE_SEGMENT = "segment"
"""Name of a column of segments that has none."""

one_hot_labels = note("one-hot-labels", "labels are one-hot rows, read as the class of each of the {n:,} {nouns.rows}")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns that were taken from a frame, with their names."""

    columns: tuple[str, ...]
    values: NDArray[Any]

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Any:
        """The named columns; one of them alone is an array."""
        if len(names) == 1:
            return columns[names[0]]
        return cls(tuple(names), np.column_stack([columns[name] for name in names]))

    @classmethod
    def named(cls, matrix: NDArray[Any], names: Sequence[Any] | None) -> Any:
        """A matrix with names of its columns; the matrix itself without any."""
        from calibrant.arrays.keys import key_text  # here: few calls have several columns

        return matrix if names is None else cls(tuple(str(key_text(name, "classes")) for name in names), matrix)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.values.shape

    def to_numpy(self) -> NDArray[Any]:
        """The matrix."""
        return self.values

    def __getitem__(self, key: tuple[Any, list[int]]) -> Table:
        """Some of the columns, by their places."""
        return Table(tuple(self.columns[place] for place in key[1]), self.values[key])


@dataclass(frozen=True, eq=False)
class Given:
    """What was passed to a function, as :func:`read` finds it.

    Attributes
    ----------
    kind
        See :data:`Kind`.
    scores, y
        A column or two columns of scores and the labels; a matrix and the class of each row; a matrix and a matrix of 0
        and 1; a tally and None; or the frame itself and None.
    sample_weight, groups, time
        Columns with one value for each row, or None; of a frame that is too large, their names.
    by
        Columns of segments by name.
    more
        Further columns of the frame that were asked for, by name.
    names
        Names of columns by argument, if a frame was passed.
    weight_type, positive, classes, score_type, label_type
        As they were passed; ``classes`` of one-hot labels are the names of their columns.
    notes
        What was converted.
    """

    kind: Kind
    scores: Any
    y: Any = None
    sample_weight: Any = None
    groups: Any = None
    time: Any = None
    by: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    weight_type: Any = "importance"
    positive: Any = None
    classes: Sequence[Any] | None = None
    score_type: Any = None
    label_type: LabelType = "class"
    notes: tuple[Note, ...] = ()

    @property
    def columns(self) -> tuple[Any, Any, Any]:
        """Scores, labels and weights."""
        return self.scores, self.y, self.sample_weight

    @property
    def described(self) -> dict[str, Any]:
        """The arguments that one score and several classes share."""
        sides = {name: getattr(self, name) for name in ("groups", "time", "classes", "score_type")}
        return {"weight_type": self.weight_type, **sides}

    def rows(self) -> Rows:
        """Checked rows of one score."""
        own = {"positive": self.positive, "label_type": self.label_type}
        return check_rows(self.scores, self.y, self.sample_weight, **self.described, **own)

    def class_rows(self) -> MulticlassRows:
        """Checked rows of several classes; columns in [0, 1] need not sum to 1."""
        from calibrant.arrays.multiclass.rows import check_class_rows  # here: one score does without

        return check_class_rows(self.scores, self.y, self.sample_weight, **self.described, loose=True)

    def one_event(self, *, probabilities: bool = False) -> Given:
        """The same with the score of the event in place of two columns, and labels 0 and 1 if they were others."""
        event = event_of(self.scores, self.y, positive=self.positive, classes=self.classes, score_type=self.score_type)
        if self.kind != "score" or event is None:
            return self
        y, s, kind = self.y, event.scores, event.score_type
        if event.positive is not None:
            target = read_column(y, "y")
            y = np.where([is_missing(each) for each in target.tolist()], np.nan, target == event.positive)
        if probabilities and kind == "logit":
            s, kind = expit(s), "probability"
        notes = (*self.notes, *event.guessed, *event.said)
        return replace(self, scores=s, y=y, positive=None, classes=None, score_type=kind, notes=notes)

    def as_probabilities(self) -> Given:
        """The same with probabilities in place of the log-odds of one score, before rows are split into parts.

        What cannot be read is left to the checks of the rows.
        """
        if self.kind != "score" or width(self.scores) > 1:
            return self
        s = read_floats(self.scores, "scores")
        some = s if self.kept is None or len(self.kept) != len(s) else s[self.kept]
        low, high = value_range(some) if some.size else (0.0, 0.0)
        if not (np.isfinite([low, high]).all() and low < -ROUNDING):
            return self
        kind = settled(some, self.score_type, low, high)[1]
        return replace(self, scores=expit(s), score_type="probability") if kind == "logit" else self

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Which rows have a weight above 0; None if all have."""
        if self.sample_weight is None:
            return None
        found = np.asarray(np.asarray(self.sample_weight, dtype=np.float64) != 0)
        return None if found.all() else found


def read(
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    call: str = "check",
    score: Any = None,
    label: Any = None,
    by: Any = None,
    groups: Any = None,
    time: Any = None,
    more: Sequence[str] = (),
    most: int | None = MAX_ROWS_IN_MEMORY,
    **settings: Any,
) -> Given:
    """Find out what was passed: every function that takes rows begins here.

    Parameters
    ----------
    scores, y, sample_weight
        Arrays; a tally alone; or a frame, or the path of Parquet or CSV files, and the names of its columns of scores
        and of labels.
    call
        Name of the function, for errors.
    score, label
        The same names, by keyword; lists of them for several classes or labels.
    by
        Segments: a column, a mapping from names to columns, a frame of them, or names of columns.
    groups, time
        One value for each row, or the name of a column.
    more
        Names of further columns of a frame that are needed.
    most
        Rows of a frame that are read into memory; one with more is returned as it is. None reads all rows, and so do
        several columns of scores.
    **settings
        Stored in the result: ``weight_type``, ``positive``, ``classes``, ``score_type``, ``label_type``.

    Returns
    -------
    Given
        The same in one form.

    Examples
    --------
    >>> read([0.2, 0.7], [0, 1]).kind, read([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], [0, 2]).kind
    ('score', 'classes')
    >>> import polars as pl
    >>> frame = pl.DataFrame({"p": [0.2, 0.7], "clicked": [0, 1]})
    >>> read(frame, "p", "clicked").names, read(frame, score="p", label="clicked").y.tolist()
    ({'score': 'p', 'label': 'clicked', 'alone': False}, [0, 1])
    """
    refuse_model(scores)
    refuse_store("scores", scores)
    sides = {"sample_weight": sample_weight, "groups": groups, "time": time}
    if isinstance(scores, Tally) or type(scores).__name__ in ("GroupedTally", "Clusters"):
        for name, value in {"y": y, **sides, "by": by, "score": score, "label": label}.items():
            if value is not None:
                fix = "pass the tally alone" if name != "by" else "pass a GroupedTally, with tallies by segment"
                problem = "cannot be combined with a tally, which already contains labels, weights and groups"
                raise InputError(name, problem, fix)
        return Given("tally", scores, **settings)
    scores = frame_of(scores)
    y, sides["sample_weight"], score, label = by_keyword(scores, y, sample_weight, score, label, call)
    if score is not None or label is not None:
        return _from_frame(scores, y, score, label, by, sides, more, most, settings, call)
    refuse_names(call, y=y, **sides, by=by)
    if y is None:
        raise InputError("y", "is missing", f"pass {call}(scores, y), or {call}(frame, score=..., label=...)")
    return _sorted(Given("score", scores, y, by=segments_by_name(by), **sides, **settings))


def frame_of(given: Any) -> Any:
    """The frame itself; the path or glob of Parquet or CSV files as a DuckDB relation, which is lazy."""
    if not isinstance(given, PATHS):
        return given
    path = os.fspath(given)
    how = next((how for end, how in FILES.items() if path.lower().endswith(end)), None)
    if how is None:
        raise InputError("frame", f"is {path!r}, which has an unknown file extension", f"use one of {' '.join(FILES)}")
    there = os.path.exists(path)
    if not there and not glob.glob(path, recursive=True):
        beside = glob.glob(os.path.join(os.path.dirname(path), "*"))
        raise InputError("frame", f"is {path!r}, and there is no such file", f"check the path{meant(path, beside)}")
    import duckdb  # here: few calls have paths

    whole = os.path.abspath(path)  # DuckDB takes a folder named ~ for the home folder
    # A connection of its own: that of the module is shared by all threads.
    return getattr(duckdb.connect(), how)(glob.escape(whole) if there else whole)


def segments_by_name(by: Any) -> dict[str, Any]:
    """Columns of segments by name; one column has its own name, or is called segment."""
    if by is None:
        return {}
    names = getattr(by, "column_names", getattr(by, "columns", None))  # pyarrow; pandas and polars
    if names is not None and not isinstance(by, Mapping):
        return {str(name): by[name] for name in names}
    if isinstance(by, Mapping):
        return {str(name): column for name, column in by.items()}
    name = getattr(by, "name", None)
    return {name if isinstance(name, str) and name else ONE_SEGMENT: by}


def columns_of_frame(frame: Any, names: Sequence[str], most: int | None = None) -> dict[str, NDArray[Any]] | None:
    """The named columns of a frame as arrays; None if it has more rows than ``most``."""
    from calibrant.arrays.frames import columns_of  # here, so that arrays load no narwhals

    wanted = list(dict.fromkeys(names))
    taken = columns_of(frame_of(frame), wanted, None if most is None else most + 1)
    if most is not None and wanted and len(taken[wanted[0]]) > most:
        return None
    return {name: read_column(column.to_native(), name) for name, column in taken.items()}


def located(scores: Any, y: Any, sample_weight: Any = None, **named: Any) -> Given:
    """Arrays and tallies as they are; of a frame, or of files, the named columns in their place.

    Examples
    --------
    >>> import polars as pl
    >>> found = located(pl.DataFrame({"p": [0.2], "clicked": [0]}), "p", "clicked")
    >>> found.scores.tolist(), found.y.tolist(), located([0.2], [0]).scores
    ([0.2], [0], [0.2])
    """
    names = any(named.get(name) is not None for name in ("score", "label"))
    if not names and not isinstance(y, str) and not isinstance(sample_weight, str) and not isinstance(scores, PATHS):
        sides = {name: value for name, value in named.items() if name in SIDES}
        return Given("score", scores, y, sample_weight, by=cast(Any, named.get("by")), **sides)
    return read(scores, y, sample_weight, most=None, **named)


def from_columns(frame: Any, **named: Any) -> list[Any]:
    """The columns of a frame that text names, and anything else unchanged: for functions with columns of their own.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"t": [1.0, 2.0], "d": [0, 1]})
    >>> time, died, groups = from_columns(frame, time="t", event="d", groups=None)
    >>> time.tolist(), died.tolist(), groups
    ([1.0, 2.0], [0, 1], None)
    """
    refuse_numbers(**{name: value for name, value in named.items() if isinstance(value, int)})
    names = [value for value in named.values() if isinstance(value, str)]
    columns = columns_of_frame(frame, names) if names else {}
    assert columns is not None
    return [columns[value] if isinstance(value, str) else value for value in named.values()]


# ------------------------------------------------------------------------------------------------------------- frames


def by_keyword(
    scores: Any, y: Any, sample_weight: Any, score: Any, label: Any, call: str = "check"
) -> tuple[Any, Any, Any, Any]:
    """Labels, weights and names of columns; names in the places of labels and weights are those of scores and labels.

    Examples
    --------
    >>> import polars as pl
    >>> by_keyword(pl.DataFrame({"p": [0.2], "clicked": [0]}), "p", "clicked", None, None)
    (None, None, 'p', 'clicked')
    """
    frame = any(hasattr(type(scores), name) for name in ("columns", "column_names"))  # a lazy frame would compute them
    several = isinstance(y, list | tuple) and bool(y) and all(isinstance(each, str) for each in y)
    if score is not None or label is not None or not frame:
        return y, sample_weight, score, label
    if not isinstance(y, str) and not (several and isinstance(sample_weight, str | list)):
        return y, sample_weight, score, label
    if sample_weight is None:
        raise InputError("label", "is missing", f"pass {call}(frame, {y!r}, ...) with the column of labels too")
    return None, None, y, sample_weight


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def _names(argument: str, value: Any) -> list[str]:
    """Names of columns, of an argument that takes one name or several."""
    refuse_numbers(**{argument: value})
    names = [] if value is None else [value] if isinstance(value, str) else list(value)
    if isinstance(value, Mapping) or not all(isinstance(name, str) for name in names):
        raise InputError(argument, "must name columns of the frame", "pass a name, or a list of names")
    return names


def _from_frame(
    frame: Any, y: Any, score: Any, label: Any, by: Any, sides: dict[str, Any], more: Sequence[str], most: int | None,
    settings: dict[str, Any], call: str,
) -> Given:  # fmt: skip
    """The named columns of a frame, or the frame itself."""
    score, label = _one(score), _one(label)
    if y is not None:
        both = {"label": Argument("label"), "y": Argument("y")}
        problem = Phrase("and {label} both name the labels", **both)
        raise InputError("y", problem, Phrase("pass a frame with {label}, or arrays with {y}", **both))
    for name, value, example in (("score", score, "p"), ("label", label, "y")):
        if value is None:
            example_of = Setting(name, example)
            raise InputError(
                name, "is missing", Phrase("pass the name of its column too, such as {one}", one=example_of)
            )
    from calibrant.arrays.frames import read_frame  # here, so that arrays load no narwhals

    alone = isinstance(by, Mapping)  # each column by itself, not the cells of all
    scores, labels = _names("score", score), _names("label", label)
    segments = _names("by", list(by.values()) if alone else by)
    refuse_numbers(**{name: value for name, value in sides.items() if isinstance(value, int)})
    named = [value for value in sides.values() if isinstance(value, str)]
    names = {"score": score, "label": label, **{k: v for k, v in sides.items() if isinstance(v, str)}, "alone": alone}
    several = len(scores) > 1 or len(labels) > 1
    wanted = [*scores, *labels, *segments, *named, *more]
    columns = None if most == 0 and not several else columns_of_frame(frame, wanted, None if several else most)
    if columns is None:
        for name, value in sides.items():
            if value is not None and not isinstance(value, str):
                both = {"score": Argument("score"), "label": Argument("label")}
                problem = Phrase("must name a column when {score} and {label} do", **both)
                raise InputError(name, problem, "add it to the frame first")
        read_frame(frame, *wanted)
        return Given("frame", frame, **sides, names=names | {"by": segments}, **settings)
    for name, value in sides.items():
        if isinstance(value, str):
            sides[name] = columns[value]
        elif value is not None:
            check_length(read_column(value, name), name, len(columns[scores[0]]))
    found = Given(
        "score",
        Table.of(columns, scores),
        Table.of(columns, labels),
        **sides,
        by={name: columns[name] for name in segments},
        more={name: columns[name] for name in more},
        names=names | ({"by": segments} if segments else {}),
        **settings,
    )
    return _sorted(found)


# -------------------------------------------------------------------------------------------------------------- kinds


def _sorted(given: Given) -> Given:
    """The same with the kind of its rows."""
    scores, y = given.scores, given.y
    several = width(y) > 1 and not _is_text(y)  # paths of a taxonomy are text, and are read with it
    if several and width(scores) < 2:
        problem = Phrase("has several columns, and {scores} has one", scores=Argument("scores"))
        raise InputError("y", problem, "pass a column of scores for each label, or one column of labels")
    hot = None
    if several and given.score_type != "independent":
        from calibrant.arrays.multiclass.labels import one_hot_classes  # here: few labels are a matrix

        hot = one_hot_classes(scores, y)
    if hot is not None:
        classes = list(hot[1]) if given.classes is None else given.classes
        labels = np.asarray(list(classes), dtype=object)[hot[0]]
        given = replace(given, y=labels, classes=classes, notes=(one_hot_labels(len(labels)),))
    elif several:
        return _labels(given)
    pair = width(scores) == 2 and given.score_type != "independent"
    if width(scores) > 1 and not pair and given.label_type == "fraction":
        raise InputError("label_type", "of fractions is for one column of scores", "pass one class at a time")
    return given if pair or width(scores) < 2 else replace(given, kind="classes")


def _is_text(y: Any) -> bool:
    """Whether several columns of labels are text."""
    first = y[0][0] if isinstance(y, list | tuple) else getattr(y, "flat", [None])[0] if np.size(y) else None
    return isinstance(first, str)


def _labels(given: Given) -> Given:
    """A multi-label target: columns of 0 and 1, in the order of the columns of scores."""
    if given.label_type == "fraction":
        raise InputError("label_type", "of fractions is for one column of scores", "pass one label at a time")
    from calibrant.arrays.multiclass.labels import indicator  # here: few labels are a matrix
    from calibrant.arrays.multiclass.rows import read_matrix

    matrix, columns = read_matrix(given.scores)
    target, names = indicator(given.y)
    if matrix.shape != target.shape:
        problem = Phrase("has shape {y} and {s} {n}", y=target.shape, s=Argument("scores"), n=matrix.shape)
        raise InputError("y", problem, "pass one column of 0 and 1 for each column of scores")
    if not is_tensor(given.scores):
        refuse_other_order(given.scores, given.y)
    if columns and set(columns) == set(names):
        matrix, columns = matrix[:, [columns.index(name) for name in names]], names
    elif given.classes is not None:
        names = tuple(map(str, given.classes))
    if len(names) not in (0, matrix.shape[1]):
        raise InputError("classes", f"has {len(names)} names for {matrix.shape[1]} labels", "pass one per column")
    return replace(given, kind="labels", scores=matrix, y=target, classes=names or columns or None)
