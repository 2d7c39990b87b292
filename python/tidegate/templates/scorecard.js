"use strict";
// A click on a criterion brings the mechanisms that are best in it to the front: columns of the table, or tiles.
const table = document.getElementById("card"), tools = document.querySelector(".tools");
const rows = [...table.querySelectorAll("thead tr, tr.row")].map(row => ({ row, head: row.cells[0], cells: [...row.cells].slice(1) }));
const arrange = order => { for (const { row, cells } of rows) row.append(...order.map(index => cells[index])); };
const given = rows[0].cells.map((_, index) => index);
const unmark = () => { for (const { head } of rows) head.removeAttribute("aria-sort"); };
for (const { head, cells } of rows.slice(1)) {
  head.querySelector("button").onclick = () => {
    const isBestFirst = head.getAttribute("aria-sort") !== "ascending";
    const worth = cells.map(cell => cell.dataset.order === "" ? null : Number(cell.dataset.order));
    // What was not measured stays behind, whichever way.
    const known = given.filter(index => worth[index] !== null).sort((one, other) => (worth[one] - worth[other] || 0) * (isBestFirst ? 1 : -1));
    arrange([...known, ...given.filter(index => worth[index] === null)]);
    unmark();
    head.setAttribute("aria-sort", isBestFirst ? "ascending" : "descending");
  };
}
document.getElementById("asgiven").onclick = () => { unmark(); arrange(given); };
tools.hidden = false;
