"use strict";
// Compares one VPN with another in the rankings of the page. What it calls beside, page.js has.

async function answerPairs(rankings) {
  const find = (id) => document.getElementById(id);
  const pairOfTwo = (basis, metric, a, b) => {
    basis.found ??= new Map(basis.pairs.map((pair) => [JSON.stringify([pair.metric, pair.a, pair.b]), pair]));
    return basis.found.get(JSON.stringify([metric, a, b]));
  };

  // What each cell is to the VPN that one compares with: a factor, grey where nothing tells the two apart.
  function compareWith() {
    const reference = find("reference").value;
    rankings.forEach((basis, index) => {
      for (const row of document.querySelectorAll(`#ranking-${index} tr[data-vpn]`)) {
        const itself = row.dataset.vpn === reference;
        for (const cell of row.querySelectorAll("td[data-metric]")) {
          const pair = pairOfTwo(basis, cell.dataset.metric, row.dataset.vpn, reference), span = cell.querySelector(".ratio span");
          span.textContent = itself ? "1×" : pair && pair.ratio !== null ? `${short(pair.ratio, 2)}×` : "";
          span.title = pair ? pair.says : "";
          cell.classList.toggle("grey", !itself && !(pair && pair.decision !== "undecided"));
          cell.classList.toggle("good", Boolean(pair) && pair.decision === "better");
          cell.classList.toggle("bad", Boolean(pair) && pair.decision === "worse");
        }
      }
    });
  }

  function against() {
    const [a, b] = ["one", "other"].map((id) => find(id).value);
    const basis = rankings[visible];
    const pairs = basis.pairs.filter((pair) => pair.a === a && pair.b === b);
    const words = a === b ? "Choose two VPNs." : `This run compares ${a} and ${b} in nothing ${basis.name}: one of them has no numbers.`;
    find("pair").replaceChildren(...(pairs.length ? pairs.map((pair) => element("li", pair.says)) : [element("li", words)]));
  }

  const reference = find("reference");
  if (reference) {
    reference.closest("p").hidden = false;
    reference.addEventListener("change", compareWith);
    compareWith();
  }
  const asked = document.querySelector("#against .asked");
  if (!asked) return;
  asked.hidden = false;
  asked.addEventListener("change", against);
  document.addEventListener("reveal", against);
  against();
}

(globalThis.answering ||= []).push((page) => page.rank && page.rank.rankings.length && answerPairs(page.rank.rankings));
