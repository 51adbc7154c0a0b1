"""Heat map of traffic lights by rating grade and year."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.credit.panel import ALL, GradePanel, letter
from calibrant.displays.base import Display, display_of
from calibrant.messages import InputError
from calibrant.notebook import TRAFFIC_LIGHTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = {"green": "black", "yellow": "black", "red": "white", "none": "0.45"}
"""Colors of the letters, legible on the color of the light."""


class GradeLightsDisplay(Display):
    """Lights of rating grades by year, with a letter and the default rate in each cell.

    Guarantee: that of :func:`calibrant.credit.grade_table` for each cell; lights are not corrected for their number.
    Cost: none beyond the panel.

    Reference: OeNB and FMA (2004), on traffic lights.

    Attributes
    ----------
    panel
        The tables of the grades by year.
    segment
        The segment that is shown, or ``"all"``.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant.credit import grade_panel
    >>> panel = grade_panel([800, 500], [2, 15], [0.002, 0.01], grade=["A", "B"], year=[2025, 2025])
    >>> GradeLightsDisplay.from_panel(panel).data["lights"]
    [['green'], ['red'], ['red']]
    """

    def __init__(self, panel: GradePanel, segment: str = ALL) -> None:
        """Keep the panel.

        Parameters
        ----------
        panel
            The result of :func:`calibrant.credit.grade_panel`, with years.
        segment
            A segment of the panel, or ``"all"``.
        """
        if not panel.years:
            raise InputError("panel", "has no years", "pass year= to grade_panel")
        if segment != ALL and segment not in panel.segments:
            raise InputError("segment", f"is {segment!r}, which the panel does not have", "see panel.segments")
        self.panel, self.segment = panel, segment
        self.size = (max(3.4, 1.6 + 0.9 * len(panel.years)), max(2.8, 1.4 + 0.42 * (len(panel.grades) + 1)))

    @classmethod
    def from_panel(cls, panel: GradePanel, *, segment: str = ALL) -> GradeLightsDisplay:
        """The display of a panel; draw it with :meth:`plot`.

        Parameters
        ----------
        panel
            The result of :func:`calibrant.credit.grade_panel`, with years.
        segment
            A segment of the panel, or ``"all"``.
        """
        return cls(panel, segment)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists; the last line is the portfolio."""
        tables = [self.panel.part(self.segment, year) for year in self.panel.years]
        rates = [[record["rate"] for record in table.records()] for table in tables]
        known = [[None if rate != rate else rate for rate in column] for column in rates]
        return {
            "display": "lights by grade and year",
            "segment": self.segment,
            "grades": [*self.panel.grades, "portfolio"],
            "years": list(self.panel.years),
            "lights": self.panel.lights(self.segment),
            "rates": [list(line) for line in zip(*known, strict=True)],
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        every = [light for line in self.panel.lights(self.segment)[:-1] for light in line]
        counts = ", ".join(f"{every.count(light)} {light}" for light in ("green", "yellow", "red"))
        where = "" if self.segment == ALL else f" ({self.segment})"
        shown = "Letter and observed default rate in each cell; yellow at 95 %, red at 99.9 % confidence."
        return f"Grades by year{where}: {counts}. {shown}"

    def _draw_on(self, ax: Axes) -> None:
        from matplotlib.patches import Rectangle

        data = self.data
        rows, columns = len(data["grades"]), len(data["years"])
        for line, (lights, rates) in enumerate(zip(data["lights"], data["rates"], strict=True)):
            for column, (light, rate) in enumerate(zip(lights, rates, strict=True)):
                color = TRAFFIC_LIGHTS.get(light, "none")
                ax.add_patch(Rectangle((column - 0.5, line - 0.5), 1.0, 1.0, facecolor=color, edgecolor="0.5"))
                text = "no rows" if light == "none" else f"{letter(light)}  {100 * (rate or 0.0):.2g} %"
                ax.text(column, line, text, ha="center", va="center", color=INK[light], fontsize=9)
        ax.set_xlim(-0.5, columns - 0.5)
        ax.set_ylim(rows - 0.5, -0.5)
        ax.set_xticks(range(columns), data["years"])
        ax.set_yticks(range(rows), data["grades"])
        ax.tick_params(length=0)
        self._head(ax, "Traffic lights by grade and year")


display_of.register(GradePanel, GradeLightsDisplay)
