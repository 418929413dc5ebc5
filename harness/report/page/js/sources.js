// Look up sources, rows, texts and values by example.

const sides = contents.sides ?? [];
const HUMAN = "human";
const isHuman = (system) => system === HUMAN || system.endsWith(` ${HUMAN}`);

// Index in `contents.sources` of a system's texts with a seed; without that seed, of its first.
function findSource(side, system, seed) {
  const matches = contents.sources.map((source, at) => ({ ...source, at })).filter((s) => s.side === side && s.system === system);
  return (matches.find((source) => source.seed === seed) ?? matches[0])?.at;
}

const sourceRows = new Map();

// Data about the rows of a source: `findRow(example, sample)`, values, whether a text was cut.
function loadRows(source) {
  if (!sourceRows.has(source)) {
    sourceRows.set(source, loadPart(`source-${source}`).then((data) => {
      const { n, samples, side } = contents.sources[source];
      const rows = new Int32Array(sides[side].n * samples).fill(-1);
      for (let row = 0; row < n; row += 1) {
        rows[(data.example ? data.example[row] : row) * samples + (data.sample ? data.sample[row] : 0)] = row;
      }
      // A system with fewer samples than requested shows its first.
      const findRow = (example, sample) => rows[example * samples + (sample < samples ? sample : 0)];
      return { ...data, findRow };
    }));
  }
  return sourceRows.get(source);
}

async function loadPrompt(side, example) {
  const prompts = await loadPart(`prompts-${side}-${Math.floor(example / contents.part)}`);
  return prompts[example % contents.part];
}

// One text with its values and tokens; null where the source has none for the example.
async function loadText(source, example, sample) {
  const data = await loadRows(source);
  const row = data.findRow(example, sample);
  if (row < 0) return null;
  const texts = await loadPart(`texts-${source}-${Math.floor(row / contents.part)}`);
  const index = row % contents.part;
  return {
    text: texts.text[index], cut: data.cut[row] === "1", tokens: texts.tokens?.[index] ?? "", surprise: texts.surprise?.[index] ?? "",
    nearest: data.nearest?.[row],
    values: Object.fromEntries(Object.entries(data.values).map(([name, column]) => [name, column[row]])),
  };
}

function shuffle(examples, seed) {
  let state = seed + 0x6d2b79f5;
  const drawRandom = () => {
    state = Math.imul(state ^ (state >>> 15), state | 1);
    state ^= state + Math.imul(state ^ (state >>> 7), state | 61);
    return ((state ^ (state >>> 14)) >>> 0) / 2 ** 32;
  };
  const order = [...examples];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = Math.floor(drawRandom() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}

// How far a value is from the best; if the human text is the target, from its value for the same example.
function computeBadness(direction, value, human) {
  if (direction === "higher") return -value;
  if (direction === "lower") return value;
  return direction === "match_human" && human !== undefined ? Math.abs(value - human) : NaN;
}

// Examples in the requested order; those without a value come last.
async function orderExamples(examples, view) {
  if (view.order === "random") return shuffle(examples, view.shuffle);
  if (view.order === "task") return examples;
  const loadValues = async (system, seed) => {
    const source = system && findSource(view.side, system, seed);
    if (source === undefined || source === "") return () => NaN;
    const data = await loadRows(source);
    const column = data.values[view.by] ?? [];
    return (example) => column[data.findRow(example, view.sample)] ?? NaN;
  };
  const value = await loadValues(view.of, view.seed);
  const other = await loadValues(view.against, view.seed);
  const human = await loadValues(findHumanSystem(view.of), "");
  const direction = contents.values[view.by]?.[1] ?? "none";
  const computeKey = {
    high: (e) => -value(e), low: value,
    best: (e) => computeBadness(direction, value(e), human(e)), worst: (e) => -computeBadness(direction, value(e), human(e)),
    differ: (e) => -Math.abs(value(e) - other(e)), above: (e) => other(e) - value(e), below: (e) => value(e) - other(e),
  }[view.order];
  const keys = new Map(examples.map((example) => [example, computeKey(example)]));
  return [...examples].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
    return x - y || a - b;
  });
}

// The human side that a system is compared with: that of its own report, where there are two.
function findHumanSystem(system) {
  const prefix = system.includes(" · ") ? `${system.split(" · ")[0]} · ` : "";
  return contents.systems.includes(prefix + HUMAN) ? prefix + HUMAN : HUMAN;
}
