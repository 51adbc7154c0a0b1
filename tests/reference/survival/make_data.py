"""Write the follow-up data that ``reference.R`` reads: rounded times, so that events and censorings share times."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


def write(name: str, seed: int, competing: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 240
    risk = rng.uniform(0.05, 0.7, n).round(3)
    center = rng.integers(0, 2, n)
    first = rng.exponential(5.0 / -np.log1p(-(risk**1.3)))
    other = rng.exponential(25.0, n) if competing else np.full(n, np.inf)
    censored = rng.uniform(0.0, np.where(center == 0, 9.0, 14.0))
    ends = np.stack([censored, first, other])
    time, event = np.ceil(ends.min(axis=0) * 4) / 4, ends.argmin(axis=0)
    lines = [f"{r},{t},{e},{c}" for r, t, e, c in zip(risk, time, event, center, strict=True)]
    (FOLDER / f"{name}.csv").write_text("risk,time,event,center\n" + "\n".join(lines) + "\n", encoding="utf-8")


write("censored", 1, False)
write("competing", 2, True)
