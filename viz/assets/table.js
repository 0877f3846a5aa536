// Tables that sort by a click on a column, cut themselves short, and save as CSV.

const tableOrder = new Map();

/**
 * A table: `columns` have a name, `of` (the value to sort and save), and optionally `text` or `cell` (what is shown), `number`, and `keep` (on one line).
 * `pick` gives a row's selection, `marked` and `chosen` say how it is drawn, `name` keeps the order between drawings.
 */
function table({ name, rows, columns, pick, marked, chosen, most = 200, tools = [] }) {
  const box = h("div", {});
  let all = false;
  const draw = () => {
    const order = tableOrder.get(name);
    let list = rows;
    if (order) {
      const { of } = columns[order.column];
      list = [...rows].sort((a, b) => compare(of(a), of(b)) * order.sign);
    }
    const shown = all ? list : list.slice(0, most);
    replace(box,
      h("div", { class: "wide" }, h("table", { "data-table": name },
        h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { class: c.number ? "n" : "", "aria-sort": order && order.column === i ? (order.sign > 0 ? "ascending" : "descending") : false, onclick: () => { sortBy(i); draw(); } }, c.name)))),
        h("tbody", {}, shown.map(row => {
          const sel = pick ? pick(row) : "";
          return h("tr", { class: [sel ? "click" : "", marked && marked(row) ? "marked" : "", chosen && chosen(row) ? "chosen" : ""].join(" "), onclick: sel ? () => select(sel, true) : null },
            columns.map(c => h("td", { class: c.number ? "n" : c.keep ? "keep" : "" }, c.cell ? c.cell(row) : c.text ? c.text(row) : String(c.of(row)))));
        })))),
      h("div", { class: "table-tools" },
        list.length > shown.length ? [h("span", {}, `${count(shown.length)} of ${count(list.length)}`), h("button", { onclick: () => { all = true; draw(); } }, "Show all")] : null,
        tools, rows.length > 1 ? h("button", { title: "Save as CSV", onclick: () => save(name + ".csv", "text/csv", csv(columns, list)) }, "CSV") : null));
  };
  const sortBy = i => {
    const now = tableOrder.get(name);
    tableOrder.set(name, now && now.column === i ? { column: i, sign: -now.sign } : { column: i, sign: columns[i].number ? -1 : 1 });
  };
  draw();
  return box;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Cells that a spreadsheet would take for a formula are quoted with an apostrophe. */
function csv(columns, rows) {
  const cell = x => {
    let text = x === null || x === undefined ? "" : String(x);
    if (typeof x !== "number" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  return [columns.map(c => cell(c.name)), ...rows.map(r => columns.map(c => cell(c.of(r))))].map(line => line.join(",")).join("\n") + "\n";
}
