// One part of the page at a time; its address is the part's name, and what is inside a part opens it.

const begun = new Set();

function shownView() {
  const target = location.hash.length > 1 ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  // What is in no part, such as the skip link's target, leaves the part that is shown.
  const current = document.querySelector("section.view:not([hidden])");
  return target?.closest("section.view") ?? (target && begun.size ? current : byId("page:overview"));
}

function showView(moved) {
  const view = shownView();
  closePanel();
  document.querySelectorAll("section.view").forEach((other) => (other.hidden = other !== view));
  document.querySelectorAll("header.site nav a").forEach((link) => {
    if (link.getAttribute("href") === `#${view.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  document.title = view.id === "page:overview" ? "TrueNeg: results" : `${view.querySelector("h1").textContent} – TrueNeg`;
  prepare(view);
  document.querySelector("header.site [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (target && target !== view) target.scrollIntoView();
  else window.scrollTo({ top: 0, behavior: "instant" });
  if (moved) byId("page:main").focus({ preventScroll: true });
}

// Each part is made ready when it is first seen.
function prepare(view) {
  if (begun.has(view)) return;
  begun.add(view);
  if (view.id === "page:runs") {
    startRuns();
    startCurves();
  } else if (view.id === "page:compare") startCompare();
  else view.querySelectorAll(".examples").forEach(startExamples);
}

function start() {
  startOrigins();
  document.querySelectorAll("button.see-runs").forEach((button) =>
    button.addEventListener("click", () => {
      prepare(byId("page:runs"));
      byId("page:run-filters").reset();
      list.only = null;
      byId("page:filter-study").value = button.dataset.study;
      applyFilters();
      location.hash = "#page:runs";
    }),
  );
  window.addEventListener("hashchange", () => showView(true));
  showView(false);
  document.documentElement.classList.add("ready");
}

start();
