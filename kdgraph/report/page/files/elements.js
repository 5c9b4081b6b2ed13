"use strict";
// Elements are made from text only, never from markup: a name may hold anything.

const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Numbers as tables have them, and as far as they are known here.
const MISSING = "–";
const minus = (text) => text.replaceAll("-", "−");
// Three decimals while they show the number, else significant digits, as kdgraph.wording.significant has them.
function three(value) {
  if (value === null) return MISSING;
  const size = Math.abs(value);
  if (size === 0 || (size >= 0.01 && size < 1e4)) return minus(value.toFixed(3));
  if (size >= 1e4 && size < 1e15) return minus(Math.round(value).toLocaleString("en"));
  return minus(size >= 1e-4 && size < 0.01 ? value.toFixed(2 - Math.floor(Math.log10(size))) : value.toExponential(2));
}
const known = (value) => value === null ? MISSING : minus(String(value));
const threeDigits = (value) => value === null ? MISSING : minus(value.toPrecision(3));
const sixDigits = (value) => value === null ? MISSING : minus(String(Number(value.toPrecision(6))));
function signed(value) {
  if (value === null) return MISSING;
  return (value > 0 ? "+" : "") + three(value);
}
const count = (n) => n.toLocaleString("en");
const counted = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? `${one}s`}`;
const breakable = (text) => text.split(/(?<=[_\-=/])|(?<=\.)(?!\d)/).flatMap((part, i) => i ? [make("wbr"), part] : [part]);

function say(text) {
  byId("live").textContent = text;
}

function debounced(action, milliseconds = 120) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(action, milliseconds); };
}

// One tooltip for the whole page: shown on hover and on focus, gone with Escape.
const tip = {
  of: null,
  show(target, text) {
    if (!text) return tip.hide();
    tip.hide();
    const box = byId("tip"), [title, ...rest] = text.split("\n");
    box.replaceChildren(make("b", {}, title), rest.join("\n"));
    (target.closest("dialog") ?? document.body).append(box);
    box.hidden = false;
    box.style.left = box.style.top = "0"; // where it was, it might have been squeezed
    tip.of = target;
    target.setAttribute("aria-describedby", "tip");
    const at = target.getBoundingClientRect(), width = box.offsetWidth, height = box.offsetHeight, screen = document.documentElement;
    const left = Math.max(6, Math.min(at.left + at.width / 2 - width / 2, screen.clientWidth - width - 6)); // beside the scroll bar
    const below = at.bottom + 5 + height < screen.clientHeight || at.top < height + 10;
    box.style.left = `${left}px`;
    box.style.top = `${below ? at.bottom + 5 : at.top - height - 5}px`;
  },
  hide() {
    if (!tip.of) return;
    tip.of.removeAttribute("aria-describedby");
    tip.of = null;
    byId("tip").hidden = true;
  },
};
function explain(event) {
  const cell = event.target.closest?.("th, td, [data-tip]");
  if (!cell || cell === tip.of) return;
  const grid = cell.closest("table")?.grid;
  tip.show(cell, cell.closest("[data-tip]")?.dataset.tip ?? grid?.explanation(cell) ?? "");
}
// A pointer that rests while the page moves below it shows nothing, and leaves the focus.
const pointer = { x: null, y: null };
addEventListener("mouseover", (event) => {
  const rests = event.screenX === pointer.x && event.screenY === pointer.y;
  Object.assign(pointer, { x: event.screenX, y: event.screenY });
  if (!rests) explain(event);
});
addEventListener("mouseout", (event) => {
  const leaves = tip.of?.contains(event.target) || event.target.closest?.("#tip"), to = event.relatedTarget;
  if (leaves && tip.of !== document.activeElement && !tip.of.contains(to) && !to?.closest?.("#tip")) tip.hide();
});
addEventListener("focusin", (event) => event.target.matches(":focus-visible") ? explain(event) : tip.hide());
addEventListener("scroll", (event) => { if (!tip.of?.contains(document.activeElement)) tip.hide(); }, true);
addEventListener("keydown", (event) => { if (event.key === "Escape" && tip.of) { tip.hide(); event.stopPropagation(); event.preventDefault(); } }, true);
