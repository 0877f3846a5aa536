// Search over ops, arguments and communication: words, /expressions/, and terms such as `kind:dot stage:1 cost>1ms`.

const search = { hits: [], at: 0 };

/** Everything that can be found, made when it is first needed. */
function searchItems() {
  if (searchItems.list) return searchItems.list;
  const list = [];
  for (let op = 0; op < O.kind.length; op++) {
    const g = O.group[op], reshard = g >= 0 && groupCost(g)[2] > 0;
    list.push({ sel: "op:" + op, name: opName(op), kind: kindOf(op), more: placeOf(op), stage: O.stage[op], layer: O.layer[op], phase: PHASES[O.phase[op]], reason: g >= 0 ? P.groups[g].reason : "", cost: g >= 0 ? sum(groupCost(g)) : 0, bytes: O.results[op].reduce((n, v) => n + bytesOf(v), 0), reshard, type: O.results[op].length ? typeOf(O.results[op][0]).text : "" });
  }
  for (const [v, role] of V.roles) {
    const user = users[v][0];
    list.push({ sel: "value:" + v, name: V.name[v], kind: "argument", more: role, stage: user === undefined ? stagesOf(v)[0] ?? -1 : O.stage[user], layer: user === undefined ? -1 : O.layer[user], phase: "", reason: "", cost: 0, bytes: bytesOf(v), type: typeOf(v).text });
  }
  P.outputs.forEach(([v, name]) => list.push({ sel: "value:" + v, name, kind: "result", more: V.name[v], stage: V.op[v] >= 0 ? O.stage[V.op[v]] : -1, layer: V.op[v] >= 0 ? O.layer[V.op[v]] : -1, phase: "", reason: "", cost: 0, bytes: bytesOf(v), type: typeOf(v).text }));
  P.communication.forEach((c, i) => list.push({ sel: "comm:" + i, name: c.source.split(" ")[0], kind: c.kind, more: c.group, stage: c.stage, layer: c.value >= 0 && V.op[c.value] >= 0 ? O.layer[V.op[c.value]] : -1, phase: PHASES[c.phase], reason: "", cost: c.seconds, bytes: c.bytes, communication: true, reshard: ["all-gather", "all-to-all", "reduce-scatter"].includes(c.kind), type: "" }));
  for (const item of list) item.text = `${item.name} ${item.kind} ${item.more} ${item.type}`.toLowerCase();
  return searchItems.list = list;
}

const UNITS = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, b: 1, kib: 1024, mib: 1048576, gib: 1073741824, kb: 1e3, mb: 1e6, gb: 1e9 };

/** A query as a list of tests; `error` when an expression is wrong. */
function parseQuery(query) {
  const tests = [];
  for (const [term] of query.matchAll(/\/(?:\\.|[^\/\\])+\/|\S+/g)) {
    let m;
    if (term.length > 2 && term.startsWith("/") && term.endsWith("/")) {
      try { const r = new RegExp(term.slice(1, -1), "i"); tests.push(x => r.test(x.text)); } catch { return { error: "not a regular expression: " + term }; }
    } else if ((m = /^(cost|bytes)([<>])([\d.]+)([a-zµ]*)$/i.exec(term))) {
      const limit = Number(m[3]) * (UNITS[m[4].toLowerCase()] ?? 1), key = m[1].toLowerCase();
      tests.push(m[2] === ">" ? x => x[key] > limit : x => x[key] < limit);
    } else if ((m = /^(kind|stage|layer|phase|reason|name|type):(.+)$/i.exec(term))) {
      const key = m[1].toLowerCase(), value = m[2].toLowerCase();
      if (key === "stage" || key === "layer") tests.push(x => String(x[key]) === value);
      else if (key === "kind") tests.push(x => x.kind.toLowerCase().startsWith(value) || value === "reshard" && x.reshard || value === "communication" && x.communication);
      else tests.push(x => String(x[key]).toLowerCase().includes(value));
    } else { const word = term.toLowerCase(); tests.push(x => x.text.includes(word)); }
  }
  return { tests };
}

function runSearch() {
  const query = $("search").value.trim(), box = $("results");
  if (!query) { box.hidden = true; search.hits = []; return; }
  const { tests, error } = parseQuery(query);
  search.hits = [];
  if (tests) {
    const exact = query.replace(/^%/, "").toLowerCase();
    const rank = x => { const n = x.name.toLowerCase().replace(/^%/, ""); return n === exact ? 0 : n.startsWith(exact) ? 1 : 2; };
    search.hits = searchItems().filter(x => tests.every(t => t(x)));
    const byCost = /cost[<>]|kind:(reshard|communication)/i.test(query);
    search.hits = search.hits.map((x, i) => [x, rank(x), i]).sort((a, b) => a[1] - b[1] || (byCost ? b[0].cost - a[0].cost : 0) || a[2] - b[2]).map(x => x[0]);
  }
  search.at = 0;
  box.hidden = false;
  showHits(error);
}

function showHits(error) {
  const most = 100;
  replace($("results"), h("div", { class: "count" }, error || `${count(search.hits.length)} found${search.hits.length > most ? `, the first ${most} shown` : ""}`),
    search.hits.slice(0, most).map((x, i) => h("div", { class: "hit", role: "option", "aria-selected": i === search.at, "data-sel": x.sel, onmousedown: e => { e.preventDefault(); choose(i); } },
      h("b", {}, x.name), h("span", {}, x.kind + (x.more ? " · " + x.more : "")), h("span", {}, `${x.stage >= 0 ? "s" + x.stage : ""} ${x.phase} ${x.cost ? seconds(x.cost) : ""}`))));
}

function choose(i) {
  const hit = search.hits[i];
  if (!hit) return;
  $("results").hidden = true;
  $("search").blur();
  openAndSelect(hit.sel);
}

function setUpSearch() {
  const input = $("search");
  let timer;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(runSearch, O.kind.length > 5000 ? 90 : 0); });
  input.addEventListener("focus", () => { if (input.value.trim()) runSearch(); });
  input.addEventListener("blur", () => { $("results").hidden = true; });
  input.addEventListener("keydown", e => {
    e.stopPropagation();
    if (e.key === "Escape") { input.value = ""; runSearch(); input.blur(); }
    else if (e.key === "Enter") { clearTimeout(timer); if ($("results").hidden || !search.hits.length) runSearch(); choose(search.at); }
    else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      const n = Math.min(100, search.hits.length);
      if (n) { search.at = (search.at + (e.key === "ArrowDown" ? 1 : n - 1)) % n; showHits(); const hit = $("results").querySelector('[aria-selected="true"]'); if (hit) hit.scrollIntoView({ block: "nearest" }); }
    }
  });
}
