// Addresses in rows, nodes in columns. The dot of an address is in the column of the node
// that announces it, and slides when that is another one. An address that is announced by BGP
// has a ring in the column of each node that announces it; where columns are narrow, rings of
// neighbours are one bar.

import {el, write, ago, number} from './text.js';
import {List} from './list.js';

const ROW = 28, GLOW = 5000, NARROW = 13;

export class Matrix {
  constructor(section, {open, tip, narrow}) {
    this.section = section;
    this.tip = tip;
    this.narrow = narrow;
    this.names = section.querySelector('.names');
    this.columns = section.querySelector('.columns');
    this.nodes = [];
    this.index = new Map();
    this.moves = new Map(); // address → where it came from, and when
    this.routes = new Map(); // address → nodes that began or ended to announce it by BGP, and when
    this.cut = false;
    const box = section.querySelector('.rows');
    this.list = new List({
      box, height: ROW, key: a => a.address, make, open: a => open(a.address),
      fill: (row, a, fresh) => this.fill(row, a, fresh),
      nothing: () => this.empty || 'No Service has an address.',
    });
    new ResizeObserver(() => this.measure()).observe(section);
    setInterval(() => this.list.later(), 15000); // how long ago
  }

  // noteMove remembers that an address was on another node.
  noteMove(address, from) {
    this.moves.set(address, {from, at: Date.now()});
  }

  // noteRoutes remembers which nodes began to announce an address by BGP, and which ended.
  noteRoutes(address, was, is) {
    const came = is.filter(n => !was.includes(n)), went = was.filter(n => !is.includes(n));
    if (came.length + went.length) this.routes.set(address, {came, went, at: Date.now()});
  }

  show(nodes, addresses, all) {
    const same = nodes.length === this.nodes.length && nodes.every((n, i) => n === this.nodes[i]);
    this.nodes = nodes;
    this.cut = nodes.some(n => n.announced > n.listed);
    if (!same) {
      this.index = new Map(nodes.map((n, i) => [n.name, i]));
      this.head();
      this.measure();
    }
    const wide = addresses.some(a => a.address.length > 16);
    this.section.querySelector('.grid').style.setProperty('--address', wide ? '270px' : '150px');
    write(this.section.querySelector('.count'), addresses.length === all ? number(all) : `${number(addresses.length)} of ${number(all)}`);
    this.section.querySelector('.legend').hidden = !addresses.some(a => a.nodes);
    this.empty = all ? 'Nothing here matches the search.' : 'No Service has an address.';
    this.list.show(addresses);
  }

  // head makes the names of nodes.
  head() {
    this.names.replaceChildren(...this.nodes.map(n => {
      const state = n.state === 'ready' ? (n.interfaces ? 'troubled' : '') : n.state;
      const button = el('button', {type: 'button', class: state, tabindex: -1, onclick: () => this.narrow('node:' + n.name)}, n.name);
      this.tip(button, () => [el('b', {}, n.name), el('div', {}, n.message || `announces ${number(n.announced)}`),
        ...(n.cordoned ? [el('div', {}, 'cordoned')] : []), ...(n.interfaces || []).map(i => el('div', {}, i))]);
      return button;
    }));
  }

  // measure gives every node a column of the same width.
  measure() {
    const n = Math.max(1, this.nodes.length);
    const room = Math.max(120, this.section.clientWidth * .55);
    this.col = Math.max(4, Math.min(90, Math.floor(room / n)));
    const lane = this.col * n;
    const grid = this.section.querySelector('.grid');
    grid.style.setProperty('--lane', lane + 'px');
    grid.style.setProperty('--col', this.col + 'px');
    const longest = Math.max(0, ...this.nodes.map(x => x.name.length)) * 7;
    const flat = longest < this.col - 6;
    grid.style.setProperty('--head', (flat ? 18 : this.col < NARROW ? 4 : Math.min(110, longest * .75 + 20)) + 'px');
    [...this.names.children].forEach((b, i) => {
      b.hidden = this.col < NARROW;
      const x = i * this.col + this.col / 2;
      b.style.transform = flat ? `translateX(${x}px) translateX(-50%)` : `translateX(${x + 5}px) rotate(-52deg)`;
    });
    this.list.later();
  }

  fill(row, a, fresh) {
    const [address, of, lane, since] = row.children;
    const [ghost, dot, rings, nobody] = lane.children;
    // A node that announces it to nobody, for lack of a session, has no ring.
    const routed = a.node || !a.reason ? (a.nodes || []).filter(n => this.index.has(n)) : [];
    write(address, a.address);
    write(of, a.services.join(', '));
    write(since, (a.node || routed.length) && a.since ? ago(a.since) : '');
    row.title = [a.services.join(', '), routed.length ? 'by BGP from ' + few(routed) : ''].filter(Boolean).join(' · ');
    const at = this.index.get(a.node), silent = at === undefined && !routed.length;
    dot.hidden = at === undefined;
    nobody.hidden = !silent;
    this.rings(rings, a.address, routed);
    row.dataset.nodes = routed.join(' ');
    if (silent) {
      const text = a.reason || (this.cut ? 'the agents list only some of their addresses' : a.protocol ? '' : 'no agent announces it');
      write(nobody, text);
      nobody.classList.toggle('soft', !a.reason);
    }
    const move = this.moves.get(a.address);
    const young = move && Date.now() - move.at < GLOW;
    if (move && !young) this.moves.delete(a.address);
    row.classList.toggle('still', fresh);
    if (at !== undefined) dot.style.transform = `translateX(${at * this.col}px)`;
    const from = young ? this.index.get(move.from) : undefined;
    if (from !== undefined) ghost.style.transform = `translateX(${from * this.col}px)`;
    row.classList.toggle('shifted', !!young);
    row.dataset.node = a.node || '';
  }

  // rings shows the nodes that announce an address by BGP, and fades out those that ended.
  rings(box, address, routed) {
    let change = this.routes.get(address);
    if (change && Date.now() - change.at > GLOW) {
      this.routes.delete(address);
      change = null;
    }
    const cells = [];
    const put = (node, kind) => {
      const at = this.index.get(node), last = cells.at(-1);
      if (at === undefined) return;
      if (last && this.col < NARROW && last.kind === kind && last.to === at - 1) last.to = at;
      else cells.push({kind, from: at, to: at});
    };
    const sorted = [...routed].sort((a, b) => this.index.get(a) - this.index.get(b));
    for (const node of sorted) put(node, change?.came.includes(node) ? 'came' : '');
    for (const node of change?.went || []) put(node, 'went');
    const drawn = JSON.stringify([cells, this.col]);
    if (box.dataset.drawn === drawn) return;
    box.dataset.drawn = drawn;
    box.replaceChildren(...cells.map(c => {
      const ring = el('i', {class: 'ring ' + c.kind});
      ring.style.transform = `translateX(${c.from * this.col}px)`;
      if (c.to > c.from) ring.style.width = 12 + (c.to - c.from) * this.col + 'px';
      return ring;
    }));
  }
}

// few names the first of many.
function few(names) {
  return names.length > 5 ? `${names.slice(0, 4).join(', ')} and ${names.length - 4} more` : names.join(', ');
}

function make() {
  return el('div', {class: 'row'}, el('span', {class: 'address cut'}), el('span', {class: 'of cut'}),
    el('span', {class: 'lane'}, el('i', {class: 'ghost'}), el('i', {class: 'dot'}), el('span', {class: 'rings'}), el('span', {class: 'nobody cut'})),
    el('span', {class: 'since'}));
}
