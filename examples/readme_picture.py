"""The picture of the README: the reliability diagram of its example, before and after calibration.

python examples/readme_picture.py docs/_static/readme.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import calibrant as cb

mpl.use("Agg")


def main(path: Path) -> None:
    """Fit on the first 4,000 rows of the example, draw the other 2,000."""
    rng = np.random.default_rng(2026)
    score = rng.beta(2, 5, size=6000)
    default = rng.random(6000) < score**1.5
    cal = cb.calibrate(score[:4000], default[:4000])
    unseen = score[4000:]
    display = cb.ReliabilityDisplay.from_predictions(unseen, default[4000:], after=cal.transform(unseen)).plot()
    path.parent.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(path, dpi=80, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
