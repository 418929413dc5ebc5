// The text reader: selected examples, their order, and the current example.

const FIRST_SYSTEMS = 4; // in view at first

const DEFAULTS = {
  seed: "", sample: 0, order: "task", by: "words", against: "", shuffle: 1, words: "", stop: "", base: "", repeats: false, surprise: false,
};
const view = { ...DEFAULTS, side: 0, columns: [], of: "", system: "" };
const reader = { list: null, current: -1, turn: 0, controls: null, status: null };

const listSystems = (side) => contents.systems.filter((name) => contents.sources.some((s) => s.side === side && s.system === name));
const listAuthors = (side) => listSystems(side).filter((name) => !isHuman(name));
const selectFirstSystems = (side) => listSystems(side).slice(0, FIRST_SYSTEMS);
const selectFirstAuthor = (side) => listAuthors(side)[0] ?? listSystems(side)[0] ?? "";

function startTexts() {
  const container = $("#texts-body");
  if (!container) return;
  selectSide(0);
  reader.status = createElement("p", { class: "status", role: "status" });
  const list = createElement("div", { class: "list" });
  reader.list = new LongList(list, (example) => drawExample(view, example));
  reader.controls = createElement("div", { class: "controls" });
  container.append(reader.controls, reader.status, list);
  drawControls(reader.controls);
  list.addEventListener("click", (event) => {
    const example = event.target.closest(".example");
    if (example && !event.target.closest("button, a, summary")) selectExample(example);
  });
  document.addEventListener("keydown", handleKey);
  addAddressFields(writeViewFields, readViewFields); // reads the address, which fills the list
}

function selectSide(side) {
  view.side = side;
  const systems = listSystems(side);
  view.columns = view.columns.filter((name) => systems.includes(name));
  if (!view.columns.length) view.columns = selectFirstSystems(side);
  view.of = selectFirstAuthor(side);
  view.against = "";
  if (!systems.includes(view.base)) view.base = "";
}

// Show the examples that pass the filters, in order; a later call makes an earlier one stop.
async function refreshList() {
  const turn = reader.turn += 1;
  const current = reader.list.order[reader.current];
  showStatus("…");
  try {
    const examples = await orderExamples(await filterExamples(turn), view);
    if (turn !== reader.turn) return;
    reader.current = examples.indexOf(current);
    reader.list.show(examples);
    if (reader.current < 0) address.position = "";
    const { n } = sides[view.side];
    showStatus(examples.length === 0 ? "no matches" : examples.length < n ? `${examples.length} of ${n} examples` : `${n} examples`);
  } catch (error) {
    if (turn === reader.turn) showStatus(error.message);
  }
}

// After a change by the user: the list and the address follow.
async function applyChange() {
  await refreshList();
  writeAddress();
}

function showStatus(text) {
  reader.status.textContent = text;
}

async function filterExamples(turn) {
  const terms = parseTerms(view.words);
  const sources = view.columns.map((system) => [system, findSource(view.side, system, view.seed)]).filter(([, source]) => source !== undefined);
  const models = sources.filter(([system]) => !isHuman(system));
  const data = await Promise.all((models.length ? models : sources).map(([, source]) => loadRows(source)));
  let examples = Array.from({ length: sides[view.side].n }, (_, example) => example);
  if (view.stop) {
    const flag = view.stop === "length" ? "1" : "0";
    examples = examples.filter((e) => data.some((rows) => rows.findRow(e, view.sample) >= 0 && rows.cut[rows.findRow(e, view.sample)] === flag));
  }
  if (!terms.length) return examples;
  const matches = [];
  for (const [count, example] of examples.entries()) {
    const prompt = await loadPrompt(view.side, example);
    const texts = await Promise.all(sources.map(([, source]) => loadText(source, example, view.sample)));
    if (matchesTerms(prompt, terms) || texts.some((info) => info && matchesTerms(info.text, terms))) matches.push(example);
    if (turn !== reader.turn) return [];
    if (count % contents.part === 0) showStatus(`searching: ${count} of ${examples.length}`);
  }
  return matches;
}

// Moving -----------------------------------------------------------------------------------------------------------------

function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const input = event.target.closest("input[type=search], select, textarea");
  if (event.key === "Escape" && input) input.blur();
  if (input) return;
  if (event.key === "/") { event.preventDefault(); $("#find").focus(); }
  if (event.key === "j" || event.key === "k") moveBy(event.key === "j" ? 1 : -1);
}

async function moveBy(step) {
  const next = Math.min(Math.max(reader.current + step, 0), reader.list.order.length - 1);
  reader.current = next; // at once: the next key may come before the text
  const example = await reader.list.reach(next);
  if (example) selectExample(example);
}

// Mark an example, put it into the address and bring it into view.
function selectExample(element) {
  for (const other of document.querySelectorAll(".example.here")) other.classList.remove("here");
  element.classList.add("here");
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start" });
  reader.current = reader.list.order.indexOf(Number(element.dataset.example));
  address.position = element.dataset.position;
  writeAddress();
}

async function openExample(side, example, system) {
  if (view.side !== side) selectSide(side);
  if (system && listSystems(side).includes(system) && !view.columns.includes(system)) {
    view.columns = listSystems(side).filter((name) => name === system || view.columns.includes(name));
  }
  if (system) view.system = system;
  if (!reader.list.order.includes(example)) Object.assign(view, { words: "", stop: "" });
  drawControls(reader.controls);
  await refreshList();
  await showExample(example);
}

async function showExample(example) {
  const element = await reader.list.reach(reader.list.order.indexOf(example));
  if (!element) return;
  selectExample(element);
  requestAnimationFrame(() => element.scrollIntoView({ block: "start" })); // blocks above may have grown
}

// The address ------------------------------------------------------------------------------------------------------------

function writeViewFields() {
  const fields = Object.keys(DEFAULTS).filter((name) => view[name] !== DEFAULTS[name]).map((name) => [name, String(view[name])]);
  if (view.of !== selectFirstAuthor(view.side)) fields.push(["of", view.of]);
  if (view.side) fields.push(["task", sides[view.side].name]);
  if (view.columns.join("\n") !== selectFirstSystems(view.side).join("\n")) fields.push(...view.columns.map((name) => ["show", name]));
  return fields;
}

// Restore the view of an address: `#task/example/system?…`.
async function readViewFields(query) {
  const [task, id, system] = address.position.split("/").map(decodeWord);
  const side = sides.findIndex(({ name }) => name === (id === undefined ? query.get("task") : task));
  const example = id === undefined || side < 0 ? -1 : (await loadPart(`ids-${side}`)).indexOf(id);
  view.columns = [];
  selectSide(Math.max(side, 0));
  const parse = { number: Number, boolean: (text) => text === "true", string: String };
  for (const [name, value] of Object.entries(DEFAULTS)) view[name] = query.has(name) ? parse[typeof value](query.get(name)) : value;
  if (listSystems(view.side).includes(query.get("of"))) view.of = query.get("of");
  const columns = listSystems(view.side).filter((name) => query.getAll("show").includes(name));
  if (columns.length) view.columns = columns;
  const { position } = address;
  if (example >= 0) {
    await refreshList();
    await openExample(view.side, example, system);
    return;
  }
  drawControls(reader.controls);
  await refreshList();
  if (id !== undefined) showStatus(`no text ${task} ${id} in this report`);
  address.position = position;
}

async function downloadTexts() {
  const ids = await loadPart(`ids-${view.side}`);
  const lines = [];
  for (const example of reader.list.order) {
    const prompt = await loadPrompt(view.side, example);
    for (const system of view.columns) {
      const info = await loadSystemText(view, example, system);
      if (!info) continue;
      const { text, cut, seed, values } = info;
      const row = { example_id: ids[example], prompt, system, seed, sample: view.sample, text, stop: cut ? "length" : "eos", ...values };
      lines.push(`${JSON.stringify(row)}\n`);
    }
  }
  downloadFile("texts.jsonl", lines.join(""), "application/jsonl");
}
