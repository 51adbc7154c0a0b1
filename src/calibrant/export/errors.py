"""What is wrong with a document or an export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.messages import InputError, Setting, first_line


class DocumentError(ValueError):
    """The document is not one that Calibrant wrote, or it was damaged.

    Attributes
    ----------
    where
        The file, or the place in the document: ``map.knots[3]``.
    problem
        What is wrong with it.
    """

    def __init__(self, where: object, problem: str) -> None:
        super().__init__(where, problem)
        self.where, self.problem = str(where), problem

    def __str__(self) -> str:
        """Both in one sentence."""
        return f"{self.where} {self.problem}"


class ParityError(ValueError):
    """The export does not give what the map gives, so it was not written."""


@contextmanager
def own_errors(what: str | Setting, kind: type[ValueError] = DocumentError) -> Iterator[None]:
    """On the engine at hand, errors are about the export and nothing else."""
    try:
        yield
    except (ParityError, InputError, DocumentError):
        raise
    except Exception as problem:
        raise kind(what, f"cannot be run ({type(problem).__name__}: {first_line(problem)})") from None
