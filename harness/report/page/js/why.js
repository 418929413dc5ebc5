// Why a score is low: cells that one side fills more than the other, texts that precision and recall miss.

async function startWhy() {
  const place = $("#why-body");
  if (!place) return;
  const data = await part("why");
  const names = data.map((one) => [one.system, one.seed && one.seed !== "–" ? `seed ${one.seed}` : "", one.metric, one.options].filter(Boolean).join(" · "));
  const body = h("div");
  const show = (at) => drawReasons(body, data[Number(at)]);
  const [label] = select("of", names.map((name, at) => option(String(at), name)), show);
  place.append(h("div", { class: "row" }, label), body);
  await show(0);
}

async function drawReasons(body, data) {
  const most = Math.max(...data.cells.map((c) => Math.max(c.human, c.model)), 1e-9);
  const cells = await Promise.all(data.cells.map((cell) => drawCell(data, cell, most)));
  const missed = await Promise.all(Object.entries(data.missed).map(([side, one]) => drawMissed(data, side, one)));
  const ratios = await Promise.all(Object.entries(data.ratio).map(([side, one]) => drawRatios(data, side, one)));
  const intro = cells.length ? [h("p", { class: "foot" }, "Cells of the embedding space that one side fills more than the other, the largest difference first, with the texts of each nearest to the cell's centre.")] : [];
  body.replaceChildren(...intro, ...cells, ...missed, ...ratios);
}

async function drawCell(data, cell, most) {
  const bar = (side, share) => {
    const svg = s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: `bar ${side}`, "aria-hidden": "true" });
    svg.append(s("rect", { x: 0, y: 0, height: 6, width: (100 * share) / most }));
    return h("div", { class: "share" }, h("span", {}, `${side} ${(100 * share).toFixed(1)} %`), svg);
  };
  const texts = await Promise.all(["human", "model"].map((side) => listTexts(data, side, cell[`${side}_texts`])));
  const more = cell.human > cell.model ? "more human than model text" : "more model than human text";
  return h("details", { class: "why" },
    h("summary", {}, h("span", {}, `cell ${cell.cell}: ${more}`), bar("human", cell.human), bar("model", cell.model)),
    h("div", { class: "texts" }, ...texts));
}

async function listTexts(data, side, texts) {
  const system = side === "human" ? humanOf(data.system) : data.system;
  const items = await Promise.all(texts.map((one) => brief(data, system, one)));
  const body = items.length ? h("ul", {}, ...items) : h("p", { class: "foot" }, "none");
  return h("section", { class: side === "human" ? "text is-human" : "text" }, h("h3", {}, system), body);
}

async function brief(data, system, [example, sample]) {
  const at = sourceOf(data.side, system, data.seed);
  const text = at === undefined ? null : await textOf(at, example, sample);
  const id = (await part(`ids-${data.side}`))[example];
  const open = h("button", { class: "small", onclick: () => goToSample(data, example, sample, system) }, id);
  const words = h("span", { dir: "auto", class: "quote" }, text ? text.text.slice(0, 300).trim() + (text.text.length > 300 ? " …" : "") : "no longer in the store");
  return h("li", {}, open, " ", words);
}

async function drawMissed(data, side, { count, texts }) {
  const words = side === "human"
    ? `${count} human texts that no model text is near to: what recall misses`
    : `${count} model texts that no human text is near to: what precision misses`;
  return h("details", { class: "why" }, h("summary", {}, words), await listTexts(data, side, texts));
}

async function drawRatios(data, side, { texts, log_ratio: ratios }) {
  const other = side === "human" ? "model" : "human";
  const list = await listTexts(data, side, texts);
  list.querySelectorAll("li").forEach((item, at) => item.append(h("small", {}, ` log p/q ${shown(ratios[at])} nats`)));
  return h("details", { class: "why" }, h("summary", {}, `${side} texts that are least like ${other} texts`), list);
}

async function goToSample(data, example, sample, system) {
  view.sample = sample;
  if (!isHuman(system)) view.seed = data.seed === "–" ? "" : data.seed;
  await goTo(data.side, example, system);
}
