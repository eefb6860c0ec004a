"use strict";
// Elements made from values: text is always text, so nothing that comes from data is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function options(select, values, all = null) {
  const before = select.value;
  const made = values.map((value) => (Array.isArray(value) ? value : [value, value]));
  if (all !== null) made.unshift(["", all]);
  select.replaceChildren(...made.map(([value, text]) => element("option", { value }, text)));
  if (made.some(([value]) => String(value) === before)) select.value = before;
}

function distinct(values) {
  return [...new Set(values)];
}

function say(sentence) {
  byId("page:said").textContent = sentence;
}

function counted(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// With a true minus, and as many digits as help.
function shown(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

// As many digits for all: what stands in a column.
function fixed(value, digits = 4) {
  return value === null || value === undefined ? "–" : value.toPrecision(digits).replace("-", "−");
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "not noted";
  if (seconds < 120) return `${shown(seconds, 3)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function seedNames(seeds) {
  const sorted = distinct(seeds).sort((a, b) => a - b);
  const ranges = [];
  for (const seed of sorted) {
    const last = ranges.at(-1);
    if (last && seed === last[1] + 1) last[1] = seed;
    else ranges.push([seed, seed]);
  }
  return ranges.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

// {"training": {"epochs": 2}} → [["training.epochs", "2"]]
function flat(settings, prefix = "") {
  return Object.entries(settings ?? {}).flatMap(([key, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${prefix}${key}.`)
      : [[prefix + key, typeof value === "string" ? value : JSON.stringify(value)]],
  );
}
