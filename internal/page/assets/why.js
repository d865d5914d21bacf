// Why is a Service reachable, or not: the answer of "kubectl fairlead why", beside the
// lists.

import {el, clock} from './text.js';
import {why as ask} from './stream.js';

const SIGNS = {passed: '✓', failed: '✗', unknown: '?', skipped: '–', noted: '!'};

export class Why {
  constructor(box, past) {
    this.box = box;
    this.past = past;
  }

  get isOpen() { return !this.box.hidden; }

  open(about) {
    if (!this.isOpen) this.before = document.activeElement;
    this.about = about;
    this.drawn = '';
    this.box.hidden = false;
    this.box.replaceChildren(this.closer(), el('h2', {}, about || ''));
    this.box.focus();
    if (about) this.load();
  }

  // tell shows what is known of something that is no Service and no address.
  tell({title, reason, text, next}) {
    this.open(null);
    this.box.replaceChildren(this.closer(), el('h2', {}, title), el('ol', {}, el('li', {class: 'step failed'},
      el('span', {class: 'sign'}, SIGNS.failed), el('b', {}, reason || 'Problem'), el('p', {}, text))),
    next ? el('h3', {}, 'What helps') : '', next ? fix(next) : '');
  }

  close() {
    if (!this.isOpen) return;
    this.box.hidden = true;
    this.about = null;
    this.before?.focus?.();
  }

  // refresh asks again a moment after something has changed.
  refresh() {
    if (!this.isOpen || !this.about || this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.isOpen && this.about) this.load();
    }, 500);
  }

  async load() {
    const about = this.about;
    let nodes, same;
    try {
      const all = await ask(about);
      same = JSON.stringify([all, this.past(about)], (key, v) => (key === 'time' ? undefined : v));
      nodes = all.flatMap(w => this.chain(w));
    } catch (e) {
      same = String(e);
      nodes = [el('h2', {}, about), el('p', {class: 'addresses'}, 'Not known now: ' + e.message)];
    }
    if (about !== this.about || same === this.drawn) return;
    this.drawn = same;
    const past = this.past(about);
    if (past.length) {
      nodes.push(el('div', {class: 'past'}, el('h3', {}, 'What happened'), ...past.slice(0, 12).map(h =>
        el('div', {}, el('time', {}, clock(h.at)), sentence(h)))));
    }
    const focused = this.box.contains(document.activeElement);
    this.box.replaceChildren(this.closer(), ...nodes);
    if (focused) this.box.focus();
  }

  closer() {
    return el('button', {type: 'button', class: 'close', 'aria-label': 'Close', onclick: () => this.close()}, '×');
  }

  chain(w) {
    const fixes = [...new Set(w.steps.filter(s => s.mark !== 'passed').flatMap(s => s.fix || []))];
    const state = {ok: '', waiting: 'warn', unreachable: 'bad', unattended: 'warn', 'not served': ''}[w.state];
    return [
      el('h2', {}, w.service || (w.addresses || []).join(', ')),
      el('p', {class: 'addresses'}, w.service ? (w.addresses || []).join(', ') : '', ' ', w.service ? el('span', {class: 'chip ' + state}, w.state) : ''),
      el('ol', {}, ...w.steps.map(s => el('li', {class: 'step ' + s.mark},
        el('span', {class: 'sign', 'aria-label': s.mark}, SIGNS[s.mark] || '–'),
        el('b', {}, s.name, s.reason && (s.mark === 'failed' || s.mark === 'noted') ? el('code', {}, s.reason) : ''),
        el('p', {}, s.fact),
        s.nodes ? el('ul', {}, ...s.nodes.map(n => el('li', {}, n.node + ' ' + n.obstacle))) : ''))),
      fixes.length ? el('h3', {}, 'What helps') : '',
      ...fixes.map(fix),
      ...(w.unknown || []).map(u => el('p', {class: 'addresses'}, 'unknown: ' + u)),
    ].filter(Boolean);
  }
}

// fix is something to do. A command can be copied.
function fix(text) {
  if (!text.startsWith('kubectl ')) return el('div', {class: 'fix'}, text);
  const copy = el('button', {type: 'button', onclick: async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = 'copied';
  }}, 'copy');
  return el('code', {class: 'fix'}, text, copy);
}

// sentence says what has happened.
export function sentence(h) {
  switch (h.kind) {
    case 'moved': return `${h.address} moved from ${h.from} to ${h.to}`;
    case 'announced': return `${h.address} is announced by ${h.to}`;
    case 'joined': return `${h.address} is announced by BGP from ${nodes(h)}`;
    case 'left': return `${h.address} is no longer announced by BGP from ${nodes(h)}`;
    case 'silent': return `${h.address} is not announced`;
    case 'conflict': return `${h.address} is used by another host`;
    case 'lost': return `agent of ${h.to} is lost`;
    case 'back': return `agent of ${h.to} answers again`;
  }
  return h.kind;
}

function nodes(h) {
  const all = h.nodes || [];
  return all.length > 3 ? `${all.slice(0, 2).join(', ')} and ${all.length - 2} more` : all.join(', ');
}
