// The runs of this page, the rows of its summaries, and the task that a reader looks at.

const DATA = linked(jsonOf("data"));
const ROWS = rowsOf(DATA);
const CELLS = cellsOf(DATA, ROWS);
/** @type {(dataset: string, row: Row) => Run[][]} */
const runsOf = (dataset, row) => CELLS.get(row)?.get(dataset) ?? [];

/** @type {Map<string, Summary | null>} */
const summaries = new Map();
/** @type {(dataset: string, row: Row, column: Column) => Summary | null} */
function overSeeds(dataset, row, column) {
  const key = lines(dataset, row.kind, row.name, String(column.index));
  let summary = summaries.get(key);
  if (summary === undefined) {
    summary = averaged(runsOf(dataset, row), row, column);
    summaries.set(key, summary);
  }
  return summary;
}

// What was fitted on test rows, as its paper does, has a mark wherever it is named.
/** @type {(run: Run) => boolean} */
const isAsInPaper = (run) => run.setting.protocol === "paper";
const AS_IN_PAPER = new Set(DATA.runs.filter(isAsInPaper).map((run) => run.method));
/** @type {(name: string) => string} */
const marked = (name) => (AS_IN_PAPER.has(name) ? `${name} †` : name);

// All tasks at first.
const TASKS = [...new Set(DATA.runs.map((run) => run.setting.task))].sort();
/** @type {(run: Run) => boolean} */
const isOfTask = (run) => ["", run.setting.task].includes(byId("task").value);
const datasetsOfTask = () => {
  const present = new Set(DATA.runs.filter(isOfTask).map((run) => run.dataset));
  return DATA.datasets.filter((dataset) => present.has(dataset));
};
const rowsOfTask = () =>
  ROWS.filter((row) => DATA.runs.some((run) => isOfRow(row, run) && isOfTask(run)));
const columnsOfTask = () => {
  if (!byId("task").value) return DATA.columns;
  const present = new Set(
    DATA.runs.filter(isOfTask).flatMap((run) => [...run.numbers.calibrated.at.keys()]),
  );
  return DATA.columns.filter((column) => present.has(column.index));
};
const shownColumns = () => columnsOfTask().filter((column) => column.shown);
/** @type {(id: "methods-paper" | "datasets-paper" | "runs-paper", methods: string[]) => void} */
const showPaperNote = (id, methods) => {
  byId(id).hidden = !methods.some((name) => AS_IN_PAPER.has(name));
};
const paperNote = () => byId("runs-paper").textContent ?? "";
