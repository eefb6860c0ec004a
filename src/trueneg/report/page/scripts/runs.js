// The table of runs: a click on a column head sorts it, and the form filters it by column values and words.

const collator = new Intl.Collator("en", { numeric: true });
let only = null; // ids of the runs behind a number, if only those are listed

function runRows() {
  return [...byId("page:run-table").tBodies[0].rows];
}

function startRuns() {
  const form = byId("page:run-filters");
  for (const select of form.querySelectorAll("select")) {
    const values = new Set(runRows().map((row) => row.cells[select.dataset.column].textContent));
    values.delete("–");
    for (const value of [...values].sort(collator.compare)) select.add(new Option(value));
  }
  form.addEventListener("input", () => {
    only = null;
    filterRuns();
  });
  form.addEventListener("reset", () => setTimeout(() => listRuns(null)));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const head of byId("page:run-table").tHead.rows[0].cells) head.firstElementChild.addEventListener("click", () => sortRuns(head));
  document.addEventListener("click", (event) => {
    const from = event.target.closest("[data-runs], [data-study]");
    if (!from) return;
    form.reset();
    from.closest("[popover]")?.hidePopover();
    byId("page:filter-1").value = from.dataset.study ?? "";
    location.hash = "#page:runs";
    setTimeout(() => listRuns(from.dataset.runs?.split(" ") ?? null));
  });
  filterRuns();
}

function listRuns(ids) {
  only = ids && new Set(ids);
  filterRuns();
}

function filterRuns() {
  const wanted = [...byId("page:run-filters").querySelectorAll("select")].filter((select) => select.value);
  const words = byId("page:filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = runRows();
  let shown = 0;
  for (const row of rows) {
    const text = words.length ? row.textContent.toLowerCase() : "";
    row.hidden = !(
      (only === null || only.has(row.cells[0].textContent)) &&
      wanted.every((select) => row.cells[select.dataset.column].textContent === select.value) &&
      words.every((word) => text.includes(word))
    );
    if (!row.hidden) shown += 1;
  }
  const all = rows.length.toLocaleString("en");
  byId("page:run-count").textContent = shown === rows.length ? `${all} runs` : `${shown.toLocaleString("en")} of ${all} runs`;
}

function sortRuns(head) {
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const numeric = head.classList.contains("c-number");
  const keyed = runRows().map((row) => {
    const text = row.cells[head.cellIndex].textContent;
    return { row, key: numeric ? Number(text.replace("−", "-")) : text, missing: text === "–" };
  });
  const compare = numeric ? (a, b) => a - b : collator.compare;
  // Missing values come last in both directions.
  keyed.sort((a, b) => a.missing - b.missing || sign * compare(a.key, b.key) || 0);
  byId("page:run-table").tBodies[0].append(...keyed.map((one) => one.row));
}
