"""The report: the same numbers in every style and form, a page that needs nothing, and nobody's text run as markup."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from html import escape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.credit import accuracy_ratio, accuracy_ratio_change, migration_matrix, psi
from calibrant.displays import rates
from calibrant.displays.segments import SegmentsDisplay
from calibrant.messages import InputError
from calibrant.notebook import GREEN
from calibrant.reporting import Report, contents, report
from calibrant.reporting.blocks import Bullets, Headline, Mark, Picture
from calibrant.reporting.contents import _thresholds
from calibrant.reporting.credit import STEPS
from calibrant.reporting.page import write_html
from calibrant.reporting.sections import PARTS, sections
from calibrant.reporting.styles import STYLES
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict import check

NASTY = "<script>alert('x')</script> & \"quoted\" | {rows} [a](b) *c*"


def rows(n=600, seed=0, power=0.8):
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 5, size=n)
    return scores, (rng.random(n) < scores**power).astype(int)


@pytest.fixture(scope="module", autouse=True)
def few_samples():
    """Fewer simulations than a report makes: what is asserted here does not depend on their number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "BOOTSTRAP_SAMPLES", 20)
        patch.setattr(rates, "DRAWS", 50)
        yield


@pytest.fixture(scope="module")
def full():
    """A report with every part in it."""
    scores, y = rows()
    place = np.arange(len(y))
    return report(scores, y, by={"site": place % 3, NASTY: np.where(place % 2, NASTY, "plain")}, time=place // 10)


def in_style(made, style):
    return Report(STYLES[style].title, style, made.contents, made.display)


class Page(HTMLParser):
    """Tags and cells of a page; fails on tags that are not closed in order."""

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.cells.append(data)

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def pages(full):
    """The full report as a page, by style."""
    pytest.importorskip("matplotlib")
    return {style: in_style(full, style).to_html() for style in STYLES}


def without_picture(made):
    """The page, with nothing drawn in the place of its picture."""
    style = made._style
    return write_html(made.title, made.subtitle, sections(made.contents, style), lambda picture: "<svg></svg>")


# ----------------------------------------------------------------------------------------------------------------------
# Numbers
# ----------------------------------------------------------------------------------------------------------------------


OPTIONAL = {"classes", "about", "change", "bounds", "context", "grades"}
"""Sections that need more than scores and labels, or that one style alone shows."""


def test_all_styles_hold_the_same_numbers():
    scores, y = rows(200)
    made = [report(scores, y, style=style).to_dict() for style in STYLES]
    for one in made:
        del one["title"], one["style"]
    assert all(one == made[0] for one in made)


def test_all_styles_show_the_same_figures(full):
    def figures(style, without=()):
        parts = [part for part in sections(full.contents, STYLES[style]) if part.key not in without]
        cells = [
            str(cell) for part in parts for block in part.blocks for row in getattr(block, "rows", ()) for cell in row
        ]
        return Counter(cell for cell in cells if re.fullmatch(r"[-+<]?[\d., %to]+", cell))

    assert sum(figures("general").values()) > 200
    assert figures("general") == figures("credit", {"grades"}) == figures("clinical") == figures("llm")


def test_every_style_shows_every_part_in_its_own_order(full):
    orders = [[part.key for part in sections(full.contents, style)] for style in STYLES.values()]
    of_one_score = [part for part in PARTS if part not in OPTIONAL]
    for order in orders:
        assert sorted(key for key in order if key not in OPTIONAL) == sorted(of_one_score)
    assert orders[0] == of_one_score
    assert len(set(map(tuple, orders))) == len(STYLES)
    for style in STYLES.values():
        assert set(style.headings) | set(style.first) | set(style.last) <= set(PARTS)


def test_groups_of_few_scores_by_hand():
    # 50 rows at 0.2 with 10 events, 50 rows at 0.6 with 45: predicted 10 and 30. Clopper-Pearson of 45 of 50 at 95 % is
    # 0.7819 to 0.9667 (beta quantiles), and P(Bin(50, 0.6) >= 45) = 1.8e-6 < 0.001 is a red light.
    scores = [0.2] * 50 + [0.6] * 50
    numbers = report(scores, [1] * 10 + [0] * 40 + [1] * 45 + [0] * 5).numbers
    assert numbers["groups_are"] == "distinct scores"
    low, high = numbers["groups"]
    assert [low[key] for key in ("label", "rows", "events", "ratio")] == ["20 %", 50, 10, 1.0]
    assert low["predicted"] == pytest.approx(10.0)
    assert [high[key] for key in ("label", "rows", "events", "ratio", "rate")] == ["60 %", 50, 45, 1.5, 0.9]
    assert (high["low"], high["high"]) == pytest.approx((0.7819, 0.9667), abs=1e-4)
    assert low["chance"][0] <= 10 <= low["chance"][1] < high["chance"][0] < 30 < high["chance"][1] < 45
    assert [grade["light"] for grade in numbers["grades"]["grades"]] == ["green", "red"]


def test_bins_hold_every_row_once_in_the_order_of_scores():
    scores, y = rows(1000)
    groups = report(scores, y).numbers["groups"]
    assert len(groups) == 10
    assert sum(group["rows"] for group in groups) == 1000
    assert sum(group["events"] for group in groups) == y.sum()
    assert sum(group["predicted"] for group in groups) == pytest.approx(scores.sum())
    ends = [end for group in groups for end in (group["from"], group["to"])]
    assert ends == sorted(ends)
    assert (groups[0]["from"], groups[-1]["to"]) == (scores.min(), scores.max())


def test_the_order_of_rows_does_not_matter():
    scores, y = rows(300)
    turned = np.random.default_rng(1).permutation(300)
    assert report(scores, y).to_json() == report(scores[turned], y[turned]).to_json()


def test_a_frame_gives_what_its_columns_give():
    pa = pytest.importorskip("pyarrow")
    scores, y = rows(300)
    site = np.arange(300) % 3
    frame = pa.table({"p": scores, "y": y, "site": site})
    assert report(frame, score="p", label="y", by="site").numbers == report(scores, y, by={"site": site}).numbers


def test_json_is_the_dict_and_the_dict_is_a_copy(full):
    data = full.to_dict()
    assert json.loads(full.to_json()) == data
    data["groups"].clear()
    data["verdict"]["status"] = "?"
    assert full.to_dict()["groups"]
    assert full.numbers["verdict"]["status"] != "?"


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_thresholds_are_inside_and_increase(events, others):
    tally = Tally.from_table([events + others + 1], [events], edges=[], scores=[0.5])
    at = np.array(_thresholds(tally))
    assert ((at > 0.0) & (at < 1.0)).all()
    assert (np.diff(at) > 0.0).all()


# ----------------------------------------------------------------------------------------------------------------------
# Edges
# ----------------------------------------------------------------------------------------------------------------------

EDGES = {
    "one row": lambda: ([0.3], [1], None),
    "two rows": lambda: ([0.3, 0.6], [0, 1], None),
    "no event": lambda: (rows(50)[0], np.zeros(50, dtype=int), None),
    "events only": lambda: (rows(50)[0], np.ones(50, dtype=int), None),
    "one score": lambda: ([0.3] * 40, [0, 0, 0, 1] * 10, None),
    "labels against 0 and 1": lambda: ([0.0, 1.0, 0.5, 0.5] * 5, [1, 0, 1, 0] * 5, None),
    "separated": lambda: (np.linspace(0.1, 0.9, 40), np.arange(40) >= 20, None),
    "weights": lambda: (*rows(300), np.random.default_rng(3).exponential(size=300)),
    "huge, tiny and no weights": lambda: (*rows(300), np.tile([1e9, 1e-9, 0.0], 100)),
    "a table": lambda: (Tally.from_table([40, 60, 0], [3, 30, 0], edges=[0.2, 0.7], scores=[0.1, 0.4, 0.8]),),
}


@pytest.mark.filterwarnings("ignore:.*one class.*")
def test_edges_give_a_report_in_every_form(subtests):
    for name, case in EDGES.items():
        with subtests.test(name):
            made = report(*case(), style="clinical")
            assert json.loads(made.to_json()) == made.to_dict()
            title, _, *parts = made.to_markdown().split("\n## ")
            assert title.startswith("# Calibration of predicted risks\n")
            bounds = made.numbers["upper_bounds"] is not None
            # no verdict, no segments and periods, and of the optional ones at most the upper bounds
            assert len(parts) == len(PARTS) - len(OPTIONAL) - 3 + bounds
            assert not any(re.search(r"\b(nan|inf|None)\b|[{}]", part) for part in parts)
            assert len(Page(without_picture(made)).named("h2")) == len(parts) + 1


def test_an_infinite_loss_is_called_infinite():
    made = report(*EDGES["labels against 0 and 1"]())
    assert "| Log loss | infinite | – |" in made.to_markdown()
    assert "| Miscalibration | infinite | – |" in made.to_markdown()
    assert made.to_dict()["scores"][1]["value"] is None


def test_importance_weights_have_no_lights_and_no_simulated_test():
    made = report(*EDGES["weights"](), style="credit")
    assert made.numbers["grades"] is None
    assert not any("T-Cal" in test["name"] for test in made.numbers["tests"])
    assert "No traffic lights are shown" in made.to_markdown()
    assert "T-Cal" not in made.to_markdown()


def test_groups_enter_every_interval_or_the_number_is_left_out(monkeypatch):
    monkeypatch.setattr(contents, "BOOTSTRAP_SAMPLES", 200)  # standard errors of the curve are compared
    scores, y = (np.repeat(column, 3) for column in rows(200))
    group = np.repeat(np.arange(200), 3)
    plain, made = report(scores, y, style="clinical"), report(scores, y, groups=group, style="clinical")
    text = made.to_markdown()
    assert "No tests are shown, because they assume independent rows." in text
    assert "600 rows" in text
    assert "200 groups" in text
    assert "600 patients" not in text
    verdict, found = made.numbers["verdict"], made.numbers["recalibration"]
    for one, other in (("intercept", "intercept"), ("slope", "slope")):
        ends = [verdict[one][end] for end in ("value", "low", "high")]
        assert ends == pytest.approx([found[other][end] for end in ("value", "low", "high")], abs=1e-5)
    for key in ("intercept", "slope", "slope_intercept", "expected_over_observed", "observed_over_expected"):
        widths = [each.numbers["recalibration"][key]["high"] - each.numbers["recalibration"][key]["low"]
                  for each in (made, plain)]  # fmt: skip
        assert widths[0] / widths[1] == pytest.approx(np.sqrt(3), rel=0.2), key
    for one, other in zip(made.numbers["scores"], plain.numbers["scores"], strict=True):
        assert one["se"] / other["se"] == pytest.approx(np.sqrt(3), rel=0.12), one["name"]
    errors = np.array(made.numbers["curve"]["se"]) / np.array(plain.numbers["curve"]["se"])
    assert (errors > 1.3).all()
    one, other = (np.array(each.numbers["decisions"]["se"], dtype=float) for each in (made, plain))
    assert ((other > 0.0) == (one > 0.0)).all()
    assert (one / np.sqrt(3))[other > 0.0] == pytest.approx(other[other > 0.0], rel=0.12)
    assert not any("se" in error or "null" in error for error in made.numbers["errors"])


def test_groups_of_many_rows_are_sites_and_rows_stay_patients():
    scores, y = rows(600)
    assert "600 patients" in report(scores, y, groups=np.arange(600) % 12, style="clinical").to_markdown()


def test_several_answers_to_one_question_stay_answers():
    rng = np.random.default_rng(0)
    stated = rng.choice([0.6, 0.8, 0.9], 300)
    page = report(stated, rng.random(300) < stated, groups=np.arange(300) // 3, style="llm").to_markdown()
    assert "300 answers, " in page
    assert " rows" not in page


def test_a_group_of_risk_has_an_interval_of_its_own():
    """One event in 70 rows is not made uncertain by what other scores do."""
    rng = np.random.default_rng(0)
    hospital = np.arange(700) % 10
    scores = np.repeat([0.02, 0.5], [70, 630])
    y = rng.random(700) < scores
    y[:70] = False
    y[3] = True
    y[70:] = np.where(rng.random(630) < 0.9, rng.random(10)[hospital[70:]] < 0.5, y[70:])
    line = report(scores, y, groups=hospital).numbers["groups"][0]
    assert (line["rows"], line["events"]) == (70.0, 1.0)
    assert line["high"] < 0.1


def test_groups_widen_the_intervals_of_rates_which_are_then_not_called_exact():
    # Five equal rows in each group: 1,500 rows of which 300 are independent, so intervals are root 5 times as wide.
    scores, y = (np.repeat(column, 5) for column in rows(300))
    apart, together = report(scores, y), report(scores, y, groups=np.arange(1500) // 5)
    assert together.numbers["verdict"]["effective_rows"] == pytest.approx(300, rel=0.2)
    for one, other in zip(apart.numbers["groups"], together.numbers["groups"], strict=True):
        assert other["high"] - other["low"] > 1.5 * (one["high"] - one["low"])
        assert other["low"] <= other["rate"] <= other["high"]
    assert "exact (Clopper-Pearson)" in apart.to_markdown()
    assert "exact where that is cheap" in apart.to_markdown()
    assert "do, or fewer" in without_picture(apart)
    for words in ("exact (Clopper-Pearson)", "exact where that is cheap", "do, or fewer"):
        assert words not in without_picture(together)
    assert "approximate (Clopper-Pearson at the effective sample size)" in together.to_markdown()


def test_the_unit_of_importance_weights_does_not_matter():
    scores, y, weights = EDGES["weights"]()
    made = [report(scores, y, weights * unit).numbers for unit in (1.0, 1e-6)]
    for one, other in zip(made[0]["groups"], made[1]["groups"], strict=True):
        keys = ("rows", "events", "low", "high")
        assert [one[key] for key in keys] == pytest.approx([other[key] for key in keys])
        assert one["chance"] == pytest.approx(other["chance"])
    text = without_picture(report(scores, y, weights))
    assert "exact (Clopper-Pearson)" not in text
    assert "(approximate under weights)" in text


@pytest.fixture(scope="module")
def partly():
    """Calibrated overall; one of 20 segments, and the last tenth of the time, have three times the events."""
    rng = np.random.default_rng(4)
    scores = rng.beta(2, 40, size=60_000).round(3)  # few cells, which are quick to simulate
    kind, day = rng.integers(0, 20, size=60_000), rng.integers(0, 100, size=60_000)
    odd = (kind == 3) | ((day >= 98) & (kind != 3))
    y = rng.random(60_000) < np.where(odd, 3.0, 0.94) * scores
    return report(scores, y, by={"event kind": kind}, time=day)


def test_a_calibrated_model_with_parts_that_are_off_is_amber_and_names_them(partly):
    verdict = partly.numbers["verdict"]
    assert verdict["status"] == "calibrated"
    assert verdict["segments"][verdict["off_parts"]["segments"][0]]["value"] == 3
    assert verdict["off_parts"]["periods"] == [7]
    section = sections(partly.contents, STYLES["general"])[0]
    assert section.blocks[0].tone == "warn"
    said = " ".join(section.blocks[-1].items)
    assert " event kind = 3: " in said
    assert f" {verdict['periods'][7]['value']}: " in said


def test_a_calibrated_model_without_such_parts_is_green():
    scores, y = rows(20_000, power=1.0)
    made = report(scores.round(3), y, by=np.arange(20_000) % 3)
    assert made.numbers["verdict"]["status"] == "calibrated"
    assert sections(made.contents, STYLES["general"])[0].blocks[0].tone == "good"


def test_names_of_segments_are_the_user_s_in_every_style(partly):
    credit = in_style(partly, "credit")
    assert "(worst: event kind = 3, " in in_style(partly, "general").headline
    assert "default kind" not in credit.to_markdown()


def test_headlines_speak_the_words_of_their_style():
    scores, y = rows(300, power=1.0)
    few = report(scores, y)
    assert few.numbers["verdict"]["more_labels"] is not None
    assert "more borrowers" not in in_style(few, "credit").to_markdown(), "a bank cannot label more of them"
    assert str(in_style(few, "credit")).count("CANNOT TELL YET whether the PDs are within the limit.\n") == 1
    assert re.search(r"more patients \(about [\d,]+ outcomes\)", str(in_style(few, "clinical")))
    off = report(scores, np.arange(300) % 20 == 0)
    assert "fewer defaults than predicted" in in_style(off, "credit").to_markdown()
    assert "fewer outcomes than predicted" in in_style(off, "clinical").to_markdown()
    assert "PlattScaling().fit(scores, y)" in in_style(off, "credit").to_markdown()


def test_notes_are_values_in_json_and_speak_the_words_of_the_style_on_the_page():
    scores, y = rows(300)
    scores[:2], y[:2] = 0.0, (0, 1)
    made = report(scores, y)
    assert {"scores-at-ends", "log-odds-predict"} & {note["code"] for note in made.to_dict()["verdict"]["notes"]}
    assert {"code", "text"} <= set(made.to_dict()["verdict"]["hints"][-1])
    text = in_style(made, "clinical").to_markdown()
    assert "1 outcome had a risk of exactly 0" in text
    assert not re.search(r"\b(events?|scores?)\b", text.partition("## Intercept")[0])


def test_small_p_values_are_legible_in_markdown():
    scores, y = rows(300)
    text = report(scores, 1 - y).to_markdown()
    assert "| < 0.0001 |" in text
    assert "&lt;" not in text


def test_heaped_scores_are_described_as_they_are_drawn():
    scores, y = rows(300)
    for made, heaped in ((report(scores.round(1), y), True), (report(scores, y), False)):
        assert ("The points are the event rate at each score" in without_picture(made)) is heaped
        assert ("shows the event rate at each score" in made.to_markdown()) is heaped


def test_tallies_by_group_are_segments():
    scores, y = rows(400)
    made = report(GroupedTally.from_arrays(scores, y, groups=np.arange(400) % 4))
    assert len(made.numbers["verdict"]["segments"]) == 4


# ----------------------------------------------------------------------------------------------------------------------
# The page
# ----------------------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_nothing(pages, subtests):
    tags = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "image"}
    attributes = {"src", "srcset", "data", "action", "background", "poster", "ping", "http-equiv"}
    for style, text in pages.items():
        with subtests.test(style):
            page = Page(text)
            assert not {name for name, _ in page.tags} & tags
            for _, attrs in page.tags:
                assert not set(attrs) & attributes
                assert not any(name.startswith("on") for name in attrs)
                assert (attrs.get("href") or "#").startswith("#")
            assert not any(word in text for word in ("http", "@import", "@font-face"))
            assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?(.)", text))


def test_the_page_is_built_for_readers_of_every_kind(pages, subtests):
    for style, text in pages.items():
        with subtests.test(style):
            page = Page(text)
            assert page.named("html") == [{"lang": "en"}]
            assert "width=device-width" in str(page.named("meta"))
            assert len(page.named("h1")) == len(page.named("title")) == len(page.named("main")) == 1
            beside = 2 * (style == "credit")  # ranking, and the lights of supervisors
            assert len(page.named("h2")) == len(PARTS) - len(OPTIONAL) + beside
            assert {attrs.get("scope") for attrs in page.named("th")} == {"row", "col"}
            assert len(page.named("table")) == len(page.named("caption")) == len(page.named("thead"))
            picture, segments = page.named("svg")
            assert picture["role"] == segments["role"] == "img"
            assert "lie outside the gray band" in picture["aria-label"]


def test_ids_are_unique_and_links_arrive(pages):
    page = Page(pages["general"])
    ids = Counter(attrs["id"] for _, attrs in page.tags if "id" in attrs)
    assert max(ids.values()) == 1
    assert {attrs["href"].removeprefix("#") for _, attrs in page.tags if "href" in attrs} <= set(ids)
    assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", pages["general"]))


def test_no_text_of_the_user_becomes_markup(full):
    made = Report(NASTY, "general", full.contents, full.display)
    page = Page(without_picture(made))
    assert not page.named("script")
    assert f"{NASTY} = {NASTY}" in page.cells
    assert NASTY in page.text
    markdown = made.to_markdown()
    assert not re.search(r"<(?! \d)", markdown)
    assert "[a]" not in markdown.replace(r"\[a\]", "")
    table = markdown.partition("## By segment")[2].partition("\n\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_the_same_rows_give_the_same_bytes_whatever_the_settings():
    mpl = pytest.importorskip("matplotlib")
    scores, y = rows(200)
    first = report(scores, y).to_html()
    with mpl.rc_context({"font.size": 20.0, "axes.facecolor": "black", "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        second = report(scores, y).to_html()
        assert dict(mpl.rcParams) == before
    assert first == second


@pytest.mark.slow
def test_many_rows_and_200_segments_stay_below_a_megabyte():
    rng = np.random.default_rng(0)
    scores = rng.beta(0.3, 100, size=200_000)
    branch = np.char.add("branch ", rng.integers(0, 200, size=200_000).astype(str))
    made = report(scores, rng.random(200_000) < scores, by={"branch": branch}, time=rng.integers(0, 500, size=200_000))
    assert len(made.numbers["verdict"]["segments"]) == 200
    assert len(made.to_html().encode()) < 1_000_000
    table = made.to_markdown().partition("## By segment")[2].partition("\n## ")[0]
    assert table.count("branch = branch") == 50
    assert "150 more segments" in table


def test_periods_stand_in_the_order_of_time():
    scores, y = rows(800)
    made = report(scores, y, time=np.arange(800)[::-1])
    table = made.to_markdown().partition("## By period")[2].partition("\n## ")[0]
    starts = [int(start) for start in re.findall(r"^\| (\d+) to \d+ ", table, flags=re.MULTILINE)]
    assert len(starts) == 8
    assert starts == sorted(starts)


def test_styles_speak_their_own_words(full):
    credit, clinical = (in_style(full, style).to_markdown() for style in ("credit", "clinical"))
    assert "defaults, " in credit
    for text in (credit, clinical, full.to_markdown()):
        assert "A large p-value does not prove calibration" in text
    assert not re.search(r"\bevents?\b", credit)
    assert not re.search(r"\bevents?\b", clinical)
    order = ("Reliability diagram", "## Intercept, slope, E/O and ICI", "## Decision curve", "## Discrimination")
    places = [clinical.index(words) for words in order]
    assert places == sorted(places)
    assert credit.index("## Traffic lights by grade") < credit.index("## Defaults by PD")


def test_a_page_of_no_sections_is_still_a_page():
    page = Page(write_html("A & B", "none", [], str))
    assert "A & B" in page.text


# ----------------------------------------------------------------------------------------------------------------------
# Files and refusals
# ----------------------------------------------------------------------------------------------------------------------


def test_save_chooses_the_form_by_the_name(full, pages, tmp_path):
    for name, text in (("a.html", pages["general"]), ("a.MD", full.to_markdown()), ("a.json", full.to_json())):
        full.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_path_saves_and_title_is_used(tmp_path):
    scores, y = rows(100)
    made = report(scores, y, title="Model 7, May", path=tmp_path / "model.md")
    assert (tmp_path / "model.md").read_text(encoding="utf-8") == made.to_markdown()
    assert made.to_markdown().startswith("# Model 7, May\n")
    assert str(made).startswith("Model 7, May: ")


def test_other_names_are_refused_before_anything_is_computed(full, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.html, \.md or \.json"):
        full.save(tmp_path / "report.pdf")
    with pytest.raises(InputError, match=r"must end in \.html, \.md or \.json"):
        report(None, None, path="report.docx")


def test_an_unknown_style_is_refused():
    with pytest.raises(InputError, match="style"):
        report([0.2, 0.4], [0, 1], style="legal")


def test_without_matplotlib_html_says_what_to_install_and_the_rest_works(full, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "calibrant\[plot\]"'):
        full.to_html()
    assert full.to_markdown()
    assert full.to_json()


# ----------------------------------------------------------------------------------------------------------------------
# Several classes and labels
# ----------------------------------------------------------------------------------------------------------------------


def class_rows(n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    p = rng.dirichlet([1.5, 1.0, 1.0], n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    sharp = p**1.7
    return sharp / sharp.sum(axis=1, keepdims=True), np.array(["ant", "bee", "cat"])[y]


def test_a_report_on_classes_is_about_the_confidence_and_lists_the_classes(subtests: pytest.Subtests) -> None:
    pytest.importorskip("matplotlib")
    p, y = class_rows()
    verdict = check(p, y, classes=["ant", "bee", "cat"])
    for style in ("general", "credit", "clinical"):
        with subtests.test(style=style):
            made = report(p, y, classes=["ant", "bee", "cat"], style=style)
            text = made.to_markdown()
            assert made.verdict == verdict
            assert "correct predictions" in made.subtitle
            assert "## By class" in text
            assert "Maps that would help" in text
            assert "Losses of all classes" in text
            assert "Net benefit" not in text
            assert "accuracys" not in text
            assert "| ant |" in text
    data = json.loads(made.to_json())
    assert next(each["name"] for each in data["class_losses"]) == "log loss"
    assert data["verdict"]["classes"]["bee"]["status"] == verdict.classes["bee"].status
    assert data["class_errors"]["display"]
    page = made.to_html()
    assert page.count("<svg") == 2
    assert 'id="classes-' in page


def test_a_report_on_labels_lists_the_labels() -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(5)
    p = rng.beta(2, 3, (900, 2))
    y = (rng.random((900, 2)) < p * [1.0, 0.5]).astype(int)
    made = report(p, y, classes=["sport", "news"])
    text = made.to_markdown()
    assert made.verdict.notion == "multi-label"
    assert " labels of " in made.subtitle
    assert "Labels, significant deviations first" in text
    assert "| news |" in text
    assert made.to_html().count("<svg") == 1


def test_a_report_on_two_columns_is_that_on_the_second() -> None:
    rng = np.random.default_rng(5)
    p = rng.beta(2, 3, 400)
    y = rng.random(400) < p
    assert report(np.column_stack([1.0 - p, p]), y).to_json() == report(p, y).to_json()


def books() -> tuple[pd.DataFrame, pd.DataFrame]:
    """An earlier book and one of today: three grades, borrowers 0 to 399 and 100 to 499."""
    rng = np.random.default_rng(4)
    made = []
    for first, shares in ((0, [0.5, 0.3, 0.2]), (100, [0.3, 0.4, 0.3])):
        grade = rng.choice(["A", "B", "C"], 400, p=shares)
        risk = np.select([grade == "A", grade == "B"], [0.02, 0.06], 0.2)
        default = (rng.random(400) < risk).astype(int)
        made.append(pd.DataFrame({"pd": risk, "bad": default, "grade": grade, "id": np.arange(first, first + 400)}))
    return made[0], made[1]


def test_grades_have_lights_in_the_credit_style_and_are_segments_in_the_others():
    _, now = books()
    now["bad"] = (np.arange(400) % 4 == 0) & (now.grade != "C")
    now["side"] = np.where(now.id % 2, "odd", "even")
    for style in STYLES:
        made = report(now, score="pd", label="bad", style=style, grade="grade", by="side")
        parts = {part.key: part.blocks for part in sections(made.contents, STYLES[style])}
        columns = {str(row[0]).partition(" = ")[0] for row in parts["segments"][0].rows}
        assert columns == ({"side"} if style == "credit" else {"side", "grade"})
        assert ("grades" in parts) is (style == "credit")


def test_p_values_align_and_marks_stand_beside_the_names():
    _, now = books()
    page = report(now, score="pd", label="bad", style="credit", grade="grade").to_html()
    lights = page[page.index('id="grades"') :]
    lights = lights[: lights.index("</table>")]
    p_values = re.findall(r"<td data-head=[^>]*>([01]\.\d+)</td>", lights)
    assert {len(text) for text in p_values} == {len("0.1234")}
    assert "sticky" not in page
    assert lights.count('</th><td class="m"') == lights.count('<td class="m"') == 4


def test_an_earlier_sample_adds_stability_ranking_and_migration():
    before, now = books()
    names = {"score": "pd", "label": "bad", "style": "credit"}
    made = report(now, grade="grade", reference=before, borrower="id", meta={"model": "PD"}, **names)
    found = made.numbers["reference"]
    counts = [[int((frame.grade == name).sum()) for name in "ABC"] for frame in (before, now)]
    assert found["psi"]["value"] == pytest.approx(float(psi(*counts)))
    ratios = [accuracy_ratio(frame.pd, frame.bad) for frame in (now, before)]
    assert found["accuracy_ratio_change"]["value"] == pytest.approx(float(accuracy_ratio_change(*ratios)))
    both = before.merge(now, on="id")
    matrix = migration_matrix(both.grade_x, both.grade_y).to_dict()
    assert found["migration"] == {"left": 100, "joined": 100, "matrix": matrix}
    page = made.to_markdown()
    assert "Population stability index over the grades" in page
    assert "Migration between grades" in page
    assert "need an earlier sample" not in page
    by_score = report(now, reference=before, **names).numbers["reference"]  # three distinct PDs are the groups
    assert by_score["psi"]["value"] == pytest.approx(found["psi"]["value"])
    assert by_score["psi_by"] == "groups"


def test_what_a_reference_refuses():
    before, now = books()
    names = {"score": "pd", "label": "bad"}
    for problem, asked in {
        "reference needs column names": {"reference": before},
        "reference has no column": {"reference": before.drop(columns="pd"), **names},
        "borrower needs grade": {"reference": before, "borrower": "id", **names},
        "borrower needs reference": {"grade": "grade", "borrower": "id", **names},
        "has a borrower twice": {"reference": pd.concat([before, before]), "grade": "grade", "borrower": "id", **names},
    }.items():
        data = (now,) if "score" in asked else (now.pd, now.bad)
        with pytest.raises(InputError, match=problem):
            report(*data, **asked)


# ----------------------------------------------------------------------------------------------------------------------
# No part says the opposite of another
# ----------------------------------------------------------------------------------------------------------------------


def in_parts(scores, rng):
    """Two sites that are off, in opposite directions, and one that is not."""
    site = np.arange(len(scores)) % 3
    return np.clip(scores * np.choose(site, [1.5, 0.5, 1.0]), 0.0, 1.0)


WORLDS = {
    "calibrated": lambda scores, rng: scores,
    "too high": lambda scores, rng: scores**1.5,
    "too low": lambda scores, rng: scores**0.7,
    "too extreme": lambda scores, rng: 0.28 + 0.4 * (scores - scores.mean()),
    "segments": in_parts,
    "no event": lambda scores, rng: 0.0 * scores,
}


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    """A report on three sites, and its name."""
    rng = np.random.default_rng(7)
    scores = rng.beta(2, 5, size=3_000)
    y = (rng.random(3_000) < WORLDS[request.param](scores, rng)).astype(int)
    return request.param, report(scores, y, by={"site": np.arange(3_000) % 3}, time=np.arange(3_000) // 300)


def marks(blocks):
    return [cell for block in blocks for row in getattr(block, "rows", ()) for cell in row if isinstance(cell, Mark)]


@pytest.mark.filterwarnings("ignore:.*one class.*")
@pytest.mark.parametrize("style", STYLES)
def test_directions_and_colors_agree_with_numbers_and_verdict(world, style):
    name, made = world
    verdict, numbers = made.verdict, made.numbers
    parts = {part.key: part.blocks for part in sections(made.contents, in_style(made, style)._style)}
    assert ("grades" in parts) is (style == "credit"), "tests for too many events alone"
    for group, mark in zip(numbers["groups"], marks(parts["groups"]), strict=True):
        low, high = group["chance"]
        side = "up" if group["events"] > high else "down" if group["events"] < low else ""
        assert (mark.arrow, mark.tone) == (side, "warn" if side else "none")
        assert not side or (side == "up") is (group["events"] > group["predicted"])
    for key in ("segments", "periods"):
        found = getattr(verdict, key)
        for part, mark in zip(found, marks(parts[key]), strict=True):
            assert not mark.arrow
            assert ("low" in mark.word, "high" in mark.word) == (part.side > 0, part.side < 0)
            assert part.side * (part.events - part.predicted) >= 0
            assert (mark.tone == "bad") is part.beyond
    calm = {mark.tone for key in ("groups", "errors", "tests", "segments", "periods") for mark in marks(parts[key])}
    assert "good" not in calm, "what is not significant shows nothing"
    assert len(parts["losses"][0].head) == 3
    assert not any(key.startswith("null") for score in numbers["scores"] for key in score)
    first = parts["verdict"][0]
    assert first.step == in_style(made, style)._style.say(STEPS[verdict.next_step])
    assert first.tone != "good" or verdict.color == GREEN or style == "credit"
    if name in ("too high", "too low", "too extreme", "segments"):
        assert verdict.next_step == "recalibrate"
        assert first.tone != "good"
    elif name == "calibrated":
        assert (verdict.next_step, first.tone) == ("keep", "good")


@pytest.mark.filterwarnings("ignore:.*one class.*")
@pytest.mark.parametrize("style", STYLES)
def test_the_first_section_has_answer_picture_and_segments(world, style):
    blocks = sections(world[1].contents, STYLES[style])[0].blocks
    assert [type(block) for block in blocks] == [Headline, Picture, Picture, Bullets]
    assert [block.name for block in blocks[1:3]] == ["reliability", "segments"]


def test_a_segment_is_drawn_where_its_numbers_are():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    scores, site = rng.random(9_000), rng.integers(0, 30, 9_000)
    y = rng.random(9_000) < scores * np.where(site == 4, 0.0, np.where(site == 5, 0.5, 1.0))
    for count in (2, 3, 30):
        kept = (site >= 4) & (site < 4 + count)
        verdict = check(scores[kept], y[kept], by={"site": site[kept].astype(str)})
        drawn = SegmentsDisplay(verdict.segments)
        figure = verdict.plot().figure_
        texts = {text.get_text() for text in figure.findobj(mpl.text.Text)}
        shown = drawn.data["segments"][:12]
        assert {row["name"] for row in shown} <= texts
        assert f"Not shown: {len(verdict.segments) - 12}" in drawn.caption or len(verdict.segments) <= 12
        for row, part in zip(drawn.data["segments"], verdict.segments, strict=True):
            assert row["ratio"] == pytest.approx(part.events / part.predicted)
            assert "low" not in row["direction"] or row["ratio"] > 1.0
            assert "high" not in row["direction"] or row["ratio"] < 1.0
        assert shown[0]["ratio"] == 0.0, "the worst has no event"
        mpl.pyplot.close(figure)


def test_each_note_is_said_once():
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 5, 800)
    y = (rng.random(800) < scores).astype(int)
    scores[:20], scores[20:30] = 0.0, 1.0
    made = report(scores, y, rng.exponential(size=800))
    said = [note for entries in made.contents.notes_of.values() for notes in entries for note in notes]
    said += [*made.verdict.notes, *made.verdict.hints]
    assert len(said) == len(set(said)) > 3


MEASURE = """
const page = frame.contentDocument, seen = page.scrollingElement, view = frame.contentWindow;
const inside = each => !each.closest('.scroll') && !each.closest('svg');
const sizes = [...page.querySelectorAll('main>section:first-child :is(.headline, .headline span, svg)')];
const result = {
  wide: Math.max(seen.scrollWidth, ...[...page.querySelectorAll('body *')].filter(inside)
    .map(each => each.getBoundingClientRect().right)),
  cut: [...page.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth).length,
  bottoms: sizes.map(each => each.getBoundingClientRect().bottom),
  covered: [...page.querySelectorAll('td, tbody th')].filter(each => {
    each.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    const box = each.getBoundingClientRect();
    const top = page.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return !(top && (each.contains(top) || top.contains(each)) && !top.matches('.scroll'));
  }).length,
};
document.body.textContent = 'RESULT' + JSON.stringify(result) + 'END';
"""


def in_browser(text, width, height, folder):
    """What a browser measures on the page in a window of this size."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is installed")
    frame = f'<iframe id="frame" style="border:0;width:{width}px;height:{height}px" srcdoc="{escape(text)}"></iframe>'
    (folder / "frame.html").write_text(f"<body>{frame}<script>onload = () => {{{MEASURE}}}</script>", encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={folder / 'profile'}"]
    asked = [browser, *flags, f"--window-size={width + 100},{height + 100}", (folder / "frame.html").as_uri()]
    shown = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(re.search("RESULT(.*)END", shown).group(1))


@pytest.mark.slow
@pytest.mark.parametrize("style", ["general", "credit"])
def test_the_first_screen_has_the_answer_and_a_phone_shows_all_numbers(full, pages, style, tmp_path):
    desktop = in_browser(pages[style], 1_100, 800, tmp_path)
    assert len(desktop["bottoms"]) == 4
    assert max(desktop["bottoms"]) <= 800
    phone = in_browser(pages[style], 390, 844, tmp_path)
    assert phone["cut"] == 0
    for width, found in ((1_100, desktop), (390, phone)):
        assert found["wide"] <= width
        assert found["covered"] == 0
