// How the search ranks pages, and what it quotes of them. Sphinx reads it as `html_search_scorer`.
"use strict";

const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);

var Scorer = {
  // Pages and sections first whose own title says what is asked, and chapters before what hangs beside them.
  score([page, title, , , score]) {
    const named = asked.filter((word) => title.toLowerCase().includes(word)).length;
    const chapter = /^notebooks\/\d/.test(page) ? 10 : 0;
    return Math.min(score, 20) / 2 + chapter + (asked.length ? (20 * named) / asked.length : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// What is quoted is the text of a page: no contents, no buttons, and no formulas.
const NO_TEXT = "nav, script, style, h1, .headerlink, .katex, .evidence, .established, .admonition-title";

document.addEventListener("DOMContentLoaded", () => {
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article");
    const found = (anchor && article?.querySelector(anchor)) || article;
    for (const other of found?.querySelectorAll(NO_TEXT) ?? []) other.remove();
    return found ? found.textContent.replace(/\s+/g, " ") : "";
  };
});
