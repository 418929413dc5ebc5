// Tables: sort by a heading, hide columns, show the details of a cell.

function startTables() {
  for (const table of document.querySelectorAll("table.data")) {
    const at = Number(table.dataset.table);
    const first = table.tHead.rows[0].cells.length;
    const rows = [...table.tBodies[0].rows];
    rows.forEach((row, place) => { row.dataset.place = String(place); });
    sortable(table, at);
    tellCells(table, at);
    if (first > 3) table.closest(".wide").after(columnMenu(table));
  }
}

function sortable(table, at) {
  for (const [place, heading] of [...table.tHead.rows[0].cells].entries()) {
    const name = heading.textContent;
    const button = h("button", { class: "plain", onclick: () => sortTable(table, at, place) }, name);
    heading.replaceChildren(button);
  }
}

// Up, down, and back to the report's own order; the human rows stay at the top.
async function sortTable(table, at, place) {
  const heading = table.tHead.rows[0].cells[place];
  const next = { null: "descending", descending: "ascending", ascending: null }[heading.getAttribute("aria-sort")];
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  if (next) heading.setAttribute("aria-sort", next);
  const { tables } = await stories();
  const lead = table.tHead.rows[0].cells.length - tables[at].columns.length;
  const key = (row) => {
    const own = Number(row.dataset.place);
    if (!next) return own;
    if (place >= lead) return tables[at].rows[own].cells[place - lead].value ?? NaN;
    return place ? Number(row.cells[place].textContent) || 0 : row.cells[0].textContent;
  };
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const human = b.classList.contains("human") - a.classList.contains("human");
    const [x, y] = [key(a), key(b)];
    if (human) return human;
    if (typeof x === "string") return (next === "descending" ? -1 : 1) * x.localeCompare(y, "en", { numeric: true });
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return (next === "descending" ? -1 : 1) * (x - y);
  });
  table.tBodies[0].replaceChildren(...rows);
}

// Every number is a button; one of them is in the order of the Tab key, arrows lead to the others.
function tellCells(table, at) {
  const columns = table.tHead.rows[0].cells.length;
  const buttons = [];
  for (const row of table.tBodies[0].rows) {
    const cells = [...row.cells];
    const lead = cells.findIndex((cell, place) => place > 0 && !isSeeds(table, place));
    for (const [place, cell] of cells.entries()) {
      if (place < lead || lead < 0) continue;
      const button = h("button", { class: "plain", tabindex: buttons.length ? "-1" : "0" });
      button.append(...cell.childNodes);
      button.addEventListener("click", () => cellStory(at, Number(row.dataset.place), place - lead));
      if (!button.textContent.trim()) button.setAttribute("aria-label", "nothing here");
      cell.replaceChildren(button);
      buttons.push(button);
    }
  }
  table.addEventListener("keydown", (event) => walk(event, table, columns));
}

const isSeeds = (table, place) => place === 1 && table.tHead.rows[0].cells[1].textContent === "seeds";

function walk(event, table) {
  const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const cell = event.target.closest("td");
  if (!by || !cell) return;
  const row = [...table.tBodies[0].rows].indexOf(cell.parentElement);
  let place = cell.cellIndex + by[1];
  let next = table.tBodies[0].rows[row + by[0]]?.cells[place];
  while (next?.hidden) next = next.parentElement.cells[place += by[1] || 1];
  const button = next && $("button", next);
  if (!button) return;
  event.preventDefault();
  $("button", cell).tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
}

function columnMenu(table) {
  const boxes = [...table.tHead.rows[0].cells].slice(1).map((heading, before) => checkbox(heading.textContent, true, (on) => {
    for (const row of table.rows) row.cells[before + 1].hidden = !on;
  })[0]);
  return h("details", { class: "columns-menu" }, h("summary", {}, "Columns"), ...boxes);
}
