// SPDX-License-Identifier: Apache-2.0
//
// The keyboard: rows are links, so Enter and Tab are the browser's; j and k go from row to row.
"use strict";

const keys = (() => {
  const help = document.getElementById("keys"), main = document.getElementById("main");

  function is_typing(element) {
    return element.matches("input[type=search], input[type=password]");
  }

  // Of the tables that are seen, the links that name their rows.
  function rows() {
    return [...main.querySelectorAll("tbody th a")].filter(a => a.checkVisibility());
  }

  function go(by) {
    const all = rows(), at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))];
    next?.focus();
    next?.scrollIntoView({block: "nearest"});
  }

  // The nearest thing that can be left: the filter, a node, the run.
  function leave() {
    const filter = nodes.filter, [, , run, node] = location.hash.split("/");
    if (document.activeElement === filter || filter.value) {
      filter.value = "";
      filter.dispatchEvent(new Event("input"));
      filter.blur();
    } else if (node) {
      location.hash = `#/run/${run}`;
    } else if (run) {
      location.hash = "#/";
    }
  }

  function focus(element) {
    if (!element.checkVisibility())
      return;
    element.focus();
    element.scrollIntoView({block: "center"});
  }

  const actions = {
    j: () => go(1),
    k: () => go(-1),
    ArrowDown: () => go(1),
    ArrowUp: () => go(-1),
    "/": () => focus(nodes.filter),
    w: () => focus(document.querySelector("canvas")),
    "?": () => help.showModal(),
    Escape: leave,
  };

  function on_key(e) {
    if (e.ctrlKey || e.altKey || e.metaKey || document.querySelector("dialog[open]"))
      return;
    if (is_typing(document.activeElement) && e.key !== "Escape")
      return;
    // Arrows scroll the page until a row has the focus.
    if (e.key.startsWith("Arrow") && !document.activeElement.closest("tbody th"))
      return;
    if (!Object.hasOwn(actions, e.key))
      return;
    e.preventDefault();
    actions[e.key]();
  }

  function start() {
    addEventListener("keydown", on_key);
    document.getElementById("help").addEventListener("click", () => help.showModal());
  }

  return {start};
})();
