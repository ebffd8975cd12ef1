// SPDX-License-Identifier: Apache-2.0
//
// Parts of the document: found by name, filled with text, lists of them that follow a list of things. What is there stays
// there while its text changes, and nothing that has not changed is touched: so focus, selection and scrolling survive.
"use strict";

const parts = (() => {
  const found = new WeakMap(); // of an element, its parts by name
  const listed = new WeakMap(); // of an element, its children by the key of what they show

  // The part of ROOT that is called NAME.
  function find(root, name) {
    if (!found.has(root))
      found.set(root, new Map());
    const known = found.get(root);
    if (!known.has(name))
      known.set(name, root.querySelector(`[data-is="${name}"]`));
    return known.get(name);
  }

  function text(element, value) {
    if (element.textContent !== value)
      element.textContent = value;
  }

  // The only way in for text from outside.
  function fill(root, values) {
    for (const [name, value] of Object.entries(values))
      text(find(root, name), words.printable(value));
  }

  function attribute(element, name, value) {
    if (value === null || value === undefined)
      element.removeAttribute(name);
    else if (element.getAttribute(name) !== value)
      element.setAttribute(name, value);
  }

  function show(element, shown) {
    if (element.hidden === shown)
      element.hidden = !shown;
  }

  // Of the columns of TABLE that not everybody tells, those that SHOWN says are seen.
  function columns(table, shown) {
    attribute(table, "data-lacks", Object.keys(shown).filter(name => !shown[name]).join(" ") || null);
  }

  function clone(template) {
    return document.getElementById(template).content.firstElementChild.cloneNode(true);
  }

  // The children of PARENT, made of TEMPLATE, are those of THINGS in their order: KEY_OF names one for as long as it lives,
  // UPDATE(child, thing) says what it looks like. Of two with one key the first counts.
  function list(parent, template, things, key_of, update) {
    const kept = listed.get(parent) ?? new Map(), rows = new Map();
    let at = parent.firstElementChild;
    for (const thing of things) {
      const key = key_of(thing);
      if (rows.has(key))
        continue;
      let row = kept.get(key);
      if (row)
        kept.delete(key);
      else
        row = clone(template);
      rows.set(key, row);
      if (row === at)
        at = at.nextElementSibling;
      else
        parent.insertBefore(row, at);
      update(row, thing);
    }
    for (const row of kept.values())
      row.remove();
    listed.set(parent, rows);
  }

  function badge(element, {word, tone, sign}) {
    text(element, `${sign} ${words.printable(word)}`);
    attribute(element, "data-tone", tone);
  }

  // In the reader's zone; the title says it in UTC.
  function moment(element, date, now) {
    text(element, date ? words.moment(date, now) : "–");
    attribute(element, "datetime", date?.toISOString());
    attribute(element, "title", date && words.utc(date));
  }

  // Clipboards are for secure pages; elsewhere the text is selected, so that Ctrl-C has it.
  async function copy(code, button) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "copied" : "selected";
    }
    setTimeout(() => button.textContent = "copy", 2000);
  }

  // COMMAND in PARENT, with a button to copy it; no command, no button.
  function command(parent, command) {
    list(parent, "copied", command ? [command] : [], c => c, (row, c) => {
      text(find(row, "text"), c);
      find(row, "copy").onclick = () => copy(find(row, "text"), find(row, "copy"));
      attribute(find(row, "copy"), "aria-label", `copy ${c}`);
    });
  }

  return {find, text, fill, attribute, show, columns, list, badge, moment, command};
})();
