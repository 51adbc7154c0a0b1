"""What the statements of a certificate are about: bins of a score or of classes, regions, nodes of paths."""

from __future__ import annotations

from calibrant.guarantees.about.classes import ClassBins
from calibrant.guarantees.about.paths import PathNodes
from calibrant.guarantees.about.regions import Regions
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import About

ABOUT: dict[str, type[About]] = {each.key: each for each in (ScoreBins, ClassBins, Regions, PathNodes)}
"""What a certificate can be about, by the name that it goes by in documents."""

__all__ = ["ABOUT", "ClassBins", "PathNodes", "Regions", "ScoreBins"]
