"use strict";

const root = document.body.dataset.root;
const input = document.querySelector("#search input");
const list = document.querySelector("#search ol");
let picked = 0;

const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

// Every word must be in the part of the page; where it is says how much it counts.
function score(part, query) {
  const title = part.t.toLowerCase(), page = part.p.toLowerCase(), text = part.x.toLowerCase();
  let sum = 0;
  for (const word of query) {
    const count = text.split(word).length - 1;
    const here = (title.includes(word) ? 12 : 0) + (title === word ? 20 : 0) + (page.includes(word) ? 4 : 0) + Math.min(count, 4);
    if (!here) return 0;
    sum += here;
  }
  return sum;
}

// Only text is added to the page, never HTML.
function marked(element, text, query) {
  const at = new RegExp(query.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
  let end = 0;
  for (const match of text.matchAll(at)) {
    element.append(text.slice(end, match.index));
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    element.append(mark);
    end = match.index + match[0].length;
  }
  element.append(text.slice(end));
}

function excerpt(text, query) {
  const lower = text.toLowerCase();
  const at = Math.max(0, Math.min(...query.map((w) => lower.indexOf(w)).filter((i) => i >= 0), lower.length) - 50);
  return (at > 0 ? "…" : "") + text.slice(at, at + 150) + (at + 150 < text.length ? "…" : "");
}

function search() {
  const query = words(input.value);
  list.replaceChildren();
  list.hidden = query.length === 0;
  if (list.hidden) return;
  const best = window.docs.map((part) => ({ part, score: score(part, query) }))
    .filter((r) => r.score > 0).sort((a, b) => b.score - a.score).slice(0, 20);
  for (const { part } of best) {
    const item = document.createElement("li"), link = document.createElement("a"), where = document.createElement("small");
    link.href = root + part.u;
    marked(link, part.t === part.p ? part.t : `${part.p} › ${part.t}`, query);
    marked(where, excerpt(part.x, query), query);
    link.append(where);
    item.append(link);
    list.append(item);
  }
  if (best.length === 0) {
    const none = document.createElement("li");
    none.className = "none";
    none.textContent = "Nothing found.";
    list.append(none);
  }
  pick(0);
}

function pick(index) {
  const items = list.querySelectorAll("li");
  picked = Math.max(0, Math.min(index, items.length - 1));
  items.forEach((item, i) => item.classList.toggle("picked", i === picked));
  items[picked]?.scrollIntoView({ block: "nearest" });
}

input.addEventListener("input", search);
input.addEventListener("focus", search);
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) { event.preventDefault(); pick(picked + step); }
  if (event.key === "Enter") list.querySelectorAll("li a")[picked]?.click();
  if (event.key === "Escape") { input.value = ""; search(); input.blur(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest("#search")) list.hidden = true; });
list.addEventListener("click", () => { list.hidden = true; input.blur(); });

function theme() {
  const element = document.documentElement;
  const dark = element.dataset.theme ? element.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  element.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", element.dataset.theme); } catch { /* it is forgotten */ }
}
document.querySelector("#theme").addEventListener("click", theme);
document.querySelector("#menu").addEventListener("click", () => document.body.classList.toggle("contents"));
document.addEventListener("keydown", (event) => {
  if (event.target === input || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); input.focus(); }
  if (event.key === "t") theme();
});

for (const pre of document.querySelectorAll("main pre")) {
  const text = pre.textContent, button = document.createElement("button");
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    // Of a transcript, only what one types.
    const typed = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    navigator.clipboard?.writeText(typed.length > 0 ? typed.join("\n") + "\n" : text).then(() => { button.textContent = "Copied"; });
  });
  pre.append(button);
}
document.querySelector("nav li.here")?.scrollIntoView({ block: "center" });
