// Methods: medians over data sets of means over seeds, and on how many data sets a method is better
// than its own parent.

/** @type {Grid<Row>} */
const methodsGrid = new Grid(byId("methods-table"), (row) =>
  showRuns({ method: row.kind === "method" ? row.name : "" }),
);

/** @typedef {ReturnType<typeof methodSummary>} MethodSummary */

// Against the own parent: counts and p of the test over data sets; counts alone where nothing is
// tested, as nearness to a prior.
/** @param {Row} row @param {Column} column @param {string[]} datasets */
function methodSummary(row, column, datasets) {
  const means = datasets.map((one) => overSeeds(one, row, column)?.mean).filter(isPresent);
  const against = row.kind === "parent" ? undefined : column.tests?.against[row.name];
  const isCounted = row.kind === "method" && !column.tests;
  const gains = DATA.datasets.map((one) => overSeeds(one, row, column)?.gain ?? null);
  const tally = against ?? tallyOf(isCounted ? gains : []);
  return {
    against,
    tally,
    total: tally.better + tally.same + tally.worse,
    median: means.length ? median(means) : null,
    mean: means.length ? mean(means) : null,
    n: means.length,
    isSure: isPresent(against?.p) && against.p <= 0.05,
    isBest: column.tests?.best.includes(row.name),
  };
}

/** @param {Column} column @param {string[]} datasets */
function methodColumn(column, datasets) {
  const all = new Map(ROWS.map((row) => [row, methodSummary(row, column, datasets)]));
  /** @type {(row: Row) => MethodSummary} */
  const of = (row) => /** @type {MethodSummary} */ (all.get(row));
  return {
    ...ofMeasure(column),
    of,
    key: column.id + column.index,
    value: (/** @type {Row} */ row) => of(row).median,
    text: (/** @type {Row} */ row) => methodCell(of(row)),
    tip: (/** @type {Row} */ row) => methodsTip(row, column, of(row)),
  };
}

/** @type {(found: MethodSummary) => Child} */
function methodCell({ median, isBest, isSure, total, tally: { better, same, worse } }) {
  /** @type {(name: string, n: number) => Child} */
  const part = (name, n) => {
    const piece = make("i", { class: name });
    piece.style.flexGrow = String(n);
    return n > 0 && piece;
  };
  return [
    make("span", { class: isBest && "best" }, three(median)),
    total > 0 && [
      make(
        "span",
        { class: "bar", "aria-hidden": "true" },
        part("better", better),
        part("same", same),
        part("worse", worse),
      ),
      make("span", { class: classes("wtl", isSure && "sure") }, `${better} · ${same} · ${worse}`),
    ],
  ];
}

// Whether the name of a method has every word of its parents' names: a parent's name begins its
// own, and settings follow.
/** @type {(row: Row) => boolean} */
function namesItsParents(row) {
  const words = row.name.split(" ");
  /** @type {(word: string, i: number) => boolean} */
  const isNamed = (word, i) => (i ? words.includes(word) : row.name.startsWith(word));
  return row.kind === "parent" || row.on.every((parent) => bare(parent).split(" ").every(isNamed));
}

/** @type {(values: unknown[]) => boolean} */
const areEqual = (values) => new Set(values).size < 2;

function renderMethods() {
  const datasets = datasetsOfTask();
  const rows = rowsOfTask();
  const shown = shownColumns();
  /** @type {(dataset: string, row: Row) => number} */
  const repetitions = (dataset, row) =>
    runsOf(dataset, row).filter((same) => same.some(isOfTask)).length;
  /** @type {(row: Row) => number} */
  const used = (row) => datasets.filter((dataset) => repetitions(dataset, row)).length;
  /** @type {(row: Row) => number} */
  const runs = (row) => datasets.reduce((sum, dataset) => sum + repetitions(dataset, row), 0);
  const isEven = areEqual(rows.map(used)) && areEqual(rows.map(runs));
  const columns = shown.map((column) => methodColumn(column, datasets));
  const found = columns.map((column) => rows.map(column.of));
  const uneven = found.some((of) => !areEqual(of.map(({ n }) => n).filter(Boolean)));
  const anyTally = found.flat().some(({ total }) => total);

  /** @type {GridColumn<Row>[]} */
  const amounts = [
    countColumn("datasets", "Data sets", "On how many of them there is a run.", used),
    countColumn(
      "runs",
      "Runs",
      "Of the parent, each is counted once for each data set and seed.",
      runs,
    ),
  ].map((column) => ({ ...column, cls: () => "quiet" }));
  /** @type {GridColumn<Row>} */
  const parent = {
    key: "on",
    name: "Parent",
    about: "The model that the method stands on.",
    value: (row) => row.on.join(),
    text: (row) => row.kind === "method" && breakable(row.on.map(bare).join(", ")),
    cls: () => "quiet name",
  };
  const hasParents = DATA.parents.length > 1 && !rows.every(namesItsParents);
  // Numbers first: on a phone nothing else is beside the names. What a name has already is no
  // column.
  methodsGrid.setColumns([
    {
      key: "name",
      name: "Method",
      about: "A parent, or one with what was fitted after it. Enter shows its runs.",
      value: (row) => row.name,
      text: (row) => breakable(marked(row.name)),
      tip: methodTip,
    },
    ...columns,
    ...(isEven ? [] : amounts),
    ...(hasParents ? [parent] : []),
  ]);
  methodsGrid.setRows(rows);

  const all = datasets.length;
  const number = isEven
    ? ` (${all} data sets, ${counted(runs(rows[0]), "run")} of each method)`
    : "";
  const sentences =
    all === 1
      ? [
          "Means over seeds.",
          anyTally &&
            "Beneath: whether the method is better than, the same as, or worse than its own parent.",
        ]
      : [
          `Medians over data sets of means over seeds${number}.`,
          "Beneath: on how many data sets the method is better than, the same as, and worse than" +
            " its own parent.",
          uneven &&
            "Not every method was measured on every data set: medians over different data sets" +
              " cannot be compared.",
        ];
  byId("methods-lead").textContent = joined(" ", ...sentences);
  byId("methods-legend").hidden = !anyTally;
  byId("methods-sure").hidden = !found.flat().some(({ isSure }) => isSure);
  byId("methods-best").hidden = !shown.some((column) => column.tests?.best.length);
  showPaperNote(
    "methods-paper",
    rows.map((row) => row.name),
  );
  const notes = shown.flatMap(({ label, tests }) =>
    tests?.notes.length ? [make("li", {}, `${label}: ${tests.notes.join(" ")}`)] : [],
  );
  byId("methods-notes").replaceChildren(make("summary", {}, "Tests"), make("ul", {}, notes));
  byId("methods-notes").hidden = !notes.length;
}
addEventListener("beforeprint", () => {
  byId("methods-notes").open = true;
});

/** @type {(row: Row) => string} */
function methodTip(row) {
  const runs = DATA.runs.filter((run) => isOfRow(row, run));
  const of = runs.map(({ setting }) =>
    row.kind === "parent" ? setting.parts.parent : setting.chain,
  );
  return lines(row.name, ...new Set(of));
}
