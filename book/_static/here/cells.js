// The cells of a page become editors, and Python runs in the page: of exercises and of chapters alike.
//
// What is written is kept by this browser, and sent nowhere.
import { editor } from "./editor.js";
import { startPython } from "./python.js";

const PROGRESS = "handgrad.progress"; // as in progress.js
const ANSWER = 10_000; // milliseconds in which Python says that it begins
const MINUTE = 60_000; // for a cell of a chapter

let place = ""; // the address of this folder
let page = ""; // the name of the page
let cells = [];
let worker = null; // Python, from the first run to the next stop
let ready = null; // a promise: it can run
let running = null; // {cell, shipped, end, silence}: what runs, and what ends it
let busy = false;
let outcome = ""; // of a run, where there is more to say than that it is done

// What is kept -----------------------------------------------------------------------------------------------

const answersKey = () => `handgrad.answers ${page}`;

function kept(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    bar.warning.textContent = "";
  } catch {
    const words = "This browser keeps nothing more: export your answers before you leave.";
    if (bar.warning.textContent !== words) bar.warning.textContent = words;
  }
}

function keepAnswer(cell) {
  if (cell.asks.childElementCount) return; // another tab has changed it: the reader decides
  const answers = kept(answersKey(), {});
  if (isShipped(cell)) delete answers[cell.id];
  else answers[cell.id] = cell.text();
  keep(answersKey(), answers);
}

// What the verdict calls right counts as solved, on the maps too.
function keepVerdict(shown) {
  const label = shown.querySelector("[role=group][aria-label]")?.getAttribute("aria-label") ?? "";
  const [exercise, verdict] = label.split(": ");
  if (!verdict) return;
  outcome = `${exercise}: ${verdict}.`;
  if (verdict !== "right") return;
  const { read = [], solved = [] } = kept(PROGRESS, {});
  keep(PROGRESS, { read, solved: [...new Set([...solved, exercise])] });
}

// Another tab has kept something for this page.
function changedElsewhere({ key, newValue }) {
  if (key !== answersKey()) return;
  const answers = JSON.parse(newValue) ?? {};
  for (const cell of cells) {
    const theirs = answers[cell.id] ?? cell.source;
    cell.asks.replaceChildren();
    if (theirs === cell.text()) continue;
    const decide = (use) => () => {
      cell.asks.replaceChildren();
      use();
    };
    cell.asks.append(
      "This answer was changed in another tab: ",
      button("Take it", decide(() => cell.write(theirs))),
      button("Keep mine", decide(() => keepAnswer(cell))),
    );
  }
}

// Python -----------------------------------------------------------------------------------------------------

function start() {
  const broken = (text) => ended(`Python has ended: ${text}. What you wrote is kept; the next Run starts it again.`);
  ({ worker, ready } = startPython(place, bar.loading, (data) => running && heard(data), broken));
  return ready;
}

// Python is gone; what is written and what is shown stays.
function ended(words) {
  worker?.terminate();
  worker = ready = null;
  bar.loading.hidden = true;
  for (const cell of cells) cell.ran = null;
  outcome = words;
  running?.end("ended");
  if (!busy) tell(words);
}

const stop = () => ended("Stopped. What you wrote stays; the next Run starts Python again.");

function heard({ kind, name, text, html, formulas, went_well }) {
  const { cell, shipped, end, silence } = running;
  if (kind === "begun") return clearTimeout(silence);
  if (kind === "done") return end(went_well ? "well" : "error");
  const isTypeset = formulas && shipped && cell.stored;
  if (kind === "left" || isTypeset) cell.showStored(true);
  if (isTypeset) return;
  if (kind === "left") cell.left = true;
  const shown = element(kind === "shown" ? "div" : kind === "left" ? "p" : "pre");
  if (kind === "shown") {
    shown.className = "output text_html";
    shown.innerHTML = html;
    keepCaption(cell, shipped, shown);
    keepVerdict(shown);
  } else {
    const isError = kind === "error" || name === "stderr";
    shown.className = kind === "left" ? "here-small" : `output ${isError ? "stderr" : "stream"}`;
    shown.textContent = text;
  }
  const before = cell.output.lastElementChild;
  if (kind === "text" && before?.matches("pre.stream")) before.textContent += text;
  else cell.output.append(shown);
}

// A figure that is drawn as the book draws it keeps its words and its caption.
function keepCaption(cell, shipped, shown) {
  const drawn = shown.querySelector(":scope > img");
  const stored = cell.stored?.querySelectorAll("img") ?? [];
  if (!shipped || !drawn || stored.length !== 1) return;
  const again = (stored[0].closest("figure") ?? stored[0]).cloneNode(true);
  again.removeAttribute("id");
  (again.querySelector("img") ?? again).src = drawn.src;
  drawn.replaceWith(again);
}

// Run a cell, and before it those above that have not run as they stand now.
async function run(asked) {
  if (busy) return;
  busy = true;
  bar.stop.disabled = false;
  outcome = "";
  let end = "";
  tell(ready ? "Python runs." : "Python starts.");
  try {
    for (let at = 0; at <= cells.indexOf(asked); at++) {
      const cell = cells[at];
      if (cell !== asked && cell.ran === cell.text()) continue;
      bar.at.textContent = `cell ${at + 1} of ${cells.length}`;
      await (ready ?? start());
      end = await runAlone(cell);
      if (end === "ended") break;
      if (end !== "late") continue;
      tell(`${cell.id} takes more than a minute: Python starts again without it.`);
      at = -1;
    }
    tell(outcome || (end === "error" ? "The cell has ended with an error." : `Done.${leftOut()}`));
  } catch (error) {
    tell(`Python could not be started: ${error.message}`);
  }
  busy = false;
  bar.at.textContent = "";
  bar.stop.disabled = true;
}

function leftOut() {
  const left = cells.filter((cell) => cell.left).length;
  return left ? ` ${left} of ${cells.length} cells cannot run here.` : "";
}

async function runAlone(cell) {
  const source = cell.text();
  const shipped = cells.slice(0, cells.indexOf(cell) + 1).every(isShipped);
  const own = { name: cell.id, source };
  const isLate = cell.late === source;
  cell.showStored(false);
  cell.output.replaceChildren();
  cell.left = false;
  cell.box.setAttribute("aria-busy", "true");
  let limit = 0;
  const end = await new Promise((resolve) => {
    const silence = setTimeout(() => worker.onerror({ message: "it does not answer" }), ANSWER);
    running = { cell, shipped, end: resolve, silence };
    worker.postMessage(isLate ? { leave_out: { ...own, why: "it takes more than a minute" } } : { run: { ...own, shipped } });
    if (isChapter()) limit = setTimeout(() => ((cell.late = source), resolve("late"), ended("")), MINUTE);
  });
  clearTimeout(running.silence);
  clearTimeout(limit);
  cell.box.removeAttribute("aria-busy");
  running = null;
  if (end === "ended" || end === "late") cell.showStored(true);
  cell.ran = end === "well" ? source : null;
  return end;
}

// The page ---------------------------------------------------------------------------------------------------

const isChapter = () => !page.includes("/exercises/");
const isShipped = (cell) => cell.text() === cell.source;

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

const button = (textContent, onclick) => element("button", { type: "button", textContent, onclick });

const bar = {
  all: button("Run all", () => run(cells.at(-1))),
  stop: button("Stop", stop),
  save: button("Export .ipynb", exported),
  load: element("input", { type: "file", accept: ".ipynb", onchange: imported }),
  loading: element("progress", { max: 1, value: 0, hidden: true }),
  told: element("span", { className: "here-small here-told", role: "status" }),
  at: element("span", { className: "here-small" }),
  warning: element("span", { className: "here-small", role: "alert" }),
};

function tell(words) {
  bar.told.textContent = words;
}

// The notebook of the page, which is served with it.
async function notebook() {
  const answer = await fetch(`${place}/../../_sources/${page}.ipynb`);
  if (!answer.ok) throw new Error(`the notebook: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

// The cells become editors.
export async function open(shown, itsPlace, itsPage) {
  [place, page] = [itsPlace, itsPage];
  const found = (await notebook()).cells.filter(({ cell_type }) => cell_type === "code");
  const boxes = [...document.querySelectorAll(".bd-article div.cell")];
  const answers = kept(answersKey(), {});
  const load = element("label", { className: "here-small" }, "Import ", bar.load);
  bar.stop.disabled = true;
  shown.replaceChildren(bar.all, bar.stop, bar.save, load, bar.loading, bar.told, bar.at, bar.warning);
  cells = found.map(({ id, source, metadata }) => {
    const isHidden = metadata.tags?.includes("remove-cell");
    const cell = { id, source: [source].flat().join(""), ran: null, left: false, late: null };
    cell.box = isHidden ? element("div", {}, element("div", { className: "cell_input" })) : boxes.shift();
    return furnished(cell, answers[id]);
  });
  addEventListener("storage", changedElsewhere);
  tell("Python is loaded.");
  start().then(() => busy || tell("Python is ready."), () => {});
}

// A cell with its editor, its buttons and the place of its output.
function furnished(cell, answer) {
  const input = cell.box.querySelector(".cell_input");
  const asStored = button("As stored", () => cell.showStored(true));
  cell.stored = cell.box.querySelector(".cell_output");
  cell.output = element("div", { className: "cell_output here-output docutils container" });
  cell.asks = element("p", { className: "here-asks", role: "status" });
  cell.showStored = (isStored) => {
    if (!cell.stored) return;
    cell.stored.hidden = !isStored;
    asStored.hidden = isStored || !isChapter();
    if (isStored) cell.output.replaceChildren();
  };
  const told = { changed: () => keepAnswer(cell), run: () => run(cell), name: cell.id };
  const { node, text, write } = editor(answer ?? cell.source, told);
  Object.assign(cell, { text, write });
  asStored.hidden = true;
  input.replaceChildren(node);
  const buttons = element(
    "div",
    { className: "here-buttons" },
    button(cell.id.endsWith("-check") ? "Check" : "Run", () => run(cell)),
    button("Reset", () => cell.write(cell.source)),
    asStored,
    cell.asks,
  );
  (input.closest("details") ?? input).after(buttons);
  cell.box.append(cell.output);
  return cell;
}

async function exported() {
  const own = await notebook();
  for (const cell of cells) own.cells.find(({ id }) => id === cell.id).source = cell.text().split(/(?<=\n)/);
  const content = new Blob([JSON.stringify(own, null, 1)], { type: "application/json" });
  const link = element("a", { href: URL.createObjectURL(content), download: `${page.split("/").pop()}.ipynb` });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function imported({ target }) {
  try {
    const { cells: theirs } = JSON.parse(await target.files[0].text());
    const sources = new Map(theirs.map(({ id, source }) => [id, [source].flat().join("")]));
    const known = cells.filter(({ id }) => sources.has(id));
    if (!known.length) throw new Error("no cell of this page is in it");
    for (const cell of known) cell.write(sources.get(cell.id));
    tell(`${known.length} cells read from ${target.files[0].name}.`);
  } catch (error) {
    tell(`${target.files[0].name} is not this notebook: ${error.message}. Nothing was changed.`);
  }
}
