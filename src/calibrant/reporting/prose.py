"""What a report says in sentences: methods with their sources, what is not shown, and the words used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.reporting.blocks import Block, Bullets, Table
from calibrant.reporting.contents import Contents
from calibrant.reporting.figures import count, share
from calibrant.reporting.styles import Style
from calibrant.verdict.figures import capitalized

WORDS = (
    ("{score}", "the probability that the model gives to the {event} of a {row}"),
    ("{event}", "what the {score} is about: label 1"),
    ("Calibrated", "of the {rows} with {score} p, a share p has the {event}, for every p"),
    ("Predicted", "number of {events} that the {scores} promise: their sum"),
    ("Expected range", "the middle 95 % of the numbers of {events} that a calibrated model shows"),
    ("95 % interval", "made by a rule whose intervals hold the true value in 95 of 100 samples"),
    ("p-value", "how often a calibrated model would look at least this bad"),
    ("Adjusted p", "p-value that allows for having looked at many groups (Holm)"),
    ("Intercept", "by how much the log-odds are off overall; 0 is ideal, above it the {scores} are too low"),
    ("Slope", "how the log-odds are stretched; 1 is ideal, below it the {scores} are too extreme"),
    ("E/O, O/E", "{events} expected over {events} observed, and the inverse; 1 is ideal"),
    ("ICI", "mean distance between a smooth calibration curve and the diagonal, over {rows}"),
    ("ECE", "mean distance between {rate} and mean {score} over bins of the {scores}"),
    ("Debiased error", "root of the mean squared distance over bins, with what chance adds taken off"),
    ("PDE", "as ECE, but each {score} by itself is compared with the rate of its bin"),
    ("smECE", "distance after kernel smoothing, at the one bandwidth that equals the distance itself"),
    ("ECCE", "how far {events} and {scores}, summed from the lowest {score} on, drift apart"),
    ("Brier score", "mean squared distance of {score} and label"),
    ("Log loss", "mean of minus the logarithm of the probability given to the observed label, in nats"),
    ("AUC", "how often a {row} with the {event} has the higher {score} of two; blind to calibration"),
    ("Miscalibration", "part of a loss that isotonic recalibration takes off"),
    ("Discrimination", "part of the base rate's loss that telling {rows} apart takes off"),
    ("Uncertainty", "loss of the base rate alone"),
    ("Net benefit", "{events} found, less false alarms at the price that the threshold implies"),
)

NOT_SHOWN = (
    "Whether the model was trained on these {rows}. If it was, or if it was chosen or recalibrated on them, it looks "
    "better here than it will on new ones.",
    "{rows} that are not here. Where {rows} got into the data by a decision (accepted, treated, investigated), nothing "
    "is said about the others.",
    "Labels that had not arrived when the data were drawn. Late {events} count as none, so that the {scores} look too "
    "high.",
    "Wrong labels, and labels that mean something else than the {score} was made for.",
    "Later times and other places. Calibration drifts; repeat this on newer {rows}.",
    "Groups that were not looked at. A model can be calibrated over all {rows} and off for some of them.",
    "Dependence between {rows} that was not declared: then intervals are too narrow and p-values too small.",
    "Whether the {scores} are useful or fair. The base rate given to every {row} is calibrated too.",
)


def limits(contents: Contents, style: Style) -> list[Block]:
    """What these numbers cannot show, in plain words."""
    return [Bullets(tuple(capitalized(style.say(sentence)) for sentence in NOT_SHOWN))]


def definitions(contents: Contents, style: Style) -> list[Block]:
    """One line for each word used."""
    rows = tuple((capitalized(style.say(word)), style.say(meaning)) for word, meaning in WORDS)
    return [Table("One line each", ("word", "meaning"), rows, words=True)]


def methods(contents: Contents, style: Style) -> list[Block]:
    """What was computed, how, after whom and with what."""
    numbers = contents.numbers
    return [" ".join((_data(numbers, style), *(style.say(text) for text in _steps(numbers))))]


def _data(numbers: Mapping[str, Any], style: Style) -> str:
    verdict, software = numbers["verdict"], numbers["software"]
    rate = share(numbers["events"] / numbers["rows"])
    rows, events = count(numbers["rows"]), count(numbers["events"])
    if numbers["counts"]:
        told = f"{rows} {style.nouns.rows} with {events} {style.nouns.events} ({rate})"
    else:
        told = (
            f"{count(verdict['row_count'])} {style.nouns.rows} with {events} {style.nouns.events} and importance "
            f"weights ({rate} by weight)"
        )
    cells = {
        "exact": "every distinct value was kept",
        "grid": f"they were counted in {numbers['cells']:,} cells, whose values agree to about a thousandth",
        "bins": f"they came counted in {numbers['cells']:,} bins, each taken at its mean",
    }[numbers["resolution"]]
    clusters = "" if verdict["groups"] is None else f" in {verdict['groups']:,} groups"
    return f"Computed with {software['name']} {software['version']} from {told}{clusters}. Of the predictions, {cells}."


def _steps(numbers: Mapping[str, Any]) -> list[str]:
    verdict = numbers["verdict"]
    level, stretch = verdict["tolerance"]
    slope = "" if stretch is None else f" and a slope within {stretch:.3g} of 1"
    steps = [
        "The verdict looks at the level (calibration in the large) and the slope of the log-odds (Cox 1958) and at "
        "ranges of the {scores} (Hoeffding 1956). There is evidence against calibration when one of them rejects it, "
        "at 2, 2 and 1 %. It is calibrated when the 95 % intervals of level and slope lie within the tolerance, "
        f"{level:.3g} for the level{slope}, and miscalibrated when a 98 % interval, or a range at 1 %, lies beyond it.",
        _diagram(numbers),
        f"Intervals of rates are Clopper and Pearson's (1934){_widened(numbers)}; expected ranges are those of the "
        "Poisson-binomial distribution"
        + (
            ", exact where that is cheap and else normal with a correction for skewness (Volkova 1996)."
            if _plain(numbers)
            else ", with the variance that weights and groups give."
        ),
        "Intercept and slope: maximum likelihood with profile-likelihood intervals; E/O: the delta method (Steyerberg "
        f"2019; Debray et al. 2017){_dependence(numbers)}; distances of the curve: a restricted cubic spline of the "
        f"log-odds with {numbers['curve']['bootstrap_samples']} bootstrap samples (Austin and Steyerberg 2019).",
        "Errors: ECE (Naeini, Cooper and Hauskrecht 2015), debiased error (Kumar, Liang and Ma 2019), PDE (Torabian "
        "2023), smECE (Blasiok and Nakkiran 2023), ECCE (Arrieta-Ibarra et al. 2022). AUC: standard error by DeLong, "
        "DeLong and Clarke-Pearson (1988).",
    ]
    if numbers["tests"]:
        steps.append(
            "Tests: Spiegelhalter (1986), cumulative differences (Arrieta-Ibarra et al. 2022)"
            + (", T-Cal (Lee et al. 2023)" if numbers["counts"] else "")
            + " and, because it is asked for, Hosmer and Lemeshow (1980)."
        )
    steps.append("Net benefit: Vickers and Elkin (2006).")
    if numbers["grades"] is not None:
        steps.append("Lights: OeNB and FMA (2004); Jeffreys test: ECB (2019).")
    if verdict["segments"] or verdict["periods"]:
        steps.append("Segments and periods: two-sided p-values of chance, adjusted by Holm's method (1979).")
    return steps


def _diagram(numbers: Mapping[str, Any]) -> str:
    if numbers["reliability"]["series"][0]["heaped"]:
        return (
            "The reliability diagram shows the {rate} at each {score}, with the binomial interval of a perfect model; "
            "the losses are decomposed by isotonic regression (Dimitriadis, Gneiting and Jordan 2021)."
        )
    return (
        "The reliability diagram is the isotonic regression of labels on {scores} with a consistency band from 500 "
        "simulations (Dimitriadis, Gneiting and Jordan 2021), and so is the decomposition of the losses."
    )


def _plain(numbers: Mapping[str, Any]) -> bool:
    """Whether rows count alike and are independent."""
    return bool(numbers["counts"] and numbers["verdict"]["groups"] is None)


def _widened(numbers: Mapping[str, Any]) -> str:
    return "" if _plain(numbers) else ", at the effective number of {rows} (Korn and Graubard 1998)"


def _dependence(numbers: Mapping[str, Any]) -> str:
    if numbers["verdict"]["groups"] is None:
        return "" if numbers["counts"] else ", with the sandwich variance of the weights"
    return (
        ", with the variance between groups, corrected for few of them (CR3, Bell and McCaffrey 2002; degrees of "
        "freedom by Satterthwaite's method), also for the profile likelihood (Chandler and Bate 2007)"
    )
