import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./load.js";

const { three, known, threeDigits, sixDigits, significant, signed } = load(
  "three",
  "known",
  "threeDigits",
  "sixDigits",
  "significant",
  "signed",
);
const { count, counted, shortP, firstOf, breaks, csv, yaml } = load(
  "count",
  "counted",
  "shortP",
  "firstOf",
  "breaks",
  "csv",
  "yaml",
);

test("three decimals show a number, or else three significant digits", () => {
  const texts = {
    0: "0.000",
    0.12345: "0.123",
    "-1.5": "−1.500",
    9999.9994: "9999.999",
    12345.6: "12,346",
    0.0012345: "0.00123",
    0.00999: "0.00999",
    0.0000123: "1.23e−5",
    1e15: "1.00e+15",
  };
  for (const [value, text] of Object.entries(texts)) assert.equal(three(Number(value)), text);
});

test("a missing number is a dash in every format", () => {
  for (const format of [three, known, threeDigits, sixDigits, signed])
    assert.equal(format(null), "–");
});

test("digits are rounded and lose trailing zeros", () => {
  assert.equal(sixDigits(0.1 + 0.2), "0.3");
  assert.equal(sixDigits(-1234567), "−1234570");
  assert.equal(significant(3)(0.99999), "1");
  assert.equal(threeDigits(0.5), "0.500");
  assert.equal(known(-0.125), "−0.125");
});

test("a positive difference has a plus, zero has no sign", () => {
  assert.deepEqual(
    [0.5, -0.5, 0].map((value) => signed(value)),
    ["+0.500", "−0.500", "0.000"],
  );
  assert.equal(signed(0.25, known), "+0.25");
});

test("nouns follow their number", () => {
  assert.equal(counted(1, "run"), "1 run");
  assert.equal(counted(0, "run"), "0 runs");
  assert.equal(counted(1234, "class", "classes"), "1,234 classes");
  assert.equal(count(1000000), "1,000,000");
  assert.deepEqual([0.0004, 0.04].map(shortP), ["p < 0.001", "p = 0.040"]);
});

test("a long list ends with dots", () => {
  assert.equal(firstOf([1, 2, 3], 3, ", ", " "), "1, 2, 3");
  assert.equal(firstOf([1, 2, 3], 2, ", ", " "), "1, 2 …");
});

test("names break after signs and never within a number", () => {
  assert.deepEqual(breaks("shifted_by=1.5/a.csv-x"), [
    "shifted_",
    "by=",
    "1.5/",
    "a.",
    "csv-",
    "x",
  ]);
});

test("a cell of a CSV file is quoted where it has to be", () => {
  assert.equal(
    csv([
      ["a", 'say "b"'],
      ["1,5", "x\ny"],
    ]),
    'a,"say ""b"""\n"1,5","x\ny"\n',
  );
});

test("configs are YAML, in which text stays text", () => {
  const config = {
    seed: 0,
    model: { name: "kdf", sizes: [1, 2.5], options: {}, none: null },
    text: { yes: "yes", number: "1", path: "a/b.csv", words: "two words", empty: "" },
    pairs: [{ a: true }],
  };
  const expected = [
    "seed: 0",
    "model:",
    "  name: kdf",
    "  sizes: [1, 2.5]",
    "  options: {}",
    "  none: null",
    "text:",
    '  yes: "yes"',
    '  number: "1"',
    "  path: a/b.csv",
    '  words: "two words"',
    '  empty: ""',
    "pairs: [{a: true}]",
  ];
  assert.deepEqual(yaml(config).split("\n"), expected);
});
