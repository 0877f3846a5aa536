// The graph: stages side by side, layers from top to bottom, in each layer the phases from left to right; what is open is laid out inside.

const graph = { pan: { x: 20, y: 16, k: 1 }, rects: new Map(), fitted: false };
const CARD = { stage: [200, 48], phase: [156, 42], group: [156, 36], op: [156, 36], input: [156, 36] };
const LABEL = 128, GAP = 24;

/** The box of a part: its size, and where its inner boxes are, relative to it. */
function arrange(node) {
  const open = state.open.has(node.id);
  if (node.type === "stage" && open) return arrangeStage(node);
  if ((node.type === "phase" || node.type === "group") && open && node.children.length) {
    const kids = node.children.map(arrange);
    const index = new Map(node.children.map((c, i) => [c, i]));
    const { at, w, h: high } = layered(kids, innerEdges(node, index));
    kids.forEach((k, i) => { k.x = at[i].x + 12; k.y = at[i].y + 30; });
    return { node, w: Math.max(w + 24, CARD[node.type][0]), h: high + 42, kids, open: true };
  }
  const [w, high] = CARD[node.type];
  return { node, w, h: high, kids: [] };
}

function arrangeStage(stage) {
  const rows = rowsOf(stage).map(row => ({ row, phases: phasesOf(row).map(arrange) }));
  const columns = PHASES.map((_, p) => Math.max(0, ...rows.flatMap(r => r.phases.filter(b => b.node.phase === p).map(b => b.w))));
  const kids = [];
  let y = 40, wide = 0;
  for (const { row, phases } of rows) {
    const height = Math.max(42, ...phases.map(b => b.h)) + 14;
    let x = 12 + LABEL;
    const box = { node: row, x: 12, y, w: 0, h: height, kids: [], row: true };
    columns.forEach((w, p) => {
      if (!w) return;
      const b = phases.find(b => b.node.phase === p);
      if (b) { b.x = x - 12; b.y = 7; box.kids.push(b); }
      x += w + GAP;
    });
    box.w = x - GAP - 12 + 10;
    wide = Math.max(wide, x);
    kids.push(box);
    y += height + GAP - 6;
  }
  return { node: stage, w: Math.max(wide + 2, 200), h: y - 6, kids, open: true };
}

/** Edges among the children of an open part, lifted from their ops. */
function innerEdges(node, index) {
  const holder = new Map();
  for (const child of node.children) for (const op of child.ops.length ? child.ops : []) holder.set(op, child);
  const seen = new Set(), edges = [];
  const add = (a, b) => {
    const key = index.get(a) + "," + index.get(b);
    if (a !== b && !seen.has(key)) { seen.add(key); edges.push([index.get(a), index.get(b)]); }
  };
  for (const child of node.children) {
    if (child.type === "input") { for (const op of users[child.value]) if (holder.has(op)) add(child, holder.get(op)); continue; }
    for (const op of child.ops) for (const v of O.operands[op]) {
      const from = V.op[v] >= 0 ? holder.get(V.op[v]) : argumentLeaf.get(v);
      if (from && index.has(from)) add(from, child);
    }
  }
  return edges;
}

/** Edges among the drawn parts: [from, to, values, bytes]. */
function shownEdges() {
  const edges = new Map(), parts = new Array(O.kind.length);
  for (let op = 0; op < parts.length; op++) parts[op] = shownPart(leafOf[op]);
  const add = (a, b, v) => {
    if (!a || !b || a === b || contains(a, b) || contains(b, a)) return;
    const key = a.id + ">" + b.id;
    const e = edges.get(key);
    if (e) e.values.add(v); else edges.set(key, { from: a, to: b, values: new Set([v]) });
  };
  O.operands.forEach((operands, op) => { for (const v of operands) if (V.op[v] >= 0) add(parts[V.op[v]], parts[op], v); });
  for (const [v, leaf] of argumentLeaf) {
    const from = shownPart(leaf);
    if (from === leaf) for (const op of users[v]) add(from, parts[op], v);
  }
  return [...edges.values()];
}

function contains(outer, inner) {
  for (let n = inner; n; n = n.parent) if (n === outer) return true;
  return false;
}

function drawGraph() {
  const boxes = root.children.map(arrange);
  graph.rects = new Map();
  let x = 0, high = 0;
  const containers = s("g", {}), cards = s("g", {});
  for (const box of boxes) {
    box.x = x;
    box.y = 0;
    drawBox(box, 0, 0, containers, cards);
    x += box.w + 56;
    high = Math.max(high, box.h);
  }
  graph.w = x - 56;
  graph.h = high;
  const edges = s("g", {});
  const list = shownEdges();
  const near = nearParts();
  const most = list.length > 1500;
  let hidden = 0;
  for (const e of list) {
    const hot = (near.selected.has(e.from) || near.selected.has(e.to)) && (!near.values || [...e.values].some(v => near.values.has(v)));
    if (most && !hot && e.from.parent !== e.to.parent) { hidden++; continue; }
    const path = drawEdge(e, hot, farApart(e.from, e.to));
    if (path) edges.append(path);
  }
  graph.scene = s("g", {}, containers, edges, cards);
  for (const [part, kind] of near.marks) { const r = graph.rects.get(part.id); if (r) r.element.classList.add(kind); }
  const marker = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" }, s("path", { d: "M0 1 L7 4 L0 7 z", class: "arrow" }));
  graph.svg.textContent = "";
  graph.svg.append(s("defs", {}, marker), graph.scene);
  movePan();
  $("graph-about").textContent = `${plural(O.kind.length, "op")} · ${plural(P.groups.length, "decision")} · ${plural(P.layers.length, "layer")}` + (hidden ? ` · ${count(hidden)} edges shown only when selected` : "");
}

function drawBox(box, x0, y0, containers, cards) {
  const { node } = box, x = x0 + box.x, y = y0 + box.y;
  const isRow = box.row;
  const type = isRow ? "row" : node.type;
  const g = s("g", { class: `node ${type}`, "data-id": node.id, transform: `translate(${x},${y})` });
  g.append(s("title", {}, hint(node)));
  if (node.type === "fold") g.append(s("rect", { class: "card", x: 5, y: 5, width: box.w, height: box.h, rx: 6 }));
  g.append(s("rect", { class: "card", width: box.w, height: box.h, rx: type === "stage" ? 8 : 5 }));
  if (isRow) rowLabel(g, node, box);
  else if (node.type === "stage") stageCard(g, node, box);
  else partCard(g, node, box);
  graph.rects.set(node.id, { x, y, w: box.w, h: box.h, element: g });
  (box.open || isRow ? containers : cards).append(g);
  for (const kid of box.kids) drawBox(kid, x, y, containers, cards);
}

function toggleMark(g, node, x, y, open) {
  g.append(
    s("rect", { class: "toggle-hit", "data-toggle": node.id, x: x - 11, y: y - 12, width: 20, height: 18 }),
    s("text", { class: "toggle", x, y, "text-anchor": "middle", "pointer-events": "none" }, open ? "−" : "+"));
}

function stageCard(g, node, box) {
  const st = P.stages[node.stage];
  const mesh = st ? `${meshText(node.stage)}` : "";
  g.append(s("text", { class: "strong", x: 12, y: 21 }, node.title), s("text", { class: "soft", x: 64, y: 21 }, cut(mesh + (box.open && st ? ` · ${st.holds} · ${seconds(sum(st.times.slice(1, 3)))} a microbatch` : ""), box.w - 90)));
  if (!box.open) g.append(s("text", { class: "soft", x: 12, y: 38 }, node.ops.length || !st ? `${plural(node.ops.length, "op")} · ${plural(node.children.length, "layer")}` : cut(st.holds, box.w - 24)));
  toggleMark(g, node, box.w - 14, 21, box.open);
}

function rowLabel(g, node, box) {
  const n = node.type === "fold" ? node.rows.length : 1;
  const middle = box.h > 120 ? 26 : box.h / 2 - 2;
  const title = (node.type === "fold" ? node.rows[0].title : node.title).replace(/ \(.*\)$/, "");
  g.append(s("text", { class: "strong", x: 10, y: middle }, cut(title, LABEL - 34)));
  const other = n > 1 ? `×${n} identical` : P.stands[node.layer] || `${plural(node.ops.length, "op")}`;
  g.append(s("text", { class: "soft", x: 10, y: middle + 14 }, other));
  if (node.type === "fold" && node.leader === node) toggleMark(g, node, LABEL - 16, middle + 2, false);
  else if (node.fold && node.fold.leader.rows[0] === node) toggleMark(g, node.fold.leader, LABEL - 16, middle + 2, true);
}

function partCard(g, node, box) {
  if (node.type === "phase") g.append(s("rect", { width: 4, height: box.h, rx: 2, style: `fill:var(--phase${node.phase})` }));
  const cost = costOf(node.ops), total = sum(cost);
  const openable = node.children.length > 0;
  const room = box.w - 20 - (openable ? 16 : 0);
  if (node.type === "phase") {
    g.append(s("text", { class: "strong", x: 12, y: box.open ? 19 : 17 }, node.title));
    g.append(s("text", { class: "soft", x: box.open ? 76 : 12, y: box.open ? 19 : 32 }, cut(`${plural(node.ops.length, "op")} · ${seconds(total)}`, room)));
    if (!box.open) costBar(g, cost, box);
  } else {
    const first = node.type === "input" ? V.name[node.value] : node.type === "op" ? kindOf(node.op) : node.title;
    const flag = cost[2] > 0.02 * total && node.group >= 0;
    const wide = room - (flag ? 14 : 0), about = node.type === "op" ? purpose(node.op) : "";
    const title = s("text", { class: node.type === "group" ? "strong" : "", x: 9, y: 15 }, cut(first, wide, 6.2));
    if (about && first.length * 6.2 < wide - 40) title.append(s("tspan", { class: "soft" }, "  " + cut(about, wide - first.length * 6.2 - 8)));
    g.append(title);
    if (flag) g.append(s("text", { class: "flag", x: box.w - (openable ? 30 : 14), y: 15 }, s("title", {}, `resharding around it: ${seconds(cost[2])}`), "⇄"));
    if (!box.open) g.append(secondLine(node, total));
  }
  if (openable) toggleMark(g, node, box.w - 12, node.type === "phase" && !box.open ? 18 : 16, box.open);
}

/** Name, sharding and time under a card's title. */
function secondLine(node, total) {
  const line = s("text", { class: "soft", x: 9, y: 29 });
  const v = node.type === "input" ? node.value : node.type === "op" ? O.results[node.op][0] : lastValue(node);
  if (node.type === "op") line.append(cut(opName(node.op), 54) + "  ");
  if (node.type === "input") line.append(cut(roles.get(v).split(",")[0], 66) + "  ");
  if (v !== undefined) line.append(...glyph(v, node.stage));
  if (node.type === "group") line.append(`  ${plural(node.ops.length, "op")}${total ? " · " + seconds(total) : ""}`);
  return line;
}

const lastValue = node => node.group >= 0 ? P.groups[node.group].values[P.groups[node.group].values.length - 1] : undefined;

/** A sharding in a few letters: the axes that cut each dimension, `·` for whole ones, `Σ` for a partial. */
function glyph(v, stage) {
  const sharding = shardingOf(v, stage);
  if (!sharding) return [];
  const parts = ["["];
  sharding.dims.forEach((axes, d) => {
    if (d) parts.push(" ");
    if (!axes.length) parts.push("·");
    for (const a of axes) parts.push(s("tspan", { style: `fill:${axisColour(a)};font-weight:700` }, axisName(stage, a)));
  });
  parts.push("]");
  if (sharding.partial.length) parts.push(" Σ", ...sharding.partial.map(a => s("tspan", { style: `fill:${axisColour(a)};font-weight:700` }, axisName(stage, a))));
  return parts;
}

let dearest = 0;
function costBar(g, cost, box) {
  if (!dearest) for (const n of nodes.values()) if (n.type === "phase") dearest = Math.max(dearest, sum(costOf(n.ops)));
  const scale = dearest ? (box.w - 12) / dearest : 0;
  let x = 8;
  ["var(--soft)", "var(--warn)", "var(--bad)"].forEach((colour, i) => {
    const w = cost[i] * scale;
    if (w > 0.3) g.append(s("rect", { x, y: box.h - 5, width: w, height: 2.5, style: `fill:${colour}` }));
    x += w;
  });
}

function hint(node) {
  if (node.type === "op") return `${opName(node.op)} = ${kindOf(node.op)}\n${placeOf(node.op)}`;
  if (node.type === "input") return `${V.name[node.value]}: ${typeOf(node.value).text}\n${roles.get(node.value)}`;
  const [compute, communication, reshard] = costOf(node.ops);
  return `${node.title}\n${plural(node.ops.length, "op")}: compute ${seconds(compute)}, communication ${seconds(communication)}, reshard ${seconds(reshard)}`;
}

/** Edges inside a part, a layer, or between one phase of neighbouring layers are drawn plainly; the others faintly. */
function farApart(a, b) {
  if (a.parent === b.parent) return false;
  if (a.type !== "phase" || b.type !== "phase" || a.stage !== b.stage || a.phase !== b.phase) return true;
  const rows = rowsOf(nodes.get("s" + a.stage)), at = n => rows.findIndex(r => r === n.parent || r.type === "fold" && r.rows[0] === n.parent);
  return Math.abs(at(a) - at(b)) > 1;
}

/** Curves leave and enter on the sides that face each other. */
function drawEdge(e, hot, far) {
  const a = graph.rects.get(e.from.id), b = graph.rects.get(e.to.id);
  if (!a || !b) return null;
  const ax = a.x + a.w / 2, bx = b.x + b.w / 2;
  let d;
  if (b.y >= a.y + a.h - 1) {
    const y1 = a.y + a.h, y2 = b.y, t = Math.max(10, Math.min(60, (y2 - y1) / 2));
    d = `M${ax} ${y1}C${ax} ${y1 + t} ${bx} ${y2 - t} ${bx} ${y2}`;
  } else if (b.y + b.h <= a.y + 1) {
    const y1 = a.y, y2 = b.y + b.h, t = Math.max(10, Math.min(60, (y1 - y2) / 2));
    d = `M${ax} ${y1}C${ax} ${y1 - t} ${bx} ${y2 + t} ${bx} ${y2}`;
  } else {
    const right = b.x >= a.x + a.w - 1, x1 = right ? a.x + a.w : a.x, x2 = right ? b.x : b.x + b.w;
    const y1 = a.y + Math.min(a.h / 2, 24), y2 = b.y + Math.min(b.h / 2, 24), t = (right ? 1 : -1) * Math.max(10, Math.min(60, Math.abs(x2 - x1) / 2));
    d = `M${x1} ${y1}C${x1 + t} ${y1} ${x2 - t} ${y2} ${x2} ${y2}`;
  }
  const values = [...e.values];
  const path = s("path", { class: "edge" + (hot ? " hot" : far ? " far" : ""), d, "marker-end": "url(#arrow)" });
  path.append(s("title", {}, values.slice(0, 5).map(v => `${V.name[v]}: ${shortType(v)}`).join("\n") + (values.length > 5 ? `\nand ${values.length - 5} more` : "")));
  return path;
}

/** The drawn parts that show the selection, and its neighbours. */
function nearParts() {
  const marks = [], selected = new Set();
  let values = null;
  if (focus) {
    const [kind, rest] = [state.sel.slice(0, state.sel.indexOf(":")), state.sel.slice(state.sel.indexOf(":") + 1)];
    if (kind === "node") { const n = nodes.get(rest); selected.add(n); marks.push([n, "selected"]); }
    else if (kind === "run") {
      for (const n of nodes.values()) if (n.type === "phase" && n.stage === focus.stage && n.phase === focus.phase) marks.push([n, "holds"]);
    } else {
      const leaves = focus.value >= 0 && argumentLeaf.has(focus.value) ? [argumentLeaf.get(focus.value)] : [...focus.ops].map(op => leafOf[op]);
      for (const leaf of leaves) {
        const part = shownPart(leaf);
        if (!part) continue;
        selected.add(part);
        marks.push([part, part === leaf || kind === "group" ? "selected" : "holds"]);
      }
      if (kind === "op" || kind === "value") {
        const around = [];
        values = new Set(focus.values);
        for (const op of focus.ops) O.operands[op].forEach(v => values.add(v));
        for (const op of focus.ops) for (const v of O.operands[op]) around.push(V.op[v] >= 0 ? leafOf[V.op[v]] : argumentLeaf.get(v));
        for (const v of focus.values) for (const op of users[v]) around.push(leafOf[op]);
        for (const leaf of around) { const part = leaf && shownPart(leaf); if (part && !selected.has(part)) marks.push([part, "near"]); }
      }
    }
  }
  return { marks, selected, values };
}

function movePan() {
  const { x, y, k } = graph.pan;
  graph.scene.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
}

/** Fits the whole drawing, but never smaller than `least`. */
function fitGraph(least = 0.1) {
  const box = graph.svg.getBoundingClientRect();
  if (!box.width) return;
  const k = Math.max(least, Math.min(1.15, (box.width - 32) / graph.w, (box.height - 28) / graph.h));
  graph.pan = { k, x: Math.max(16, (box.width - graph.w * k) / 2), y: 14 };
  movePan();
}

function zoomGraph(factor, cx, cy) {
  const box = graph.svg.getBoundingClientRect();
  cx ??= box.width / 2;
  cy ??= box.height / 2;
  const k = Math.max(0.08, Math.min(4, graph.pan.k * factor)), r = k / graph.pan.k;
  graph.pan = { k, x: cx - (cx - graph.pan.x) * r, y: cy - (cy - graph.pan.y) * r };
  movePan();
}

/** Moves the drawing so that a part can be seen. */
function bringIntoView(id) {
  const r = graph.rects.get(id), box = graph.svg.getBoundingClientRect();
  if (!r || !box.width) return;
  const { k } = graph.pan;
  const left = graph.pan.x + r.x * k, top = graph.pan.y + r.y * k;
  if (left < 8 || left + Math.min(r.w * k, box.width) > box.width) graph.pan.x += box.width / 2 - (left + r.w * k / 2);
  if (top < 8 || top + Math.min(r.h * k, box.height) > box.height) graph.pan.y += box.height / 2 - (top + r.h * k / 2);
  movePan();
}

/** The part of the graph that the selection is, for keys. */
function selectedNode() {
  if (!focus) return null;
  if (state.sel.startsWith("node:")) return nodes.get(state.sel.slice(5));
  if (focus.value >= 0 && argumentLeaf.has(focus.value)) return argumentLeaf.get(focus.value);
  if (state.sel.startsWith("group:")) { const g = Number(state.sel.slice(6)); return [...nodes.values()].find(n => n.type === "group" && n.group === g) || leafOf[[...focus.ops][0]]; }
  return focus.ops.size ? leafOf[[...focus.ops][0]] : null;
}

const selectionOf = node => node.type === "op" ? "op:" + node.op : node.type === "input" ? "value:" + node.value : node.type === "group" && node.group >= 0 ? "group:" + node.group : "node:" + node.id;

function goTo(node) {
  set({ open: reveal(node), sel: selectionOf(node), tab: "selection" });
}

/** Arrow keys: along the data up and down, to neighbours left and right. */
function stepSelection(key) {
  const node = selectedNode();
  if (!node) return goTo(root.children[0]);
  let next = null;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const list = node.parent.type === "stage" ? rowsOf(node.parent) : node.parent.children;
    next = list[list.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
  } else if (node.type === "op" || node.type === "input") {
    if (key === "ArrowUp" && node.type === "op") {
      const v = O.operands[node.op][0];
      next = v === undefined ? null : V.op[v] >= 0 ? leafOf[V.op[v]] : argumentLeaf.get(v);
    } else if (key === "ArrowDown") {
      const v = node.type === "op" ? O.results[node.op].find(r => users[r].length) : node.value;
      next = v === undefined ? null : leafOf[users[v][0]];
    }
  } else if (key === "ArrowUp") next = node.parent === root ? null : node.parent;
  else next = node.type === "stage" ? rowsOf(node)[0] : node.children[0];
  if (next) goTo(next);
}

function setUpGraph() {
  graph.svg = s("svg", { role: "img", "aria-label": "Graph of the step" });
  $("graph").append(graph.svg);
  const button = (text, title, onclick) => h("button", { title, onclick }, text);
  append($("graph-controls"), [
    button("−", "Zoom out (-)", () => zoomGraph(1 / 1.25)), button("+", "Zoom in (+)", () => zoomGraph(1.25)), button("Fit", "Fit to the panel (f)", () => fitGraph()),
    button("Close all", "Close what is open", () => set({ open: new Set(defaultOpen.split(",").filter(Boolean)) })),
    button("SVG", "Save the drawing", () => saveSvg(graph.svg, "graph.svg")), maximal("graph-panel")]);
  let drag = null;
  graph.svg.addEventListener("pointerdown", e => { drag = { x: e.clientX, y: e.clientY, pan: { ...graph.pan }, moved: false }; });
  addEventListener("pointermove", e => {
    if (!drag) return;
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    if (Math.abs(dx) + Math.abs(dy) > 4) { drag.moved = true; graph.svg.classList.add("moving"); }
    if (drag.moved) { graph.pan.x = drag.pan.x + dx; graph.pan.y = drag.pan.y + dy; movePan(); }
  });
  addEventListener("pointerup", () => { setTimeout(() => { drag = null; }, 0); graph.svg.classList.remove("moving"); });
  graph.svg.addEventListener("wheel", e => {
    e.preventDefault();
    const box = graph.svg.getBoundingClientRect();
    zoomGraph(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.clientX - box.left, e.clientY - box.top);
  }, { passive: false });
  const nodeAt = e => { const g = e.target.closest(".node"); return g ? nodes.get(g.dataset.id) : null; };
  graph.svg.addEventListener("click", e => {
    if (drag && drag.moved) return;
    const mark = e.target.dataset && e.target.dataset.toggle;
    if (mark) return toggleInPlace(nodes.get(mark));
    const node = nodeAt(e);
    if (node) select(selectionOf(node.type === "fold" ? node.rows[0] : node));
  });
  graph.svg.addEventListener("dblclick", e => { const node = nodeAt(e); if (node && node.children.length && node.type !== "row") toggleInPlace(node); });
  views.push(changes => {
    if (!("open" in changes || "sel" in changes)) return;
    drawGraph();
    if (!graph.fitted && graph.svg.getBoundingClientRect().width) { graph.fitted = true; fitGraph(0.62); }
    if ("sel" in changes && focus) {
      const node = selectedNode(), part = node && (graph.rects.has(node.id) ? node : node.ops.length || node.type === "input" ? shownPart(node.type === "op" || node.type === "input" ? node : leafOf[node.ops[0]]) : null);
      if (part) bringIntoView(part.id);
    }
  });
}

/** Opens or closes a part so that it stays where it is on the screen. */
function toggleInPlace(node) {
  const before = graph.rects.get(node.id), { k } = graph.pan;
  toggle(node);
  const after = graph.rects.get(node.id);
  if (before && after) {
    graph.pan.x += (before.x - after.x) * k;
    graph.pan.y += (before.y - after.y) * k;
    movePan();
  }
}

/** A button that gives a panel the whole window. */
function maximal(id) {
  return h("button", { title: "The whole window (Esc returns)", onclick: () => { $(id).classList.toggle("maximal"); } }, "⤢");
}
