// A button in each heading sorts its table by the cells' data-v, or by their text.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    // The heading is the button, so that the Tab key reaches it and readers of the screen say what it sorts by.
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
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
    });
  });
}
// A closed part would be missing on paper.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((part) => (part.open = true));
});
addEventListener("afterprint", () => closed.forEach((part) => (part.open = false)));
// A link to a word, or to a section, opens the part that it lies in.
addEventListener("hashchange", () => {
  const part = document.querySelector(":target")?.closest("details");
  if (part) part.open = true;
});
