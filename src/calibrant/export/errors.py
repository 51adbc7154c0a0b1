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
    """

    def __init__(self, where: object, problem: str) -> None:
        super().__init__(where, problem)
        self.where, self.problem = str(where), problem

    def __str__(self) -> str:
        """Place and problem in one sentence."""
        return f"{self.where} {self.problem}"


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
