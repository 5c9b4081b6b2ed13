// One run, made when it is opened: numbers, curve, command, figures, config, provenance, warnings.

const dialog = byId("details");
/** @type {HTMLElement | null} */
let openedFrom = null;

/** @type {(run: Run) => void} */
function openRun(run) {
  if (!dialog.open) openedFrom = /** @type {HTMLElement | null} */ (document.activeElement);
  clearDialog();
  dialog.append(runHead(run), make("div", { class: "run-body" }, runParts(run)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.body.classList.add("one-run");
  remember({ run: run.path });
}
function clearDialog() {
  tip.hide();
  document.body.append(byId("tip"));
  dialog.replaceChildren();
  forgetUrls();
}
dialog.addEventListener("close", () => {
  clearDialog();
  document.body.classList.remove("one-run");
  remember();
  openedFrom?.focus();
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

/**
 * @type {(text: string, onclick: (event: { target: HTMLElement }) => void, attributes?: Attributes)
 *   => HTMLButtonElement}
 */
const makeButton = (text, onclick, attributes) =>
  make("button", { type: "button", onclick, ...attributes }, text);

/** @type {(run: Run) => HTMLElement} */
function runHead(run) {
  const at = runsGrid.shown.indexOf(run);
  /** @type {(step: number, text: string, label: string) => HTMLButtonElement} */
  const to = (step, text, label) => {
    const next = at < 0 ? undefined : runsGrid.shown[at + step];
    const open = () => {
      if (next) openRun(next);
      /** @type {HTMLElement | null} */ (dialog.querySelector(`[aria-label="${label}"]`))?.focus();
    };
    return makeButton(text, open, { "aria-label": label, disabled: !next });
  };
  const title = `${run.dataset} → ${run.setting.chain}`;
  return make(
    "div",
    { class: "run-head" },
    make(
      "div",
      {},
      make("h2", { id: "details-title", tabindex: -1, autofocus: true }, title),
      make(
        "p",
        { class: "muted" },
        `method ${marked(run.method)} · seed ${run.repeated} · `,
        make("span", { class: "mono" }, run.path),
      ),
    ),
    make(
      "div",
      { class: "buttons" },
      to(-1, "‹", "previous run of the table"),
      to(1, "›", "next run of the table"),
      makeButton("Close", () => dialog.close()),
    ),
  );
}

/** @type {(title: string, ...children: Child[]) => Child[]} */
const titled = (title, ...children) => [make("h3", {}, title), children];

/** @type {(run: Run) => Child[]} */
function runParts(run) {
  const columns = DATA.columns.filter(
    (column) => measured(run, "calibrated", column) || measured(run, "parent", column),
  );
  const near = columns.filter((column) => column.on !== "ood");
  const far = columns.filter((column) => column.on === "ood");
  const numbers = near.length ? numbersTable(run, near) : help("Nothing was measured there.");
  const warnings = warningsInWords(run).map((text) => make("li", {}, text));
  const all = make("summary", {}, `All ${counted(far.length, "number")} out of distribution`);
  const config = make("pre", { class: "config", tabindex: 0 }, yaml(run.config()));
  const learnt = yaml(run.learnt);
  return [
    make("div", { class: "full" }, titled("Reproduce", commandOf(run))),
    make(
      "div",
      {},
      titled("On test rows", numbers, isAsInPaper(run) && help(paperNote())),
      warnings.length > 0 && titled("Warnings", make("ul", { class: "notes" }, warnings)),
    ),
    make(
      "div",
      {},
      curves(run, far),
      far.length > 0 && make("details", {}, all, numbersTable(run, far)),
    ),
    figuresOf(run),
    tablesOf(run),
    make(
      "div",
      {},
      titled("Provenance", provenance(run)),
      learnt && titled("Learnt", make("pre", {}, learnt)),
    ),
    make("div", {}, titled("Config", config)),
  ];
}

/** @type {(run: Run) => Child[]} */
function commandOf({ made: { git, versions }, command, sweep }) {
  const commit = git?.commit
    ? `at commit ${git.commit.slice(0, 12)}${git.dirty ? " with changes that were not committed" : ""}, `
    : "with ";
  /** @type {(text: string) => HTMLElement} */
  const line = (text) =>
    make(
      "div",
      { class: "command" },
      make("pre", { class: "reproduce" }, text),
      makeButton("Copy", ({ target }) => copy(text, target)),
    );
  return [
    line(command),
    help(
      `This command composes the config below. It was run ${commit}kdgraph ${versions.kdgraph}.`,
    ),
    sweep !== null && [help("All seeds of this setting:"), line(sweep)],
  ];
}
/** @type {(text: string, button: HTMLElement) => Promise<void>} */
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const line = /** @type {Element} */ (button.previousElementSibling);
    getSelection()?.selectAllChildren(line);
    button.textContent = "Press Ctrl+C";
  }
  announce(button.textContent);
}

// Where nothing comes after the parent, both models are the same.
/** @type {(run: Run) => Model[]} */
const modelsOf = (run) => (run.setting.is_parent ? ["parent"] : ["parent", "calibrated"]);
/** @type {(run: Run, model: Model) => string} */
const nameOf = (run, model) =>
  model === "parent" ? run.setting.parts.parent : run.setting.after.join(" + ");

/** @type {(run: Run, columns: Column[]) => HTMLTableElement} */
function numbersTable(run, columns) {
  const models = modelsOf(run);
  /** @type {(column: Column) => HTMLElement} */
  const rowOf = (column) => {
    const better = models.length > 1 && outcomeOf(run, column);
    const cells = models.map((model) => {
      const found = measured(run, model, column);
      const isBest = better === (model === "parent" ? "worse" : "better");
      const cls = classes("n", isBest && "best");
      return make(
        "td",
        { class: cls },
        three(found?.value ?? null),
        withError(found?.stderr ?? null),
      );
    });
    const amounts = ["parent", "calibrated"].map(
      (model) => measured(run, /** @type {Model} */ (model), column)?.n,
    );
    const n = [...new Set(amounts.filter(isPresent))].map(count).join(" | ");
    return make(
      "tr",
      { "data-tip": numberTip(run, column) },
      make("th", { scope: "row", tabindex: 0 }, column.label),
      cells,
      make("td", { class: "n quiet" }, n),
    );
  };
  const names = [...models.map((model) => nameOf(run, model)), "rows"];
  const heads = names.map((name) => make("th", { scope: "col", class: "n" }, name));
  const caption = "value ± standard error over rows, of the parent and of the calibrated model";
  return makeTable({}, [make("td"), heads], columns.map(rowOf), caption);
}

// Confidence and AUROC along each family of out-of-distribution sets that has one parameter and
// more than two values of it.
/** @type {(run: Run, columns: Column[]) => Child[]} */
function curves(run, columns) {
  const along = columns.filter(
    ({ metric, params }) => ["mmc", "auroc"].includes(metric) && Object.keys(params).length === 1,
  );
  const families = grouped(along, ({ metric, short, ood, params }) => {
    const name = metric === "mmc" ? "Confidence" : short;
    return `${name} along ${ood}, ${Object.keys(params)[0]}`;
  });
  return [...families]
    .filter(([, family]) => family.length > 2)
    .map(([name, family]) => titled(name, curve(run, family)));
}
/** @type {(run: Run, family: Column[]) => SVGElement} */
function curve(run, family) {
  const key = Object.keys(family[0].params)[0];
  const points = family
    .map((column) => ({ column, at: column.params[key] }))
    .sort((a, b) => a.at - b.at);
  const [width, height, left, right, top, bottom] = [520, 210, 40, 402, 10, 176];
  const first = points[0].at;
  const span = points[points.length - 1].at - first || 1;
  /** @type {(value: number) => number} */
  const x = (value) => left + ((right - left) * (value - first)) / span;
  /** @type {(value: number) => number} */
  const y = (value) => top + (bottom - top) * (1 - value);
  const words = `${family[0].short} of parent and calibrated model by ${key}; the numbers are in the table`;
  const drawn = picture(words, width, height, { width: "100%" });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    drawn.append(
      tick(
        stroke("grid", [left, right], [y(value), y(value)]),
        label(String(value), left - 6, y(value) + 4, "end"),
      ),
    );
  }
  const every = points.length > 9 ? Math.ceil(points.length / 7) : 1;
  const marks = points.filter((_, i) => i % every === 0);
  drawn.append(
    tick(
      marks.map(({ at }) => label(String(at), x(at), bottom + 16)),
      label(key, (left + right) / 2, height - 3),
    ),
  );
  const isConfidence = family[0].metric === "mmc";
  const level = isConfidence ? run.prior : 0.5;
  const labels = [];
  if (level !== null) {
    drawn.append(stroke("prior", [left, right], [y(level), y(level)]));
    labels.push({ text: isConfidence ? "largest prior" : "chance", at: y(level) });
  }
  for (const of of modelsOf(run)) {
    const line = points.flatMap(({ column, at }) => {
      const value = numberOf(run, of, column);
      return value === null ? [] : [{ x: x(at), y: y(value), tip: numberTip(run, column) }];
    });
    const d = line.map((point, i) => `${i ? "L" : "M"}${point.x},${point.y}`).join("");
    drawn.append(draw("path", { class: `line ${of}`, d }), ...line.map((one) => marker(of, one)));
    const last = line[line.length - 1];
    if (last) labels.push({ text: nameOf(run, of), at: last.y });
  }
  for (const { text, at } of spread(labels, 13, bottom))
    drawn.append(label(shortened(text, 108), right + 8, at + 4, "start", "quiet"));
  return drawn;
}
/** @type {(of: Model, point: { x: number, y: number, tip: string }) => SVGElement} */
function marker(of, { x, y, tip }) {
  const attributes = { class: `point ${of}`, "data-tip": tip };
  return of === "parent"
    ? draw("rect", { ...attributes, x: x - 3, y: y - 3, width: 6, height: 6 })
    : draw("circle", { ...attributes, cx: x, cy: y, r: 3.4 });
}

/** @type {(run: Run) => HTMLElement} */
function provenance(run) {
  const { facts, memory, setting, stages } = run;
  const { git, host, versions } = run.made;
  const source = Object.entries(facts.source ?? {}).map(
    ([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`,
  );
  const time = stages.map(
    (stage, i) =>
      `${stage} ${run.seconds[i]} s${run.stored.includes(stage) ? " (from the store)" : ""}`,
  );
  const prior = (facts.prior ?? []).map((share, i) => `${facts.classes[i]} ${three(share)}`);
  const categorical = facts.n_categorical ? `, ${facts.n_categorical} of them categorical` : "";
  const rows = {
    ...Object.fromEntries(Object.entries(setting.parts).filter(([, name]) => name !== "none")),
    protocol: isAsInPaper(run) && `paper: ${paperNote().replace(/^†\s*/, "")}`,
    "data set": joined(
      "; ",
      `${facts.name}: ${rowsInWords(facts)}`,
      featuresInWords(facts) + categorical,
      classesInWords(facts),
      isPresent(facts.missing_fraction) &&
        facts.missing_fraction > 0 &&
        `${(100 * facts.missing_fraction).toFixed(1)} % of the training values missing`,
    ),
    prior: firstOf(prior, 12, ", ", " "),
    source: source.join(", "),
    fingerprint: run.fingerprint,
    "other sets": run.sets.map(({ name, n }) => `${name} (${count(n)} rows)`).join(", "),
    time: time.join(", "),
    memory: memory.length > 0 && `${count(Math.max(...memory))} MB at most`,
    commit: git
      ? `${git.commit ?? "unknown"}${git.dirty ? ", with changes that were not committed" : ""}`
      : "an installed package",
    versions: Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", "),
    experiment: run.experiment,
    machine: host && `${host.name}, ${host.system}, ${host.cpus} CPUs`,
  };
  return make(
    "dl",
    { class: "facts" },
    Object.entries(rows).map(
      ([name, value]) => value && [make("dt", {}, name), make("dd", {}, value)],
    ),
  );
}
