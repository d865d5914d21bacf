// Elements and texts. Everything that comes from the cluster becomes a text node: nothing
// here, and nothing that uses it, makes HTML of a string.

export function el(tag, props, ...children) {
  const out = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') out.className = value;
    else if (key.startsWith('on')) out.addEventListener(key.slice(2), value);
    else if (key === 'dateTime') out.dateTime = value;
    else out.setAttribute(key, value === true ? '' : value);
  }
  out.append(...children.filter(c => c !== undefined && c !== null && c !== ''));
  return out;
}

// write changes a text only if it differs: the browser then has nothing to do.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const two = n => String(n).padStart(2, '0');

// clock is the time of day, with the date if that is another day.
export function clock(time, seconds = true) {
  const t = new Date(time), now = new Date();
  const day = t.toDateString() === now.toDateString() ? '' : `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} `;
  return `${day}${two(t.getHours())}:${two(t.getMinutes())}${seconds ? ':' + two(t.getSeconds()) : ''}`;
}

// ago is how long something has been, in the units of kubectl.
export function ago(time, now = Date.now()) {
  const s = Math.max(0, Math.round((now - new Date(time)) / 1000));
  if (s < 120) return s + 's';
  if (s < 3 * 3600) return Math.floor(s / 60) + 'm';
  if (s < 48 * 3600) return Math.floor(s / 3600) + 'h';
  return Math.floor(s / 86400) + 'd';
}

export const number = n => n.toLocaleString('en');

// value is an address as a number.
export function value(address) {
  if (!address.includes(':')) return address.split('.').reduce((n, part) => n * 256n + BigInt(part), 0n);
  const [head, tail] = address.split('::');
  const groups = part => (part ? part.split(':') : []).flatMap(g =>
    g.includes('.') ? [value(g) >> 16n, value(g) & 0xffffn] : [BigInt('0x' + g)]);
  const left = groups(head), right = tail === undefined ? [] : groups(tail);
  const middle = Array(8 - left.length - right.length).fill(0n);
  return [...left, ...middle, ...right].reduce((n, g) => n * 65536n + g, 0n);
}

// format is the address of a number, as the cluster writes it.
export function format(n, v6) {
  if (!v6) return [24n, 16n, 8n, 0n].map(shift => (n >> shift) & 255n).join('.');
  const groups = Array.from({length: 8}, (_, i) => ((n >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  let best = [0, 0];
  for (let i = 0, run = 0; i < 8; i++) {
    run = groups[i] === '0' ? run + 1 : 0;
    if (run > best[1]) best = [i - run + 1, run];
  }
  if (best[1] < 2) return groups.join(':');
  return groups.slice(0, best[0]).join(':') + '::' + groups.slice(best[0] + best[1]).join(':');
}

// order is a text by which addresses sort as numbers do, IPv4 first.
export const order = address => (address.includes(':') ? '6' : '4') + value(address).toString(16).padStart(32, '0');
