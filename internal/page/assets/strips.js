// Pools as strips of addresses. A cell is an address; in large pools it is several, and in
// very large ones long runs of free addresses are folded.

import {el, write, value, format, number} from './text.js';

const LETTERS = {u: 'used', s: 'silent', r: 'reserved', n: 'node', x: 'kept', k: 'kept', f: 'free'};
const WORDS = {u: 'used', s: 'used, but not announced', r: 'reserved', n: 'of a node or its network', x: 'excluded', k: 'not handed out', f: 'free'};
const MANY = 1 << 16; // addresses that are drawn of one strip
const FOLD = 1 << 15, FOLDED = 64; // free addresses in a row that are folded, and to how many
const HEIGHT = 132; // of a strip at most, in pixels

export class Strips {
  constructor(section, {open, tip, addresses}) {
    Object.assign(this, {section, open, tip, addresses});
    this.cards = new Map();
    this.box = section.querySelector('.cards');
    new ResizeObserver(() => this.later()).observe(this.box);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.later());
  }

  show(pools) {
    this.section.hidden = pools.length === 0;
    const names = new Set(pools.map(p => p.name));
    for (const [name, card] of this.cards) {
      if (names.has(name)) continue;
      card.element.remove();
      this.cards.delete(name);
    }
    for (const p of pools) {
      let card = this.cards.get(p.name);
      if (!card) this.cards.set(p.name, card = this.make(p.name));
      if (card.pool === p) continue;
      card.pool = p;
      write(card.summary, fullness(p));
      card.summary.title = p.summary;
      write(card.trouble, p.message || '');
      const strips = p.strips || [];
      if (card.strips.length !== strips.length) {
        card.strips = strips.map(() => this.strip());
        card.body.replaceChildren(...card.strips.map(s => s.element));
      }
      strips.forEach((s, i) => Object.assign(card.strips[i], read(s)));
    }
    pools.forEach((p, i) => {
      const {element} = this.cards.get(p.name);
      if (this.box.children[i] !== element) this.box.insertBefore(element, this.box.children[i] || null);
    });
    this.later();
  }

  make(name) {
    const summary = el('span'), trouble = el('p', {class: 'trouble'}), body = el('div');
    return {element: el('div', {class: 'card'}, el('div', {class: 'name'}, el('b', {title: name}, name), summary), trouble, body), summary, trouble, body, strips: []};
  }

  strip() {
    const canvas = el('canvas', {tabindex: 0, role: 'img'}), from = el('span'), to = el('span');
    const s = {element: el('div', {}, canvas, el('div', {class: 'range'}, from, to)), canvas, from, to, at: -1};
    const cell = e => {
      const x = Math.floor(e.offsetX / s.step), y = Math.floor(e.offsetY / s.step);
      const i = y * s.across + x;
      return x < s.across && i < s.cells ? i : -1;
    };
    this.tip(canvas, e => this.say(s, e.type === 'focus' ? s.at : cell(e)));
    canvas.addEventListener('click', e => this.go(s, cell(e)));
    canvas.addEventListener('blur', () => { s.at = -1; this.paint(s); });
    canvas.addEventListener('keydown', e => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: s.across, ArrowUp: -s.across}[e.key];
      if (e.key === 'Enter' || e.key === ' ') this.go(s, s.at);
      else if (step) {
        s.at = Math.max(0, Math.min(s.cells - 1, s.at + step));
        this.paint(s);
        canvas.dispatchEvent(new FocusEvent('focus'));
      } else return;
      e.preventDefault();
    });
    return s;
  }

  go(s, i) {
    if (i < 0) return;
    const a = address(s, i * s.per);
    if (a) this.open(a);
  }

  say(s, i) {
    if (i < 0) return null;
    const run = runAt(s, i * s.per), a = address(s, i * s.per);
    if (!a) return [el('div', {}, `${run.size >= 2 ** 40 ? 'more than a trillion' : number(run.size)} free addresses`)];
    const known = this.addresses().get(a);
    return [el('b', {}, a), el('div', {}, s.per > 1 ? `and the next ${number(s.per - 1)}` : known ? known.services.join(', ') : WORDS[run.letter]),
      ...(known && known.node ? [el('div', {}, 'announced by ' + known.node)] : [])];
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.colours = null;
      const across = Math.max(1, Math.min(this.cards.size, Math.floor(this.box.clientWidth / 340)));
      this.box.style.setProperty('--across', across);
      for (const card of this.cards.values()) card.strips.forEach(s => this.paint(s));
    });
  }

  colour(letter) {
    this.colours ||= {};
    return this.colours[letter] ||= getComputedStyle(this.section.querySelector('.swatch.' + LETTERS[letter])).backgroundColor;
  }

  paint(s) {
    const width = s.canvas.parentNode.clientWidth;
    if (!width || !s.runs) return;
    // The largest cells that fit; then several addresses in a cell.
    const drawn = s.drawn;
    let step = drawn <= 64 ? 16 : drawn <= 256 ? 11 : drawn <= 1024 ? 7 : 4;
    while (step > 3 && Math.ceil(drawn / Math.floor(width / step)) * step > HEIGHT) step--;
    s.step = step;
    s.across = Math.max(1, Math.floor(width / step));
    s.per = Math.max(1, Math.ceil(drawn / (s.across * Math.floor(HEIGHT / step))));
    s.cells = Math.ceil(drawn / s.per);
    const lines = Math.max(1, Math.ceil(s.cells / s.across)), ratio = devicePixelRatio || 1;
    s.canvas.width = Math.round(width * ratio);
    s.canvas.height = Math.round(lines * step * ratio);
    s.canvas.style.height = lines * step + 'px';
    const c = s.canvas.getContext('2d'), gap = step > 5 ? 2 : 1;
    c.scale(ratio, ratio);
    const rank = 'ksrnxuf';
    for (let i = 0, run = 0, left = s.runs.length ? s.runs[0].drawn : 0; i < s.cells; i++) {
      const at = run;
      let letter = s.runs[run].letter, folded = s.runs[run].folded, used = 0;
      for (let k = 0; k < s.per && run < s.runs.length; k++) {
        const l = s.runs[run].letter;
        if (l === 'u' || l === 's') used++;
        if (l === 's' || rank.indexOf(l) === 5 && letter !== 's') letter = l;
        if (--left === 0 && ++run < s.runs.length) left = s.runs[run].drawn;
      }
      c.globalAlpha = s.per > 1 && letter === 'u' ? .35 + .65 * used / s.per : folded ? Math.max(.12, 1 - (i * s.per - s.runs[at].at) / FOLDED) : 1;
      c.fillStyle = this.colour(letter);
      const x = i % s.across * step, y = Math.floor(i / s.across) * step;
      c.fillRect(x, y, step - gap, step - gap);
      if (i === s.at) {
        c.globalAlpha = 1;
        c.strokeStyle = getComputedStyle(s.canvas).color;
        c.lineWidth = 2;
        c.strokeRect(x, y, step - gap, step - gap);
      }
    }
    write(s.from, s.first);
    write(s.to, (s.folds ? '… ' : '') + s.last);
    s.to.parentNode.style.maxWidth = Math.max(Math.min(s.cells, s.across) * step, 250) + 'px';
    s.canvas.setAttribute('aria-label', `Addresses ${s.first} to ${s.last}. Arrow keys move, Enter explains.`);
  }
}

// fullness of a pool in few words.
function fullness(p) {
  return (p.families || []).map(f => {
    const name = p.families.length > 1 ? f.family + ' ' : '';
    return f.total > 2 ** 32 ? `${name}${number(f.used)} used` : `${name}${number(f.used)} of ${number(f.total)} used`;
  }).join(' · ');
}

// read takes a strip apart.
function read(strip) {
  const runs = [];
  let drawn = 0, folds = false;
  for (const [, letter, count] of strip.runs.matchAll(/([a-z])(\d+)/g)) {
    const size = Number(count);
    const folded = size > FOLD && letter !== 'u' && letter !== 's' || drawn + size > MANY;
    const shown = folded ? Math.min(size, FOLDED) : size;
    folds ||= folded;
    runs.push({letter, size, drawn: shown, folded, at: drawn});
    drawn += shown;
  }
  return {runs, drawn, folds, first: strip.from, last: strip.to};
}

function runAt(s, i) {
  let low = 0, high = s.runs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (s.runs[middle].at <= i) low = middle;
    else high = middle - 1;
  }
  return s.runs[low];
}

// address is the one of a cell, or null where many are folded.
function address(s, i) {
  const run = runAt(s, i);
  if (!run || run.folded && i - run.at >= FOLDED / 2) return null;
  let n = value(s.first);
  for (const r of s.runs) {
    if (r === run) break;
    if (r.size >= 2 ** 40) return fromEnd(s, run, i);
    n += BigInt(r.size);
  }
  return format(n + BigInt(i - run.at), s.first.includes(':'));
}

// fromEnd counts back from the last address: the size of a huge run is not known.
function fromEnd(s, run, i) {
  let n = value(s.last) + 1n;
  for (const r of [...s.runs].reverse()) {
    if (r.size >= 2 ** 40) return null;
    n -= BigInt(r.size);
    if (r === run) return format(n + BigInt(i - run.at), s.first.includes(':'));
  }
  return null;
}
