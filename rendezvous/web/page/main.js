// SPDX-License-Identifier: Apache-2.0
//
// Which view is shown, by what stands behind the #: "/", "/run/ID", "/run/ID/node/NAME". Draws when there are news.
"use strict";

{
  const link = document.getElementById("link"), lost = document.getElementById("lost"), token = document.getElementById("token");
  const main = document.getElementById("main"), icon = document.querySelector("link[rel=icon]");
  let view = {run: null, node: ""}, title = "", begun = false, frame = 0;

  // -- views ----------------------------------------------------------------------------------------------------------------

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function read_hash() {
    const [, kind, run, , node] = location.hash.split("/");
    return kind === "run" && run ? {run: decoded(run), node: decoded(node ?? "")} : {run: null, node: ""};
  }

  function on_hash() {
    const before = view.run;
    view = read_hash();
    news.watch(view.run);
    (view.run === null ? runs.root : run.nodes_part).after(out.root);
    (view.run === null ? runs : run).lead.after(alerts.root);
    draw();
    if (begun && view.run !== before) {
      scrollTo(0, 0);
      main.focus({preventScroll: true});
    }
    begun = true;
  }

  function draw() {
    const status = news.status;
    parts.show(runs.root, status !== null && view.run === null);
    if (status === null || view.run === null) {
      parts.show(run.root, false);
      parts.show(run.missing, false);
    }
    parts.show(events.root, status !== null);
    if (status === null)
      return;
    title = view.run === null ? runs.draw(status, news.events) : run.draw(status, view);
    alerts.draw(status.alerts ?? [], view.run, status.now);
    out.draw(status.excluded);
    events.update(news.events, view.run, status.now);
    parts.text(document.getElementById("server"), words.printable(`${status.server.host} ${status.server.version}`));
    draw_link();
  }

  // Many news at once are drawn once; a tab that is not seen has no frames, but a title.
  function draw_soon() {
    if (document.hidden)
      draw();
    else
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
  }

  // -- the connection -------------------------------------------------------------------------------------------------------

  function draw_icon(tone) {
    if (icon.dataset.tone === tone)
      return;
    icon.dataset.tone = tone;
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = canvas.height = 32;
    pen.fillStyle = {live: "#0b62a8", lost: "#c0440a"}[tone] ?? "#9aa0a8";
    pen.arc(16, 16, 13, 0, 2 * Math.PI);
    pen.fill();
    icon.href = canvas.toDataURL();
  }

  function draw_link() {
    const state = news.state, age = news.age;
    parts.attribute(link, "data-state", state);
    parts.fill(link, {words: state === "locked" ? "token needed" : state === "lost" ? "lost" : state});
    parts.show(lost, state === "lost");
    parts.fill(lost, {words: `Last news ${age === null ? "never" : `${words.duration(Math.round(age))} ago`}; `
      + `what you see is from then. It is tried again (${news.about}).`});
    document.body.classList.toggle("stale", state === "lost");
    document.title = words.printable([state === "lost" ? "connection lost" : title, "dtrun"].filter(Boolean).join(" · "));
    draw_icon(state);
  }

  function on_state() {
    draw_link();
    if (news.state !== "locked" || token.open)
      return;
    parts.show(parts.find(token, "wrong"), news.about === "wrong");
    token.showModal();
  }

  token.addEventListener("cancel", e => e.preventDefault());
  token.querySelector("form").addEventListener("submit", e => {
    news.use_token(e.target.elements.token.value.trim());
    e.target.reset();
  });

  addEventListener("hashchange", on_hash);
  setInterval(() => news.state === "lost" && draw_link(), 1000);
  keys.start();
  on_hash();
  news.start(draw_soon, on_state);
}
