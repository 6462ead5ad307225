// What a search tried, and memory over a forecast's steps: pictures above the charts, as `view --picture` draws them.

import { button, el, visible } from './dom';

/** One of the piece "pictures" (docs/view.md). */
export interface Picture {
  name: string;
  title: string;
  light: string; // an SVG document; its texts are escaped by who wrote it
  dark: string;
  narrow_light: string; // the same for places where texts of the others would be too small
  narrow_dark: string;
}

const NARROW = 560; // pixels of a place

export class Pictures {
  readonly box = el('div', { className: 'pictures' });
  private readonly places: { picture: Picture; place: HTMLElement }[] = [];
  private dark = false;

  /** `point`: the number of a point that was clicked, and what its mark says. */
  constructor(private readonly point: (number: string, text: string) => void) {
    this.box.addEventListener('click', (event) => this.clicked(event.target as Element));
    let narrow: boolean | undefined;
    new ResizeObserver(() => {
      if (narrow !== undefined && narrow !== this.narrow()) this.paint(this.dark);
      narrow = this.narrow();
    }).observe(this.box);
  }

  show(pictures: Picture[], dark: boolean): void {
    for (const picture of pictures) {
      const place = el('div', { className: 'picture', data: { name: picture.name } });
      this.places.push({ picture, place });
      this.box.append(el('details', { open: true }, el('summary', {}, visible(picture.title)), place));
    }
    this.paint(dark);
  }

  paint(dark: boolean): void {
    this.dark = dark;
    for (const { picture, place } of this.places)
      place.innerHTML = this.narrow() ? (dark ? picture.narrow_dark : picture.narrow_light) : dark ? picture.dark : picture.light;
  }

  private narrow(): boolean {
    return this.box.clientWidth < NARROW;
  }

  private clicked(target: Element): void {
    const mark = target.closest('[data-point]');
    if (mark) this.point(mark.getAttribute('data-point')!, mark.textContent ?? '');
  }
}

/** Where another point's step is shown: the way back to the best's. */
export const backButton = (back: () => void) => button('back to the best', 'shows the steps of the best again', back, 'back');
