// What a chosen range of time adds up to.

import { STATISTICS } from '../data/meta';
import { blocksMade, laneTotals, memoryExtent } from '../data/totals';
import { both, bytes, count, duration, moment, percent } from '../format';
import { Navigation } from '../navigation';
import { Page } from '../page';
import { button, el, swatch, table, visible } from './dom';
import { grid, section } from './panel';

export class RangePanel {
  readonly box = el('div', { className: 'range-box' });
  private turn = 0;

  constructor(
    private readonly page: Page,
    private readonly navigation: Navigation,
    /** The box has something new. */
    private readonly shown: () => void,
  ) {}

  async show(): Promise<void> {
    const turn = ++this.turn;
    const { range } = this.page.scene.view;
    if (!range) {
      this.box.replaceChildren();
      return;
    }
    const [from, to] = range;
    const parts: Node[] = [table([['from', moment(Math.round(from))], ['to', moment(Math.round(to))], ['length', duration(to - from)]])];
    for (const run of this.page.scene.runs) {
      if (this.page.scene.several) parts.push(el('h4', {}, visible(run.label)));
      const [a, b] = [from, to].map((time) => Math.round(run.clock.toMemory(time)));
      const extent = await memoryExtent(run, a, b);
      if (extent)
        parts.push(grid(['memory', 'most', 'least'], STATISTICS.map((name) =>
          [name, el('span', { title: both(extent[name].most), data: { bytes: String(extent[name].most) } }, bytes(extent[name].most)), bytes(extent[name].least)]), 'grid range-memory'));
      const made = await blocksMade(run, a, b);
      if (made.length)
        parts.push(grid(['blocks made', 'count', 'bytes'], made.map((of) =>
          [el('span', {}, swatch(run.meta.categories[of.category].colour), run.meta.categories[of.category].title), count(of.blocks), bytes(of.bytes)]), 'grid range-blocks'));
      const lanes = await laneTotals(run, from, to);
      if (lanes.length)
        parts.push(grid(['lane', 'ops', 'busy', ''], lanes.flatMap((lane) => [
          [el('b', {}, visible(run.meta.lanes[lane.lane].name)), count(lane.ops), el('span', { data: { ns: String(Math.round(lane.busy)) } }, duration(lane.busy)), percent(lane.busy / (to - from))],
          ...(lane.classes.length > 1 ? lane.classes.map((of) => [el('span', { className: 'indent' }, swatch(run.meta.classes[of.opClass].colour), run.meta.classes[of.opClass].title), count(of.ops), duration(of.busy), percent(of.busy / (to - from))]) : []),
        ]), 'grid range-lanes'));
      if (turn !== this.turn) return;
    }
    const content = section('Range', true, ...parts);
    content.querySelector('summary')!.append(
      button('zoom', 'the window becomes the range', () => this.navigation.setWindow(from, to), 'close'),
      button('×', 'forget it (esc)', () => this.clear(), 'close'));
    this.box.replaceChildren(content);
    this.shown();
  }

  clear(): void {
    this.page.scene.view.range = undefined;
    void this.show();
    this.page.changed();
  }
}
