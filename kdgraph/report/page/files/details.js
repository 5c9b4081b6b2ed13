// One run, made when it is opened: numbers, curve, command, figures, config, provenance, warnings.

const dialog = byId("details");
let opener = null, urls = [];

function openRun(run) {
  if (!dialog.open) opener = document.activeElement;
  forgetUrls();
  dialog.replaceChildren(runHead(run), make("div", { class: "run-body" }, ...runParts(run)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.body.classList.add("one-run");
  remember({ run: run.path });
}
function closed() {
  forgetUrls();
  document.body.append(byId("tip"));
  dialog.replaceChildren();
  document.body.classList.remove("one-run");
  remember();
  opener?.focus();
}
function forgetUrls() {
  tip.hide();
  document.body.append(byId("tip"));
  urls.forEach((url) => URL.revokeObjectURL(url));
  urls = [];
}
dialog.addEventListener("close", closed);
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

function runHead(run) {
  const list = runsGrid.shown, at = list.indexOf(run);
  const to = (step, text, label) => make("button", { type: "button", "aria-label": label, disabled: !list[at + step] || at < 0, onclick: () => { openRun(list[at + step]); dialog.querySelector(`[aria-label="${label}"]`).focus(); } }, text);
  return make("div", { class: "run-head" },
    make("div", {}, make("h2", { id: "details-title", tabindex: -1, autofocus: true }, `${run.dataset} → ${chain(run)}`),
      make("p", { class: "muted" }, `method ${marked(run.method)} · seed ${run.repeated} · `, make("span", { class: "mono" }, run.path))),
    make("div", { class: "buttons" }, to(-1, "‹", "previous run of the table"), to(1, "›", "next run of the table"), make("button", { type: "button", onclick: () => dialog.close() }, "Close")));
}

function runParts(run) {
  const columns = DATA.columns.filter((column) => measured(run, "calibrated", column) || measured(run, "parent", column));
  const near = columns.filter((column) => column.on !== "ood"), far = columns.filter((column) => column.on === "ood");
  return [
    make("div", { class: "full" }, make("h3", {}, "Reproduce"), ...commandOf(run)),
    make("div", {}, make("h3", {}, "On test rows"), ...(near.length ? [numbersTable(run, near)] : [make("p", { class: "help" }, "Nothing was measured there.")]),
      ...(run.setting.protocol === "paper" ? [make("p", { class: "help" }, byId("runs-paper").textContent)] : []), ...warningsOf(run)),
    make("div", {}, ...curves(run, far), ...(far.length ? [make("details", {}, make("summary", {}, `All ${counted(far.length, "number")} out of distribution`), numbersTable(run, far))] : [])),
    ...figuresOf(run), ...tablesOf(run),
    make("div", {}, make("h3", {}, "Provenance"), provenance(run), ...(Object.keys(run.learnt).length ? [make("h3", {}, "Learnt"), make("pre", {}, yaml(run.learnt))] : [])),
    make("div", {}, make("h3", {}, "Config"), make("pre", { class: "config", tabindex: 0 }, yaml(configOf(run)))),
  ];
}

function commandOf(run) {
  const { git, versions } = run.made;
  const from = git?.commit ? `It was run at commit ${git.commit.slice(0, 12)}${git.dirty ? " with changes that were not committed" : ""}, kdgraph ${versions.kdgraph}.` : `It was run with kdgraph ${versions.kdgraph}.`;
  const line = (text) => make("div", { class: "command" }, make("pre", { class: "reproduce" }, text), make("button", { type: "button", onclick: (event) => copy(text, event.target) }, "Copy"));
  const sweep = run.sweep === undefined ? [] : [make("p", { class: "help" }, "All seeds of this setting:"), line(DATA.commands[run.sweep])];
  return [line(DATA.commands[run.command]), make("p", { class: "help" }, `This command composes the config below. ${from}`), ...sweep];
}
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Press Ctrl+C";
  }
  say(button.textContent);
}

function numbersTable(run, columns) {
  const models = run.setting.is_parent ? ["parent"] : ["parent", "calibrated"]; // where nothing comes after the parent, both are the same
  const cell = (of, column) => {
    const found = measured(run, of, column);
    if (!found) return make("td", { class: "n" }, MISSING);
    return make("td", { class: "n" }, three(found.value), found.stderr === null ? "" : make("span", { class: "sd" }, ` ± ${three(found.stderr)}`));
  };
  const rows = columns.map((column) => {
    const [parent, calibrated] = ["parent", "calibrated"].map((of) => badness(column, valueOf(run, of, column), run.prior));
    const cells = models.map((of) => cell(of, column)), differ = parent !== null && calibrated !== null && !isTie(column, parent, calibrated);
    if (differ && models.length > 1) cells[calibrated < parent ? 1 : 0].classList.add("best");
    const n = (measured(run, "calibrated", column) ?? measured(run, "parent", column)).n, other = measured(run, "parent", column)?.n;
    return make("tr", { "data-tip": numberTip(run, column) }, make("th", { scope: "row", tabindex: 0 }, column.label), ...cells,
      make("td", { class: "n quiet" }, other !== undefined && other !== n ? `${count(other)} | ${count(n)}` : count(n)));
  });
  const names = [run.setting.parts.parent, run.setting.after.join(" + ")].slice(0, models.length);
  return make("table", {}, make("caption", { class: "visually-hidden" }, "value ± standard error over rows, of the parent and of the calibrated model"), make("thead", {}, make("tr", {}, make("td", {}), ...[...names, "rows"].map((name) => make("th", { scope: "col", class: "n" }, name)))), make("tbody", {}, ...rows));
}

// Confidence and AUROC along each family of out-of-distribution sets that has one parameter and more than two values of it.
function curves(run, columns) {
  const families = new Map();
  for (const column of columns.filter((one) => ["mmc", "auroc"].includes(one.metric) && Object.keys(one.params).length === 1)) {
    const name = `${column.metric === "mmc" ? "Confidence" : column.short} along ${column.ood}, ${Object.keys(column.params)[0]}`;
    families.set(name, [...(families.get(name) ?? []), column]);
  }
  return [...families].filter(([, found]) => found.length > 2).flatMap(([name, found]) => [make("h3", {}, name), curve(run, found)]);
}
function curve(run, columns) {
  const key = Object.keys(columns[0].params)[0], points = [...columns].sort((a, b) => a.params[key] - b.params[key]);
  const width = 520, height = 210, left = 40, right = 118, top = 10, bottom = 34, ends = [points[0].params[key], points.at(-1).params[key]];
  const x = (value) => left + (width - left - right) * (value - ends[0]) / (ends[1] - ends[0] || 1), y = (value) => top + (height - top - bottom) * (1 - value);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `${columns[0].short} of parent and calibrated model by ${key}; the numbers are in the table` });
  for (const tick of [0, .25, .5, .75, 1]) picture.append(draw("g", { class: "tick" }, draw("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick))));
  const marks = points.length > 9 ? points.filter((_, i) => i % Math.ceil(points.length / 7) === 0) : points;
  picture.append(draw("g", { class: "tick" }, ...marks.map((column) => draw("text", { x: x(column.params[key]), y: height - bottom + 16, "text-anchor": "middle" }, String(column.params[key]))), draw("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle" }, key)));
  const level = columns[0].metric === "mmc" ? { name: "largest prior", at: run.prior } : { name: "chance", at: .5 }, labels = [];
  if (level.at !== null) {
    picture.append(draw("line", { class: "prior", x1: left, x2: width - right, y1: y(level.at), y2: y(level.at) }));
    labels.push([level.name, level.at]);
  }
  for (const of of run.setting.is_parent ? ["parent"] : ["parent", "calibrated"]) {
    const line = points.map((column) => [x(column.params[key]), valueOf(run, of, column), column]).filter(([, value]) => value !== null);
    picture.append(draw("path", { class: `line ${of}`, d: line.map(([at, value], i) => `${i ? "L" : "M"}${at},${y(value)}`).join("") }),
      ...line.map(([at, value, column]) => of === "parent" ? draw("rect", { class: "point parent", x: at - 3, y: y(value) - 3, width: 6, height: 6, "data-tip": numberTip(run, column) }) : draw("circle", { class: "point calibrated", cx: at, cy: y(value), r: 3.4, "data-tip": numberTip(run, column) })));
    if (line.length) labels.push([of === "parent" ? run.setting.parts.parent : run.setting.after.join(" + "), line.at(-1)[1]]);
  }
  spread(labels.map(([text, value]) => ({ text, at: y(value) })), 13, height - bottom).forEach(({ text, at }) => picture.append(draw("text", { x: width - right + 8, y: at + 4, class: "quiet" }, shortened(text, right - 10))));
  return picture;
}
// Labels moved down as far as they would overlap, and back up from the bottom.
function spread(labels, gap, lowest) {
  labels.sort((a, b) => a.at - b.at).forEach((label, i) => { if (i) label.at = Math.max(label.at, labels[i - 1].at + gap); });
  [...labels].reverse().forEach((label, i, from) => { label.at = Math.min(label.at, i ? from[i - 1].at - gap : lowest); });
  return labels;
}

function figuresOf(run) {
  const names = DATA.figures[run.figures] ?? [];
  if (!names.length) return [];
  const stems = [...new Set(names.map((name) => name.replace(/\.\w+$/, "")))], holder = byId(`figures-${run.index}`);
  const inPage = holder ? JSON.parse(holder.textContent) : [];
  const plates = inPage.map(({ name, type, content }) => {
    const bytes = type === "image/png" ? Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0)) : content;
    const url = URL.createObjectURL(new Blob([bytes], { type }));
    urls.push(url);
    const title = name.replaceAll("_", " ");
    return make("figure", {}, make("img", { src: url, alt: `${title} of this run` }), make("figcaption", {}, title));
  });
  const absent = stems.filter((stem) => !inPage.some((one) => stem.endsWith(`/${one.name}`)));
  return [make("div", { class: "full" }, make("h3", {}, "Figures"), ...(plates.length ? [make("div", { class: "plates" }, ...plates)] : []),
    ...(absent.length ? [make("p", { class: "help" }, `Not in this page, to keep it small: ${absent.map((stem) => `${run.path}/${stem}`).join(", ")}`)] : []))];
}

function provenance(run) {
  const { facts, made } = run, stages = DATA.stages[run.stages];
  const source = Object.entries(facts.source ?? {}).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  const time = stages.map((stage, i) => `${stage} ${run.seconds[i]} s${run.stored.includes(stage) ? " (from the store)" : ""}`).join(", ");
  const rows = {
    ...Object.fromEntries(Object.entries(run.setting.parts).filter(([, name]) => name !== "none")),
    protocol: run.setting.protocol === "paper" ? `paper: ${byId("runs-paper").textContent.replace(/^†\s*/, "")}` : "",
    "data set": `${facts.name}: ${rowsInWords(facts)}; ${counted(facts.n_features, "feature")}${facts.n_categorical ? `, ${facts.n_categorical} of them categorical` : ""}${classesInWords(facts).map((words) => `; ${words}`).join("")}${facts.missing_fraction ? `; ${(100 * facts.missing_fraction).toFixed(1)} % of the training values missing` : ""}`,
    prior: (facts.prior ?? []).map((share, i) => `${facts.classes[i]} ${three(share)}`).slice(0, 12).join(", ") + (facts.prior?.length > 12 ? " …" : ""),
    source, fingerprint: run.fingerprint,
    "other sets": run.sets.map((set) => `${set.name} (${count(set.n)} rows)`).join(", "),
    time, memory: run.memory.length ? `${count(Math.max(...run.memory))} MB at most` : "",
    commit: made.git ? `${made.git.commit ?? "unknown"}${made.git.dirty ? ", with changes that were not committed" : ""}` : "an installed package",
    versions: Object.entries(made.versions).map(([name, version]) => `${name} ${version}`).join(", "),
    experiment: run.experiment,
    machine: made.host ? `${made.host.name}, ${made.host.system}, ${made.host.cpus} CPUs` : "",
  };
  return make("dl", { class: "facts" }, ...Object.entries(rows).filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function warningsOf(run) {
  if (!run.warnings.length) return [];
  return [make("h3", {}, "Warnings"), make("ul", { class: "notes" }, ...run.warnings.map((i) => make("li", {}, `${DATA.warnings[i].stage}: ${DATA.warnings[i].message}`)))];
}

function configOf(run) {
  return { ...Object.fromEntries(Object.entries(run.setting.nodes).map(([name, i]) => [name, DATA.nodes[i]])), seed: run.seed };
}
// YAML of plain values: mappings indented, lists in one line, text quoted where it could be taken for something else.
function yaml(value, indent = "") {
  return Object.entries(value).map(([key, inner]) => {
    const nested = inner !== null && typeof inner === "object" && !Array.isArray(inner) && Object.keys(inner).length;
    return nested ? `${indent}${key}:\n${yaml(inner, `${indent}  `)}` : `${indent}${key}: ${flow(inner)}`;
  }).join("\n");
}
function flow(value) {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (value !== null && typeof value === "object") return `{${Object.entries(value).map(([key, inner]) => `${key}: ${flow(inner)}`).join(", ")}}`;
  return typeof value === "string" && !/^[A-Za-z_][\w./-]*$/.test(value) || /^(null|true|false|yes|no|on|off)$/i.test(value) && typeof value === "string" ? JSON.stringify(value) : String(value);
}
