// The dialog with the details of a value.

function openDialog(title, pairs, ...buttons) {
  const dialog = $("#story");
  const close = createElement("button", { onclick: () => dialog.close() }, "close");
  const list = createElement("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) => [
    createElement("dt", {}, name), createElement("dd", {}, value),
  ]));
  const row = createElement("div", { class: "row" }, ...buttons.filter(Boolean), close);
  dialog.replaceChildren(createElement("h2", { id: "story-title" }, title), list, row);
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.showModal();
  dialog.scrollTop = 0;
}

const loadStories = () => loadPart("stories");

async function showCellDetails(table, row, column) {
  const data = await loadStories();
  const { title, columns, rows } = data.tables[table];
  const cell = rows[row].cells[column];
  const listTexts = (numbers) => (numbers ?? []).map((at) => data.texts[at]);
  const [seeds, settings] = [Object.entries(cell.seeds ?? {}), data.settings[cell.settings] ?? {}];
  const signature = cell.signature === undefined ? data.texts[columns[column].signature] : data.texts[cell.signature];
  const latex = createElement("button", { class: "small", onclick: () => copyText(rows[row].latex, latex) }, "copy LaTeX");
  const commands = listTexts(cell.commands);
  const pairs = [
    ["value", cell.text || "–"],
    ["unrounded", cell.value === undefined ? null : String(cell.value)],
    ["interval", cell.interval ? `[${cell.interval.map(formatNumber).join(", ")}]` : null],
    ["over seeds", cell.sd === undefined ? null : `standard deviation ${formatNumber(cell.sd)}`],
    ["metric's own error", cell.error === undefined ? null : formatNumber(cell.error)],
    ["by seed", seeds.length > 1 ? seeds.map(([seed, value]) => `${seed}: ${formatNumber(value)}`).join(", ") : null],
    ["bold", cell.bold ?? null],
    ["note", cell.note ?? null],
    ["signature", signature ? createElement("code", {}, signature) : null],
    ["settings", Object.keys(settings).length ? createSettingsList(settings) : null],
    ["runs", listTexts(cell.runs).join(", ")],
    ["command", commands.length ? createElement("pre", { class: "tex" }, commands.join("\n")) : null],
    ["row in LaTeX", createElement("div", {}, createElement("pre", { class: "tex" }, rows[row].latex), latex)],
  ];
  openDialog(`${rows[row].label} · ${columns[column].title} · ${title}`, pairs, createReadButton(rows[row].label));
}

function createSettingsList(settings) {
  const text = Object.entries(settings).map(([name, value]) => `${name}=${value}`).join("  ");
  const summary = createElement("summary", {}, `${Object.keys(settings).length} settings`);
  return createElement("details", {}, summary, createElement("code", {}, text));
}

// Leads to the texts of a system, where the page holds them.
function createReadButton(label) {
  if (!contents.systems?.includes(label)) return null;
  return createElement("button", { onclick: () => { $("#story").close(); openSystemTexts(label); } }, "read its texts");
}

async function openSystemTexts(label) {
  const { side } = contents.sources.find((source) => source.system === label);
  await openExample(side, reader.list.order[Math.max(reader.current, 0)] ?? 0, label);
}
