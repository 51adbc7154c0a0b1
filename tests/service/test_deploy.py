"""Files of deployment: read by their own tools where these are at hand, and consistent with what the service says."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibrant.service.api.metrics import FIGURES
from calibrant.service.config import PREFIX, SECRETS, Config

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
NAMES = {f"calibrant_{name}" for name in FIGURES} | {"calibrant_events_total", "calibrant_database_up"}
NAMES |= {f"calibrant_request_seconds_{end}" for end in ("bucket", "count", "sum")}


def promtool(*arguments: str) -> None:
    run = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def queries() -> list[str]:
    """All queries of the dashboard, with a value for its variable."""
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [each.replace("$stream", "clicks") for each in found]


def documents(path: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


@pytest.mark.slow
def test_alerts_fire_when_they_should() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


def test_each_alert_is_tested_and_described() -> None:
    rules = documents(PROMETHEUS / "alerts.yml")[0]["groups"][0]["rules"]
    tests = documents(PROMETHEUS / "alerts_test.yml")[0]["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert {each["alert"] for each in rules} == fired
    page = (DEPLOY.parent / "docs" / "service" / "run.md").read_text()
    assert not [name for name in fired if f"`{name}`" not in page]


def test_queries_name_metrics_that_exist(tmp_path: Path) -> None:
    rules = documents(PROMETHEUS / "alerts.yml")[0]["groups"][0]["rules"]
    for text in [*queries(), *(each["expr"] for each in rules)]:
        assert set(re.findall(r"calibrant_\w+", text)) <= NAMES
    group = [{"record": f"query:{n}", "expr": text} for n, text in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": group}]}))
    promtool("check", "rules", "--lint=none", str(file))


def test_each_metric_is_described() -> None:
    page = (DEPLOY.parent / "docs" / "service" / "pages.md").read_text()
    assert not [name for name in FIGURES if f"`calibrant_{name}`" not in page]


def test_variables_are_those_of_the_configuration() -> None:
    known = {PREFIX + each.name.upper() for each in fields(Config)} | {
        f"{PREFIX}{name.upper()}_FILE" for name in SECRETS
    }
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert set(re.findall(r"\bCALIBRANT_[A-Z_]+", path.read_text())) <= known, path


def test_manifests_run_without_privileges() -> None:
    for name in ("migrate", "serve", "learn"):
        pod = documents(DEPLOY / "kubernetes" / f"{name}.yaml")[0]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["args"] == [name]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    assert {"database", "migrate", "learn", "serve"} == set(services)
    assert "USER 10001" in (DEPLOY / "Dockerfile").read_text()
