// A table that sorts, and in which the arrow keys move: the grid pattern of WAI-ARIA. One cell of its body takes part in tabbing.
//
// A column: key, name, detail (small, below it), about (what it is), n (numeric), value(row), text(row) → text or nodes, tip(row), cls(row).

class Grid {
  constructor(table, { open = null, limit = Infinity, sorted = null } = {}) {
    Object.assign(this, { table, open, limit, columns: [], rows: [], shown: [], order: sorted, lines: new WeakMap() });
    table.grid = this;
    table.setAttribute("role", "grid");
    table.addEventListener("keydown", (event) => this.move(event));
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("tbody > tr > *");
      if (cell && this.open && !getSelection().toString()) this.open(this.rowOf(cell), this.columnOf(cell));
    });
    table.addEventListener("focusin", (event) => { if (event.target.matches("tbody > tr > *")) this.activate(event.target); });
  }

  setColumns(columns, foot = null) {
    this.columns = columns;
    this.lines = new WeakMap();
    this.head = columns.map((column) => {
      const button = make("button", { type: "button", onclick: () => this.sortBy(column) },
        make("span", { class: "name" }, ...breakable(column.name)), column.detail ? make("small", {}, ...breakable(column.detail)) : null);
      return make("th", { scope: "col", class: column.n ? "n" : null, "data-name": [column.name, ...(column.detail ? [column.detail] : [])].join("\n") }, button);
    });
    this.body = make("tbody");
    this.foot = foot ? make("tfoot", {}, foot) : null;
    this.table.replaceChildren(make("thead", {}, make("tr", {}, ...this.head)), this.body, ...(this.foot ? [this.foot] : []));
    this.table.setAttribute("aria-colcount", columns.length);
    this.mark();
  }

  setRows(rows) {
    this.rows = rows;
    this.render();
  }

  sortBy(column) {
    const again = this.order?.key === column.key;
    const descending = again ? !this.order.descending : column.first === "descending";
    this.order = { key: column.key, descending };
    this.render();
    say(`sorted by ${column.name}${column.detail ? ` ${column.detail}` : ""}, ${descending ? "descending" : "ascending"}`);
  }

  // Rows without a value come last in both directions; equal ones stay as they were.
  sorted() {
    const column = this.columns.find((one) => one.key === this.order?.key);
    if (!column) return this.rows;
    const keyed = this.rows.map((row) => [column.value(row), row]), sign = this.order.descending ? -1 : 1;
    const compare = column.n ? (a, b) => a - b : new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b));
    return keyed.map(([, row]) => row);
  }

  render() {
    this.shown = this.sorted().slice(0, this.limit);
    this.body.replaceChildren(...this.shown.map((row) => this.line(row)));
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.mark();
    const first = this.body.rows[0]?.cells[0];
    if (first) this.activate(first);
  }

  mark() {
    this.columns.forEach((column, i) => {
      const sorted = column.key === this.order?.key;
      this.head[i].setAttribute("aria-sort", sorted ? (this.order.descending ? "descending" : "ascending") : "none");
    });
  }

  line(row) {
    let line = this.lines.get(row);
    if (!line) {
      line = document.createElement("tr");
      if (row.cls) line.className = row.cls;
      this.columns.forEach((column, i) => {
        const cell = document.createElement(i ? "td" : "th"), text = column.text(row);
        if (!i) cell.scope = "row";
        cell.tabIndex = -1;
        const cls = [column.n ? "n" : "", column.cls?.(row) ?? ""].join(" ").trim();
        if (cls) cell.className = cls;
        if (Array.isArray(text)) cell.append(...text); else cell.textContent = text;
        line.append(cell);
      });
      line.row = row;
      this.lines.set(row, line);
    }
    return line;
  }

  rowOf(cell) { return cell.parentElement.row; }
  columnOf(cell) { return this.columns[cell.cellIndex]; }
  explanation(cell) {
    const column = this.columnOf(cell);
    if (cell.closest("thead")) return column.about;
    return cell.closest("tbody") ? column.tip?.(this.rowOf(cell)) : null;
  }

  activate(cell) {
    if (this.active) this.active.tabIndex = -1;
    this.active = cell;
    cell.tabIndex = 0;
  }

  move(event) {
    const cell = event.target.closest("th, td");
    if (!cell || event.altKey || event.metaKey) return;
    const inHead = Boolean(cell.closest("thead")), lines = this.body.rows, last = this.columns.length - 1;
    let line = inHead ? -1 : cell.parentElement.sectionRowIndex, column = cell.cellIndex;
    const far = event.ctrlKey ? lines.length : 10;
    if (event.key === "ArrowDown") line += 1;
    else if (event.key === "ArrowUp") line -= 1;
    else if (event.key === "ArrowRight") column += 1;
    else if (event.key === "ArrowLeft") column -= 1;
    else if (event.key === "PageDown") line += far;
    else if (event.key === "PageUp") line = Math.max(0, line - far);
    else if (event.key === "Home") [column, line] = [0, event.ctrlKey ? 0 : line];
    else if (event.key === "End") [column, line] = [last, event.ctrlKey ? lines.length - 1 : line];
    else if ((event.key === "Enter" || event.key === " ") && !inHead && this.open) {
      event.preventDefault();
      return this.open(this.rowOf(cell), this.columnOf(cell));
    } else return;
    event.preventDefault();
    line = Math.min(line, lines.length - 1);
    column = Math.max(0, Math.min(column, last));
    const next = line < 0 ? this.head[column].firstChild : lines[line].cells[column];
    next.focus({ preventScroll: true });
    (line < 0 ? this.head[column] : next).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
