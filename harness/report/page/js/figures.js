// Interactive figures, redrawn from the static ones: a point shows its value, the legend toggles systems.

const SVG = "http://www.w3.org/2000/svg";
const PANEL = { width: 400, height: 300, left: 62, right: 12, top: 26, bottom: 46 };
const CATCH = 26; // pixels around a point
const DASHES = { "--": "6 4", "-.": "7 3 2 3", ":": "2 3" };

function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

async function startFigures() {
  const figures = document.querySelectorAll("figure[data-figure]");
  if (!figures.length || !document.getElementById("part-figures")) return;
  const info = await part("figures");
  for (const figure of figures) {
    const trace = info[figure.dataset.figure];
    if (trace) drawFigure(figure, trace);
  }
}

function drawFigure(figure, trace) {
  const picture = $(".wide", figure);
  const tip = h("p", { class: "tip", role: "status" }, "Hover over a point, or use the arrow keys; Enter shows details.");
  // Panels in a row share the tick labels of the first.
  const named = trace.panels.find((panel) => panel.y.ticks.some(([, text]) => text))?.y.ticks ?? [];
  const panels = h("div", { class: "panels" }, ...trace.panels.map((panel) => drawPanel(panel, tip, named)));
  const still = h("details", { class: "still" }, h("summary", {}, "Static picture"));
  picture.before(panels, legendOf(trace, panels), tip, still);
  still.append(picture);
}

// Places on the screen; both axes may be logarithmic, and run downwards.
function scaleOf(axis, from, to) {
  const bend = axis.kind === "log" ? Math.log10 : (v) => v;
  const [low, high] = axis.limits.map(bend);
  return (value) => from + ((bend(value) - low) / (high - low || 1)) * (to - from);
}

const ink = (color) => (color === "#222222" ? "currentColor" : color);

function drawPanel(drawn, tip, named) {
  const panel = drawn.y.ticks.some(([, text]) => text) ? drawn : { ...drawn, y: { ...drawn.y, ticks: named } };
  const rows = new Map(panel.y.ticks);
  const names = panel.y.ticks.map(([, text]) => text);
  const wide = Math.min(150, Math.max(PANEL.left, 20 + 6.2 * Math.max(0, ...names.map((text) => text.length))));
  const [left, right, top, bottom] = [wide, PANEL.width - PANEL.right, PANEL.top, PANEL.height - PANEL.bottom];
  const [x, y] = [scaleOf(panel.x, left, right), scaleOf(panel.y, bottom, top)];
  const label = [panel.title, panel.x.label && `${panel.x.label} across`, panel.y.label && `${panel.y.label} up`].filter(Boolean).join(", ");
  const svg = s("svg", { viewBox: `0 0 ${PANEL.width} ${PANEL.height}`, tabindex: "0", role: "application", "aria-roledescription": "figure", "aria-label": label || "figure" });
  drawAxes(svg, panel, { x, y, left, right, top, bottom });
  const clip = `clip-${document.querySelectorAll("clipPath").length}-${Math.round(left)}-${panels.count += 1}`;
  svg.append(s("clipPath", { id: clip }, s("rect", { x: left, y: top - 6, width: right - left + 6, height: bottom - top + 12 })));
  const inside = s("g", { "clip-path": `url(#${clip})` });
  for (const rule of panel.rules) {
    const at = rule.x === undefined ? { x1: left, x2: right, y1: y(rule.y), y2: y(rule.y) } : { x1: x(rule.x), x2: x(rule.x), y1: top, y2: bottom };
    inside.append(s("line", { ...at, stroke: ink(rule.colour), "stroke-dasharray": DASHES[rule.line] ?? "", "stroke-width": 1 }));
  }
  for (const band of panel.bands) {
    inside.append(s("path", { d: pathOf(band.points, x, y), fill: ink(band.colour), opacity: 0.16, "data-colour": band.colour }));
  }
  for (const e of panel.ellipses) {
    const [px, py] = [x(e.x), y(e.y)];
    const [rx, ry] = [Math.abs(x(e.x + e.width / 2) - px), Math.abs(y(e.y + e.height / 2) - py)];
    inside.append(s("ellipse", { cx: px, cy: py, rx, ry, transform: `rotate(${-e.angle} ${px} ${py})`, fill: e.colour, opacity: 0.18, "data-colour": e.colour }));
  }
  svg.append(inside);
  const points = panel.series.flatMap((one) => drawSeries(inside, one, { panel, rows }, { x, y }));
  answer(svg, points, tip);
  return svg;
}

const panels = { count: 0 };

function drawAxes(svg, panel, { x, y, left, right, top, bottom }) {
  const text = (words, at) => s("text", { "font-size": 11, fill: "currentColor", ...at }, words);
  for (const [place, words] of panel.x.ticks) {
    svg.append(s("line", { x1: x(place), x2: x(place), y1: top, y2: bottom, class: "grid" }));
    svg.append(text(words, { x: x(place), y: bottom + 15, "text-anchor": "middle" }));
  }
  for (const [place, words] of panel.y.ticks) {
    svg.append(s("line", { x1: left, x2: right, y1: y(place), y2: y(place), class: "grid" }));
    svg.append(text(words.length > 22 ? `${words.slice(0, 21)}…` : words, { x: left - 6, y: y(place) + 4, "text-anchor": "end" }));
  }
  svg.append(s("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: "currentColor" }));
  svg.append(text(panel.title.replaceAll("\n", " · "), { x: (left + right) / 2, y: 15, "text-anchor": "middle", "font-weight": 600 }));
  svg.append(text(panel.x.label.replaceAll("\n", " "), { x: (left + right) / 2, y: PANEL.height - 8, "text-anchor": "middle" }));
  const up = panel.y.label.replaceAll("\n", " ");
  if (up) svg.append(text(up, { x: 0, y: 0, transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }));
}

const pathOf = (points, x, y) => points.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");

// Returns the points that react to the pointer: position, values, and the name of the series.
function drawSeries(place, one, { panel, rows }, { x, y }) {
  const group = s("g", { "data-series": one.label, "data-colour": one.colour });
  const color = ink(one.colour);
  if (one.line) {
    group.append(s("path", { d: pathOf(one.points, x, y), fill: "none", stroke: color, "stroke-width": Math.max(1.2, one.width * 1.3), "stroke-dasharray": DASHES[one.line] ?? "" }));
  }
  const found = one.points.map(([a, b], at) => {
    const [px, py] = [x(a), y(b)];
    const bar = one.across?.[at] ?? one.up?.[at];
    if (one.across) group.append(s("line", { x1: x(bar[0]), x2: x(bar[1]), y1: py, y2: py, stroke: color, "stroke-width": 1.5 }));
    if (one.up) group.append(s("line", { y1: y(bar[0]), y2: y(bar[1]), x1: px, x2: px, stroke: color, "stroke-width": 1.5 }));
    if (one.marker) group.append(markOf(one, px, py, color));
    const row = rows.get(b) ?? "";
    const system = one.label || (Number.isNaN(Number(row)) ? row : "");
    const interval = bar && bar[0] !== bar[1] ? ` [${bar.map(shown).join(", ")}]` : "";
    const value = one.across || (system && row === system) ? [[panel.title || "value", `${shown(a)}${interval}`]]
      : [[panel.x.label || "across", shown(a)], [panel.y.label || panel.title || "up", `${shown(b)}${interval}`]];
    return { px, py, system, value, group };
  });
  place.append(group);
  return found;
}

function markOf(one, px, py, color) {
  const fill = one.hollow ? "none" : color;
  const r = one.marker === "." ? 1.6 : 4.2;
  const shapes = {
    s: `M${px - r} ${py - r}h${2 * r}v${2 * r}h${-2 * r}z`, D: `M${px} ${py - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`,
    "^": `M${px} ${py - r}l${r} ${2 * r}h${-2 * r}z`, v: `M${px} ${py + r}l${r} ${-2 * r}h${-2 * r}z`,
    X: `M${px - r} ${py - r}l${2 * r} ${2 * r}M${px + r} ${py - r}l${-2 * r} ${2 * r}`, P: `M${px - r} ${py}h${2 * r}M${px} ${py - r}v${2 * r}`,
    "*": Array.from({ length: 10 }, (_, k) => [k % 2 ? 3 : 7, (k * Math.PI) / 5]).map(([far, turn], k) => `${k ? "L" : "M"}${px + far * Math.sin(turn)} ${py - far * Math.cos(turn)}`).join("") + "z",
  };
  const d = shapes[one.marker];
  return d ? s("path", { d, fill, stroke: color, "stroke-width": "XP".includes(one.marker) ? 2.4 : 1 }) : s("circle", { cx: px, cy: py, r, fill, stroke: color });
}

function answer(svg, points, tip) {
  const ring = s("circle", { r: 8, fill: "none", stroke: "currentColor", "stroke-width": 1.5, visibility: "hidden" });
  svg.append(ring);
  let here = -1;
  const point = (at) => {
    here = at;
    ring.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at < 0) return;
    const { px, py, system, value } = points[at];
    ring.setAttribute("cx", px);
    ring.setAttribute("cy", py);
    tip.textContent = [system, ...value.map(([name, words]) => `${name.replaceAll("\n", " ")}: ${words}`)].filter(Boolean).join(" · ");
  };
  const off = (one) => one.group.hasAttribute("hidden");
  const near = (event) => {
    const box = svg.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) / box.width) * PANEL.width, ((event.clientY - box.top) / box.height) * PANEL.height];
    let [best, least] = [-1, CATCH ** 2];
    for (const [at, one] of points.entries()) {
      const far = (one.px - x) ** 2 + (one.py - y) ** 2;
      if (far < least && !off(one)) [best, least] = [at, far];
    }
    return best;
  };
  const tell = () => { if (here >= 0) pointStory(points[here]); };
  svg.addEventListener("pointermove", (event) => point(near(event)));
  svg.addEventListener("click", (event) => { point(near(event)); tell(); });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") tell();
    if (!by || !points.length) return;
    event.preventDefault();
    let next = here;
    do next = (next + by + points.length) % points.length; while (off(points[next]) && next !== here);
    point(next);
  });
}

// Shows the point's system as in the first table that lists it, with a link to its texts.
async function pointStory({ system, value }) {
  const info = await stories();
  const plain = (label) => system === label || system.startsWith(`${label} (`);
  const known = info.tables.flatMap((t) => t.rows).filter((row) => plain(row.label)).sort((a, b) => b.label.length - a.label.length)[0];
  const cell = known?.cells.find((c) => c.settings !== undefined);
  const settings = cell && info.settings[cell.settings];
  const pairs = [...value, ["settings", settings ? settingsOf(settings) : null], ["runs", cell ? cell.runs.map((at) => info.texts[at]).join(", ") : null]];
  openStory(system || "value", pairs, readButton(known?.label ?? system));
}

function legendOf(trace, place) {
  const names = new Map(trace.panels.flatMap((panel) => panel.series.filter((one) => one.label).map((one) => [one.label, one])));
  const buttons = [...names].map(([label, one]) => {
    const mark = s("svg", { viewBox: "0 0 26 14", width: 26, height: 14, "aria-hidden": "true" });
    if (one.line) mark.append(s("path", { d: "M1 7H25", stroke: ink(one.colour), "stroke-width": 2, "stroke-dasharray": DASHES[one.line] ?? "" }));
    if (one.marker) mark.append(markOf(one, 13, 7, ink(one.colour)));
    const button = h("button", { class: "small", "aria-pressed": "true" }, mark, " ", label);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      const alike = [...names.values()].filter((other) => other.colour === one.colour).length === 1;
      for (const group of place.querySelectorAll("[data-series]")) if (group.dataset.series === label) group.toggleAttribute("hidden", !on);
      if (alike) for (const band of place.querySelectorAll("path[data-colour], ellipse[data-colour]")) if (band.dataset.colour === one.colour) band.toggleAttribute("hidden", !on);
    });
    return button;
  });
  return h("div", { class: "legend", role: "group", "aria-label": "shown in the figure" }, ...buttons);
}
