// Tables: sort by a heading, hide columns, show the details of a cell.

const sortings = new Map(); // number of a table → { column, direction }
const ARROW = /\s(?:[↑↓≈]|→\S+)$/;

const listTables = () => [...document.querySelectorAll("table.data")];
const listHeadings = (table) => [...table.tHead.rows[0].cells];
const nameColumn = (heading) => heading.textContent.trim().replace(ARROW, "") || `column ${heading.cellIndex + 1}`;

function startTables() {
  for (const [number, table] of listTables().entries()) {
    [...table.tBodies[0].rows].forEach((row, index) => { row.dataset.row = String(index); });
    addSwatches(table);
    addSortButtons(table, number);
    addCellButtons(table, number);
    if (listHeadings(table).length > 3) table.closest(".wide").after(createColumnMenu(table));
    if (table.hasAttribute("data-filter")) table.closest(".wide").before(createRowFilter(table));
  }
  addAddressFields(writeTableFields, readTableFields);
}

// A mark in the color of the system, as in the figures.
function createSwatch(system) {
  const style = contents.styles[system];
  if (!style) return null;
  const swatch = createSvg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, class: "swatch", "aria-hidden": "true" });
  swatch.append(createSvg("path", { d: "M1 7H25", stroke: adaptColor(style.color), "stroke-width": 2, "stroke-dasharray": DASHES[style.line] ?? "" }));
  swatch.append(createMarker(style, 13, 7));
  return swatch;
}

function addSwatches(table) {
  for (const row of table.tBodies[0].rows) {
    const swatch = createSwatch(row.cells[0].textContent.trim());
    if (swatch) row.cells[0].prepend(swatch);
  }
}

function addSortButtons(table, number) {
  for (const [column, heading] of listHeadings(table).entries()) {
    const button = createElement("button", { class: "plain", onclick: () => cycleSorting(table, number, column) }, ...heading.childNodes);
    heading.replaceChildren(button);
  }
}

// Descending, ascending, and back to the report's order.
async function cycleSorting(table, number, column) {
  const current = listHeadings(table)[column].getAttribute("aria-sort");
  await sortTable(table, number, column, { null: "descending", descending: "ascending", ascending: null }[current]);
  writeAddress();
}

// The human rows stay at the top.
async function sortTable(table, number, column, direction) {
  const headings = listHeadings(table);
  for (const heading of headings) heading.removeAttribute("aria-sort");
  if (direction) headings[column].setAttribute("aria-sort", direction);
  if (direction) sortings.set(number, { column, direction });
  else sortings.delete(number);
  const { tables } = await loadStories();
  const lead = Number(table.dataset.lead);
  const readKey = (row) => {
    const index = Number(row.dataset.row);
    if (!direction) return index;
    if (column >= lead) return tables[number].rows[index].cells[column - lead].value ?? NaN;
    const { tagName, textContent } = row.cells[column];
    return tagName === "TH" ? textContent : Number(textContent) || 0;
  };
  const sign = direction === "descending" ? -1 : 1;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const human = b.classList.contains("human") - a.classList.contains("human");
    const [x, y] = [readKey(a), readKey(b)];
    if (human) return human;
    if (typeof x === "string") return sign * x.localeCompare(y, "en", { numeric: true });
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y);
  });
  table.tBodies[0].replaceChildren(...rows);
}

// Every number is a button; one of them is in the order of the Tab key, arrows lead to the others.
function addCellButtons(table, number) {
  const buttons = [];
  const lead = Number(table.dataset.lead);
  for (const row of table.tBodies[0].rows) {
    for (const [column, cell] of [...row.cells].entries()) {
      if (column < lead) continue;
      const button = createElement("button", { class: "plain value", tabindex: buttons.length ? "-1" : "0" });
      button.append(...cell.childNodes);
      button.addEventListener("click", () => showCellDetails(number, Number(row.dataset.row), column - lead));
      if (!button.textContent.trim()) button.setAttribute("aria-label", "no value");
      cell.replaceChildren(button);
      buttons.push(button);
    }
  }
  table.addEventListener("keydown", (event) => moveFocus(event, table));
}

function moveFocus(event, table) {
  const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const cell = event.target.closest("td");
  if (!step || !cell) return;
  const row = [...table.tBodies[0].rows].indexOf(cell.parentElement);
  let column = cell.cellIndex + step[1];
  let next = table.tBodies[0].rows[row + step[0]]?.cells[column];
  while (next?.hidden) next = next.parentElement.cells[column += step[1] || 1];
  const button = next && $("button", next);
  if (!button) return;
  event.preventDefault();
  $("button", cell).tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
}

function hideColumn(table, column, hidden) {
  for (const row of table.rows) row.cells[column].hidden = hidden;
}

function createColumnMenu(table) {
  const boxes = listHeadings(table).slice(1).map((heading, index) => createCheckbox(nameColumn(heading), true, (checked) => {
    hideColumn(table, index + 1, !checked);
    writeAddress();
  }));
  return createElement("details", { class: "columns-menu" }, createElement("summary", {}, "Columns"), ...boxes);
}

// Shows the rows that contain every word; the human rows stay.
function filterRows(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !row.classList.contains("human") && !wanted.every((word) => text.includes(word));
  }
}

function createRowFilter(table) {
  const field = createElement("input", { type: "search", class: "row-filter", placeholder: "filter rows", "aria-label": "filter rows" });
  field.addEventListener("input", () => { filterRows(table, field.value); writeAddress(); });
  return field;
}

const findRowFilter = (table) => $(".row-filter", table.closest(".table"));

function writeTableFields() {
  return listTables().flatMap((table, number) => {
    const headings = listHeadings(table);
    const sorting = sortings.get(number);
    const sort = sorting ? [[`sort${number}`, (sorting.direction === "descending" ? "-" : "") + nameColumn(headings[sorting.column])]] : [];
    const filter = findRowFilter(table)?.value ? [[`filter${number}`, findRowFilter(table).value]] : [];
    return [...sort, ...filter, ...headings.filter((heading) => heading.hidden).map((heading) => [`hide${number}`, nameColumn(heading)])];
  });
}

async function readTableFields(query) {
  for (const [number, table] of listTables().entries()) {
    const names = listHeadings(table).map(nameColumn);
    const sort = query.get(`sort${number}`) ?? "";
    const column = names.indexOf(sort.replace(/^-/, ""));
    const direction = sort.startsWith("-") ? "descending" : "ascending";
    if (column >= 0 || sortings.has(number)) await sortTable(table, number, column, column < 0 ? null : direction);
    const field = findRowFilter(table);
    if (field) filterRows(table, field.value = query.get(`filter${number}`) ?? "");
    const hidden = query.getAll(`hide${number}`);
    const boxes = table.closest(".wide").nextElementSibling?.querySelectorAll(".columns-menu input") ?? [];
    names.slice(1).forEach((name, index) => {
      hideColumn(table, index + 1, hidden.includes(name));
      if (boxes[index]) boxes[index].checked = !hidden.includes(name);
    });
  }
}
