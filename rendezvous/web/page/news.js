// SPDX-License-Identifier: Apache-2.0
//
// What the rendezvous says: its status, asked for again and again, and its events, which it sends by itself. Both go on after
// a connection was lost, with pauses that grow. An event is a reason to ask for the status at once.
"use strict";

const news = (() => {
  const PAUSE_LEAST = 300, PAUSE = 2000, PAUSE_UNSEEN = 15000, PAUSE_LONGEST = 30000, ANSWER_LONGEST = 10000;
  const SHARE = 20; // an answer that took long is asked for less often: a page takes 1/SHARE of the server at most
  const EVENTS_MOST = 5000;
  const TOKEN = "dtrun-token";
  const NOTHING = {server: {host: "", version: ""}, runs: [], nodes: [], excluded: [], past: []}; // of a run that is unknown

  let state = "connecting"; // or "live", "lost", "locked"
  let about = "", heard = 0, status = null, started = "", events = [];
  let path = "status.json", asked = 0, wanted = false, hurrying = null, wake = () => {};
  let stream = null, failures = 0; // what aborts the events; how often they ended without one
  let on_news = () => {}, on_state = () => {};

  function move(to, why = "") {
    if (to === "live" && state === "lost") {
      stream?.abort(); // what it came over may be dead, and say nothing of that
      failures = 0;
    }
    state = to;
    about = why;
    on_state();
  }

  function want() {
    wanted = true;
    wake();
  }

  // Until MS are over, or news are wanted before that.
  function rest(ms) {
    return new Promise(done => {
      const timer = setTimeout(done, wanted ? 0 : ms);
      wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  async function ask(what, signal) {
    const token = sessionStorage.getItem(TOKEN);
    const answer = await fetch(what, {
      signal, cache: "no-store", credentials: "omit", headers: token ? {Authorization: `Bearer ${token}`} : {},
    });
    if (answer.status === 401) {
      if (token === sessionStorage.getItem(TOKEN)) // else it was asked before the token that is tried now
        move("locked", token ? "wrong" : "");
      throw new Error("it asks for a token");
    }
    return answer;
  }

  // The server says why it refuses: {"error":"..."}.
  async function refused(answer) {
    const why = await answer.json().then(said => said.error, () => "");
    return new Error(why || `it answers ${answer.status}`);
  }

  // -- status ---------------------------------------------------------------------------------------------------------------

  // A server that began anew counts its events anew.
  function take(answer) {
    const anew = answer.server.started ?? started;
    if (started && anew !== started) {
      events = [];
      stream?.abort();
    }
    started = anew;
    status = answer;
    heard = Date.now();
    status.now = status.server.now ? new Date(status.server.now) : new Date();
    move("live");
    on_news("status");
  }

  async function look() {
    const of = path, begun = performance.now();
    const answer = await ask(of, AbortSignal.timeout(ANSWER_LONGEST));
    if (!answer.ok && answer.status !== 404)
      throw await refused(answer);
    const said = answer.ok ? await answer.json() : {...NOTHING, server: status?.server ?? NOTHING.server};
    if (of === path)
      take(said);
    return performance.now() - begun;
  }

  // A second, and longer after each failure, not the same for all pages.
  function pause_after(failures) {
    return Math.min(PAUSE_LONGEST, 1000 * 2 ** Math.min(failures, 5)) * (0.75 + Math.random() / 2);
  }

  async function poll() {
    for (let misses = 0;;) {
      let pause = document.hidden ? PAUSE_UNSEEN : PAUSE;
      asked = Date.now();
      wanted = false;
      try {
        pause = Math.max(pause, await look() * SHARE);
        misses = 0;
      } catch (e) {
        if (state !== "locked")
          move("lost", e.message);
        pause = pause_after(misses++);
      }
      await rest(state === "locked" ? 2 ** 30 : pause);
    }
  }

  // After what began an ask begins another only a little later: ten events in a row are one reason.
  function hurry() {
    hurrying ??= setTimeout(() => {
      hurrying = null;
      want();
    }, Math.max(0, asked + PAUSE_LEAST - Date.now()));
  }

  // -- events ---------------------------------------------------------------------------------------------------------------

  function take_event(text) {
    const event = JSON.parse(text);
    event.date = new Date(event.time);
    if (events.length && event.number <= events.at(-1).number)
      return;
    events.push(event);
    if (events.length > EVENTS_MOST)
      events.splice(0, events.length - EVENTS_MOST);
  }

  // Lines of SSE, of which only "data: {...}" counts. REST: what stood behind the last whole line.
  function take_lines(text) {
    const lines = text.split(/\r\n|\r|\n/), rest = lines.pop(), before = events.length;
    for (const line of lines)
      if (line.startsWith("data:"))
        take_event(line.slice(5));
    if (events.length !== before) {
      on_news("events");
      hurry();
    }
    return rest;
  }

  async function read_events() {
    stream = new AbortController();
    const answer = await ask(`events?after=${events.at(-1)?.number ?? 0}`, stream.signal);
    if (!answer.ok)
      throw await refused(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
      const {done, value} = await reader.read();
      if (done)
        return;
      failures = 0;
      rest = take_lines(rest + value);
    }
  }

  async function listen() {
    for (;;) {
      try {
        await read_events();
      } catch {
        // The status tells that the connection is lost.
      }
      await new Promise(done => setTimeout(done, pause_after(failures++)));
      while (state !== "live")
        await new Promise(done => setTimeout(done, 200));
    }
  }

  // -- for others -----------------------------------------------------------------------------------------------------------

  function start(told, moved) {
    on_news = told;
    on_state = moved;
    document.addEventListener("visibilitychange", () => document.hidden || want());
    addEventListener("online", want);
    poll();
    listen();
  }

  // RUN: the one whose nodes and rounds are wanted; null: all runs.
  function watch(run) {
    const of = run === null ? "status.json" : `status.json?run=${encodeURIComponent(run)}`;
    if (of === path)
      return;
    path = of;
    if (run === null || !status?.runs.some(r => r.id === run))
      status = null;
    want();
  }

  function use_token(token) {
    sessionStorage.setItem(TOKEN, token);
    move("connecting");
    want();
  }

  return {
    start, watch, use_token,
    get state() { return state; },
    get about() { return about; },
    get status() { return status; },
    get events() { return events; },
    get age() { return heard ? (Date.now() - heard) / 1000 : null; },
  };
})();
