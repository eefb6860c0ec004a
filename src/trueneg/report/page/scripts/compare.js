"use strict";
// Two studies side by side: answers, shared measurements and differing settings.

const studies = new Map(); // data of this page and of added pages, by name

function readStudies(document, format) {
  const found = [...document.querySelectorAll("script.study-data")].map((node) => JSON.parse(node.textContent));
  const wrong = found.find((data) => data.format !== format);
  if (wrong) throw new Error(`its data have format ${wrong.format}, but this page reads format ${format}; build both pages with the same version`);
  if (found.length === 0) throw new Error("it contains no studies; choose the index.html of a results folder");
  return found;
}

function startCompare() {
  const page = JSON.parse(byId("page:data").textContent);
  for (const data of readStudies(document, page.format)) addStudy(data.name, data);
  byId("page:compare-b").selectedIndex = Math.min(1, studies.size - 1);
  byId("page:compare-form").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["a", "b", "measure"]) byId(`page:compare-${id}`).addEventListener("input", () => compareStudies(page.t));
  byId("page:compare-file").addEventListener("change", (event) => addPage(event.target.files[0], page));
  compareStudies(page.t);
}

function addStudy(name, data) {
  let own = name;
  for (let number = 2; studies.has(own); number += 1) own = `${name} ${number}`;
  studies.set(own, data);
  for (const id of ["a", "b"]) byId(`page:compare-${id}`).add(new Option(own));
  return own;
}

// The other page is parsed but not executed: only its data are read.
async function addPage(file, page) {
  if (!file) return;
  const said = byId("page:compare-said");
  try {
    const found = readStudies(new DOMParser().parseFromString(await file.text(), "text/html"), page.format);
    const label = file.name.replace(/\.html?$/, "");
    const names = found.map((data) => addStudy(`${data.name} (${label})`, data));
    const { name } = studies.get(byId("page:compare-a").value);
    byId("page:compare-b").value = names.find((one) => studies.get(one).name === name) ?? names[0];
    said.textContent = `${found.length} ${found.length === 1 ? "study" : "studies"} from ${file.name} can now be selected.`;
    compareStudies(page.t);
  } catch (error) {
    said.textContent = `${file.name} cannot be used: ${error instanceof SyntaxError ? "its data are damaged" : error.message}.`;
  }
}

function compareStudies(quantiles) {
  const [a, b] = ["a", "b"].map((letter) => studies.get(byId(`page:compare-${letter}`).value));
  const select = byId("page:compare-measure");
  const there = new Set(b.measurements.map((row) => row.measured));
  const shared = [...new Set(a.measurements.map((row) => row.measured))].filter((measured) => there.has(measured));
  const chosen = shared.includes(select.value) ? select.value : shared[0];
  select.replaceChildren(...shared.map((measured) => new Option(measured, measured, false, measured === chosen)));
  select.disabled = !chosen;
  byId("page:comparison").replaceChildren(
    element("div", { class: "pair" }, side("A", a), side("B", b)),
    element("h2", {}, "Measurements"),
    ...(chosen ? numbersOf(a, b, chosen, quantiles) : [element("p", {}, "The two studies have no measurement on the same data set in common.")]),
    element("h2", {}, "What differs"),
    differencesOf(a, b),
  );
}

function side(letter, data) {
  return element(
    "article",
    {},
    element("p", { class: "name" }, `${letter}: ${data.name}`),
    element("h2", {}, data.title),
    element("p", { class: "question" }, data.question),
    element("p", {}, data.answer || "No answer yet."),
    element("ul", { class: "marks" }, data.marks.map(([kind, text]) => element("li", { class: `mark-${kind}` }, text))),
  );
}

function tableOf(label, kind, heads, lines) {
  const headed = heads.map((text) => element("th", { scope: "col" }, text));
  const body = lines.map(([name, ...texts]) => element("tr", {}, element("th", { scope: "row" }, name), texts.map((text) => element("td", {}, text))));
  const table = element("table", { class: kind }, element("thead", {}, element("tr", {}, headed)), element("tbody", {}, body));
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
}

function numbersOf(a, b, measured, quantiles) {
  const [left, right] = [a, b].map((data) => new Map(data.measurements.filter((row) => row.measured === measured).map((row) => [row.objective, row])));
  const names = [...new Set([...left.keys(), ...right.keys()])];
  const lines = names.map((name) => {
    const [x, y] = [left.get(name), right.get(name)];
    return [name, x?.difference ?? "–", y?.difference ?? "–", x?.mean ?? "–", y?.mean ?? "–", x && y ? apart(x, y, quantiles) : "–"];
  });
  const equal = names.filter((name) => left.get(name)?.mean && left.get(name).value === right.get(name)?.value && left.get(name).half === right.get(name).half).length;
  const { unit } = left.values().next().value;
  const heads = ["objective", `A − ${a.baseline}`, `B − ${b.baseline}`, "A", "B", "B − A"].map((head) => (unit && head.includes("−") ? `${head} (${unit})` : head));
  const said = equal === names.length ? " All means and intervals are identical." : equal ? ` ${equal} of ${names.length} lines are identical.` : "";
  return [
    tableOf("Measurements of A and B", "compared", heads, lines),
    element("p", { class: "note" }, `A and B: mean ± half of the 95 % t interval over seeds; differences from the baseline are paired within seeds. B − A: difference of the means with Welch's 95 % interval (degrees of freedom rounded down), which treats the seeds of A and B as independent.${said}`),
  ];
}

// Welch's interval from means and half-widths of t intervals: h = t(n − 1) · s / √n.
function apart(x, y, quantiles) {
  if (x.value === null || y.value === null) return "–";
  const quantile = (degrees) => quantiles[Math.min(degrees, quantiles.length) - 1];
  const decimals = (x.mean.match(/^[−\d]*\.?(\d*)/)?.[1] ?? "").length;
  const written = (value) => {
    const text = Math.abs(value).toFixed(decimals);
    return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
  };
  const difference = y.value - x.value;
  if (!x.half || !y.half) return written(difference); // one seed, or equal values in all seeds
  const [u, v] = [x, y].map((row) => (row.half / quantile(row.seeds - 1)) ** 2);
  const degrees = Math.max(1, Math.floor((u + v) ** 2 / (u ** 2 / (x.seeds - 1) + v ** 2 / (y.seeds - 1))));
  const half = quantile(degrees) * Math.sqrt(u + v);
  return `${written(difference)} [${written(difference - half)}, ${written(difference + half)}]`;
}

function differencesOf(a, b) {
  const keys = Object.keys({ ...a.facts, ...b.facts }).filter((key) => a.facts[key] !== b.facts[key]);
  if (keys.length === 0) return element("p", {}, "Settings, code, machine and libraries are the same.");
  return tableOf("What differs between A and B", "plain", ["setting", "A", "B"], keys.map((key) => [key, a.facts[key] ?? "–", b.facts[key] ?? "–"]));
}
