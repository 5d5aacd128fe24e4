// Python in a thread of its own: one interpreter that stays alive, and runs one cell after another.
//
// Messages to it: {start: address of the parts} once, then {run: {name, source, shipped}} or {leave_out: {name,
// source, why}}, functions of session.py. Messages from it are those of session.py, and {kind: "part", share}
// while it loads, {kind: "ready"}, {kind: "begun"} for each cell, {kind: "broken", text}.
import { ConsoleStdout, Directory, File, OpenFile, PreopenDirectory, WASI } from "./wasi/index.js";

const PARTS = { "python.wasm": 0.45, "library.pack": 0.45, "book.pack": 0.1 }; // of the loading

const say = (message) => self.postMessage(message);
let python;

// A part comes compressed, whatever the server says of it.
async function part(place, name) {
  const answer = await fetch(`${place}/${name}.gz`);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  const size = Number(answer.headers.get("Content-Length"));
  let read = 0;
  const counted = new TransformStream({
    transform(piece, controller) {
      read += piece.byteLength;
      if (size) say({ kind: "part", name, share: PARTS[name] * Math.min(1, read / size) });
      controller.enqueue(piece);
    },
  });
  const stream = answer.body.pipeThrough(counted).pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream, { headers: { "Content-Type": "application/wasm" } });
}

// A pack is the length of its index, the index [[path, size], ...] as JSON, and the files one after another.
function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const index = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const root = new Map();
  let start = 4 + length;
  for (const [path, size] of index) {
    const names = path.split("/");
    const last = names.pop();
    let folder = root;
    for (const name of names) {
      if (!folder.has(name)) folder.set(name, new Directory(new Map()));
      folder = folder.get(name).contents;
    }
    folder.set(last, new File(new Uint8Array(buffer, start, size), { readonly: true }));
    start += size;
  }
  return root;
}

async function start(place) {
  const [program, library, book] = await Promise.all([
    part(place, "python.wasm").then((answer) => WebAssembly.compileStreaming(answer)),
    part(place, "library.pack").then((answer) => answer.arrayBuffer()),
    part(place, "book.pack").then((answer) => answer.arrayBuffer()),
  ]);
  const modules = unpacked(library);
  const standard = modules.get("python315.zip");
  modules.set("lib-dynload", new Directory(new Map()));
  const files = [
    new OpenFile(new File([])),
    ConsoleStdout.lineBuffered((line) => say(JSON.parse(line))), // what session.py prints
    ConsoleStdout.lineBuffered((line) => say({ kind: "text", name: "stderr", text: `${line}\n` })),
    new PreopenDirectory("/usr/local/lib", new Map([["python315.zip", standard], ["python3.15", new Directory(modules)]])),
    new PreopenDirectory("/book", unpacked(book)),
    new PreopenDirectory("/", new Map([["tmp", new Directory(new Map())]])),
  ];
  const settings = ["HOME=/tmp", "TMPDIR=/tmp", "PYTHONTZPATH=", "MPLBACKEND=svg", "PYTHONDONTWRITEBYTECODE=1"];
  const wasi = new WASI(["/usr/local/bin/python.wasm"], settings, files, { debug: false });
  const asked = {};
  for (const { module, name } of WebAssembly.Module.imports(program)) {
    asked[module] ??= {};
    asked[module][name] = (module === "wasi_snapshot_preview1" && wasi.wasiImport[name]) || (() => 52); // ENOSYS
  }
  python = (wasi.inst = await WebAssembly.instantiate(program, asked)).exports;
  python._initialize();
  turn("import sys; sys.path[:0] = ['/book', '/usr/local/lib/python3.15']; import session");
}

// Run lines in the interpreter.
function turn(lines) {
  const bytes = new TextEncoder().encode(lines);
  const place = python.host_alloc(bytes.length) >>> 0;
  new Uint8Array(python.memory.buffer, place, bytes.length).set(bytes);
  return python.turn(place, bytes.length);
}

self.onmessage = async ({ data }) => {
  try {
    if (data.start) {
      await start(data.start);
      say({ kind: "ready" });
    } else {
      const [[called, values]] = Object.entries(data);
      say({ kind: "begun" });
      turn(`session.${called}(**session.json.loads(${JSON.stringify(JSON.stringify(values))}))`);
    }
  } catch (error) {
    say({ kind: "broken", text: String(error.message ?? error) });
  }
};
