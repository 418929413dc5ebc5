// The dialog with the details of a value.

function openStory(title, pairs, ...buttons) {
  const dialog = $("#story");
  const close = h("button", { onclick: () => dialog.close() }, "close");
  const list = h("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) => [
    h("dt", {}, name), h("dd", {}, value),
  ]));
  dialog.replaceChildren(h("h2", { id: "story-title" }, title), list, h("div", { class: "row" }, ...buttons.filter(Boolean), close));
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.showModal();
  dialog.scrollTop = 0;
}

const stories = () => part("stories");

async function cellStory(table, row, column) {
  const data = await stories();
  const { title, columns, rows } = data.tables[table];
  const cell = rows[row].cells[column];
  const texts = (numbers) => (numbers ?? []).map((at) => data.texts[at]);
  const [seeds, settings] = [Object.entries(cell.seeds ?? {}), data.settings[cell.settings] ?? {}];
  const signature = cell.signature === undefined ? data.texts[columns[column].signature] : data.texts[cell.signature];
  const latex = h("button", { class: "small", onclick: () => copy(rows[row].latex, latex) }, "copy LaTeX");
  const pairs = [
    ["value", cell.text || "–"],
    ["unrounded", cell.value === undefined ? null : String(cell.value)],
    ["interval", cell.interval ? `[${cell.interval.map(shown).join(", ")}]` : null],
    ["over seeds", cell.sd === undefined ? null : `standard deviation ${shown(cell.sd)}`],
    ["its own spread", cell.own === undefined ? null : shown(cell.own)],
    ["by seed", seeds.length > 1 ? seeds.map(([seed, value]) => `${seed}: ${shown(value)}`).join(", ") : null],
    ["note", cell.note ?? null],
    ["signature", signature ? h("code", {}, signature) : null],
    ["settings", Object.keys(settings).length ? settingsOf(settings) : null],
    ["runs", texts(cell.runs).join(", ")],
    ["command", texts(cell.commands).length ? h("pre", { class: "tex" }, texts(cell.commands).join("\n")) : null],
    ["row in LaTeX", h("div", {}, h("pre", { class: "tex" }, rows[row].latex), latex)],
  ];
  openStory(`${rows[row].label} · ${columns[column].title} · ${title}`, pairs, readButton(rows[row].label));
}

function settingsOf(settings) {
  const words = Object.entries(settings).map(([name, value]) => `${name}=${value}`).join("  ");
  return h("details", {}, h("summary", {}, `${Object.keys(settings).length} settings`), h("code", {}, words));
}

// Leads to the texts of a system, where the page holds them.
function readButton(label) {
  if (!contents.systems?.includes(label)) return null;
  return h("button", { onclick: () => { $("#story").close(); readSystem(label); } }, "read its texts");
}

async function readSystem(label) {
  const side = contents.sources.find((s) => s.system === label).side;
  await goTo(side, reader.list.order[Math.max(reader.here, 0)] ?? 0, label);
}
