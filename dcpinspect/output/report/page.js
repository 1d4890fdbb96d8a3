// Tables are sorted by a click on a heading, and searched. A link opens what it leads to. Without this the page is as readable.
"use strict";
const number = /^-?[0-9][0-9,]*(\.[0-9]+)?$/;
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies]; // a row, and what stands below it
  const text = (row, column) => row.rows[0].cells[column].textContent;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const isNumber = rows.every((row) => !text(row, column) || number.test(text(row, column)));
      const key = (row) => parseFloat(text(row, column).replaceAll(",", "") || "-1");
      const order = (a, b) => (isNumber ? key(a) - key(b) : text(a, column).localeCompare(text(b, column), "en", { numeric: true }));
      table.append(...rows.sort((a, b) => (down ? order(b, a) : order(a, b))));
    });
  });
  if (rows.length > 10) {
    const search = document.createElement("input");
    search.type = "search";
    search.className = "search";
    search.placeholder = "search these rows";
    search.setAttribute("aria-label", "search these rows");
    search.addEventListener("input", () => {
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(search.value.toLowerCase());
    });
    table.parentElement.before(search);
  }
}
const reveal = () => {
  let place = location.hash && document.getElementById(location.hash.slice(1));
  for (; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
};
addEventListener("hashchange", reveal);
addEventListener("beforeprint", () => document.querySelectorAll("details.finding").forEach((one) => (one.open = true)));
reveal();
