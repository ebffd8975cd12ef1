// SPDX-License-Identifier: Apache-2.0
//
// One run: how it is in a sentence, its last failure, its world, nodes and rounds, and one of its nodes where that was chosen.
"use strict";

const run = (() => {
  const root = document.getElementById("run"), missing = document.getElementById("missing");
  const part = name => parts.find(root, name);
  const series = new Map(); // of each run that was looked at: its steps and rates
  let shown = {run: "", node: ""};

  function link_to(id, node) {
    return `#/run/${encodeURIComponent(id)}` + (node ? `/node/${encodeURIComponent(node)}` : "");
  }

  // -- the beginning --------------------------------------------------------------------------------------------------------

  function tile(what, value, more = "") {
    return {what, value, more};
  }

  function tiles(row, team, status) {
    const spares = team.others.filter(n => n.is === judge.states.parked).length;
    const kept_out = status.excluded.filter(judge.is_out).length;
    const tokens = judge.sum_tokens(team.all), range = row.min === row.max ? `of ${row.min}` : `of ${row.min} to ${row.max}`;
    return [
      tile("Nodes", words.count(row.nodes), `${range}${spares ? `, ${words.counted(spares, "spare")}` : ""}`),
      tile("Workers", row.world ? words.count(row.world) : "–", row.master ? `master ${row.master}` : ""),
      tile("Step", team.furthest >= 0 ? words.count(team.furthest) : "–", team.furthest >= 0 ? "the furthest node's" : "none told"),
      tile("Tokens/s", tokens ? words.short(tokens) : "–", tokens ? "of all nodes" : "none told"),
      tile("Restarts", `${words.count(row.restarts)} of ${words.count(row.max_restarts)}`,
        row.losses ? `${words.counted(row.losses, "node")} lost so far` : "no node lost"),
      tile("Kept out", words.count(kept_out), kept_out ? "see below" : "no node"),
    ];
  }

  // What ended the round before; of a run that is over its own end says that.
  function draw_failure(row, rounds, now) {
    const last = rounds.at(-1), shown = Boolean(last?.cause) && !judge.is_over(row);
    parts.show(part("failure"), shown);
    if (!shown)
      return;
    const ended = past.ended(last), lost = last.lost_ms >= 1000 ? ` Nothing ran for ${words.duration(last.lost_ms / 1000)}.` : "";
    parts.fill(root, {
      when: `Round ${last.round} ended${ended ? ` ${words.moment(ended, now)}` : ""}:`,
      cause: last.cause,
      decided: last.decided ? `Decided: ${last.decided}.${lost}` : lost.trim(),
    });
  }

  function draw_head(row, team, status) {
    const since = words.moment(new Date(status.now - row.since_s * 1000), status.now), badge = judge.badge(row, news.events);
    parts.fill(root, {
      id: row.id,
      lead: judge.lead(row, team),
      owner: [judge.is_over(row) ? `ended ${since}` : `${badge.word} since ${since}`, judge.origin(row, status.now)]
        .filter(Boolean).join(" · "),
    });
    parts.badge(part("badge"), badge);
    draw_failure(row, status.past ?? [], status.now);
    parts.list(part("tiles"), "tile", tiles(row, team, status), t => t.what, (element, t) => parts.fill(element, t));
  }

  // -- one node -------------------------------------------------------------------------------------------------------------

  function draw_node(row, team, excluded, name) {
    const node = team.all.find(n => n.name === name), out = excluded.find(e => e.name === name);
    const panel = part("node"), known = Boolean(node || out);
    const commands = [...node ? judge.node_commands(row, node) : [], ...out && judge.is_out(out) ? [judge.undrain(name)] : []];
    parts.show(panel, name !== "");
    if (name === "")
      return;
    parts.fill(panel, {
      name,
      words: [node ? judge.node_words(node) : "", out ? `It is ${judge.standing(out)}: ${out.why || "nobody said why"}.` : "",
        known ? "" : "This rendezvous does not know it now."].filter(Boolean).join(" "),
      advice: node ? judge.node_advice(node) : "",
    });
    parts.attribute(parts.find(panel, "close"), "href", link_to(row.id));
    parts.list(parts.find(panel, "commands"), "copied-line", commands, c => c, (line, c) => parts.command(line, c));
    if (shown.run !== row.id || shown.node !== name)
      panel.scrollIntoView({block: "nearest"});
  }

  // -- lines ----------------------------------------------------------------------------------------------------------------

  function draw_line(name, samples, unit, label, zero, now) {
    const figure = part(name);
    parts.show(figure, samples.length > 1);
    if (samples.length < 2)
      return;
    charts.draw(figure, [samples], {now, label, zero});
    parts.text(figure.querySelector("output"), unit);
  }

  function series_of(id) {
    if (!series.has(id))
      series.set(id, {steps: [], tokens: []});
    return series.get(id);
  }

  function draw_rate(row, team, now) {
    const {steps, tokens} = series_of(row.id), time = now / 1000, rate = judge.sum_tokens(team.all);
    if (team.furthest >= 0)
      charts.add(steps, time - team.furthest_age, team.furthest);
    if (rate || tokens.length)
      charts.add(tokens, time, rate);
    const pace = charts.pace(steps);
    draw_line("step-line", steps, pace ? `${pace.toFixed(2)} s a step` : "no new step", words.count, false, now);
    draw_line("token-line", tokens, words.short(rate), words.short, true, now);
    parts.show(part("rate"), steps.length > 1 || tokens.length > 1);
  }

  // -- all of it ------------------------------------------------------------------------------------------------------------

  // Returns what the title of the page says of it.
  function draw(status, {run: id, node}) {
    const row = status.runs.find(r => r.id === id);
    parts.show(root, Boolean(row));
    parts.show(missing, !row);
    parts.fill(missing, {id});
    if (!row)
      return "no such run";
    const team = judge.crew(row, status.nodes.filter(n => n.run === id), status.excluded);
    const runs_now = row.state === "running" && team.furthest >= 0;
    draw_head(row, team, status);
    world.update(row.state === "running" && team.world.length ? team.world : team.all, node);
    draw_node(row, team, status.excluded, node);
    draw_rate(row, team, status.now);
    nodes.update(team.all, id, node, name => link_to(id, name));
    if (status.past)
      past.draw(status.past, runs_now ? {since: status.now / 1000 - row.since_s, samples: series_of(id).steps} : null, status.now);
    shown = {run: id, node};
    return `${judge.badge(row, news.events).word} · ${row.id}`;
  }

  world.on_choose = name => location.hash = link_to(shown.run, name);

  return {root, missing, draw, nodes_part: part("nodes")};
})();
