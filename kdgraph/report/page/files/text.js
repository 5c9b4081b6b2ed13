// Numbers and other values as text.

/** @typedef {(value: number | null) => string} NumberFormat */

const MISSING = "–";
/** @type {(text: string) => string} */
const minus = (text) => text.replaceAll("-", "−");
/** @type {(show: (value: number) => string) => NumberFormat} */
const format = (show) => (value) => (value === null ? MISSING : minus(show(value)));

// Three decimals while they show the number, else significant digits, as
// kdgraph.wording.significant has them.
const three = format((value) => {
  const size = Math.abs(value);
  if (size === 0 || (size >= 0.01 && size < 1e4)) return value.toFixed(3);
  if (size >= 1e4 && size < 1e15) return Math.round(value).toLocaleString("en");
  return size >= 1e-4 && size < 0.01
    ? value.toFixed(2 - Math.floor(Math.log10(size)))
    : value.toExponential(2);
});
const known = format(String);
const threeDigits = format((value) => value.toPrecision(3));
/** @type {(digits: number) => NumberFormat} */
const significant = (digits) => format((value) => String(Number(value.toPrecision(digits))));
const sixDigits = significant(6);
/** @type {(value: number | null, show?: NumberFormat) => string} */
const signed = (value, show = three) => (value !== null && value > 0 ? "+" : "") + show(value);

/** @type {(n: number) => string} */
const count = (n) => n.toLocaleString("en");
/** @type {(n: number, one: string, many?: string) => string} */
const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
/** @type {(p: number) => string} */
const shortP = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);

/** @typedef {(string | false | null | undefined)[]} Texts */
/** @type {(separator: string, ...texts: Texts) => string} */
const joined = (separator, ...texts) => texts.filter(Boolean).join(separator);
/** @type {(...texts: Texts) => string} */
const lines = (...texts) => joined("\n", ...texts);
/** @type {(...names: Texts) => string} */
const classes = (...names) => joined(" ", ...names);
/** @type {<T>(values: readonly T[], most: number, separator: string, gap: string) => string} */
const firstOf = (values, most, separator, gap) =>
  values.slice(0, most).join(separator) + (values.length > most ? `${gap}…` : "");

// Parts of a name between which a line may break: never within a number.
/** @type {(text: string) => string[]} */
const breaks = (text) => text.split(/(?<=[_\-=/])|(?<=\.)(?!\d)/);

/** @type {(rows: string[][]) => string} */
function csv(rows) {
  /** @type {(text: string) => string} */
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

// YAML of plain values: mappings indented, lists in one line, text quoted where it could be taken
// for something else.
/** @type {(value: object, indent?: string) => string} */
function yaml(value, indent = "") {
  return Object.entries(value)
    .map(([key, inner]) =>
      isMapping(inner) && Object.keys(inner).length
        ? `${indent}${key}:\n${yaml(inner, `${indent}  `)}`
        : `${indent}${key}: ${flow(inner)}`,
    )
    .join("\n");
}
/** @param {unknown} value @returns {value is object} */
function isMapping(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
/** @type {(value: unknown) => string} */
function flow(value) {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (isMapping(value)) {
    const entries = Object.entries(value).map(([key, inner]) => `${key}: ${flow(inner)}`);
    return `{${entries.join(", ")}}`;
  }
  const isPlain =
    typeof value !== "string" ||
    (/^[A-Za-z_][\w./-]*$/.test(value) && !/^(null|true|false|yes|no|on|off)$/i.test(value));
  return isPlain ? String(value) : JSON.stringify(value);
}
