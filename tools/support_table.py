"""Write the table of what each calibrator can do, by trying it on small data.

python tools/support_table.py docs/reference/support.md
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant.messages import MissingPackage

COLUMNS = ("one score", "several classes", "weights", "by", "groups", "tally", "SQL", "ONNX", "certificate")

# Options with which some methods can do more.
OPTIONS = {"guarantee": (0.5, 0.1), "outcomes": True}

# What Python and scikit-learn's rules for classifiers say where a method does not take something.
REFUSALS = ("unexpected keyword argument", "Only binary classification is supported")

HEAD = """# What each method can do

Written by `tools/support_table.py`, which tries each of these on small data when the site is built: "yes" means that it
worked with default options, "with ..." that it needs this option, "no" that it was refused.

| column | what was tried |
|---|---|
| one score | probabilities of one event; for classifiers, a model with two classes |
| several classes | a matrix of scores with one column for each class |
| weights | `fit(..., sample_weight=...)`. With importance weights no certificate is issued |
| by | a different map for each segment of a column: `fit(..., by=...)` |
| groups | `fit(..., groups=...)`: rows that depend on each other. The fit is made; a certificate is not |
| tally | `fit_tally(tally)`: from counts alone, so also from DuckDB, Spark and merged days |
| SQL | `to_sql(...)` |
| ONNX | `to_onnx()` |
| certificate | `certificate()` after a fit to independent rows: a finite-sample guarantee, or none |

For segments use `SegmentCalibrator` or `calibrate(..., by=...)`, which holds any of the methods for one score.
`calibrate` takes whichever of these applies. `MultilabelCalibrator` fits one calibrator to each label: what that
calibrator can do, each label can.

"""


@dataclass(frozen=True)
class Sample:
    """Scores of one event, rows of three classes, and features; 600 of each."""

    scores: np.ndarray
    events: np.ndarray
    matrix: np.ndarray
    classes: np.ndarray
    features: np.ndarray
    segments: np.ndarray
    weights: np.ndarray


def sample() -> Sample:
    """Small data that every method can be fitted to."""
    rng = np.random.default_rng(0)
    scores = rng.random(600)
    matrix = rng.dirichlet([1.0, 1.0, 1.0], 600)
    names = np.array(["ant", "bee", "cat"])
    return Sample(
        scores,
        (rng.random(600) < 0.2 + 0.6 * scores).astype(int),
        matrix,
        names[[rng.choice(3, p=0.6 * row + 0.4 / 3) for row in matrix]],
        np.column_stack([np.log(scores / (1 - scores)), rng.normal(size=600)]),
        np.array(["north", "south"])[rng.integers(0, 2, 600)],
        rng.integers(1, 4, 600).astype(float),
    )


def methods() -> dict[str, type[Any]]:
    """Public calibrators by the name under which they are documented."""
    found: dict[str, type[Any]] = {}
    for namespace in (cb, getattr(cb, "multiclass", None), getattr(cb, "calibrators", None)):
        for name in getattr(namespace, "__all__", ()):
            value = getattr(namespace, name)
            known = value in found.values()
            if isinstance(value, type) and issubclass(value, BaseEstimator) and not known and hasattr(value, "fit"):
                if name == "MultilabelCalibrator" or getattr(value, "__abstractmethods__", None):
                    continue
                found[f"{namespace.__name__}.{name}"] = value
    return dict(sorted(found.items(), key=lambda item: item[0].rpartition(".")[2].lower()))


@dataclass(frozen=True)
class Row:
    """What was found about one calibrator."""

    name: str
    cells: dict[str, str]


def rows() -> list[Row]:
    """Every calibrator, tried."""
    data = sample()
    return [try_all(name, cls, data) for name, cls in methods().items()]


def try_all(name: str, cls: type[Any], data: Sample) -> Row:
    """What one calibrator can do with its default options, or else with another option."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data are small on purpose
        usual, *others = [_try(recipe, data) for recipe in recipes(cls, data)]
    cells = dict(usual.cells)
    for other in others:
        cells |= {column: other.words for column in COLUMNS if cells[column] == "no" and other.cells[column] != "no"}
    return Row(name, cells)


@dataclass(frozen=True)
class Recipe:
    """How to make a calibrator, what to fit it to, further arguments of the fit, and the option in words."""

    make: Callable[[], Any]
    scores: Any
    labels: Any
    extra: dict[str, Any]
    words: str = "yes"


@dataclass(frozen=True)
class Tried:
    """What was found with one recipe."""

    cells: dict[str, str]
    words: str


def _try(recipe: Recipe, data: Sample) -> Tried:
    def fitted(**options: Any) -> Any:
        return recipe.make().fit(recipe.scores, recipe.labels, **recipe.extra, **options)

    cal = fitted()
    cells = {
        "one score": "no" if "classes" in recipe.extra else "yes",
        "several classes": _several(recipe, data),
        "weights": _yes(lambda: fitted(sample_weight=data.weights)),
        "by": "yes" if "by" in recipe.extra else _yes(lambda: fitted(by=data.segments)),
        "groups": _yes(lambda: fitted(groups=np.arange(600) // 2)),
        "tally": _yes(lambda: recipe.make().fit_tally(cb.Tally.from_arrays(data.scores, data.events))),
        "SQL": _yes(lambda: _sql(cal)),
        "ONNX": _yes(lambda: _exporter(cal).to_onnx()),
        "certificate": "yes" if isinstance(cal.certificate(), cb.Certificate) else "no",
    }
    return Tried(cells, recipe.words)


def text() -> str:
    """The page."""
    lines = ["| method | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in rows():
        link = f"{{py:class}}`{row.name.rpartition('.')[2]} <{row.name}>`"
        lines.append(f"| {link} | " + " | ".join(row.cells[column] for column in COLUMNS) + " |")
    return HEAD + "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """Write the page where it changed."""
    page = text()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


def recipes(cls: type[Any], data: Sample) -> list[Recipe]:
    """The default options first, then others that can do more."""
    three = {"classes": ["ant", "bee", "cat"]}
    if issubclass(cls, ClassifierMixin):
        model = LogisticRegression().fit(data.features[:300], data.events[:300])
        if "calibrator" not in signature(cls).parameters:
            return [Recipe(lambda: cls(model), data.features, data.events, {})]
        return [
            Recipe(lambda: cls(model, cb.PlattScaling()), data.features, data.events, {}),
            Recipe(
                lambda: cls(model, cb.HistogramBinning()), data.features, data.events, {}, "with `HistogramBinning`"
            ),
        ]
    if cls.__name__ == "PathCalibrator":
        tree = _taxonomy()({"insect": None, "ant": "insect", "bee": "insect", "cat": None})
        return [Recipe(lambda: cls(tree), data.matrix, data.classes, three)]
    by = {"by": data.segments}
    if cls.__name__ == "SegmentCalibrator":
        return [Recipe(cls, data.scores, data.events, by)]
    if cls.__name__ == "MulticlassSegmentCalibrator":
        return [Recipe(cls, data.matrix, data.classes, {**three, **by})]
    if "features" in signature(cls.fit).parameters:
        return [Recipe(cls, data.scores, data.events, {"features": data.features})]
    try:
        cls().fit(data.scores, data.events)
    except (cb.InputError, TypeError):
        return [Recipe(cls, data.matrix, data.classes, three)]
    usual = Recipe(cls, data.scores, data.events, {})
    taken = signature(cls).parameters
    return [usual, *(_with(usual, cls, name, value) for name, value in OPTIONS.items() if name in taken)]


def _with(usual: Recipe, cls: type[Any], name: str, value: Any) -> Recipe:
    return replace(usual, make=lambda: cls(**{name: value}), words=f"with `{name}=`")


def _taxonomy() -> Any:
    return getattr(cb, "multiclass", cb).Taxonomy


def _yes(attempt: Callable[[], object]) -> str:
    """Whether it can be done; what is missing or refused by the method is a no, anything else is a mistake here."""
    try:
        attempt()
    except MissingPackage:
        raise
    except (cb.InputError, AttributeError, NotImplementedError):
        return "no"
    except (TypeError, ValueError) as error:
        if not any(words in str(error) for words in REFUSALS):
            raise
        return "no"
    return "yes"


def _exporter(cal: Any) -> Any:
    return cal if hasattr(cal, "to_sql") else cal.calibrator_


def _sql(cal: Any) -> object:
    exporter = _exporter(cal)
    columns = {name: f"p_{name}" for name in ("ant", "bee", "cat")} if _of_classes(cal) else "score"
    return exporter.to_sql(columns, dialect="sqlite")


def _of_classes(cal: Any) -> bool:
    return bool(getattr(cal, "_of_classes", False))


def _several(recipe: Recipe, data: Sample) -> str:
    made = recipe.make()
    if isinstance(made, ClassifierMixin):  # without a calibrator of one score
        model = LogisticRegression().fit(data.features[:300], data.classes[:300])
        return _yes(lambda: type(made)(model).fit(data.features, data.classes))
    by = {name: value for name, value in recipe.extra.items() if name != "classes"}
    return _yes(lambda: recipe.make().fit(data.matrix, data.classes, classes=["ant", "bee", "cat"], **by))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
