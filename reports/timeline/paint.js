// Shared drawing: sharp canvases, colours of the page, hatching, conversion to pixels.

const COLOURS = ["ground", "panel", "ink", "soft", "faint", "rule", "band", "running", "ready", "idle", "lock", "sync", "write", "name",
  "read", "good", "bad", "cut", "selected", "match", "fault", "wrote", "committed", "flushed", "dispatched", "dirty"];
const FONT = "11px system-ui, sans-serif";

class Painter {
  constructor(canvas, axis) {
    this.canvas = canvas;
    this.axis = axis;
    this.context = canvas.getContext("2d");
    this.hatches = new Map();
    this.readColours();
  }

  // The page resolves colours for light or dark mode.
  readColours() {
    const probe = document.body.appendChild(document.createElement("i"));
    this.colours = {};
    for (const name of COLOURS) {
      probe.style.color = `var(--${name})`;
      this.colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    this.hatches.clear();
  }

  resize(height) {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    const [width, tall] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== tall) [this.canvas.width, this.canvas.height] = [width, tall];
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    this.context.clearRect(0, 0, this.width, height);
  }

  x(place) {
    return ((place - this.axis.from) / (this.axis.to - this.axis.from)) * this.width;
  }

  xOf(moment) {
    return this.x(this.axis.place(moment));
  }

  placeAt(x) {
    return this.axis.from + (x / this.width) * (this.axis.to - this.axis.from);
  }

  // The pixel range of an item, null outside of the view; short items have a minimum width.
  extent(item, least = 2) {
    const left = this.xOf(item.begin);
    const right = Math.max(this.xOf(item.end), left + least);
    return right < 0 || left > this.width ? null : [Math.max(left, -4), Math.min(right, this.width + 4)];
  }

  rect(left, right, top, height, colour) {
    this.context.fillStyle = colour;
    this.context.fillRect(left, top, Math.max(right - left, 0.75), height);
  }

  outline(left, right, top, height, colour, width = 2) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(left - 1, top - 1, Math.max(right - left, 1) + 2, height + 2);
  }

  // A striped colour, which differs from the plain one also without colour vision.
  hatch(colour) {
    if (!this.hatches.has(colour)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const context = tile.getContext("2d");
      context.strokeStyle = colour;
      context.lineWidth = 2;
      for (const shift of [-6, 0, 6]) {
        context.beginPath();
        context.moveTo(shift - 1, 7);
        context.lineTo(shift + 7, -1);
        context.stroke();
      }
      this.hatches.set(colour, this.context.createPattern(tile, "repeat"));
    }
    return this.hatches.get(colour);
  }

  text(words, x, y, colour, room = Infinity) {
    if (room < 14) return;
    let shown = words;
    if (this.context.measureText(shown).width > room) {
      while (shown && this.context.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
      if (shown.length < 3) return;
      shown += "…";
    }
    this.context.fillStyle = colour;
    this.context.fillText(shown, x, y);
  }

  line(x, top, bottom, colour, { width = 1, dash = [] } = {}) {
    const context = this.context;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
    context.setLineDash([]);
  }

  cross(x, y, size, colour) {
    const context = this.context;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
    context.stroke();
  }

  diamond(x, y, size, colour) {
    const context = this.context;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.fill();
  }
}
