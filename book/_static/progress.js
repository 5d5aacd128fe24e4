// What a reader has read and solved. It is kept by this browser, and sent nowhere.
"use strict";

const KEPT = "handgrad.progress";

function kept() {
  const nothing = { read: [], solved: [] };
  try {
    return { ...nothing, ...JSON.parse(localStorage.getItem(KEPT)) };
  } catch {
    return nothing; // a browser that keeps nothing, or a record that is none
  }
}

function keep(progress) {
  localStorage.setItem(KEPT, JSON.stringify(progress));
  show();
}

// How far one chapter is: a sign on the map, words on a card.
function show() {
  const { read, solved } = kept();
  for (const box of document.querySelectorAll(".read-mark input")) box.checked = read.includes(box.dataset.page);
  for (const box of document.querySelectorAll(".chapter-graph a")) {
    const isRead = read.includes(box.dataset.page);
    box.classList.toggle("read", isRead);
    box.querySelector(".done").textContent = isRead ? " ✓ read" : "";
  }
  let right = 0;
  let exercises = 0;
  for (const card of document.querySelectorAll(".chapters .done")) {
    const names = card.dataset.exercises.split(" ");
    const done = names.filter((name) => solved.includes(name)).length;
    const words = read.includes(card.dataset.page) ? ["✓ read"] : [];
    if (done) words.push(`${done} of ${names.length} exercises solved`);
    card.textContent = words.join(" · ");
    right += done;
    exercises += names.length;
  }
  const chapters = document.querySelectorAll(".chapters .done").length;
  for (const told of document.querySelectorAll(".progress-told")) {
    told.textContent = `Read: ${read.length} of ${chapters} chapters. Solved: ${right} of ${exercises} exercises.`;
  }
}

function markAsRead({ target }) {
  const { read, solved } = kept();
  const others = read.filter((page) => page !== target.dataset.page);
  keep({ read: target.checked ? [...others, target.dataset.page] : others, solved });
}

// The record of the judge, a verdict on each line: what was once right counts as solved.
async function load({ target }) {
  const told = document.querySelector(".progress-loaded");
  try {
    const lines = (await target.files[0].text()).split("\n").filter((line) => line.trim());
    const right = lines.map((line) => JSON.parse(line)).filter((verdict) => verdict.status === "right");
    const names = right.map((verdict) => verdict.exercise);
    const { read, solved } = kept();
    keep({ read, solved: [...new Set([...solved, ...names])] });
    told.textContent = `${lines.length} verdict${lines.length === 1 ? "" : "s"} read.`;
  } catch {
    told.textContent = `${target.files[0].name} is not a record of the judge; nothing was changed.`;
  }
}

function forget() {
  localStorage.removeItem(KEPT);
  show();
}

// All that a chapter of the map needs lights up with it.
function lightUp(box) {
  const needed = new Set(box ? box.dataset.needs.split(" ").filter(Boolean) : []);
  const own = box?.dataset.number;
  let minutes = 0;
  for (const other of document.querySelectorAll(".chapter-graph a")) {
    const isNeeded = needed.has(other.dataset.number);
    other.classList.toggle("needed", isNeeded);
    if (isNeeded) minutes += Number(other.dataset.minutes);
  }
  for (const arrow of document.querySelectorAll(".chapter-graph .arrows path[data-to]")) {
    const { from, to } = arrow.dataset;
    arrow.classList.toggle("needed", needed.has(from) && (needed.has(to) || to === own));
  }
  const told = document.querySelector(".chapter-graph-told");
  if (!box) told.textContent = "";
  else if (needed.size === 0) told.textContent = `Chapter ${own} needs no other.`;
  else {
    const hours = `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
    told.textContent = `Chapter ${own} builds on ${[...needed].join(", ")}: ${hours} of reading before it.`;
  }
}

function start() {
  for (const box of document.querySelectorAll(".read-mark, .your-progress")) box.hidden = false;
  for (const box of document.querySelectorAll(".read-mark input")) box.addEventListener("change", markAsRead);
  document.querySelector(".your-progress input")?.addEventListener("change", load);
  document.querySelector(".your-progress button")?.addEventListener("click", forget);
  for (const box of document.querySelectorAll(".chapter-graph a")) {
    for (const event of ["pointerenter", "focus"]) box.addEventListener(event, () => lightUp(box));
    for (const event of ["pointerleave", "blur"]) box.addEventListener(event, () => lightUp(null));
  }
  show();
}

document.addEventListener("DOMContentLoaded", start);
