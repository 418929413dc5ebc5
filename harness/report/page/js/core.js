// Shared helpers: elements built from text alone, and the page's data, whose parts load on demand.

const $ = (selector, root = document) => root.querySelector(selector);

// Attributes that begin with `on` are listeners; children are nodes or text, never markup.
function createElement(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const createOption = (value, text = value) => createElement("option", { value }, text);

// A select box in its label; a value that is not among the options selects the first.
function createSelect(label, options, value, onchange) {
  const box = createElement("select", { "aria-label": label, onchange: () => onchange(box.value) }, ...options);
  box.value = value;
  if (box.selectedIndex < 0) box.selectedIndex = 0;
  return createElement("label", {}, label, box);
}

function createCheckbox(label, checked, onchange) {
  const box = createElement("input", { type: "checkbox", onchange: () => onchange(box.checked) });
  box.checked = checked;
  return createElement("label", {}, box, label);
}

const waiting = new Map();
const loading = new Map();

globalThis.openendedPart = (name, part) => waiting.get(name)?.(part);

// A part is JSON in the page, or a script beside it that calls `openendedPart`.
function loadPart(name) {
  if (!loading.has(name)) {
    loading.set(name, new Promise((resolve, reject) => {
      const embedded = document.getElementById(`part-${name}`);
      if (embedded) return resolve(JSON.parse(embedded.textContent));
      waiting.set(name, resolve);
      const script = createElement("script", { src: `page/${name}.js` });
      script.addEventListener("error", () => reject(new Error(`page/${name}.js is missing beside this file`)));
      document.head.append(script);
    }));
  }
  return loading.get(name);
}

const contents = JSON.parse($("#part-contents").textContent);

// Format a number with four significant digits.
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  return size >= 1e5 || (size > 0 && size < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = createElement("textarea", { class: "unseen", "aria-hidden": "true" });
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

function downloadFile(name, text, type) {
  const link = createElement("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
