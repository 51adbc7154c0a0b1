"""Read a column of any library as a numpy array, and check it in few passes."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import Advice, Argument, InputError, Phrase, Setting, Text, plural

CHUNK = 1 << 16  # rows per step of a chunked pass: small enough for the second of two reads to come from cache
EXACT = 2**53  # integers below this are exact in float64
_REAL = (numbers.Real, Decimal, np.bool_)  # types of numbers in an object column


def read_column(values: object, name: str) -> NDArray[Any]:
    """One column as a 1-D numpy array of whatever dtype it has."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(name, "is a masked array", f"drop the masked rows and pass a plain array, {name}.compressed()")
    a = np.asarray(values) if isinstance(values, np.ndarray) else to_array(values, name)
    if a.ndim == 2 and a.shape[1] == 1:
        a = a.reshape(-1)
    if a.ndim == 0:
        raise InputError(name, f"should be a 1d array, not {_describe(values)}", "pass one value per row")
    if a.ndim == 2 and a.shape[1] == 2:
        raise InputError(name, f"has shape {a.shape}", "pass one column, such as model.predict_proba(X)[:, 1]")
    if a.ndim == 2 and name == "scores":
        raise InputError(
            "scores",
            f"has shape {a.shape}",
            "pass one column; for several classes use calibrate(scores, y), metrics.ece, displays.TopLabelDisplay or "
            "calibrant.multiclass",
        )
    if a.ndim != 1:
        raise InputError(name, f"has shape {a.shape}", "pass one column, that is a 1d array with one value per row")
    # numpy's variable-width strings have a missing value of their own; as objects they are read like all other text
    return a.astype(object) if a.dtype.kind == "T" else a


def to_array(values: Any, name: str | Setting) -> NDArray[Any]:
    """Read anything that is not a numpy array yet as one; nulls become NaN, None or the library's own missing value."""
    refuse_model(values, name)
    if hasattr(values, "nnz") and (hasattr(values, "toarray") or hasattr(values, "todense")):
        raise InputError(name, "is a sparse matrix", "pass a dense column, such as column.toarray().ravel()")
    if is_tensor(values):
        from calibrant.arrays.tensors import read_tensor  # here: few calls have tensors

        return read_tensor(values, name)
    nullable = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    try:
        if isinstance(nullable, np.dtype) and nullable.kind == "f":  # pandas Float64 and double[pyarrow]: no objects
            return np.asarray(values.to_numpy(dtype=nullable, na_value=np.nan))
        a = np.asarray(values)
        if a.ndim == 0 and hasattr(values, "to_numpy"):
            a = np.asarray(values.to_numpy())
    except Exception as error:  # foreign objects raise what they like
        raise InputError(
            name,
            f"of type {type(values).__name__} cannot be read as an array ({error})",
            "pass a list, a numpy array or one dataframe column",
        ) from error
    if a.dtype.kind in "US" and isinstance(values, (list, tuple)):
        return np.array(values, dtype=object)  # numpy would turn numbers, NaN too, into text in a list with text
    return a


def width(scores: Any) -> int:
    """Number of columns of an array, a nested list or a frame in memory; 1 for anything else.

    Examples
    --------
    >>> width([[0.2, 0.8]]), width([0.2, 0.8]), width([[0.2], [0.8]])
    (2, 1, 1)
    """
    if hasattr(scores, "collect") or hasattr(scores, "toPandas"):
        return 1
    if hasattr(scores, "column_names") and hasattr(scores, "num_columns"):
        return int(scores.num_columns)
    shape = getattr(scores, "shape", None)
    if shape is None:
        first = scores[0] if isinstance(scores, list | tuple) and scores else None
        return len(first) if isinstance(first, list | tuple | np.ndarray) and np.ndim(first) == 1 else 1
    return shape[1] if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], int) else 1


def is_tensor(values: Any) -> bool:
    """Whether this is an array of another library that supports DLPack."""
    known = isinstance(values, np.ndarray | np.generic)
    return not known and all(hasattr(values, name) for name in ("__dlpack_device__", "shape", "dtype"))


def _describe(values: object) -> str:
    if values is None:
        return "None"
    return "a single value" if np.isscalar(values) else f"an object of type {type(values).__name__}"


def read_numbers(values: object, name: str) -> NDArray[Any]:
    """One column of real numbers, in the dtype it came in; objects become float64 and their missing values NaN."""
    a = read_column(values, name)
    if a.dtype.kind in "biuf":
        return a
    if a.dtype.kind != "O":
        _refuse_not_numbers(a[0] if a.size else a.dtype, name)
    items = a.tolist()
    examples = dict(zip(map(type, items), items, strict=True))
    missing = {t for t, v in examples.items() if not isinstance(v, _REAL) and is_missing(v)}
    for t, v in examples.items():
        if t not in missing and not isinstance(v, _REAL):
            _refuse_not_numbers(v, name)
    try:
        return np.array([math.nan if type(v) in missing else v for v in items] if missing else items, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise InputError(name, f"holds a number that float64 cannot hold ({error})", "rescale or drop it") from error


def read_floats(values: object, name: str, *, keep_float32: bool = False) -> NDArray[Any]:
    """One contiguous column of float64 (or float32), converted without loss."""
    a = read_numbers(values, name)
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8 and a.size and (a.max() > EXACT or a.min() < -EXACT):
        raise InputError(
            name,
            "holds integers beyond 2**53, which float64 cannot represent exactly",
            "rescale them, or pass astype(float) to accept the rounding",
        )
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite and is reported as such
        return np.ascontiguousarray(a, dtype=np.float32 if keep_float32 and a.dtype.char == "f" else np.float64)


def read_array(values: object, name: str, fix: str) -> NDArray[np.float64]:
    """Numbers of any shape as float64; text is refused, also if it spells numbers.

    Examples
    --------
    >>> read_array([[1, 2], [3, 4]], "values", "pass a matrix").shape
    (2, 2)
    """
    try:
        raw = np.asarray(values)
        if raw.dtype.kind in "biuf":
            return raw.astype(np.float64)
        if raw.dtype.kind == "O" and not any(isinstance(each, str | bytes) for each in raw.ravel().tolist()):
            return raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # rows of different lengths, or objects that are not numbers
        pass
    raise InputError(name, "must hold numbers only", fix)


def refuse_other_order(scores: object, y: object) -> None:
    """Refuse two pandas columns with the same index in a different order: their rows do not match."""
    one: Any = getattr(scores, "index", None)
    other: Any = getattr(y, "index", None)
    if not (hasattr(one, "equals") and hasattr(other, "equals")) or len(one) != len(other) or one.equals(other):
        return
    if one.sort_values().equals(other.sort_values()):
        raise InputError(
            "scores",
            Phrase(
                "and {y} have the same index in a different order, and rows are paired by position", y=Argument("y")
            ),
            "pass y.loc[scores.index]",
        )


def check_length(a: NDArray[Any], name: str, n: int, other: str = "scores") -> None:
    """Refuse a column whose length differs from that of another, the scores by default."""
    if a.size != n:
        found = plural(a.size, "row", shown=str(a.size))
        problem = Phrase("has {found} but {other} has {n}", found=found, other=Argument(other), n=n)
        raise InputError(name, problem, "pass one value per row in both")


def is_whole(value: object) -> bool:
    """Whether a parameter is an integer, such as 10 or 1e4; True and False are not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value) and value == math.floor(value)
    except OverflowError:  # an integer beyond every float
        return False


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Refuse a parameter that is not an integer, or is below ``least``."""
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise InputError(name, f"must be an integer of at least {least}, got {value!r}")


def refuse_model(values: Any, name: str | Setting = "scores") -> None:
    """Refuse a model in place of its scores."""
    kind = type(values)  # a frame of Spark Connect has every name as a column
    if hasattr(kind, "fit") and (hasattr(kind, "predict_proba") or hasattr(kind, "predict")):
        fix = "pass model.predict_proba(X), or train and calibrate it by CalibratedClassifier(model).fit(X, y)"
        raise InputError(name, f"is a model ({kind.__name__}), not its scores", fix)


def refuse_store(argument: str, given: Any) -> None:
    """Reject a tally store where its tallies belong."""
    if type(given).__name__ == "TallyStore":
        raise InputError(argument, "is a tally store", "pass the tallies of its days, store.window(first, last)")


def refuse_names(call: str, **given: object) -> None:
    """Refuse text where an array is expected: it looks like a column name, and only frames have named columns."""
    for argument, value in given.items():
        if isinstance(value, str):
            raise InputError(
                Setting(argument, value),
                "looks like the name of a column",
                f"names need a frame, as in {call}(frame, score=..., label=...)",
            )


def refuse_numbers(**given: object) -> None:
    """Refuse numbers in place of the names of columns, which are text in every engine but pandas."""
    for argument, value in given.items():
        for name in value if isinstance(value, list | tuple | range) else [value]:
            if isinstance(name, numbers.Integral) and not isinstance(name, bool):
                fix = f"pass {str(name)!r} and frame.rename(columns=str)"
                raise InputError(argument, f"names a column by the number {name}, and names must be text", fix)


def check_option(name: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse a value that is not one of the options."""
    if value not in allowed:
        choices = ", ".join(repr(option) for option in allowed)
        raise InputError(name, f"is {value!r}, which is not an option", f"pass one of {choices}{meant(value, allowed)}")


def nearest(value: object, allowed: Iterable[object]) -> str | None:
    """The name most like a misspelled one: by its letters, by its beginning, or as an abbreviation of only one name.

    Examples
    --------
    >>> nearest("isotonci", ("platt", "isotonic")), nearest("LLM", ("general", "llm")), nearest("x", ("platt", None))
    ('isotonic', 'llm', None)
    >>> nearest("pg", ("mysql", "postgres")), nearest("scroe", ["Score", "y"])
    ('postgres', 'Score')
    """
    asked, names = str(value).lower(), {each.lower(): each for each in allowed if isinstance(each, str)}
    near = get_close_matches(asked, names, 1) or [each for each in names if asked and each.startswith(asked)]
    if not near and len(asked) > 1:
        letters = ".*".join(map(re.escape, asked))
        near = [each for each in names if re.match(letters, each)]
        near = near if len(near) == 1 else []
    return names[near[0]] if near else None


def meant(value: object, allowed: Iterable[object]) -> str:
    """The end of a sentence that names the option most like a misspelled one; empty if none is like it.

    Examples
    --------
    >>> meant("isotonci", ("platt", "isotonic")), meant("x", ("platt", None))
    ("; did you mean 'isotonic'?", '')
    """
    near = nearest(value, allowed)
    return "" if near is None else f"; did you mean {near!r}?"


def columns_there(name: object, there: Sequence[str]) -> str:
    """The columns that there are, and which of them a misspelled name means."""
    return f"it has {', '.join(map(repr, there)) or 'none'}{meant(name, there)}"


def check_list(name: str, value: object) -> None:
    """Refuse a single value for an option that takes a list."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InputError(name, f"must be a list, not {value!r}", f"pass {name}=[...]")


def value_range(a: NDArray[Any]) -> tuple[float, float]:
    """Smallest and largest value in one pass over memory; both NaN when there is a NaN."""
    if a.size <= CHUNK:
        return float(a.min()), float(a.max())
    parts = (a[i : i + CHUNK] for i in range(0, a.size, CHUNK))
    ends = np.array([(part.min(), part.max()) for part in parts])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def first_row(a: NDArray[Any], test: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> int | None:
    """Index of the first row that passes the test; stops at the first chunk that has one."""
    for i in range(0, a.size, CHUNK):
        hits = test(a[i : i + CHUNK])
        if hits.any():
            return i + int(hits.argmax())
    return None


def without_negative_zero(s: NDArray[Any], low: float) -> NDArray[Any]:
    """Store -0.0 as 0.0, in a copy, and only when there is one.

    The bits of -0.0 are those of the smallest integer, so one integer minimum finds it.
    """
    if low > 0 or math.isnan(low):
        return s
    bits = np.dtype(f"i{s.dtype.itemsize}")
    return s + s.dtype.type(0) if s.view(bits).min() == np.iinfo(bits).min else s


def refuse_not_finite(a: NDArray[Any], name: str, fix: Text) -> NoReturn:
    """Raise an error that says how many values are missing or infinite, where, and what to do."""
    missing = np.isnan(a)
    if missing.any():
        raise InputError(
            name,
            f"has {plural(int(missing.sum()), 'missing value')} (NaN), the first at row {int(missing.argmax())} "
            "counted from 0",
            fix,
        )
    refuse_infinite(a, name, fix)


def refuse_without_numba(call: str) -> NoReturn:
    """Refuse to compile where ``calibrant[fast]`` is not installed."""
    raise InputError(call, "needs numba, which is not installed", "pip install 'calibrant[fast]'")


def refuse_empty(name: str | Setting) -> NoReturn:
    """Raise an error about an empty argument."""
    raise InputError(name, "is empty", "pass at least one row")


def refuse_infinite(a: NDArray[Any], name: str, fix: Text) -> NoReturn:
    """Raise an error that says how many values are infinite, where, and what to do."""
    infinite = np.isinf(a)
    raise InputError(
        name,
        f"has {plural(int(infinite.sum()), 'infinity', 'infinities')} (inf), the first at row {int(infinite.argmax())} "
        "counted from 0",
        fix,
    )


def _refuse_not_numbers(example: object, name: str) -> NoReturn:
    if isinstance(example, (str, bytes)):
        text = example.decode(errors="replace") if isinstance(example, bytes) else str(example)
        fix: Text = "convert it with astype(float)" if _reads_as_number(text) else "pass the column of numbers"
        if name == "scores" and not _reads_as_number(text):
            fix = Advice.PASS_PROBABILITIES
        if text.strip().endswith("%") and _reads_as_number(text.strip().removesuffix("%")):
            fix = "remove the % signs, convert it with astype(float) and divide by 100"
        if text.count(",") == 1 and _reads_as_number(text.replace(",", ".")):
            fix = "it has a decimal comma, so replace it by a point, or read the file with decimal=','"
        raise InputError(name, f"holds text such as {text!r}", fix)
    if isinstance(example, (complex, np.complexfloating)):
        raise InputError(name, "holds complex numbers (Complex data not supported)", "pass real numbers")
    if isinstance(example, (dt.timedelta, np.timedelta64, dt.date, np.datetime64)):
        raise InputError(name, "holds dates or time spans", "pass numbers, for example a span divided by one day")
    kind = str(example) if isinstance(example, np.dtype) else type(example).__name__
    raise InputError(name, f"holds values of type {kind}", "pass real numbers")


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_set(a: NDArray[Any], name: str) -> set[Any]:
    """Distinct values of a column, which must be hashable."""
    try:
        return set(a.tolist())
    except TypeError as error:
        raise InputError(
            name, f"holds values that cannot be compared ({error})", "pass one number or text per row"
        ) from error


def refuse_missing(a: NDArray[Any], name: str, fix: Text) -> None:
    """Refuse a column of any dtype with a missing value; missing values are counted only when there is one."""
    if a.size == 0 or a.dtype.kind in "biuUS":
        return
    if a.dtype.kind == "f":
        missing = np.isnan(a) if math.isnan(value_range(a)[0]) else np.zeros(0, dtype=np.bool_)
    elif a.dtype.kind in "mM":
        missing = np.isnat(a)
    elif any(map(is_missing, as_set(a, name))):
        missing = np.fromiter(map(is_missing, a), dtype=np.bool_, count=a.size)
    else:
        return
    if missing.any():
        raise InputError(
            name,
            f"has {plural(int(missing.sum()), 'missing value')} (NaN or null), the first at row "
            f"{int(missing.argmax())} counted from 0",
            fix,
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or the like: not equal to itself, or not comparable."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):  # bool(pandas.NA) raises; so does comparing a signaling NaN of Decimal
        return True
    except ValueError:  # an array inside an object column
        return False
