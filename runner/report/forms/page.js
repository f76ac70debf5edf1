"use strict";
// The report's page: rank anew by the reader's weights, and answer how much CPU a rate takes.
// The ranking is runner/ranking/ranking.py's arithmetic once more, in the same order, so that it gives the same numbers;
// tests/browser compares them. Every text goes in by textContent.

const data = JSON.parse(document.getElementById("data").textContent);
const SAME = 1e-9;
const NONE = "–";

// The ranking

async function unpack(drawn) {
  const bytes = Uint8Array.from(atob(drawn.doubled), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const whole = drawn.wide ? new Uint16Array(buffer) : new Uint8Array(buffer);
  return new Map(drawn.vpns.map((vpn, at) => [vpn, whole.subarray(at * data.draws, (at + 1) * data.draws)]));
}

function total(weights) {
  let sum = 0;
  for (const [, weight] of weights) sum += weight;
  return sum;
}

// runner/ranking/draws.py, order_of: VPN -> its weighted average rank in every draw; null where something cannot be drawn.
function averagesOf(basis, weights, ranked, worst) {
  const has = weights.filter(([metric]) => metric in basis.ranks);
  if (ranked.length < 2 || has.some(([metric]) => !basis.drawn.has(metric))) return null;
  const sum = total(weights);
  return new Map(ranked.map((vpn) => {
    const average = new Float64Array(data.draws);
    for (const [metric, weight] of has) {
      const doubled = basis.drawn.get(metric).get(vpn);
      for (let draw = 0; draw < data.draws; draw++) average[draw] += weight * (doubled ? doubled[draw] / 2 : worst);
    }
    return [vpn, average.map((value) => value / sum)];
  }));
}

// runner/ranking/draws.py, Order: how often each is best, and between which places it comes out.
function chances(averages) {
  const vpns = [...averages.keys()], all = [...averages.values()], n = vpns.length;
  const sharing = vpns.map(() => new Array(n + 1).fill(0));
  const places = vpns.map(() => new Array(n + 1).fill(0));
  const here = new Array(n);
  for (let draw = 0; draw < data.draws; draw++) {
    let lowest = Infinity;
    for (let i = 0; i < n; i++) { here[i] = all[i][draw]; if (here[i] < lowest) lowest = here[i]; }
    let equal = 0;
    for (let i = 0; i < n; i++) if (Math.abs(here[i] - lowest) < SAME) equal++;
    for (let i = 0; i < n; i++) {
      if (Math.abs(here[i] - lowest) < SAME) sharing[i][equal]++;
      let ahead = 0;
      for (let j = 0; j < n; j++) if (here[j] < here[i] - SAME) ahead++;
      places[i][1 + ahead]++;
    }
  }
  const at = (counts, index) => { let seen = 0, place = 0; while (seen <= index) seen += counts[++place]; return place; };
  return new Map(vpns.map((vpn, i) => {
    let best = 0;
    for (let others = 1; others <= n; others++) best += sharing[i][others] / others;
    return [vpn, {
      best: best / data.draws,
      interval: [at(places[i], data.tail), at(places[i], data.draws - 1 - data.tail)],
    }];
  }));
}

// runner/ranking/ranking.py, weigh.
function weigh(basis, weights) {
  const delivers = (vpn, metric) => Object.hasOwn(basis.ranks[metric] || {}, vpn);
  const alive = basis.vpns.filter((vpn) => weights.some(([metric]) => delivers(vpn, metric)));
  let standings = basis.vpns.map((vpn) => {
    const absent = weights.map(([metric]) => metric).filter((metric) => !delivers(vpn, metric));
    const imputed = data.missing === "worst" && alive.includes(vpn) ? [...absent].sort() : [];
    const ranks = {};
    for (const metric of Object.keys(basis.ranks)) if (delivers(vpn, metric)) ranks[metric] = basis.ranks[metric][vpn];
    for (const metric of imputed) ranks[metric] = alive.length;
    let average = null;
    if (weights.length && !(absent.length && !imputed.length)) {
      let sum = 0;
      for (const [metric, weight] of weights) sum += weight * ranks[metric];
      average = sum / total(weights);
    }
    const missing = Object.fromEntries(absent.map((metric) => [metric, basis.reasons[vpn][metric]]));
    return {vpn, ranks, average, imputed, missing, place: null, best_probability: null, place_interval: null, ties: []};
  });
  if (standings.filter((one) => one.average !== null).length < 2) for (const one of standings) one.average = null;
  const ranked = standings.filter((one) => one.average !== null);
  for (const one of ranked) one.place = 1 + ranked.filter((other) => other.average < one.average - SAME).length;
  const byName = (a, b) => (a.vpn < b.vpn ? -1 : a.vpn > b.vpn ? 1 : 0);
  const last = standings.length + 1;
  standings.sort((a, b) => (a.place || last) - (b.place || last) || byName(a, b));
  const placed = standings.filter((one) => one.place);
  const averages = averagesOf(basis, weights, placed.map((one) => one.vpn), alive.length);
  if (averages) {
    const found = chances(averages);
    for (const one of placed) {
      const [low, high] = found.get(one.vpn).interval;
      one.best_probability = found.get(one.vpn).best;
      one.place_interval = [Math.min(low, one.place), Math.max(high, one.place)];
    }
    standings.sort((a, b) => (a.place || last) - (b.place || last) || (b.best_probability || 0) - (a.best_probability || 0));
  }
  const inOrder = standings.filter((one) => one.place);
  inOrder.forEach((a, index) => inOrder.slice(index + 1).forEach((b) => {
    if (averages && a.place !== b.place && pairOf(a, b, averages).separated) return;
    a.ties.push(b.vpn);
    b.ties.push(a.vpn);
  }));
  const pairs = inOrder.slice(1).map((second, index) => pairOf(inOrder[index], second, averages));
  return {weights, standings, pairs, slack: slackOf(inOrder, weights)};
}

function pairOf(a, b, averages) {
  if (!averages) return {first: a.vpn, second: b.vpn, probability: null, equal: null, separated: false};
  const ours = averages.get(a.vpn), theirs = averages.get(b.vpn);
  let ahead = 0, same = 0;
  for (let draw = 0; draw < data.draws; draw++) {
    const difference = ours[draw] - theirs[draw];
    if (difference < -SAME) ahead++;
    if (Math.abs(difference) <= SAME) same++;
  }
  let before = ahead / data.draws, first = a.vpn, second = b.vpn;
  let likelier = b.best_probability > a.best_probability;
  const equal = same / data.draws;
  if (a.place === b.place && before + equal < 0.5) {
    [first, second, before, likelier] = [b.vpn, a.vpn, 1 - before - equal, false];
  }
  return {first, second, probability: before, equal, separated: before + equal >= data.confidence && !likelier};
}

// runner/ranking/weights.py, slack.
function slackOf(placed, weights) {
  if (placed.length < 2 || weights.length < 2) return [];
  return weights.map(([metric, weight]) => {
    const rest = new Map(placed.map((one) => {
      let sum = 0;
      for (const [other, value] of weights) if (other !== metric) sum += value * one.ranks[other];
      return [one.vpn, sum];
    }));
    const rank = new Map(placed.map((one) => [one.vpn, one.ranks[metric]]));
    const leaders = (at) => {
      const sums = [...rest].map(([vpn, sum]) => [vpn, sum + at * rank.get(vpn)]);
      const lowest = Math.min(...sums.map(([, sum]) => sum));
      return sums.filter(([, sum]) => sum < lowest + SAME).map(([vpn]) => vpn).sort();
    };
    const winners = new Set(leaders(weight));
    const crossings = new Set();
    for (const a of winners) for (const b of rest.keys()) {
      if (!winners.has(b) && rank.get(a) !== rank.get(b)) crossings.add((rest.get(b) - rest.get(a)) / (rank.get(a) - rank.get(b)));
    }
    const up = [...crossings].filter((at) => at > weight).sort((a, b) => a - b).concat(Infinity);
    const down = [...crossings].filter((at) => at > 0 && at < weight).sort((a, b) => b - a).concat(0);
    const changed = (led) => !led.some((vpn) => winners.has(vpn));
    let high = null, above = [], low = 0, below = [];
    for (let i = 0; i + 1 < up.length && high === null; i++) {
      const led = leaders(up[i + 1] < Infinity ? (up[i] + up[i + 1]) / 2 : 2 * up[i] + 1);
      if (changed(led)) [high, above] = [up[i], led];
    }
    for (let i = 0; i + 1 < down.length && !below.length; i++) {
      const led = leaders((down[i] + down[i + 1]) / 2);
      if (changed(led)) [low, below] = [down[i], led];
    }
    return {metric, weight, low, high, below, above};
  });
}

// Numbers and sentences, as runner/report/text.py has them

const metricOf = (name) => data.metrics.find((metric) => metric.name === name);
const shortOf = (name) => (metricOf(name) ? metricOf(name).short : name);
const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// Python's f"{value:.{digits}f}": a value exactly between two is rounded to the even one.
function fixed(value, digits) {
  const exact = value.toFixed(60);
  const point = exact.indexOf(".");
  const tie = /^50*$/.test(exact.slice(point + 1 + digits));
  const down = exact.slice(0, digits ? point + 1 + digits : point);
  return tie && Number(down.at(-1)) % 2 === 0 ? down : value.toFixed(digits);
}

// Python's f"{value:.{digits}g}".
function general(value, digits) {
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (value !== 0 && (power < -4 || power >= digits)) {
    return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return String(Number(value.toPrecision(digits)));
}

function chance(probability) {
  if (probability === null) return NONE;
  return probability < 0.01 ? "<1 %" : probability > 0.99 ? ">99 %" : `${fixed(100 * probability, 0)} %`;
}

function interval(bounds) {
  if (bounds === null) return NONE;
  return bounds[0] === bounds[1] ? `${bounds[0]}` : `${bounds[0]}–${bounds[1]}`;
}

function reasons(standings, weights) {
  const grouped = new Map();
  for (const one of standings) {
    const whole = weights.every(([metric]) => metric in one.missing);
    const byReason = new Map();
    for (const [metric, reason] of Object.entries(one.missing)) {
      byReason.set(reason, [...(byReason.get(reason) || []), metricOf(metric).lower]);
    }
    const why = [...byReason].map(([reason, titles]) => (whole ? reason : `no ${titles.join(", ")} (${reason})`));
    const said = why.join(", ") || (weights.length ? "a ranking needs two VPNs" : "nothing is weighted");
    grouped.set(said, [...(grouped.get(said) || []), one.vpn]);
  }
  return [...grouped].map(([why, vpns]) => [vpns.join(", "), why]);
}

function doubts(ranking) {
  return ranking.pairs.filter((pair) => !pair.separated).map((pair) => {
    const sure = pair.probability === null ? 0 : pair.probability + pair.equal;
    return sure >= data.probably
      ? `${pair.first} is probably better than ${pair.second} (${chance(sure)}).`
      : `${pair.first} and ${pair.second} cannot be told apart.`;
  }).join(" ");
}

function slackText(ranking) {
  if (!ranking.slack.length) return "";
  const free = ranking.slack.filter((one) => !one.low && one.high === null).map((one) => shortOf(one.metric));
  if (free.length === ranking.slack.length) return "No weight alone, however small or large, makes another VPN win.";
  const words = ranking.slack.filter((one) => one.low || one.high !== null).map((one) => {
    const low = one.below.length ? `${general(one.low, 3)} (then ${one.below.join(", ")})` : "0";
    const high = one.high === null ? "any" : `${general(one.high, 3)} (then ${one.above.join(", ")})`;
    return `${shortOf(one.metric)} ${low} to ${high}`;
  });
  if (free.length) words.push(`${free.join(", ")} any`);
  return `Another VPN wins where a weight alone leaves its range: ${words.join("; ")}.`;
}

// The tables

function element(name, words = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = words;
  for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
  return made;
}

function rowHead(vpn, levels, first) {
  const head = element("th", vpn, {scope: "row", class: first ? "first" : ""});
  if (levels) head.append(element("small", levels));
  return head;
}

function show(section, basis, ranking, name) {
  const ranked = ranking.standings.filter((one) => one.average !== null);
  const head = section.querySelector("thead tr");
  while (head.children.length > 5) head.lastChild.remove();
  for (const [metric, weight] of ranking.weights) {
    const words = `${shortOf(metric)} ×${general(weight, 6)}`, place = basis.places[metric];
    const column = element("th", place ? "" : words, {scope: "col", class: "number"});
    if (place) column.append(element("a", words, {href: `#${place}`}));
    head.append(column);
  }
  const rows = ranked.map((one) => {
    const row = element("tr");
    row.append(element("td", `${one.place}${one.ties.length ? "=" : ""}`, {class: "number"}));
    row.append(rowHead(one.vpn, basis.levels[one.vpn], one.place === 1));
    const ranks = ranking.weights.map(([metric]) => {
      if (!(metric in one.ranks)) return NONE;
      return `${fixed(one.ranks[metric], 1)}${one.imputed.includes(metric) ? "*" : ""}`;
    });
    for (const words of [fixed(one.average, 2), interval(one.place_interval), chance(one.best_probability), ...ranks]) {
      row.append(element("td", words, {class: "number"}));
    }
    return row;
  });
  for (const [vpns, why] of reasons(ranking.standings.filter((one) => one.place === null), ranking.weights)) {
    const row = element("tr");
    row.append(element("td", NONE, {class: "number"}), element("th", vpns, {scope: "row"}));
    row.append(element("td", `not ranked: ${why}`, {class: "unsupported why", colspan: String(3 + ranking.weights.length)}));
    rows.push(row);
  }
  section.querySelector("tbody").replaceChildren(...rows);
  const weights = ranking.weights.map(([metric, weight]) => `${shortOf(metric)} ×${general(weight, 6)}`).join(", ");
  section.querySelector("caption").textContent = `Weights: ${weights ? `${name}: ${weights}` : "no metric to weight"}`;
  const imputed = reasons(ranking.standings.filter((one) => one.imputed.length), ranking.weights);
  const notes = imputed.map(([vpns, why]) => `${vpns} ranked last (*) where it has ${why}`);
  notes.push(...[doubts(ranking), slackText(ranking)].filter(Boolean));
  section.querySelector(".notes").replaceChildren(...notes.map((said) => element("p", said)));
  section.querySelector(".nobody").hidden = ranked.length > 0;
}

// The weights: what the sliders say, and the address; null is the report's own, which each ranking may have otherwise

let chosen = null;

function parse(said) {
  if (Object.hasOwn(data.presets, said)) return data.presets[said];
  const weights = said.split(",").map((pair) => {
    const [, metric, weight] = /^([a-z_0-9]+)=([0-9.]+(?:e[-+]?[0-9]+)?)$/i.exec(pair.trim()) || [];
    if (!metric) throw new Error(`${pair} is not metric=weight`);
    if (!metricOf(metric)) throw new Error(`this run did not measure ${metric}`);
    if (!Number.isFinite(Number(weight))) throw new Error(`${weight} is not a number`);
    return [metric, Number(weight)];
  });
  if (new Set(weights.map(([metric]) => metric)).size < weights.length) throw new Error("a metric is given twice");
  if (!weights.some(([, weight]) => weight > 0)) throw new Error("all weights are zero, so nothing can be ranked");
  return weights.filter(([, weight]) => weight > 0);
}

function spelled(weights) {
  const preset = Object.entries(data.presets).find(([, given]) => JSON.stringify(given) === JSON.stringify(weights));
  return preset ? preset[0] : weights.map(([metric, weight]) => `${metric}=${weight}`).join(",");
}

function rerank() {
  const rankings = data.rankings.map((basis, index) => {
    const weights = chosen || basis.weights.counted;
    const ranking = weigh(basis, weights);
    show(document.getElementById(`ranking-${index}`), basis, ranking, chosen ? spelled(chosen) : basis.weights.name);
    return {name: basis.name, ...ranking};
  });
  window.vpneval = {rankings, weights: chosen && spelled(chosen)}; // for the tests, and for the curious
  const said = rankings.map(({name, standings}) => {
    const told = (one) => `${one.vpn} (${chance(one.best_probability)})`;
    const first = standings.find((one) => one.place === 1);
    if (!first) return `${name}: nobody can be ranked`;
    const ties = standings.filter((one) => first.ties.includes(one.vpn));
    return `${name}: ${told(first)}${ties.length ? `, which ties with ${ties.map(told).join(", ")}` : ""}`;
  });
  document.getElementById("leader").textContent = `First, and its chance of being best: ${said.join("; ")}`;
  const option = chosen ? ` --weights ${spelled(chosen)}` : "";
  document.getElementById("command").textContent = `vpneval report ${data.run}${option}`;
  for (const button of document.querySelectorAll("[data-preset]")) {
    const mine = button.dataset.preset ? chosen !== null && spelled(chosen) === button.dataset.preset : chosen === null;
    button.setAttribute("aria-pressed", String(mine));
  }
}

function choose(weights, keep = true) {
  chosen = weights;
  document.getElementById("wrong").textContent = "";
  const shown = new Map(weights || data.rankings.flatMap((basis) => basis.weights.counted));
  for (const slider of document.querySelectorAll("#weights .sliders input")) {
    const weight = shown.get(slider.name) || 0;
    slider.max = String(Math.max(10, Math.ceil(weight)));
    slider.step = Number.isInteger(weight * 2) ? "0.5" : "any";
    slider.value = String(weight);
    slider.setAttribute("aria-valuetext", general(weight, 6));
    slider.nextElementSibling.textContent = general(weight, 6);
    if (weight) slider.closest("details")?.setAttribute("open", "");
  }
  if (keep) history.replaceState(null, "", weights ? `#weights=${spelled(weights)}` : "#");
  rerank();
}

function moved(slider) {
  const before = new Map(chosen || data.rankings.flatMap((basis) => basis.weights.counted));
  before.set(slider.name, Number(slider.value));
  const weights = [...before].filter(([, weight]) => weight > 0);
  if (weights.length) return choose(weights);
  slider.nextElementSibling.textContent = "0";
  document.getElementById("wrong").textContent = "All weights are zero, so nothing can be ranked.";
}

function fromAddress() {
  const said = /^#(?:.*&)?weights=([^&]*)/.exec(decodeURIComponent(location.hash));
  if (!said) return choose(null, false);
  try {
    choose(parse(said[1]), false);
  } catch (error) {
    choose(null, false);
    document.getElementById("wrong").textContent = `The link's weights are not used: ${error.message}.`;
  }
}

// Which VPN sustains a rate at no more than a share of the CPU?

function capacity() {
  const megabits = Number(document.getElementById("rate").value), most = Number(document.getElementById("share").value);
  const body = document.querySelector("#capacity tbody");
  if (!(megabits > 0 && most > 0) || !data.cores) return body.replaceChildren();
  const rate = megabits * 1e6;
  const share = (cost) => (100 * cost * rate) / 8e9 / data.cores;
  const judged = data.capacity.map((cell) => {
    const [low, median, high] = cell.rate, cost = cell.cost;
    const known = low !== null && cost[0] !== null;
    let verdict = "not sure";
    if (known && low >= rate && share(cost[2]) <= most) verdict = "yes";
    else if (known ? high < rate || share(cost[0]) > most : median < rate) verdict = "no";
    return {...cell, verdict, median, percent: share(cost[1])};
  });
  const order = {yes: 0, "not sure": 1, no: 2};
  judged.sort((a, b) => order[a.verdict] - order[b.verdict] || a.percent - b.percent);
  body.replaceChildren(...judged.map((cell) => {
    const row = element("tr");
    row.append(rowHead(cell.vpn, cell.levels, cell.verdict === "yes"));
    const reached = cell.median / 1e6;
    row.append(element("td", reached < 1000 ? general(reached, 3) : fixed(reached, 0), {class: "number"}));
    row.append(element("td", `${fixed(cell.percent, 1)} %`, {class: "number"}));
    row.append(element("td", cell.verdict, {class: {yes: "first", no: "failed"}[cell.verdict] || ""}));
    return row;
  }));
  const yes = [...new Set(judged.filter((cell) => cell.verdict === "yes").map((cell) => cell.vpn))];
  document.getElementById("answer").textContent = yes.length ? `Surely: ${yes.join(", ")}.` : "Surely: none.";
}

async function start() {
  for (const basis of data.rankings) {
    const unpacked = await Promise.all(Object.entries(basis.drawn).map(async ([metric, one]) => [metric, await unpack(one)]));
    basis.drawn = new Map(unpacked);
  }
  const controls = document.getElementById("weights");
  if (controls && data.rankings.length) {
    controls.hidden = false;
    controls.addEventListener("input", (event) => moved(event.target));
    for (const button of controls.querySelectorAll("[data-preset]")) {
      button.addEventListener("click", () => choose(button.dataset.preset ? data.presets[button.dataset.preset] : null));
    }
    document.addEventListener("click", (event) => { // the address keeps the weights
      const link = event.target.closest('a[href^="#"]');
      const to = link && document.getElementById(link.getAttribute("href").slice(1));
      if (!to) return;
      event.preventDefault();
      to.closest("details")?.setAttribute("open", "");
      to.scrollIntoView();
      to.focus({preventScroll: true});
    });
    addEventListener("hashchange", fromAddress);
    fromAddress();
  }
  const question = document.getElementById("question");
  if (question) {
    question.hidden = false;
    question.addEventListener("input", capacity);
    capacity();
  }
  document.documentElement.dataset.ready = "yes";
}

start();
