"""Pages of the site from the table of claims: one for each chapter, and an index with the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from claims import NEAR, Claim, verdict

HERE = Path(__file__).parent
FOLDER = HERE.parents[2] / "docs" / "papers"
WORDS = {"agrees": "agrees", NEAR: NEAR, "differs": "**differs**", "no data": "no data"}
TITLES = {
    "ch1": "Gupta (2023), chapter 1: three calibrators of one model",
    "ch3": "Gupta (2023), section 3.D: covariate shift",
    "ch4": "Gupta (2023), chapter 4: binning without a split sample",
    "ch5": "Gupta (2023), chapter 5: several classes",
    "ch6": "Gupta (2023), chapter 6: online Platt scaling",
    "ch7": "Gupta (2023), chapter 7: parity calibration",
    "ch8": "Gupta (2023), chapter 8: two choices",
    "ch9": "Gupta (2023), chapter 9: conformal prediction",
    "trees": "Torabian (2023), chapters 2 to 4: trees as calibrators",
    "estimators": "Rosenberg (2021): estimators of the calibration error",
    "subsequences": "Foster and Kakade (2006): adversarial subsequences",
    "paths": "Gupta (2022), section 4.3: path calibration",
}


def write_pages(claims: Sequence[Claim]) -> None:
    """Write the index and one page for each chapter, with the sentences of `sentences.md` on top."""
    FOLDER.mkdir(exist_ok=True)
    said = sentences()
    for page in TITLES:
        rows = [claim for claim in claims if claim.page == page]
        text = f"# {TITLES[page]}\n\n{said[page]}\n\n{_count(rows)}\n\n{_picture(page)}\n\n{_tables(rows)}"
        (FOLDER / f"{page}.md").write_text(text, encoding="utf-8")
    (FOLDER / "index.md").write_text(_index(claims, said["index"]), encoding="utf-8")


def sentences() -> dict[str, str]:
    """The sentences of each page."""
    parts = (HERE / "sentences.md").read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}


def _picture(page: str) -> str:
    """The picture of a page, which the site draws by a script of `examples/papers`."""
    folder = "../gallery/papers"
    return "\n".join(
        [
            f"```{{image}} {folder}/images/sphx_glr_plot_{page}_001.png",
            ":alt: printed values and ours",
            "```",
            "",
            f"[What the picture shows, and its script]({folder}/plot_{page}.rst)",
        ]
    )


def _count(claims: Sequence[Claim]) -> str:
    agree, near, differ, lack = (sum(claim.verdict == word for claim in claims) for word in WORDS)
    text = f"{len(claims)} printed claims: {agree} agree, {near} are not distinguishable, {differ} differ, "
    text += f"{lack} lack data."
    signs = [claim for claim in claims if claim.rule == "sign" and claim.ours]
    bare = sum(claim.spread == "" for claim in signs)
    if bare:
        text += f"\n\nSigns without a spread: {bare} of {len(signs)}. Chance may have decided them."
    return text


def _tables(claims: Sequence[Claim]) -> str:
    """One table for each place, then the reasons, each once."""
    reasons = list(dict.fromkeys(text for claim in claims for text in (claim.basis, claim.why) if text))
    lines = []
    for place, group in groupby(claims, key=lambda claim: claim.place):
        lines += [
            f"## {place[0].upper()}{place[1:]}",
            "",
            "| what | printed | ours | tolerance | |",
            "|---|---|---|---|---|",
        ]
        lines += [_line(claim, reasons) for claim in group]
        lines.append("")
    if reasons:
        lines += ["## Notes", ""] + [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)] + [""]
    commands = sorted({claim.command for claim in claims if claim.command})
    lines += ["## Commands", ""] + [f"- `{command}`" for command in commands]
    return "\n".join(lines) + "\n"


def _line(claim: Claim, reasons: Sequence[str]) -> str:
    ours = f"{_shown(claim)} ± {claim.spread}" if claim.spread else _shown(claim) if claim.ours else "-"
    bound = {"at most": "at most ", "at least": "at least "}.get(claim.rule, "")
    tolerance = claim.tolerance
    if claim.rule == "sign":
        above = f", above {claim.tolerance}" if float(claim.tolerance) else ""
        tolerance = f"same sign{above}{', no spread' if claim.ours and not claim.spread else ''}"

    def note(text: str) -> str:
        return f" (note {reasons.index(text) + 1})" if text else ""

    verdict_cell = WORDS[claim.verdict] + note(claim.why)
    cells = (claim.what, f"{bound}{claim.printed}", ours, tolerance + note(claim.basis), verdict_cell)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(claim: Claim) -> str:
    """Our value with the digits that matter: two of its spread, or four, or all if those change the verdict."""
    value = float(claim.ours)
    if value.is_integer():
        return f"{value:.0f}"
    spread = float(claim.spread or 0)
    scale = max(1 - _exponent(spread) if spread else 3 - _exponent(value), 0)
    text = f"{value:.{scale}f}" if spread else f"{round(value, scale):.6g}"
    same = verdict(claim.printed, claim.rule, claim.tolerance, float(text), spread) == claim.verdict
    return text if same else claim.ours


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _index(claims: Sequence[Claim], said: str) -> str:
    lines = ["# The papers, reproduced", "", said, "", _count(claims), ""]
    lines += ["| page | claims | agree | not distinguishable | differ | no data |", "|---|---|---|---|---|---|"]
    for page, title in TITLES.items():
        rows = [claim for claim in claims if claim.page == page]
        counts = [len(rows), *(sum(claim.verdict == word for claim in rows) for word in WORDS)]
        lines.append(f"| [{title}]({page}.md) | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "```{toctree}", ":hidden:", "", *TITLES, "../gallery/papers/index", "```"]
    return "\n".join(lines) + "\n"
