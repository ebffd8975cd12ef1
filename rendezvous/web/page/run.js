// SPDX-License-Identifier: Apache-2.0
//
// One run: how it is in a sentence, its last failure, what its steps take, its world, nodes and rounds, and one of its nodes where
// that was chosen.
"use strict";

const run = (() => {
  const root = document.getElementById("run"), missing = document.getElementById("missing");
  const part = name => parts.find(root, name);
  const WORRIES_MOST = 8;
  let shown = {run: "", node: ""};

  function link_to(id, node) {
    return `#/run/${encodeURIComponent(id)}` + (node ? `/node/${encodeURIComponent(node)}` : "");
  }

  // -- the beginning --------------------------------------------------------------------------------------------------------

  function tile(what, value, more = "", tone = "") {
    return {what, value, more, tone};
  }

  function draw_tile(element, {tone, ...texts}) {
    parts.fill(element, texts);
    parts.attribute(element, "data-tone", tone || null);
  }

  // "of 50,000, 3 h 20 min to go".
  function step_words(row, team, pace) {
    const left = judge.left_s(row, team.furthest, pace);
    if (row.state !== "running")
      return "the last that was told";
    return row.steps ? `of ${words.count(row.steps)}` + (left ? `, ${words.duration(Math.ceil(left))} to go` : "") : "the furthest node's";
  }

  // What is not known has none.
  function tiles(row, team, status) {
    const spares = team.others.filter(n => n.is === judge.states.parked).length;
    const kept_out = status.excluded.filter(judge.is_out).length;
    const tokens = judge.tokens(row, team.all), range = row.min === row.max ? `of ${row.min}` : `of ${row.min} to ${row.max}`;
    const now = row.state === "running", step = Math.max(team.furthest, row.step ?? -1), loss = curves.last_loss(row, status.samples);
    return [
      tile("Nodes", words.count(row.nodes), `${range}${spares ? `, ${words.counted(spares, "spare")}` : ""}`),
      row.world && tile("Workers", words.count(row.world), row.master ? `master ${row.master}` : ""),
      step >= 0 && tile("Step", words.count(step), step_words(row, team, charts.pace(curves.steps(row, status.samples)))),
      loss && tile("Loss", loss, now ? "of the last step" : "the last that was told", judge.is_number(loss) ? "" : "bad"),
      tokens > 0 && tile("Tokens/s", words.short(tokens), row.world ? `${words.short(tokens / row.world)} a worker` : ""),
      now && row.mfu && tile("MFU", words.percent(row.mfu), "of the GPUs' FLOPs"),
      tile("Restarts", `${words.count(row.restarts)} of ${words.count(row.max_restarts)}`,
        row.losses ? `${words.counted(row.losses, "node")} lost so far` : "no node lost"),
      kept_out > 0 && tile("Kept out", words.count(kept_out), "see below"),
    ].filter(Boolean);
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
    parts.list(part("tiles"), "tile", tiles(row, team, status), t => t.what, draw_tile);
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

  // -- what it tells of its steps -------------------------------------------------------------------------------------------

  function draw_shares(row) {
    const shares = row.state === "running" ? judge.shares(row) : [];
    parts.show(part("shares"), shares.length > 0);
    parts.list(part("split"), "share", shares, s => s.name, (element, s) => {
      parts.attribute(element, "data-share", s.name);
      element.style.flexGrow = s.share;
    });
    parts.list(part("share-key"), "key-item", shares, s => s.name, (element, s) => {
      parts.fill(element, {words: `${s.word} ${words.percent(s.share)}`, letter: ""});
      parts.attribute(parts.find(element, "letter"), "data-share", s.name);
    });
  }

  function draw_worries(row, team) {
    const worried = team.all.filter(n => n.worries.length), shown = worried.slice(0, WORRIES_MOST);
    const rows = shown.flatMap(n => n.worries.map(words => ({node: n.name, words: ": " + words})));
    if (worried.length > shown.length)
      rows.push({node: "", words: `and ${words.counted(worried.length - shown.length, "more node")}`});
    parts.show(part("worries"), rows.length > 0);
    parts.list(part("worries").firstElementChild, "worry", rows, r => r.node + r.words, (element, r) => {
      parts.fill(element, r);
      parts.attribute(parts.find(element, "node"), "href", link_to(row.id, r.node));
    });
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
    curves.hear(row, team, status.now);
    draw_head(row, team, status);
    world.update(row.state === "running" && team.world.length ? team.world : team.all, node, team.usual_ms);
    draw_node(row, team, status.excluded, node);
    draw_shares(row);
    draw_worries(row, team);
    curves.draw(row, status.samples, (status.past ?? []).map(r => r.ended_s).filter(Boolean), status.now);
    nodes.update(team.all, id, node, name => link_to(id, name));
    if (status.past)
      past.draw(status.past, runs_now ? {since: status.now / 1000 - row.since_s, samples: curves.steps(row, status.samples)} : null, status.now);
    shown = {run: id, node};
    return `${judge.badge(row, news.events).word} · ${row.id}`;
  }

  world.on_choose = name => location.hash = link_to(shown.run, name);

  return {root, missing, draw, lead: part("owner"), nodes_part: part("nodes")};
})();
