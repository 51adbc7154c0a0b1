"""Credit risk: rating grades, low-default portfolios, anchoring, master scales, and figures of a validation."""

from calibrant.credit.factor import VasicekTest, vasicek_test
from calibrant.credit.grades import GradeTable, grade_table
from calibrant.credit.low_default import pluto_tasche
from calibrant.credit.panel import GradePanel, GradePart, grade_panel

__all__ = [
    "GradePanel",
    "GradePart",
    "GradeTable",
    "VasicekTest",
    "grade_panel",
    "grade_table",
    "pluto_tasche",
    "vasicek_test",
]
