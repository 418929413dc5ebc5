// Why a score is low: cells that one side fills more than the other, texts that precision and recall miss.

async function startWhy() {
  const container = $("#why-body");
  if (!container) return;
  const groups = await loadPart("why");
  const body = createElement("div");
  const names = groups.map((group, at) => createOption(String(at), group.name));
  container.append(createElement("div", { class: "row" }, createSelect("of", names, "0", (at) => drawReasons(body, groups[Number(at)]))), body);
  await drawReasons(body, groups[0]);
}

async function drawReasons(body, group) {
  const largest = Math.max(...group.cells.map((cell) => Math.max(cell.human, cell.model)), 0.01);
  const limit = Math.ceil(largest * 20) / 20; // a multiple of 5 %
  const cells = await Promise.all(group.cells.map((cell) => drawCell(group, cell, limit)));
  const missed = await Promise.all(Object.entries(group.missed).map(([side, texts]) => drawMissed(group, side, texts)));
  const ratios = await Promise.all(Object.entries(group.ratio).map(([side, texts]) => drawRatios(group, side, texts)));
  const summary = group.summary ? [createElement("p", { class: "finding" }, group.summary)] : [];
  body.replaceChildren(...summary, ...(cells.length ? drawCellHeader(limit) : []), ...cells, ...missed, ...ratios);
}

function drawCellHeader(limit) {
  const intro = "Cells of the embedding space that one side fills more than the other, the largest difference first, named by the typical words of their central texts. Open one to read these texts.";
  const ticks = [0, limit / 2, limit].map((share) => createElement("span", {}, `${Number((100 * share).toFixed(1))} %`));
  const key = ["human", "model"].map((side) => createElement("span", { class: `key-${side}` }, side));
  return [
    createElement("p", { class: "foot" }, intro),
    createElement("div", { class: "cells-head", "aria-hidden": "true" }, createElement("span", {}, "share of the texts of each side: ", key[0], " ", key[1]), createElement("span", { class: "axis" }, ...ticks)),
  ];
}

async function drawCell(group, cell, limit) {
  const createBar = (side, share) => {
    const svg = createSvg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: `bar ${side}`, "aria-hidden": "true" });
    svg.append(createSvg("rect", { x: 0, y: 0, height: 6, width: (100 * share) / limit }));
    return createElement("span", { class: "share" }, svg, createElement("span", {}, `${side} ${(100 * share).toFixed(1)} %`));
  };
  const texts = await Promise.all(["human", "model"].map((side) => listTexts(group, side, cell[`${side}_texts`])));
  const excess = cell.human > cell.model ? "more human than model text" : "more model than human text";
  const name = cell.words.length ? cell.words.join(", ") : `cell ${cell.cell}`;
  const title = createElement("span", { class: "cell-name" }, createElement("b", {}, name), createElement("small", {}, ` ${excess} (cell ${cell.cell})`));
  return createElement("details", { class: "why" },
    createElement("summary", {}, title, createElement("span", { class: "shares" }, createBar("human", cell.human), createBar("model", cell.model))),
    createElement("div", { class: "texts" }, ...texts));
}

async function listTexts(group, side, texts) {
  const system = side === "human" ? findHumanSystem(group.system) : group.system;
  const items = await Promise.all(texts.map((text) => quoteText(group, system, text)));
  const body = items.length ? createElement("ul", {}, ...items) : createElement("p", { class: "foot" }, "none");
  return createElement("section", { class: side === "human" ? "text is-human" : "text" }, createElement("h3", {}, system), body);
}

async function quoteText(group, system, [example, sample]) {
  const source = findSource(group.side, system, group.seed);
  const info = source === undefined ? null : await loadText(source, example, sample);
  const id = (await loadPart(`ids-${group.side}`))[example];
  const button = createElement("button", { class: "small", onclick: () => openSample(group, example, sample, system) }, id);
  const quote = info ? info.text.slice(0, 300).trim() + (info.text.length > 300 ? " …" : "") : "no longer in the store";
  return createElement("li", {}, button, " ", createElement("span", { dir: "auto", class: "quote" }, quote));
}

async function drawMissed(group, side, { count, texts }) {
  const title = side === "human"
    ? `${count} human texts that no model text is near to: what recall misses`
    : `${count} model texts that no human text is near to: what precision misses`;
  return createElement("details", { class: "why" }, createElement("summary", {}, createElement("span", { class: "cell-name" }, title)), await listTexts(group, side, texts));
}

async function drawRatios(group, side, { texts, log_ratio: ratios }) {
  const other = side === "human" ? "model" : "human";
  const list = await listTexts(group, side, texts);
  list.querySelectorAll("li").forEach((item, at) => item.append(createElement("small", {}, ` log p/q ${formatNumber(ratios[at])} nats`)));
  return createElement("details", { class: "why" }, createElement("summary", {}, createElement("span", { class: "cell-name" }, `${side} texts that are least like ${other} texts`)), list);
}

async function openSample(group, example, sample, system) {
  view.sample = sample;
  if (!isHuman(system)) view.seed = group.seed === "–" ? "" : group.seed;
  await openExample(group.side, example, system);
}
