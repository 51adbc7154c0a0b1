"""Commands of a daily job: sorted segments, retention, the origin of a map, a table of parameters."""

from __future__ import annotations

import json

from calibrant import TallyStore, load

WORDS = ["tally", "rows.csv", "--by", "land", "--store", "kept", "--time", "day"]


def test_segments_are_sorted_as_asked(run):
    done = run("check", "rows.csv", "--label", "mixed", "--by", "land", "--sort", "rows", "--top", "2")
    assert "Segments: 1 of 4 significantly off, most rows first" in done.stdout
    assert "and 2 more" in done.stdout
    told = json.loads(run("check", "rows.csv", "--label", "mixed", "--by", "land", "--sort", "rows", "--json").stdout)
    rows = [each["rows"] for each in told["segments"]]
    assert rows == sorted(rows, reverse=True)
    assert run("check", "rows.csv", "--sort", "money").exit_code == 2


def test_old_days_are_deleted_and_open_days_replaced(run):
    run(*WORDS)
    assert len(TallyStore("kept").days) == 40
    refused = run(*WORDS, "--label", "mixed", "--open-days", "3")
    assert refused.exit_code == 1
    assert "--replace" in refused.stderr
    done = run(*WORDS, "--keep", "10", "--json")
    assert len(json.loads(done.stdout)["days"]["deleted"]) == 30
    assert len(TallyStore("kept").days) == 10
    assert run("tally", "rows.csv", "--keep", "3").exit_code == 1


def test_a_day_in_the_future_does_not_empty_the_store(run):
    run(*WORDS)
    late = ["tally", "rows.csv", "--by", "land", "--store", "kept", "--day", "9999-01-01", "--keep", "10", "--json"]
    done = run(*late)
    assert len(json.loads(done.stdout)["days"]["deleted"]) == 30
    assert [str(day) for day in TallyStore("kept").days][-2:] == ["2026-02-09", "9999-01-01"]
    assert "--keep counts back from 2026-02-09" in " ".join(done.stderr.split())
    done = run(*[word.replace("kept", "new") for word in late])
    assert "--keep deletes nothing" in " ".join(done.stderr.split())


def test_a_map_knows_where_it_comes_from(run):
    run(*WORDS)
    first = ["fit", "kept", "--method", "platt", "--out", "one.json", "--fitted-at", "2026-03-01T06:00:00+00:00"]
    assert run(*first).exit_code == 0
    second = ["fit", "kept", "--method", "platt", "--from", "2026-01-10", "--to", "2026-01-20", "--out", "two.json"]
    named = ["--model-name", "ctr", "--model-version", "14", "--parent", "one.json", "--meta", "ticket=17"]
    assert run(*second, *named).exit_code == 0
    one, two = load("one.json"), load("two.json").provenance
    assert (one.provenance.fitted_at, one.provenance.first_day) == ("2026-03-01T06:00:00+00:00", "2026-01-01")
    assert (two.first_day, two.last_day, two.source) == ("2026-01-10", "2026-01-20", ("kept",))
    assert (two.model, two.model_version, two.parent, two.entries) == ("ctr", "14", one.fingerprint, {"ticket": "17"})
    assert two.fitted_at.endswith("+00:00")
    assert run(*second, "--force", "--meta", "ticket").exit_code == 2
    for words, message in [
        (["--fitted-at", "noon"], "--fitted-at noon is not a time"),
        (["--fitted-at", "2026-01-01"], "2026-03-01T06:00:00+00:00"),
        (["--parent", "nothere.json"], "--parent nothere.json does not exist"),
    ]:
        refused = run(*second, "--force", *words)
        assert refused.exit_code == 1
        assert message in " ".join(refused.stderr.split())
    assert run(*second, "--force", "--meta", "a=b", "--meta", "a=c").exit_code == 2


def test_a_table_of_parameters(run, here):
    fitted = run("fit", "rows.csv", "--label", "mixed", "--by", "land", "--method", "platt", "--out", "map.json")
    assert fitted.exit_code == 0
    words = ["export", "map.json", "--table", "segments.csv", "--rows", "log"]
    done = run(*words, "--out", "map.sql")
    assert done.exit_code == 0, done.stderr
    assert "Wrote map.sql and segments.csv." in done.stdout
    assert len((here / "segments.csv").read_text().splitlines()) == 5
    assert "LEFT JOIN" in (here / "map.sql").read_text()
    assert run(*words).exit_code == 1
    assert run("export", "map.json", "--rows", "log", "--out", "map.sql", "--force").exit_code == 1
