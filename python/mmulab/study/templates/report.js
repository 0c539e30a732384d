// A click on a heading sorts its table by the cells' data-v, or by their text.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    heads.forEach((h) => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      return numbers ? x - y : x.localeCompare(y);
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b))));
  }));
}
