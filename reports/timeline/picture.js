// Picture: visible lanes, crossed by cuts, the violation and the selection.
class Picture {
  constructor(record, axis, state) {
    this.record = record;
    this.axis = axis;
    this.state = state;
    this.painter = new Painter(document.getElementById("lanes"), axis);
    this.overview = new Painter(document.getElementById("overview"), axis);
    this.lanes = makeLanes(record);
    this.folded = new Set();
    this.layOut();
  }

  layOut() {
    this.narrow = window.innerWidth <= NARROW;
    Object.assign(this, placeLanes(this.lanes, this.folded, this.narrow));
    const labels = document.getElementById("labels");
    labels.replaceChildren(...this.rows.map((row) => this.label(row)));
    labels.style.height = this.narrow ? "0" : `${this.height}px`;
  }

  label(row) {
    const label = document.createElement(row.heading ? "button" : "div");
    label.style.top = `${row.top}px`;
    label.textContent = row.heading || row.lane.label;
    if (row.heading) {
      label.className = "group";
      label.setAttribute("aria-expanded", row.open);
      label.addEventListener("click", () => this.fold(row.heading));
    } else {
      label.className = "lane";
      label.title = row.lane.label;
      label.style.lineHeight = `${this.narrow ? row.label : row.lane.isLog ? 18 : row.height}px`;
      if (row.lane.isLog) label.append(logKey(this.record));
    }
    return label;
  }

  fold(group) {
    if (!this.folded.delete(group)) this.folded.add(group);
    this.layOut();
    this.paint();
  }

  readColours() {
    this.painter.readColours();
    this.overview.readColours();
    this.paint();
  }

  paint() {
    const { painter, axis } = this;
    painter.resize(this.height);
    this.signs = [];
    this.rows.forEach((row, index) => this.paintRow(row, index));
    paintRuler(painter, this.record, RULER, this.height);
    for (const broken of this.record.broken.slice(0, 1)) {
      this.paintLine(broken, painter.colours.bad, broken.words.split(":")[0], { width: 2, dash: [6, 3] });
    }
    for (const cut of this.record.cuts) this.paintLine(cut, painter.colours.cut, cut.what, { width: 1.5 });
    this.paintChosen();
    paintOverview(this.overview, this.record);
    const canvas = painter.canvas;
    Object.assign(canvas.dataset, { axis: axis.mode, from: axis.from, to: axis.to, total: axis.total });
  }

  paintRow(row, index) {
    const { painter } = this;
    if (row.heading) {
      painter.rect(0, painter.width, row.top + 17, 1, painter.colours.rule);
      return;
    }
    if (index % 2) painter.rect(0, painter.width, row.top, row.height, painter.colours.band);
    const [top, height] = [row.top + row.label, row.height - row.label];
    if (row.lane.isLog) paintLog(painter, this.record, this.state.selected, top, height, this.narrow);
    for (const item of row.lane.items) {
      const extent = painter.extent(item);
      if (extent) row.lane.draw(painter, item, top, height, ...extent);
    }
  }

  paintLine(item, colour, words, style) {
    const { painter } = this;
    const x = painter.xOf(item.begin);
    if (x < -1 || x > painter.width + 1) return;
    painter.line(x, RULER - 12, this.height, colour, style);
    const width = painter.context.measureText(words).width;
    const isFree = (left) => !this.signs.some(([from, to]) => left < to && from < left + width);
    const right = x + width + 10 > painter.width ? [] : [x + 4];
    const left = [...right, Math.max(x - width - 6, 0)].find(isFree);
    if (left === undefined) return;
    this.signs.push([left - 4, left + width + 4]);
    painter.text(words, left, RULER - 8, colour);
  }

  // Frames the selection, related items, and search results.
  paintChosen() {
    const { painter, state } = this;
    for (const row of this.rows) {
      if (!row.lane) continue;
      const [top, height] = [row.top + row.label, row.height - row.label];
      for (const item of row.lane.items) {
        const isSelected = item === state.selected;
        const isMatch = state.matched.has(item);
        const belongs = !isSelected && state.related.has(item);
        const extent = isSelected || isMatch || belongs ? painter.extent(item) : null;
        if (!extent) continue;
        if (isMatch) painter.outline(...extent, top + 2, height - 4, painter.colours.match, 3);
        if (belongs) painter.outline(...extent, top + 3, height - 6, painter.colours.selected, 1);
        if (isSelected) painter.outline(...extent, top + 2, height - 4, painter.colours.selected, 2);
      }
    }
    if (state.marked !== null) painter.line(painter.xOf(state.marked), RULER, this.height, painter.colours.soft, { dash: [2, 3] });
  }

  rowAt(y) {
    return this.rows.find((row) => row.lane && y >= row.top && y < row.top + row.height);
  }

  // The topmost item at a point of the canvas.
  itemAt(x, y) {
    const row = this.rowAt(y);
    const across = [...this.record.broken.slice(0, 1), ...this.record.cuts].find((one) => Math.abs(this.painter.xOf(one.begin) - x) < 4);
    if (!row) return across;
    const near = (item, slack) => {
      const extent = this.painter.extent(item);
      return extent && x >= extent[0] - slack && x <= extent[1] + slack;
    };
    const items = row.lane.items;
    const onHold = row.lane.group === "tasks" && y < row.top + row.height - 4;
    const fits = (item, slack) => near(item, slack) && !(onHold && item.kind === "hold");
    return items.findLast((item) => fits(item, 0)) ?? items.findLast((item) => fits(item, 3)) ?? across;
  }
}
