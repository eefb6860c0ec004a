"use strict";
// Navigation and keyboard control.

function byId(id) {
  return document.getElementById(id);
}

// The style sheet shows the part named in the address; this marks it in the navigation and the title.
function markPart() {
  const view = byId(decodeURIComponent(location.hash.slice(1)))?.closest(".view") ?? byId("page:overview");
  for (const link of document.querySelectorAll(".site nav a")) {
    if (link.getAttribute("href") === `#${view.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector(".site [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.title = view.id === "page:overview" ? "TrueNeg: results" : `${view.querySelector("h1").textContent} – TrueNeg`;
}

// The Tab key stops once per table; the arrow keys move between its numbers.
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

function startWalking(table) {
  const lines = [...table.rows].map((row) => [...row.querySelectorAll("button.number")]).filter((line) => line.length);
  for (const button of lines.flat().slice(1)) button.tabIndex = -1;
  table.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const line = lines.findIndex((buttons) => buttons.includes(event.target));
    const next = step && line >= 0 && lines[line + step[0]]?.[lines[line].indexOf(event.target) + step[1]];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function start() {
  document.querySelectorAll("table.numbers").forEach(startWalking);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // another address would leave the part that is shown
    byId("page:main").focus();
  });
  addEventListener("hashchange", markPart);
  markPart();
}

addEventListener("DOMContentLoaded", start);
