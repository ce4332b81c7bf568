// The ledger as a table: what was asked for, what was answered, and what the last recovery found.

const OUTCOMES = {
  found: ["there", "good"],
  lost: ["promised, and gone", "bad"],
  returned: ["back from the dead", "bad"],
  missing: ["gone", ""],
  "": ["", ""],
};
const COLUMNS = ["message", "put by", "queue", "asked", "answered", "answer", "record", "at the last recovery"];

function showLedger(record, select) {
  const place = document.getElementById("ledger");
  if (!record.puts.length) return new Map();
  place.append(element("h2", "Messages"));
  const box = place.appendChild(element("div"));
  box.className = "tablebox";
  box.tabIndex = 0;
  const table = box.appendChild(element("table"));
  const head = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const words of COLUMNS) head.append(element("th", words));
  const body = table.appendChild(element("tbody"));
  const rows = new Map();
  for (const put of record.puts) {
    const row = body.appendChild(element("tr"));
    const [outcome, tone] = OUTCOMES[outcomeOf(put)];
    const name = row.appendChild(element("td")).appendChild(element("button", put.name));
    name.addEventListener("click", () => select(put));
    const answered = put.answered < 0 ? "" : timeWords(record.ns[put.answered]);
    for (const words of [put.task.name, put.queue, timeWords(record.ns[put.asked]), answered, put.status || "none", put.place]) {
      row.append(element("td", words));
    }
    const end = row.appendChild(element("td", outcome));
    end.className = tone;
    row.addEventListener("click", () => select(put));
    rows.set(put, row);
  }
  return rows;
}
