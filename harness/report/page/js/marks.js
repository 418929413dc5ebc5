// Highlighted ranges of a text: shared with a baseline, repeated, or surprising.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
const NATS = 0.25; // a step of DIGITS
const LEVELS = [1, 2, 4, 6, 9]; // nats from which a token is colored more
const GRAM = 4; // words
const LONGEST_PHRASE = 100; // words of a loop

// Length of the beginning that two texts share; no pair of surrogates is cut.
function countSharedCharacters(text, other) {
  const most = Math.min(text.length, other.length);
  let at = 0;
  while (at < most && text[at] === other[at]) at += 1;
  if (at > 0 && at < most && /[\ud800-\udbff]/.test(text[at - 1])) at -= 1;
  return at;
}

function splitWords(text) {
  return [...text.matchAll(/\S+/g)].map((m) => ({ from: m.index, to: m.index + m[0].length, word: m[0].toLowerCase() }));
}

// Where a text ends in a phrase said three times or more: from its second time on.
function findLoop(words) {
  const n = words.length;
  for (let period = 1; period <= Math.min(LONGEST_PHRASE, Math.floor(n / 3)); period += 1) {
    let at = n - 1;
    while (at >= period && words[at].word === words[at - period].word) at -= 1;
    if (n - 1 - at >= 2 * period) return at + 1;
  }
  return n;
}

function findRepeats(text) {
  const words = splitWords(text);
  const loop = findLoop(words);
  const ranges = loop < words.length ? [{ from: words[loop].from, to: words.at(-1).to, css: "loop", title: "loop" }] : [];
  const seen = new Set();
  let last = null;
  for (let at = 0; at + GRAM <= loop; at += 1) {
    const gram = words.slice(at, at + GRAM).map((w) => w.word).join(" ");
    if (seen.has(gram)) {
      const [from, to] = [words[at].from, words[at + GRAM - 1].to];
      if (last && from <= last.to) last.to = to;
      else ranges.push(last = { from, to, css: "gram", title: "repeated" });
    }
    seen.add(gram);
  }
  return ranges;
}

function findSurprises(tokens, surprise) {
  const ranges = [];
  let from = 0;
  for (let at = 0; at < tokens.length; at += 1) {
    const to = from + DIGITS.indexOf(tokens[at]);
    const nats = DIGITS.indexOf(surprise[at]) * NATS;
    const level = LEVELS.filter((least) => nats >= least).length;
    if (to > from) ranges.push({ from, to, css: level ? `s${level}` : "", title: `${nats} nats` });
    from = to;
  }
  return ranges;
}

// Words that all must occur: `"…"` is a phrase, `-` before one forbids it.
function parseTerms(query) {
  return [...query.toLowerCase().matchAll(/(-?)(?:"([^"]+)"|(\S+))/g)]
    .map(([, not, phrase, word]) => ({ not: not === "-", word: phrase ?? word }))
    .filter((term) => term.word && term.word !== "-" && term.word !== '"');
}

function matchesTerms(text, terms) {
  const low = text.toLowerCase();
  return terms.every((term) => low.includes(term.word) !== term.not);
}

function findHits(text, terms) {
  const low = text.toLowerCase();
  if (low.length !== text.length) return []; // some letters change their length: positions would be wrong
  const ranges = [];
  for (const { word, not } of terms) {
    for (let at = not ? -1 : low.indexOf(word); at >= 0; at = low.indexOf(word, at + word.length)) {
      ranges.push({ from: at, to: at + word.length, css: "hit" });
    }
  }
  return ranges;
}

// Fill an element with a text, cut where a range begins or ends; every piece is a text node.
function paint(element, text, ranges, end = text.length) {
  const cuts = new Set([0, end]);
  for (const { from, to } of ranges) {
    if (from < end) cuts.add(from);
    if (to < end) cuts.add(to);
  }
  const ends = [...cuts].sort((a, b) => a - b);
  const open = [...ranges].sort((a, b) => a.from - b.from);
  const active = new Set();
  const pieces = [];
  let next = 0;
  for (let at = 0; at + 1 < ends.length; at += 1) {
    const [from, to] = [ends[at], ends[at + 1]];
    while (next < open.length && open[next].from <= from) active.add(open[next++]);
    for (const range of active) if (range.to <= from) active.delete(range);
    const css = [...new Set([...active].map((r) => r.css))].filter(Boolean);
    const title = [...active].map((r) => r.title).filter(Boolean).join(", ");
    const words = text.slice(from, to);
    if (!css.length && !title) pieces.push(words);
    else pieces.push(createPiece(css, title, words));
  }
  element.replaceChildren(...pieces);
}

function createPiece(css, title, words) {
  const element = createElement(css.includes("hit") ? "mark" : "span", { class: css.filter((name) => name !== "hit").join(" ") }, words);
  if (title) element.title = title;
  return element;
}
