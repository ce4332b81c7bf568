// Ledger table: messages, answers, and the result of the last recovery.

const OUTCOMES = {
  found: ["found", "good"],
  lost: ["promised but lost", "bad"],
  returned: ["came back after a loss", "bad"],
  missing: ["gone", ""],
  "": ["", ""],
};
const OF_PROMISES = ["promise", "made by", "step", "line and call"];
const COLUMNS = ["message", "put by", "queue", "put at", "answered", "answer", "record", "at the last recovery"];

function showLedger(record, select) {
  const rows = new Map();
  if (record.promises.length) showPromises(record, select, rows);
  if (record.puts.length) showMessages(record, select, rows);
  return rows;
}

function showPromises(record, select, rows) {
  const body = tableOf("Promises", OF_PROMISES);
  for (const promise of record.promises) {
    const row = rowOf(body, promise, promise.words, select);
    for (const words of [promise.task.short, record.steps[promise.begin].toLocaleString("en"), promise.place]) {
      row.append(element("td", words));
    }
    rows.set(promise, row);
  }
}

// A table under a heading; returns its body.
function tableOf(heading, columns) {
  const place = document.getElementById("ledger");
  place.append(element("h2", heading));
  const box = place.appendChild(element("div"));
  box.className = "tablebox";
  box.tabIndex = 0;
  const table = box.appendChild(element("table"));
  const head = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const words of columns) head.append(element("th", words));
  return table.appendChild(element("tbody"));
}

// A row for an item; a click selects the item.
function rowOf(body, item, name, select) {
  const row = body.appendChild(element("tr"));
  const button = row.appendChild(element("td")).appendChild(element("button", name));
  button.addEventListener("click", () => select(item));
  row.addEventListener("click", () => select(item));
  return row;
}

function showMessages(record, select, rows) {
  const body = tableOf("Messages", COLUMNS);
  for (const put of record.puts) {
    const [outcome, tone] = OUTCOMES[outcomeOf(put)];
    const row = rowOf(body, put, put.name, select);
    const answered = put.answered < 0 ? "" : timeWords(record.ns[put.answered]);
    for (const words of [put.task.name, put.queue, timeWords(record.ns[put.asked]), answered, put.status || "none", put.place]) {
      row.append(element("td", words));
    }
    const end = row.appendChild(element("td", outcome));
    end.className = tone;
    rows.set(put, row);
  }
}
