// Layered drawing of a small acyclic graph: ranks by longest path, order by barycentres, positions by averages. Used for what is open only.

/**
 * Places boxes ({w, h}) from top to bottom along edges ([from, to], numbers of boxes; from < to).
 * Returns each box's x and y, and the size of the whole.
 */
function layered(boxes, edges, gapX = 14, gapY = 30) {
  const n = boxes.length;
  if (!n) return { at: [], w: 0, h: 0 };
  const rank = new Array(n).fill(0), incoming = boxes.map(() => []), outgoing = boxes.map(() => []);
  for (const [a, b] of edges) if (a < b) { incoming[b].push(a); outgoing[a].push(b); }
  for (let b = 0; b < n; b++) for (const a of incoming[b]) rank[b] = Math.max(rank[b], rank[a] + 1);
  // What nothing precedes moves down to its first reader.
  for (let a = n - 1; a >= 0; a--) if (!incoming[a].length && outgoing[a].length) rank[a] = Math.max(0, Math.min(...outgoing[a].map(b => rank[b])) - 1);
  // A rank of many unconnected boxes is broken into lines.
  const lines = [];
  for (let i = 0; i < n; i++) (lines[rank[i]] ||= []).push(i);
  const rows = [];
  const widest = Math.max(900, Math.sqrt(boxes.reduce((a, b) => a + (b.w + gapX) * (b.h + gapY), 0)) * 1.6);
  for (const line of lines) {
    if (!line) continue;
    let row = [], width = 0;
    for (const i of line) {
      if (row.length && width + boxes[i].w > widest) { rows.push(row); row = []; width = 0; }
      row.push(i);
      width += boxes[i].w + gapX;
    }
    rows.push(row);
  }
  const place = new Array(n).fill(0);
  const put = row => { let x = 0; for (const i of row) { place[i] = x + boxes[i].w / 2; x += boxes[i].w + gapX; } const w = x - gapX; for (const i of row) place[i] -= w / 2; };
  rows.forEach(put);
  const centre = (i, side) => { const list = side[i]; return list.length ? sum(list.map(j => place[j])) / list.length : place[i]; };
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const key = new Map(row.map(i => [i, centre(i, down ? incoming : outgoing)]));
      row.sort((a, b) => key.get(a) - key.get(b) || a - b);
      spread(row, key);
    }
  }
  /** Boxes at their wished centres as far as they do not overlap. */
  function spread(row, wish) {
    let right = -Infinity;
    for (const i of row) { place[i] = Math.max(wish.get(i), right + boxes[i].w / 2); right = place[i] + boxes[i].w / 2 + gapX; }
    const shift = sum(row.map(i => wish.get(i) - place[i])) / row.length;
    for (const i of row) place[i] += shift;
  }
  const left = Math.min(...boxes.map((b, i) => place[i] - b.w / 2));
  const at = new Array(n);
  let y = 0, w = 0;
  for (const row of rows) {
    const height = Math.max(...row.map(i => boxes[i].h));
    for (const i of row) {
      at[i] = { x: place[i] - boxes[i].w / 2 - left, y: y + (height - boxes[i].h) / 2 };
      w = Math.max(w, at[i].x + boxes[i].w);
    }
    y += height + gapY;
  }
  return { at, w, h: y - gapY };
}
