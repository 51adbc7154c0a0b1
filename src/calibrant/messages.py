"""Messages as values: errors and notes are data, and their text is written where it is shown.

An :class:`InputError` carries the argument, the problem and the fix. A :class:`Note` carries a code and its numbers. A
:class:`Voice` writes the text of both: in Python with the names of arguments, on the command line with the names of
options, in a report with its own nouns, such as patients or borrowers. No code parses a sentence.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from string import Formatter
from typing import Any, Concatenate, Generic, ParamSpec, overload

from calibrant.visible import visible

P = ParamSpec("P")


class Advice(Enum):
    """What to do about a problem, where Python, command line and reports word it differently; values are Python's."""

    ASK_ONE_SOURCE = "ask sources_[name].certificate(), where the calibrator has one"
    CHECK_OUT_OF_FOLD = "check the probabilities of crossfit(calibrator, scores, y), each by a map of the other folds"
    CONNECT_OR_INSTALL = "pass connection=..., or pip install 'calibrant[sql]'"
    CORRECT_SAMPLING = "SamplingCorrection undoes it, with the event rate in training"
    DIVIDE_BY_100 = "divide by 100"
    DROP_OR_REPAIR_SCORES = "drop these rows or repair the score"
    DROP_ROWS = "drop these rows"
    DROP_UNLABELED = "drop these rows; a label that has not arrived is not a negative"
    FILTER_ROWS = "find out where they come from and filter them out, or pass unusable='leave out' to skip them"
    FIT_CLASSES = "cal = calibrant.calibrate(scores, y)"
    FIT_FIRST = "fit a calibrator first"
    FIT_ONE_SEGMENT = "fit HistogramBinning to the rows of one segment to get a certificate for it"
    FIT_PLATT = "cal = calibrant.PlattScaling().fit(scores, y)"
    IMPORTANCE_WEIGHTS = "pass weight_type='importance'"
    NAME_SCORES = "pass the column of scores"
    ONE_AGAINST_REST = (
        "two classes are needed, so pass y == c for one class c against the rest, or y >= c for a grade; for several "
        "classes pass a matrix with one column of scores per class"
    )
    PASS_GUARANTEE = "pass guarantee=(epsilon, alpha)"
    PASS_CLAMP = "pass clamp= with half a rounding unit, such as clamp=0.005 for two decimals"
    PASS_PROBABILITIES = "pass probabilities, such as model.predict_proba(X)[:, 1]"
    REPAIR_OR_DROP_ROWS = "repair or drop these rows"
    SEE_COMPARISON = "see comparison_"
    SEE_SEGMENTS = "See segments_."
    SEE_SEGMENTS_AND_COMPARISON = "See segments_ and global_.comparison_."
    SEE_SEGMENTS_AND_SOURCES = "See segments_ and sources_."
    SWAP_SCORES_AND_LABELS = "pass the scores first and the labels second"
    USE_BINNING = "use HistogramBinning if you need a certificate"
    USE_PLATT = "use PlattScaling"


@dataclass(frozen=True)
class Setting:
    """An argument with a value: ``positive='good'`` in Python, ``--positive good`` on the command line."""

    argument: str
    value: object


@dataclass(frozen=True)
class Argument:
    """The name of an argument: ``sample_weight`` in Python, ``--weight`` on the command line."""

    name: str


class Phrase:
    """A text with references in braces to arguments, settings, advice, or plain numbers.

    Examples
    --------
    >>> print(Phrase("pass {yes} or {no}", yes=Setting("positive", "good"), no=Setting("positive", "bad")))
    pass positive='good' or positive='bad'
    """

    def __init__(self, template: str, **values: object) -> None:
        self.template, self.values = template, values

    def say(self, voice: Voice) -> str:
        """The text as this voice writes it."""
        return self.template.format_map({name: voice.say(value) for name, value in self.values.items()})

    def __str__(self) -> str:
        return self.say(PYTHON)

    def __repr__(self) -> str:
        return f"Phrase({self.template!r}, {self.values!r})"


Text = str | Phrase | Advice
"""A problem or a fix."""


@dataclass(frozen=True)
class Nouns:
    """What a voice calls rows, events and scores."""

    row: str = "row"
    rows: str = "rows"
    event: str = "event"
    events: str = "events"
    score: str = "score"
    scores: str = "scores"
    rate: str = "event rate"
    probabilities: str = "probabilities"
    more_labels: str = "more labels"
    non_events: str = ""
    """Name of the rows without the event; may be empty, see :attr:`others`."""

    @property
    def others(self) -> str:
        """Name of the rows without the event."""
        return self.non_events or (f"{self.rows} of the other class" if " " in self.events else f"non-{self.events}")

    def an_event(self) -> str:
        """The event with its article."""
        return f"{'an' if self.event[0].lower() in 'aeiou' else 'a'} {self.event}"


class Voice:
    """How messages are written for a reader; this is the voice of the Python interface."""

    nouns = Nouns()

    def argument(self, name: str) -> str:
        """The name of an argument."""
        return name

    def setting(self, name: str, value: object) -> str:
        """An argument with its value."""
        return f"{name}={value!r}"

    def advice(self, advice: Advice) -> str:
        """What to do."""
        return advice.value

    def subject(self, subject: str | Setting) -> str:
        """An argument, or an argument with its value, at the beginning of an error."""
        return self.argument(subject) if isinstance(subject, str) else self.say(subject)

    def say(self, value: object) -> Any:
        """The text of an argument, setting, advice, phrase or note; any other value is returned unchanged."""
        match value:
            case Argument(name):
                return self.argument(name)
            case Setting(name, given):
                return self.setting(name, given)
            case Advice():
                return self.advice(value)
            case Phrase() | Note():
                return value.say(self)
        return value

    def error(self, subject: str | Setting, problem: Text, fix: Text | None) -> str:
        """An error: argument, problem and fix in one sentence."""
        sentence = f"{self.subject(subject)} {self.say(problem)}".strip()
        return f"{sentence}: {self.say(fix)}" if fix else sentence


PYTHON = Voice()


# ------------------------------------------------------------------------------------------------------------ notebooks


def public_names(names: Sequence[str]) -> Callable[[], list[str]]:
    """``__dir__`` of a public module: completion lists its public names, loaded or not, and nothing else.

    Examples
    --------
    >>> public_names(["brier", "auc"])()
    ['auc', 'brier']
    """
    return lambda: sorted(names)


class Shown:
    """Base class of results that print well: a notebook shows the printed text.

    Examples
    --------
    >>> class Answer(Shown):
    ...     def __str__(self):
    ...         return "x < 2"
    >>> "x &lt; 2" in Answer()._repr_html_()
    True
    """

    def _repr_html_(self) -> str:
        """For notebooks: the printed text."""
        from calibrant.notebook import text_block  # not needed to fit and apply

        return text_block(str(self))


class Drawn:
    """Base class of results that have a picture, by the display that registers them."""

    def plot(
        self,
        ax: Any = None,
        *,
        figsize: tuple[float, float] | None = None,
        title: str | None = None,
        caption: str | None = None,
    ) -> Any:
        """Draw the result, on ``ax`` or on a new figure.

        Parameters
        ----------
        ax, figsize, title, caption
            As in :meth:`calibrant.displays.base.Display.plot`.

        Returns
        -------
        Display
            The display, drawn; its attributes ``ax_`` and ``figure_`` are those of matplotlib.
        """
        displays = import_module("calibrant.displays")  # displays stand above the results that they draw
        return displays.display_of(self).plot(ax, figsize=figsize, title=title, caption=caption)


# --------------------------------------------------------------------------------------------------------------- errors


class InputError(ValueError):
    """Error: an argument that cannot be used, with the problem and the fix.

    Parameters
    ----------
    subject, problem, fix
        See the attributes.

    Attributes
    ----------
    subject
        The argument, or :class:`Setting`: the argument with its value.
    argument
        Its name.
    problem
        What is wrong with it; may end with what it must be.
    fix
        What to do about it.

    Examples
    --------
    >>> str(InputError("scores", "is empty", "pass at least one row"))
    'scores is empty: pass at least one row'
    >>> str(InputError(Setting("score_type", "odds"), "is not a type of scores", "leave it out"))
    "score_type='odds' is not a type of scores: leave it out"
    """

    def __init__(self, subject: str | Setting, problem: Text, fix: Text | None = None) -> None:
        super().__init__(subject, problem, fix)
        self.subject, self.problem, self.fix = subject, problem, fix

    @property
    def argument(self) -> str:
        """The name of the argument."""
        return self.subject if isinstance(self.subject, str) else self.subject.argument

    def say(self, voice: Voice) -> str:
        """The error as a voice writes it."""
        return voice.error(self.subject, self.problem, self.fix)

    def about(self, subject: str | Setting) -> InputError:
        """The same problem, reported for another argument."""
        return InputError(subject, self.problem, self.fix)

    def __str__(self) -> str:
        return visible(self.say(PYTHON), None)


class MissingPackage(ImportError):
    """Error: an optional package is needed and not installed.

    Examples
    --------
    >>> str(MissingPackage("drawing", "matplotlib", "calibrant[plot]"))
    'drawing needs matplotlib: pip install "calibrant[plot]"'
    """

    def __init__(self, purpose: str, package: str, install: str, instead: str = "") -> None:
        super().__init__(purpose, package, install, instead)
        self.purpose, self.package, self.install, self.instead = purpose, package, install, instead

    def __str__(self) -> str:
        return (
            f'{self.purpose} needs {self.package}: pip install "{self.install}"{self.instead and f"; {self.instead}"}'
        )


# ---------------------------------------------------------------------------------------------------------------- notes


class NoteKind(Generic[P]):
    """A kind of note: its code, and the function that writes its text. Made by :func:`note`."""

    def __init__(self, code: str, write: Callable[Concatenate[Voice, P], str], names: Sequence[str]) -> None:
        self.code, self.write, self._names = code, write, names
        self.__doc__, self.__module__ = write.__doc__, write.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Note:
        """A note of this kind with these numbers."""
        return Note(self, dict(zip(self._names, args, strict=False)) | kwargs)

    def __reduce__(self) -> str:
        """Pickled by name, as functions are."""
        return next(name for name, value in vars(sys.modules[self.__module__]).items() if value is self)


@dataclass(frozen=True, repr=False)
class Note:
    """Information for the user: a code for programs, its numbers, and :meth:`say`, which writes the text."""

    kind: NoteKind[...]
    values: Mapping[str, Any]

    @property
    def code(self) -> str:
        """The code, for programs."""
        return self.kind.code

    def say(self, voice: Voice) -> str:
        """The note as a voice writes it."""
        return self.kind.write(voice, **self.values)

    def __str__(self) -> str:
        return self.say(PYTHON)

    def __repr__(self) -> str:
        """The text, so that a tuple of notes can be read."""
        return f"<{self.code}: {self}>"

    def __hash__(self) -> int:
        return hash((self.code, tuple(sorted((name, repr(value)) for name, value in self.values.items()))))

    def as_dict(self, voice: Voice = PYTHON) -> dict[str, Any]:
        """Code, numbers and text, ready for JSON."""
        nested = {name: each.as_dict(voice) if isinstance(each, Note) else each for name, each in self.values.items()}
        return {"code": self.code, "text": self.say(voice), **nested}


@overload
def note(code: str) -> Callable[[Callable[Concatenate[Voice, P], str]], NoteKind[P]]: ...


@overload
def note(code: str, template: str) -> NoteKind[...]: ...


def note(code: str, template: str | None = None) -> Any:
    """Turn a function that writes a sentence from a voice and numbers into a :class:`NoteKind`, which makes the notes.

    A text without conditions can be given as a template with the numbers and the :class:`Nouns`. Notes are pickled by
    the name of their kind in its module.

    Examples
    --------
    >>> @note("rows-dropped")
    ... def rows_dropped(voice: Voice, n: int) -> str:
    ...     return f"{n:,} {voice.nouns.rows} were dropped"
    >>> found = rows_dropped(n=1200)
    >>> found.code, found.values["n"], str(found)
    ('rows-dropped', 1200, '1,200 rows were dropped')
    >>> (found,)
    (<rows-dropped: 1,200 rows were dropped>,)
    >>> print(note("rows-doubled", "{n:,} {nouns.rows} are there twice")(7))
    7 rows are there twice
    """
    if template is None:
        return lambda write: NoteKind(code, write, inspect.getfullargspec(write).args[1:])

    def write(voice: Voice, /, **values: Any) -> str:
        return template.format(nouns=voice.nouns, **values)

    write.__doc__ = template
    write.__module__ = sys._getframe(1).f_globals["__name__"]
    fields = [field for _, field, _, _ in Formatter().parse(template) if field and not field.startswith("nouns.")]
    return NoteKind(code, write, list(dict.fromkeys(fields)))


# ------------------------------------------------------------------------------------------------------------- warnings


class CalibrantWarning(UserWarning):
    """Warning: Calibrant guessed something, or the input looks like a mistake; ``note.code`` says which."""

    def __init__(self, note: Note) -> None:
        super().__init__(note)
        self.note = note

    def __str__(self) -> str:
        return str(self.note)


def warn(message: Note) -> None:
    """Issue a warning that points at the first caller outside the package, so that users see their own line."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "calibrant":
        frame, level = frame.f_back, level + 1
    warnings.warn(CalibrantWarning(message), stacklevel=level)


# --------------------------------------------------------------------------------------------------------------- words


def count_text(value: float) -> str:
    """A count with separators; a sum of weights with four digits, or as an integer from 1,000 up.

    Examples
    --------
    >>> count_text(1_234_567.0), count_text(6285.48739356), count_text(12.5), count_text(0.123456)
    ('1,234,567', '6,285', '12.5', '0.1235')
    """
    return f"{value:,.0f}" if value == round(value) or value >= 1000.0 else f"{value:.4g}"


def plural(count: float, noun: str, nouns: str | None = None, *, shown: str | None = None) -> str:
    """A count with its noun; ``shown`` is the count as text, for example rounded.

    Examples
    --------
    >>> plural(1, "row"), plural(1200, "row"), plural(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    if shown is None:
        shown = count_text(count) if isinstance(count, float) else f"{count:,}"
    return f"{shown} {noun if count == 1 else nouns or noun + 's'}"


def first_line(error: Exception) -> str:
    r"""The first line of an error message of another library.

    Examples
    --------
    >>> first_line(ValueError("no such table\nCandidates: t"))
    'no such table'
    """
    return next(iter(str(error).strip().splitlines()), "")


def listed(words: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Words as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "or")
    ('a', 'a and b', 'a, b or c')
    """
    return f" {last} ".join([", ".join(words[:-1])] * (len(words) > 1) + list(words[-1:]))
