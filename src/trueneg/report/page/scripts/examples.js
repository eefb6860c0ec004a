// Retrieval and grounding to look at: the same query or phrase under two objectives.

const RELATION = {
  "own pair": ["own", "own pair"],
  "true of the image": ["true", "true of the image: a false negative"],
  "not true of the image": ["other", "not true of the image"],
};
let exampleForms = 0;

function startExamples(place) {
  const { retrieval, grounding } = study(place.dataset.study).examples;
  place.replaceChildren(...(retrieval ? [retrievalPart(retrieval)] : []), ...(grounding ? [groundingPart(grounding)] : []));
}

function labelled(text, control, long = false) {
  exampleForms += 1;
  control.id = `page:example-${exampleForms}`;
  return element("p", { class: long ? "long" : null }, element("label", { for: control.id }, text), control);
}

function twoObjectives(objectives) {
  const [left, right] = [element("select"), element("select")];
  options(left, objectives);
  options(right, objectives);
  right.value = objectives[Math.min(1, objectives.length - 1)];
  return [left, right];
}

function stepper(select, draw) {
  const step = (by) => {
    select.selectedIndex = (select.selectedIndex + by + select.options.length) % select.options.length;
    draw();
  };
  return element("p", { class: "steps" }, element("button", { type: "button", onclick: () => step(-1) }, "Previous"), element("button", { type: "button", onclick: () => step(1) }, "Next"));
}

function brief(text, most = 70) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function retrievalPart({ objectives, images, queries, seed }) {
  const directions = distinct(queries.map((query) => query.direction));
  const [direction, which, [left, right], result] = [element("select"), element("select"), twoObjectives(objectives), element("div", { class: "pair", "aria-live": "polite" })];
  options(direction, directions);
  const list = () => queries.filter((query) => query.direction === direction.value);
  const draw = () => {
    const query = list()[which.selectedIndex];
    asks.replaceChildren(query.text !== undefined ? element("blockquote", {}, query.text) : picture(images[query.image], "The query"));
    result.replaceChildren(...[left.value, right.value].map((name) => results(name, query, images)));
  };
  const fillQueries = () => {
    which.replaceChildren(...list().map((query, place) => element("option", { value: place }, query.text !== undefined ? brief(query.text) : `image ${place + 1}`)));
    draw();
  };
  const asks = element("div", { class: "asks" });
  direction.addEventListener("input", fillQueries);
  for (const select of [which, left, right]) select.addEventListener("input", draw);
  fillQueries();
  return element(
    "section",
    { class: "look", "aria-label": "Retrieval" },
    element("h3", {}, "Retrieval"),
    element("p", { class: "caption" }, `What each objective's network (seed ${seed}) puts first among the test images and their sentences; the queries are drawn, not chosen.`),
    element("div", { class: "filters" }, labelled("Direction", direction), labelled("Query", which, true), stepper(which, draw), labelled("Left", left), labelled("Right", right)),
    asks,
    result,
    element("p", { class: "note" }, "own: image and sentence belong together. true: another image's sentence that is true of this one too, a false negative. no: not true of it, as far as is known. Numbers: similarity."),
  );
}

function results(name, query, images) {
  const { found, list } = query.results[name] ?? { found: null, list: [] };
  const items = list.map(([what, score, relation], place) => {
    const [kind, said] = RELATION[relation];
    const content = query.text !== undefined ? picture(images[what], `Result ${place + 1}: ${said}`) : element("span", { class: "said" }, what);
    return element("li", { class: kind }, content, element("span", { class: "relation" }, element("b", {}, kind === "other" ? "no" : kind), ` ${shown(score, 3)}`));
  });
  return element(
    "div",
    {},
    element("h4", {}, name),
    element("p", { class: "caption" }, found === null ? "Nothing is known of this query." : `Its own ${query.text !== undefined ? "image" : "sentence"} is found at rank ${found}.`),
    element("ol", { class: query.text !== undefined ? "hits images" : "hits" }, items),
  );
}

function picture(source, alt) {
  return element("img", { src: source, alt, width: 96, height: 96 });
}

function groundingPart({ objectives, phrases, seed }) {
  const [which, [left, right]] = [element("select"), twoObjectives(objectives)];
  which.replaceChildren(...phrases.map((phrase, place) => element("option", { value: place }, `${phrase.finding}: ${brief(phrase.sentence, 56)}`)));
  const result = element("div", { class: "heatmaps", "aria-live": "polite" });
  const [heat, boxes] = [element("input", { type: "checkbox", checked: true }), element("input", { type: "checkbox", checked: true })];
  const draw = () => {
    const phrase = phrases[which.selectedIndex];
    result.replaceChildren(
      overlay(phrase, null, "radiograph", boxes.checked),
      ...[left.value, right.value].map((name) => overlay(phrase, heat.checked ? name : null, name, boxes.checked)),
    );
    said.textContent = phrase.sentence;
  };
  const said = element("blockquote");
  for (const control of [which, left, right, heat, boxes]) control.addEventListener("input", draw);
  const part = element(
    "section",
    { class: "look", "aria-label": "Grounding" },
    element("h3", {}, "Grounding"),
    element("p", { class: "caption" }, `Where each network (seed ${seed}) looks when it reads a phrase: colour from the lowest (clear) to the highest (bright) similarity of region and phrase, each map on its own scale. CNR: contrast-to-noise ratio of inside and outside the boxes.`),
    element("div", { class: "filters" }, labelled("Phrase", which, true), stepper(which, draw), labelled("Left", left), labelled("Right", right), element("fieldset", {}, element("legend", {}, "Show"), element("label", {}, heat, " heatmap"), " ", element("label", {}, boxes, " boxes"))),
    said,
    result,
  );
  draw();
  return part;
}

function overlay(phrase, objective, name, boxed) {
  const { size } = phrase;
  const map = phrase.heatmaps[name];
  const ratio = map ? `CNR ${shown(map.CNR, 3)}` : counted(phrase.boxes.length, "box", "boxes");
  return element(
    "figure",
    {},
    drawing(
      "svg",
      { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `${name}, ${phrase.finding}: ${ratio}` },
      drawing("image", { href: phrase.image, width: size, height: size }),
      objective && map ? drawing("image", { href: map.image, width: size, height: size, class: "heat" }) : null,
      boxed ? phrase.boxes.flatMap(([x0, y0, x1, y1]) => ["under", "over"].map((part) => drawing("rect", { class: `box ${part}`, x: x0, y: y0, width: x1 - x0, height: y1 - y0 }))) : [],
    ),
    element("figcaption", {}, element("b", {}, name), ` ${ratio}`),
  );
}
