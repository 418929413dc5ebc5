// The text reader: selected examples, their order, and the current position.

const FIRST = 4; // systems in view at first

const view = {
  side: 0, columns: [], seed: "", sample: 0, order: "task", by: "words", of: "", against: "", shuffle: 1, words: "", stop: "",
  base: "", system: "", repeats: false, surprise: false,
};
const reader = { list: null, here: -1, turn: 0, controls: null, status: null };

const systemsOf = (side) => contents.systems.filter((name) => contents.sources.some((s) => s.side === side && s.system === name));
const authorsOf = (side) => systemsOf(side).filter((name) => !isHuman(name));

function startTexts() {
  const place = $("#texts-body");
  if (!place) return;
  takeSide(0);
  reader.status = h("p", { class: "status", role: "status" });
  const list = h("div", { class: "list" });
  reader.list = new LongList(list, (example) => drawExample(view, example));
  reader.controls = h("div", { class: "controls" });
  place.append(reader.controls, reader.status, list);
  drawControls(reader.controls);
  list.addEventListener("click", (event) => {
    const example = event.target.closest(".example");
    if (example && !event.target.closest("button, a")) stand(example);
  });
  document.addEventListener("keydown", press);
  window.addEventListener("hashchange", follow);
  follow().then((found) => found || refresh());
}

function takeSide(side) {
  view.side = side;
  const systems = systemsOf(side);
  view.columns = view.columns.filter((name) => systems.includes(name));
  if (!view.columns.length) view.columns = systems.slice(0, FIRST);
  view.of = authorsOf(side)[0] ?? systems[0] ?? "";
  view.against = "";
  if (!systems.includes(view.base)) view.base = "";
}

// Examples that pass the filters, in order; a later call makes an earlier one stop.
async function refresh() {
  const turn = reader.turn += 1;
  say("…");
  try {
    const places = await ordered(await passing(turn), view);
    if (turn !== reader.turn) return;
    reader.list.show(places);
    reader.here = -1;
    const all = sides[view.side].n;
    say(places.length === 0 ? "no matches" : places.length < all ? `${places.length} of ${all} examples` : `${all} examples`);
  } catch (error) {
    if (turn === reader.turn) say(error.message);
  }
}

function say(text) {
  reader.status.textContent = text;
}

async function passing(turn) {
  const all = Array.from({ length: sides[view.side].n }, (_, at) => at);
  const terms = termsOf(view.words);
  const sources = view.columns.map((system) => [system, sourceOf(view.side, system, view.seed)]).filter(([, at]) => at !== undefined);
  const asked = sources.filter(([system]) => !isHuman(system));
  const judged = asked.length ? asked : sources;
  const data = await Promise.all(judged.map(([, at]) => head(at)));
  let left = all;
  if (view.stop) {
    const wanted = view.stop === "length" ? "1" : "0";
    left = left.filter((e) => data.some((one) => one.rowOf(e, view.sample) >= 0 && one.cut[one.rowOf(e, view.sample)] === wanted));
  }
  if (!terms.length) return left;
  const found = [];
  for (const [count, example] of left.entries()) {
    const prompt = await promptOf(view.side, example);
    const texts = await Promise.all(sources.map(([, at]) => textOf(at, example, view.sample)));
    if (fits(prompt, terms) || texts.some((one) => one && fits(one.text, terms))) found.push(example);
    if (turn !== reader.turn) return [];
    if (count % contents.part === 0) say(`searching: ${count} of ${left.length}`);
  }
  return found;
}

// Moving -----------------------------------------------------------------------------------------------------------------

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const typing = event.target.closest("input[type=search], select, textarea");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing) return;
  if (event.key === "/") { event.preventDefault(); $("#find").focus(); }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
}

async function step(by) {
  const next = Math.min(Math.max(reader.here + by, 0), reader.list.order.length - 1);
  reader.here = next; // at once: the next key may come before the text
  const example = await reader.list.reach(next);
  if (example) stand(example);
}

// Stand on an example: mark it, put it into the address, bring it into view.
function stand(example) {
  for (const other of document.querySelectorAll(".example.here")) other.classList.remove("here");
  example.classList.add("here");
  example.focus({ preventScroll: true });
  example.scrollIntoView({ block: "start" });
  reader.here = reader.list.order.indexOf(Number(example.dataset.example));
  history.replaceState(null, "", $("h3 a", example).getAttribute("href"));
}

async function goTo(side, example, system) {
  if (view.side !== side) takeSide(side);
  if (system && systemsOf(side).includes(system) && !view.columns.includes(system)) {
    view.columns = systemsOf(side).filter((name) => name === system || view.columns.includes(name));
  }
  if (system) view.system = system;
  if (!reader.list.order.includes(example)) Object.assign(view, { words: "", stop: "" });
  drawControls(reader.controls);
  await refresh();
  const found = await reader.list.reach(reader.list.order.indexOf(example));
  if (!found) return;
  stand(found);
  requestAnimationFrame(() => found.scrollIntoView({ block: "start" })); // blocks above may have grown
}

// Go where the address says: `#task/example/system`, perhaps with seed and sample.
async function follow() {
  const words = location.hash.slice(1).split("/").map(decoded);
  if (words.length < 2) return false;
  const side = sides.findIndex((one) => one.name === words[0]);
  const example = side < 0 ? -1 : (await part(`ids-${side}`)).indexOf(words[1]);
  if (example < 0) {
    await refresh();
    say(`no text ${words.slice(0, 2).join(" ")} in this report`);
    return true;
  }
  if (words.length > 3) Object.assign(view, { seed: words[3], sample: Number(words[4]) || 0 });
  await goTo(side, example, words[2]);
  return true;
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

async function downloadShown() {
  const ids = await part(`ids-${view.side}`);
  const lines = [];
  for (const example of reader.list.order) {
    const prompt = await promptOf(view.side, example);
    for (const system of view.columns) {
      const data = await textIn(view, example, system);
      if (!data) continue;
      const { text, cut, seed, values } = data;
      const row = { example_id: ids[example], prompt, system, seed, sample: view.sample, text, stop: cut ? "length" : "eos", ...values };
      lines.push(`${JSON.stringify(row)}\n`);
    }
  }
  download("texts.jsonl", lines.join(""), "application/jsonl");
}
