// Starts Python for a page, in a thread of its own, and hands on what it says.

// loading: a progress bar; heard: takes its messages; broken: takes the words, if it ends. {worker, ready}.
export function startPython(place, loading, heard, broken) {
  const shares = {};
  const worker = new Worker(`${place}/worker.js`, { type: "module" });
  loading.hidden = false;
  const ready = new Promise((resolve, reject) => {
    const ended = (text) => {
      loading.hidden = true;
      broken(text);
      reject(new Error(text));
    };
    worker.onmessage = ({ data }) => {
      if (data.kind === "part") {
        shares[data.name] = data.share;
        loading.value = Object.values(shares).reduce((sum, share) => sum + share, 0);
      } else if (data.kind === "ready") {
        loading.hidden = true;
        resolve();
      } else if (data.kind === "broken") ended(data.text);
      else heard(data);
    };
    worker.onerror = ({ message }) => ended(message ?? "its script could not be loaded");
    worker.postMessage({ start: place });
  });
  return { worker, ready };
}
