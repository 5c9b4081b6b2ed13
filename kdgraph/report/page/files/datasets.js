// Data sets × methods for one metric, and a drawing of what each method changes about its own parent.

const datasetsGrid = new Grid(byId("datasets-table"), { open: (row, column) => showRuns({ dataset: row.name, method: column.row?.kind === "method" ? column.row.name : "" }) });
const DATASET_ROWS = DATA.datasets.map((name) => ({ name }));

function chosenMetric() {
  return DATA.columns[Number(byId("metric").value)];
}

function renderDatasets() {
  const column = chosenMetric(), show = byId("numbers-by-dataset").value;
  const datasets = datasetsOfTask(), anyRow = (line) => ROWS.some((row) => overSeeds(line.name, row, column));
  const lines = DATASET_ROWS.filter((line) => datasets.includes(line.name) && anyRow(line));
  const rows = rowsOfTask().filter((row) => (show !== "difference" || row.kind === "method") && datasets.some((dataset) => overSeeds(dataset, row, column)));
  const first = new Map(DATASET_ROWS.map((line) => [line, bestOf(line.name, rows, column)]));
  datasetsGrid.setColumns([
    { key: "name", name: "Data set", about: "Data set\nEnter shows its runs.", value: (line) => line.name, text: (line) => breakable(line.name), tip: datasetTip },
    ...rows.map((row) => cellColumn(row, column, show, first)),
  ], show === "difference" ? null : meanRanks(rows, column));
  datasetsGrid.setRows(lines);
  byId("datasets-paper").hidden = !rows.some((row) => AS_IN_PAPER.has(row.name));
  const what = { mean: "Mean over seeds", deviation: "Mean ± standard deviation over seeds", difference: "Mean over seeds of the difference to the own parent in the same run" }[show];
  const anyBest = Object.keys(column.tests?.best_by_dataset ?? {}).length > 0;
  const marked = column.ideal === "none" ? "" : show === "difference" ? " Blue is better, orange worse."
    : ` Underlined: the best mean of its row, which is no test.${anyBest ? " Bold: the best, and methods that a paired test over seeds does not distinguish from it." : " No paired test over seeds is significant."}`;
  byId("datasets-lead").textContent = `${what} of ${column.label}; ${direction(column)}.${marked}`;
  renderPictures(column);
}
function renderPictures(column) {
  renderRanks(column);
  renderStrip(column);
}

// Badness of the best mean of a data set.
function bestOf(dataset, rows, column) {
  const found = rows.map((row) => meanBadness(dataset, row, column)).filter((value) => value !== null);
  return found.length > 1 ? Math.min(...found) : null;
}
function meanBadness(dataset, row, column) {
  const found = overSeeds(dataset, row, column);
  return found && badness(column, found.mean, found.prior);
}

function cellColumn(row, column, show, first) {
  const of = (line) => overSeeds(line.name, row, column);
  const value = (line) => of(line)?.[show === "difference" ? "difference" : "mean"] ?? null;
  return {
    row, key: `${row.kind} ${row.name}`, name: marked(bare(row.name)), detail: row.kind === "parent" ? "parent" : null, n: true, value,
    about: `${row.name}\n${column.label}: ${convention(column)}`,
    first: column.ideal === "higher" ? "descending" : "ascending",
    text: (line) => {
      if (show === "difference") return signed(value(line));
      const found = of(line);
      return show === "deviation" && found?.deviation != null ? [three(found.mean), make("span", { class: "sd" }, ` ± ${three(found.deviation)}`)] : three(value(line));
    },
    cls: (line) => {
      const found = of(line);
      if (!found) return "quiet";
      if (show === "difference") return !found.gain ? "quiet" : found.gain > 0 ? "better" : "worse";
      const own = meanBadness(line.name, row, column), best = first.get(line);
      const isBest = column.tests?.best_by_dataset[line.name]?.includes(row.name);
      return [row.kind === "parent" ? "quiet" : "", isBest ? "best" : "", own !== null && best !== null && isTie(column, own, best) ? "first" : ""].join(" ").trim();
    },
    tip: (line) => seedsTip(line.name, row, column),
  };
}

function seedsTip(dataset, row, column) {
  const found = overSeeds(dataset, row, column);
  if (!found) return `${row.name} on ${dataset}\nnot measured`;
  const n = found.values.length, spread = found.deviation === null ? "" : `, standard deviation ${threeDigits(found.deviation)}`;
  const each = found.values.map((value, i) => `${found.repeated[i]}: ${sixDigits(value)}`).slice(0, 12).join("   ");
  return [`${column.label} of ${row.name} on ${dataset}`, `${sixDigits(found.mean)} mean over ${counted(n, "seed")}${spread}`, `by seed  ${each}${n > 12 ? " …" : ""}`,
    ...(row.kind === "method" && found.difference !== null ? [`${threeDigits(found.difference)} against its own parent`] : []),
    ...(column.ideal === "prior" ? [`largest class prior ${sixDigits(found.prior)}`] : []), convention(column)].join("\n");
}

function datasetTip(line) {
  const run = DATA.runs.find((one) => one.dataset === line.name), { facts } = run;
  return [line.name, rowsInWords(facts), [counted(facts.n_features, "feature"), ...classesInWords(facts),
    ...(run.prior === null ? [] : [`largest prior ${sixDigits(run.prior)}`])].join(", ")].join("\n");
}
// Of scores of a model that was trained elsewhere there are no training rows, in regression no classes.
const rowsInWords = (facts) => `${[["training", facts.n_train], ["calibration", facts.n_calibration], ["test", facts.n_test]].filter(([, n]) => n).map(([name, n]) => `${count(n)} ${name}`).join(", ")} rows`;
const classesInWords = (facts) => facts.classes.length ? [counted(facts.classes.length, "class", "classes")] : [];

function meanRanks(rows, column) {
  const ranks = column.tests?.ranks;
  if (!ranks) return null;
  return make("tr", {}, make("th", { scope: "row" }, `mean rank, ${counted(column.tests.n, "data set")}`),
    ...rows.map((row) => make("td", { class: `n${column.tests.best.includes(row.name) ? " best" : ""}` }, ranks[row.name]?.toFixed(2) ?? MISSING)));
}

// Mean ranks on a line, bars under those without a significant difference (Demšar 2006).
function renderRanks(column) {
  const { ranks, groups = [], best = [], critical_difference: apart, n } = column.tests ?? {}, figure = byId("ranks").closest("figure");
  figure.hidden = !ranks;
  if (!ranks) return;
  const names = Object.keys(ranks).sort((a, b) => ranks[a] - ranks[b]), k = names.length, half = Math.ceil(k / 2);
  const width = Math.max(320, byId("ranks").clientWidth || 640), side = Math.min(212, width * .34), bars = groups.filter((group) => group.length > 1);
  const x = (rank) => side + (width - 2 * side) * (rank - 1) / (k - 1), axis = 44, first = axis + 16 + 7 * bars.length, step = 19;
  // Beside its length, or above where a narrow screen has no room for it.
  const long = Math.min(apart, k - 1), head = width - x(1 + long) < 150 ? 12 : 0, height = first + half * step + 4 + head;
  const picture = draw("svg", { viewBox: `0 ${-head} ${width} ${height}`, width, height, role: "img", "aria-label": `${column.label}, mean ranks: ${names.map((name) => `${name} ${ranks[name].toFixed(2)}`).join(", ")}; critical difference ${apart.toFixed(2)}` });
  picture.append(draw("line", { class: "axis", x1: x(1), x2: x(k), y1: axis, y2: axis }));
  for (let rank = 1; rank <= k; rank += Math.ceil(17 * (k - 1) / (width - 2 * side))) picture.append(draw("g", { class: "tick" }, draw("line", { class: "axis", x1: x(rank), x2: x(rank), y1: axis - 5, y2: axis }), draw("text", { x: x(rank), y: axis - 10, "text-anchor": "middle" }, String(rank))));
  picture.append(draw("g", {}, draw("path", { class: "axis", d: `M${x(1)},8v8M${x(1)},12H${x(1 + long)}M${x(1 + long)},8v8` }), draw("text", { class: "quiet", ...(head ? { x: x(1), y: 2 } : { x: x(1 + long) + 7, y: 16 }) }, `critical difference ${apart.toFixed(2)}`)));
  names.forEach((name, i) => {
    const onLeft = i < half, y = first + (onLeft ? i : k - 1 - i) * step + 8, at = x(ranks[name]), end = onLeft ? side - 6 : width - side + 6;
    const cls = [name.endsWith(" (parent)") ? "quiet" : "", best.includes(name) ? "best" : ""].join(" ").trim();
    picture.append(draw("path", { class: "elbow", d: `M${at},${axis}V${y}H${end}` }), draw("circle", { class: "rank", cx: at, cy: axis, r: 3 }),
      draw("text", { class: cls, x: onLeft ? end - 5 : end + 5, y: y + 4, "text-anchor": onLeft ? "end" : "start" }, `${shortened(marked(name), side - 46, best.includes(name))} ${ranks[name].toFixed(2)}`));
  });
  bars.forEach((group, i) => {
    const of = group.map((name) => ranks[name]), y = axis + 11 + 7 * i;
    picture.append(draw("line", { class: "together", x1: x(Math.min(...of)) - 4, x2: x(Math.max(...of)) + 4, y1: y, y2: y }));
  });
  byId("ranks").replaceChildren(picture);
  byId("ranks-caption").textContent = `${column.label}: mean rank over ${counted(n, "data set")}, 1 the best. A bar joins methods without a significant difference${best.length ? "; bold: the best and those without a significant difference to it" : ""}.`;
}

// One line for each method, one dot for each data set.
function renderStrip(column) {
  const methods = rowsOfTask().filter((row) => row.kind === "method");
  const lines = methods.map((row) => ({ row, dots: DATA.datasets.map((dataset) => ({ dataset, found: overSeeds(dataset, row, column) })).filter((dot) => dot.found?.difference != null) })).filter((line) => line.dots.length);
  const drawn = lines.length > 0 && new Set(lines.flatMap((line) => line.dots.map((dot) => dot.dataset))).size > 1;
  byId("strip").closest("figure").hidden = !drawn;
  if (!drawn) return;
  const sizes = lines.flatMap((line) => line.dots.map((dot) => Math.abs(dot.found.difference))).sort((a, b) => a - b);
  const reach = niceReach((sizes.length > 60 && sizes[Math.floor(.97 * (sizes.length - 1))]) || sizes.at(-1) || 1), beyond = sizes.filter((size) => size > reach).length;
  const width = Math.max(320, byId("strip").clientWidth || 900), left = Math.min(190, width * .34), right = 16, step = 21, height = lines.length * step + 34;
  const x = (value) => left + (width - left - right) * (Math.max(-reach, Math.min(reach, value)) + reach) / (2 * reach);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": stripWords(lines, column) });
  for (const tick of [-1, -.5, 0, .5, 1].map((share) => share * reach)) {
    picture.append(draw("g", { class: "tick" }, draw("line", { class: tick ? "grid" : "zero", x1: x(tick), x2: x(tick), y1: 2, y2: height - 28 }),
      draw("text", { x: x(tick), y: height - 13, "text-anchor": "middle" }, tick ? (tick > 0 ? "+" : "") + minus(String(Number(tick.toPrecision(3)))) : "0")));
  }
  lines.forEach((line, i) => picture.append(stripLine(line, 12 + i * step, x, reach, left)));
  byId("strip").replaceChildren(picture);
  const side = { lower: "left of 0 is better", higher: "right of 0 is better", prior: "blue is nearer to the prior", none: "neither side is better" }[column.ideal];
  byId("strip-caption").textContent = `${column.label}: difference to the own parent, a dot for each data set, the tick their median; ${side}.${beyond ? ` Triangles: ${counted(beyond, "difference")} beyond the axis.` : ""}`;
}

function stripLine({ row, dots }, y, x, reach, left) {
  const kind = ({ found }) => found.gain === null || found.gain === 0 ? "same" : found.gain > 0 ? "better" : "worse";
  const shapes = dots.map((dot) => {
    const value = dot.found.difference, at = x(value), tipText = seedsTip(dot.dataset, row, chosenMetric());
    if (Math.abs(value) <= reach) return draw("circle", { class: `dot ${kind(dot)}`, cx: at, cy: y, r: 3.4, "data-tip": tipText });
    const to = value > 0 ? 1 : -1;
    return draw("path", { class: `dot ${kind(dot)}`, d: `M${at + 6 * to},${y}l${-8 * to},-4.5v9z`, "data-tip": tipText });
  });
  const middle = median(dots.map((dot) => dot.found.difference));
  return draw("g", {}, draw("text", { x: left - 12, y: y + 4, "text-anchor": "end" }, shortened(marked(row.name), left - 14)), ...shapes,
    draw("line", { class: "median", x1: x(middle), x2: x(middle), y1: y - 7, y2: y + 7 }));
}
// With its middle left out if it is wider than so many pixels: names of methods differ at both ends.
function shortened(text, width, bold = false) {
  const pen = shortened.pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${bold ? 700 : 400} 12px ${getComputedStyle(document.body).fontFamily}`;
  let keep = text.length, short = text;
  while (keep > 2 && pen.measureText(short).width > width) {
    keep -= 1;
    short = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  return short;
}
const stripWords = (lines, column) => `${column.label}, difference to the own parent, median over data sets: ${lines.map(({ row, dots }) => `${row.name} ${signed(median(dots.map((dot) => dot.found.difference)))}`).join(", ")}`;
function niceReach(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-9));
}
