"""Our values that stored outputs of benchmarks already hold: one reader for each file of docs/benchmarks.

    read("ch9")["width/protein/QOOB"]       # Value(value=14.23, spread=0.26)

A reader fails on lines that it does not know how to read, so that a new output cannot shift a value silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STORED = Path(__file__).parents[3] / "docs" / "benchmarks"
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
METRICS = ("PCE", "Sharp", "Acc", "AUROC")
WHOLE = 1000.0
"""Errors of chapter 6 are stored in thousandths."""


@dataclass(frozen=True)
class Value:
    """One of our numbers, and its standard deviation or standard error over runs where there are several."""

    value: float
    spread: float | None = None


Values = dict[str, Value]


def read(name: str) -> Values:
    """All values of one stored output, by their keys."""
    return READERS[name]((STORED / f"{name}.txt").read_text(encoding="utf-8"))


def numbers(text: str) -> list[float]:
    """The numbers of a line, without the commas of thousands."""
    return [float(each.replace(",", "")) for each in re.findall(NUMBER, text)]


def part(text: str, start: str, end: str | None = None) -> str:
    """The text from one phrase to another, both of which must be there."""
    begin = text.index(start)
    return text[begin : text.index(end, begin + len(start))] if end else text[begin:]


def _share(holds: list[bool]) -> Value:
    return Value(sum(holds) / len(holds))


# ------------------------------------------------------------------------------------------- Gupta (2023), chapter 3


def covariate_shift(text: str) -> Values:
    out = {}
    for line in part(text, "uncalibrated ", "\n\n").splitlines():
        found = re.match(rf"(.+?)\s+({NUMBER})\s+({NUMBER})", line)
        assert found is not None, line
        out[found[1].strip()] = Value(float(found[2]), float(found[3]))
    for line in part(text, "Differences within a draw", "\n\n").splitlines()[1:]:
        found = re.match(rf"(\S.*? - .*?)\s+({NUMBER})\s+({NUMBER})$", line)
        assert found is not None, line
        out[found[1]] = Value(float(found[2]), float(found[3]))
    return out


# ------------------------------------------------------------------------------------------- Gupta (2023), chapter 5


def ch5(text: str) -> Values:
    out = _tables_54_55(part(text, "1. Tables 5.4", "2. Figures"))
    for line in part(text, "4. Claims of the chapter", "5. Figure").splitlines():
        if found := re.match(r"   (\S.*): holds in (\d+) of (\d+)$", line):
            out[f"claim/{found[1]}"] = Value(int(found[2]) / int(found[3]))
    out |= _bins(part(text, "2. Figures 5.6", "3. Networks"))
    out |= _cover_types(part(text, "5. Figure 5.4", "6. Figure 5.12"))
    l1 = [numbers(line.split(" l1 ")[1])[:2] for line in text.splitlines() if " l1 0" in line]
    return out | {"simplex/lower": _share([after < before for before, after in l1])}


def _tables_54_55(text: str) -> Values:
    out, metric = {}, ""
    for line in text.splitlines()[1:]:
        if found := re.match(r"   (\S+)(?: x 100)?$", line):
            metric = found[1]
        elif found := re.match(rf"     (\S.*?)\s+(?:-|{NUMBER})\s+({NUMBER})\s+({NUMBER})\s+({NUMBER})$", line):
            out[f"table/{metric}/{found[1]}"] = Value(float(found[2]), float(found[4]))
    return out


def _bins(text: str) -> Values:
    found: dict[str, dict[str, list[float]]] = {}
    for line in text.splitlines():
        if head := re.match(r"   (\S+) bins\s+(.*)", line):
            names = re.split(r"\s{2,}", head[2].strip())
            table = found.setdefault(head[1], {name: [] for name in names})
        elif re.match(r"\s+\d+ +0\.\d|\s+\d+ +1\.\d", line):
            for name, value in zip(names, numbers(line)[1:], strict=True):
                table[name].append(value)

    def least(metric: str, name: str) -> Value:
        others = [values for each, values in found[metric].items() if each != name]
        return _share([value <= min(rest) for value, *rest in zip(found[metric][name], *others, strict=True)])

    def spread(metric: str, name: str) -> Value:
        return Value(max(found[metric][name]) / min(found[metric][name]))

    top = found["TL-ECE"]
    others = [values for name, values in top.items() if name != "TL-HB"]
    excess = [value - min(rest) for value, *rest in zip(top["TL-HB"], *others, strict=True)]
    return {
        "bins/TL-MCE/TL-HB least": least("TL-MCE", "TL-HB"),
        "bins/CW-ECE/CW-HB least": least("CW-ECE", "CW-HB"),
        "bins/TL-ECE/TL-HB excess": Value(max(excess)),
        "bins/TL-ECE/N-HB spread": spread("TL-ECE", "N-HB"),
        "bins/CW-ECE/N-HB spread": spread("CW-ECE", "N-HB"),
    }


def _cover_types(text: str) -> Values:
    points, fixed = (
        {int(line[0]): line[1:] for line in map(numbers, each.splitlines()[1:]) if len(line) == 5}
        for each in (part(text, "100 points per bin", "50 bins per class"), part(text, "50 bins per class"))
    )  # share of rows, calibration rows, base, binned
    rare, frequent = (4, 5, 6), (1, 2)
    return {
        "cover/rows": Value(sum(line[1] for line in points.values())),
        "cover/share/1": Value(points[1][0]),
        "cover/share/2": Value(points[2][0]),
        "cover/class 4": Value(points[4][1]),
        "cover/bins": Value(float(sum(line[1] // 100 for line in points.values()))),
        "cover/class 4 - class 2": Value(points[4][3] - points[2][3]),
        "cover/falls": _share([line[3] < line[2] for line in points.values()]),
        "cover/rare - frequent": Value(min(points[k][2] for k in rare) - max(points[k][2] for k in frequent)),
        "cover/rare worse": _share([fixed[k][3] > points[k][3] for k in rare]),
        "cover/frequent better": _share([fixed[k][3] < points[k][3] for k in frequent]),
    }


# ------------------------------------------------------------------------------------------- Gupta (2023), chapter 6

REAL = tuple(f"{name}, {kind}" for kind in ("drifting", "i.i.d.") for name in ("bank", "credit", "churn", "fetal"))


def ch6(text: str) -> Values:
    errors = _errors(part(text, "2. Calibration error at the end", "3. Whether TOPS"))
    runs = re.search(r"Forests of [\d,]+ trees, (\d+) runs", text)
    assert runs is not None
    orders = _orders(errors, int(runs[1]))
    return _drifts(part(text, "1. Drifts", "Forests of")) | _leads(text) | _rain(text) | orders


def _drifts(text: str) -> Values:
    out, figure = {}, ""
    for line in text.splitlines():
        if found := re.search(r"drift, Figure (\S+)$", line):
            figure = found[1]
        elif found := re.match(r"   (\d+-\d+ (?:base|OPS(?:, b held)?))\s+(.*)", line):
            cells = [cell for cell in found[2].split() if cell != "-"]
            cells = cells if len(cells) == 6 else [*cells[1:4], *cells[6:9]]  # without printed values and ranks
            for name, (one, mean, sd) in zip(("accuracy", "error"), (cells[:3], cells[3:]), strict=True):
                key = f"drift/{figure}/{found[1]}/{name}"
                out[key] = Value(float(mean if figure == "6.11" else one), float(sd))
    return out


def _errors(text: str) -> dict[str, dict[str, dict[str, Value]]]:
    """By bin width, panel and method: mean and standard deviation over runs."""
    out: dict[str, dict[str, dict[str, Value]]] = {}
    names: list[str] = []
    for line in text.splitlines():
        if found := re.match(r"   bins of width (\S+)", line):
            table = out.setdefault(found[1], {})
        elif re.match(r"\s+BM\s", line):
            names = line.split()
        elif found := re.match(r"   (\S.*?)\s{2,}(\S+±.*)", line):
            pairs = re.findall(r"([\d.]+)±([\d.]+)", found[2])
            cells = [Value(float(mean) / WHOLE, float(sd) / WHOLE) for mean, sd in pairs]
            table[found[1]] = dict(zip(names, cells, strict=True))
    return out


def _orders(errors: Mapping[str, Mapping[str, Mapping[str, Value]]], runs: int) -> Values:
    middle = errors["0.1"]

    def less(panel: str) -> Value:
        """OPS less the best of the others; the spread is as if the runs of the two methods had nothing in common."""
        ops = middle[panel]["OPS"]
        best = min((middle[panel][name] for name in ("BM", "FPS", "WPS")), key=lambda each: each.value)
        return Value(ops.value - best.value, math.hypot(ops.spread or 0.0, best.spread or 0.0) / math.sqrt(runs))

    def share(first: tuple[str, str], second: tuple[str, str]) -> Value:
        """How often the first (width, method) has a lower error than the second."""
        pairs = ((errors[first[0]][each][first[1]], errors[second[0]][each][second[1]]) for each in REAL)
        return _share([one.value < other.value for one, other in pairs])

    out = {f"OPS - others/{each}": less(each) for each in REAL[:4]}
    turned = middle["labels, 0.5 to 0.9"]
    return out | {
        "share/TOPS below OPS": share(("0.1", "TOPS"), ("0.1", "OPS")),
        "share/HOPS below OPS": share(("0.1", "HOPS"), ("0.1", "OPS")),
        "share/OBS below OPS": share(("0.1", "OBS"), ("0.1", "OPS")),
        "share/HOPS better at 0.05": share(("0.05", "HOPS"), ("0.1", "HOPS")),
        "share/HOPS worse at 0.2": share(("0.1", "HOPS"), ("0.2", "HOPS")),
        "WPS over OPS": Value(turned["WPS"].value / turned["OPS"].value),
    }


def _leads(text: str) -> Values:
    """By how much a method's error is above that of the best other in its figure, and shares of panels."""
    out, figure = {}, ""
    for line in text.splitlines():
        if found := re.search(r"\(Figures? (6\.\d+).*in (\d+) of (\d+) panels at the end", line):
            figure = found[1]
            out[f"panels/{figure}"] = Value(int(found[2]) / int(found[3]))
        elif found := re.match(
            rf"     (?:yes|no ) (.*?)\s+(0\.\d\d)  \w+ +{NUMBER}, .*lower by +({NUMBER})±({NUMBER}).* runs \d+/(\d+)",
            line,
        ):
            if figure in {"6.5", "6.7", "6.12"}:
                key = f"lead/{figure}/{found[1]}/{found[2]}"
                error = float(found[4]) / math.sqrt(float(found[5]))  # of the mean over runs
                out.setdefault(key, Value(-float(found[3]) / WHOLE, error / WHOLE))
        elif found := re.match(r"   (.*?)\s+largest drop below the expert at any time: (.*)", line):
            out[f"drop/{found[1]}"] = Value(max(numbers(found[2])) / WHOLE)
    return out


def _rain(text: str) -> Values:
    out, name, rate = {}, "", 0.0
    for line in part(text, "5. Foster's forecaster on rain").splitlines():
        if found := re.match(r"   (\S.*): [\d,]+ rows, rate (\S+)$", line):
            name, rate = found[1], float(found[2])
        elif found := re.search(r"by totals second half: (\S+) in +(\S+) %, last other forecast in row ([\d,]+)", line):
            out[f"rain/{name}/share"] = Value(float(found[2]) / 100)
            out[f"rain/{name}/distance"] = Value(abs(float(found[1]) - rate))
            out[f"rain/{name}/last other"] = Value(numbers(found[3])[0])
    return out


# ------------------------------------------------------------------------------------------- Gupta (2023), chapter 7


def ch7(text: str) -> Values:
    example = part(text, "1. Section 7.1.1", "2. COVID-19")
    rows = re.search(r"Table 7\.2, weekly batches, ([\d,]+) rows", text)
    line = re.search(rf"^   base +({NUMBER})", example, re.MULTILINE)
    assert rows is not None
    assert line is not None
    out = {"example/QCE": Value(float(line[1])), "rows": Value(numbers(rows[1])[0])}
    for base, start, end in (("own", "3a. COVID-19", "3b. COVID-19"), ("national", "3b. COVID-19", "4. Weather")):
        states = part(text, start, end)
        out |= _gaps(f"7.1/{base}", part(states, "Table 7.1", "Table 7.2"), ("base",))
        out |= _gaps(f"7.2/{base}", part(states, "Table 7.2", "\n\n"))
        losses = dict(re.findall(r"^     (base|MW|IW|OPS) +\d+ +(\d+)", part(states, "Loss of Bayes"), re.MULTILINE))
        for other in ("base", "MW", "IW"):
            out[f"losses/{base}/OPS - {other}"] = Value(float(losses["OPS"]) - float(losses[other]))
    for city in ("Beijing", "New York"):
        for table, kind in (("7.3", "regression"), ("7.4", "classifier")):
            block = part(text, f"{city} pressure, {kind}: ", "\n\n")
            out |= _gaps(f"{table}/{city}", block)
        out |= _leads_of_ops(f"7.10/{city}", block)
    for table in ("7.6a", "7.6b"):
        out |= _gaps(table, part(text, f"Table {table}", "\n\n"))
    return out


def _parity(text: str) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The numbers of each method of a table, and spreads of what OPS has more than each of the others."""
    found: dict[str, list[float]] = {}
    spreads: dict[str, list[float]] = {}
    for line in text.splitlines():
        if line_of := re.match(r"     (base|MW|IW|OPS)(?: {2}\S.*?)?\s{3,}((?:\d\.\d{4}\s+){4})", line):
            found.setdefault(line_of[1], numbers(line_of[2]))
        elif line_of := re.match(r"     OPS - (base|MW|IW)\b.* s[de]((?:\s+\d\.\d{4}){4})$", line):
            spreads[line_of[1]] = numbers(line_of[2])
        elif line_of := re.match(r" +standard deviation((?:\s+\d\.\d{4}){4})$", line):
            spreads["base"] = numbers(line_of[1])  # the base forecast is the same in each order of the states
    return found, spreads


def _gaps(key: str, text: str, others: tuple[str, ...] = ("base", "MW", "IW")) -> Values:
    """What OPS has more than others in each number of a table."""
    found, spreads = _parity(text)
    return {
        f"{key}/OPS - {other}/{metric}": Value(
            round(found["OPS"][at] - found[other][at], 4), spreads[other][at] if other in spreads else None
        )
        for other in others
        for at, metric in enumerate(METRICS)
    }


def _leads_of_ops(key: str, text: str) -> Values:
    """What OPS has more of the error, and of the sharpness, than the best of the others."""
    found, spreads = _parity(text)
    rivals = {
        "PCE": min(spreads, key=lambda name: found[name][0]),
        "Sharp": max(spreads, key=lambda name: found[name][1]),
    }
    return {
        f"{key}/{metric}": Value(round(found["OPS"][at] - found[rivals[metric]][at], 4), spreads[rivals[metric]][at])
        for at, metric in enumerate(METRICS[:2])
    }


# ------------------------------------------------------------------------------- Gupta (2023), chapters 6, 8 and 9


def adversaries(text: str) -> Values:
    out = {}
    for key, start, end in (
        ("two", "Two choices: ", "The same in each bin"),
        ("bounded", "The same for outcomes in [0, 1]", "Mean calibration"),
    ):
        for line in part(text, start, end).splitlines():
            if found := re.match(rf" +(0\.\d+) (\S.*?) +({NUMBER}) +\d+ +{NUMBER}", line):
                out[f"{key}/{found[1]}/{found[2]}"] = Value(float(found[3]))
    for line in part(text, "Mean calibration error over", "Against the expert").splitlines():
        if found := re.match(rf"(F99|HOPS) +2,000 (\S+) +({NUMBER}) +\(({NUMBER})\)", line):
            out[f"mean/{found[1]}/{found[2]}"] = Value(float(found[3]), float(found[4]))
    for line in part(text, "Deterministic point forecasters").splitlines():
        if found := re.match(rf"(OnlinePlatt|Tracking\(OnlinePlatt\)) +\S+ +({NUMBER})", line):
            key = f"fails/{found[1]}"
            out[key] = Value(max(float(found[2]), out[key].value if key in out else 0.0))
    return out


def ch9(text: str) -> Values:
    out, data = {}, ""
    pair = rf"({NUMBER}) \( *({NUMBER})\)"
    tables, _, _ = text.partition("ch9.py --shapes")  # Table 9.4 follows, on the same data with other levels
    for line in tables.splitlines():
        if found := re.match(r"(\w+), \d+ versions", line):
            data = found[1]
        elif found := re.match(rf"   (\S+) +{pair} .*?[-+]\d+\.\d +{pair}", line):
            out[f"width/{data}/{found[1]}"] = Value(float(found[2]), float(found[3]))
            out[f"coverage/{data}/{found[1]}"] = Value(float(found[4]), float(found[5]))
        elif found := re.match(rf"   width, (.+): ({NUMBER}) \(({NUMBER})\)$", line):
            out[f"{found[1]}/{data}"] = Value(float(found[2]), float(found[3]))
    return out


def ch9_figures(text: str) -> Values:
    out = {}
    for line in part(text, "Numbers that are compared with the text", "\n\n").splitlines()[1:]:
        found = re.match(rf"   (9\.\d/.+?) {{2,}}({NUMBER})(?: \(({NUMBER})\))?$", line)
        assert found is not None, line
        out[found[1]] = Value(float(found[2]), float(found[3]) if found[3] else None)
    return out


# -------------------------------------------------------------------------------- Torabian, Foster and Kakade, paths


def trees(text: str) -> Values:
    sets = 32
    won: dict[str, list[str]] = {}
    for line in part(text, "1. Table 4.2", "Means over data sets").splitlines():
        if found := re.match(r"(PS|IR|PCT|DT) +(?!printed)(.*)", line):
            won[found[1]] = re.sub(r"\(\d+\)", "", found[2]).split()
    metrics = ("RMSE", "loss", "AUC", "ECE", "PDE", "AUC_V")
    wins = {(method, metric): cell for method in won for metric, cell in zip(metrics, won[method], strict=True)}
    out = {f"won/{method}/{metric}": Value(int(cell) / sets) for (method, metric), cell in wins.items() if cell != "-"}
    for metric in metrics[:3]:
        out[f"PCT - rest/{metric}"] = Value(
            float(int(wins["PCT", metric]) - max(int(wins[each, metric]) for each in ("PS", "IR", "DT")))
        )
    out["DT - PCT/PDE"] = Value(float(int(wins["DT", "PDE"]) - int(wins["PCT", "PDE"])))
    for line in part(text, "Figures 4.2 and 4.3", "2. Figure 4.6").splitlines():
        if found := re.match(rf"(PS|IR|PCT|DT) (?:\s+{NUMBER}){{6}}\s+({NUMBER})", line):
            out[f"area/{found[1]}"] = Value(float(found[2]))
    areas = {method: out[f"area/{method}"].value for method in won}
    out["area/range"] = Value(round(max(areas.values()) - min(areas.values()), 3))
    out["area/PCT - rest"] = Value(round(areas.pop("PCT") - max(areas.values()), 3))
    for key, phrase in (("PDE rises", r"PDE rises in"), ("loss falls", r"has a lower loss in")):
        found = re.search(rf"{phrase} (\d+) of (\d+) data sets", text)
        assert found is not None
        out[key] = Value(int(found[1]) / int(found[2]))
    pruned = {word: int(n) for word, n in re.findall(r"'([a-z ]+)': (\d+)", text)}
    return out | {f"pruned/{word}": Value(n / sum(pruned.values())) for word, n in pruned.items()}


def bias(text: str) -> Values:
    out: Values = {}
    tables: list[tuple[int, int, dict[str, float]]] = []
    names = ("ECE, mass", "ECE, tree", "PDE, mass", "PDE, tree")
    for line in part(text, "Table 1. Mean absolute", "Table 2.").splitlines():
        if found := re.match(r"(Synthetic-\d), .*mean probability (\S+) to (\S+),", line):
            out[f"mean/{found[1]}/least"] = Value(float(found[2]))
            out[f"mean/{found[1]}/largest"] = Value(float(found[3]))
        elif len(cells := numbers(line)) == 6:
            tables.append((int(cells[0]), int(cells[1]), dict(zip(names, cells[2:], strict=True))))
    best = [min(cells, key=lambda name: cells[name]) == "PDE, tree" for *_, cells in tables]
    many = [won for (rows, bins, _), won in zip(tables, best, strict=True) if rows >= 5_000 and bins >= 50]
    return out | {
        "share/PDE, tree least": _share(best),
        "share/PDE, tree least, many": _share(many),
        "share/ECE, tree below mass": _share([cells["ECE, tree"] < cells["ECE, mass"] for *_, cells in tables]),
        "share/PDE below ECE, mass": _share([cells["PDE, mass"] < cells["ECE, mass"] for *_, cells in tables]),
    }


def groups(text: str) -> Values:
    out = {}
    for line in part(text, "world ", "\n\n").splitlines():
        if found := re.match(rf"(\w+) +(plain ridge|calibrated) +({NUMBER}) +({NUMBER})", line):
            out[f"bias/{found[1]}/{found[2]}"] = Value(float(found[3]))
            if found[2] == "calibrated":
                out[f"of bound/{found[1]}"] = Value(float(found[4]))
    table = [cells for cells in map(numbers, part(text, "group    rows", "\n\n").splitlines()) if len(cells) == 7]
    for at, name in ((2, "plain ridge"), (3, "calibrated")):
        out[f"halves/{name}"] = Value(max(abs(cells[at]) / cells[6] for cells in table))
    return out


def paths(text: str) -> Values:
    out: Values = {}
    for line in text.splitlines():
        if head := re.match(r"(\S+), ([\d,]+) calibration rows", line):
            data, rows = head[1], head[2]
        elif row := re.match(rf"(borrow|ancestors(?: broad)?)(?:, (\d+))?, [a-z]+.*: ({NUMBER}) \(({NUMBER})\)$", line):
            key = "/".join(each for each in (row[1], data, rows, row[2]) if each)
            out[key] = Value(float(row[3]), float(row[4]))
    return out


READERS: dict[str, Callable[[str], Values]] = {
    "covariate_shift": covariate_shift,
    "ch5": ch5,
    "ch6": ch6,
    "ch7": ch7,
    "adversaries": adversaries,
    "ch9": ch9,
    "ch9_figures": ch9_figures,
    "trees": trees,
    "bias": bias,
    "groups": groups,
    "paths": paths,
}
