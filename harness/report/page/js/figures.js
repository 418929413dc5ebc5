// Interactive figures of the same numbers as the static ones: a point shows its value, the legend toggles systems.

const SVG = "http://www.w3.org/2000/svg";
const MARGINS = { left: 62, right: 12, top: 26, bottom: 46 };
const SEVERAL = { width: 400, height: 280 }; // pixels of one of several panels
const SINGLE = { width: 560, height: 380 };
const FONT_SIZE = 11;
const LINE = 15; // pixels from a line of text to the next
const MARKER = 6; // pixels from the middle of a marker to its edge
const MAX_DISTANCE = 26; // pixels around a point
const DASHES = { "--": "6 4", "-.": "7 3 2 3", ":": "2 3" };

function createSvg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

async function startFigures() {
  const figures = document.querySelectorAll("figure[data-figure]");
  if (!figures.length || !document.getElementById("part-figures")) return;
  const figureContents = await loadPart("figures");
  for (const figure of figures) {
    const content = figureContents[figure.dataset.figure];
    if (content) drawFigure(figure, content);
  }
}

function drawFigure(figure, content) {
  const picture = $(".wide", figure);
  const tip = createElement("p", { class: "tip", role: "status" }, "Hover over a point, or use the arrow keys; Enter shows details.");
  const size = content.panels.length > 1 ? SEVERAL : SINGLE;
  const panels = createElement("div", { class: "panels" }, ...content.panels.map((panel) => drawPanel(panel, size, tip)));
  const still = createElement("details", { class: "still" }, createElement("summary", {}, "Static picture"));
  const notes = content.note ? [createElement("p", { class: "foot" }, content.note)] : [];
  picture.before(panels, createLegend(content, panels), ...notes, tip, still);
  still.append(picture);
}

// Screen positions; both axes may be logarithmic, and run downwards.
function createScale(axis, from, to) {
  const transform = axis.kind === "log" ? Math.log10 : (v) => v;
  const [low, high] = axis.limits.map(transform);
  return (value) => from + ((transform(value) - low) / (high - low || 1)) * (to - from);
}

// The human text is drawn in the color of the letters.
const adaptColor = (color) => (color === "#222222" ? "currentColor" : color);

const shorten = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);

// Pixels of a text in the font of the page.
function measureWidth(text) {
  const context = createElement("canvas").getContext("2d");
  context.font = `${FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return context.measureText(text).width;
}

const clips = { count: 0 };

// Cut what is drawn at the edges of a panel, or some pixels beyond them; returns the attribute that says so.
function createClip(svg, { left, right, top, bottom }, reach) {
  const id = `clip-${clips.count += 1}`;
  const box = { x: left - reach, y: top - reach, width: right - left + 2 * reach, height: bottom - top + 2 * reach };
  svg.append(createSvg("clipPath", { id }, createSvg("rect", box)));
  return { "clip-path": `url(#${id})` };
}

function drawPanel(panel, size, tip) {
  const widest = Math.max(0, ...panel.y.ticks.map(([, text]) => measureWidth(shorten(text))));
  const left = Math.max(MARGINS.left, widest + (panel.y.label ? 11 + LINE * panel.y.label.split("\n").length : 12));
  const [right, top, bottom] = [size.width - MARGINS.right, MARGINS.top, size.height - MARGINS.bottom];
  const scales = { x: createScale(panel.x, left, right), y: createScale(panel.y, bottom, top) };
  const label = [panel.title, panel.x.label && `${panel.x.label} across`, panel.y.label && `${panel.y.label} up`].filter(Boolean).join(", ");
  const svg = createSvg("svg", { viewBox: `0 0 ${size.width} ${size.height}`, tabindex: "0", role: "application", "aria-roledescription": "figure", "aria-label": label || "figure" });
  const edges = { left, right, top, bottom };
  drawAxes(svg, panel, { ...scales, ...edges, height: size.height });
  const [inside, around] = [createClip(svg, edges, 0), createClip(svg, edges, MARKER)]; // markers at an edge are whole
  const background = createSvg("g", inside);
  drawBackground(background, panel, { ...scales, ...edges });
  svg.append(background);
  const content = createSvg("g", around);
  svg.append(content);
  const points = panel.series.flatMap((series) => drawSeries(content, series, panel, scales, inside));
  addPointer(svg, points, size, tip);
  return svg;
}

// Rules, bands and ellipses.
function drawBackground(content, panel, { x, y, left, right, top, bottom }) {
  for (const rule of panel.rules) {
    const ends = rule.x === undefined ? { x1: left, x2: right, y1: y(rule.y), y2: y(rule.y) } : { x1: x(rule.x), x2: x(rule.x), y1: top, y2: bottom };
    content.append(createSvg("line", { ...ends, stroke: adaptColor(rule.color), "stroke-dasharray": DASHES[rule.line] ?? "", "stroke-width": 1 }));
  }
  for (const band of panel.bands) {
    content.append(createSvg("path", { d: formatPath(band.points, x, y), fill: adaptColor(band.color), opacity: 0.16, "data-color": band.color }));
  }
  for (const { x: cx, y: cy, width, height, angle, color } of panel.ellipses) {
    const [px, py] = [x(cx), y(cy)];
    const [rx, ry] = [Math.abs(x(cx + width / 2) - px), Math.abs(y(cy + height / 2) - py)];
    content.append(createSvg("ellipse", { cx: px, cy: py, rx, ry, transform: `rotate(${-angle} ${px} ${py})`, fill: color, opacity: 0.18, "data-color": color }));
  }
}

function drawAxes(svg, panel, { x, y, left, right, top, bottom, height }) {
  const createText = (text, attributes) => createSvg("text", { "font-size": FONT_SIZE, fill: "currentColor", ...attributes }, text);
  for (const [value, text] of panel.x.ticks) {
    svg.append(createSvg("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: "grid" }));
    svg.append(createText(text, { x: x(value), y: bottom + 15, "text-anchor": "middle" }));
  }
  for (const [value, text] of panel.y.ticks) {
    svg.append(createSvg("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(createText(shorten(text), { x: left - 6, y: y(value) + 4, "text-anchor": "end" }));
  }
  svg.append(createSvg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: "currentColor" }));
  const center = (left + right) / 2;
  svg.append(createText(panel.title.replaceAll("\n", " · "), { x: center, y: 15, "text-anchor": "middle", "font-weight": 600 }));
  svg.append(createText(panel.x.label.replaceAll("\n", " "), { x: center, y: height - 8, "text-anchor": "middle" }));
  for (const [at, line] of (panel.y.label ? panel.y.label.split("\n") : []).entries()) {
    svg.append(createText(line, { x: 0, y: 0, transform: `translate(${13 + LINE * at} ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }));
  }
}

const formatPath = (points, x, y) => points.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");

// Returns the points that react to the pointer: position, values, and the name of the series.
function drawSeries(content, series, panel, { x, y }, inside) {
  const color = adaptColor(series.color);
  const group = createSvg("g", { "data-series": series.label, "data-color": series.color, "data-line": series.line ?? "" });
  const ticks = new Map(panel.y.ticks);
  const [first, step] = series.every ?? [0, 1];
  const lines = createSvg("g", inside);
  group.append(lines);
  if (series.line) {
    lines.append(createSvg("path", { d: formatPath(series.points, x, y), fill: "none", stroke: color, "stroke-width": Math.max(1.2, series.width * 1.3), "stroke-dasharray": DASHES[series.line] ?? "" }));
  }
  const points = series.points.map(([a, b], at) => {
    const [px, py] = [x(a), y(b)];
    const bar = series.across?.[at] ?? series.up?.[at];
    if (series.across) lines.append(createSvg("line", { x1: x(bar[0]), x2: x(bar[1]), y1: py, y2: py, stroke: color, "stroke-width": 1.5 }));
    if (series.up) lines.append(createSvg("line", { y1: y(bar[0]), y2: y(bar[1]), x1: px, x2: px, stroke: color, "stroke-width": 1.5 }));
    if (series.marker && at >= first && (at - first) % step === 0) group.append(createMarker(series, px, py));
    const interval = bar && bar[0] !== bar[1] ? ` [${bar.map(formatNumber).join(", ")}]` : "";
    const row = ticks.get(b) ?? "";
    const isRow = row !== "" && Number.isNaN(Number(row)); // a row of a panel of systems, not a height
    const values = isRow ? [[panel.title || "value", `${formatNumber(a)}${interval}`]]
      : [[panel.x.label || "across", formatNumber(a)], [panel.y.label || panel.title || "up", `${formatNumber(b)}${interval}`]];
    return { px, py, system: series.label || (isRow ? row : ""), values, group };
  });
  content.append(group);
  return points;
}

function createMarker({ marker, color, hollow }, px, py) {
  const stroke = adaptColor(color);
  const fill = hollow ? "none" : stroke;
  const r = marker === "." ? 1.6 : 4.2;
  const shapes = {
    s: `M${px - r} ${py - r}h${2 * r}v${2 * r}h${-2 * r}z`, D: `M${px} ${py - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`,
    "^": `M${px} ${py - r}l${r} ${2 * r}h${-2 * r}z`, v: `M${px} ${py + r}l${r} ${-2 * r}h${-2 * r}z`,
    X: `M${px - r} ${py - r}l${2 * r} ${2 * r}M${px + r} ${py - r}l${-2 * r} ${2 * r}`, P: `M${px - r} ${py}h${2 * r}M${px} ${py - r}v${2 * r}`,
    "*": Array.from({ length: 10 }, (_, k) => [k % 2 ? 3 : 7, (k * Math.PI) / 5]).map(([radius, angle], k) => `${k ? "L" : "M"}${px + radius * Math.sin(angle)} ${py - radius * Math.cos(angle)}`).join("") + "z",
  };
  const d = shapes[marker];
  if (!d) return createSvg("circle", { cx: px, cy: py, r, fill, stroke });
  return createSvg("path", { d, fill, stroke, "stroke-width": "XP".includes(marker) ? 2.4 : 1 });
}

function addPointer(svg, points, size, tip) {
  const ring = createSvg("circle", { r: 8, fill: "none", stroke: "currentColor", "stroke-width": 1.5, visibility: "hidden" });
  svg.append(ring);
  let current = -1;
  const pointAt = (at) => {
    current = at;
    ring.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at < 0) return;
    const { px, py, system, values } = points[at];
    ring.setAttribute("cx", px);
    ring.setAttribute("cy", py);
    tip.textContent = [system, ...values.map(([name, text]) => `${name.replaceAll("\n", " ")}: ${text}`)].filter(Boolean).join(" · ");
  };
  const isHidden = (point) => point.group.hasAttribute("hidden");
  const findNearest = (event) => {
    const box = svg.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) / box.width) * size.width, ((event.clientY - box.top) / box.height) * size.height];
    let [nearest, least] = [-1, MAX_DISTANCE ** 2];
    for (const [at, point] of points.entries()) {
      const distance = (point.px - x) ** 2 + (point.py - y) ** 2;
      if (distance < least && !isHidden(point)) [nearest, least] = [at, distance];
    }
    return nearest;
  };
  const showDetails = () => { if (current >= 0) showPointDetails(points[current]); };
  svg.addEventListener("pointermove", (event) => pointAt(findNearest(event)));
  svg.addEventListener("click", (event) => { pointAt(findNearest(event)); showDetails(); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") showDetails();
    if (!step || !points.length) return;
    event.preventDefault();
    let next = current;
    do next = (next + step + points.length) % points.length; while (isHidden(points[next]) && next !== current);
    pointAt(next);
  });
}

// Shows the point's system as in the first table that lists it, with a link to its texts.
async function showPointDetails({ system, values }) {
  const data = await loadStories();
  const matches = (label) => system === label || system.startsWith(`${label} (`);
  const row = data.tables.flatMap((table) => table.rows).filter(({ label }) => matches(label)).sort((a, b) => b.label.length - a.label.length)[0];
  const cell = row?.cells.find((c) => c.settings !== undefined);
  const settings = cell && data.settings[cell.settings];
  const pairs = [
    ...values, ["settings", settings ? createSettingsList(settings) : null], ["runs", cell ? cell.runs.map((at) => data.texts[at]).join(", ") : null],
  ];
  openDialog(system || "value", pairs, createReadButton(row?.label ?? system));
}

function createLegend(content, panels) {
  const labeled = content.panels.flatMap((panel) => panel.series.filter(({ label }) => label));
  const series = [...new Map(labeled.toReversed().map((entry) => [entry.label, entry])).values()].reverse();
  const buttons = series.map((entry) => {
    const mark = createSvg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, "aria-hidden": "true" });
    if (entry.line) mark.append(createSvg("path", { d: "M1 7H25", stroke: adaptColor(entry.color), "stroke-width": 2, "stroke-dasharray": DASHES[entry.line] ?? "" }));
    if (entry.marker) mark.append(createMarker(entry, 13, 7));
    const button = createElement("button", { class: "small", "aria-pressed": "true" }, mark, " ", entry.label);
    button.addEventListener("click", () => {
      const visible = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(visible));
      for (const group of panels.querySelectorAll("[data-series]")) if (group.dataset.series === entry.label) group.toggleAttribute("hidden", !visible);
      if (series.filter(({ color }) => color === entry.color).length > 1) return; // bands are known by their color alone
      for (const band of panels.querySelectorAll("path[data-color], ellipse[data-color]")) if (band.dataset.color === entry.color) band.toggleAttribute("hidden", !visible);
    });
    return button;
  });
  return createElement("div", { class: "legend", role: "group", "aria-label": "shown in the figure" }, ...buttons);
}
