// The page Prove here: a sheet goes to Python in this page, and what becomes of each formula is shown.
import { startPython } from "./python.js";

const PLACE = new URL(".", import.meta.url).href.replace(/\/$/, "");
const form = document.getElementById("sheet");
const { example, letters, formulas, lines, stop } = form.elements;
const list = form.querySelector("ol");
const loading = form.querySelector("progress");
const told = form.querySelector("[role=status]");

const OUTCOME = "\u241e"; // begins a line that tells one; other lines are what a sheet prints

let worker = null; // Python, from the first sheet to the next stop
let ready = null; // a promise: it can prove
let heard = () => {}; // what takes its messages

const field = /^letters:(.*)$/m;
const code = /^```python\n([^]*?)^```/m;

function write(sheet) {
  letters.value = field.exec(sheet)?.[1].trim() ?? "";
  lines.value = code.exec(sheet)?.[1].trim() ?? "";
  formulas.value = sheet.replace(/^#.*$/m, "").replace(field, "").replace(code, "").trim();
}

const sheet = () => `letters: ${letters.value}\n\n${formulas.value}\n\n\`\`\`python\n${lines.value}\n\`\`\`\n`;

const element = (name, attributes) => Object.assign(document.createElement(name), attributes);

function start() {
  const broken = (text) => end(`Python has ended: ${text}. Prove starts it again.`);
  told.textContent = "Python is fetched.";
  ({ worker, ready } = startPython(PLACE, loading, (data) => heard(data), broken));
  return ready;
}

function end(words) {
  worker?.terminate();
  worker = ready = null;
  loading.hidden = true;
  ended(words);
}

function ended(words) {
  told.textContent = words;
  stop.disabled = true;
  form.querySelector("[type=submit]").disabled = false;
}

// The letters of the book, for the formulas of the outcomes; without them the TeX is shown.
async function letterpress() {
  if (globalThis.katex) return;
  await new Promise((done) => {
    const script = element("script", { src: `${PLACE}/../katex/katex.min.js`, onload: done, onerror: done });
    document.head.append(script);
  });
}

function show([what, verdict, why]) {
  const item = element("li", { className: `here-${verdict.replace(" ", "-")}` });
  const shown = element("code", { textContent: what });
  if (["defined", "proved", "refuted", "not proved"].includes(verdict) && globalThis.katex) {
    shown.title = what;
    katex.render(what, shown, { displayMode: true, fleqn: true, throwOnError: false });
  }
  item.append(element("strong", { textContent: verdict }), " ", shown, element("span", { textContent: why }));
  list.append(item);
}

async function prove(event) {
  event.preventDefault();
  form.querySelector("[type=submit]").disabled = true;
  stop.disabled = false;
  list.replaceChildren();
  try {
    await Promise.all([ready ?? start(), letterpress()]);
  } catch {
    return; // it is told
  }
  told.textContent = "Python works.";
  let text = "", wrong = "";
  heard = (data) => {
    if (data.kind === "text" && data.name === "stdout") {
      const complete = (text + data.text).split("\n");
      text = complete.pop();
      for (const line of complete) if (line.startsWith(OUTCOME)) show(JSON.parse(line.slice(1)));
    } else if (["error", "left"].includes(data.kind)) wrong = data.text.split("\n").pop();
    else if (data.kind === "done") ended(wrong || "Done.");
  };
  const source = `import json\nfrom handgrad.page.sheet import outcomes\n
for outcome in outcomes(${JSON.stringify(sheet())}):\n    print("\\n${OUTCOME}" + json.dumps(outcome))`;
  worker.postMessage({ run: { name: "sheet", source } });
}

async function choose() {
  const answer = await fetch(`${PLACE}/sheets/${example.value}.txt`);
  if (answer.ok) write(await answer.text());
}

document.head.append(element("link", { rel: "stylesheet", href: `${PLACE}/here.css` }));
form.onsubmit = prove;
stop.onclick = () => end("Stopped.");
example.onchange = choose;
const asked = new URLSearchParams(location.search).get("example");
if ([...example.options].some(({ value }) => value === asked)) example.value = asked;
choose();
