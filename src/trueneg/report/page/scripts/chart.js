// A line chart as SVG: a few lines over epochs, in the page's own colours, legible without colour (dashes) and without eyes.
// A library would bring its own canvas, colours and keys; what is needed here is an axis, a path and a cursor.

const DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2"];

function niceTicks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

function powerTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of [1, 2, 5]) found.push(factor * 10 ** power);
  }
  const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length > 8 ? inside.filter((tick) => Number.isInteger(Math.log10(tick) + 1e-9) || Math.abs(Math.log10(tick) % 1) < 1e-6) : inside;
}

// lines: [{name, epochs, values, low, high, place}]; place tells colour and dash. Returns {node, readAt}.
function lineChart(lines, { label, description, width, logarithmic }) {
  const height = Math.round(Math.min(380, Math.max(240, width * 0.5)));
  const margin = { left: 58, right: 14, top: 12, bottom: 42 };
  const usable = (value) => value !== null && value !== undefined && (!logarithmic || value > 0);
  const numbers = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]).filter(usable);
  const [from, to] = [Math.min(...lines.map((line) => line.epochs[0])), Math.max(...lines.map((line) => line.epochs.at(-1)))];
  let [low, high] = [numbers.reduce((a, b) => Math.min(a, b), Infinity), numbers.reduce((a, b) => Math.max(a, b), -Infinity)];
  if (low === high) [low, high] = logarithmic ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const scale = logarithmic ? Math.log10 : (value) => value;
  const pad = 0.04 * (scale(high) - scale(low));
  const [bottom, top] = [scale(low) - pad, scale(high) + pad];
  const x = (epoch) => margin.left + ((width - margin.left - margin.right) * (epoch - from)) / (to - from || 1);
  const y = (value) => margin.top + (height - margin.top - margin.bottom) * (1 - (scale(value) - bottom) / (top - bottom));
  const path = (epochs, values) => {
    let text = "";
    let pen = false;
    values.forEach((value, place) => {
      if (usable(value)) text += `${pen ? "L" : "M"}${x(epochs[place]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = usable(value);
    });
    return text;
  };
  const band = (line) => {
    const kept = line.epochs.map((_, place) => place).filter((place) => usable(line.low[place]) && usable(line.high[place]));
    const there = kept.map((place) => `${x(line.epochs[place]).toFixed(1)} ${y(line.high[place]).toFixed(1)}`);
    const back = kept.reverse().map((place) => `${x(line.epochs[place]).toFixed(1)} ${y(line.low[place]).toFixed(1)}`);
    return there.length ? `M${[...there, ...back].join("L")}Z` : "";
  };
  const ticksY = logarithmic ? powerTicks(low, high) : niceTicks(low, high, 5);
  const ticksX = niceTicks(from, to, Math.max(3, Math.round(width / 110))).filter(Number.isInteger);
  const cursor = drawing("line", { class: "cursor", y1: margin.top, y2: height - margin.bottom, visibility: "hidden" });
  const node = drawing(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${label}. ${description}` },
    ticksY.map((tick) => [
      drawing("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(tick), y2: y(tick) }),
      drawing("text", { x: margin.left - 8, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)),
    ]),
    ticksX.map((tick) => drawing("text", { x: x(tick), y: height - margin.bottom + 18, "text-anchor": "middle" }, String(tick))),
    drawing("line", { class: "axis", x1: margin.left, x2: width - margin.right, y1: height - margin.bottom, y2: height - margin.bottom }),
    drawing("text", { class: "axis-name", x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle" }, "epoch"),
    lines.filter((line) => line.low).map((line) => drawing("path", { class: `band series-${line.place % 8}`, d: band(line) })),
    lines.map((line) =>
      drawing("path", { class: `line series-${line.place % 8}`, "stroke-dasharray": DASHES[line.place % DASHES.length] || null, "data-line": line.name, d: path(line.epochs, line.values) }),
    ),
    cursor,
  );
  const readAt = (epoch) => {
    cursor.setAttribute("visibility", epoch === null ? "hidden" : "visible");
    if (epoch === null) return;
    cursor.setAttribute("x1", x(epoch));
    cursor.setAttribute("x2", x(epoch));
  };
  const epochAt = (pixel) => from + ((pixel - margin.left) / (width - margin.left - margin.right)) * (to - from);
  return { node, readAt, epochAt };
}
