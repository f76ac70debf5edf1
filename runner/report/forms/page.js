"use strict";
// The report's page: show one configuration of each VPN, and answer how much CPU a rate takes. What a question's own
// scripts compute anew is theirs. Every text goes in by textContent.

const data = JSON.parse(document.getElementById("data").textContent);

const short = (value, digits = 3) => String(Number(value.toPrecision(digits)));

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

// Which configuration of each VPN is shown: as recommended, or on equal terms

let visible = 0;

function reveal(index) {
  visible = index;
  for (const part of document.querySelectorAll("[data-ranking]")) part.hidden = Number(part.dataset.ranking) !== index;
  for (const button of document.querySelectorAll("[data-show]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.show) === index));
  }
  document.dispatchEvent(new Event("reveal"));
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
  event.preventDefault(); // the address keeps the needs
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

function wireConfigurations() {
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => reveal(Number(button.dataset.show)));
  }
  document.querySelector(".toggle")?.removeAttribute("hidden");
  reveal(Number(document.querySelector("[data-ranking]").dataset.ranking));
}

async function start() {
  document.addEventListener("click", clicked);
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  if (document.querySelector("[data-ranking]")) wireConfigurations();
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
