"use strict";
const main = document.querySelector("main");
const pairs = [...document.querySelectorAll(".pair-to-rate")];
const key = `trueneg audit ${main.dataset.sample}`;
let ratings = {};
let current = 0;
try {
  ratings = JSON.parse(localStorage.getItem(key)) || {};
} catch {
  // a browser may not store anything for files
}

function unrated() {
  return pairs.findIndex((pair) => !(pair.dataset.pair in ratings));
}

function show(place) {
  current = Math.max(0, Math.min(pairs.length - 1, place));
  pairs.forEach((pair, number) => pair.classList.toggle("current", number === current));
  const rating = ratings[pairs[current].dataset.pair];
  for (const button of pairs[current].querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.value === rating));
  }
  const rated = pairs.filter((pair) => pair.dataset.pair in ratings).length;
  document.querySelector("progress").value = rated;
  document.querySelector("#progress").textContent = `${rated} of ${pairs.length} rated`;
  if (pairs[current].getBoundingClientRect().top < 0) pairs[current].scrollIntoView();
}

function rate(rating) {
  ratings[pairs[current].dataset.pair] = rating;
  try {
    localStorage.setItem(key, JSON.stringify(ratings));
  } catch {
    // ratings are kept until the page is closed
  }
  const left = unrated();
  show(current + 1 < pairs.length || left < 0 ? current + 1 : left);
  if (left < 0) document.querySelector("#save").focus();
}

function save() {
  const lines = pairs.map(({ dataset: { pair } }) => `${main.dataset.sample},${pair},${ratings[pair] ?? ""}`);
  const content = new Blob([["sample,pair,false", ...lines, ""].join("\r\n")], { type: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = "rated.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ("ynu".includes(event.key)) rate(event.key);
  else if (event.key === "ArrowLeft" || event.key === "ArrowUp") show(current - 1);
  else if (event.key === "ArrowRight" || event.key === "ArrowDown") show(current + 1);
  else return;
  event.preventDefault();
});
for (const button of document.querySelectorAll(".choices button")) {
  button.addEventListener("click", () => rate(button.value));
}
document.querySelector("#save").addEventListener("click", save);
main.classList.add("rating");
show(Math.max(0, unrated()));
