"""A certificate that was edited in its document is refused: its intervals must follow from its own counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant.calibration import Calibration
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.hierarchy import PathCalibrator
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.export.errors import DocumentError
from calibrant.guarantees.auditing import supported
from calibrant.guarantees.bounds import BOUNDS, log_tail
from calibrant.tallies import Tally

Document = dict[str, Any]
NEWS = {"top": None, "a": "top", "b": "top", "c": None}


def scored(n: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**2).astype(int)


def classed(n: int = 2_000, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.full(classes, 2.0), n)
    return p, np.array(list("abcdefghijkl"))[(p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)]


def binary(**asked: Any) -> Document:
    cal = HistogramBinning(5, strategy="width").fit(*scored())
    return as_document(Calibration(cal.map_, cal.provenance_, cal.certificate(**asked)))


def as_document(calibration: Any) -> Document:
    found: Document = json.loads(calibration.to_json())
    return found


def read_again(document: Document) -> Any:
    return Calibration.from_json(json.dumps(document))


def refused(document: Document) -> bool:
    try:
        read_again(document)
    except DocumentError:
        return True
    return False


def widened(certificate: Document, factor: float) -> None:
    """Intervals moved towards the outputs, or away from them, and epsilon with them."""
    outputs, promised = np.array(certificate["outputs"]), np.array(certificate["rows"]) > 0
    for end in ("lower", "upper"):
        moved = np.where(
            promised, np.clip(outputs + factor * (np.array(certificate[end]) - outputs), 0, 1), certificate[end]
        )
        certificate[end] = moved.tolist()
    halves = np.maximum(outputs - certificate["lower"], np.array(certificate["upper"]) - outputs)
    certificate["epsilon"] = float(halves[promised].max())


# ----------------------------------------------------------------------------------------------------------------------
# One score
# ----------------------------------------------------------------------------------------------------------------------


def alpha_alone(document: Document) -> None:
    document["certificate"]["alpha"] = 0.01


def narrower_intervals(document: Document) -> None:
    widened(document["certificate"], 0.8)


def one_interval(document: Document) -> None:
    certificate = document["certificate"]
    certificate["lower"][1] = min(certificate["lower"][1] + 0.01, certificate["outputs"][1])


def alpha_and_widths(document: Document) -> None:
    """Intervals of 70 % under the name of 95 %."""
    certificate = document["certificate"]
    bins = int((np.array(certificate["rows"]) > 0).sum())
    ends = BOUNDS["clopper-pearson"](certificate["events"], certificate["rows"], 0.3 / bins)
    certificate["lower"], certificate["upper"] = (end.tolist() for end in ends)
    certificate["alpha"] = 0.05
    widened(certificate, 1.0)


def fewer_events(document: Document) -> None:
    document["certificate"]["events"][2] -= 20


def more_rows_in_a_bin(document: Document) -> None:
    certificate = document["certificate"]
    certificate["rows"][1] *= 3
    certificate["events"][1] *= 3
    certificate["n"] = sum(certificate["rows"])
    document["provenance"]["n"] = certificate["n"] + certificate["about"]["uncovered_rows"]


def more_rows_than_there_were(document: Document) -> None:
    """Ten times the counts, with their own intervals: they follow, but the provenance knows of fewer rows."""
    certificate = document["certificate"]
    for name in ("rows", "events"):
        certificate[name] = [10 * count for count in certificate[name]]
    certificate["n"] = sum(certificate["rows"])
    ends = BOUNDS["clopper-pearson"](certificate["events"], certificate["rows"], 0.1 / 5)
    certificate["lower"], certificate["upper"] = (end.tolist() for end in ends)
    widened(certificate, 1.0)


def more_events_than_there_were(document: Document) -> None:
    document["provenance"]["events"] = sum(document["certificate"]["events"]) - 1


def fewer_non_events_than_there_were(document: Document) -> None:
    document["provenance"]["events"] = document["provenance"]["n"]


def grouped_rows(document: Document) -> None:
    document["provenance"]["sampling"] = "grouped"


def importance_weights(document: Document) -> None:
    document["provenance"]["weight_type"] = "importance"


EDITS: list[Callable[[Document], None]] = [
    alpha_alone,
    narrower_intervals,
    one_interval,
    alpha_and_widths,
    fewer_events,
    more_rows_in_a_bin,
    more_rows_than_there_were,
    more_events_than_there_were,
    fewer_non_events_than_there_were,
    grouped_rows,
    importance_weights,
]


def test_an_edited_certificate_is_refused(subtests: pytest.Subtests) -> None:
    for edit in EDITS:
        with subtests.test(edit.__name__):
            document = binary()
            assert not refused(document)
            edit(document)
            assert refused(document)


def test_alpha_that_paid_for_a_choice_is_not_spent_twice() -> None:
    scores, y = scored()
    cal = calibrant.calibrate(scores, y, guarantee=(0.2, 0.1))
    document = as_document(Calibration(cal.map_, cal.provenance_, cal.certificate()))
    assert document["certificate"]["about"]["share"] < 1.0
    assert not refused(document)
    document["certificate"]["about"]["share"] /= 2.0
    assert refused(document)


def test_a_certificate_of_rows_sampled_by_class_says_at_which_odds() -> None:
    scores, y = scored()
    cal = HistogramBinning(5, strategy="width").fit(scores, y, np.where(y == 1, 1.0, 20.0), weight_type="by-class")
    document = as_document(Calibration(cal.map_, cal.provenance_, cal.certificate()))
    assert document["certificate"]["about"]["odds"] == pytest.approx(0.05)
    assert not refused(document)
    document["certificate"]["about"]["odds"] = 0.06
    assert refused(document)


def test_a_promise_about_one_new_row_does_not_become_one_about_all_bins() -> None:
    document = binary(coverage="marginal")
    document["certificate"]["coverage"] = "simultaneous"
    assert refused(document)


def test_intervals_are_those_of_the_bound_that_is_named(subtests: pytest.Subtests) -> None:
    """Another name is believed only where its intervals would have been no wider."""
    for named in BOUNDS:
        for made in BOUNDS:
            with subtests.test(named=named, made=made):
                document = binary(interval=made)
                document["certificate"]["interval"] = named
                certificate = document["certificate"]
                low, high = BOUNDS[named](certificate["events"], certificate["rows"], 0.1 / 5)
                wider = (np.array(certificate["lower"]) <= low + 1e-12).all() and (
                    np.array(certificate["upper"]) >= high - 1e-12
                ).all()
                assert refused(document) != wider


def test_less_than_was_shown_may_be_promised() -> None:
    """Wider intervals and a larger alpha are true where the others were."""
    document = binary()
    widened(document["certificate"], 1.1)
    document["certificate"]["alpha"] = 0.2
    assert not refused(document)


def test_bins_that_rows_chose_are_not_promised_for_ever() -> None:
    cal = HistogramBinning(5).fit(*scored())
    document = as_document(cal.calibration_)
    certificate = document["certificate"]
    ends = BOUNDS["always-valid"](certificate["events"], certificate["rows"], 0.1 / len(certificate["rows"]))
    certificate["lower"], certificate["upper"] = (end.tolist() for end in ends)
    widened(certificate, 1.0)
    certificate["interval"] = "always-valid"
    assert refused(document)


def test_what_was_issued_is_read_again(subtests: pytest.Subtests) -> None:
    """Bins without a row, of nothing but events, of one event, at every size."""
    for bound in BOUNDS:
        for mode in ["simultaneous", "marginal"]:
            for alpha in [0.9, 0.1, 1e-9, 1e-100]:
                for size in [1, 10**3, 10**6, 10**9, 10**12]:
                    with subtests.test(bound=bound, mode=mode, alpha=alpha, size=size):
                        n = np.array([3, 1, 0, 5, 7, 9]) * size
                        tally = Tally.from_table(
                            n, [0, size, 0, 1, 3 * size, 9 * size - 1], edges=[0.1, 0.2, 0.3, 0.4, 0.5]
                        )
                        cal = HistogramBinning().fit_tally(tally)
                        promise = cal.certificate(alpha, interval=bound, coverage=mode)
                        assert not refused(as_document(Calibration(cal.map_, cal.provenance_, promise)))


def test_a_file_on_disk_is_refused_by_load(tmp_path: Path) -> None:
    document = binary()
    alpha_and_widths(document)
    (tmp_path / "map.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match="do not follow from its counts"):
        calibrant.load(tmp_path / "map.json")


# ----------------------------------------------------------------------------------------------------------------------
# Several classes
# ----------------------------------------------------------------------------------------------------------------------

SIMPLEX: dict[str, Callable[[], Any]] = {
    "projection": lambda: SimplexBinning(n_bins=5).fit(*classed()),
    "grid": lambda: SimplexBinning("grid", cells=2).fit(*classed()),
    "twelve classes": lambda: SimplexBinning(n_bins=2).fit(*classed(4_000, 12)),
}
BY_CLASS: dict[str, Callable[[], Any]] = {
    "top-label": lambda: TopLabelHistogramBinning(100).fit(*classed()),
    "class-wise": lambda: ClasswiseHistogramBinning(200).fit(*classed()),
    "part": lambda: TopLabelHistogramBinning(100, bins_from="split").fit(*classed()),
}


def paths() -> Any:
    return PathCalibrator(NEWS, n_bins=4).fit(*classed(), classes=["a", "b", "c"])


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
@pytest.mark.parametrize("name", BY_CLASS)
def test_the_parts_of_a_certificate_of_classes_follow_from_their_counts(name: str) -> None:
    made = BY_CLASS[name]().calibration_
    document = as_document(made)
    assert not refused(document)
    _alpha_halved(document["certificate"])
    assert refused(document)
    for part in range(3):
        document = as_document(made)
        certificate, at = document["certificate"], made.certificate.about.slices[part]
        narrow = json.loads(json.dumps(certificate))
        widened(narrow, 0.9)
        for end in ("lower", "upper"):
            certificate[end][at] = narrow[end][at]
        widened(certificate, 1.0)
        assert refused(document)


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
@pytest.mark.parametrize("name", BY_CLASS)
def test_a_part_of_a_certificate_of_classes_has_no_alpha_of_its_own(name: str) -> None:
    """Levels follow from the numbers of claims, classes and bins: a part cannot claim more of alpha, nor other rows."""
    made = BY_CLASS[name]().calibration_
    for field, value in {"share": 0.5, "odds": 0.5}.items():
        document = as_document(made)
        document["certificate"]["about"]["parts"][0][field] = value
        assert refused(document)
    document = as_document(made)
    document["certificate"]["about"]["k"] = 1
    assert refused(document)


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
@pytest.mark.parametrize("mode", ["simultaneous", "marginal"])
@pytest.mark.parametrize("name", SIMPLEX)
def test_a_certificate_of_regions_follows_from_its_counts(name: str, mode: Any) -> None:
    cal = SIMPLEX[name]()
    made = calibrant.Calibration(cal.map_, cal.provenance_, cal.certificate(coverage=mode))
    assert not refused(as_document(made))
    for edit in (_alpha_halved, _regions_narrowed, _classes_narrowed, _rows_of_a_class_moved):
        document = as_document(made)
        edit(document["certificate"])
        assert refused(document), edit.__name__
    if mode == "marginal":
        document = as_document(made)
        document["certificate"]["coverage"] = "simultaneous"
        assert refused(document)


def _alpha_halved(certificate: Document) -> None:
    certificate["alpha"] /= 2


def _regions_narrowed(certificate: Document) -> None:
    """All classes together, by as much as the intervals of single classes allow."""
    about = certificate["about"]
    outputs = np.array(about["map"]["table"]).reshape(len(about["distances"]), -1)
    ends = (np.array(certificate[end]).reshape(outputs.shape) for end in ("lower", "upper"))
    lower, upper = ends
    widths = 2.0 * np.maximum(outputs - lower, upper - outputs).max(axis=1)
    shrunk = np.maximum(widths, 0.9 * np.array(about["distances"]))
    if not (shrunk < np.array(about["distances"]) - 1e-6).any():  # three classes: their sets are the classes
        _alpha_halved(certificate)
    promised = np.array(certificate["rows"]).reshape(outputs.shape)[:, 0] > 0
    about["distances"] = np.where(promised, shrunk, 2.0).tolist()
    certificate["epsilon"] = float(shrunk[promised].max())


def _classes_narrowed(certificate: Document) -> None:
    place = int(np.argmax(np.array(certificate["events"])))
    certificate["lower"][place] += 0.2 * (certificate["about"]["map"]["table"][place] - certificate["lower"][place])


def _rows_of_a_class_moved(certificate: Document) -> None:
    counts = np.array(certificate["events"])
    place = int(np.argmax(counts))
    classes = len(counts) // len(certificate["about"]["distances"])
    other = place + 1 if place % classes == 0 else place - 1
    counts[[place, other]] = counts[[place, other]] + np.array([-30, 30])
    certificate["events"] = counts.tolist()


def test_a_projection_is_not_promised_for_ever() -> None:
    document = as_document(SIMPLEX["projection"]().calibration_)
    document["certificate"]["interval"] = "always-valid"
    for name, end in (("lower", 0.0), ("upper", 1.0)):
        document["certificate"][name] = [end] * len(document["certificate"][name])
    distances = document["certificate"]["about"]["distances"]
    document["certificate"]["about"]["distances"] = [2.0] * len(distances)
    document["certificate"]["epsilon"] = 2.0
    assert refused(document)


def test_a_certificate_of_paths_follows_from_its_counts(subtests: pytest.Subtests) -> None:
    for mode in ["simultaneous", "marginal"]:
        with subtests.test(mode=mode):
            cal = paths()
            made = calibrant.Calibration(cal.map_, cal.provenance_, cal.certificate(coverage=mode))
            assert not refused(as_document(made))
            document = as_document(made)
            document["certificate"]["alpha"] /= 2
            assert refused(document)
            document = as_document(made)
            certificate = document["certificate"]
            place = int(np.argmax(np.array(certificate["events"])))
            certificate["lower"][place] += 0.5 * (
                certificate["about"]["map"]["rates"][place] - certificate["lower"][place]
            )
            assert refused(document)
            if mode == "marginal":
                document = as_document(made)
                document["certificate"]["coverage"] = "simultaneous"
                assert refused(document)


# ----------------------------------------------------------------------------------------------------------------------
# The inequality that is checked
# ----------------------------------------------------------------------------------------------------------------------


def test_tails_are_those_of_the_binomial_law() -> None:
    rng = np.random.default_rng(6)
    for n in (1, 2, 7, 100, 10**4, 10**6):
        k = np.unique(np.append(rng.integers(1, n + 1, 30), [1, n])).astype(np.float64)
        p = k / n * rng.random(len(k))
        exact = stats.binom.logsf(k - 1, n, p)
        kept = exact > -600.0  # scipy's own logarithm ends there
        np.testing.assert_allclose(log_tail(k, np.full(len(k), float(n)), p)[kept], exact[kept], rtol=1e-11, atol=1e-9)


def test_ends_that_are_off_by_a_thousandth_of_the_width_are_seen(subtests: pytest.Subtests) -> None:
    for bound in BOUNDS:
        with subtests.test(bound=bound):
            n = np.repeat([1, 5, 40, 1_000, 10**6], 4)
            k = (n * np.tile([0.0, 0.01, 0.5, 1.0], 5)).round().astype(int)
            low, high = BOUNDS[bound](k, n, 0.02)
            assert supported(bound, k, n, 0.02, low, high)
            for j in range(len(n)):
                for ends in ((low, 0.001), (high, -0.001)):
                    moved = [low.copy(), high.copy()]
                    place = 0 if ends[0] is low else 1
                    moved[place][j] += ends[1] * (high[j] - low[j])
                    inside = moved[place][j] <= k[j] / n[j] if place == 0 else moved[place][j] >= k[j] / n[j]
                    assert not supported(bound, k, n, 0.02, *moved), (k[j], n[j], place, inside)


def test_an_interval_beside_its_own_share_is_refused_without_a_warning(subtests: pytest.Subtests) -> None:
    for lower in [0.9, 1.0, 0.999999]:
        with subtests.test(lower=lower):
            assert not supported("clopper-pearson", [100], [10_000], 0.1, np.array([lower]), np.array([1.0]))


def test_a_certificate_of_a_tree_needs_the_provenance_of_its_rows() -> None:
    """Without it nothing says how many other rows chose the splits."""
    document = json.loads((Path(__file__).parent / "golden/v1/fitted.tree-honest.json").read_text())
    assert not refused(document)
    assert refused(document | {"provenance": None})
