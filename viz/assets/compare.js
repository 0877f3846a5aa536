// Strategies side by side: a table, bars of time and memory by part, and steps over sizes of the cluster. One selection runs through all of them.

const data = JSON.parse($("comparison").textContent);
const fitting = data.rows.filter(r => r.fits);
const perToken = data.unit === "token";
const TIME = ["--axis0", "--axis4", "--axis2", "--phase2", "--axis1", "--line"];
const MEMORY = ["--k-parameter", "--k-gradient", "--k-activation", "--k-temporary", "--bad"];
/** A limit that is farther off than this many times the longest bar is named, not drawn. */
const FAR = 3;
let chosen = "";

/** The strategy in the address, so that a link opens the same view. */
function fromAddress() {
  const name = decodeURIComponent(location.hash.replace(/^#s=/, ""));
  return data.rows.some(r => r.strategy === name) ? name : fitting.length ? fitting[0].strategy : "";
}

function select(name) {
  chosen = name;
  history.replaceState(null, "", "#s=" + encodeURIComponent(name));
  draw();
}

function head() {
  $("model-name").textContent = data.model;
  $("cluster-name").textContent = `${data.cluster} · ${plural(data.devices, "device")} · ${bytes(data.capacity_bytes)} each`;
  const row = data.rows.find(r => r.strategy === chosen);
  const figures = [["Batch", `${count(data.batch)}`, perToken ? plural(data.tokens, "token") : ""], ["Arithmetic", `${digits(data.flops / 1e12)} TFLOP`, "a step"]];
  if (row && row.fits) {
    figures.push(["Strategy", row.strategy, row.setting], ["Step", seconds(row.step_seconds), "predicted"], [perToken ? "Tokens" : "Examples", rate(row.tokens_per_second_per_device), "a second and device"], ["MFU", percent(row.mfu), ""], ["Memory", bytes(row.memory_bytes), "of " + bytes(data.capacity_bytes)]);
  } else if (row) {
    figures.push(["Strategy", row.strategy, row.why]);
  }
  replace($("figures"), figures.map(([name, value, about]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, about ? h("small", {}, " " + about) : null))));
}

const rate = x => x < 100 ? digits(x) : count(Math.round(x));

function rows() {
  const of = key => r => r.fits ? r[key] : -1;
  const columns = [
    { name: "strategy", keep: true, of: r => r.strategy, cell: r => [r.strategy, r.predicted_only ? h("span", { class: "tag", title: r.predicted_only }, "predicted only") : null] },
    { name: "step", number: true, of: r => r.fits ? r.step_seconds : Infinity, text: r => r.fits ? seconds(r.step_seconds) : "" },
    { name: perToken ? "tokens/s a device" : "examples/s a device", number: true, of: of("tokens_per_second_per_device"), text: r => r.fits ? rate(r.tokens_per_second_per_device) : "" },
    { name: "MFU", number: true, of: of("mfu"), text: r => r.fits ? percent(r.mfu) : "" },
    { name: "memory", number: true, of: r => r.fits ? r.memory_bytes : r.needs_bytes || Infinity, text: r => r.fits ? bytes(r.memory_bytes) : r.needs_bytes ? bytes(r.needs_bytes) : "" },
    { name: "bubble", number: true, of: of("bubble"), text: r => r.fits ? percent(r.bubble) : "" },
    { name: "exposed communication", number: true, of: r => r.fits ? r.exposed_communication_seconds / r.step_seconds : -1, text: r => r.fits ? percent(r.exposed_communication_seconds / r.step_seconds) : "" },
  ];
  if (data.price_per_hour !== null) columns.push({ name: perToken ? "price of 10⁹ tokens" : "price of 10⁹ examples", number: true, of: of("price_per_billion_tokens"), text: r => r.fits ? rate(r.price_per_billion_tokens) : "" });
  columns.push({ name: "setting, or why there is none", of: r => r.fits ? r.setting : r.why });
  replace($("rows"), table({ name: "strategies", rows: data.rows, columns, pick: r => r.strategy, marked: r => r.strategy === chosen }));
  $("rows-about").textContent = `${fitting.length} of ${data.rows.length} fit`;
}

/** Horizontal bars of parts; `limit` is a line across them. */
function bars(box, controls, list, colours, limit) {
  const lane = 20, left = 96, right = 86, top = 18, width = Math.max(420, box.clientWidth - 24), height = top + list.length * lane + 6;
  const longest = Math.max(...list.map(r => r.total)) || 1, far = limit && limit.at > FAR * longest;
  const most = limit && !far ? Math.max(longest, limit.at) : longest;
  const x = v => left + v / most * (width - left - right);
  const named = list.length ? list[0].parts.map(p => p[0]) : [];
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, patterns(),
    list.map((r, i) => {
      const y = top + i * lane;
      let at = 0;
      return s("g", { class: "hit" + (r.name === chosen ? " selected" : ""), tabindex: 0, onclick: () => select(r.name), onkeydown: e => { if (e.key === "Enter") select(r.name); } },
        s("rect", { class: "lane", x: 0, y, width, height: lane }),
        s("text", { class: "name", x: left - 8, y: y + 14, "text-anchor": "end" }, r.name),
        r.parts.map(([name, value], k) => {
          const from = at;
          at += value;
          return value > 0 ? s("rect", { x: x(from), y: y + 4, width: Math.max(0, x(at) - x(from)), height: lane - 8, style: `fill:var(${colours[k]})` }, s("title", {}, `${r.name}: ${name} ${r.text(value)} (${percent(value / r.total)})`)) : null;
        }),
        s("text", { class: "soft", x: x(r.total) + 6, y: y + 14 }, r.text(r.total)));
    }),
    limit && far ? s("text", { class: "soft", x: width - 4, y: 12, "text-anchor": "end" }, `${limit.name} ${bytes(limit.at)}, beyond the right end`) : limit ? [s("line", { class: "limit", x1: x(limit.at), x2: x(limit.at), y1: top - 4, y2: height }), s("text", { class: "soft", x: x(limit.at), y: 10, "text-anchor": "middle" }, limit.name)] : null);
  replace(box, h("div", { class: "keys" }, named.map((n, k) => h("span", {}, h("span", { class: "swatch", style: `background:var(${colours[k]})` }), n))), list.length ? drawing : h("p", { class: "empty" }, "Nothing fits."));
  replace(controls, h("button", { onclick: () => saveSvg(drawing, box.id + ".svg") }, "SVG"));
}

/** Tokens a second over devices, both in powers. */
function scaling() {
  const box = $("scaling"), points = data.scaling;
  $("scaling-about").textContent = points.length ? "the same batch on more devices" : "";
  if (points.length < 2) return replace(box, h("p", { class: "empty" }, points.length ? "There is one size only." : "Not asked for (--scaling)."));
  const names = [...new Set(points.flatMap(p => Object.keys(p.steps_seconds)))];
  const width = Math.max(520, box.clientWidth - 24), height = 330, left = 74, right = 130, top = 20, bottom = 40;
  const throughput = (p, n) => n in p.steps_seconds ? data.tokens / p.steps_seconds[n] : null;
  const values = points.flatMap(p => names.map(n => throughput(p, n)).filter(v => v !== null));
  if (!values.length) return replace(box, h("p", { class: "empty" }, "Nothing fits."));
  const [low, high] = [Math.log(Math.min(...values) * 0.8), Math.log(Math.max(...values) * 1.25)];
  const [first, last] = [Math.log(points[0].devices), Math.log(points[points.length - 1].devices)];
  const x = d => left + (Math.log(d) - first) / (last - first) * (width - left - right);
  const y = v => height - bottom - (Math.log(v) - low) / (high - low) * (height - top - bottom);
  const best = p => Object.entries(p.steps_seconds).sort((a, b) => a[1] - b[1])[0];
  const leader = best(points[points.length - 1]);
  const base = points.find(p => best(p));
  const ticks = [];
  for (let t = Math.floor(low / Math.LN10); t <= high / Math.LN10; t++) for (const k of [1, 2, 5]) { const v = k * 10 ** t; if (Math.log(v) > low && Math.log(v) < high) ticks.push(v); }
  const short = v => v >= 1e6 ? digits(v / 1e6) + " M" : v >= 1e3 ? digits(v / 1e3) + " k" : digits(v);
  const path = list => list.map(([d, v], i) => (i ? "L" : "M") + x(d).toFixed(1) + " " + y(v).toFixed(1)).join("");
  const series = names.map(n => ({ n, list: points.map(p => [p.devices, throughput(p, n)]).filter(p => p[1] !== null) }));
  const kind = n => n === chosen ? " selected" : leader && n === leader[0] ? " best" : "";
  series.sort((a, b) => kind(a.n).length - kind(b.n).length);
  const ideal = base ? [[base.devices, data.tokens / best(base)[1]], [points[points.length - 1].devices, data.tokens / best(base)[1] * points[points.length - 1].devices / base.devices]] : [];
  // Names at the right end, pushed apart.
  const ends = series.filter(l => l.list.length).map(l => ({ n: l.n, y: y(l.list[l.list.length - 1][1]), x: x(l.list[l.list.length - 1][0]) })).sort((a, b) => a.y - b.y);
  const shown = [];
  for (const e of ends) if (kind(e.n) || shown.every(o => Math.abs(o.y - e.y) > 12)) { if (kind(e.n)) for (let i = shown.length - 1; i >= 0; i--) if (Math.abs(shown[i].y - e.y) <= 12 && !kind(shown[i].n)) shown.splice(i, 1); shown.push(e); }
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" },
    s("defs", {}, s("clipPath", { id: "plot" }, s("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }))),
    ticks.map(v => [s("line", { class: "grid-line", x1: left, x2: width - right, y1: y(v), y2: y(v) }), s("text", { class: "faint", x: left - 8, y: y(v) + 4, "text-anchor": "end" }, short(v))]),
    points.map(p => [s("line", { class: "grid-line", x1: x(p.devices), x2: x(p.devices), y1: top, y2: height - bottom }), s("text", { class: "soft", x: x(p.devices), y: height - bottom + 16, "text-anchor": "middle" }, count(p.devices))]),
    s("text", { class: "soft", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, `devices${data.nodes > 1 ? " (" + points.map(p => p.nodes).join(", ") + " nodes)" : ""}`),
    s("text", { class: "soft", x: left, y: top - 2 }, perToken ? "tokens/s" : "examples/s"),
    ideal.length ? s("path", { class: "ideal", "clip-path": "url(#plot)", d: path(ideal) }, s("title", {}, "in proportion to the devices")) : null,
    series.map(l => s("g", { onclick: () => select(l.n) },
      s("path", { class: "series" + kind(l.n), d: path(l.list) }),
      l.list.map(([d, v]) => s("circle", { class: "dot" + kind(l.n), cx: x(d), cy: y(v), r: kind(l.n) ? 3.2 : 2 })),
      s("path", { class: "series wide", d: path(l.list) }, s("title", {}, `${l.n}: ` + l.list.map(([d, v]) => `${count(d)} devices ${short(v)}`).join(", "))))),
    shown.map(e => s("text", { class: kind(e.n) ? "strong" : "soft", x: e.x + 8, y: e.y + 4, style: e.n === chosen ? "fill:var(--accent)" : null }, e.n)));
  replace(box, h("div", { class: "keys" }, h("span", {}, "dashed: the best on the smallest size that fits, in proportion to the devices")), drawing);
  replace($("scaling-controls"), h("button", { onclick: () => saveSvg(drawing, "scaling.svg") }, "SVG"));
}

function draw() {
  head();
  rows();
  bars($("time"), $("time-controls"), fitting.map(r => ({ name: r.strategy, total: r.step_seconds, parts: r.parts_seconds, text: seconds })), TIME);
  const heavy = data.rows.filter(r => r.fits || r.needs_bytes).map(r => r.fits
    ? { name: r.strategy, total: r.memory_bytes, parts: [...r.memory_parts_bytes, ["does not fit", 0]], text: bytes }
    : { name: r.strategy, total: r.needs_bytes, parts: [...fitting.length ? fitting[0].memory_parts_bytes.map(p => [p[0], 0]) : [], ["does not fit", r.needs_bytes]], text: bytes });
  bars($("memory"), $("memory-controls"), heavy, fitting.length ? MEMORY : MEMORY.slice(4), { at: data.capacity_bytes, name: "capacity" });
  scaling();
}

function theme(dark) {
  if (dark) document.documentElement.dataset.theme = "dark"; else delete document.documentElement.dataset.theme;
}

$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "t") return theme(document.documentElement.dataset.theme !== "dark");
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step) return;
  const at = data.rows.findIndex(r => r.strategy === chosen);
  select(data.rows[Math.min(data.rows.length - 1, Math.max(0, at + step))].strategy);
  e.preventDefault();
});
addEventListener("hashchange", () => { if (fromAddress() !== chosen) { chosen = fromAddress(); draw(); } });
addEventListener("resize", draw);
theme(matchMedia("(prefers-color-scheme: dark)").matches);
chosen = fromAddress();
draw();
