import assert from "node:assert/strict";
import { test } from "node:test";

import { content, load } from "./load.js";

const { linked, parsed } = load("linked", "parsed");
const data = linked(content());
const parts = Object.keys(data.runs[0].setting.parts);

function found(text, of = "calibrated") {
  const { tests } = parsed(text, { columns: data.columns, parts, of });
  const runs = data.runs.filter((run) => tests.every((passes) => passes(run)));
  return [...new Set(runs.map((run) => run.method))].sort();
}

test("words are looked for in data set, method and id, whatever their case", () => {
  assert.deepEqual(found("KDF"), ["kdf"]);
  assert.deepEqual(found("spiral -kdf"), ["isotonic (paper protocol)", "tood"]);
  assert.deepEqual(found("sp*al k*f"), ["kdf"]);
  assert.equal(found("").length, 5);
  const { id, method } = data.runs[3];
  assert.deepEqual(found(id.slice(0, 6)), [method]);
});

test("what a pattern means elsewhere is a letter", () => {
  assert.deepEqual(found("k.f"), []);
  assert.deepEqual(found("method=k.f"), []);
});

test("names are compared as a whole, with alternatives", () => {
  assert.deepEqual(found("method=kdf,tood"), ["kdf", "tood"]);
  assert.deepEqual(found("method=isotonic"), ["isotonic (paper protocol)"]);
  assert.deepEqual(found("method=too"), []);
  assert.deepEqual(found("task=regression"), ["global_pit"]);
  assert.deepEqual(found("protocol=paper"), ["isotonic (paper protocol)"]);
  assert.deepEqual(found("detector=tood"), ["tood"]);
  assert.deepEqual(found("seed=7"), []);
});

test("numbers are compared for the model that is shown", () => {
  assert.deepEqual(found("rmse>1e3"), ["global_pit"]);
  assert.deepEqual(found("nll<=0.3"), ["isotonic (paper protocol)", "kdf"]);
  assert.deepEqual(found("error>0.2 method=kdf"), []);
  assert.deepEqual(found("error>0.2 method=kdf", "parent"), ["kdf"]);
  assert.deepEqual(found("error<-0.1 method=kdf", "difference"), ["kdf"]);
  assert.equal(found("seconds>=1.75").length, 5);
  assert.deepEqual(found("seed>1"), []);
});

test("a word that cannot be read is listed and passes every run", () => {
  const searched = { columns: data.columns, parts, of: "calibrated" };
  const { tests, unknown } = parsed("nlll<0.3 colour=red kdf -mode=x", searched);
  assert.deepEqual(unknown, ["nlll<0.3", "colour=red", "-mode=x"]);
  assert.equal(tests.length, 1);
});
