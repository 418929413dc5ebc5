// Controls of the text reader: which texts, which examples, order, highlights.

const ORDERS = [
  ["task", "in the task's order"], ["best", "best first"], ["worst", "worst first"], ["high", "highest first"],
  ["low", "lowest first"], ["random", "random"], ["differ", "most different first"], ["above", "largest lead first"],
  ["below", "largest deficit first"],
];
const OF_TWO = ["differ", "above", "below"];

function drawControls(place) {
  const again = () => { drawControls(place); refresh(); };
  const systems = systemsOf(view.side);
  place.replaceChildren(whichTexts(systems, again), whichExamples(again), whichOrder(systems, again), whichMarks(systems));
}

function whichTexts(systems, again) {
  const boxes = systems.map((name) => checkbox(name, view.columns.includes(name), (on) => {
    view.columns = systems.filter((one) => (one === name ? on : view.columns.includes(one)));
    refresh();
  })[0]);
  const own = contents.sources.filter((s) => s.side === view.side);
  const seeds = [...new Set(own.map((s) => s.seed))].filter((seed) => seed && seed !== "–").sort((a, b) => a - b);
  const samples = Math.max(...own.map((s) => s.samples));
  const row = h("div", { class: "row" });
  if (sides.length > 1) {
    const [label, box] = select("task", sides.map((s, at) => option(String(at), s.name)), (at) => { takeSide(Number(at)); again(); });
    box.value = String(view.side);
    row.append(label);
  }
  if (seeds.length > 1) {
    const [label, box] = select("seed", [option("", "first"), ...seeds.map((s) => option(s))], (seed) => { view.seed = seed; refresh(); });
    fill(box, [...box.children], view.seed);
    row.append(label);
  }
  if (samples > 1) {
    const numbers = Array.from({ length: samples }, (_, at) => option(String(at)));
    const [label, box] = select("sample", numbers, (at) => { view.sample = Number(at); refresh(); });
    box.value = String(view.sample);
    row.append(label);
  }
  const chosen = h("fieldset", {}, h("legend", {}, "Texts of"), h("div", { class: "systems", tabindex: "0", role: "group", "aria-label": "systems" }, ...boxes));
  if (row.firstChild) chosen.append(row);
  return chosen;
}

function whichExamples(again) {
  const find = h("input", { type: "search", id: "find", placeholder: 'words, "a phrase", -without', "aria-label": "find in prompts and texts" });
  find.value = view.words;
  let timer = 0;
  find.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { view.words = find.value; refresh(); }, 200);
  });
  const [stop, box] = select("Stop reason", [option("", "any"), option("eos", "finished"), option("length", "length limit")],
    (value) => { view.stop = value; refresh(); });
  box.value = view.stop;
  const clear = h("button", { class: "small", onclick: () => { Object.assign(view, { words: "", stop: "" }); again(); } }, "clear");
  return h("fieldset", {}, h("legend", {}, "Find"), h("div", { class: "row" }, find, stop, clear));
}

function whichOrder(systems, again) {
  const names = [...new Set(contents.sources.filter((s) => s.side === view.side).flatMap((s) => s.values))];
  if (!names.includes(view.by)) view.by = names[0] ?? "";
  const set = (name) => (value) => {
    view[name] = value;
    if (name === "against") view.order = value ? "differ" : "high";
    if (name === "order" && OF_TWO.includes(value) && !view.against) view.against = systems.find((one) => one !== view.of) ?? "";
    if (name === "order" && !OF_TWO.includes(value)) view.against = "";
    if (["by", "of"].includes(name) && ["task", "random"].includes(view.order)) view.order = "high";
    again();
  };
  const [order, orders] = select("order", ORDERS.map(([value, text]) => option(value, text)), set("order"));
  orders.value = view.order;
  const [by, values] = select("by", names.map((name) => option(name, contents.values[name][0])), set("by"));
  values.value = view.by;
  const [of, first] = select("of", systems.map((name) => option(name)), set("of"));
  first.value = view.of;
  const [against, second] = select("against", [option("", "–"), ...systems.map((name) => option(name))], set("against"));
  second.value = view.against;
  const row = h("div", { class: "row" }, order, by, of, against);
  if (view.order === "random") row.append(h("button", { class: "small", onclick: () => { view.shuffle += 1; refresh(); } }, "shuffle again"));
  return h("fieldset", {}, h("legend", {}, "Sort"), row);
}

function whichMarks(systems) {
  const [base, box] = select("Fade text shared with", [option("", "(none)"), ...systems.map((name) => option(name))], (name) => { view.base = name; refresh(); });
  box.value = view.base;
  const key = h("small", { class: "key" });
  const explain = () => {
    const parts = [];
    if (view.repeats) parts.push(h("span", { class: "loop" }, "loop"), " ", h("span", { class: "gram" }, "four words repeated"), " ");
    if (view.surprise) parts.push("nats of a token: ", ...LEVELS.map((least, at) => h("span", { class: `s${at + 1}` }, `≥ ${least}`)));
    key.replaceChildren(...parts);
  };
  explain();
  const row = h("div", { class: "row" }, base, checkbox("repetition", view.repeats, (on) => { view.repeats = on; explain(); refresh(); })[0]);
  if (contents.sources.some((s) => s.tokens)) {
    row.append(checkbox("surprise", view.surprise, (on) => { view.surprise = on; explain(); refresh(); })[0]);
  }
  row.append(key);
  const keep = h("div", { class: "row" },
    h("button", { class: "small", onclick: downloadShown }, "download what is shown (JSONL)"),
    h("small", {}, "keys: j next, k previous, / find"));
  return h("fieldset", {}, h("legend", {}, "Mark"), row, keep);
}
