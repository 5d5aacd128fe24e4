// What the theme leaves open: formulas that fit a narrow page, few stops of the Tab key, pages on paper.
"use strict";

const BOXES = "div.math, .pst-scrollable-table-container, .output, pre, .cell_output, .scrolls";
const SMALLEST = 0.7; // of its size, to which a formula shrinks before its box scrolls

function fitFormulas() {
  for (const formula of document.querySelectorAll(".katex-display")) {
    formula.style.fontSize = "";
    const share = formula.clientWidth / formula.scrollWidth;
    if (share < 1) formula.style.fontSize = `${100 * Math.max(SMALLEST, share - 0.01)}%`;
  }
}

// A box that scrolls must be reachable by keyboard; a box that does not must not be a stop. Nor are the buttons
// for copying and the links of headings to themselves, one at every cell and every heading.
function reachableBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}

function fit() {
  fitFormulas();
  reachableBoxes();
}

// Paper is white, whatever the screen is.
function printInLight() {
  const root = document.documentElement;
  let theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => (root.dataset.theme = theme));
}

// A link into a fold opens it: the mark beside an equation leads to the cell that checks it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.closest("details") ?? target?.querySelector("details.hide");
  if (!fold || fold.open) return;
  fold.open = true;
  target.scrollIntoView();
}

// On a phone a figure that is touched is shown large, and scrolls; a second touch closes it.
function enlargeFigures() {
  const large = document.createElement("dialog");
  large.className = "enlarged";
  large.setAttribute("aria-label", "The figure, enlarged");
  document.body.append(large);
  document.addEventListener("click", ({ target }) => {
    if (large.open) large.close();
    else if (innerWidth < 600 && target.matches(".bd-article :is(.cell_output, .scrolls, figure) img")) {
      large.replaceChildren(target.cloneNode());
      large.showModal();
    }
  });
}

// The index of equations, by chapter and by kind of evidence.
function filterEntries() {
  const form = document.querySelector(".entry-filter");
  if (!form) return;
  const { kind, chapter } = form.elements;
  form.hidden = false;
  form.addEventListener("input", () => {
    const wanted = `.entries${chapter.value && "." + chapter.value} .entry${kind.value && "." + kind.value}`;
    for (const box of document.querySelectorAll(".entries, .entry"))
      box.hidden = !(box.matches(wanted) || box.querySelector(wanted));
    form.querySelector("output").value = `${document.querySelectorAll(wanted).length} found`;
  });
}

// The theme brings back where the sidebar was; the page that is read comes first.
function showWhereWeAre() {
  const sidebar = document.querySelector(".bd-sidebar-primary");
  const here = [...document.querySelectorAll(".bd-sidebar-primary .current.active")].pop();
  if (!here || !sidebar) return;
  const { top, bottom } = here.getBoundingClientRect();
  if (top < 0 || bottom > window.innerHeight) sidebar.scrollTop += top - window.innerHeight / 3;
}

// offline.js keeps what is visited. When it begins, it is told what this page has loaded already.
function keepForOffline() {
  const keeper = navigator.serviceWorker;
  if (!keeper || !location.protocol.startsWith("http")) return; // a page from a disk is there anyway
  keeper.addEventListener("controllerchange", () => {
    const loaded = performance.getEntriesByType("resource").map((resource) => resource.name);
    keeper.controller.postMessage([location.href, ...loaded]);
  });
  keeper.register(`${document.documentElement.dataset.content_root}offline.js`).catch(() => {});
}

function whenReady() {
  for (const stop of document.querySelectorAll("button.copybtn, a.headerlink")) stop.tabIndex = -1;
  fit();
  document.fonts.ready.then(fit);
  window.addEventListener("resize", fit);
  document.addEventListener("click", () => requestAnimationFrame(fit)); // it may have opened a box
  window.addEventListener("hashchange", openTarget);
  openTarget();
  filterEntries();
  enlargeFigures();
  showWhereWeAre();
  keepForOffline();
}

printInLight();
window.addEventListener("load", whenReady);
