"""The desk of an evaluation engineer: which model is overconfident, when to answer, and what to pass on.

Four language models answer 600 questions and state a confidence. Everything is simulated.
"""

from __future__ import annotations

import numpy as np

import calibrant as cb
from calibrant import abstention

STATED = np.array([0.5, 0.7, 0.8, 0.9, 0.95, 1.0])


def answers(ability: float, boast: float, easy: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Stated confidences, and whether the answers are right; ``boast`` shifts what is stated."""
    strength = ability + 1.5 * easy
    right = rng.random(len(easy)) < 1 / (1 + np.exp(-strength))
    felt = 1 / (1 + np.exp(-(strength + boast + rng.normal(0, 0.7, len(easy)))))
    return STATED[np.abs(felt[:, None] - STATED).argmin(axis=1)], right


def main() -> None:
    """Print each step."""
    rng = np.random.default_rng(8)
    easy = rng.normal(0, 1, 600)
    models = {"small": (0.8, 1.2), "medium": (1.6, 0.6), "large": (2.4, 0.2), "largest": (3.6, 0.0)}
    drawn = {name: answers(*numbers, easy, rng) for name, numbers in models.items()}
    stated, right = ({name: each[k] for name, each in drawn.items()} for k in (0, 1))

    print("1. Which model is overconfident?")
    name = np.repeat(list(models), len(easy))
    everything = np.concatenate(list(stated.values())), np.concatenate(list(right.values()))
    print(cb.check(*everything, by={"model": name}, groups=np.tile(np.arange(600), 4)))

    print("\n2. When may each model answer, with at most 10 % wrong?")
    choice = abstention.accept_models(stated, right, error=0.1)
    print(choice)

    print("\n3. The trade-off of the large model")
    print(abstention.risk_coverage(stated["large"], right["large"], points=10))

    print("\n4. The small model first, the largest one for the rest")
    print(abstention.route(stated["small"], right["small"], right["largest"], error=0.15, cost_expensive=30))


if __name__ == "__main__":
    main()
