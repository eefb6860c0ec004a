// Curves of the selected runs: one line a run, or the mean over the seeds of an objective between its lowest and highest seed.

const AT_MOST = 60; // lines; more are a blur

function startCurves() {
  for (const id of ["page:monitor", "page:logarithmic"]) byId(id).addEventListener("input", drawCurves);
  document.querySelectorAll("[name=lines]").forEach((radio) => radio.addEventListener("input", drawCurves));
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (Math.round(entry.contentRect.width) !== width) {
      width = Math.round(entry.contentRect.width);
      drawCurves();
    }
  }).observe(byId("page:chart"));
  drawCurves();
}

function curveOf(run) {
  return study(run.study).curves.runs[run.place] ?? null;
}

function monitorsOf(runs) {
  const found = distinct(runs.map((run) => run.study)).flatMap((name) => study(name).curves.monitors);
  return distinct(found).filter((monitor) => runs.some((run) => valuesOf(run, monitor) !== null));
}

function valuesOf(run, monitor) {
  const curve = curveOf(run);
  const place = study(run.study).curves.monitors.indexOf(monitor);
  return curve === null || place < 0 ? null : curve[place + 1];
}

function linesOf(runs, monitor, mean) {
  const several = distinct(runs.map((run) => run.study)).length > 1;
  const datasets = distinct(runs.map((run) => `${run.study} ${run.dataset}`)).length > 1;
  const name = (run) => [several ? run.study : "", datasets ? run.dataset : "", run.objective].filter(Boolean).join(" · ");
  const known = runs.filter((run) => valuesOf(run, monitor) !== null);
  const objectives = distinct(known.map(name));
  if (!mean) {
    return known.map((run) => ({ name: `${name(run)} · seed ${run.seed}`, epochs: epochsOf(run), values: valuesOf(run, monitor), place: objectives.indexOf(name(run)), runs: [run] }));
  }
  const groups = new Map();
  for (const run of known) {
    const key = `${name(run)}\n${epochsOf(run).join()}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  return [...groups.values()].map((own) => {
    const all = own.map((run) => valuesOf(run, monitor));
    const at = all[0].map((_, place) => all.map((values) => values[place]).filter((value) => value !== null));
    const seeds = own.length > 1 ? ` (${own.length} seeds)` : ` · seed ${own[0].seed}`;
    return {
      name: name(own[0]) + seeds,
      epochs: epochsOf(own[0]),
      values: at.map((values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null)),
      low: own.length > 1 ? at.map((values) => (values.length ? Math.min(...values) : null)) : null,
      high: own.length > 1 ? at.map((values) => (values.length ? Math.max(...values) : null)) : null,
      place: objectives.indexOf(name(own[0])),
      runs: own,
    };
  });
}

function epochsOf(run) {
  return study(run.study).curves.epochs[curveOf(run)[0]];
}

function drawCurves() {
  const place = byId("page:chart");
  const runs = [...list.selected];
  const width = Math.floor(place.clientWidth);
  if (width === 0) return; // not in sight; drawn when it is
  options(byId("page:monitor"), monitorsOf(runs));
  const monitor = byId("page:monitor").value;
  const mean = document.querySelector("[name=lines]:checked").value === "mean";
  const all = monitor ? linesOf(runs, monitor, mean) : [];
  const lines = all.slice(0, AT_MOST);
  if (lines.length === 0) {
    place.replaceChildren(element("p", { class: "remark" }, runs.length ? "These runs have no curves." : "Select runs in the list above to see their curves."));
    return;
  }
  const ends = lines.map((line) => `${line.name}: ${shown(line.values.at(-1))}`).slice(0, 12).join("; ");
  const chart = lineChart(lines, { label: `${monitor} by epoch`, description: `At the end ${ends}.`, width, logarithmic: byId("page:logarithmic").checked });
  const entries = lines.map((line) => legendEntry(line));
  const at = element("p", { class: "epoch", role: "status" });
  const read = (epoch) => {
    chart.readAt(epoch);
    at.textContent = epoch === null ? "Values of the last epoch; move over the chart, or focus it and use the arrow keys, for others." : `Epoch ${epoch}`;
    lines.forEach((line, index) => {
      entries[index].querySelector(".value").textContent = shown(epoch === null ? line.values.at(-1) : valueAt(line, epoch));
    });
  };
  const frame = element("div", { class: "chart-frame", tabindex: "0", role: "group", "aria-label": "Chart; the arrow keys move through the epochs" }, chart.node);
  const epochs = distinct(lines.flatMap((line) => line.epochs)).sort((a, b) => a - b);
  let current = null;
  const move = (epoch) => {
    current = epoch === null ? null : epochs.reduce((best, one) => (Math.abs(one - epoch) < Math.abs(best - epoch) ? one : best));
    read(current);
  };
  frame.addEventListener("pointermove", (event) => move(chart.epochAt(event.clientX - chart.node.getBoundingClientRect().left)));
  frame.addEventListener("pointerleave", () => move(null));
  frame.addEventListener("blur", () => move(null));
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = current === null ? epochs.length - 1 : epochs.indexOf(current);
    move(epochs[Math.max(0, Math.min(epochs.length - 1, from + (current === null ? 0 : step)))]);
  });
  const notes = [];
  if (all.length > lines.length) notes.push(`The first ${AT_MOST} of ${all.length} lines.`);
  if (lines.some((line) => line.low)) notes.push("Bands reach from the lowest to the highest seed.");
  if (lines.some((line) => line.epochs.length < line.epochs.at(-1) - line.epochs[0] + 1)) notes.push("Long curves are thinned to evenly spaced epochs.");
  place.replaceChildren(element("h3", {}, monitor), frame, at, element("ul", { class: "legend" }, entries), ...(notes.length ? [element("p", { class: "note" }, notes.join(" "))] : []));
  read(null);
}

// At the nearest epoch that was kept; none beyond the ends.
function valueAt(line, epoch) {
  if (epoch < line.epochs[0] || epoch > line.epochs.at(-1)) return null;
  const nearest = line.epochs.reduce((best, one, index) => (Math.abs(one - epoch) < Math.abs(line.epochs[best] - epoch) ? index : best), 0);
  return line.values[nearest];
}

function legendEntry(line) {
  const sample = drawing("svg", { width: 30, height: 10, "aria-hidden": "true" }, drawing("line", { class: `line series-${line.place % 8}`, x1: 0, x2: 30, y1: 5, y2: 5, "stroke-dasharray": DASHES[line.place % DASHES.length] || null }));
  const mark = (on) => byId("page:chart").querySelectorAll("path.line").forEach((path) => path.classList.toggle("faint", on && path.dataset.line !== line.name));
  return element("li", { onpointerenter: () => mark(true), onpointerleave: () => mark(false) }, sample, element("span", {}, line.name), element("span", { class: "value" }));
}
