// The bar at the top: it scrolls without touching the address, and names the part in view.

function startNavigation() {
  const links = [...document.querySelectorAll("nav a")];
  const headings = links.map((link) => $(link.getAttribute("href")));
  for (const [at, link] of links.entries()) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      headings[at].scrollIntoView({ block: "start" });
      headings[at].focus({ preventScroll: true });
    });
  }
  const markCurrent = () => {
    const edge = $("nav").getBoundingClientRect().bottom + 40;
    const atEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2;
    const current = atEnd ? headings.length - 1 : headings.findLastIndex((heading) => heading.getBoundingClientRect().top <= edge);
    for (const [at, link] of links.entries()) {
      if (at === Math.max(current, 0)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  document.addEventListener("scroll", markCurrent, { passive: true });
  markCurrent();
  openNotesForPrint();
}

// Notes are folded on the screen, not on paper.
function openNotesForPrint() {
  const opened = new Set();
  window.addEventListener("beforeprint", () => {
    for (const notes of document.querySelectorAll("details.notes:not([open])")) opened.add(notes);
    for (const notes of opened) notes.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const notes of opened) notes.open = false;
    opened.clear();
  });
}
