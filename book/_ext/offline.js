// Keeps what was visited, for readers without a network. With one, everything comes from there, as without this.
"use strict";

const OWN = `handgrad ${registration.scope} `; // other books of the same host keep theirs
const KEPT = `${OWN}BUILD`; // offline.py writes here what names the build: of another, nothing is shown

async function fetched(request, rest) {
  const kept = await caches.open(KEPT);
  try {
    const answer = await fetch(request);
    if (answer.status === 200) rest(kept.put(request, answer.clone()).catch(() => {})); // the disk may be full
    return answer;
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

const isOurs = (address) => address.startsWith(registration.scope);

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(begin()));
addEventListener("fetch", (event) => {
  const rest = (promise) => event.waitUntil(promise);
  if (event.request.method === "GET" && isOurs(event.request.url)) event.respondWith(fetched(event.request, rest));
});
// What a page had loaded before this began.
addEventListener("message", (event) => {
  const rest = (promise) => event.waitUntil(promise);
  rest(Promise.allSettled(event.data.filter(isOurs).map((address) => fetched(new Request(address), rest))));
});
