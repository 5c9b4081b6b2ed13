// A table that sorts, and in which the arrow keys move: the grid pattern of WAI-ARIA. One cell of
// its body takes part in tabbing.

/**
 * @template T row
 * @typedef {object} GridColumn
 * @property {string} key
 * @property {string} name
 * @property {string} [detail] below the name, small
 * @property {string} [title] name in its explanation, where that is longer
 * @property {string} [about] explanation
 * @property {boolean} [n] numeric
 * @property {boolean} [descending] sorted so first
 * @property {string} [method] of which a cell opens the runs
 * @property {(row: T) => string | number | null} value
 * @property {(row: T) => Child} [text] by default the value
 * @property {(row: T) => string} [cls]
 * @property {(row: T) => string} [tip]
 */
/** @typedef {{ key: string, descending: boolean } | null} Order */
/** @typedef {HTMLTableElement & { grid?: Grid<any> }} GridTable */

// Column of a whole number of each row.
/**
 * @type {<T>(key: string, name: string, about: string, numberOf: (row: T) => number) =>
 *   GridColumn<T>}
 */
const countColumn = (key, name, about, numberOf) => ({
  key,
  name,
  about,
  n: true,
  value: numberOf,
  text: (row) => count(numberOf(row)),
});

const collator = new Intl.Collator("en", { numeric: true });

// Rows without a value come last in both directions; equal ones stay as they were.
/** @type {<T>(rows: T[], columns: GridColumn<T>[], order: Order) => T[]} */
function sortedRows(rows, columns, order) {
  const column = columns.find((one) => one.key === order?.key);
  if (!column) return rows;
  const sign = order?.descending ? -1 : 1;
  /** @type {(a: any, b: any) => number} */
  const compare = column.n ? (a, b) => a - b : collator.compare;
  return rows
    .map((row) => ({ row, value: column.value(row) }))
    .sort(({ value: a }, { value: b }) =>
      a === null || b === null ? Number(a === null) - Number(b === null) : sign * compare(a, b),
    )
    .map(({ row }) => row);
}

// Line and column to which a key leads; line -1 is the head. Null for other keys.
/**
 * @type {(key: string, control: boolean, line: number, column: number, lines: number) => [number,
 *   number] | null}
 */
function destination(key, control, line, column, lines) {
  const far = control ? lines : 10;
  switch (key) {
    case "ArrowDown":
      return [line + 1, column];
    case "ArrowUp":
      return [line - 1, column];
    case "ArrowRight":
      return [line, column + 1];
    case "ArrowLeft":
      return [line, column - 1];
    case "PageDown":
      return [line + far, column];
    case "PageUp":
      return [Math.max(0, line - far), column];
    case "Home":
      return [control ? 0 : line, 0];
    case "End":
      return [control ? lines - 1 : line, Infinity];
    default:
      return null;
  }
}

/** @template T row */
class Grid {
  /** @type {GridColumn<T>[]} */
  columns = [];
  /** @type {T[]} */
  rows = [];
  /** @type {T[]} */
  shown = [];
  /** @type {Order} */
  order = null;
  /** @type {HTMLTableCellElement[]} */
  head = [];
  /** @type {HTMLElement | null} */
  active = null;
  body = make("tbody");
  /** @type {Map<T, HTMLTableRowElement>} */
  lines = new Map();
  /** @type {WeakMap<Element, T>} */
  rowOfLine = new WeakMap();

  /**
   * @param {GridTable} table
   * @param {(row: T, column: GridColumn<T>) => void} [open]
   * @param {number} [limit]
   */
  constructor(table, open, limit = Infinity) {
    this.table = table;
    this.open = open;
    this.limit = limit;
    table.grid = this;
    table.setAttribute("role", "grid");
    table.addEventListener("keydown", (event) => this.move(event));
    table.addEventListener("click", (event) => {
      const cell = targetOf(event).closest("tbody > tr > *");
      if (cell && !getSelection()?.toString()) this.openCell(cell);
    });
    table.addEventListener("focusin", (event) => {
      const cell = targetOf(event);
      if (cell.matches("tbody > tr > *")) this.activate(cell);
    });
  }

  /** @param {GridColumn<T>[]} columns @param {HTMLTableRowElement | null} [foot] */
  setColumns(columns, foot) {
    this.columns = columns;
    this.lines.clear();
    this.head = columns.map((column) => {
      const button = make(
        "button",
        { type: "button", onclick: () => this.sortBy(column) },
        make("span", { class: "name" }, breakable(column.name)),
        column.detail && make("small", {}, breakable(column.detail)),
      );
      const name = lines(column.name, column.detail);
      return make("th", { scope: "col", class: column.n && "n", "data-name": name }, button);
    });
    this.body = make("tbody");
    this.table.replaceChildren(make("thead", {}, make("tr", {}, this.head)), this.body);
    if (foot) this.table.append(make("tfoot", {}, foot));
    this.table.setAttribute("aria-colcount", String(columns.length));
    this.mark();
  }

  /** @param {T[]} rows */
  setRows(rows) {
    this.rows = rows;
    this.render();
  }

  /** @param {GridColumn<T>} column */
  sortBy(column) {
    const again = this.order?.key === column.key;
    const descending = again ? !this.order?.descending : Boolean(column.descending);
    this.order = { key: column.key, descending };
    this.render();
    const name = joined(" ", column.name, column.detail);
    announce(`sorted by ${name}, ${descending ? "descending" : "ascending"}`);
  }

  render() {
    this.shown = sortedRows(this.rows, this.columns, this.order).slice(0, this.limit);
    this.body.replaceChildren(...this.shown.map((row) => this.line(row)));
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.mark();
    const first = this.body.rows[0]?.cells[0];
    if (first) this.activate(first);
  }

  mark() {
    const direction = this.order?.descending ? "descending" : "ascending";
    this.columns.forEach((column, i) => {
      this.head[i].setAttribute("aria-sort", column.key === this.order?.key ? direction : "none");
    });
  }

  /** @param {T} row */
  line(row) {
    const made = this.lines.get(row);
    if (made) return made;
    const cells = this.columns.map((column, i) => {
      const text = column.text ? column.text(row) : String(column.value(row));
      const cls = classes(column.n && "n", column.cls?.(row)) || null;
      const attributes = { scope: i === 0 && "row", tabindex: -1, class: cls };
      return make(i ? "td" : "th", attributes, text);
    });
    const cls = /** @type {{ cls?: string | null }} */ (row).cls;
    const line = make("tr", { class: cls }, cells);
    this.lines.set(row, line);
    this.rowOfLine.set(line, row);
    return line;
  }

  /** @param {Element} cell */
  rowOf(cell) {
    return /** @type {T} */ (this.rowOfLine.get(/** @type {Element} */ (cell.parentElement)));
  }
  /** @param {Element} cell */
  columnOf(cell) {
    return this.columns[/** @type {HTMLTableCellElement} */ (cell).cellIndex];
  }
  /** @param {Element} cell */
  explanation(cell) {
    const column = this.columnOf(cell);
    if (cell.closest("thead")) return lines(column.title ?? column.name, column.about);
    return cell.closest("tbody") ? column.tip?.(this.rowOf(cell)) : null;
  }
  /** @param {Element} cell */
  openCell(cell) {
    this.open?.(this.rowOf(cell), this.columnOf(cell));
  }

  /** @param {HTMLElement} cell */
  activate(cell) {
    if (this.active) this.active.tabIndex = -1;
    this.active = cell;
    cell.tabIndex = 0;
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const cell = /** @type {HTMLTableCellElement | null} */ (targetOf(event).closest("th, td"));
    if (!cell || event.altKey || event.metaKey) return;
    const inHead = Boolean(cell.closest("thead"));
    if (["Enter", " "].includes(event.key) && !inHead && this.open) {
      event.preventDefault();
      this.openCell(cell);
      return;
    }
    const rows = this.body.rows;
    const from = inHead
      ? -1
      : /** @type {HTMLTableRowElement} */ (cell.parentElement).sectionRowIndex;
    const to = destination(event.key, event.ctrlKey, from, cell.cellIndex, rows.length);
    if (!to) return;
    event.preventDefault();
    const line = Math.min(to[0], rows.length - 1);
    const column = Math.max(0, Math.min(to[1], this.columns.length - 1));
    const next = line < 0 ? this.head[column] : rows[line].cells[column];
    const focused = line < 0 ? /** @type {HTMLElement} */ (next.firstChild) : next;
    focused.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// Columns for a measure: what all of them have.
/** @param {Column} column */
const ofMeasure = (column) => ({
  name: column.short,
  detail: column.detail,
  title: column.label,
  about: lines(column.about, convention(column)),
  n: true,
  descending: column.ideal === "higher",
});
