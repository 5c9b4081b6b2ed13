// Methods: medians over data sets of means over seeds, and on how many data sets a method is better than its own parent.

const methodsGrid = new Grid(byId("methods-table"), { open: (row) => showRuns({ method: row.kind === "method" ? row.name : "" }) });

const measuredOn = (row, column) => datasetsOfTask().filter((dataset) => overSeeds(dataset, row, column)).length;

// Against the own parent: counts and p of the test over data sets; counts alone where nothing is tested, as nearness to a prior.
function tally(row, column) {
  if (column.tests) return column.tests.against[row.name] ?? { better: 0, same: 0, worse: 0 };
  const gains = DATA.datasets.map((dataset) => overSeeds(dataset, row, column)?.gain ?? null).filter((gain) => gain !== null);
  return { better: gains.filter((gain) => gain > 0).length, same: gains.filter((gain) => gain === 0).length, worse: gains.filter((gain) => gain < 0).length };
}
const isSure = (found) => found.p != null && found.p <= ALPHA;
const shortP = (p) => p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`;

function methodColumn(column) {
  const summary = new Map(), datasets = datasetsOfTask();
  for (const row of ROWS) {
    const means = datasets.map((dataset) => overSeeds(dataset, row, column)?.mean ?? null).filter((value) => value !== null);
    const found = row.kind === "parent" ? { better: 0, same: 0, worse: 0 } : tally(row, column);
    summary.set(row, { ...found, median: means.length ? median(means) : null, mean: means.length ? mean(means) : null, n: means.length, total: found.better + found.same + found.worse });
  }
  return {
    summary, key: column.id + column.index, name: column.short, detail: column.detail, about: aboutColumn(column), n: true,
    first: column.ideal === "higher" ? "descending" : "ascending",
    value: (row) => summary.get(row).median,
    text: (row) => {
      const found = summary.get(row), isBest = column.tests?.best.includes(row.name);
      return [make("span", { class: isBest ? "best" : null }, three(found.median)),
        ...(found.total ? [wins(found), make("span", { class: `wtl${isSure(found) ? " sure" : ""}` }, `${found.better} · ${found.same} · ${found.worse}`)] : [])];
    },
    tip: (row) => methodsTip(row, column, summary.get(row)),
  };
}

function methodsTip(row, column, found) {
  if (!found.n) return `${column.label}\nnot measured`;
  const { ranks, n } = column.tests ?? {};
  const test = found.p == null || column.tests.few ? "" : `, ${shortP(found.p)} (Wilcoxon over data sets, Holm)`;
  return [`${column.label}, ${row.name}`,
    `${sixDigits(found.median)} median, ${sixDigits(found.mean)} mean over ${counted(found.n, "data set")} of means over seeds`,
    ...(found.total ? [`against ${found.baseline ?? "its own parent"}: better on ${found.better}, the same on ${found.same}, worse on ${found.worse} of ${counted(found.total, "data set")}${test}`] : []),
    ...(found.change != null ? [`median change ${found.change > 0 ? "+" : ""}${known(found.change)}`] : []),
    ...(ranks?.[row.name] != null ? [`mean rank ${ranks[row.name].toFixed(2)} of ${Object.keys(ranks).length} over ${counted(n, "data set")}${column.tests.best.includes(row.name) ? ", no significant difference to the best" : ""}`] : []),
    convention(column)].join("\n");
}

function wins({ better, same, worse }) {
  const part = (name, n) => { const piece = make("i", { class: name }); piece.style.flexGrow = n; return n ? piece : null; };
  return make("span", { class: "bar", "aria-hidden": "true" }, part("better", better), part("same", same), part("worse", worse));
}

// Whether the name of a method has every word of its parents' names: a parent's name begins its own, and settings follow.
function namesItsParents(row) {
  const words = row.name.split(" ");
  return row.kind === "parent" || row.on.every((parent) => bare(parent).split(" ").every((word, i) => i ? words.includes(word) : row.name.startsWith(word)));
}

function renderMethods() {
  const shown = columnsOfTask().filter((column) => column.shown), rows = rowsOfTask(), datasets = datasetsOfTask();
  const repetitions = (dataset, row) => runsOf(dataset, row).filter((same) => same.some(isOfTask)).length;
  const used = (row) => datasets.filter((dataset) => repetitions(dataset, row)).length;
  const runs = (row) => datasets.reduce((sum, dataset) => sum + repetitions(dataset, row), 0);
  ROWS.forEach((row) => { row.cls = row.kind === "parent" ? "is-parent" : null; });
  const even = (values) => new Set(values).size < 2;
  const isEven = even(rows.map(used)) && even(rows.map(runs));
  const columns = shown.map(methodColumn), summaries = columns.flatMap((column) => rows.map((row) => column.summary.get(row)));
  // Numbers first: on a phone nothing else is beside the names. What a name has already is no column.
  methodsGrid.setColumns([
    { key: "name", name: "Method", about: "Method\nA parent, or one with what was fitted after it. Enter shows its runs.", value: (row) => row.name, text: (row) => breakable(marked(row.name)), tip: methodTip },
    ...columns,
    ...(isEven ? [] : [
      { key: "datasets", name: "Data sets", about: "Data sets\nOn how many of them there is a run.", n: true, value: used, text: (row) => count(used(row)), cls: () => "quiet" },
      { key: "runs", name: "Runs", about: "Runs\nOf the parent, each is counted once for each data set and seed.", n: true, value: runs, text: (row) => count(runs(row)), cls: () => "quiet" },
    ]),
    ...(DATA.parents.length > 1 && rows.some((row) => !namesItsParents(row)) ? [{ key: "on", name: "Parent", about: "Parent\nThe model that the method stands on.", value: (row) => row.on.join(), text: (row) => row.kind === "parent" ? "" : breakable(row.on.map(bare).join(", ")), cls: () => "quiet name" }] : []),
  ]);
  methodsGrid.setRows(rows);
  const all = datasets.length, uneven = shown.some((column) => new Set(rows.map((row) => measuredOn(row, column)).filter(Boolean)).size > 1);
  const anyTally = summaries.some((found) => found.total);
  byId("methods-lead").textContent = all === 1 ? `Means over seeds.${anyTally ? " Beneath: whether the method is better than, the same as, or worse than its own parent." : ""}` : `Medians over data sets of means over seeds${isEven ? ` (${all} data sets, ${counted(runs(rows[0]), "run")} of each method)` : ""}. Beneath: on how many data sets the method is better than, the same as, and worse than its own parent.${uneven ? " Not every method was measured on every data set: medians over different data sets cannot be compared." : ""}`;
  byId("methods-legend").hidden = !anyTally;
  byId("methods-sure").hidden = !summaries.some(isSure);
  byId("methods-best").hidden = !shown.some((column) => column.tests?.best.length);
  byId("methods-paper").hidden = !rows.some((row) => AS_IN_PAPER.has(row.name));
  const notes = shown.filter((column) => column.tests?.notes.length).map((column) => `${column.label}: ${column.tests.notes.join(" ")}`);
  byId("methods-notes").replaceChildren(...(notes.length ? [make("summary", {}, "Tests"), make("ul", {}, ...notes.map((note) => make("li", {}, note)))] : []));
  byId("methods-notes").hidden = !notes.length;
  addEventListener("beforeprint", () => { byId("methods-notes").open = true; });
}

function methodTip(row) {
  const parts = new Set(DATA.runs.filter((run) => row.kind === "method" ? run.method === row.name : run.parentName === row.name).map((run) => chain(run, row.kind === "parent")));
  return [row.name, ...parts].join("\n");
}
const chain = (run, parentOnly = false) => parentOnly ? run.setting.parts.parent : run.setting.chain;
