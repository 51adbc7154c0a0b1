"""fit, apply, report, plan, compare and tally, end to end on files."""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tests.cli.conftest import command_line, made, write

import calibrant as cb


def rows_of(path: str) -> list[tuple]:
    return duckdb.sql(f"SELECT * FROM '{path}'").fetchall()


# -------------------------------------------------------------------------------------------------------------- fit


def test_fit_saves_the_map_of_the_library(subtests, run, columns):
    for method, calibrator in [
        ("auto", cb.AutoCalibrator()),
        ("shift", cb.calibrators.LogitShift()),
        ("temperature", cb.TemperatureScaling()),
        ("platt", cb.PlattScaling()),
        ("beta", cb.BetaScaling()),
        ("spline", cb.SplineCalibrator()),
        ("isotonic", cb.IsotonicCalibrator()),
        ("binning", cb.HistogramBinning()),
        ("scaling-binning", cb.calibrators.ScalingBinning()),
        ("bayesian-binning", cb.calibrators.BayesianBinning()),
        ("venn-abers", cb.VennAbers()),
    ]:
        with subtests.test(method):
            done = run("fit", "rows.csv", "--label", "bad", "--method", method, "--out", f"{method}.json")
            assert done.exit_code == 0
            expected = calibrator.fit(columns["score"], columns["bad"])
            grid = np.linspace(0, 1, 101)
            np.testing.assert_array_equal(cb.load(f"{method}.json").transform(grid), expected.transform(grid))
            assert done.stdout.startswith(f"{type(calibrator).__name__}() fitted to 4,000 probability scores")
            assert done.stdout.endswith(f"Saved as {method}.json.\n")


def test_the_sentence_of_the_certificate_is_printed_whole(run, columns):
    done = run(
        "fit",
        "rows.csv",
        "--label",
        "bad",
        "--method",
        "binning",
        "--n-bins",
        "5",
        "--alpha",
        "0.05",
        "--out",
        "m.json",
    )
    promise = cb.HistogramBinning(n_bins=5, alpha=0.05).fit(columns["score"], columns["bad"]).certificate()
    assert " ".join(str(promise).split()) in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_fit_prints_the_document_as_json(run):
    done = run(
        "fit", "rows.csv", "--label", "bad", "--epsilon", "0.1", "--method", "binning", "--out", "m.json", "--json"
    )
    assert json.loads(done.stdout) == json.loads(Path("m.json").read_text(encoding="utf-8"))


def test_dependent_rows_get_no_certificate(run):
    done = run("fit", "rows.csv", "--label", "bad", "--method", "binning", "--groups", "patient", "--out", "m.json")
    assert "No certificate" in done.stdout


def test_fit_takes_a_store(run):
    run("tally", "rows.csv", "--label", "bad", "--by", "land", "--day", "2026-03-01", "--store", "kept")
    assert run("fit", "kept", "--method", "platt", "--out", "m.json").exit_code == 0
    run("fit", "rows.csv", "--label", "bad", "--method", "platt", "--out", "whole.json")
    stored, whole = cb.load("m.json"), cb.load("whole.json")
    assert stored.provenance.n == whole.provenance.n
    assert stored.transform([0.3])[0] == pytest.approx(whole.transform([0.3])[0], abs=1e-3)


def test_many_log_odds_are_counted_on_a_grid_of_their_range(run):
    columns = made(70_000, seed=5)
    p = columns["score"]
    write({"x": np.log(p / (1 - p)), "label": columns["label"]}, "logits.parquet")
    done = run("fit", "logits.parquet", "--score", "x", "--score-type", "logit", "--out", "m.json")
    assert done.exit_code == 0
    assert cb.load("m.json").transform([0.0])[0] == pytest.approx(0.5, abs=0.02)


# ------------------------------------------------------------------------------------------------ fit, by itself


def test_by_itself_fit_is_calibrate(run, columns):
    done = run("fit", "rows.csv", "--label", "bad", "--out", "m.json")
    expected = cb.calibrate(columns["score"], columns["bad"])
    assert cb.load("m.json").map == expected.map_
    assert f"Chosen: {expected.choice_} (" in done.stdout
    assert "Candidates, on held-out rows" in done.stdout
    for line in expected.comparison_.lines:
        if line.loss == line.loss:
            assert f"{line.loss:.5f}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for name in ("comparison_", "guarantee=", "epsilon"):
        assert name not in done.stdout


def test_keeping_the_model_is_an_answer_and_a_map(run):
    done = run("fit", "rows.csv", "--out", "m.json")
    assert done.exit_code == 0
    assert "Keep the original model" in done.stdout
    np.testing.assert_allclose(cb.load("m.json").transform([0.2, 0.7]), [0.2, 0.7], rtol=0, atol=1e-15)


def test_rare_events_are_recalibrated(run):
    """A million rows in 400 lines with their counts; 0.5 % are events, 1.35 times as many as predicted."""
    x = np.linspace(-7.5, -4.5, 200)
    events = np.random.default_rng(0).binomial(5_000, 1 / (1 + np.exp(-x - 0.3)))
    columns = {"score": np.tile(1 / (1 + np.exp(-x)), 2), "label": np.repeat([0, 1], 200)}
    write(columns | {"rows": np.r_[5_000 - events, events]}, "rare.csv")
    done = run("fit", "rare.csv", "--weight", "rows", "--frequency", "--out", "m.json")
    assert done.exit_code == 0
    assert "Keep the original model" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    p = cb.load("m.json").transform(columns["score"][:200])
    assert p.sum() * 5_000 == pytest.approx(events.sum(), rel=0.05)


def test_where_nothing_could_be_compared_there_is_no_table(run, columns):
    write({"score": columns["score"][:6], "label": np.array([0, 1, 0, 0, 1, 0])}, "six.csv")
    done = run("fit", "six.csv", "--out", "m.json")
    assert done.exit_code == 0
    assert "Candidates, on held-out rows" not in done.stdout
    assert cb.load("m.json").transform([0.3])[0] == pytest.approx(0.3, abs=1e-15)


def test_the_comparison_is_told_as_json(run, columns):
    words = ["fit", "rows.csv", "--label", "bad", "--loss", "brier", "--out", "m.json", "--json"]
    told = json.loads(run(*words).stdout)
    expected = cb.calibrate(columns["score"], columns["bad"], loss="brier")
    comparison = told.pop("comparison")
    assert told == json.loads(Path("m.json").read_text(encoding="utf-8"))
    assert comparison["choice"] == expected.choice_
    assert comparison["loss"] == "brier"
    assert comparison["change"]["value"] == expected.change_.value
    assert comparison["before"]["value"] == expected.before_.value
    assert comparison["after"]["high"] == expected.after_.high
    assert [each["name"] for each in comparison["candidates"] if each["chosen"]] == [expected.choice_]


@pytest.mark.parametrize(("option", "column"), [("groups", "patient"), ("time", "day")])
def test_groups_and_time_split_the_rows(run, columns, option, column):
    done = run("fit", "rows.parquet", "--label", "bad", f"--{option}", column, "--out", "m.json", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)["comparison"]
    expected = cb.calibrate(columns["score"], columns["bad"], **{option: columns[column]})
    assert told["after"]["value"] == pytest.approx(expected.after_.value, abs=1e-12)
    assert told["after"]["value"] != cb.calibrate(columns["score"], columns["bad"]).after_.value


def test_a_guarantee_is_a_certificate_or_an_error(run, columns):
    done = run("fit", "rows.csv", "--label", "bad", "--guarantee", "0.1", "--alpha", "0.2", "--out", "m.json")
    promise = cb.calibrate(columns["score"], columns["bad"], guarantee=(0.1, 0.2)).certificate()
    assert promise.epsilon <= 0.1
    assert " ".join(str(promise).split()) in " ".join(done.stdout.split())
    assert cb.load("m.json").certificate.alpha == 0.2
    assert run("fit", "rows.csv", "--label", "bad", "--guarantee", "0.001", "--out", "n.json").exit_code == 1
    assert not Path("n.json").exists()


def test_fit_chooses_on_a_store_and_on_globs(run, columns):
    run("tally", "rows.csv", "--label", "bad", "--by", "land", "--day", "2026-03-01", "--store", "kept")
    stored = json.loads(run("fit", "kept", "--out", "m.json", "--json").stdout)
    assert stored["comparison"]["before"]["value"] == pytest.approx(
        cb.calibrate(columns["score"], columns["bad"]).before_.value, abs=1e-4
    )
    write({name: column[:2000] for name, column in columns.items()}, "part-1.csv")
    write({name: column[2000:] for name, column in columns.items()}, "part-2.csv")
    run("fit", "part-*.csv", "--label", "bad", "--out", "parts.json")
    run("fit", "rows.csv", "--label", "bad", "--out", "whole.json")
    assert cb.load("parts.json").map == cb.load("whole.json").map


def test_log_odds_of_patients_are_split_by_patient(run):
    columns = made(70_000, seed=5)
    p = columns["score"]
    write({"x": np.log(p / (1 - p)), "label": columns["label"], "patient": columns["patient"]}, "logits.parquet")
    words = ["fit", "logits.parquet", "--score", "x", "--score-type", "logit", "--groups", "patient", "--out", "m.json"]
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    assert cb.load("m.json").transform([0.0])[0] == pytest.approx(0.5, abs=0.02)


# ------------------------------------------------------------------------------------------------------------ apply


@pytest.fixture
def stored(run, columns):
    """A map, as the library has it, in map.json."""
    calibrator = cb.HistogramBinning(n_bins=6).fit(columns["score"], columns["bad"])
    calibrator.save("map.json")
    return calibrator


def test_apply_adds_a_column_and_keeps_order_and_the_others(subtests, run, stored, columns):
    for source in ["rows.csv", "rows.parquet"]:
        for target in ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"]:
            with subtests.test(source=source, target=target):
                done = run("apply", source, "--map", "map.json", "--out", target, "--force", "--name", "p")
                assert done.exit_code == 0, done.stderr
                relation = duckdb.sql(f"SELECT * FROM '{target}'")
                assert relation.columns == [*columns, "p"]
                result = relation.project("id, p").fetchnumpy()
                assert result["id"].tolist() == columns["id"].tolist()
                np.testing.assert_array_equal(result["p"], stored.transform(columns["score"]))
                assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_a_csv_stays_as_it_was_written(run, stored):
    Path("codes.csv").write_text("code,flag,score\n007,yes,0.25\n1e3,,0.5\n", encoding="utf-8")
    run("apply", "codes.csv", "--map", "map.json", "--out", "out.csv")
    lines = Path("out.csv").read_text(encoding="utf-8").splitlines()
    assert [line.rsplit(",", 1)[0] for line in lines] == ["code,flag,score", "007,yes,0.25", "1e3,,0.5"]


def test_a_missing_score_gets_no_probability_and_is_told(run, stored):
    Path("gaps.csv").write_text("score\n0.25\nNaN\n0.5\n", encoding="utf-8")
    done = run("apply", "gaps.csv", "--map", "map.json", "--out", "out.parquet", "--json")
    assert json.loads(done.stdout) | {"mean_score": 0.375, "missing": 1, "rows": 3} == json.loads(done.stdout)
    assert [row[1] is None for row in rows_of("out.parquet")] == [False, True, False]


def test_nothing_is_written_when_a_score_is_not_of_the_maps_kind(run, stored):
    Path("percent.csv").write_text("score\n25\n0.5\n", encoding="utf-8")
    done = run("apply", "percent.csv", "--map", "map.json", "--out", "out.csv")
    assert done.exit_code == 1
    assert "has 1 of 2 scores outside" in done.stderr
    assert not Path("out.csv").exists()


def test_force_overwrites(run, stored):
    Path("out.csv").write_text("precious", encoding="utf-8")
    assert run("apply", "rows.csv", "--map", "map.json", "--out", "out.csv").exit_code == 1
    assert Path("out.csv").read_text(encoding="utf-8") == "precious"
    assert run("apply", "rows.csv", "--map", "map.json", "--out", "out.csv", "--force").exit_code == 0
    assert len(rows_of("out.csv")) == 4000


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_a_full_disk_leaves_what_was_there(run, stored, here, target):
    """A limit on the size of files stands in for the disk."""
    (here / target).write_text("what was there")
    before = sorted(here.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
    try:
        done = run("apply", "rows.csv", "--map", "map.json", "--out", target, "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 1
    assert f"--out {target} was not written or changed" in " ".join(done.stderr.split())
    assert (here / target).read_text() == "what was there"
    assert sorted(here.iterdir()) == before


# ----------------------------------------------------------------------------------------------------------- report


def test_report_is_the_librarys(run, columns):
    done = run(
        "report",
        "rows.csv",
        "--label",
        "bad",
        "--by",
        "land",
        "--style",
        "credit",
        "--title",
        "PD 2026",
        "--out",
        "r.md",
    )
    assert done.exit_code == 0, done.stderr
    expected = cb.report(
        columns["score"], columns["bad"], by={"land": columns["land"]}, style="credit", title="PD 2026"
    )
    assert Path("r.md").read_text(encoding="utf-8") == expected.to_markdown()
    assert "MISCALIBRATED" in done.stdout


def test_report_of_a_store_as_html_and_json(run):
    run("tally", "rows.csv", "--by", "land", "--time", "day", "--store", "kept")
    done = run("report", "kept", "--out", "r.html", "--json")
    assert json.loads(done.stdout)["rows"] == 4000
    assert Path("r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


# ------------------------------------------------------------------------------------------------------------- plan


def test_plan_answers_with_the_third(run):
    printed = run("plan", "--epsilon", "0.05", "--n-bins", "10").stdout
    assert printed.split() == str(cb.plan(epsilon=0.05, n_bins=10)).split()
    done = run("plan", "--labels", "5000", "--epsilon", "0.08", "--coverage", "marginal", "--scheme", "ums", "--json")
    assert json.loads(done.stdout) == asdict(cb.plan(n=5000, epsilon=0.08, coverage="marginal", scheme="ums")) | {
        "outlook": []
    }


def test_plan_leaves_out_rows_without_a_score(run):
    Path("gaps.csv").write_text("score\n0.25\nNaN\n0.5\n0.75\n", encoding="utf-8")
    words = ["plan", "--labels", "2000", "--n-bins", "3", "--scores", "gaps.csv"]
    assert "lacks 1 of 4 scores: exclude these rows with --where" in run(*words).stderr
    assert run(*words, "--where", "isfinite(score)").exit_code == 0


def test_plan_looks_at_scores_without_labels(run, columns):
    done = run("plan", "--labels", "2000", "--n-bins", "4", "--scores", "rows.parquet", "--json")
    expected = cb.plan(n=2000, n_bins=4, scores=columns["score"])
    assert json.loads(done.stdout)["outlook"] == [asdict(each) for each in expected.outlook]
    assert run("plan", "--labels", "2000", "--n-bins", "4", "--scores", "rows.parquet").stdout.count("\n") >= 6


# ---------------------------------------------------------------------------------------------------------- compare


def test_compare_is_the_librarys(run, columns):
    words = [
        "--old",
        "score",
        "--new",
        "new",
        "--label",
        "bad",
        "--threshold",
        "0.2",
        "--threshold",
        "0.5",
        "--groups",
        "patient",
    ]
    told = json.loads(run("compare", "rows.csv", *words, "--json").stdout)
    change = cb.compare(
        columns["score"], columns["new"], columns["bad"], thresholds=[0.2, 0.5], groups=columns["patient"]
    )
    assert told == change.to_dict()
    shown = run("compare", "rows.csv", *words).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "Log loss" in shown
    assert "better" in shown


def test_compare_takes_any_number_of_models(run, columns):
    words = ["--model", "score", "--model", "new", "--model", "p2", "--label", "bad"]
    assert run("compare", "rows.csv", *words).exit_code == 1
    words[5] = "w"
    models = ["--model", "score", "--model", "new", "--label", "bad"]
    told = json.loads(run("compare", "rows.csv", *models, "--json").stdout)
    assert told == cb.compare({name: columns[name] for name in ("score", "new")}, columns["bad"]).to_dict()
    assert "--model" in run("compare", "rows.csv", *words).stderr
    for wrong in (["--old", "score"], ["--old", "score", *models], []):
        assert run("compare", "rows.csv", *wrong).exit_code == 1


# ------------------------------------------------------------------------------------------------------------ tally


def test_tally_counts_rows_events_and_segments(run, columns):
    told = json.loads(run("tally", "rows.csv", "--label", "bad", "--by", "land", "--json").stdout)
    assert (told["rows"], told["events"]) == (4000, columns["bad"].sum())
    assert told["mean_score"] == pytest.approx(columns["score"].mean(), abs=1e-9)
    found = {each["segment"]["land"]: each["rows"] for each in told["segments"]}
    assert found == {land: (columns["land"] == land).sum() for land in ("de", "es", "fr", "it")}
    assert "4,000" in run("tally", "rows.csv").stdout


@pytest.mark.parametrize("target", ["counts.csv", "counts.parquet"])
def test_the_table_of_cells_adds_up(run, columns, target):
    run("tally", "rows.csv", "--label", "bad", "--by", "land", "--time", "day", "--every", "1mo", "--out", target)
    table = duckdb.sql(f"SELECT * FROM '{target}'")
    assert table.columns == ["land", "day", "lower_score", "upper_score", "n", "events", "mean_score"]
    sums = table.aggregate("sum(n), sum(events), sum(n * mean_score)").fetchall()[0]
    assert sums == (4000, columns["bad"].sum(), pytest.approx(columns["score"].sum()))
    assert table.filter("mean_score < lower_score OR mean_score > upper_score").fetchall() == []
    assert table.aggregate("count(DISTINCT day)").fetchall() == [(2,)]


def test_a_day_is_added_once_and_replaced_on_demand(run):
    words = ["--by", "land", "--store", "kept", "--day", "2026-03-01"]
    assert "written: 2026-03-01." in run("tally", "rows.csv", "--label", "bad", *words).stdout
    assert "already there: 2026-03-01." in run("tally", "rows.csv", "--label", "bad", *words).stdout
    other = run("tally", "rows.csv", "--label", "mixed", *words)
    assert other.exit_code == 1
    assert "--replace would replace 4,000 rows in 4 segments by 4,000 rows in 4 segments: pass" in other.stderr
    assert "written: 2026-03-01." in run("tally", "rows.csv", "--label", "mixed", "--replace", *words).stdout


def test_the_store_of_the_command_is_the_librarys(run, columns):
    told = json.loads(run("tally", "rows.parquet", "--time", "day", "--by", "land", "--store", "a", "--json").stdout)
    assert len(told["days"]["written"]) == 40
    cb.TallyStore("b", by="land").add_frame(duckdb.read_parquet("rows.parquet"), "score", "label", time="day")
    for key, tally in cb.TallyStore("b").window().items():
        assert cb.TallyStore("a").window()[key].fingerprint == tally.fingerprint


def test_a_store_remembers_its_segments(run):
    run("tally", "rows.csv", "--by", "land", "--day", "2026-03-01", "--store", "kept")
    done = run("tally", "few.csv", "--day", "2026-03-02", "--store", "kept")
    assert done.exit_code == 0, done.stderr
    assert len(cb.TallyStore("kept").window("2026-03-02")) == 4


# ---------------------------------------------------------------------------------------------------- as a process


def test_a_pipeline_of_processes(here):
    """Fit, apply and check what came out, as a shell script would."""
    assert command_line("fit", "rows.csv", "--label", "bad", "--out", "map.json", cwd=here).returncode == 0
    done = command_line("apply", "rows.csv", "--map", "map.json", "--out", "scored.parquet", cwd=here)
    assert done.stderr == ""
    done = command_line("check", "scored.parquet", "--score", "calibrated", "--label", "bad", "--json", cwd=here)
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "calibrated"


def test_what_head_does_not_read_is_no_accident(here):
    """A closed pipe ends the command without a word."""
    command = f"{shlex.quote(sys.executable)} -m calibrant.cli check rows.csv --json | head -c 10"
    done = subprocess.run(command, shell=True, cwd=here, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
