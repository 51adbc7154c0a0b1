"""A release can be made: archives, lock file, licenses and bill of materials are right, and their checks can fail."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools import build_check, dependencies, extras

HEAD = f"calibrant-{build_check.version()}"
FILES = ["src/calibrant/__init__.py", "src/calibrant/py.typed", "README.md", "tests/conftest.py"]


def wheel(folder: Path, names: list[str]) -> Path:
    path = folder / f"{HEAD}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def source(folder: Path, names: list[str]) -> Path:
    path = folder / f"{HEAD}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"{HEAD}/{name}"), io.BytesIO())
    return path


GOOD = ["calibrant/__init__.py", "calibrant/py.typed", *(f"{HEAD}.dist-info/{name}" for name in build_check.METADATA)]


VERDICT = """
import sys
import numpy as np
import calibrant as cb
scores = np.linspace(0.01, 0.99, 400)
verdict = cb.check(scores, (np.random.default_rng(0).random(400) < scores).astype(int))
sys.stdout.write(f"{cb.__file__}\\n{verdict}")
"""


@pytest.mark.slow
def test_two_builds_have_the_same_bits_and_the_wheel_makes_a_verdict_where_it_is_installed(tmp_path, capsys):
    assert build_check.main(["--out", str(tmp_path / "dist")]) == 0, capsys.readouterr().out
    (built,), place = (tmp_path / "dist").glob("*.whl"), tmp_path / "place"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", place, built]
    subprocess.run([sys.executable, *install], check=True)
    command = [sys.executable, "-W", "error", "-c", VERDICT]
    env = os.environ | {"PYTHONPATH": str(place)}  # before the checkout, which an editable installation puts last
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    where, _, verdict = done.stdout.partition("\n")
    assert place in Path(where).parents
    assert verdict.strip()


def test_a_wheel_with_more_or_less_than_the_package_is_refused(tmp_path, monkeypatch):
    assert not list(build_check.wheel_problems(wheel(tmp_path, GOOD), FILES))
    (more,) = build_check.wheel_problems(wheel(tmp_path, [*GOOD, "tests/conftest.py"]), FILES)
    (less,) = build_check.wheel_problems(wheel(tmp_path, GOOD[1:]), FILES)
    assert "tests/conftest.py" in more
    assert "calibrant/__init__.py" in less
    monkeypatch.setattr(build_check, "MOST_BYTES", 10)
    assert list(build_check.wheel_problems(wheel(tmp_path, GOOD), FILES))


def test_a_source_archive_with_other_files_is_refused(tmp_path):
    needed = sorted(build_check.NEEDED)
    assert not list(build_check.source_problems(source(tmp_path, [*needed, "PKG-INFO"]), needed))
    (more,) = build_check.source_problems(source(tmp_path, [*needed, "notes.txt"]), needed)
    (less,) = build_check.source_problems(source(tmp_path, needed[1:]), needed)
    assert "notes.txt" in more
    assert needed[0] in less


def test_builds_that_differ_are_refused(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a")
    second.write_text("b")
    assert not list(build_check.differences({"a": first}, {"a": first}))
    assert list(build_check.differences({"a": first}, {"a": second}))
    assert list(build_check.differences({"a": first}, {}))


def test_the_lock_file_covers_what_development_needs(subtests):
    versions = dependencies.locked()
    for requirement in dependencies.required():
        with subtests.test(requirement.name):
            assert requirement.specifier.contains(versions[dependencies.canonicalize_name(requirement.name)])


def test_the_lock_file_has_versions_and_nothing_else():
    lines = dependencies.LOCK.read_text(encoding="utf-8").removeprefix(dependencies.HEAD).splitlines()
    assert lines == sorted(lines)
    assert not [
        line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( --hash=sha256:[0-9a-f]{64})+", line)
    ]


def test_licenses_of_all_that_is_installed_are_allowed():
    packages = {name: dependencies.license_of(package) for name, (package, _) in dependencies.installed().items()}
    assert not [line for name, text in packages.items() for line in dependencies.license_problems(name, text)]


@pytest.mark.parametrize("expression", ["", "AGPL-3.0-only", "MIT AND GPL-3.0-or-later", "Proprietary"])
def test_a_license_that_is_not_listed_is_refused(expression):
    assert not list(dependencies.license_problems("some", "Apache-2.0 WITH LLVM-exception OR (MIT AND 0BSD)"))
    assert list(dependencies.license_problems("some", expression))


def test_the_bill_of_materials_names_every_package_once_and_is_the_same_twice():
    bill = dependencies.materials()
    names = [each["name"] for each in bill["components"]]
    assert {"numpy", "scipy", "scikit-learn", "narwhals", "matplotlib", "joblib"} <= set(names)
    assert len(names) == len(set(names))
    known = {each["bom-ref"] for each in [*bill["components"], bill["metadata"]["component"]]}
    assert {link["ref"] for link in bill["dependencies"]} == known
    assert {address for link in bill["dependencies"] for address in link["dependsOn"]} <= known
    assert bill == dependencies.materials()


def test_every_extra_is_used_by_its_check():
    assert set(extras.USES) == {extras.NONE, *extras.extras()}
    assert set(extras.USES) > extras.WITHOUT


def test_the_conda_recipe_has_the_version_and_the_dependencies():
    recipe = (build_check.ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    stated = dependencies.project()["project"]
    assert f'\n  version: "{stated["version"]}"\n' in recipe
    run = re.search(r"\n  run:\n((?:    - .*\n)+)", recipe)[1]
    assert re.findall(r"- (\S+ >=[\d.]+)\n", run) == sorted(
        line.replace(">=", " >=") for line in stated["dependencies"]
    )
    assert f'python_min: "{stated["requires-python"].removeprefix(">=")}"' in recipe
    assert all(f"- {name} = {target}\n" in recipe for name, target in stated["scripts"].items())
