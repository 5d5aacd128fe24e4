// Keeps what was visited, for readers without a network. With one, everything comes from there, as without this.
"use strict";

const OWN = `handgrad ${registration.scope} `; // other books of the same host keep theirs
const KEPT = `${OWN}BUILD`; // offline.py writes here what names the build: of another, nothing is shown

// The answer to a request, during an event, which does not end before the answer is kept.
async function answer(request, event) {
  const kept = await caches.open(KEPT);
  try {
    const fetched = await fetch(request);
    if (fetched.status === 200) event.waitUntil(kept.put(request, fetched.clone()).catch(() => {})); // a full disk
    return fetched;
  } catch (error) {
    const before = await kept.match(request, { ignoreSearch: request.mode === "navigate" });
    if (before) return before;
    throw error;
  }
}

async function begin() {
  const old = (await caches.keys()).filter((name) => name.startsWith(OWN) && name !== KEPT);
  await Promise.all(old.map((name) => caches.delete(name)));
  await clients.claim();
}

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(begin()));
addEventListener("fetch", (event) => event.respondWith(answer(event.request, event)));
// The addresses of what a page had loaded before this began.
addEventListener("message", (event) =>
  event.waitUntil(Promise.allSettled(event.data.map((address) => answer(new Request(address), event)))),
);
