"use strict";
// The report's page: rank anew by the reader's weights, compare two VPNs, and answer how much CPU a rate takes. needs.js
// answers for the reader's needs.
// The ranking is runner/ranking/ranking.py's arithmetic once more; tests/browser compares the numbers of both within a
// tolerance. Every text goes in by textContent.

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
function averagesOf(basis, weights, ranked) {
  const has = weights.filter(([metric]) => Object.hasOwn(basis.ranks, metric));
  if (ranked.length < 2 || has.some(([metric]) => !basis.drawn.has(metric))) return null;
  const sum = total(weights);
  return new Map(ranked.map((vpn) => {
    const average = new Float64Array(data.draws);
    for (const [metric, weight] of has) {
      const doubled = basis.drawn.get(metric).get(vpn);
      for (let draw = 0; draw < data.draws; draw++) average[draw] += weight * doubled[draw] / 2;
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
  let standings = basis.vpns.map((vpn) => {
    const absent = weights.map(([metric]) => metric).filter((metric) => !delivers(vpn, metric));
    const ranks = {};
    for (const metric of Object.keys(basis.ranks)) if (delivers(vpn, metric)) ranks[metric] = basis.ranks[metric][vpn];
    let average = null;
    if (weights.length && !absent.length) {
      let sum = 0;
      for (const [metric, weight] of weights) sum += weight * ranks[metric];
      average = sum / total(weights);
    }
    const missing = Object.fromEntries(absent.map((metric) => [metric, basis.reasons[vpn][metric]]));
    return {vpn, ranks, average, missing, place: null, best_probability: null, place_interval: null, ties: []};
  });
  if (standings.filter((standing) => standing.average !== null).length < 2) for (const standing of standings) standing.average = null;
  const ranked = standings.filter((standing) => standing.average !== null);
  for (const standing of ranked) standing.place = 1 + ranked.filter((other) => other.average < standing.average - SAME).length;
  const byName = (a, b) => (a.vpn < b.vpn ? -1 : a.vpn > b.vpn ? 1 : 0);
  const last = standings.length + 1;
  standings.sort((a, b) => (a.place || last) - (b.place || last) || byName(a, b));
  const placed = standings.filter((standing) => standing.place);
  const averages = averagesOf(basis, weights, placed.map((standing) => standing.vpn));
  if (averages) {
    const outcomes = chances(averages);
    for (const standing of placed) {
      const [low, high] = outcomes.get(standing.vpn).interval;
      standing.best_probability = outcomes.get(standing.vpn).best;
      standing.place_interval = [Math.min(low, standing.place), Math.max(high, standing.place)];
    }
    standings.sort((a, b) => (a.place || last) - (b.place || last) || (b.best_probability || 0) - (a.best_probability || 0));
  }
  const inOrder = standings.filter((standing) => standing.place);
  const known = new Map();
  inOrder.forEach((a, index) => inOrder.slice(index + 1).forEach((b) => {
    const pair = pairOf(a, b, averages);
    known.set(a, known.get(a) || pair); // its first is the next one
    if (averages && a.place !== b.place && pair.separated) return;
    a.ties.push(b.vpn);
    b.ties.push(a.vpn);
  }));
  const pairs = inOrder.slice(0, -1).map((standing) => known.get(standing));
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
  return {first, second, probability: before, equal, separated: before >= data.confidence && !likelier};
}

// runner/ranking/weights.py, slack.
function slackOf(placed, weights) {
  if (placed.length < 2 || weights.length < 2) return [];
  return weights.map(([metric, weight]) => {
    const rest = new Map(placed.map((standing) => {
      let sum = 0;
      for (const [other, value] of weights) if (other !== metric) sum += value * standing.ranks[other];
      return [standing.vpn, sum];
    }));
    const rank = new Map(placed.map((standing) => [standing.vpn, standing.ranks[metric]]));
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

// Numbers and sentences

const metricOf = (name) => data.metrics.find((metric) => metric.name === name);
const shortOf = (name) => (metricOf(name) ? metricOf(name).short : name);
const short = (value, digits = 3) => String(Number(value.toPrecision(digits)));

function chance(probability) {
  if (probability === null) return NONE;
  return probability < 0.01 ? "<1 %" : probability > 0.99 ? ">99 %" : `${(100 * probability).toFixed(0)} %`;
}

function listed(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
}

// runner/report/answer.py, nobody_leads.
function nobody(basis, ranking) {
  const placed = ranking.standings.filter((standing) => standing.place).map((standing) => standing.vpn);
  const counted = new Set(ranking.weights.map(([metric]) => metric));
  const mine = basis.pairs.filter((pair) => counted.has(pair.metric) && placed.includes(pair.a) && placed.includes(pair.b));
  const alike = (pairs) => pairs.every((pair) => ["undecided", "same"].includes(pair.decision));
  const first = mine.filter((pair) => pair.a === placed[0]);
  const judged = new Set(mine.map((pair) => pair.metric));
  if (judged.size < counted.size || !first.length || !alike(first)) return "";
  return `No VPN leads by these weights: every pair${alike(mine) ? "" : ` of ${placed[0]}`} is undecided or the same.`;
}

// runner/report/answer.py, verdict.
function verdict(basis, ranking) {
  const standings = ranking.standings;
  const placed = standings.filter((standing) => standing.place);
  if (!placed.length) return "No VPN could be ranked.";
  const first = placed[0], tied = placed.filter((standing) => first.ties.includes(standing.vpn));
  const names = (group) => listed(group.map((standing) => standing.vpn));
  if (first.best_probability === null) return `${names([first, ...tied])} cannot be told apart: too little was measured.`;
  const alike = nobody(basis, ranking);
  if (alike) return alike;
  const withChance = (standing) => `${standing.vpn} (${chance(standing.best_probability)})`;
  if (!tied.length) {
    return `${first.vpn} ranks first by these weights (in ${chance(first.best_probability)} of the simulated rankings).`;
  }
  const rivals = placed.slice(1).filter((standing) => standing.best_probability >= 0.01);
  const likely = placed.every((standing) => standing.best_probability <= first.best_probability);
  if (likely && first.best_probability >= data.probably && rivals.length) {
    return `${first.vpn} probably ranks first (in ${chance(first.best_probability)} of the simulated rankings). It may also be ${listed(rivals.map(withChance))}.`;
  }
  const both = [first, ...tied].sort((a, b) => b.best_probability - a.best_probability);
  const chances = both.map((standing) => `${standing.vpn} ${chance(standing.best_probability)}`).join(", ");
  return `${names(both)} cannot be told apart yet. First in the simulated rankings: ${chances}.`;
}

// runner/report/answer.py, change.
function change(slack) {
  if (!slack.length) return "";
  const near = [], lead = (names) => `${listed(names)} ${names.length > 1 ? "lead" : "leads"}`;
  const times = (factor) => `${short(factor, 2)} times as much`;
  for (const range of slack) {
    const name = metricOf(range.metric).lower;
    if (range.high !== null) {
      near.push([range.high / range.weight, `${lead(range.above)} if ${name} counts more than ${times(range.high / range.weight)}.`]);
    }
    if (range.below.length) {
      const how = range.low ? `counts less than ${times(range.low / range.weight)}` : "does not count";
      near.push([range.low ? range.weight / range.low : Infinity, `${lead(range.below)} if ${name} ${how}.`]);
    }
  }
  if (!near.length) return "No single weight, however small or large, makes another VPN lead.";
  return near.sort((a, b) => a[0] - b[0]).slice(0, data.changes).map(([, words]) => words).join(" ");
}

// runner/report/answer.py, groups: neighbours whose order is not sure stand together.
function groupsOf(ranking) {
  const groups = [];
  for (const standing of ranking.standings.filter((standing) => standing.place)) {
    const before = groups.at(-1)?.at(-1);
    const unsure = before && ranking.pairs.some((pair) => !pair.separated &&
      [pair.first, pair.second].includes(before.vpn) && [pair.first, pair.second].includes(standing.vpn));
    if (unsure) groups.at(-1).push(standing);
    else groups.push([standing]);
  }
  return groups;
}

function reasons(standings, weights) {
  const grouped = new Map();
  for (const standing of standings) {
    const whole = weights.every(([metric]) => metric in standing.missing);
    const byReason = new Map();
    for (const [metric, reason] of Object.entries(standing.missing)) {
      byReason.set(reason, [...(byReason.get(reason) || []), metricOf(metric).lower]);
    }
    const why = [...byReason].map(([reason, titles]) => (whole ? reason : `no ${titles.join(", ")} (${reason})`));
    const words = why.join(", ") || (weights.length ? "a ranking needs two VPNs" : "nothing is weighted");
    grouped.set(words, [...(grouped.get(words) || []), standing.vpn]);
  }
  return [...grouped].map(([why, vpns]) => [vpns.join(", "), why]);
}

function doubts(ranking) {
  return ranking.pairs.filter((pair) => !pair.separated).map((pair) => (
    pair.probability >= data.probably
      ? `${pair.first} is probably better than ${pair.second} (${chance(pair.probability)}).`
      : `${pair.first} and ${pair.second} cannot be told apart.`
  )).join(" ");
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

function pairOfTwo(basis, metric, a, b) {
  basis.found ??= new Map(basis.pairs.map((pair) => [JSON.stringify([pair.metric, pair.a, pair.b]), pair]));
  return basis.found.get(JSON.stringify([metric, a, b]));
}

// What a cell is to the VPN that one compares with: a factor, grey where nothing tells the two apart.
function ratio(cell, basis, standing, metric, reference) {
  const span = cell.querySelector(".ratio"), pair = pairOfTwo(basis, metric, standing.vpn, reference);
  if (!span) return;
  const rank = standing.ranks[metric] === undefined ? "" : `rank ${standing.ranks[metric].toFixed(1)}`;
  const itself = standing.vpn === reference;
  const times = itself ? "1×" : pair && pair.ratio !== null ? `${short(pair.ratio, 2)}×` : "";
  span.replaceChildren(element("span", times, {title: pair ? pair.says : ""}), element("i", rank));
  cell.classList.toggle("grey", !itself && !(pair && pair.decision !== "undecided"));
  cell.classList.toggle("good", Boolean(pair) && pair.decision === "better");
  cell.classList.toggle("bad", Boolean(pair) && pair.decision === "worse");
}

function show(section, basis, ranking, name) {
  const counted = new Map(ranking.weights), table = section.querySelector(".matrix table");
  const reference = document.getElementById("reference")?.value;
  for (const cell of table.querySelectorAll("[data-metric]")) cell.hidden = !counted.has(cell.dataset.metric);
  const rows = new Map([...table.querySelectorAll("tr[data-vpn]")].map((row) => [row.dataset.vpn, row]));
  const bodies = [];
  const add = (group, first) => {
    const body = element("tbody", "", {class: group.length > 1 && group[0].place ? "group" : ""});
    for (const standing of group) {
      const row = rows.get(standing.vpn);
      if (!row) continue;
      const from = first + 1, to = first + group.length;
      const [place, average] = row.querySelector(".place").children;
      place.textContent = !standing.place ? NONE : from === to ? `${from}` : `${from}–${to}`;
      average.textContent = standing.average === null ? "" : standing.average.toFixed(2);
      row.querySelector(".chance").textContent = chance(standing.best_probability);
      row.classList.toggle("leads", Boolean(standing.place) && first === 0);
      row.classList.toggle("unplaced", !standing.place);
      for (const cell of row.querySelectorAll("td[data-metric]")) ratio(cell, basis, standing, cell.dataset.metric, reference);
      body.append(row);
    }
    if (body.children.length) bodies.push(body);
  };
  let placed = 0;
  for (const group of groupsOf(ranking)) {
    add(group, placed);
    placed += group.length;
  }
  add(ranking.standings.filter((standing) => !standing.place), placed);
  for (const body of table.querySelectorAll("tbody")) body.remove();
  table.append(...bodies);
  const weights = ranking.weights.map(([metric, weight]) => `${shortOf(metric)} ×${short(weight, 6)}`).join(", ");
  table.querySelector("caption").textContent = `Weights: ${weights ? `${name}: ${weights}` : "no metric to weight"}`;
  const missing = reasons(ranking.standings.filter((standing) => standing.place === null), ranking.weights);
  const notes = missing.map(([vpns, why]) => {
    const item = element("li");
    item.append(element("strong", vpns), `: not ranked: ${why}`);
    return item;
  });
  section.querySelector(".unranked").replaceChildren(...notes);
  section.querySelector(".doubts").textContent = doubts(ranking);
  section.querySelector(".nobody").hidden = placed > 0;
}

// The verdict card says what the weights make of the ranking.
function answer(index, basis, ranking) {
  const card = document.getElementById(`answer-${index}`);
  if (!card) return;
  card.querySelector(".who").textContent = verdict(basis, ranking);
  card.querySelector(".change").textContent = (!nobody(basis, ranking) && change(ranking.slack)) || "Nothing that can be told from one metric or one repetition.";
  const [first, second] = ranking.standings.filter((standing) => standing.place).map((standing) => standing.vpn);
  const weights = new Map(ranking.weights);
  const verdicts = basis.pairs.filter((pair) => pair.a === first && pair.b === second && weights.has(pair.metric) && pair.ratio);
  const telling = (pair) => [-weights.get(pair.metric), pair.decision === "undecided" ? 1 : 0, -Math.abs(Math.log(pair.ratio))];
  verdicts.sort((a, b) => telling(a).reduce((order, value, at) => order || value - telling(b)[at], 0));
  card.querySelector(".runner-up").replaceChildren(...verdicts.slice(0, data.against).map((pair) => element("li", pair.says)));
}

// One VPN against another

function against() {
  const [a, b] = ["one", "other"].map((id) => document.getElementById(id).value);
  const basis = data.rankings[visible];
  const pairs = basis.pairs.filter((pair) => pair.a === a && pair.b === b);
  const words = a === b ? "Choose two VPNs." : `This run compares ${a} and ${b} in nothing ${basis.name}: one of them has no numbers.`;
  document.getElementById("pair").replaceChildren(
    ...(pairs.length ? pairs.map((pair) => element("li", pair.says)) : [element("li", words)]));
}

// Which ranking is shown: as recommended, or on equal terms

let visible = 0;

function reveal(index) {
  visible = index;
  for (const part of document.querySelectorAll("[data-ranking]")) part.hidden = Number(part.dataset.ranking) !== index;
  for (const button of document.querySelectorAll("[data-show]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.show) === index));
  }
  if (document.getElementById("pair")) against();
}

// The weights: what the sliders say, and the address; null is the report's own, which each ranking may have otherwise

let chosen = null;

function parse(text) {
  if (Object.hasOwn(data.presets, text)) return data.presets[text];
  const weights = text.split(",").map((pair) => {
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

// A word of a command that a reader may paste into a shell, as runner/data/files.py, word.
function word(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

// All rankings at once, or, while a slider moves, the one that is seen, and the others when it rests.
let later = 0;

function rerank(moving = false) {
  clearTimeout(later);
  const before = window.vpneval ? window.vpneval.rankings : [];
  const rankings = data.rankings.map((basis, index) => {
    if (moving && index !== visible && before.length) return before[index];
    const ranking = weigh(basis, chosen || basis.weights.counted);
    show(document.getElementById(`ranking-${index}`), basis, ranking, chosen ? spelled(chosen) : basis.weights.name);
    answer(index, basis, ranking);
    return {name: basis.name, ...ranking};
  });
  if (moving && rankings.length > 1) later = setTimeout(rerank, 200);
  window.vpneval = {rankings, weights: chosen && spelled(chosen)}; // for the tests, and for the curious
  document.documentElement.dataset.settled = moving ? "no" : "yes";
  lead();
  const option = chosen ? ` --weights ${word(spelled(chosen))}` : "";
  document.getElementById("command").textContent = `vpneval report ${data.run}${option}`;
  for (const button of document.querySelectorAll("[data-preset]")) {
    const mine = button.dataset.preset ? chosen !== null && spelled(chosen) === button.dataset.preset : chosen === null;
    button.setAttribute("aria-pressed", String(mine));
  }
}

// With weights of the reader's own, who leads is said beside the sliders, too.
function lead() {
  document.getElementById("leader").textContent = chosen ? verdict(data.rankings[visible], window.vpneval.rankings[visible]) : "";
}

function choose(weights, keep = true, moving = false) {
  chosen = weights;
  document.getElementById("wrong").textContent = "";
  const shown = new Map(weights || data.rankings.flatMap((basis) => basis.weights.counted));
  for (const slider of document.querySelectorAll("#weights .sliders input")) {
    const weight = shown.get(slider.name) || 0;
    slider.max = String(Math.max(10, Math.ceil(weight)));
    slider.step = Number.isInteger(weight * 2) ? "0.5" : "any";
    slider.value = String(weight);
    slider.setAttribute("aria-valuetext", short(weight, 6));
    slider.nextElementSibling.textContent = short(weight, 6);
    if (weight) slider.closest("details")?.setAttribute("open", "");
  }
  if (keep) address({weights: weights && spelled(weights)});
  rerank(moving);
}

function moved(slider) {
  const before = new Map(chosen || data.rankings.flatMap((basis) => basis.weights.counted));
  before.set(slider.name, Number(slider.value));
  const weights = [...before].filter(([, weight]) => weight > 0);
  if (weights.length) return choose(weights, true, true);
  slider.nextElementSibling.textContent = "0";
  document.getElementById("wrong").textContent = "All weights are zero, so nothing can be ranked.";
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % stays as it is, and what is wrong is said of it
  }
}

// Sets parts of the address, or takes them out where they are null; the others stay as they are.
function address(changes) {
  const parts = new Map(location.hash.slice(1).split("&").filter(Boolean).map((part) => [part.split("=")[0], part]));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parts.delete(name);
    else parts.set(name, `${name}=${value}`);
  }
  history.replaceState(null, "", `#${[...parts.values()].join("&")}`);
}

function fromAddress() {
  const match = /^#(?:.*&)?weights=([^&]*)/.exec(decoded(location.hash));
  if (!match) return choose(null, false);
  try {
    choose(parse(match[1]), false);
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
  const best = judged.filter((cell, at) => judged.findIndex((one) => one.vpn === cell.vpn) === at);
  body.replaceChildren(...best.map((cell) => {
    const row = element("tr");
    row.append(rowHead(cell.vpn, cell.levels, cell.verdict === "yes"));
    const reached = cell.median / 1e6;
    row.append(element("td", reached < 1000 ? short(reached) : reached.toFixed(0), {class: "number"}));
    row.append(element("td", `${cell.percent.toFixed(1)} %`, {class: "number"}));
    row.append(element("td", cell.verdict, {class: {yes: "first", no: "failed"}[cell.verdict] || ""}));
    return row;
  }));
  const yes = best.filter((cell) => cell.verdict === "yes").map((cell) => cell.vpn);
  document.getElementById("sustained").textContent = yes.length ? `Surely: ${yes.join(", ")}.` : "Surely: none.";
}

// Links and buttons

function open(to) {
  for (let fold = to.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const hidden = to.closest("[data-ranking][hidden]");
  if (hidden) reveal(Number(hidden.dataset.ranking));
  to.scrollIntoView();
  to.focus({preventScroll: true});
}

function clicked(event) {
  const copy = event.target.closest("[data-copy]"), link = event.target.closest('a[href^="#"]');
  if (copy) copied(copy);
  const to = link && document.getElementById(link.getAttribute("href").slice(1));
  if (!to) return;
  event.preventDefault(); // the address keeps the weights
  open(to);
}

async function copied(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch { // a page from the disk may not write to the clipboard: the text is selected, for Ctrl-C
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "selected";
  }
}

function wireWeights() {
  const controls = document.getElementById("weights");
  controls.hidden = false;
  controls.addEventListener("input", (event) => moved(event.target));
  for (const button of controls.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => choose(button.dataset.preset ? data.presets[button.dataset.preset] : null));
  }
  for (const button of controls.querySelectorAll("[data-only]")) {
    button.addEventListener("click", () => choose([[button.dataset.only, 1]]));
  }
  const reference = document.getElementById("reference");
  if (reference) {
    reference.closest("p").hidden = false;
    reference.value = document.querySelector(`#ranking-${visible} tr[data-vpn]`)?.dataset.vpn;
    reference.addEventListener("change", () => rerank());
  }
  addEventListener("hashchange", fromAddress);
  fromAddress();
}

function wireRankings() {
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => { reveal(Number(button.dataset.show)); if (window.vpneval) lead(); });
  }
  document.querySelector(".toggle")?.removeAttribute("hidden");
  reveal(Number(document.querySelector("[data-ranking]").dataset.ranking));
  const asked = document.querySelector("#against .asked");
  if (!asked) return;
  asked.hidden = false;
  const ranked = [...document.querySelectorAll(`#ranking-${visible} tr[data-vpn]`)].map((row) => row.dataset.vpn);
  const [first, second] = ranked.length > 1 ? ranked : [...document.getElementById("one").options].map((one) => one.value);
  for (const [id, vpn] of [["one", first], ["other", second]]) {
    document.getElementById(id).value = vpn;
    document.getElementById(id).addEventListener("change", against);
  }
  against();
}

async function start() {
  for (const basis of data.rankings.filter((one) => one.drawn)) {
    const unpacked = await Promise.all(Object.entries(basis.drawn).map(async ([metric, packed]) => [metric, await unpack(packed)]));
    basis.drawn = new Map(unpacked);
  }
  document.addEventListener("click", clicked);
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  if (data.rankings.length && document.querySelector("[data-ranking]")) wireRankings();
  if (data.rankings.length && document.getElementById("weights")) wireWeights();
  for (const answering of globalThis.answering || []) await answering(data, address); // of the questions' own scripts
  const question = document.getElementById("question");
  if (question) {
    question.hidden = false;
    question.addEventListener("input", capacity);
    capacity();
  }
  if (location.search === "?print") { // in the PDF, what the toggle hides stands in the appendix
    const appendix = [...document.querySelectorAll(".answer[hidden], #ranking section[hidden], #limits > [hidden], #setup tr[hidden]")];
    for (const part of appendix) part.hidden = false;
    document.getElementById("experiments").prepend(...appendix.filter((part) => part.localName !== "tr"));
  }
  document.documentElement.dataset.ready = "yes";
}

start();
