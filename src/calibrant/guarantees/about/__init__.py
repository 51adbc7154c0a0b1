"""What a certificate can be about: bins of one score or of classes, regions of the simplex, nodes, leaves of trees."""

from __future__ import annotations

from calibrant.guarantees.about.classes import MulticlassBins
from calibrant.guarantees.about.paths import PathNodes
from calibrant.guarantees.about.regions import Regions
from calibrant.guarantees.about.scores import ScoreBins, WeightedBins
from calibrant.guarantees.about.trees import ClassLeaves, TreeLeaves
from calibrant.guarantees.certificate import About

ABOUT: dict[str, type[About]] = {
    each.key: each for each in (ScoreBins, WeightedBins, MulticlassBins, Regions, PathNodes, TreeLeaves, ClassLeaves)
}
"""What a certificate can be about, by its name in documents."""

__all__ = ["ABOUT", "ClassLeaves", "MulticlassBins", "PathNodes", "Regions", "ScoreBins", "TreeLeaves", "WeightedBins"]
