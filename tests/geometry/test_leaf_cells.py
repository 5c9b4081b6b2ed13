"""Class masses over the most similar cells, against plain loops and dense arrays of all pairs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from kdgraph.geometry import LeafIndex, leaf_cells, partition_of, polytopes_of
from kdgraph.geometry import forest as forest_module
from kdgraph.geometry.leaf_cells import CellIndex
from kdgraph.geometry.leaf_index import RowIndex

EXPONENTS = np.array([0.3, 2.0, 20.0])


def draw_problem(n_leaves: int, n_trees: int) -> SimpleNamespace:
    """Return 700 polytopes around 20 centres with masses of three classes, and 40 queries."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, n_leaves, (20, n_trees))
    centre = centres[rng.integers(0, 20, 740)]
    codes = np.where(
        rng.random(centre.shape) < 0.6, centre, rng.integers(0, n_leaves, centre.shape)
    )
    masses = rng.uniform(0.5, 2, (700, 3)) * (rng.random((700, 3)) < 0.4)
    codes, queries = codes[:700], codes[700:]
    # Leaf ``n_leaves`` of each tree has no polytope.
    queries[:3] = n_leaves
    starts = np.arange(n_trees + 1) * (n_leaves + 1)
    return SimpleNamespace(codes=codes, masses=masses, queries=queries, starts=starts)


def loop_masses(problem: SimpleNamespace, n_visited: int) -> np.ndarray:
    """Return the masses over the cells that are visited, one query after the other."""
    n = len(problem.codes)
    drawn = np.sort(np.random.default_rng(0).choice(n, -(-n // 64), replace=False))
    pivots = problem.codes[drawn]
    cell = [(pivots == code).sum(axis=1).argmax() for code in problem.codes]
    result = np.zeros((len(problem.queries), 3, len(EXPONENTS)))
    for q, code in enumerate(problem.queries):
        similarity = (pivots == code).sum(axis=1)
        visited = sorted(range(len(pivots)), key=lambda c: (-similarity[c], c))[:n_visited]
        for i in range(n):
            if cell[i] in visited:
                shared = np.mean(problem.codes[i] == code)
                result[q] += problem.masses[i][:, None] * shared**EXPONENTS * (shared > 0)
    return result


@pytest.mark.parametrize("n_visited", [1, 3, 11])
@pytest.mark.parametrize(("n_leaves", "n_trees"), [(5, 30), (400, 70), (30, 301)])
def test_masses_are_those_of_the_most_similar_cells(monkeypatch, n_leaves, n_trees, n_visited):
    monkeypatch.setattr(leaf_cells, "_N_VISITED", n_visited)
    problem = draw_problem(n_leaves, n_trees)
    index = CellIndex(problem.codes, problem.masses, problem.starts)
    masses, nearest = index.query(problem.queries, EXPONENTS)
    np.testing.assert_allclose(masses, loop_masses(problem, n_visited), rtol=1e-11, atol=0)
    assert (nearest == -1).all() and not masses[:3].any()
    if n_visited == 11:  # all cells
        exact = LeafIndex(problem.codes, problem.masses, problem.starts)
        np.testing.assert_allclose(masses, exact.query(problem.queries, EXPONENTS)[0], rtol=1e-11)


def test_results_do_not_depend_on_blocks_threads_or_other_queries(monkeypatch):
    problem = draw_problem(5, 30)
    masses, _ = CellIndex(problem.codes, problem.masses, problem.starts).query(
        problem.queries, EXPONENTS
    )
    monkeypatch.setattr(leaf_cells, "_QUERY_BLOCK", 7)
    for n_jobs in (1, 2):
        index = CellIndex(problem.codes, problem.masses, problem.starts, n_jobs=n_jobs)
        np.testing.assert_array_equal(index.query(problem.queries, EXPONENTS)[0], masses)
    one_by_one = [index.query(code[None], EXPONENTS)[0] for code in problem.queries]
    np.testing.assert_array_equal(np.concatenate(one_by_one), masses)


def test_a_polytope_finds_itself(monkeypatch):
    monkeypatch.setattr(leaf_cells, "_N_VISITED", 1)
    problem = draw_problem(3, 12)
    rows = polytopes_of(problem.codes).representatives[::2]
    index = CellIndex(problem.codes, np.eye(len(rows)), problem.starts, rows=rows)
    masses, _ = index.query(problem.codes[rows], np.array([1e3]))
    np.testing.assert_array_equal(np.diag(masses[:, :, 0]), 1)


def test_cells_are_for_large_leaves_of_boosted_trees(monkeypatch):
    X, y = make_classification(1500, 8, random_state=0)
    labels = np.eye(2)[y]

    def index(model, y=y, **options):
        partition = partition_of(model.fit(X, y))
        codes = partition.encode(X)
        polytopes = polytopes_of(codes)
        rows, masses = polytopes.representatives, polytopes.sum_by_polytope(labels)
        made = partition.mass_index(codes, masses, rows, **options)
        exact = partition.index(codes, masses, rows=rows).query(codes[:50], EXPONENTS)[0]
        return type(made), made.query(codes[:50], EXPONENTS)[0], exact

    boosted = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0)
    assert index(boosted, approximates=True)[0] is LeafIndex  # of few polytopes
    monkeypatch.setattr(forest_module, "_MIN_POLYTOPES_IN_CELLS", 100)
    kind, found, exact = index(boosted, approximates=True)
    assert kind is CellIndex
    # At exponent 20 nearly all of the mass is in the cells.
    assert (found <= exact * (1 + 1e-12)).all()
    assert found[:, :, 2].sum() > 0.9 * exact[:, :, 2].sum()
    assert index(boosted, approximates=False)[0] is LeafIndex
    forest, noise = RandomForestClassifier(20, random_state=0), np.random.default_rng(0)
    kind, found, exact = index(forest, noise.integers(0, 2, 1500), approximates=True)
    assert kind is RowIndex
    np.testing.assert_allclose(found, exact, rtol=1e-11)


@pytest.mark.parametrize("node", [-1, 10**5])
def test_codes_of_no_node_are_refused(monkeypatch, node):
    # A file may hold any codes, and the loops write where these lead.
    monkeypatch.setattr(forest_module, "_MIN_POLYTOPES_IN_CELLS", 100)
    X, y = make_classification(600, 5, random_state=0)
    partition = partition_of(HistGradientBoostingClassifier(max_iter=10).fit(X, y))
    codes = partition.encode(X)
    rows = np.arange(len(codes))
    assert isinstance(partition.mass_index(codes, np.eye(2)[y], rows, approximates=True), CellIndex)
    codes[3, 2] = node
    with pytest.raises(ValueError, match="codes name nodes that their trees do not have"):
        partition.mass_index(codes, np.eye(2)[y], rows, approximates=True)
