"use strict";
// Tells of the token under the pointer; a click or a tap keeps it, arrow keys go on from it or begin with the first one in
// sight, Escape lets it go. Shows the other branches: the arrows beside a heading, < and >, and the marks in the text lead
// to them.
(() => {
  const main = document.querySelector("main");
  const panel = document.getElementById("panel");
  const elsewhere = document.getElementById("elsewhere").content;
  const tree = JSON.parse(document.getElementById("tree").textContent);
  const records = new Map();
  let kept = null;

  function element(name, content, parent) {
    const made = document.createElement(name);
    made.textContent = content;
    parent.append(made);
    return made;
  }

  // --- tokens ---

  function known(token) {
    const number = token.closest("[data-node]").dataset.node;
    const id = "data-" + number;
    if (!records.has(number))
      records.set(number, JSON.parse((document.getElementById(id) || elsewhere.getElementById(id)).textContent));
    return records.get(number)[token.dataset.n];
  }

  const percent = (share) => (share === null ? "–" : (share * 100).toPrecision(3) + "%");
  const number = (value, unit) => (value === null ? "–" : value + unit);

  const ms = (us) => (us / 1000).toFixed(1) + " ms";

  function drafted([at, by, pieces, accepted, us, pass], taken) {
    const what =
      at < accepted ? pieces[at] + ", accepted"
      : at < pieces.length ? pieces[at] + ", rejected; taken: " + taken
      : "nothing; all " + pieces.length + " before it were accepted";
    const round = by + " drafted " + pieces.join("") + " in " + ms(us) + "; " + accepted + " of " + pieces.length +
      " accepted; " + (pieces.length + 1) + " rows decoded in " + ms(pass);
    return [["drafted", what], ["round", round]];
  }

  function tell(token) {
    const record = known(token);
    if (!record) return;
    const [id, bytes, text, logprob, rank, probability, entropy, end, decode, sample, candidates, round, unlisted] = record;
    const bound = (shown, value) => (unlisted && value !== null ? "≤" : "") + shown;
    const drawn = token.classList.contains("f") ? "forced" : token.classList.contains("s") ? "taken" : "drawn";
    panel.replaceChildren();
    element("h3", text, panel);
    const facts = element("dl", "", panel);
    for (const [name, value] of [
      ["token", token.dataset.n + (id === null ? "" : ", id " + id) + (drawn === "forced" ? ", forced" : "")],
      ["bytes", bytes],
      ["model", percent(logprob === null ? null : Math.exp(logprob)) + (rank === null ? "" : ", rank " + (rank + 1))],
      ["after", percent(probability)],
      ["entropy", bound(number(entropy, " bit"), entropy)],
      ["end", bound(percent(end), end)],
      ...(unlisted ? [["not listed", percent(unlisted)]] : []),
      ["time", (decode || !round ? ms(decode) + " decode" : "") + (decode && sample ? ", " : "") +
        (sample ? (sample / 1000).toFixed(2) + " ms sample" : "")],
      ...(round ? drafted(round, text) : []),
    ]) {
      element("dt", name, facts);
      element("dd", value, facts);
    }
    const table = element("table", "", panel);
    const head = element("tr", "", table);
    for (const name of ["candidate", "model", "after", ""]) element("th", name, head);
    for (const [other, piece, model, after, removed] of candidates) {
      const row = element("tr", "", table);
      if (other === id && id !== null) row.className = "drawn";
      for (const cell of [piece, percent(model), percent(after), removed || (other === id && id !== null ? drawn : "")])
        element("td", cell, row);
    }
    panel.hidden = false;
  }

  function keep(token) {
    if (kept) kept.classList.remove("now");
    kept = token;
    if (kept) {
      kept.classList.add("now");
      kept.scrollIntoView({ block: "nearest" });
      tell(kept);
    } else panel.hidden = true;
  }

  const top = document.querySelector(".switch");
  const isInSight = (token) => token.getBoundingClientRect().top >= top.getBoundingClientRect().bottom;

  const tokenOf = (event) => (event.target instanceof Element ? event.target.closest(".t") : null);
  main.addEventListener("pointerover", (event) => {
    const token = tokenOf(event) || kept;
    if (token) tell(token);
    else panel.hidden = true;
  });

  // --- branches ---

  const pieces = new Map();
  const feet = new Map();
  const groups = [];
  for (const place of [document, elsewhere]) {
    groups.push(...place.querySelectorAll(".walks"));
    for (const piece of place.querySelectorAll(".piece")) pieces.set(+piece.dataset.node, piece);
    for (const foot of place.querySelectorAll(".foot")) feet.set(+foot.dataset.node, foot);
  }

  // The nodes from the root to a leaf, and how many tokens of each are on the way.
  function pathTo(leaf) {
    const path = [];
    for (let node = leaf, count = Infinity; node !== null; ) {
      const [parent, at, , length] = tree.nodes[node];
      path.push({ node, count: Math.min(count, length) });
      [node, count] = [parent, at];
    }
    return path.reverse();
  }

  // Versions of a turn as [end, leaf], by the node that it ends in; the system prompts end in negative numbers.
  const versionsOf = (end) => (end < 0 ? versionsOfPrompt : tree.versions[tree.turns[end]]) || [];
  const versionsOfPrompt = tree.prompts.map(([, , , leaf], at) => [-1 - at, leaf]);

  // The turns of a path: the system prompt, a message, or all pieces of a reply. What has the same key looks the same.
  function turnsOf(path) {
    const turns = [];
    const prompt = tree.prompts.findIndex(([, , firsts]) => !firsts.length || firsts.includes(path[0].node));
    if (prompt >= 0) turns.push({ spans: [], end: -1 - prompt });
    for (const span of path) {
      const before = turns.at(-1);
      if (before && feet.has(span.node) && feet.has(before.end)) before.spans.push(span);
      else turns.push({ spans: [span] });
      turns.at(-1).end = span.node;
    }
    for (const turn of turns) turn.key = turn.end + " " + turn.spans.map((span) => span.node + ":" + span.count).join();
    return turns;
  }

  // Shows of a node what a path takes.
  function cut(node, count) {
    const [, , whole, length] = tree.nodes[node];
    const reach = count >= whole ? length : count;
    for (const part of pieces.get(node).children) {
      if (part.dataset.at) part.hidden = +part.dataset.at > reach;
      else if (part.dataset.n) part.hidden = +part.dataset.n >= reach;
      else if (part.className === "rest") part.hidden = count < length;
    }
    if (feet.has(node)) feet.get(node).classList.toggle("part", count < whole);
  }

  function headOf(turn, section) {
    const head = element("div", "", section);
    head.className = "head";
    element("h2", turn.end < 0 ? tree.prompts[-1 - turn.end][1] : tree.nodes[turn.spans[0].node][4], head);
    const versions = versionsOf(turn.end);
    const at = versions.findIndex(([end]) => end === turn.end);
    if (versions.length > 1) {
      const box = element("span", "", head);
      box.className = "versions";
      for (const [sign, label, edge] of [["‹", "previous version", 0], ["›", "next version", versions.length - 1]]) {
        if (sign === "›") element("span", at + 1 + "/" + versions.length, box);
        const arrow = element("button", sign, box);
        arrow.type = "button";
        arrow.ariaLabel = label;
        arrow.disabled = at === edge;
      }
    }
  }

  function sectionOf(turn) {
    const section = document.createElement("section");
    section.className = "turn " + (turn.end < 0 ? "system" : feet.has(turn.end) ? "reply" : "user");
    headOf(turn, section);
    const text = element("div", turn.end < 0 ? tree.prompts[-1 - turn.end][0] : "", section);
    text.className = "text";
    for (const { node, count } of turn.spans) {
      cut(node, count);
      text.append(pieces.get(node));
      if (feet.has(node)) section.append(feet.get(node));
    }
    if (feet.has(turn.end)) section.append(...groups.filter((group) => beginsIn(group, turn)));
    for (const walk of section.querySelectorAll(".walk"))
      walk.querySelector(".on").hidden = turn.spans.every((span) => span.node !== +walk.dataset.node);
    return section;
  }

  // Whether walks begin in a reply, or where it does.
  function beginsIn(group, turn) {
    const [origin, at] = [+group.dataset.node, +group.dataset.at];
    const begins = tree.nodes[turn.spans[0].node][0] === origin;
    return begins || turn.spans.some((span) => span.node === origin && at <= span.count);
  }

  let shown = turnsOf(pathTo(tree.leaf));
  [...main.querySelectorAll(".turn")].forEach((section, at) => (shown[at].section = section));
  const visited = [tree.leaf];

  // Shows the path to a leaf; the turn at `hold` stays where it is on the screen.
  function show(leaf, hold) {
    const before = shown[hold].section.getBoundingClientRect().top;
    const turns = turnsOf(pathTo(leaf));
    let same = 0;
    while (same < turns.length && same < shown.length && turns[same].key === shown[same].key)
      turns[same].section = shown[same++].section;
    for (const turn of shown.slice(same)) turn.section.remove();
    for (const turn of turns.slice(same)) main.append((turn.section = sectionOf(turn)));
    shown = turns;
    visited.push(...visited.splice(0).filter((other) => other !== leaf), leaf);
    if (kept && !(kept.isConnected && kept.getClientRects().length)) keep(null);
    window.scrollBy(0, shown[hold].section.getBoundingClientRect().top - before);
  }

  // The leaf of a way that was shown last, else the one that is known for it.
  const latest = (fits, leaf) => visited.findLast((other) => fits(pathTo(other))) ?? leaf;

  function step(hold, by) {
    const { end } = shown[hold];
    const versions = versionsOf(end);
    const next = versions[versions.findIndex(([other]) => other === end) + by];
    if (!next) return;
    const isOnArrow = document.activeElement.matches(".versions button");
    show(latest((path) => turnsOf(path).some((turn) => turn.end === next[0]), next[1]), hold);
    const [before, after] = shown[hold].section.querySelectorAll(".versions button");
    if (isOnArrow) (by < 0 ? before : after).focus({ preventScroll: true });
  }

  // From a mark in the text to the next of the branches that part there.
  function part(mark, hold) {
    const node = +mark.closest(".piece").dataset.node;
    const at = +mark.dataset.at;
    const ways = tree.ways[node][at];
    const goes = (way) => (path) =>
      path.some((span) => (way === node ? span.node === node && span.count > at : span.node === way));
    const path = pathTo(visited.at(-1));
    const here = ways.findIndex(([way]) => goes(way)(path));
    const [way, leaf] = ways[(here + 1) % ways.length];
    show(latest(goes(way), leaf), hold);
  }

  main.addEventListener("click", (event) => {
    const hold = shown.findIndex((turn) => turn.section.contains(event.target));
    const button = event.target.closest("button");
    if (!button) keep(tokenOf(event));
    else if (button.matches(".fork")) part(button, hold);
    else step(hold, button.nextElementSibling ? -1 : 1);
  });

  document.body.classList.add("live");

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") keep(null);
    const by = { "<": -1, ">": 1 }[event.key];
    if (by) {
      const several = (turn) => versionsOf(turn.end).length > 1;
      const turn = (kept && shown.find((one) => one.section.contains(kept) && several(one))) || shown.findLast(several);
      if (turn) step(shown.indexOf(turn), by);
    }
    const to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!to || event.target instanceof HTMLInputElement) return;
    const all = [...main.querySelectorAll(".t:not([hidden], details:not([open]) *)")];
    const next = kept ? all[all.indexOf(kept) + to] : all.find(isInSight);
    if (next) keep(next);
    event.preventDefault();
  });
})();
