// The page Prove here: a sheet goes to Python in this page, and what becomes of each formula is shown.

const PLACE = new URL(".", import.meta.url).href.replace(/\/$/, "");
const form = document.getElementById("sheet");
const { example, letters, formulas, lines, stop } = form.elements;
const list = form.querySelector("ol");
const loading = form.querySelector("progress");
const told = form.querySelector("[role=status]");

let worker = null; // Python, from the first sheet to the next stop
let heard = () => {}; // what takes its messages

const field = /^letters:(.*)$/m;
const code = /^```python\n([^]*?)^```/m;

function write(sheet) {
  letters.value = field.exec(sheet)?.[1].trim() ?? "";
  lines.value = code.exec(sheet)?.[1].trim() ?? "";
  formulas.value = sheet.replace(/^#.*$/m, "").replace(field, "").replace(code, "").trim();
}

const sheet = () => `letters: ${letters.value}\n\n${formulas.value}\n\n\`\`\`python\n${lines.value}\n\`\`\`\n`;

// Python, once it is there.
function python() {
  return new Promise((resolve, reject) => {
    const shares = {};
    worker = new Worker(`${PLACE}/worker.js`, { type: "module" });
    loading.hidden = false;
    told.textContent = "Python is fetched.";
    worker.onmessage = ({ data }) => {
      if (data.kind === "part") {
        shares[data.name] = data.share;
        loading.value = Object.values(shares).reduce((sum, share) => sum + share, 0);
      } else if (data.kind === "ready") resolve();
      else if (data.kind === "broken") reject(new Error(data.text));
      else heard(data);
    };
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage({ start: PLACE });
  }).finally(() => (loading.hidden = true));
}

function ended(words) {
  told.textContent = words;
  stop.disabled = true;
  form.querySelector("[type=submit]").disabled = false;
}

function end() {
  worker?.terminate();
  worker = null;
  ended("Stopped.");
}

function show([what, verdict, why]) {
  const item = document.createElement("li");
  item.className = `here-${verdict.replace(" ", "-")}`;
  for (const [name, text] of [["strong", verdict], ["code", what], ["span", why]]) {
    item.append(Object.assign(document.createElement(name), { textContent: text }), " ");
  }
  list.append(item);
}

async function prove(event) {
  event.preventDefault();
  form.querySelector("[type=submit]").disabled = true;
  stop.disabled = false;
  list.replaceChildren();
  try {
    if (!worker) await python();
  } catch (error) {
    end();
    return ended(`Python could not be started: ${error.message}`);
  }
  told.textContent = "Python works.";
  let text = "", wrong = "";
  heard = (data) => {
    if (data.kind === "text" && data.name === "stdout") {
      const complete = (text + data.text).split("\n");
      text = complete.pop();
      for (const line of complete) show(JSON.parse(line));
    } else if (data.kind === "error") wrong = data.text.split("\n").pop();
    else if (data.kind === "done") ended(wrong || "Done.");
  };
  const source = `import json\nfrom handgrad.page.sheet import outcomes\n
for outcome in outcomes(${JSON.stringify(sheet())}):\n    print(json.dumps(outcome))`;
  worker.postMessage({ run: { name: "sheet", source } });
}

async function choose() {
  const answer = await fetch(`${PLACE}/sheets/${example.value}.txt`);
  if (answer.ok) write(await answer.text());
}

document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${PLACE}/here.css` }));
form.onsubmit = prove;
stop.onclick = end;
example.onchange = choose;
choose();
