// Light or dark: the view's choice, or the browser's.

import { Ink, Meta } from '../data/meta';
import { View } from '../view';

export class Theme {
  private readonly query = matchMedia('(prefers-color-scheme: dark)');

  constructor(
    private readonly view: View,
    private readonly inks: Meta['ink'],
  ) {}

  get dark(): boolean {
    return this.view.theme === 'auto' ? this.query.matches : this.view.theme === 'dark';
  }
  get ink(): Ink {
    return this.dark ? this.inks.dark : this.inks.light;
  }

  /** Calls back when the browser's own setting changes. */
  onChange(changed: () => void): void {
    this.query.addEventListener('change', changed);
  }

  /** Gives the document its colours. */
  apply(): void {
    document.documentElement.dataset.theme = this.dark ? 'dark' : 'light';
    for (const [name, value] of Object.entries(this.ink)) document.documentElement.style.setProperty(`--${name}`, value);
  }

  next(): void {
    this.view.theme = this.dark ? 'light' : 'dark';
  }
}
