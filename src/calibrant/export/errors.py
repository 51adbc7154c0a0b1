"""Errors of documents and exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.messages import InputError, Setting, first_line


class DocumentError(ValueError):
    """The document was not written by Calibrant, or is damaged.

    Attributes
    ----------
    where
        The file, or the place in the document: ``map.knots[3]``.
    problem
        The problem, in words.
    file
        Name of the file, if it was read from one.
    """

    def __init__(self, where: object, problem: str, file: str = "") -> None:
        super().__init__(where, problem, file)
        self.where, self.problem, self.file = str(where), problem, file

    @property
    def sentence(self) -> str:
        """Place and problem in one sentence, without the file."""
        return f"{self.where} {self.problem}"

    def __str__(self) -> str:
        """File, place and problem in one sentence."""
        return f"{self.file}: {self.sentence}" if self.file else self.sentence


class ExportMismatchError(ValueError):
    """The export gives other results than the map, so it was not written."""


@contextmanager
def own_errors(what: str | Setting, kind: type[ValueError] = DocumentError) -> Iterator[None]:
    """Convert errors of the local engine, which can only come from the export."""
    try:
        yield
    except (ExportMismatchError, InputError, DocumentError):
        raise
    except Exception as problem:
        raise kind(what, f"cannot be run ({type(problem).__name__}: {first_line(problem)})") from None
