// SPDX-License-Identifier: Apache-2.0
//
// What a person would say of a run and of a node, out of their rows. Pure: what decides about the page is here. A tone is a
// colour; each comes with a sign, for those who do not see it.
"use strict";

const judge = (() => {
  // Beats come at different times, so a node may seem behind. One that is has stood at its step for longer, too.
  const BEHIND_STEPS = 2, BEHIND_S = 5;

  // -- nodes ----------------------------------------------------------------------------------------------------------------

  // The states in which a rank can be, those that want a person first. LETTER is what stands in a cell.
  const states = {
    __proto__: null,
    lost: {word: "lost", tone: "bad", sign: "✕", letter: "✕", rank: 0},
    suspect: {word: "suspect", tone: "warn", sign: "▲", letter: "?", rank: 1},
    stopping: {word: "stopping", tone: "wait", sign: "■", letter: "s", rank: 2},
    waiting: {word: "waiting", tone: "wait", sign: "…", letter: "w", rank: 3},
    parked: {word: "spare", tone: "calm", sign: "○", letter: "o", rank: 4},
    running: {word: "running", tone: "good", sign: "●", letter: "", rank: 5},
    done: {word: "done", tone: "over", sign: "✓", letter: "✓", rank: 6},
    gone: {word: "gone", tone: "calm", sign: "–", letter: "–", rank: 7},
    kept_out: {word: "kept out", tone: "warn", sign: "⊘", letter: "–", rank: 1.5},
  };

  function state_of(run, node, kept_out) {
    if (node.lost)
      return states.lost;
    if (is_over(run))
      return node.doing === "done" ? states.done : states.gone;
    if (node.seat < 0 && kept_out.has(node.name))
      return states.kept_out;
    if (node.state !== "online" && node.doing !== "done")
      return states.suspect;
    return states[node.doing] ?? {...states.waiting, word: node.doing};
  }

  // Seats that no node holds while the round runs: their nodes are gone.
  function lost_seats(run, seated) {
    if (run.state !== "running")
      return [];
    const held = new Set(seated.map(n => n.seat));
    const workers = seated.length ? seated[0].workers : 1;
    const lost = [];
    for (let seat = 0; seat < run.nodes; seat++)
      if (!held.has(seat))
        lost.push({name: `seat ${seat}`, run: run.id, seat, workers, step: -1, beat_age_s: -1, lost: true});
    return lost;
  }

  // The nodes of a run, by seat, each with its state, its first rank and how many steps it is behind; those without a seat
  // come last. Ranks follow from seats. EXCLUDED: who is kept out of all runs.
  function crew(run, nodes, excluded) {
    const kept_out = new Set(excluded.filter(is_out).map(e => e.name));
    const seated = nodes.filter(n => n.seat >= 0);
    const world = [...seated, ...lost_seats(run, seated)].sort((a, b) => a.seat - b.seat);
    const furthest = seated.reduce((most, n) => n.round === run.round ? Math.max(most, n.step) : most, -1);
    const leader = seated.find(n => n.step === furthest && n.round === run.round);
    let rank = 0;
    for (const node of world) {
      node.rank = rank;
      rank += node.workers;
    }
    const all = [...world, ...nodes.filter(n => n.seat < 0)];
    for (const node of all) {
      node.is = state_of(run, node, kept_out);
      node.lag = node.step >= 0 && node.seat >= 0 && node.round === run.round ? furthest - node.step : -1;
      node.late_s = node.lag >= 0 ? stood(node) - stood(leader) : 0;
    }
    return {all, world, furthest, furthest_age: leader?.step_age_s ?? 0, others: all.slice(world.length)};
  }

  // How long a node had stood at its step when it told of that.
  function stood(node) {
    return node.step_age_s ? Math.max(0, node.step_age_s - node.beat_age_s) : 0;
  }

  function is_behind(node) {
    return node.lag > BEHIND_STEPS && node.late_s > BEHIND_S;
  }

  // -- runs -----------------------------------------------------------------------------------------------------------------

  function ended_well(run, events) {
    const last = events.findLast(e => e.run === run.id && /^run_ended/.test(e.kind));
    return last ? last.kind === "run_ended_well" : /have succeeded/.test(run.why);
  }

  function badge(run, events) {
    switch (run.state) {
    case "running":
      return run.why ? {word: "running", tone: "warn", sign: "▲"} : {word: "running", tone: "good", sign: "●"};
    case "gathering":
      return /^paused/.test(run.why) ? {word: "paused", tone: "wait", sign: "‖"} : {word: "waiting", tone: "wait", sign: "…"};
    case "closed":
      if (run.ended === "stopped")
        return {word: "stopped", tone: "over", sign: "■"};
      return ended_well(run, events) ? {word: "succeeded", tone: "over", sign: "✓"} : {word: "failed", tone: "bad", sign: "✕"};
    default:
      return {word: run.state, tone: "calm", sign: "○"};
    }
  }

  function is_over(run) {
    return run.state !== "running" && run.state !== "gathering";
  }

  function sum_tokens(nodes) {
    return nodes.reduce((sum, n) => sum + (n.tokens_per_s ?? 0), 0);
  }

  function ended(text) {
    return /[.!?]$/.test(text) ? text : text + ".";
  }

  // The first thing to say of a run.
  function lead(run, team) {
    const time = words.duration(run.since_s);
    if (run.state === "running") {
      const step = team.furthest >= 0 ? `, step ${words.count(team.furthest)}` : "";
      const last = run.round > 0 ? `round ${run.round}` : "its first round";
      const troubled = team.world.filter(n => n.is.rank < states.stopping.rank || is_behind(n));
      const trouble = troubled.length ? ` Look at ${few(troubled)}.` : "";
      return ended(`Running for ${time}, ${last}${step}` + (run.why ? `: ${run.why}` : "")) + trouble;
    }
    if (run.state === "gathering")
      return ended(`Waiting for ${time}` + (run.why ? `: ${run.why}` : ""));
    return ended(`Ended ${time} ago: ${run.why || "nobody said why"}`);
  }

  function few(nodes) {
    const shown = nodes.slice(0, 4).map(n => n.name).join(", ");
    return nodes.length > 4 ? `${shown} and ${nodes.length - 4} more` : shown;
  }

  // "alice on login1": as much of that as is known, as of the next.
  function owner(run) {
    return [run.user, run.begun_on].filter(Boolean).join(" on ");
  }

  // "began 14:35:00 by alice on login1 · train.py · slurm 4711".
  function origin(run, now) {
    const began = run.begun_s ? `began ${words.moment(new Date(run.begun_s * 1000), now)}` : "", by = owner(run);
    return [[began, by].filter(Boolean).join(" by "), run.script, run.job].filter(Boolean).join(" · ");
  }

  // -- what to do with a node -----------------------------------------------------------------------------------------------

  function heard(node) {
    return node.beat_age_s > 0 ? `${words.duration(node.beat_age_s)} ago` : "now";
  }

  function ranks(node) {
    if (node.rank === undefined)
      return "–";
    return node.workers > 1 ? `${node.rank}–${node.rank + node.workers - 1}` : `${node.rank}`;
  }

  function node_words(node) {
    const place = node.rank === undefined ? "It has no seat" : `It has seat ${node.seat}, with ranks ${ranks(node)}`;
    const step = node.step >= 0 ? `, and is at step ${words.count(node.step)}` : "";
    const lag = node.lag > 0 ? `, ${words.counted(node.lag, "step")} behind the furthest` : "";
    return `${node.is.word}, heard of ${heard(node)}. ${place}${step}${lag}.`;
  }

  const advice = {
    __proto__: null,
    lost: "The node that had this seat is gone. The round ends and a spare takes the seat, or the job waits for a node.",
    suspect: "Its agent was not heard of in time. If it stays silent the round ends without it; look at the host and its network.",
    stopping: "Its workers are being stopped; the next round begins when they are gone.",
    waiting: "It is ready, and waits for the others.",
    spare: "It stands by, and takes the seat of a node that fails.",
    running: "Nothing needs to be done. Draining it takes it out of its job and keeps it out, for maintenance say.",
    done: "Its workers have ended well.",
    gone: "Its run has ended.",
    "kept out": "It waits, and gets no seat until it is let back.",
  };

  function node_advice(node) {
    return node.is === states.running && is_behind(node) ? "It holds back the others, or reports late. See where its workers stand, and drain it if a spare is there."
      : advice[node.is.word] ?? "";
  }

  // A name on the command line of dtrun-ctl. "--" ends the options: a name may look like one.
  function operand(text) {
    return (text.startsWith("-") ? "-- " : "") + words.argument(text);
  }

  function node_commands(run, node) {
    if (node.lost || node.is === states.kept_out || is_over(run))
      return [];
    const look = `dtrun-ctl look ${operand(run.id)}` + (node.rank === undefined ? "" : ` ${node.rank}-${node.rank + node.workers - 1}`);
    return [...node.is === states.running ? [look] : [], `dtrun-ctl node drain ${operand(node.name)}`];
  }

  function standing(out) {
    if (out.drained)
      return "drained";
    if (out.until_s > 0)
      return `in quarantine for ${words.duration(out.until_s)} more`;
    if (out.probation_s > 0)
      return `on probation for ${words.duration(out.probation_s)} more`;
    return `watched: ${words.counted(out.strikes, "strike")}`;
  }

  function is_out(out) {
    return out.drained || out.until_s > 0;
  }

  function undrain(name) {
    return `dtrun-ctl node undrain ${operand(name)}`;
  }

  return {
    states, crew, is_behind, badge, is_over, sum_tokens, lead, owner, origin, few,
    heard, ranks, node_words, node_advice, node_commands, standing, is_out, undrain,
  };
})();
