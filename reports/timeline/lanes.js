// Lanes from top to bottom: their items and how these are drawn.

const RULER = 30;
const NARROW = 820;

// Returns the lanes, without places. A lane: id, label, group, height, items, and `draw(painter, item, top, height, left, right)`.
function makeLanes(record) {
  const lanes = [{ id: "lives", label: "machines", group: "", height: 20, items: record.machines, draw: drawMachine }];
  if (Object.keys(record.positions).length) {
    lanes.push({ id: "log", label: "log", group: "", height: 118, items: record.checkpoints, draw: drawCheckpoint, isLog: true });
  }
  const add = (group, id, label, items, height, draw) => lanes.push({ id: `${group}:${id}`, label, group, height, items, draw });
  if (record.faults.length) add("faults", "faults", "faults", record.faults, 18, drawFault);
  if (record.promises.length) add("promises", "promises", "promises", record.promises, 20, drawPromise);
  for (const [short, puts] of grouped(record.puts, (put) => put.task.short)) add("messages", short, short, puts, 20, drawPut);
  const holds = new Map(grouped(record.holds, (hold) => hold.task.short));
  for (const [short, spans] of grouped(record.spans, (span) => span.task.short)) {
    add("tasks", short, short, [...spans, ...(holds.get(short) || [])], 18, drawTask);
  }
  for (const [lock, held] of grouped(record.holds, (hold) => hold.lock)) add("locks held", lock, lock, held, 17, drawHold);
  const changed = new Set(record.operations.filter((one) => operationClass(one) !== "read").map((one) => one.path));
  const paths = grouped(record.operations, (one) => (changed.has(one.path) ? one.path : ""));
  for (const [path, calls] of paths.sort(([one], [other]) => (one === "") - (other === "") || (one < other ? -1 : 1))) {
    add("files", path, path || "other files, only read", calls, 18, drawOperation);
  }
  return lanes;
}

function grouped(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return [...groups];
}

// Assigns vertical positions to lanes and group headings; returns the rows and the total height.
function placeLanes(lanes, folded, narrow) {
  const rows = [];
  let top = RULER;
  let group = "";
  for (const lane of lanes) {
    if (lane.group !== group) {
      group = lane.group;
      top += 6;
      rows.push({ heading: group, top, height: 18, open: !folded.has(group) });
      top += 18;
    }
    if (folded.has(lane.group)) continue;
    const label = narrow ? 12 : 0;
    rows.push({ lane, top, height: lane.height + label, label });
    top += lane.height + label;
  }
  return { rows, height: top + 8 };
}

function drawMachine(painter, machine, top, height, left, right) {
  painter.rect(left, right - 1, top + 3, height - 6, painter.colours.rule);
  painter.text(wordsOf(machine), left + 5, top + height / 2, painter.colours.soft, right - left - 8);
}

function drawFault(painter, fault, top, height, left) {
  painter.diamond(left, top + height / 2, 5, painter.colours.fault);
}

function drawPromise(painter, promise, top, height, left, right) {
  painter.rect(left, right, top + 3, height - 6, painter.colours.good);
  painter.text(promise.words, left + 4, top + height / 2 + 0.5, painter.colours.panel, right - left - 6);
}

function drawCheckpoint(painter, checkpoint, top, height, left) {
  painter.diamond(left, top + height - 6, 4, painter.colours.soft);
}

const PUT_COLOURS = { PUT_OK: "good", "": "soft", "cut off": "soft" };

function drawPut(painter, put, top, height, left, right) {
  const colour = painter.colours[PUT_COLOURS[put.status] ?? "write"];
  const [y, tall] = [top + 3, height - 6];
  const context = painter.context;
  context.globalAlpha = 0.24;
  painter.rect(left, right, y, tall, colour);
  context.globalAlpha = 1;
  painter.rect(left, left + 2, y, tall, colour);
  if (put.answered >= 0) painter.rect(right - 2, right, y, tall, colour);
  const isBad = ["lost", "returned"].includes(outcomeOf(put));
  if (isBad) {
    painter.outline(left + 1, right - 1, y + 1, tall - 2, painter.colours.bad, 1.5);
    painter.cross(right - 8, top + height / 2, 3, painter.colours.bad);
  }
  painter.text(put.name, left + 5, top + height / 2 + 0.5, painter.colours.ink, right - left - (isBad ? 20 : 8));
}

function waitClass(why) {
  if (why.startsWith("lock ")) return "lock";
  if (/^(m|fdata)?sync\b|^(pwrite|write|read|map|status|list)\b/.test(why)) return "disk";
  return why.startsWith("paused") ? "paused" : "idle";
}

function drawTask(painter, item, top, height, left, right) {
  const middle = top + height / 2;
  const { colours } = painter;
  if (item.kind === "hold") painter.rect(left, right, top + height - 3, 2, colours.ink);
  else if (item.state === "running") painter.rect(left, right, middle - 5, 10, colours.running);
  else if (item.state === "ready") painter.rect(left, right, middle - 1.5, 3, colours.ready);
  else {
    const wait = waitClass(item.why);
    if (wait === "idle") painter.rect(left, right, middle - 0.5, 1, colours.idle);
    else if (wait === "disk") painter.rect(left, right, middle - 2, 4, colours.sync);
    else painter.rect(left, right, middle - 4, 8, painter.hatch(wait === "lock" ? colours.lock : colours.fault));
  }
}

function drawHold(painter, hold, top, height, left, right) {
  painter.rect(left, right, top + 3, height - 6, painter.colours.running);
  painter.text(hold.task.short, left + 3, top + height / 2, painter.colours.panel, right - left - 4);
}

function drawOperation(painter, operation, top, height, left, right) {
  const kind = operationClass(operation);
  const colour = painter.colours[kind];
  const y = top + (kind === "read" ? height / 2 - 2 : 3);
  const tall = kind === "read" ? 4 : height - 6;
  painter.rect(left, right, y, tall, operation.ending === "cut off" ? painter.hatch(colour) : colour);
  const isBad = operation.taken || (operation.ending && operation.ending !== "cut off");
  if (operation.taken) painter.outline(left + 1, right - 1, y + 1, tall - 2, painter.colours.bad, 1.5);
  if (isBad && (operation.ending || right - left < 40)) painter.cross((left + right) / 2, top + height / 2, 4, painter.colours.bad);
  else if (isBad) painter.cross(right - 8, top + height / 2, 3, painter.colours.panel);
  if (kind === "read" || operation.ending) return;
  painter.text(operation.parts || operation.call, left + 4, top + height / 2 + 0.5, painter.colours.panel, right - left - (isBad ? 20 : 6));
}
