// Functions of the page's scripts that need no browser, and the content of a page that Python wrote.

import { readFileSync } from "node:fs";

const FILES = new URL("../../../kdgraph/report/page/files/", import.meta.url);

const source = ["text", "data", "tips", "search", "grid", "drawings"]
  .map((name) => readFileSync(new URL(`${name}.js`, FILES), "utf-8"))
  .join("\n");

export const load = (...names) => new Function(`"use strict"; ${source}; return { ${names} };`)();

export const content = () => JSON.parse(readFileSync(process.env.KDGRAPH_PAGE_CONTENT, "utf-8"));
