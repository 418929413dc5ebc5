// Look up sources, rows, texts and values by example.

const sides = contents.sides ?? [];
const HUMAN = "human";
const isHuman = (system) => system === HUMAN || system.endsWith(` ${HUMAN}`);

// Place in `contents.sources` of a system's texts with a seed; of those without that seed the first.
function sourceOf(side, system, seed) {
  const own = contents.sources.map((s, at) => ({ ...s, at })).filter((s) => s.side === side && s.system === system);
  return own.find((s) => s.seed === seed)?.at ?? own[0]?.at;
}

const heads = new Map();

// Data about the rows of a source: `rowOf(example, sample)`, numbers, whether a text was cut.
function head(at) {
  if (!heads.has(at)) {
    heads.set(at, part(`source-${at}`).then((data) => {
      const { n, samples, side } = contents.sources[at];
      const rows = new Int32Array(sides[side].n * samples).fill(-1);
      for (let row = 0; row < n; row += 1) {
        rows[(data.example ? data.example[row] : row) * samples + (data.sample ? data.sample[row] : 0)] = row;
      }
      // A system with fewer samples than asked for shows its first.
      const rowOf = (example, sample) => rows[example * samples + (sample < samples ? sample : 0)];
      return { ...data, rowOf };
    }));
  }
  return heads.get(at);
}

async function promptOf(side, example) {
  const prompts = await part(`prompts-${side}-${Math.floor(example / contents.part)}`);
  return prompts[example % contents.part];
}

// One text with its values and tokens; null where the source has none for the example.
async function textOf(at, example, sample) {
  const data = await head(at);
  const row = data.rowOf(example, sample);
  if (row < 0) return null;
  const texts = await part(`texts-${at}-${Math.floor(row / contents.part)}`);
  const place = row % contents.part;
  return {
    text: texts.text[place], cut: data.cut[row] === "1", tokens: texts.tokens?.[place] ?? "", surprise: texts.surprise?.[place] ?? "",
    nearest: data.nearest?.[row],
    values: Object.fromEntries(Object.entries(data.values).map(([name, column]) => [name, column[row]])),
  };
}

function shuffled(places, seed) {
  let state = seed + 0x6d2b79f5;
  const random = () => {
    state = Math.imul(state ^ (state >>> 15), state | 1);
    state ^= state + Math.imul(state ^ (state >>> 7), state | 61);
    return ((state ^ (state >>> 14)) >>> 0) / 2 ** 32;
  };
  const made = [...places];
  for (let at = made.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [made[at], made[other]] = [made[other], made[at]];
  }
  return made;
}

// How far a number is from the best: the human text's own of the same example, where that is the target.
function badness(direction, value, human) {
  if (direction === "higher") return -value;
  if (direction === "lower") return value;
  return direction === "match_human" && human !== undefined ? Math.abs(value - human) : NaN;
}

// Examples in the order asked for; those without a number come last.
async function ordered(places, view) {
  if (view.order === "random") return shuffled(places, view.shuffle);
  if (view.order === "task") return places;
  const at = sourceOf(view.side, view.of, view.seed);
  const numbers = async (source) => {
    if (source === undefined) return () => NaN;
    const data = await head(source);
    const column = data.values[view.by] ?? [];
    return (example) => column[data.rowOf(example, view.sample)] ?? NaN;
  };
  const mine = await numbers(at);
  const other = await numbers(view.against ? sourceOf(view.side, view.against, view.seed) : undefined);
  const human = await numbers(sourceOf(view.side, humanOf(view.of), ""));
  const direction = contents.values[view.by]?.[1] ?? "none";
  const value = {
    high: (e) => -mine(e), low: mine,
    best: (e) => badness(direction, mine(e), human(e)), worst: (e) => -badness(direction, mine(e), human(e)),
    differ: (e) => -Math.abs(mine(e) - other(e)), above: (e) => other(e) - mine(e), below: (e) => mine(e) - other(e),
  }[view.order];
  const keys = new Map(places.map((e) => [e, value(e)]));
  return [...places].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
    return x - y || a - b;
  });
}

// The human side that a system is compared with: of its own report, where there are two.
function humanOf(system) {
  const before = system.includes(" · ") ? `${system.split(" · ")[0]} · ` : "";
  return contents.systems.includes(before + HUMAN) ? before + HUMAN : HUMAN;
}
