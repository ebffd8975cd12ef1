// SPDX-License-Identifier: Apache-2.0
//
// Lines over time, and the series that are collected while the page is open. A picture keeps its shape at any width, so labels
// stand beside it and not in it. The pointer, or arrow keys in a chart that has the focus, choose a point to be told of.
"use strict";

const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg", WIDTH = 1000, HEIGHT = 100;
  const SAMPLES_MOST = 600, SAME_LONGEST = 15;

  function element(parent, name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes))
      made.setAttribute(key, value);
    return parent.appendChild(made);
  }

  // -- a point that is told of ----------------------------------------------------------------------------------------------

  // Moves to point AT of those that are drawn; null: to none.
  function tell(f, at) {
    f.at = at === null ? null : Math.max(0, Math.min(f.points.length - 1, at));
    const point = f.points[f.at];
    f.here.setAttribute("d", point ? `M${f.x(point[0])} 0V${HEIGHT}` : "");
    parts.text(f.said, point ? `${f.label(point[1])} at ${words.moment(new Date(point[0] * 1000), f.now)}` : "");
  }

  function nearest(f, time) {
    let found = 0;
    f.points.forEach(([t], i) => {
      if (Math.abs(t - time) < Math.abs(f.points[found][0] - time))
        found = i;
    });
    return found;
  }

  function on_key(f, e) {
    const last = f.points.length - 1, at = f.at ?? last;
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: last, Escape: null}[e.key];
    if (to === undefined || (to === null && f.at === null))
      return;
    e.preventDefault();
    e.stopPropagation();
    tell(f, to);
  }

  function follow(f) {
    f.svg.addEventListener("pointermove", e => {
      const box = f.svg.getBoundingClientRect();
      tell(f, nearest(f, f.bounds.from + (e.clientX - box.left) / box.width * (f.bounds.to - f.bounds.from)));
    });
    f.svg.addEventListener("pointerleave", () => tell(f, null));
    f.svg.addEventListener("blur", () => tell(f, null));
    f.svg.addEventListener("keydown", e => on_key(f, e));
  }

  // -- the picture ----------------------------------------------------------------------------------------------------------

  function frame(figure) {
    const panel = figure.appendChild(document.createElement("div"));
    panel.className = "panel";
    const side = panel.appendChild(document.createElement("div")), high = side.appendChild(document.createElement("span"));
    side.className = "side";
    const svg = element(panel, "svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: "0"});
    element(svg, "path", {class: "grid", d: `M0 0H${WIDTH}M0 50H${WIDTH}M0 ${HEIGHT}H${WIDTH}`});
    const foot = panel.appendChild(document.createElement("div")), from = foot.appendChild(document.createElement("span"));
    foot.className = "foot";
    const f = {
      svg, high, low: side.appendChild(document.createElement("span")), at: null, points: [],
      band: element(svg, "path", {class: "band"}), here: element(svg, "path", {class: "here"}),
      marks: element(svg, "path", {class: "mark"}), guessed: element(svg, "path", {class: "line guessed"}), line: element(svg, "path", {class: "line"}),
      from, said: foot.appendChild(document.createElement("output")), to: foot.appendChild(document.createElement("span")),
    };
    follow(f);
    return f;
  }

  function bounds(lines, band, zero) {
    const xs = lines.flat().map(p => p[0]), ys = [...lines.flat().map(p => p[1]), ...band.flatMap(p => [p[1], p[2]])];
    const low = zero ? 0 : Math.min(...ys), high = Math.max(...ys);
    return {from: Math.min(...xs), to: Math.max(...xs), low, high: high > low ? high : low + 1};
  }

  // LINES: lists of [seconds since 1970, value]; GUESSED: one more, which nobody measured. ZERO: the lowest value shown is 0.
  // MARKS: times at which something ended. BAND: [seconds since 1970, lowest, highest] of what the line is thinned from.
  function draw(figure, lines, {zero = false, marks = [], guessed = null, band = [], now, label = words.count}) {
    const f = figure.frame ??= frame(figure), b = bounds(lines, band, zero), span = b.to - b.from || 1;
    const x = t => ((t - b.from) / span * WIDTH).toFixed(1);
    const y = v => ((b.high - v) / (b.high - b.low) * HEIGHT).toFixed(1);
    const path = line => "M" + line.map(([t, v]) => `${x(t)} ${y(v)}`).join("L");
    f.line.setAttribute("d", lines.map(path).join(""));
    f.guessed.setAttribute("d", guessed ? path(guessed) : "");
    f.band.setAttribute("d", band.length ? path([...band.map(([t, low]) => [t, low]), ...band.map(([t, , high]) => [t, high]).reverse()]) + "Z" : "");
    f.marks.setAttribute("d", marks.filter(t => t >= b.from && t <= b.to).map(t => `M${x(t)} 0V${HEIGHT}`).join(""));
    parts.text(f.high, label(b.high));
    parts.text(f.low, label(b.low));
    parts.text(f.from, words.moment(new Date(b.from * 1000), now));
    parts.text(f.to, words.moment(new Date(b.to * 1000), now));
    Object.assign(f, {bounds: b, x, now, label, points: lines.flat()});
    tell(f, f.at);
    parts.attribute(f.svg, "aria-label", `from ${label(lines[0][0][1])} to ${label(lines.at(-1).at(-1)[1])} in ${words.duration(span)}`);
  }

  // POINTS as lines: broken where a value is no number, or where nothing was heard for longer than GAP seconds.
  function pieces(points, gap) {
    const lines = [];
    let last = null;
    for (const point of points) {
      const follows = last && point[0] - last[0] <= gap;
      last = Number.isFinite(point[1]) ? point : null;
      if (last && follows)
        lines.at(-1).push(point);
      else if (last)
        lines.push([point]);
    }
    return lines;
  }

  // -- series ---------------------------------------------------------------------------------------------------------------

  // What is new, or the same for a while. Half of the samples go when there are too many: a line keeps its shape and beginning.
  function add(series, time, value) {
    const last = series.at(-1);
    if (last && (last[0] >= time || (Object.is(last[1], value) && time < last[0] + SAME_LONGEST)))
      return;
    series.push([time, value]);
    if (series.length > SAMPLES_MOST)
      series.splice(0, series.length, ...series.filter((_, i) => i % 2 === 0 || i === series.length - 1));
  }

  // Seconds that one more took lately, since the value last fell; 0: it did not grow.
  function pace(series) {
    let first = series.length - 1;
    while (first > 0 && series[first - 1][1] <= series[first][1] && series.length - first < 10)
      first--;
    const [from, to] = [series[first], series.at(-1)];
    return from && to[1] > from[1] ? (to[0] - from[0]) / (to[1] - from[1]) : 0;
  }

  return {draw, pieces, add, pace};
})();
