"""Blocks of queries side by side: on the threads of this process, or wherever a backend of joblib takes them that the user has chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from kdgraph.geometry.place import Place

TASKS_PER_WORKER = 4
"""With workers that share no memory: each task carries the whole index, so there are few, and still enough to even out."""


def over_blocks(
    compute: Callable[[Any], Any], rows: np.ndarray | Place, blocks: Sequence[Any], n_jobs: int | None
) -> Iterator[tuple[Any, Any]]:
    """Each block with ``compute(rows[block])``, in order.

    Parameters
    ----------
    compute : function of some rows alone; where no memory is shared it is pickled.
    rows : [n, …], the queries, or where they lie on a partition.
    blocks : slices or integer arrays.
    n_jobs : workers. Inside ``joblib.parallel_config(backend=…)``, of a cluster of Dask or Ray for instance, they are that backend's.
    """
    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False):
        results = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(delayed(compute)(rows[block]) for block in blocks)
        yield from zip(blocks, results, strict=True)
        return
    n_tasks = min(len(blocks), TASKS_PER_WORKER * effective_n_jobs(n_jobs))
    groups = [blocks[start::n_tasks] for start in range(n_tasks)]
    found = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(_each)(compute, [rows[block] for block in group]) for group in groups)
    for group, results in zip(groups, found, strict=True):
        yield from zip(group, results, strict=True)


def _each(compute: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    return [compute(part) for part in parts]
