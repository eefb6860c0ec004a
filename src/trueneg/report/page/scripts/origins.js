// Click or focus a number: what made it. Tables of numbers are walked with the arrow keys.

const panel = byId("page:origin");
let asked = null; // the cell or button whose origin is shown

function showOrigin(from) {
  const owner = from.closest("[data-run]") ? null : from.closest(".study");
  if (asked === from && !panel.hidden) return;
  asked?.classList.remove("asked");
  asked = from;
  asked.classList.add("asked");
  if (owner === null) {
    const run = allRuns().find((one) => one.key === from.closest("[data-run]").dataset.run);
    fillPanel(`Run ${run.run}`, run.study ? describeRuns([run]) : [element("p", {}, "No study on this page holds this run.")]);
  } else {
    const data = study(owner.id);
    const origin = data.origins[Number(from.dataset.origin)];
    fillPanel(titleOf(from), describe(data, origin));
  }
}

function titleOf(cell) {
  const row = cell.closest("tr");
  return row ? `${row.cells[0].childNodes[0].textContent.trim()}: ${cell.textContent.trim()}` : "What made these numbers";
}

function fillPanel(title, content) {
  panel.replaceChildren(
    element("div", { class: "panel-head" }, element("h2", {}, title), element("button", { type: "button", class: "close", "aria-label": "Close", onclick: closePanel }, "×")),
    ...content,
  );
  panel.hidden = false;
  document.body.classList.add("with-panel");
  say(panel.innerText.slice(0, 400));
}

function closePanel() {
  if (panel.hidden) return;
  const inside = panel.contains(document.activeElement);
  const from = asked;
  from?.classList.remove("asked");
  if (inside) from?.focus(); // while it is the one that was asked about, so that the panel does not open again
  asked = null;
  panel.hidden = true;
  document.body.classList.remove("with-panel");
}

function describe(data, origin) {
  if (origin.printed) {
    return [element("p", {}, `Printed in ${origin.printed}. config/published.csv holds it with its source; it was not measured here.`)];
  }
  if (origin.files) return describeFiles(data);
  const runs = runsBehind(data.name, origin);
  if (runs.length === 0) return [element("p", {}, "Its runs are not among this page's.")];
  return describeRuns(runs);
}

function describeRuns(runs) {
  const made = runs.map(environmentOf);
  const stale = runs.filter((run) => run.state.startsWith("stale")).length;
  const changed = runs.filter((run) => run.state.endsWith("data changed")).length;
  const gpu = runs.every((run) => run.gpu_seconds === null) ? null : runs.reduce((sum, run) => sum + (run.gpu_seconds ?? 0), 0);
  const versions = distinct(made.map((one) => Object.entries(one.versions).map(([name, version]) => `${name} ${version}`).join(", ")));
  const machines = made.map((one) => `${one.machine.system}, ${counted(one.machine.cores, "core")}`);
  return [
    terms([
      ["Runs", `${counted(runs.length, "run")}${stale ? `, ${stale} stale (made with other code than today's)` : ""}${changed ? `, ${changed} whose data changed` : ""}`],
      ["Data set", together(runs.map((run) => run.dataset))],
      ["Objectives", together(runs.map((run) => run.objective))],
      ["Seeds", seedNames(runs.map((run) => run.seed))],
      ["Commit", together(made.map((one) => one.commit.replace(/^([0-9a-f]{12})[0-9a-f]*/, "$1")))],
      ["Code", together(made.map((one) => one.fingerprint))],
      ["Data", together(runs.map((run, place) => `${made[place].source} ${run.data.slice(0, 16)}`))],
      ["Device", together(made.map((one) => `${one.device}, ${counted(one.threads, "thread")}`))],
      ["Machine", together(machines)],
      ["Time", `${duration(runs.reduce((sum, run) => sum + run.seconds, 0))} of training`],
      ["GPU", gpu === null ? (made.every((one) => one.device === "cpu") ? "0 GPU seconds" : "GPU seconds not noted") : `${shown(gpu, 5)} GPU seconds`],
      ["Libraries", versions.join("; ")],
    ]),
    ...describeSettings(runs),
    element("p", {}, element("button", { type: "button", onclick: () => showRuns(runs) }, `Show ${runs.length === 1 ? "this run" : "these runs"} in the list`)),
  ];
}

function describeSettings(runs) {
  const all = distinct(runs.map((run) => run.settings)).map((place) => flat(study(runs[0].study).runs.settings[place]));
  const first = new Map(all[0]);
  const others = all.slice(1).map((one) => new Map(one));
  const differing = [...first.keys()].filter((key) => others.some((one) => one.get(key) !== first.get(key)));
  const lines = [...first].filter(([key]) => !differing.includes(key)).map(([key, value]) => `${key}: ${value}`);
  const content = lines.join("\n");
  const said = all.length === 1 ? "Configuration" : `Configuration that these runs share (they differ in ${differing.join(", ") || "what one of them lacks"})`;
  return [element("details", {}, element("summary", {}, said), element("pre", { tabindex: "0" }, content))];
}

function describeFiles(data) {
  const made = data.files;
  if (made === null) return [element("p", {}, "The study's files say nothing of what made it.")];
  const models = made.models.map((model) =>
    terms([
      ["Model", `${model.name}${model.id ? ` (${model.id})` : ""}`],
      ["Seed", model.seed ?? "–"],
      ["Commit", model.commit?.slice(0, 12) ?? "taken as it is"],
      ["Code", model.fingerprint ?? "–"],
      ["Device", model.device ?? "–"],
      ["Time", duration(model.seconds)],
      ["GPU", model.gpu_seconds !== undefined ? `${shown(model.gpu_seconds, 5)} GPU seconds` : model.device === "cpu" ? "0 GPU seconds" : "not noted"],
      ["Libraries", Object.entries(model.versions ?? {}).map(([name, version]) => `${name} ${version}`).join(", ") || "–"],
      ["Weights", model.checksum?.slice(0, 16) ?? "–"],
    ]),
  );
  const settings = flat(data.settings).map(([key, value]) => `${key}: ${value}`).join("\n");
  return [
    element("p", {}, `Computed from the study's settings; ${counted(made.files.length, "file")} under results/.`),
    ...(made.code ? [terms([["Code", made.code]])] : []),
    ...models,
    element("details", {}, element("summary", {}, "Files, with their checksums"), element("pre", { tabindex: "0" }, made.files.map((file) => `${file.checksum.slice(0, 16)}  ${file.written}  ${file.path}`).join("\n"))),
    element("details", {}, element("summary", {}, "Configuration"), element("pre", { tabindex: "0" }, settings)),
  ];
}

function terms(pairs) {
  return element("dl", {}, pairs.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, String(text))]));
}

function together(values, most = 6) {
  const found = distinct(values);
  return found.length > most ? `${found.slice(0, most).join("; ")} and ${found.length - most} more` : found.join("; ");
}

// One stop of the Tab key a table; the arrow keys walk its numbers.
function walkable(table) {
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]).map((row) => [...row.cells].filter((cell) => cell.dataset.origin !== undefined)).filter((cells) => cells.length);
  if (rows.length === 0) return;
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  rows.flat().forEach((cell) => cell.setAttribute("tabindex", "-1"));
  let current = rows[0][0];
  current.setAttribute("tabindex", "0");
  const go = (cell) => {
    current.setAttribute("tabindex", "-1");
    current = cell;
    current.setAttribute("tabindex", "0");
  };
  table.addEventListener("focusin", (event) => {
    const cell = event.target.closest("td[data-origin]");
    if (cell) {
      go(cell);
      showOrigin(cell);
    }
  });
  table.addEventListener("keydown", (event) => {
    const row = rows.findIndex((cells) => cells.includes(event.target));
    if (row < 0) return;
    const column = rows[row].indexOf(event.target);
    let next = null;
    if (event.key in steps) {
      const [down, right] = steps[event.key];
      const line = rows[row + down];
      next = line && line[Math.min(column, line.length - 1) + right];
    } else if (event.key === "Home") next = rows[row][0];
    else if (event.key === "End") next = rows[row].at(-1);
    else if (event.key === "Enter") {
      panel.querySelector("button.close")?.focus();
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    next?.focus();
  });
  const scroll = table.closest(".scroll");
  if (scroll) scroll.removeAttribute("tabindex"); // its cells are reached by the keyboard, and scroll it
  table.setAttribute("aria-describedby", "page:how-to-walk");
}

function startOrigins() {
  document.body.append(element("p", { id: "page:how-to-walk", hidden: true }, "Focus a number to see what made it; the arrow keys move between numbers, Enter moves to the panel, Escape closes it."));
  document.querySelectorAll("table.numbers").forEach(walkable);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-origin]");
    if (button) showOrigin(button);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closePanel();
  });
}
