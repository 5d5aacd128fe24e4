// Stops of the Tab key: a box that scrolls is one, a box that does not is none; nor are the buttons for copying
// and the links of headings to themselves, of which there is one at every cell and every heading.
"use strict";

const BOXES = "div.math, .pst-scrollable-table-container, .output, pre";

function reachableBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}

function whenReady() {
  for (const button of document.querySelectorAll("button.copybtn, a.headerlink"))
    button.tabIndex = -1;
  const mathematics = window.MathJax?.startup?.promise ?? Promise.resolve();
  mathematics.then(reachableBoxes);
  window.addEventListener("resize", reachableBoxes);
}

window.addEventListener("load", whenReady);
