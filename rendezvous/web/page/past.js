// SPDX-License-Identifier: Apache-2.0
//
// The rounds of a run that are over: when, how long, what each cost, why it ended and what was decided.
"use strict";

const past = (() => {
  const root = parts.find(document.getElementById("run"), "past");
  const table = root.querySelector("table");

  // The steps that the round after this one did again.
  function steps_again(round, next) {
    return next && next.first_step >= 0 ? Math.max(0, round.last_step - next.first_step) : 0;
  }

  function lost(round, next) {
    const again = steps_again(round, next);
    const texts = [round.lost_ms > 0 ? words.duration(round.lost_ms / 1000) : "", again ? words.counted(again, "step") : ""];
    return texts.filter(Boolean).join(", ") || "–";
  }

  function ended(round) {
    return round.ended_s ? new Date(round.ended_s * 1000) : null;
  }

  function draw_row(row, round, next, now) {
    parts.fill(row, {
      round: words.count(round.round),
      lasted: words.duration(round.lasted_ms / 1000),
      steps: round.first_step >= 0 ? `${words.count(round.first_step)} – ${words.count(round.last_step)}` : "–",
      lost: lost(round, next),
      cause: round.cause || "–",
      decided: round.decided || "–",
    });
    parts.moment(parts.find(row, "ended"), ended(round), now);
  }

  // Lines of steps over the rounds; a round that tells no steps has none.
  function lines(rounds) {
    const told = rounds.filter(r => r.ended_s && r.first_step >= 0);
    return told.map(r => [[r.ended_s - r.lasted_ms / 1000, r.first_step], [r.ended_s, r.last_step]]);
  }

  // What the round that runs has done: its SAMPLES, and how it came to the first of them, as far as that can be guessed.
  function current({since, samples}, before) {
    const own = samples.filter(([time]) => time >= since);
    const guessed = own.length && own[0][0] > since + 10 ? [[since, Math.min(before, own[0][1])], own[0]] : null;
    return {lines: own.length ? [own] : [], guessed};
  }

  // ROUNDS: the oldest first. RUNNING: since when the round runs that does, and samples of steps; null: none does.
  function draw(rounds, running, now) {
    const newest_first = rounds.map((round, i) => ({round, next: rounds[i + 1]})).reverse();
    const history = lines(rounds);
    const {lines: more, guessed} = running && history.length ? current(running, history.at(-1)[1][1]) : {lines: []};
    parts.show(parts.find(root, "none"), !rounds.length);
    parts.show(table, rounds.length > 0);
    parts.list(table.tBodies[0], "past-row", newest_first, ({round}) => round.round,
      (row, {round, next}) => draw_row(row, round, next, now));
    parts.show(parts.find(root, "history"), history.length > 0);
    if (history.length)
      charts.draw(parts.find(root, "history"), [...history, ...more], {guessed, marks: rounds.filter(r => r.ended_s).map(r => r.ended_s), now});
  }

  return {draw, ended};
})();
