// Sort a table of runs by the column whose head is pressed; press again to turn the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const value = (row) => row.cells[column].textContent;
    const number = (text) => (text.trim() === "" ? NaN : Number(text));
    const order = (a, b) => {
      const difference = number(a) - number(b);
      return Number.isNaN(difference) ? compare(a, b) : difference;
    };
    const rows = [...body.rows].sort((a, b) => (descending ? -1 : 1) * order(value(a), value(b)));
    body.append(...rows);
  }));
}
