// The search field, and the find that is shown.

import { count } from '../format';
import { Page } from '../page';
import { Selection } from '../view';
import { el } from './dom';
import { Found, search } from './search';

const PAUSE = 200; // ms after the last letter

export class SearchBox {
  readonly input = el('input', { type: 'search', placeholder: 'Search ops, blocks, units (/)', className: 'search' });
  readonly count = el('span', { className: 'search-count' });
  private found: Found[] = [];
  private at = -1;
  private more = false;

  constructor(
    private readonly page: Page,
    private readonly select: (selection: Selection) => void,
  ) {
    let timer = 0;
    this.input.addEventListener('input', () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => void this.run(), PAUSE);
    });
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') this.input.blur();
      event.stopPropagation();
    });
  }

  private async run(): Promise<void> {
    const text = this.input.value;
    this.count.textContent = text ? '…' : '';
    const { found, more } = await search(this.page.scene.runs, text);
    if (text !== this.input.value) return;
    this.found = found;
    this.more = more;
    // The first find at or behind the window's begin.
    this.at = found.findIndex((of) => of.time >= this.page.scene.view.from);
    if (this.at < 0 && found.length) this.at = 0;
    this.show();
  }

  private show(): void {
    const total = `${count(this.found.length)}${this.more ? '+' : ''}`;
    this.count.textContent = !this.input.value.trim() ? '' : this.found.length ? `${count(this.at + 1)} of ${total}` : 'nothing';
    const now = this.found[this.at];
    if (now) this.select({ kind: now.kind, run: now.run, id: now.id });
  }

  next(by: number): void {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    this.show();
  }
}
