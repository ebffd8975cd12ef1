// SPDX-License-Identifier: Apache-2.0
//
// Alerts that are raised now, of all runs or of one: what is so, since when, and what to do about it. One that tells of a moment
// is among the events.
"use strict";

const alerts = (() => {
  const root = document.getElementById("alerts");

  function key(alert) {
    return JSON.stringify([alert.alert, alert.run, alert.node]);
  }

  function draw_row(row, alert, run, now) {
    const is_bad = alert.weight === "error", link = parts.find(row, "run");
    parts.attribute(row, "data-tone", is_bad ? "bad" : "warn");
    parts.show(link, run === null && Boolean(alert.run));
    parts.attribute(link, "href", alert.run ? `#/run/${encodeURIComponent(alert.run)}` : null);
    parts.fill(row, {
      sign: is_bad ? "✕" : "▲",
      name: alert.alert.replaceAll("_", " "),
      run: alert.run ?? "",
      words: alert.words,
      advice: judge.alert_advice(alert),
    });
    parts.moment(parts.find(row, "raised"), new Date(alert.raised), now);
  }

  // ALL: the heaviest first. RUN: the one that is looked at; null: all of them.
  function draw(all, run, now) {
    const shown = all.filter(a => run === null || !a.run || a.run === run)
      .toSorted((a, b) => (b.weight === "error") - (a.weight === "error") || Date.parse(b.raised) - Date.parse(a.raised));
    parts.show(root, shown.length > 0);
    parts.list(root.querySelector("ul"), "alert-row", shown, key, (row, alert) => draw_row(row, alert, run, now));
  }

  return {root, draw};
})();
