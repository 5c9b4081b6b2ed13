// Puts the page together, and keeps in the address what a reader has chosen, so that a view can be
// passed on.

/** @param {Record<string, string>} [more] */
function remember(more) {
  const sorted = runsGrid.order;
  const metric = byId("metric");
  const chosen = {
    find: byId("find").value,
    dataset: byId("of-dataset").value,
    method: byId("of-method").value,
    seed: byId("of-seed").value,
    task: byId("task").value,
    sort: sorted ? `${sorted.descending ? "-" : ""}${sorted.key}` : "",
    metric: metric.value === metric.dataset.first ? "" : (chosenMetric()?.id ?? ""),
    ...more,
  };
  const state = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
  const text = String(state) ? `#${state}` : location.pathname + location.search;
  try {
    history.replaceState(null, "", text);
  } catch {
    // Some viewers of local files allow no history.
  }
}

// Returns the run that the address opens.
/** @returns {Run | undefined} */
function recall() {
  if (!location.hash.includes("=")) return undefined;
  const state = new URLSearchParams(location.hash.slice(1));
  /** @type {(key: string) => string} */
  const read = (key) => state.get(key) ?? "";
  byId("find").value = read("find");
  byId("of-dataset").value = read("dataset");
  byId("of-method").value = read("method");
  byId("of-seed").value = read("seed");
  byId("task").value = TASKS.includes(read("task")) ? read("task") : "";
  const sort = read("sort");
  if (sort) runsGrid.order = { key: sort.replace(/^-/, ""), descending: sort.startsWith("-") };
  const column = DATA.columns.find((one) => one.id === state.get("metric"));
  if (column) byId("metric").value = String(column.index);
  return DATA.runs.find((run) => run.path === state.get("run"));
}

function renderSummary() {
  const seeds = new Set(DATA.runs.map((run) => run.repeated));
  const methods = ROWS.filter((row) => row.kind === "method");
  byId("summary").textContent = [
    counted(DATA.runs.length, "run"),
    counted(DATA.datasets.length, "data set"),
    `${counted(methods.length, "method")} on ${counted(DATA.parents.length, "parent")}`,
    counted(seeds.size, "seed"),
  ].join(" · ");
}

// A section with its number of entries in the navigation.
/**
 * @type {<T>(id: "warnings" | "unfinished", empty: string, rows: T[], columns: GridColumn<T>[],
 *   open?: (row: T) => void) => void}
 */
function renderList(id, empty, rows, columns, open) {
  const list = byId(`${id}-list`);
  if (!rows.length) {
    list.append(make("p", { class: "muted" }, empty));
    return;
  }
  byId(`n-${id}`).textContent = count(rows.length);
  const cls = classes("dense", open && "clickable");
  const grid = new Grid(make("table", { class: cls, "aria-labelledby": `${id}-title` }), open);
  grid.setColumns(columns);
  grid.setRows(rows);
  list.append(make("div", { class: "scroll tall" }, grid.table));
}

function renderWarnings() {
  const runs = DATA.runs.flatMap((run) => run.warnings.map((warning) => ({ run, warning })));
  const of = grouped(runs, ({ warning }) => warning);
  renderList(
    "warnings",
    "No run warned of anything.",
    DATA.warnings.map((warning) => ({ ...warning, n: of.get(warning)?.length ?? 0 })),
    [
      {
        key: "message",
        name: "Message",
        about: "Enter shows its runs.",
        value: (line) => line.message,
        cls: () => "wrap",
      },
      {
        key: "stage",
        name: "Stage",
        about: "Of the run.",
        value: (line) => line.stage,
        cls: () => "quiet",
      },
      {
        ...countColumn(
          "runs",
          "Runs",
          "With this warning; runs share stages, and so their warnings.",
          (line) => line.n,
        ),
        descending: true,
      },
    ],
    (line) => showRuns({ find: `warning=${line.index}` }),
  );
}

function renderUnfinished() {
  renderList("unfinished", "None: every run that was started has a result.", DATA.unfinished, [
    { key: "path", name: "Directory", about: "Of the run.", value: (one) => one.path },
    {
      key: "state",
      name: "State",
      about: "failed: its error.txt has the traceback, and it is tried again next time.",
      value: (one) => one.state,
      cls: (one) => (one.state === "failed" ? "worse" : "quiet"),
    },
    { key: "reason", name: "Why", value: (one) => one.reason, cls: () => "wrap" },
  ]);
}

function renderGlossary() {
  byId("remarks").append(...DATA.remarks.map((remark) => make("li", {}, remark)));
  const metrics = grouped(DATA.columns, (column) => column.metric);
  const entries = [...metrics].flatMap(([metric, columns]) => {
    const { on, short, about } = columns[0];
    const name = on === "ood" && metric === "mmc" ? "confidence" : short;
    const text = about || "Not a metric of this version of kdgraph.";
    return [
      make("dt", {}, name, " ", make("code", { class: "muted" }, metric)),
      make("dd", {}, `${text} ${directions(columns)}`),
    ];
  });
  byId("glossary").append(...entries);
}

/** @type {(columns: Column[]) => Column | undefined} */
const firstMetric = (columns) => columns.find((column) => column.metric === "nll") ?? columns[0];

function setUpMetric() {
  const select = byId("metric");
  const [shown, rest] = [true, false].map((is) => DATA.columns.filter((one) => one.shown === is));
  /** @type {(columns: Column[]) => HTMLOptionElement[]} */
  const options = (columns) =>
    columns.map((column) => make("option", { value: column.index }, column.label));
  select.append(...options(shown));
  if (rest.length) select.append(make("optgroup", { label: "more" }, options(rest)));
  const first = firstMetric(shown) ?? rest[0];
  if (first) {
    select.dataset.first = String(first.index);
    select.value = select.dataset.first;
  }
  select.addEventListener("change", () => {
    renderDatasets();
    remember();
  });
  byId("numbers-by-dataset").addEventListener("change", renderDatasets);
  addEventListener("resize", debounced(renderPictures));
}

function setUpTask() {
  addOptions("task", TASKS, "all");
  byId("task-form").hidden = TASKS.length < 2;
  byId("task").addEventListener("change", () => {
    renderTask();
    renderRuns();
  });
}

// All but the runs, which the address may choose too.
function renderTask() {
  const select = byId("metric");
  const present = new Set(columnsOfTask());
  const options = [...select.querySelectorAll("option")].map((option) => {
    const column = DATA.columns[Number(option.value)];
    option.disabled = !present.has(column);
    option.hidden = option.disabled;
    return { option, column };
  });
  if (select.selectedOptions[0]?.disabled) {
    const enabled = options.filter(({ option }) => !option.disabled);
    const first = firstMetric(enabled.map(({ column }) => column));
    if (first) select.value = String(first.index);
  }
  renderMethods();
  renderDatasets();
  runsGrid.setColumns(runColumns());
}

for (const form of document.forms)
  form.addEventListener("submit", (event) => {
    event.preventDefault();
  });
setUpTask();
setUpMetric();
setUpRuns();
const wanted = recall();
renderSummary();
renderTask();
renderRuns();
renderWarnings();
renderUnfinished();
renderGlossary();
if (wanted) openRun(wanted);
document.documentElement.dataset.ready = "";
