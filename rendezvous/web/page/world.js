// SPDX-License-Identifier: Apache-2.0
//
// The world of a run as a map: a cell for each rank, those of a node together, in the order of ranks. One canvas, since it may
// be ten thousand cells; the table of nodes says the same in words.
"use strict";

const world = (() => {
  const HEIGHT_MOST = 400, CELL_MOST = 26, CELL_LEAST = 3, COLUMN_MOST = 8;
  const LABEL = 16, LABELLED_LEAST = 16, LABELLED_WIDTH = 56; // a cell's size from which blocks bear names

  const root = parts.find(document.getElementById("run"), "world");
  const canvas = root.querySelector("canvas"), here = parts.find(root, "here");
  let nodes = [], plan = null, at = -1, pointed = -1, chosen = "", by = "state", on_choose = () => {}, colours = {};

  // -- where each node is ---------------------------------------------------------------------------------------------------

  // Blocks of N nodes of so many WORKERS in WIDTH, with cells of SIZE: names above them where there is room.
  function lay(n, workers, width, size) {
    const named = size >= LABELLED_LEAST;
    const across = named ? Math.min(workers, COLUMN_MOST) : Math.ceil(workers / COLUMN_MOST);
    const down = Math.ceil(workers / across), gap = named ? 14 : size > 6 ? 4 : 2;
    const block = (named ? Math.max(LABELLED_WIDTH, across * size) : across * size) + gap, line = down * size + (named ? LABEL + 10 : gap + 2);
    const columns = Math.max(1, Math.floor((width + gap) / block));
    return {size, named, across, down, gap, block, line, columns, width, height: Math.ceil(n / columns) * line};
  }

  function arrange(width) {
    const workers = Math.max(1, ...nodes.map(n => n.workers));
    for (let size = CELL_MOST; ; size--) {
      const laid = lay(nodes.length, workers, width, size);
      if (size <= CELL_LEAST || (laid.height <= HEIGHT_MOST && laid.block <= width + 14))
        return laid;
    }
  }

  function corner(i) {
    return [i % plan.columns * plan.block, Math.floor(i / plan.columns) * plan.line + (plan.named ? LABEL : 0)];
  }

  // The node at that place of the canvas, and which of its workers; -1: none.
  function find(x, y) {
    const column = Math.floor(x / plan.block), line = Math.floor(y / plan.line), i = line * plan.columns + column;
    if (column < 0 || column >= plan.columns || i < 0 || i >= nodes.length)
      return [-1, -1];
    const [left, top] = corner(i);
    const worker = Math.floor((y - top) / plan.size) * plan.across + Math.floor((x - left) / plan.size);
    return [i, y >= top && x - left < plan.across * plan.size && worker < nodes[i].workers ? worker : -1];
  }

  // -- how a node looks -----------------------------------------------------------------------------------------------------

  const lags = [
    {most: -1, name: "none", words: "no step told"},
    {most: 0, name: "lag0", words: "at the furthest step"},
    {most: 2, name: "lag1", words: "1 or 2 behind"},
    {most: 10, name: "lag2", words: "3 to 10 behind"},
    {most: Infinity, name: "lag3", words: "more than 10 behind"},
  ];

  function lag_of(node) {
    return lags.find(l => node.lag <= l.most);
  }

  function colour_of(node) {
    return by === "lag" ? lag_of(node).name : "is-" + node.is.tone;
  }

  // A colour of the style sheet, by its name there.
  function colour(name) {
    return colours[name] ??= getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function draw_cells(pen, node, left, top) {
    const {size, across} = plan, gap = size > 4 ? 1 : 0.5;
    pen.fillStyle = colour(colour_of(node));
    for (let k = 0; k < node.workers; k++)
      pen.fillRect(left + k % across * size, top + Math.floor(k / across) * size, size - gap, size - gap);
  }

  // What a cell says beside its colour: a letter where it has room for one, or the rank of one that simply runs.
  function draw_letters(pen, node, left, top) {
    const {size, across} = plan;
    pen.font = `${size >= 20 ? 11 : 9}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.fillStyle = colour(by === "lag" ? "on-" + lag_of(node).name : "on-" + node.is.tone);
    for (let k = 0; k < node.workers; k++) {
      const letter = by === "lag" ? (node.lag > 0 ? words.short(node.lag) : "")
        : node.is.letter || (size >= 22 && node.rank + k < 1000 ? `${node.rank + k}` : "");
      pen.fillText(letter, left + (k % across + 0.5) * size - 0.5, top + (Math.floor(k / across) + 0.5) * size);
    }
  }

  function draw_name(pen, node, left, top) {
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillStyle = colour("soft");
    let name = words.printable(node.name);
    const room = plan.block - plan.gap;
    while (name.length > 1 && pen.measureText(name).width > room)
      name = name.slice(0, -2) + "…";
    pen.fillText(name, left, top - LABEL / 2);
  }

  // A frame stands around what is not well, so that it is seen without colours, and around what is pointed at.
  function draw_frame(pen, i, [left, top], name, width) {
    const across = plan.across * plan.size, down = Math.ceil(nodes[i].workers / plan.across) * plan.size;
    pen.strokeStyle = colour(name);
    pen.lineWidth = width;
    pen.strokeRect(left - 1, top - 1, across + 1, down + 1);
  }

  function draw() {
    const width = canvas.clientWidth;
    if (!width || !nodes.length)
      return;
    plan = arrange(width - 4);
    const scale = devicePixelRatio || 1, height = plan.height + 4;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.translate(2, 2);
    pen.textBaseline = "middle";
    nodes.forEach((node, i) => {
      const [left, top] = corner(i);
      draw_cells(pen, node, left, top);
      if (plan.size >= 13)
        draw_letters(pen, node, left, top);
      if (plan.named)
        draw_name(pen, node, left, top);
    });
    nodes.forEach((node, i) => {
      if (node.is.rank <= judge.states.suspect.rank || judge.is_behind(node))
        draw_frame(pen, i, corner(i), "ink", 1);
    });
    const marked = nodes.findIndex(n => n.name === chosen);
    if (marked >= 0)
      draw_frame(pen, marked, corner(marked), "blue", 2);
    if (at >= 0 && document.activeElement === canvas)
      draw_frame(pen, at, corner(at), "blue", 3);
  }

  // -- what it is in words --------------------------------------------------------------------------------------------------

  function counts(of) {
    const found = new Map();
    for (const node of nodes)
      found.set(of(node), (found.get(of(node)) ?? 0) + node.workers);
    return found;
  }

  function draw_key() {
    const found = by === "lag" ? counts(lag_of) : counts(n => n.is);
    const items = [...found].map(([what, n]) => by === "lag"
      ? {id: what.name, colour: what.name, letter: "", text: `${what.words}: ${words.count(n)}`, order: -lags.indexOf(what)}
      : {id: what.word, colour: "is-" + what.tone, letter: what.letter, text: `${what.word}: ${words.count(n)}`, order: what.rank});
    items.sort((a, b) => b.order - a.order);
    parts.list(parts.find(root, "key"), "key-item", items, i => i.id, (row, i) => {
      parts.fill(row, {words: i.text, letter: i.letter});
      parts.attribute(parts.find(row, "letter"), "data-colour", i.colour);
    });
    parts.attribute(canvas, "aria-label", `${words.counted(nodes.length, "node")}. Ranks: ${items.map(i => i.text).join(", ")}`);
  }

  function say(i, worker) {
    const node = nodes[i];
    const rank = node && worker >= 0 && node.rank !== undefined ? `rank ${node.rank + worker} of ` : "";
    parts.text(here, node ? words.printable(`${rank}${node.name}: ${judge.node_words(node)}`) : "\u00a0");
  }

  // -- pointer and keys -----------------------------------------------------------------------------------------------------

  canvas.addEventListener("pointermove", e => {
    const [i, worker] = find(e.offsetX - 2, e.offsetY - 2);
    pointed = i;
    canvas.classList.toggle("over", i >= 0);
    say(i >= 0 ? i : at, worker);
  });
  canvas.addEventListener("pointerleave", () => {
    pointed = -1;
    say(at, -1);
  });
  canvas.addEventListener("click", () => pointed >= 0 && on_choose(nodes[pointed].name));
  canvas.addEventListener("keydown", e => {
    const by_key = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -plan.columns, ArrowDown: plan.columns,
      Home: -nodes.length, End: nodes.length}[e.key];
    if (e.key === "Enter" && at >= 0)
      on_choose(nodes[at].name);
    else if (by_key)
      at = Math.max(0, Math.min(nodes.length - 1, at + by_key));
    else
      return;
    e.preventDefault();
    e.stopPropagation();
    say(at, -1);
    draw();
  });
  canvas.addEventListener("focus", () => {
    at = Math.max(0, nodes.findIndex(n => n.name === chosen));
    say(at, -1);
    draw();
  });
  canvas.addEventListener("blur", () => {
    at = -1;
    say(-1, -1);
    draw();
  });
  root.addEventListener("change", e => {
    by = e.target.value;
    draw_key();
    draw();
  });

  function recolour() {
    colours = {};
    draw();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", recolour);
  addEventListener("afterprint", recolour);
  new ResizeObserver(() => canvas.clientWidth !== plan?.width + 4 && draw()).observe(canvas);

  // -- for others -----------------------------------------------------------------------------------------------------------

  function update(all, name) {
    nodes = all;
    chosen = name;
    at = Math.min(at, nodes.length - 1);
    parts.show(root, nodes.length > 0);
    draw_key();
    draw();
    if (at >= 0)
      say(at, -1);
  }

  return {update, set on_choose(choose) { on_choose = choose; }};
})();
