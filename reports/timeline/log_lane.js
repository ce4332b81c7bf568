// Log lane: positions as steps, with bytes upwards; also ruler and overview, which are drawn alike.

const POSITIONS = {
  wrote: { words: "written", dash: [], width: 2 },
  committed: { words: "committed", dash: [7, 3], width: 1.6 },
  flushed: { words: "flushed", dash: [], width: 2 },
  dispatched: { words: "dispatched", dash: [2, 3], width: 2 },
};

const RULER_STEP = 8;

function logKey(record) {
  const key = document.createElement("div");
  for (const [name, { words, dash }] of Object.entries(POSITIONS)) {
    if (!record.positions[name]) continue;
    const line = key.appendChild(document.createElement("div"));
    line.className = "key";
    const mark = line.appendChild(document.createElement("i"));
    mark.className = "stroke";
    mark.style.borderTop = `2px ${dash.length ? "dashed" : "solid"} var(--${name})`;
    line.append(words);
  }
  const range = logRange(record).map((value) => value.toLocaleString("en"));
  const bytes = key.appendChild(document.createElement("div"));
  bytes.className = "key quiet";
  bytes.textContent = `${range[0]} to ${range[1]} B`;
  return key;
}

function logRange(record) {
  let [low, high] = [Infinity, 0];
  for (const steps of Object.values(record.positions)) {
    for (const [, value] of steps) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  for (const put of record.puts) if (put.logOffset >= 0) high = Math.max(high, put.logOffset + put.stop - put.start);
  return [low, Math.max(high, low + 1)];
}

// The running machine at a moment. Positions belong to its store, and end with it.
function endOfMachine(record, moment) {
  const machine = record.machines.find((one) => moment >= one.begin && moment <= one.end);
  return machine ? machine.end : record.last;
}

// narrow: the key covers the left end of the lane, so names are placed at the right end.
function paintLog(painter, record, selected, top, height, narrow) {
  const [low, high] = logRange(record);
  const y = (value) => top + height - 12 - ((value - low) / (high - low)) * (height - 24);
  if (selected && selected.kind === "put" && selected.logOffset >= 0) {
    const [upper, lower] = [y(selected.logOffset + selected.stop - selected.start), y(selected.logOffset)];
    painter.context.globalAlpha = 0.16;
    painter.rect(0, painter.width, upper, Math.max(lower - upper, 2), painter.colours.selected);
    painter.context.globalAlpha = 1;
    const x = narrow ? painter.width - painter.context.measureText(selected.name).width - 6 : 4;
    painter.text(selected.name, x, (upper + lower) / 2, painter.colours.soft);
  }
  paintUnsafe(painter, record, y);
  for (const [name, { dash, width }] of Object.entries(POSITIONS)) {
    const context = painter.context;
    context.strokeStyle = painter.colours[name];
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    for (const { begin, end, value, continues } of record.cursors[name] || []) {
      const [left, right] = [painter.xOf(begin), painter.xOf(end)];
      if (continues) context.lineTo(left, y(value));
      else context.moveTo(left, y(value));
      context.lineTo(right, y(value));
    }
    context.stroke();
    context.setLineDash([]);
  }
}

// Fills the area between written and flushed, which a power cut could lose.
function paintUnsafe(painter, record, y) {
  const context = painter.context;
  context.fillStyle = painter.colours.dirty;
  context.globalAlpha = 0.28;
  for (const { begin, end, low, high } of record.unsafe) {
    const left = painter.xOf(begin);
    context.fillRect(left, y(high), painter.xOf(end) - left, y(low) - y(high));
  }
  context.globalAlpha = 1;
}

// A position as steps between moments.
function stepsOf(record, name) {
  const changes = record.positions[name] || [];
  let lastEnd = -1;
  return changes.map(([begin, value], index) => {
    const machineEnd = endOfMachine(record, begin);
    const next = changes[index + 1];
    const end = next ? Math.min(next[0], machineEnd) : machineEnd;
    const continues = lastEnd === begin;
    lastEnd = end;
    return { begin, end, value, continues };
  });
}

function unsafeOf(wrote, flushed) {
  const found = [];
  let first = 0;
  for (const { begin, end, value } of wrote) {
    while (first < flushed.length && flushed[first].end <= begin) first++;
    for (let index = first; index < flushed.length && flushed[index].begin < end; index++) {
      const floor = flushed[index];
      if (value > floor.value) {
        found.push({ begin: Math.max(begin, floor.begin), end: Math.min(end, floor.end), low: floor.value, high: value });
      }
    }
  }
  return found;
}

// Draws each label once, at the left end of its range, if there is room.
function paintRuler(painter, record, height, bottom) {
  const { axis, colours } = painter;
  painter.rect(0, painter.width, height - 1, 1, colours.rule);
  let last = "";
  for (let x = 0; x < painter.width; x += RULER_STEP) {
    const place = painter.placeAt(x);
    const words = axis.mode === "order" ? momentWords(record, axis.momentAt(place)) : timeWords(Math.round(axis.nsAt(place)));
    const width = painter.context.measureText(words).width;
    if (words === last || x + width + 4 > painter.width) continue;
    painter.line(x + 0.5, 1, 12, colours.faint);
    painter.text(words, x + 4, 7, colours.soft);
    last = words;
    x += width + 16;
  }
  if (axis.mode === "order") paintPauses(painter, record, height, bottom);
}

// Marks long gaps of time between two events, which the axis by event does not show.
function paintPauses(painter, record, top, bottom) {
  const least = Math.max(1e6, record.ns[record.last] / 200);
  let free = -Infinity;
  for (let moment = 1; moment <= record.last; moment++) {
    const passed = record.ns[moment] - record.ns[moment - 1];
    const x = painter.xOf(moment);
    if (passed < least || x < 0 || x > painter.width || x < free) continue;
    painter.line(x, top, bottom, painter.colours.rule);
    free = x + 3;
  }
}

function paintOverview(painter, record) {
  painter.resize(22);
  const { axis, colours } = painter;
  const scale = painter.width / axis.total;
  const x = (moment) => axis.place(moment) * scale;
  for (const machine of record.machines) painter.rect(x(machine.begin), x(machine.end) - 1, 9, 5, colours.rule);
  for (const one of record.promises) painter.rect(x(one.begin), x(one.begin) + 1.5, 9, 5, colours.good);
  for (const put of record.puts) painter.rect(x(put.begin), x(put.begin) + 1.5, 9, 5, colours.faint);
  for (const cut of record.cuts) painter.rect(x(cut.begin) - 1, x(cut.begin) + 1, 5, 13, colours.cut);
  for (const broken of record.broken) painter.diamond(Math.min(x(broken.begin), painter.width - 5), 11, 5, colours.bad);
  painter.outline(Math.max(axis.from * scale, 2), Math.min(axis.to * scale, painter.width - 2), 4, 14, colours.soft, 1.5);
}
