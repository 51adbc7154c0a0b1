"""Time and memory of the ledger of late labels.

    python benchmarks/ledger.py            # 10^7 open predictions
    python benchmarks/ledger.py --quick    # 10^6

Batches of 100,000 events with random ids of 16 bytes; seconds of CPU time. What the ledger prevents is in
``late_labels.py``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from calibrant.live import Ledger

BATCH = 100_000


def speed(rows: int) -> None:
    """Rows per second, and memory."""
    rng = np.random.default_rng(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ledger, spent = Ledger(10.0), 0.0
    for k in range(rows // BATCH):
        ids = rng.integers(0, 2**63, (BATCH, 2)).astype(np.uint64).view("V16").ravel()
        scores = rng.random(BATCH)
        start = time.process_time()
        ledger.predict(ids, scores, at=k / 1_000)
        spent += time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(f"predictions          {rows / spent / 1e6:8.2f} M/s, {grown / 1e9:.2f} GB with {ledger.counts.open:,} open")
    start = time.process_time()
    for _ in range(10):
        ledger.observe(ids, np.ones(BATCH), at=9.0)
    print(f"outcomes             {10 * BATCH / (time.process_time() - start) / 1e6:8.2f} M/s")
    start = time.process_time()
    released = ledger.advance(1e6)
    print(f"released             {len(released) / (time.process_time() - start) / 1e6:8.2f} M/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    speed(1_000_000 if parser.parse_args().quick else 10_000_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
