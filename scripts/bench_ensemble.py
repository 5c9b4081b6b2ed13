"""Time perceptrons that train side by side against a loop over them, as networks for the pixels of
MNIST.

Both train 784-300-100-10 units with Adam on batches of 1,000 rows of noise, by the estimators that
users call, and take turns in one process; what is printed is the median of their ratios. In blocks
of ten they are a little faster than the loop on a CPU; on a GPU, where a block has a hundred, they
should be five times as fast (the bars; on an H100, ``--networks 100`` is 55 times as fast). The
default trains 20 networks for 50 steps; the time of a step does not depend on how many there were
before, so ``--networks 100 --epochs 8`` (400 steps) takes forty times as long and says the same.

While the machine does something else, the ratios are noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch

from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble

BARS = {"cpu": 1.0, "cuda": 5.0}
BLOCKS = {"cpu": 10, "cuda": 100}
ROWS, PIXELS, CLASSES = 50_000, 784, 10
COMMON: dict[str, Any] = {
    "hidden": (300, 100),
    "learning_rate": 5e-5,
    "batch_size": 1000,
    "patience": None,
}


def main() -> None:
    """Print one line for each number of threads, or one for the GPU."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--networks", type=int, default=20)
    options.add_argument("--epochs", type=int, default=1, help="of 50 steps")
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    rng = np.random.default_rng(0)
    X, y = rng.random((ROWS, PIXELS), dtype=np.float32), rng.integers(CLASSES, size=ROWS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    block = min(BLOCKS[device], given.networks)
    for threads in (1, 2) if device == "cpu" else (1,):
        settings = {**COMMON, "max_epochs": given.epochs, "device": device, "threads": threads}

        def together(settings: dict[str, Any] = settings) -> None:
            for seed in range(given.networks // block):
                MultilayerPerceptronEnsemble(members=block, random_state=seed, **settings).fit(X, y)

        def alone(settings: dict[str, Any] = settings) -> None:
            for seed in range(given.networks // block * block):
                MultilayerPerceptron(random_state=seed, **settings).fit(X, y)

        times = [(seconds(alone), seconds(together)) for _ in range(given.repeats)]
        ratio = statistics.median(loop / batched for loop, batched in times)
        loop, batched = (statistics.median(each) for each in zip(*times, strict=True))
        print(
            f"{given.networks} networks × {50 * given.epochs} steps, {device}, {threads}"
            f" thread{'s' * (threads > 1)}: loop {loop:.1f} s, blocks of {block} {batched:.1f} s,"
            f" {ratio:.2f} times as fast (bar {BARS[device]:g})",
            flush=True,
        )


def seconds(function: Any) -> float:
    """Wall time of a call; what a fit warns of noise is not shown."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        function()
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
