// What is selected and how views are set: one object, written to the URL's fragment, read by every view.
//
// A selection is text: `op:12`, `value:3`, `group:5`, `node:s0.l1.p1` (a part of the graph), `run:0.1.3` (stage, phase, microbatch), `comm:7`.

const state = { sel: "", open: new Set(), tab: "selection", schedule: P.schedule.kind, theme: "", dims: "", zoom: 1, filter: "" };
const views = [];
let focus = null;

/** What a selection means for the views: ops, values, the value to draw, and the stage, phase and microbatch it is at. */
function focusOf(sel) {
  const f = { ops: new Set(), values: [], value: -1, stage: -1, phase: -1, layer: -1, microbatch: -1 };
  const at = op => { f.stage = O.stage[op]; f.phase = O.phase[op]; f.layer = O.layer[op]; };
  const [kind, rest] = [sel.slice(0, sel.indexOf(":")), sel.slice(sel.indexOf(":") + 1)];
  const n = Number(rest);
  const known = (list, i) => Number.isInteger(i) && i >= 0 && i < list.length;
  if (kind === "op" && known(O.kind, n)) {
    f.ops.add(n);
    f.values = O.results[n];
    at(n);
  } else if (kind === "value" && known(V.name, n)) {
    f.values = [n];
    if (V.op[n] >= 0) { f.ops.add(V.op[n]); at(V.op[n]); }
    else if (users[n].length) at(users[n][0]);
    else f.stage = stagesOf(n)[0] ?? -1;
  } else if (kind === "group" && known(P.groups, n)) {
    const g = P.groups[n];
    g.ops.forEach(op => f.ops.add(op));
    f.values = g.values;
    if (g.ops.length) at(g.ops[0]);
    f.stage = g.stage;
  } else if (kind === "node" && nodes.has(rest)) {
    const node = nodes.get(rest);
    node.ops.forEach(op => f.ops.add(op));
    Object.assign(f, { stage: node.stage, phase: node.phase, layer: node.layer });
  } else if (kind === "run") {
    const [stage, phase, m] = rest.split(".").map(Number);
    if (!known(P.stages, stage) || !known(PHASES, phase)) return null;
    Object.assign(f, { stage, phase, microbatch: m });
  } else if (kind === "comm" && known(P.communication, n)) {
    const c = P.communication[n];
    if (c.value >= 0) { f.values = [c.value]; if (V.op[c.value] >= 0) f.ops.add(V.op[c.value]); }
    Object.assign(f, { stage: c.stage, phase: c.phase });
    if (c.value >= 0 && V.op[c.value] >= 0) f.layer = O.layer[V.op[c.value]];
  } else return null;
  f.value = f.values.length ? f.values[f.values.length - 1] : -1;
  return f;
}

/** Selects, and shows it everywhere. */
function select(sel, keepTab) {
  const changed = { sel };
  if (!keepTab) changed.tab = "selection";
  set(changed);
}

/** Changes some of the state and draws what depends on it. */
function set(changes) {
  Object.assign(state, changes);
  focus = state.sel ? focusOf(state.sel) : null;
  if (!focus) state.sel = "";
  for (const view of views) view(changes);
  const text = fragment();
  if (text !== location.hash) history.replaceState(null, "", text || location.pathname + location.search);
}

function fragment() {
  const parts = [];
  const add = (key, value, standard) => { if (value !== standard && value !== "") parts.push(key + "=" + encodeURIComponent(value)); };
  add("sel", state.sel, "");
  add("tab", state.tab, "selection");
  add("schedule", state.schedule, P.schedule.kind);
  add("open", [...state.open].sort().join(","), defaultOpen);
  add("dims", state.dims, "");
  add("theme", state.theme, "");
  return parts.length ? "#" + parts.join("&") : "";
}

function readFragment() {
  const changes = { sel: "", tab: "selection", schedule: P.schedule.kind, dims: "", theme: "", open: new Set(defaultOpen.split(",").filter(Boolean)) };
  for (const part of location.hash.slice(1).split("&")) {
    const [key, raw] = [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)];
    let value;
    try { value = decodeURIComponent(raw); } catch { continue; }
    if (key === "open") changes.open = new Set(value.split(",").filter(id => nodes.has(id)));
    else if (key === "theme" && ["dark", "light"].includes(value)) changes.theme = value;
    else if (key === "schedule" && ["gpipe", "1f1b"].includes(value)) changes.schedule = value;
    else if (["sel", "tab", "dims"].includes(key)) changes[key] = value;
  }
  return changes;
}
