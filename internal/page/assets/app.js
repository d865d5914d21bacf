// The page: what is known, and how the parts show it.

import {el, write, clock, number, order} from './text.js';
import {follow, token} from './stream.js';
import {List} from './list.js';
import {Matrix} from './matrix.js';
import {Strips} from './strips.js';
import {Why, sentence} from './why.js';
import {tips} from './tip.js';

const $ = selector => document.querySelector(selector);
const collections = ['head', 'nodes', 'pools', 'addresses', 'services', 'problems', 'timeline'];
const known = Object.fromEntries(collections.map(name => [name, new Map()]));
const sorted = {};
const began = performance.now();

const tip = tips($('#tip'));
const search = $('#search input');
const past = about => [...known.timeline.values()].filter(h => h.address === about || (h.services || []).includes(about)).sort(later);
const later = (a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : Number(b.id) - Number(a.id));
const why = new Why($('#why'), past);
const narrow = text => {
  search.value = search.value === text ? '' : text;
  draw();
};
const matrix = new Matrix($('#matrix'), {open: a => why.open(a), tip, narrow});
const strips = new Strips($('#pools'), {open: a => why.open(a), tip, addresses: () => known.addresses});

const attention = new List({
  box: $('#attention .rows'), height: 80, key: i => i.key,
  open: i => (i.about ? why.open(i.about) : why.tell(i)),
  nothing: () => !head().read ? '' : search.value && known.services.size ? 'Nothing here matches the search.' : 'Nothing waits. Every Service has what it asks for.',
  make: () => el('div', {class: 'row'}, el('i', {class: 'mark'}), el('div', {}, el('div', {class: 'title'}, el('b', {class: 'cut'}), el('span', {class: 'cut'})), el('div', {class: 'text'}))),
  fill: (row, i) => {
    const [title, text] = row.children[1].children;
    row.className = 'row ' + i.level;
    write(title.children[0], i.title);
    write(title.children[1], i.reason || '');
    write(text, i.text || '');
    row.title = i.text || '';
  },
});

const firstSeen = new Map();
const timeline = new List({
  box: $('#timeline .rows'), height: 46, key: h => h.id,
  open: h => (h.address ? why.open(h.address) : narrow('node:' + h.to)),
  nothing: () => !head().read ? '' : search.value && known.timeline.size ? 'Nothing here matches the search.' : 'Nothing has moved.',
  make: () => el('div', {class: 'row'}, el('time'), el('div', {class: 'what'}, el('div', {class: 'cut'}), el('small', {class: 'cut'}))),
  fill: (row, h) => {
    row.className = 'row ' + h.kind + (Date.now() - firstSeen.get(h.id) < 5000 ? ' fresh' : '');
    write(row.children[0], clock(h.at));
    const [what, more] = row.children[1].children;
    if (what.dataset.id !== h.id) {
      what.dataset.id = h.id;
      if (h.kind === 'moved') {
        what.replaceChildren(el('span', {class: 'mono'}, h.address), '  ' + h.from, el('span', {class: 'arrow'}, '→'), h.to);
      } else {
        what.replaceChildren(sentence(h));
      }
    }
    const text = [(h.services || []).join(', '), h.text].filter(Boolean).join(' · ');
    write(more, text);
    row.title = text;
  },
});

const head = () => known.head.get('head') || {};

// take takes over a message.
function take({first, changes}) {
  if (first) {
    for (const name of collections) {
      const had = known[name];
      known[name] = new Map();
      if (name === 'addresses') known.before = had;
      sorted[name] = null;
    }
  }
  for (const [name, {set = {}, gone = []}] of Object.entries(changes)) {
    const rows = known[name];
    if (!rows) continue;
    for (const key of gone) rows.delete(key);
    for (const [key, row] of Object.entries(set)) {
      const was = rows.get(key) || (name === 'addresses' && known.before?.get(key));
      if (name === 'addresses') {
        row.key = was?.key || order(key);
        row.text = [row.address, ...row.services, row.node, ...(row.nodes || []), row.pool, row.reason].join(' ').toLowerCase();
        if (was && was.node && row.node && was.node !== row.node) matrix.noteMove(key, was.node);
        else if (was && !was.node && row.node && was.last && was.last !== row.node) matrix.noteMove(key, was.last);
        if (was) matrix.noteRoutes(key, was.nodes || [], row.nodes || []);
        row.last = row.node || was?.last || was?.node;
      }
      if (name === 'timeline' && !firstSeen.has(key)) firstSeen.set(key, Date.now() - new Date(row.at) < 60000 ? Date.now() : 0);
      rows.set(key, row);
    }
    sorted[name] = null;
  }
  known.before = null;
  connected = true;
  draw();
  why.refresh();
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const orders = {
  addresses: (a, b) => compare(a.key, b.key), nodes: (a, b) => compare(a.name, b.name), pools: (a, b) => compare(a.name, b.name),
  services: (a, b) => compare(a.service, b.service), problems: (a, b) => compare(a.about, b.about), timeline: later,
};
const all = name => sorted[name] ||= [...known[name].values()].sort(orders[name]);

// filter returns what a search asks for.
function filter() {
  const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return () => true;
  return (text, facts) => words.every(word => {
    const [, field, rest] = /^(node|pool|ns):(.*)$/.exec(word) || [];
    if (!field) return text.includes(word);
    const has = facts[field] || [];
    return has.some(x => (field === 'ns' ? x.startsWith(rest) : x === rest));
  });
}

const lower = x => (x || '').toLowerCase();
const spaces = services => (services || []).map(s => s.split('/')[0]);

function draw() {
  if (draw.waiting) return;
  draw.waiting = true;
  requestAnimationFrame(() => {
    draw.waiting = false;
    drawNow();
  });
}

function drawNow() {
  const matches = filter();
  const facts = a => ({node: [a.node, ...(a.nodes || [])].map(lower), pool: [lower(a.pool)], ns: spaces(a.services)});
  const addresses = all('addresses');
  matrix.show(all('nodes'), search.value ? addresses.filter(a => matches(a.text, facts(a))) : addresses, addresses.length);
  strips.show(all('pools'));
  const items = waiting(), seen = items.filter(i => matches(lower([i.title, i.reason, i.text].join(' ')), {node: [lower(i.node)], pool: [], ns: spaces([i.title])}));
  write($('#attention .count'), items.length ? (seen.length === items.length ? number(items.length) : `${number(seen.length)} of ${number(items.length)}`) : '');
  attention.show(seen);
  const happened = all('timeline').filter(h => matches(lower([sentence(h), h.text, ...(h.services || [])].join(' ')), {node: [h.from, h.to, ...(h.nodes || [])].map(lower), pool: [], ns: spaces(h.services)}));
  timeline.show(happened);
  drawHead();
  if (head().read && !document.body.dataset.painted) {
    document.body.dataset.painted = Math.round(performance.now() - began);
  }
}

// waiting is what needs somebody: unreachable first.
function waiting() {
  const out = [];
  for (const n of all('nodes')) {
    if (n.state !== 'ready' && n.state !== 'leaving') out.push({key: 'node ' + n.name, title: n.name, node: n.name, reason: n.reason, text: n.message, level: 'unreachable'});
  }
  for (const p of all('problems')) out.push({key: 'problem ' + p.about + p.reason, title: p.about, reason: p.reason, text: p.message, next: p.next, level: 'unreachable'});
  const services = all('services').filter(s => s.state === 'waiting' || s.state === 'unreachable');
  for (const state of ['unreachable', 'waiting']) {
    for (const s of services) {
      if (s.state === state) out.push({key: s.service, about: s.service, title: s.service, reason: s.reason, text: s.message, level: state});
    }
  }
  return out;
}

let connected = false;

function drawHead() {
  const h = head(), away = !connected || !!h.away;
  write($('#cluster'), h.cluster || '');
  document.body.dataset.away = away;
  const time = h.at ? clock(h.at, false) : '';
  write($('#asof'), away ? (time ? 'as of ' + time : 'connecting') : 'live');
  $('#asof').title = !connected ? 'The server of this page does not answer.' : h.away || (h.at ? 'All this is so at ' + clock(h.at) : '');
  $('#unknown').hidden = !h.unknown?.length;
  write($('#unknown'), h.unknown?.length ? 'Unknown: ' + h.unknown.join('; ') + '.' : '');
  const chips = [];
  const chip = (n, text, level) => chips.push([n, text, level]);
  if (h.read) {
    const s = h.services || {};
    chip(number(s.ok || 0), (s.ok || 0) === 1 ? 'Service reachable' : 'Services reachable', '');
    if (s.unreachable) chip(number(s.unreachable), 'unreachable', 'bad');
    if (s.waiting) chip(number(s.waiting), 'waiting', 'warn');
    if (h.agents.used && !h.agents.unknown) chip(`${h.agents.ready}/${h.agents.nodes}`, 'agents', h.agents.ready < h.agents.nodes ? 'bad' : '');
    if (!h.controller.unknown) chip(`${h.controller.ready}/${h.controller.pods}`, h.controller.leader ? 'controllers' : 'controllers, no leader', h.controller.leader ? '' : 'bad');
  } else if (h.away) {
    chip('', h.away, '');
  }
  const text = JSON.stringify(chips);
  if (drawHead.last !== text) {
    drawHead.last = text;
    $('#verdict').replaceChildren(...chips.map(([n, words, level]) => el('span', {class: 'chip ' + level}, n ? el('b', {}, n) : '', words)));
  }
  const trouble = (h.services?.unreachable || 0) + (h.services?.waiting || 0);
  document.title = (away ? '○ ' : trouble ? `(${trouble}) ` : '') + 'Fairlead' + (h.cluster ? ' · ' + h.cluster : '');
}

// Theme
const root = document.documentElement;
const themes = ['', 'light', 'dark'];
const setTheme = name => {
  if (name) root.dataset.theme = name;
  else delete root.dataset.theme;
  strips.later();
};
setTheme(localStorage.getItem('fairlead-theme') || '');
function nextTheme() {
  const name = themes[(themes.indexOf(root.dataset.theme || '') + 1) % themes.length];
  localStorage.setItem('fairlead-theme', name);
  setTheme(name);
}
$('#theme').addEventListener('click', nextTheme);

// Keys
const help = $('#help');
$('#keys').addEventListener('click', () => help.showModal());
help.querySelector('.close').addEventListener('click', () => help.close());
search.addEventListener('input', draw);
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (e.key === 'Escape') {
    if (why.isOpen) why.close();
    else if (search.value) { search.value = ''; draw(); }
    else document.activeElement?.blur?.();
    return;
  }
  if (e.target === search) {
    if (e.key === 'ArrowDown' || e.key === 'Enter') {
      $('#matrix .rows').focus();
      if (matrix.list.items.length) matrix.list.pick(matrix.list.items[0].address, e.key === 'Enter');
      e.preventDefault();
    }
    return;
  }
  const go = {1: '#pools canvas', 2: '#matrix .rows', 3: '#attention .rows', 4: '#timeline .rows'}[e.key];
  if (e.key === '/') search.focus();
  else if (e.key === 't') nextTheme();
  else if (e.key === '?') help.showModal();
  else if (go) $(go)?.focus();
  else return;
  e.preventDefault();
});
document.addEventListener('pointerdown', e => {
  if (why.isOpen && !e.target.closest('#why, .row, canvas')) why.close();
});

// Sign-in, where the page is served in the cluster.
const signin = $('#signin');
function refused(text) {
  connected = false;
  drawHead();
  write(signin.querySelector('.text'), token.get() ? 'This token was refused: ' + text + '.' : 'The page shows what only some may see.');
  if (!signin.open) signin.showModal();
  return new Promise(done => {
    const input = signin.querySelector('input');
    const go = () => {
      if (!input.value.trim()) return;
      token.set(input.value.trim());
      input.value = '';
      signin.close();
      done();
    };
    signin.querySelector('.go').onclick = go;
    input.onkeydown = e => e.key === 'Enter' && go();
    signin.oncancel = e => e.preventDefault();
  });
}

drawHead();
follow({changed: take, lost: () => { connected = false; drawHead(); }, refused});

