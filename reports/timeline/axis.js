// Horizontal axis: positions of moments, and the part in view.
//
// By event, all moments have equal width, except that moments at which a task only stops or starts to wait are narrow, so
// polling takes little room. By time, moments of one nanosecond are 1 ns apart, because computing takes no virtual time.

const QUIET_WIDTH = 0.3;
const POLLING_WIDTH = 0.01;
const QUIET_IN_A_ROW = 12;
const MARGIN = 0.012; // share of the width after the last moment
const LEAST_IN_VIEW = { order: 6, time: 12 };

class Axis {
  constructor(record) {
    this.record = record;
    this.mode = "order";
    this.places = { order: orderPlaces(record), time: timePlaces(record) };
    this.from = 0;
    this.to = this.total;
  }

  get total() {
    return this.places[this.mode][this.record.last + 1];
  }

  get least() {
    return Math.min(LEAST_IN_VIEW[this.mode], this.total);
  }

  place(moment) {
    return this.places[this.mode][moment];
  }

  // The moment at a position.
  momentAt(place) {
    const places = this.places[this.mode];
    let low = 0;
    let high = this.record.last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (places[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The virtual time at a position of the axis by time, interpolated between two moments.
  nsAt(place) {
    const { ns, last } = this.record;
    const moment = this.momentAt(place);
    const passed = Math.max(place - this.places.time[moment], 0);
    return moment < last ? Math.min(ns[moment] + passed, ns[moment + 1]) : ns[moment] + passed;
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, this.least), this.total);
    const start = Math.min(Math.max(from - (span - (to - from)) / 2, 0), this.total - span);
    this.from = start;
    this.to = start + span;
  }

  zoom(factor, place) {
    const around = place ?? (this.from + this.to) / 2;
    const span = Math.min(Math.max((this.to - this.from) * factor, this.least), this.total);
    const share = (around - this.from) / (this.to - this.from);
    this.show(around - span * share, around - span * share + span);
  }

  move(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  // Scroll and zoom to a moment.
  center(moment, span) {
    const place = this.place(moment);
    const wanted = Math.min(this.to - this.from, span ?? this.to - this.from);
    this.show(place - wanted * 0.6, place + wanted * 0.4);
  }

  // Switch the axis, with the same moments in view.
  change(mode) {
    const [first, last] = [this.momentAt(this.from), this.momentAt(this.to)];
    const whole = this.to - this.from >= this.total * 0.999;
    this.mode = mode;
    if (whole) this.show(0, this.total);
    else this.show(this.place(first), this.places[mode][Math.min(last + 1, this.record.last + 1)]);
  }
}

function orderPlaces(record) {
  const hasEvent = new Uint8Array(record.ns.length + 1);
  const { operations, holds, puts, promises, cuts, faults, checkpoints, broken, machines } = record;
  for (const items of [operations, holds, puts, promises, cuts, faults, checkpoints, broken, machines]) {
    for (const item of items) hasEvent[item.begin] = hasEvent[item.end] = 1;
  }
  for (const steps of Object.values(record.positions)) for (const [at] of steps) hasEvent[at] = 1;
  const places = new Float64Array(record.ns.length + 1);
  let quiet = 0;
  for (let moment = 0; moment < record.ns.length; moment++) {
    quiet = hasEvent[moment] ? 0 : quiet + 1;
    const width = quiet > QUIET_IN_A_ROW ? POLLING_WIDTH : QUIET_WIDTH;
    places[moment + 1] = places[moment] + (hasEvent[moment] ? 1 : width);
  }
  places[record.ns.length] += places[record.last] * MARGIN;
  return places;
}

function timePlaces(record) {
  const places = new Float64Array(record.ns.length + 1);
  for (let moment = 0; moment < record.ns.length; moment++) {
    places[moment] = moment ? Math.max(record.ns[moment], places[moment - 1] + 1) : record.ns[0];
  }
  places[record.ns.length] = Math.max(places[record.last] + 1, places[record.last] * (1 + MARGIN));
  return places;
}
