// The button of a page whose cells run in it. Everything else is loaded by whoever presses it.

const PLACE = new URL(".", import.meta.url).href.replace(/\/$/, "");
const PAGE = location.pathname.replace(/.*\/notebooks\//, "notebooks/").replace(/\.html$/, "");

const bar = document.querySelector(".here-bar");
bar.firstElementChild.disabled = false;
try {
  const kept = localStorage.getItem(`handgrad.answers ${PAGE}`) ?? "{}";
  if (kept !== "{}") bar.lastElementChild.textContent += "; what you wrote is kept here";
} catch {} // a browser that keeps nothing
bar.firstElementChild.onclick = async () => {
  try {
    const { open } = await import(`${PLACE}/cells.js`);
    await open(bar, PLACE, PAGE);
  } catch (error) {
    bar.lastElementChild.textContent = `It could not be loaded: ${error.message}`;
  }
};
