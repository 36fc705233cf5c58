"use strict";
// Tells of the token under the pointer; a click or a tap keeps it, arrow keys go on from it or begin with the first one in
// sight, Escape lets it go.
(() => {
  const panel = document.getElementById("panel");
  const pieces = new Map();
  let kept = null;

  function known(token) {
    const number = token.closest(".piece").dataset.node;
    if (!pieces.has(number)) pieces.set(number, JSON.parse(document.getElementById("data-" + number).textContent));
    return pieces.get(number)[token.dataset.n];
  }

  function element(name, content, parent) {
    const made = document.createElement(name);
    made.textContent = content;
    parent.append(made);
    return made;
  }

  const percent = (share) => (share === null ? "–" : (share * 100).toPrecision(3) + "%");
  const number = (value, unit) => (value === null ? "–" : value + unit);

  function show(token) {
    const record = known(token);
    if (!record) return;
    const [id, bytes, text, logprob, rank, probability, entropy, end, decode, sample, candidates] = record;
    const drawn = token.classList.contains("f") ? "forced" : "drawn";
    panel.replaceChildren();
    element("h3", text, panel);
    const facts = element("dl", "", panel);
    for (const [name, value] of [
      ["token", token.dataset.n + ", id " + id + (drawn === "forced" ? ", forced" : "")],
      ["bytes", bytes],
      ["model", percent(logprob === null ? null : Math.exp(logprob)) + ", rank " + rank],
      ["after", percent(probability)],
      ["entropy", number(entropy, " bit")],
      ["end", percent(end)],
      ["time", (decode / 1000).toFixed(1) + " ms decode, " + (sample / 1000).toFixed(2) + " ms sample"],
    ]) {
      element("dt", name, facts);
      element("dd", value, facts);
    }
    const table = element("table", "", panel);
    const head = element("tr", "", table);
    for (const name of ["candidate", "model", "after", ""]) element("th", name, head);
    for (const [other, piece, model, after, removed] of candidates) {
      const row = element("tr", "", table);
      if (other === id) row.className = "drawn";
      for (const cell of [piece, percent(model), percent(after), removed || (other === id ? drawn : "")])
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
      show(kept);
    } else panel.hidden = true;
  }

  const top = document.querySelector(".switch");
  const isInSight = (token) => token.getBoundingClientRect().top >= top.getBoundingClientRect().bottom;

  const tokenOf = (event) => (event.target instanceof Element ? event.target.closest(".t") : null);
  const main = document.querySelector("main");
  main.addEventListener("pointerover", (event) => {
    const token = tokenOf(event) || kept;
    if (token) show(token);
    else panel.hidden = true;
  });
  main.addEventListener("click", (event) => keep(tokenOf(event)));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep(null);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.target instanceof HTMLInputElement || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = [...document.querySelectorAll(".t")];
    const next = kept ? all[all.indexOf(kept) + step] : all.find(isInSight);
    if (next) keep(next);
    event.preventDefault();
  });
})();
