"""Credit risk: rating grades, low-default portfolios, anchoring, master scales, and figures of a validation."""

from calibrant.credit.anchoring import Anchored, LongRunAverage, anchor, long_run_average
from calibrant.credit.factor import VasicekTest, vasicek_test
from calibrant.credit.grades import GradeTable, grade_table
from calibrant.credit.low_default import pluto_tasche
from calibrant.credit.panel import GradePanel, GradePart, grade_panel
from calibrant.credit.ranking import accuracy_ratio, accuracy_ratio_change
from calibrant.credit.scales import MasterScale, master_scale
from calibrant.credit.stability import Concentration, Migration, Stability, concentration, migration_matrix, psi
from calibrant.messages import public_names

__all__ = [
    "Anchored",
    "Concentration",
    "GradePanel",
    "GradePart",
    "GradeTable",
    "LongRunAverage",
    "MasterScale",
    "Migration",
    "Stability",
    "VasicekTest",
    "accuracy_ratio",
    "accuracy_ratio_change",
    "anchor",
    "concentration",
    "grade_panel",
    "grade_table",
    "long_run_average",
    "master_scale",
    "migration_matrix",
    "pluto_tasche",
    "psi",
    "vasicek_test",
]

__dir__ = public_names(__all__)
