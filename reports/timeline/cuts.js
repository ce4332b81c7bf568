// Cuts: sectors of the files before and after each, by page.

const SECTORS = {
  e: ["", "empty, and durable"],
  d: ["", "durable"],
  w: ["·", "written, not synced: only in the page cache"],
  x: ["×", "dropped by a sync that failed"],
  k: ["+", "not synced, but survived"],
  l: ["×", "not synced and lost"],
  m: ["/", "mixed: neither the old nor the new content"],
  b: ["<", "of an older file that came back under this name"],
  o: ["!", "changed while the machine was off"],
  "-": ["", "no longer part of the file"],
};

function showCuts(record, selected, jump) {
  const place = document.getElementById("cuts");
  place.replaceChildren();
  if (!record.cuts.length) return;
  place.append(element("h2", "Files after the crash"));
  for (const cut of record.cuts) place.append(cutBox(record, cut, selected, jump));
}

function cutBox(record, cut, selected, jump) {
  const box = element("div");
  box.className = "cut";
  const title = box.appendChild(element("h3", `${cut.machine}: ${cut.what}`));
  const button = title.appendChild(element("button", "show"));
  button.style.cssText = "margin-left:10px;font-size:11px";
  button.addEventListener("click", () => jump(cut.begin, cut));
  const after = cut.following ? `next machine: ${cut.following}` : "no machine started after it";
  box.append(element("p", `${momentWords(record, cut.begin)}; ${after}`));
  const touched = cut.files.filter(isTouched);
  if (touched.length) box.append(maps(record, touched, selected));
  const rest = cut.files.length - touched.length;
  if (rest) box.append(element("p", rest === 1 ? "1 file did not change." : `${rest} files did not change.`));
  return box;
}

function isTouched(file) {
  return (!file.named && file.after !== "") || file.bytesBefore !== file.bytesAfter || /[wx]/.test(file.before) || (file.after !== "" && file.before !== file.after);
}

function maps(record, files, selected) {
  const grid = element("div");
  grid.className = "maps";
  for (const words of ["file", "before", "after", ""]) {
    const head = grid.appendChild(element("div", words));
    head.className = words === "before" || words === "after" ? "head-row" : "head-row wide";
  }
  for (const file of files) {
    const mine = selected && selected.kind === "put" && selected.path === file.path ? selected : null;
    const path = grid.appendChild(element("div", file.path));
    path.className = "path";
    grid.append(strip(record, file, file.before, mine, false), strip(record, file, file.after, mine, true));
    const note = grid.appendChild(element("div", noteOf(file)));
    note.className = "note";
  }
  return grid;
}

function noteOf(file) {
  if (file.after === "" && file.bytesAfter === file.bytesBefore) return "";
  if (file.bytesAfter < 0) return file.named ? "gone" : "the file is gone: its name was not durable";
  if (file.bytesBefore < 0) return "came back";
  const notes = file.named ? [] : ["its name survived, but was not durable"];
  if (file.bytesAfter < file.bytesBefore) notes.push(`${file.bytesAfter} of ${file.bytesBefore} bytes left: the length was not durable`);
  if (file.more) notes.push(`${file.more} more pages were not durable`);
  if (file.torn.length) notes.push(`torn: page ${file.torn.join(", ")}`);
  if (/[lm]/.test(file.after)) notes.push("data without a sync is lost, partly or completely");
  return notes.join("; ");
}

// Draws sectors as cells, framed by page; sectors of the selected message are marked.
function strip(record, file, letters, mine, isAfter) {
  const made = element("div");
  made.className = "strip";
  const perPage = record.pageBytes / record.sectorBytes;
  for (let first = 0; first < letters.length; first += perPage) {
    const page = made.appendChild(element("span"));
    const pageAt = file.pages.length ? file.pages[first / perPage] : first / perPage;
    const isTorn = isAfter && file.torn.includes(pageAt);
    page.className = isTorn ? "page torn" : "page";
    [...letters.slice(first, first + perPage)].forEach((letter, index) => {
      const [sign, words] = SECTORS[letter];
      const cell = page.appendChild(element("i", sign));
      const start = pageAt * record.pageBytes + index * record.sectorBytes;
      const isMine = mine && mine.start < start + record.sectorBytes && start < mine.stop;
      cell.className = `sector s-${letter}${isMine ? " mine" : ""}`;
      cell.title = `[${start}, ${start + record.sectorBytes}): ${words}${isTorn ? "; the page is torn" : ""}`;
    });
  }
  return made;
}

function showLegend() {
  const bars = [
    ["running", "a task runs"],
    ["ready", "a task is ready"],
    ["lock", "waits for a lock"],
    ["sync", "waits for the disk; a sync"],
    ["write", "a write"],
    ["name", "a file is created, extended, renamed or removed"],
    ["read", "a read"],
    ["good", "answered OK; promised"],
    ["bad", "lost, failed, broken"],
  ];
  const place = document.getElementById("legend-body");
  for (const [colour, words] of bars) {
    const line = place.appendChild(element("span"));
    const mark = line.appendChild(element("i"));
    const stripes = "repeating-linear-gradient(135deg, var(--lock) 0 2px, transparent 2px 4px)";
    mark.style.background = colour === "lock" ? stripes : `var(--${colour})`;
    line.append(words);
  }
  for (const [letter, [sign, words]] of Object.entries(SECTORS)) {
    const line = place.appendChild(element("span"));
    const mark = line.appendChild(element("i", sign));
    mark.className = `sector s-${letter}`;
    line.append(`sector: ${words}`);
  }
}
