"""Prediction sets of classes on CIFAR networks: what calibration changes, and the same sets by MAPIE and crepes.

    python benchmarks/conformal_classes.py                 # sizes and coverage, before and after temperature scaling
    python benchmarks/conformal_classes.py --peers         # also MAPIE and crepes: same sets, and the ratio of times

10,000 test rows of each network are divided at random: 2,000 fit the temperature, 3,000 calibrate the sets, 5,000 test
them; the mean over `--splits` divisions. Sets have a level of 90 % and 95 %, and empty ones are kept, so that all
packages answer the same question. Times are of the CPU, peer divided by ours. The peers are not dependencies of this
package: `pip install mapie==1.6.0 crepes==0.9.1`. MAPIE draws random numbers for its adaptive sets, so
these are compared by size, not set by set.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from data_folder import need_data
from scipy.special import softmax

import calibrant as cb
from calibrant.conformal import CumulativeSets, LeastAmbiguousSets

NETWORKS = ("cifar10_resnet20", "cifar100_resnet56", "cifar100_vgg19_bn")
METHODS: dict[str, Callable[[float], Any]] = {
    "least ambiguous": lambda alpha: LeastAmbiguousSets(alpha, empty="keep"),
    "cumulative": lambda alpha: CumulativeSets(alpha, empty="keep"),
    "cumulative, penalty 0.05": lambda alpha: CumulativeSets(alpha, penalty=0.05, free=2, empty="keep"),
}
Rows = tuple[np.ndarray, np.ndarray]


def read(name: str) -> Rows:
    """Logits and labels of a network."""
    stored = np.load(need_data("cifar_logits") / "cifar_logits" / f"{name}_test.npz")
    return stored["logits"].astype(np.float64), stored["labels"].astype(int)


def divided(rows: Rows, seed: int) -> tuple[Rows, Rows, Rows]:
    """Rows for the temperature, for the sets, and for the test."""
    order = np.random.default_rng(seed).permutation(len(rows[1]))
    parts = np.split(order, [2_000, 5_000])
    first, second, third = ((rows[0][part], rows[1][part]) for part in parts)
    return first, second, third


def by_calibrant(method: Any, old: Rows, new: np.ndarray) -> np.ndarray:
    """Members of the sets of new rows."""
    method.fit(*old, classes=range(new.shape[1]), score_type="probability")
    return np.asarray(method.predict_sets(new).members)


class Given:
    """A classifier whose features are its probabilities, for packages that want one."""

    def __init__(self, size: int) -> None:
        self.classes_, self.n_features_in_, self.fitted_ = np.arange(size), size, True

    def fit(self, x: Any, y: Any) -> Given:
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x.argmax(axis=1))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def by_mapie(score: str, alpha: float, old: Rows, new: np.ndarray) -> np.ndarray:
    """Sets of MAPIE."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    model = type("Model", (Given, ClassifierMixin, BaseEstimator), {})(new.shape[1])
    peer = SplitConformalClassifier(model, 1 - alpha, score, prefit=True, random_state=0)
    peer.conformalize(*old)
    params = {"include_last_label": "randomized"} if score != "lac" else None
    return np.asarray(peer.predict_set(new, params)[1][:, :, 0])


def by_crepes(alpha: float, old: Rows, new: np.ndarray, bins: tuple[Any, Any] = (None, None)) -> np.ndarray:
    """Sets of crepes: hinge scores, without smoothing; in bins if given."""
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classes = np.arange(new.shape[1])
    peer = ConformalClassifier().fit(hinge(old[0], classes, old[1]), bins[0])
    return np.asarray(peer.predict_set(hinge(new), bins[1], confidence=1 - alpha, smoothing=False)).astype(bool)


def timed(call: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """The result of a second call, and its seconds of CPU time."""
    call()
    start = time.process_time()
    return call(), time.process_time() - start


def line(*cells: object) -> None:
    print("  ".join(f"{cell!s:<26}" if place < 2 else f"{cell!s:>9}" for place, cell in enumerate(cells)))


def sizes(splits: int) -> None:
    """Mean sizes and coverage, before and after temperature scaling."""
    line("network", "sets", "level", "as is", "covers", "scaled", "covers", "empty")
    for name in NETWORKS:
        rows = read(name)
        for alpha in (0.1, 0.05):
            found: dict[str, list[list[float]]] = {method: [] for method in METHODS}
            for seed in range(splits):
                first, second, third = divided(rows, seed)
                warm = cb.multiclass.TemperatureScaling().fit(
                    *first, classes=range(rows[0].shape[1]), score_type="logit"
                )
                for method, make in METHODS.items():
                    numbers = []
                    for scale in (lambda z: softmax(z, axis=1), warm.transform):
                        members = by_calibrant(make(alpha), (scale(second[0]), second[1]), scale(third[0]))
                        hit = members[np.arange(len(third[1])), third[1]]
                        numbers += [members.sum(axis=1).mean(), hit.mean(), (~members.any(axis=1)).mean()]
                    found[method].append(numbers)
            for method, each in found.items():
                size, hit, _, scaled, after, empty = np.mean(each, axis=0)
                line(
                    name, method, f"{1 - alpha:.0%}", f"{size:.2f}", f"{hit:.1%}", f"{scaled:.2f}", f"{after:.1%}",
                    f"{empty:.1%}",
                )  # fmt: skip


def peers() -> None:
    """The same sets by other packages, and their times."""
    import crepes
    import mapie

    print(f"\nMAPIE {mapie.__version__}, crepes {crepes.__version__}; level 90 %, probabilities as they are")
    line("network", "sets", "peer", "same sets", "our size", "peer size", "time")
    for name in NETWORKS:
        logits, y = read(name)
        rows = softmax(logits, axis=1), y
        _, old, (new, _) = divided(rows, 0)
        cases: list[tuple[str, str, Callable[[], np.ndarray]]] = [
            ("least ambiguous", "MAPIE", lambda o=old, n=new: by_mapie("lac", 0.1, o, n)),
            ("least ambiguous", "crepes", lambda o=old, n=new: by_crepes(0.1, o, n)),
            ("cumulative", "MAPIE", lambda o=old, n=new: by_mapie("aps", 0.1, o, n)),
        ]
        for title, peer, call in cases:
            method = METHODS[title](0.1)
            ours, own = timed(lambda m=method, o=old, n=new: by_calibrant(m, o, n))
            theirs, other = timed(call)
            same = f"{(ours == theirs).all(axis=1).mean():.2%}" if title != "cumulative" else "random"
            line(
                name, title, peer, same, f"{ours.sum(axis=1).mean():.3f}", f"{theirs.sum(axis=1).mean():.3f}",
                f"{other / own:.1f} x",
            )  # fmt: skip
        bins = (old[0].argmax(axis=1) % 3, new.argmax(axis=1) % 3)
        method = LeastAmbiguousSets(empty="keep").fit(*old, classes=range(new.shape[1]), groups=bins[0])
        ours = method.predict_sets(new, groups=bins[1]).members
        theirs = by_crepes(0.1, old, new, bins)
        line(name, "least ambiguous, by group", "crepes", f"{(ours == theirs).all(axis=1).mean():.2%}",
             f"{ours.sum(axis=1).mean():.3f}", f"{theirs.sum(axis=1).mean():.3f}", "")  # fmt: skip


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="compare with MAPIE and crepes")
    parser.add_argument("--splits", type=int, default=5, help="number of random divisions")
    given = parser.parse_args()
    sizes(given.splits)
    if given.peers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peers()


if __name__ == "__main__":
    main()
