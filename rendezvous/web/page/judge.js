// SPDX-License-Identifier: Apache-2.0
//
// What a person would say of a run and of a node, out of their rows. Pure: what decides about the page is here. A tone is a
// colour; each comes with a sign, for those who do not see it.
"use strict";

const judge = (() => {
  // Beats come at different times, so a node may seem behind. One that is has stood at its step for longer, too.
  const BEHIND_STEPS = 2, BEHIND_S = 5;
  // A disk with less room than both wants a person, and so does an upload that takes so long: as the rules of alerts have it.
  const DISK_LEAST_SHARE = 0.05, DISK_ENOUGH_MIB = 100 * 1024, UPLOAD_LONGEST_S = 30 * 60;

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
      node.times = times_of(node);
      node.worries = is_over(run) ? [] : worries(node);
    }
    return {
      all, world, furthest, furthest_age: leader?.step_age_s ?? 0, others: all.slice(world.length),
      usual_ms: median(world.flatMap(n => n.times).filter(ms => ms > 0)),
    };
  }

  // Milliseconds of each worker's part of a step, by local rank; none: nobody tells.
  function times_of(node) {
    const told = node.worker_ms ? node.worker_ms.split(",").map(ms => Number.parseInt(ms, 10) || 0) : [];
    return told.length || !node.step_ms ? told : Array(node.workers).fill(node.step_ms);
  }

  function median(numbers) {
    return numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
  }

  // What of its host will stop the job, or cost a checkpoint, if nobody looks.
  function worries(node) {
    const found = [], {disk, disk_free_mib: free = 0, disk_total_mib: total, upload_behind_s: behind = 0} = node;
    if (disk && free < Math.min(total * DISK_LEAST_SHARE, DISK_ENOUGH_MIB))
      found.push(`the disk of ${disk} has ${words.memory(free)} left, of ${words.memory(total)}`);
    if (behind > UPLOAD_LONGEST_S)
      found.push(`a checkpoint has waited for ${words.duration(behind)} to be uploaded`);
    return found;
  }

  // How long a node had stood at its step when it told of that.
  function stood(node) {
    return node.step_age_s ? Math.max(0, node.step_age_s - node.beat_age_s) : 0;
  }

  function is_behind(node) {
    return node.lag > BEHIND_STEPS && node.late_s > BEHIND_S;
  }

  // Whether a person should look at it.
  function is_unwell(node) {
    return node.is.rank < states.stopping.rank || is_behind(node) || node.worries.length > 0;
  }

  // Percent of its GPUs' time in which they did something; -1: unknown.
  function gpu_busy(node) {
    return node.gpus ? node.gpu_busy ?? 0 : -1;
  }

  // The part of its GPUs' memory that is in use; -1: unknown.
  function gpu_memory(node) {
    return node.gpu_mem_total_mib ? (node.gpu_mem_mib ?? 0) / node.gpu_mem_total_mib : -1;
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

  function tokens(run, nodes) {
    return run.tokens_per_s ?? nodes.reduce((sum, n) => sum + (n.tokens_per_s ?? 0), 0);
  }

  // What the last steps were spent on, in thousandths; none: unknown.
  function shares(run) {
    const all = [
      {name: "compute", word: "compute"}, {name: "comm", word: "communication"}, {name: "data", word: "waiting for data"},
      {name: "idle", word: "all else"},
    ].map(s => ({...s, share: run[s.name] ?? 0}));
    return all.some(s => s.share) ? all.filter(s => s.share) : [];
  }

  function is_number(loss) {
    return Number.isFinite(Number.parseFloat(loss));
  }

  // Seconds until the last step, where a step takes PACE; 0: unknown.
  function left_s(run, step, pace) {
    return run.steps > step ? (run.steps - step) * pace : 0;
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
      const troubled = team.world.filter(is_unwell);
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
    return `${node.is.word}, heard of ${heard(node)}. ${place}${step}${lag}.${host_words(node)}`;
  }

  function host_words(node) {
    const busy = gpu_busy(node), texts = [];
    if (node.step_ms)
      texts.push(`A step takes ${words.duration(node.step_ms / 1000)}.`);
    if (node.gpus)
      texts.push([`${words.counted(node.gpus, "GPU")}`, busy >= 0 ? `${busy} % busy` : "", gpu_memory(node) >= 0
        ? `${words.memory(node.gpu_mem_mib ?? 0)} of ${words.memory(node.gpu_mem_total_mib)} in use` : ""].filter(Boolean).join(", ") + ".");
    if (node.disk)
      texts.push(`${words.memory(node.disk_free_mib ?? 0)} of ${words.memory(node.disk_total_mib)} are free at ${node.disk}.`);
    if (node.upload_behind_s)
      texts.push(`A checkpoint has waited for ${words.duration(node.upload_behind_s)} to be uploaded.`);
    return texts.map(t => " " + t).join("");
  }

  // "rank 12 of node1", and how long its part of a step takes.
  function worker_words(node, worker) {
    if (worker < 0 || node.rank === undefined)
      return node.name;
    const ms = node.times[worker];
    return `rank ${node.rank + worker} of ${node.name}` + (ms ? `, whose part of a step takes ${words.duration(ms / 1000)}` : "");
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

  // -- alerts ---------------------------------------------------------------------------------------------------------------

  // What an alert advises, with the names that it is about where it says RUN and NODE.
  function alert_advice(alert) {
    const names = {RUN: alert.run, NODE: alert.node};
    return alert.advice.replace(/\b(RUN|NODE)\b/g, word => names[word] ? operand(names[word]) : word);
  }

  return {
    states, crew, is_behind, is_unwell, gpu_busy, gpu_memory, badge, is_over, tokens, shares, is_number, left_s, lead, owner, origin, few,
    heard, ranks, node_words, worker_words, node_advice, node_commands, standing, is_out, undrain, alert_advice,
  };
})();
