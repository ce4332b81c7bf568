// Search in pages that are opened from a directory. Browsers start no worker from a file, so its script runs in a
// hidden frame, which a page and its script can reach because about:blank has the origin of the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const script = new URL(url, location.href);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.loaded = new Promise((resolve) => {
        const start = () => {
          document.body.append(this.frame);
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const element = inside.document.createElement("script");
          element.src = script;
          element.onload = () => resolve(inside);
          inside.document.body.append(element);
        };
        document.body ? start() : addEventListener("DOMContentLoaded", start);
      });
    }
    async postMessage(data) {
      (await this.loaded).dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
