// Words of the search field → what a run must pass.

/** @typedef {(run: Run) => boolean} Test */
/**
 * @typedef {{ columns: Column[], parts: string[], of: Shown }} Searched parts: names of a model's
 *   components
 */

/** @type {(run: Run) => number} */
const secondsOf = (run) =>
  run.seconds.reduce((/** @type {number} */ sum, one) => sum + (one ?? 0), 0);

// A word that cannot be read is listed.
/** @type {(text: string, searched: Searched) => { tests: Test[], unknown: string[] }} */
function parsed(text, searched) {
  /** @type {Test[]} */
  const tests = [];
  const unknown = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const without = word.startsWith("-") && word.length > 1;
    const test = testOf(without ? word.slice(1) : word, searched);
    if (!test) unknown.push(word);
    else tests.push(without ? (run) => !test(run) : test);
  }
  return { tests, unknown };
}
/** @type {(word: string, searched: Searched) => Test | null} */
function testOf(word, searched) {
  const test = comparison(word, searched) ?? named(word, searched);
  if (test || /[<>=]/.test(word)) return test;
  const pattern = wildcards(word, false);
  return (run) => pattern.test(run.searched);
}

/** @type {Record<string, (a: number, b: number) => boolean>} */
const COMPARE = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};
/** @type {(word: string, searched: Searched) => Test | null} */
function comparison(word, { columns, of }) {
  const match = word.match(/^(.+?)(<=|>=|<|>)(-?[\d.]+(?:e[+-]?\d+)?)$/i);
  if (!match) return null;
  const name = match[1].toLowerCase();
  const limit = Number(match[3]);
  const fitting = columns.filter((one) =>
    [one.id, one.metric, one.label, one.short].some((text) => text.toLowerCase() === name),
  );
  const column = fitting.find((one) => one.shown) ?? fitting[0];
  /** @type {Record<string, (run: Run) => number | string>} */
  const ofRun = {
    seed: (run) => run.seed,
    seconds: secondsOf,
    warnings: (run) => run.warnings.length,
  };
  /** @type {((run: Run) => number | string | null) | undefined} */
  const read = column ? (run) => numberOf(run, of, column) : ofRun[name];
  if (!read || Number.isNaN(limit)) return null;
  return (run) => {
    const value = read(run);
    return value !== null && COMPARE[match[2]](Number(value), limit);
  };
}
/** @type {(word: string, searched: Searched) => Test | null} */
function named(word, { parts }) {
  const match = word.match(/^(\w+)=(.+)$/);
  if (!match) return null;
  const name = match[1].toLowerCase();
  /** @type {Record<string, (run: Run) => string | string[]>} */
  const ofRun = {
    dataset: (run) => run.dataset,
    method: (run) => [run.method, run.method.replace(" (paper protocol)", "")],
    seed: (run) => String(run.seed),
    id: (run) => run.id,
    task: (run) => run.setting.task,
    protocol: (run) => run.setting.protocol,
    warning: (run) => run.warnings.map((warning) => String(warning.index)),
  };
  const read = parts.includes(name)
    ? (/** @type {Run} */ run) => run.setting.parts[name]
    : ofRun[name];
  if (!read) return null;
  const patterns = match[2].split(",").map((value) => wildcards(value, true));
  return (run) => [read(run)].flat().some((value) => patterns.some((one) => one.test(value)));
}
/** @type {(text: string, whole: boolean) => RegExp} */
function wildcards(text, whole) {
  const parts = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const source = parts.join("[^ ]*");
  return new RegExp(whole ? `^${source}$` : source, "i");
}
