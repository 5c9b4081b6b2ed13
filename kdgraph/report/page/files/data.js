// What is in the page, with what shared values stand for put back, and means over seeds.

// What content.py writes. Runs and settings contain the positions of values in the lists of
// Content.
/** @typedef {"parent" | "calibrated"} Model */
/** @typedef {Model | "difference"} Shown */
/** @typedef {{ better: number, same: number, worse: number }} Tally */
/** @typedef {Tally & { p: number | null, change: number | null, baseline: string }} Against */
/**
 * Tests of a measure over data sets.
 * @typedef {object} Tests
 * @property {Record<string, Against>} against the own parent, by method
 * @property {string[]} best
 * @property {Record<string, string[]>} best_by_dataset
 * @property {Record<string, number> | null} ranks
 * @property {string[][] | null} groups of methods without a significant difference
 * @property {number | null} critical_difference
 * @property {number | null} n data sets
 * @property {string[]} notes
 */
/**
 * @typedef {object} StoredColumn
 * @property {string} id
 * @property {string} label
 * @property {string} short
 * @property {string} detail what the label adds to `short`
 * @property {string} metric
 * @property {string} on
 * @property {string | null} ood
 * @property {Record<string, number>} params of the OOD set
 * @property {string} rows
 * @property {string} options
 * @property {string} of what the values are means over
 * @property {"lower" | "higher" | "prior" | "none"} ideal
 * @property {string | null} unit
 * @property {number} scale of ties
 * @property {string} about
 * @property {boolean} shown
 */
/**
 * @typedef {object} StoredSetting
 * @property {number} dataset
 * @property {number} method
 * @property {number} parent
 * @property {boolean} is_parent nothing comes after the parent
 * @property {Record<string, string>} parts
 * @property {string} chain
 * @property {string[]} after
 * @property {string} protocol
 * @property {string} task
 * @property {Record<string, number>} nodes
 */
/**
 * @typedef {object} StoredNumbers
 * @property {number} layout
 * @property {(number | null)[]} value
 * @property {(number | null)[]} stderr
 * @property {number | null} n
 * @property {Record<string, number>} other_n
 */
/**
 * @typedef {object} StoredRun
 * @property {string} id
 * @property {string} path
 * @property {(number | string)[]} repetition
 * @property {number} setting
 * @property {number} parent
 * @property {number} calibrated
 * @property {string | null} fingerprint
 * @property {number} facts
 * @property {number} made
 * @property {string | null} experiment
 * @property {number[]} warnings
 * @property {number} stages
 * @property {(number | null)[]} seconds
 * @property {number[]} memory
 * @property {string[]} stored stages whose results were in the store
 * @property {number} figures
 * @property {number} tables
 * @property {object} learnt
 * @property {number} sets
 * @property {number} command
 * @property {number} [sweep]
 */
/**
 * @typedef {object} Facts
 * @property {string} name
 * @property {number | null} n_train
 * @property {number | null} n_calibration
 * @property {number} n_test
 * @property {number | null} n_features
 * @property {number | null} n_categorical
 * @property {number | null} missing_fraction
 * @property {number[]} shape
 * @property {(string | number | boolean)[]} classes
 * @property {number[] | null} prior
 * @property {Record<string, unknown>} source
 */
/**
 * @typedef {object} Made
 * @property {Record<string, string>} versions
 * @property {{ commit: string | null, dirty: boolean | null } | null} git
 * @property {{ name: string, system: string, cpus: number | null } | null} host
 */
/**
 * @typedef {{ path: string, state: "failed" | "running" | "cut off", reason: string }} Unfinished
 */
/**
 * @typedef {object} Content
 * @property {StoredColumn[]} columns
 * @property {(Tests | null)[]} statistics of each column
 * @property {string[]} remarks
 * @property {Unfinished[]} unfinished
 * @property {StoredRun[]} runs
 * @property {string[]} datasets
 * @property {string[]} methods
 * @property {string[]} parents
 * @property {StoredSetting[]} settings
 * @property {unknown[]} nodes
 * @property {number[][]} layouts
 * @property {StoredNumbers[]} numbers
 * @property {Facts[]} facts
 * @property {string[][]} stages
 * @property {{ name: string, n: number }[][]} sets
 * @property {Made[]} made
 * @property {{ stage: string, message: string }[]} warnings
 * @property {string[]} commands
 * @property {string[][]} figures
 * @property {Record<string, string>[]} tabulated
 */
/** @typedef {{ name: string, type: string, content: string }} Figure */
/**
 * @typedef {{ name: string, label: string, file: string, columns: string[], rows: string[][], n:
 *   number }} Table
 */

/** @typedef {ReturnType<typeof linked>} Data */
/** @typedef {Data["runs"][number]} Run */
/** @typedef {Data["columns"][number]} Column */

/** @param {Content} content */
function linked(content) {
  const positions = content.layouts.map(
    (layout) => new Map(layout.map((column, i) => [column, i])),
  );
  const numbers = content.numbers.map((one) => ({ ...one, at: positions[one.layout] }));
  const warnings = content.warnings.map((warning, index) => ({ ...warning, index }));
  const columns = content.columns.map((column, index) => ({
    ...column,
    index,
    tests: content.statistics[index],
  }));
  const runs = content.runs.map((run, index) => {
    const setting = content.settings[run.setting];
    const facts = content.facts[run.facts];
    const dataset = content.datasets[setting.dataset];
    const method = content.methods[setting.method];
    const nodes = Object.entries(setting.nodes).map(([name, i]) => [name, content.nodes[i]]);
    return {
      ...run,
      ...{ index, setting, facts, dataset, method },
      parentName: content.parents[setting.parent],
      seed: run.repetition[0],
      repeated: run.repetition.join("."),
      numbers: { parent: numbers[run.parent], calibrated: numbers[run.calibrated] },
      prior: facts.prior?.length ? Math.max(...facts.prior) : null, // regression has none
      searched: `${dataset} ${method} ${run.id}`.toLowerCase(),
      config: () => ({ ...Object.fromEntries(nodes), seed: run.repetition[0] }),
      warnings: run.warnings.map((i) => warnings[i]),
      made: content.made[run.made],
      sets: content.sets[run.sets],
      stages: content.stages[run.stages],
      figures: content.figures[run.figures],
      tables: content.tabulated[run.tables],
      command: content.commands[run.command],
      sweep: run.sweep === undefined ? null : content.commands[run.sweep],
    };
  });
  const { datasets, methods, parents, remarks, unfinished } = content;
  return { columns, runs, warnings, datasets, methods, parents, remarks, unfinished };
}

/** @type {<T, K>(items: Iterable<T>, keyOf: (item: T) => K) => Map<K, T[]>} */
function grouped(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(item);
  }
  return groups;
}
/** @type {<K, V, W>(map: Map<K, V>, change: (value: V) => W) => Map<K, W>} */
const mapValues = (map, change) => new Map(Array.from(map, ([key, one]) => [key, change(one)]));
/** @type {<T>(value: T) => value is NonNullable<T>} */
const isPresent = (value) => value !== null && value !== undefined;

/** @param {Run} run @param {Model} of @param {Column} column */
function measured(run, of, column) {
  const numbers = run.numbers[of];
  const i = numbers.at.get(column.index);
  if (i === undefined) return null;
  const n = /** @type {number} */ (numbers.other_n[i] ?? numbers.n);
  return { value: numbers.value[i], stderr: numbers.stderr[i], n };
}
/** @type {(run: Run, of: Shown, column: Column) => number | null} */
function numberOf(run, of, column) {
  if (of !== "difference") return measured(run, of, column)?.value ?? null;
  const parent = numberOf(run, "parent", column);
  const calibrated = numberOf(run, "calibrated", column);
  return parent === null || calibrated === null ? null : calibrated - parent;
}

// How far a value is from where it should be: smaller is better; null where neither direction is.
/** @type {(column: Column, value: number | null, prior: number | null) => number | null} */
function badness({ ideal }, value, prior) {
  if (value === null || ideal === "none") return null;
  if (ideal === "prior") return prior === null ? null : Math.abs(value - prior);
  return ideal === "higher" ? -value : value;
}
// Floating-point noise, as the comparison of methods has it: relative to the numbers, or to 1 where
// these are shares.
/** @type {(column: Column, a: number, b: number) => boolean} */
const isTie = (column, a, b) =>
  Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b), column.scale);
// By how much a value is nearer to the ideal than another; 0 for a tie.
/** @type {(column: Column, before: number | null, after: number | null) => number | null} */
function gainOf(column, before, after) {
  if (before === null || after === null) return null;
  return isTie(column, before, after) ? 0 : before - after;
}
/** @type {(gain: number | null) => keyof Tally} */
const outcome = (gain) => (!gain ? "same" : gain > 0 ? "better" : "worse");
/** @type {(run: Run, column: Column) => keyof Tally} */
function outcomeOf(run, column) {
  /** @type {(of: Model) => number | null} */
  const bad = (of) => badness(column, numberOf(run, of, column), run.prior);
  return outcome(gainOf(column, bad("parent"), bad("calibrated")));
}

/** @type {(values: number[]) => number} */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
/** @type {(values: number[]) => number | null} */
function deviation(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1));
}
/** @type {(values: number[]) => number} */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
/** @type {(gains: (number | null)[]) => Tally} */
function tallyOf(gains) {
  const tally = { better: 0, same: 0, worse: 0 };
  for (const gain of gains.filter(isPresent)) tally[outcome(gain)] += 1;
  return tally;
}

/**
 * @typedef {{ name: string, kind: "parent" | "method", on: string[], of: Model, cls: string | null
 *   }} Row
 */

/** @type {(row: Row, run: Run) => boolean} */
const isOfRow = (row, run) =>
  row.kind === "parent"
    ? run.parentName === row.name
    : run.method === row.name && !run.setting.is_parent;

// The rows of summaries: each parent, then the methods on it. A run in which nothing comes after
// the parent is its parent.
/** @type {(data: Data) => Row[]} */
function rowsOf({ runs, parents }) {
  const after = grouped(
    runs.filter((run) => !run.setting.is_parent),
    (run) => run.method,
  );
  /** @type {Row[]} */
  const methods = [...after].map(([name, of]) => {
    const on = [...new Set(of.map((run) => run.parentName))];
    return { name, kind: "method", on, of: "calibrated", cls: null };
  });
  const seen = new Set();
  return parents.flatMap((parent) => {
    const next = methods.filter((row) => row.on.includes(parent) && !seen.has(row));
    for (const row of next) seen.add(row);
    /** @type {Row} */
    const own = { name: parent, kind: "parent", on: [parent], of: "parent", cls: "is-parent" };
    return [own, ...next];
  });
}

// Row → data set → runs of each repetition: of a parent those of all methods on it, of which some
// measured what others did not.
/** @type {(data: Data, rows: Row[]) => Map<Row, Map<string, Run[][]>>} */
function cellsOf({ runs }, rows) {
  /** @type {(row: Row) => Map<string, Run[][]>} */
  const byDataset = (row) => {
    const of = runs.filter((run) => isOfRow(row, run));
    return mapValues(
      grouped(of, (run) => run.dataset),
      (same) => [...grouped(same, (run) => run.repeated).values()],
    );
  };
  return new Map(rows.map((row) => [row, byDataset(row)]));
}

/** @typedef {NonNullable<ReturnType<typeof averaged>>} Summary */

// Mean over seeds of a row on a data set, of its own parent in the same runs, and the mean
// difference; null where nothing was measured.
/** @param {Run[][]} repetitions @param {Row} row @param {Column} column */
function averaged(repetitions, row, column) {
  const found = repetitions.flatMap((same) => {
    const run = same.find((one) => numberOf(one, row.of, column) !== null);
    if (!run) return [];
    const value = /** @type {number} */ (numberOf(run, row.of, column));
    return [{ run, value, parent: numberOf(run, "parent", column) }];
  });
  if (!found.length) return null;
  const values = found.map((one) => one.value);
  const priors = found.map((one) => one.run.prior).filter(isPresent);
  const both = found.flatMap(({ parent, ...one }) => (parent === null ? [] : [{ ...one, parent }]));
  /** @type {(of: "parent" | "value") => number | null} */
  const bad = (of) => {
    const each = both.map((one) => badness(column, one[of], one.run.prior)).filter(isPresent);
    return each.length ? mean(each) : null;
  };
  return {
    values,
    prior: priors.length === found.length ? mean(priors) : null,
    mean: mean(values),
    deviation: deviation(values),
    repeated: found.map((one) => one.run.repeated),
    difference: both.length ? mean(both.map((one) => one.value - one.parent)) : null,
    gain: row.kind === "method" ? gainOf(column, bad("parent"), bad("value")) : null,
  };
}
