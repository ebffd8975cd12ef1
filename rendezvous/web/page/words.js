// SPDX-License-Identifier: Apache-2.0
//
// How numbers, times and texts of others are written. Pure.
"use strict";

const words = (() => {
  const MINUTE = 60, HOUR = 3600, DAY = 86400;
  const grouped = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
  // What has no shape of its own, or turns the direction of what follows.
  const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
  const PLAIN_ARGUMENT = /^[\w@%+:,.\/][\w@%+=:,.\/-]*$/;

  function printable(text) {
    return String(text ?? "").replace(UNSEEN, c => "\\u{" + c.codePointAt(0).toString(16) + "}");
  }

  function count(n) {
    return grouped.format(n);
  }

  // "3 nodes", "1 node".
  function counted(n, noun) {
    return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
  }

  // Three digits that count: "987", "12.3 k", "4.57 M".
  function short(n) {
    const units = ["", " k", " M", " G", " T"];
    let unit = 0;
    while (n >= 999.5 && unit < units.length - 1) {
      n /= 1000;
      unit++;
    }
    if (unit === 0)
      return String(Math.round(n));
    return n.toFixed(n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2) + units[unit];
  }

  // "1.2 TiB", "640 GiB", "12 MiB".
  function memory(mib) {
    const units = ["MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; mib >= 1024 && unit < units.length - 1; unit++)
      mib /= 1024;
    return `${mib >= 99.95 || unit === 0 ? Math.round(mib) : mib.toFixed(1)} ${units[unit]}`;
  }

  // Of a loss: four digits that count.
  function fine(n) {
    return n === 0 || (Math.abs(n) >= 0.001 && Math.abs(n) < 10000) ? String(Number(n.toPrecision(4))) : n.toExponential(2);
  }

  // Thousandths as percent: "41.2 %".
  function percent(thousandths) {
    return `${(thousandths / 10).toFixed(1).replace(/\.0$/, "")} %`;
  }

  function pair(large, unit, small, other) {
    return small > 0 ? `${large} ${unit} ${small} ${other}` : `${large} ${unit}`;
  }

  // "3 ms", "1.4 s", "12 s", "3 min 20 s", "2 h 10 min", "3 d 4 h".
  function duration(seconds) {
    const s = Math.floor(seconds);
    if (seconds > 0 && seconds < 1)
      return `${Math.ceil(seconds * 1000)} ms`;
    if (seconds < 10 && seconds !== s)
      return seconds.toFixed(1) + " s";
    if (s < MINUTE)
      return `${s} s`;
    if (s < HOUR)
      return pair(Math.floor(s / MINUTE), "min", s % MINUTE, "s");
    if (s < DAY)
      return pair(Math.floor(s / HOUR), "h", Math.floor(s % HOUR / MINUTE), "min");
    return pair(Math.floor(s / DAY), "d", Math.floor(s % DAY / HOUR), "h");
  }

  function day(date) {
    return date.toLocaleDateString("en-GB", {weekday: "short", day: "numeric", month: "short"});
  }

  // In the reader's zone: "02:14:05" of today, "Sun 22 Nov 02:14:05" of other days.
  function moment(date, now) {
    const time = date.toLocaleTimeString("en-GB");
    return day(date) === day(now) && Math.abs(now - date) < DAY * 1000 ? time : `${day(date)} ${time}`;
  }

  function utc(date) {
    return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
  }

  // One word of a shell's command line, whatever a node calls itself.
  function argument(text) {
    if (PLAIN_ARGUMENT.test(text))
      return text;
    if (text.search(UNSEEN) < 0)
      return "'" + text.replaceAll("'", "'\\''") + "'";
    const bytes = new TextEncoder().encode(text);
    return "$'" + Array.from(bytes, b => b > 32 && b < 127 && b !== 39 && b !== 92
      ? String.fromCharCode(b) : "\\x" + b.toString(16).padStart(2, "0")).join("") + "'";
  }

  function runs_of(numbers) {
    const ranges = [];
    for (const n of numbers.sort((a, b) => a - b))
      if (ranges.length && ranges.at(-1)[1] === n - 1)
        ranges.at(-1)[1] = n;
      else
        ranges.push([n, n]);
    return ranges.map(([a, b]) => a === b ? `${a}` : `${a}-${b}`).join(",");
  }

  // "node[0-999], login", as dtrun-ctl has it: names that differ in the number at their end stand together.
  function folded(names) {
    const groups = new Map();
    for (const name of names) {
      const [, stem, digits] = /^(.*?)(0|[1-9]\d{0,8})?$/su.exec(name);
      if (!groups.has(stem))
        groups.set(stem, {plain: false, numbers: []});
      if (digits === undefined)
        groups.get(stem).plain = true;
      else
        groups.get(stem).numbers.push(Number(digits));
    }
    const texts = [];
    for (const [stem, {plain, numbers}] of groups) {
      if (plain)
        texts.push(printable(stem));
      if (numbers.length === 1)
        texts.push(printable(stem) + numbers[0]);
      else if (numbers.length)
        texts.push(`${printable(stem)}[${runs_of(numbers)}]`);
    }
    return texts.join(", ");
  }

  return {printable, count, counted, short, memory, fine, percent, duration, moment, utc, argument, folded};
})();
