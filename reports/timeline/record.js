// Record of the run: converts the compact JSON (layout at the head of page.py) to objects.

const STATES = ["running", "ready", "waiting"];

function readRecord() {
  const raw = JSON.parse(document.getElementById("record").textContent);
  const text = (index) => raw.texts[index];
  const sums = (differences) => {
    let sum = 0;
    return differences.map((difference) => (sum += difference));
  };
  const lines = (rows) => rows.map(([at, words, tone]) => ({ at, words: text(words), tone: text(tone) }));
  const tasks = raw.tasks.map(([name, begin, end, ending]) => {
    const [machine, ...rest] = text(name).split("/");
    return { name: text(name), machine, short: shortName(machine, rest.join("/")), begin, end, ending: text(ending) };
  });
  const record = {
    pageBytes: raw.pageBytes,
    sectorBytes: raw.sectorBytes,
    ns: sums(raw.moments.ns),
    steps: sums(raw.moments.steps),
    tasks,
    machines: raw.machines.map(([name, begin, end, ending]) => ({
      kind: "machine", name: text(name), begin, end, ending: text(ending),
    })),
    spans: raw.spans.map(([task, state, begin, length, why]) => ({
      kind: "span", task: tasks[task], state: STATES[state], begin, end: begin + length, why: text(why),
    })),
    holds: raw.holds.map(([task, lock, begin, length]) => ({ kind: "hold", task: tasks[task], lock: text(lock), begin, end: begin + length })),
    operations: raw.operations.map(([task, call, path, start, stop, begin, length, ending, parts, place, taken]) => ({
      kind: "operation", task: tasks[task], call: text(call), path: text(path), start, stop,
      begin, end: begin + length, ending: text(ending), parts: text(parts), place: text(place), taken: text(taken),
    })),
    positions: raw.positions,
    checkpoints: raw.checkpoints.map(([at, physic, logics, index]) => ({ kind: "checkpoint", begin: at, end: at, physic, logics, index })),
    faults: raw.faults.map(([at, name, about]) => ({ kind: "fault", begin: at, end: at, name: text(name), about: text(about) })),
    cuts: raw.cuts.map((cut) => ({
      kind: "cut", begin: cut.at, end: cut.at, what: cut.what, machine: cut.machine, following: cut.following, lost: cut.lost,
      files: cut.files.map(([path, bytesBefore, bytesAfter, before, after, torn, named, pages, more]) => ({
        path: text(path), bytesBefore, bytesAfter, before, after, torn, named: named === 1, pages, more,
      })),
    })),
    puts: raw.puts.map(([name, queue, task, asked, answered, status, place, path, start, stop, logOffset, outcomes, story], index) => ({
      kind: "put", index, name: text(name), queue: text(queue), task: tasks[task], asked, answered, status: text(status),
      place: text(place), path: text(path), start, stop, logOffset, begin: asked, end: answered < 0 ? asked : answered,
      outcomes: outcomes.map(([at, machine, bits]) => ({
        at, machine: text(machine), found: (bits & 1) > 0, promised: (bits & 2) > 0, returned: (bits & 4) > 0,
      })),
      story: lines(story),
    })),
    promises: raw.promises.map(([task, words, begin, length, place]) => ({
      kind: "promise", task: tasks[task], words: text(words), begin, end: begin + length, place: text(place),
    })),
    broken: raw.broken.map(([at, task, words, path, puts, story]) => ({
      kind: "violation", begin: at, end: at, task: tasks[task], words: text(words), path: text(path), puts, story: lines(story),
    })),
  };
  record.last = record.ns.length - 1;
  record.isTimed = record.ns[record.last] > 0;
  for (const put of record.puts) {
    if (put.answered < 0) put.end = diesAt(record, put);
  }
  record.cursors = Object.fromEntries(Object.keys(POSITIONS).map((name) => [name, stepsOf(record, name)]));
  record.unsafe = unsafeOf(record.cursors.wrote, record.cursors.flushed);
  return record;
}

// A put without an answer ends with its machine or with the run.
function diesAt(record, put) {
  const cut = record.cuts.find((one) => one.begin > put.asked);
  return cut ? cut.begin : record.last;
}

// Result of the last recovery for a put: "found", "lost" (promised), "returned" (missed before), "missing" or "".
function outcomeOf(put) {
  const outcome = put.outcomes[put.outcomes.length - 1];
  if (!outcome || !put.path) return "";
  if (outcome.returned) return "returned";
  if (outcome.found) return "found";
  return outcome.promised ? "lost" : "missing";
}

function operationClass(operation) {
  if (operation.call === "store" || operation.call === "pwrite") return "write";
  if (["msync", "fdatasync", "sync", "sync directory", "sync all"].includes(operation.call)) return "sync";
  if (operation.call === "write") return "write";
  return operation.parts || ["rename", "unlink", "remove directory"].includes(operation.call) ? "name" : "read";
}

function rangeWords(one) {
  return one.start < 0 ? "" : ` [${one.start}, ${one.stop})`;
}

function timeWords(ns) {
  const ms = ns / 1e6;
  return `${ms.toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: ms < 1 ? 6 : 3 })} ms`;
}

// Virtual time, if recorded, and step.
function momentWords(record, moment) {
  const step = `step ${record.steps[moment].toLocaleString("en")}`;
  return record.isTimed ? `${timeWords(record.ns[moment])}, ${step}` : step;
}

// A line that describes an item.
function wordsOf(one) {
  switch (one.kind) {
    case "operation": {
      const ends = [one.ending, one.taken].filter((words) => words).map((words) => `: ${words}`);
      const rest = one.parts.startsWith(one.call) ? one.parts.slice(one.call.length) : null;
      const what = rest === null ? `${one.parts || one.call} ${one.path}` : `${one.call} ${one.path}${rest}`;
      return `${what}${rangeWords(one)}${ends.join("")}`;
    }
    case "promise": return `promised: ${one.words}`;
    case "span": return `${one.task.short} ${{ running: "runs", ready: "could run", waiting: `waits: ${one.why}` }[one.state]}`;
    case "hold": return `${one.task.short} holds lock ${one.lock}`;
    case "put": return `${one.name} into ${one.queue}: ${one.status || "no answer"}`;
    case "cut": return `${one.machine}: ${one.what}`;
    case "fault": return `${one.name}${one.about ? `: ${one.about}` : ""}`;
    case "checkpoint": return "the checkpoint is written";
    case "machine": return `${one.name}${one.ending ? `, ${one.ending}` : ""}`;
    case "violation": return one.words;
    default: return one.words;
  }
}

// A task name without the life; with several machines, including the machine.
function shortName(machine, task) {
  const host = machine.match(/^(.+?)(?:-again)?-(?:life-\d+|alone)$/);
  if (!task) return machine;
  return host ? `${host[1]}/${task}` : task;
}
