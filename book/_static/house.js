// A box that scrolls must be reachable by keyboard; a box that does not must not be a stop.
"use strict";

const BOXES = "div.math, .pst-scrollable-table-container, .output, pre";

function reachableBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}

function whenReady() {
  const mathematics = window.MathJax?.startup?.promise ?? Promise.resolve();
  mathematics.then(reachableBoxes);
  window.addEventListener("resize", reachableBoxes);
}

window.addEventListener("load", whenReady);
