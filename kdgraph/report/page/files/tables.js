// Tables of a run (curves, histograms, maps), each opened on demand and handed out as a file.

function tablesOf(run) {
  const files = run.tables, holder = byId(`tables-${run.index}`);
  if (!Object.keys(files).length) return [];
  const inPage = holder ? JSON.parse(holder.textContent) : [];
  const absent = Object.entries(files).filter(([name]) => !inPage.some((one) => one.name === name)).map(([, file]) => `${run.path}/${file}`);
  return [make("div", { class: "full run-tables" }, make("h3", {}, "Tables"), ...inPage.map((table) => tableOf(run, table)),
    ...(absent.length ? [make("p", { class: "help" }, `Not in this page: ${absent.join(", ")}`)] : []))];
}

function tableOf(run, table) {
  const box = make("details", {}, make("summary", {}, `${table.label} `, make("span", { class: "muted" }, `${counted(table.n, "row")}: ${table.columns.join(", ")}`)));
  box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) box.append(...opened(run, table)); });
  return box;
}

// A column without any entry, as "ood" for numbers on test rows, is left out.
function opened(run, table) {
  const whole = table.rows.length === table.n, shown = table.columns.map((_, i) => i).filter((i) => table.rows.some((row) => row[i]));
  const isNumber = shown.map((i) => table.rows.every((row) => !row[i] || !Number.isNaN(Number(row[i]))));
  const cell = (text, numeric) => make("td", { class: numeric ? "n" : null }, numeric && text ? sixDigits(Number(text)) : text);
  const head = shown.map((i, k) => make("th", { scope: "col", class: isNumber[k] ? "n" : null }, table.columns[i]));
  const body = table.rows.map((row) => make("tr", {}, ...shown.map((i, k) => cell(row[i] ?? "", isNumber[k]))));
  return [
    make("div", { class: "scroll short", tabindex: 0, role: "region", "aria-label": table.label }, make("table", { class: "dense" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body))),
    make("p", { class: "help" }, ...(whole ? [fileOf(run, table), " · "] : [`The first ${table.rows.length} of ${counted(table.n, "row")}; all of them: `]), make("span", { class: "mono" }, `${run.path}/${table.file}`)),
  ];
}

function fileOf(run, table) {
  const quoted = (text) => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const text = [table.columns, ...table.rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  urls.push(url);
  return make("a", { href: url, download: `${run.id}-${table.name}.csv` }, `Save ${table.name}.csv`);
}
