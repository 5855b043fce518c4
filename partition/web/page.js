"use strict";
// Shows what pingd sends (view.py): all of a partition once, then what has changed.

const token = new URLSearchParams(location.search).get("token") || "";
const $ = (id) => document.getElementById(id);
const SHOWN_JOBS = 500, SHOWN_EVENTS = 200, SHOWN_BARS = 24, KEPT_EVENTS = 256, SPAN_S = 3600;
const STEPS = { form: "its nodes join", load: "programs are sent", start: "ranks are started" };
const PHASES = {
  PENDING: "waiting", CONFIGURING: "starting", RUNNING: "running", SUSPENDED: "suspended",
  COMPLETING: "ending", COMPLETED: "ended", CANCELLED: "cancelled", FAILED: "failed",
  TIMEOUT: "out of time", NODE_FAIL: "lost its node",
};
const FINAL = new Set(["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"]);

let states = [], order = [], at = -1, chosenState = null, chosenJob = null, skew = 0, lost = "";
const nodes = new Map(), jobs = new Map(), cells = new Map();
let events = [];

const hue = (job) => `h${(job * 5) % 12}`;
const state = (node) => states[node[2]];
const two = (n) => String(n).padStart(2, "0");
const now = () => Date.now() / 1000 + skew;

function took(seconds) {
  const s = Math.max(0, Math.floor(seconds)), days = Math.floor(s / 86400);
  const rest = `${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return days ? `${days} d ${rest}` : rest;
}

function when(seconds) {
  const d = new Date(seconds * 1000);
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

function ranges(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b), said = [];
  for (let first = 0, last; first < sorted.length; first = last + 1) {
    last = first;
    while (sorted[last + 1] === sorted[last] + 1) last++;
    said.push(last > first ? `${sorted[first]}..${sorted[last]}` : sorted[first]);
  }
  return said.join(",");
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// -- what comes ---------------------------------------------------------------

function take(message) {
  if (message.at) skew = message.at - Date.now() / 1000;
  if (message.lost !== undefined) lost = message.lost;
  if (message.whole) {
    states = message.states;
    nodes.clear(); jobs.clear(); events = [];
    $("name").textContent = message.name;
    document.title = `${message.name} · pingd`;
  } else if (message.nodes) {
    lost = "";
  }
  const isNew = message.whole || (message.nodes || []).some((node) => !nodes.has(node[0]));
  for (const node of message.nodes || []) nodes.set(node[0], node);
  for (const job of message.jobs || []) jobs.set(job[0], job);
  for (const id of message.gone || []) jobs.delete(id);
  events = events.concat(message.events || []).slice(-KEPT_EVENTS);
  if (isNew) build();
  else for (const node of message.nodes || []) paint(node);
  if (chosenJob !== null && !jobs.has(chosenJob)) choose(null);
  later();
}

// What many changes make necessary is done once, with the next picture.
let isDue = false;
function later() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    showLink(); showTotals(); showNode(); showJobs(); showTime();
  });
}

// -- nodes --------------------------------------------------------------------

function look(node) {
  const word = state(node);
  const job = node[5].length ? ` ${hue(node[5][0][0])}` : "";
  const stale = node[6] && node[6].startsWith("stale") ? " stale" : "";
  return word + job + stale + (isShown(node) ? "" : " dim");
}

function isShown(node) {
  if (chosenState !== null && state(node) !== chosenState) return false;
  if (chosenJob !== null && !node[5].some((job) => job[0] === chosenJob)) return false;
  const text = $("find").value.trim().toLowerCase();
  if (!text) return true;
  if (node[1].toLowerCase().includes(text) || String(node[0]) === text) return true;
  return node[5].some(([id]) => String(id) === text || (jobs.get(id) && `${jobs.get(id)[1]} ${jobs.get(id)[2]}`.toLowerCase().includes(text)));
}

function build() {
  order = [...nodes.keys()].sort((a, b) => a - b);
  const grid = $("nodes");
  grid.className = order.length > 1500 ? "many" : order.length <= 200 ? "some" : "";
  grid.innerHTML = order.map((number) => `<i role="option" class="${look(nodes.get(number))}"></i>`).join("");
  cells.clear();
  order.forEach((number, index) => {
    const cell = grid.children[index];
    cell.index = index;
    cells.set(number, cell);
  });
  if (at >= order.length) at = order.length - 1;
  if (at >= 0) mark(at);
}

function paint(node) {
  const cell = cells.get(node[0]);
  cell.className = look(node) + (cell.index === at ? " at" : "");
}

function repaint() {
  for (const node of nodes.values()) paint(node);
}

function mark(index) {
  const grid = $("nodes"), before = grid.querySelector(".at");
  if (before) { before.classList.remove("at"); before.removeAttribute("id"); before.removeAttribute("aria-selected"); before.removeAttribute("aria-label"); }
  at = index;
  const cell = grid.children[index], node = nodes.get(order[index]);
  cell.classList.add("at");
  cell.id = "at";
  cell.setAttribute("aria-selected", "true");
  cell.setAttribute("aria-label", `node ${node[0]}, ${node[1]}, ${state(node)}`);
  grid.setAttribute("aria-activedescendant", "at");
}

function move(index) {
  if (!order.length) return;
  mark(Math.min(order.length - 1, Math.max(0, index)));
  $("nodes").children[at].scrollIntoView({ block: "nearest" });
  showNode();
}

function columns() {
  return getComputedStyle($("nodes")).gridTemplateColumns.split(" ").length;
}

function why(node) {
  const said = node[6] ? [node[6]] : [];
  const free = node[3] - node[4];
  for (const [id, ranks] of node[5].slice(0, 20)) {
    const job = jobs.get(id);
    const phase = job ? PHASES[job[3]] : "";
    const name = job ? `${job[1] ? job[1] + " " : ""}of ${job[2]}` : "";
    const lines = { starting: "given to", ending: "ending:" }[phase] || (state(node) === "down" ? "held by" : "busy with");
    said.push(`${lines} job ${id} ${name}${ranks ? `, ranks ${ranks}` : ""}${phase === "starting" ? ": no PCT has reported it" : ""}`);
  }
  if (node[5].length && free > 0 && state(node) !== "down") said.push(`${free} of ${node[3]} slots free`);
  return said.length ? said : [`free, ${node[3]} slot${node[3] === 1 ? "" : "s"}`];
}

let shownNode = "";
function showNode() {
  if (at < 0 || !order.length) return;
  const node = nodes.get(order[at]), text = why(node);
  const key = JSON.stringify([node[0], node[1], state(node), text]);
  if (key === shownNode) return;
  shownNode = key;
  const title = element("h3", `${node[1] || "node " + node[0]} `);
  title.append(element("span", `node ${node[0]} · ${state(node)}`));
  $("node").replaceChildren(title, ...text.map((line) => element("p", line)));
}

// -- totals -------------------------------------------------------------------

function showTotals() {
  const counts = new Map(states.map((word) => [word, 0]));
  let slots = 0, used = 0;
  for (const node of nodes.values()) {
    counts.set(state(node), counts.get(state(node)) + 1);
    slots += node[3]; used += node[4];
  }
  const current = [...jobs.values()].filter((job) => !FINAL.has(job[3])).length;
  $("totals").textContent = `${nodes.size} node${nodes.size === 1 ? "" : "s"} · ${used} of ${slots} slots in use · ${current} job${current === 1 ? "" : "s"}`;
  for (const [word, count] of counts) {
    let button = $(`state-${word}`);
    if (!button) {
      button = element("button");
      button.type = "button";
      button.id = `state-${word}`;
      button.append(element("i", "", word), element("span"));
      button.addEventListener("click", () => { chosenState = chosenState === word ? null : word; repaint(); later(); });
      $("states").append(button);
    }
    button.hidden = !count && ["draining", "drained", "trouble"].includes(word) && chosenState !== word;
    button.lastChild.textContent = `${count} ${word}`;
    button.setAttribute("aria-pressed", String(chosenState === word));
  }
}

function showLink() {
  $("lost").hidden = !lost;
  if (lost) $("lost").textContent = `What is shown may have changed since: ${lost}. pingd tries again.`;
}

// -- jobs ---------------------------------------------------------------------

const RANK = { RUNNING: 0, COMPLETING: 0, SUSPENDED: 0, CONFIGURING: 1, PENDING: 2 };
const rows = new Map();

function showJobs() {
  const current = [...jobs.values()].filter((job) => !FINAL.has(job[3]));
  current.sort((a, b) => RANK[a[3]] - RANK[b[3]] || a[0] - b[0]);
  $("no-jobs").hidden = current.length > 0;
  $("job-count").textContent = current.length > SHOWN_JOBS ? `the first ${SHOWN_JOBS} of ${current.length}` : "";
  const list = $("jobs"), shown = current.slice(0, SHOWN_JOBS), ids = new Set(shown.map((job) => job[0]));
  for (const [id, row] of rows) if (!ids.has(id)) { row.remove(); rows.delete(id); }
  shown.forEach((job, index) => {
    let row = rows.get(job[0]);
    if (!row) rows.set(job[0], (row = newRow(job[0])));
    fill(row, job);
    if (list.children[index] !== row) list.insertBefore(row, list.children[index] || null);
  });
}

function newRow(id) {
  const row = element("li"), button = element("button");
  button.type = "button";
  button.append(element("i", "", `busy ${hue(id)}`), element("span", "", "what"), element("span", "", "time"), element("span", "", "more"));
  button.addEventListener("click", () => choose(chosenJob === id ? null : id));
  row.append(button);
  return row;
}

function fill(row, job) {
  const [id, name, owner, word, slots, list, count, submitted, began, , reason, , , limit, step, come, total, ranks] = job;
  const button = row.firstChild, [mark_, what, time, more] = button.children;
  mark_.className = word === "CONFIGURING" ? "pending" : word === "PENDING" ? "free" : `busy ${hue(id)}`;
  const bold = element("b", String(id));
  what.replaceChildren(bold, ` ${name || ""} ${name ? "· " : ""}${owner}`);
  row.since = word === "PENDING" ? submitted : began;
  time.textContent = row.since ? took(now() - row.since) : "";
  const where = count ? `${count === 1 ? "node" : "nodes"} ${list}` : "no node yet";
  const wanted = `${slots} slot${slots === 1 ? "" : "s"}`;
  const so_far = total ? `${come} of ${total} nodes${ranks ? `, ${ranks} of ${slots} ranks` : ""} have come` : "";
  more.textContent = [STEPS[step] || PHASES[word] || word, so_far, wanted, where, reason].filter(Boolean).join(" · ");
  let bar = button.querySelector("progress");
  if (step && !bar) { bar = element("progress"); button.append(bar); bar.setAttribute("aria-label", "of its nodes have come"); }
  if (!step && bar) bar.remove();
  if (step && total) { bar.max = total; bar.value = come; } else if (step) bar.removeAttribute("value");
  button.setAttribute("aria-pressed", String(chosenJob === id));
  let meter = button.querySelector("meter");
  row.limit = limit > 0 && began && word !== "PENDING" ? limit : 0;
  if (row.limit && !meter) { meter = element("meter"); button.append(meter); meter.setAttribute("aria-label", "of its time limit"); }
  if (!row.limit && meter) meter.remove();
  if (row.limit) { meter.max = limit; meter.value = Math.min(limit, now() - began); }
}

function choose(id) {
  chosenJob = id;
  repaint();
  later();
}

// -- timeline -----------------------------------------------------------------

function showTime() {
  const past = [...jobs.values()].filter((job) => job[8]);
  past.sort((a, b) => (b[9] || Infinity) - (a[9] || Infinity) || b[8] - a[8]);
  const bars = past.slice(0, SHOWN_BARS).sort((a, b) => a[8] - b[8]);
  const end = now();
  const first = Math.min(...bars.map((job) => job[8]), ...events.slice(-20).map((event) => event[0]), end - 60);
  const begin = Math.max(first, end - SPAN_S), span = end - begin;
  const left = (seconds) => `${Math.max(0, (100 * (seconds - begin)) / span)}%`;
  const made = [];
  for (let n = 0; n < 4; n++) {
    const at_ = begin + (span * n) / 4, tick = element("span", when(at_).slice(11));
    tick.style.left = `${25 * n}%`;
    made.push(tick);
  }
  for (const event of events) {
    if (event[0] < begin) continue;
    const dot = element("u", "", event[3]);
    dot.style.left = `min(${left(event[0])}, calc(100% - 6px))`;
    made.push(dot);
  }
  bars.forEach((job, index) => {
    const stop = job[9] || end;
    if (stop < begin) return;
    const bar = element("div", "", `busy ${hue(job[0])}${job[9] ? " ended" : ""}${job[3] === "FAILED" || job[3] === "NODE_FAIL" ? " failed" : ""}`);
    bar.style.left = left(job[8]);
    bar.style.width = `${(100 * (stop - Math.max(begin, job[8]))) / span}%`;
    bar.style.top = `${30 + 16 * index}px`;
    bar.title = `job ${job[0]} ${job[1]} of ${job[2]}`;
    made.push(bar);
  });
  $("bars").style.height = `${34 + 16 * bars.length}px`;
  $("bars").replaceChildren(...made);
  $("span").textContent = `the last ${took(span)}`;
  showEvents();
}

let shownEvents = "";
function showEvents() {
  const alike = new Map();  // what has happened to many nodes in one second is one line
  for (const [at_, number, name, kind, by, text] of events) {
    const key = JSON.stringify([Math.floor(at_), kind, by, text]);
    if (!alike.has(key)) alike.set(key, { at: at_, name, numbers: [], what: `${kind}${by ? " by " + by : ""}${text ? ": " + text : ""}` });
    alike.get(key).numbers.push(number);
  }
  const lines = [...alike.values()].map(({ at, name, numbers, what }) =>
    [at, `${numbers.length > 1 ? "nodes " + ranges(numbers) : name || "node " + numbers[0]} ${what}`]);
  for (const job of jobs.values()) {
    const name = `job ${job[0]}${job[1] ? " " + job[1] : ""} of ${job[2]}`;
    if (job[8]) lines.push([job[8], `${name} began on ${job[6]} node${job[6] === 1 ? "" : "s"}`]);
    if (job[9]) lines.push([job[9], `${name} ${PHASES[job[3]]}${job[12] ? ` by signal ${job[12]}` : job[11] ? ` with status ${job[11]}` : ""}${job[10] ? ": " + job[10] : ""}`]);
  }
  lines.sort((a, b) => b[0] - a[0]);
  const shown = lines.slice(0, SHOWN_EVENTS), key = JSON.stringify(shown);
  if (key === shownEvents) return;
  shownEvents = key;
  $("events").replaceChildren(...shown.map(([at_, text]) => {
    const line = element("li");
    line.append(element("time", when(at_)), element("span", text));
    return line;
  }));
}

// -- what the user does -------------------------------------------------------

$("nodes").addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns(), PageDown: 10 * columns(), PageUp: -10 * columns(), Home: -Infinity, End: Infinity };
  if (event.key in steps) {
    move(at < 0 ? 0 : at + steps[event.key]);
    event.preventDefault();
  } else if (event.key === "Enter" && at >= 0) {
    const job = nodes.get(order[at])[5][0];
    choose(job && chosenJob !== job[0] ? job[0] : null);
  }
});
$("nodes").addEventListener("focus", () => { if (at < 0) move(0); });
$("nodes").addEventListener("click", (event) => { if (event.target.index !== undefined) move(event.target.index); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { chosenJob = chosenState = null; $("find").value = ""; repaint(); later(); }
});
$("find").addEventListener("input", repaint);
$("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const found = order.findIndex((number) => isShown(nodes.get(number)));
  if (found >= 0) { move(found); $("nodes").focus(); }
});

// -- the stream ---------------------------------------------------------------

function follow() {
  const stream = new EventSource(`/events?token=${encodeURIComponent(token)}`);
  const say = (text, isLive) => { $("link").textContent = text; $("link").className = isLive ? "" : "wait"; };
  stream.onmessage = (event) => { take(JSON.parse(event.data)); say(lost ? "bebopd out of reach" : "live", !lost); };
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) say("pingd has ended; start it again and open its new address", false);
    else say("connection lost, trying again", false);
  };
}

setInterval(() => {
  if (document.hidden) return;
  for (const row of rows.values()) {
    row.firstChild.children[2].textContent = row.since ? took(now() - row.since) : "";
    if (row.limit) row.firstChild.lastChild.value = Math.min(row.limit, now() - row.since);
  }
}, 1000);
follow();
