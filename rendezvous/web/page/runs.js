// SPDX-License-Identifier: Apache-2.0
//
// The list of runs: those that go on, and below them those that have ended.
"use strict";

const runs = (() => {
  const root = document.getElementById("runs");
  const part = name => parts.find(root, name);

  function nodes_of(status) {
    const by_run = new Map();
    for (const node of status.nodes)
      if (by_run.has(node.run))
        by_run.get(node.run).push(node);
      else
        by_run.set(node.run, [node]);
    return by_run;
  }

  function wanted(run) {
    return run.min === run.max ? `${run.min}` : `${run.min}–${run.max}`;
  }

  function told(run, nodes) {
    return {step: nodes.reduce((most, n) => Math.max(most, n.step), run.step ?? -1), tokens: judge.tokens(run, nodes)};
  }

  function draw_row(row, run, nodes, events, now) {
    const {step, tokens} = told(run, nodes);
    parts.fill(row, {
      id: run.id,
      why: run.why,
      round: run.round >= 0 ? words.count(run.round) : "–",
      nodes: judge.is_over(run) ? words.count(run.nodes) : `${words.count(run.nodes)} of ${wanted(run)}`,
      workers: run.world ? words.count(run.world) : "–",
      step: step >= 0 ? words.count(step) : "–",
      loss: run.loss ?? "–",
      tokens: tokens ? words.short(tokens) : "–",
      restarts: `${words.count(run.restarts)} of ${words.count(run.max_restarts)}`,
      owner: judge.owner(run) || "–",
    });
    parts.attribute(parts.find(row, "id"), "href", `#/run/${encodeURIComponent(run.id)}`);
    parts.badge(parts.find(row, "badge"), judge.badge(run, events));
    parts.moment(parts.find(row, "since"), new Date(now - run.since_s * 1000), now);
  }

  function lead(going, over, status) {
    const troubled = going.filter(r => r.state === "running" && r.why).length;
    const out = status.excluded.filter(judge.is_out).length;
    return [
      going.length ? `${words.counted(going.length, "run")} ${going.length === 1 ? "goes" : "go"} on.` : "Nothing runs.",
      troubled ? `${words.counted(troubled, "run")} may need you.` : "",
      over.length ? `${words.count(over.length)} ended.` : "",
      out ? `${words.counted(out, "node")} ${out === 1 ? "is" : "are"} kept out.` : "",
    ].filter(Boolean).join(" ");
  }

  function draw(status, events) {
    const by_run = nodes_of(status);
    const going = status.runs.filter(r => !judge.is_over(r)), over = status.runs.filter(judge.is_over);
    const endpoint = status.server.endpoint ?? `${location.hostname}:29400`;
    parts.show(part("empty"), !status.runs.length);
    parts.show(part("lead"), status.runs.length > 0);
    parts.show(part("table"), status.runs.length > 0);
    parts.show(part("heading"), over.length > 0);
    parts.fill(root, {
      lead: lead(going, over, status),
      command: `dtrun --rdzv-backend c10d --rdzv-endpoint ${endpoint} --rdzv-id my-job --nnodes 2 train.py`,
    });
    parts.columns(part("table"), {
      step: status.runs.some(r => told(r, by_run.get(r.id) ?? []).step >= 0),
      loss: status.runs.some(r => r.loss),
      tokens: status.runs.some(r => told(r, by_run.get(r.id) ?? []).tokens > 0),
      owner: status.runs.some(judge.owner),
    });
    for (const [place, shown] of [["now", going], ["over", over.toSorted((a, b) => a.since_s - b.since_s)]])
      parts.list(part(place), "run-row", shown, run => run.id,
        (row, run) => draw_row(row, run, by_run.get(run.id) ?? [], events, status.now));
    return going.length ? `${going.length} going on` : "nothing runs";
  }

  return {root, lead: part("lead"), draw};
})();
