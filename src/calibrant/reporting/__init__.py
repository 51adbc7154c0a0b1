"""The verdict and everything behind it as one page to hand on: HTML, Markdown or JSON, in three styles."""

from calibrant.reporting.document import Report, report

__all__ = ["Report", "report"]
