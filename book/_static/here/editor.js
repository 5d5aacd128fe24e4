// A field for code: what it shows, what it holds, what happens when it is changed or run.

export function editor(source, { changed, run, name }) {
  const node = document.createElement("textarea");
  Object.assign(node, { value: source, spellcheck: false, className: "here-editor" });
  node.setAttribute("aria-label", `code of ${name}`);
  const fit = () => (node.rows = node.value.split("\n").length);
  node.addEventListener("input", () => (fit(), changed()));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      run();
    }
  });
  fit();
  return {
    node,
    text: () => node.value,
    write(text) {
      node.value = text;
      fit();
      changed();
    },
  };
}
