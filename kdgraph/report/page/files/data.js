// What is in the page, with what shared values stand for put back, and means over seeds.

const DATA = JSON.parse(byId("data").textContent);
const OTHER = { higher: -1, lower: 1 };
const ALPHA = 0.05;

DATA.layoutIndex = DATA.layouts.map((layout) => new Map(layout.map((column, i) => [column, i])));
DATA.columns.forEach((column, index) => Object.assign(column, { index, tests: DATA.statistics[index] }));
DATA.runs.forEach((run, index) => {
  const setting = DATA.settings[run.setting];
  Object.assign(run, {
    index, setting,
    dataset: DATA.datasets[setting.dataset], method: DATA.methods[setting.method], parentName: DATA.parents[setting.parent],
    seed: run.repetition[0], repeated: run.repetition.join("."),
    facts: DATA.facts[run.facts], made: DATA.made[run.made], sets: DATA.sets[run.sets], tables: DATA.tabulated[run.tables],
    numbers: { parent: DATA.numbers[run.parent], calibrated: DATA.numbers[run.calibrated] },
  });
  run.prior = run.facts.prior?.length ? Math.max(...run.facts.prior) : null; // regression has none
  run.searched = `${run.dataset} ${run.method} ${run.id}`.toLowerCase();
});

function measured(run, of, column) {
  const numbers = run.numbers[of], i = DATA.layoutIndex[numbers.layout].get(column.index);
  if (i === undefined) return null;
  return { value: numbers.value[i], stderr: numbers.stderr[i], n: numbers.other_n[i] ?? numbers.n };
}
const valueOf = (run, of, column) => {
  if (of !== "difference") return measured(run, of, column)?.value ?? null;
  const [parent, calibrated] = [valueOf(run, "parent", column), valueOf(run, "calibrated", column)];
  return parent === null || calibrated === null ? null : calibrated - parent;
};

// How far a value is from where it should be: smaller is better; null where neither direction is.
function badness(column, value, prior) {
  if (value === null || column.ideal === "none" || (column.ideal === "prior" && prior === null)) return null;
  return column.ideal === "prior" ? Math.abs(value - prior) : OTHER[column.ideal] * value;
}
// Floating-point noise, as the comparison of methods has it: relative to the numbers, or to 1 where these are shares.
const isTie = (column, a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b), column.scale);
const DIRECTION = {
  lower: "lower is better", higher: "higher is better", none: "neither direction is better",
  prior: "better is nearer to the largest class prior",
};
const direction = (column) => DIRECTION[column.ideal];
const convention = (column) => [direction(column), ...(column.unit ? [`in ${column.unit}`] : []), ...(column.options ? [column.options] : []), `on ${column.rows}`].join(" · ");
const aboutColumn = (column) => `${column.label}\n${column.about}\n${convention(column)}`;

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
function deviation(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}
function median(values) {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// What was fitted on test rows, as its paper does, has a mark wherever it is named.
const AS_IN_PAPER = new Set(DATA.runs.filter((run) => run.setting.protocol === "paper").map((run) => run.method));
const marked = (name) => AS_IN_PAPER.has(name) ? `${name} †` : name;

// The rows of summaries: each parent, then the methods on it. A run in which nothing comes after the parent is its parent.
const ROWS = (() => {
  const rows = [], methods = new Map();
  for (const run of DATA.runs) {
    if (run.setting.is_parent) continue;
    if (!methods.has(run.method)) methods.set(run.method, new Set());
    methods.get(run.method).add(run.parentName);
  }
  const seen = new Set();
  for (const parent of DATA.parents) {
    rows.push({ name: parent, kind: "parent", on: [parent], of: "parent" });
    for (const [name, on] of methods) {
      if (!on.has(parent) || seen.has(name)) continue;
      seen.add(name);
      rows.push({ name, kind: "method", on: [...on], of: "calibrated" });
    }
  }
  return rows;
})();

const bare = (name) => name.replace(/ \(parent\)$/, "");

// Data set → row → repetition → runs: of a parent those of all methods on it, of which some measured what others did not.
const CELLS = (() => {
  const cells = new Map(DATA.datasets.map((name) => [name, new Map(ROWS.map((row) => [row, new Map()]))]));
  const rowOf = new Map(ROWS.map((row) => [`${row.kind} ${row.name}`, row]));
  for (const run of DATA.runs) {
    for (const row of [rowOf.get(`parent ${run.parentName}`), run.setting.is_parent ? null : rowOf.get(`method ${run.method}`)]) {
      if (!row) continue;
      const runs = cells.get(run.dataset).get(row);
      runs.set(run.repeated, [...(runs.get(run.repeated) ?? []), run]);
    }
  }
  return cells;
})();
const runsOf = (dataset, row) => [...CELLS.get(dataset).get(row).values()];

// The task that a reader looks at; all of them at first.
const TASKS = [...new Set(DATA.runs.map((run) => run.setting.task))].sort();
const isOfTask = (run) => !byId("task").value || run.setting.task === byId("task").value;
const datasetsOfTask = () => DATA.datasets.filter((dataset) => DATA.runs.some((run) => run.dataset === dataset && isOfTask(run)));
const rowsOfTask = () => ROWS.filter((row) => DATA.datasets.some((dataset) => runsOf(dataset, row).flat().some(isOfTask)));
const columnsOfTask = () => {
  if (!byId("task").value) return DATA.columns;
  const measuredAt = new Set(DATA.runs.filter(isOfTask).flatMap((run) => [...DATA.layoutIndex[run.numbers.calibrated.layout].keys()]));
  return DATA.columns.filter((column) => measuredAt.has(column.index));
};

const summaries = new Map();
// Mean over seeds of a row on a data set, of its own parent in the same runs, and the mean difference; null where nothing was measured.
function overSeeds(dataset, row, column) {
  const key = `${dataset}\n${row.kind}\n${row.name}\n${column.index}`;
  if (!summaries.has(key)) summaries.set(key, averaged(runsOf(dataset, row), row, column));
  return summaries.get(key);
}
function averaged(repetitions, row, column) {
  const runs = repetitions.map((same) => same.find((run) => valueOf(run, row.of, column) !== null)).filter((run) => run);
  const found = runs.map((run) => ({ run, value: valueOf(run, row.of, column), parent: valueOf(run, "parent", column) }));
  if (!found.length) return null;
  const values = found.map((one) => one.value), both = found.filter((one) => one.parent !== null);
  const prior = found.some((one) => one.run.prior === null) ? null : mean(found.map((one) => one.run.prior));
  const bad = (of) => mean(both.map((one) => badness(column, one[of], one.run.prior)));
  const [before, after] = [bad("parent"), bad("value")];
  const judged = row.kind === "method" && both.length > 0 && column.ideal !== "none";
  return {
    values, prior, mean: mean(values), deviation: deviation(values), repeated: found.map((one) => one.run.repeated),
    difference: both.length ? mean(both.map((one) => one.value - one.parent)) : null,
    gain: !judged ? null : isTie(column, before, after) ? 0 : before - after, // what is closer to the ideal; above 0 is better
  };
}
