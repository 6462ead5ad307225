// Keeps the address of the page at what it shows.

import { Whole } from './navigation';
import { View, writeLink } from './view';

const PAUSE = 150; // ms after the last change

export class Link {
  private timer = 0;

  constructor(
    private readonly view: View,
    private readonly whole: Whole,
  ) {}

  /** Writes when nothing has changed for a while. */
  writeSoon(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), PAUSE);
  }

  write(): void {
    const text = `#${writeLink(this.view, this.whole)}`;
    try {
      history.replaceState(null, '', text);
    } catch {
      location.hash = text;
    }
  }
}
