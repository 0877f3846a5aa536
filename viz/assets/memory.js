// Memory of one device of each stage over the step, with the limit, the peak by kind, and the largest values alive at the peak.

const memoryOf = stage => P.stages[stage].memory;
const peakOf = stage => Math.max(memoryOf(stage).arena, ...memoryOf(stage).timeline.map(t => t[1]));
const KINDS = ["parameter", "optimizer", "gradient", "data", "activation", "temporary", "communication"];
/** The colour of a kind of buffer, called in the singular or the plural. */
const kindColour = kind => `var(--k-${KINDS.find(k => kind.startsWith(k.slice(0, 8))) || "temporary"})`;

/** The stage whose memory is told: the selected one, or the fullest. */
function memoryStage() {
  if (focus && focus.stage >= 0 && P.stages[focus.stage]) return focus.stage;
  return P.stages.reduce((best, _, i) => peakOf(i) > peakOf(best) ? i : best, 0);
}

function drawMemory() {
  const body = $("memory");
  if (!P.stages.length) return replace(body, h("p", { class: "empty" }, "The plan has no stages."));
  const stage = memoryStage(), m = memoryOf(stage);
  $("memory-about").textContent = `stage ${stage} · ${bytes(m.arena)} a device`;
  const kinds = m.at_peak.filter(([, b]) => b > 0), total = sum(kinds.map(k => k[1]));
  const bar = h("div", { class: "bar", title: "At the peak" }, kinds.map(([kind, b]) => h("i", { style: `width:${100 * b / Math.max(1, total)}%;background:${kindColour(kind.toLowerCase())}`, title: `${kind} ${bytes(b)}` })));
  const keys = h("div", { class: "keys" }, kinds.map(([kind, b]) => h("span", {}, h("span", { class: "swatch", style: `background:${kindColour(kind.toLowerCase())}` }), `${kind} ${bytes(b)}`)));
  const rows = m.largest.map(([name, kind, b, value]) => ({ name, kind, bytes: b, value }));
  const largest = rows.length ? h("div", {}, h("h4", { style: "font-size:12px;color:var(--soft);margin:10px 0 2px" }, `Largest at the peak (${m.peak_moment})`),
    table({ name: "memory", rows, columns: [{ name: "value", of: r => r.name }, { name: "kind", of: r => r.kind }, { name: "bytes", of: r => r.bytes, text: r => bytes(r.bytes), number: true }],
      pick: r => r.value >= 0 ? "value:" + r.value : "", marked: r => focus && focus.values.includes(r.value) })) : null;
  replace(body, memoryChart(stage), kinds.length ? bar : null, keys, arenaStrip(stage), largest,
    m.overhead ? h("p", { class: "empty" }, `Beside the arena: ${bytes(m.overhead)} for the device's library and the process.`) : null);
}

function memoryChart(stage) {
  const width = Math.max(220, $("memory").clientWidth - 26), height = 112, left = 54, top = 12, w = width - left - 4, high = height - top - 18;
  const limit = memoryOf(stage).limit;
  const top1 = Math.max(1, ...P.stages.map((_, i) => peakOf(i)));
  const shown = limit > 0 && limit <= top1 * 2.5;
  const most = shown ? Math.max(limit, top1) * 1.04 : top1 * 1.12;
  const y = b => top + high * (1 - b / most);
  const svg = s("svg", { id: "memory-chart", width, height, role: "img", "aria-label": "Memory over the step" });
  for (const part of [0, 0.5, 1]) svg.append(s("line", { class: "grid-line", x1: left, x2: width - 4, y1: y(most * part), y2: y(most * part) }), s("text", { class: "faint", x: left - 5, y: y(most * part) + 3, "text-anchor": "end" }, bytes(Math.round(most * part))));
  const order = P.stages.map((_, i) => i).filter(i => i !== stage).concat(stage);
  for (const i of order) {
    const list = memoryOf(i).timeline;
    if (!list.length) continue;
    const x = k => left + w * k / list.length;
    const line = list.map(([, b], k) => `${k ? "L" : "M"}${x(k).toFixed(1)} ${y(b).toFixed(1)}L${x(k + 1).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    if (i === stage) {
      svg.append(s("path", { class: "memory-area", d: `${line}L${x(list.length)} ${y(0)}L${left} ${y(0)}z` }));
      const peak = list.reduce((best, t, k) => t[1] > list[best][1] ? k : best, 0);
      svg.append(s("circle", { class: "peak", cx: x(peak + 0.5), cy: y(list[peak][1]), r: 3.2 }, s("title", {}, `peak: ${list[peak][0]}, ${bytes(list[peak][1])}`)));
      list.forEach(([moment, b, phase, m, value], k) => {
        const sel = value >= 0 ? "value:" + value : phase >= 0 ? `run:${stage}.${phase}.${Math.max(0, m)}` : "";
        const own = value >= 0 && focus && focus.values.includes(value);
        const around = focus && focus.stage === stage && focus.phase === phase && (m < 0 || focus.microbatch < 0 || focus.microbatch === m);
        if (own || around) svg.append(s("rect", { class: own ? "moment-own" : "moment-around", x: x(k), y: top, width: Math.max(own ? 2 : 0.5, w / list.length), height: high, style: `fill:var(--accent);opacity:${own ? 0.75 : 0.12}` }));
        if (k && phase !== list[k - 1][2] && m < 0) svg.append(s("line", { class: "grid-line", x1: x(k), x2: x(k), y1: top, y2: top + high }));
        if (list.length <= 2000) svg.append(s("rect", { class: "moment", "data-moment": moment, x: x(k), y: top, width: w / list.length, height: high, style: "fill:transparent;cursor:pointer", onclick: () => sel && select(sel) }, s("title", {}, `${moment}: ${bytes(b)}`)));
      });
    }
    svg.append(s("path", { class: "memory-line" + (i === stage ? " focus" : ""), d: line, "pointer-events": "none" }, s("title", {}, "stage " + i)));
  }
  if (shown) svg.append(s("line", { class: "limit", x1: left, x2: width - 4, y1: y(limit), y2: y(limit) }), s("text", { class: "faint", x: width - 6, y: y(limit) - 3, "text-anchor": "end" }, `limit ${bytes(limit)}`));
  else if (limit) svg.append(s("text", { class: "faint", x: width - 6, y: 9, "text-anchor": "end" }, `limit ${bytes(limit)}, above the chart`));
  const list = memoryOf(stage).timeline;
  if (!list.length) svg.append(s("text", { class: "soft", x: left + 8, y: top + 20 }, "no timeline in the plan"));
  momentLabels(svg, list, left, w, height - 4);
  return svg;
}

/** Names of the phases under their moments; the ends when moments are whole phases. */
function momentLabels(svg, list, left, w, y) {
  const label = (k, text, anchor) => svg.append(s("text", { class: "faint", x: left + w * k / list.length, y, "text-anchor": anchor }, text));
  if (!list.length) return;
  if (list.every(t => t[2] >= 0 && t[3] < 0)) {
    for (let k = 0; k < list.length;) {
      let end = k;
      while (end < list.length && list[end][2] === list[k][2]) end++;
      if ((end - k) / list.length * w > 40) label((k + end) / 2, PHASES[list[k][2]], "middle");
      k = end;
    }
  } else {
    label(0, list[0][0], "start");
    label(list.length, list[list.length - 1][0], "end");
  }
}

/** The arena by offset, with the selected values' buffers marked. */
function arenaStrip(stage) {
  const list = P.stages[stage].buffers, arena = memoryOf(stage).arena;
  if (!list.length || !arena) return null;
  const width = Math.max(220, $("memory").clientWidth - 26);
  const svg = s("svg", { width, height: 34, role: "img", "aria-label": "The arena", style: "margin-top:6px" });
  const drawn = list.filter(b => b[3] / arena * width > 0.4);
  for (const b of drawn.sort((p, q) => (q[5] ? 1 : 0) - (p[5] ? 1 : 0) || q[3] - p[3])) svg.append(bufferRect(b, arena, width, 14, 16, false));
  const own = focus ? list.filter(b => b[6] >= 0 && focus.values.includes(b[6])) : [];
  for (const b of own) svg.append(bufferRect(b, arena, width, 12, 20, true));
  svg.append(s("text", { class: "faint", x: 0, y: 9 }, own.length ? own.slice(0, 2).map(b => `${b[0]}: ${b[1]}, ${bytes(b[3])}${b[4] > 1 ? ` in ${b[4]} slots` : ""} at ${bytes(b[2])}`).join("; ") : `arena, ${plural(list.length, "buffer")} by offset`));
  return svg;
}

function bufferRect(b, arena, width, y, height, own) {
  return s("rect", { x: width * b[2] / arena, y, width: Math.max(own ? 3 : 0.4, width * b[3] / arena), height, style: `fill:${kindColour(b[1])};stroke:${own ? "var(--accent)" : "var(--panel)"};stroke-width:${own ? 2 : 0.4};cursor:pointer`, onclick: () => b[6] >= 0 && select("value:" + b[6]) },
    s("title", {}, `${b[0]}: ${b[1]}, ${bytes(b[3])}${b[4] > 1 ? ` in ${b[4]} slots` : ""} at ${count(b[2])}${b[5] ? ", kept between steps" : ""}`));
}

function setUpMemory() {
  append($("memory-controls"), [h("button", { title: "Save the chart", onclick: () => { const svg = $("memory-chart"); if (svg) saveSvg(svg, "memory.svg"); } }, "SVG"), maximal("memory-panel")]);
  views.push(changes => { if ("sel" in changes) drawMemory(); });
}
