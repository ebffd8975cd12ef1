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
  let nodes = [], usual_ms = 0, plan = null, at = -1, pointed = -1, chosen = "", by = "state", on_choose = () => {}, colours = {};

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

  // -- how a rank looks -----------------------------------------------------------------------------------------------------

  // What a rank can be, by what the map shows. COLOUR is a name of the style sheet. ORDER: those that want a person last.
  function looks_of(rows) {
    return rows.map((row, order) => ({...row, order, letter: ""}));
  }

  const lags = looks_of([
    {most: -1, colour: "none", words: "no step told"},
    {most: 0, colour: "heat0", words: "at the furthest step"},
    {most: 2, colour: "heat1", words: "1 or 2 behind"},
    {most: 10, colour: "heat2", words: "3 to 10 behind"},
    {most: Infinity, colour: "heat3", words: "more than 10 behind"},
  ]);
  // By how many times the usual it takes for its part of a step.
  const times = looks_of([
    {most: 0, colour: "none", words: "no time told"},
    {most: 1.1, colour: "heat0", words: "usual"},
    {most: 1.25, colour: "heat1", words: "10 to 25 % slower"},
    {most: 2, colour: "heat2", words: "25 to 100 % slower"},
    {most: Infinity, colour: "heat3", words: "more than 2 × the usual"},
  ]), USUAL = times[1];
  const states = new Map(Object.values(judge.states)
    .map(is => [is.word, {colour: "is-" + is.tone, on: "on-" + is.tone, words: is.word, letter: is.letter, order: -is.rank}]));

  // A doing that this page does not know is one of those that wait.
  function state_of(node) {
    const {word, letter, rank, tone} = node.is;
    if (!states.has(word))
      states.set(word, {colour: "is-" + tone, on: "on-" + tone, words: word, letter, order: -rank});
    return states.get(word);
  }

  function slowness(node, k) {
    return usual_ms ? (node.times[k] ?? 0) / usual_ms : 0;
  }

  // "+34" percent, "2.2×".
  function slow_words(times) {
    return times >= 2 ? `${times < 10 ? times.toFixed(1) : words.short(times)}×` : times > 1.1 ? `+${Math.round((times - 1) * 100)}` : "";
  }

  // Worker K of a NODE: how it looks, and what stands in its cell beside the colour, where there is room.
  const views = {
    state: {
      look: state_of,
      letter: (node, k, look) => look.letter || (plan.size >= 22 && node.rank + k < 1000 ? `${node.rank + k}` : ""),
    },
    lag: {
      look: node => lags.find(l => node.lag <= l.most),
      letter: node => node.lag > 0 ? words.short(node.lag) : "",
    },
    time: {
      look: (node, k) => times.find(t => slowness(node, k) <= t.most),
      letter: (node, k) => plan.size >= 20 ? slow_words(slowness(node, k)) : "",
    },
  };

  // A colour of the style sheet, by its name there.
  function colour(name) {
    return colours[name] ??= getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function draw_cells(pen, node, left, top) {
    const {size, across} = plan, gap = size > 4 ? 1 : 0.5, {look} = views[by];
    for (let k = 0; k < node.workers; k++) {
      pen.fillStyle = colour(look(node, k).colour);
      pen.fillRect(left + k % across * size, top + Math.floor(k / across) * size, size - gap, size - gap);
    }
  }

  function draw_letters(pen, node, left, top) {
    const {size, across} = plan, view = views[by];
    pen.font = `${size >= 20 ? 11 : 9}px system-ui, sans-serif`;
    pen.textAlign = "center";
    for (let k = 0; k < node.workers; k++) {
      const look = view.look(node, k);
      pen.fillStyle = colour(look.on ?? "on-" + look.colour);
      pen.fillText(view.letter(node, k, look), left + (k % across + 0.5) * size - 0.5, top + (Math.floor(k / across) + 0.5) * size);
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
      if (judge.is_unwell(node))
        draw_frame(pen, i, corner(i), "ink", 1);
    });
    const marked = nodes.findIndex(n => n.name === chosen);
    if (marked >= 0)
      draw_frame(pen, marked, corner(marked), "blue", 2);
    if (at >= 0 && document.activeElement === canvas)
      draw_frame(pen, at, corner(at), "blue", 3);
  }

  // -- what it is in words --------------------------------------------------------------------------------------------------

  // How many ranks look how.
  function counts() {
    const found = new Map(), {look} = views[by];
    for (const node of nodes)
      for (let k = 0; k < node.workers; k++)
        found.set(look(node, k), (found.get(look(node, k)) ?? 0) + 1);
    return found;
  }

  function draw_key() {
    const items = [...counts()].sort(([a], [b]) => a.order - b.order);
    const text = ([look, n]) => `${look.words}${look === USUAL ? `, ${words.duration(usual_ms / 1000)}` : ""}: ${words.count(n)}`;
    parts.list(parts.find(root, "key"), "key-item", items, ([look]) => look.words, (row, item) => {
      parts.fill(row, {words: text(item), letter: item[0].letter});
      parts.attribute(parts.find(row, "letter"), "data-colour", item[0].colour);
    });
    parts.attribute(canvas, "aria-label", `${words.counted(nodes.length, "node")}. Ranks: ${items.map(text).join(", ")}`);
  }

  function say(i, worker) {
    const node = nodes[i];
    parts.text(here, node ? words.printable(`${judge.worker_words(node, worker)}: ${judge.node_words(node)}`) : "\u00a0");
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

  // Where nobody tells of times, they cannot be chosen.
  function offer_times() {
    const by_time = parts.find(root, "by-time");
    parts.show(by_time, usual_ms > 0);
    if (usual_ms === 0 && by === "time") {
      by = "state";
      root.querySelector("[value=state]").checked = true;
    }
  }

  // USUAL: milliseconds that most ranks take for their part of a step; 0: nobody tells.
  function update(all, name, usual) {
    nodes = all;
    usual_ms = usual;
    offer_times();
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
