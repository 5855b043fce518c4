"use strict";
// Shows what the launcher sends (view.py): the whole study, each time something has changed.

const token = new URLSearchParams(location.search).get("token") || "";
const $ = (id) => document.getElementById(id);
const STATES = ["terminated", "failed", "running", "waiting"];  // from the bottom to the top
const AT = { waiting: 1, running: 2, terminated: 3, failed: 4 }, EPOCH = 5;
const WIDTH = 1000, HEIGHT = 240, SVG = "http://www.w3.org/2000/svg";
const two = (n) => String(n).padStart(2, "0");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function clock(seconds) {
  const d = new Date(seconds * 1000);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

function took(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

function facts(study) {
  const said = [
    ["server", study.server.connected ? "connected" : study.server.state.toLowerCase() || "none"],
    ["phase", study.phase], ["epoch", study.epoch], ["restarts", study.restarts],
    ["runs for", took(study.at - study.began)], ["asked for", study.counts.asked],
    ["waiting", study.counts.waiting], ["running", study.counts.running],
    ["ended", study.counts.terminated], ["failed", study.counts.failed],
  ];
  $("facts").replaceChildren(...said.map(([name, value]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", value));
    return box;
  }));
}

function course(study) {
  const samples = study.samples.concat([[
    study.at - study.began, study.counts.waiting, study.counts.running,
    study.counts.terminated, study.counts.failed, study.epoch,
  ]]);
  const end = Math.max(samples[samples.length - 1][0], 0.001);
  const most = Math.max(1, ...samples.map((s) => s[1] + s[2] + s[3] + s[4]));
  const x = (s) => s[0] / end * WIDTH, y = (n) => HEIGHT - n / most * (HEIGHT - 10);
  const below = samples.map(() => 0), shapes = [];
  for (const state of STATES) {
    const low = below.map((n, i) => `${x(samples[i]).toFixed(1)},${y(n).toFixed(1)}`).reverse();
    samples.forEach((s, i) => { below[i] += s[AT[state]]; });
    const high = below.map((n, i) => `${x(samples[i]).toFixed(1)},${y(n).toFixed(1)}`);
    shapes.push(shape("polygon", { class: state, points: high.concat(low).join(" ") }));
  }
  samples.forEach((s, i) => {
    if (i && s[EPOCH] !== samples[i - 1][EPOCH])
      shapes.push(shape("line", { class: "restart", x1: x(s), x2: x(s), y1: 0, y2: HEIGHT }));
  });
  $("course").replaceChildren(...shapes);
}

function legend() {
  $("legend").replaceChildren(...[...STATES].reverse().concat("restart").map((name) => {
    const item = element("li"), box = shape("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
    box.append(name === "restart" ? shape("line", { class: name, x1: 5, x2: 5, y1: 0, y2: 10 })
      : shape("rect", { class: name, width: 10, height: 10 }));
    item.append(box, name === "restart" ? "a new server" : name);
    return item;
  }));
}

function jobs(study) {
  $("jobs").replaceChildren(...study.jobs.slice().reverse().map((job) => {
    const row = element("tr"), isBad = job.state === "FAILED" || job.state === "ERROR";
    row.append(
      element("td", job.uid), element("td", job.id),
      element("td", job.kind === "server" ? "server" : `client ${job.client}`),
      element("td", job.epoch),
      element("td", job.state.toLowerCase() + (job.cancelled ? ", being cancelled" : ""), isBad ? "bad" : ""),
      element("td", took((job.ended || study.at) - job.submitted)));
    return row;
  }));
}

function story(study) {
  $("story").replaceChildren(...study.story.slice().reverse().map(([at, text]) => {
    const item = element("li");
    item.append(element("time", clock(at)), text);
    return item;
  }));
}

function show(study) {
  $("name").textContent = study.name;
  document.title = `${study.counts.running} running · ${study.name}`;
  facts(study); course(study); jobs(study); story(study);
}

function link(text, isLost) {
  $("link").textContent = text;
  $("link").className = isLost ? "lost" : "";
}

legend();
const source = new EventSource(`/events?token=${encodeURIComponent(token)}`);
source.onmessage = (event) => { link("live", false); show(JSON.parse(event.data)); };
source.onerror = () => link("the launcher does not answer; what is shown is the last that it said", true);
