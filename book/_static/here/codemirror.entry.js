// What codemirror.js holds of CodeMirror 6 and Lezer (MIT, codemirror.LICENSE). It is made in an empty folder by
//
//   npm install --save-exact @codemirror/commands@6.11.1 @codemirror/lang-python@6.2.1 @codemirror/language@6.13.1 \
//     @codemirror/state@6.7.6 @codemirror/view@6.43.15 @lezer/highlight@1.2.5 @lezer/python@1.1.19 esbuild@0.28.2
//   npx esbuild codemirror.entry.js --bundle --format=esm --minify --legal-comments=none --outfile=codemirror.js
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { pythonLanguage } from "@codemirror/lang-python";
export { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { EditorView, keymap } from "@codemirror/view";
export { tagHighlighter, tags } from "@lezer/highlight";
