// The lanes of links: what each carries, as an area.

import { Ink } from '../data/meta';
import { LinkSeries } from '../data/links';
import { Frame } from './frame';
import { ROW } from './lanes';
import { Surface } from './surface';

const INSET = 2;

/** Each pixel column is as high as the mean rate in it; the upper edge is what the link carries, or its peak where that is more. */
export function drawLink(surface: Surface, link: LinkSeries, frame: Frame, y: number, ink: Ink): void {
  const width = Math.max(1, Math.floor(frame.width));
  const rates = new Float64Array(width);
  link.each(frame.from, frame.to, (begin, end, rate) => {
    const from = Math.max(frame.column(begin), 0), to = Math.min(frame.column(end), width);
    for (let x = Math.floor(from); x < to; x++) rates[x] += rate * (Math.min(to, x + 1) - Math.max(from, x));
  });
  const top = Math.max(link.of.most_gb_s, link.peak, 1e-9);
  const high = ROW - 2 * INSET, base = y + ROW - INSET;
  const tall = (rate: number) => (rate > 0 ? Math.max((rate / top) * high, 0.5) : 0);
  for (let x = 0; x < width;) {
    let end = x + 1;
    while (end < width && rates[end] === rates[x]) end++;
    const height = tall(rates[x]);
    if (height) surface.rect(frame.left + x, base - height, end - x, height, link.colour);
    x = end;
  }
  const most = base - (link.of.most_gb_s / top) * high;
  surface.path([frame.left, most, frame.left + frame.width, most], 4, ink.faint, 0.8, [5, 4]);
}
