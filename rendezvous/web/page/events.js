// SPDX-License-Identifier: Apache-2.0
//
// What happened, the newest first, of all runs or of one.
"use strict";

const events = (() => {
  const FIRST = 30, MORE = 200;
  const root = document.getElementById("events");
  const weights = {
    __proto__: null,
    info: {tone: "calm", sign: "·", order: 0},
    warning: {tone: "warn", sign: "▲", order: 1},
    error: {tone: "bad", sign: "✕", order: 2},
  };
  let all = [], run = null, now = new Date(), least = 0, most = FIRST;

  function weight_of(event) {
    return weights[event.weight] ?? weights.info;
  }

  // Those of no run are of all.
  function concerns(event) {
    return (run === null || !event.run || event.run === run) && weight_of(event).order >= least;
  }

  function place(event) {
    const rank = event.rank !== undefined ? `rank ${event.rank}` : "", round = event.round !== undefined ? `round ${event.round}` : "";
    return [event.node ?? "", rank, round].filter(Boolean).join(", ");
  }

  function draw_row(row, event) {
    const weight = weight_of(event), kind = event.kind.replaceAll("_", " ");
    parts.moment(parts.find(row, "time"), event.date, now);
    parts.text(parts.find(row, "weight"), weight.sign);
    parts.attribute(parts.find(row, "weight"), "aria-label", event.weight);
    parts.attribute(row, "data-tone", weight.tone);
    parts.attribute(row, "title", [kind, place(event)].filter(Boolean).map(words.printable).join(": "));
    const link = parts.find(row, "run");
    parts.show(link, run === null && Boolean(event.run));
    parts.attribute(link, "href", event.run ? `#/run/${encodeURIComponent(event.run)}` : null);
    parts.fill(row, {run: event.run ?? "", words: event.words || kind});
  }

  function draw() {
    const found = all.filter(concerns);
    const shown = found.slice(-most).reverse(), rest = found.length - shown.length;
    parts.list(parts.find(root, "list"), "event-row", shown, e => e.number, draw_row);
    parts.show(parts.find(root, "none"), !found.length);
    parts.show(parts.find(root, "more"), rest > 0);
    parts.text(parts.find(root, "more"), `Show ${words.count(Math.min(MORE, rest))} older`);
  }

  parts.find(root, "more").addEventListener("click", () => {
    most += MORE;
    draw();
  });
  root.addEventListener("change", e => {
    least = Number(e.target.value);
    draw();
  });

  function update(list, of, at) {
    if (of !== run)
      most = FIRST;
    all = list;
    run = of;
    now = at;
    draw();
  }

  return {root, update};
})();
