// All runs: found by words and by choices, sorted by any column.

const FIRST_ROWS = 500;
/** @type {Grid<Run>} */
const runsGrid = new Grid(byId("runs-table"), (run) => openRun(run), FIRST_ROWS);
const CHOICES = /** @type {const} */ (["of-dataset", "of-method", "of-seed"]);

/** @type {(GridColumn<Run> & { label: string, shown: boolean })[]} */
const OPTIONAL = [
  {
    key: "model",
    name: "Model",
    label: "model",
    shown: false,
    about: "The parent, and what was fitted after it.",
    value: (run) => run.setting.chain,
    text: (run) => breakable(run.setting.chain),
    cls: () => "name",
  },
  {
    key: "id",
    name: "Id",
    label: "id",
    shown: true,
    about: "The name of the run's directory: a hash of all that decides its numbers.",
    value: (run) => run.id,
    cls: () => "mono quiet",
  },
  {
    key: "seconds",
    name: "Seconds",
    label: "seconds",
    shown: false,
    about: "Of all stages, those found in the store counted as when they were made.",
    n: true,
    value: secondsOf,
    text: (run) => secondsOf(run).toFixed(1),
    cls: () => "quiet",
  },
  {
    key: "warnings",
    name: "Warnings",
    label: "warnings",
    shown: true,
    about: "Of any stage.",
    n: true,
    descending: true,
    value: (run) => run.warnings.length,
    text: (run) => run.warnings.length > 0 && String(run.warnings.length),
    cls: () => "quiet",
    tip: (run) => (run.warnings.length ? lines("Warnings", ...warningsInWords(run)) : ""),
  },
];
/** @type {(run: Run) => string[]} */
const warningsInWords = (run) => run.warnings.map(({ stage, message }) => `${stage}: ${message}`);

/** @returns {GridColumn<Run>[]} */
function runColumns() {
  const of = shownNumbers();
  const show = of === "difference" ? signed : three;
  const hasFolds = DATA.runs.some((run) => run.repetition.length > 1);
  return [
    {
      key: "dataset",
      name: "Data set",
      value: (run) => run.dataset,
      text: (run) => breakable(run.dataset),
      tip: datasetTip,
    },
    {
      key: "method",
      name: "Method",
      value: (run) => run.method,
      text: (run) => breakable(marked(run.method)),
      cls: () => "name",
      tip: (run) => lines(run.method, run.setting.chain),
    },
    {
      key: "seed",
      name: "Seed",
      about: hasFolds ? "And the fold, where there is one." : "",
      n: true,
      value: (run) => Number(run.repeated),
      text: (run) => run.repeated,
      cls: () => "quiet",
    },
    ...shownColumns().map((column) => ({
      ...ofMeasure(column),
      key: `column ${column.index}`,
      value: (/** @type {Run} */ run) => numberOf(run, of, column),
      text: (/** @type {Run} */ run) => show(numberOf(run, of, column)),
      cls: (/** @type {Run} */ run) =>
        of === "difference" ? outcomeClass(outcomeOf(run, column)) : "",
      tip: (/** @type {Run} */ run) => numberTip(run, column, of),
    })),
    ...OPTIONAL.filter((column) => column.shown),
  ];
}

const shownNumbers = () => /** @type {Shown} */ (byId("numbers-of").value);

function filtered() {
  const parts = Object.keys(DATA.runs[0].setting.parts);
  const searched = { columns: DATA.columns, parts, of: shownNumbers() };
  const { tests, unknown } = parsed(byId("find").value, searched);
  const chosen = CHOICES.map((id) => byId(id).value);
  /** @type {(run: Run) => boolean} */
  const isChosen = (run) =>
    [run.dataset, run.method, run.repeated].every((value, i) => ["", value].includes(chosen[i]));
  const all = [...tests, isOfTask, isChosen];
  return { runs: DATA.runs.filter((run) => all.every((test) => test(run))), unknown };
}

function renderRuns() {
  const { runs, unknown } = filtered();
  runsGrid.setRows(runs);
  const all = counted(DATA.runs.length, "run");
  const more = runs.length - runsGrid.shown.length;
  byId("more").hidden = more <= 0;
  byId("more").textContent = `Show the other ${count(more)}`;
  const text = joined(
    "; ",
    runs.length === DATA.runs.length ? all : `${count(runs.length)} of ${all}`,
    more > 0 && `the first ${count(runsGrid.shown.length)} are shown`,
    ...unknown.map((word) => `“${word}” is no metric or name here and was left out`),
  );
  byId("shown").textContent = text;
  byId("runs-paper").hidden = !runsGrid.shown.some(isAsInPaper);
  announce(text);
  remember();
}
function renderRunColumns() {
  runsGrid.setColumns(runColumns());
  renderRuns();
}

/** @param {{ dataset?: string, method?: string, find?: string }} chosen */
function showRuns({ dataset = "", method = "", find = "" }) {
  byId("runs-form").reset();
  byId("find").value = find;
  byId("of-dataset").value = dataset;
  byId("of-method").value = method;
  runsGrid.limit = FIRST_ROWS;
  renderRunColumns();
  byId("runs").scrollIntoView();
  runsGrid.active?.focus({ preventScroll: true });
}

function setUpRuns() {
  const repetitions = [...new Set(DATA.runs.map((run) => run.repeated))];
  [DATA.datasets, DATA.methods, repetitions].forEach((values, i) => {
    addOptions(CHOICES[i], [...values].sort(collator.compare), "all");
    byId(CHOICES[i]).addEventListener("change", renderRuns);
  });
  byId("find").addEventListener("input", debounced(renderRuns));
  byId("numbers-of").addEventListener("change", renderRunColumns);
  byId("runs-form").addEventListener("reset", () =>
    setTimeout(() => {
      runsGrid.order = null;
      renderRunColumns();
    }),
  );
  byId("more").addEventListener("click", () => {
    runsGrid.limit = Infinity;
    renderRuns();
  });
  setUpChooser();
}

/** @type {Record<string, string>} */
const ROWS_OF = { test: "Test rows", calibration: "Calibration rows", grid: "Grid" };

function setUpChooser() {
  /** @type {(column: { label: string, shown: boolean }) => HTMLLabelElement} */
  const box = (column) => {
    const onchange = (/** @type {{ target: HTMLInputElement }} */ { target }) => {
      column.shown = target.checked;
      renderMethods();
      renderRunColumns();
    };
    const input = make("input", { type: "checkbox", checked: column.shown, onchange });
    return make("label", {}, input, column.label);
  };
  /** @type {Map<string, { label: string, shown: boolean }[]>} */
  const groups = grouped(DATA.columns, ({ on, ood }) =>
    on === "ood" ? `Out of distribution: ${ood}` : (ROWS_OF[on] ?? on),
  );
  groups.set("The run", OPTIONAL);
  byId("columns").append(
    make("p", { class: "muted" }, "Here and under Methods"),
    ...[...groups].map(([name, columns]) =>
      make("fieldset", {}, make("legend", {}, name), columns.map(box)),
    ),
  );
  const chooser = /** @type {HTMLDetailsElement} */ (byId("columns").parentElement);
  addEventListener("click", (event) => {
    if (!chooser.contains(targetOf(event))) chooser.open = false;
  });
  chooser.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    chooser.open = false;
    chooser.querySelector("summary")?.focus();
  });
}
