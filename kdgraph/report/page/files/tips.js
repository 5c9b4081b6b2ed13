// What tooltips and captions name: measures, data sets, and how a number came about.

const DIRECTION = {
  lower: "lower is better",
  higher: "higher is better",
  none: "neither direction is better",
  prior: "better is nearer to the largest class prior",
};
/** @type {(column: Column) => string} */
const direction = (column) => DIRECTION[column.ideal];
/** @type {(column: Column) => string} */
const convention = (column) =>
  joined(
    " · ",
    direction(column),
    column.unit && `in ${column.unit}`,
    column.options,
    `on ${column.rows}`,
  );
// What is better of a metric, wherever it was measured; on the rim of the training data nothing is,
// which is no news out of distribution.
/** @type {(columns: Column[]) => string} */
function directions(columns) {
  const judged = columns.some((one) => one.on === "ood" && one.ideal !== "none");
  const each = columns
    .filter((one) => one.on !== "ood" || !judged || one.ideal !== "none")
    .map((one) => `${direction(one)}${one.on === "ood" ? " out of distribution" : ""}`);
  const text = [...new Set(each)].join("; ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** @type {(name: string) => string} */
const bare = (name) => name.replace(/ \(parent\)$/, "");
/** @type {(prior: number | null) => string} */
const priorInWords = (prior) => `largest class prior ${sixDigits(prior)}`;

// Of scores of a model that was trained elsewhere there are no training rows, in regression no
// classes.
/** @type {(facts: Facts) => string} */
function rowsInWords({ n_train, n_calibration, n_test }) {
  const parts = { training: n_train, calibration: n_calibration, test: n_test };
  const each = Object.entries(parts).map(([name, n]) => Boolean(n) && `${count(n ?? 0)} ${name}`);
  return `${joined(", ", ...each)} rows`;
}
/** @type {(facts: Facts) => string} */
const classesInWords = ({ classes: { length } }) =>
  length ? counted(length, "class", "classes") : "";
/** @type {(facts: Facts) => string} */
const featuresInWords = (facts) => counted(facts.n_features ?? 0, "feature");

/** @type {(run: Run) => string} */
const datasetTip = ({ dataset, facts, prior }) =>
  lines(
    dataset,
    rowsInWords(facts),
    joined(
      ", ",
      featuresInWords(facts),
      classesInWords(facts),
      prior !== null && `largest prior ${sixDigits(prior)}`,
    ),
  );

/** @type {(run: Run, column: Column, shown?: Shown) => string} */
function numberTip(run, column, shown = "calibrated") {
  /** @type {(of: Model, name: string) => string | null} */
  const of = (model, name) => {
    const found = measured(run, model, column);
    if (!found) return null;
    const { value, stderr, n } = found;
    const error = stderr === null ? "" : ` ± ${known(stderr)} standard error`;
    return `${name} ${known(value)}${error} over ${count(n)} ${column.of}`;
  };
  const parent = of("parent", `parent ${run.setting.parts.parent}`);
  const calibrated = of("calibrated", run.setting.chain);
  if (!parent && !calibrated) return `${column.label}\nnot measured in this run`;
  return lines(
    column.label,
    ...(shown === "parent" ? [parent, calibrated] : [calibrated, parent]),
    parent && calibrated && `difference ${sixDigits(numberOf(run, "difference", column))}`,
    column.ideal === "prior" && run.prior !== null && priorInWords(run.prior),
    convention(column),
  );
}

/** @type {(dataset: string, row: Row, column: Column, found: Summary | null) => string} */
function seedsTip(dataset, row, column, found) {
  if (!found) return `${row.name} on ${dataset}\nnot measured`;
  const spread =
    found.deviation === null ? "" : `, standard deviation ${threeDigits(found.deviation)}`;
  const each = found.values.map((value, i) => `${found.repeated[i]}: ${sixDigits(value)}`);
  return lines(
    `${column.label} of ${row.name} on ${dataset}`,
    `${sixDigits(found.mean)} mean over ${counted(each.length, "seed")}${spread}`,
    `by seed  ${firstOf(each, 12, "   ", " ")}`,
    row.kind === "method" &&
      found.difference !== null &&
      `${threeDigits(found.difference)} against its own parent`,
    column.ideal === "prior" && priorInWords(found.prior),
    convention(column),
  );
}

/** @type {(row: Row, column: Column, found: MethodSummary) => string} */
function methodsTip(row, column, found) {
  if (found.median === null) return `${column.label}\nnot measured`;
  const { ranks, n, best } = column.tests ?? {};
  const { against, tally } = found;
  const rank = ranks?.[row.name];
  const all = found.total > 0 && [
    `better on ${tally.better}`,
    `the same on ${tally.same}`,
    `worse on ${tally.worse} of ${counted(found.total, "data set")}`,
    ...(isPresent(against?.p) ? [`${shortP(against.p)} (Wilcoxon over data sets, Holm)`] : []),
  ];
  const ranked =
    ranks && isPresent(rank)
      ? [
          `mean rank ${rank.toFixed(2)} of ${Object.keys(ranks).length} over ${counted(n ?? 0, "data set")}`,
          ...(best?.includes(row.name) ? ["no significant difference to the best"] : []),
        ]
      : null;
  const over = `mean over ${counted(found.n, "data set")} of means over seeds`;
  return lines(
    `${column.label}, ${row.name}`,
    `${sixDigits(found.median)} median, ${sixDigits(found.mean)} ${over}`,
    all && `against ${against?.baseline ?? "its own parent"}: ${all.join(", ")}`,
    isPresent(against?.change) && `median change ${signed(against.change, known)}`,
    ranked?.join(", "),
    convention(column),
  );
}
