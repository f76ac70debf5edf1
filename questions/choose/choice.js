"use strict";
// The rule of runner/choice and the sentences of words.py once more, for the needs that the reader
// states on the page. tests/browser compares what both say on the same draws.

const FITS = 0, LITTLE = 1, SHORT = 2, USELESS = 3, UNKNOWN = 4; // runner/choice/grade.py, Grade

// page.py, Packer: the draws as numbers; null where nothing was measured.
async function unpackedDevices(data) {
  const bytes = Uint8Array.from(atob(data.packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer()), count = planes.length / 3;
  const bits = new Uint32Array(count);
  for (let at = 0; at < count; at++) bits[at] = (planes[at] << 24) | (planes[count + at] << 16) | (planes[2 * count + at] << 8);
  const single = new Float32Array(bits.buffer);
  const drawn = (at) => (at === null ? null : Float64Array.from(single.subarray(at * data.draws, (at + 1) * data.draws)));
  const curve = (given) => ({
    rates: given.rates_bps, carried: given.carried,
    ...Object.fromEntries(["cores", "loss_ratio", "delay_ms"].map((name) => [name, given[name].map(drawn)])),
  });
  const many = (given) => given && {...given, ...Object.fromEntries(["tcp_bps", "down_bps", "both_bps"].map((name) => [name, drawn(given[name])]))};
  return new Map(Object.entries(data.devices).map(([vpn, device]) => [vpn, {
    ...device, vpn, many: many(device.many),
    ...Object.fromEntries(["tcp_bps", "udp_bps", "calls_bps", "down_bps", "both_bps", "rtt_added_ms", "setup_s"].map((name) => [name, drawn(device[name])])),
    curves: Object.fromEntries(Object.entries(device.curves).map(([kind, given]) => [kind, curve(given)])),
  }]));
}

// The rule for the VPNs of a run. Needs are runner/data/needs.py's, with the share of datagrams in mixed traffic.
function choosing(data, devices) {
  const DRAWS = data.draws, rule = data.rule;
  const filled = (value) => new Float64Array(DRAWS).fill(value);
  const unknown = filled(NaN);
  const thresholdsOf = (needs) => ({...data.thresholds, ...(needs.share === undefined ? {} : {mixed: needs.share})});

  // As numpy.median: the mean of the middle two, and no number where one has none.
  function median(draws) {
    const sorted = Float64Array.from(draws).sort(), half = sorted.length / 2; // what is no number comes last
    if (Number.isNaN(sorted.at(-1))) return NaN;
    return sorted.length % 2 ? sorted[Math.floor(half)] : (sorted[half - 1] + sorted[half]) / 2;
  }

  // The median of grades, towards the better one.
  function middle(codes) {
    const counts = [0, 0, 0, 0, 0];
    for (const code of codes) counts[code]++;
    const at = (rank) => { let seen = 0, code = 0; while ((seen += counts[code]) <= rank) code++; return code; };
    return Math.trunc((at(Math.ceil(codes.length / 2) - 1) + at(Math.floor(codes.length / 2))) / 2);
  }

  // As numpy.quantile: straight between neighbours.
  function quantile(draws, part) {
    const sorted = Float64Array.from(draws).sort(), at = part * (sorted.length - 1), below = Math.floor(at);
    const [low, high] = [sorted[below], sorted[Math.min(below + 1, sorted.length - 1)]];
    return Number.isNaN(sorted.at(-1)) ? NaN : low + (high - low) * (at - below);
  }

  // runner/choice/answer.py, _within.
  function within(cores) {
    const low = quantile(cores, 0.025);
    return low <= 0 ? Math.max(-low, Math.abs(quantile(cores, 0.975))) : null;
  }

  const known = (draws) => { const value = median(draws); return Number.isFinite(value) ? value : null; };
  const scaled = (draws, factor) => draws && draws.map((value) => value * factor);

  function mixed(tcp, udp, share) {
    const time = filled(0);
    for (const [part, bps] of [[1 - share, tcp], [share, udp]]) {
      if (part) for (let draw = 0; draw < DRAWS; draw++) time[draw] += part / (bps || unknown)[draw];
    }
    return time.map((value) => 1 / value);
  }

  const stepped = (draws, step) => draws.map((value) => (
    Number.isNaN(value) ? UNKNOWN : value <= step.fits ? FITS : value <= step.little ? LITTLE : USELESS));

  // runner/choice/grade.py, _capacity.
  function capacityCodes(device, fit, least, share) {
    const bounded = (share < 1 && device.at_least.includes("tcp")) || (share > 0 && device.at_least.includes("udp"));
    return fit.map((value, draw) => {
      if (Number.isNaN(value)) return UNKNOWN;
      if (value >= 1) return FITS;
      return least[draw] >= 1 ? LITTLE : bounded ? UNKNOWN : SHORT;
    });
  }

  // As numpy.searchsorted: the first rung that is not below the rate.
  function rungAt(rates, rate) {
    const at = rates.findIndex((one) => one >= rate);
    return at < 0 ? rates.length : at;
  }

  function at(curve, name, rate, capacity, load) {
    if (!curve) return unknown;
    const {rates} = curve, column = (rung) => curve[name][rung] || unknown;
    const above = rungAt(rates, rate), below = above - 1;
    if (above === 0 || rates[below] === rate) return column(Math.max(0, below));
    if (above === rates.length) return column(below);
    const part = Math.log(rate / rates[below]) / Math.log(rates[above] / rates[below]);
    const [low, high, most] = [column(below), column(above), capacity || unknown];
    return low.map((value, draw) => {
      if (!(rate <= most[draw])) return high[draw];
      return rates[above] <= load * most[draw] ? (1 - part) * value + part * high[draw] : value;
    });
  }

  function coresOf(curve, rate) {
    if (!curve) return unknown;
    const carried = curve.carried.flatMap((yes, rung) => (yes ? [rung] : []));
    const rungs = carried.length ? carried : [0];
    const rates = rungs.map((rung) => curve.rates[rung]), cores = rungs.map((rung) => curve.cores[rung] || unknown);
    const last = rates.length - 1;
    if (rate <= rates[0]) return cores[0];
    if (rate >= rates[last]) return cores[last].map((value) => value * rate / rates[last]);
    const above = rungAt(rates, rate);
    const part = Math.log(rate / rates[above - 1]) / Math.log(rates[above] / rates[above - 1]);
    return cores[above - 1].map((value, draw) => {
      const other = cores[above][draw];
      if (value > 0 && other > 0) return Math.exp((1 - part) * Math.log(value) + part * Math.log(other));
      return (1 - part) * value + part * other;
    });
  }

  function costOf(device, rate, share) {
    const cores = filled(0);
    for (const [part, kind] of [[1 - share, "tcp"], [share, "datagrams"]]) {
      const own = part ? coresOf(device.curves[kind], rate) : null;
      if (own) for (let draw = 0; draw < DRAWS; draw++) cores[draw] += part * own[draw];
    }
    return cores;
  }

  // What a VPN carries of this traffic, which is the same for every line.
  const carried = new Map();

  function carriedBy(device, share, small, connections) {
    const key = `${device.vpn}/${share}/${small}/${connections}/${device.udp_bps === device.calls_bps}`;
    if (!carried.has(key)) {
      const here = mixed(device.tcp_bps, scaled(device.udp_bps, small), share);
      const most = mixed(
        scaled(device.tcp_bps, device.growth.tcp ?? Infinity),
        scaled(device.udp_bps, small * (device.growth.udp ?? Infinity)), share);
      carried.set(key, {here, most, capacity: median(here), udp: median(device.udp_bps || unknown), tcp: median(device.laddered_bps || device.tcp_bps || unknown)});
    }
    return carried.get(key);
  }

  // runner/choice/grade.py, _on_path and _one_bps.
  const same = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
  const onPath = (device, {path_rtt_ms: rtt, path_loss_ratio: loss}) => (
    device.on_path.filter((one) => same(one.rtt_ms, rtt || 0) && same(one.loss_ratio, loss || 0)).at(-1));

  const windowBps = (device, {path_rtt_ms: rtt}, {window_bytes: usual}) => (
    rtt ? 8e3 * (device.window_bytes || usual) / rtt : Infinity);

  function oneTcp(device, needs, thresholds) {
    const {path_rtt_ms: rtt, path_loss_ratio: loss} = needs, {one_tcp: factor, segment_bytes: bytes} = thresholds;
    const seen = onPath(device, needs), lossy = rtt && loss ? factor * 8 * bytes / (rtt / 1e3 * Math.sqrt(loss)) : Infinity;
    const usual = device.own_gateways ? lossy : Math.min(lossy, windowBps(device, needs, thresholds));
    if (!seen) return usual;
    return seen.tcp_bps >= rule.FULL * seen.rate_bps ? Math.max(seen.tcp_bps, usual) : seen.tcp_bps;
  }

  // runner/choice/reliability.py: [attempts, bad] of the VPN and of those beside it.
  const shareOf = ([count, bad]) => (count ? bad / count : 0);

  function wilson([count, bad], z) {
    if (!count) return [0, 1];
    const share = bad / count, weight = z * z / count, centre = (share + weight / 2) / (1 + weight);
    const reach = z * Math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight);
    return [Math.max(0, centre - reach), Math.min(1, centre + reach)];
  }

  function excess(own, control, z) {
    const [low, high] = wilson(own, z), [controlLow, controlHigh] = control[0] ? wilson(control, z) : [0, 0];
    const share = shareOf(own), other = shareOf(control);
    return [
      share - other - Math.hypot(share - low, controlHigh - other), share - other,
      share - other + Math.hypot(high - share, other - controlLow)];
  }

  // runner/choice/grade.py, relevant_watch.
  function relevantWatch({watched}, rate) {
    if (!watched) return null;
    const clean = !watched.bad_windows && !watched.broke_down;
    return (clean ? watched.rate_bps >= rule.watched * rate : watched.rate_bps <= rate / rule.watched) ? watched : null;
  }

  // runner/choice/grade.py, count_attempts.
  function countAttempts(device, needs, thresholds, tcpBps, datagramsBps, all) {
    const own = [device.failed, device.failed], control = [0, 0];
    const asked = [["tcp", thresholds.load * tcpBps, all.tcp], ["datagrams", datagramsBps, all.udp]];
    for (const [kind, rate, capacity] of asked) {
      const rungs = device.attempts[kind] || [];
      const top = Math.max(rungs.filter(([bps]) => bps < rate).length, rule.lowest - 1);
      rungs.forEach(([bps, count, bad, late, others, othersBad, othersLate], index) => {
        const fits = thresholds.headroom * thresholds.payload_share * bps <= capacity;
        if (index > top || !(fits || index === 0)) return;
        const calls = needs.traffic === "calls" ? 1 : 0;
        own[0] += count;
        own[1] += bad + calls * late;
        control[0] += others;
        control[1] += othersBad + calls * othersLate;
      });
    }
    const watched = relevantWatch(device, datagramsBps);
    for (const [counts, seen] of watched ? [[own, watched], [control, device.plain_watched]] : []) {
      if (!seen) continue;
      counts[0] += seen.windows - seen.limited_windows;
      counts[1] += seen.bad_windows;
    }
    return [own, control];
  }

  // runner/choice/grade.py, _for_traffic and is_reckoned.
  const upOf = (needs) => needs.line_up_bps || needs.line_bps;
  const demandOf = (needs, line) => thresholdsOf(needs)[needs.traffic === "calls" ? "call_share" : "payload_share"] * line;
  const onLine = (needs, line) => ({...needs, line_bps: line, line_up_bps: needs.line_up_bps && needs.line_bps && line * (needs.line_up_bps / needs.line_bps)});

  // runner/choice/grade.py, _back and _bars_bps.
  const backOf = ({down_bps: down, tcp_bps: tcp}) => (down && tcp ? down.map((value, draw) => value / tcp[draw]) : filled(1));

  const bothOf = ({both_bps: both, tcp_bps: tcp, own_gateways: own}, {line_up_bps: up}) => (
    up && !own && both && tcp ? both.map((value, draw) => value / tcp[draw]) : null);

  function barsOf(device, demand, path, {headroom, path_share: {fits, little}}) {
    if (!device.own_gateways) return [headroom * demand, demand, demand];
    const bar = Math.min(demand, fits * (path ?? Infinity));
    return [bar, Math.min(demand, little * (path ?? Infinity)), bar];
  }
  const isByPackets = ({calls_bps: calls, udp_bps: udp, payload_bytes: bytes, at_least: bounded}, {call_bytes: short, packets}) => (
    calls !== null && udp !== null && !bounded.includes("calls") && median(calls) * (bytes / short) <= packets * median(udp));
  const isReckoned = (device, needs) => needs.traffic === "calls" && device.calls_bps === null;

  function withConnections(device, {connections}) {
    if (connections === 1) return device;
    const {growth, ...many} = device.many || {tcp_bps: null, down_bps: null, both_bps: null};
    return {...device, ...many, laddered_bps: device.tcp_bps, growth: {...device.growth, tcp: growth ?? Infinity}};
  }

  function forTraffic(measured, needs, {call_share: calls, payload_share: full, call_bytes: bytes}) {
    const device = withConnections(measured, needs);
    if (needs.traffic !== "calls") return [device, 1];
    const part = bytes / device.payload_bytes;
    const there = {path_bps: device.path_bps && device.path_bps * calls / full, path_down_bps: device.path_down_bps && device.path_down_bps * calls / full, full_core_bps: device.full_core_bps && part * device.full_core_bps};
    if (isReckoned(device, needs)) {
      return [{...device, ...there, at_least: [...device.at_least, ...(device.own_gateways ? ["udp"] : [])]}, part];
    }
    const asCalls = (of) => ({...of, datagrams: of.calls});
    return [{
      ...device, ...there, udp_bps: device.calls_bps, at_least: device.at_least.includes("calls") ? ["udp"] : [],
      breakdown_bps: null, curves: asCalls(device.curves), attempts: asCalls(device.attempts)}, 1];
  }

  // runner/choice/grade.py, graded.
  function graded(measured, needs) {
    const thresholds = thresholdsOf(needs), share = thresholds[needs.traffic];
    const demand = demandOf(needs, upOf(needs)), [device, small] = forTraffic(measured, needs, thresholds);
    const all = carriedBy(device, share, small, needs.connections), one = device.one_connection && !device.by_datagrams ? oneTcp(device, needs, thresholds) : Infinity;
    const [here, most] = [all.here, all.most].map((bps) => (one < Infinity ? bps.map((value) => Math.min(value, one)) : bps));
    const capacity = Math.min(all.capacity, one), {udp} = all;
    const carrying = device.own_gateways ? "path" : "capacity", back = backOf(device), down = demandOf(needs, needs.line_bps);
    const bars = barsOf(device, demand, device.path_bps, thresholds), downBars = barsOf(device, down, device.path_down_bps, thresholds);
    const both = bothOf(device, needs);
    const roomOf = (of, at) => of.map((value, draw) => Math.min(
      value / bars[at], back[draw] * value / downBars[at], both ? both[draw] * value / (bars[at] + downBars[at]) : Infinity));
    const [room, mostRoom] = [roomOf(here, 2), roomOf(most, 2)];
    const codes = {[carrying]: capacityCodes(device, roomOf(here, 0), roomOf(here, 1), share)}, values = {[carrying]: here};
    const reached = Number.isFinite(capacity) ? Math.min(demand, capacity) : demand;
    const busiest = capacity >= 0 ? Math.max(reached, Math.min(down, median(back) * capacity)) : reached;
    const judged = thresholds.load * (capacity === 0 ? 1 : reached / capacity) * udp;
    if (share) {
      values.loss = at(device.curves.datagrams, "loss_ratio", judged, device.udp_bps, thresholds.load);
      if (device.own_gateways) values.loss = values.loss.map((value) => Math.max(value - (needs.path_loss_ratio || 0), 0));
      codes.loss = stepped(values.loss, thresholds.loss_ratio);
    }
    if (needs.traffic === "calls") {
      values.delay = at(device.curves.datagrams, "delay_ms", judged, device.udp_bps, thresholds.load);
      codes.delay = stepped(values.delay, thresholds.delay_ms);
      values.mouth_to_ear = values.delay.map((value) => value + (needs.path_rtt_ms || 0) / 2);
      codes.mouth_to_ear = stepped(values.mouth_to_ear, thresholds.mouth_to_ear_ms);
    }
    if (needs.traffic === "mixed" || needs.traffic === "transactions") {
      const floor = needs.traffic === "mixed" ? thresholds.mixed_rtt_ms : thresholds.transactions_rtt_ms;
      values.rtt = device.rtt_added_ms || unknown;
      codes.rtt = stepped(values.rtt, {fits: Math.max(floor, thresholds.rtt_share * (needs.path_rtt_ms || 0)), little: Infinity});
    }
    if (device.real) {
      values.setup = device.setup_s || unknown;
      codes.setup = stepped(values.setup, thresholds.setup_s);
    }
    const lossy = needs.path_loss_ratio === null || needs.path_loss_ratio >= thresholds.one_tcp_loss_ratio;
    if (device.one_connection && lossy && (share || !onPath(device, needs))) codes.one_connection = filled(LITTLE);
    if (share && device.breakdown_bps !== null) {
      codes.breakdown = filled(small * device.breakdown_bps <= Math.max(needs.line_bps, needs.line_up_bps || 0) ? USELESS : FITS);
      values.breakdown = filled(device.breakdown_bps);
    }
    const [attempts, control] = countAttempts(device, needs, thresholds, reached, judged, all);
    const [least, beyond] = excess(attempts, control, rule.z[0]), step = thresholds.bad_share;
    const proven = excess(attempts, control, rule.z[1])[2] <= step.fits;
    const failures = 2 * device.failed >= device.trials && device.trials > 0 ? UNKNOWN
      : least > 0 && beyond > step.fits ? (beyond <= step.little ? LITTLE : USELESS) : FITS;
    [codes.failures, values.failures] = [filled(failures), filled(shareOf(attempts))];
    const watched = relevantWatch(device, judged);
    if (watched) {
      const longest = needs.traffic === "calls" ? thresholds.call_gap_s : thresholds.gap_s;
      [codes.gap, values.gap] = [filled(watched.longest_gap_s <= longest ? FITS : LITTLE), filled(watched.longest_gap_s)];
    }
    if (device.full_core_bps !== null) {
      const load = busiest / device.full_core_bps;
      [codes.cores, values.cores] = [filled(load <= thresholds.core_load ? FITS : LITTLE), filled(load)];
    }
    const window = windowBps(device, needs, thresholds), larger = Math.max(demand, down);
    if (device.one_connection && !device.own_gateways && !onPath(device, needs) && window < thresholds.headroom * larger) {
      [codes.window, values.window] = [filled(window >= larger ? LITTLE : SHORT), filled(window)];
    }
    const cores = costOf(device, busiest / small, share);
    codes.cost = cores.map((value) => (Number.isNaN(value) ? UNKNOWN : FITS));
    values.cost = cores;
    const grade = filled(0);
    for (const one of Object.values(codes)) for (let draw = 0; draw < DRAWS; draw++) if (one[draw] > grade[draw]) grade[draw] = one[draw];
    const worst = filled(0);
    rule.reservations.forEach((criteria, rank) => {
      for (const name of criteria) if (codes[name]) codes[name].forEach((code, draw) => { if (code === LITTLE) worst[draw] = rank + 1; });
    });
    const standing = grade.map((code, draw) => (
      10 * code + (code < SHORT || worst[draw] >= rule.lasting ? worst[draw] : 0)));
    return {
      byPackets: needs.traffic === "calls" && isByPackets(measured, thresholds),
      device, codes, values, here, most, cores, grade, standing, capacity, attempts, proven, cores_bps: busiest,
      carrying, room, mostRoom, back, both,
      get middle() { return middle(grade); },
    };
  }

  // runner/choice/grade.py, path_shares and limit.
  const downOf = (one) => one.here.map((value, draw) => one.back[draw] * value);

  function pathShares(one) {
    const {device: {path_bps: path, path_down_bps: pathDown, down_bps: down}, here} = one;
    if (path === null || pathDown === null || here.some(Number.isNaN)) return [null, null];
    return [median(here) / path, down ? median(downOf(one)) / pathDown : null];
  }

  function limitOf(one, thresholds) {
    const shares = pathShares(one).filter((share) => share !== null), {full_core_bps: core, one_connection: oneConnection} = one.device;
    if (shares.length && Math.min(...shares) >= thresholds.path_share.fits) return "path";
    if (one.byPackets) return "packets";
    if (!shares.length) return null;
    if (core !== null && median(one.here) >= thresholds.core_load * core) return "cores";
    return oneConnection ? "window" : null;
  }

  // runner/choice/rule.py, chosen: in which draws each is chosen.
  function chosenOf(candidates, thresholds, needs) {
    const drawn = candidates.map(() => new Uint8Array(DRAWS));
    const margin = Math.max(thresholds.cost_cores, thresholds.cost_share * (needs.cores || 0));
    for (let draw = 0; draw < DRAWS; draw++) {
      let best = Infinity, most = 0, cheapest = Infinity;
      for (const one of candidates) if (one.grade[draw] <= SHORT && one.standing[draw] < best) best = one.standing[draw];
      if (best === Infinity) continue;
      let among = candidates.map((_, index) => index).filter(
        (index) => candidates[index].grade[draw] <= SHORT && candidates[index].standing[draw] === best);
      for (const index of among) most = Math.max(most, candidates[index].here[draw]);
      among = among.filter((index) => candidates[index].grade[draw] < SHORT || candidates[index].here[draw] >= thresholds.short * most);
      for (const index of among) cheapest = Math.min(cheapest, Math.abs(candidates[index].cores[draw]));
      const dear = Math.max(cheapest + margin, cheapest * thresholds.cost_ratio);
      for (const index of among) if (candidates[index].cores[draw] <= dear) drawn[index][draw] = 1;
    }
    return drawn;
  }

  const meanOf = (column) => column.reduce((sum, value) => sum + value, 0) / DRAWS;

  const wordOf = (vpn, must) => data.states[data.words[vpn]?.[must] ?? data.states.indexOf("unknown")];
  const lacking = (vpn, needs) => needs.must.filter((must) => !rule.fulfilled.includes(wordOf(vpn, must)));

  const WEAKEST = ["open", "probably", "sure"];
  const wordFor = (chance) => (chance >= rule.SURE ? "sure" : chance >= rule.PROBABLE ? "probably" : "open");
  const weakest = (...words) => WEAKEST[Math.min(...words.map((word) => WEAKEST.indexOf(word)))];

  // runner/choice/answer.py, _judge and _name.
  function judge(needs) {
    const every = [...devices.values()].map((device) => Object.assign(graded(device, needs), {vpn: device.vpn, chance: 0}));
    const able = every.filter((one) => !lacking(one.vpn, needs).length), thresholds = thresholdsOf(needs);
    chosenOf(able, thresholds, needs).forEach((drawn, index) => Object.assign(able[index], {drawn, chance: meanOf(drawn)}));
    const [named, best, equal] = naming(able, needs), first = named[0];
    let certainties = {best: "open", carries: "open", equal: "open", steady: "probably"};
    if (first) {
      const carries = carriesChance(first);
      const steady = (one) => (one.proven ? "sure" : one.attempts[0] >= rule.fewest ? "probably" : "open");
      certainties = {
        best, carries: wordFor(Math.max(carries, 1 - carries)), equal: weakest(equal, ...named.map(steady)), steady: steady(first),
      };
    }
    if (data.disturbed) for (const name of Object.keys(certainties)) certainties[name] = weakest(certainties[name], "probably");
    const unknown = able.filter((one) => one.middle === UNKNOWN || (one.middle > SHORT && one.chance >= rule.POSSIBLE)).map((one) => one.vpn);
    const ofFirst = weakest(certainties.best, certainties.carries, certainties.steady);
    const certainty = first && first.middle === SHORT ? certainties.carries : ofFirst;
    return {every, named, unknown, certainties, certainty};
  }

  function naming(able, needs) {
    const place = (one) => [
      one.chance >= rule.SURE ? 0 : 1 - one.chance, needs.must.some((must) => wordOf(one.vpn, must) === "declared") ? 1 : 0, -one.capacity];
    const good = able.filter((one) => one.chance >= rule.POSSIBLE && one.middle <= SHORT).map((one) => ({one, key: place(one)}));
    good.sort((a, b) => a.key.reduce((order, value, index) => order || value - b.key[index], 0) || (a.one.vpn < b.one.vpn ? -1 : 1));
    const all = good.map(({one}) => one), best = all.length ? wordFor(all[0].chance) : "open";
    if (best === "open") return [all, "open", "open"];
    const named = [all[0]];
    let together = all[0].drawn;
    for (const one of all.slice(1)) {
      const both = together.map((value, draw) => value & one.drawn[draw]);
      if (meanOf(both) >= rule.PROBABLE) [together] = [both, named.push(one)];
    }
    return [named, best, wordFor(meanOf(together))];
  }

  const reservationsOf = (one) => Object.entries(one.codes).filter(([, codes]) => middle(codes) === LITTLE).map(([name]) => name);
  const partOf = (draws, test) => draws.filter(test).length / DRAWS;
  const carriesChance = (one) => partOf(one.room, (value) => value >= 1);

  function carries(one) {
    if (one.device.own_gateways) return carriesChance(one) >= rule.HALF ? "yes" : "no";
    if (one.here.some(Number.isNaN)) return "depends";
    if (carriesChance(one) >= rule.SURE) return "yes";
    return data.calm && partOf(one.mostRoom, (value) => value < 1) >= rule.SURE ? "no" : "depends";
  }

  function reasonsOf(one, needs, first) {
    const best = first ? first.middle : UNKNOWN;
    const without = lacking(one.vpn, needs);
    if (without.length) {
      const open = without.filter((must) => wordOf(one.vpn, must) === "unknown");
      const surely = without.filter((must) => !open.includes(must));
      return [{criterion: null, value: null, musts: surely.length ? surely : open, unknown: !surely.length}];
    }
    const reason = (criterion) => ({criterion, value: one.values[criterion] ? known(one.values[criterion]) : null, musts: [], unknown: false});
    if (middle(one.codes[one.carrying]) === SHORT && (one.middle === SHORT || best < SHORT)) {
      const by = one.codes.window && middle(one.codes.window) === SHORT ? "window" : one.carrying;
      return [{...reason(one.carrying), criterion: by}];
    }
    if (one.middle <= best && best !== UNKNOWN) {
      if (first && median(one.standing) > median(first.standing)) {
        const known = reservationsOf(first);
        return reservationsOf(one).filter((name) => !known.includes(name)).map(reason);
      }
      return [one.chance <= 1 - rule.PROBABLE ? reason("cost") : {criterion: null, value: null, musts: [], unknown: false}];
    }
    const grades = Object.entries(one.codes).map(([name, codes]) => [name, middle(codes)]);
    let worse = grades.filter(([, grade]) => grade > best);
    if (!worse.length) worse = grades.filter(([, grade]) => grade === one.middle);
    return worse.map(([name]) => reason(name));
  }

  function candidateOf(one, needs, named) {
    return {
      vpn: one.vpn, chance: one.chance, carries_chance: carriesChance(one), grade: one.middle,
      carries: carries(one),
      here_bps: known(one.here), most_bps: known(one.most), cores: known(one.cores),
      cores_bps: one.cores_bps, cores_within: within(one.cores), path_share: pathShares(one)[0], path_share_down: pathShares(one)[1], down_bps: one.device.down_bps ? known(downOf(one)) : null, both_bps: one.both ? known(one.here.map((value, draw) => one.both[draw] * value)) : null, limit: limitOf(one, thresholdsOf(needs)), reckoned: isReckoned(one.device, needs),
      reasons: named.includes(one) ? [] : reasonsOf(one, needs, named[0]), reservations: reservationsOf(one),
      musts: Object.fromEntries(needs.must.map((must) => [must, wordOf(one.vpn, must)])),
      trials: one.device.trials, failed: one.device.failed,
      attempts: Math.round(one.attempts[0]), bad_attempts: Math.round(one.attempts[1]),
      watched_s: one.device.watched?.seconds ?? null, watched_bps: one.device.watched?.rate_bps ?? null,
      longest_gap_s: one.device.watched?.longest_gap_s ?? null,
      worst_second_loss_ratio: one.device.watched?.worst_second_loss_ratio ?? null,
    };
  }

  // runner/choice/answer.py, answer.
  function answer(needs) {
    const {every, named, unknown, certainties, certainty} = judge(needs), grade = named.length ? named[0].middle : UNKNOWN;
    const place = (one) => (named.includes(one) ? named.indexOf(one) : named.length);
    const ordered = [...every].sort((a, b) => place(a) - place(b) || b.chance - a.chance);
    return {
      needs, named: named.map((one) => one.vpn), certainties, certainty, grade, unknown,
      candidates: ordered.map((one) => candidateOf(one, needs, named)),
    };
  }

  // What a cell of the map needs, and no more.
  function glance(needs) {
    const {named, certainty} = judge(needs), first = named[0];
    const there = first ? carries(first) : "no";
    return {named: named.map((one) => one.vpn), certainty, grade: first ? first.middle : UNKNOWN, carries: there};
  }

  // runner/choice/answer.py, bands.
  function bands(needs) {
    const found = [];
    const room = Math.max(...[...devices.values()].map((device) => device.path_bps || Infinity));
    for (const line of rule.rates.filter((line) => thresholdsOf(needs).payload_share * line <= room)) {
      const {named, unknown, certainties, certainty} = judge(onLine(needs, line)), first = named[0], last = found.at(-1);
      const now = {
        named: named.map((one) => one.vpn), grade: first ? first.middle : UNKNOWN, certainty,
        equal: certainties.equal, reservations: first ? reservationsOf(first) : [], unknown,
      };
      const same = last && last.grade === now.grade && last.certainty === certainty && last.named.length === now.named.length &&
        now.named.every((vpn) => last.named.includes(vpn));
      if (same) Object.assign(last, {high_bps: line, reservations: now.reservations, equal: weakest(last.equal, now.equal)});
      else found.push({low_bps: line, high_bps: line, ...now, here_bps: first ? known(first.here) : null, most_bps: first ? known(first.most) : null, path_share: first ? pathShares(first)[0] : null, path_share_down: first ? pathShares(first)[1] : null});
    }
    return found;
  }

  // runner/choice/answer.py, changes.
  function changes(said, every) {
    const {needs} = said, found = [];
    const above = every.filter((band) => band.low_bps > needs.line_bps).find(
      (band) => band.named[0] !== said.named[0] || band.grade !== said.grade);
    if (above && !(said.grade === SHORT && above.grade === SHORT)) found.push({line_bps: above.low_bps, named: above.named, grade: above.grade, reservations: above.reservations});
    for (const path_loss_ratio of needs.path_loss_ratio === null && said.named.length ? rule.losses : []) {
      const then = answer({...needs, path_loss_ratio});
      if (!then.named.length || (then.named[0] === said.named[0] && then.grade === said.grade)) continue;
      const {reservations} = then.candidates.find((one) => one.vpn === then.named[0]);
      found.push({path_loss_ratio, named: then.named, grade: then.grade, reservations});
      break;
    }
    const changed = (must, about) => {
      const then = answer({...needs, must});
      if (!then.named.length || then.named[0] === said.named[0]) return;
      const {reservations} = then.candidates.find((one) => one.vpn === then.named[0]);
      found.push({...about, named: then.named, grade: then.grade, reservations});
    };
    for (const must of rule.changing) if (!needs.must.includes(must)) changed([...needs.must, must], {must});
    for (const must of needs.must) changed(needs.must.filter((other) => other !== must), {without: must});
    return found;
  }

  return {answer, bands, changes, glance, onLine, wordOf};
}

// The sentences: words.py, with the numbers of runner/report/text.py
function saying(data) {
  const PREFIXES = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]];
  const prefix = (value) => PREFIXES.find(([scale]) => value >= scale * 0.9995) || [1, "bit/s"];
  const digits = (value) => value.toFixed(value === 0 ? 3 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) * 1.0005)))));
  const quantity = (bps) => { const [scale, unit] = prefix(bps); return `${digits(bps / scale)} ${unit}`; };
  const three = (value) => String(Number(value.toPrecision(3)));
  const rate = (bps) => { const [scale, unit] = prefix(bps); return `${three(bps / scale)} ${unit}`; };
  const span = (low, high) => { if (low === high) return rate(low); const [scale, unit] = prefix(high); return `${three(low / scale)} – ${three(high / scale)} ${unit}`; };
  const listed = (names, word) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} ${word} ${names.at(-1)}` : names[0]);
  const reserved = (names) => names.map((name) => data.say.reserved[name]);
  const cores = ({ cores, cores_within: within }) => {
    if (cores === null) return "an unknown part of a core";
    if (within !== null) return `no more than plain IP, within ${digits(within)} of a core,`;
    return cores < 0.005 ? "too little of a core to be seen" : `${cores.toFixed(2)} of a core`;
  };
  const at = ({ cores_bps: bps }) => (bps === null ? "" : ` at ${rate(bps)} of payload`);

  const part = (share) => `${(100 * Math.min(1, share)).toFixed(0)}%`;
  function limited({both_bps: both = null, limit}) {
    const ways = both === null ? "" : `, ${quantity(both)} both ways at once`;
    return limit ? `${ways} (${data.say.limits[limit]})` : ways;
  }

  function waysOf(first, needs) {
    if (!needs.line_up_bps || first.both_bps !== null) return "";
    return first.down_bps === null ? data.say.one_way : data.say.one_at_a_time;
  }

  const by = (needs) => (needs.traffic === "calls" ? "" : data.say.connections[needs.connections]);

  const lineWords = ({line_bps: down, line_up_bps: up}) => (up ? `${rate(down)} to gw1 and ${rate(up)} from it` : rate(down));

  function pathWords({path_share: up, path_share_down: down}) {
    if (down === null || part(down) === part(up)) return `${part(up)} of your path${down === null ? " from gw1" : ""}`;
    return `${part(up)} of your path from gw1 and ${part(down)} to it`;
  }

  function does(first, needs) {
    const carries = `it carries your ${lineWords(needs)}${first.both_bps === null ? "" : " at once"}${by(needs)}`;
    if (first.path_share === null) return carries;
    const share = data.thresholds[needs.traffic === "calls" ? "call_share" : "payload_share"];
    const ways = [[first.here_bps, needs.line_up_bps || needs.line_bps], [first.down_bps || first.here_bps, needs.line_bps]];
    if (ways.every(([bps, line]) => (bps || 0) >= share * line)) return `${carries} (${pathWords(first)} at most)`;
    return `it fills ${pathWords(first)}${by(needs)}${limited(first)}`;
  }

  function upTo(one) {
    const {here_bps: here, most_bps: most, path_share: share} = one;
    if (here === null) return "an unknown rate";
    if (share !== null) return `${quantity(here)}, ${pathWords(one)}${limited(one)}`;
    if (most === here) return `${quantity(here)}${limited(one)}`;
    const more = most !== null && most > here ? `, up to ${quantity(most)} on gateways of their own` : "";
    return `${quantity(here)} on these shared cores${more}${limited(one)}`;
  }

  function traffic(needs) {
    const usual = needs.traffic !== "mixed" || needs.share === undefined || needs.share === data.thresholds.mixed;
    return usual ? data.say.traffic[needs.traffic] : `${Math.round(100 * (1 - needs.share))} of 100 bytes in TCP`;
  }

  function askedFor(needs) {
    const more = needs.must.filter((must) => !["tried", "maintained"].includes(must)).map((must) => data.say.means[must] || `it must have ${must}`);
    const without = data.usual.filter((must) => ![...needs.must, "tried"].includes(must)).map((must) => `it need not have ${must}`);
    return [...more, ...without, `${traffic(needs)}${by(needs)}`].join(", ");
  }

  function headline(said, needs) {
    if (data.say.forbidden) return data.say.forbidden;
    const line = lineWords(needs), say = data.say;
    if (!said.named.length && said.unknown.length) {
      return `Which VPN suits ${line}${by(needs)} is not known here: not enough was measured of ${listed(said.unknown, "and")}.${needs.connections > 1 ? say.many : ""}`;
    }
    if (!said.named.length) return `${say.none_suits.sure} ${line}, ${askedFor(needs)}.`;
    const first = said.candidates.find((one) => one.vpn === said.named[0]), others = said.named.slice(1);
    const kept = reserved(first.reservations).map((words) => `, ${words}`).join("");
    const {best, carries} = said.certainties, rates = upTo(first);
    if (said.grade === SHORT) return `${say.none_suits[carries]} ${line}${by(needs)} ${first.most_bps === first.here_bps ? "between your gateways" : "on this machine"}. ${first.vpn} comes nearest: ${rates}${kept}.`;
    if (best === "open") {
      const open = `It is not decided yet which VPN is best for your ${line}`;
      return others.length ? `${open}: ${listed(said.named, "or")}.` : `${open}. The likeliest is ${first.vpn}.`;
    }
    if (carries === "open") return `${say.take.open} ${first.vpn}. Whether it carries your ${line} is not decided yet: ${rates}.`;
    const equals = others.length ? ` (${listed(others, "and")} ${others.length === 1 ? "is" : "are"} ${said.certainties.equal === "sure" ? "" : "probably "}equally good for you)` : "";
    const sure = said.certainty === "sure" ? " Sure." : "";
    return `${say.take[said.certainty]} ${first.vpn}${equals}: ${does(first, needs)} and takes ${cores(first)} on each gateway${at(first)}${kept}.${sure}${first.reckoned ? say.reckoned : ""}${waysOf(first, needs)}`;
  }

  function byLine(bands) {
    if (data.say.forbidden) return data.say.forbidden;
    const told = [];
    for (const {named, grade, certainty, unknown, low_bps: low, high_bps: high} of bands) {
      const none = !named.length && unknown.length ? data.say.unknown : data.say.nothing;
      const take = named.length && grade < SHORT ? `${data.say.take[certainty].toLowerCase()} ${named[0]}` : none;
      if (told.at(-1)?.take === take) told.at(-1).high = high;
      else told.push({take, low, high});
    }
    if (!told.length) return data.say.on_line;
    const last = told.pop(), said = [...told.map(({take, high}) => `up to ${rate(high)} ${take}`), `from ${rate(last.low)} on ${last.take}`].join("; ");
    return `${said[0].toUpperCase()}${said.slice(1)}.`;
  }

  function ofBand(band) {
    if (!band.named.length) return band.unknown.length ? `not known here: ${data.say.unknown}` : data.say.nothing;
    const word = data.say.band[band.certainty];
    if (band.grade === SHORT) return `${word}nothing here suits it; ${band.named[0]} comes nearest, ${upTo(band)}`;
    const kept = band.reservations.length ? ` (${reserved(band.reservations).join(", ")})` : "";
    const probably = band.certainty === "sure" && band.equal !== "sure" ? "probably " : "";
    const equal = band.named.length > 1 && band.certainty !== "open" ? `: ${probably}equally good` : "";
    return `${word}${listed(band.named, "or")}${equal}${kept}`;
  }

  function lines(bands) {
    if (data.say.forbidden) return [];
    const rows = [];
    bands.forEach((band, at) => {
      const before = bands[at - 1];
      const same = before && before.certainty === band.certainty && before.named.length && before.named.length === band.named.length && before.named.every((vpn) => band.named.includes(vpn));
      if (same && before.grade < band.grade && band.grade < SHORT) {
        const kept = band.reservations.includes("capacity") ? data.say.reserved.capacity : "with a reservation";
        const vpns = `${rows.at(-1).vpns} (from ${rate(band.low_bps)} on ${kept})`;
        rows[rows.length - 1] = {lines: span(before.low_bps, band.high_bps), vpns, grade: before.grade};
      } else {
        rows.push({lines: span(band.low_bps, band.high_bps), vpns: ofBand(band), grade: band.grade});
      }
    });
    return rows;
  }

  const REASONS = {
    capacity: (value, candidate) => (
      candidate.grade < SHORT ? `carries it, with less than a quarter in reserve: ${quantity(value)}`
        : candidate.carries === "no" ? `does not carry it: ${quantity(value)}${limited(candidate)}`
          : `depends: ${upTo(candidate)}`),
    path: (_, candidate) => `carries ${upTo(candidate)}`,
    cores: (value) => `takes ${part(value)} of a gateway's core`,
    window: (value) => `has too little on its way for your round trip: ${quantity(value)}`,
    loss: (value, candidate) => `loses ${(100 * value).toFixed(1)} % of the datagrams at ${Math.round(100 * data.thresholds.load)}% of ${candidate.carries === "yes" ? "the line" : "what it carries"}`,
    delay: (value) => `adds ${digits(value)} ms to one packet in twenty`,
    mouth_to_ear: (value) => `a call takes ${digits(value)} ms from end to end`,
    rtt: (value) => `adds ${digits(value)} ms to the round trip`,
    setup: (value) => `takes ${digits(value)} s to come up`,
    one_connection: () => "all that it carries shares one TCP connection, which every lost packet slows",
    breakdown: (value) => `broke down at ${rate(value)}`,
    failures: (_, candidate) => `in ${candidate.bad_attempts} of ${candidate.attempts} tries it did not carry a load that it otherwise carries`,
    gap: (value) => `was silent for ${digits(value)} s in a long watch`,
  };

  function costsMore(candidate) {
    const of = candidate.cores_within === null ? cores(candidate) : `up to ${digits(candidate.cores_within)} of a core`;
    return `costs more: ${of} on each gateway${at(candidate)}`;
  }

  function because(reason, candidate) {
    if (reason.musts.length) return reason.musts.map((must) => {
      const [can, cannot] = data.say.phrases[must];
      return `${reason.unknown && must !== "tried" ? `it is not known whether it ${can}` : `it ${cannot}`} (your must ${must})`;
    }).join("; ");
    if (reason.criterion === null) return `may be as good (${Math.floor(100 * candidate.chance)}%)`;
    if (reason.criterion === "cost" && reason.value !== null) return costsMore(candidate);
    if (candidate.grade === UNKNOWN) return `${data.say.what[reason.criterion]} not measured`;
    return REASONS[reason.criterion](reason.value || 0, candidate);
  }

  const whyNot = (said) => said.candidates.filter((one) => !said.named.includes(one.vpn)).map(
    (one) => `not ${one.vpn}: ${one.reasons.map((reason) => because(reason, one)).join("; ")}.`);

  function change(then) {
    let words = then.named.length ? listed(then.named, "or") : "nothing that is known here";
    let kept = then.reservations.length ? ` (${reserved(then.reservations).join(", ")})` : "";
    if (then.line_bps !== undefined) {
      if (then.grade === SHORT) [words, kept] = ["nothing here suits it", ""];
      return `from ${rate(then.line_bps)} on ${words}${kept}`;
    }
    if (then.path_loss_ratio !== undefined) {
      if (then.grade === SHORT) [words, kept] = ["nothing here suits it", ""];
      return `if the path loses ${three(100 * then.path_loss_ratio)} % of the packets, ${words}${kept}`;
    }
    if (then.grade === SHORT) kept = " (does not carry it here)";
    if (then.must) return `if ${data.say.must[then.must] || then.must}, ${words}${kept}`;
    return then.without === "networks" ? `if forwarding TCP ports is enough, ${words}${kept}` : "";
  }

  function kin(named, needs) {
    const may = data.kin.filter(([, , lacks]) => !lacks.some((must) => needs.must.includes(must)));
    const kernels = [...new Set(may.map(([vpn]) => vpn))].map((vpn) => [vpn, listed(may.filter(([own]) => own === vpn).map(([, kernel]) => kernel), "or")]);
    if (!kernels.length) return "";
    const programs = [...new Set(kernels.map(([, twins]) => twins))].map((twins) => [twins, kernels.filter(([, own]) => own === twins).map(([vpn]) => vpn)]);
    const speak = programs.map(([twins, vpns]) => `${twins} speaks the protocol of ${listed(vpns, "and")}`);
    const [was, costs] = programs.length === 1 ? ["it was", "costs"] : ["they were", "cost"];
    const take = kernels.filter(([vpn]) => named.includes(vpn)).map(([vpn, twins]) => ` Where both gateways have ${twins}, take it instead of ${vpn}.`);
    return `In the kernel, ${listed(speak, "and")}: ${was} not measured here, and usually ${costs} less.${take.join("")}`;
  }

  const failed = (said) => said.candidates.filter((one) => one.failed).map(
    (one) => `${one.vpn} gave no number in ${one.failed} of ${one.trials} trials.`);

  return {headline, byLine, askedFor, lines, whyNot, changed: (found) => found.map(change).filter(Boolean), kin, failed, rate, lineWords, listed, three, prefix};
}
