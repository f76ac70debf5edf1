"use strict";
// The reader's needs: the controls, the address that carries them, the card that answers them, and the map.

// data: what page.py gives; address: sets parts of the page's address and leaves the others.
async function answerNeeds(data, address) {
  const rule = choosing(data, await unpackedDevices(data)), say = saying(data);
  const own = {...data.needs, share: data.thresholds.mixed};
  const find = (id) => document.getElementById(id);
  const LINE = {low: 1e7, steps: 20, unit: "bit/s"}, PATH = {low: 0.1, steps: 20};
  let needs = own, later = 0, locked = own.line_up_bps === null; // one rate for both ways

  // What is written: 100M, 20ms, 0.1%
  const short = (value, count = 6) => String(Number(value.toPrecision(count)));
  const rateWords = (bps) => { const [scale, unit] = say.prefix(bps); return `${short(bps / scale)}${{G: "G", M: "M", k: "k"}[unit[0]] || ""}`; };

  const lineWords = () => [needs.line_bps, needs.line_up_bps].filter(Boolean).map(rateWords).join("/");

  // runner/choice/stated.py, _down_bps and _up_bps.
  function lineOf(text) {
    const [down, up] = text.split("/", 2).map(rateOf);
    return {line_bps: down, line_up_bps: up === undefined || up === down ? null : up};
  }

  function rateOf(text) {
    const [, count, unit] = /^([0-9.]+)\s*([kMG]?)(?:bit\/s)?$/.exec(text.trim()) || [];
    const bps = Number(count) * {"": 1, k: 1e3, M: 1e6, G: 1e9}[unit];
    if (!(bps > 0 && bps < 1e15)) throw new Error(`${text} is not a rate like 100M or 1G`);
    return bps;
  }

  function pathOf(text) {
    const [, count, unit] = /^([0-9.]+)\s*(ms|s|)$/.exec(text.trim()) || [];
    const ms = Number(count) * (unit === "s" ? 1000 : 1);
    if (!(ms >= 0 && ms <= 1e5)) throw new Error(`${text} is not a round-trip time like 20ms`);
    return ms;
  }

  function shareOf(text) {
    const [, count, percent] = /^([0-9.]+(?:e-?[0-9]+)?)\s*(%?)$/i.exec(text.trim()) || [];
    const share = Number(count) / (percent ? 100 : 1);
    if (!(share >= 0 && share <= 1)) throw new Error(`${text} is not a share like 0.1%`);
    return share;
  }

  // runner/choice/stated.py, _musts
  function mustsOf(text) {
    const words = text.split(",").filter(Boolean);
    const wrong = words.find((word) => !data.musts.includes(word.replace(/^-/, "")));
    if (wrong) throw new Error(`there is no must ${wrong}`);
    return data.musts.filter((must) => (data.usual.includes(must) || words.includes(must)) && !words.includes(`-${must}`));
  }

  function trafficOf(text) {
    if (!data.traffics.includes(text)) throw new Error(`there is no traffic ${text}`);
    return text;
  }

  function connectionsOf(text) {
    if (!data.connections.includes(Number(text))) throw new Error(`connections are ${data.connections.join(" or ")}`);
    return Number(text);
  }

  // What the address says of the needs; what it does not say is as the run has it.
  const READ = {
    line: (text) => (text ? lineOf(text) : {line_bps: null, line_up_bps: null}),
    rtt: (text) => ({path_rtt_ms: text ? pathOf(text) : null}),
    loss: (text) => ({path_loss_ratio: text && text !== "unknown" ? shareOf(text) : null}),
    traffic: (text) => ({traffic: trafficOf(text)}),
    share: (text) => ({share: shareOf(text)}),
    connections: (text) => ({connections: connectionsOf(text)}),
    must: (text) => ({must: mustsOf(text)}),
  };

  function written() {
    const named = needs.must.filter((must) => !data.usual.includes(must));
    const out = data.usual.filter((must) => !needs.must.includes(must)).map((must) => `-${must}`);
    const other = (name) => JSON.stringify(needs[name]) !== JSON.stringify(own[name]);
    return {
      line: other("line_bps") || other("line_up_bps") ? (needs.line_bps ? lineWords() : "") : null,
      rtt: other("path_rtt_ms") ? (needs.path_rtt_ms === null ? "" : `${short(needs.path_rtt_ms)}ms`) : null,
      loss: other("path_loss_ratio") ? (needs.path_loss_ratio === null ? "unknown" : `${short(100 * needs.path_loss_ratio)}%`) : null,
      traffic: other("traffic") ? needs.traffic : null,
      share: other("share") ? `${short(100 * needs.share)}%` : null,
      connections: other("connections") ? String(needs.connections) : null,
      must: other("must") ? [...named, ...out].join(",") : null,
    };
  }

  // The same answer in a terminal, which keeps what the run has where an option says nothing.
  function command() {
    if (!needs.line_bps) return "";
    const said = written(), options = [`--line ${lineWords()}`];
    if (needs.path_rtt_ms !== null || said.rtt !== null) options.push(`--path-rtt ${short(needs.path_rtt_ms || 0)}ms`);
    if (needs.path_loss_ratio !== null) options.push(`--path-loss ${short(100 * needs.path_loss_ratio)}%`);
    if (needs.traffic !== "mixed" || said.traffic !== null) options.push(`--traffic ${needs.traffic}`);
    if (needs.connections > 1 || said.connections !== null) options.push(`--connections ${needs.connections}`);
    if (said.must !== null) options.push(`--must=${said.must || data.usual.join(",")}`);
    return `vpneval report ${data.folder} ${options.join(" ")}`;
  }

  function read() {
    const parts = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")), wrong = [];
    needs = {...own};
    for (const [name, reads] of Object.entries(READ)) {
      if (!parts.has(name)) continue;
      try {
        needs = {...needs, ...reads(parts.get(name))};
      } catch (error) {
        wrong.push(`The link's ${name} is not used: ${error.message}.`);
      }
    }
    find("wrong-needs").textContent = wrong.join(" ");
    locked = needs.line_up_bps === null;
    show();
  }

  function set(changes) {
    needs = {...needs, ...changes};
    find("wrong-needs").textContent = "";
    address(written());
    show();
  }

  // The card

  const card = find("card"), printed = card.cloneNode(true), printedWords = find("said").textContent;
  const items = (words) => words.map((sentence) => element("li", sentence));

  function copyOf(words) {
    const made = element("span", "", {class: "copy"});
    made.append(element("code", words), element("button", "copy", {type: "button", "data-copy": words}));
    return made;
  }

  function told(id, ...children) {
    const place = card.querySelector(`[data-fact="${id}"]`);
    place.querySelector("[data-into]").replaceChildren(...children);
    place.hidden = !children.length || children.every((child) => !(child.textContent ?? child));
  }

  function wordButton(vpn, must, words) {
    return element("button", words, {type: "button", class: "word", "data-vpn": vpn, "data-must": must, "aria-expanded": "false"});
  }

  function enliven(root) {
    for (const word of root.querySelectorAll("span.word")) word.replaceWith(wordButton(word.dataset.vpn, word.dataset.must, word.textContent));
    for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
  }

  // A click on a must says what shows it.
  function unfolded(button) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return button.nextElementSibling.remove();
    const [sentence, shows, log] = data.shows[button.dataset.vpn][button.dataset.must];
    const made = element("span", `${sentence} `, {class: "shows"});
    if (log) made.append(element("a", "commands", {href: log}));
    if (shows) made.append("To try it: ", copyOf(shows));
    button.after(made);
  }

  function headed(words) {
    document.title = find("said").textContent = words;
  }

  // What the line decides is said at once, what all lines decide a moment later.
  function tell() {
    const said = needs.line_bps ? rule.answer(needs) : null, first = said && said.named[0];
    if (said) headed(say.headline(said, needs));
    told("assumed", say.askedFor(needs));
    told("why-not", ...items(said ? say.whyNot(said) : []));
    told("musts", ...(first ? needs.must.map((must) => wordButton(first, must, `${must} ${rule.wordOf(first, must)}`)) : []));
    card.querySelector('[data-fact="musts"] dt').textContent = `Musts of ${first || ""}`;
    told("failed", ...items(said ? say.failed(said) : []));
    told("recipe", ...(first && said.grade < SHORT ? [copyOf(`vpneval recipe ${first} --run ${data.folder}`)] : []));
    return said;
  }

  function tellEveryLine(said) {
    const bands = rule.bands(needs), rows = card.querySelector("#lines tbody");
    rows.replaceChildren(...say.lines(bands).map((row) => {
      const made = element("tr");
      made.append(element("th", row.lines, {scope: "row"}), element("td", row.vpns));
      return made;
    }));
    if (!said) headed(say.byLine(bands));
    card.querySelector('[data-fact="lines"] dt').textContent = said ? "Other lines" : "Your line";
    told("changed", ...items(said ? say.changed(rule.changes(said, bands)) : []));
    told("kin", say.kin(said ? said.named : [...new Set(bands.flatMap((band) => band.named))], needs));
  }

  function show() {
    controls();
    const mine = JSON.stringify(needs) === JSON.stringify(own);
    clearTimeout(later);
    if (mine) {
      card.replaceChildren(...printed.cloneNode(true).childNodes);
      headed(printedWords);
    }
    enliven(card);
    const said = mine ? null : tell();
    later = setTimeout(() => {
      if (!mine) tellEveryLine(said);
      maps();
    }, 80);
  }

  function controls() {
    const at = (scale, value) => Math.round(scale.steps * Math.log10(value / scale.low));
    find("need-line").value = needs.line_bps ? lineWords() : "";
    for (const [slider, bps] of [["line-slider", needs.line_bps], ["up-slider", needs.line_up_bps || needs.line_bps]]) {
      find(slider).value = String(bps ? at(LINE, bps) : 0);
      find(slider).setAttribute("aria-valuetext", bps ? say.rate(bps) : "every line");
    }
    find("line-lock").setAttribute("aria-pressed", String(locked));
    find("need-rtt").value = needs.path_rtt_ms === null ? "" : `${short(needs.path_rtt_ms)}ms`;
    find("rtt-slider").value = String(needs.path_rtt_ms ? Math.max(1, 1 + at(PATH, needs.path_rtt_ms)) : 0);
    find("rtt-slider").setAttribute("aria-valuetext", needs.path_rtt_ms === null ? "not stated" : `${short(needs.path_rtt_ms)} ms`);
    find("share-slider").value = String(Math.round(100 * needs.share));
    find("share-words").textContent = `${Math.round(100 * needs.share)} %`;
    find("share").hidden = needs.traffic !== "mixed";
    const press = (button, on) => button.setAttribute("aria-pressed", String(on));
    const loss = needs.path_loss_ratio === null ? "unknown" : needs.path_loss_ratio < data.thresholds.one_tcp_loss_ratio ? "none" : "some";
    for (const button of document.querySelectorAll("[data-traffic]")) press(button, button.dataset.traffic === needs.traffic);
    const many = document.querySelector("[data-connections]").closest(".need");
    many.hidden = needs.connections === 1 && !Object.values(data.devices).some((device) => device.many);
    for (const button of document.querySelectorAll("[data-connections]")) press(button, Number(button.dataset.connections) === needs.connections);
    for (const button of document.querySelectorAll("[data-loss]")) press(button, button.dataset.loss === loss);
    for (const button of document.querySelectorAll("#needs [data-toggle]")) press(button, needs.must.includes(button.dataset.toggle));
    find("ask").replaceChildren(...(command() ? [copyOf(command())] : ["state a line, and the command stands here."]));
    find("every-line").hidden = !needs.line_bps;
    find("as-run").hidden = JSON.stringify(needs) === JSON.stringify(own);
    const usual = needs.traffic !== "mixed" || needs.share === own.share;
    find("ask-note").textContent = usual ? "" : `In the terminal, mixed traffic has ${Math.round(100 * own.share)} % datagrams.`;
  }

  // The map

  const codes = codesOf([...Object.keys(data.devices)]);
  const tint = (colour, strength) => `#${[1, 3, 5].map((at) => (
    Math.round(255 - strength * (255 - parseInt(colour.slice(at, at + 2), 16))).toString(16).padStart(2, "0"))).join("")}`;

  // The initials of each name; where another has them, as many of its letters as it takes.
  function codesOf(vpns) {
    const found = {};
    for (const vpn of vpns) {
      const initials = vpn.split("_").map((part) => part.slice(0, 1)).join("").toUpperCase();
      const longer = [...vpn].map((_, at) => vpn.slice(0, at + 2));
      found[vpn] = [initials, ...longer].find((code) => !Object.values(found).includes(code)) || vpn;
    }
    return found;
  }

  function cellOf(here, where) {
    const seen = rule.glance(here), first = seen.named[0], others = seen.named.length - 1;
    const nobody = !first || (seen.grade >= SHORT && seen.carries === "no");
    const depends = !nobody && seen.carries === "depends", sure = seen.certainty === "sure";
    const cell = element("td", "", {class: nobody ? "nobody" : ""});
    if (nobody) {
      cell.append(element("span", "–", {title: `${where}: nothing that was measured here carries it`}));
      return [cell, null];
    }
    const colour = data.colours[first], pale = tint(colour, sure ? 0.55 : 0.22);
    const hatch = `repeating-linear-gradient(45deg, ${tint(colour, 0.3)} 0 3px, #fff 3px 8px)`;
    cell.style.background = depends ? hatch : pale;
    cell.classList.toggle("hatched", depends);
    const doubt = depends ? "it depends on the gateways" : {sure: "sure", probably: "probably", open: "not decided yet"}[seen.certainty];
    const mark = depends ? "~" : sure ? "" : "?", more = others ? `+${others}` : "";
    cell.append(
      element("span", [first, more, mark].filter(Boolean).join("\u00a0"), {class: "name"}),
      element("span", `${codes[first]}${others ? "+" : ""}${mark}`, {class: "code", "aria-hidden": "true"}));
    cell.title = `${where}: ${say.listed(seen.named, "or")}, ${doubt}`;
    return [cell, first];
  }

  function mapOf(table, rows, needsOf, chosen) {
    const seen = new Set();
    const lines = data.rule.rates;
    const nearest = needs.line_bps && lines.reduce((a, b) => (Math.abs(Math.log(b / needs.line_bps)) < Math.abs(Math.log(a / needs.line_bps)) ? b : a));
    const body = rows.map((row) => {
      const made = element("tr");
      made.append(element("th", row.words, {scope: "row"}));
      for (const line of lines) {
        const changes = needsOf(row.value), [cell, first] = cellOf({...rule.onLine(needs, line), ...changes}, `${say.rate(line)}, ${row.words}`);
        if (first) seen.add(first);
        if (line === nearest && row.value === chosen) cell.classList.add("chosen");
        cell.addEventListener("click", () => set({...rule.onLine(needs, line), ...changes}));
        made.append(cell);
      }
      return made;
    });
    table.querySelector("tbody").replaceChildren(...body);
    return seen;
  }

  function maps() {
    const percent = data.shares.toReversed().map((share) => ({value: share, words: `${Math.round(100 * share)} %`}));
    const paths = data.paths.toReversed().map((ms) => ({value: ms, words: `${ms} ms`}));
    const chosen = {mixed: needs.share, files: 0}[needs.traffic];
    const seen = new Set([
      ...mapOf(find("map-share"), percent, (share) => ({traffic: "mixed", share}), chosen),
      ...mapOf(find("map-path"), paths, (ms) => ({traffic: "transactions", path_rtt_ms: ms}), needs.traffic === "transactions" ? needs.path_rtt_ms : undefined),
    ]);
    find("map-key").replaceChildren(...[...seen].map((vpn) => {
      const item = element("li"), swatch = element("span", codes[vpn], {class: "swatch"});
      swatch.style.background = tint(data.colours[vpn], 0.55);
      item.append(swatch, ` ${vpn}`);
      return item;
    }));
    document.documentElement.dataset.mapped = JSON.stringify(needs);
  }

  // Events

  const typed = (box, reads) => box.addEventListener("change", () => {
    try {
      const stated = reads(box.value.trim());
      locked = "line_up_bps" in stated ? stated.line_up_bps === null : locked;
      set(stated);
    } catch (error) {
      find("wrong-needs").textContent = `${error.message}.`;
    }
  });
  const lineAt = (down, up) => ({line_bps: down || up, line_up_bps: up && up !== (down || up) ? up : null});
  const slid = (scale, step) => Number((scale.low * 10 ** (step / scale.steps)).toPrecision(2));
  typed(find("need-line"), READ.line);
  typed(find("need-rtt"), READ.rtt);
  find("line-slider").addEventListener("input", (event) => {
    const bps = slid(LINE, Number(event.target.value));
    set(lineAt(bps, locked ? bps : needs.line_up_bps || needs.line_bps));
  });
  find("up-slider").addEventListener("input", (event) => {
    const bps = slid(LINE, Number(event.target.value));
    set(lineAt(locked ? bps : needs.line_bps, bps));
  });
  find("rtt-slider").addEventListener("input", (event) => {
    const step = Number(event.target.value);
    set({path_rtt_ms: step ? slid(PATH, step - 1) : null});
  });
  find("share-slider").addEventListener("input", (event) => set({share: Number(event.target.value) / 100}));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const {traffic, loss, toggle, connections} = button.dataset;
    if (traffic) set({traffic});
    if (connections) set({connections: Number(connections)});
    if (loss) set({path_loss_ratio: {unknown: null, none: 0, some: 0.001}[loss]});
    if (toggle) set({must: data.musts.filter((must) => (must === toggle) !== needs.must.includes(must))});
    if (button.id === "every-line") set({line_bps: null, line_up_bps: null});
    if (button.id === "line-lock") {
      locked = !locked;
      set(locked ? {line_up_bps: null} : {});
    }
    if (button.id === "as-run") { locked = own.line_up_bps === null; set({...own}); }
    if (button.classList.contains("word")) unfolded(button);
  });
  enliven(document);
  for (const part of document.querySelectorAll("#needs, #map")) part.hidden = false;
  addEventListener("hashchange", read);
  read();
  maps();
  window.vpnevalChoice = {rule, say, own, needs: () => needs}; // for the tests, and for the curious
}

(globalThis.answering ||= []).push((page, address) => page.choose && answerNeeds(page.choose, address));
