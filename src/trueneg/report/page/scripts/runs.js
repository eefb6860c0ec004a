// The list of all runs. Only the rows in sight are elements: sorting and filtering thousands of runs stays instant.

const COLUMNS = [
  { key: "run", name: "run", text: (run) => run.run },
  { key: "study", name: "study", text: (run) => run.study || "–" },
  { key: "dataset", name: "data set", text: (run) => run.dataset ?? "–" },
  { key: "objective", name: "objective", text: (run) => run.objective ?? "–" },
  { key: "seed", name: "seed", number: true, text: (run) => run.seed ?? "–" },
  { key: "state", name: "state", text: (run) => run.state },
  { key: "value", name: "primary", number: true, text: (run) => fixed(run.value), title: "the study's primary measurement on the test split" },
  { key: "seconds", name: "time (s)", number: true, text: (run) => run.seconds?.toFixed(1) ?? "–" },
  { key: "device", name: "device", text: (run) => run.device || "–" },
  { key: "finished", name: "finished", text: (run) => run.finished?.slice(0, 16) ?? "–" },
];
const FILTERS = ["study", "dataset", "objective", "seed", "state"];
const ROW = 34; // pixels, as the style sheet has it
const AROUND = 12; // rows beyond the edge of what is in sight, so that Tab finds the next

const list = { shown: [], sort: "study", descending: false, selected: new Set(), drawn: new Map(), only: null };
const collator = new Intl.Collator("en", { numeric: true });

function startRuns() {
  const table = byId("page:run-table");
  table.tHead.rows[0].replaceChildren(
    element("th", { scope: "col", class: "pick" }, element("span", { class: "visually-hidden" }, "selected")),
    ...COLUMNS.map((column) =>
      element("th", { scope: "col", class: `c-${column.key}${column.number ? " c-number" : ""}`, "data-key": column.key, title: column.title }, element("button", { type: "button", onclick: () => sortBy(column.key) }, column.name)),
    ),
  );
  for (const name of FILTERS) {
    const values = distinct(allRuns().map((run) => run[name] ?? "")).sort(collator.compare);
    options(byId(`page:filter-${name}`), values.filter((value) => value !== ""), "all");
  }
  byId("page:run-filters").addEventListener("input", () => {
    list.only = null;
    applyFilters();
  });
  byId("page:run-filters").addEventListener("submit", (event) => event.preventDefault());
  byId("page:run-scroll").addEventListener("scroll", drawRows, { passive: true });
  new ResizeObserver(drawRows).observe(byId("page:run-scroll"));
  byId("page:select-shown").addEventListener("click", () => select(list.shown, true));
  byId("page:select-none").addEventListener("click", () => select([...list.selected], false));
  byId("page:clear-filters").addEventListener("click", () => {
    byId("page:run-filters").reset();
    list.only = null;
    applyFilters();
  });
  select(usualRuns(), true);
  applyFilters();
}

// The two sides of the first study's primary contrast.
function usualRuns() {
  for (const name of studyNames()) {
    const found = runsBehind(name, study(name).primary);
    if (found.length) return found;
  }
  return [];
}

function applyFilters() {
  const wanted = FILTERS.map((name) => [name, byId(`page:filter-${name}`).value]).filter(([, value]) => value !== "");
  const words = byId("page:filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const from = list.only ?? allRuns();
  list.shown = from.filter(
    (run) => wanted.every(([name, value]) => String(run[name]) === value) && words.every((word) => run.words.includes(word)),
  );
  sortShown();
  byId("page:run-scroll").scrollTop = 0;
  redraw();
}

function sortBy(key) {
  list.descending = list.sort === key && !list.descending;
  list.sort = key;
  sortShown();
  redraw();
}

function sortShown() {
  const { number } = COLUMNS.find((column) => column.key === list.sort);
  const sign = list.descending ? -1 : 1;
  const compare = number ? (a, b) => a - b : collator.compare;
  list.shown.sort((a, b) => {
    const [left, right] = [a[list.sort], b[list.sort]];
    const [lacksLeft, lacksRight] = [left === null || left === undefined || left === "", right === null || right === undefined || right === ""];
    if (lacksLeft || lacksRight) return lacksLeft - lacksRight; // what is not known stands last, either way
    return sign * compare(left, right);
  });
}

function redraw() {
  const table = byId("page:run-table");
  for (const head of table.tHead.rows[0].cells) {
    if (head.dataset.key === list.sort) head.setAttribute("aria-sort", list.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  table.setAttribute("aria-rowcount", list.shown.length + 1);
  list.drawn.clear();
  table.tBodies[0].replaceChildren(element("tr", { class: "space", "aria-hidden": "true" }), element("tr", { class: "space", "aria-hidden": "true" }));
  drawRows();
  countRuns();
}

function countRuns() {
  const all = allRuns().length;
  const part = list.shown.length === all ? "" : ` of ${all.toLocaleString("en")}`;
  byId("page:run-count").textContent = `${list.shown.length.toLocaleString("en")}${part} runs, ${list.selected.size.toLocaleString("en")} selected`;
}

// Rows that leave the sight go, rows that enter it come; the others stay, and with them the focus.
function drawRows() {
  const scroll = byId("page:run-scroll");
  const body = byId("page:run-table").tBodies[0];
  const [above, below] = [body.firstElementChild, body.lastElementChild];
  if (!above) return;
  const count = Math.ceil((scroll.clientHeight || 400) / ROW) + 2 * AROUND;
  const first = Math.max(0, Math.min(Math.floor(scroll.scrollTop / ROW) - AROUND, list.shown.length - count));
  const last = Math.min(list.shown.length, first + count);
  for (const [place, row] of list.drawn) {
    if (place < first || place >= last) {
      row.remove();
      list.drawn.delete(place);
    }
  }
  let before = below;
  for (let place = last - 1; place >= first; place -= 1) {
    let row = list.drawn.get(place);
    if (!row) {
      row = rowOf(list.shown[place], place);
      list.drawn.set(place, row);
      before.before(row);
    }
    before = row;
  }
  above.style.height = `${first * ROW}px`;
  below.style.height = `${(list.shown.length - last) * ROW}px`;
}

function rowOf(run, place) {
  const box = element("input", {
    type: "checkbox",
    "aria-label": `Select run ${run.run}`,
    disabled: run.study === "",
    onchange: () => select([run], box.checked),
  });
  box.checked = list.selected.has(run);
  const cells = COLUMNS.map((column) => {
    const text = String(column.text(run));
    if (column.key === "run") {
      return element("th", { scope: "row" }, element("button", { type: "button", class: "plain", onclick: (event) => showOrigin(event.currentTarget) }, text));
    }
    if (column.key === "state") return element("td", {}, element("span", { class: `state state-${run.state.split(/\W/)[0]}` }, text));
    return element("td", { class: column.number ? "number" : null, title: text.length > 16 ? text : null }, text);
  });
  return element("tr", { "aria-rowindex": place + 2, "data-run": run.key }, element("td", { class: "pick" }, box), ...cells);
}

function select(runs, chosen) {
  for (const run of runs) {
    if (run.study === "") continue;
    if (chosen) list.selected.add(run);
    else list.selected.delete(run);
  }
  for (const [place, row] of list.drawn) row.querySelector("input").checked = list.selected.has(list.shown[place]);
  countRuns();
  drawCurves();
}

// From a number or a study to its runs: listed alone, and selected.
function showRuns(runs) {
  prepare(byId("page:runs"));
  byId("page:run-filters").reset();
  list.only = runs;
  list.selected.clear();
  select(runs, true);
  applyFilters();
  closePanel();
  location.hash = "#page:runs";
}
