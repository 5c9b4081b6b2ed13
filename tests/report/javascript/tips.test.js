import assert from "node:assert/strict";
import { test } from "node:test";

import { content, load } from "./load.js";

const { linked, rowsOf, cellsOf, averaged } = load("linked", "rowsOf", "cellsOf", "averaged");
const { convention, directions, datasetTip, numberTip, seedsTip } = load(
  "convention",
  "directions",
  "datasetTip",
  "numberTip",
  "seedsTip",
);

const data = linked(content());
const column = (id) => data.columns.find((one) => one.id === id);
const run = (method) => data.runs.find((one) => one.method === method && one.seed === 0);

test("a convention has the direction, the unit, the options and the rows", () => {
  const measure = { ideal: "lower", unit: "nats", options: "bins 15", rows: "test rows" };
  assert.equal(convention(measure), "lower is better · in nats · bins 15 · on test rows");
});

test("where nothing is better on the rim, a metric has the direction of the rows outside", () => {
  const test = { on: "test", ideal: "none" };
  const rim = { on: "ood", ideal: "none" };
  const outside = { on: "ood", ideal: "prior" };
  assert.equal(
    directions([test, rim, outside]),
    "Neither direction is better; better is nearer to the largest class prior out of distribution.",
  );
});

test("a data set has only the rows that there are, and classes if it has any", () => {
  const rows = (method) => datasetTip(run(method)).split("\n").slice(1);
  assert.deepEqual(rows("kdf"), [
    "1,000 training, 430 calibration, 100 test rows",
    "2 features, 2 classes, largest prior 0.5",
  ]);
  assert.equal(rows("histogram")[0], "430 calibration, 100 test rows");
  assert.ok(!rows("global_pit")[1].includes("class"));
});

test("a number is beside that of the parent, the shown one first", () => {
  const expected = [
    "error",
    "random_forest → kdf 0.1 ± 0.0125 standard error over 100 rows",
    "parent random_forest 0.3 ± 0.0125 standard error over 100 rows",
    "difference −0.2",
    "lower is better · on test rows",
  ];
  const lines = (...shown) => numberTip(run("kdf"), column("error"), ...shown).split("\n");
  assert.deepEqual(lines(), expected);
  assert.deepEqual(lines("parent").slice(1, 3), expected.slice(1, 3).reverse());
  assert.equal(numberTip(run("kdf"), column("rmse")), "RMSE\nnot measured in this run");
});

test("a mean over seeds has its seeds", () => {
  const rows = rowsOf(data);
  const kdf = rows.find(({ name }) => name === "kdf");
  const repetitions = cellsOf(data, rows).get(kdf).get("spiral");
  const found = averaged(repetitions, kdf, column("error"));
  assert.deepEqual(seedsTip("spiral", kdf, column("error"), found).split("\n"), [
    "error of kdf on spiral",
    "0.1 mean over 2 seeds, standard deviation 0.00",
    "by seed  0: 0.1   1: 0.1",
    "−0.200 against its own parent",
    "lower is better · on test rows",
  ]);
  assert.equal(seedsTip("wine", kdf, column("error"), null), "kdf on wine\nnot measured");
});
