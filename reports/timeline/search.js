// Search: finds named items, in order of their begin.

class Search {
  constructor(record) {
    const { operations, puts, promises, holds, faults, cuts, broken, machines } = record;
    this.entries = [operations, puts, promises, holds, faults, cuts, broken, machines]
      .flat()
      .map((item) => ({ item, words: searchWords(item).toLowerCase() }))
      .sort((one, other) => one.item.begin - other.item.begin);
    this.tasks = record.tasks.map((task) => ({
      words: task.name.toLowerCase(),
      item: record.spans.find((span) => span.task === task),
    })).filter((entry) => entry.item);
    this.found = [];
    this.index = -1;
  }

  // Finds a text; a task of that name comes first.
  look(text) {
    const wanted = text.trim().toLowerCase();
    this.index = -1;
    const names = (entry) => wanted !== "" && entry.words.includes(wanted);
    this.found = [...this.tasks, ...this.entries].filter(names).map((entry) => entry.item);
    return this.found;
  }

  step(by) {
    if (!this.found.length) return null;
    this.index = this.index < 0 ? (by > 0 ? 0 : this.found.length - 1) : (this.index + by + this.found.length) % this.found.length;
    return this.found[this.index];
  }

  get status() {
    if (!this.found.length) return "";
    return this.index < 0 ? `${this.found.length} found` : `${this.index + 1} of ${this.found.length}`;
  }
}

function searchWords(item) {
  if (item.kind === "operation") return `${item.call} ${item.parts} ${item.path} ${item.place} ${item.ending} ${item.taken}`;
  if (item.kind === "put") return `${item.name} ${item.queue} ${item.status} ${item.place}`;
  return wordsOf(item);
}
