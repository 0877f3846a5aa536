// The plan as the views read it: lookups over the view-model's columns, and costs of sets of ops.

const P = JSON.parse($("plan").textContent);
$("plan").textContent = "";

const PHASES = ["before", "forward", "backward", "update"];
const V = P.values, O = P.ops;

/** For every value the ops that read it. */
const users = V.name.map(() => []);
O.operands.forEach((operands, op) => {
  for (const v of operands) {
    const list = users[v];
    if (list && list[list.length - 1] !== op) list.push(op);
  }
});

const roles = new Map(V.roles);
const outputNames = new Map();
for (const [v, name] of P.outputs) outputNames.set(v, (outputNames.has(v) ? outputNames.get(v) + ", " : "") + name);

const kindOf = op => O.kinds[O.kind[op]];
const placeOf = op => O.places[O.place[op]];
const typeOf = v => P.types[V.type[v]];
const bytesOf = v => typeOf(v).shape.reduce((a, b) => a * b, typeOf(v).element);
const layerName = l => P.layers[l] ? P.layers[l][0] : "layer " + l;
const opName = op => O.results[op].length ? V.name[O.results[op][0]] : "op" + op;

/** What an op is for: the last part of its name in the model, or its kind. */
function purpose(op) {
  const place = placeOf(op).split(" · ").find((part, i) => !part.startsWith("through ") && !(i === 0 && /:\d+$/.test(part)));
  return place ? place.replace(/^\S+:\d+ /, "").split("/").filter(part => !/^(jit|jvp|transpose|vmap|checkpoint|remat)\b.*\(.*\)$/.test(part)).slice(-2).join("/") : "";
}

/** The shape of a type as `16×128×f32`. */
function shortType(v) {
  const text = typeOf(v).text;
  return text.startsWith("tensor<") ? text.slice(7, -1).replace(/(\d)x/g, "$1×") : text;
}

/** A value's sharding in a stage, or null. */
function shardingOf(v, stage) {
  const column = V.sharding[stage];
  return column && column[v] >= 0 ? P.stages[stage].shardings[column[v]] : null;
}

/** The stages that hold a value. */
const stagesOf = v => P.stages.map((_, i) => i).filter(i => V.sharding[i][v] >= 0);

const axisColour = axis => `var(--axis${axis % 6})`;
const axisName = (stage, axis) => { const a = P.stages[stage].axes[axis]; return a ? a[0] : axis === 4294967295 ? "mb" : "?"; };

/** [compute, communication, reshard] of a decision's chosen candidate. */
function groupCost(g) {
  const c = P.groups[g].candidates[P.groups[g].chosen];
  return c ? [c[1], c[2], c[3]] : [0, 0, 0];
}

/** The summed cost of the decisions that some ops belong to. */
function costOf(ops) {
  const total = [0, 0, 0], seen = new Set();
  for (const op of ops) {
    const g = O.group[op];
    if (g < 0 || seen.has(g)) continue;
    seen.add(g);
    groupCost(g).forEach((x, i) => total[i] += x);
  }
  return total;
}

const sum = list => list.reduce((a, b) => a + b, 0);

/** The decisions that decide a value. */
function groupsOfValue(v) {
  if (!groupsOfValue.index) {
    groupsOfValue.index = new Map();
    P.groups.forEach((g, i) => g.values.forEach(x => {
      if (!groupsOfValue.index.has(x)) groupsOfValue.index.set(x, []);
      groupsOfValue.index.get(x).push(i);
    }));
  }
  return groupsOfValue.index.get(v) || [];
}

/** Coordinates of a device of a stage, one per axis. */
function coordinates(stage, device) {
  const axes = P.stages[stage].axes, c = [];
  for (let i = axes.length - 1; i >= 0; i--) { c[i] = device % axes[i][1]; device = Math.floor(device / axes[i][1]); }
  return c;
}

const meshSize = stage => P.stages[stage].axes.reduce((n, a) => n * a[1], 1);
const meshText = stage => P.stages[stage].axes.map(a => `${a[0]}=${a[1]}`).join(", ") || "one device";
const meshSizes = stage => P.stages[stage].axes.map(a => a[1]).join("×") || "1";

/** Block number and number of blocks of a dimension on a device. */
function blockOf(stage, axes, at) {
  let i = 0, n = 1;
  for (const a of axes) {
    const size = (P.stages[stage].axes[a] || ["", 1])[1];
    i = i * size + (at[a] || 0);
    n *= size;
  }
  return [i, n];
}

/** From, to (cut at the end) and padding of the `i`-th of `n` blocks of `size` elements. */
function extent(size, n, i) {
  const block = Math.ceil(size / n), from = Math.min(i * block, size), to = Math.min((i + 1) * block, size);
  return { from, to, padding: block - (to - from), block };
}

/** The slice of a value that a device holds, per dimension. */
function sliceOf(v, stage, device) {
  const sharding = shardingOf(v, stage), at = coordinates(stage, device);
  return typeOf(v).shape.map((size, d) => { const [i, n] = blockOf(stage, sharding.dims[d] || [], at); return extent(size, n, i); });
}

/** Bytes of one device's block. */
function localBytes(v, stage) {
  const sharding = shardingOf(v, stage);
  return typeOf(v).shape.reduce((n, size, d) => n * Math.ceil(size / blockOf(stage, sharding.dims[d] || [], [])[1]), typeOf(v).element);
}
