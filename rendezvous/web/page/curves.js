// SPDX-License-Identifier: Apache-2.0
//
// How a run went: its loss, rate and steps as lines. The server keeps a few points of the time before the page was opened; from
// then on the page keeps what it hears.
"use strict";

const curves = (() => {
  const LONGEST_GAP = 3; // in a line: so many times what lies between two of the server's points, or two steps
  const SPAN_SHORTEST = 1.2; // a choice of time is shown where there are so many times as much

  const root = parts.find(document.getElementById("run"), "curves");
  const part = name => parts.find(root, name);
  const heard = new Map(); // of each run that was looked at, by its id and beginning: what the page heard of it
  let span = 0, redraw = () => {};

  function heard_of(row) {
    const key = JSON.stringify([row.id, row.begun_s]);
    if (!heard.has(key))
      heard.set(key, {steps: [], tokens: [], loss: []});
    return heard.get(key);
  }

  function hear(row, team, now) {
    const {steps, tokens, loss} = heard_of(row), time = now / 1000, rate = judge.tokens(row, team.all);
    if (team.furthest >= 0)
      charts.add(steps, time - team.furthest_age, team.furthest);
    if (rate || tokens.length)
      charts.add(tokens, time, rate);
    if (row.loss && row.state === "running")
      charts.add(loss, time, judge.is_number(row.loss) ? Number.parseFloat(row.loss) : NaN);
  }

  // What the server kept, as far as it is older than what the page HEARD itself.
  function before(points, own) {
    return own.length ? points.filter(([time]) => time < own[0][0]) : points;
  }

  // SAMPLES of the server: its points are [time, step, loss, its lowest, its highest, tokens/s]; null: unknown.
  function joined(row, samples) {
    const {steps, tokens, loss} = heard_of(row), points = samples?.points ?? [];
    const column = at => points.filter(p => p[at] !== null).map(p => [p[0], p[at] === "nan" ? NaN : p[at]]);
    return {
      steps: [...before(column(1), steps), ...steps],
      loss: [...before(column(2), loss), ...loss],
      tokens: [...before(column(5), tokens), ...tokens],
      band: before(points, loss).filter(p => p[3] !== null).map(p => [p[0], p[3], p[4]]),
    };
  }

  // Of POINTS those of the last seconds that are wanted.
  function lately(points, now) {
    return span ? points.filter(([time]) => time >= now / 1000 - span) : points;
  }

  function draw_line(name, points, said, look) {
    const figure = part(name), finite = points.filter(p => Number.isFinite(p[1]));
    parts.show(figure, finite.length > 1);
    if (finite.length < 2)
      return false;
    charts.draw(figure, charts.pieces(points, look.gap), look);
    parts.text(figure.querySelector("output"), said);
    return true;
  }

  // A choice that would show the same as all is none.
  function draw_spans(lines, now) {
    const oldest = Math.min(...[lines.steps, lines.loss, lines.tokens].map(line => line[0]?.[0] ?? Infinity));
    const lasted = now / 1000 - oldest;
    for (const input of part("spans").elements)
      parts.show(input.closest("label"), Number(input.value) * SPAN_SHORTEST < lasted || input.checked);
    parts.show(part("spans"), lasted > 600 * SPAN_SHORTEST || span !== 0);
  }

  function draw(row, samples, marks, now) {
    const lines = joined(row, samples), pace = charts.pace(lines.steps);
    const look = {now, marks, gap: LONGEST_GAP * Math.max(20, pace, samples?.every_s ?? 0)};
    const rate = lines.tokens.at(-1)?.[1] ?? 0, loss = lines.loss.at(-1)?.[1];
    const drawn = [
      draw_line("loss-line", lately(lines.loss, now), Number.isFinite(loss) ? words.fine(loss) : row.loss ?? "",
        {...look, label: words.fine, band: lately(lines.band, now)}),
      draw_line("token-line", lately(lines.tokens, now), words.short(rate), {...look, label: words.short, zero: true}),
      draw_line("step-line", lately(lines.steps, now), pace ? `${words.duration(pace)} a step` : "no new step", {...look, label: words.count}),
    ];
    draw_spans(lines, now);
    parts.show(root, drawn.some(Boolean) || span !== 0);
    redraw = () => draw(row, samples, marks, now);
  }

  part("spans").addEventListener("change", e => {
    span = Number(e.target.value);
    redraw();
  });

  // The last loss that was told; "": none was.
  function last_loss(row, samples) {
    const loss = joined(row, samples).loss.at(-1)?.[1];
    return row.loss ?? (loss === undefined ? "" : Number.isFinite(loss) ? words.fine(loss) : "nan");
  }

  // [time, step] of a run, as far as they are known.
  function steps(row, samples) {
    return joined(row, samples).steps;
  }

  return {hear, draw, last_loss, steps};
})();
