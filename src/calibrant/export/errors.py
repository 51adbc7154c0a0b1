"""What is wrong with a document or an export."""

from __future__ import annotations


class DocumentError(ValueError):
    """The document is not one that Calibrant wrote, or it was damaged."""


class ParityError(ValueError):
    """The export does not give what the map gives, so it was not written."""
