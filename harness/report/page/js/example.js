// One example: its prompt and the selected systems' texts.

const LONGEST = 4000; // characters shown at first

const formatPosition = (view, id, system) => [sides[view.side].name, id, system].map(encodeURIComponent).join("/");

async function drawExample(view, example) {
  const id = (await loadPart(`ids-${view.side}`))[example];
  const prompt = await loadPrompt(view.side, example);
  const base = view.base ? await loadSystemText(view, example, view.base) : null;
  const columns = await Promise.all(view.columns.map(async (system) => [system, await loadSystemText(view, example, system)]));
  const position = formatPosition(view, id, view.columns.includes(view.system) ? view.system : view.columns.at(-1) ?? HUMAN);
  const terms = parseTerms(view.words);
  const before = createElement("pre", { class: "prompt", dir: "auto" });
  paintShortened(before, prompt, findHits(prompt, terms));
  const texts = columns.map(([system, info]) => drawText(view, { system, info, base, terms }));
  const isCurrent = example === reader.list.order[reader.current];
  return createElement(
    "article", { class: isCurrent ? "example here" : "example", tabindex: "-1", "data-example": String(example), "data-position": position, "aria-label": id },
    createElement("h3", {}, createElement("a", { href: formatAddress(position) }, id)), before, createElement("div", { class: "texts" }, ...texts),
  );
}

async function loadSystemText(view, example, system) {
  const source = findSource(view.side, system, view.seed);
  if (source === undefined) return null;
  const info = await loadText(source, example, view.sample);
  return info && { ...info, seed: contents.sources[source].seed };
}

function createTextHeading(system, seed) {
  const suffix = seed && seed !== "–" ? [" ", createElement("small", {}, `seed ${seed}`)] : [];
  return createElement("h4", {}, createSwatch(system), system, ...suffix);
}

function drawText(view, { system, info, base, terms }) {
  const element = createElement("section", { class: isHuman(system) ? "text is-human" : "text", "data-system": system }, createTextHeading(system, info?.seed));
  if (!info) {
    element.append(createElement("small", { class: "facts" }, "no text"));
    return element;
  }
  const body = createElement("pre", { dir: "auto" });
  const ranges = findHits(info.text, terms);
  if (view.repeats) ranges.push(...findRepeats(info.text));
  if (view.surprise && info.tokens) ranges.push(...findSurprises(info.tokens, info.surprise));
  if (base && view.base !== system) {
    const shared = countSharedCharacters(info.text, base.text);
    const next = String.fromCodePoint(info.text.codePointAt(shared) ?? 32).length;
    ranges.push({ from: 0, to: shared, css: "same", title: `as ${view.base}` });
    if (shared < info.text.length) ranges.push({ from: shared, to: shared + next, css: "part", title: "" });
  }
  paintShortened(body, info.text, ranges);
  const button = createElement("button", { class: "small", onclick: () => copyText(info.text, button) }, "copy");
  element.append(body, ...createFacts(view, info), " ", button);
  if (info.nearest !== undefined) {
    const openNearest = () => openExample(view.side, info.nearest, findHumanSystem(system));
    element.append(" ", createElement("button", { class: "small", onclick: openNearest }, "nearest human text"));
  }
  return element;
}

// Why it stopped, its length or the value that the list is sorted by; all others on request.
function createFacts(view, info) {
  const describe = (name) => `${contents.values[name][0]} ${formatNumber(info.values[name])}`;
  const by = view.by in info.values && !["task", "random"].includes(view.order) ? view.by : "words";
  const first = createElement("small", { class: "facts" }, info.cut ? "cut at the limit · " : "ended · ", createElement("b", {}, describe(by)));
  const rest = Object.keys(info.values).filter((name) => name !== by).map((name) => createElement("div", {}, describe(name)));
  return [first, createElement("details", { class: "facts" }, createElement("summary", {}, "numbers"), ...rest)];
}

// Very long texts are shown in part, ten times as much with each click: a browser takes seconds for a line of a megabyte.
function paintShortened(element, text, ranges, end = LONGEST) {
  if (text.length <= end) return paint(element, text, ranges);
  paint(element, text, ranges, end);
  const showMore = () => paintShortened(element, text, ranges, 10 * end);
  element.append(createElement("button", { class: "small", onclick: showMore }, `… ${end} of ${text.length} characters; more`));
}
