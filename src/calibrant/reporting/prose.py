"""Text sections of a report: methods with sources, limitations and glossary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.reporting.blocks import Block, Bullets, Table
from calibrant.reporting.contents import Contents
from calibrant.reporting.figures import count, share
from calibrant.reporting.styles import Style
from calibrant.verdict.figures import capitalized

WORDS = (
    ("{score}", "the probability of the {event}, by the model, for each {row}"),
    ("{event}", "the outcome that the {score} predicts: label 1"),
    ("Calibrated", "of the {rows} with {score} p, the {rate} is p, for every p"),
    ("Predicted", "number of {events} predicted: the sum of the {scores}"),
    ("Expected range", "central 95 % of the number of {events} if the model is calibrated"),
    ("95 % interval", "confidence interval: the method covers the true value in about 95 of 100 samples"),
    ("p-value", "probability that a calibrated model deviates at least this much"),
    ("Adjusted p", "p-value adjusted for testing many groups (Holm)"),
    ("Intercept", "overall shift of the log-odds; 0 is ideal, above 0 the {scores} are too low"),
    ("Slope", "scale of the log-odds; 1 is ideal, below 1 the {scores} are too extreme"),
    ("E/O, O/E", "{events} expected over {events} observed, and the inverse; 1 is ideal"),
    ("ICI", "integrated calibration index: mean distance of a smooth calibration curve from the diagonal, over {rows}"),
    ("ECE", "expected calibration error: mean distance between {rate} and mean {score} over bins of the {scores}"),
    ("Debiased error", "root of the mean squared distance over bins, corrected for sampling noise"),
    ("PDE", "like ECE, but each single {score} is compared with the rate of its bin"),
    ("smECE", "distance after kernel smoothing, at the bandwidth that equals the distance itself"),
    ("ECCE", "how far the cumulative sums of {events} and {scores} drift apart, from the lowest {score} up"),
    ("Brier score", "mean squared difference of {score} and label"),
    ("Log loss", "mean negative log of the probability given to the observed label, in nats"),
    ("AUC", "how often one of the {events} has a higher {score} than one of the {others}; not calibration"),
    ("Miscalibration", "part of a loss that isotonic recalibration removes"),
    ("Discrimination", "reduction of the uncertainty by distinguishing {events} from {others}"),
    ("Uncertainty", "loss of predicting the base rate for every {row}"),
    ("Net benefit", "{events} found, minus false alarms at the cost that the threshold implies"),
)

NOT_SHOWN = (
    "Training data: if the model was trained, selected or recalibrated on these {rows}, it looks better here than it "
    "will on new ones. This report cannot detect that.",
    "Selection: if {rows} entered the data by a decision (accepted, treated, investigated), the report says nothing "
    "about the others.",
    "Late labels: {events} not yet recorded when the data were drawn count as negatives: the {scores} look too high.",
    "Label errors, and labels that describe something other than what the {score} predicts.",
    "Other times and places: calibration drifts; repeat the report on newer {rows}.",
    "Untested groups: a model can be calibrated over all {rows} and off for some of them.",
    "Undeclared dependence between {rows}: intervals are then too narrow and p-values too small.",
    "Usefulness and fairness: predicting the base rate for every {row} is calibrated too.",
)


def limits(contents: Contents, style: Style) -> list[Block]:
    """What these numbers cannot show."""
    return [Bullets(tuple(capitalized(style.say(sentence)) for sentence in NOT_SHOWN))]


def definitions(contents: Contents, style: Style) -> list[Block]:
    """One line for each term."""
    hidden = set() if contents.verdict.notion is None else {"Net benefit"}
    shown = [(word, meaning) for word, meaning in WORDS if word not in hidden]
    rows = tuple((capitalized(style.say(word)), style.say(meaning)) for word, meaning in shown)
    return [Table("Terms in this report", ("term", "meaning"), rows, words=True)]


def methods(contents: Contents, style: Style) -> list[Block]:
    """What was computed, with which methods, sources and software."""
    numbers = contents.numbers
    return [" ".join((_data(numbers, style), *(style.say(text) for text in _steps(numbers, style))))]


def _data(numbers: Mapping[str, Any], style: Style) -> str:
    verdict, software = numbers["verdict"], numbers["software"]
    rate = share(numbers["events"] / numbers["rows"])
    rows, events = count(numbers["rows"]), count(numbers["events"])
    scores = capitalized(style.nouns.scores)
    if numbers["counts"]:
        data = f"{rows} {style.nouns.rows} with {events} {style.nouns.events} ({rate})"
    else:
        data = (
            f"{count(verdict['row_count'])} {style.nouns.rows} with {events} {style.nouns.events} and importance "
            f"weights ({rate} by weight)"
        )
    cells = {
        "exact": f"Every distinct {style.nouns.score} was kept.",
        "grid": f"{scores} were counted in {numbers['cells']:,} cells, within which they agree to about a thousandth.",
        "bins": f"{scores} were given as counts in {numbers['cells']:,} bins, each represented by its mean.",
    }[numbers["resolution"]]
    clusters = "" if verdict["n_groups"] is None else f" in {verdict['n_groups']:,} groups"
    return f"Computed with {software['name']} {software['version']} from {data}{clusters}. {cells}"


def _steps(numbers: Mapping[str, Any], style: Style) -> list[str]:
    verdict = numbers["verdict"]
    limits = verdict["limits"]
    own = ""
    if limits["intercept"] is not None:
        own = (
            f" Intercept and slope have limits of their own: 95 % intervals within {limits['intercept']:.3g} of 0 and "
            f"{limits['slope']:.3g} of 1."
        )
    steps = [
        "The error of the calibration curve is the root mean square of the log-odds between observed and predicted "
        f"rates in ranges of the {{scores}}. The model is called calibrated if it is shown to be below "
        f"{limits['curve']:.3g}, and miscalibrated if it is shown to be above, each at a level of 4 %.{own} "
        "That chance explains the deviation is tested by the intercept (calibration in the large), the slope of the "
        "log-odds (Cox 1958) and ranges of the {scores} (Hoeffding 1956), at a level of 1 % each.",
        _diagram(numbers),
        f"Intervals of rates: Clopper and Pearson (1934){_widened(numbers)}. Expected ranges: Poisson-binomial "
        "distribution"
        + (
            ", exact where that is cheap, otherwise a normal approximation with a skewness correction (Volkova 1996)."
            if _plain(numbers)
            else ", with variances that account for weights and groups."
        ),
        "Intercept, slope and E/O (Steyerberg 2019): intervals with the variance of the observed residuals, which "
        f"are right when the model is wrong{_dependence(numbers)}; distances of the curve: a restricted cubic spline "
        f"of the log-odds with {numbers['curve']['bootstrap_samples']} bootstrap samples (Austin and Steyerberg 2019).",
        "Errors: ECE (Naeini, Cooper and Hauskrecht 2015), debiased error (Kumar, Liang and Ma 2019), PDE (Torabian "
        "2023), smECE (Blasiok and Nakkiran 2023), ECCE (Arrieta-Ibarra et al. 2022). AUC: standard error by DeLong, "
        "DeLong and Clarke-Pearson (1988).",
    ]
    if numbers["tests"]:
        steps.append(
            "Tests: Spiegelhalter (1986), cumulative differences (Arrieta-Ibarra et al. 2022)"
            + (", T-Cal (Lee et al. 2023)" if numbers["counts"] else "")
            + " and, because reviewers ask for it, Hosmer and Lemeshow (1980)."
        )
    if verdict["notion"] is None:
        steps.append("Net benefit: Vickers and Elkin (2006).")
    if numbers["grades"] is not None and verdict["notion"] is None and style.by_light:
        steps.append("Traffic lights: OeNB and FMA (2004); Jeffreys test: ECB (2019).")
    if verdict["classes"]:
        steps.append(
            "Several classes or labels: the three tests of each, combined by Bonferroni's method with their levels as "
            "weights, and adjusted by the method of Holm (1979). Notions of calibration: Gupta (2023), chapter 5."
        )
    if verdict["segments"] or verdict["periods"]:
        steps.append(
            "Segments and periods: two-sided p-values under calibration, adjusted by the method of Holm (1979)."
        )
    return steps


def _diagram(numbers: Mapping[str, Any]) -> str:
    if numbers["reliability"]["series"][0]["tied"]:
        return (
            "The reliability diagram shows the {rate} at each {score}, with the binomial interval of a calibrated "
            "model; the losses are decomposed by isotonic regression (Dimitriadis, Gneiting and Jordan 2021)."
        )
    return (
        "The reliability diagram is the isotonic regression of labels on {scores} with a consistency band from 500 "
        "simulations (Dimitriadis, Gneiting and Jordan 2021), and so is the decomposition of the losses."
    )


def _plain(numbers: Mapping[str, Any]) -> bool:
    """Whether rows are independent and of equal weight."""
    return bool(numbers["counts"] and numbers["verdict"]["n_groups"] is None)


def _widened(numbers: Mapping[str, Any]) -> str:
    return "" if _plain(numbers) else ", at the effective sample size (Korn and Graubard 1998)"


def _dependence(numbers: Mapping[str, Any]) -> str:
    if numbers["verdict"]["n_groups"] is None:
        return "" if numbers["counts"] else ", with the sandwich variance of the weights"
    return (
        ", with the variance between groups, corrected for a small number of groups (CR3, Bell and McCaffrey 2002; "
        "degrees of freedom by Satterthwaite's method)"
    )
