// Data sets × methods for one metric, and a drawing of what each method changes about its own
// parent.

/** @typedef {"mean" | "deviation" | "difference"} Amount */

/** @type {Grid<string>} */
const datasetsGrid = new Grid(byId("datasets-table"), (dataset, { method = "" }) =>
  showRuns({ dataset, method }),
);

const chosenMetric = () => DATA.columns[Number(byId("metric").value)];

const AMOUNTS = {
  mean: "Mean over seeds",
  deviation: "Mean ± standard deviation over seeds",
  difference: "Mean over seeds of the difference to the own parent in the same run",
};

function renderDatasets() {
  const column = chosenMetric();
  if (!column) return;
  const show = /** @type {Amount} */ (byId("numbers-by-dataset").value);
  /** @type {(dataset: string, row: Row) => boolean} */
  const isMeasured = (dataset, row) => overSeeds(dataset, row, column) !== null;
  const datasets = datasetsOfTask().filter((dataset) =>
    ROWS.some((row) => isMeasured(dataset, row)),
  );
  const rows = rowsOfTask()
    .filter((row) => show !== "difference" || row.kind === "method")
    .filter((row) => datasets.some((dataset) => isMeasured(dataset, row)));
  const best = new Map(datasets.map((dataset) => [dataset, bestOf(dataset, rows, column)]));
  datasetsGrid.setColumns(
    [
      {
        key: "name",
        name: "Data set",
        about: "Enter shows its runs.",
        value: (dataset) => dataset,
        text: breakable,
        tip: tipOfDataset,
      },
      ...rows.map((row) => cellColumn(row, column, show, best)),
    ],
    show === "difference" ? null : meanRanks(rows, column),
  );
  datasetsGrid.setRows(datasets);
  showPaperNote(
    "datasets-paper",
    rows.map((row) => row.name),
  );
  const anyBest = Object.keys(column.tests?.best_by_dataset ?? {}).length > 0;
  const test = anyBest
    ? " Bold: the best, and methods that a paired test over seeds does not distinguish from it."
    : " No paired test over seeds is significant.";
  const marks =
    show === "difference"
      ? " Blue is better, orange worse."
      : ` Underlined: the best mean of its row, which is no test.${test}`;
  byId("datasets-lead").textContent =
    `${AMOUNTS[show]} of ${column.label}; ${direction(column)}.${column.ideal === "none" ? "" : marks}`;
  renderPictures();
}
function renderPictures() {
  const column = chosenMetric();
  if (!column) return;
  renderRanks(column);
  renderStrip(column);
}

/** @type {(dataset: string) => string} */
const tipOfDataset = (dataset) =>
  datasetTip(/** @type {Run} */ (DATA.runs.find((run) => run.dataset === dataset)));

// Badness of the best mean of a data set.
/** @type {(dataset: string, rows: Row[], column: Column) => number | null} */
function bestOf(dataset, rows, column) {
  const each = rows.map((row) => meanBadness(dataset, row, column)).filter(isPresent);
  return each.length > 1 ? Math.min(...each) : null;
}
/** @type {(dataset: string, row: Row, column: Column) => number | null} */
function meanBadness(dataset, row, column) {
  const found = overSeeds(dataset, row, column);
  return found && badness(column, found.mean, found.prior);
}

/**
 * @type {(row: Row, column: Column, show: Amount, best: Map<string, number | null>) =>
 *   GridColumn<string>}
 */
function cellColumn(row, column, show, best) {
  /** @type {(dataset: string) => Summary | null} */
  const of = (dataset) => overSeeds(dataset, row, column);
  const isParent = row.kind === "parent";
  return {
    ...ofMeasure(column),
    key: `${row.kind} ${row.name}`,
    name: marked(bare(row.name)),
    detail: isParent ? "parent" : "",
    title: row.name,
    about: `${column.label}: ${convention(column)}`,
    method: isParent ? "" : row.name,
    value: (dataset) => of(dataset)?.[show === "difference" ? show : "mean"] ?? null,
    text: (dataset) => {
      const found = of(dataset);
      if (show === "difference") return signed(found?.difference ?? null);
      const spread = show === "deviation" ? (found?.deviation ?? null) : null;
      return [three(found?.mean ?? null), withError(spread)];
    },
    cls: (dataset) => {
      const found = of(dataset);
      if (!found) return "quiet";
      if (show === "difference") return outcomeClass(outcome(found.gain));
      const own = meanBadness(dataset, row, column);
      const first = best.get(dataset) ?? null;
      return classes(
        isParent && "quiet",
        column.tests?.best_by_dataset[dataset]?.includes(row.name) && "best",
        own !== null && first !== null && isTie(column, own, first) && "first",
      );
    },
    tip: (dataset) => seedsTip(dataset, row, column, of(dataset)),
  };
}
/** @type {(found: keyof Tally) => string} */
const outcomeClass = (found) => (found === "same" ? "quiet" : found);
/** @type {(error: number | null) => Child} */
const withError = (error) => error !== null && make("span", { class: "sd" }, ` ± ${three(error)}`);

/** @type {(rows: Row[], column: Column) => HTMLTableRowElement | null} */
function meanRanks(rows, { tests }) {
  const ranks = tests?.ranks;
  if (!ranks) return null;
  const cells = rows.map(({ name }) => {
    const cls = classes("n", tests.best.includes(name) && "best");
    return make("td", { class: cls }, ranks[name]?.toFixed(2) ?? MISSING);
  });
  const head = `mean rank, ${counted(tests.n ?? 0, "data set")}`;
  return make("tr", {}, make("th", { scope: "row" }, head), cells);
}

/** @type {(id: "ranks" | "strip", isShown: boolean) => void} */
function showFigure(id, isShown) {
  /** @type {HTMLElement} */ (byId(id).closest("figure")).hidden = !isShown;
}
/** @type {(id: "ranks" | "strip", usual: number) => number} */
const widthOf = (id, usual) => Math.max(320, byId(id).clientWidth || usual);

// Mean ranks on a line, bars under those without a significant difference (Demšar 2006).
/** @type {(column: Column) => void} */
function renderRanks(column) {
  const { ranks, groups, best = [], critical_difference: apart, n } = column.tests ?? {};
  showFigure("ranks", Boolean(ranks));
  if (!ranks || !isPresent(apart) || !isPresent(n)) return;
  const names = Object.keys(ranks).sort((a, b) => ranks[a] - ranks[b]);
  const bars = (groups ?? []).filter((group) => group.length > 1);
  const k = names.length;
  const half = Math.ceil(k / 2);
  const width = widthOf("ranks", 640);
  const side = Math.min(212, width * 0.34);
  /** @type {(rank: number) => number} */
  const x = (rank) => side + ((width - 2 * side) * (rank - 1)) / (k - 1);
  const axis = 44;
  const step = 19;
  const first = axis + 16 + 7 * bars.length;
  // Beside its length, or above where a narrow screen has no room for it.
  const end = x(1 + Math.min(apart, k - 1));
  const above = width - end < 150 ? 12 : 0;
  const height = first + half * step + 4 + above;
  const critical = `critical difference ${apart.toFixed(2)}`;
  const each = names.map((name) => `${name} ${ranks[name].toFixed(2)}`).join(", ");
  const drawn = picture(`${column.label}, mean ranks: ${each}; ${critical}`, width, height);
  drawn.setAttribute("viewBox", `0 ${-above} ${width} ${height}`);
  drawn.append(stroke("axis", [x(1), x(k)], [axis, axis]));
  for (let rank = 1; rank <= k; rank += Math.ceil((17 * (k - 1)) / (width - 2 * side))) {
    const at = x(rank);
    drawn.append(
      tick(stroke("axis", [at, at], [axis - 5, axis]), label(String(rank), at, axis - 10)),
    );
  }
  drawn.append(
    draw("path", { class: "axis", d: `M${x(1)},8v8M${x(1)},12H${end}M${end},8v8` }),
    above
      ? label(critical, x(1), 2, "start", "quiet")
      : label(critical, end + 7, 16, "start", "quiet"),
  );
  names.forEach((name, i) => {
    const onLeft = i < half;
    const y = first + (onLeft ? i : k - 1 - i) * step + 8;
    const at = x(ranks[name]);
    const to = onLeft ? side - 6 : width - side + 6;
    const isBest = best.includes(name);
    const text = `${shortened(marked(name), side - 46, isBest)} ${ranks[name].toFixed(2)}`;
    const cls = classes(name.endsWith(" (parent)") && "quiet", isBest && "best");
    drawn.append(
      draw("path", { class: "elbow", d: `M${at},${axis}V${y}H${to}` }),
      draw("circle", { class: "rank", cx: at, cy: axis, r: 3 }),
      label(text, onLeft ? to - 5 : to + 5, y + 4, onLeft ? "end" : "start", cls),
    );
  });
  bars.forEach((group, i) => {
    const of = group.map((name) => x(ranks[name]));
    const y = axis + 11 + 7 * i;
    drawn.append(stroke("together", [Math.min(...of) - 4, Math.max(...of) + 4], [y, y]));
  });
  byId("ranks").replaceChildren(drawn);
  const bold = best.length
    ? "; bold: the best and those without a significant difference to it"
    : "";
  byId("ranks-caption").textContent =
    `${column.label}: mean rank over ${counted(n, "data set")}, 1 the best. A bar joins methods without a significant difference${bold}.`;
}

/** @typedef {{ difference: number, kind: keyof Tally, dataset: string, tip: string }} Dot */

const SIDES = {
  lower: "left of 0 is better",
  higher: "right of 0 is better",
  prior: "blue is nearer to the prior",
  none: "neither side is better",
};

// One line for each method, one dot for each data set.
/** @type {(column: Column) => void} */
function renderStrip(column) {
  const methods = rowsOfTask()
    .filter((row) => row.kind === "method")
    .map((row) => ({ name: row.name, dots: dotsOf(row, column) }))
    .filter(({ dots }) => dots.length);
  const dots = methods.flatMap((method) => method.dots);
  const isDrawn = !areEqual(dots.map((dot) => dot.dataset));
  showFigure("strip", isDrawn);
  if (!isDrawn) return;
  const sizes = dots.map((dot) => Math.abs(dot.difference)).sort((a, b) => a - b);
  const usual = sizes.length > 60 ? sizes[Math.floor(0.97 * (sizes.length - 1))] : 0;
  const reach = niceReach(usual || sizes[sizes.length - 1] || 1);
  const beyond = sizes.filter((size) => size > reach).length;
  const width = widthOf("strip", 900);
  const left = Math.min(190, width * 0.34);
  const step = 21;
  const height = methods.length * step + 34;
  /** @type {(value: number) => number} */
  const x = (value) => {
    const inside = Math.max(-reach, Math.min(reach, value));
    return left + ((width - left - 16) * (inside + reach)) / (2 * reach);
  };
  const middles = methods.map((method) => median(method.dots.map((dot) => dot.difference)));
  const each = methods.map(({ name }, i) => `${name} ${signed(middles[i])}`).join(", ");
  const words = `${column.label}, difference to the own parent, median over data sets: ${each}`;
  const drawn = picture(words, width, height);
  for (const value of [-1, -0.5, 0, 0.5, 1].map((share) => share * reach)) {
    const at = x(value);
    drawn.append(
      tick(
        stroke(value ? "grid" : "zero", [at, at], [2, height - 28]),
        label(signed(value, significant(3)), at, height - 13),
      ),
    );
  }
  methods.forEach((method, i) => {
    const y = 12 + i * step;
    const middle = x(middles[i]);
    drawn.append(
      label(shortened(marked(method.name), left - 14), left - 12, y + 4, "end"),
      ...method.dots.map((dot) => drawnDot(dot, x(dot.difference), y, reach)),
      stroke("median", [middle, middle], [y - 7, y + 7]),
    );
  });
  byId("strip").replaceChildren(drawn);
  const triangles = beyond ? ` Triangles: ${counted(beyond, "difference")} beyond the axis.` : "";
  byId("strip-caption").textContent =
    `${column.label}: difference to the own parent, a dot for each data set, the tick their median; ${SIDES[column.ideal]}.${triangles}`;
}

/** @type {(row: Row, column: Column) => Dot[]} */
const dotsOf = (row, column) =>
  DATA.datasets.flatMap((dataset) => {
    const found = overSeeds(dataset, row, column);
    if (!found || found.difference === null) return [];
    const { difference, gain } = found;
    const tip = seedsTip(dataset, row, column, found);
    return [{ dataset, difference, kind: outcome(gain), tip }];
  });

// Beyond the axis a triangle that points to it.
/** @type {(dot: Dot, at: number, y: number, reach: number) => SVGElement} */
function drawnDot({ difference, kind, tip }, at, y, reach) {
  const attributes = { class: `dot ${kind}`, "data-tip": tip };
  if (Math.abs(difference) <= reach)
    return draw("circle", { ...attributes, cx: at, cy: y, r: 3.4 });
  const to = Math.sign(difference);
  return draw("path", { ...attributes, d: `M${at + 6 * to},${y}l${-8 * to},-4.5v9z` });
}
