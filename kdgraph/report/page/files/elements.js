// Elements are made from text only, never from markup: a name may hold anything.

/**
 * @typedef {"metric" | "numbers-by-dataset" | "numbers-of" | "of-dataset" | "of-method" | "of-seed"
 *   | "task" | "theme"} SelectId
 */
/** @typedef {"datasets-table" | "methods-table" | "runs-table"} TableId */
/**
 * @template {string} Id
 * @typedef {Id extends SelectId ? HTMLSelectElement : Id extends TableId ? HTMLTableElement
 *   : Id extends "find" ? HTMLInputElement : Id extends "runs-form" ? HTMLFormElement
 *   : Id extends "methods-notes" ? HTMLDetailsElement
 *   : Id extends "details" ? HTMLDialogElement : HTMLElement} ElementOf
 */
/** @type {<const Id extends string>(id: Id) => ElementOf<Id>} */
const byId = (id) => /** @type {any} */ (document.getElementById(id));
/** @type {(event: Event) => HTMLElement} */
const targetOf = (event) => /** @type {HTMLElement} */ (event.target);
// JSON of an element of the page; null where the page has none of that name.
/** @type {(id: string) => any} */
const jsonOf = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");

/** @typedef {string | Node | false | null | undefined | Child[]} Child */
/** @typedef {string | number | boolean | null | undefined | ((event: any) => void)} Attribute */
/** @typedef {Record<string, Attribute>} Attributes */

/** @type {<T extends Element>(node: T, attributes: Attributes, children: Child[]) => T} */
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (isPresent(value) && value !== false)
      node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (Array.isArray(child)) fill(node, {}, child);
    else if (child) node.append(child);
  }
  return node;
}
/**
 * @type {<K extends keyof HTMLElementTagNameMap>(tag: K, attributes?: Attributes, ...children:
 *   Child[]) => HTMLElementTagNameMap[K]}
 */
const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
/**
 * @type {<K extends keyof SVGElementTagNameMap>(tag: K, attributes?: Attributes, ...children:
 *   Child[]) => SVGElementTagNameMap[K]}
 */
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/**
 * @type {(attributes: Attributes, head: Child, rows: Child, caption?: string) => HTMLTableElement}
 */
const makeTable = (attributes, head, rows, caption) =>
  make(
    "table",
    attributes,
    caption && make("caption", { class: "visually-hidden" }, caption),
    make("thead", {}, make("tr", {}, head)),
    make("tbody", {}, rows),
  );
/** @type {(text: string) => HTMLParagraphElement} */
const help = (text) => make("p", { class: "help" }, text);
/** @type {(text: string) => Child[]} */
const breakable = (text) => breaks(text).map((part, i) => [i > 0 && make("wbr"), part]);
/** @type {(id: SelectId, values: readonly string[], all: string) => void} */
function addOptions(id, values, all) {
  byId(id).append(
    make("option", { value: "" }, all),
    ...values.map((value) => make("option", { value }, value)),
  );
}

/** @type {(text: string) => void} */
function announce(text) {
  byId("live").textContent = text;
}

/** @type {(action: () => void, milliseconds?: number) => () => void} */
function debounced(action, milliseconds = 120) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}

// One tooltip for the whole page: shown on hover and on focus, gone with Escape.
const tip = {
  of: /** @type {Element | null} */ (null),
  /** @type {(target: Element, text: string) => void} */
  show(target, text) {
    tip.hide();
    if (!text) return;
    const box = byId("tip");
    const [title, ...rest] = text.split("\n");
    box.replaceChildren(make("b", {}, title), rest.join("\n"));
    (target.closest("dialog") ?? document.body).append(box);
    box.hidden = false;
    box.style.left = "0"; // where it was, it might have been squeezed
    box.style.top = "0";
    tip.of = target;
    target.setAttribute("aria-describedby", "tip");
    const at = target.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = box;
    const screen = document.documentElement;
    const furthest = screen.clientWidth - width - 6; // beside the scroll bar
    const left = Math.max(6, Math.min(at.left + at.width / 2 - width / 2, furthest));
    const below = at.bottom + 5 + height < screen.clientHeight || at.top < height + 10;
    box.style.left = `${left}px`;
    box.style.top = `${below ? at.bottom + 5 : at.top - height - 5}px`;
  },
  hide() {
    tip.of?.removeAttribute("aria-describedby");
    tip.of = null;
    byId("tip").hidden = true;
  },
};
/** @type {(event: Event) => void} */
function explain(event) {
  const cell = targetOf(event).closest?.("th, td, [data-tip]");
  if (!cell || cell === tip.of) return;
  const own = /** @type {HTMLElement | null} */ (cell.closest("[data-tip]"))?.dataset.tip;
  const table = /** @type {GridTable | null} */ (cell.closest("table"));
  tip.show(cell, own ?? table?.grid?.explanation(/** @type {HTMLTableCellElement} */ (cell)) ?? "");
}
// A pointer that rests while the page moves below it shows nothing, and leaves the focus.
const pointer = { x: -1, y: -1 };
addEventListener("mouseover", (event) => {
  const rests = event.screenX === pointer.x && event.screenY === pointer.y;
  Object.assign(pointer, { x: event.screenX, y: event.screenY });
  if (!rests) explain(event);
});
addEventListener("mouseout", (event) => {
  const of = tip.of;
  const from = targetOf(event);
  const to = /** @type {Element | null} */ (event.relatedTarget);
  if (!of || of === document.activeElement) return;
  const leaves = of.contains(from) || from.closest?.("#tip");
  if (leaves && !of.contains(to) && !to?.closest?.("#tip")) tip.hide();
});
addEventListener("focusin", (event) =>
  targetOf(event).matches(":focus-visible") ? explain(event) : tip.hide(),
);
addEventListener(
  "scroll",
  () => {
    if (!tip.of?.contains(document.activeElement)) tip.hide();
  },
  true,
);
addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "Escape" || !tip.of) return;
    tip.hide();
    event.stopPropagation();
    event.preventDefault();
  },
  true,
);
