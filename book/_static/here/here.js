// Solve here: the cells of a page of exercises become editors, and Python runs in the page.
//
// Nothing is loaded before somebody asks for it. Answers are kept by this browser, and sent nowhere.

const PLACE = new URL(".", import.meta.url).href.replace(/\/$/, "");
const PAGE = location.pathname.replace(/.*\/notebooks\//, "notebooks/").replace(/\.html$/, "");
const ANSWERS = `handgrad.answers ${PAGE}`;
const PROGRESS = "handgrad.progress"; // as in progress.js
const SIZE = "48 MB, once";

const cells = JSON.parse(document.getElementById("here-cells").textContent);
const boxes = [...document.querySelectorAll(".bd-article div.cell")].slice(0, cells.length);

let worker = null; // Python, from the first run to the next stop
let ready = null; // a promise: it can run
let done = () => {}; // what waits for the end of the cell that runs
let output = null; // where that cell shows what it makes
let busy = false;

// What is kept -----------------------------------------------------------------------------------------------

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
  } catch {
    tell("This browser keeps nothing more: export your answers before you leave.");
  }
}

function keepAnswer(cell) {
  const answers = kept(ANSWERS, {});
  if (cell.text() === cell.source) delete answers[cell.id];
  else answers[cell.id] = cell.text();
  keep(ANSWERS, answers);
}

// What the verdict calls right counts as solved, on the maps too.
function keepVerdict(shown) {
  const label = shown.querySelector("[role=group][aria-label]")?.getAttribute("aria-label") ?? "";
  const [exercise, outcome] = label.split(": ");
  if (!outcome) return;
  tell(`${exercise}: ${outcome}.`);
  if (outcome !== "right") return;
  const { read = [], solved = [] } = kept(PROGRESS, {});
  keep(PROGRESS, { read, solved: [...new Set([...solved, exercise])] });
}

// Python -----------------------------------------------------------------------------------------------------

function start() {
  const shares = {};
  worker = new Worker(`${PLACE}/worker.js`, { type: "module" });
  bar.loading.hidden = false;
  ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.kind === "part") {
        shares[data.name] = data.share;
        bar.loading.value = Object.values(shares).reduce((sum, share) => sum + share, 0);
      } else if (data.kind === "ready") {
        bar.loading.hidden = true;
        resolve();
      } else if (data.kind === "broken") {
        bar.loading.hidden = true;
        stop();
        reject(new Error(data.text));
      } else heard(data);
    };
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage({ start: PLACE });
  });
  return ready;
}

function heard({ kind, name, text, html, went_well }) {
  if (kind === "done") return done(went_well);
  const shown = document.createElement(kind === "shown" ? "div" : "pre");
  shown.className = kind === "shown" ? "output text_html" : `output ${kind === "error" || name === "stderr" ? "stderr" : "stream"}`;
  if (kind === "shown") shown.innerHTML = html;
  else shown.textContent = text;
  const before = output.lastElementChild;
  if (kind === "text" && before?.matches("pre.stream")) before.textContent += text;
  else output.append(shown);
  if (kind === "shown") keepVerdict(shown);
}

// An endless loop ends with its thread; answers and verdicts stay.
function stop() {
  worker?.terminate();
  worker = ready = null;
  for (const cell of cells) cell.ran = null;
  done(false);
}

// Run a cell, and before it those above that have not run as they stand now.
async function run(cell) {
  if (busy) return;
  busy = true;
  bar.stop.disabled = false;
  tell(ready ? "Python runs." : "Python starts.");
  try {
    await (ready ?? start());
    let went_well = true;
    for (const each of cells.slice(0, cells.indexOf(cell) + 1)) {
      if (each !== cell && each.ran === each.text()) continue;
      went_well = await runAlone(each);
      if (!went_well && each === cell) break;
    }
    if (bar.told.textContent.startsWith("Python")) tell(went_well ? "Done." : "The cell has ended with an error.");
  } catch (error) {
    tell(`Python could not be started: ${error.message}`);
  }
  busy = false;
  bar.stop.disabled = true;
}

async function runAlone(cell) {
  const source = cell.text();
  output = cell.output;
  output.replaceChildren();
  cell.box.querySelector(".cell_output:not(.here-output)")?.remove();
  const went_well = await new Promise((resolve) => {
    done = resolve;
    worker.postMessage({ run: { name: cell.id, source } });
  });
  cell.ran = went_well ? source : null;
  return went_well;
}

// The page ---------------------------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

const bar = {
  begin: element("button", { type: "button", textContent: "Solve here", onclick: open }),
  size: element("span", { className: "here-size", textContent: `runs Python in this page: ${SIZE}; nothing is sent` }),
  stop: element("button", { type: "button", textContent: "Stop", disabled: true, onclick: stop }),
  save: element("button", { type: "button", textContent: "Export .ipynb", onclick: exported }),
  load: element("input", { type: "file", accept: ".ipynb", onchange: imported }),
  loading: element("progress", { max: 1, value: 0, hidden: true }),
  told: element("span", { className: "here-told", role: "status" }),
};

function tell(words) {
  bar.told.textContent = words;
}

// The cells become editors.
async function open() {
  bar.begin.remove();
  bar.size.remove();
  bar.all.append(bar.stop, bar.save, element("label", { className: "here-import" }, "Import ", bar.load), bar.loading, bar.told);
  const answers = kept(ANSWERS, {});
  const { editor } = await import(`${PLACE}/editor.js`);
  cells.forEach((cell, place) => {
    cell.box = boxes[place];
    cell.ran = null;
    const input = cell.box.querySelector(".cell_input");
    const about = cell.id.endsWith("-check") ? "Check" : "Run";
    const button = element("button", { type: "button", textContent: about, onclick: () => run(cell) });
    const reset = element("button", { type: "button", textContent: "Reset", onclick: () => cell.write(cell.source) });
    cell.output = element("div", { className: "cell_output here-output docutils container" });
    const told = { changed: () => keepAnswer(cell), run: () => run(cell), name: cell.id };
    const { node, text, write } = editor(answers[cell.id] ?? cell.source, told);
    Object.assign(cell, { text, write });
    input.replaceChildren(node, element("div", { className: "here-buttons" }, button, reset));
    cell.box.append(cell.output);
  });
  start().then(() => tell("Python is ready."), (error) => tell(`Python could not be started: ${error.message}`));
  tell("Python is loaded.");
}

async function exported() {
  const source = new URL(`../../_sources/${PAGE}.ipynb`, `${PLACE}/`);
  const notebook = await (await fetch(source)).json();
  for (const cell of cells) {
    const own = notebook.cells.find(({ id }) => id === cell.id);
    own.source = cell.text().split(/(?<=\n)/);
  }
  const content = new Blob([JSON.stringify(notebook, null, 1)], { type: "application/json" });
  const link = element("a", { href: URL.createObjectURL(content), download: `${PAGE.split("/").pop()}.ipynb` });
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

document.head.append(element("link", { rel: "stylesheet", href: `${PLACE}/here.css` }));
bar.all = element("div", { className: "here-bar" }, bar.begin, bar.size);
document.querySelector(".bd-article h1").after(bar.all);
if (Object.keys(kept(ANSWERS, {})).length) bar.size.textContent += "; your answers are kept here";
