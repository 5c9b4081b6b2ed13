// All runs: found by words and by choices, sorted by any column.

const FIRST_ROWS = 500;
const runsGrid = new Grid(byId("runs-table"), { open: (run) => openRun(run), limit: FIRST_ROWS });
const EXTRA = { model: { label: "model", shown: false }, id: { label: "id", shown: true }, seconds: { label: "seconds", shown: false }, warnings: { label: "warnings", shown: true } };
const seconds = (run) => run.seconds.reduce((sum, value) => sum + (value ?? 0), 0);

function runColumns() {
  const of = byId("numbers-of").value;
  const extra = {
    model: { key: "model", name: "Model", about: "Model\nThe parent, and what was fitted after it.", value: (run) => run.setting.chain, text: (run) => breakable(run.setting.chain), cls: () => "name" },
    id: { key: "id", name: "Id", about: "Id\nThe name of the run's directory: a hash of all that decides its numbers.", value: (run) => run.id, text: (run) => run.id, cls: () => "mono quiet" },
    seconds: { key: "seconds", name: "Seconds", about: "Seconds\nOf all stages, those found in the store counted as when they were made.", n: true, value: seconds, text: (run) => seconds(run).toFixed(1), cls: () => "quiet" },
    warnings: { key: "warnings", name: "Warnings", n: true, first: "descending", about: "Warnings\nOf any stage.", value: (run) => run.warnings.length, text: (run) => run.warnings.length ? String(run.warnings.length) : "", cls: () => "quiet",
      tip: (run) => run.warnings.length ? ["Warnings", ...run.warnings.map((i) => `${DATA.warnings[i].stage}: ${DATA.warnings[i].message}`)].join("\n") : "" },
  };
  return [
    { key: "dataset", name: "Data set", about: "Data set", value: (run) => run.dataset, text: (run) => breakable(run.dataset), tip: (run) => datasetTip({ name: run.dataset }) },
    { key: "method", name: "Method", about: "Method", value: (run) => run.method, text: (run) => breakable(marked(run.method)), cls: () => "name", tip: (run) => `${run.method}\n${chain(run)}` },
    { key: "seed", name: "Seed", n: true, about: DATA.runs.some((run) => run.repetition.length > 1) ? "Seed\nAnd the fold, where there is one." : "Seed", value: (run) => Number(run.repeated), text: (run) => run.repeated, cls: () => "quiet" },
    ...columnsOfTask().filter((column) => column.shown).map((column) => ({
      key: `column ${column.index}`, name: column.short, detail: column.detail, about: aboutColumn(column), n: true, first: column.ideal === "higher" ? "descending" : "ascending",
      value: (run) => valueOf(run, of, column), text: (run) => (of === "difference" ? signed : three)(valueOf(run, of, column)),
      cls: (run) => of === "difference" ? differenceClass(run, column) : "", tip: (run) => numberTip(run, column, of),
    })),
    ...Object.keys(extra).filter((key) => EXTRA[key].shown).map((key) => extra[key]),
  ];
}

function differenceClass(run, column) {
  const [before, after] = ["parent", "calibrated"].map((of) => badness(column, valueOf(run, of, column), run.prior));
  return before === null || after === null || isTie(column, before, after) ? "quiet" : after < before ? "better" : "worse";
}

function numberTip(run, column, shown = "calibrated") {
  const of = (name) => measured(run, name, column);
  const [parent, calibrated] = [of("parent"), of("calibrated")];
  if (!parent && !calibrated) return `${column.label}\nnot measured in this run`;
  const words = (name, found) => `${name} ${known(found.value)}${found.stderr === null ? "" : ` ± ${known(found.stderr)} standard error`} over ${count(found.n)} ${column.of}`;
  const lines = [...(calibrated ? [words(chain(run), calibrated)] : []), ...(parent ? [words(`parent ${run.setting.parts.parent}`, parent)] : [])];
  return [column.label, ...(shown === "parent" ? lines.reverse() : lines), ...(parent && calibrated ? [`difference ${sixDigits(valueOf(run, "difference", column))}`] : []),
    ...(column.ideal === "prior" && run.prior !== null ? [`largest class prior ${sixDigits(run.prior)}`] : []), convention(column)].join("\n");
}

// Words of the search field → what a run must pass; a word that cannot be read is listed.
function parsed(text) {
  const tests = [], unknown = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const without = word.startsWith("-") && word.length > 1, bare = without ? word.slice(1) : word;
    const test = comparison(bare) ?? named(bare) ?? (/[<>=]/.test(bare) ? null : containing(bare));
    if (!test) unknown.push(word);
    else tests.push(without ? (run) => !test(run) : test);
  }
  return { tests, unknown };
}
function comparison(word) {
  const match = word.match(/^(.+?)(<=|>=|<|>)(-?[\d.]+(?:e[+-]?\d+)?)$/i), name = match?.[1].toLowerCase();
  if (!match) return null;
  const fitting = DATA.columns.filter((one) => [one.id, one.metric, one.label, one.short].some((text) => text.toLowerCase() === name));
  const column = fitting.find((one) => one.shown) ?? fitting[0], limit = Number(match[3]);
  const read = column ? (run) => valueOf(run, byId("numbers-of").value, column) : { seed: (run) => run.seed, seconds, warnings: (run) => run.warnings.length }[name];
  if (!read || Number.isNaN(limit)) return null;
  const compare = { "<": (a) => a < limit, "<=": (a) => a <= limit, ">": (a) => a > limit, ">=": (a) => a >= limit }[match[2]];
  return (run) => { const value = read(run); return value !== null && compare(value); };
}
function named(word) {
  const match = word.match(/^(\w+)=(.+)$/);
  const read = match && {
    dataset: (run) => run.dataset, method: (run) => [run.method, run.method.replace(" (paper protocol)", "")], seed: (run) => String(run.seed), id: (run) => run.id, task: (run) => run.setting.task,
    protocol: (run) => run.setting.protocol, warning: (run) => run.warnings.map(String),
    ...Object.fromEntries(Object.keys(DATA.runs[0].setting.parts).map((part) => [part, (run) => run.setting.parts[part]])),
  }[match[1].toLowerCase()];
  if (!read) return null;
  const patterns = match[2].split(",").map((value) => wildcards(value, true));
  return (run) => [read(run)].flat().some((value) => patterns.some((pattern) => pattern.test(value)));
}
const containing = (word) => { const pattern = wildcards(word, false); return (run) => pattern.test(run.searched); };
const wildcards = (text, whole) => {
  const source = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join("[^ ]*");
  return new RegExp(whole ? `^${source}$` : source, "i");
};

function filtered() {
  const { tests, unknown } = parsed(byId("find").value);
  tests.push(isOfTask);
  for (const [id, read] of [["of-dataset", (run) => run.dataset], ["of-method", (run) => run.method], ["of-seed", (run) => run.repeated]]) {
    const wanted = byId(id).value;
    if (wanted) tests.push((run) => read(run) === wanted);
  }
  return { runs: DATA.runs.filter((run) => tests.every((test) => test(run))), unknown };
}

function renderRuns() {
  const { runs, unknown } = filtered();
  runsGrid.setRows(runs);
  const more = runs.length - runsGrid.shown.length;
  byId("more").hidden = more <= 0;
  byId("more").textContent = `Show the other ${count(more)}`;
  const text = [
    runs.length === DATA.runs.length ? `${counted(runs.length, "run")}` : `${count(runs.length)} of ${counted(DATA.runs.length, "run")}`,
    ...(more > 0 ? [`the first ${count(runsGrid.shown.length)} are shown`] : []),
    ...unknown.map((word) => `“${word}” is no metric or name here and was left out`),
  ].join("; ");
  byId("shown").textContent = text;
  byId("runs-paper").hidden = !runsGrid.shown.some((run) => run.setting.protocol === "paper");
  say(text);
  remember();
}

function showRuns({ dataset = "", method = "", find = "" }) {
  byId("runs-form").reset();
  byId("find").value = find;
  byId("of-dataset").value = dataset;
  byId("of-method").value = method;
  runsGrid.limit = FIRST_ROWS;
  runsGrid.setColumns(runColumns());
  renderRuns();
  byId("runs").scrollIntoView();
  runsGrid.active?.focus({ preventScroll: true });
}

function setUpRuns() {
  const options = (select, all, values) => byId(select).append(make("option", { value: "" }, all), ...values.map((value) => make("option", { value }, value)));
  const collator = new Intl.Collator("en", { numeric: true });
  options("of-dataset", "all", [...DATA.datasets].sort(collator.compare));
  options("of-method", "all", [...DATA.methods].sort(collator.compare));
  options("of-seed", "all", [...new Set(DATA.runs.map((run) => run.repeated))].sort(collator.compare));
  byId("find").addEventListener("input", debounced(renderRuns));
  for (const id of ["of-dataset", "of-method", "of-seed"]) byId(id).addEventListener("change", renderRuns);
  byId("numbers-of").addEventListener("change", () => { runsGrid.setColumns(runColumns()); renderRuns(); });
  byId("runs-form").addEventListener("submit", (event) => event.preventDefault());
  byId("runs-form").addEventListener("reset", () => setTimeout(() => { runsGrid.order = null; runsGrid.setColumns(runColumns()); renderRuns(); }));
  byId("more").addEventListener("click", () => { runsGrid.limit = Infinity; renderRuns(); });
  setUpColumns();
}

function setUpColumns() {
  const groups = new Map();
  for (const column of DATA.columns) {
    const group = column.on === "ood" ? `Out of distribution: ${column.ood}` : { test: "Test rows", calibration: "Calibration rows", grid: "Grid" }[column.on] ?? column.on;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(column);
  }
  groups.set("The run", Object.values(EXTRA));
  const box = (column) => make("label", {}, make("input", { type: "checkbox", checked: column.shown, onchange: (event) => {
    column.shown = event.target.checked;
    renderMethods();
    runsGrid.setColumns(runColumns());
    renderRuns();
  } }), column.label);
  byId("columns").append(make("p", { class: "muted" }, "Here and under Methods"),
    ...[...groups].map(([name, columns]) => make("fieldset", {}, make("legend", {}, name), ...columns.map(box))));
  const chooser = byId("columns").parentElement;
  addEventListener("click", (event) => { if (chooser.open && !chooser.contains(event.target)) chooser.open = false; });
  chooser.addEventListener("keydown", (event) => { if (event.key === "Escape") { chooser.open = false; chooser.querySelector("summary").focus(); } });
}
