// Shared helpers: elements built from text alone, and the page's data, whose parts load on demand.

const $ = (selector, root = document) => root.querySelector(selector);

// Attributes that begin with `on` are listeners; children are nodes or text, never markup.
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const option = (value, text = value) => h("option", { value }, text);

function select(label, options, onchange) {
  const box = h("select", { "aria-label": label, onchange: () => onchange(box.value) }, ...options);
  return [h("label", {}, label, box), box];
}

function checkbox(label, checked, onchange) {
  const box = h("input", { type: "checkbox" });
  box.checked = checked;
  box.addEventListener("change", () => onchange(box.checked));
  return [h("label", {}, box, label), box];
}

function fill(box, options, value) {
  box.replaceChildren(...options);
  box.value = value;
  if (box.selectedIndex < 0) box.selectedIndex = 0;
  return box.value;
}

const waiting = new Map();
const held = new Map();

globalThis.openendedPart = (name, part) => waiting.get(name)?.(part);

// A part is JSON in the page, or a script beside it that calls `openendedPart`.
function part(name) {
  if (!held.has(name)) {
    held.set(name, new Promise((resolve, reject) => {
      const inside = document.getElementById(`part-${name}`);
      if (inside) return resolve(JSON.parse(inside.textContent));
      waiting.set(name, resolve);
      const script = h("script", { src: `page/${name}.js` });
      script.addEventListener("error", () => reject(new Error(`page/${name}.js is missing beside this file`)));
      document.head.append(script);
    }));
  }
  return held.get(name);
}

const contents = JSON.parse($("#part-contents").textContent);

// Format a number with four significant digits.
function shown(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  return size >= 1e5 || (size > 0 && size < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = before; }, 1200);
}

function download(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
