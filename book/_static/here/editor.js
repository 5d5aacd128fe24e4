// A field for code: what it shows, what it holds, what happens when it is changed or run.
import * as cm from "./codemirror.js";

// The words of Python have the classes that they have in the book's own code, and so its colours.
const { tags } = cm;
const words = cm.tagHighlighter([
  { tag: [tags.keyword, tags.controlKeyword, tags.definitionKeyword], class: "k" },
  { tag: tags.moduleKeyword, class: "kn" },
  { tag: [tags.bool, tags.null], class: "kc" },
  { tag: tags.operatorKeyword, class: "ow" },
  { tag: tags.operator, class: "o" },
  { tag: tags.number, class: "mi" },
  { tag: tags.string, class: "s2" },
  { tag: tags.special(tags.string), class: "s2" },
  { tag: tags.escape, class: "se" },
  { tag: tags.comment, class: "c1" },
  { tag: tags.function(tags.definition(tags.variableName)), class: "nf" },
  { tag: tags.definition(tags.className), class: "nc" },
  { tag: tags.meta, class: "nd" },
]);

// Escape and then Tab leaves: CodeMirror sees to it.
const keys = document.createElement("p");
Object.assign(keys, { id: "here-keys", hidden: true });
keys.textContent = "Tab indents. Escape, then Tab, leaves the code. Control and Enter run it.";
document.body.append(keys);

export function editor(source, { changed, run, name }) {
  const view = new cm.EditorView({
    doc: source,
    extensions: [
      cm.keymap.of(["Mod-Enter", "Shift-Enter"].map((key) => ({ key, run: () => (run(), true) }))),
      cm.history(),
      cm.bracketMatching(),
      cm.indentOnInput(),
      cm.indentUnit.of("    "),
      cm.pythonLanguage,
      cm.syntaxHighlighting(words),
      cm.keymap.of([cm.indentWithTab, ...cm.historyKeymap, ...cm.defaultKeymap]),
      cm.EditorView.contentAttributes.of({ "aria-label": `code of ${name}`, "aria-describedby": keys.id, tabindex: "0" }),
      cm.EditorView.updateListener.of(({ docChanged }) => docChanged && changed()),
    ],
  });
  const node = document.createElement("div");
  node.className = "here-editor highlight";
  node.append(view.dom);
  return {
    node,
    text: () => view.state.doc.toString(),
    write: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
  };
}
