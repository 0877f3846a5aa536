// The details panel: the selection (or the plan, when nothing is selected), and the plan's lists.

const TABS = [["selection", "Selection"], ["communication", "Communication"], ["alternatives", "Alternatives"], ["solver", "Solver"], ["notes", "Notes"]];

function drawDetails() {
  const body = $("details");
  if (!TABS.some(t => t[0] === state.tab)) state.tab = "selection";
  for (const b of $("tabs").querySelectorAll("[data-tab]")) b.setAttribute("aria-selected", b.dataset.tab === state.tab);
  const draw = { selection: selectionView, communication: communicationView, alternatives: alternativesView, solver: solverView, notes: notesView }[state.tab];
  const top = body.dataset.tab === state.tab + state.sel ? body.scrollTop : 0;
  replace(body, draw());
  body.dataset.tab = state.tab + state.sel;
  body.scrollTop = top;
}

const fact = (name, value) => value === "" || value === null || value === undefined ? null : [h("dt", {}, name), h("dd", {}, value)];
const facts = (...list) => h("dl", { class: "facts" }, list);
const linkTo = (sel, text) => h("button", { class: "link", onclick: () => openAndSelect(sel) }, text);
const valueLink = v => linkTo("value:" + v, V.name[v]);

/** Selects and opens the graph around the selection. */
function openAndSelect(sel) {
  set({ sel, tab: "selection" });
  const node = selectedNode();
  if (node) set({ open: reveal(node), sel });
}

function selectionView() {
  if (!focus) return overview();
  if (state.sel.startsWith("run:") || state.sel.startsWith("node:")) return partView();
  const one = focus.ops.size === 1 ? [...focus.ops][0] : -1;
  const parts = [];
  if (state.sel.startsWith("comm:")) parts.push(communicationHead(P.communication[Number(state.sel.slice(5))]));
  if (state.sel.startsWith("group:")) parts.push(groupHead(Number(state.sel.slice(6))));
  else if (one >= 0) parts.push(opHead(one));
  else if (focus.value >= 0) parts.push(h("h3", {}, V.name[focus.value], " ", h("span", { class: "empty" }, "argument")));
  const values = focus.values.length > 6 ? [focus.value] : focus.values;
  for (const v of values) parts.push(valueView(v, values.length > 1));
  const groups = new Set(state.sel.startsWith("group:") ? [Number(state.sel.slice(6))] : [...focus.ops].map(op => O.group[op]).filter(g => g >= 0));
  if (focus.value >= 0 && !groups.size) groupsOfValue(focus.value).forEach(g => groups.add(g));
  for (const g of groups) parts.push(decisionView(g));
  if (!groups.size && !state.sel.startsWith("comm:")) parts.push(h("div", { class: "reason" }, "No decision of its own: its sharding follows from what it is computed from and who reads it."));
  if (one >= 0) parts.push(neighbours(one));
  else if (focus.value >= 0 && users[focus.value].length) parts.push(h("h4", {}, "Read by"), links(users[focus.value].map(op => linkTo("op:" + op, `${opName(op)} ${kindOf(op)}`))));
  const comm = P.communication.filter(c => c.value >= 0 && focus.values.includes(c.value));
  if (comm.length) parts.push(h("h4", {}, "Communication"), communicationTable(comm, "communication-of-selection"));
  const buffers = focus.stage >= 0 ? P.stages[focus.stage].buffers.filter(b => b[6] >= 0 && focus.values.includes(b[6])) : [];
  if (buffers.length) parts.push(h("h4", {}, `In stage ${focus.stage}'s arena`), h("p", {}, buffers.map(b => `${b[0]}: ${b[1]}, ${bytes(b[3])}${b[4] > 1 ? ` in ${b[4]} slots` : ""} at offset ${count(b[2])}`).join("; ")));
  return parts;
}

const links = list => h("p", {}, list.slice(0, 12).flatMap((l, i) => i ? [", ", l] : [l]), list.length > 12 ? ` and ${list.length - 12} more` : "");

function opHead(op) {
  return [h("h3", {}, `${opName(op)} = ${kindOf(op)}`), facts(fact("where", placeOf(op)), fact("in", `${layerName(O.layer[op])} · stage ${O.stage[op]} · ${PHASES[O.phase[op]]}`))];
}

function groupHead(g) {
  const ops = P.groups[g].ops;
  return [h("h3", {}, `${plural(ops.length, "op")} sharded together`), facts(fact("in", focus.layer >= 0 ? `${layerName(focus.layer)} · stage ${focus.stage} · ${PHASES[focus.phase] || ""}` : ""), fact("ops", links(ops.map(op => linkTo("op:" + op, `${opName(op)} ${kindOf(op)}`)))))];
}

/** A value's type, and for each stage that has it its sharding in both texts. */
function valueView(v, named) {
  const parts = [];
  if (named) parts.push(h("h4", {}, valueLink(v)));
  parts.push(facts(fact("type", h("code", {}, typeOf(v).text)), fact("size", bytes(bytesOf(v))), fact("role", roles.get(v)), fact("result", outputNames.get(v))));
  const held = stagesOf(v);
  for (const stage of held.slice(0, 4)) {
    const sharding = shardingOf(v, stage);
    parts.push(h("p", {}, held.length > 1 ? `Stage ${stage}: ` : "", `${sharding.phrase}; each device holds ${bytes(localBytes(v, stage))}.`), copyable(sharding.text, "Copy Shardy's text"), copyable(sharding.spec, "Copy the PartitionSpec"));
  }
  if (held.length > 4) parts.push(h("p", { class: "empty" }, `and in ${held.length - 4} more stages`));
  return parts;
}

/** Why: the candidates of a decision, what each costs, and what forces another. */
function decisionView(g) {
  const group = P.groups[g], cost = c => c[1] + c[2] + c[3];
  const chosen = group.candidates[group.chosen];
  const at = Math.max(0, group.values.indexOf(focus ? focus.value : -1));
  const best = group.candidates.filter((_, i) => i !== group.chosen).reduce((b, c) => !b || cost(c) < cost(b) ? c : b, null);
  const parts = [h("h4", {}, "Why"), h("div", { class: "reason" }, h("b", {}, "What decided: " + group.reason), ". ", whyText(group, chosen, best, cost))];
  if (!chosen) return parts;
  parts.push(h("p", {}, `Cost: compute ${seconds(chosen[1])}, communication ${seconds(chosen[2])}, reshard ${seconds(chosen[3])}; ${bytes(chosen[4])} held.`));
  const rows = group.candidates.map((c, i) => ({ c, i }));
  const text = c => { const n = c[5][at]; const st = P.stages[group.stage]; return n >= 0 && st.shardings[n] ? st.shardings[n].text : ""; };
  parts.push(table({ name: "candidates", rows, chosen: r => r.i === group.chosen, columns: [
    { name: "candidate", of: r => r.c[0], cell: r => [r.i === group.chosen ? "▸ " : "", r.c[0], h("br", {}), h("code", { class: "empty" }, text(r.c))] },
    { name: "compute", of: r => r.c[1], text: r => seconds(r.c[1]), number: true },
    { name: "comm.", of: r => r.c[2], text: r => seconds(r.c[2]), number: true },
    { name: "reshard", of: r => r.c[3], text: r => seconds(r.c[3]), number: true },
    { name: "memory", of: r => r.c[4], text: r => bytes(r.c[4]), number: true },
    { name: "difference", of: r => cost(r.c) - cost(chosen), number: true, cell: r => r.i === group.chosen ? "chosen" : [(cost(r.c) >= cost(chosen) ? "+" : "−") + seconds(Math.abs(cost(r.c) - cost(chosen))), r.c[6] ? [h("br", {}), h("button", { title: "Copy " + r.c[6], "data-pin": r.c[6], onclick: e => { e.stopPropagation(); showPin(r.c); } }, "pin")] : null] }] }));
  parts.push(h("div", { id: "pin" }));
  return parts;
}

function whyText(group, chosen, best, cost) {
  if (!chosen) return "The plan names no chosen candidate.";
  if (!best) return "There was no other candidate.";
  const difference = cost(best) - cost(chosen);
  const runner = `The next is ${best[0]}, `;
  if (difference >= 0) return runner + `${seconds(difference)} dearer` + (best[4] !== chosen[4] ? ` and ${bytes(Math.abs(best[4] - chosen[4]))} ${best[4] > chosen[4] ? "larger" : "smaller"}.` : ".");
  return runner + `${seconds(-difference)} cheaper by itself; its neighbours, memory or a constraint kept it from being chosen.`;
}

/** The command-line text that forces a candidate. */
function showPin(candidate) {
  copy(candidate[6]);
  replace($("pin"), h("h4", {}, `To plan with ${candidate[0]}, add to compile`), copyable(candidate[6]));
}

function neighbours(op) {
  const value = v => [valueLink(v), h("span", { class: "empty" }, " " + shortType(v))];
  return [O.operands[op].length ? [h("h4", {}, "Reads"), h("div", {}, O.operands[op].slice(0, 12).map(v => h("div", {}, value(v))))] : null,
    O.results[op].some(v => users[v].length) ? [h("h4", {}, "Read by"), links([...new Set(O.results[op].flatMap(v => users[v]))].map(u => linkTo("op:" + u, `${opName(u)} ${kindOf(u)}`)))] : null];
}

/** A part of the graph or a box of the schedule: its costs and the instructions that run in it. */
function partView() {
  const parts = [];
  const isRun = state.sel.startsWith("run:");
  const node = isRun ? null : nodes.get(state.sel.slice(5));
  if (isRun) {
    const t = P.stages[focus.stage].times[focus.phase];
    parts.push(h("h3", {}, `Stage ${focus.stage}, ${PHASES[focus.phase]}${focus.phase === 1 || focus.phase === 2 ? ` of microbatch ${focus.microbatch}` : ""}`), facts(fact("predicted", seconds(t)), fact("mesh", meshText(focus.stage)), fact("devices", ranges(P.stages[focus.stage].devices))));
  } else {
    const [compute, communication, reshard] = costOf(node.ops);
    parts.push(h("h3", {}, node.type === "phase" ? `${layerName(node.layer)}, ${node.title}` : node.title || node.id), facts(fact("ops", count(node.ops.length)), fact("compute", seconds(compute)), fact("communication", seconds(communication)), fact("reshard", seconds(reshard)),
      node.type === "stage" && P.stages[node.stage] ? [fact("mesh", meshText(node.stage)), fact("devices", ranges(P.stages[node.stage].devices))] : null,
      node.fold ? fact("identical", node.fold.rows.map(r => r.title).join(", ")) : null));
  }
  if (focus.stage < 0 || !P.stages[focus.stage]) return parts;
  if (!isRun && node.type === "stage") parts.push(cutView(node.stage));
  if (!isRun && node.layer >= 0 && P.stands[node.layer]) parts.push(h("p", { class: "empty" }, `${layerName(node.layer)} ${P.stands[node.layer]}; costs are of all that it stands for.`));
  const phases = focus.phase >= 0 ? [focus.phase] : [0, 1, 2, 3];
  const rows = phases.flatMap(p => P.stages[focus.stage].instructions[p].map((i, n) => ({ i, n, p }))).filter(r => isRun || node.type === "stage" || r.i[6] >= 0 && V.op[r.i[6]] >= 0 && focus.ops.has(V.op[r.i[6]]));
  if (rows.length) {
    const total = sum(rows.map(r => r.i[3]));
    parts.push(h("h4", {}, `${plural(rows.length, "instruction")}, ${seconds(total)}`), table({ name: "instructions", rows, pick: r => r.i[6] >= 0 ? "value:" + r.i[6] : "", marked: r => focus.values.includes(r.i[6]), columns: [
      { name: "#", of: r => r.n, number: true }, { name: "what", of: r => r.i[0] + (r.i[1] ? " " + r.i[1] : ""), cell: r => [r.i[0], r.i[1] ? [h("br", {}), h("span", { class: "empty" }, r.i[1])] : null] },
      { name: "for", of: r => r.i[2] }, { name: "time", of: r => r.i[3], text: r => seconds(r.i[3]), number: true }, { name: "share", of: r => r.i[3] / total, text: r => total ? percent(r.i[3] / total) : "", number: true }] }));
  }
  return parts;
}

/** What a stage holds, and where else the cut before it could be. */
function cutView(stage) {
  const st = P.stages[stage];
  return [facts(fact("holds", st.holds)), st.cut.length ? [h("h4", {}, "Where the cut before it could be"), table({ name: "cut", rows: st.cut, chosen: c => c[5] === "taken", columns: [
    { name: "first layer", of: c => c[0], number: true }, { name: "step", of: c => c[1], text: c => seconds(c[1]), number: true }, { name: "slower stage", of: c => c[2], text: c => seconds(c[2]), number: true },
    { name: "crosses", of: c => c[3], text: c => seconds(c[3]), number: true }, { name: "memory", of: c => c[4] ?? Infinity, text: c => c[4] === null ? "–" : bytes(c[4]), number: true }, { name: "verdict", of: c => c[5] }] })] : null];
}

/** The plan as a whole. */
function overview() {
  const sch = P.schedule;
  return [h("h3", {}, "The plan"),
    h("p", { class: "empty" }, "Select anything in the graph, the schedule, the memory chart or a table to see it in all of them."),
    facts(fact("model", P.model), fact("cluster", `${P.cluster.name}: ${P.cluster.nodes} × ${P.cluster.devices_per_node} ${P.cluster.device}, ${bytes(P.cluster.memory)} each`),
      fact("asked for", P.request.length ? P.request.map(([k, v]) => `${k} ${v}`).join("  ") : "nothing"), fact("step", `${seconds(sch.step)} predicted`), P.stopped ? fact("search", `ended before it was done: ${P.stopped}`) : null, fact("compiler", P.compiler)),
    h("h4", {}, "Stages"),
    table({ name: "stages", rows: P.stages.map((st, i) => ({ st, i })), pick: r => "node:s" + r.i, columns: [
      { name: "stage", of: r => r.i, number: true }, { name: "layers", of: r => r.st.layers[0], text: r => `${r.st.layers[0]} to ${r.st.layers[1] - 1}` }, { name: "holds", of: r => r.st.holds }, { name: "mesh", of: r => meshSizes(r.i) }, { name: "devices", of: r => ranges(r.st.devices) },
      { name: "forward", of: r => r.st.times[1], text: r => seconds(r.st.times[1]), number: true }, { name: "backward", of: r => r.st.times[2], text: r => seconds(r.st.times[2]), number: true }, { name: "update", of: r => r.st.times[3], text: r => seconds(r.st.times[3]), number: true },
      { name: "arena", of: r => r.st.memory.arena, text: r => bytes(r.st.memory.arena), number: true }] }),
    P.outputs.some(([v]) => !typeOf(v).shape.length) ? [h("h4", {}, "Scalar results"), links(P.outputs.filter(([v]) => !typeOf(v).shape.length).map(([v, name]) => linkTo("value:" + v, name)))] : null,
    P.notes.length ? [h("h4", {}, "Notes"), P.notes.slice(0, 3).map(noteView)] : null];
}

function communicationHead(c) {
  return [h("h3", {}, `${c.kind} ${c.group}`), facts(fact("for", c.source), fact("in", `stage ${c.stage} · ${PHASES[c.phase]}`), fact("bytes", `${bytes(c.bytes)} a device${c.times > 1 ? `, ${c.times} times a step` : ""}`), fact("time", `${seconds(c.seconds)} each, ${seconds(c.seconds * c.times)} a step`))];
}

function communicationTable(list, name) {
  const index = new Map(P.communication.map((c, i) => [c, i]));
  return table({ name, rows: list, pick: c => "comm:" + index.get(c), marked: c => state.sel === "comm:" + index.get(c), columns: [
    { name: "kind", of: c => c.kind, keep: true }, { name: "group", of: c => c.group, keep: true }, { name: "where", of: c => `s${c.stage} ${["before", "fwd", "bwd", "update"][c.phase]}`, keep: true }, { name: "for", of: c => c.source, text: c => c.source.replace(/ \(.*\)$/, "") },
    { name: "bytes", of: c => c.bytes, text: c => bytes(c.bytes), number: true }, { name: "each", of: c => c.seconds, text: c => seconds(c.seconds), number: true },
    { name: "a step", of: c => c.seconds * c.times, text: c => seconds(c.seconds * c.times), number: true }] });
}

function communicationView() {
  if (!P.communication.length) return h("p", { class: "empty" }, "Nothing is communicated: the plan has one device, or its devices need nothing of each other.");
  if (!tableOrder.has("communication")) tableOrder.set("communication", { column: 6, sign: -1 });
  const kinds = new Map();
  for (const c of P.communication) {
    const k = kinds.get(c.kind) || { kind: c.kind, n: 0, bytes: 0, seconds: 0 };
    k.n += c.times; k.bytes += c.bytes * c.times; k.seconds += c.seconds * c.times;
    kinds.set(c.kind, k);
  }
  return [h("h3", {}, "Communication in a step"),
    table({ name: "communication-kinds", rows: [...kinds.values()].sort((a, b) => b.seconds - a.seconds), columns: [{ name: "kind", of: k => k.kind }, { name: "times", of: k => k.n, text: k => count(k.n), number: true }, { name: "bytes a device", of: k => k.bytes, text: k => bytes(k.bytes), number: true }, { name: "time", of: k => k.seconds, text: k => seconds(k.seconds), number: true }] }),
    h("p", { class: "empty" }, "Times are predicted, summed over all stages; stages communicate at the same time."), communicationTable(P.communication, "communication")];
}

function alternativesView() {
  if (!P.alternatives.length) return h("p", { class: "empty" }, "No other setting was considered.");
  const taken = a => a[0] === P.stages.length && a[3] === P.schedule.microbatches && P.stages.every((st, i) => a[1][i] && a[1][i][0] === st.layers[0] && a[1][i][1] === st.layers[1]) && a[2].join() === (P.stages[0] ? P.stages[0].axes.map(x => x[1]).join() : "");
  return [h("h3", {}, "Settings that were considered"), table({ name: "alternatives", rows: P.alternatives, chosen: a => /^(taken|chosen)/.test(a[6]) || taken(a), columns: [
    { name: "stages", of: a => a[0], text: a => a[0] || "–", number: true }, { name: "mesh", of: a => a[2].join("×") }, { name: "microb.", of: a => a[3], text: a => a[3] || "–", number: true }, { name: "schedule", of: a => a[8] }, { name: "recompute", of: a => a[7] },
    { name: "step", of: a => a[4] ?? Infinity, text: a => a[4] === null ? "–" : seconds(a[4]), number: true }, { name: "memory", of: a => a[5] ?? Infinity, text: a => a[5] === null ? "–" : bytes(a[5]), number: true },
    { name: "layers", of: a => a[1].map(c => c.join("-")).join(" "), cell: a => a[1].map(([f, t]) => t - 1 > f ? `${f}–${t - 1}` : f).join(", ") }, { name: "verdict", of: a => a[6] }] })];
}

function solverView() {
  return [h("h3", {}, "How the sharding problems were solved"), P.stages.map((st, i) => [h("h4", {}, "Stage " + i), facts(
    fact("status", st.solve.status), fact("objective", seconds(st.solve.objective)), fact("lower bound", seconds(st.solve.bound)), fact("gap", (100 * st.solve.gap).toFixed(2) + " %"),
    fact("size", `${plural(st.solve.nodes, "node")}, ${plural(st.solve.edges, "edge")}, ${plural(st.solve.moments, "moment")} that memory could bind at`), fact("method", st.solve.method))]), reasonsView()];
}

/** How many decisions each reason made. */
function reasonsView() {
  const reasons = new Map();
  P.groups.forEach((g, i) => { const key = g.reason.replace(/^tied to .*/, "tied to an identical layer").replace(/[:;].*$/, ""); const r = reasons.get(key) || { reason: key, n: 0, first: i }; r.n++; reasons.set(key, r); });
  if (!reasons.size) return null;
  return [h("h4", {}, "What decided"), table({ name: "reasons", rows: [...reasons.values()].sort((a, b) => b.n - a.n), pick: r => "group:" + r.first, columns: [{ name: "reason", of: r => r.reason }, { name: "decisions", of: r => r.n, text: r => count(r.n), number: true }] })];
}

function noteView([code, severity, message, place, list, help]) {
  return h("div", { class: "note " + severity }, h("b", {}, `${severity}[${code}] `), message, place ? h("div", { class: "empty" }, place) : null, list.map(n => h("div", { class: "empty" }, n)), help ? h("div", {}, "Help: " + help) : null);
}

const notesView = () => P.notes.length ? [h("h3", {}, "Notes of the compilation"), P.notes.map(noteView)] : h("p", { class: "empty" }, "The compilation left no notes.");

function setUpDetails() {
  const totals = { communication: P.communication.length, alternatives: P.alternatives.length, notes: P.notes.length };
  append($("tabs"), [TABS.map(([id, name]) => h("button", { role: "tab", "data-tab": id, onclick: () => set({ tab: id }) }, name + (totals[id] ? ` ${count(totals[id])}` : ""))), h("span", { class: "spring" }), maximal("details-panel")]);
  views.push(changes => { if ("sel" in changes || "tab" in changes) drawDetails(); });
}
