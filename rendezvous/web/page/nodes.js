// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a run as a table: sorted by a column, filtered, those first that want a person. Of many nodes it shows the first,
// and more of them when asked.
"use strict";

const nodes = (() => {
  const FIRST = 16, MORE = 500;
  const root = parts.find(document.getElementById("run"), "nodes");
  const table = root.querySelector("table"), filter = root.querySelector("input"), more = parts.find(root, "more");
  let all = [], run = "", chosen = "", link = name => name, by = "state", down = false, most = FIRST;

  // By what each column sorts; what is unknown comes last.
  const columns = {
    name: n => n.name,
    state: n => judge.is_unwell(n) && n.is.rank > judge.states.stopping.rank ? judge.states.suspect.rank + 0.5 : n.is.rank,
    seat: n => n.seat < 0 ? Infinity : n.seat,
    rank: n => n.rank ?? Infinity,
    step: n => n.step < 0 ? Infinity : n.step,
    lag: n => n.lag < 0 ? Infinity : n.lag,
    time: n => n.step_ms || Infinity,
    tokens: n => n.tokens_per_s || Infinity,
    busy: n => judge.gpu_busy(n) < 0 ? Infinity : judge.gpu_busy(n),
    memory: n => judge.gpu_memory(n) < 0 ? Infinity : judge.gpu_memory(n),
    heard: n => n.beat_age_s < 0 ? Infinity : n.beat_age_s,
  };
  const OPTIONAL = ["step", "lag", "time", "tokens", "busy", "memory"]; // columns that are seen where anybody tells
  const by_name = new Intl.Collator("en", {numeric: true});

  function compare(a, b) {
    const of = columns[by], x = of(a), y = of(b);
    let order = typeof x === "string" ? by_name.compare(x, y) : x === y ? 0 : x - y;
    if (down && x !== Infinity && y !== Infinity)
      order = -order;
    return order || columns.seat(a) - columns.seat(b) || by_name.compare(a.name, b.name);
  }

  function matches(node, wanted) {
    return node.name.toLowerCase().includes(wanted) || node.is.word.includes(wanted);
  }

  function draw_row(row, node) {
    parts.fill(row, {
      name: node.name,
      seat: node.seat >= 0 ? words.count(node.seat) : "–",
      ranks: judge.ranks(node),
      step: node.step >= 0 ? words.count(node.step) : "–",
      lag: node.lag >= 0 ? words.count(node.lag) : "–",
      time: node.step_ms ? words.duration(node.step_ms / 1000) : "–",
      tokens: node.tokens_per_s ? words.short(node.tokens_per_s) : "–",
      busy: judge.gpu_busy(node) < 0 ? "–" : `${judge.gpu_busy(node)} %`,
      memory: judge.gpu_memory(node) < 0 ? "–" : `${Math.round(judge.gpu_memory(node) * 100)} % of ${words.memory(node.gpu_mem_total_mib)}`,
      heard: node.beat_age_s >= 0 ? judge.heard(node) : "–",
    });
    const name = parts.find(row, "name");
    parts.attribute(name, "href", link(node.name));
    parts.attribute(name, "aria-current", node.name === chosen ? "true" : null);
    parts.badge(parts.find(row, "badge"), node.is);
    parts.attribute(parts.find(row, "lag"), "data-tone", judge.is_behind(node) ? "warn" : null);
  }

  function draw_count(found) {
    const unwell = all.filter(judge.is_unwell);
    const trouble = unwell.length ? `, look at ${judge.few(unwell)}` : "";
    const names = words.folded(all.filter(n => !n.lost).map(n => n.name));
    parts.fill(root, {count: filter.value ? `${words.count(found.length)} of ${words.counted(all.length, "node")} match`
      : `${words.counted(all.length, "node")}${trouble}: ${names.length > 160 ? names.slice(0, 160) + "…" : names}`});
  }

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const found = wanted ? all.filter(n => matches(n, wanted)) : all;
    const shown = found.toSorted(compare).slice(0, most);
    parts.columns(table, Object.fromEntries(OPTIONAL.map(name => [name, all.some(n => columns[name](n) !== Infinity)])));
    parts.list(table.tBodies[0], "node-row", shown, n => n.name, draw_row);
    draw_count(found);
    parts.show(more, found.length > shown.length);
    parts.text(more, `Show ${words.count(Math.min(MORE, found.length - shown.length))} more of ${words.count(found.length)}`);
  }

  table.tHead.addEventListener("click", e => {
    const wanted = e.target.dataset.by;
    if (!wanted)
      return;
    down = wanted === by && !down;
    by = wanted;
    for (const heading of table.tHead.rows[0].cells)
      heading.setAttribute("aria-sort", heading.firstElementChild.dataset.by !== by ? "none" : down ? "descending" : "ascending");
    draw();
  });
  filter.addEventListener("input", draw);
  more.addEventListener("click", () => {
    most += MORE;
    draw();
  });

  // The CREW of run ID, of which one node may be chosen; LINK_TO(name) leads to one.
  function update(crew, id, name, link_to) {
    if (id !== run)
      most = FIRST;
    run = id;
    all = crew;
    chosen = name;
    link = link_to;
    parts.show(root, all.length > 0);
    draw();
  }

  return {update, filter};
})();
