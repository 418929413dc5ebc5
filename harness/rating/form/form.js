"use strict";
(() => {
  const study = JSON.parse(document.getElementById("study").textContent);
  const at = id => document.getElementById(id);
  const asked = Object.entries(study.questions);
  const place = "openended-rate/" + study.study + "/" + study.sheet;
  const remote = study.items === null;
  let shown = null;      // the item on the screen
  let active = 0;        // the question that the digits answer
  let since = null;      // when the item on the screen became visible, ms
  let keeps = true;      // whether this browser keeps what is written to its storage

  // ---- what is kept: answers {item: {question: number of the answer}}, visible milliseconds, the item to go on with
  let state = { at: 0, answers: {}, ms: {}, started: new Date().toISOString() };
  function keep() {
    try { localStorage.setItem(place, JSON.stringify(state)); } catch { keeps = false; }
  }
  function kept() {
    try {
      const found = JSON.parse(localStorage.getItem(place));
      return found && typeof found.answers === "object" && typeof found.ms === "object" ? found : null;
    } catch { return null; }
  }
  const complete = id => asked.every(([name]) => state.answers[id]?.[name] >= 1);
  const done = () => study.items.filter(item => complete(item.id)).length;

  // ---- time: only while the page is visible
  function pause() {
    if (since !== null && shown) state.ms[shown.id] = (state.ms[shown.id] || 0) + Math.round(performance.now() - since);
    since = null;
  }
  function resume() {
    if (since === null && shown && !at("item").hidden && document.visibilityState === "visible") since = performance.now();
  }
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") resume(); else { pause(); keep(); }
  });
  addEventListener("pagehide", () => { pause(); keep(); });

  // ---- building: text goes in as text, never as markup
  function make(tag, cls, text) {
    const one = document.createElement(tag);
    if (cls) one.className = cls;
    if (text !== undefined) one.textContent = text;
    return one;
  }
  const fill = (pattern, word, text) => pattern.split("{" + word + "}").join(text);
  function card(text, side) {
    const box = make("div", "card");
    const head = make("h2", "", study.text_label);
    if (side) { head.append(document.createTextNode(study.text_label ? " " : "")); head.append(make("span", "side", side)); }
    const body = make("p", "text", fill(study.text, "text", text));
    body.dir = "auto";
    box.append(head, body);
    return box;
  }
  function texts(all) { return all.map((text, i) => card(text, all.length > 1 ? "AB"[i] : "")); }
  function question([name, words], number) {
    const set = make("fieldset");
    set.append(make("legend", "", words));
    const list = make("div", study.answers.some(a => a.more) ? "answers long" : "answers");
    study.answers.forEach((answer, i) => {
      const label = make("label"), input = make("input");
      Object.assign(input, { type: "radio", name, value: String(i + 1) });
      input.addEventListener("change", () => choose(number, i + 1));
      const said = make("span", "", answer.say);
      if (answer.more) said.append(" ", make("small", "", answer.more));
      label.append(input, said, make("kbd", "", String(i + 1)));
      list.append(label);
    });
    set.append(list);
    set.addEventListener("pointerdown", () => light(number));
    return set;
  }
  function guide() {
    at("title").textContent = study.title;
    at("guidelines").replaceChildren(...study.guidelines.map(text => make("p", "", text)));
    at("examples").replaceChildren(...study.examples.map((example, i) => {
      const box = make("div", "example");
      const prompt = make("div", "prompt");
      prompt.append(make("h2", "", study.prompt_label), make("p", "text", fill(study.prompt, "prompt", example.prompt)));
      const list = make("ul");
      for (const [name, answer] of Object.entries(example.answers)) list.append(make("li", "", study.questions[name] + " — " + answer));
      const own = "text" in example ? [example.text] : [example.a, example.b];
      box.append(make("h2", "", "Example " + (i + 1)), prompt, ...texts(own), list, make("p", "", example.why));
      return box;
    }));
    at("how").textContent = remote
      ? "Each answer is sent as you give it. You may close this page and come back with the same link."
      : "Your answers are kept in this browser: you may close the page and come back. At the end you download them as a file.";
  }

  // ---- screens
  function screen(id) {
    pause();
    for (const name of ["guide", "item", "end"]) at(name).hidden = name !== id;
    at("show-guide").hidden = id === "guide";
    at("save").hidden = remote || id !== "item";
    document.activeElement?.blur();
    scrollTo(0, 0);
    resume();
  }
  function tell(text) { at("notice").textContent = text; at("notice").hidden = !text; }
  function count(ready, all) {
    at("count").textContent = all ? ready + " of " + all + " done" : "";
    at("progress").max = Math.max(all, 1);
    at("progress").value = ready;
  }
  function light(number) {
    active = number;
    at("questions").querySelectorAll("fieldset").forEach((set, i) => set.classList.toggle("active", i === number));
  }
  function show(item, first) {
    pause();
    shown = item;
    at("prompt").parentElement.hidden = !study.prompt;
    at("prompt-label").textContent = study.prompt_label;
    at("prompt").textContent = fill(study.prompt, "prompt", item.prompt);
    at("texts").replaceChildren(...texts(item.texts));
    at("questions").replaceChildren(...asked.map(question));
    for (const [name, value] of Object.entries(state.answers[item.id] || {})) {
      const input = at("questions").querySelector(`input[name="${CSS.escape(name)}"][value="${Number(value)}"]`);
      if (input) input.checked = true;
    }
    at("back").hidden = remote;
    at("back").disabled = first;
    const open = asked.findIndex(([name]) => !state.answers[item.id]?.[name]);
    light(open < 0 ? 0 : open);
    screen("item");
    ready();
  }
  function ready() {
    at("next").disabled = !complete(shown.id);
    if (!remote) count(done(), study.items.length);
    if (!keeps) tell("This browser does not keep your answers after the page is closed: save a copy before you close it.");
    tied();
  }
  function choose(number, value) {
    if (!shown || at("item").hidden || value > study.answers.length) return;
    const name = asked[number][0];
    (state.answers[shown.id] ||= {})[name] = value;
    at("questions").querySelector(`input[name="${CSS.escape(name)}"][value="${value}"]`).checked = true;
    const open = asked.findIndex(([other]) => !state.answers[shown.id][other]);
    light(open < 0 ? number : open);
    pause(); keep(); resume();
    ready();
  }
  function tied() {
    let most = 0;
    for (const [name] of asked) {
      const own = Object.values(state.answers).map(one => one[name]).filter(Boolean);
      const ties = own.filter(value => study.answers[value - 1]?.tie).length;
      if (own.length >= 10) most = Math.max(most, ties / own.length);  // fewer say nothing about a share
    }
    at("ties").hidden = !(most > study.most_ties);
    at("ties").textContent = "Ties so far: " + Math.round(100 * most) + " % in one of the questions. Please keep them to " +
      Math.round(100 * study.most_ties) + " % at most: if you lean even slightly, choose that side.";
  }

  // ---- a sheet in a file
  function go(number) {
    state.at = Math.max(0, Math.min(number, study.items.length - 1));
    keep();
    show(study.items[state.at], state.at === 0);
  }
  function nextOfFile() {
    if (state.at + 1 < study.items.length) return go(state.at + 1);
    const open = study.items.findIndex(item => !complete(item.id));
    if (open >= 0) { go(open); tell("This one is still open."); return; }
    finish();
  }
  function finish() {
    shown = null;
    count(done(), study.items.length);
    at("said").textContent = "All " + study.items.length + " items are answered. One step is left: download the file.";
    screen("end");
  }
  function download() {
    pause(); keep(); resume();
    const rows = study.items.filter(item => state.answers[item.id]).map(({ id }) =>
      ({ id, answers: state.answers[id], ms: state.ms[id] || 0 }));
    const file = { form: study.form, study: study.study, sheet: study.sheet, started: state.started,
      saved: new Date().toISOString(), complete: done() === study.items.length, answers: rows };
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
    link.download = "answers-" + study.sheet + ".json";
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }
  async function load(file) {
    try {
      const found = JSON.parse(await file.text());
      if (found.study !== study.study || found.sheet !== study.sheet) throw new Error("it is of another sheet");
      const own = new Set(study.items.map(item => item.id));
      for (const row of found.answers.filter(r => own.has(r.id))) { state.answers[row.id] = row.answers; state.ms[row.id] = row.ms; }
      state.started = String(found.started);
      keep();
      tell("");
      const open = study.items.findIndex(item => !complete(item.id));
      if (open < 0) finish(); else go(open);
    } catch (problem) { tell("That file cannot be used: " + problem.message + "."); }
    at("load").value = "";
  }

  // ---- a sheet from a server: the next item comes when the last answer is stored there
  async function call(what, body) {
    for (let wait = 500; ; wait = Math.min(2 * wait, 15000)) {
      try {
        const reply = await fetch(location.pathname.replace(/\/$/, "") + "/" + what, {
          method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body || {}), credentials: "omit" });
        if (reply.ok || ![500, 502, 503, 504].includes(reply.status)) { tell(""); return [reply.status, await reply.json()]; }
      } catch { /* the server is away: the answer stays here until it is stored there */ }
      tell("The server does not answer. Your answer is kept here and sent again; leave this page open.");
      await new Promise(later => setTimeout(later, wait));
    }
  }
  async function fetchNext() {
    const [status, info] = await call("next");
    if (status !== 200) { shown = null; tell(info.error || "This link is not known."); screen("end"); at("end").hidden = true; return; }
    count(info.done, info.total);
    if (info.item) {
      // Time under an earlier lease of the item does not count.
      if (state.lease !== info.item.lease) { state.lease = info.item.lease; delete state.ms[info.item.id]; }
      show(info.item, true);
      return;
    }
    shown = null;
    at("said").textContent = info.waiting ? "Nothing is left for you right now: other raters are working on the remaining items. Come back later with the same link." : "You are finished. Your answers are stored; you may close this page.";
    at("download").hidden = at("again").hidden = at("send").hidden = true;
    screen("end");
  }
  async function nextOfServer() {
    pause(); keep();
    at("next").disabled = true;
    const { id, lease } = shown;
    const [status, info] = await call("answer", { id, lease, answers: state.answers[id], ms: state.ms[id] || 0 });
    if (status !== 200) {
      tell(info.error || "The server did not accept this answer.");
      if (status !== 409) { at("next").disabled = false; resume(); return; }
    }
    await fetchNext();
  }

  // ---- hands
  const next = () => { if (shown && !at("next").disabled) { if (remote) nextOfServer(); else { tell(""); nextOfFile(); } } };
  const back = () => { if (shown && !remote && state.at > 0) go(state.at - 1); };
  const begin = () => {
    if (remote) { fetchNext(); return; }
    if (done() === study.items.length) finish(); else go(Math.min(state.at, study.items.length - 1));
  };
  at("start").addEventListener("click", begin);
  at("next").addEventListener("click", next);
  at("back").addEventListener("click", back);
  at("save").addEventListener("click", download);
  at("download").addEventListener("click", download);
  at("again").addEventListener("click", () => go(0));
  at("show-guide").addEventListener("click", () => { pause(); keep(); at("start").textContent = "Go on"; screen("guide"); });
  at("load").addEventListener("change", event => { if (event.target.files[0]) load(event.target.files[0]); });
  at("questions").addEventListener("submit", event => event.preventDefault());
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") {
      if (["BUTTON", "A"].includes(event.target.tagName)) return;
      event.preventDefault();
      if (!at("guide").hidden) begin(); else next();
    } else if (/^[1-9]$/.test(event.key) && !at("item").hidden) { event.preventDefault(); choose(active, Number(event.key)); }
    else if (event.key === "Backspace") { event.preventDefault(); back(); }
  });

  const before = kept();
  if (before) state = { ...state, ...before };
  keep();
  at("name").textContent = study.title;
  at("keys").textContent = "Keys: 1–" + study.answers.length + " answer, Enter goes on" + (remote ? "" : ", Backspace goes back");
  at("load-label").hidden = remote;
  guide();
  if (!remote) {
    count(done(), study.items.length);
    if (before && Object.keys(before.answers).length) {
      at("start").textContent = "Go on";
      tell("Welcome back: " + done() + " of " + study.items.length + " are answered in this browser.");
    }
    if (!keeps) tell("This browser does not keep your answers after the page is closed: save a copy before you close it.");
  }
  screen("guide");
})();
