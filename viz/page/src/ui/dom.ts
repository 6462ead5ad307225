// Elements from text: names of a run never become markup.

type Child = Node | string | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<Omit<HTMLElementTagNameMap[K], 'style'>> & { style?: string; data?: Record<string, string> } = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  const { style, data, ...rest } = properties;
  Object.assign(element, rest);
  if (style) element.setAttribute('style', style);
  for (const [key, value] of Object.entries(data ?? {})) element.dataset[key] = value;
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Control characters would vanish or turn the text around: they are shown as their pictures. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) =>
    c.charCodeAt(0) < 0x20 ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : '\ufffd');
}

export function table(rows: [string, string | Node][], className = 'facts'): HTMLTableElement {
  return el('table', { className }, ...rows.map(([key, value]) => el('tr', {}, el('th', {}, key), el('td', {}, value))));
}

export function button(text: string, title: string, click: () => void, className = ''): HTMLButtonElement {
  const element = el('button', { textContent: text, title, className, type: 'button' });
  element.addEventListener('click', click);
  return element;
}

export const swatch = (colour: string) => el('span', { className: 'swatch', style: `background:${colour}` });
