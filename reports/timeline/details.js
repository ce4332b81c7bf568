// Details of the selection: facts, and the story of a message or a violation.

class Details {
  constructor(record, jump) {
    this.record = record;
    this.jump = jump;
    this.place = document.getElementById("details");
  }

  show(selected) {
    this.place.replaceChildren(...(selected ? this.about(selected) : this.invitation()));
  }

  invitation() {
    const quiet = element("p", "Select anything in the timeline for its details; messages have a story.");
    quiet.className = "quiet";
    return [quiet];
  }

  about(one) {
    const parts = [element("h2", wordsOf(one)), this.facts(one)];
    if (one.kind === "put") parts.push(element("h3", "History"), this.story(one.story));
    if (one.kind === "cut") parts.push(...this.lost(one));
    if (one.kind === "violation") parts.push(...this.breach(one));
    return parts;
  }

  facts(one) {
    const { record } = this;
    const rows = [["from", momentWords(record, one.begin)]];
    if (one.end > one.begin && record.isTimed) {
      rows.push(["to", momentWords(record, one.end)]);
      const ns = record.ns[one.end] - record.ns[one.begin];
      rows.push(["took", ns ? timeWords(ns) : "no virtual time"]);
    }
    if (one.task) rows.push(["task", one.task.name]);
    if (one.place && one.kind !== "put") rows.push(["by", one.place]);
    if (one.kind === "put") rows.push(["queue", one.queue], ["answer", one.status || "none"], ["record", one.place || "nowhere"]);
    if (one.kind === "operation") {
      rows.push(["call", one.call], ["file", one.path]);
      if (one.start >= 0) rows.push(["bytes", `${rangeWords(one).trim()}, ${(one.stop - one.start).toLocaleString("en")} B`]);
      rows.push(["ended", one.ending || "well"]);
      if (one.taken) rows.push(["lost in the crash", one.taken]);
    }
    if (one.kind === "checkpoint") {
      rows.push(["log durable to", `${one.physic} ms`], ["queues", `${one.logics} ms`], ["index", `${one.index} ms`]);
    }
    const list = document.createElement("dl");
    for (const [name, value] of rows) list.append(element("dt", name), element("dd", value));
    return list;
  }

  story(lines) {
    const list = document.createElement("ol");
    list.className = "story";
    for (const { at, words, tone } of lines) {
      const item = list.appendChild(document.createElement("li"));
      item.className = tone;
      const button = item.appendChild(element("button", words));
      button.append(element("small", momentWords(this.record, at)));
      button.addEventListener("click", () => this.jump(at));
    }
    return list;
  }

  lost(cut) {
    const parts = [];
    const touched = cut.files.filter(isTouched);
    if (touched.length) parts.push(element("h3", "Files after the crash"), maps(this.record, touched, null));
    if (cut.lost.length) {
      const list = element("ul");
      for (const words of cut.lost) list.append(element("li", words));
      parts.push(element("h3", "Losses"), list);
    }
    return parts;
  }

  breach(broken) {
    const parts = [];
    for (const index of broken.puts.slice(0, 4)) {
      const put = this.record.puts[index];
      parts.push(element("h3", `History of ${put.name}`), this.story(put.story));
    }
    if (broken.story.length && !broken.puts.length) {
      const found = { at: broken.begin, words: "violation found", tone: "bad" };
      parts.push(element("h3", broken.path ? `Last changes of ${broken.path}` : "Last changes"), this.story([...broken.story, found]));
    }
    return parts;
  }
}

function element(name, words = "") {
  const made = document.createElement(name);
  made.textContent = words;
  return made;
}
