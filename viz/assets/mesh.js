// The mesh: the devices of each stage with their coordinates, and the selected value as tiles with the devices that hold them.

const mesh = { lit: null };

function drawMesh() {
  const body = $("mesh");
  mesh.lit = null;
  const v = focus ? focus.value : -1;
  const stage = v >= 0 ? (shardingOf(v, focus.stage) ? focus.stage : stagesOf(v)[0] ?? -1) : focus ? focus.stage : -1;
  const sharding = v >= 0 && stage >= 0 ? shardingOf(v, stage) : null;
  $("mesh-about").textContent = v >= 0 ? `${V.name[v]} · ${shortType(v)}` : "select an op or a value to see its shards";
  mesh.caption = h("div", { class: "caption", id: "mesh-caption" });
  const parts = [];
  if (sharding) parts.push(tileView(v, stage, sharding));
  else if (v >= 0) parts.push(h("p", { class: "empty" }, "No stage holds this value between kernels: it is computed where it is read."));
  parts.push(deviceView(v, stage >= 0 ? stage : focus ? focus.stage : -1, sharding), mesh.caption);
  replace(body, parts);
  caption(sharding ? sharding.phrase + "." : "");
}

function caption(text) { mesh.caption.textContent = text; }

/** The two dimensions drawn: those chosen, or those that are cut. */
function drawnDims(shape, sharding) {
  const chosen = state.dims.split(",").filter(Boolean).map(Number);
  if (chosen.length === 2 && chosen.every(d => Number.isInteger(d) && d >= 0 && d < shape.length) && chosen[0] !== chosen[1]) return chosen;
  if (shape.length === 1) return [-1, 0];
  const isCut = shape.map((_, d) => d).filter(d => sharding.dims[d] && sharding.dims[d].length);
  const last = shape.length - 1;
  if (!isCut.length) return [last - 1, last];
  if (isCut.length === 1) return isCut[0] === last ? [last - 1, last] : [isCut[0], last];
  return [isCut[0], isCut[1]];
}

function tileView(v, stage, sharding) {
  const shape = typeOf(v).shape;
  if (!shape.length) return h("p", {}, "A scalar: ", sharding.phrase, ".");
  if (shape.some(n => n === 0)) return h("p", {}, "An empty value.");
  const [row, column] = drawnDims(shape, sharding);
  const blocks = d => d < 0 ? 1 : blockOf(stage, sharding.dims[d] || [], [])[1];
  const rows = blocks(row), columns = blocks(column);
  const chooser = (which, d) => h("select", { "aria-label": which, onchange: e => set({ dims: (which === "rows" ? [Number(e.target.value), column] : [row, Number(e.target.value)]).join(",") }) },
    shape.map((n, i) => h("option", { value: i, selected: i === d }, `dim ${i} (${n})`)));
  const controls = shape.length > 2 ? h("div", { class: "chips" }, "rows", chooser("rows", row), "columns", chooser("columns", column)) : null;
  if (rows > 32 || columns > 32) return h("div", {}, controls, h("p", {}, `${rows} by ${columns} tiles: too many to draw; hover a device below.`));
  const room = Math.max(230, $("mesh").clientWidth - 30);
  const left = row < 0 ? 8 : Math.min(120, 20 + 5.8 * Math.max(...[...Array(Math.min(rows, 32)).keys()].map(r => { const e = extent(shape[row], rows, r); return `${(sharding.dims[row] || []).map(a => axisName(stage, a)).join("")}${rows > 1 ? r : ""} ${e.from}:${e.to}`.length; }))), top = 36;
  const width = Math.min(room - left - 8, 520);
  const ratio = row < 0 ? 0.16 : Math.max(0.32, Math.min(0.62, Math.sqrt(shape[row] / shape[column]) * 0.62));
  const height = Math.max(rows * 24, Math.min(width * ratio, Math.max(76, $("mesh").clientHeight - 176)));
  const svg = s("svg", { id: "tiles", width: left + width + 8, height: top + height + 8, role: "img", "aria-label": "Shards of " + V.name[v] }, patterns());
  const held = new Map();
  for (let d = 0; d < meshSize(stage); d++) {
    const at = coordinates(stage, d);
    const where = shape.map((_, dim) => blockOf(stage, sharding.dims[dim] || [], at)[0]);
    if (where.some((b, dim) => b > 0 && dim !== row && dim !== column)) continue;
    const key = (row < 0 ? 0 : where[row]) + "," + where[column];
    if (!held.has(key)) held.set(key, []);
    held.get(key).push(d);
  }
  const cell = (size, n, i, total) => { const e = extent(size, n, i); return { ...e, at: total * i / n, length: total / n, real: total / n * (1 - e.padding / Math.max(1, e.block)) }; };
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    const y = row < 0 ? { at: 0, length: height, real: height, padding: 0, from: 0, to: 1 } : cell(shape[row], rows, r, height);
    const x = cell(shape[column], columns, c, width);
    const devices = held.get(r + "," + c) || [];
    const g = s("g", { class: "tile-group", onmouseenter: () => light(devices, v, stage), onmouseleave: () => light(null) });
    const [down, across] = tileColours(sharding, row, column, r, c, rows, columns);
    g.append(s("rect", { class: "tile", "data-devices": devices.join(" "), x: left + x.at, y: top + y.at, width: x.length, height: y.length, style: `fill:${down}` }));
    if (across) g.append(corner(left + x.at, top + y.at, x.length, y.length, across));
    if (sharding.partial.length) g.append(s("rect", { class: "hatch", x: left + x.at, y: top + y.at, width: x.real, height: y.real }));
    if (x.padding > 0) g.append(s("rect", { class: "pad", x: left + x.at + x.real, y: top + y.at, width: x.length - x.real, height: y.length }));
    if (y.padding > 0) g.append(s("rect", { class: "pad", x: left + x.at, y: top + y.at + y.real, width: x.real, height: y.length - y.real }));
    const label = ranges(devices.map(d => P.stages[stage].devices[d] ?? d));
    g.append(s("text", { class: "strong", x: left + x.at + x.length / 2, y: top + y.at + y.length / 2 + (y.length > 40 && x.length > 60 ? -2 : 4), "text-anchor": "middle" }, cut(label, x.length, 7)));
    if (y.length > 40 && x.length > 60) g.append(s("text", { class: "soft", x: left + x.at + x.length / 2, y: top + y.at + y.length / 2 + 13, "text-anchor": "middle" }, x.padding > 0 || y.padding > 0 ? "with padding" : devices.length > 1 ? (sharding.partial.length ? "partial" : "copies") : "device"));
    svg.append(g);
  }
  ruler(svg, stage, sharding, column, shape[column], columns, left, top, width, true);
  if (row >= 0) ruler(svg, stage, sharding, row, shape[row], rows, left, top, height, false);
  const others = shape.map((_, d) => d).filter(d => d !== row && d !== column && (sharding.dims[d] || []).length);
  return h("div", {}, controls, svg, others.length ? h("p", { class: "empty" }, `Drawn at the first block of ${others.map(d => "dimension " + d).join(" and ")}, also cut.`) : null);
}

/** The colours of a tile: by the axis that cuts the rows, and by the one that cuts the columns when both do; grey when none does. */
function tileColours(sharding, row, column, r, c, rows, columns) {
  const axis = d => d >= 0 && sharding.dims[d] && sharding.dims[d].length ? sharding.dims[d][0] : -1;
  const tint = (a, i, n) => `color-mix(in oklab, ${axisColour(a)} ${(26 + (n > 1 ? 40 * i / (n - 1) : 0)).toFixed(0)}%, var(--panel))`;
  const a = axis(row), b = axis(column);
  if (a >= 0) return [tint(a, r, rows), b >= 0 ? tint(b, c, columns) : ""];
  return [b >= 0 ? tint(b, c, columns) : "color-mix(in oklab, var(--faint) 26%, var(--panel))", ""];
}

/** The upper right half of a tile that two axes cut. */
function corner(x, y, w, high, colour) {
  return s("path", { d: `M${x + 1} ${y + 1}H${x + w - 1}V${y + high - 1}z`, "pointer-events": "none", style: `fill:${colour}` });
}

/** The bar along a side of the tiles: its axis's colour, its coordinates, and where each block begins. */
function ruler(svg, stage, sharding, d, size, n, left, top, length, across) {
  const axes = sharding.dims[d] || [];
  const colour = axes.length ? axisColour(axes[0]) : "var(--faint)";
  const name = axes.length ? axes.map(a => axisName(stage, a)).join("") : "";
  const place = (along, off) => across ? { x: left + along, y: top - off } : { x: left - off, y: top + along };
  for (let i = 0; i < n; i++) {
    const from = length * i / n, w = length / n;
    const p = place(from + 1, 7);
    svg.append(s("rect", { x: p.x, y: p.y, width: across ? w - 2 : 4, height: across ? 4 : w - 2, rx: 1.5, style: `fill:${colour}` }));
    const e = extent(size, n, i);
    const t = place(from + w / 2, 11);
    const label = `${name ? name + i + " " : ""}${e.from}:${e.to}`;
    svg.append(s("text", { class: "soft", x: t.x, y: across ? t.y : t.y + 4, "text-anchor": across ? "middle" : "end" }, cut(label, across ? w : left - 10, 5.6)));
  }
  const title = `dimension ${d}${axes.length ? " over " + axes.map(a => axisName(stage, a)).join(", ") : ", whole"}`;
  if (across) svg.append(s("text", { class: "faint", x: left, y: 10 }, title));
  else svg.append(s("text", { class: "faint", x: 0, y: top - 10 }, "dim " + d));
}

function deviceView(v, focusStage, sharding) {
  const wrap = h("div", { style: "display:flex;flex-wrap:wrap;gap:4px 22px;margin-top:6px" });
  const shown = P.stages.length > 6 && focusStage >= 0 ? [focusStage] : P.stages.map((_, i) => i);
  for (const stage of shown.slice(0, 12)) wrap.append(deviceGrid(stage, stage === focusStage ? v : -1, stage === focusStage ? sharding : null, focusStage >= 0 && stage !== focusStage));
  return wrap;
}

function deviceGrid(stage, v, sharding, dim) {
  const axes = P.stages[stage].axes, n = meshSize(stage);
  const columns = axes.length ? axes[axes.length - 1][1] : 1;
  const rows = Math.ceil(n / columns), small = columns > 8;
  const w = small ? 22 : 48, hgt = small ? 18 : 32, left = rows > 1 ? 34 : 4, top = 34;
  const svg = s("svg", { width: Math.max(left + columns * w + 4, 120), height: top + rows * hgt + 4, class: dim ? "device dim" : "" });
  svg.append(s("text", { class: "strong", x: 0, y: 11 }, "stage " + stage), s("text", { class: "faint", x: 48, y: 11 }, meshText(stage)));
  const last = axes.length - 1;
  for (let c = 0; c < columns && last >= 0; c++) svg.append(s("text", { x: left + c * w + w / 2, y: 28, "text-anchor": "middle", style: `fill:${axisColour(last)};font-weight:600` }, small ? c : axes[last][0] + c));
  for (let d = 0; d < Math.min(n, 4096); d++) {
    const r = Math.floor(d / columns), c = d % columns, at = coordinates(stage, d);
    if (c === 0 && rows > 1) svg.append(s("text", { x: left - 5, y: top + r * hgt + hgt / 2 + 4, "text-anchor": "end", style: `fill:${axisColour(Math.max(0, last - 1))};font-weight:600` }, axes.slice(0, last).map((a, i) => a[0] + at[i]).join("")));
    const number = P.stages[stage].devices[d] ?? d;
    const g = s("g", { class: "device", "data-device": d, "data-stage": stage, onmouseenter: () => v >= 0 && light([d], v, stage), onmouseleave: () => light(null) });
    let colours = ["var(--sunk)", ""];
    if (sharding) {
      const shape = typeOf(v).shape, [row, column] = shape.length ? drawnDims(shape, sharding) : [-1, -1];
      const b = x => x < 0 ? [0, 1] : blockOf(stage, sharding.dims[x] || [], at);
      colours = tileColours(sharding, row, column, b(row)[0], b(column)[0], b(row)[1], b(column)[1]);
    }
    g.append(s("title", {}, `device ${number}: ${axes.map((a, i) => a[0] + "=" + at[i]).join(", ")}`));
    g.append(s("rect", { class: "frame", x: left + c * w + 1, y: top + r * hgt + 1, width: w - 2, height: hgt - 2, rx: 3, style: `fill:${colours[0]}` }));
    if (colours[1]) g.append(corner(left + c * w + 1, top + r * hgt + 1, w - 2, hgt - 2, colours[1]));
    if (sharding && sharding.partial.length) { g.append(s("rect", { class: "hatch", x: left + c * w + 1, y: top + r * hgt + 1, width: w - 2, height: hgt - 2, rx: 3 })); }
    g.append(s("text", { class: small ? "" : "strong", x: left + c * w + w / 2, y: top + r * hgt + hgt / 2 + 4, "text-anchor": "middle" }, number));
    svg.append(g);
  }
  if (sharding && sharding.partial.length) svg.prepend(patterns());
  return svg;
}

/** Marks devices and the tiles that they hold, and says what they hold. */
function light(devices, v, stage) {
  for (const e of $("mesh").querySelectorAll(".lit")) e.classList.remove("lit");
  if (!devices || !devices.length) { const sharding = focus && focus.value >= 0 && focus.stage >= 0 ? shardingOf(focus.value, focus.stage) : null; return caption(sharding ? sharding.phrase + "." : ""); }
  for (const e of $("mesh").querySelectorAll(".tile")) if (e.dataset.devices.split(" ").some(d => devices.includes(Number(d)))) e.classList.add("lit");
  for (const e of $("mesh").querySelectorAll(`.device[data-stage="${stage}"]`)) if (devices.includes(Number(e.dataset.device))) e.classList.add("lit");
  const sharding = shardingOf(v, stage);
  if (!sharding) return;
  const slice = sliceOf(v, stage, devices[0]), at = coordinates(stage, devices[0]);
  const numbers = ranges(devices.map(d => P.stages[stage].devices[d] ?? d));
  const padding = slice.map((e, d) => e.padding > 0 ? `${e.padding} of dimension ${d}` : "").filter(Boolean);
  caption(`${devices.length > 1 ? "devices" : "device"} ${numbers}${devices.length === 1 ? " (" + P.stages[stage].axes.map((a, i) => a[0] + "=" + at[i]).join(", ") + ")" : ""}: [${slice.map(e => e.from + ":" + e.to).join(", ")}], ${bytes(localBytes(v, stage))}` +
    (padding.length ? `; padding ${padding.join(", ")}` : "") + (sharding.partial.length ? `; a partial ${sharding.reducer === "add" ? "sum" : sharding.reducer} over ${sharding.partial.map(a => axisName(stage, a)).join(", ")}` : ""));
}

function setUpMesh() {
  append($("mesh-controls"), [h("button", { title: "Save the tiles", onclick: () => { const svg = $("tiles") || $("mesh").querySelector("svg"); if (svg) saveSvg(svg, "shards.svg"); } }, "SVG"), maximal("mesh-panel")]);
  views.push(changes => { if ("sel" in changes || "dims" in changes) drawMesh(); });
}
