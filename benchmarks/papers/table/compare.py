"""Make the table of claims: what the source documents print beside what we find, and whether the two agree.

    python benchmarks/papers/table/compare.py           # all values, benchmarks/papers/claims.csv and docs/papers
    python benchmarks/papers/table/compare.py --pages   # docs/papers from the stored table

`printed.csv` has the claims with their tolerances, and the basis of each tolerance above a fifth of the printed value.
`notes.csv` has a reason for each claim that differs or lacks data, by the start of its key or by page and place. A
value comes from a stored output of a benchmark (`outputs.py`) or is computed now (`recomputed.py`). The tolerances are
older than the computed values, and older than the last runs of the benchmarks, by `rerun.py`
(docs/benchmarks/rerun.txt). The rules of agreement are in `claims.py`.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claims import HERE, NEAR, VERDICTS, Claim, needs_basis, printed_rows, source, stored, verdict, write
from outputs import READERS, Value, Values, read
from pages import write_pages

DOCUMENTS = {
    "trees": "Torabian (2023)",
    "estimators": "Rosenberg (2021)",
    "subsequences": "Foster and Kakade (2006)",
    "paths": "Gupta (2022)",
}
COMMANDS = {
    "covariate_shift": "benchmarks/covariate_shift.py",
    "ch5": "benchmarks/papers/ch5.py",
    "ch6": "benchmarks/papers/ch6.py --full --runs 10",
    "ch7": "benchmarks/papers/ch7.py --full",
    "adversaries": "benchmarks/adversaries.py --full",
    "ch9": "benchmarks/papers/ch9.py --versions 10",
    "ch9_figures": "benchmarks/papers/ch9_figures.py",
    "trees": "benchmarks/papers/trees.py --repetitions 5",
    "bias": "benchmarks/bias.py",
    "groups": "benchmarks/groups.py",
    "paths": "benchmarks/paths.py",
    "ch1": "benchmarks/papers/ch1.py",
    "ch4": "benchmarks/papers/ch4.py",
    "estimators": "benchmarks/papers/estimators.py",
}
"""What makes the values of a source; all others come from this script."""
CHANCE = "Our value is within two of its spreads of where the verdict would change, so chance may decide it."
"""The reason of each claim that is not distinguishable."""


def notes() -> dict[str, str]:
    with (HERE / "notes.csv").open(encoding="utf-8", newline="") as file:
        return {row["start"]: row["why"] for row in csv.DictReader(file)}


def values(sources: Iterable[str]) -> Values:
    """Our values of some sources, by key with the source in front."""
    out: Values = {}
    for name in sources:
        if name in READERS:
            found = read(name)
        else:
            from recomputed import compute

            found = compute(name)
        out |= {f"{name}/{key}": value for key, value in found.items()}
    return out


def judge(row: Mapping[str, str], value: Value | None, why: Mapping[str, str], date: str) -> Claim:
    """One row with our value and the verdict."""
    ours = None if value is None else float(f"{value.value:.6g}")
    spread = "" if value is None or value.spread is None else f"{value.spread:.2g}"
    found = verdict(row["printed"], row["rule"], row["tolerance"], ours, float(spread or 0.0))
    own = row["key"] or f"{row['page']}/{row['place']}"
    reasons = [why[start] for start in sorted(why, key=len) if own.startswith(start)]
    command = "python " + COMMANDS.get(source(row["key"]), "benchmarks/papers/table/compare.py") if row["key"] else ""
    return Claim(
        page=row["page"],
        document=next(
            (name for name in DOCUMENTS.values() if row["place"].startswith(name)),
            DOCUMENTS.get(row["page"], "Gupta (2023)"),
        ),
        place=row["place"],
        what=row["what"],
        printed=row["printed"],
        rule=row["rule"],
        tolerance=row["tolerance"],
        basis=row["basis"],
        ours="" if ours is None else f"{ours:.6g}",
        spread=spread,
        verdict=found,
        why={"agrees": "", NEAR: CHANCE}.get(found, reasons[-1] if reasons else ""),
        key=row["key"],
        command=command,
        date=date if row["key"] else "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", action="store_true", help="write the pages from the stored table")
    if not parser.parse_args().pages:
        rows, began = printed_rows(), time.process_time()
        if bare := [row["what"] for row in rows if needs_basis(row) and not row["basis"]]:
            raise SystemExit(f"no basis of a wide tolerance in printed.csv for {bare}")
        found = values(sorted({source(row["key"]) for row in rows if row["key"]}))
        why, today = notes(), dt.datetime.now(tz=dt.UTC).date().isoformat()
        write(judge(row, found[row["key"]] if row["key"] else None, why, today) for row in rows)
        print(f"{time.process_time() - began:.0f} s of processor time")
    claims = stored()
    write_pages(claims)
    for word in VERDICTS:
        print(f"{word:<20} {sum(claim.verdict == word for claim in claims)}")
    without = [
        claim.key or f"{claim.page}/{claim.place}" for claim in claims if claim.verdict != "agrees" and not claim.why
    ]
    if without:
        raise SystemExit(f"no reason in notes.csv for {without}")


if __name__ == "__main__":
    main()
