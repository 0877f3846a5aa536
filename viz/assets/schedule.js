// The schedule of a step: stages from top to bottom, time from left to right, a box for each phase of each microbatch.

function drawSchedule() {
  const body = $("schedule"), kind = state.schedule;
  const t = kind === "gpipe" ? P.schedule.gpipe : P.schedule.one_f_one_b;
  const planned = kind === P.schedule.kind;
  for (const b of $("schedule-controls").querySelectorAll("[data-kind]")) b.setAttribute("aria-pressed", b.dataset.kind === kind);
  if (t.left_out) return replace(body, h("p", { class: "empty" }, "Too many microbatches and stages to draw."));
  if (!t.boxes.length) return replace(body, h("p", { class: "empty" }, "The plan has no stage times."));
  const left = 54, room = Math.max(220, body.clientWidth - 24) * state.zoom, width = room - left - 6;
  const n = P.stages.length, rowHeight = Math.max(16, Math.min(52, (body.clientHeight - 90) / n)), top = 4;
  const x = time => left + width * time / t.span;
  const svg = s("svg", { id: "gantt", width: room, height: top + n * (rowHeight + 4) + 22, role: "img", "aria-label": "Schedule" });
  for (let i = 0; i <= 4; i++) {
    const at = x(t.span * i / 4);
    svg.append(s("line", { class: "grid-line", x1: at, x2: at, y1: top, y2: top + n * (rowHeight + 4) }), s("text", { class: "faint", x: at, y: top + n * (rowHeight + 4) + 13, "text-anchor": i === 4 ? "end" : i ? "middle" : "start" }, seconds(t.span * i / 4)));
  }
  for (let stage = 0; stage < n; stage++) svg.append(s("text", { class: focus && focus.stage === stage ? "strong" : "soft", x: 0, y: top + stage * (rowHeight + 4) + rowHeight / 2 + 4 }, "stage " + stage));
  for (const [stage, phase, m, start, end] of t.boxes) {
    const sel = `run:${stage}.${phase}.${m}`;
    const part = focus && focus.stage === stage && focus.phase === phase && (focus.microbatch < 0 || focus.microbatch === m);
    const w = x(end) - x(start), y = top + stage * (rowHeight + 4);
    const g = s("g", { class: "run-group", onclick: () => select(sel) });
    g.append(s("rect", { class: "run" + (state.sel === sel ? " selected" : part ? " part" : ""), "data-run": sel, x: x(start), y, width: Math.max(0.6, w), height: rowHeight, rx: 2, style: `fill:var(--phase${phase})` },
      s("title", {}, `stage ${stage}, ${PHASES[phase]}${phase === 1 || phase === 2 ? " of microbatch " + m : ""}: ${seconds(start)} to ${seconds(end)} (${seconds(end - start)})`)));
    const letter = phase === 1 ? "F" + m : phase === 2 ? "B" + m : phase === 3 ? "update" : "before";
    if (w > letter.length * 6 + 3) g.append(s("text", { x: x(start) + w / 2, y: y + rowHeight / 2 + 4, "text-anchor": "middle", "pointer-events": "none", style: "fill:#0b0e11" }, letter));
    svg.append(g);
  }
  const mine = P.schedule.kind === "interleaved" ? "interleaved" : "1F1B", name = kind === "gpipe" ? "GPipe" : mine, own = P.schedule.kind === "gpipe" ? "GPipe" : mine;
  const differs = Math.abs(t.span - P.schedule.step) > 0.02 * t.span;
  const why = differs ? ` In the drawing each stage takes the time it has while all devices work (${seconds(t.span)}, ${percent(t.bubble)} idle); the prediction also counts transfers between stages and, where stages share a processor, that they run faster while others wait.` : "";
  replace(body, svg, planned
    ? h("p", { style: "margin:4px 0 0" }, h("b", {}, `As planned: ${seconds(P.schedule.step)} a step, ${percent(P.schedule.bubble)} idle. `), h("span", { class: "empty" }, why))
    : h("p", { style: "margin:4px 0 0" }, h("b", {}, `Not what was planned: ${seconds(t.span)} a step, ${percent(t.bubble)} idle under ${name}. `), h("span", { class: "empty" }, `The same stage times in another order; the plan runs ${own}, ${seconds(P.schedule.step)} a step.`)));
}

function setUpSchedule() {
  const kind = (name, text) => h("button", { "data-kind": name, title: `Draw the stage times under ${text}`, onclick: () => set({ schedule: name }) }, text);
  append($("schedule-controls"), [kind("1f1b", P.schedule.kind === "interleaved" ? "interleaved" : "1F1B"), kind("gpipe", "GPipe"),
    h("button", { title: "Shorter", onclick: () => set({ zoom: Math.max(1, state.zoom / 2) }) }, "−"), h("button", { title: "Longer", onclick: () => set({ zoom: Math.min(64, state.zoom * 2) }) }, "+"),
    h("button", { title: "Save the drawing", onclick: () => { const svg = $("gantt"); if (svg) saveSvg(svg, "schedule.svg"); } }, "SVG"), maximal("schedule-panel")]);
  views.push(changes => { if ("sel" in changes || "schedule" in changes || "zoom" in changes) drawSchedule(); });
}
