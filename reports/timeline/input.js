// Input: wheel, drag, two fingers, keys.

const WHEEL_STEP = 0.0016;
const CLICK_PIXELS = 4;

function listenToPointer(picture, { changed, hovered, picked }) {
  const canvas = picture.painter.canvas;
  const { axis } = picture;
  const fingers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) axis.move((sideways * unit) / picture.painter.width);
    else axis.zoom(Math.exp(event.deltaY * unit * WHEEL_STEP), picture.painter.placeAt(at(event)[0]));
    changed();
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) travelled = 0;
    canvas.classList.add("dragging");
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!fingers.has(event.pointerId)) {
      hovered(picture.itemAt(x, y), event);
      return;
    }
    const [lastX] = fingers.get(event.pointerId);
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    travelled += Math.abs(x - lastX);
    if (others.length) {
      const [[, [otherX]]] = others;
      const [before, after] = [Math.abs(lastX - otherX), Math.abs(x - otherX)];
      if (before > 8 && after > 8) axis.zoom(before / after, picture.painter.placeAt((x + otherX) / 2));
    } else {
      axis.move((lastX - x) / picture.painter.width);
      if (event.pointerType === "mouse") window.scrollBy(0, fingers.get(event.pointerId)[1] - y);
    }
    fingers.set(event.pointerId, at(event));
    hovered(null, event);
    changed();
  });

  const lifted = (event) => {
    if (fingers.delete(event.pointerId) && event.type === "pointerup" && travelled < CLICK_PIXELS) picked(picture.itemAt(...at(event)));
    if (!fingers.size) canvas.classList.remove("dragging");
  };
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  canvas.addEventListener("pointerleave", (event) => hovered(null, event));

  const overview = picture.overview.canvas;
  const goTo = (event) => {
    const span = axis.to - axis.from;
    const place = ((event.clientX - overview.getBoundingClientRect().left) / overview.clientWidth) * axis.total;
    axis.show(place - span / 2, place + span / 2);
    changed();
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    goTo(event);
  });
  overview.addEventListener("pointermove", (event) => event.buttons && goTo(event));
}

// Keys that work everywhere except in the search field.
function listenToKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement;
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && !["Enter", "Escape"].includes(event.key))) return;
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const key = event.shiftKey && event.key.startsWith("Arrow") ? `Shift${event.key}` : event.key;
    const action = typing ? actions[`typing ${key}`] : actions[key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
}
