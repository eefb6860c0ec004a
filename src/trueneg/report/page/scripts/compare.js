// Two studies side by side: answers, settings that differ, and every measurement that both have.

const loaded = new Map(); // name → data of another page

function startCompare() {
  offer();
  if (studyNames().length > 1) byId("page:compare-b").value = studyNames()[1];
  byId("page:compare-form").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["page:compare-a", "page:compare-b"]) byId(id).addEventListener("input", compareStudies);
  byId("page:compare-measure").addEventListener("input", compareStudies);
  byId("page:compare-file").addEventListener("change", addPage);
  compareStudies();
}

function offer() {
  const names = [...studyNames().map((name) => [name, name]), ...[...loaded.keys()].map((name) => [name, name])];
  for (const id of ["page:compare-a", "page:compare-b"]) options(byId(id), names);
}

function comparedStudy(name) {
  return loaded.get(name) ?? study(name);
}

// The other page is parsed, never run: its scripts are inert, and only its data are read.
async function addPage(event) {
  const [file] = event.target.files;
  if (!file) return;
  const said = byId("page:compare-said");
  try {
    const other = new DOMParser().parseFromString(await file.text(), "text/html");
    const found = [...other.querySelectorAll("script.study-data")].map((node) => JSON.parse(node.textContent));
    const wrong = found.find((data) => data.format !== page.format);
    if (wrong) throw new Error(`its data have the format ${wrong.format}, this page reads ${page.format}; have it made again by the same version`);
    if (found.length === 0) throw new Error("it holds no studies; choose the index.html of a results folder");
    const label = file.name.replace(/\.html?$/, "");
    const names = found.map((data) => {
      let name = `${data.name} (${label})`;
      for (let number = 2; loaded.has(name); number += 1) name = `${data.name} (${label} ${number})`;
      loaded.set(name, prepared({ ...data, from: file.name }));
      return name;
    });
    offer();
    const a = comparedStudy(byId("page:compare-a").value).name;
    byId("page:compare-b").value = names.find((name) => loaded.get(name).name === a) ?? names[0];
    said.textContent = `${counted(found.length, "study", "studies")} of ${file.name} can be chosen now.`;
    compareStudies();
  } catch (error) {
    said.textContent = `${file.name} cannot be used: ${error instanceof SyntaxError ? "its data are damaged" : error.message}.`;
  }
}

function measured(data) {
  return data.measurements.rows.map(([dataset, what, metric, objective, mean, difference, seeds, value, half]) => ({ dataset, what, metric, objective, mean, difference, seeds, value, half, key: `${dataset}\n${what}\n${objective}`, group: `${dataset}; ${what}` }));
}

function compareStudies() {
  const [a, b] = ["page:compare-a", "page:compare-b"].map((id) => comparedStudy(byId(id).value));
  const [left, right] = [measured(a), measured(b)];
  const there = new Set(right.map((row) => row.group));
  const groups = distinct(left.map((row) => row.group)).filter((group) => there.has(group));
  options(byId("page:compare-measure"), groups);
  byId("page:compare-measure").disabled = groups.length === 0;
  byId("page:comparison").replaceChildren(
    element("div", { class: "pair" }, side("A", a), side("B", b)),
    ...numbersOf(a, b, left, right, byId("page:compare-measure").value),
    ...differencesOf(a, b),
  );
}

function side(letter, data) {
  return element(
    "article",
    {},
    element("p", { class: "name" }, `${letter}: ${data.name}${data.from ? ` (${data.from})` : ""}`),
    element("h2", {}, data.title),
    element("p", { class: "question" }, data.question),
    element("p", {}, data.answer || "No answer yet."),
    element("ul", { class: "marks" }, data.marks.map(([kind, text]) => element("li", { class: `mark-${String(kind).replace(/[^a-z]/g, "")}` }, text))),
  );
}

function numbersOf(a, b, left, right, group) {
  if (!group) return [element("h2", {}, "Measurements"), element("p", { class: "remark" }, "The two have no measurement on the same data set in common.")];
  const others = new Map(right.map((row) => [row.key, row]));
  const own = left.filter((row) => row.group === group);
  const missing = right.filter((row) => row.group === group && !own.some((one) => one.key === row.key));
  const lines = [...own.map((row) => [row, others.get(row.key) ?? null]), ...missing.map((row) => [null, row])];
  const { unit } = (own[0] ?? missing[0]).metric in a.measurements.metrics ? a.measurements.metrics[(own[0] ?? missing[0]).metric] : { unit: "" };
  const points = unit ? ` (${unit})` : "";
  const equal = lines.filter(([x, y]) => x && y && x.value === y.value && x.half === y.half).length;
  return [
    element("h2", {}, "Measurements"),
    element("p", { class: "caption" }, group),
    element("div", { class: "scroll", role: "region", "aria-label": "Measurements of A and B", tabindex: "0" },
      element("table", {},
        element("thead", {}, element("tr", {}, ["objective", `A − ${a.measurements.baseline}${points}`, `B − ${b.measurements.baseline}${points}`, "A", "B", `B − A${points}`].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, lines.map(([x, y]) => element("tr", {}, element("th", { scope: "row" }, (x ?? y).objective), [x?.difference ?? "–", y?.difference ?? "–", x?.mean ?? "–", y?.mean ?? "–", apart(x, y, a)].map((text) => element("td", {}, text))))),
      ),
    ),
    element("p", { class: "note" }, `A and B: mean ± half of the 95 % t interval over seeds; differences to the baseline are paired within seeds. B − A: difference of the means with Welch's 95 % interval, which takes the seeds of A and B as independent. ${equal === lines.length ? "All means and intervals are identical." : equal ? `${equal} of ${lines.length} lines are identical.` : ""}`),
  ];
}

// Welch's interval from means and halves of t intervals: h = t(n − 1) · s / √n.
function apart(x, y, a) {
  if (!x || !y || x.value === null || y.value === null) return "–";
  const { scale } = a.measurements.metrics[x.metric];
  const difference = (y.value - x.value) * scale;
  const decimals = (x.mean.match(/^[−\d]*\.?(\d*)/)?.[1] ?? "").length;
  const written = (value) => {
    const text = Math.abs(value).toFixed(decimals);
    return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
  };
  if (x.half === null || y.half === null || x.seeds < 2 || y.seeds < 2) return written(difference);
  const [u, v] = [x, y].map((row) => (row.half / quantile(row.seeds - 1)) ** 2);
  if (u + v === 0) return `${written(difference)} [${written(difference)}, ${written(difference)}]`;
  const degrees = Math.max(1, Math.floor((u + v) ** 2 / (u ** 2 / (x.seeds - 1) + v ** 2 / (y.seeds - 1))));
  const half = quantile(degrees) * Math.sqrt(u + v) * scale;
  return `${written(difference)} [${written(difference - half)}, ${written(difference + half)}]`;
}

function quantile(degrees) {
  return page.t[Math.min(degrees, page.t.length) - 1];
}

function differencesOf(a, b) {
  const [left, right] = [a, b].map((data) => new Map([...madeOf(data), ...flat(data.settings)]));
  const keys = distinct([...left.keys(), ...right.keys()]).filter((key) => left.get(key) !== right.get(key));
  if (keys.length === 0) return [element("h2", {}, "What differs"), element("p", {}, "Settings, code, machine and libraries are the same.")];
  return [
    element("h2", {}, "What differs"),
    element("div", { class: "scroll", role: "region", "aria-label": "What differs between A and B", tabindex: "0" },
      element("table", { class: "plain" },
        element("thead", {}, element("tr", {}, ["setting", "A", "B"].map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, keys.map((key) => element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, left.get(key) ?? "–"), element("td", {}, right.get(key) ?? "–")))),
      ),
    ),
  ];
}

function madeOf(data) {
  const made = data.runs.environments;
  if (made.length === 0) return [];
  const said = (text) => distinct(made.map(text)).join("; ");
  return [
    ["(commit)", said((one) => one.commit.slice(0, 12))],
    ["(code)", said((one) => one.fingerprint)],
    ["(device)", said((one) => one.device)],
    ["(machine)", said((one) => `${one.machine.system}, ${one.machine.cores} cores`)],
    ["(libraries)", said((one) => Object.entries(one.versions).map(([name, version]) => `${name} ${version}`).join(", "))],
    ["(data)", distinct(data.runs.list.map((run) => run.data.slice(0, 12))).join("; ")],
  ];
}
