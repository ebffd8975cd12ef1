// SPDX-License-Identifier: Apache-2.0
//
// Nodes that are kept out of all runs, why, and the command that lets each back.
"use strict";

const out = (() => {
  const root = document.getElementById("out"), title = document.getElementById("out-title");

  function draw_row(row, node) {
    parts.fill(row, {name: node.name, standing: judge.standing(node), why: node.why || "–"});
    parts.command(parts.find(row, "command"), judge.is_out(node) ? judge.undrain(node.name) : null);
  }

  function draw(excluded) {
    const worst_first = excluded.toSorted((a, b) => judge.is_out(b) - judge.is_out(a) || b.until_s - a.until_s);
    parts.show(root, excluded.length > 0);
    parts.text(title, excluded.some(judge.is_out) ? "Nodes kept out" : "Nodes that are watched, as they failed");
    parts.list(root.querySelector("tbody"), "out-row", worst_first, node => node.name, draw_row);
  }

  return {root, draw};
})();
