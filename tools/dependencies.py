"""The packages that Calibrant needs: the lock file for development, their licenses, and a bill of materials.

python tools/dependencies.py --lock                 # write the lock files in requirements, with the newest versions
python tools/dependencies.py --hashes               # the same, with the versions that are locked now
python tools/dependencies.py --licenses             # exit with 1 where a license is not in the list of this file
python tools/dependencies.py --materials bom.json   # CycloneDX, of the package with all its extras

Licenses and materials are those of the packages that are installed here; the lock file asks the package index.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "development.txt"
IMAGE = ROOT / "requirements" / "service.txt"
PLATFORMS = ("x86_64", "aarch64")
"""Processors for which the image is built."""
PACKAGE = "calibrant"
HEAD = """# Versions and hashes of every package of the environment for development: Linux on x86-64, Python 3.11.
# `make venv LOCKED=1` takes these. Written by `python tools/dependencies.py --lock`.
"""
IMAGE_HEAD = """# Versions and hashes of every package of the service's image: Linux on x86-64 and ARM, Python 3.11.
# deploy/Dockerfile takes these. Written by `python tools/dependencies.py --lock`.
"""

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "HPND",
    "ISC",
    "LGPL-3.0-only",  # a library that is imported as it is (psycopg)
    "LLVM-exception",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",
    "PSF-2.0",
    "Python-2.0",
    "Unlicense",
    "Zlib",
}
"""Licenses under which a package may be used beside code of any license, by their SPDX names."""
LINKED = {"GPL-3.0-or-later", "GCC-exception-3.1", "GPL-3.0-with-GCC-exception", "LGPL-2.1-or-later"}
"""Licenses of the compiler's libraries inside wheels of NumPy and SciPy, with their exception for linking."""
NAMES = {
    "3-clause bsd": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license v2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-3": "BSD-3-Clause",
    "http://www.apache.org/licenses/license-2.0": "Apache-2.0",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psf license": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "the 3-clause bsd license (bsd-3-clause)": "BSD-3-Clause",
}
"""What packages call their license, in lower case, and its SPDX name."""


def project() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def group(name: str) -> Iterator[str]:
    """Requirements of a dependency group, with those of the groups that it includes."""
    for entry in project()["dependency-groups"][name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from group(entry["include-group"])


def required() -> list[Requirement]:
    """What the environment for development must hold on this system: the package, its extras and the group dev."""
    stated = project()["project"]
    extras = [line for name, lines in stated["optional-dependencies"].items() if name != "all" for line in lines]
    found = [Requirement(line) for line in [*stated["dependencies"], *extras, *group("dev")]]
    return [each for each in found if each.marker is None or each.marker.evaluate()]


def locked() -> dict[str, str]:
    """Versions in the lock file, by the normal form of the packages' names."""
    lines = (line.partition(" ")[0] for line in LOCK.read_text(encoding="utf-8").splitlines())
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def resolved(*asked: str) -> dict[str, set[str]]:
    """What pip would install into an empty environment, as ``name==version``, with the hash of each archive."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*command, *asked], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = [each for each in json.loads(done.stdout)["install"] if each["metadata"]["name"] != PACKAGE]
    return {
        f"{canonicalize_name(each['metadata']['name'])}=={each['metadata']['version']}": {
            each["download_info"]["archive_info"]["hashes"]["sha256"]
        }
        for each in found
    }


def lock(anew: bool) -> None:
    """Write the lock files: the newest versions, or those that are locked, with their hashes."""
    versions = [f"{name}=={version}" for name, version in locked().items()]
    whole = resolved(".[all]", "--group", "dev") if anew else resolved("--no-deps", *versions)
    LOCK.write_text(HEAD + _lines(whole), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder) / "versions.txt"
        limits.write_text("".join(f"{each}\n" for each in whole), encoding="utf-8")
        built = project()["build-system"]["requires"]
        image = resolved(".[service,cli]", *built, "--constraint", str(limits))
    for processor in PLATFORMS:
        tags = [
            f"--platform={tag}_{processor}" for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "linux")
        ]
        only = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", "--target=unused", *tags]
        for each, hashes in resolved(*only, *image).items():
            image[each] |= hashes
    IMAGE.write_text(IMAGE_HEAD + _lines(image), encoding="utf-8")


def _lines(found: dict[str, set[str]]) -> str:
    """Lines of a file of requirements."""
    return "".join(
        f"{each}{''.join(f' --hash=sha256:{digest}' for digest in sorted(hashes))}\n"
        for each, hashes in sorted(found.items())
    )


def needs(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Requirements of an installed package with some extras, on this system."""
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def installed() -> dict[str, tuple[Distribution, set[str]]]:
    """Packages that the package with all its extras needs, each with the names of those it needs itself."""
    stated = project()["project"]
    extras = [line for name, lines in stated["optional-dependencies"].items() if name != "all" for line in lines]
    found: dict[str, tuple[Distribution, set[str]]] = {}
    asked: dict[str, set[str]] = {}
    waiting = [Requirement(line) for line in [*stated["dependencies"], *extras]]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found and requirement.extras <= asked[name]:
            continue
        asked.setdefault(name, set()).update(requirement.extras)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed: pip install '.[all]'") from None
        wanted = list(needs(package, asked[name]))
        found[name] = package, {canonicalize_name(each.name) for each in wanted}
        waiting += wanted
    return dict(sorted(found.items()))


def license_of(package: Distribution) -> str:
    """The license of an installed package, as an SPDX expression; empty if its metadata name none that is known."""
    stated = package.metadata
    if expression := stated.get("License-Expression"):
        return str(expression)
    rows = [str(value) for key, value in stated.items() if key == "Classifier" and value.startswith("License ::")]
    texts = [row.rpartition(" :: ")[2] for row in rows] + [str(stated.get("License") or "")]
    for text in texts:
        name = text.strip().partition("\n")[0]
        if name in ALLOWED or name.lower() in NAMES:
            return NAMES.get(name.lower(), name)
    return ""


def license_problems(name: str, expression: str) -> Iterator[str]:
    """What is wrong with a license, an SPDX expression."""
    words = set(re.findall(r"[\w.+-]+", expression)) - {"AND", "OR", "WITH"}
    if not words:
        yield f"{name}: its metadata name no license that NAMES lists"
    elif more := sorted(words - ALLOWED - (LINKED if name in {"numpy", "scipy", "scikit-learn"} else set())):
        yield f"{name}: {expression}, with {more}, which ALLOWED does not list"


def materials() -> dict[str, Any]:
    """The bill of materials: each package with its version, its license and what it needs."""
    stated = project()["project"]
    own = f"pkg:pypi/{PACKAGE}@{stated['version']}"
    found = installed()
    address = {name: f"pkg:pypi/{name}@{package.version}" for name, (package, _) in found.items()}
    components = [component(name, package.version, license_of(package)) for name, (package, _) in found.items()]
    links = [
        {"ref": address[name], "dependsOn": sorted(address[each] for each in wanted)}
        for name, (_, wanted) in found.items()
    ]
    direct = {canonicalize_name(Requirement(line).name) for line in stated["dependencies"]}
    links.append({"ref": own, "dependsOn": sorted(address[name] for name in direct)})
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(PACKAGE, stated["version"], stated["license"], kind="library")},
        "components": components,
        "dependencies": sorted(links, key=lambda link: str(link["ref"])),
    }
    return {**body, "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True)).urn}


def component(name: str, version: str, license: str, kind: str = "library") -> dict[str, Any]:
    """A package in the form of a bill of materials."""
    address = f"pkg:pypi/{name}@{version}"
    known = {"licenses": [{"expression": license}]} if license else {}
    return {"type": kind, "bom-ref": address, "name": name, "version": version, "purl": address, **known}


def main(arguments: list[str] | None = None) -> int:
    """Do what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lock", action="store_true", help="write the lock files, with the newest versions")
    parser.add_argument("--hashes", action="store_true", help="write the lock files, with the versions locked now")
    parser.add_argument("--licenses", action="store_true", help="check the licenses of what is installed")
    parser.add_argument("--materials", type=Path, help="write a bill of materials to this file")
    options = parser.parse_args(arguments)
    found: list[str] = []
    if options.lock or options.hashes:
        lock(anew=options.lock)
    if options.licenses:
        packages = {name: license_of(package) for name, (package, _) in installed().items()}
        sys.stdout.write("".join(f"{name:24} {text}\n" for name, text in packages.items()))
        found = [line for name, text in packages.items() for line in license_problems(name, text)]
        sys.stdout.write("".join(f"{line}\n" for line in found))
    if options.materials:
        options.materials.write_text(json.dumps(materials(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
