// Parts of drawings: lines, labels, scales.

/**
 * @type {(label: string, width: number, height: number, attributes?: Attributes) => SVGSVGElement}
 */
const picture = (label, width, height, attributes = { width, height }) =>
  draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
    ...attributes,
  });
/** @type {(cls: string, x: [number, number], y: [number, number]) => SVGLineElement} */
const stroke = (cls, [x1, x2], [y1, y2]) => draw("line", { class: cls, x1, x2, y1, y2 });
/**
 * @type {(text: string, x: number, y: number, anchor?: "start" | "middle" | "end", cls?: string) =>
 *   SVGTextElement}
 */
const label = (text, x, y, anchor = "middle", cls = "") =>
  draw(
    "text",
    { class: cls || null, x, y, "text-anchor": anchor === "start" ? null : anchor },
    text,
  );
/** @type {(...children: Child[]) => SVGGElement} */
const tick = (...children) => draw("g", { class: "tick" }, children);

/** @type {CanvasRenderingContext2D | null} */
let pen = null;
// With its middle left out if it is wider than so many pixels: names of methods differ at both
// ends.
/** @type {(text: string, width: number, bold?: boolean) => string} */
function shortened(text, width, bold = false) {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return text;
  pen.font = `${bold ? 700 : 400} 12px ${getComputedStyle(document.body).fontFamily}`;
  let keep = text.length;
  let short = text;
  while (keep > 2 && pen.measureText(short).width > width) {
    keep -= 1;
    short = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  return short;
}

// The next round number, for the end of an axis.
/** @type {(value: number) => number} */
function niceReach(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 1.5, 2, 3, 4, 5, 6, 8].map((step) => step * power);
  return steps.find((step) => step >= value * (1 - 1e-9)) ?? 10 * power;
}

// Labels moved down as far as they would overlap, and back up from the bottom.
/** @type {<T extends { at: number }>(labels: T[], gap: number, lowest: number) => T[]} */
function spread(labels, gap, lowest) {
  const sorted = labels.map((one) => ({ ...one })).sort((a, b) => a.at - b.at);
  sorted.forEach((one, i) => {
    if (i) one.at = Math.max(one.at, sorted[i - 1].at + gap);
  });
  [...sorted].reverse().forEach((one, i, from) => {
    one.at = Math.min(one.at, i ? from[i - 1].at - gap : lowest);
  });
  return sorted;
}
