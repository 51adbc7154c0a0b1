"""Calibration reports as HTML, Markdown or JSON, in three styles."""

from calibrant.reporting.document import Report, report

__all__ = ["Report", "report"]
