import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./load.js";

const { sortedRows, destination } = load("sortedRows", "destination");
const { niceReach, spread } = load("niceReach", "spread");

const columns = [
  { key: "name", value: (row) => row.name },
  { key: "size", n: true, value: (row) => row.size },
];
const rows = [
  { name: "b10", size: 2 },
  { name: "b9", size: null },
  { name: "a", size: 10 },
  { name: "c", size: 2 },
];
const names = (order) => sortedRows(rows, columns, order).map((row) => row.name);

test("rows are sorted by number, and those without one come last in both directions", () => {
  assert.deepEqual(names({ key: "size", descending: false }), ["b10", "c", "a", "b9"]);
  assert.deepEqual(names({ key: "size", descending: true }), ["a", "b10", "c", "b9"]);
});

test("numbers within names are compared as numbers", () => {
  assert.deepEqual(names({ key: "name", descending: false }), ["a", "b9", "b10", "c"]);
});

test("rows stay as they are without an order, and by a column that is gone", () => {
  const unsorted = rows.map((row) => row.name);
  assert.deepEqual(names(null), unsorted);
  assert.deepEqual(names({ key: "gone", descending: true }), unsorted);
});

test("keys lead through the table", () => {
  const to = (key, control = false) => destination(key, control, 5, 2, 100);
  assert.deepEqual(to("ArrowUp"), [4, 2]);
  assert.deepEqual(to("ArrowDown"), [6, 2]);
  assert.deepEqual(to("ArrowLeft"), [5, 1]);
  assert.deepEqual(to("ArrowRight"), [5, 3]);
  assert.deepEqual(to("PageDown"), [15, 2]);
  assert.deepEqual(to("PageUp"), [0, 2]);
  assert.deepEqual(to("Home"), [5, 0]);
  assert.deepEqual(to("Home", true), [0, 0]);
  assert.deepEqual(to("End"), [5, Infinity]);
  assert.deepEqual(to("End", true), [99, Infinity]);
  assert.equal(to("a"), null);
});

test("an axis ends at a round number", () => {
  assert.deepEqual(
    [0.0123, 0.3, 7, 850].map(niceReach).map((reach) => Number(reach.toPrecision(6))),
    [0.015, 0.3, 8, 1000],
  );
});

test("labels that would overlap are moved apart, within the drawing", () => {
  const at = (places, lowest) =>
    spread(
      places.map((one) => ({ at: one })),
      10,
      lowest,
    ).map((one) => one.at);
  assert.deepEqual(at([0, 50, 20], 100), [0, 20, 50]);
  assert.deepEqual(at([0, 5, 6], 100), [0, 10, 20]);
  assert.deepEqual(at([90, 95, 99], 100), [80, 90, 100]);
});
