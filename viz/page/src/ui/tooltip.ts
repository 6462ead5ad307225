// What the pointer rests on, in a few lines beside it.

import { Hit } from '../draw/hit';
import { both, moment } from '../format';
import { Page } from '../page';
import { blockRows, blockTitle, hostRows, manyOps, opRows, opTitle, rankRows } from './details';
import { el, swatch, table, visible } from './dom';
import { linkTip } from './links';
import { rankTip } from './rank_row';
import { waitRows } from './time';

export class Tooltip {
  readonly box = el('div', { className: 'tooltip', hidden: true });

  constructor(private readonly page: Page) {}

  hide(): void {
    this.box.hidden = true;
  }

  /** Shows what `hit` is, beside the point (x, y) of the stage, which stands at `stage` in the window. */
  show(hit: Hit | undefined, x: number, y: number, stage: DOMRect): void {
    const content = hit && this.content(hit, x, y);
    this.box.hidden = !content;
    if (!content) return;
    this.box.replaceChildren(content);
    const [width, height] = [this.box.offsetWidth, this.box.offsetHeight];
    const px = stage.left + x, py = stage.top + y;
    this.box.style.left = `${Math.max(4, px + 16 + width > innerWidth ? px - width - 12 : px + 16)}px`;
    this.box.style.top = `${Math.max(4, Math.min(py + 14, innerHeight - height - 6))}px`;
  }

  private content(hit: Hit, x: number, y: number): HTMLElement | undefined {
    if (hit.kind === 'label') return el('div', {}, 'click: show or fold the rows of nested calls');
    if (hit.kind === 'block')
      return el('div', {}, el('b', {}, blockTitle(this.page.scene.runs[hit.run], hit.block)), table(blockRows(this.page.scene.runs[hit.run], hit.block)), el('i', {}, 'click: why it is alive'));
    if (hit.kind === 'wait') {
      const { time, waits } = this.page.scene.runs[hit.run];
      const wait = waits[hit.id];
      return time && el('div', {}, table(waitRows(time, wait)), el('p', {}, visible(wait.text)), el('i', {}, 'click: what it waits for'));
    }
    if (hit.kind === 'link') return linkTip(this.page.scene.runs[hit.run].links[hit.id], hit.time);
    if (hit.kind === 'row') return rankTip(this.page.scene.runs[hit.run], hit.first, hit.count, hit.time, this.page.scene.layout.frame.nsPerPixel);
    if (hit.kind === 'memory') return this.memory(x, y, hit.time);
    const run = this.page.scene.runs[hit.run];
    const { bar } = hit;
    if (bar.count > 1) return manyOps(run.meta.classes[bar.opClass].title, bar.count, bar.busy, bar.start, bar.end);
    const { source } = run.meta.lanes[run.meta.tracks[hit.track].lane];
    if (source === 'host') {
      const op = run.hostOpNow(bar.id);
      return op && el('div', {}, el('b', {}, visible(run.name(op.name))), table(hostRows(run, op)));
    }
    if (source === 'rank') {
      const op = run.rankOpNow(bar.id);
      return op && el('div', {}, el('b', {}, visible(run.name(op.name))), table(rankRows(run, op)));
    }
    const op = run.deviceOpNow(bar.id);
    return op && el('div', {}, el('b', {}, opTitle(run, op)), table(opRows(run, op)), el('i', {}, 'click: what it waits for'));
  }

  private memory(x: number, y: number, time: number): HTMLElement | undefined {
    const { runs, several } = this.page.scene;
    const box = el('div', {}, el('b', {}, moment(Math.round(several ? time : runs[0].clock.toMemory(time)))));
    let any = false;
    this.page.scene.runs.forEach((run, i) => {
      const now = this.page.scene.statisticsAt(i, x);
      if (!now) return;
      any = true;
      if (this.page.scene.several) box.append(el('div', {}, visible(run.label)));
      box.append(table([
        ['allocated', both(now.allocated)],
        ['active', now.active === now.allocated ? 'the same' : both(now.active)],
        ['reserved', both(now.reserved)],
        ['requested', both(now.requested)],
        ['reserved − allocated', both(now.reserved - now.allocated)],
      ]));
    });
    const part = this.page.scene.componentAt(x, y);
    if (part) box.append(el('div', { className: 'part' }, swatch(part.colour), `${visible(part.title)}: ${both(part.bytes)}`));
    if (any) box.append(el('i', {}, 'click: the blocks alive then'));
    return any ? box : undefined;
  }
}
