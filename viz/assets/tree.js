// The graph as a tree: stage → layer (identical neighbours folded) → phase → decision → op. Built once; what is drawn depends on what is open.

/** All parts by id: `s0`, `s0.l3`, `s0.f3` (a fold that starts at layer 3), `s0.l3.p1`, `s0.l3.p1.g12`, `o55`, `v7` (an argument), `….c0` (a run of many). */
const nodes = new Map();
const MOST_CHILDREN = 160;

function addNode(id, type, parent, more) {
  const node = { id, type, parent, children: [], ops: [], stage: parent ? parent.stage : -1, phase: parent ? parent.phase : -1, layer: parent ? parent.layer : -1, first: Infinity, ...more };
  nodes.set(id, node);
  if (parent) parent.children.push(node);
  return node;
}

const root = addNode("root", "root", null, {});
P.stages.forEach((_, i) => addNode("s" + i, "stage", root, { stage: i, title: "stage " + i }));

/** Per op its leaf. */
const leafOf = new Array(O.kind.length);
const argumentLeaf = new Map();

(function build() {
  const part = (stage, layer, phase) => {
    const id = `s${stage}.l${layer}.p${phase}`;
    if (nodes.has(id)) return nodes.get(id);
    const stageNode = nodes.get("s" + stage) || addNode("s" + stage, "stage", root, { stage, title: "stage " + stage });
    const row = nodes.get(`s${stage}.l${layer}`) || addNode(`s${stage}.l${layer}`, "row", stageNode, { layer, title: layerName(layer) });
    return addNode(id, "phase", row, { phase, title: PHASES[phase] });
  };
  for (let op = 0; op < O.kind.length; op++) {
    let parent = part(O.stage[op], O.layer[op], O.phase[op]);
    const g = O.group[op];
    if (g >= 0 && P.groups[g].ops.length > 1) {
      const id = parent.id + ".g" + g;
      parent = nodes.get(id) || addNode(id, "group", parent, { group: g });
    }
    leafOf[op] = addNode("o" + op, "op", parent, { op, group: g, first: op });
    for (let n = leafOf[op]; n; n = n.parent) { n.ops.push(op); if (op < n.first) n.first = op; }
  }
  V.op.forEach((op, v) => {
    if (op >= 0 || !users[v].length) return;
    const user = users[v][0];
    const parent = part(O.stage[user], O.layer[user], O.phase[user]);
    argumentLeaf.set(v, addNode("v" + v, "input", parent, { value: v, first: user - 0.5 }));
  });
  for (const node of [...nodes.values()]) {
    if (node.type === "stage") foldLayers(node);
    if (node.type === "phase") node.children.sort((a, b) => a.first - b.first);
    if ((node.type === "phase" || node.type === "group") && node.children.length > MOST_CHILDREN) chunk(node);
    if (node.type === "group") node.title = groupTitle(node);
    if (node.type === "row") node.children.sort((a, b) => a.phase - b.phase);
  }
})();

/** Layers that repeat (one kind, or a short pattern of kinds) become folds, one for each place in the pattern, which open together. */
function foldLayers(stage) {
  stage.children.sort((a, b) => a.layer - b.layer);
  const all = stage.children, kinds = all.map(row => P.layers[row.layer] ? P.layers[row.layer][1] : -1 - row.layer);
  stage.rows = [];
  for (let i = 0; i < all.length;) {
    let period = 1, times = 1;
    for (let p = 1; p <= 8; p++) {
      let r = 1;
      while (i + (r + 1) * p <= all.length && kinds.slice(i, i + p).every((k, o) => k === kinds[i + r * p + o])) r++;
      if (r > 1 && r * p > (times > 1 ? times * period : 1)) [period, times] = [p, r];
    }
    if (times === 1) { stage.rows.push(all[i++]); continue; }
    let leader = null;
    for (let o = 0; o < period; o++) {
      const rows = Array.from({ length: times }, (_, r) => all[i + o + r * period]);
      const fold = { id: `s${stage.stage}.f${rows[0].layer}`, type: "fold", parent: stage, rows, stage: stage.stage, layer: rows[0].layer, phase: -1, first: rows[0].first, ops: rows.flatMap(r => r.ops), children: rows };
      fold.title = `${rows[0].title} … ${rows[times - 1].title}`;
      fold.leader = leader ||= fold;
      nodes.set(fold.id, fold);
      rows.forEach(r => r.fold = fold);
      stage.rows.push(fold);
    }
    i += period * times;
  }
}

/** A part with very many children shows them in runs. */
function chunk(node) {
  const all = node.children;
  const size = Math.max(40, Math.ceil(Math.sqrt(all.length)));
  node.children = [];
  for (let i = 0; i < all.length; i += size) {
    const members = all.slice(i, i + size);
    const run = { id: `${node.id}.c${i / size}`, type: "group", parent: node, children: members, ops: members.flatMap(m => m.ops), stage: node.stage, phase: node.phase, layer: node.layer, first: members[0].first, group: -1 };
    run.title = `${members.length} parts from ${members[0].op >= 0 ? opName(members[0].op) : members[0].id}`;
    members.forEach(m => m.parent = run);
    nodes.set(run.id, run);
    node.children.push(run);
  }
}

/** A decision is called after its weightiest op, and what the model calls it. */
function groupTitle(node) {
  const rank = op => /^(dot_general|convolution)/.test(kindOf(op)) ? 3 : /^(reduce|scatter|gather|sort)/.test(kindOf(op)) ? 2 : /^(constant|iota|broadcast|reshape)/.test(kindOf(op)) ? 0 : 1;
  const main = node.ops.reduce((best, op) => rank(op) > rank(best) ? op : best, node.ops[0]);
  return purpose(main) || `${kindOf(main)} ${opName(main)}`;
}

const defaultOpen = (() => {
  const open = [];
  const rows = root.children.map(stage => stage.rows ? stage.rows.length : 0);
  if (sum(rows) <= 120) root.children.forEach(stage => open.push(stage.id));
  else if (root.children[0]) open.push(root.children[0].id);
  return open.sort().join(",");
})();

/** The rows a stage shows: folds that are open show their layers. */
function rowsOf(stage) {
  const rows = (stage.rows || []).flatMap(row => row.type === "fold" && state.open.has(row.leader.id) ? row.rows : [row]);
  return rows.sort((a, b) => a.layer - b.layer);
}

/** The phases of a row or of a fold's first layer. */
const phasesOf = row => row.type === "fold" ? row.rows[0].children : row.children;

/** The smallest drawn part that a leaf is in. */
function shownPart(leaf) {
  const path = [];
  for (let n = leaf; n && n !== root; n = n.parent) path.push(n);
  path.reverse();
  if (!path.length || !state.open.has(path[0].id)) return path[0] || null;
  let shown = path[1];
  let i = 2;
  if (shown && shown.fold && !state.open.has(shown.fold.leader.id)) {
    const first = shown.fold.rows[0];
    if (shown !== first) return first.children.find(p => p.phase === leaf.phase) || first.children[0];
  }
  shown = path[i];
  while (shown && state.open.has(shown.id) && path[i + 1]) shown = path[++i];
  return shown || path[1];
}

/** Opens everything around a part. */
function reveal(node) {
  const open = new Set(state.open);
  for (let n = node.parent; n && n !== root; n = n.parent) {
    if (n.type === "row") { if (n.fold && n.fold.rows[0] !== n) open.add(n.fold.leader.id); }
    else open.add(n.id);
  }
  return open;
}

/** Opens or closes a part; closing closes what is inside. */
function toggle(node, want) {
  const open = new Set(state.open);
  const now = want === undefined ? !open.has(node.id) : want;
  if (now) open.add(node.id);
  else for (const id of [...open]) if (id === node.id || id.startsWith(node.id + ".")) open.delete(id);
  set({ open });
}
