// Figures and tables of a run, of which the page may have some. A table is opened on demand and
// handed out as a file.

/** @type {string[]} */
let urls = [];
/** @type {(content: string | Uint8Array<ArrayBuffer>, type: string) => string} */
function urlOf(content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  urls.push(url);
  return url;
}
function forgetUrls() {
  urls.forEach((url) => {
    URL.revokeObjectURL(url);
  });
  urls = [];
}

/** @type {(why: string, run: Run, files: string[]) => Child} */
const notInPage = (why, { path }, files) =>
  files.length > 0 && help(`${why}: ${files.map((file) => `${path}/${file}`).join(", ")}`);

/** @type {(run: Run) => Child} */
function figuresOf(run) {
  if (!run.figures.length) return null;
  /** @type {Figure[]} */
  const inPage = jsonOf(`figures-${run.index}`) ?? [];
  const stems = [...new Set(run.figures.map((name) => name.replace(/\.\w+$/, "")))];
  const absent = stems.filter((stem) => !inPage.some(({ name }) => stem.endsWith(`/${name}`)));
  const plates = inPage.map(({ name, type, content }) => {
    const isBinary = type === "image/png";
    const bytes = isBinary
      ? Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))
      : content;
    const title = name.replaceAll("_", " ");
    const image = make("img", { src: urlOf(bytes, type), alt: `${title} of this run` });
    return make("figure", {}, image, make("figcaption", {}, title));
  });
  return make(
    "div",
    { class: "full" },
    make("h3", {}, "Figures"),
    plates.length > 0 && make("div", { class: "plates" }, plates),
    notInPage("Not in this page, to keep it small", run, absent),
  );
}

/** @type {(run: Run) => Child} */
function tablesOf(run) {
  const files = Object.entries(run.tables);
  if (!files.length) return null;
  /** @type {Table[]} */
  const inPage = jsonOf(`tables-${run.index}`) ?? [];
  const absent = files.filter(([name]) => !inPage.some((table) => table.name === name));
  return make(
    "div",
    { class: "full run-tables" },
    make("h3", {}, "Tables"),
    inPage.map((table) => foldedTable(run, table)),
    notInPage(
      "Not in this page",
      run,
      absent.map(([, file]) => file),
    ),
  );
}

/** @type {(run: Run, table: Table) => HTMLDetailsElement} */
function foldedTable(run, table) {
  const content = `${counted(table.n, "row")}: ${table.columns.join(", ")}`;
  const summary = make("summary", {}, `${table.label} `, make("span", { class: "muted" }, content));
  const box = make("details", {}, summary);
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(...contentOf(run, table));
  });
  return box;
}

// A column without any entry, as "ood" for numbers on test rows, is left out.
/** @type {(table: Table) => { name: string, isNumber: boolean, cells: string[] }[]} */
const filledColumns = ({ columns, rows }) =>
  columns
    .map((name, i) => {
      const cells = rows.map((row) => row[i] ?? "");
      return { name, cells, isNumber: !cells.some((text) => Number.isNaN(Number(text))) };
    })
    .filter(({ cells }) => cells.some(Boolean));

/** @type {(run: Run, table: Table) => HTMLElement[]} */
function contentOf(run, table) {
  const columns = filledColumns(table);
  const head = columns.map(({ name, isNumber }) =>
    make("th", { scope: "col", class: isNumber && "n" }, name),
  );
  const rows = table.rows.map((_, i) => {
    const cells = columns.map(({ isNumber, cells }) =>
      isNumber
        ? make("td", { class: "n" }, cells[i] && sixDigits(Number(cells[i])))
        : make("td", {}, cells[i]),
    );
    return make("tr", {}, cells);
  });
  const box = { class: "scroll short", tabindex: 0, role: "region", "aria-label": table.label };
  const isWhole = table.rows.length === table.n;
  const all = `The first ${table.rows.length} of ${counted(table.n, "row")}; all of them: `;
  const path = make("span", { class: "mono" }, `${run.path}/${table.file}`);
  return [
    make("div", box, makeTable({ class: "dense" }, head, rows)),
    make("p", { class: "help" }, isWhole ? [linkTo(run, table), " · "] : all, path),
  ];
}

/** @type {(run: Run, table: Table) => HTMLAnchorElement} */
function linkTo(run, { name, columns, rows }) {
  const href = urlOf(csv([columns, ...rows]), "text/csv");
  return make("a", { href, download: `${run.id}-${name}.csv` }, `Save ${name}.csv`);
}
