"""``calibrant grades`` and ``anchor`` on files as a European bank writes them; rows that are due; reports by grade."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb

GERMAN = """Rating;PD;Anzahl;Ausfälle;Segment;Stichtag
A;0,05 %;1.200;1;KMU;31.12.2023
B;0,20 %;2.400;6;KMU;31.12.2023
C;2,00 %;700;27;Groß;31.12.2023
A;0,05 %;1.300;0;KMU;31.12.2024
B;0,20 %;2.300;12;KMU;31.12.2024
C;2,00 %;800;17;Groß;31.12.2024
"""
PLAIN = "grade,pd,n,defaults\nA,0.0005,2500,1\nB,0.002,4700,18\nC,0.02,1500,44\n"
NAMES = ("--grade", "Rating", "--pd", "PD", "--n", "Anzahl", "--defaults", "Ausfälle")


@pytest.fixture
def german(run):
    Path("german.csv").write_bytes(GERMAN.encode("cp1252"))
    Path("plain.csv").write_text(PLAIN, encoding="utf-8")
    return run


def numbers(done) -> list[tuple[float, ...]]:
    found = json.loads(done.stdout)["portfolio"]["grades"]
    return [(grade["n"], grade["events"], round(grade["pd"], 6)) for grade in found]


EXPECTED = [(2500, 1, 0.0005), (4700, 18, 0.002), (1500, 44, 0.02)]


def test_every_way_to_write_numbers_gives_the_same_counts(german, subtests) -> None:
    texts = {
        "Windows-1252": GERMAN.encode("cp1252"),
        "UTF-8 with its mark": GERMAN.encode("utf-8-sig"),
        "UTF-16": GERMAN.encode("utf-16"),
        "tabs": GERMAN.replace(";", "\t").encode(),
        "thousands with a space": GERMAN.replace("1.200", "1 200").replace("2.400", "2\u00a0400").encode(),
        "decimal points": GERMAN.replace(".", "'").replace(",", ".").replace("31'12'", "31.12.").encode(),
    }
    for place, (name, data) in enumerate(texts.items()):
        with subtests.test(name):
            Path(f"t{place}.csv").write_bytes(data)
            done = german("grades", f"t{place}.csv", *NAMES, "--json")
            assert done.exit_code == 10, done.stderr
            assert numbers(done) == EXPECTED
    assert numbers(german("grades", "plain.csv", "--json")) == EXPECTED


def test_what_is_ambiguous_is_refused(german, subtests) -> None:
    cases = {
        "a count with the decimal mark": ("A;0,05;1,200;1", "decimal mark of this file"),
        "two decimal marks": ("A;0,05;100;1\nB;0.05;100;1", "different decimal marks"),
        "with and without percent": ("A;0,05 %;100;1\nB;0,05;100;1", "with and without a percent sign"),
        "more defaults than borrowers": ("A;0,05;10;11", "grade A has 11 defaults and 10 borrowers"),
        "a percentage": ("A;5,5;100;1", "outside 0 to 1: divide by 100, or write a percent sign"),
        "half a borrower": ("A;0,05;100,5;1", "is not a count"),
        "no number": ("A;0,05;many;1", "contains text such as 'many'"),
        "nothing": ("A;0,05;100;", "is empty in line 1"),
    }
    for name, (lines, words) in cases.items():
        with subtests.test(name):
            Path("x.csv").write_text(f"grade;pd;n;defaults\n{lines}\n", encoding="utf-8")
            done = german("grades", "x.csv")
            assert done.exit_code == 1
            assert words in done.stderr


def test_lights_by_segment_and_year_in_every_file(german) -> None:
    for suffix in ("csv", "html", "json"):
        done = german("grades", "german.csv", *NAMES, "--by", "Segment", "--time", "Stichtag", "--out", f"o.{suffix}")
        assert done.exit_code == 10, done.stderr
    assert "RED: the PDs are too low" in done.stdout
    with Path("o.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    cell = next(each for each in lines if (each["segment"], each["year"], each["grade"]) == ("KMU", "2024", "B"))
    assert (cell["n"], cell["defaults"], cell["light"]) == ("2300", "12", "yellow")
    assert "Lights by grade and year: Groß" in Path("o.html").read_text(encoding="utf-8")
    assert json.loads(Path("o.json").read_text(encoding="utf-8"))["years"] == ["2023", "2024"]


def test_excel_in_and_out(german) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    lines = [["A", "0,05 %", 2500, 1], ["B", "0,2 %", 4700, 18], ["C", "2 %", 1500, 44]]
    for line in [["grade", "pd", "n", "defaults"], *lines]:
        book.active.append(line)
    book.save("in.xlsx")
    done = german("grades", "in.xlsx", "--json", "--out", "out.xlsx")
    assert numbers(done) == EXPECTED
    sheet = openpyxl.load_workbook("out.xlsx")["grades"]
    assert [cell.value for cell in sheet[3]][2:6] == ["B", 4700, 18, 0.002]


def test_exit_codes_follow_the_light(german) -> None:
    Path("g.csv").write_text("grade,pd,n,defaults\nA,0.05,1000,40\nB,0.001,100,2\n", encoding="utf-8")
    assert german("grades", "g.csv").exit_code == 0
    assert german("grades", "g.csv", "--fail-on", "grades").exit_code == 13
    assert german("grades", "plain.csv", "--correlation", "0.12").exit_code == 0


def test_no_default_is_not_an_error(german) -> None:
    Path("z.csv").write_text("grade,pd,n,defaults\nA,0.0001,100,0\nB,0.001,400,0\nC,0.002,300,0\n", encoding="utf-8")
    done = german("grades", "z.csv")
    assert done.exit_code == 0
    assert "No default was observed" in done.stdout
    assert "1.01 predicted" in done.stdout


def test_a_wrong_door_names_the_right_one(german) -> None:
    assert "counts of defaults by grade go to calibrant grades" in " ".join(
        german("check", "plain.csv", "--score", "pd", "--label", "defaults").stderr.split()
    )
    Path("loans.csv").write_text(LOANS, encoding="utf-8")
    refused = " ".join(german("grades", "loans.csv").stderr.split())
    assert "if each line is one borrower, pass --score and --label instead" in refused


def test_green_says_when_the_pds_are_too_high(german) -> None:
    def first(text: str) -> str:
        Path("few.csv").write_text(text, encoding="utf-8")
        return " ".join(german("grades", "few.csv").stdout.split("\n\n")[0].split())

    high = "The PDs are too high (99.9 % confidence); the lights only show PDs that are too low."
    assert first("grade,pd,n,defaults\nA,0.05,2500,12\nB,0.2,4700,20\n").endswith(
        f"{high} If they are percentages, divide them by 100."
    )
    assert first("grade,pd,n,defaults\nA,0.01,5000,25\n").endswith(high)
    assert "too high" in first("grade,pd,n,defaults\nA,0.01,5000,0\n")
    assert "too high" not in first("grade,pd,n,defaults\nA,0.01,500,3\n")
    assert "too high" not in first("grade,pd,n,defaults\nA,0.001,800,0\n")


LOANS = "id,pd,default,grade,day,when\n" + "".join(
    f"{i},{0.002 if i % 2 else 0.03},{int(i % 40 == 0)},{'A' if i % 2 else 'B'},{2023 + i % 2}-12-31,"
    f"{'2024-12-31' if i % 80 == 0 else '2025-01-01' if i % 40 == 0 else ''}\n"
    for i in range(800)
)


def test_rows_of_borrowers_are_counted_by_grade(german) -> None:
    Path("loans.csv").write_text(LOANS, encoding="utf-8")
    done = german("grades", "loans.csv", "--score", "pd", "--label", "default", "--time", "day", "--json")
    assert numbers(done) == [(400, 0, 0.002), (400, 20, 0.03)]
    assert "leave one out" in german("grades", "loans.csv", "--score", "pd", "--n", "id").stderr


def test_only_rows_that_are_due_count(german) -> None:
    Path("loans.csv").write_text(LOANS, encoding="utf-8")
    words = ("--score", "pd", "--label", "default", "--time", "day", "--horizon", "12mo", "--as-of")
    done = german("check", "loans.csv", *words, "2024-12-31", "--label-time", "when", "--json")
    found = json.loads(done.stdout)
    assert (found["rows"], found["events"]) == (400, 10)  # 31 December 2024 counts, 1 January 2025 does not
    assert "400 rows kept; 400 whose horizon of 12mo is not over" in done.stderr
    assert "leaves no row" in german("check", "loans.csv", *words, "2024-12-30").stderr
    assert "--as-of is missing" in german("check", "loans.csv", *words[:-1], "--label-time", "when").stderr


def test_days_of_a_horizon_may_be_written_with_points(german) -> None:
    written = re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3.\2.\1", LOANS)
    Path("loans.csv").write_text(written, encoding="utf-8")
    words = ("--time", "day", "--horizon", "12mo", "--as-of", "31.12.2024", "--label-time", "when", "--json")
    done = german("check", "loans.csv", "--score", "pd", "--label", "default", *words)
    found = json.loads(done.stdout)
    assert (found["rows"], found["events"]) == (400, 10)


def test_days_of_a_horizon_are_exact_times_as_in_python(german, subtests) -> None:
    """Rows of 17 January in the afternoon are not 14 days old at the start of 31 January."""
    hours = [f"2026-01-{16 + i % 3} {i % 24:02d}:30:00" for i in range(600)]
    labels = [int(i % 5 == 0) for i in range(600)]
    seen = [f"2026-01-{30 + i % 2} {i % 24:02d}:00:00" if y else "" for i, y in enumerate(labels)]
    lines = [f"0.2,{y},{day},{when}" for y, day, when in zip(labels, hours, seen, strict=True)]
    Path("hours.csv").write_text("\n".join(["score,label,day,when", *lines]) + "\n", encoding="utf-8")
    times = np.array(hours, "datetime64[us]")
    events = np.array([each or "NaT" for each in seen], "datetime64[us]")
    for given, horizon in (("14d", 14), ("1mo", "1mo")):
        as_of = "2026-01-31" if horizon == 14 else "2026-02-17"
        words = ("--time", "day", "--horizon", given, "--as-of", as_of, "--label-time", "when", "--json")
        done = json.loads(german("check", "hours.csv", *words).stdout)
        kept = cb.shift.select_mature(
            [0.2] * 600, labels, score_time=times, as_of=as_of, horizon=horizon, label_time=events
        )
        with subtests.test(given):
            assert (done["rows"], done["events"]) == (kept.rows, kept.events)
            assert 0 < kept.rows < 600


def test_a_column_holds_the_horizon_of_each_row(german) -> None:
    lines = [f"0.2,{int(i % 5 == 0)},2026-01-{1 + i % 20:02d},{7 + 7 * (i % 2)}" for i in range(400)]
    Path("waits.csv").write_text("\n".join(["score,label,day,wait", *lines]) + "\n", encoding="utf-8")
    words = ("--time", "day", "--horizon", "wait", "--as-of", "2026-01-20", "--json")
    done = json.loads(german("check", "waits.csv", *words).stdout)
    days = np.array([f"2026-01-{1 + i % 20:02d}" for i in range(400)], "datetime64[D]")
    labels, wait = np.arange(400) % 5 == 0, 7 + 7 * (np.arange(400) % 2)
    kept = cb.shift.select_mature([0.2] * 400, labels, score_time=days, as_of="2026-01-20", horizon=wait)
    assert (done["rows"], done["events"]) == (kept.rows, kept.events)
    assert 0 < kept.rows < 400
    Path("waits.csv").write_text("\n".join(["score,label,day,wait", *lines, "0.2,0,2026-01-01,soon"]), encoding="utf-8")
    assert "which is not a number of days" in " ".join(german("check", "waits.csv", *words).stderr.split())


def test_young_rows_are_weighted_as_in_python(german, subtests) -> None:
    """All of January, seen on the 20th, with a horizon of 14 days or one for each row; and of three classes."""
    rng = np.random.default_rng(0)
    n, as_of = 1_200, "2026-01-20"
    day = np.datetime64("2026-01-01") + rng.integers(0, 25, n)
    score, wait = rng.uniform(0.1, 0.9, n).round(3), 7 + 7 * (np.arange(n) % 2)
    event = day + rng.integers(0, 16, n)
    y = (rng.random(n) < score) & (event <= np.datetime64(as_of))
    when = [str(d) if each else "" for d, each in zip(event, y, strict=True)]
    young = day + 7 > np.datetime64(as_of)
    label = ["" if late and not each else str(int(each)) for late, each in zip(young, y, strict=True)]  # not known yet
    kind = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    known = [name if each else "" for each, name in zip(when, kind, strict=True)]
    columns = [score, label, day, when, wait, known, score / 2, 1 - score, score / 2]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path("late.csv").write_text("\n".join(["score,label,day,when,wait,kind,p_a,p_b,p_c", *lines]), encoding="utf-8")
    words = ("--time", "day", "--as-of", as_of, "--label-time", "when", "--young", "weight")
    for given, horizon in (("14", 14), ("wait", wait)):
        kept = cb.shift.select_mature(
            score, y, score_time=day, as_of=as_of, label_time=event, how="weight", horizon=horizon
        )
        done = german("check", "late.csv", *words, "--horizon", given, "--json")
        found, expected = json.loads(done.stdout), cb.check(kept.scores, kept.labels, kept.sample_weight).to_dict()
        with subtests.test(given):
            assert "weighted for events still to come" in " ".join(done.stderr.split())
            assert "have the same delays" in " ".join(done.stderr.split())
            for name in ("row_count", "rows", "events", "predicted"):
                assert found[name] == pytest.approx(expected[name], rel=1e-6)
    several = ("--score", "p_*", "--label", "kind", *words, "--horizon", "14", "--json")
    done = json.loads(german("check", "late.csv", *several).stdout)
    kept = cb.shift.select_mature(
        np.column_stack(columns[-3:]), np.array([each or None for each in known], dtype=object), score_time=day,
        as_of=as_of, label_time=event, how="weight", horizon=14,
    )  # fmt: skip
    assert done["row_count"] == kept.rows
    fitted = german("fit", "late.csv", *words, "--horizon", "14", "--out", "late.json")
    assert fitted.exit_code == 0, fitted.stderr
    for more, problem in (
        (("--label-time", "when"), "--as-of is missing"),
        (("--as-of", as_of, "--horizon", "14"), "needs the date of each event"),
    ):
        refused = german("check", "late.csv", "--time", "day", "--young", "weight", *more)
        assert problem in " ".join(refused.stderr.split())


def test_a_time_of_the_event_that_is_no_date_is_refused(german) -> None:
    Path("loans.csv").write_text(LOANS.replace("2025-01-01", "soon"), encoding="utf-8")
    words = ("--score", "pd", "--label", "default", "--time", "day", "--horizon", "12mo", "--as-of", "2024-12-31")
    done = german("check", "loans.csv", *words, "--label-time", "when")
    assert done.exit_code == 1
    assert "contains 'soon', which is not a date" in " ".join(done.stderr.split())


def test_anchor_saves_a_map_that_applies(german) -> None:
    Path("loans.csv").write_text(LOANS, encoding="utf-8")
    done = german("anchor", "loans.csv", "--score", "pd", "--mean", "0.02", "--margin", "0.005", "--out", "a.json")
    assert done.exit_code == 0, done.stderr
    assert "plus a margin of conservatism of 0.5 points" in " ".join(done.stdout.split())
    assert cb.load("a.json").transform([0.002, 0.03]).mean() == pytest.approx(0.025)
    years = "".join(f"0.02,{int(i % 40 == 0)},{2021 + i // 40 % 4}-12-31\n" for i in range(800))
    Path("years.csv").write_text(f"pd,default,day\n{years}", encoding="utf-8")
    words = ("--label", "default", "--time", "day", "--margin", "upper", "--out", "b.json")
    assert "Long-run average" in german("anchor", "years.csv", "--score", "pd", *words).stdout
    assert "is not defined" in german("anchor", "loans.csv", "--score", "pd", "--out", "c.json").stderr


def test_a_credit_report_by_grade_with_a_map_and_facts(german) -> None:
    Path("loans.csv").write_text(LOANS, encoding="utf-8")
    german("anchor", "loans.csv", "--score", "pd", "--mean", "0.025", "--out", "a.json")
    done = german(
        "report", "loans.csv", "--score", "pd", "--label", "default", "--style", "credit", "--grade", "grade",
        "--map", "a.json", "--meta", "model=PD retail", "--meta", "period=2023", "--out", "r.md",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(("GREEN", "YELLOW", "RED"))
    text = Path("r.md").read_text(encoding="utf-8")
    assert "| A | 400 | 0 |" in text
    assert "| model | PD retail |" in text
    assert "Approved by" in text
    assert "Before the map: 12.8 defaults predicted, 20 observed" in text
    assert text.index("## Verdict") < text.index("## Traffic lights by grade") < text.index("## Appendix: tests of")
    assert german("report", "loans.csv", "--meta", "model", "--out", "s.md").exit_code == 2


def test_a_report_without_defaults_shows_upper_bounds() -> None:
    made = cb.report([0.001] * 100 + [0.002] * 300, [0] * 400, grade=["A"] * 100 + ["B"] * 300, style="credit")
    text = made.to_markdown()
    assert made.headline.startswith("GREEN: no default was observed (0.70 predicted)")
    assert "Was a class filtered out" not in text
    assert "## No defaults: upper bounds of the PDs" in text
    bound = cb.credit.pluto_tasche([100, 300], [0, 0], confidence=0.75)
    assert made.numbers["upper_bounds"]["bounds"][1] == pytest.approx(bound.tolist())


def test_no_default_where_many_were_predicted_is_told(german) -> None:
    made = cb.report([0.1] * 100 + [0.2] * 300, [0] * 400, grade=["A"] * 100 + ["B"] * 300, style="credit")
    assert "far fewer than predicted (70.0 predicted, p < 0.0001): the PDs look too high" in made.headline
    assert "it is the likely result" not in made.to_markdown()
    Path("z.csv").write_text("grade,pd,n,defaults\nA,0.1,100,0\nB,0.2,300,0\n", encoding="utf-8")
    assert "far fewer than predicted (p < 0.001): the PDs look too high" in german("grades", "z.csv").stdout
    done = german("grades", "z.csv", "--correlation", "0.9")
    assert "That does not show that the PDs are right" in done.stdout


def test_rows_with_decimal_commas_are_checked_as_others(german, columns) -> None:
    score, label = columns["score"][:500], columns["label"][:500]
    lines = [f"{p:.4f}".replace(".", ",") + f";{y}" for p, y in zip(score, label, strict=True)]
    Path("comma.csv").write_text("\n".join(["score;label", *lines]) + "\n", encoding="utf-8")
    done = german("check", "comma.csv", "--json")
    expected = cb.check(score.round(4), label)
    assert json.loads(done.stdout)["predicted"] == pytest.approx(expected.predicted)
    Path("real.csv").write_text("score,label\n" + '"1,234.5",1\n"2,345.5",0\n' * 40, encoding="utf-8")
    assert json.loads(german("fit", "real.csv", "--score-type", "real", "--out", "m.json", "--json").stdout)


def test_a_decimal_mark_that_the_file_contradicts_is_refused(german, subtests) -> None:
    Path("p.csv").write_text("grade;pd;n;defaults;label\nA;0.01;100;1;0\nB;0.02;100.0;1;1\n", encoding="utf-8")
    for words in ((), ("--score", "pd", "--label", "label")):
        with subtests.test(" ".join(words)):
            done = german("grades", "p.csv", *words, "--decimal", ",")
            assert done.exit_code == 1
            assert "contains '0.01', in which '.' is the decimal mark: pass --decimal ." in " ".join(
                done.stderr.split()
            )


def test_the_decimal_mark_is_used_for_single_borrowers(german) -> None:
    Path("c.csv").write_text("grade;pd;label\nA;1,000;1\nA;0;0\n", encoding="utf-8")
    words = ("grades", "c.csv", "--score", "pd", "--label", "label")
    assert "which can mean 1000 or 1.000" in " ".join(german(*words).stderr.split())
    assert numbers(german(*words, "--decimal", ",", "--json")) == [(2, 1, 0.5)]


def test_labels_and_years_of_the_long_run_average_are_checked(german, subtests) -> None:
    words = ("anchor", "x.csv", "--score", "pd", "--label", "bad", "--time", "year", "--out", "m.json")
    cases = {
        "2 lines have no label": "0.1,,2023\n0.1,,2024\n0.1,1,2024\n",
        "'bad' holds the labels 0 and 2": "0.1,2,2023\n0.1,0,2024\n",
        "has no year in 1 lines": "0.1,1,2023\n0.1,0,\n",
    }
    for expected, lines in cases.items():
        with subtests.test(expected):
            Path("x.csv").write_text(f"pd,bad,year\n{lines}", encoding="utf-8")
            done = german(*words)
            assert done.exit_code == 1
            assert expected in " ".join(done.stderr.split())
    for first, second in (("2023", "2024"), ("31.12.2023", "30.06.2024"), ("2023-12-31", "2024-06-30")):
        with subtests.test(first):
            Path("x.csv").write_text(f"pd,bad,year\n0.1,1,{first}\n0.1,0,{first}\n0.2,0,{second}\n", encoding="utf-8")
            found = json.loads(german(*words, "--json", "--force").stdout)["long_run_average"]
            assert (found["n"], found["events"]) == ([2, 1], [1, 0])


def test_single_grades_fail_by_the_test_for_correlated_defaults(german) -> None:
    Path("g.csv").write_text("grade,pd,n,defaults\nA,0.05,1000,40\nB,0.01,300,9\n", encoding="utf-8")
    assert german("grades", "g.csv", "--fail-on", "grades").exit_code == 13
    assert german("grades", "g.csv", "--fail-on", "grades", "--correlation", "0.2").exit_code == 0


def test_segments_keep_their_sheets_whatever_their_names(german) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    names = ["a/b", "a:b", "A_B", "long " * 8 + "1", "long " * 8 + "2"]
    lines = "".join(f"A,0.05,1000,40,{name},2024\n" for name in names)
    Path("s.csv").write_text(f"grade,pd,n,defaults,segment,year\n{lines}", encoding="utf-8")
    done = german("grades", "s.csv", "--by", "segment", "--time", "year", "--out", "s.xlsx")
    assert done.exit_code == 0, done.stderr
    titles = openpyxl.load_workbook("s.xlsx").sheetnames
    assert titles[:5] == ["grades", "lights all", "lights A_B", "lights a_b 2", "lights a_b 3"]
    assert len({title.lower() for title in titles}) == 7
    assert max(map(len, titles)) <= 31


def test_a_column_may_have_the_name_of_an_option(german) -> None:
    text = "rating,grade,pd,n,defaults,time\nA,x,0.05,100,4,2024\nB,x,0.1,100,4,2025\nA,y,0.05,100,4,2025\n"
    Path("k.csv").write_text(text, encoding="utf-8")
    words = ("--grade", "rating", "--by", "grade", "--by", "n", "--time", "time", "--json")
    found = json.loads(german("grades", "k.csv", *words).stdout)
    assert (found["grades"], found["segments"]) == (["A", "B"], ["x, 100", "y, 100"])


def test_a_report_with_an_earlier_sample(run) -> None:
    for name, first in (("before", 0), ("now", 50)):
        lines = [f"{0.02 if i % 3 else 0.1},{int(i % 11 == 0)},{'A' if i % 3 else 'B'},{first + i}" for i in range(200)]
        Path(f"{name}.csv").write_text("\n".join(["pd,bad,grade,id", *lines]) + "\n", encoding="utf-8")
    words = ("report", "now.csv", "--score", "pd", "--label", "bad", "--style", "credit", "--reference", "before.csv")
    assert "needs --reference and --grade" in run(*words, "--borrower", "id", "--out", "r.json").stderr
    done = run(*words, "--grade", "grade", "--borrower", "id", "--out", "r.json", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)["reference"]
    assert (found["rows"], found["psi"]["value"]) == (200, 0.0)
    assert (found["migration"]["left"], found["migration"]["joined"]) == (50, 50)


# ------------------------------------------------------------------------------------- What banks export, and hand over


LINES = [
    [grade, pd, n, k, f"{year}-12-31"]
    for year in (2023, 2024)
    for grade, pd, n, k in (("A", 0.0005, 2500, 1), ("B", 0.002, 4700, 18), ("C", 0.02, 1500, 44))
]
HEAD = ["Rating", "PD", "Anzahl", "Ausfälle", "Jahr"]
TOTAL = ["Gesamt", None, 17400, 126, None]
SHEETS = {
    "plain": ([HEAD, *LINES], ()),
    "title above, total below": ([["PD validation"], ["As of", "2024"], [], HEAD, *LINES, [], TOTAL], ()),
    "after a cover": ([HEAD, *LINES, TOTAL], ("--sheet", "Grades")),
    "line of names given": ([HEAD, HEAD[::-1], [], HEAD, *LINES], ("--header-row", "4")),
}


@pytest.mark.parametrize("layout", SHEETS)
def test_every_command_reads_the_table_of_a_workbook(german, layout: str) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    lines, more = SHEETS[layout]
    book = openpyxl.Workbook()
    sheet = book.active
    if "--sheet" in more:
        sheet.append(["Cover"])
        sheet = book.create_sheet("Grades")
    for line in lines:
        sheet.append(line)
    book.save("in.xlsx")
    found = json.loads(german("grades", "in.xlsx", *NAMES, "--time", "Jahr", "--json", *more).stdout)
    assert [each["n"] for each in found["portfolio"]["grades"]] == [5000, 9400, 3000]
    assert found["years"] == ["2023", "2024"]
    columns = ("--score", "PD", "--label", "late", "--weight", "Anzahl", "--frequency")
    counted = german("check", "in.xlsx", *columns, "--json", *more)  # this column is missing in all layouts
    assert counted.exit_code == 1
    assert "'Ausfälle'" in counted.stderr


def test_options_of_a_workbook_are_refused_where_they_cannot_hold(german) -> None:
    for words in (("--sheet", "x"), ("--header-row", "2")):
        assert german("grades", "plain.csv", *words).exit_code == 1


@pytest.mark.parametrize(
    "written", [("0", "1"), ("Nein", "Ja"), ("-1", "1"), ("2", "1"), ("false", "true"), ("it's", "no")]
)
def test_labels_are_read_as_check_reads_them(german, written: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    lines = [(g, p, written[rng.random() < p]) for g, p in zip("ABC" * 200, (0.02, 0.1, 0.4) * 200, strict=True)]
    text = "".join(f'{g},{p},"{y}",{2023 + k % 2}\n' for k, (g, p, y) in enumerate(lines))
    Path("x.csv").write_text("grade,pd,bad,year\n" + text, encoding="utf-8")
    plain = written in (("0", "1"), ("-1", "1"), ("false", "true"))
    words = ("x.csv", "--score", "pd", "--label", "bad", *(() if plain else ("--positive", written[1])), "--json")
    events = sum(y == written[1] for *_, y in lines)
    assert json.loads(german("check", *words).stdout)["events"] == events
    assert json.loads(german("grades", *words).stdout)["portfolio"]["portfolio"]["events"] == events
    yearly = german("anchor", *words, "--time", "year", "--out", "m.json")
    assert sum(json.loads(yearly.stdout)["long_run_average"]["events"]) == events
    if not plain:
        assert german("grades", *words[:5]).exit_code == german("check", *words[:5]).exit_code == 1


def test_a_light_of_several_years_names_what_they_share(german) -> None:
    words = ("german.csv", *NAMES, "--time", "Stichtag", "--correlation", "0.1", "--json")
    for year_correlation, more in ((0.0, ()), (0.4, ("--year-correlation", "0.4"))):
        found = json.loads(german("grades", *words, *more).stdout)
        whole = found["portfolio"]
        n, k, pd = [[1200, 2400, 700], [1300, 2300, 800]], [[1, 6, 27], [0, 12, 17]], [[0.0005, 0.002, 0.02]] * 2
        same = cb.credit.vasicek_test(n, k, pd, correlation=0.1, year_correlation=year_correlation)
        assert (whole["years"], whole["year_correlation"]) == (2, year_correlation)
        assert whole["portfolio"]["correlated_p"] == same.portfolio_p
        assert [each["correlated_p"] for each in whole["grades"]] == same.p_values.tolist()
    assert german("grades", "german.csv", *NAMES, "--year-correlation", "0.4").exit_code == 1


def test_the_page_of_lights_says_what_it_is_about_and_its_legend_once(german) -> None:
    about = ("--title", "PD <retail>", "--meta", "model=PD 7", "--meta", "date=2025-03-31")
    done = german(
        "grades", "german.csv", *NAMES, "--time", "Stichtag", "--correlation", "0.1", "--out", "p.html", *about
    )
    page = Path("p.html").read_text(encoding="utf-8")
    assert page.count("<title>PD &lt;retail&gt;</title>") == 1
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert facts | {"data": ""} == {"model": "PD 7", "date": "2025-03-31", "file": "german.csv", "data": ""}
    assert page.index("<dl>") < page.index(done.stdout.split(":")[0]) < page.index("<table")
    assert [
        name for name in re.findall("<th[^>]*>([a-z]+)</th>", page) if name.endswith("ed") or name.startswith("ind")
    ]
    assert page.count("Clopper-Pearson") == 1
    assert page.count("<table") == 1 + 1 + 2  # all grades, the lights by year, each year
    assert german("grades", "plain.csv", "--meta", "model=x").exit_code == 1


def test_of_many_parts_the_worst_ten_are_printed(german) -> None:
    rows = "".join(f"A,0.01,100,{k % 4},s{k}\n" for k in range(14))
    Path("parts.csv").write_text("grade,pd,n,defaults,seg\n" + rows, encoding="utf-8")
    shown = german("grades", "parts.csv", "--by", "seg").stdout
    listed = re.findall(r"^s\d+ ", shown, re.MULTILINE)
    assert len(listed) == 10
    assert {int(each[1:]) % 4 for each in listed[:3]} == {3}
    assert "--out" in shown.splitlines()[-2] + shown.splitlines()[-1]


def test_no_report_is_written_as_pdf(german) -> None:
    done = german("report", "plain.csv", "--out", "r.pdf")
    assert done.exit_code == 1
    assert "--print-to-pdf=r.pdf r.html" in " ".join(done.stderr.split())
