// Controls of the text reader: search, filters, order, highlights. On a narrow screen all but the search are folded.

const ORDERS = [
  ["task", "in the task's order"], ["best", "best first"], ["worst", "worst first"], ["high", "highest first"],
  ["low", "lowest first"], ["random", "random"], ["differ", "most different first"], ["above", "largest lead first"],
  ["below", "largest deficit first"],
];
const PAIR_ORDERS = ["differ", "above", "below"];

function drawControls(container) {
  const redraw = () => { drawControls(container); applyChange(); };
  const systems = listSystems(view.side);
  const folded = container.querySelector("#more-filters")?.classList.contains("open");
  const more = createElement("div", { id: "more-filters", class: folded ? "open" : "" },
    createSystemControls(systems, redraw), createOrderControls(systems, redraw), createMarkControls(systems));
  container.replaceChildren(createSearchControls(redraw, more), more);
}

function createSearchControls(redraw, more) {
  const find = createElement("input", { type: "search", id: "find", placeholder: 'words, "a phrase", -without', "aria-label": "find in prompts and texts" });
  find.value = view.words;
  let timer = 0;
  find.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { view.words = find.value; applyChange(); }, 200);
  });
  const toggle = createElement("button", { class: "more", "aria-controls": "more-filters", "aria-expanded": String(more.classList.contains("open")) }, "More filters");
  toggle.addEventListener("click", () => toggle.setAttribute("aria-expanded", String(more.classList.toggle("open"))));
  const clear = createElement("button", { class: "small", onclick: () => { Object.assign(view, { words: "", stop: "" }); redraw(); } }, "clear");
  const legend = createElement("legend", {}, "Find");
  return createElement("fieldset", {}, legend, createElement("div", { class: "row" }, find, clear, toggle));
}

function createSystemControls(systems, redraw) {
  const boxes = systems.map((system) => {
    const label = createCheckbox(system, view.columns.includes(system), (checked) => {
      view.columns = systems.filter((name) => (name === system ? checked : view.columns.includes(name)));
      applyChange();
    });
    const swatch = createSwatch(system);
    if (swatch) label.firstChild.after(swatch);
    return label;
  });
  const sources = contents.sources.filter((source) => source.side === view.side);
  const seeds = [...new Set(sources.map(({ seed }) => seed))].filter((seed) => seed && seed !== "–").sort((a, b) => a - b);
  const samples = Math.max(...sources.map((source) => source.samples));
  const row = createElement("div", { class: "row" });
  if (sides.length > 1) {
    const names = sides.map(({ name }, side) => createOption(String(side), name));
    row.append(createSelect("task", names, String(view.side), (side) => { selectSide(Number(side)); redraw(); }));
  }
  if (seeds.length > 1) {
    const names = [createOption("", "first"), ...seeds.map((seed) => createOption(seed))];
    row.append(createSelect("seed", names, view.seed, (seed) => { view.seed = seed; applyChange(); }));
  }
  if (samples > 1) {
    const numbers = Array.from({ length: samples }, (_, sample) => createOption(String(sample)));
    row.append(createSelect("sample", numbers, String(view.sample), (sample) => { view.sample = Number(sample); applyChange(); }));
  }
  const stops = [createOption("", "any"), createOption("eos", "finished"), createOption("length", "length limit")];
  row.append(createSelect("Stop reason", stops, view.stop, (stop) => { view.stop = stop; applyChange(); }));
  const group = createElement("div", { class: "systems", tabindex: "0", role: "group", "aria-label": "systems" }, ...boxes);
  return createElement("fieldset", {}, createElement("legend", {}, "Texts of"), group, row);
}

function createOrderControls(systems, redraw) {
  const names = [...new Set(contents.sources.filter((source) => source.side === view.side).flatMap((source) => source.values))];
  if (!names.includes(view.by)) view.by = names[0] ?? "";
  const setField = (name) => (value) => {
    view[name] = value;
    if (name === "against") view.order = value ? "differ" : "high";
    if (name === "order" && PAIR_ORDERS.includes(value) && !view.against) view.against = systems.find((system) => system !== view.of) ?? "";
    if (name === "order" && !PAIR_ORDERS.includes(value)) view.against = "";
    if (["by", "of"].includes(name) && ["task", "random"].includes(view.order)) view.order = "high";
    redraw();
  };
  const listOptions = () => systems.map((system) => createOption(system));
  const row = createElement("div", { class: "row" },
    createSelect("order", ORDERS.map(([value, text]) => createOption(value, text)), view.order, setField("order")),
    createSelect("by", names.map((name) => createOption(name, contents.values[name][0])), view.by, setField("by")),
    createSelect("of", listOptions(), view.of, setField("of")),
    createSelect("against", [createOption("", "–"), ...listOptions()], view.against, setField("against")));
  if (view.order === "random") {
    row.append(createElement("button", { class: "small", onclick: () => { view.shuffle += 1; applyChange(); } }, "shuffle again"));
  }
  return createElement("fieldset", {}, createElement("legend", {}, "Sort"), row);
}

function createMarkControls(systems) {
  const names = [createOption("", "(none)"), ...systems.map((system) => createOption(system))];
  const base = createSelect("Fade text shared with", names, view.base, (system) => { view.base = system; applyChange(); });
  const key = createElement("small", { class: "key" });
  const explainMarks = () => {
    const parts = [];
    if (view.repeats) parts.push(createElement("span", { class: "loop" }, "loop"), " ", createElement("span", { class: "gram" }, "four words repeated"), " ");
    if (view.surprise) parts.push("nats of a token: ", ...LEVELS.map((least, at) => createElement("span", { class: `s${at + 1}` }, `≥ ${least}`)));
    key.replaceChildren(...parts);
  };
  explainMarks();
  const createMark = (label, field) => createCheckbox(label, view[field], (checked) => { view[field] = checked; explainMarks(); applyChange(); });
  const row = createElement("div", { class: "row" }, base, createMark("repetition", "repeats"));
  if (contents.sources.some((source) => source.tokens)) row.append(createMark("surprise", "surprise"));
  else if (contents.uncolored) row.append(createElement("small", {}, `no surprise of tokens: the tokenizer of ${contents.uncolored} was not found`));
  row.append(key);
  const actions = createElement("div", { class: "row" },
    createElement("button", { class: "small", onclick: downloadTexts }, "download what is shown (JSONL)"),
    createElement("small", {}, "keys: j next, k previous, / find"));
  return createElement("fieldset", {}, createElement("legend", {}, "Mark"), row, actions);
}
