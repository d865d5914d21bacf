// One tooltip for all.

export function tips(box) {
  let owner = null;
  const hide = () => { box.hidden = true; owner = null; };
  document.addEventListener('scroll', hide, true);
  return (element, say) => {
    const show = e => {
      const content = say(e);
      if (!content) return hide();
      owner = element;
      box.replaceChildren(...content);
      box.hidden = false;
      const area = element.getBoundingClientRect();
      const x = e.clientX ?? area.left, y = e.clientY ?? area.bottom;
      box.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.offsetWidth - 8)) + 'px';
      box.style.top = (y + 18 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 10 : y + 18) + 'px';
    };
    element.addEventListener('pointermove', show);
    element.addEventListener('focus', show);
    element.addEventListener('pointerleave', () => owner === element && hide());
    element.addEventListener('blur', () => owner === element && hide());
  };
}
