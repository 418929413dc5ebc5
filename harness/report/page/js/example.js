// One example: its prompt and the selected systems' texts.

const LONGEST = 4000; // characters shown at first

const linkTo = (view, example, id, system) => {
  const words = [sides[view.side].name, id, system];
  if (view.seed || view.sample) words.push(view.seed, String(view.sample));
  return `#${words.map(encodeURIComponent).join("/")}`;
};

async function drawExample(view, example) {
  const id = (await part(`ids-${view.side}`))[example];
  const prompt = await promptOf(view.side, example);
  const base = view.base ? await textIn(view, example, view.base) : null;
  const columns = await Promise.all(view.columns.map(async (system) => [system, await textIn(view, example, system)]));
  const link = linkTo(view, example, id, view.columns.includes(view.system) ? view.system : view.columns.at(-1) ?? HUMAN);
  const terms = termsOf(view.words);
  const before = h("pre", { class: "prompt", dir: "auto" });
  paintCut(before, prompt, hits(prompt, terms));
  const texts = columns.map(([system, info]) => drawText(view, { id, example, system, info, base, terms }));
  const made = h(
    "article", { class: "example", tabindex: "-1", "data-example": String(example), "aria-label": id },
    h("h3", {}, h("a", { href: link }, id)), before, h("div", { class: "texts" }, ...texts),
  );
  return made;
}

async function textIn(view, example, system) {
  const at = sourceOf(view.side, system, view.seed);
  if (at === undefined) return null;
  const info = await textOf(at, example, view.sample);
  return info && { ...info, seed: contents.sources[at].seed };
}

function drawText(view, { id, example, system, info, base, terms }) {
  const name = info?.seed && info.seed !== "–" ? [system, " ", h("small", {}, `seed ${info.seed}`)] : [system];
  const made = h("section", { class: isHuman(system) ? "text is-human" : "text", "data-system": system }, h("h4", {}, ...name));
  if (!info) {
    made.append(h("small", { class: "facts" }, "no text"));
    return made;
  }
  const body = h("pre", { dir: "auto" });
  const ranges = hits(info.text, terms);
  if (view.repeats) ranges.push(...repeats(info.text));
  if (view.surprise && info.tokens) ranges.push(...surprises(info.tokens, info.surprise));
  if (base && view.base !== system) {
    const shared = common(info.text, base.text);
    const next = String.fromCodePoint(info.text.codePointAt(shared) ?? 32).length;
    ranges.push({ from: 0, to: shared, css: "same", title: `as ${view.base}` });
    if (shared < info.text.length) ranges.push({ from: shared, to: shared + next, css: "part", title: "" });
  }
  paintCut(body, info.text, ranges);
  const button = h("button", { class: "small", onclick: () => copy(info.text, button) }, "copy");
  made.append(body, ...facts(view, info), " ", button);
  if (info.nearest !== undefined) {
    const near = h("button", { class: "small", onclick: () => goTo(view.side, info.nearest, humanOf(system)) }, "nearest human text");
    made.append(" ", near);
  }
  return made;
}

// Why it stopped, its length, the number that the list is sorted by; all others when asked for.
function facts(view, info) {
  const say = (name) => `${contents.values[name][0]} ${shown(info.values[name])}`;
  const by = view.by in info.values && !["task", "random"].includes(view.order) ? view.by : "words";
  const lead = h("small", { class: "facts" }, info.cut ? "cut at the limit · " : "ended · ", h("b", {}, say(by)));
  const rest = Object.keys(info.values).filter((name) => name !== by).map((name) => h("div", {}, say(name)));
  return [lead, h("details", { class: "facts" }, h("summary", {}, "numbers"), ...rest)];
}

// Very long texts are shown in part, ten times as much with each click: a browser takes seconds for a line of a megabyte.
function paintCut(element, text, ranges, end = LONGEST) {
  if (text.length <= end) return paint(element, text, ranges);
  paint(element, text, ranges, end);
  const more = h("button", { class: "small", onclick: () => paintCut(element, text, ranges, 10 * end) }, `… ${end} of ${text.length} characters; more`);
  element.append(more);
}
