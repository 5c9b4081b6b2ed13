// Puts the page together, and keeps in the address what a reader has chosen, so that a view can be passed on.

function remember(more = {}) {
  const sorted = runsGrid.order, state = new URLSearchParams();
  const chosen = { find: byId("find").value, dataset: byId("of-dataset").value, method: byId("of-method").value, seed: byId("of-seed").value, task: byId("task").value,
    sort: sorted ? `${sorted.descending ? "-" : ""}${sorted.key}` : "", metric: byId("metric").value === byId("metric").dataset.first ? "" : chosenMetric()?.id ?? "", ...more };
  Object.entries(chosen).forEach(([key, value]) => { if (value) state.set(key, value); });
  const text = state.toString();
  try { history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search); } catch { /* some viewers of local files allow no history */ }
}

function recall() {
  if (!location.hash.includes("=")) return;
  const state = new URLSearchParams(location.hash.slice(1));
  byId("find").value = state.get("find") ?? "";
  for (const name of ["dataset", "method", "seed"]) byId(`of-${name}`).value = state.get(name) ?? "";
  byId("task").value = TASKS.includes(state.get("task")) ? state.get("task") : "";
  const sort = state.get("sort");
  if (sort) runsGrid.order = { key: sort.replace(/^-/, ""), descending: sort.startsWith("-") };
  const column = DATA.columns.find((one) => one.id === state.get("metric"));
  if (column) byId("metric").value = column.index;
  return DATA.runs.find((run) => run.path === state.get("run"));
}

function renderSummary() {
  const seeds = new Set(DATA.runs.map((run) => run.repeated)), methods = ROWS.filter((row) => row.kind === "method").length;
  byId("summary").textContent = [counted(DATA.runs.length, "run"), counted(DATA.datasets.length, "data set"), `${counted(methods, "method")} on ${counted(DATA.parents.length, "parent")}`, counted(seeds.size, "seed")].join(" · ");
}

function renderWarnings() {
  const runsBy = new Map();
  DATA.runs.forEach((run) => run.warnings.forEach((i) => runsBy.set(i, [...(runsBy.get(i) ?? []), run])));
  byId("n-warnings").textContent = DATA.warnings.length ? count(DATA.warnings.length) : "";
  if (!DATA.warnings.length) return byId("warnings-list").append(make("p", { class: "muted" }, "No run warned of anything."));
  const lines = DATA.warnings.map((warning, i) => ({ i, ...warning, runs: runsBy.get(i) ?? [] }));
  const grid = new Grid(make("table", { class: "dense clickable" }), { open: (line) => showRuns({ find: `warning=${line.i}` }) });
  grid.table.setAttribute("aria-labelledby", "warnings-title");
  grid.setColumns([
    { key: "message", name: "Message", about: "Message\nEnter shows its runs.", value: (line) => line.message, text: (line) => line.message, cls: () => "wrap" },
    { key: "stage", name: "Stage", about: "Stage\nOf the run.", value: (line) => line.stage, text: (line) => line.stage, cls: () => "quiet" },
    { key: "runs", name: "Runs", about: "Runs\nWith this warning; runs share stages, and so their warnings.", n: true, first: "descending", value: (line) => line.runs.length, text: (line) => count(line.runs.length) },
  ]);
  grid.setRows(lines);
  byId("warnings-list").append(make("div", { class: "scroll tall" }, grid.table));
}

function renderUnfinished() {
  byId("n-unfinished").textContent = DATA.unfinished.length ? count(DATA.unfinished.length) : "";
  if (!DATA.unfinished.length) return byId("unfinished-list").append(make("p", { class: "muted" }, "None: every run that was started has a result."));
  const grid = new Grid(make("table", { class: "dense" }));
  grid.table.setAttribute("aria-labelledby", "unfinished-title");
  grid.setColumns([
    { key: "path", name: "Directory", about: "Directory\nOf the run.", value: (one) => one.path, text: (one) => one.path },
    { key: "state", name: "State", about: "State\nfailed: its error.txt has the traceback, and it is tried again next time.", value: (one) => one.state, text: (one) => one.state, cls: (one) => one.state === "failed" ? "worse" : "quiet" },
    { key: "reason", name: "Why", about: "Why", value: (one) => one.reason, text: (one) => one.reason, cls: () => "wrap" },
  ]);
  grid.setRows(DATA.unfinished);
  byId("unfinished-list").append(make("div", { class: "scroll tall" }, grid.table));
}

function renderGlossary() {
  byId("remarks").append(...DATA.remarks.map((remark) => make("li", {}, remark)));
  const metrics = new Map();
  for (const column of DATA.columns) if (!metrics.has(column.metric)) metrics.set(column.metric, column);
  byId("glossary").append(...[...metrics.values()].flatMap((column) => [
    make("dt", {}, column.on === "ood" && column.metric === "mmc" ? "confidence" : column.short, " ", make("code", { class: "muted" }, column.metric)),
    make("dd", {}, `${column.about || "Not a metric of this version of kdgraph."} ${directions(column.metric).map((text, i) => i ? text : text[0].toUpperCase() + text.slice(1)).join("; ")}.`),
  ]));
}
// What is better of a metric, wherever it was measured; on the rim of the training data nothing is, which is no news out of distribution.
function directions(metric) {
  const columns = DATA.columns.filter((one) => one.metric === metric), judged = columns.some((one) => one.on === "ood" && one.ideal !== "none");
  return [...new Set(columns.filter((one) => one.on !== "ood" || !judged || one.ideal !== "none").map((one) => `${direction(one)}${one.on === "ood" ? " out of distribution" : ""}`))];
}

function setUpTheme() {
  const select = byId("theme");
  try { select.value = localStorage.getItem("kdgraph-theme") ?? ""; } catch { /* no storage: the choice lasts as long as the page */ }
  select.addEventListener("change", () => {
    try { select.value ? localStorage.setItem("kdgraph-theme", select.value) : localStorage.removeItem("kdgraph-theme"); } catch { /* likewise */ }
    document.documentElement.dataset.theme = select.value || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  });
}

function setUpMetric() {
  const select = byId("metric"), shown = DATA.columns.filter((column) => column.shown), rest = DATA.columns.filter((column) => !column.shown);
  const options = (columns) => columns.map((column) => make("option", { value: column.index }, column.label));
  select.append(...options(shown), ...(rest.length ? [make("optgroup", { label: "more" }, ...options(rest))] : []));
  const first = shown.find((column) => column.metric === "nll") ?? shown[0] ?? rest[0];
  if (first) select.value = select.dataset.first = first.index;
  select.addEventListener("change", () => { renderDatasets(); remember(); });
  byId("numbers-by-dataset").addEventListener("change", renderDatasets);
  byId("datasets-form").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("resize", debounced(() => chosenMetric() && renderPictures(chosenMetric())));
}

function setUpTask() {
  const select = byId("task");
  select.append(make("option", { value: "" }, "all"), ...TASKS.map((task) => make("option", { value: task }, task)));
  byId("task-form").hidden = TASKS.length < 2;
  byId("task-form").addEventListener("submit", (event) => event.preventDefault());
  select.addEventListener("change", () => { renderTask(); renderRuns(); });
}

// All but the runs, which the address may choose too.
function renderTask() {
  const there = new Set(columnsOfTask()), select = byId("metric");
  for (const option of select.querySelectorAll("option")) option.hidden = option.disabled = !there.has(DATA.columns[Number(option.value)]);
  const first = [...select.querySelectorAll("option")].filter((option) => !option.disabled);
  if (first.length && select.selectedOptions[0]?.disabled) select.value = (first.find((option) => DATA.columns[Number(option.value)].metric === "nll") ?? first[0]).value;
  renderMethods();
  if (chosenMetric()) renderDatasets();
  runsGrid.setColumns(runColumns());
}

setUpTheme();
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
