// Elements, numbers as text, copying and saving. Everything a plan names is written as text, never as markup.

const $ = id => document.getElementById(id);

/** An HTML element: attributes and on* handlers in `props`, then children (elements or text). */
function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child);
  }
}

function replace(element, ...children) {
  element.textContent = "";
  append(element, children);
}

/** Seconds with a unit, three significant digits. */
function seconds(x) {
  const a = Math.abs(x);
  if (a < 5e-9) return "0 s";
  if (a < 1e-3) return digits(x * 1e6) + " µs";
  if (a < 1) return digits(x * 1e3) + " ms";
  return digits(x) + " s";
}

/** Bytes with a binary unit, three significant digits. */
function bytes(x) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (Math.abs(x) >= 1024 && i < 4) { x /= 1024; i++; }
  return (i === 0 ? String(x) : digits(x)) + " " + units[i];
}

function digits(x) {
  const a = Math.abs(x);
  return x.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2);
}

const percent = x => (100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0) + " %";
const count = n => n.toLocaleString("en");
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");

/** `0-3,6` for ascending numbers. */
function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] + 1 === n) last[1] = n; else parts.push([n, n]);
  }
  return parts.map(([a, b]) => a === b ? a : a + "-" + b).join(",");
}

/** Text cut to a width in pixels, at `size` pixels a letter on average. */
function cut(text, width, size = 6) {
  const most = Math.max(1, Math.floor(width / size));
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

function toast(text) {
  const t = $("toast");
  t.textContent = text;
  t.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => t.classList.remove("shown"), 1400);
}

function copy(text) {
  const done = () => toast("Copied");
  if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(done, () => copyBySelection(text));
  else copyBySelection(text);
}

function copyBySelection(text) {
  const area = h("textarea", { style: "position:fixed;opacity:0" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  toast("Copied");
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = h("a", { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  toast("Saved " + name);
}

/** Saves a drawing as an SVG file of its own: the styles that it takes from the page are written into it. */
function saveSvg(svg, name) {
  const clone = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")], to = [clone, ...clone.querySelectorAll("*")];
  const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    to[i].setAttribute("style", kept.map(k => k + ":" + style.getPropertyValue(k)).join(";"));
  });
  const box = svg.getBoundingClientRect();
  clone.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  clone.setAttribute("width", box.width);
  clone.setAttribute("height", box.height);
  clone.style.background = getComputedStyle(document.body).getPropertyValue("--panel");
  save(name, "image/svg+xml", new XMLSerializer().serializeToString(clone));
}

/** A line of text that can be copied. */
function copyable(text, about) {
  return h("div", { class: "copy" }, h("code", {}, text), h("button", { title: about || "Copy", onclick: () => copy(text) }, "copy"));
}

/** Hatches for partial values and padding, inside the drawing that uses them. */
function patterns() {
  return s("defs", {},
    s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 1.4, height: 5, style: "fill:var(--ink);opacity:.5" })),
    s("pattern", { id: "padding", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(-45)" }, s("rect", { width: 4, height: 4, style: "fill:var(--panel);opacity:.82" }), s("rect", { width: 1, height: 4, style: "fill:var(--faint);opacity:.8" })));
}
