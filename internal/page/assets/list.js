// A list of any length, of which only the rows exist that can be seen. A row stays the
// same element as long as its item can be seen, so what moves in it can be animated.

const MORE = 6; // rows above and below what can be seen

export class List {
  // box scrolls; key names an item; make makes an empty row; fill shows an item in it.
  constructor({box, height, key, make, fill, open, nothing}) {
    Object.assign(this, {box, height, key, make, fill, open, nothing});
    this.items = [];
    this.rows = new Map();
    this.spare = [];
    this.selected = null;
    this.space = document.createElement('div');
    this.space.className = 'space';
    this.empty = document.createElement('p');
    this.empty.className = 'nothing';
    box.append(this.space, this.empty);
    box.addEventListener('scroll', () => this.later(), {passive: true});
    new ResizeObserver(() => this.later()).observe(box);
    box.addEventListener('keydown', e => this.keys(e));
    box.addEventListener('click', e => {
      const row = e.target.closest('.row');
      if (row) this.pick(row.dataset.key, true);
    });
  }

  show(items) {
    this.items = items;
    this.space.style.height = items.length * this.height + 'px';
    this.empty.hidden = items.length > 0;
    this.empty.textContent = this.nothing();
    this.later();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const top = this.box.scrollTop, seen = this.box.clientHeight;
    const from = Math.max(0, Math.floor(top / this.height) - MORE);
    const to = Math.min(this.items.length, Math.ceil((top + seen) / this.height) + MORE);
    const keep = new Set();
    for (let i = from; i < to; i++) keep.add(this.key(this.items[i]));
    for (const [key, row] of this.rows) {
      if (keep.has(key)) continue;
      this.rows.delete(key);
      row.remove();
      this.spare.push(row);
    }
    let below = null; // rows are in the document as they are seen
    for (let i = to - 1; i >= from; i--) {
      const item = this.items[i], key = this.key(item);
      let row = this.rows.get(key), fresh = false;
      if (!row) {
        fresh = true;
        row = this.spare.pop() || this.make();
        row.dataset.key = key;
        row.id = this.box.parentNode.id + '-' + (this.count = (this.count || 0) + 1);
        row.setAttribute('role', 'option');
        this.rows.set(key, row);
        this.space.insertBefore(row, below);
      }
      below = row;
      row.style.transform = `translateY(${i * this.height}px)`;
      row.setAttribute('aria-selected', key === this.selected);
      row.setAttribute('aria-posinset', i + 1);
      row.setAttribute('aria-setsize', this.items.length);
      this.fill(row, item, fresh);
    }
    const picked = this.rows.get(this.selected);
    if (picked) this.box.setAttribute('aria-activedescendant', picked.id);
    else this.box.removeAttribute('aria-activedescendant');
  }

  pick(key, open) {
    this.selected = key;
    this.later();
    const item = this.items.find(i => this.key(i) === key);
    if (open && item) this.open(item);
  }

  keys(e) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const step = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[e.key];
    const at = this.items.findIndex(i => this.key(i) === this.selected);
    if (e.key === 'Enter' && at >= 0) {
      this.open(this.items[at]);
    } else if (step && this.items.length && !e.ctrlKey && !e.metaKey && !e.altKey) {
      const to = at < 0 ? 0 : Math.min(this.items.length - 1, Math.max(0, at + step));
      this.pick(this.key(this.items[to]));
      const y = to * this.height;
      if (y < this.box.scrollTop) this.box.scrollTop = y;
      if (y + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = y + this.height - this.box.clientHeight;
    } else {
      return;
    }
    e.preventDefault();
  }
}
