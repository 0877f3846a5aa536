// Header, legend, theme, keys, and the first drawing.

function drawHeader() {
  $("model-name").textContent = P.model || "plan";
  $("model-name").title = P.model;
  $("cluster-name").textContent = `${P.cluster.name} · ${P.cluster.device}`;
  const peak = Math.max(0, ...P.stages.map((_, i) => memoryOf(i).arena)), limit = Math.max(0, ...P.stages.map((_, i) => memoryOf(i).limit));
  const gap = Math.max(0, ...P.stages.map(st => st.solve.gap));
  const communicated = sum(P.communication.map(c => c.seconds * c.times)) / Math.max(1, P.stages.length);
  const figure = (name, value, small, over) => h("div", {}, h("dt", {}, name), h("dd", { class: over ? "over" : "" }, value, small ? h("small", {}, " " + small) : null));
  const same = P.stages.every((_, i) => meshText(i) === meshText(0));
  append($("figures"), [
    figure("step, predicted", seconds(P.schedule.step)),
    figure("stages × mesh", `${P.stages.length} × ${P.stages.length ? same ? meshSizes(0) : "various" : "–"}`, `${sum(P.stages.map((_, i) => meshSize(i)))} devices`),
    figure("microbatches", P.schedule.microbatches, P.schedule.kind === "gpipe" ? "GPipe" : P.schedule.kind === "interleaved" ? "interleaved" : "1F1B"),
    figure("bubble", percent(P.schedule.bubble)),
    figure("communication", percent(P.schedule.step ? communicated / P.schedule.step : 0), "of the step"),
    figure("peak memory", bytes(peak), limit ? `of ${bytes(limit)}` : "", limit && peak > limit),
    figure("solver gap", (100 * gap).toFixed(2) + " %")]);
}

function drawLegend() {
  const swatch = (style, text, extra) => h("span", {}, h("span", { class: "swatch " + (extra || ""), style }), text);
  const names = [];
  P.stages.forEach(st => st.axes.forEach((a, i) => { names[i] ||= a[0]; }));
  replace($("legend"),
    h("span", {}, h("b", {}, "mesh axis"), names.map((n, i) => swatch(`background:${axisColour(i)}`, n))),
    h("span", {}, swatch("", "partial, still to be reduced", "hatched"), swatch("", "padding", "padded"), swatch("background:color-mix(in oklab, var(--faint) 26%, var(--panel))", "replicated")),
    h("span", {}, h("b", {}, "phase"), PHASES.map((p, i) => swatch(`background:var(--phase${i})`, p))),
    h("span", {}, swatch("background:var(--accent-soft);border:2px solid var(--accent)", "selected"), swatch("border:2px solid var(--near)", "its neighbours")),
    h("span", {}, h("b", {}, "cost bar"), swatch("background:var(--soft)", "compute"), swatch("background:var(--warn)", "communication"), swatch("background:var(--bad)", "reshard")));
}

function applyTheme() {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
}

function toggleTheme() {
  set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
}

function showHelp() {
  const rows = [["/", "search"], ["Enter", "open or close the selected part"], ["↑ ↓", "to what an op reads, to what reads it; to the part around or inside"], ["← →", "to the neighbour"], ["Esc", "close, then select nothing"], ["f  +  -", "fit, zoom in, zoom out"], ["g", "GPipe or 1F1B"], ["1 … 5", "tabs of the details"], ["t", "dark or light"], ["?", "this help"]];
  const queries = [["softmax", "words in names, kinds, places and types"], ["/attn\\/(q|k)/", "a regular expression"], ["kind:dot stage:1", "kind, stage, layer, phase, reason, name, type"], ["kind:reshard cost>1ms", "what reshards or is resharded, and costs more than that"], ["bytes>1MiB", "results larger than that"]];
  const list = rows => h("dl", { class: "facts" }, rows.map(([k, text]) => [h("dt", {}, h("kbd", {}, k)), h("dd", {}, text)]));
  const dialog = $("help");
  replace(dialog, h("h3", {}, "Keys"), list(rows), h("h3", {}, "Search"), list(queries),
    h("p", {}, "Drag and wheel move and zoom the graph; + and a double click open a part. The address holds the selection and what is open: copy it to come back here."), h("button", { onclick: () => dialog.close() }, "Close"));
  dialog.showModal();
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  if ($("help").open) { if (e.key === "Escape") $("help").close(); return; }
  const key = e.key;
  if (key === "/") { $("search").focus(); $("search").select(); }
  else if (key === "?") showHelp();
  else if (key === "Escape") { const large = document.querySelector(".maximal"); if (large) { large.classList.remove("maximal"); } else if (state.sel) select(""); }
  else if (key.startsWith("Arrow")) stepSelection(key);
  else if (key === "Enter" && e.target.tagName !== "BUTTON") { const node = selectedNode(); if (node && (node.children.length || node.type === "fold")) toggleInPlace(node.type === "row" && node.fold ? node.fold.leader : node); else return; }
  else if (key === "f") fitGraph();
  else if (key === "+" || key === "=") zoomGraph(1.25);
  else if (key === "-") zoomGraph(1 / 1.25);
  else if (key === "t") toggleTheme();
  else if (key === "g") set({ schedule: state.schedule === "gpipe" ? "1f1b" : "gpipe" });
  else if (/^[1-5]$/.test(key)) set({ tab: TABS[key - 1][0] });
  else return;
  e.preventDefault();
}

drawHeader();
drawLegend();
setUpGraph();
setUpMesh();
setUpSchedule();
setUpMemory();
setUpDetails();
setUpSearch();
views.push(changes => { if ("theme" in changes) applyTheme(); });
$("theme").addEventListener("click", toggleTheme);
$("help-button").addEventListener("click", showHelp);
addEventListener("keydown", onKey);
addEventListener("hashchange", () => { if (location.hash !== fragment()) set(readFragment()); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
set(readFragment());
const sizes = new Map();
const observer = new ResizeObserver(entries => {
  for (const { target } of entries) {
    const size = [target.offsetWidth, target.offsetHeight], before = sizes.get(target.id);
    sizes.set(target.id, size);
    if (!before || Math.abs(before[0] - size[0]) + Math.abs(before[1] - size[1]) < 3) continue;
    ({ mesh: drawMesh, schedule: drawSchedule, memory: drawMemory })[target.id]();
  }
});
for (const id of ["mesh", "schedule", "memory"]) {
  sizes.set(id, [$(id).offsetWidth, $(id).offsetHeight]);
  observer.observe($(id));
}
document.documentElement.dataset.ready = Math.round(performance.now());
