// A virtual list: blocks of examples are drawn near the window and emptied when they leave it; the first stays for print.

const BLOCK = 8;
const MARGIN = "1500px";

class LongList {
  constructor(container, draw) {
    this.container = container;
    this.draw = draw;
    this.order = [];
    this.height = 600; // of a block, until one was drawn
    this.watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) this.fill(target); else this.empty(target);
    }, { rootMargin: `${MARGIN} 0px` });
  }

  // Show these examples; what was drawn before is dropped.
  show(order) {
    this.order = order;
    this.watcher.disconnect();
    const blocks = [];
    for (let start = 0; start < order.length; start += BLOCK) blocks.push(createElement("div", { class: "block", "data-start": String(start) }));
    for (const block of blocks) block.style.minHeight = `${this.height}px`;
    this.container.replaceChildren(...blocks);
    for (const block of blocks) this.watcher.observe(block);
    if (blocks.length) this.fill(blocks[0]);
  }

  async fill(block) {
    if (block.filling) return block.filling;
    const start = Number(block.dataset.start);
    block.filling = Promise.all(this.order.slice(start, start + BLOCK).map(this.draw)).then((elements) => {
      if (!block.filling) return;
      block.replaceChildren(...elements);
      block.style.minHeight = "";
      this.height = block.offsetHeight || this.height;
    }).catch((error) => block.replaceChildren(createElement("p", { class: "foot" }, error.message)));
    return block.filling;
  }

  empty(block) {
    if (!block.firstChild || block === this.container.firstChild || block.contains(document.activeElement)) return;
    block.style.minHeight = `${block.offsetHeight}px`;
    block.filling = null;
    block.replaceChildren();
  }

  // Draw the block of the n-th example and return the example's element.
  async reach(index) {
    const block = this.container.children[Math.floor(index / BLOCK)];
    if (!block) return null;
    await this.fill(block);
    return block.children[index % BLOCK] ?? null;
  }
}
