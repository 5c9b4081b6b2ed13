import assert from "node:assert/strict";
import { test } from "node:test";

import { content, load } from "./load.js";

const { linked, grouped, measured, numberOf } = load("linked", "grouped", "measured", "numberOf");
const { badness, isTie, gainOf, outcome, outcomeOf, tallyOf } = load(
  "badness",
  "isTie",
  "gainOf",
  "outcome",
  "outcomeOf",
  "tallyOf",
);
const { mean, deviation, median, rowsOf, cellsOf, averaged } = load(
  "mean",
  "deviation",
  "median",
  "rowsOf",
  "cellsOf",
  "averaged",
);

const data = linked(content());
const rows = rowsOf(data);
const cells = cellsOf(data, rows);
const column = (id) => data.columns.find((one) => one.id === id);
const row = (name) => rows.find((one) => one.name === name);
const run = (method) => data.runs.find((one) => one.method === method && one.seed === 0);

test("runs have their shared values", () => {
  const { dataset, parentName, repeated, facts, prior, setting, config } = run("kdf");
  assert.equal(dataset, "spiral");
  assert.equal(parentName, "random_forest on all rows (parent)");
  assert.deepEqual([repeated, prior, facts.n_test], ["0", 0.5, 100]);
  assert.equal(setting.chain, "random_forest → kdf");
  assert.equal(config().dataset.name, "spiral");
  assert.equal(config().seed, 0);
  assert.equal(run("global_pit").prior, null);
});

test("items are grouped in the order of their first ones", () => {
  const groups = grouped([3, 1, 4, 1, 5], (n) => n % 2);
  assert.deepEqual(
    [...groups],
    [
      [1, [3, 1, 1, 5]],
      [0, [4]],
    ],
  );
});

test("a number has its error and its rows, and no number is none", () => {
  assert.deepEqual(measured(run("kdf"), "calibrated", column("error")), {
    value: 0.1,
    stderr: 0.0125,
    n: 100,
  });
  assert.equal(numberOf(run("kdf"), "parent", column("error")), 0.3);
  assert.ok(Math.abs(numberOf(run("kdf"), "difference", column("error")) + 0.2) < 1e-12);
  assert.equal(measured(run("kdf"), "calibrated", column("rmse")), null);
  assert.equal(numberOf(run("global_pit"), "difference", column("my_score")), null);
});

test("badness is smaller for better numbers", () => {
  const of = (ideal) => [0.25, 0.75, null].map((value) => badness({ ideal }, value, 0.5));
  assert.deepEqual(of("lower"), [0.25, 0.75, null]);
  assert.deepEqual(of("higher"), [-0.25, -0.75, null]);
  assert.deepEqual(of("prior"), [0.25, 0.25, null]);
  assert.deepEqual(of("none"), [null, null, null]);
  assert.equal(badness({ ideal: "prior" }, 0.25, null), null);
});

test("noise is a tie relative to numbers in a unit, and to 1 for shares", () => {
  assert.ok(isTie({ scale: 1 }, 0, 1e-10));
  assert.ok(!isTie({ scale: 0 }, 0, 1e-10));
  assert.ok(isTie({ scale: 0 }, 1e6, 1e6 + 1e-4));
  assert.equal(gainOf({ scale: 1 }, 0.5, 0.5 + 1e-12), 0);
  assert.equal(gainOf({ scale: 1 }, 0.5, 0.25), 0.25);
  assert.equal(gainOf({ scale: 1 }, null, 0.25), null);
});

test("gains are counted, and missing ones are not", () => {
  assert.deepEqual([1, 0, -1, null].map(outcome), ["better", "same", "worse", "same"]);
  assert.deepEqual(tallyOf([1, 2, 0, -1, null]), { better: 2, same: 1, worse: 1 });
});

test("a run is judged against its own parent", () => {
  assert.equal(outcomeOf(run("kdf"), column("error")), "better");
  assert.equal(outcomeOf(run("global_pit"), column("rmse")), "same");
  assert.equal(outcomeOf(run("global_pit"), column("coverage")), "same");
});

test("summaries are the mean, the median and the deviation with n − 1", () => {
  assert.equal(mean([1, 2, 6]), 3);
  assert.equal(median([5, 1, 3]), 3);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.equal(deviation([2, 4, 4, 4, 5, 5, 7, 9]), Math.sqrt(32 / 7));
  assert.equal(deviation([1]), null);
});

test("each parent is followed by the methods on it", () => {
  assert.deepEqual(
    rows.map(({ name, kind }) => [name, kind]),
    [
      ["random_forest (parent)", "parent"],
      ["histogram", "method"],
      ["isotonic (paper protocol)", "method"],
      ["tood", "method"],
      ["global_pit", "method"],
      ["random_forest on all rows (parent)", "parent"],
      ["kdf", "method"],
    ],
  );
  assert.deepEqual(row("kdf").on, ["random_forest on all rows (parent)"]);
});

test("a parent has the runs of all methods on it, by data set and repetition", () => {
  const seeds = (name, dataset) =>
    cells
      .get(row(name))
      .get(dataset)
      .map((same) => same.map(({ method, seed }) => `${method} ${seed}`));
  assert.deepEqual(seeds("kdf", "spiral"), [["kdf 0"], ["kdf 1"]]);
  assert.deepEqual(seeds("random_forest (parent)", "spiral"), [
    ["isotonic (paper protocol) 0", "tood 0"],
    ["isotonic (paper protocol) 1", "tood 1"],
  ]);
  assert.equal(cells.get(row("kdf")).get("tran20"), undefined);
});

test("means over seeds have their own parent's in the same runs", () => {
  const of = (name, dataset, id) =>
    averaged(cells.get(row(name)).get(dataset), row(name), column(id));
  const kdf = of("kdf", "spiral", "error");
  assert.deepEqual([kdf.values, kdf.mean, kdf.deviation], [[0.1, 0.1], 0.1, 0]);
  assert.ok(Math.abs(kdf.difference + 0.2) < 1e-12);
  assert.ok(Math.abs(kdf.gain - 0.2) < 1e-12);
  assert.deepEqual([kdf.repeated, kdf.prior], [["0", "1"], 0.5]);
  const parent = of("random_forest (parent)", "spiral", "error");
  assert.equal(parent.gain, null);
  assert.equal(of("kdf", "spiral", "rmse"), null);
  assert.equal(of("global_pit", "tran20", "coverage").gain, null);
});
