// Main: selection, view, and options in the address.
//
// Options in the address after #, joined by &: violation, put=NAME, axis=time, theme=dark or light,
// from=STEP, to=STEP, search=TEXT.

const wished = new URLSearchParams(location.hash.slice(1));
if (wished.get("theme")) document.documentElement.dataset.theme = wished.get("theme");

const record = readRecord();
const axis = new Axis(record);
const state = { selected: null, marked: null, related: new Set(), matched: new Set() };
const picture = new Picture(record, axis, state);
const search = new Search(record);
const details = new Details(record, (at) => jump(at));
const rows = showLedger(record, (put) => jump(put.begin, put));
const byId = (id) => document.getElementById(id);
let frame = 0;

function repaint() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    picture.paint();
  });
}

function select(item) {
  rows.get(state.selected)?.classList.remove("selected");
  state.selected = item ?? null;
  state.marked = item ? item.begin : null;
  state.related = relatedTo(item);
  rows.get(item)?.classList.add("selected");
  details.show(item);
  showCuts(record, item?.kind === "violation" ? record.puts[item.puts[0]] : item, jump);
  picture.painter.canvas.dataset.selected = item ? wordsOf(item) : "";
  repaint();
}

// The operations on a message's record and its put, or the messages of an operation.
function relatedTo(item) {
  if (item?.kind === "violation") {
    return new Set(item.puts.flatMap((index) => [record.puts[index], ...relatedTo(record.puts[index])]));
  }
  if (item?.kind !== "put" || !item.path) return new Set();
  const overlaps = (one) => one.start < 0 || (one.start < item.stop && item.start < one.stop);
  const touches = (one) => one.path === item.path && operationClass(one) !== "read" && one.end >= item.begin;
  return new Set(record.operations.filter((one) => touches(one) && overlaps(one)));
}

function jump(moment, item) {
  const nearest = axis.mode === "order" ? 160 : Math.max(2e6, axis.total / 40);
  axis.center(moment, Math.min(axis.to - axis.from, nearest));
  if (item) select(item);
  state.marked = moment;
  repaint();
}

function toViolation() {
  const broken = record.broken[0];
  if (!broken) return;
  axis.show(0, axis.total);
  jump(broken.begin, broken);
}

function toCut(by) {
  const cuts = record.cuts;
  if (!cuts.length) return;
  const at = cuts.indexOf(state.selected);
  const cut = cuts[at < 0 ? (by > 0 ? 0 : cuts.length - 1) : (at + by + cuts.length) % cuts.length];
  jump(cut.begin, cut);
}

function look(text) {
  state.matched = new Set(search.look(text));
  byId("matches").value = text.trim() && !search.found.length ? "nothing found" : search.status;
  repaint();
}

function step(by) {
  const item = search.step(by);
  if (!item) return;
  byId("matches").value = search.status;
  jump(item.begin, item);
}

function changeAxis(wanted) {
  const mode = record.isTimed ? wanted : "order";
  axis.change(mode);
  byId("by-order").setAttribute("aria-pressed", mode === "order");
  byId("by-time").setAttribute("aria-pressed", mode === "time");
  repaint();
}

function zoom(factor) {
  const selected = state.selected && axis.place(state.selected.begin);
  axis.zoom(factor, selected >= axis.from && selected <= axis.to ? selected : undefined);
  repaint();
}

function fit() {
  axis.show(0, axis.total);
  repaint();
}

function move(share) {
  axis.move(share);
  repaint();
}

function help() {
  if (byId("keys").open) byId("keys").close();
  else byId("keys").showModal();
}

function hovered(item, event) {
  const tip = byId("tip");
  tip.hidden = !item || event.pointerType === "touch";
  if (tip.hidden) return;
  tip.replaceChildren(wordsOf(item), element("br"), momentWords(record, item.begin));
  const [right, low] = [event.clientX > window.innerWidth - 380, event.clientY > window.innerHeight - 90];
  tip.style.left = right ? "auto" : `${event.clientX + 14}px`;
  tip.style.right = right ? `${window.innerWidth - event.clientX + 14}px` : "auto";
  tip.style.top = `${event.clientY + (low ? -54 : 16)}px`;
}

function listen() {
  const clicks = {
    "by-order": () => changeAxis("order"), "by-time": () => changeAxis("time"), "zoom-in": () => zoom(0.6), "zoom-out": () => zoom(1 / 0.6),
    fit, "to-violation": toViolation, "to-cut": () => toCut(1), next: () => step(1), previous: () => step(-1), help,
  };
  for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", action);
  byId("search").addEventListener("input", (event) => look(event.target.value));
  listenToPointer(picture, { changed: repaint, hovered, picked: select });
  listenToKeys({
    v: toViolation, c: () => toCut(1), C: () => toCut(-1), f: fit, t: () => changeAxis(axis.mode === "order" ? "time" : "order"),
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15),
    ShiftArrowLeft: () => move(-0.9), ShiftArrowRight: () => move(0.9), n: () => step(1), N: () => step(-1), "?": help,
    "/": () => byId("search").focus(), Escape: () => select(null), "typing Enter": (event) => step(event.shiftKey ? -1 : 1),
    "typing Escape": () => byId("search").blur(),
  });
  window.addEventListener("resize", () => {
    picture.layOut();
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => picture.readColours());
}

// Shows first the lost message, or else the violation, or the whole run.
function begin() {
  byId("to-violation").hidden = !record.broken.length;
  byId("to-cut").hidden = !record.cuts.length;
  byId("legend").open = window.innerWidth > NARROW;
  changeAxis(wished.get("axis") === "time" ? "time" : "order");
  const broken = record.broken[0];
  const wanted = record.puts.find((put) => put.name === wished.get("put")) ?? record.puts[broken?.puts[0]];
  select(wanted ?? broken ?? null);
  if (wished.has("violation")) toViolation();
  if (wished.has("search")) {
    byId("search").value = wished.get("search");
    look(wished.get("search"));
  }
  if (wished.has("from") && wished.has("to")) {
    const moment = (steps) => Math.max(0, record.steps.findIndex((one) => one >= Number(steps)));
    axis.show(axis.place(moment(wished.get("from"))), axis.place(moment(wished.get("to"))));
  }
  showLegend();
  picture.paint();
}

listen();
begin();
